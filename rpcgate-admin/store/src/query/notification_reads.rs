//! The notifications that users have read.

use super::id::{NotificationId, UserId};
use super::notices::{NotificationKind, visible};
use super::usage_rows::statement_error;
use super::value::insert_error;
use crate::entity::notices;
use crate::entity::notification_reads::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect};
use std::cmp;
use std::collections::BTreeMap;
use uuid::Uuid;

const ROWS: usize = 200;

impl Store {
    /// Returns the notifications that a user has read, with the times.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn read_notifications(
        &self,
        user: UserId,
    ) -> Result<BTreeMap<NotificationId, Time>, StoreError> {
        self.read(async |database| {
            let its = Entity::find().filter(Column::UserId.eq(user));
            let rows = its.all(database).await?;
            Ok(rows.into_iter().map(|row| (row.notification, row.read_at)).collect())
        })
        .await
    }

    /// Returns the number of unread notifications of a user, at most `limit`: visible notices of one of these `kinds`,
    /// and `others`, which are in the usage database.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn unread_notifications(
        &self,
        (tenant, user): (TenantId, UserId),
        kinds: &[NotificationKind],
        others: &[NotificationId],
        limit: u64,
    ) -> Result<u64, StoreError> {
        let its = Column::UserId.eq(user);
        let others = others.to_vec();
        self.read(async |database| {
            let mut read = Query::select();
            read.expr(Expr::val(1)).from(Entity).and_where(its.clone()).and_where(
                Expr::col((Entity, Column::Notification)).equals((notices::Entity, notices::Column::Id)),
            );
            let unread = notices::Entity::find()
                .select_only()
                .column(notices::Column::Id)
                .filter(visible(tenant, user))
                .filter(notices::Column::Kind.is_in(kinds.iter().copied()))
                .filter(Expr::not_exists(read))
                .limit(limit);
            let unread: Vec<Uuid> = unread.into_tuple().all(database).await?;
            let read_others = match others.len() {
                0 => 0,
                _ => {
                    let read = Entity::find().filter(its).filter(Column::Notification.is_in(others.clone()));
                    read.count(database).await?
                }
            };
            let unread_others = (others.len() as u64).saturating_sub(read_others);
            Ok(cmp::min((unread.len() as u64).saturating_add(unread_others), limit))
        })
        .await
    }

    /// Marks a notification as read and returns the time when the user first read it. Reading it again has no effect.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user does not exist, [`StoreError::Unavailable`].
    pub async fn read_notification(
        &self,
        user: UserId,
        notification: NotificationId,
        now: Time,
    ) -> Result<Time, StoreError> {
        self.transact(async |transaction| {
            let mut insert = Query::insert();
            insert.into_table(Entity).columns([Column::UserId, Column::Notification, Column::ReadAt]);
            let row: [Expr; 3] = [user.into(), notification.into(), now.into()];
            insert.values(row).map_err(statement_error)?;
            let once = OnConflict::columns([Column::UserId, Column::Notification]).do_nothing().to_owned();
            let done = transaction.execute(insert.on_conflict(once)).await;
            done.map_err(|error| insert_error(error, "notification that was read", "user", None))?;
            let row = Entity::find_by_id((user, notification)).one(transaction).await?;
            Ok(row.map_or(now, |row| row.read_at))
        })
        .await
    }

    /// Marks these notifications as read in one transaction. Those that were read before stay unchanged.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user does not exist, [`StoreError::Unavailable`].
    pub async fn read_these_notifications(
        &self,
        user: UserId,
        notifications: &[NotificationId],
        now: Time,
    ) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            for some in notifications.chunks(ROWS) {
                let mut insert = Query::insert();
                insert.into_table(Entity).columns([Column::UserId, Column::Notification, Column::ReadAt]);
                for one in some {
                    let row: [Expr; 3] = [user.into(), (*one).into(), now.into()];
                    insert.values(row).map_err(statement_error)?;
                }
                let once =
                    OnConflict::columns([Column::UserId, Column::Notification]).do_nothing().to_owned();
                let done = transaction.execute(insert.on_conflict(once)).await;
                done.map_err(|error| insert_error(error, "notification that was read", "user", None))?;
            }
            Ok(())
        })
        .await
    }
}
