//! The audit log of all tenants.

use super::names::NamesOfAll;
use crate::audit::{DAY, IN_FILE, day};
use crate::context::{OperatorPage, PageResult};
use crate::form::{FieldList, QueryFields};
use crate::frame::{Frame, PageSection};
use crate::parts::PageLinks;
use crate::problems::{Labels, Problems};
use crate::view::{ok, rejected};
use crate::{cursor, filters};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_management::action::operator::audit;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::get;
use rpcgate_management::shape::audit::csv_file;
use rpcgate_management::shape::list::time_cursor;
use rpcgate_store::{Audit, AuditFilter, UserId};
use std::sync::Arc;

const LABELS: Labels =
    &[("from", "the begin"), ("to", "the end"), ("user", "the user"), ("tenant", "the tenant")];

const SHOWN: u64 = 50;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/operator/audit", get(list)).route("/operator/audit.csv", get(file))
}

#[derive(Template)]
#[template(path = "operator_audit.html")]
struct WholeAuditPage {
    frame: Frame,
    problems: Problems,
    rows: Vec<EntryRow>,
    action: String,
    tenant: String,
    user: String,
    subject: String,
    from: String,
    to: String,
    /// The filters, as a query string.
    query: String,
    links: PageLinks,
}

struct EntryRow {
    at: Time,
    who: String,
    tenant: Option<(TenantId, String)>,
    action: String,
    subject: String,
    detail: String,
    address: String,
}

fn filter_of(fields: &FieldList) -> Result<(Option<TenantId>, AuditFilter), ActionError> {
    let tenant = fields.filled("tenant").map(str::parse::<TenantId>).transpose();
    let tenant = tenant.map_err(|_| ActionError::field("tenant", "enter the identifier of a tenant"))?;
    let user = fields.filled("user").map(str::parse::<UserId>).transpose();
    let filter = AuditFilter {
        user: user.map_err(|_| ActionError::field("user", "enter the identifier of a user"))?,
        action: fields.filled("action").map(str::to_owned),
        subject: fields.filled("subject").map(str::to_owned),
        from: day(fields, "from")?,
        until: day(fields, "to")?.map(|at| at.plus(DAY)),
    };
    Ok((tenant, filter))
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let rest = query.query_without(&[cursor::BEFORE, "done"]);
    let mut shown = WholeAuditPage {
        frame: page.frame(PageSection::OperatorAudit),
        problems: Problems::default(),
        rows: Vec::new(),
        action: query.one("action").to_owned(),
        tenant: query.one("tenant").to_owned(),
        user: query.one("user").to_owned(),
        subject: query.one("subject").to_owned(),
        from: query.one("from").to_owned(),
        to: query.one("to").to_owned(),
        query: rest.clone(),
        links: PageLinks::default(),
    };
    let found = async {
        let before = cursor::read(query.one(cursor::BEFORE))?;
        let (tenant, filter) = filter_of(&query)?;
        audit::list(&app, tenant, &filter, before, SHOWN).await
    };
    match found.await {
        Ok(entries) => {
            let last = entries.last().filter(|_| entries.len() as u64 == SHOWN);
            shown.links.older = last
                .map(|(number, last)| cursor::older("operator/audit", &rest, &time_cursor(last.at, number)));
            let tenants = entries.iter().filter_map(|(_, entry)| entry.tenant).collect();
            let users = entries.iter().filter_map(|(_, entry)| entry.user).collect();
            let names = NamesOfAll::read(&app, tenants, users).await?;
            let row = |(_, entry): (i64, Audit)| EntryRow {
                who: names.who(&entry),
                tenant: entry.tenant.map(|tenant| (tenant, names.tenant(tenant))),
                at: entry.at,
                action: entry.action,
                subject: entry.subject,
                detail: entry.detail,
                address: entry.address,
            };
            shown.rows = entries.into_iter().map(row).collect();
            Ok(ok(&shown))
        }
        Err(error) => rejected(error, LABELS, |problems| WholeAuditPage { problems, ..shown }),
    }
}

/// Returns the newest entries that match the filters, as a file.
async fn file(
    State(app): State<Arc<AppState>>,
    OperatorPage(_): OperatorPage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let (tenant, filter) = filter_of(&query)?;
    Ok(csv_file(audit::list(&app, tenant, &filter, None, IN_FILE).await?))
}

#[cfg(test)]
mod tests;
