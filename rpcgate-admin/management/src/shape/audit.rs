//! JSON shapes of the audit log, and the log as CSV.

use crate::shape::list::ListPage;
use crate::shape::moment::Moment;
use axum::response::Response;
use rpcgate_store::Audit;
use serde::Serialize;
use utoipa::ToSchema;

/// An audit entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct EntryJson {
    /// The time of the action.
    #[schema(value_type = String, format = "date-time")]
    pub at: Moment,
    /// The tenant that the action affects, if any.
    #[schema(format = "uuid")]
    pub tenant_id: Option<String>,
    /// The user who acted, if known. Members do not see which operator acted.
    #[schema(format = "uuid")]
    pub user_id: Option<String>,
    /// The action.
    #[schema(example = "session.opened")]
    pub action: String,
    /// The identifier of the affected object, or empty.
    pub subject: String,
    /// The client's address; `command line` with the account in brackets for an operator's command; or empty. Members
    /// see no address if an operator acted.
    #[schema(example = "192.0.2.1")]
    pub address: String,
    /// Further details, or empty.
    pub detail: String,
}

impl From<Audit> for EntryJson {
    fn from(entry: Audit) -> Self {
        EntryJson {
            at: entry.at.into(),
            tenant_id: entry.tenant.map(|id| id.to_string()),
            user_id: entry.user.map(|id| id.to_string()),
            action: entry.action,
            subject: entry.subject,
            address: entry.address,
            detail: entry.detail,
        }
    }
}

/// Returns the entries as a CSV file.
pub fn csv_file(entries: Vec<(i64, Audit)>) -> Response {
    table(ListPage::complete(entries).map(|(_, entry)| EntryJson::from(entry)))
}

/// Answers with entries of the audit log as CSV.
pub fn table(page: ListPage<EntryJson>) -> Response {
    let columns = ["at", "tenant_id", "user_id", "action", "subject", "address", "detail"];
    page.csv("audit", columns, |entry| {
        let EntryJson { at, tenant_id, user_id, action, subject, address, detail } = entry;
        let tenant = tenant_id.unwrap_or_default();
        let user = user_id.unwrap_or_default();
        [at.to_string(), tenant, user, action, subject, address, detail]
    })
}
