//! Payments that were begun at the payment provider.

use super::audit::append;
use super::billing::{SettledInvoice, automatic_entry, reactivate, settle};
use super::custom_plans;
use super::id::{CheckoutId, UserId};
use super::invoices::{InvoiceNumber, InvoiceStatus, find};
use super::tier_changes::{TenantPlan, move_to};
use super::unmatched_payments::{self, UnmatchedPayment};
use super::value::{count, insert_error, number, unreadable};
use crate::entity::checkouts::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError, fresh_id};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use std::time::Duration;

const MAX_PER_DAY: u64 = 50;
const DAY: Duration = Duration::from_secs(86_400);

/// The time for which the page of a checkout is reused. Stripe's sessions last 24 hours.
const REUSED: Duration = Duration::from_secs(23 * 3_600);

/// The time that a checkout is kept, so that a late or repeated event still finds it.
const KEPT: Duration = Duration::from_secs(180 * 86_400);

const MAX_WORD: usize = 40;

const MAX_SESSION: usize = 255;

/// The purpose of a checkout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CheckoutSubject {
    /// Pays an invoice.
    Invoice(InvoiceNumber),
    /// Moves to a plan.
    Plan(TenantPlan),
}

/// A payment that was begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkout {
    /// Its identifier.
    pub id: CheckoutId,
    /// The tenant that pays.
    pub tenant: TenantId,
    /// The user who began it.
    pub user: Option<UserId>,
    /// The purpose.
    pub subject: CheckoutSubject,
    /// The amount, in cents.
    pub cents: u64,
    /// The provider's page, once the provider has answered.
    pub url: Option<String>,
    /// The provider's identifier of the payment, once the provider has answered.
    pub session: Option<String>,
    /// The time when it was begun.
    pub created_at: Time,
    /// The time when the provider reported its completion.
    pub completed_at: Option<Time>,
}

/// A completed payment as the provider reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaymentReport {
    /// The provider's identifier of the payment.
    pub session: String,
    /// The checkout that it names, if any.
    pub checkout: Option<CheckoutId>,
    /// The provider's word for the action of the customer.
    pub mode: Option<String>,
    /// The amount in hundredths of the currency.
    pub cents: u64,
    /// The currency.
    pub currency: Option<String>,
}

/// The result of a report of a completed payment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckoutOutcome {
    /// The invoice is paid. If more was paid than was owed, the rest is recorded too.
    Paid(Box<SettledInvoice>, Option<UnmatchedPayment>),
    /// The tenant has moved to the plan.
    Moved(TenantId),
    /// It was reported before. Nothing changed.
    Before,
    /// It matches no checkout, or nothing that is still unpaid. It was recorded, and nothing else changed.
    Unmatched(UnmatchedPayment),
}

impl Checkout {
    /// Reports whether a payment was made on the page of this checkout. Checkouts from before sessions were stored have
    /// its identifier in the URL of the page.
    fn is_paid_by(&self, session: &str) -> bool {
        match &self.session {
            Some(own) => own == session,
            None => {
                let is_identifier = session.starts_with("cs_") && session.len() > "cs_".len();
                is_identifier
                    && self
                        .url
                        .as_deref()
                        .is_some_and(|url| url.split(['/', '#', '?']).any(|part| part == session))
            }
        }
    }

    fn misfit(&self, report: &PaymentReport) -> Option<String> {
        let (mode, cents) = match self.subject {
            CheckoutSubject::Invoice(_) => ("payment", self.cents),
            CheckoutSubject::Plan(_) => ("setup", 0),
        };
        let is_dollars =
            report.currency.as_deref().is_some_and(|currency| currency.eq_ignore_ascii_case("usd"));
        if report.mode.as_deref() != Some(mode) {
            Some(format!("its mode is not {mode}"))
        } else if cents > 0 && !is_dollars {
            Some("its currency is not usd".into())
        } else if report.cents != cents {
            Some(format!("its amount is not {cents} cents"))
        } else {
            None
        }
    }
}

impl UnmatchedPayment {
    /// Returns the record of a payment that completed nothing, for the reason `why`. `checkout` is the one that it
    /// names.
    fn of(report: &PaymentReport, checkout: Option<&Checkout>, why: &str, now: Time) -> Self {
        let word = |text: &Option<String>| text.as_ref().map(|text| text.chars().take(MAX_WORD).collect());
        UnmatchedPayment {
            id: fresh_id(now),
            session: report.session.chars().take(MAX_SESSION).collect(),
            received_at: now,
            checkout: checkout.map(|checkout| checkout.id),
            tenant: checkout.map(|checkout| checkout.tenant),
            invoice: checkout.and_then(|checkout| match checkout.subject {
                CheckoutSubject::Invoice(number) => Some(number),
                CheckoutSubject::Plan(_) => None,
            }),
            cents: report.cents,
            currency: word(&report.currency),
            mode: word(&report.mode),
            reason: why.to_owned(),
        }
    }
}

