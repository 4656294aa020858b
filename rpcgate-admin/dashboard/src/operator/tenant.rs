//! A tenant: its data, its usage, and its open requests.

use super::invoices::InvoiceRow;
use super::names::NamesOfAll;
use super::tenants::{plan_value, state_badge};
use super::user::{AccountBadge, account_badges};
use crate::chart::bars::bars;
use crate::chart::plot::Plot;
use crate::chart::stack::{Series, Stack};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters;
use crate::form::FieldList;
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::parts::{Choice, LimitMeter};
use crate::plans::label;
use crate::problems::{Labels, Problems};
use crate::ticket_thread::paragraphs;
use crate::usage_parts::axis_of;
use crate::versions::FormVersion;
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_core::usage::{Amount, Cell, Metrics};
use rpcgate_management::action::operator::tenant_profile::{
    MAX_MEMBERS_SHOWN, QuotaOfProject, TenantProfile, profile,
};
use rpcgate_management::action::operator::tenants;
use rpcgate_management::action::plans::{self, PlanNames};
use rpcgate_management::action::versions;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{Account, Audit, LimitRequest, Tenant, TenantChange, Version, Versioned};
use std::sync::Arc;

const LABELS: Labels = &[
    ("plan", "the plan"),
    ("custom_plan_id", "the plan"),
    ("cu_per_day", "the CU per day"),
    ("cu_per_month", "the CU per month"),
    ("rps_limit", "the requests a second"),
];

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/tenants/{id}", get(show))
        .route("/operator/tenants/{id}/plan", post(change_plan))
}

#[derive(Template)]
#[template(path = "operator_tenant.html")]
struct TenantPage {
    frame: Frame,
    problems: Problems,
    version: FormVersion,
    tenant: Tenant,
    badge: (&'static str, &'static str),
    plan_name: String,
    plans: Vec<Choice>,
    plan: String,
    members: Vec<MemberRow>,
    has_more_members: bool,
    projects: Vec<QuotaRow>,
    all_projects: usize,
    keys: u64,
    chart: Option<Plot>,
    totals: Metrics,
    unbilled: Amount,
    invoices: Vec<InvoiceRow>,
    request: Option<PendingRequest>,
    changes: Vec<ChangeRow>,
}

struct MemberRow {
    account: Account,
    badges: Vec<AccountBadge>,
}

/// A project with the form of its quota.
struct QuotaRow {
    id: ProjectId,
    version: FormVersion,
    name: String,
    keys: u64,
    used: u64,
    meter: LimitMeter,
    per_day: String,
    per_month: String,
    rps: String,
    /// True if an operator has set it.
    is_set: bool,
    /// True if the submitted quota was refused.
    is_wrong: bool,
}

struct PendingRequest {
    request: LimitRequest,
    plan: String,
    author: String,
    reason: Vec<Vec<String>>,
}

struct ChangeRow {
    at: Time,
    who: String,
    action: String,
    detail: String,
}

impl QuotaRow {
    fn of(found: QuotaOfProject, version: Option<&Version>) -> Self {
        let QuotaOfProject { project, counts, cu_used, quota } = found;
        let text = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        QuotaRow {
            meter: LimitMeter::new(format!("{}, quota used", project.name), cu_used, Some(quota.cu_per_day)),
            id: project.id,
            version: version.copied().map(FormVersion::from).unwrap_or_default(),
            name: project.name,
            keys: counts.keys,
            used: cu_used,
            per_day: quota.cu_per_day.to_string(),
            per_month: text(quota.cu_per_month),
            rps: text(quota.rps_limit),
            is_set: quota.has_row,
            is_wrong: false,
        }
    }
}

/// Charts the Compute Units of each day by project.
fn chart(found: &TenantProfile) -> Option<Plot> {
    let days = found.days.as_ref()?;
    let name = |cell: &Option<Cell>| match cell {
        Some(Cell::Project(id)) => {
            let known = found.projects.iter().find(|one| one.project.id == *id);
            known.map_or_else(|| "a deleted project".to_owned(), |one| one.project.name.clone())
        }
        _ => "all projects".to_owned(),
    };
    let series = days.parts.iter().map(|(cell, part)| Series {
        name: name(cell),
        values: part.iter().map(|metrics| metrics.billable_units).collect(),
    });
    let axis = axis_of(days);
    let stack = Stack::of(series.collect(), axis.starts.len());
    let plot = bars(&stack, &axis, "Compute Units", "CU", Some("project"));
    Some(plot.or_empty("No call cost Compute Units in this period."))
}

