//! Closes months, numbers and settles invoices, and suspends tenants that do not pay.

use super::audit::{Audit, append};
use super::billing_accounts::forget_suspension;
use super::changes::{NewChange, record};
use super::invoices::{
    Invoice, InvoiceAmounts, InvoiceLine, InvoiceNumber, InvoiceSeller, InvoiceStatus, address_text, find,
    line_row,
};
use super::keyset::page;
use super::live_tenants::{live_tenant, live_tenants};
use super::value::{number, unreadable};
use crate::entity::{billing_accounts, billing_start, invoice_lines, invoice_numbers, invoices, tenants};
use crate::{Store, StoreError, Tenant};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect, QueryTrait,
};
use std::ops::Range;

const SERIES: &str = "invoice";

const START: i32 = 1;

const LINES: usize = 500;

/// An invoice to issue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewInvoice {
    /// The tenant that owes it.
    pub tenant: TenantId,
    /// The period that it closes.
    pub period: Range<Time>,
    /// The year of its date.
    pub year: u16,
    /// Its date.
    pub issued_at: Time,
    /// The due date.
    pub due_at: Time,
    /// The tenant's name.
    pub customer: String,
    /// The lines of the customer's address.
    pub customer_address: Vec<String>,
    /// The customer's tax number.
    pub customer_tax_id: Option<String>,
    /// The seller.
    pub seller: InvoiceSeller,
    /// Its lines.
    pub lines: Vec<InvoiceLine>,
    /// Its amounts. An invoice of zero is paid from the start.
    pub amounts: InvoiceAmounts,
}

/// The outcome of closing a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeriodClosed {
    /// The period was closed, with this invoice if there was something to bill.
    Now(Option<InvoiceNumber>),
    /// It was closed earlier. Nothing changed.
    Before,
}

/// An invoice that was marked as paid or cancelled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettledInvoice {
    /// The invoice as it is now.
    pub invoice: Invoice,
    /// True if this call changed it.
    pub is_new: bool,
    /// True if this ended the suspension of its tenant.
    pub reactivates: bool,
}

/// A tenant with the first period that is not closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnclosedTenant {
    /// The tenant.
    pub tenant: Tenant,
    /// The end of the last closed period.
    pub closed_until: Option<Time>,
}

/// Returns the next number of a series in a year. It is taken in the transaction that uses it, so no number is lost;
/// writes exclude each other, so none is taken twice.
pub(super) async fn next_number(
    transaction: &DatabaseTransaction,
    series: &str,
    year: u16,
) -> Result<InvoiceNumber, StoreError> {
    use invoice_numbers::{ActiveModel, Column, Entity};
    let key = (series.to_owned(), i32::from(year));
    let last = Entity::find_by_id(key).one(transaction).await?.map_or(0, |row| row.last);
    let next = last.saturating_add(1);
    let row = ActiveModel { series: Set(series.into()), year: Set(i32::from(year)), last: Set(next) };
    let upsert = OnConflict::columns([Column::Series, Column::Year]).update_column(Column::Last).to_owned();
    Entity::insert(row).on_conflict(upsert).exec_without_returning(transaction).await?;
    InvoiceNumber::stored(i32::from(year), next)
}

/// Ends a suspension because of debt once no invoice that caused it is left. Reports whether it did.
pub(super) async fn reactivate(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    now: Time,
) -> Result<bool, StoreError> {
    let account = billing_accounts::Entity::find_by_id(tenant).one(transaction).await?;
    if account.is_none_or(|account| account.suspended_at.is_none()) {
        return Ok(false);
    }
    let causes = invoices::Entity::find()
        .filter(invoices::Column::TenantId.eq(tenant))
        .filter(invoices::Column::Status.eq(InvoiceStatus::Open))
        .filter(invoices::Column::SuspendedAt.is_not_null());
    if causes.count(transaction).await? > 0 {
        return Ok(false);
    }
    forget_suspension(transaction, tenant).await?;
    set_suspended(transaction, tenant, false, now).await?;
    Ok(true)
}

async fn set_suspended(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    suspended: bool,
    now: Time,
) -> Result<(), StoreError> {
    let update = tenants::Entity::update_many()
        .col_expr(tenants::Column::Suspended, Expr::value(suspended))
        .filter(tenants::Column::Id.eq(tenant));
    update.exec(transaction).await?;
    record(transaction, NewChange::Tenant(tenant), now).await?;
    let action = if suspended { "tenant.suspended" } else { "tenant.reactivated" };
    append(transaction, &automatic_entry(tenant, action, tenant.to_string(), String::new(), now)).await
}

