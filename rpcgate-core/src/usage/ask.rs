//! Usage queries, parsed from the query parameters of `GET /usage`.

use super::window::{Period, UsageWindow, WindowError};
use crate::backend::usage_sink::shown_method;
use crate::caller::{KeyId, ProjectId, TenantId};
use crate::clock::Time;
use crate::transport::Transport;
use std::fmt;
use std::str::FromStr;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The default number of rows in an answer.
pub const DEFAULT_LIMIT: u32 = 500;

/// The maximum number of rows in an answer.
pub const MOST_ROWS: u32 = 5_000;

/// The maximum number of names to group by.
pub const MOST_GROUPS: usize = 4;

/// A dimension by which rows are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Group {
    /// The UTC hour.
    Hour,
    /// The UTC day.
    Day,
    /// The chain.
    Chain,
    /// The method.
    Method,
    /// The API key.
    Key,
    /// The project.
    Project,
    /// The transport.
    Transport,
    /// The HTTP status.
    Status,
}

impl Group {
    /// All dimensions.
    pub const ALL: [Group; 8] = [
        Group::Hour,
        Group::Day,
        Group::Chain,
        Group::Method,
        Group::Key,
        Group::Project,
        Group::Transport,
        Group::Status,
    ];

    /// Returns its name in requests and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Hour => "hour",
            Group::Day => "day",
            Group::Chain => "chain",
            Group::Method => "method",
            Group::Key => "key",
            Group::Project => "project",
            Group::Transport => "transport",
            Group::Status => "status",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Group {
    type Err = AskError;

    fn from_str(s: &str) -> Result<Self, AskError> {
        Group::ALL.into_iter().find(|group| group.name() == s).ok_or(AskError::Group)
    }
}

/// The reason why a query is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The window is invalid.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// A timestamp is invalid.
    #[error("{0} must be an RFC 3339 moment since 1970, such as 2027-01-31T12:00:00Z")]
    Moment(&'static str),
    /// `to` is present without `from`.
    #[error("to needs from")]
    NoFrom,
    /// `group_by` contains an unknown name.
    #[error("group_by takes hour, day, chain, method, key, project, transport, status")]
    Group,
    /// `group_by` contains a name twice.
    #[error("group_by names {0} twice")]
    Twice(Group),
    /// `group_by` contains too many names.
    #[error("group_by takes at most {MOST_GROUPS} names")]
    TooManyGroups,
    /// `group_by` contains both hour and day.
    #[error("group_by takes hour or day, not both")]
    HourAndDay,
    /// An id is invalid.
    #[error("{0} must be a UUID")]
    Id(&'static str),
    /// `transport` is unknown.
    #[error("transport must be one of http, ws, grpc")]
    Transport,
    /// `limit` is invalid.
    #[error("limit must be a number from 1 to {MOST_ROWS}")]
    Limit,
}

impl AskError {
    /// Returns the parameter that is wrong, with which the text begins.
    pub const fn parameter(self) -> &'static str {
        match self {
            AskError::Window(WindowError::Period) => "period",
            AskError::Window(WindowError::Backwards) | AskError::NoFrom => "to",
            AskError::Window(WindowError::TooLong) => "from",
            AskError::Moment(parameter) | AskError::Id(parameter) => parameter,
            AskError::Group | AskError::Twice(_) | AskError::TooManyGroups | AskError::HourAndDay => {
                "group_by"
            }
            AskError::Transport => "transport",
            AskError::Limit => "limit",
        }
    }
}

/// The parameters of a request as sent; `None` means absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the request")]
pub struct Params<'a> {
    pub project_id: Option<&'a str>,
    pub period: Option<&'a str>,
    pub from: Option<&'a str>,
    pub to: Option<&'a str>,
    pub group_by: Option<&'a str>,
    pub chain: Option<&'a str>,
    pub method: Option<&'a str>,
    pub key: Option<&'a str>,
    pub transport: Option<&'a str>,
    pub limit: Option<&'a str>,
}

