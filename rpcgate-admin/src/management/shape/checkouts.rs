//! Payments through the payment provider.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is to be paid: exactly one of these.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCheckout {
    /// The plan to move to, which is paid by invoices: the name of one that `GET /plans` lists, or the identifier of one of
    /// the operator's own.
    #[schema(example = "premium", max_length = 40)]
    pub tier: Option<String>,
    /// The number of the invoice to pay.
    #[schema(example = "2026-000123")]
    pub invoice: Option<String>,
}

/// A payment that was begun.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Checkout)]
pub struct CheckoutJson {
    /// The provider's page, on which the customer pays.
    #[schema(format = "uri")]
    pub url: String,
}
