//! Routes of the audit log.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, HeaderMap, HeaderValue, VARY};
use rpcgate_core::clock::Time;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Query;
use rpcgate_management::shape::audit::{EntryJson, table};
use rpcgate_management::shape::csv;
use rpcgate_management::shape::list::{Page, PageRequest};
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::{Audit, AuditFilter};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The filter of entries: an entry must match all given parameters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// The action: a code such as `key.created`, or its first word, `key`.
    pub action: Option<String>,
    /// The user who acted.
    #[param(format = "uuid")]
    pub user_id: Option<String>,
    /// The identifier of the affected object.
    pub subject: Option<String>,
    /// The start of the time range.
    #[param(value_type = Option<String>, format = DateTime)]
    pub from: Option<Moment>,
    /// The end of the time range, exclusive.
    #[param(value_type = Option<String>, format = DateTime)]
    pub to: Option<Moment>,
}

impl AuditQuery {
    pub(super) fn filter(self) -> Result<AuditFilter, ActionError> {
        let AuditQuery { action, user_id, subject, from, to } = self;
        let user = user_id.map(|id| id.parse()).transpose();
        let user = user.map_err(|_| ActionError::named("user_id", "must be a UUID"))?;
        let from = from.map(|Moment(time)| time);
        let until = to.map(|Moment(time)| time);
        Ok(AuditFilter { user, action, subject, from, until })
    }
}

/// Parses the cursor of a list of entries.
pub(super) fn before(page: &PageRequest) -> Result<Option<(Time, i64)>, ActionError> {
    page.read(|cursor| {
        let (at, number) = cursor.split_once('-')?;
        Some((Time::from_micros(at.parse().ok()?), number.parse().ok()?))
    })
}

/// Returns the entries in the format that the client prefers.
pub(super) fn shown(page: PageRequest, entries: Vec<(i64, Audit)>, headers: &HeaderMap) -> Response {
    let last = entries.last().filter(|_| entries.len() as u64 == page.limit);
    let next = last.map(|(number, last)| format!("{}-{number}", last.at.micros()));
    let page = page.page(entries, next).map(|(_, entry)| EntryJson::from(entry));
    let mut answer = if csv::is_requested(headers) { table(page) } else { page.into_response() };
    answer.headers_mut().append(VARY, HeaderValue::from(ACCEPT));
    answer
}

/// Read the audit log
///
/// Newest first. Owners and admins see the entries of all members of their tenant, others see their own. With `Accept:
/// text/csv` the page is a CSV file.
#[utoipa::path(get, path = "/auth/audit", operation_id = "list_audit", tag = "account",
    params(AuditQuery, Page),
    responses((status = 200, description = "The newest entries.",
        content((Vec<EntryJson> = "application/json"), (String = "text/csv")))))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    page: PageRequest,
    Query(query): Query<AuditQuery>,
    headers: HeaderMap,
) -> Result<Response, ActionError> {
    let filter = query.filter()?;
    let before = before(&page)?;
    let entries = action::audit::list(&app, &actor, &filter, before, page.limit).await?;
    Ok(shown(page, entries, &headers))
}

#[cfg(test)]
mod tests;
