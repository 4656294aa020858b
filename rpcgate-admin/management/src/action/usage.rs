//! Usage, and the limits that apply to it.

pub mod current;
pub mod explore;
pub mod project;
pub mod recent;
pub mod series;
pub mod throttled;

use crate::access::Access;
use crate::action::plans::in_force;
use crate::app_state::AppState;
use crate::error::{ActionError, Part};
use crate::identity::role::Permission;
use current::{Budget, CurrentUsage, WindowUsage};
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};
use rpcgate_core::plan::Plan;
use rpcgate_core::usage::window::MOST_DAYS;
use rpcgate_core::usage::{
    AskError, Params, Period, UsageAsk, UsageFilter, UsageView, UsageWindow, WindowError,
};
use rpcgate_store::{Project, Tenant, User};
use throttled::ThrottledKey;

/// The response of `GET /usage` (specification, "Usage view").
#[derive(Clone, PartialEq, Debug)]
pub struct Usage {
    /// The requested view.
    pub view: UsageView,
    /// The number of projects in scope.
    pub projects: u64,
    /// The project, if there is only one.
    pub project: Option<ProjectId>,
    /// The usage of the current windows, whatever the requested window.
    pub current: CurrentUsage,
    /// Each project's quota and its usage.
    pub quotas: Vec<UsedQuota>,
    /// The limits of the projects.
    pub limits: ProjectLimits,
}

/// A project's quota and its usage in the last 24 hours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UsedQuota {
    /// The project.
    pub project: ProjectId,
    /// Its quota.
    pub quota: ProjectQuota,
    /// The Compute Units charged in the current hour and the 23 before.
    pub used: u64,
    /// The remainder of [`ProjectQuota::cu_per_day`].
    pub budget: Budget,
}

/// The limits of the projects in scope.
#[derive(Clone, PartialEq, Debug)]
pub struct ProjectLimits {
    /// The plan with the limits in force.
    pub plan: Plan,
    /// Requests per second, if there is only one project and it has such a limit.
    pub rps_limit: Option<u64>,
    /// Compute Units in 24 hours, of all projects together.
    pub cu_per_day: u64,
    /// Compute Units in a month, of all projects together; `None` if one of them has no such limit.
    pub cu_per_month: Option<u64>,
    /// The number of projects with a quota that an operator set.
    pub projects_with_quota: u64,
    /// The methods that are never allowed, if there is only one project.
    pub blocked_methods: Option<Vec<String>>,
    /// The keys whose limits are temporarily scaled down.
    pub throttled: Vec<ThrottledKey>,
}

impl From<AskError> for ActionError {
    fn from(error: AskError) -> Self {
        let words = |words: &'static str| Part::Words(words.into());
        let from = || Part::Bare("from");
        let to = || Part::Bare("to");
        let parts = match error {
            AskError::Moment(name) => vec![Part::Bare(name), words(" must be "), Part::Moment],
            AskError::NoFrom => vec![to(), words(" needs "), from()],
            AskError::Window(WindowError::Backwards) => vec![to(), words(" must be later than "), from()],
            AskError::Window(WindowError::TooLong) => {
                let apart = format!(" must be at most {MOST_DAYS} days apart");
                vec![from(), words(" and "), to(), Part::Words(apart.into())]
            }
            error => return ActionError::bare(error.parameter(), &error.to_string()),
        };
        ActionError::of_parts(error.parameter(), parts)
    }
}

struct Scope {
    tenant: Tenant,
    requested: Option<ProjectId>,
    only: Option<Project>,
    quotas: Vec<(ProjectId, ProjectQuota)>,
}

impl Scope {
    async fn of(app: &AppState, tenant: TenantId, project: Option<ProjectId>) -> Result<Self, ActionError> {
        let found = app.store.tenant(tenant).await?.ok_or(ActionError::NotFound("tenant"))?;
        let plans = in_force(app).await?;
        let quotas = match project {
            None => app.store.quotas(tenant, &plans, app.now()).await?,
            Some(id) => {
                let quota = app.store.quota(tenant, id, &plans, app.now()).await?;
                vec![(id, quota.ok_or(ActionError::NotFound("project"))?)]
            }
        };
        let only = match quotas[..] {
            [(id, _)] => app.store.project(tenant, id).await?,
            _ => None,
        };
        Ok(Scope { tenant: found, requested: project, only, quotas })
    }

