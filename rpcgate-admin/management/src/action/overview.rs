//! The overview of a tenant for its members: its usage, its costs, and the items that need attention.

pub mod attention;
pub mod first_run;
mod pace;

use super::actor::Actor;
use super::billing;
use super::usage::series::{UsageSeries, series};
use super::usage::{Usage, UsedQuota, if_readable, usage};
use crate::access::Access;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::identity::role::Permission;
use attention::Attention;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::ask::MOST_ROWS;
use rpcgate_core::usage::{Cell, Group, Metrics, Params, Period, UsageAsk, UsageWindow};
use rpcgate_store::{Project, ProjectCounts, Tenant};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The maximum number of projects in the overview.
pub const MAX_PROJECTS: usize = 20;

/// A tenant's overview.
#[derive(Clone, PartialEq, Debug)]
pub struct Overview {
    /// The tenant.
    pub tenant: Tenant,
    /// The usage; `None` while it cannot be read.
    pub used: Option<PeriodUse>,
    /// At most [`MAX_PROJECTS`] projects: those with the most Compute Units in 24 hours, or the oldest while usage
    /// cannot be read.
    pub projects: Vec<ProjectUse>,
    /// The number of all projects.
    pub all_projects: usize,
    /// The cost of the current month so far.
    pub cost: MonthCost,
    /// The items that need the member's attention.
    pub attention: Vec<Attention>,
}

/// The usage of a period.
#[derive(Clone, PartialEq, Debug)]
pub struct PeriodUse {
    /// The usage of the period by chain and method, the current windows, and quotas.
    pub usage: Usage,
    /// True if the usage is split by chain and method. A tenant with too many rows for that gets only the totals.
    pub is_by_method: bool,
    /// The totals of the preceding period of the same length.
    pub before: Metrics,
    /// The usage over time by chain.
    pub chains: UsageSeries,
    projects: UsageSeries,
}

/// The cost of a month so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MonthCost {
    /// The cost in cents.
    Cents(u64),
    /// The member may not read bills.
    Hidden,
    /// It cannot be read at the moment.
    Unknown,
}

/// A project and its usage.
#[derive(Clone, PartialEq, Debug)]
pub struct ProjectUse {
    /// The project.
    pub project: Project,
    /// Its keys and endpoints.
    pub counts: ProjectCounts,
    /// Its quota and the used part, if usage can be read.
    pub quota: Option<UsedQuota>,
    /// Its usage in the period.
    pub totals: Metrics,
    /// Its requests over time; `None` if the tenant has too many projects, or usage cannot be read.
    pub requests: Option<Vec<u64>>,
}

/// Returns the overview of the actor's tenant for `period`. While usage cannot be read, or takes too long, the overview
/// has everything else, because members reach their keys from here.
///
/// # Errors
/// [`ActionError::Forbidden`] for an operator, [`ActionError::Unavailable`].
pub async fn overview(app: &AppState, actor: &Actor, period: Period) -> Result<Overview, ActionError> {
    let used = if_readable(period_use(app, actor.tenant()?, period).await)?;
    overview_of(app, actor, used).await
}

/// Returns the overview without usage, for callers that know that usage cannot be read: each try may take seconds.
///
/// # Errors
/// Those of [`overview`].
pub async fn overview_without_usage(app: &AppState, actor: &Actor) -> Result<Overview, ActionError> {
    overview_of(app, actor, None).await
}

async fn overview_of(
    app: &AppState,
    actor: &Actor,
    used: Option<PeriodUse>,
) -> Result<Overview, ActionError> {
    let id = actor.tenant()?;
    let tenant = app.store.tenant(id).await?.ok_or(ActionError::NotFound("tenant"))?;
    let projects = app.store.projects(id).await?;
    let all_projects = projects.len();
    let projects = project_uses(app, id, used.as_ref(), projects).await?;
    Ok(Overview {
        attention: attention::attention(app, actor, &tenant, used.as_ref(), &projects).await?,
        cost: cost(app, actor, used.is_some()).await?,
        tenant,
        used,
        projects,
        all_projects,
    })
}

