//! Credit notes. Each reduces the amount owed for one invoice.

use super::billing::{SettledInvoice, next_number, reactivate};
use super::id::UserId;
use super::invoices::{InvoiceAmounts, InvoiceNumber, InvoiceStatus, NotInvoiceNumber, find};
use super::value::{count, number, unreadable};
use crate::entity::credit_notes::{ActiveModel, Column, Entity, Model};
use crate::entity::invoices;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use std::fmt;
use std::str::FromStr;

pub(super) const MAX_CREDIT_NOTES: u64 = 100;

const SERIES: &str = "credit_note";

/// The number of a credit note, which is written `C2026-000123`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CreditNoteNumber(pub InvoiceNumber);

impl fmt::Display for CreditNoteNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C{}", self.0)
    }
}

impl FromStr for CreditNoteNumber {
    type Err = NotInvoiceNumber;

    fn from_str(text: &str) -> Result<Self, NotInvoiceNumber> {
        text.strip_prefix('C').ok_or(NotInvoiceNumber)?.parse().map(CreditNoteNumber)
    }
}

/// A credit note.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreditNote {
    /// Its number.
    pub number: CreditNoteNumber,
    /// The invoice that it reduces.
    pub invoice: InvoiceNumber,
    /// Its date.
    pub issued_at: Time,
    /// The amount without tax, in cents.
    pub net: u64,
    /// The tax, in cents.
    pub tax: u64,
    /// The sum of both.
    pub cents: u64,
    /// The reason for it.
    pub reason: String,
    /// The operator who issued it.
    pub user: Option<UserId>,
}

/// A credit note to issue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewCreditNote {
    /// The invoice that it reduces.
    pub invoice: InvoiceNumber,
    /// The year of its date.
    pub year: u16,
    /// The amount with tax, in cents.
    pub cents: u64,
    /// The reason for it.
    pub reason: String,
    /// The operator who issues it; `None` at the command line.
    pub user: Option<UserId>,
    /// The sum of the credit notes that the operator has seen; `None` accepts any.
    pub seen_credited: Option<u64>,
}

impl TryFrom<Model> for CreditNote {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(CreditNote {
            number: CreditNoteNumber(InvoiceNumber::stored(row.year, row.serial)?),
            invoice: InvoiceNumber::stored(row.invoice_year, row.invoice_serial)?,
            issued_at: row.issued_at,
            net: count("amount", row.net_cents)?,
            tax: count("amount", row.tax_cents)?,
            cents: count("amount", row.cents)?,
            reason: row.reason,
            user: row.user_id,
        })
    }
}

fn of(invoice: InvoiceNumber) -> Condition {
    let (year, serial) = invoice.columns();
    Condition::all().add(Column::InvoiceYear.eq(year)).add(Column::InvoiceSerial.eq(serial))
}

pub(super) async fn credit_notes_of(
    database: &impl ConnectionTrait,
    invoice: InvoiceNumber,
) -> Result<Vec<CreditNote>, StoreError> {
    let oldest = Entity::find().filter(of(invoice)).order_by_asc(Column::Year).order_by_asc(Column::Serial);
    oldest.all(database).await?.into_iter().map(CreditNote::try_from).collect()
}

/// Returns the tax in the part `cents` of an invoice, in cents. `credited` was credited before, including
/// `credited_tax`. The result is the tax in both parts together, rounded to the nearest cent, minus `credited_tax`.
/// Credit notes together thus never credit more tax than was charged, and the last one takes the rest.
fn part_of_tax(amounts: &InvoiceAmounts, credited: u64, credited_tax: u64, cents: u64) -> u64 {
    let total = u128::from(amounts.total.max(1));
    let all = u128::from(credited.saturating_add(cents).min(amounts.total));
    let tax_in_all = (2 * all * u128::from(amounts.tax) + total) / (2 * total);
    // It is at most the tax of the invoice, so it fits.
    let tax_in_all = u64::try_from(tax_in_all).unwrap_or(amounts.tax).min(amounts.tax);
    tax_in_all.saturating_sub(credited_tax).min(cents)
}

