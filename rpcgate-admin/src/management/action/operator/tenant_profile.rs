//! A tenant as operators see it: who it is, what it uses, and what it asks for.

use super::{audit, invoices, tenants, users};
use crate::management::action::billing::closing::unbilled;
use crate::management::action::plans::PlanNames;
use crate::management::action::usage::series::{UsageSeries, series};
use crate::management::action::usage::{Usage, UsedQuota, if_readable, usage};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};
use rpcgate_core::usage::{Amount, Group, Params, Period, UsageAsk, UsageWindow};
use rpcgate_store::{
    Account, AccountFilter, Audit, AuditFilter, Invoice, InvoiceFilter, LimitRequest, Project, ProjectCounts,
    RequestStatus, Tenant,
};
use std::collections::BTreeMap;

/// Members that are shown, at most.
pub const MAX_MEMBERS_SHOWN: u64 = 100;

/// Projects that are shown, at most.
pub const MAX_PROJECTS_SHOWN: usize = 100;

/// Invoices that are shown.
const LAST_INVOICES: u64 = 6;

/// Entries of the audit log that are shown.
const LAST_CHANGES: u64 = 10;

/// What operators know of a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantProfile {
    /// The tenant.
    pub tenant: Tenant,
    /// The name of its plan.
    pub plan_name: String,
    /// Its members, at most [`MAX_MEMBERS_SHOWN`].
    pub members: Vec<Account>,
    /// Its projects with their quotas, those that used the most first, at most [`MAX_PROJECTS_SHOWN`].
    pub projects: Vec<QuotaOfProject>,
    /// The number of all its projects.
    pub all_projects: usize,
    /// The keys of the shown projects that can be used.
    pub keys: u64,
    /// What it used in the last 24 hours.
    pub usage: Usage,
    /// What it used in the last 30 days, by project, unless that cannot be read at the moment.
    pub days: Option<UsageSeries>,
    /// What it owes for the months that are not closed.
    pub unbilled: Amount,
    /// Its last invoices, the newest first.
    pub invoices: Vec<Invoice>,
    /// Its request for another plan that waits for a decision.
    pub request: Option<LimitRequest>,
    /// The last entries of the audit about it, the newest first.
    pub changes: Vec<Audit>,
}

/// A project with its quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaOfProject {
    /// The project.
    pub project: Project,
    /// Its keys and endpoints.
    pub counts: ProjectCounts,
    /// Compute Units that it used in the last 24 hours.
    pub cu_used: u64,
    /// The quota in force.
    pub quota: ProjectQuota,
}

/// What operators know of a tenant.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn profile(app: &AppState, id: TenantId) -> Result<TenantProfile, ActionError> {
    let (tenant, now) = (tenants::get(app, id).await?, app.now());
    let used = usage(app, id, &Params { period: Some(Period::Day.name()), ..Params::default() }).await?;
    let month = UsageAsk::new(id, UsageWindow::of(Period::ThirtyDays, now));
    // The tenant that uses the most must not be the one that nobody can look at.
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

/// The projects that used the most, and the number of all.
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
    // Stable: projects that used the same are in the order of their creation.
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
