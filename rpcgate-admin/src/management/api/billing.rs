//! What the caller's tenant owes for the current month.

use super::accept::prefers_html;
use super::invoices::{CURRENCY, InvoiceLineJson, InvoiceSummaryJson, PeriodJson, TaxJson, taxes};
use super::tenants::TierJson;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::action::billing::{BillingTerms, NextInvoice};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Id;
use crate::management::page::next_invoice::page as next_invoice_page;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{HeaderValue, VARY};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The plan in force.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct BilledPlan {
    /// Its name.
    #[schema(example = "standard")]
    pub name: String,
    /// The same, or the base of a plan of the operator's own.
    pub tier: TierJson,
    /// Its fee for a month, in cents.
    pub monthly_fee_cents: u64,
    /// The price of a Compute Unit in US dollars.
    #[schema(example = 0.001)]
    pub price_per_cu: f64,
}

/// What a tenant owes for the current month so far, and its last invoices.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct Billing {
    /// The current calendar month in UTC.
    pub period: PeriodJson,
    /// The plan in force.
    pub plan: BilledPlan,
    /// The lines that the invoice would have if the month ended now.
    pub lines: Vec<InvoiceLineJson>,
    /// The sum of the lines, rounded to cents.
    pub subtotal_cents: u64,
    /// The taxes on it.
    pub taxes: Vec<TaxJson>,
    /// The sum with taxes, in cents.
    pub total_cents: u64,
    /// The currency: always usd.
    #[schema(example = "usd")]
    pub currency: &'static str,
    /// The last twelve invoices, the newest first.
    pub invoices: Vec<InvoiceSummaryJson>,
}

impl Billing {
    fn of(NextInvoice { lines, amounts, .. }: NextInvoice, terms: BillingTerms, now: Time) -> Self {
        Billing {
            period: terms.period.into(),
            plan: BilledPlan {
                name: terms.plan_name,
                tier: terms.plan.tier.into(),
                monthly_fee_cents: terms.monthly_fee,
                price_per_cu: terms.plan.price.usd(),
            },
            lines: lines.into_iter().map(InvoiceLineJson::from).collect(),
            subtotal_cents: amounts.subtotal,
            taxes: taxes(&amounts),
            total_cents: amounts.total,
            currency: CURRENCY,
            invoices: terms.invoices.iter().map(|one| InvoiceSummaryJson::of(one, now)).collect(),
        }
    }
}

/// Show what is owed for the current month
///
/// With the lines that its invoice would have if the month ended now, and the last invoices. The invoice is issued some
/// hours after the end of the month. With `Accept: text/html` it is a page made for printing, which says what the invoice
/// would, and that it is none.
#[utoipa::path(get, path = "/tenants/{id}/billing", operation_id = "show_billing", tag = "billing",
    params(("id" = String, Path, format = "uuid", description = "The tenant.")),
    responses((status = 200, description = "The current month, and the last invoices.",
        content((Billing = "application/json"), (String = "text/html")))))]
pub async fn show(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TenantId>,
    headers: HeaderMap,
) -> Result<Response, ActionError> {
    let next = action::billing::next_invoice(&app, &actor, id).await?;
    let mut answer = if prefers_html(&headers) {
        next_invoice_page(next)
    } else {
        let terms = action::billing::terms(&app, &actor, id).await?;
        Json(Billing::of(next, terms, app.now())).into_response()
    };
    answer.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    Ok(answer)
}
