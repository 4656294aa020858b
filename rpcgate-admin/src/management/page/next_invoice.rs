//! The preliminary invoice of the current month, on the sheet of an issued one. It states that it is not an invoice.

use super::context::{PageContext, PageResult};
use super::filters;
use super::frame::{Frame, PageSection};
use super::view::ok;
use crate::management::action::billing;
use crate::management::app_state::AppState;
use crate::management::document::sheet::{InvoiceSheet, next_sheet};
use crate::management::identity::role::Permission;
use crate::management::routing::get;
use askama::Template;
use axum::Router;
use axum::extract::State;
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
