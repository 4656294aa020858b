//! Personal access tokens, with which a user's programs call the API without a log-in.

use super::digest::Digest;
use super::id::{AccessTokenId, UserId};
use super::users::User;
use super::value::{insert_error, list, names};
use crate::entity::access_tokens::{ActiveModel, Column, Entity, Model};
use crate::entity::users;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use std::time::Duration;

const MAX_TOKENS: u64 = 50;

/// The time that an expired token is kept, so that its user can see why it no longer works.
const EXPIRED_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// The resolution of a token's last use: the database is not written for each request.
const USE_INTERVAL: Duration = Duration::from_secs(60);

/// A personal access token, without its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessToken {
    /// Its identifier.
    pub id: AccessTokenId,
    /// The user who created it and on whose behalf it acts.
    pub user: UserId,
    /// Its display name.
    pub name: String,
    /// The names of its scopes.
    pub scopes: Vec<String>,
    /// The creation time.
    pub created_at: Time,
    /// The expiry time.
    pub expires_at: Time,
    /// The time of the last use, to the minute, and the client's address.
    pub used: Option<(Time, String)>,
}

impl TryFrom<Model> for AccessToken {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(AccessToken {
            id: row.id,
            user: row.user_id,
            name: row.name,
            scopes: names("scope", &row.scopes)?,
            created_at: row.created_at,
            expires_at: row.expires_at,
            used: row.used_at.map(|at| (at, row.used_from.unwrap_or_default())),
        })
    }
}

pub(super) fn is_old(now: Time) -> Condition {
    Condition::all().add(Column::ExpiresAt.lte(now.minus(EXPIRED_KEPT)))
}

impl Store {
    /// Adds a token, whose text has the digest `hash`.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the user has too many, [`StoreError::NotFound`] if the user does not exist or is
    /// disabled, [`StoreError::Unavailable`].
    pub async fn create_access_token(&self, token: &AccessToken, hash: &Digest) -> Result<(), StoreError> {
        let user = token.user;
        let row = ActiveModel {
            id: Set(token.id),
            user_id: Set(user),
            hash: Set(hash.bytes()),
            name: Set(token.name.clone()),
            scopes: Set(list(token.scopes.iter().map(String::as_str))),
            created_at: Set(token.created_at),
            expires_at: Set(token.expires_at),
            used_at: Set(None),
            used_from: Set(None),
        };
        self.write(async |transaction| {
            let owner = users::Entity::find_by_id(user).filter(users::Column::DisabledAt.is_null());
            if owner.one(transaction).await?.is_none() {
                return Err(StoreError::NotFound("user"));
            }
            let its = Entity::find().filter(Column::UserId.eq(user)).count(transaction).await?;
            if its >= MAX_TOKENS {
                let text =
                    format!("a user can have {MAX_TOKENS} access tokens: revoke one that is not needed");
                return Err(StoreError::Full(text));
            }
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            let unique = Some(("hash", "text"));
            done.map(drop).map_err(|error| insert_error(error, "personal access token", "user", unique))
        })
        .await
    }

    /// Returns a user's tokens, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn access_tokens(&self, user: UserId) -> Result<Vec<AccessToken>, StoreError> {
        self.read(async |database| {
            let its = Entity::find().filter(Column::UserId.eq(user)).order_by_asc(Column::Id);
            its.all(database).await?.into_iter().map(AccessToken::try_from).collect()
        })
        .await
    }

    /// Revokes a token of a user.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is another user's, [`StoreError::Unavailable`].
    pub async fn revoke_access_token(&self, user: UserId, id: AccessTokenId) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let its = Entity::delete_many().filter(Column::Id.eq(id)).filter(Column::UserId.eq(user));
            if its.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("personal access token"));
            }
            Ok(())
        })
        .await
    }

    /// Returns the token whose text has the digest `hash`, with its user. Returns `None` if it does not exist or has
    /// expired, or if operators have disabled the user.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn access_token(
        &self,
        hash: &Digest,
        now: Time,
    ) -> Result<Option<(AccessToken, User)>, StoreError> {
        self.read(async |database| {
            let valid =
                Entity::find().filter(Column::Hash.eq(hash.bytes())).filter(Column::ExpiresAt.gt(now));
            let Some(row) = valid.one(database).await? else { return Ok(None) };
            let user = users::Entity::find_by_id(row.user_id).filter(users::Column::DisabledAt.is_null());
            let Some(user) = user.one(database).await? else { return Ok(None) };
            Ok(Some((row.try_into()?, user.into())))
        })
        .await
    }

    /// Records a use of a token by a client with this address, unless another use was recorded within a minute.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn use_access_token(
        &self,
        token: &AccessToken,
        address: &str,
        now: Time,
    ) -> Result<(), StoreError> {
        let is_recent = |(at, _): &(Time, String)| at.plus(USE_INTERVAL) > now && *at <= now;
        if token.used.as_ref().is_some_and(is_recent) {
            return Ok(());
        }
        self.transact(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::UsedAt, Expr::value(now))
                .col_expr(Column::UsedFrom, Expr::value(address))
                .filter(Column::Id.eq(token.id));
            update.exec(transaction).await?;
            Ok(())
        })
        .await
    }
}
