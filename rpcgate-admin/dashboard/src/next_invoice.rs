//! The preliminary invoice of the current month, on the sheet of an issued one. It states that it is not an invoice.

use super::context::{PageContext, PageResult};
use super::filters;
use super::frame::{Frame, PageSection};
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::billing;
use rpcgate_management::app_state::AppState;
use rpcgate_management::document::sheet::{InvoiceSheet, next_sheet};
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/billing/next", get(show))
}

#[derive(Template)]
#[template(path = "next_invoice.html")]
struct NextInvoicePage {
    frame: Frame,
    month: String,
    sheet: InvoiceSheet,
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    let tenant = page.permitted(Permission::ReadBilling)?;
    let next = billing::next_invoice(&app, &page.actor, tenant).await?;
    Ok(ok(&NextInvoicePage {
        frame: page.frame(PageSection::Billing),
        month: next.month.to_string(),
        sheet: next_sheet(next),
    }))
}

#[cfg(test)]
mod tests;