/// A query for the usage view of one tenant.
///
/// ```
/// use rpcgate_core::usage::{AskError, Params, UsageAsk};
/// use rpcgate_core::{caller::TenantId, clock::Time};
///
/// let now = Time::from_secs(1_800_000_000);
/// let params = Params { period: Some("7d"), group_by: Some("day,chain"), ..Params::default() };
/// let ask = UsageAsk::parse(TenantId(1), &params, now)?;
/// assert_eq!(ask.window().hours().count(), 7 * 24);
///
/// let params = Params { group_by: Some("hour,day"), ..Params::default() };
/// assert_eq!(UsageAsk::parse(TenantId(1), &params, now), Err(AskError::HourAndDay));
/// # Ok::<(), AskError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageAsk {
    tenant: TenantId,
    window: UsageWindow,
    group_by: Vec<Group>,
    only: UsageFilter,
    limit: u32,
}

/// A filter. A `None` field restricts nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UsageFilter {
    /// Only this project.
    pub project: Option<ProjectId>,
    /// Only this chain, by path name.
    pub chain: Option<String>,
    /// Only this method, as [shown](shown_method).
    pub method: Option<String>,
    /// Only this key.
    pub key: Option<KeyId>,
    /// Only this transport.
    pub transport: Option<Transport>,
}

impl UsageAsk {
    /// Creates a query for all usage of `tenant` in `window`, in one row.
    pub fn new(tenant: TenantId, window: UsageWindow) -> Self {
        UsageAsk { tenant, window, group_by: Vec::new(), only: UsageFilter::default(), limit: DEFAULT_LIMIT }
    }

    /// Parses the query of a request that arrived at `now`.
    ///
    /// `from` and `to` replace `period`. Without `to`, the window ends at `now`. Empty form fields count as absent.
    ///
    /// # Errors
    /// Returns an [`AskError`] that names the parameter.
    pub fn parse(tenant: TenantId, params: &Params<'_>, now: Time) -> Result<Self, AskError> {
        let non_empty = |param: Option<&'_ str>| param.map(str::to_owned).filter(|param| !param.is_empty());
        let window = match (non_empty(params.from), non_empty(params.to)) {
            (None, None) => {
                let period = non_empty(params.period).map(|period| period.parse::<Period>()).transpose()?;
                UsageWindow::of(period.unwrap_or_default(), now)
            }
            (None, Some(_)) => return Err(AskError::NoFrom),
            (Some(from), to) => {
                let to = to.map_or(Ok(now), |to| moment("to", &to))?;
                UsageWindow::between(moment("from", &from)?, to)?
            }
        };
        let only = UsageFilter {
            project: non_empty(params.project_id)
                .map(|id| id.parse().map_err(|_| AskError::Id("project_id")))
                .transpose()?,
            chain: non_empty(params.chain),
            method: non_empty(params.method),
            key: non_empty(params.key).map(|id| id.parse().map_err(|_| AskError::Id("key"))).transpose()?,
            transport: non_empty(params.transport).map(|name| transport(&name)).transpose()?,
        };
        let groups = non_empty(params.group_by).map(|names| groups(&names)).transpose()?.unwrap_or_default();
        let limit =
            non_empty(params.limit).map(|limit| limit.parse().map_err(|_| AskError::Limit)).transpose()?;
        UsageAsk::new(tenant, window).only(only).grouped(&groups)?.limited(limit.unwrap_or(DEFAULT_LIMIT))
    }

