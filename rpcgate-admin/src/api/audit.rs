//! The audit.

use super::moment::Moment;
use crate::access::Session;
use crate::action;
use crate::error::ActionError;
use crate::extract::Asked;
use crate::house::House;
use crate::store::Audit;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Something that was done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct Entry {
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

impl From<Audit> for Entry {
    fn from(entry: Audit) -> Self {
        Entry {
            at: entry.at.into(),
            user_id: entry.user.map(|id| id.to_string()),
            action: entry.action,
            subject: entry.subject,
            address: entry.address,
            detail: entry.detail,
        }
    }
}

/// How much is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Query {
    limit: Option<u64>,
}

/// Read the audit
///
/// Who did what, the newest first: owners and admins read of everybody in their tenant, others of themselves.
#[utoipa::path(get, path = "/auth/audit", operation_id = "list_audit", tag = "account",
    params(("limit" = Option<u64>, Query, minimum = 1, maximum = 1000,
        description = "The most entries, 100 if nothing is said.")),
    responses((status = 200, description = "The newest entries.", body = [Entry])))]
pub async fn list(
    State(house): State<Arc<House>>,
    session: Session,
    Asked(Query { limit }): Asked<Query>,
) -> Result<Json<Vec<Entry>>, ActionError> {
    let entries = action::audit::list(&house, &session, limit).await?;
    Ok(Json(entries.into_iter().map(Entry::from).collect()))
}

#[cfg(test)]
mod tests;
