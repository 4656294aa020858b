//! An invoice of any tenant, which operators settle, cancel or reduce.

use crate::confirm::ConfirmQuestion;
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters;
use crate::filters::grouped;
use crate::form::FieldList;
use crate::frame::{Frame, PageSection};
use crate::invoices::{framed, state_badge};
use crate::outcome::Done;
use crate::problems::{Labels, Problems};
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::operator::invoices;
use rpcgate_management::app_state::AppState;
use rpcgate_management::document::sheet::InvoiceSheet;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{Invoice, InvoiceNumber, InvoiceStatus, WholeInvoice};
use std::sync::Arc;

const LABELS: Labels = &[
    ("note", "the note"),
    ("act", "the settlement"),
    ("cents", "the amount"),
    ("amount", "the amount"),
    ("reason", "the reason"),
];

/// The field with the credited amount at the time of the question.
const CREDITED: &str = "credited";

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/invoices/{number}", get(show))
        .route("/operator/invoices/{number}/ask", post(ask))
        .route("/operator/invoices/{number}/do", post(act))
}

#[derive(Template)]
#[template(path = "operator_invoice.html")]
struct SettledSheetPage {
    frame: Frame,
    problems: Problems,
    invoice: Invoice,
    sheet: InvoiceSheet,
    badge: (&'static str, String),
    is_open: bool,
    is_void: bool,
    note: String,
    amount: String,
    reason: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Settlement {
    Paid,
    Void,
    /// A credit note, in cents.
    Credit(u64),
}

/// Reads dollars as cents: `1,204.50`.
fn cents_of(text: &str) -> Option<u64> {
    let plain: String = text.chars().filter(|c| !matches!(c, ',' | ' ' | '\u{a0}' | '$')).collect();
    let (whole, rest) = plain.split_once('.').unwrap_or((&plain, ""));
    let is_plain =
        !whole.is_empty() && rest.len() <= 2 && plain.chars().all(|c| c.is_ascii_digit() || c == '.');
    if !is_plain {
        return None;
    }
    let cents: u64 = format!("{rest:0<2}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(cents)
}

fn dollars(cents: u64) -> String {
    format!("${}.{:02}", grouped((cents / 100).into()), cents % 100)
}

impl Settlement {
    fn of(fields: &FieldList) -> Result<Self, ActionError> {
        match fields.one("act") {
            "paid" => Ok(Settlement::Paid),
            "void" => Ok(Settlement::Void),
            "credit" => {
                let cents = cents_of(fields.one("amount")).filter(|cents| *cents > 0);
                let wrong = || ActionError::field("amount", "enter an amount in dollars, such as 120.50");
                if fields.filled("reason").is_none() {
                    return Err(ActionError::field(
                        "reason",
                        "give a reason: it is printed on the credit note",
                    ));
                }
                Ok(Settlement::Credit(cents.ok_or_else(wrong)?))
            }
            _ => Err(ActionError::field("act", "choose what to do with the invoice")),
        }
    }

    fn question(self, page: &PageContext, invoice: &Invoice, fields: &FieldList) -> ConfirmQuestion {
        let number = invoice.number;
        let due = dollars(invoice.due_cents());
        let path = format!("operator/invoices/{number}");
        let customer = &invoice.customer;
        let (question, act) = match self {
            Settlement::Paid => (format!("Mark {number} as paid?"), "Mark as paid"),
            Settlement::Void => (format!("Cancel {number}?"), "Cancel the invoice"),
            Settlement::Credit(cents) => {
                (format!("Credit {} of {number}?", dollars(cents)), "Issue the credit note")
            }
        };
        let asked =
            ConfirmQuestion::new(page.frame(PageSection::OperatorInvoices), question, act, path.clone())
                .crumb("Invoices", "operator/invoices")
                .crumb(number.to_string(), path.clone())
                .target(format!("{path}/do"))
                .keep("Go back");
        let asked = ["act", "note", "amount", "reason"]
            .into_iter()
            .fold(asked, |asked, name| asked.hidden(name, fields.one(name)))
            .hidden(CREDITED, invoice.credited.to_string());
        let asked = match self {
            Settlement::Paid => asked
                .consequence(format!("{due} of {customer} count as received, and the tenant is notified.")),
            Settlement::Void => {
                asked.consequence(format!("{customer} no longer owes the {due} of this invoice."))
            }
            Settlement::Credit(cents) => asked.consequence(format!(
                "{customer} owes {} instead of {due}. You have to refund what was already paid.",
                dollars(invoice.due_cents().saturating_sub(cents)),
            )),
        };
        let asked = if invoice.suspended_at.is_some() {
            asked.consequence(
                "The tenant is suspended because of this invoice: it is served again when it owes nothing.",
            )
        } else {
            asked
        };
        asked.consequence("That cannot be undone.")
    }

    async fn run(
        self,
        app: &AppState,
        page: &PageContext,
        number: InvoiceNumber,
        fields: &FieldList,
    ) -> Result<Done, ActionError> {
        let note = fields.filled("note");
        match self {
            Settlement::Paid => {
                invoices::settle(app, &page.actor, number, InvoiceStatus::Paid, note).await?;
                Ok(Done::InvoicePaid)
            }
            Settlement::Void => {
                invoices::settle(app, &page.actor, number, InvoiceStatus::Void, note).await?;
                Ok(Done::InvoiceCancelled)
            }
            Settlement::Credit(cents) => {
                let seen = fields.number(CREDITED)?;
                let reason = fields.one("reason");
                invoices::credit(app, &page.actor, number, cents, reason, seen).await?;
                Ok(Done::InvoiceCredited)
            }
        }
    }
}

async fn sheet(
    app: &AppState,
    page: &PageContext,
    number: InvoiceNumber,
    filled: &FieldList,
) -> Result<SettledSheetPage, ActionError> {
    let whole: WholeInvoice = invoices::get(app, number).await?;
    Ok(SettledSheetPage {
        frame: page.frame(PageSection::OperatorInvoices),
        problems: Problems::default(),
        sheet: framed(&whole),
        badge: state_badge(&whole.invoice, app.now()),
        is_open: whole.invoice.status == InvoiceStatus::Open,
        is_void: whole.invoice.status == InvoiceStatus::Void,
        note: filled.one("note").to_owned(),
        amount: filled.one("amount").to_owned(),
        reason: filled.one("reason").to_owned(),
        invoice: whole.invoice,
    })
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(number): Id<InvoiceNumber>,
) -> PageResult {
    Ok(ok(&sheet(&app, &page, number, &FieldList::default()).await?))
}

async fn refused(
    app: &AppState,
    page: &PageContext,
    number: InvoiceNumber,
    fields: &FieldList,
    error: ActionError,
) -> PageResult {
    let shown = sheet(app, page, number, fields).await?;
    rejected(error, LABELS, |problems| SettledSheetPage { problems, ..shown })
}

/// Asks for confirmation; changes nothing.
async fn ask(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(number): Id<InvoiceNumber>,
    fields: FieldList,
) -> PageResult {
    let invoice = invoices::get(&app, number).await?.invoice;
    match Settlement::of(&fields) {
        Ok(settlement) => Ok(ok(&settlement.question(&page, &invoice, &fields))),
        Err(error) => refused(&app, &page, number, &fields, error).await,
    }
}

async fn act(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(number): Id<InvoiceNumber>,
    fields: FieldList,
) -> PageResult {
    let done = async {
        let settlement = Settlement::of(&fields)?;
        settlement.run(&app, &page, number, &fields).await
    };
    match done.await {
        Ok(done) => Ok(page.done(&format!("operator/invoices/{number}"), done)),
        Err(error) => refused(&app, &page, number, &fields, error).await,
    }
}

#[cfg(test)]
mod tests;