impl Store {
    /// Issues a credit note for at most the rest of the invoice. An open invoice with nothing left to pay becomes paid;
    /// if it was its tenant's last debt that caused a suspension, the suspension ends.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Decided`] for a cancelled invoice; [`StoreError::WrongState`] if the
    /// credited sum differs from `seen_credited`; [`StoreError::Full`] for an amount that is too large, and for too
    /// many credit notes; [`StoreError::Unavailable`].
    pub async fn issue_credit_note(
        &self,
        new: &NewCreditNote,
        now: Time,
    ) -> Result<(SettledInvoice, CreditNote), StoreError> {
        self.write(async |transaction| {
            let invoice = find(transaction, new.invoice).await?.ok_or(StoreError::NotFound("invoice"))?;
            if invoice.status == InvoiceStatus::Void {
                return Err(StoreError::Decided("invoice"));
            }
            // Compared in the transaction: of two credit notes at the same time, the second must see the first.
            if new.seen_credited.is_some_and(|seen| seen != invoice.credited) {
                return Err(StoreError::WrongState(
                    "the invoice was credited in the meantime: look at it again",
                ));
            }
            let left = invoice.amounts.total.saturating_sub(invoice.credited);
            if new.cents > left {
                let unit = if left == 1 { "cent" } else { "cents" };
                return Err(StoreError::Full(format!(
                    "at most {left} {unit} of this invoice can be credited"
                )));
            }
            if Entity::find().filter(of(new.invoice)).count(transaction).await? >= MAX_CREDIT_NOTES {
                let why = format!("an invoice has at most {MAX_CREDIT_NOTES} credit notes");
                return Err(StoreError::Full(why));
            }
            let credited_tax: u64 =
                credit_notes_of(transaction, new.invoice).await?.iter().map(|note| note.tax).sum();
            let tax = part_of_tax(&invoice.amounts, invoice.credited, credited_tax, new.cents);
            let note = CreditNote {
                number: CreditNoteNumber(next_number(transaction, SERIES, new.year).await?),
                invoice: new.invoice,
                issued_at: now,
                net: new.cents - tax,
                tax,
                cents: new.cents,
                reason: new.reason.clone(),
                user: new.user,
            };
            let ((year, serial), (invoice_year, invoice_serial)) =
                (note.number.0.columns(), note.invoice.columns());
            let row = ActiveModel {
                year: Set(year),
                serial: Set(serial),
                invoice_year: Set(invoice_year),
                invoice_serial: Set(invoice_serial),
                tenant_id: Set(invoice.tenant),
                issued_at: Set(now),
                net_cents: Set(number("cents", note.net)?),
                tax_cents: Set(number("cents", note.tax)?),
                cents: Set(number("cents", note.cents)?),
                reason: Set(note.reason.clone()),
                user_id: Set(new.user),
            };
            Entity::insert(row).exec_without_returning(transaction).await?;
            let credited = invoice.credited.saturating_add(new.cents);
            let settles = invoice.status == InvoiceStatus::Open && new.cents == left;
            let mut update = invoices::Entity::update_many()
                .col_expr(invoices::Column::CreditedCents, Expr::value(number("cents", credited)?));
            if settles {
                update = update
                    .col_expr(invoices::Column::Status, Expr::value(InvoiceStatus::Paid))
                    .col_expr(invoices::Column::SettledAt, Expr::value(now));
            }
            update.filter(new.invoice.row()).exec(transaction).await?;
            let reactivates = settles && reactivate(transaction, invoice.tenant, now).await?;
            let invoice = find(transaction, new.invoice).await?;
            let invoice = invoice.ok_or_else(|| unreadable("invoice", new.invoice))?;
            Ok((SettledInvoice { invoice, is_new: settles, reactivates }, note))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn amounts(subtotal: u64, tax: u64) -> InvoiceAmounts {
        InvoiceAmounts { subtotal, tax, total: subtotal + tax, ..InvoiceAmounts::default() }
    }

    // Shows (Plans, bills and payments).
    #[test]
    fn the_tax_of_a_part_is_rounded_to_the_cent_and_the_last_part_takes_the_rest() {
        for (subtotal, tax, parts, expected) in [
            (100, 19, &[119][..], &[19][..]),
            (100, 19, &[100, 19], &[16, 3]),
            (881, 167, &[600, 448], &[96, 71]),
            (881, 167, &[1, 1, 1, 1_045], &[0, 0, 0, 167]),
            (3, 3, &[3, 3], &[2, 1]),
            (500, 0, &[200, 300], &[0, 0]),
        ] {
            let mut credited = 0;
            let mut credited_tax = 0;
            let mut found = Vec::new();
            for cents in parts {
                let part = part_of_tax(&amounts(subtotal, tax), credited, credited_tax, *cents);
                credited += cents;
                credited_tax += part;
                found.push(part);
            }
            assert_eq!(found, expected, "{subtotal} {tax} {parts:?}");
        }
        // Old credit notes may have credited a cent too much.
        assert_eq!(part_of_tax(&amounts(881, 167), 600, 97, 448), 70);
        assert_eq!(part_of_tax(&amounts(u64::MAX / 2, u64::MAX / 2), 0, 0, u64::MAX - 1), u64::MAX / 2);
    }

    proptest! {
        // Shows (Plans, bills and payments): Credit notes never credit more tax than was charged, and the last one
        // takes the rest.
        #[test]
        fn credit_notes_never_credit_more_tax_than_was_charged(
            subtotal in 0_u64..100_000, rate in 0_u64..=10_000, parts in prop::collection::vec(1_u64..5_000, 1..60),
        ) {
            let amounts = amounts(subtotal, (subtotal * rate + 5_000) / 10_000);
            let mut credited = 0;
            let mut credited_tax = 0;
            for cents in parts {
                let cents = cents.min(amounts.total - credited);
                let tax = part_of_tax(&amounts, credited, credited_tax, cents);
                credited += cents;
                credited_tax += tax;
                prop_assert!(tax <= cents && credited_tax <= amounts.tax);
                prop_assert!(credited - credited_tax <= amounts.subtotal);
            }
            let rest = amounts.total - credited;
            prop_assert_eq!(credited_tax + part_of_tax(&amounts, credited, credited_tax, rest), amounts.tax);
        }
    }

    #[test]
    fn a_number_is_read_in_its_own_spelling_only() {
        let number = CreditNoteNumber(InvoiceNumber { year: 2026, serial: 7 });
        assert_eq!(number.to_string(), "C2026-000007");
        assert_eq!("C2026-000007".parse(), Ok(number));
        for wrong in ["2026-000007", "c2026-000007", "C2026-7", "CC2026-000007"] {
            assert!(wrong.parse::<CreditNoteNumber>().is_err(), "{wrong}");
        }
    }
}
