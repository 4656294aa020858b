//! The notification preferences of users.

use super::id::UserId;
use super::notices::NotificationKind;
use super::usage_rows::statement_error;
use super::users::User;
use super::value::insert_error;
use crate::entity::notification_preferences::{Column, Entity};
use crate::entity::users;
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::{Expr, OnConflict, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use std::collections::BTreeMap;

/// A user's delivery channels for notifications of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotificationPreference {
    /// True if they are in the user's list.
    pub shown: bool,
    /// True if they are mailed.
    pub mail: bool,
}

impl Store {
    /// Returns the preferences of a user.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notification_preferences(
        &self,
        user: UserId,
    ) -> Result<BTreeMap<NotificationKind, NotificationPreference>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().filter(Column::UserId.eq(user)).all(database).await?;
            let chosen = rows
                .into_iter()
                .map(|row| (row.kind, NotificationPreference { shown: row.shown, mail: row.mail }));
            Ok(chosen.collect())
        })
        .await
    }

    /// Stores a user's preference for a kind.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user does not exist, [`StoreError::Unavailable`].
    pub async fn put_notification_preference(
        &self,
        user: UserId,
        kind: NotificationKind,
        preference: NotificationPreference,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let mut insert = Query::insert();
            insert.into_table(Entity).columns([Column::UserId, Column::Kind, Column::Shown, Column::Mail]);
            let row: [Expr; 4] =
                [user.into(), kind.name().into(), preference.shown.into(), preference.mail.into()];
            insert.values(row).map_err(statement_error)?;
            let chosen = OnConflict::columns([Column::UserId, Column::Kind])
                .update_columns([Column::Shown, Column::Mail])
                .to_owned();
            let done = transaction.execute(insert.on_conflict(chosen)).await;
            done.map(drop).map_err(|error| insert_error(error, "preference", "user", None))
        })
        .await
    }

    /// Returns the members of a tenant whose address is confirmed and who are not disabled, with their preferences for
    /// a kind.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notification_audience(
        &self,
        tenant: TenantId,
        kind: NotificationKind,
    ) -> Result<Vec<(User, Option<NotificationPreference>)>, StoreError> {
        self.read(async |database| {
            let members = users::Entity::find()
                .filter(users::Column::TenantId.eq(tenant))
                .filter(users::Column::ConfirmedAt.is_not_null())
                .filter(users::Column::DisabledAt.is_null())
                .order_by_asc(users::Column::CreatedAt)
                .order_by_asc(users::Column::Id)
                .all(database)
                .await?;
            let chosen = Entity::find()
                .filter(Column::Kind.eq(kind))
                .filter(Column::UserId.is_in(members.iter().map(|member| member.id)))
                .all(database)
                .await?;
            let chosen: BTreeMap<UserId, _> = chosen
                .into_iter()
                .map(|row| (row.user_id, NotificationPreference { shown: row.shown, mail: row.mail }))
                .collect();
            let with_preference = |member: users::Model| {
                let preference = chosen.get(&member.id).copied();
                (User::from(member), preference)
            };
            Ok(members.into_iter().map(with_preference).collect())
        })
        .await
    }
}
