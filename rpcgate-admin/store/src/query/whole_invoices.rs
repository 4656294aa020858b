//! Invoices with their lines and credit notes.

use super::credit_notes::{CreditNote, credit_notes_of};
use super::invoices::{Invoice, InvoiceLine, InvoiceNumber, find};
use crate::entity::invoice_lines::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};

/// An invoice with its lines and credit notes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WholeInvoice {
    /// The invoice.
    pub invoice: Invoice,
    /// Its lines.
    pub lines: Vec<InvoiceLine>,
    /// Its credit notes, the oldest first.
    pub credit_notes: Vec<CreditNote>,
}

async fn whole(database: &impl ConnectionTrait, invoice: Invoice) -> Result<WholeInvoice, StoreError> {
    let (year, serial) = invoice.number.columns();
    let its = Condition::all().add(Column::Year.eq(year)).add(Column::Serial.eq(serial));
    let lines = Entity::find().filter(its).order_by_asc(Column::Position).all(database).await?;
    let lines = lines.into_iter().map(InvoiceLine::try_from).collect::<Result<_, _>>()?;
    let credit_notes = credit_notes_of(database, invoice.number).await?;
    Ok(WholeInvoice { invoice, lines, credit_notes })
}

impl Store {
    /// Returns an invoice of a tenant, with its lines and credit notes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn invoice(
        &self,
        tenant: TenantId,
        number: InvoiceNumber,
    ) -> Result<Option<WholeInvoice>, StoreError> {
        let found = self.any_invoice(number).await?;
        Ok(found.filter(|found| found.invoice.tenant == tenant))
    }

    /// Returns an invoice of any tenant, with its lines and credit notes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn any_invoice(&self, number: InvoiceNumber) -> Result<Option<WholeInvoice>, StoreError> {
        self.read(async |database| match find(database, number).await? {
            Some(invoice) => Ok(Some(whole(database, invoice).await?)),
            None => Ok(None),
        })
        .await
    }
}
