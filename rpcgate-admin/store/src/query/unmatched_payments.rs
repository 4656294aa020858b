//! Payments that completed nothing, because they match no checkout or nothing that is still unpaid. Operators return
//! them or settle the invoice by hand.

use super::audit::{Audit, append};
use super::id::CheckoutId;
use super::invoices::InvoiceNumber;
use super::value::count;
use crate::entity::unmatched_payments::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

const MAX_KEPT: u64 = 10_000;
const MAX_RETURNED: u64 = 1_000;

/// A payment that completed nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnmatchedPayment {
    /// Its identifier, a UUID.
    pub id: u128,
    /// The provider's identifier.
    pub session: String,
    /// The time of the report.
    pub received_at: Time,
    /// The checkout that it names, if it exists.
    pub checkout: Option<CheckoutId>,
    /// The tenant of the checkout.
    pub tenant: Option<TenantId>,
    /// The invoice of the checkout.
    pub invoice: Option<InvoiceNumber>,
    /// The amount in hundredths of the currency: all of it, or the part beyond the debt.
    pub cents: u64,
    /// The currency.
    pub currency: Option<String>,
    /// The provider's word for the action of the customer.
    pub mode: Option<String>,
    /// The reason why it completed nothing.
    pub reason: String,
}

impl UnmatchedPayment {
    /// Returns its amount as text, as in `48.99 usd`.
    pub fn amount(&self) -> String {
        let currency = self.currency.as_deref().unwrap_or("of an unknown currency");
        format!("{}.{:02} {currency}", self.cents / 100, self.cents % 100)
    }
}

impl TryFrom<Model> for UnmatchedPayment {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let invoice = row.invoice_year.zip(row.invoice_serial);
        Ok(UnmatchedPayment {
            id: row.id.as_u128(),
            session: row.session,
            received_at: row.received_at,
            checkout: row.checkout_id,
            tenant: row.tenant_id,
            invoice: invoice.map(|(year, serial)| InvoiceNumber::stored(year, serial)).transpose()?,
            cents: count("amount", row.cents)?,
            currency: row.currency,
            mode: row.mode,
            reason: row.reason,
        })
    }
}

/// Records a payment with an audit entry, and reports whether it is new.
pub(super) async fn record(
    transaction: &DatabaseTransaction,
    payment: &UnmatchedPayment,
) -> Result<bool, StoreError> {
    let same = Entity::find().filter(Column::Session.eq(&payment.session));
    if same.one(transaction).await?.is_some() {
        return Ok(false);
    }
    if Entity::find().count(transaction).await? >= MAX_KEPT
        && let Some(oldest) = Entity::find().order_by_asc(Column::Id).one(transaction).await?
    {
        Entity::delete_by_id(oldest.id).exec(transaction).await?;
    }
    let invoice = payment.invoice.map(InvoiceNumber::columns);
    let row = ActiveModel {
        id: Set(Uuid::from_u128(payment.id)),
        session: Set(payment.session.clone()),
        received_at: Set(payment.received_at),
        checkout_id: Set(payment.checkout),
        tenant_id: Set(payment.tenant),
        invoice_year: Set(invoice.map(|(year, _)| year)),
        invoice_serial: Set(invoice.map(|(_, serial)| serial)),
        // A report is never refused because of its amount: the provider would resend it for ever.
        cents: Set(i64::try_from(payment.cents).unwrap_or(i64::MAX)),
        currency: Set(payment.currency.clone()),
        mode: Set(payment.mode.clone()),
        reason: Set(payment.reason.clone()),
    };
    Entity::insert(row).exec_without_returning(transaction).await?;
    let entry = Audit {
        tenant: payment.tenant,
        user: None,
        action: "payment.unmatched".into(),
        subject: payment.invoice.map_or_else(|| payment.session.clone(), |number| number.to_string()),
        address: String::new(),
        at: payment.received_at,
        detail: format!("{}, {}: {}", payment.amount(), payment.session, payment.reason),
    };
    append(transaction, &entry).await?;
    Ok(true)
}

impl Store {
    /// Lists payments that completed nothing, the newest first: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn unmatched_payments(&self, limit: u64) -> Result<Vec<UnmatchedPayment>, StoreError> {
        let newest = Entity::find().order_by_desc(Column::Id).limit(limit.min(MAX_RETURNED));
        self.read(async |database| {
            newest.all(database).await?.into_iter().map(UnmatchedPayment::try_from).collect()
        })
        .await
    }

    /// Returns the number of payments that completed nothing and were reported at `since` or later.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn unmatched_payments_since(&self, since: Time) -> Result<u64, StoreError> {
        let newer = Entity::find().filter(Column::ReceivedAt.gte(since));
        self.read(async |database| Ok(newer.count(database).await?)).await
    }
}
