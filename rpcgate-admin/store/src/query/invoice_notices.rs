//! What members are told of an invoice: each thing once, whichever programs try.

use super::invoices::{InvoiceNumber, InvoiceStatus};
use super::notices::{MailedNotice, put_mailed};
use super::outgoing_mails::MailRoom;
use super::value::moment;
use crate::entity::invoices::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

/// What is told of an invoice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvoiceNews {
    /// That it was issued.
    Issued,
    /// That it is to be paid, as long as it is open.
    Reminder {
        /// The reminders that were sent before.
        sent: u32,
        /// Those that count as sent from now on.
        now: u32,
        /// The time of the suspension, if this reminder announces it first.
        suspends_at: Option<Time>,
    },
}

fn small(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl Store {
    /// Claims news of an invoice and stores what is told of them, if anything is: all of it or nothing, so a program that is
    /// killed in between loses no mail. `None` if they were claimed before.
    ///
    /// # Errors
    /// Those of [`put_mailed_notice`](Store::put_mailed_notice).
    pub async fn tell_of_invoice(
        &self,
        number: InvoiceNumber,
        news: InvoiceNews,
        told: Option<MailedNotice<'_>>,
    ) -> Result<Option<Vec<MailRoom>>, StoreError> {
        let update = Entity::update_many().filter(number.row());
        let update = match news {
            InvoiceNews::Issued => {
                let update = update.col_expr(Column::Announced, Expr::value(true));
                update.filter(Column::Announced.eq(false))
            }
            InvoiceNews::Reminder { sent, now, suspends_at } => {
                let mut update = update.col_expr(Column::Reminders, Expr::value(small(now)));
                if let Some(at) = suspends_at {
                    update = update.col_expr(Column::SuspendsAt, Expr::value(moment(at)));
                    update = update.filter(Column::SuspendsAt.is_null());
                }
                let is_open = Column::Status.eq(InvoiceStatus::Open.name());
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

    /// Forgets the suspension that was announced for an invoice, because tenants are not suspended any more.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn withdraw_suspension(&self, number: InvoiceNumber) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let update = Entity::update_many().col_expr(Column::SuspendsAt, Expr::value(None::<i64>));
            update.filter(number.row()).exec(transaction).await?;
            Ok(())
        })
        .await
    }
}
