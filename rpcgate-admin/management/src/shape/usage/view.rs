//! JSON shapes of usage (specification, "Usage view", and "Resources").

use super::moment;
use crate::action::usage::current::{Budget, CurrentUsage, CurrentWindow, ENFORCED_BY};
use crate::action::usage::throttled::ThrottledKey;
use crate::action::usage::{ProjectLimits, Usage, UsedQuota};
use rpcgate_core::usage::{Cell, Metrics, Period};
use serde::Serialize;
use utoipa::ToSchema;

/// The source of rows and current windows: hourly sums of the recorded calls.
const ROLLUPS: &str = "hourly_rollups";

/// Usage of a tenant, or of one of its projects.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
pub struct View {
    /// The tenant.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// The project, if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid", nullable = false)]
    pub project_id: Option<String>,
    /// The number of projects in scope.
    pub projects: u64,
    /// The start of the window, at the start of an hour.
    #[schema(format = "date-time")]
    pub from: String,
    /// The end of the window, exclusive, at the end of an hour.
    #[schema(format = "date-time")]
    pub to: String,
    /// The period; null if the window was given by its ends.
    #[schema(example = "24h")]
    pub period: Option<&'static str>,
    /// The columns by which rows are grouped.
    pub group_by: Vec<&'static str>,
    /// The totals of the query, which are never truncated.
    pub totals: Sums,
    /// The sums by group.
    pub rows: Vec<Row>,
    /// True if there are more rows than the limit. Of rows by hour or day, the newest are shown.
    pub truncated: bool,
    /// The arrival time of the oldest stored event.
    #[schema(format = "date-time")]
    pub history_from: Option<String>,
    /// The usage of the current windows, independent of the query.
    pub current_period: CurrentPeriod,
    /// The quota of each project, and its usage.
    pub quota_projects: Vec<QuotaProject>,
    /// The limits of the projects.
    pub limits: UsageLimits,
    /// The source of the numbers.
    pub source: UsageSource,
}

