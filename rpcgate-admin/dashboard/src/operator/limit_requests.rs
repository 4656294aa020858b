//! The tenants' requests for other plans.

use super::names::NamesOfAll;
use super::what_if::{MoveView, unanswered};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::form::{FieldList, QueryFields};
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::parts::PageLinks;
use crate::plans::figures;
use crate::problems::{Labels, Problems};
use crate::ticket_thread::paragraphs;
use crate::view::{ok, rejected};
use crate::{cursor, filters};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::operator::what_if::effect_on_tenant;
use rpcgate_management::action::operator::{limit_requests, tenants};
use rpcgate_management::action::plans::{self, ListedPlan, PlanNames};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::routing::{get, post};
use rpcgate_management::shape::list::time_cursor;
use rpcgate_store::{LimitRequest, LimitRequestId, RequestStatus, Tenant, TenantPlan, Verdict};
use std::sync::Arc;

const LABELS: Labels = &[("note", "the note"), ("status", "the decision")];

const SHOWN: u64 = 50;

const LIST: &str = "operator/limit-requests";

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/limit-requests", get(list))
        .route("/operator/limit-requests/{id}", get(show).merge(post(review)))
}

/// Returns the tone and the text of a request's badge.
const fn status_badge(status: RequestStatus) -> (&'static str, &'static str) {
    match status {
        RequestStatus::Pending => ("info", "Pending"),
        RequestStatus::Approved => ("ok", "Approved"),
        RequestStatus::Rejected => ("bad", "Rejected"),
    }
}

#[derive(Template)]
#[template(path = "operator_limit_requests.html")]
struct LimitRequestsPage {
    frame: Frame,
    /// The name of the selected status, or `all`.
    status: String,
    rows: Vec<LimitRequestRow>,
    links: PageLinks,
}

impl LimitRequestsPage {
    fn is_status(&self, name: &str) -> bool {
        self.status == name
    }
}

struct LimitRequestRow {
    request: LimitRequest,
    tenant: String,
    author: String,
    plan: String,
    badge: (&'static str, &'static str),
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let status = query.filled("status").unwrap_or(RequestStatus::Pending.name());
    let known = RequestStatus::ALL.into_iter().find(|known| known.name() == status);
    // Waiting requests are listed oldest first, decided ones newest first.
    let is_waiting = known == Some(RequestStatus::Pending);
    let rest = query.query_without(&[cursor::BEFORE, cursor::AFTER, "done"]);
    let requests = if is_waiting {
        limit_requests::waiting(&app, cursor::read(query.one(cursor::AFTER))?, SHOWN).await?
    } else {
        limit_requests::list(&app, known, cursor::read(query.one(cursor::BEFORE))?, SHOWN).await?
    };
    let last = requests.last().filter(|_| requests.len() as u64 == SHOWN);
    let last = last.map(|last| time_cursor(last.created_at, last.id));
    let mut links = PageLinks::default();
    if is_waiting {
        links.newer = last.map(|last| cursor::newer(LIST, &rest, &last));
    } else {
        links.older = last.map(|last| cursor::older(LIST, &rest, &last));
    }
    let tenants = requests.iter().map(|one| one.tenant).collect();
    let users = requests.iter().map(|one| one.user).collect();
    let names = NamesOfAll::read(&app, tenants, users).await?;
    let plan_names = PlanNames::read(&app).await?;
    let row = |request: LimitRequest| LimitRequestRow {
        tenant: names.tenant(request.tenant),
        author: names.user(request.user),
        plan: plan_names.of(request.plan()).to_owned(),
        badge: status_badge(request.status),
        request,
    };
    Ok(ok(&LimitRequestsPage {
        frame: page.frame(PageSection::LimitRequests),
        status: known.map_or("all", RequestStatus::name).to_owned(),
        rows: requests.into_iter().map(row).collect(),
        links,
    }))
}

#[derive(Template)]
#[template(path = "operator_limit_request.html")]
struct LimitRequestPage {
    frame: Frame,
    problems: Problems,
    request: LimitRequest,
    tenant: Option<Tenant>,
    author: String,
    reviewer: Option<String>,
    from: String,
    to: String,
    badge: (&'static str, &'static str),
    reason: Vec<Vec<String>>,
    figures: Vec<FigureChange>,
    what_if: MoveAnswer,
    note: String,
}

