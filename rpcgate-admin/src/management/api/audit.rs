//! The audit log.

use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use crate::management::access::AuthSession;
use crate::management::action;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::Audit;
use axum::extract::State;
use rpcgate_core::clock::Time;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// An audit entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct EntryJson {
    /// When it happened.
    #[schema(value_type = String, format = "date-time")]
    pub at: Moment,
    /// The user who did it, if known.
    #[schema(format = "uuid")]
    pub user_id: Option<String>,
    /// What was done.
    #[schema(example = "session.opened")]
    pub action: String,
    /// The identifier of what it was done to, or empty.
    pub subject: String,
    /// The client's address, or empty.
    #[schema(example = "192.0.2.1")]
    pub address: String,
    /// Further details, or empty.
    pub detail: String,
}

impl From<Audit> for EntryJson {
    fn from(entry: Audit) -> Self {
        EntryJson {
            at: entry.at.into(),
            user_id: entry.user.map(|id| id.to_string()),
            action: entry.action,
            subject: entry.subject,
            address: entry.address,
            detail: entry.detail,
        }
    }
}

/// Read the audit log
///
/// The newest entries first: owners and admins see the entries of all members of their tenant, others their own.
#[utoipa::path(get, path = "/auth/audit", operation_id = "list_audit", tag = "account",
    params(Page),
    responses((status = 200, description = "The newest entries.", body = [EntryJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    page: PageRequest,
) -> Result<ListPage<EntryJson>, ActionError> {
    let before = page.read(|cursor| {
        let (at, number) = cursor.split_once('-')?;
        Some((Time::from_micros(at.parse().ok()?), number.parse().ok()?))
    })?;
    let entries = action::audit::list(&app, &session, before, page.limit).await?;
    let last = entries.last().filter(|_| entries.len() as u64 == page.limit);
    let next = last.map(|(number, last)| format!("{}-{number}", last.at.micros()));
    Ok(page.page(entries, next).map(|(_, entry)| EntryJson::from(entry)))
}

#[cfg(test)]
mod tests;