macro_rules! sums {
    (
        shown { $($(#[$text:meta])* $shown:ident,)* }
        latency { $($(#[$more:meta])* $latency:ident,)* }
    ) => {
        /// Sums of usage.
        #[derive(Clone, Copy, PartialEq, Debug, Serialize, ToSchema)]
        #[schema(as = UsageMetrics)]
        pub struct Sums {
            $($(#[$text])* pub $shown: u64,)*
            /// The mean latency of answered calls, in milliseconds.
            pub avg_latency_ms: f64,
        }

        impl From<&Metrics> for Sums {
            fn from(metrics: &Metrics) -> Self {
                Sums { $($shown: metrics.$shown,)* avg_latency_ms: metrics.avg_latency_ms() }
            }
        }
    };
}

rpcgate_core::usage_metrics!(sums);

/// The sums of one group, with the values by which rows are grouped.
#[derive(Clone, PartialEq, Debug, Default, Serialize, ToSchema)]
#[schema(as = UsageRow)]
pub struct Row {
    /// The start of the UTC hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time", nullable = false)]
    pub hour: Option<String>,
    /// The start of the UTC day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time", nullable = false)]
    pub day: Option<String>,
    /// The chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub chain: Option<String>,
    /// The method. The bookkeeping of streams is named WS:connect, WS:message, WS:disconnect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub method: Option<String>,
    /// The identifier of the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid", nullable = false)]
    pub key: Option<String>,
    /// The identifier of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid", nullable = false)]
    pub project: Option<String>,
    /// The transport: http, ws or grpc.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub transport: Option<&'static str>,
    /// The HTTP status that each call would have had as a single request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status: Option<u16>,
    /// The sums.
    #[serde(flatten)]
    pub sums: Sums,
}

/// The current windows.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct CurrentPeriod {
    /// The current hour and the previous 23.
    pub rolling_24h: RunningWindow,
    /// The time since the last UTC midnight.
    pub today: RunningWindow,
    /// The time since the start of the UTC month.
    pub month: RunningWindow,
}

/// A window that contains the current time. The ceilings of several projects are added up, but each project is held to
/// its own. A deleted project has no ceiling, so its usage is in rows and totals but not here.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct RunningWindow {
    /// The start of the window.
    #[schema(format = "date-time")]
    pub from: String,
    /// The end of the current hour.
    #[schema(format = "date-time")]
    pub to: String,
    /// Compute Units charged, without those of deleted projects.
    pub billable_units: u64,
    /// Calls, without those of deleted projects. For today, those counted in the plan's windows, where a batch counts
    /// as one.
    pub requests: u64,
    /// The ceiling in Compute Units, if there is one.
    pub cu_limit: Option<u64>,
    /// The Compute Units that remain below the ceiling.
    pub cu_remaining: Option<u64>,
    /// The used part of the ceiling in percent.
    pub cu_percent: Option<f64>,
    /// True if the ceiling is reached.
    pub over: bool,
    /// True if calls are refused because of the ceiling.
    pub enforced: bool,
    /// The name of the enforced limit in the quota; rolling_24h only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub enforced_by: Option<&'static str>,
    /// Requests that the plan allows all active keys in scope together in a day; today only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub requests_limit: Option<u64>,
}

/// A project's quota, and its usage in the last 24 hours.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct QuotaProject {
    /// The project.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// The ceiling in any 24 hours, in Compute Units.
    pub cu_per_day: u64,
    /// The Compute Units in a month. Recorded, not enforced.
    pub cu_per_month: Option<u64>,
    /// Requests per second.
    pub rps_limit: Option<u64>,
    /// True if an operator set it. A project without one has the default ceiling.
    pub has_quota_row: bool,
    /// Compute Units charged in the current hour and the previous 23.
    pub cu_used_24h: u64,
    /// The Compute Units that remain below the ceiling.
    pub cu_remaining: u64,
    /// The used part of the ceiling in percent.
    pub cu_percent: f64,
    /// True if the ceiling is reached, so that calls that cost units are refused.
    pub over: bool,
}

/// The limits of the projects in scope.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct UsageLimits {
    /// The plan.
    pub tier: &'static str,
    /// Always null: no plan limits the requests per second. A project's own limit is rps_limit.
    pub requests_per_second: Option<u64>,
    /// Requests a key may make per UTC minute.
    pub requests_per_minute: u64,
    /// Requests a key may make per UTC hour.
    pub requests_per_hour: u64,
    /// Requests a key may make per UTC day.
    pub requests_per_day: u64,
    /// Heavy calls a project may make per UTC minute.
    pub heavy_per_minute: u64,
    /// Requests per second, if there is only one project and it has such a limit.
    pub rps_limit: Option<u64>,
    /// Compute Units of all projects together in any 24 hours.
    pub cu_per_day: u64,
    /// Compute Units of all projects together in a month; null if one of them has no such limit.
    pub cu_per_month: Option<u64>,
    /// The number of projects with a quota that an operator set.
    pub projects_with_quota: u64,
    /// The methods that are never allowed, if there is only one project.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub blocked_methods: Option<Vec<String>>,
    /// The keys whose limits gateways have temporarily scaled down after a storm of refusals with 429; left out if the
    /// list is empty. Gateways report them every 5 seconds. Keys of a gateway that has ended are left out after a
    /// minute.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub cooled_keys: Vec<CooledLimits>,
}

/// The reduced limits of a key that was refused too often. Each gateway counts on its own. If several have scaled the
/// key's limits down, these are the smallest, and other gateways may still apply the full limits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = UsageCooledKey)]
pub struct CooledLimits {
    /// The identifier of the API key.
    #[schema(format = "uuid")]
    pub key: String,
    /// Its project.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// The time at which all limits are restored.
    #[schema(format = "date-time")]
    pub until: String,
    /// Requests per UTC minute.
    pub requests_per_minute: u64,
    /// Requests per UTC hour.
    pub requests_per_hour: u64,
    /// Requests per UTC day.
    pub requests_per_day: u64,
    /// Requests per second, if its project has such a limit.
    pub rps_limit: Option<u64>,
}

/// The sources of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct UsageSource {
    /// The source of the rows.
    pub rows: &'static str,
    /// The source of the current windows.
    pub current_period: &'static str,
}

impl From<Usage> for View {
    fn from(usage: Usage) -> Self {
        let Usage { view, projects, project, current, quotas, limits } = usage;
        View {
            tenant_id: view.tenant.to_string(),
            project_id: project.map(|id| id.to_string()),
            projects,
            from: moment(view.from),
            to: moment(view.to),
            period: view.period.map(Period::name),
            group_by: view.group_by.iter().map(|group| group.name()).collect(),
            totals: (&view.totals).into(),
            rows: view.rows.into_iter().map(|row| Row::of(row.cells, &row.metrics)).collect(),
            truncated: view.truncated,
            history_from: view.history_from.map(moment),
            current_period: current.into(),
            quota_projects: quotas.iter().map(QuotaProject::from).collect(),
            limits: limits.into(),
            source: UsageSource { rows: ROLLUPS, current_period: ROLLUPS },
        }
    }
}

impl Default for Sums {
    fn default() -> Self {
        (&Metrics::default()).into()
    }
}

impl Row {
    pub(crate) fn of(cells: Vec<Cell>, metrics: &Metrics) -> Self {
        let mut row = Row { sums: metrics.into(), ..Row::default() };
        for cell in cells {
            match cell {
                Cell::Hour(begin) => row.hour = Some(moment(begin)),
                Cell::Day(begin) => row.day = Some(moment(begin)),
                Cell::Chain(chain) => row.chain = Some(chain),
                Cell::Method(method, _) => row.method = Some(method),
                Cell::Key(key) => row.key = Some(key.to_string()),
                Cell::Project(project) => row.project = Some(project.to_string()),
                Cell::Transport(transport) => row.transport = Some(transport.name()),
                Cell::Status(status) => row.status = Some(status),
            }
        }
        row
    }
}

impl From<CurrentUsage> for CurrentPeriod {
    fn from(current: CurrentUsage) -> Self {
        let CurrentUsage { rolling, today, requests_limit, month } = current;
        CurrentPeriod {
            rolling_24h: RunningWindow { enforced_by: Some(ENFORCED_BY), ..rolling.into() },
            today: RunningWindow { requests_limit: Some(requests_limit), ..today.into() },
            month: month.into(),
        }
    }
}

impl From<CurrentWindow> for RunningWindow {
    fn from(running: CurrentWindow) -> Self {
        let CurrentWindow { from, to, billable_units, requests, budget, enforced } = running;
        let Budget { limit, remaining, percent, over } = budget;
        RunningWindow {
            from: moment(from),
            to: moment(to),
            billable_units,
            requests,
            cu_limit: limit,
            cu_remaining: remaining,
            cu_percent: percent,
            over,
            enforced,
            enforced_by: None,
            requests_limit: None,
        }
    }
}

impl From<&UsedQuota> for QuotaProject {
    fn from(UsedQuota { project, quota, used, budget }: &UsedQuota) -> Self {
        QuotaProject {
            project_id: project.to_string(),
            cu_per_day: quota.cu_per_day,
            cu_per_month: quota.cu_per_month,
            rps_limit: quota.rps_limit,
            has_quota_row: quota.has_row,
            cu_used_24h: *used,
            cu_remaining: budget.remaining.unwrap_or_default(),
            cu_percent: budget.percent.unwrap_or_default(),
            over: budget.over,
        }
    }
}

impl From<ProjectLimits> for UsageLimits {
    fn from(limits: ProjectLimits) -> Self {
        let ProjectLimits {
            plan,
            rps_limit,
            cu_per_day,
            cu_per_month,
            projects_with_quota,
            blocked_methods,
            throttled,
        } = limits;
        UsageLimits {
            tier: plan.tier.name(),
            requests_per_second: None,
            requests_per_minute: plan.per_minute,
            requests_per_hour: plan.per_hour,
            requests_per_day: plan.per_day,
            heavy_per_minute: plan.heavy_per_minute,
            rps_limit,
            cu_per_day,
            cu_per_month,
            projects_with_quota,
            blocked_methods,
            cooled_keys: throttled.iter().map(CooledLimits::from).collect(),
        }
    }
}

impl From<&ThrottledKey> for CooledLimits {
    fn from(throttled: &ThrottledKey) -> Self {
        CooledLimits {
            key: throttled.key.to_string(),
            project_id: throttled.project.to_string(),
            until: moment(throttled.until),
            requests_per_minute: throttled.per_minute,
            requests_per_hour: throttled.per_hour,
            requests_per_day: throttled.per_day,
            rps_limit: throttled.rps_limit,
        }
    }
}