    fn limits(&self, plan: Plan, throttled: Vec<ThrottledKey>) -> ProjectLimits {
        let single = match self.quotas[..] {
            [(_, quota)] => Some(quota),
            _ => None,
        };
        ProjectLimits {
            plan,
            rps_limit: single.and_then(|quota| quota.rps_limit),
            cu_per_day: self.cu_per_day(),
            cu_per_month: self.cu_per_month(),
            projects_with_quota: self.quotas.iter().filter(|(_, quota)| quota.has_row).count() as u64,
            blocked_methods: self.only.as_ref().map(|project| project.blocked_methods.clone()),
            throttled,
        }
    }

    /// Returns the sum of the ceilings of all projects (contract, "Usage").
    fn cu_per_day(&self) -> u64 {
        self.quotas.iter().fold(0, |sum, (_, quota)| quota.cu_per_day.saturating_add(sum))
    }

    fn cu_per_month(&self) -> Option<u64> {
        let months = self.quotas.iter().map(|(_, quota)| quota.cu_per_month);
        months.reduce(|sum, month| Some(sum?.saturating_add(month?))).flatten()
    }
}

/// Returns the usage of `tenant` that `params` request.
///
/// # Errors
/// [`ActionError::Invalid`] names the parameter; [`ActionError::NotFound`] for an unknown tenant, and for a project or
/// key that is not this tenant's; [`ActionError::Unavailable`].
pub async fn usage(app: &AppState, tenant: TenantId, params: &Params<'_>) -> Result<Usage, ActionError> {
    let now = app.now();
    let ask = UsageAsk::parse(tenant, params, now)?;
    let project = ask.part().project;
    let scope = Scope::of(app, tenant, project).await?;
    check_key(app, &ask).await?;
    let plan = plan(app, &scope.tenant).await?;
    let view = app.usage.usage(&ask).await?;
    let rolling = WindowUsage::of(app, &scope, Period::Day, now).await?;
    let throttled = throttled::throttled(app, &scope, &plan, now).await?;
    let quotas = scope.quotas.iter().map(|(id, quota)| {
        let used = rolling.by(*id).billable_units;
        UsedQuota { project: *id, quota: *quota, used, budget: Budget::of(used, Some(quota.cu_per_day)) }
    });
    Ok(Usage {
        view,
        projects: scope.quotas.len() as u64,
        project: project.or(scope.only.as_ref().map(|project| project.id)),
        current: current::current(app, &scope, &plan, &rolling, now).await?,
        quotas: quotas.collect(),
        limits: scope.limits(plan, throttled),
    })
}

/// Returns the usage of the tenant `of` that `params` request, for `user`: a member of it, or an operator.
///
/// # Errors
/// Those of [`usage`]; [`ActionError::NotFound`] if `user` is not a member of the tenant.
pub async fn usage_of(
    app: &AppState,
    user: &User,
    of: TenantId,
    params: &Params<'_>,
) -> Result<Usage, ActionError> {
    if !user.is_operator() {
        Access::Member(Permission::Read).admit(user)?;
        if user.tenant != Some(of) {
            return Err(ActionError::NotFound("tenant"));
        }
    }
    usage(app, of, params).await
}

/// Returns the result of a read, or `None` if usage cannot be read at the moment. For operations about something else,
/// such as revoking a leaked key.
///
/// # Errors
/// All other errors.
pub fn if_readable<T>(read: Result<T, ActionError>) -> Result<Option<T>, ActionError> {
    match read {
        Ok(read) => Ok(Some(read)),
        // Too many queries, no database, or too many rows for one answer.
        Err(ActionError::TooMany { .. } | ActionError::Unavailable(_) | ActionError::TooWide(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn check_key(app: &AppState, ask: &UsageAsk) -> Result<(), ActionError> {
    let Some(key) = ask.part().key else { return Ok(()) };
    app.store.key(ask.tenant(), key).await?.map(drop).ok_or(ActionError::NotFound("key"))
}

/// Returns the plan of a tenant with the limits in force.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn plan(app: &AppState, tenant: &Tenant) -> Result<Plan, ActionError> {
    let plans = in_force(app).await?;
    let now = app.now();
    Ok(app.store.terms(tenant.id, now).await?.plan(plans.of_tenant(tenant.tier), now))
}

/// Makes a query for all usage of a tenant, or of one of its projects, in `window`.
fn all(tenant: TenantId, project: Option<ProjectId>, window: UsageWindow) -> UsageAsk {
    UsageAsk::new(tenant, window).only(UsageFilter { project, ..UsageFilter::default() })
}
