//! What members are told of an invoice: each thing once, whichever programs try.

use super::invoices::{InvoiceNumber, InvoiceStatus};
use super::notices::{MailedNotice, put_mailed};
use super::outgoing_mails::MailRoom;
use crate::store::entity::invoices::{Column, Entity};
use crate::store::{Store, StoreError};
use sea_orm::sea_query::{Condition, Expr};
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
        let (is_free, column, value) = match news {
            InvoiceNews::Issued => {
                (Condition::all().add(Column::Announced.eq(false)), Column::Announced, Expr::value(true))
            }
            InvoiceNews::Reminder { sent, now } => {
                let is_open = Column::Status.eq(InvoiceStatus::Open.name());
                let is_next = Condition::all().add(Column::Reminders.eq(small(sent))).add(is_open);
                (is_next, Column::Reminders, Expr::value(small(now)))
            }
        };
        self.transact(async |transaction| {
            let update = Entity::update_many().col_expr(column, value).filter(number.row()).filter(is_free);
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
}