async fn tenant_page(app: &AppState, page: &PageContext, id: TenantId) -> Result<TenantPage, ActionError> {
    let version = FormVersion::current(app, Versioned::Tenant(id)).await?;
    let quotas = versions::of_quotas(app, id).await?;
    let found = profile(app, id).await?;
    let all_plans = plans::plans(app, &page.actor).await?;
    let own = all_plans.iter().find(|plan| plan.of == found.tenant.plan()).map(plan_value);
    let authors = found.changes.iter().filter_map(|entry| entry.user);
    let authors = authors.chain(found.request.iter().map(|request| request.user));
    let names = NamesOfAll::read(app, Vec::new(), authors.collect()).await?;
    let plan_names = PlanNames::read(app).await?;
    let chart = chart(&found);
    let now = app.now();
    let pending = |request: LimitRequest| PendingRequest {
        plan: plan_names.of(request.plan()).to_owned(),
        author: names.user(request.user),
        reason: paragraphs(&request.reason),
        request,
    };
    let change = |entry: Audit| ChangeRow {
        who: names.who(&entry),
        at: entry.at,
        action: entry.action,
        detail: entry.detail,
    };
    Ok(TenantPage {
        frame: page.frame(PageSection::Tenants),
        problems: Problems::default(),
        version,
        badge: state_badge(&found.tenant),
        plan_name: found.plan_name,
        plans: all_plans.iter().map(|plan| Choice::new(plan_value(plan), label(plan))).collect(),
        plan: own.unwrap_or_default(),
        has_more_members: found.members.len() as u64 == MAX_MEMBERS_SHOWN,
        members: found
            .members
            .into_iter()
            .map(|account| MemberRow { badges: account_badges(&account), account })
            .collect(),
        projects: found
            .projects
            .into_iter()
            .map(|one| {
                let version = quotas.get(&one.project.id);
                QuotaRow::of(one, version)
            })
            .collect(),
        all_projects: found.all_projects,
        keys: found.keys,
        chart,
        totals: found.usage.view.totals,
        unbilled: found.unbilled,
        invoices: found.invoices.into_iter().map(|invoice| InvoiceRow::of(invoice, now)).collect(),
        request: found.request.map(pending),
        changes: found.changes.into_iter().map(change).collect(),
        tenant: found.tenant,
    })
}

/// Shows the tenant again with the error in a project's quota and the submitted value.
pub(super) async fn refused_quota(
    app: &AppState,
    page: &PageContext,
    (id, project): (TenantId, ProjectId),
    typed: &FieldList,
    error: ActionError,
) -> PageResult {
    let mut shown = tenant_page(app, page, id).await?;
    rejected(error, LABELS, |mut problems| {
        for row in shown.projects.iter_mut().filter(|row| row.id == project) {
            let text = |name: &str| typed.one(name).to_owned();
            let sent = [text("cu_per_day"), text("cu_per_month"), text("rps_limit")];
            let now = [&mut row.per_day, &mut row.per_month, &mut row.rps];
            let labels = ["CU per day", "CU per month", "Requests a second"];
            let values = labels.into_iter().zip(now).zip(sent).map(|((label, now), sent)| {
                let plain = sent.replace([',', ' '], "");
                (label, std::mem::replace(now, sent), plain)
            });
            problems = problems.with_values(values.collect::<Vec<_>>());
            let wrong = problems.all().first().and_then(|problem| problem.field);
            let label = LABELS.iter().find(|(name, _)| Some(*name) == wrong);
            problems = problems.about(&match label {
                Some((_, label)) => format!("{}, {}", row.name, label.trim_start_matches("the ")),
                None => row.name.clone(),
            });
            row.version = std::mem::take(&mut row.version).again(&problems, typed);
            row.is_wrong = true;
        }
        TenantPage { problems, ..shown }
    })
}

/// Shows the tenant again with the error in the choice of its plan.
async fn refused(
    app: &AppState,
    page: &PageContext,
    id: TenantId,
    fields: &FieldList,
    error: ActionError,
) -> PageResult {
    let shown = tenant_page(app, page, id).await?;
    let label = |value: &str| {
        let known = shown.plans.iter().find(|choice| choice.is_value(value));
        known.map(|choice| choice.label.clone()).unwrap_or_default()
    };
    let values = [("Plan", label(&shown.plan), label(fields.one("plan")))];
    rejected(error, LABELS, |problems| TenantPage {
        version: shown.version.again(&problems, fields),
        problems: problems.with_values(values),
        plan: fields.one("plan").to_owned(),
        ..shown
    })
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TenantId>,
) -> PageResult {
    Ok(ok(&tenant_page(&app, &page, id).await?))
}

async fn change_plan(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TenantId>,
    fields: FieldList,
) -> PageResult {
    let moved = async {
        let value = fields.one("plan");
        let change = match value.parse::<Tier>() {
            Ok(tier) => TenantChange { tier: Some(tier), ..TenantChange::default() },
            Err(_) => {
                let custom =
                    value.parse().map_err(|_| ActionError::field("plan", "choose a plan from the list"))?;
                TenantChange { custom_plan: Some(custom), ..TenantChange::default() }
            }
        };
        tenants::update(&app, &page.expecting(&fields), id, change).await
    };
    match moved.await {
        Ok(_) => Ok(page.done(&format!("operator/tenants/{id}"), Done::TenantMoved)),
        Err(error) => refused(&app, &page, id, &fields, error).await,
    }
}
