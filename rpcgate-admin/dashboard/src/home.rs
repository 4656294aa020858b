//! The first page: the first steps of a new member, or the overview of the tenant.

mod alert;
mod first_steps;
mod overview;

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::QueryFields;
use super::frame::{Frame, PageSection};
use super::notifications::Unread;
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use first_steps::StepList;
use overview::OverviewView;
use rpcgate_core::usage::Period;
use rpcgate_management::action::chains::chains;
use rpcgate_management::action::overview::first_run::{FirstRun, first_run};
use rpcgate_management::action::overview::{overview, overview_without_usage};
use rpcgate_management::action::usage::if_readable;
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/", get(show))
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    unread: Unread,
    view: OverviewView,
}

#[derive(Template)]
#[template(path = "first_steps.html")]
struct FirstStepsPage {
    frame: Frame,
    unread: Unread,
    name: String,
    steps: StepList,
    has_factor: bool,
    chains: Vec<&'static str>,
}

/// Shows the first page; operators have their own.
async fn show(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let user = &page.actor.user;
    if user.is_operator() {
        let query = fields.query_without(&[]);
        return Ok(page.to(&if query.is_empty() {
            "operator".to_owned()
        } else {
            format!("operator?{query}")
        }));
    }
    let unread = Unread::of(&app, &page.actor).await?;
    // The first call is looked up in usage. While usage cannot be read, the overview links to the keys, and further
    // queries would only add delay.
    let first_run = match unread.is_complete {
        true => if_readable(first_run(&app, &page.actor).await)?,
        false => None,
    };
    let is_use_readable = first_run.is_some();
    let call = match first_run.unwrap_or(FirstRun::Over) {
        FirstRun::Steps(steps) => {
            let served = chains(&app).await?.into_iter().filter(|entry| entry.served);
            return Ok(ok(&FirstStepsPage {
                frame: page.frame(PageSection::Overview),
                unread,
                name: page.actor.user.name.clone(),
                steps: StepList::of(*steps, &page.actor.user.email),
                has_factor: page.session.has_second_factor,
                chains: served.map(|entry| entry.facts.name.as_str()).collect(),
            }));
        }
        FirstRun::FirstCall(call) => Some(call),
        FirstRun::Over => None,
    };
    // An unknown period becomes the default, because users do not write the parameter by hand.
    let period = fields.one("period").parse().unwrap_or(Period::Day);
    let found = if is_use_readable {
        overview(&app, &page.actor, period).await?
    } else {
        overview_without_usage(&app, &page.actor).await?
    };
    let frame = page.frame(PageSection::Overview);
    let view = OverviewView::of(&found, period, call, &frame);
    Ok(ok(&OverviewPage { frame, unread, view }))
}

#[cfg(test)]
mod tests;
