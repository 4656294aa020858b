//! The usage explorer: every filter and grouping of `GET /usage`, in an address that can be shared.

mod choice;
mod names;
mod result;
mod rows;
mod sort;

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::QueryFields;
use super::frame::{Frame, PageSection};
use super::parts::Choice;
use super::problems::{Labels, Problems};
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use choice::UsageChoice;
use names::UsageNames;
use result::UsageResult;
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::usage::{Group, Period};
use rpcgate_management::action::chains::chains;
use rpcgate_management::action::projects;
use rpcgate_management::action::usage::explore::{Explored, explore};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::get;
use rpcgate_management::shape;
use rpcgate_store::KeyName;
use std::sync::Arc;

const LABELS: Labels = &[
    ("project_id", "the project"),
    ("period", "the period"),
    ("from", "the begin"),
    ("to", "the end"),
    ("group_by", "the grouping"),
    ("chain", "the chain"),
    ("method", "the method"),
    ("key", "the API key"),
    ("transport", "the transport"),
];

/// The maximum number of keys to choose from: the newest.
const MAX_KEYS: u64 = 100;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/usage", get(show)).route("/usage.csv", get(csv))
}

#[derive(Template)]
#[template(path = "usage.html")]
struct UsagePage {
    frame: Frame,
    problems: Problems,
    choice: UsageChoice,
    projects: Vec<Choice>,
    periods: Vec<Choice>,
    chains: Vec<Choice>,
    keys: Vec<Choice>,
    transports: Vec<Choice>,
    groups: Vec<Choice>,
    /// The result; `None` if the query was refused.
    result: Option<UsageResult>,
    api_call: String,
}

async fn show(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let tenant = page.tenant()?;
    let choice = UsageChoice::of(&fields);
    let params = choice.parameters();
    let found = explore(&app, tenant, &params.borrowed(), choice.dimension()).await;
    let frame = page.frame(PageSection::Usage);
    let names = names(&app, &page, tenant, &choice, found.as_ref().ok()).await?;
    let retention = &app.settings.config.retention;
    let result = |explored: Explored| UsageResult::of(&explored, &choice, &names, retention);
    let (result, refused) = match found {
        Ok(explored) => (Some(result(explored)), None),
        Err(error) => (None, Some(error)),
    };
    let form = UsagePage {
        problems: Problems::default(),
        projects: with_all(
            "All projects",
            names.projects.iter().map(|(id, name)| Choice::new(id.to_string(), name)),
        ),
        periods: periods(),
        chains: with_all("All chains", chains_of(&app, &choice).await?.into_iter()),
        keys: with_all(
            "All keys",
            names.choosable().map(|key| Choice::new(key.id.to_string(), names.key(key.id))),
        ),
        transports: with_all("All", ["http", "ws", "grpc"].into_iter().map(|name| Choice::new(name, name))),
        groups: Group::ALL.map(|group| Choice::new(group.name(), group.name())).into(),
        api_call: format!("{}/api/v1/usage?{}", app.settings.api_url, params.query()),
        result,
        choice,
        frame,
    };
    match refused {
        None => Ok(ok(&form)),
        Some(error) => rejected(error, LABELS, |problems| UsagePage { problems, ..form }),
    }
}

/// Returns the rows as CSV, for the same parameters.
async fn csv(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(fields): QueryFields,
) -> Result<Response, ActionError> {
    let params = UsageChoice::of(&fields).parameters();
    let found = rpcgate_management::action::usage::usage(&app, page.tenant()?, &params.borrowed()).await?;
    Ok(shape::usage::table(&found))
}

/// Looks up the names of the choices and the results.
async fn names(
    app: &AppState,
    page: &PageContext,
    tenant: TenantId,
    choice: &UsageChoice,
    found: Option<&Explored>,
) -> Result<UsageNames, ActionError> {
    let project: Option<ProjectId> = choice.project_id.parse().ok();
    let mut keys = app.store.newest_key_names(tenant, project, MAX_KEYS).await?;
    let choosable = keys.len();
    let mut missing = found.map(|found| choice.keys_shown(&found.usage.view)).unwrap_or_default();
    missing.extend(choice.key.parse::<KeyId>());
    missing.retain(|key| keys.iter().all(|known: &KeyName| known.id != *key));
    keys.extend(app.store.key_names(tenant, &missing).await?);
    let projects = projects::list(app, &page.actor, tenant).await?;
    let projects = projects.into_iter().map(|project| (project.id, project.name)).collect();
    Ok(UsageNames { projects, keys, choosable })
}

fn with_all(all: &str, choices: impl Iterator<Item = Choice>) -> Vec<Choice> {
    std::iter::once(Choice::new("", all)).chain(choices).collect()
}

fn periods() -> Vec<Choice> {
    let label = |period| match period {
        Period::Day => "24 hours",
        Period::Week => "7 days",
        Period::ThirtyDays => "30 days",
        Period::Today => "Today, UTC",
        Period::Month => "This month, UTC",
    };
    let named = Period::ALL.into_iter().map(|period| Choice::new(period.name(), label(period)));
    named.chain([Choice::new("", "From and to")]).collect()
}

/// Returns the enabled chains of the catalog, and the selected one.
async fn chains_of(app: &AppState, choice: &UsageChoice) -> Result<Vec<Choice>, ActionError> {
    let names = chains(app).await?.into_iter().filter(|entry| entry.enabled);
    let mut names: Vec<_> = names.map(|entry| entry.facts.name.as_str().to_owned()).collect();
    if !choice.chain.is_empty() && !names.contains(&choice.chain) {
        names.push(choice.chain.clone());
    }
    Ok(names.into_iter().map(|name| Choice::new(name.clone(), name)).collect())
}

#[cfg(test)]
mod tests;
