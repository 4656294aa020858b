//! The view of the overview.

use super::super::chart::area::area;
use super::super::chart::axis::TimeAxis;
use super::super::chart::bars::bars;
use super::super::chart::line::{LineSeries, line};
use super::super::chart::number::{grouped, millis, share};
use super::super::chart::plot::Plot;
use super::super::chart::rank::{Rank, Ranked};
use super::super::chart::spark::Spark;
use super::super::chart::stack::Stack;
use super::super::frame::Frame;
use super::super::parts::LimitMeter;
use super::super::usage_parts::{ErrorStrip, axis_of, by_chain, chain, latency_of, mean, strips};
use super::alert::Alert;
use rpcgate_core::usage::{Cell, Metrics, Period};
use rpcgate_management::action::overview::first_run::FirstCall;
use rpcgate_management::action::overview::{MonthCost, Overview, PeriodUse, ProjectUse};
use rpcgate_management::action::usage::UsedQuota;
use rpcgate_management::action::usage::series::UsageSeries;
use rpcgate_store::Project;

/// The maximum number of ranked methods.
const RANKED: usize = 10;
/// The maximum number of projects with a bar for their quota.
const METERS: usize = 5;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PeriodLink {
    pub(super) label: &'static str,
    pub(super) path: String,
    pub(super) is_current: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fact {
    pub(super) label: String,
    pub(super) value: String,
    /// The comparison value below it.
    pub(super) small: String,
    pub(super) spark: Option<Spark>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct QuotaMeter {
    /// The project's name and its address below the root; empty for a bar of the whole tenant.
    pub(super) name: String,
    pub(super) path: Option<String>,
    pub(super) unit: &'static str,
    pub(super) meter: LimitMeter,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProjectRow {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) keys: u64,
    pub(super) webhooks: u64,
    pub(super) used: Option<ProjectUseRow>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProjectUseRow {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) units: u64,
    pub(super) meter: LimitMeter,
    pub(super) spark: Option<Spark>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FirstCallNote {
    pub(super) method: String,
    pub(super) chain: String,
    pub(super) status: u16,
    pub(super) latency: String,
    pub(super) units: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct OverviewView {
    pub(super) periods: Vec<PeriodLink>,
    pub(super) period: &'static str,
    pub(super) first_call: Option<FirstCallNote>,
    pub(super) alerts: Vec<Alert>,
    pub(super) used: Option<UseView>,
    pub(super) projects: Vec<ProjectRow>,
    pub(super) hidden_projects: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct UseView {
    pub(super) requests: String,
    /// The change from the previous period.
    pub(super) change: Option<(String, &'static str)>,
    pub(super) requests_chart: Plot,
    /// True if the charts show the sum of all chains, because there are too many rows to tell them apart.
    pub(super) is_merged: bool,
    pub(super) facts: Vec<Fact>,
    pub(super) meters: Vec<QuotaMeter>,
    /// The methods, unless there are too many rows to tell them apart.
    pub(super) methods: Option<Rank>,
    pub(super) units_chart: Plot,
    pub(super) latency_chart: Plot,
    pub(super) errors: Vec<ErrorStrip>,
    /// The length of time that a cell of the strips covers.
    pub(super) step: &'static str,
}

impl OverviewView {
    pub(super) fn of(found: &Overview, period: Period, call: Option<FirstCall>, frame: &Frame) -> Self {
        let axis = found.used.as_ref().map(|used| axis_of(&used.chains));
        OverviewView {
            periods: periods(period),
            period: words(period),
            first_call: call.map(FirstCallNote::of),
            alerts: found.attention.iter().map(|one| Alert::of(one, frame, frame.now)).collect(),
            used: found.used.as_ref().map(|used| UseView::of(found, used, period)),
            projects: found.projects.iter().map(|project| ProjectRow::of(project, axis.as_ref())).collect(),
            hidden_projects: found.all_projects.saturating_sub(found.projects.len()),
        }
    }
}

impl UseView {
    fn of(found: &Overview, used: &PeriodUse, period: Period) -> Self {
        let axis = axis_of(&used.chains);
        let totals = &used.usage.view.totals;
        let none = "No calls in this time. The chart begins with your next call.";
        let of_chains =
            |value: fn(&Metrics) -> u64| Stack::of(by_chain(&used.chains, value), axis.starts.len());
        let requests = of_chains(|metrics| metrics.requests);
        let units = of_chains(|metrics| metrics.billable_units);
        let by = (!used.chains.is_merged).then_some("chain");
        UseView {
            requests: grouped(totals.requests),
            change: change(totals.requests, used.before.requests).map(|change| (change, before(period))),
            requests_chart: area(&requests, &axis, "Requests", "requests", by).or_empty(none),
            is_merged: used.chains.is_merged,
            facts: facts(used, found.cost, &axis),
            meters: meters(found, used),
            methods: used.is_by_method.then(|| Rank::of(ranked(used, period), RANKED)),
            units_chart: bars(&units, &axis, "Compute Units", "CU", by).or_empty(none),
            latency_chart: latency_chart(&used.chains, &axis).or_empty("No call was answered in this time."),
            errors: strips(&used.chains, &axis),
            step: axis.bucket.name(),
        }
    }
}

impl FirstCallNote {
    fn of(call: FirstCall) -> Self {
        FirstCallNote {
            latency: millis(call.metrics.avg_latency_ms()),
            units: call.metrics.billable_units,
            method: call.method,
            chain: call.chain,
            status: call.status,
        }
    }
}

impl ProjectRow {
    fn of(found: &ProjectUse, axis: Option<&TimeAxis>) -> Self {
        let name = found.project.name.clone();
        let used = |(axis, quota): (&TimeAxis, UsedQuota)| ProjectUseRow {
            requests: found.totals.requests,
            errors: found.totals.errors,
            units: quota.used,
            meter: LimitMeter::new(format!("{name}, quota used"), quota.used, Some(quota.quota.cu_per_day)),
            spark: found.requests.as_ref().map(|requests| Spark::of_counts(ended(requests, axis))),
        };
        ProjectRow {
            path: format!("projects/{}", found.project.id),
            keys: found.counts.keys,
            webhooks: found.counts.webhooks,
            used: axis.zip(found.quota).map(used),
            name,
        }
    }
}

fn periods(current: Period) -> Vec<PeriodLink> {
    let label = |period| match period {
        Period::Day => "24 hours",
        Period::Week => "7 days",
        Period::ThirtyDays => "30 days",
        Period::Today => "Today",
        Period::Month => "Month",
    };
    let link = |period: Period| {
        let path = if period == Period::default() {
            "./".to_owned()
        } else {
            format!("./?period={}", period.name())
        };
        PeriodLink { label: label(period), path, is_current: period == current }
    };
    Period::ALL.map(link).into()
}

const fn words(period: Period) -> &'static str {
    match period {
        Period::Day => "last 24 hours",
        Period::Week => "last 7 days",
        Period::ThirtyDays => "last 30 days",
        Period::Today => "today since 00:00 UTC",
        Period::Month => "this month in UTC",
    }
}

const fn before(period: Period) -> &'static str {
    match period {
        Period::Day => "than the 24 hours before",
        Period::Week => "than the 7 days before",
        Period::ThirtyDays => "than the 30 days before",
        Period::Today | Period::Month => "than in the same period before",
    }
}

/// Returns the change, such as `▲ 6.4 %`; `None` if `before` is 0.
fn change(now: u64, before: u64) -> Option<String> {
    if before == 0 {
        return None;
    }
    let sign = if now >= before { '▲' } else { '▼' };
    Some(format!("{sign} {}", share(now.abs_diff(before), before)))
}

/// Leaves out the value of a bucket that has not ended: otherwise each trend would end with an apparent drop.
fn ended<'v, T>(values: &'v [T], axis: &TimeAxis) -> &'v [T] {
    let count = if axis.is_running && values.len() > 2 { values.len() - 1 } else { values.len() };
    &values[..count]
}

fn facts(used: &PeriodUse, cost: MonthCost, axis: &TimeAxis) -> Vec<Fact> {
    let totals = &used.usage.view.totals;
    let over_time = used.chains.totals();
    let over_time = ended(&over_time, axis);
    let trend = |value: fn(&Metrics) -> f64| Spark::of(&over_time.iter().map(value).collect::<Vec<_>>());
    let part = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
    let mut facts = vec![
        Fact {
            label: "Compute Units".into(),
            value: grouped(totals.billable_units),
            small: String::new(),
            spark: Some(trend(|metrics| metrics.billable_units as f64)),
        },
        Fact {
            label: "Cache hits".into(),
            value: share(totals.cache_hits, totals.requests),
            small: grouped(totals.cache_hits),
            spark: Some(Spark::of(
                &over_time.iter().map(|at| part(at.cache_hits, at.requests)).collect::<Vec<_>>(),
            )),
        },
        Fact {
            label: "Errors".into(),
            value: share(totals.errors, totals.requests),
            small: grouped(totals.errors),
            spark: Some(trend(|metrics| metrics.errors as f64).bad()),
        },
        Fact {
            label: "Mean latency".into(),
            value: millis(totals.avg_latency_ms()),
            small: String::new(),
            spark: Some(trend(Metrics::avg_latency_ms)),
        },
    ];
    let (value, small) = match cost {
        MonthCost::Hidden => return facts,
        MonthCost::Cents(cents) => (format!("${}.{:02}", grouped(cents / 100), cents % 100), "so far"),
        MonthCost::Unknown => ("–".to_owned(), "cannot be read at the moment"),
    };
    facts.push(Fact { label: "Cost this month".into(), value, small: small.into(), spark: None });
    facts
}

/// Returns the bars of the fullest quotas and of today's requests.
fn meters(found: &Overview, used: &PeriodUse) -> Vec<QuotaMeter> {
    let percent = |quota: &UsedQuota| quota.budget.percent.unwrap_or_default();
    let mut fullest: Vec<_> =
        found.projects.iter().filter_map(|one| Some((&one.project, one.quota.as_ref()?))).collect();
    fullest.sort_by(|(_, one), (_, other)| percent(other).total_cmp(&percent(one)));
    let quota = |(project, quota): &(&Project, &UsedQuota)| {
        let left = grouped(quota.budget.remaining.unwrap_or_default());
        let hint = if quota.budget.over {
            "Calls that cost CU are refused until the oldest hours leave the window.".to_owned()
        } else {
            format!("{:.0} % of the rolling 24 hours, {left} CU left", percent(quota))
        };
        let label = format!("{}, Compute Units in 24 hours", project.name);
        QuotaMeter {
            name: project.name.clone(),
            path: Some(format!("projects/{}", project.id)),
            unit: "CU",
            meter: LimitMeter::new(label, quota.used, Some(quota.quota.cu_per_day)).hint(hint),
        }
    };
    let mut meters: Vec<_> = fullest.iter().take(METERS).map(quota).collect();
    let today = &used.usage.current.today;
    let limit = used.usage.current.requests_limit;
    let per_day = used.usage.limits.plan.per_day;
    let hint = if limit == 0 {
        "There is no usable API key.".to_owned()
    } else {
        format!("{} a day for each API key; resets at 00:00 UTC", grouped(per_day))
    };
    meters.push(QuotaMeter {
        name: "Requests today".into(),
        path: None,
        unit: "",
        meter: LimitMeter::new("Requests today", today.requests, Some(limit).filter(|limit| *limit > 0))
            .hint(hint),
    });
    meters
}

fn ranked(used: &PeriodUse, period: Period) -> Vec<Ranked> {
    let ranked = used.usage.view.rows.iter().filter_map(|row| match &row.cells[..] {
        [Cell::Chain(chain), Cell::Method(method, _)] => {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query
                .append_pair("period", period.name())
                .append_pair("chain", chain)
                .append_pair("method", method);
            let href = Some(format!("usage?{}", query.finish()));
            Some(Ranked {
                name: method.clone(),
                context: chain.clone(),
                href,
                value: row.metrics.billable_units,
            })
        }
        _ => None,
    });
    ranked.collect()
}

/// Charts the mean of all chains, and the chain with the slowest hour.
fn latency_chart(found: &UsageSeries, axis: &TimeAxis) -> Plot {
    let all = latency_of("all chains", &found.totals());
    let slowest = found.parts.iter().filter_map(|(cell, part)| {
        let peak = part.iter().filter_map(mean).fold(0.0, f64::max);
        (peak > 0.0).then_some((peak, cell, part))
    });
    let slowest = slowest.max_by(|(one, ..), (other, ..)| one.total_cmp(other));
    let mut lines = vec![all];
    if let Some((peak, cell, part)) = slowest
        && found.parts.len() > 1
    {
        let summary = format!("{} in the slowest {}", millis(peak), axis.bucket.name());
        lines.push(LineSeries { name: chain(cell), values: part.iter().map(mean).collect(), summary });
    }
    line(&lines, axis, "Mean latency").tall()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::usage::Group;

    #[test]
    fn a_change_is_relative_to_the_previous_value() {
        for (now, before, text) in [
            (106, 100, Some("▲ 6 %")),
            (100, 100, Some("▲ 0 %")),
            (50, 100, Some("▼ 50 %")),
            (0, 8, Some("▼ 100 %")),
            (5, 0, None),
        ] {
            assert_eq!(change(now, before).as_deref(), text, "{now} after {before}");
        }
    }

    #[test]
    fn a_trend_ends_with_the_last_bucket_that_has_ended() {
        let axis = |is_running| TimeAxis { is_running, ..axis_of(&none()) };
        assert_eq!(ended(&[1, 2, 3], &axis(true)), [1, 2]);
        assert_eq!(ended(&[1, 2, 3], &axis(false)), [1, 2, 3]);
        assert_eq!(ended(&[1, 2], &axis(true)), [1, 2], "two values are needed for a line");
    }

    fn none() -> UsageSeries {
        UsageSeries {
            step: Group::Hour,
            starts: Vec::new(),
            is_running: false,
            parts: Default::default(),
            is_merged: false,
        }
    }

    #[test]
    fn the_default_period_has_the_shortest_address() {
        let links = periods(Period::Week);
        assert_eq!((links[0].path.as_str(), links[1].path.as_str()), ("./", "./?period=7d"));
        assert_eq!(
            links.iter().filter(|link| link.is_current).map(|link| link.label).collect::<Vec<_>>(),
            ["7 days"]
        );
    }
}