async fn cost(app: &AppState, actor: &Actor, is_usage_readable: bool) -> Result<MonthCost, ActionError> {
    if Access::Member(Permission::ReadBilling).admit(&actor.user).is_err() {
        return Ok(MonthCost::Hidden);
    }
    if !is_usage_readable {
        return Ok(MonthCost::Unknown);
    }
    let month = if_readable(billing::month_so_far(app, actor, actor.tenant()?).await)?;
    Ok(month.map_or(MonthCost::Unknown, |month| MonthCost::Cents(month.amounts.total)))
}

async fn period_use(app: &AppState, tenant: TenantId, period: Period) -> Result<PeriodUse, ActionError> {
    let limit = MOST_ROWS.to_string();
    let totals = Params { period: Some(period.name()), ..Params::default() };
    let by_method = Params { group_by: Some("chain,method"), limit: Some(&limit), ..totals };
    let (usage, is_by_method) = match usage(app, tenant, &by_method).await {
        Ok(usage) => (usage, true),
        // There are too many rows to split. The rows by project, which give the totals, are few.
        Err(ActionError::TooWide(_)) => (usage(app, tenant, &totals).await?, false),
        Err(error) => return Err(error),
    };
    let ask = UsageAsk::new(tenant, UsageWindow::of(period, app.now()));
    Ok(PeriodUse {
        usage,
        is_by_method,
        // Without it, the page only omits the comparison.
        before: if_readable(before(app, &ask).await)?.unwrap_or_default(),
        chains: series(app, &ask, Some(Group::Chain)).await?,
        projects: series(app, &ask, Some(Group::Project)).await?,
    })
}

/// Returns the totals of the time before the window of `ask`, of the same length.
async fn before(app: &AppState, ask: &UsageAsk) -> Result<Metrics, ActionError> {
    let from = ask.window().from();
    let to = ask.window().to();
    let length = to.since(from);
    let length = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    let start = Time::from_micros(from.micros().saturating_sub(length));
    // There is no time before the epoch.
    let Ok(window) = UsageWindow::between(start, from) else { return Ok(Metrics::default()) };
    Ok(app.usage.usage(&UsageAsk::new(ask.tenant(), window)).await?.totals)
}

async fn project_uses(
    app: &AppState,
    tenant: TenantId,
    used: Option<&PeriodUse>,
    projects: Vec<Project>,
) -> Result<Vec<ProjectUse>, ActionError> {
    let quotas = used.map(|used| used.usage.quotas.as_slice()).unwrap_or_default();
    let quotas: BTreeMap<ProjectId, UsedQuota> = quotas.iter().map(|quota| (quota.project, *quota)).collect();
    let mut known: Vec<_> =
        projects.into_iter().map(|project| (quotas.get(&project.id).copied(), project)).collect();
    // A stable sort: projects with the same usage stay in the order of their creation.
    known.sort_by_key(|(quota, _)| Reverse(quota.map(|quota| quota.used)));
    known.truncate(MAX_PROJECTS);
    let ids: Vec<_> = known.iter().map(|(_, project)| project.id).collect();
    let counts = app.store.project_counts(tenant, &ids, app.now()).await?;
    let by_project = used.map(|used| &used.projects);
    let one = |(quota, project): (Option<UsedQuota>, Project)| {
        let part = by_project.and_then(|series| series.parts.get(&Some(Cell::Project(project.id))));
        let mut totals = Metrics::default();
        part.into_iter().flatten().for_each(|metrics| totals.add(metrics));
        let requests = part.map(|part| part.iter().map(|metrics| metrics.requests).collect());
        ProjectUse {
            counts: counts.get(&project.id).copied().unwrap_or_default(),
            quota,
            totals,
            requests: by_project.filter(|series| !series.is_merged).map(|_| requests.unwrap_or_default()),
            project,
        }
    };
    Ok(known.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests;
