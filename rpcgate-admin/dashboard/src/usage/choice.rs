//! The reader's choices in the usage explorer, as the address encodes them.

use super::super::form::FieldList;
use super::sort::UsageSort;
use rpcgate_core::caller::KeyId;
use rpcgate_core::usage::ask::MOST_ROWS;
use rpcgate_core::usage::{Cell, Group, Params, Period, UsageView};

const DEFAULT_GROUPS: [&str; 2] = ["chain", "method"];

pub(super) const PAGE: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Measure {
    Requests,
    #[default]
    Units,
    Errors,
    Latency,
    Bytes,
}

pub(super) const MEASURES: [Measure; 5] =
    [Measure::Requests, Measure::Units, Measure::Errors, Measure::Latency, Measure::Bytes];

impl Measure {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Measure::Requests => "requests",
            Measure::Units => "cu",
            Measure::Errors => "errors",
            Measure::Latency => "latency",
            Measure::Bytes => "bytes",
        }
    }

    pub(super) const fn label(self) -> &'static str {
        match self {
            Measure::Requests => "Requests",
            Measure::Units => "Compute Units",
            Measure::Errors => "Errors",
            Measure::Latency => "Mean latency",
            Measure::Bytes => "Bytes",
        }
    }
}

/// The most common queries: a label, the grouping, the chart, the order.
const PRESETS: [(&str, &[&str], Measure, Option<UsageSort>); 6] = [
    ("Methods", &DEFAULT_GROUPS, Measure::Units, None),
    ("Days", &["day"], Measure::Units, None),
    ("Projects", &["project"], Measure::Units, None),
    ("API keys", &["key"], Measure::Units, None),
    ("Errors", &["status", "chain"], Measure::Errors, Some(UsageSort::Errors)),
    ("Slowest", &["chain", "method"], Measure::Latency, Some(UsageSort::Latency)),
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Preset {
    pub(super) label: &'static str,
    pub(super) path: String,
    pub(super) is_current: bool,
}

/// The parameters of the page. Those of `GET /usage` are kept as they were given, so that a refused one is shown again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct UsageChoice {
    pub(super) project_id: String,
    /// Empty if the window is given by its ends.
    pub(super) period: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) chain: String,
    pub(super) method: String,
    pub(super) key: String,
    pub(super) transport: String,
    pub(super) group_by: Vec<String>,
    pub(super) measure: Measure,
    /// `None` for the default order.
    pub(super) sort: Option<UsageSort>,
    /// The page of rows, from 1.
    pub(super) page: usize,
}

impl UsageChoice {
    /// Reads the choice from an address. Unknown values that only affect the presentation become the default.
    pub(super) fn of(fields: &FieldList) -> Self {
        let text = |name: &str| fields.one(name).to_owned();
        let groups = fields.all("group_by").flat_map(|names| names.split(','));
        let group_by: Vec<_> =
            groups.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let from = text("from");
        let to = text("to");
        let has_ends = !from.is_empty() || !to.is_empty();
        // The form always sends a period, which is empty if the ends count. The API's parameters may have none.
        let period =
            if !fields.has("period") && !has_ends { Period::default().name().into() } else { text("period") };
        let by_name = |name: &str| fields.one("measure") == name;
        UsageChoice {
            project_id: text("project_id"),
            period,
            from,
            to,
            chain: text("chain"),
            method: text("method"),
            key: text("key"),
            transport: text("transport"),
            group_by: if fields.has("group_by") {
                group_by
            } else {
                DEFAULT_GROUPS.map(str::to_owned).into()
            },
            measure: MEASURES.into_iter().find(|measure| by_name(measure.name())).unwrap_or_default(),
            sort: UsageSort::parse(fields.one("sort")),
            page: fields.one("page").parse().unwrap_or(1).max(1),
        }
    }

    /// Returns the parameters of `GET /usage`.
    pub(super) fn parameters(&self) -> UsageParameters {
        // With a period, the ends are leftovers of an earlier choice and do not count.
        let end = |text: &String| if self.period.is_empty() { moment(text) } else { String::new() };
        UsageParameters {
            choice: self.clone(),
            from: end(&self.from),
            to: end(&self.to),
            group_by: self.group_by.join(","),
            limit: MOST_ROWS.to_string(),
        }
    }

