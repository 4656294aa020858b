//! Mails that wait to be sent. A sender claims a mail before it sends it. No other sender sends it until the lease
//! ends; if the sender was killed, the mail is due again then.

use super::digest::Digest;
use super::id::NotificationId;
use super::value::unreadable;
use crate::entity::mailed_notifications;
use crate::entity::outgoing_mails::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// The number of mails that may wait for one recipient. Beyond it, the oldest is dropped, because the newest link is
/// the one that works.
const MAX_PER_RECIPIENT: u64 = 20;
const MAX_WAITING: u64 = 10_000;
/// The time that it is remembered that a notification was mailed: longer than it may be mailed after it was raised.
const MAILED_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// A mail to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingMail {
    /// Its identifier, a UUID.
    pub id: u128,
    /// The digest of the recipient's address.
    pub recipient: Digest,
    /// The sealed content.
    pub content: Vec<u8>,
    /// The time when it was written.
    pub created_at: Time,
    /// The time when it is given up.
    pub expires_at: Time,
}

impl fmt::Debug for OutgoingMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingMail").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The result of storing a mail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailStored {
    /// It was stored.
    Found,
    /// It was stored after the oldest mail of the same recipient was dropped.
    Made,
    /// It was not stored, because too many mails wait.
    Full,
}

/// A mail that this sender must send.
#[derive(Clone, PartialEq, Eq)]
pub struct ClaimedMail {
    /// Its identifier.
    pub id: u128,
    /// The sealed content.
    pub content: Vec<u8>,
    /// The time when it was written.
    pub created_at: Time,
    /// The number of claims, including this one.
    pub tries: u32,
}

impl fmt::Debug for ClaimedMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ClaimedMail");
        shown.field("id", &self.id).field("tries", &self.tries).finish_non_exhaustive()
    }
}

/// The result of a claim.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimedMails {
    /// The mails, in order of due time.
    pub mails: Vec<ClaimedMail>,
    /// The number of expired mails that were removed.
    pub expired: u64,
}

/// Removes the excess mails of a recipient before another one is stored, and reports whether there were any.
async fn free_capacity(transaction: &DatabaseTransaction, recipient: &Digest) -> Result<bool, StoreError> {
    let surplus = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::Recipient.eq(recipient.bytes()))
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .offset(MAX_PER_RECIPIENT - 1)
        .limit(MAX_PER_RECIPIENT);
    let surplus: Vec<Uuid> = surplus.into_tuple().all(transaction).await?;
    if surplus.is_empty() {
        return Ok(false);
    }
    Entity::delete_many().filter(Column::Id.is_in(surplus)).exec(transaction).await?;
    Ok(true)
}

pub(super) async fn put(
    transaction: &DatabaseTransaction,
    mail: &OutgoingMail,
) -> Result<MailStored, StoreError> {
    let room = if free_capacity(transaction, &mail.recipient).await? {
        MailStored::Made
    } else if Entity::find().count(transaction).await? < MAX_WAITING {
        MailStored::Found
    } else {
        return Ok(MailStored::Full);
    };
    let row = ActiveModel {
        id: Set(Uuid::from_u128(mail.id)),
        recipient: Set(mail.recipient.bytes()),
        content: Set(mail.content.clone()),
        tries: Set(0),
        created_at: Set(mail.created_at),
        due_at: Set(mail.created_at),
        expires_at: Set(mail.expires_at),
    };
    Entity::insert(row).exec_without_returning(transaction).await?;
    Ok(room)
}

pub(super) fn is_mailed_long_ago(now: Time) -> Condition {
    Condition::all().add(mailed_notifications::Column::At.lte(now.minus(MAILED_KEPT)))
}