    /// Groups rows by `groups`, in that order.
    ///
    /// # Errors
    /// Returns [`AskError::TooManyGroups`], [`AskError::Twice`] or [`AskError::HourAndDay`].
    pub fn grouped(self, groups: &[Group]) -> Result<Self, AskError> {
        if groups.len() > MOST_GROUPS {
            return Err(AskError::TooManyGroups);
        }
        if let Some(twice) = groups.iter().enumerate().find(|(at, group)| groups[..*at].contains(group)) {
            return Err(AskError::Twice(*twice.1));
        }
        if groups.contains(&Group::Hour) && groups.contains(&Group::Day) {
            return Err(AskError::HourAndDay);
        }
        Ok(UsageAsk { group_by: groups.to_vec(), ..self })
    }

    /// Sets the filter.
    #[must_use]
    pub fn only(self, only: UsageFilter) -> Self {
        // Stored names contain no NUL, and a database may not accept one.
        let clean = |name: Option<String>| name.map(|name| shown_method(name.as_bytes()).into_owned());
        UsageAsk {
            only: UsageFilter { chain: clean(only.chain), method: clean(only.method), ..only },
            ..self
        }
    }

    /// Sets the maximum number of rows in the answer.
    ///
    /// # Errors
    /// Returns [`AskError::Limit`] for 0 or more than [`MOST_ROWS`].
    pub fn limited(self, rows: u32) -> Result<Self, AskError> {
        if !(1..=MOST_ROWS).contains(&rows) {
            return Err(AskError::Limit);
        }
        Ok(UsageAsk { limit: rows, ..self })
    }

    /// Returns the tenant of the usage.
    pub const fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Returns the hours of the query.
    pub const fn window(&self) -> &UsageWindow {
        &self.window
    }

    /// Returns the dimensions by which rows are grouped.
    pub fn group_by(&self) -> &[Group] {
        &self.group_by
    }

    /// Returns the filter.
    pub const fn part(&self) -> &UsageFilter {
        &self.only
    }

    /// Returns the maximum number of rows in the answer.
    pub const fn limit(&self) -> u32 {
        self.limit
    }
}

fn groups(names: &str) -> Result<Vec<Group>, AskError> {
    // Refused before the names are parsed one by one, because a request line may contain thousands.
    if names.split(',').count() > MOST_GROUPS {
        return Err(AskError::TooManyGroups);
    }
    names.split(',').map(|name| name.trim().parse()).collect()
}

fn transport(name: &str) -> Result<Transport, AskError> {
    [Transport::Http, Transport::Ws, Transport::Grpc]
        .into_iter()
        .find(|transport| transport.name() == name)
        .ok_or(AskError::Transport)
}