pub(super) async fn settle(
    transaction: &DatabaseTransaction,
    its: InvoiceNumber,
    status: InvoiceStatus,
    note: Option<&str>,
    now: Time,
) -> Result<(), StoreError> {
    use invoices::Column;
    let update = invoices::Entity::update_many()
        .col_expr(Column::Status, Expr::value(status))
        .col_expr(Column::SettledAt, Expr::value(now))
        .col_expr(Column::Note, Expr::value(note.map(str::to_owned)))
        .filter(its.row());
    update.exec(transaction).await?;
    Ok(())
}

/// Returns the audit entry of an action of the service itself.
pub(super) fn automatic_entry(
    tenant: TenantId,
    action: &str,
    subject: String,
    detail: String,
    at: Time,
) -> Audit {
    Audit {
        tenant: Some(tenant),
        user: None,
        action: action.into(),
        subject,
        address: String::new(),
        at,
        detail,
    }
}

async fn insert(transaction: &DatabaseTransaction, new: &NewInvoice) -> Result<InvoiceNumber, StoreError> {
    let its = next_number(transaction, SERIES, new.year).await?;
    let (year, serial) = its.columns();
    let amounts = &new.amounts;
    let is_paid = amounts.total == 0;
    let status = if is_paid { InvoiceStatus::Paid } else { InvoiceStatus::Open };
    let seller = serde_json::to_string(&new.seller).map_err(|_| unreadable("seller", &new.seller.name))?;
    let rate = i32::try_from(amounts.tax_basis_points).unwrap_or(i32::MAX);
    let row = invoices::ActiveModel {
        year: Set(year),
        serial: Set(serial),
        tenant_id: Set(new.tenant),
        period: Set(new.period.start),
        period_end: Set(new.period.end),
        issued_at: Set(new.issued_at),
        due_at: Set(new.due_at),
        status: Set(status),
        customer: Set(new.customer.clone()),
        customer_address: Set(address_text(&new.customer_address)),
        customer_tax_id: Set(new.customer_tax_id.clone()),
        seller: Set(seller),
        subtotal_cents: Set(number("cents", amounts.subtotal)?),
        tax_name: Set(amounts.tax_name.clone()),
        tax_basis_points: Set(rate),
        tax_cents: Set(number("cents", amounts.tax)?),
        total_cents: Set(number("cents", amounts.total)?),
        credited_cents: Set(0),
        settled_at: Set(is_paid.then_some(new.issued_at)),
        note: Set(None),
        announced: Set(false),
        reminders: Set(0),
        suspended_at: Set(None),
        suspends_at: Set(None),
    };
    invoices::Entity::insert(row).exec_without_returning(transaction).await?;
    for (chunk, lines) in new.lines.chunks(LINES).enumerate() {
        let row = |(at, line)| line_row(line, new.tenant, (year, serial), chunk * LINES + at);
        let rows: Vec<_> = lines.iter().enumerate().map(row).collect::<Result<_, _>>()?;
        invoice_lines::Entity::insert_many(rows).exec_without_returning(transaction).await?;
    }
    let detail = format!("{} cents", amounts.total);
    let entry = automatic_entry(new.tenant, "invoice.issued", its.to_string(), detail, new.issued_at);
    append(transaction, &entry).await?;
    Ok(its)
}

