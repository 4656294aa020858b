//! Invoices and their lines.

use super::keyset::page;
use super::value::{count, number, unreadable};
use crate::entity::invoice_lines;
use crate::entity::invoices::{Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::usage::Amount;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

pub use crate::entity::invoice_lines::LineKind;
pub use crate::entity::invoices::InvoiceStatus;

const MAX_RETURNED: u64 = 1_000;

/// The number of an invoice: the year of its date, and its number in that year, written `2026-000123`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InvoiceNumber {
    /// The year.
    pub year: u16,
    /// The number in the year, from 1 without gaps.
    pub serial: u64,
}

/// The error for a text that is not an invoice number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotInvoiceNumber;

impl fmt::Display for InvoiceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:06}", self.year, self.serial)
    }
}

impl FromStr for InvoiceNumber {
    type Err = NotInvoiceNumber;

    /// Accepts only the spelling of `Display`, so that an invoice has one path.
    fn from_str(text: &str) -> Result<Self, NotInvoiceNumber> {
        let (year, serial) = text.split_once('-').ok_or(NotInvoiceNumber)?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if year.len() != 4 || !(6..=18).contains(&serial.len()) || !digits(year) || !digits(serial) {
            return Err(NotInvoiceNumber);
        }
        let year = year.parse().map_err(|_| NotInvoiceNumber)?;
        let number = InvoiceNumber { year, serial: serial.parse().map_err(|_| NotInvoiceNumber)? };
        if number.to_string() == text { Ok(number) } else { Err(NotInvoiceNumber) }
    }
}

impl InvoiceNumber {
    pub(super) fn columns(self) -> (i32, i64) {
        (i32::from(self.year), i64::try_from(self.serial).unwrap_or(i64::MAX))
    }

    pub(super) fn stored(year: i32, serial: i64) -> Result<Self, StoreError> {
        let year = u16::try_from(year).map_err(|_| unreadable("year", year))?;
        Ok(InvoiceNumber { year, serial: count("number of an invoice", serial)? })
    }

    pub(super) fn row(self) -> Condition {
        let (year, serial) = self.columns();
        Condition::all().add(Column::Year.eq(year)).add(Column::Serial.eq(serial))
    }
}

/// The seller on an invoice.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InvoiceSeller {
    /// Its name.
    pub name: String,
    /// The lines of its address.
    pub address: Vec<String>,
    /// Its tax number.
    pub tax_id: Option<String>,
}

/// The customer's details on invoices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BillingParty {
    /// Its name, if it differs from that of the tenant.
    pub name: Option<String>,
    /// The lines of its address.
    pub address: Vec<String>,
    /// Its tax number.
    pub tax_id: Option<String>,
}

pub(super) fn address_text(lines: &[String]) -> String {
    serde_json::json!(lines).to_string()
}

pub(super) fn read_address(stored: &str) -> Result<Vec<String>, StoreError> {
    serde_json::from_str(stored).map_err(|_| unreadable("address", stored))
}

/// The amounts of an invoice, in cents of a US dollar.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InvoiceAmounts {
    /// The sum of its lines, rounded.
    pub subtotal: u64,
    /// The name of the tax.
    pub tax_name: String,
    /// The rate of the tax, in basis points.
    pub tax_basis_points: u32,
    /// The tax.
    pub tax: u64,
    /// The sum of both.
    pub total: u64,
}

/// A line of an invoice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvoiceLine {
    /// The start of the month of the line: that of the invoice, or an earlier one for usage that arrived late.
    pub month: Time,
    /// The kind.
    pub kind: LineKind,
    /// The path of the chain; empty for a plan.
    pub chain: String,
    /// The plan.
    pub tier: Tier,
    /// The price of a Compute Unit, or of the plan for the whole month.
    pub price: Price,
    /// Calls that were charged at least one Compute Unit.
    pub calls: u64,
    /// Compute Units, or the seconds for which the plan was in force.
    pub units: u64,
    /// The exact amount.
    pub amount: Amount,
    /// The name of the plan when the invoice was issued, if it is a custom plan.
    pub custom_plan: Option<String>,
}

