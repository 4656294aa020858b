//! The audit.

use super::list::{ListPage, Page, Part};
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

/// Something that was done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct EntryJson {
    /// When.
    #[schema(value_type = String, format = "date-time")]
    pub at: Moment,
    /// Who did it, if it is known.
    #[schema(format = "uuid")]
    pub user_id: Option<String>,
    /// What was done.
    #[schema(example = "session.opened")]
    pub action: String,
    /// What it was done to: an identifier, or empty.
    pub subject: String,
    /// The client's address, or empty.
    #[schema(example = "192.0.2.1")]
    pub address: String,
    /// Anything else that is worth knowing, or empty.
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

/// Read the audit
///
/// Who did what, the newest first: owners and admins read of everybody in their tenant, others of themselves.
#[utoipa::path(get, path = "/auth/audit", operation_id = "list_audit", tag = "account",
    params(Page),
    responses((status = 200, description = "The newest entries.", body = [EntryJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    part: Part,
) -> Result<ListPage<EntryJson>, ActionError> {
    let before = part.read(|cursor| {
        let (at, number) = cursor.split_once('-')?;
        Some((Time::from_micros(at.parse().ok()?), number.parse().ok()?))
    })?;
    let entries = action::audit::list(&app, &session, before, part.limit).await?;
    let last = entries.last().filter(|_| entries.len() as u64 == part.limit);
    let next = last.map(|(number, last)| format!("{}-{number}", last.at.micros()));
    Ok(part.told(entries, next).map(|(_, entry)| EntryJson::from(entry)))
}

#[cfg(test)]
mod tests;
