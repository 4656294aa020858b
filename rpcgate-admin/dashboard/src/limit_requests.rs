//! Requests for another plan, and their outcomes.

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::{FieldList, QueryFields};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::Choice;
use super::plans::label;
use super::problems::{Labels, Problems};
use super::ticket_thread::paragraphs;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::clock::Time;
use rpcgate_management::action::plans::{self, PlanNames, RequestedPlan};
use rpcgate_management::action::{limit_requests, tenants};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_store::RequestStatus;
use std::sync::Arc;

const LABELS: Labels = &[("requested_plan", "the plan"), ("reason", "the reason")];

const REQUEST: &str = "plan/request";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/plan/request", get(show).merge(post(create)))
}

#[derive(Template)]
#[template(path = "plan_request.html")]
struct PlanRequestPage {
    frame: Frame,
    problems: Problems,
    plans: Vec<Choice>,
    requests: Vec<RequestRow>,
    is_pending: bool,
    plan: String,
    reason: String,
}

struct RequestRow {
    plan: String,
    tone: &'static str,
    status: &'static str,
    reason: Vec<Vec<String>>,
    note: Option<String>,
    created_at: Time,
    reviewed_at: Option<Time>,
}

async fn request_page(
    app: &AppState,
    page: &PageContext,
    filled: &FieldList,
) -> Result<PlanRequestPage, ActionError> {
    let tenant = page.permitted(Permission::Read)?;
    let own = tenants::get(app, &page.actor, tenant).await?.plan();
    let names = PlanNames::read(app).await?;
    let others = plans::plans(app, &page.actor).await?.into_iter().filter(|one| one.of != own);
    let requests = limit_requests::list(app, &page.actor).await?;
    let is_pending = requests.iter().any(|one| one.status == RequestStatus::Pending);
    let rows = requests.into_iter().map(|one| {
        let (tone, status) = match one.status {
            RequestStatus::Pending => ("info", "Waiting for our decision"),
            RequestStatus::Approved => ("ok", "Approved"),
            RequestStatus::Rejected => ("bad", "Rejected"),
        };
        RequestRow {
            plan: names.of(one.plan()).to_owned(),
            tone,
            status,
            reason: paragraphs(&one.reason),
            note: one.note,
            created_at: one.created_at,
            reviewed_at: one.reviewed_at,
        }
    });
    Ok(PlanRequestPage {
        frame: page.frame(PageSection::Plan),
        problems: Problems::default(),
        plans: others.map(|one| Choice::new(one.name.clone(), label(&one))).collect(),
        requests: rows.collect(),
        is_pending,
        plan: filled.one("requested_plan").to_owned(),
        reason: filled.one("reason").to_owned(),
    })
}

async fn show(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    Ok(ok(&request_page(&app, &page, &query).await?))
}

async fn create(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    page.permitted(Permission::RequestLimits)?;
    let plan = RequestedPlan::of(fields.one("requested_plan").to_owned());
    match limit_requests::create(&app, &page.actor, &plan, fields.one("reason")).await {
        Ok(_) => Ok(page.done(REQUEST, Done::LimitRequested)),
        Err(error) => {
            let form = request_page(&app, &page, &fields).await?;
            rejected(error, LABELS, |problems| PlanRequestPage { problems, ..form })
        }
    }
}
