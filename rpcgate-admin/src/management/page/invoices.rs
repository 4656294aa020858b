//! An invoice as a page: in the frame of the pages, and for clients of the API as one made for printing, which loads
//! nothing and runs nothing: its only style is part of it.

use super::context::{PageContext, PageResult};
use super::filters;
use super::frame::{Frame, Place};
use super::problems::Problems;
use super::view::{ok, shown};
use crate::management::action::billing::month::BillingMonth;
use crate::management::action::invoices::{self, InvoiceState};
use crate::management::api::moment::Moment;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Id;
use crate::management::identity::role::Permission;
use crate::store::{Invoice, InvoiceLine, InvoiceNumber, InvoiceSeller, LineKind, WholeInvoice};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use http::{HeaderMap, StatusCode};
use ring::digest::{SHA256, digest};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Amount;
use std::sync::{Arc, LazyLock};

const STYLE: &str = include_str!("../../../templates/invoice.css");

/// Allows the page's own style, which its digest identifies, and nothing else.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let digest = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).ok()
});

#[derive(Template)]
#[template(path = "invoice.html")]
struct InvoicePage<'a> {
    style: &'static str,
    number: String,
    seller: &'a InvoiceSeller,
    customer: &'a str,
    date: String,
    period: BillingMonth,
    due: String,
    status: &'static str,
    lines: Vec<SheetLine>,
    sums: Vec<SheetSum>,
    note: Option<&'a str>,
}

/// A line of an invoice, as text.
pub(super) struct SheetLine {
    pub(super) item: String,
    pub(super) quantity: String,
    pub(super) price: String,
    pub(super) amount: String,
}

/// A sum of an invoice, as text.
pub(super) struct SheetSum {
    pub(super) name: String,
    pub(super) amount: String,
}

/// An exact amount in US dollars without needless zeros: at least two decimals, at most twelve.
fn dollars(amount: Amount) -> String {
    let text = amount.to_string();
    let whole = text.find('.').unwrap_or(text.len());
    let used = text.trim_end_matches('0').len().max(whole + 3).min(text.len());
    text[..used].to_owned()
}

/// An amount in cents as US dollars.
fn cents(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// The UTC day of a time, as in `2026-12-31`.
fn day(at: Time) -> String {
    Moment(at).to_string().chars().take(10).collect()
}

/// A line, on the invoice of `period`.
pub(super) fn row(line: &InvoiceLine, period: BillingMonth) -> SheetLine {
    let month = BillingMonth::of(line.month);
    let late = if month == period { String::new() } else { format!(", {month}") };
    let plan = line.custom_plan.as_deref().unwrap_or(line.tier.name());
    let (item, quantity) = match line.kind {
        LineKind::Plan => (format!("Plan {plan}{late}"), format!("{} s of {}", line.units, month.seconds())),
        LineKind::Usage if line.chain.is_empty() => {
            (format!("Compute Units, plan {plan}{late}"), line.units.to_string())
        }
        LineKind::Usage => {
            (format!("Compute Units on {}, plan {plan}{late}", line.chain), line.units.to_string())
        }
    };
    SheetLine { item, quantity, price: dollars(Amount(line.price.0.into())), amount: dollars(line.amount) }
}

/// The sums below the lines.
pub(super) fn sums(whole: &WholeInvoice) -> Vec<SheetSum> {
    let sum = |name: &str, amount: String| SheetSum { name: name.to_owned(), amount };
    let (invoice, amounts) = (&whole.invoice, &whole.invoice.amounts);
    let mut sums = Vec::new();
    if amounts.tax_basis_points > 0 {
        let (percent, rest) = (amounts.tax_basis_points / 100, amounts.tax_basis_points % 100);
        let rate = if rest == 0 { percent.to_string() } else { format!("{percent}.{rest:02}") };
        sums.push(sum("Subtotal", cents(amounts.subtotal)));
        sums.push(sum(&format!("{} {rate} %", amounts.tax_name), cents(amounts.tax)));
    }
    sums.push(sum("Total in USD", cents(amounts.total)));
    for note in &whole.credit_notes {
        sums.push(sum(
            &format!("Credit note {} of {}", note.number, day(note.issued_at)),
            format!("-{}", cents(note.cents)),
        ));
    }
    if invoice.due_cents() != amounts.total {
        sums.push(sum("To be paid in USD", cents(invoice.due_cents())));
    }
    sums
}

/// The state of an invoice: the tone and the words of its badge.
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

/// An invoice in the frame, which prints as a sheet.
#[derive(Template)]
#[template(path = "invoice_sheet.html")]
pub(super) struct SheetPage {
    frame: Frame,
    problems: Problems,
    whole: WholeInvoice,
    period: String,
    lines: Vec<SheetLine>,
    sums: Vec<SheetSum>,
    badge: (&'static str, String),
    takes_payments: bool,
}

impl SheetPage {
    /// An invoice of the user's tenant.
    pub(super) async fn of(
        app: &AppState,
        page: &PageContext,
        number: InvoiceNumber,
    ) -> Result<Self, ActionError> {
        let tenant = page.permitted(Permission::ReadBilling)?;
        let whole = invoices::get(app, &page.actor, tenant, number).await?;
        let period = BillingMonth::of(whole.invoice.period.start);
        Ok(SheetPage {
            frame: page.frame(Place::Billing),
            problems: Problems::default(),
            period: period.to_string(),
            lines: whole.lines.iter().map(|line| row(line, period)).collect(),
            sums: sums(&whole),
            badge: state_badge(&whole.invoice, app.now()),
            takes_payments: app.payments.is_some() && whole.invoice.due_cents() > 0,
            whole,
        })
    }

    /// The same with what was wrong.
    pub(super) fn problems(self, problems: Problems) -> Self {
        SheetPage { problems, ..self }
    }
}

/// The routes of this page.
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

/// The page of an invoice, with its state at `now`.
pub(crate) fn page(whole: &WholeInvoice, now: Time) -> Response {
    let invoice = &whole.invoice;
    let period = BillingMonth::of(invoice.period.start);
    let page = InvoicePage {
        style: STYLE,
        number: invoice.number.to_string(),
        seller: &invoice.seller,
        customer: &invoice.customer,
        date: day(invoice.issued_at),
        period,
        due: day(invoice.due_at),
        status: match InvoiceState::of(invoice, now) {
            InvoiceState::Open => "open",
            InvoiceState::Paid => "paid",
            InvoiceState::Overdue => "overdue",
            InvoiceState::Void => "cancelled",
        },
        lines: whole.lines.iter().map(|line| row(line, period)).collect(),
        sums: sums(whole),
        note: invoice.note.as_deref(),
    };
    let mut headers = HeaderMap::new();
    if let Some(policy) = &*POLICY {
        headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
    }
    (headers, shown(StatusCode::OK, &page)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_two_decimals_or_as_many_as_they_need() {
        for (amount, text) in [
            (0, "0.00"),
            (1, "0.000000000001"),
            (1_000_000_000, "0.001"),
            (1_500_000_000_000, "1.50"),
            (10_000_000_000_000, "10.00"),
            (123_456_000_000_000, "123.456"),
        ] {
            assert_eq!(dollars(Amount(amount)), text);
        }
        assert_eq!((cents(0), cents(1_205)), ("0.00".into(), "12.05".into()));
    }

    #[test]
    fn the_style_cannot_end_its_element() {
        assert!(!STYLE.contains('<'));
        assert!(POLICY.is_some());
    }
}
