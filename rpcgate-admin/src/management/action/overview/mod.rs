//! What members see first: whether all is well, what was used, and what waits for them.

pub mod attention;
pub mod first_run;
mod pace;

use super::actor::Actor;
use super::billing;
use super::usage::series::{UsageSeries, series};
use super::usage::{Usage, UsedQuota, if_readable, usage};
use crate::management::access::Access;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::identity::role::Permission;
use attention::Attention;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::ask::MOST_ROWS;
use rpcgate_core::usage::{Cell, Group, Metrics, Params, Period, UsageAsk, UsageWindow};
use rpcgate_store::{Project, ProjectCounts, Tenant};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Projects that are shown.
pub const MAX_PROJECTS: usize = 20;

/// A tenant's overview.
#[derive(Clone, PartialEq, Debug)]
pub struct Overview {
    /// The tenant.
    pub tenant: Tenant,
    /// What was used, unless that cannot be read at the moment.
    pub used: Option<PeriodUse>,
    /// The projects that used the most Compute Units in 24 hours, or the oldest if usage cannot be read: at most
    /// [`MAX_PROJECTS`].
    pub projects: Vec<ProjectUse>,
    /// How many projects there are.
    pub all_projects: usize,
    /// What the current month has cost so far.
    pub cost: MonthCost,
    /// What waits for the member.
    pub attention: Vec<Attention>,
}

/// What was used in a period.
#[derive(Clone, PartialEq, Debug)]
pub struct PeriodUse {
    /// The usage of the period by chain and method, the current windows, and quotas.
    pub usage: Usage,
    /// Whether the usage is told apart by chain and method. That of a tenant that has too many rows for that has only its
    /// totals.
    pub is_by_method: bool,
    /// The totals of the time of the same length before.
    pub before: Metrics,
    /// The usage over time by chain.
    pub chains: UsageSeries,
    /// The usage over time by project.
    projects: UsageSeries,
}

/// What a month has cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MonthCost {
    /// So many cents.
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
    /// Its quota, and what it has used of it, if usage can be read.
    pub quota: Option<UsedQuota>,
    /// Its usage in the period.
    pub totals: Metrics,
    /// Its requests over time; `None` if the tenant has too many projects, or usage cannot be read.
    pub requests: Option<Vec<u64>>,
}

/// The overview of the actor's tenant for `period`. While usage cannot be read, or takes too long, it has everything else:
/// from here members reach their keys.
///
/// # Errors
/// [`ActionError::Forbidden`] for an operator, [`ActionError::Unavailable`].
pub async fn overview(app: &AppState, actor: &Actor, period: Period) -> Result<Overview, ActionError> {
    let used = if_readable(period_use(app, actor.tenant()?, period).await)?;
    overview_of(app, actor, used).await
}

/// The overview without anything about usage, for when it is known that this cannot be read: each try may take seconds.
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
        // Too many rows to tell apart. Those of its projects, of which the totals are made, are few.
        Err(ActionError::Invalid(_)) => (usage(app, tenant, &totals).await?, false),
        Err(error) => return Err(error),
    };
    let ask = UsageAsk::new(tenant, UsageWindow::of(period, app.now()));
    Ok(PeriodUse {
        usage,
        is_by_method,
        // Without it, the page only does not say how much more or less it is.
        before: if_readable(before(app, &ask).await)?.unwrap_or_default(),
        chains: series(app, &ask, Some(Group::Chain)).await?,
        projects: series(app, &ask, Some(Group::Project)).await?,
    })
}

/// The totals of the time before the window of `ask` that is as long.
async fn before(app: &AppState, ask: &UsageAsk) -> Result<Metrics, ActionError> {
    let (from, to) = (ask.window().from(), ask.window().to());
    let length = to.since(from);
    let length = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    let start = Time::from_micros(from.micros().saturating_sub(length));
    // There is no time before the epoch.
    let Ok(window) = UsageWindow::between(start, from) else { return Ok(Metrics::default()) };
    Ok(app.usage.usage(&UsageAsk::new(ask.tenant(), window)).await?.totals)
}

/// The projects that used the most, with their usage.
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
    // Stable: projects that used the same are in the order of their creation.
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
