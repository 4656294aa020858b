//! A printable page for clients of the API. It loads no resources and runs no scripts; its only style is inline.

use super::sheet::{InvoiceSheet, SheetFact, iso_day, next_sheet};
use crate::action::billing::NextInvoice;
use crate::action::billing::month::BillingMonth;
use crate::action::invoices::InvoiceState;
use crate::error::ActionError;
use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use ring::digest::{SHA256, digest};
use rpcgate_core::clock::Time;
use rpcgate_store::WholeInvoice;
use std::sync::LazyLock;

const STYLE: &str = include_str!("../../templates/invoice.css");

/// The content security policy: allows only the page's own style, by its digest.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let digest = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).ok()
});

#[derive(Template)]
#[template(path = "invoice.html")]
struct PrintedPage {
    style: &'static str,
    title: String,
    sheet: InvoiceSheet,
}

impl PrintedPage {
    fn new(title: String, sheet: InvoiceSheet) -> Self {
        PrintedPage { style: STYLE, title, sheet }
    }

    fn response(&self) -> Response {
        let mut headers = HeaderMap::new();
        if let Some(policy) = &*POLICY {
            headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
        }
        match self.render() {
            Ok(html) => (headers, Html(html)).into_response(),
            Err(error) => ActionError::Broken(format!("a page cannot be written: {error}")).into_response(),
        }
    }
}

/// Renders an invoice, with its state at `now`.
pub fn invoice(whole: &WholeInvoice, now: Time) -> Response {
    let invoice = &whole.invoice;
    let state = match InvoiceState::of(invoice, now) {
        InvoiceState::Open => "open",
        InvoiceState::Paid => "paid",
        InvoiceState::Overdue => "overdue",
        InvoiceState::Void => "cancelled",
    };
    let facts = vec![
        SheetFact::new("Date", iso_day(invoice.issued_at)),
        SheetFact::new("Period", format!("{} (UTC)", BillingMonth::of(invoice.period.start))),
        SheetFact::new("Due", iso_day(invoice.due_at)),
        SheetFact::new("Status", state),
    ];
    PrintedPage::new(format!("Invoice {}", invoice.number), InvoiceSheet::of(whole, facts)).response()
}

/// Renders the preliminary invoice of the current month.
pub fn next_invoice(next: NextInvoice) -> Response {
    PrintedPage::new(format!("Preliminary, {}", next.month), next_sheet(next)).response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_cannot_end_its_element() {
        assert!(!STYLE.contains('<'));
        assert!(POLICY.is_some());
    }
}