impl Store {
    /// Stores a mail, which is due at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn put_mail(&self, mail: &OutgoingMail) -> Result<MailStored, StoreError> {
        self.transact(async |transaction| put(transaction, mail).await).await
    }

    /// Stores the mails about a notification, unless this was done before.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn put_mails_once(
        &self,
        notification: NotificationId,
        mails: &[OutgoingMail],
        now: Time,
    ) -> Result<Vec<MailStored>, StoreError> {
        self.transact(async |transaction| {
            if mailed_notifications::Entity::find_by_id(notification).count(transaction).await? > 0 {
                return Ok(Vec::new());
            }
            let row = mailed_notifications::ActiveModel { notification: Set(notification), at: Set(now) };
            mailed_notifications::Entity::insert(row).exec_without_returning(transaction).await?;
            let mut rooms = Vec::with_capacity(mails.len());
            for mail in mails {
                rooms.push(put(transaction, mail).await?);
            }
            Ok(rooms)
        })
        .await
    }

    /// Reports whether a mail is due at `now`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn are_mails_due(&self, now: Time) -> Result<bool, StoreError> {
        let due = Entity::find().select_only().column(Column::Id).filter(Column::DueAt.lte(now));
        self.read(async |database| Ok(due.into_tuple::<Uuid>().one(database).await?.is_some())).await
    }

    /// Returns the number of waiting mails.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn waiting_mails(&self) -> Result<u64, StoreError> {
        self.read(async |database| Ok(Entity::find().count(database).await?)).await
    }

    /// Claims at most `limit` mails that are due at `now`. No other sender gets them until `lease` is over. Removes due
    /// mails that have expired instead.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn claim_mails(
        &self,
        limit: u64,
        lease: Duration,
        now: Time,
    ) -> Result<ClaimedMails, StoreError> {
        self.transact(async |transaction| {
            let due = Entity::find().filter(Column::DueAt.lte(now));
            let due = due.order_by_asc(Column::DueAt).order_by_asc(Column::Id).limit(limit);
            let (expired, alive): (Vec<_>, Vec<_>) =
                due.all(transaction).await?.into_iter().partition(|mail| mail.expires_at <= now);
            let ids =
                |mails: &[Model]| Column::Id.is_in(mails.iter().map(|mail| mail.id).collect::<Vec<_>>());
            let gone = Entity::delete_many().filter(ids(&expired)).exec(transaction).await?;
            Entity::update_many()
                .col_expr(Column::Tries, Expr::col(Column::Tries).add(1))
                .col_expr(Column::DueAt, Expr::value(now.plus(lease)))
                .filter(ids(&alive))
                .exec(transaction)
                .await?;
            let mails = alive.into_iter().map(|mail| {
                let tries =
                    u32::try_from(mail.tries).map_err(|_| unreadable("number of tries", mail.tries))?;
                Ok(ClaimedMail {
                    id: mail.id.as_u128(),
                    content: mail.content,
                    created_at: mail.created_at,
                    tries: tries.saturating_add(1),
                })
            });
            let mails = mails.collect::<Result<Vec<_>, StoreError>>()?;
            Ok(ClaimedMails { mails, expired: gone.rows_affected })
        })
        .await
    }

    /// Makes a claimed mail due at this time, or when it expires, if that is earlier. Does nothing if another sender
    /// has claimed it since.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn postpone_mail(&self, mail: &ClaimedMail, due_at: Time) -> Result<(), StoreError> {
        let tries = i32::try_from(mail.tries).unwrap_or(i32::MAX);
        self.transact(async |transaction| {
            let this = Entity::find_by_id(Uuid::from_u128(mail.id)).filter(Column::Tries.eq(tries));
            let Some(row) = this.one(transaction).await? else { return Ok(()) };
            let due_at = Ord::min(due_at, row.expires_at);
            let due = Entity::update_many().col_expr(Column::DueAt, Expr::value(due_at));
            due.filter(Column::Id.eq(row.id)).exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Renews the claim of a mail until `due_at`. Does nothing if another sender has claimed it since.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn renew_mail(&self, mail: &ClaimedMail, due_at: Time) -> Result<(), StoreError> {
        let tries = i32::try_from(mail.tries).unwrap_or(i32::MAX);
        self.transact(async |transaction| {
            let due = Entity::update_many().col_expr(Column::DueAt, Expr::value(due_at));
            let this = due.filter(Column::Id.eq(Uuid::from_u128(mail.id))).filter(Column::Tries.eq(tries));
            this.exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Removes a mail, because it was sent or is given up.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn remove_mail(&self, id: u128) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            Entity::delete_by_id(Uuid::from_u128(id)).exec(transaction).await?;
            Ok(())
        })
        .await
    }
}
