//! The invoices of all tenants.

use crate::context::{OperatorPage, PageResult};
use crate::form::QueryFields;
use crate::frame::{Frame, PageSection};
use crate::invoices::state_badge;
use crate::parts::PageLinks;
use crate::problems::{Labels, Problems};
use crate::view::{ok, rejected};
use crate::{cursor, filters};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_management::action::invoices::InvoiceState;
use rpcgate_management::action::operator::invoices;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::get;
use rpcgate_store::{Invoice, InvoiceFilter, InvoiceNumber, UnmatchedPayment};
use std::sync::Arc;

const LABELS: Labels = &[("tenant", "the tenant")];

const SHOWN: u64 = 50;

/// The maximum number of unmatched payments on a page. The API lists more.
const SHOWN_PAYMENTS: usize = 20;

const LIST: &str = "operator/invoices";

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/operator/invoices", get(list))
}

#[derive(Template)]
#[template(path = "operator_invoices.html")]
struct AllInvoicesPage {
    frame: Frame,
    problems: Problems,
    state: String,
    tenant: String,
    rows: Vec<InvoiceRow>,
    links: PageLinks,
    /// The newest payments that match no invoice.
    payments: Vec<UnmatchedPayment>,
}

impl AllInvoicesPage {
    fn is_state(&self, name: &str) -> bool {
        self.state == name
    }
}

pub(super) struct InvoiceRow {
    pub(super) invoice: Invoice,
    pub(super) badge: (&'static str, String),
    pub(super) is_open: bool,
}

impl InvoiceRow {
    pub(super) fn of(invoice: Invoice, now: Time) -> Self {
        let state = InvoiceState::of(&invoice, now);
        InvoiceRow {
            badge: state_badge(&invoice, now),
            is_open: matches!(state, InvoiceState::Open | InvoiceState::Overdue),
            invoice,
        }
    }
}

/// Returns the state of a filter; `None` for all.
fn state_of(name: &str) -> Option<InvoiceState> {
    match name {
        "open" => Some(InvoiceState::Open),
        "overdue" => Some(InvoiceState::Overdue),
        "paid" => Some(InvoiceState::Paid),
        "void" => Some(InvoiceState::Void),
        _ => None,
    }
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let name = query.filled("state").unwrap_or("overdue");
    let state = state_of(name);
    let now = app.now();
    let mut shown = AllInvoicesPage {
        frame: page.frame(PageSection::OperatorInvoices),
        problems: Problems::default(),
        state: state.map_or("all", |_| name).to_owned(),
        tenant: query.one("tenant").to_owned(),
        rows: Vec::new(),
        links: PageLinks::default(),
        payments: invoices::unmatched_payments(&app).await?.into_iter().take(SHOWN_PAYMENTS).collect(),
    };
    let rest = query.query_without(&[cursor::BEFORE, cursor::AFTER, "done"]);
    let position_of = |name: &str| {
        let position = query.filled(name).map(str::parse::<InvoiceNumber>).transpose();
        position.map_err(|_| ActionError::invalid("this is not a position in this list"))
    };
    let found = async {
        let tenant = query.filled("tenant").map(str::parse::<TenantId>).transpose();
        let tenant = tenant.map_err(|_| ActionError::field("tenant", "enter the identifier of a tenant"))?;
        // Waiting invoices are listed oldest first, others newest first.
        let is_waiting = state == Some(InvoiceState::Overdue) && tenant.is_none();
        let found = if is_waiting {
            invoices::overdue(&app, position_of(cursor::AFTER)?, SHOWN).await?
        } else {
            let filter = InvoiceFilter { tenant, ..InvoiceState::filter_of(state, now) };
            invoices::list(&app, filter, position_of(cursor::BEFORE)?, SHOWN).await?
        };
        Ok((found, is_waiting))
    };
    match found.await {
        Ok((found, is_waiting)) => {
            let last = found.last().filter(|_| found.len() as u64 == SHOWN);
            let last = last.map(|last| last.number.to_string());
            if is_waiting {
                shown.links.newer = last.map(|last| cursor::newer(LIST, &rest, &last));
            } else {
                shown.links.older = last.map(|last| cursor::older(LIST, &rest, &last));
            }
            shown.rows = found.into_iter().map(|invoice| InvoiceRow::of(invoice, now)).collect();
            Ok(ok(&shown))
        }
        Err(error) => rejected(error, LABELS, |problems| AllInvoicesPage { problems, ..shown }),
    }
}
