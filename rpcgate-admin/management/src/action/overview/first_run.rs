//! The first steps of a new tenant, up to its first call.

use crate::action::actor::Actor;
use crate::action::plans::in_force;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::ProjectQuota;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use rpcgate_core::usage::ask::DEFAULT_LIMIT;
use rpcgate_core::usage::{Cell, Group, Metrics, Period, UsageAsk, UsageWindow};
use rpcgate_store::{Project, Tenant};
use std::time::Duration;

const SHOWN: Duration = Duration::from_secs(3_600);
/// The number of rows of usage that are read to show it.
const MAX_ROWS: u32 = DEFAULT_LIMIT;

/// The progress of a new tenant.
#[derive(Clone, PartialEq, Debug)]
pub enum FirstRun {
    /// It has made no call yet.
    Steps(Box<FirstSteps>),
    /// It has just made its first successful call.
    FirstCall(FirstCall),
    /// It has used the gateway for a while.
    Over,
}

/// The steps before the first call.
#[derive(Clone, PartialEq, Debug)]
pub struct FirstSteps {
    /// The tenant.
    pub tenant: Tenant,
    /// The plan in force.
    pub plan: Plan,
    /// The Compute Units that a project may use in 24 hours.
    pub cu_per_day: u64,
    /// True if the user's e-mail address is confirmed.
    pub is_confirmed: bool,
    /// The newest project.
    pub project: Option<Project>,
    /// True if there is a usable key.
    pub has_key: bool,
}

/// The first successful call.
#[derive(Clone, PartialEq, Debug)]
pub struct FirstCall {
    /// The time of the tenant's first request, which may have failed.
    pub at: Time,
    /// The chain.
    pub chain: String,
    /// The method.
    pub method: String,
    /// The HTTP status.
    pub status: u16,
    /// The counters of the call and of later calls like it.
    pub metrics: Metrics,
}

/// Returns the progress of the actor's tenant.
///
/// # Errors
/// [`ActionError::Forbidden`] for an operator, [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn first_run(app: &AppState, actor: &Actor) -> Result<FirstRun, ActionError> {
    let id = actor.tenant()?;
    let now = app.now();
    let tenant = app.store.tenant(id).await?.ok_or(ActionError::NotFound("tenant"))?;
    let retention = app.settings.config.retention.ledger;
    match app.usage.first_use(id, tenant.created_at, retention, now).await? {
        // A suspended tenant is not served.
        Some(at) if now.since(at) < SHOWN && !tenant.suspended => {
            Ok(first_call(app, &tenant, at).await?.map_or(FirstRun::Over, FirstRun::FirstCall))
        }
        Some(_) => Ok(FirstRun::Over),
        None => {
            let plans = in_force(app).await?;
            let terms = app.store.terms(id, now).await?;
            let project = app.store.projects(id).await?.pop();
            let plan = terms.plan(plans.of_tenant(tenant.tier), now);
            let of_plan = ProjectQuota::of_plan(plan.quota);
            let quota = match &project {
                Some(project) => app.store.quota(id, project.id, &plans, now).await?.unwrap_or(of_plan),
                None => of_plan,
            };
            Ok(FirstRun::Steps(Box::new(FirstSteps {
                cu_per_day: quota.cu_per_day,
                plan,
                is_confirmed: actor.user.confirmed_at.is_some(),
                project,
                has_key: app.store.active_keys(id, None, now).await? > 0,
                tenant,
            })))
        }
    }
}

/// Returns a successful call from the oldest hour since `at` that has one.
async fn first_call(app: &AppState, tenant: &Tenant, at: Time) -> Result<Option<FirstCall>, ActionError> {
    let ask = UsageAsk::new(tenant.id, UsageWindow::of(Period::Day, app.now()))
        .grouped(&[Group::Hour, Group::Chain, Group::Method, Group::Status])?
        .limited(MAX_ROWS)?;
    let rows = app.usage.usage(&ask).await?.rows;
    let succeeded = rows.into_iter().filter_map(|row| match <[Cell; 4]>::try_from(row.cells) {
        Ok([Cell::Hour(hour), Cell::Chain(chain), Cell::Method(method, _), Cell::Status(status)])
            if row.metrics.requests > row.metrics.errors && status < 400 =>
        {
            Some((hour, FirstCall { at, chain, method, status, metrics: row.metrics }))
        }
        _ => None,
    });
    Ok(succeeded.min_by_key(|(hour, _)| *hour).map(|(_, call)| call))
}