impl TryFrom<Model> for Checkout {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let subject = match (row.invoice_year.zip(row.invoice_serial), row.tier) {
            (Some((year, serial)), None) => CheckoutSubject::Invoice(InvoiceNumber::stored(year, serial)?),
            (None, Some(tier)) => CheckoutSubject::Plan(TenantPlan { tier, custom: row.custom_plan_id }),
            _ => return Err(unreadable("checkout", row.id)),
        };
        Ok(Checkout {
            id: row.id,
            tenant: row.tenant_id,
            user: row.user_id,
            subject,
            cents: count("amount", row.cents)?,
            url: row.url,
            session: row.session,
            created_at: row.created_at,
            completed_at: row.completed_at,
        })
    }
}

fn row(checkout: &Checkout) -> Result<ActiveModel, StoreError> {
    let (invoice, plan) = match checkout.subject {
        CheckoutSubject::Invoice(number) => (Some(number.columns()), None),
        CheckoutSubject::Plan(plan) => (None, Some(plan)),
    };
    Ok(ActiveModel {
        id: Set(checkout.id),
        tenant_id: Set(checkout.tenant),
        user_id: Set(checkout.user),
        invoice_year: Set(invoice.map(|(year, _)| year)),
        invoice_serial: Set(invoice.map(|(_, serial)| serial)),
        tier: Set(plan.map(|plan| plan.tier)),
        custom_plan_id: Set(plan.and_then(|plan| plan.custom)),
        cents: Set(number("cents", checkout.cents)?),
        url: Set(checkout.url.clone()),
        session: Set(checkout.session.clone()),
        created_at: Set(checkout.created_at),
        completed_at: Set(checkout.completed_at),
        is_over: Set(false),
    })
}

pub(super) fn are_old(now: Time) -> Condition {
    Condition::all().add(Column::CreatedAt.lt(now.minus(KEPT)))
}

async fn one(transaction: &DatabaseTransaction, id: CheckoutId) -> Result<Option<Checkout>, StoreError> {
    let found = Entity::find_by_id(id).one(transaction).await?;
    found.map(Checkout::try_from).transpose()
}

async fn mark(transaction: &DatabaseTransaction, id: CheckoutId, now: Time) -> Result<(), StoreError> {
    let update =
        Entity::update_many().col_expr(Column::CompletedAt, Expr::value(now)).filter(Column::Id.eq(id));
    update.exec(transaction).await?;
    Ok(())
}