/// The effect that the requested plan would have had in the last 30 days.
enum MoveAnswer {
    Known(MoveView),
    /// The effect cannot be computed at the moment, for this reason.
    Unknown(&'static str),
    /// The tenant would stay on its plan, which is at least as large.
    Stays,
    /// The request is decided, or the tenant is deleted.
    Settled,
}

impl LimitRequestPage {
    fn is_pending(&self) -> bool {
        self.request.status == RequestStatus::Pending
    }
}

struct FigureChange {
    label: &'static str,
    before: String,
    after: String,
}

fn changes(from: Option<&ListedPlan>, to: Option<&ListedPlan>) -> Vec<FigureChange> {
    let (Some(from), Some(to)) = (from, to) else { return Vec::new() };
    let all = figures().map(|(label, value)| FigureChange { label, before: value(from), after: value(to) });
    all.filter(|one| one.before != one.after).collect()
}

/// Computes the effect of the requested plan. A request can be decided without it.
async fn move_answer(
    app: &AppState,
    page: &PageContext,
    request: &LimitRequest,
    tenant: Option<&Tenant>,
) -> Result<MoveAnswer, ActionError> {
    let Some(tenant) = tenant.filter(|_| request.status == RequestStatus::Pending) else {
        return Ok(MoveAnswer::Settled);
    };
    // As in an approval: a tenant that has a larger plan in the meantime keeps it.
    if request.custom_plan.is_none() && tenant.tier >= request.requested_tier {
        return Ok(MoveAnswer::Stays);
    }
    match effect_on_tenant(app, &page.actor, tenant.id, request.plan()).await {
        Ok(answer) => Ok(MoveAnswer::Known(MoveView::of(&answer))),
        // A custom plan that was deleted.
        Err(ActionError::NotFound(_)) => {
            Ok(MoveAnswer::Unknown("The requested plan does not exist any more."))
        }
        Err(ActionError::TooWide(_)) => {
            Ok(MoveAnswer::Unknown("The usage of the tenant is too large to compute for this plan."))
        }
        Err(error) => unanswered(&error).map(MoveAnswer::Unknown).ok_or(error),
    }
}

async fn request_page(
    app: &AppState,
    page: &PageContext,
    id: LimitRequestId,
    note: &str,
) -> Result<LimitRequestPage, ActionError> {
    let request = limit_requests::get(app, id).await?;
    let tenant = match tenants::get(app, request.tenant).await {
        Ok(tenant) => Some(tenant),
        Err(ActionError::NotFound(_)) => None,
        Err(error) => return Err(error),
    };
    let all = plans::plans(app, &page.actor).await?;
    let plan_names = PlanNames::read(app).await?;
    let own = tenant.as_ref().map(Tenant::plan);
    let users = [request.user].into_iter().chain(request.reviewer).collect();
    let names = NamesOfAll::read(app, Vec::new(), users).await?;
    let listed = |wanted: Option<TenantPlan>| all.iter().find(|plan| Some(plan.of) == wanted);
    Ok(LimitRequestPage {
        frame: page.frame(PageSection::LimitRequests),
        problems: Problems::default(),
        author: names.user(request.user),
        reviewer: request.reviewer.map(|user| names.user(user)),
        from: own.map(|plan| plan_names.of(plan).to_owned()).unwrap_or_default(),
        to: plan_names.of(request.plan()).to_owned(),
        badge: status_badge(request.status),
        reason: paragraphs(&request.reason),
        figures: changes(listed(own), listed(Some(request.plan()))),
        what_if: move_answer(app, page, &request, tenant.as_ref()).await?,
        note: note.to_owned(),
        tenant,
        request,
    })
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<LimitRequestId>,
) -> PageResult {
    Ok(ok(&request_page(&app, &page, id, "").await?))
}

async fn review(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<LimitRequestId>,
    fields: FieldList,
) -> PageResult {
    let decided = async {
        let (verdict, done) = match fields.one("status") {
            "approved" => (Verdict::Approved, Done::RequestApproved),
            "rejected" => (Verdict::Rejected, Done::RequestRejected),
            _ => return Err(ActionError::field("status", "approve or reject the request")),
        };
        // For a decided request, the action reports the error; a note would not help.
        let is_pending = limit_requests::get(&app, id).await?.status == RequestStatus::Pending;
        if verdict == Verdict::Rejected && is_pending && fields.filled("note").is_none() {
            return Err(ActionError::field("note", "give a reason, so that the tenant knows what to change"));
        }
        limit_requests::review(&app, &page.actor, id, verdict, fields.filled("note")).await?;
        Ok(done)
    };
    match decided.await {
        Ok(done) => Ok(page.done(LIST, done)),
        Err(error) => {
            let shown = request_page(&app, &page, id, fields.one("note")).await?;
            rejected(error, LABELS, |problems| LimitRequestPage { problems, ..shown })
        }
    }
}

#[cfg(test)]
mod tests;
