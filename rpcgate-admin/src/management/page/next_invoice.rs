//! The invoice of the current month as it would be if the month ended now, on the sheet of an issued one. It says of itself
//! that it is none.

use super::context::{PageContext, PageResult};
use super::filters;
use super::frame::{Frame, Place};
use super::printed::PrintedPage;
use super::sheet::{InvoiceSheet, SheetFact, rows, sums_to};
use super::view::ok;
use crate::management::action::billing::{self, NextInvoice};
use crate::management::app_state::AppState;
use crate::management::identity::role::Permission;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

/// What stands above everything else on the sheet.
const WARNING: &str = "Preliminary: this is not an invoice. It shows what the invoice of this month would say if the month ended \
                       now. Nothing is to be paid on it.";

/// What stands below a month that nothing is owed for.
const UNBILLED: &str = "Nothing is owed so far. If it stays so, there will be no invoice for this month.";

/// The routes of this page.
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

fn sheet(next: NextInvoice) -> InvoiceSheet {
    let facts = vec![
        SheetFact::new("Number", "None, preliminary"),
        SheetFact::new("As of", filters::minute_text(next.until)),
        SheetFact::new("Period", format!("{}, UTC", next.month)),
        SheetFact::new("Due", "Nothing yet"),
    ];
    InvoiceSheet {
        warning: Some(WARNING),
        note: (!next.is_issued()).then(|| UNBILLED.to_owned()),
        lines: rows(&next.lines, next.month),
        sums: sums_to("Total so far in USD", &next.amounts),
        seller: next.seller,
        customer: next.customer,
        customer_address: next.customer_address,
        customer_tax_id: next.customer_tax_id,
        facts,
    }
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    let tenant = page.permitted(Permission::ReadBilling)?;
    let next = billing::next_invoice(&app, &page.actor, tenant).await?;
    Ok(ok(&NextInvoicePage {
        frame: page.frame(Place::Billing),
        month: next.month.to_string(),
        sheet: sheet(next),
    }))
}

/// The same as a page made for printing.
pub(crate) fn page(next: NextInvoice) -> Response {
    PrintedPage::new(format!("Preliminary, {}", next.month), sheet(next)).response()
}

#[cfg(test)]
mod tests;
