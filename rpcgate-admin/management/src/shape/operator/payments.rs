//! JSON shape of payments that match nothing.

use crate::shape::moment::Moment;
use rpcgate_store::UnmatchedPayment;
use serde::Serialize;
use utoipa::ToSchema;

/// An unmatched payment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = UnmatchedPayment)]
pub struct UnmatchedPaymentJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The payment provider's identifier.
    #[schema(example = "cs_live_a1b2")]
    pub session: String,
    /// The time at which it was reported.
    #[schema(value_type = String, format = DateTime)]
    pub received_at: Moment,
    /// The tenant of the checkout that it names, or null.
    #[schema(format = "uuid")]
    pub tenant_id: Option<String>,
    /// The invoice of that checkout, or null.
    #[schema(example = "2026-000123")]
    pub invoice: Option<String>,
    /// The amount in hundredths of the currency: the whole payment, or the part beyond the debt.
    pub cents: u64,
    /// The currency, or null.
    #[schema(example = "usd")]
    pub currency: Option<String>,
    /// The payment provider's word for the customer's action, or null.
    #[schema(example = "payment")]
    pub mode: Option<String>,
    /// The reason why it matches nothing.
    pub reason: String,
}

impl From<UnmatchedPayment> for UnmatchedPaymentJson {
    fn from(one: UnmatchedPayment) -> Self {
        UnmatchedPaymentJson {
            id: uuid::Uuid::from_u128(one.id).to_string(),
            session: one.session,
            received_at: one.received_at.into(),
            tenant_id: one.tenant.map(|id| id.to_string()),
            invoice: one.invoice.map(|number| number.to_string()),
            cents: one.cents,
            currency: one.currency,
            mode: one.mode,
            reason: one.reason,
        }
    }
}
