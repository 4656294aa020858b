//! Notifications of members about an invoice: each once, whichever programs try.

use super::invoices::{InvoiceNumber, InvoiceStatus};
use super::notices::{MailedNotice, put_mailed};
use super::outgoing_mails::MailStored;
use crate::entity::invoices::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

/// A notification about an invoice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvoiceEvent {
    /// The invoice was issued.
    Issued,
    /// The open invoice must be paid.
    Reminder {
        /// The number of reminders sent before.
        sent: u32,
        /// The number of reminders that count as sent from now on.
        now: u32,
        /// The time of the suspension, if this reminder announces it first.
        suspends_at: Option<Time>,
    },
}

fn small(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl Store {
    /// Claims a notification about an invoice and stores its notice and mails in one transaction, so that a program
    /// that is killed in between loses no mail. Returns `None` if it was claimed before.
    ///
    /// # Errors
    /// Those of [`put_mailed_notice`](Store::put_mailed_notice).
    pub async fn notify_of_invoice(
        &self,
        number: InvoiceNumber,
        news: InvoiceEvent,
        told: Option<MailedNotice<'_>>,
    ) -> Result<Option<Vec<MailStored>>, StoreError> {
        let update = Entity::update_many().filter(number.row());
        let update = match news {
            InvoiceEvent::Issued => {
                let update = update.col_expr(Column::Announced, Expr::value(true));
                update.filter(Column::Announced.eq(false))
            }
            InvoiceEvent::Reminder { sent, now, suspends_at } => {
                let mut update = update.col_expr(Column::Reminders, Expr::value(small(now)));
                if let Some(at) = suspends_at {
                    update = update.col_expr(Column::SuspendsAt, Expr::value(at));
                    update = update.filter(Column::SuspendsAt.is_null());
                }
                let is_open = Column::Status.eq(InvoiceStatus::Open);
                update.filter(Column::Reminders.eq(small(sent))).filter(is_open)
            }
        };
        self.transact(async |transaction| {
            let update = update.clone();
            if update.exec(transaction).await?.rows_affected == 0 {
                return Ok(None);
            }
            match told {
                Some(told) => put_mailed(transaction, told).await.map(Some),
                None => Ok(Some(Vec::new())),
            }
        })
        .await
    }

    /// Removes the announced suspension for an invoice, because tenants are no longer suspended.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn withdraw_suspension(&self, number: InvoiceNumber) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let update = Entity::update_many().col_expr(Column::SuspendsAt, Expr::value(None::<Time>));
            update.filter(number.row()).exec(transaction).await?;
            Ok(())
        })
        .await
    }
}
