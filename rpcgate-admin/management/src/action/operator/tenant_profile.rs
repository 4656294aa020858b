//! A tenant as operators see it: its data, its usage, and its open requests.

use super::{audit, invoices, tenants, users};
use crate::action::billing::closing::unbilled;
use crate::action::plans::PlanNames;
use crate::action::usage::series::{UsageSeries, series};
use crate::action::usage::{Usage, UsedQuota, if_readable, usage};
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};
use rpcgate_core::usage::{Amount, Group, Params, Period, UsageAsk, UsageWindow};
use rpcgate_store::{
    Account, AccountFilter, Audit, AuditFilter, Invoice, InvoiceFilter, LimitRequest, Project, ProjectCounts,
    RequestStatus, Tenant,
};
use std::collections::BTreeMap;

/// The maximum number of members shown.
pub const MAX_MEMBERS_SHOWN: u64 = 100;

/// The maximum number of projects shown.
pub const MAX_PROJECTS_SHOWN: usize = 100;

const LAST_INVOICES: u64 = 6;

const LAST_CHANGES: u64 = 10;

/// The profile of a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantProfile {
    /// The tenant.
    pub tenant: Tenant,
    /// The name of its plan.
    pub plan_name: String,
    /// The members, at most [`MAX_MEMBERS_SHOWN`].
    pub members: Vec<Account>,
    /// The projects with their quotas, those with the most usage first, at most [`MAX_PROJECTS_SHOWN`].
    pub projects: Vec<QuotaOfProject>,
    /// The number of all projects.
    pub all_projects: usize,
    /// The usable keys of the shown projects.
    pub keys: u64,
    /// The usage of the last 24 hours.
    pub usage: Usage,
    /// The usage of the last 30 days by project; `None` while it cannot be read.
    pub days: Option<UsageSeries>,
    /// The amount owed for the months that are not closed.
    pub unbilled: Amount,
    /// The last invoices, the newest first.
    pub invoices: Vec<Invoice>,
    /// The pending request for another plan.
    pub request: Option<LimitRequest>,
    /// The last audit entries about the tenant, the newest first.
    pub changes: Vec<Audit>,
}

/// A project with its quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaOfProject {
    /// The project.
    pub project: Project,
    /// Its keys and endpoints.
    pub counts: ProjectCounts,
    /// The Compute Units of the last 24 hours.
    pub cu_used: u64,
    /// The quota in force.
    pub quota: ProjectQuota,
}

/// Returns the profile of a tenant.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn profile(app: &AppState, id: TenantId) -> Result<TenantProfile, ActionError> {
    let tenant = tenants::get(app, id).await?;
    let now = app.now();
    let used = usage(app, id, &Params { period: Some(Period::Day.name()), ..Params::default() }).await?;
    let month = UsageAsk::new(id, UsageWindow::of(Period::ThirtyDays, now));
    // The page of the tenant with the most usage must remain available.
    let days = if_readable(series(app, &month, Some(Group::Project)).await)?;
    let (projects, all_projects) = projects(app, id, &used).await?;
    let members = AccountFilter { tenant: Some(id), ..AccountFilter::default() };
    let invoices_of = InvoiceFilter { tenant: Some(id), ..InvoiceFilter::default() };
    let requests = app.store.limit_requests(id).await?;
    let changes = audit::list(app, Some(id), &AuditFilter::default(), None, LAST_CHANGES).await?;
    Ok(TenantProfile {
        plan_name: PlanNames::read(app).await?.of(tenant.plan()).to_owned(),
        members: users::list(app, &members, None, MAX_MEMBERS_SHOWN).await?,
        keys: projects.iter().map(|one| one.counts.keys).sum(),
        projects,
        all_projects,
        usage: used,
        days,
        unbilled: unbilled(app, &tenant).await?,
        invoices: invoices::list(app, invoices_of, None, LAST_INVOICES).await?,
        request: requests.into_iter().find(|request| request.status == RequestStatus::Pending),
        changes: changes.into_iter().map(|(_, entry)| entry).collect(),
        tenant,
    })
}

async fn projects(
    app: &AppState,
    tenant: TenantId,
    used: &Usage,
) -> Result<(Vec<QuotaOfProject>, usize), ActionError> {
    let quotas: BTreeMap<ProjectId, UsedQuota> = used.quotas.iter().map(|one| (one.project, *one)).collect();
    let all = app.store.projects(tenant).await?;
    let count = all.len();
    let mut known: Vec<_> =
        all.into_iter().filter_map(|project| Some((*quotas.get(&project.id)?, project))).collect();
    // A stable sort: projects with the same usage stay in the order of their creation.
    known.sort_by_key(|(quota, _)| std::cmp::Reverse(quota.used));
    known.truncate(MAX_PROJECTS_SHOWN);
    let ids: Vec<_> = known.iter().map(|(_, project)| project.id).collect();
    let counts = app.store.project_counts(tenant, &ids, app.now()).await?;
    let one = |(quota, project): (UsedQuota, Project)| QuotaOfProject {
        counts: counts.get(&project.id).copied().unwrap_or_default(),
        cu_used: quota.used,
        quota: quota.quota,
        project,
    };
    Ok((known.into_iter().map(one).collect(), count))
}