async fn end(transaction: &DatabaseTransaction, id: CheckoutId) -> Result<(), StoreError> {
    let update = Entity::update_many().col_expr(Column::IsOver, Expr::value(true)).filter(Column::Id.eq(id));
    update.exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Returns the tenant's equal checkout whose page can still be used, or adds `new`.
    ///
    /// # Errors
    /// [`StoreError::Full`] for too many in a day; [`StoreError::NotFound`] if the tenant does not exist;
    /// [`StoreError::Unavailable`].
    pub async fn begin_checkout(&self, new: &Checkout) -> Result<Checkout, StoreError> {
        let its = Column::TenantId.eq(new.tenant);
        self.transact(async |transaction| {
            let usable = Entity::find()
                .filter(its.clone())
                .filter(Column::CreatedAt.gt(new.created_at.minus(REUSED)))
                .filter(Column::CompletedAt.is_null())
                .filter(Column::IsOver.eq(false))
                .order_by_desc(Column::CreatedAt)
                .all(transaction)
                .await?;
            for row in usable {
                let checkout = Checkout::try_from(row)?;
                if checkout.subject == new.subject && checkout.cents == new.cents {
                    return Ok(checkout);
                }
            }
            let recent = Entity::find().filter(its).filter(Column::CreatedAt.gt(new.created_at.minus(DAY)));
            if recent.count(transaction).await? >= MAX_PER_DAY {
                let why = format!("at most {MAX_PER_DAY} payments can be begun in a day");
                return Err(StoreError::Full(why));
            }
            let done = Entity::insert(row(new)?).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "checkout", "tenant", None))?;
            if let Some(entry) = &self.entry {
                append(transaction, entry).await?;
            }
            Ok(new.clone())
        })
        .await
    }

    /// Stores the provider's page of a checkout, and its identifier of the payment.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn set_checkout_page(
        &self,
        id: CheckoutId,
        url: &str,
        session: &str,
    ) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::Url, Expr::value(url.to_owned()))
                .col_expr(Column::Session, Expr::value(session.to_owned()))
                .filter(Column::Id.eq(id));
            update.exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Prevents reuse of a checkout's page, because nothing can be paid there any more. If `session` is given, does
    /// nothing unless it is that of the checkout.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn end_checkout(&self, id: CheckoutId, session: Option<&str>) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let Some(checkout) = one(transaction, id).await? else { return Ok(()) };
            if session.is_none_or(|session| checkout.is_paid_by(session)) {
                end(transaction, id).await?;
            }
            Ok(())
        })
        .await
    }

    /// Applies a completed payment once, however often it is reported. A payment that does not match is recorded
    /// instead, with an audit entry.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn complete_checkout(
        &self,
        report: &PaymentReport,
        now: Time,
    ) -> Result<CheckoutOutcome, StoreError> {
        self.transact(async |transaction| {
            let checkout = match report.checkout {
                Some(id) => one(transaction, id).await?,
                None => None,
            };
            let Some(checkout) = checkout else {
                return unmatched(transaction, report, None, "it names no checkout of this service", now)
                    .await;
            };
            let id = checkout.id;
            if !checkout.is_paid_by(&report.session) {
                let why = "it was not made on the page of the checkout that it names";
                return unmatched(transaction, report, Some(&checkout), why, now).await;
            }
            if checkout.completed_at.is_some() {
                return Ok(CheckoutOutcome::Before);
            }
            if let Some(why) = checkout.misfit(report) {
                // The page is used up, so the next checkout gets another one.
                end(transaction, id).await?;
                return unmatched(transaction, report, Some(&checkout), &why, now).await;
            }
            mark(transaction, id, now).await?;
            let tenant = checkout.tenant;
            match checkout.subject {
                CheckoutSubject::Plan(after) => {
                    let detail = match after.custom {
                        None => after.tier.name().to_owned(),
                        Some(plan) => match custom_plans::find(transaction, plan).await? {
                            Some(plan) => plan.name,
                            None => {
                                let why = "the plan was deleted, so the tenant stays on its own";
                                return unmatched(transaction, report, Some(&checkout), why, now).await;
                            }
                        },
                    };
                    move_to(transaction, tenant, after, now).await?;
                    let subject = tenant.to_string();
                    append(transaction, &automatic_entry(tenant, "tenant.changed", subject, detail, now))
                        .await?;
                    Ok(CheckoutOutcome::Moved(tenant))
                }
                CheckoutSubject::Invoice(its) => {
                    let invoice = find(transaction, its).await?.ok_or_else(|| unreadable("invoice", its))?;
                    if invoice.status != InvoiceStatus::Open {
                        let why = "the invoice is not open: return it";
                        return unmatched(transaction, report, Some(&checkout), why, now).await;
                    }
                    let paid = report.cents;
                    let due = invoice.due_cents();
                    if paid < due {
                        let why = "it is less than what is owed: the invoice stays open";
                        return unmatched(transaction, report, Some(&checkout), why, now).await;
                    }
                    settle(transaction, its, InvoiceStatus::Paid, None, now).await?;
                    let detail = format!("{paid} cents, checkout {id}");
                    let entry = automatic_entry(tenant, "invoice.paid", its.to_string(), detail, now);
                    append(transaction, &entry).await?;
                    let rest = if paid > due {
                        let over = PaymentReport { cents: paid - due, ..report.clone() };
                        let why = "more was paid than was owed: return the rest";
                        Some(UnmatchedPayment::of(&over, Some(&checkout), why, now))
                    } else {
                        None
                    };
                    if let Some(rest) = &rest {
                        unmatched_payments::record(transaction, rest).await?;
                    }
                    let reactivates = reactivate(transaction, tenant, now).await?;
                    let paid = find(transaction, its).await?.ok_or_else(|| unreadable("invoice", its))?;
                    let settled = SettledInvoice { invoice: paid, is_new: true, reactivates };
                    Ok(CheckoutOutcome::Paid(Box::new(settled), rest))
                }
            }
        })
        .await
    }
}

async fn unmatched(
    transaction: &DatabaseTransaction,
    report: &PaymentReport,
    checkout: Option<&Checkout>,
    why: &str,
    now: Time,
) -> Result<CheckoutOutcome, StoreError> {
    let payment = UnmatchedPayment::of(report, checkout, why, now);
    let is_new = unmatched_payments::record(transaction, &payment).await?;
    Ok(if is_new { CheckoutOutcome::Unmatched(payment) } else { CheckoutOutcome::Before })
}
