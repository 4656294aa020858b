//! JSON shapes of payments through the payment provider.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The purpose of a payment: exactly one of these fields.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCheckout {
    /// The plan to move to, which is paid by invoices: a name from `GET /plans`, or the identifier of a custom plan.
    #[schema(example = "premium", max_length = 40)]
    pub tier: Option<String>,
    /// The number of the invoice to pay.
    #[schema(example = "2026-000123")]
    pub invoice: Option<String>,
}

/// A started payment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Checkout)]
pub struct CheckoutJson {
    /// The provider's page where the customer pays.
    #[schema(format = "uri")]
    pub url: String,
}