impl Store {
    /// Returns the start of the month in which billing began. If it has not begun, it begins in the month of `month`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn begin_billing(&self, month: Time) -> Result<Time, StoreError> {
        use billing_start::{ActiveModel, Entity};
        if let Some(begun) = self.billing_begun().await? {
            return Ok(begun);
        }
        self.transact(async |transaction| {
            if let Some(row) = Entity::find_by_id(START).one(transaction).await? {
                return Ok(row.month);
            }
            let row = ActiveModel { id: Set(START), month: Set(month) };
            Entity::insert(row).exec_without_returning(transaction).await?;
            Ok(month)
        })
        .await
    }

    /// Returns the start of the month in which billing began.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn billing_begun(&self) -> Result<Option<Time>, StoreError> {
        self.read(async |database| {
            let row = billing_start::Entity::find_by_id(START).one(database).await?;
            Ok(row.map(|row| row.month))
        })
        .await
    }

    /// Returns the end of the last closed period of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn closed_until(&self, tenant: TenantId) -> Result<Option<Time>, StoreError> {
        self.read(async |database| {
            let account = billing_accounts::Entity::find_by_id(tenant).one(database);
            Ok(account.await?.map(|account| account.closed_until))
        })
        .await
    }

    /// Returns at most `limit` tenants that existed before `end` and have an unclosed period before it, by ascending
    /// identifier, starting after `after`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn unclosed_tenants(
        &self,
        end: Time,
        after: Option<TenantId>,
        limit: u64,
    ) -> Result<Vec<UnclosedTenant>, StoreError> {
        use billing_accounts::Column as Account;
        use tenants::Column;
        let closed = billing_accounts::Entity::find()
            .select_only()
            .column(Account::TenantId)
            .filter(Account::ClosedUntil.gte(end))
            .into_query();
        let unclosed =
            live_tenants().filter(Column::CreatedAt.lt(end)).filter(Column::Id.not_in_subquery(closed));
        self.read(async |database| {
            let rows = page(unclosed, Column::Id, after, limit).all(database).await?;
            let ids = rows.iter().map(|row| row.id);
            let accounts = billing_accounts::Entity::find().filter(Account::TenantId.is_in(ids));
            let accounts = accounts.all(database).await?;
            let of = |row: tenants::Model| {
                let account = accounts.iter().find(|account| account.tenant_id == row.id);
                let closed_until = account.map(|account| account.closed_until);
                UnclosedTenant { tenant: row.into(), closed_until }
            };
            Ok(rows.into_iter().map(of).collect())
        })
        .await
    }

    /// Closes a tenant's period, with an invoice if there is something to bill, in one transaction. A period is closed
    /// once, whichever programs try; `since` is the end of the last closed period that the caller knows.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the tenant does not exist; [`StoreError::TooLarge`]; [`StoreError::Unavailable`],
    /// after which it may be closed nevertheless.
    pub async fn close_period(
        &self,
        tenant: TenantId,
        since: Option<Time>,
        end: Time,
        invoice: Option<&NewInvoice>,
    ) -> Result<PeriodClosed, StoreError> {
        use billing_accounts::{ActiveModel, Column, Entity};
        self.transact(async |transaction| {
            live_tenant(transaction, tenant).await?;
            let account = Entity::find_by_id(tenant).one(transaction).await?;
            if account.map(|account| account.closed_until) != since {
                return Ok(PeriodClosed::Before);
            }
            let row = ActiveModel { tenant_id: Set(tenant), closed_until: Set(end), suspended_at: Set(None) };
            let upsert = OnConflict::column(Column::TenantId).update_column(Column::ClosedUntil).to_owned();
            Entity::insert(row).on_conflict(upsert).exec_without_returning(transaction).await?;
            let issued = match invoice {
                Some(new) => Some(insert(transaction, new).await?),
                None => None,
            };
            Ok(PeriodClosed::Now(issued))
        })
        .await
    }

    /// Marks an open invoice as paid or cancelled, and returns it. If this was its tenant's last debt that caused a
    /// suspension, the suspension ends. An invoice that already has this status stays unchanged, and nothing is
    /// recorded.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Decided`] for an invoice with the other of these statuses;
    /// [`StoreError::Unavailable`].
    pub async fn settle_invoice(
        &self,
        its: InvoiceNumber,
        status: InvoiceStatus,
        note: Option<&str>,
        now: Time,
    ) -> Result<SettledInvoice, StoreError> {
        self.transact(async |transaction| {
            let invoice = find(transaction, its).await?.ok_or(StoreError::NotFound("invoice"))?;
            if invoice.status == status {
                return Ok(SettledInvoice { invoice, is_new: false, reactivates: false });
            }
            if invoice.status != InvoiceStatus::Open {
                return Err(StoreError::Decided("invoice"));
            }
            settle(transaction, its, status, note, now).await?;
            if let Some(entry) = &self.entry {
                append(transaction, entry).await?;
            }
            let reactivates = reactivate(transaction, invoice.tenant, now).await?;
            let invoice = find(transaction, its).await?.ok_or_else(|| unreadable("invoice", its))?;
            Ok(SettledInvoice { invoice, is_new: true, reactivates })
        })
        .await
    }

    /// Suspends the tenant of an open invoice because of it, once for each invoice, and reports whether it did. A
    /// tenant that is already suspended stays so, whatever it pays.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn suspend_debtor(&self, its: InvoiceNumber, now: Time) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            let Some(invoice) = find(transaction, its).await? else { return Ok(false) };
            if invoice.status != InvoiceStatus::Open || invoice.suspended_at.is_some() {
                return Ok(false);
            }
            let update = invoices::Entity::update_many()
                .col_expr(invoices::Column::SuspendedAt, Expr::value(now))
                .filter(its.row());
            update.exec(transaction).await?;
            let id = invoice.tenant;
            let tenant = tenants::Entity::find_by_id(id).one(transaction).await?;
            if tenant.is_none_or(|tenant| tenant.suspended) {
                return Ok(false);
            }
            let update = billing_accounts::Entity::update_many()
                .col_expr(billing_accounts::Column::SuspendedAt, Expr::value(now))
                .filter(billing_accounts::Column::TenantId.eq(id));
            update.exec(transaction).await?;
            set_suspended(transaction, invoice.tenant, true, now).await?;
            Ok(true)
        })
        .await
    }
}