    /// Returns the dimension of the chart's series: the first that rows are grouped by, or the chain.
    pub(super) fn dimension(&self) -> Group {
        let groups = self.group_by.iter().filter_map(|name| name.parse().ok());
        groups.into_iter().find(|group| !matches!(group, Group::Hour | Group::Day)).unwrap_or(Group::Chain)
    }

    /// Returns the keys in the rows on the page.
    pub(super) fn keys_shown(&self, view: &UsageView) -> Vec<KeyId> {
        let keys = view.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| match cell {
            Cell::Key(key) => Some(*key),
            _ => None,
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns links to the most common queries, with the same window and filters.
    pub(super) fn presets(&self) -> Vec<Preset> {
        let preset =
            |(label, groups, measure, sort): &(&'static str, &[&str], Measure, Option<UsageSort>)| {
                let groups = groups.iter().map(|name| (*name).to_owned()).collect();
                let choice =
                    UsageChoice { group_by: groups, measure: *measure, sort: *sort, page: 1, ..self.clone() };
                let is_current = (&choice.group_by, choice.measure) == (&self.group_by, self.measure);
                Preset { label, path: choice.path(), is_current }
            };
        PRESETS.iter().map(preset).collect()
    }

    /// Reports whether the chart shows the default measure.
    pub(super) fn is_default_measure(&self) -> bool {
        self.measure == Measure::default()
    }

    pub(super) const fn measure_name(&self) -> &'static str {
        self.measure.name()
    }

    pub(super) fn has_filter(&self) -> bool {
        [&self.project_id, &self.chain, &self.method, &self.key, &self.transport]
            .iter()
            .any(|text| !text.is_empty())
    }

    /// Returns the address of the page with this choice, below the root.
    pub(super) fn path(&self) -> String {
        format!("usage{}", self.query())
    }

    /// Returns the address of its rows as CSV.
    pub(super) fn csv_path(&self) -> String {
        let plain = UsageChoice { measure: Measure::default(), sort: None, page: 1, ..self.clone() };
        format!("usage.csv{}", plain.query())
    }

    /// Returns the query string with its question mark; values that are the default are left out.
    fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        };
        put("project_id", &self.project_id);
        if self.period != Period::default().name() {
            put("period", &self.period);
        }
        if self.period.is_empty() {
            put("from", &self.from);
            put("to", &self.to);
        }
        put("chain", &self.chain);
        put("method", &self.method);
        put("key", &self.key);
        put("transport", &self.transport);
        if self.measure != Measure::default() {
            put("measure", self.measure.name());
        }
        put("sort", self.sort.map_or("", UsageSort::name));
        if self.page > 1 {
            put("page", &self.page.to_string());
        }
        if self.group_by != DEFAULT_GROUPS {
            // An empty value means that rows are not grouped.
            query.append_pair("group_by", &self.group_by.join(","));
        }
        let query = query.finish();
        if query == "?" { String::new() } else { query }
    }
}

/// The parameters of `GET /usage` for a choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct UsageParameters {
    choice: UsageChoice,
    from: String,
    to: String,
    group_by: String,
    limit: String,
}

impl UsageParameters {
    pub(super) fn borrowed(&self) -> Params<'_> {
        Params {
            project_id: filled(&self.choice.project_id),
            period: filled(&self.choice.period),
            from: filled(&self.from),
            to: filled(&self.to),
            group_by: filled(&self.group_by),
            chain: filled(&self.choice.chain),
            method: filled(&self.choice.method),
            key: filled(&self.choice.key),
            transport: filled(&self.choice.transport),
            limit: Some(&self.limit),
        }
    }

    /// Returns the query string for the API.
    pub(super) fn query(&self) -> String {
        let Params { project_id, period, from, to, group_by, chain, method, key, transport, limit: _ } =
            self.borrowed();
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("project_id", project_id),
            ("period", period),
            ("from", from),
            ("to", to),
            ("group_by", group_by),
            ("chain", chain),
            ("method", method),
            ("key", key),
            ("transport", transport),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }
}

fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Converts a time for the API. A browser's field sends `2026-11-19T14:00`, which is taken as UTC; any other text is
/// passed on, so that the API refuses it.
fn moment(text: &str) -> String {
    let is_local = text.len() == 16 && text.as_bytes().get(10) == Some(&b'T');
    if is_local { format!("{text}:00Z") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::super::form::QueryFields;
    use super::*;
    use axum::extract::FromRequestParts;

    async fn choice(query: &str) -> UsageChoice {
        let request = http::Request::get(format!("/usage?{query}")).body(()).unwrap();
        let QueryFields(fields) =
            QueryFields::from_request_parts(&mut request.into_parts().0, &()).await.unwrap();
        UsageChoice::of(&fields)
    }

    // Shows (Dashboard).
    #[tokio::test]
    async fn an_address_is_read_and_written_back() {
        for (query, path) in [
            ("", "usage"),
            ("period=24h&group_by=chain&group_by=method&measure=cu&page=1&sort=", "usage"),
            ("period=7d&chain=eth&page=3", "usage?period=7d&chain=eth&page=3"),
            ("group_by=", "usage?group_by="),
            ("group_by=&group_by=day&group_by=status", "usage?group_by=day%2Cstatus"),
            ("group_by=day,key", "usage?group_by=day%2Ckey"),
            ("from=2026-11-19T14:00&to=", "usage?from=2026-11-19T14%3A00"),
            ("period=7d&from=2026-11-19T14:00", "usage?period=7d"),
            ("sort=errors&measure=latency", "usage?measure=latency&sort=errors"),
            ("sort=nonsense&measure=nonsense&page=0&unknown=x", "usage"),
            ("method=a%26b%3Dc", "usage?method=a%26b%3Dc"),
        ] {
            let read = choice(query).await;
            assert_eq!(read.path(), path, "{query}");
            let again = choice(path.strip_prefix("usage").unwrap().trim_start_matches('?')).await;
            assert_eq!(again.path(), path, "{query}");
        }
    }

    #[tokio::test]
    async fn the_parameters_are_those_of_the_api() {
        let params =
            choice("period=&from=2026-11-19T14:00&to=2026-11-19T16:00:00%2B02:00").await.parameters();
        let borrowed = params.borrowed();
        assert_eq!(borrowed.period, None);
        assert_eq!(
            (borrowed.from, borrowed.to),
            (Some("2026-11-19T14:00:00Z"), Some("2026-11-19T16:00:00+02:00"))
        );
        assert_eq!((borrowed.group_by, borrowed.limit), (Some("chain,method"), Some("5000")));
        assert_eq!(choice("").await.parameters().query(), "period=24h&group_by=chain%2Cmethod");
        let ends_do_not_count = choice("period=7d&from=2026-11-19T14:00").await.parameters();
        assert_eq!(
            (ends_do_not_count.borrowed().from, ends_do_not_count.borrowed().period),
            (None, Some("7d"))
        );
    }

    #[tokio::test]
    async fn the_chart_splits_rows_by_the_first_grouping() {
        for (query, group) in [
            ("", Group::Chain),
            ("group_by=", Group::Chain),
            ("group_by=hour,key,chain", Group::Key),
            ("group_by=day", Group::Chain),
            ("group_by=nonsense", Group::Chain),
        ] {
            assert_eq!(choice(query).await.dimension(), group, "{query}");
        }
        assert!(choice("chain=eth").await.has_filter() && !choice("period=7d").await.has_filter());
        assert_eq!(
            choice("period=7d&sort=errors&page=2&measure=bytes").await.csv_path(),
            "usage.csv?period=7d"
        );
    }

    #[tokio::test]
    async fn presets_keep_time_and_filters() {
        let presets = choice("period=7d&chain=eth&page=3&sort=in").await.presets();
        let paths: Vec<_> = presets.iter().map(|preset| preset.path.as_str()).collect();
        assert_eq!(paths[0], "usage?period=7d&chain=eth");
        assert_eq!(paths[4], "usage?period=7d&chain=eth&measure=errors&sort=errors&group_by=status%2Cchain");
        let current: Vec<_> =
            presets.iter().filter(|preset| preset.is_current).map(|preset| preset.label).collect();
        assert_eq!(current, ["Methods"]);
    }
}
