//! What members see first: whether all is well, what was used, and what waits for them.

pub mod attention;
pub mod first_run;
mod pace;

use super::actor::Actor;
use super::billing;
use super::usage::series::{UsageSeries, series};
use super::usage::{Usage, UsedQuota, usage};
use crate::management::access::Access;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::identity::role::Permission;
use crate::store::{Project, ProjectCounts, Tenant};
use attention::Attention;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::ask::MOST_ROWS;
use rpcgate_core::usage::{Cell, Group, Metrics, Params, Period, UsageAsk, UsageWindow};
use std::collections::BTreeMap;

/// Projects that are shown.
pub const MAX_PROJECTS: usize = 20;

/// A tenant's overview.
#[derive(Clone, PartialEq, Debug)]
pub struct Overview {
    /// The tenant.
    pub tenant: Tenant,
    /// The usage of the period by chain and method, the current windows, and quotas.
    pub usage: Usage,
    /// The totals of the time of the same length before.
    pub before: Metrics,
    /// The usage over time by chain.
    pub chains: UsageSeries,
    /// The projects that used the most Compute Units in 24 hours: at most [`MAX_PROJECTS`].
    pub projects: Vec<ProjectUse>,
    /// How many projects there are.
    pub all_projects: usize,
    /// What the current month has cost so far, in cents, for those who may read bills.
    pub cost: Option<u64>,
    /// What waits for the member.
    pub attention: Vec<Attention>,
}

/// A project and its usage.
#[derive(Clone, PartialEq, Debug)]
pub struct ProjectUse {
    /// The project.
    pub project: Project,
    /// Its keys and endpoints.
    pub counts: ProjectCounts,
    /// Its quota, and what it has used of it.
    pub quota: UsedQuota,
    /// Its usage in the period.
    pub totals: Metrics,
    /// Its requests over time; `None` if the tenant has too many projects.
    pub requests: Option<Vec<u64>>,
}

/// The overview of the actor's tenant for `period`.
///
/// # Errors
/// [`ActionError::Forbidden`] for an operator, [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn overview(app: &AppState, actor: &Actor, period: Period) -> Result<Overview, ActionError> {
    let (id, now) = (actor.tenant()?, app.now());
    let tenant = app.store.tenant(id).await?.ok_or(ActionError::NotFound("tenant"))?;
    let limit = MOST_ROWS.to_string();
    let params = Params {
        period: Some(period.name()),
        group_by: Some("chain,method"),
        limit: Some(&limit),
        ..Params::default()
    };
    let usage = usage(app, id, &params).await?;
    let window = UsageWindow::of(period, now);
    let ask = UsageAsk::new(id, window.clone());
    let chains = series(app, &ask, Some(Group::Chain)).await?;
    let by_project = series(app, &ask, Some(Group::Project)).await?;
    let projects = app.store.projects(id).await?;
    let all_projects = projects.len();
    let projects = project_uses(app, actor, &usage, projects, by_project).await?;
    let may_read_bills = Access::Member(Permission::ReadBilling).admit(&actor.user).is_ok();
    let cost =
        if may_read_bills { Some(billing::overview(app, actor, id).await?.amounts.total) } else { None };
    Ok(Overview {
        before: before(app, &ask).await?,
        attention: attention::attention(app, actor, &tenant, &usage, &projects).await?,
        tenant,
        usage,
        chains,
        projects,
        all_projects,
        cost,
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
    actor: &Actor,
    usage: &Usage,
    projects: Vec<Project>,
    by_project: UsageSeries,
) -> Result<Vec<ProjectUse>, ActionError> {
    let quotas: BTreeMap<ProjectId, UsedQuota> =
        usage.quotas.iter().map(|quota| (quota.project, *quota)).collect();
    let mut known: Vec<_> =
        projects.into_iter().filter_map(|project| Some((*quotas.get(&project.id)?, project))).collect();
    // Stable: projects that used the same are in the order of their creation.
    known.sort_by_key(|(quota, _)| std::cmp::Reverse(quota.used));
    known.truncate(MAX_PROJECTS);
    let ids: Vec<_> = known.iter().map(|(_, project)| project.id).collect();
    let counts = app.store.project_counts(actor.tenant()?, &ids, app.now()).await?;
    let one = |(quota, project): (UsedQuota, Project)| {
        let part = by_project.parts.get(&Some(Cell::Project(project.id)));
        let mut totals = Metrics::default();
        part.into_iter().flatten().for_each(|metrics| totals.add(metrics));
        let requests = part.map(|part| part.iter().map(|metrics| metrics.requests).collect());
        ProjectUse {
            counts: counts.get(&project.id).copied().unwrap_or_default(),
            quota,
            totals,
            requests: if by_project.is_merged { None } else { Some(requests.unwrap_or_default()) },
            project,
        }
    };
    Ok(known.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests;