/// An invoice without its lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invoice {
    /// Its number.
    pub number: InvoiceNumber,
    /// The tenant that owes it.
    pub tenant: TenantId,
    /// The period that it closes.
    pub period: Range<Time>,
    /// Its date.
    pub issued_at: Time,
    /// The due date.
    pub due_at: Time,
    /// Its status.
    pub status: InvoiceStatus,
    /// The customer's name at its date: that for invoices, or the tenant's.
    pub customer: String,
    /// The lines of the customer's address at its date.
    pub customer_address: Vec<String>,
    /// The customer's tax number at its date.
    pub customer_tax_id: Option<String>,
    /// The seller at its date.
    pub seller: InvoiceSeller,
    /// Its amounts.
    pub amounts: InvoiceAmounts,
    /// The sum of its credit notes, in cents.
    pub credited: u64,
    /// The time when it was paid or cancelled.
    pub settled_at: Option<Time>,
    /// A note of the operator.
    pub note: Option<String>,
    /// The number of reminders sent.
    pub reminders: u32,
    /// The time when its tenant was suspended because of it.
    pub suspended_at: Option<Time>,
    /// The time of the suspension that was announced to its tenant.
    pub suspends_at: Option<Time>,
}

impl Invoice {
    /// Returns the amount that is still to be paid, in cents.
    pub const fn due_cents(&self) -> u64 {
        match self.status {
            InvoiceStatus::Open => self.amounts.total.saturating_sub(self.credited),
            InvoiceStatus::Paid | InvoiceStatus::Void => 0,
        }
    }

    /// Reports whether it is unpaid after its due date.
    pub fn is_overdue(&self, now: Time) -> bool {
        self.status == InvoiceStatus::Open && self.due_at <= now
    }
}

impl TryFrom<Model> for Invoice {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let cents = |stored| count("amount", stored);
        let small = |stored: i32| u32::try_from(stored).map_err(|_| unreadable("count", stored));
        Ok(Invoice {
            number: InvoiceNumber::stored(row.year, row.serial)?,
            tenant: row.tenant_id,
            period: row.period..row.period_end,
            issued_at: row.issued_at,
            due_at: row.due_at,
            status: row.status,
            customer: row.customer,
            customer_address: read_address(&row.customer_address)?,
            customer_tax_id: row.customer_tax_id,
            seller: serde_json::from_str(&row.seller).map_err(|_| unreadable("seller", row.seller))?,
            amounts: InvoiceAmounts {
                subtotal: cents(row.subtotal_cents)?,
                tax_name: row.tax_name,
                tax_basis_points: small(row.tax_basis_points)?,
                tax: cents(row.tax_cents)?,
                total: cents(row.total_cents)?,
            },
            credited: cents(row.credited_cents)?,
            settled_at: row.settled_at,
            note: row.note,
            reminders: small(row.reminders)?,
            suspended_at: row.suspended_at,
            suspends_at: row.suspends_at,
        })
    }
}

impl TryFrom<invoice_lines::Model> for InvoiceLine {
    type Error = StoreError;

    fn try_from(row: invoice_lines::Model) -> Result<Self, StoreError> {
        Ok(InvoiceLine {
            month: row.month,
            kind: row.kind,
            chain: row.chain,
            tier: row.tier,
            price: Price(count("price", row.price)?),
            calls: count("number of calls", row.calls)?,
            units: count("number of units", row.units)?,
            custom_plan: row.custom_plan,
            amount: Amount(row.amount.parse().map_err(|_| unreadable("amount", row.amount))?),
        })
    }
}

pub(super) fn line_row(
    line: &InvoiceLine,
    tenant: TenantId,
    (year, serial): (i32, i64),
    position: usize,
) -> Result<invoice_lines::ActiveModel, StoreError> {
    Ok(invoice_lines::ActiveModel {
        year: Set(year),
        serial: Set(serial),
        position: Set(i32::try_from(position).unwrap_or(i32::MAX)),
        tenant_id: Set(tenant),
        month: Set(line.month),
        kind: Set(line.kind),
        chain: Set(line.chain.clone()),
        tier: Set(line.tier),
        price: Set(number("price", line.price.0)?),
        calls: Set(number("calls", line.calls)?),
        units: Set(number("units", line.units)?),
        amount: Set(line.amount.0.to_string()),
        custom_plan: Set(line.custom_plan.clone()),
    })
}