fn moment(parameter: &'static str, text: &str) -> Result<Time, AskError> {
    let wrong = AskError::Moment(parameter);
    let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| wrong)?;
    let micros = moment.unix_timestamp_nanos().div_euclid(1_000);
    u64::try_from(micros).map(Time::from_micros).map_err(|_| wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId(1);
    /// 2027-01-15T08:00:00Z.
    const NOW: Time = Time::from_secs(1_800_000_000);
    const ID: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    fn parse(params: Params<'_>) -> Result<UsageAsk, AskError> {
        UsageAsk::parse(TENANT, &params, NOW)
    }

    #[test]
    fn without_parameters_the_query_is_24_hours_in_one_row() {
        let ask = parse(Params::default()).unwrap();
        assert_eq!(ask, UsageAsk::new(TENANT, UsageWindow::of(Period::Day, NOW)));
        assert_eq!((ask.limit(), ask.group_by().len(), ask.window().hours().count()), (500, 0, 24));
        let empty = Some("");
        let blank = Params {
            period: empty,
            from: empty,
            to: empty,
            group_by: empty,
            key: empty,
            limit: empty,
            ..Default::default()
        };
        assert_eq!(parse(blank), Ok(ask));
    }

    #[test]
    fn all_given_parameters_are_read() {
        let ask = parse(Params {
            project_id: Some(ID),
            period: Some("month"),
            group_by: Some("status, key,hour,transport"),
            chain: Some("toy"),
            method: Some("a\0b"),
            key: Some(ID),
            transport: Some("grpc"),
            limit: Some("5000"),
            ..Default::default()
        })
        .unwrap();
        assert_eq!(ask.window(), &UsageWindow::of(Period::Month, NOW));
        assert_eq!(ask.group_by(), [Group::Status, Group::Key, Group::Hour, Group::Transport]);
        assert_eq!(ask.limit(), 5_000);
        let only = UsageFilter {
            project: Some(ID.parse().unwrap()),
            chain: Some("toy".into()),
            method: Some("a\u{fffd}b".into()),
            key: Some(ID.parse().unwrap()),
            transport: Some(Transport::Grpc),
        };
        assert_eq!(ask.part(), &only);
        for group in Group::ALL {
            assert_eq!(group.name().parse(), Ok(group));
        }
    }

    #[test]
    fn from_and_to_replace_the_period() {
        let window = |from, to| {
            parse(Params { period: Some("7d"), from, to, ..Default::default() })
                .map(|ask| ask.window().clone())
        };
        let at = |from: u64, to: u64| {
            UsageWindow::between(Time::from_secs(from), Time::from_secs(to)).map_err(AskError::from)
        };
        let moments = (Some("2027-01-15T05:30:00Z"), Some("2027-01-15T08:00:00.5+02:00"));
        assert_eq!(window(moments.0, moments.1), at(NOW.secs() - 9_000, NOW.secs() - 7_199));
        assert_eq!(window(moments.0, None), at(NOW.secs() - 9_000, NOW.secs()));
        assert_eq!(window(None, moments.1), Err(AskError::NoFrom));
        assert_eq!(window(moments.1, moments.0), Err(WindowError::Backwards.into()));
        assert_eq!(window(Some("2027-01-16T00:00:00Z"), None), Err(WindowError::Backwards.into()));
        assert_eq!(window(Some("2026-10-15T08:00:00Z"), None).map(|window| window.period()), Ok(None));
        assert_eq!(window(Some("2026-10-15T07:59:59Z"), None), Err(WindowError::TooLong.into()));
        for bad in
            ["yesterday", "2027-01-15", "2027-01-15T05:30:00", "1969-12-31T23:59:59Z", "2027-02-30T00:00:00Z"]
        {
            assert_eq!(window(Some(bad), moments.1), Err(AskError::Moment("from")), "{bad}");
            assert_eq!(window(moments.0, Some(bad)), Err(AskError::Moment("to")), "{bad}");
        }
    }

    #[test]
    fn invalid_usage_parameters_are_refused_by_name() {
        let refused = |params: Params<'_>| parse(params).unwrap_err();
        let none = Params::default();
        assert_eq!(refused(Params { period: Some("1h"), ..none }), WindowError::Period.into());
        let groups = |names| refused(Params { group_by: Some(names), ..none });
        assert_eq!(groups("chains"), AskError::Group);
        assert_eq!(groups("chain,"), AskError::Group);
        assert_eq!(groups("chain,key,chain"), AskError::Twice(Group::Chain));
        assert_eq!(groups("hour,chain,day"), AskError::HourAndDay);
        assert_eq!(groups("hour,chain,method,key,status"), AskError::TooManyGroups);
        assert_eq!(refused(Params { project_id: Some("1"), ..none }), AskError::Id("project_id"));
        assert_eq!(refused(Params { key: Some("rpcg_abc"), ..none }), AskError::Id("key"));
        assert_eq!(refused(Params { transport: Some("WS"), ..none }), AskError::Transport);
        for limit in ["0", "5001", "-1", "1e3", "99999999999999999999"] {
            assert_eq!(refused(Params { limit: Some(limit), ..none }), AskError::Limit, "{limit}");
        }
        assert_eq!(AskError::Id("key").to_string(), "key must be a UUID");
        assert_eq!(
            AskError::from(WindowError::TooLong).to_string(),
            "from and to must be at most 92 days apart"
        );
    }
}
