//! JSON shapes of operators' changes to invoices.

use serde::Deserialize;
use utoipa::ToSchema;

/// The settlement of an invoice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Settlement)]
pub enum SettlementJson {
    /// It is paid.
    Paid,
    /// It is cancelled.
    Void,
}

/// An operator's decision about an invoice.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvoiceChange {
    /// Paid or cancelled.
    pub status: SettlementJson,
    /// A note for the tenant, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub note: Option<String>,
}

/// A new credit note.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCreditNote)]
pub struct NewCreditNoteJson {
    /// The amount with tax, in cents.
    #[schema(minimum = 1)]
    pub cents: u64,
    /// The reason, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub reason: String,
}