pub(super) async fn find(
    database: &impl ConnectionTrait,
    number: InvoiceNumber,
) -> Result<Option<Invoice>, StoreError> {
    let found = Entity::find().filter(number.row()).one(database).await?;
    found.map(Invoice::try_from).transpose()
}

/// The filter of a list of invoices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InvoiceFilter {
    /// The tenant.
    pub tenant: Option<TenantId>,
    /// The status.
    pub status: Option<InvoiceStatus>,
    /// The latest due date.
    pub due_by: Option<Time>,
    /// The time after which the invoices are due.
    pub due_after: Option<Time>,
    /// The range of the period's start, the second time excluded.
    pub period: Option<(Time, Time)>,
}

impl InvoiceFilter {
    fn condition(self) -> Condition {
        Condition::all()
            .add_option(self.tenant.map(|tenant| Column::TenantId.eq(tenant)))
            .add_option(self.status.map(|status| Column::Status.eq(status)))
            .add_option(self.due_by.map(|by| Column::DueAt.lte(by)))
            .add_option(self.due_after.map(|after| Column::DueAt.gt(after)))
            .add_option(self.period.map(|(from, _)| Column::Period.gte(from)))
            .add_option(self.period.map(|(_, to)| Column::Period.lt(to)))
    }
}

impl Store {
    /// Lists invoices, the newest first, starting after `before`: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn invoices(
        &self,
        filter: InvoiceFilter,
        before: Option<InvoiceNumber>,
        limit: u64,
    ) -> Result<Vec<Invoice>, StoreError> {
        let its = Entity::find().filter(filter.condition());
        let before = before.map(InvoiceNumber::columns);
        let mut newest = page(its, (Column::Year, Column::Serial), before, limit.min(MAX_RETURNED));
        self.read(async |database| {
            newest.desc().all(database).await?.into_iter().map(Invoice::try_from).collect()
        })
        .await
    }

    /// Returns the lines about the usage of the months in `months` on all invoices of a tenant, even cancelled ones,
    /// because no usage is invoiced twice.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn invoiced_usage(
        &self,
        tenant: TenantId,
        months: Range<Time>,
    ) -> Result<Vec<InvoiceLine>, StoreError> {
        use invoice_lines::Column;
        let lines = invoice_lines::Entity::find()
            .filter(Column::TenantId.eq(tenant))
            .filter(Column::Kind.eq(LineKind::Usage))
            .filter(Column::Month.gte(months.start))
            .filter(Column::Month.lt(months.end));
        self.read(async |database| {
            lines.all(database).await?.into_iter().map(InvoiceLine::try_from).collect()
        })
        .await
    }

    /// Returns invoices whose mail was not sent, the oldest first: at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn unannounced_invoices(&self, limit: u64) -> Result<Vec<Invoice>, StoreError> {
        let oldest = Entity::find()
            .filter(Column::Announced.eq(false))
            .order_by_asc(Column::Year)
            .order_by_asc(Column::Serial)
            .limit(limit.min(MAX_RETURNED));
        self.read(async |database| oldest.all(database).await?.into_iter().map(Invoice::try_from).collect())
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_in_its_own_spelling_only() {
        for (year, serial, text) in
            [(2026, 123, "2026-000123"), (2026, 1_234_567, "2026-1234567"), (1970, 0, "1970-000000")]
        {
            let number = InvoiceNumber { year, serial };
            assert_eq!(number.to_string(), text);
            assert_eq!(text.parse(), Ok(number));
        }
        for wrong in [
            "",
            "-",
            "2026",
            "2026-",
            "2026-123",
            "2026-0000123",
            "02026-000123",
            "2026-+00123",
            "2026-00012x",
            " 2026-000123",
            "2026-000123 ",
            "2026-9999999999999999999",
            "2026-000123-1",
            "２026-000123",
        ] {
            assert_eq!(wrong.parse::<InvoiceNumber>(), Err(NotInvoiceNumber), "{wrong}");
        }
    }

    #[test]
    fn names_of_states_and_lines_are_read_back() {
        for status in InvoiceStatus::ALL {
            assert_eq!(status.name().parse(), Ok(status));
        }
        assert!("overdue".parse::<InvoiceStatus>().is_err(), "it follows from the due date");
    }
}
