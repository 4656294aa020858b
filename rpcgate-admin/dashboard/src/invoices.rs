//! An invoice as a page: in the frame of the pages, and a printable one for clients of the API.

use super::context::{PageContext, PageResult};
use super::filters;
use super::frame::{Frame, PageSection};
use super::problems::Problems;
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::clock::Time;
use rpcgate_management::action::billing::month::BillingMonth;
use rpcgate_management::action::invoices::{self, InvoiceState};
use rpcgate_management::app_state::AppState;
use rpcgate_management::document::sheet::{InvoiceSheet, SheetFact};
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use rpcgate_store::{Invoice, InvoiceNumber, WholeInvoice};
use std::sync::Arc;

/// Returns the tone and the text of an invoice's badge.
pub(super) fn state_badge(invoice: &Invoice, now: Time) -> (&'static str, String) {
    let settled = |word: &str| match invoice.settled_at {
        Some(at) => format!("{word} {}", filters::day_text(at)),
        None => word.to_owned(),
    };
    match InvoiceState::of(invoice, now) {
        InvoiceState::Open => ("info", format!("Open, due {}", filters::day_text(invoice.due_at))),
        InvoiceState::Overdue => ("bad", format!("Overdue since {}", filters::day_text(invoice.due_at))),
        InvoiceState::Paid => ("ok", settled("Paid")),
        InvoiceState::Void => ("", settled("Cancelled")),
    }
}

pub(super) fn framed(whole: &WholeInvoice) -> InvoiceSheet {
    let invoice = &whole.invoice;
    let facts = vec![
        SheetFact::new("Number", invoice.number.to_string()),
        SheetFact::new("Date", filters::day_text(invoice.issued_at)),
        SheetFact::new("Period", format!("{}, UTC", BillingMonth::of(invoice.period.start))),
        SheetFact::new("Due", filters::day_text(invoice.due_at)),
    ];
    InvoiceSheet::of(whole, facts)
}

/// An invoice in the frame, which prints as a sheet.
#[derive(Template)]
#[template(path = "invoice_sheet.html")]
pub(super) struct SheetPage {
    frame: Frame,
    problems: Problems,
    invoice: Invoice,
    sheet: InvoiceSheet,
    badge: (&'static str, String),
    takes_payments: bool,
}

impl SheetPage {
    pub(super) async fn of(
        app: &AppState,
        page: &PageContext,
        number: InvoiceNumber,
    ) -> Result<Self, ActionError> {
        let tenant = page.permitted(Permission::ReadBilling)?;
        let whole = invoices::get(app, &page.actor, tenant, number).await?;
        Ok(SheetPage {
            frame: page.frame(PageSection::Billing),
            problems: Problems::default(),
            sheet: framed(&whole),
            badge: state_badge(&whole.invoice, app.now()),
            takes_payments: app.payments.is_some() && whole.invoice.due_cents() > 0,
            invoice: whole.invoice,
        })
    }

    pub(super) fn problems(self, problems: Problems) -> Self {
        SheetPage { problems, ..self }
    }
}

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/invoices/{number}", get(show))
}

async fn show(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(number): Id<InvoiceNumber>,
) -> PageResult {
    Ok(ok(&SheetPage::of(&app, &page, number).await?))
}
