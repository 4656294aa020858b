//! Passkeys of users.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::factors::{FactorUse, LogInMethod, added, consume, of_user, removed, was_added_since};
use super::id::{PasskeyId, SessionId, UserId};
use super::sessions::{self, Session};
use super::value::{count, insert_error};
use super::{recovery_codes, registrations};
use crate::entity::passkeys::{ActiveModel, Column, Entity, Model};
use crate::entity::users;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};

/// The number of passkeys that a user may have.
pub const MAX_PASSKEYS: u64 = 20;

/// A passkey of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredPasskey {
    /// Its identifier.
    pub id: PasskeyId,
    /// The owner.
    pub user: UserId,
    /// The authenticator's identifier of the key.
    pub credential: Vec<u8>,
    /// The name that the user gave it.
    pub name: String,
    /// The public key and its counter, as JSON.
    pub passkey: String,
    /// The number of uses.
    pub uses: u64,
    /// The time of registration.
    pub created_at: Time,
    /// The time of the last use.
    pub used_at: Option<Time>,
}

impl TryFrom<Model> for StoredPasskey {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(StoredPasskey {
            id: row.id,
            user: row.user_id,
            credential: row.credential,
            name: row.name,
            passkey: row.passkey,
            uses: count("uses of a passkey", row.uses)?,
            created_at: row.created_at,
            used_at: row.used_at,
        })
    }
}

impl Store {
    /// Records the use of `token`, which is valid until `expires_at`. Returns false if it was used before.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn use_once(&self, token: &Digest, expires_at: Time) -> Result<bool, StoreError> {
        self.transact(async |transaction| registrations::use_solution(transaction, token, expires_at).await)
            .await
    }

    /// Consumes a factor for an action outside the store. Returns false if it was used before.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn use_factor(
        &self,
        user: UserId,
        used: &FactorUse,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            if !consume(transaction, user, used).await? {
                return Ok(false);
            }
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }

    /// Returns the passkeys of a user, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn passkeys(&self, user: UserId) -> Result<Vec<StoredPasskey>, StoreError> {
        self.read(async |database| {
            let its = Entity::find().filter(Column::UserId.eq(user));
            let its = its.order_by_asc(Column::CreatedAt).order_by_asc(Column::Id).all(database).await?;
            its.into_iter().map(StoredPasskey::try_from).collect()
        })
        .await
    }

    /// Returns the passkey that an authenticator knows by this identifier, of any user: a log-in by a passkey begins
    /// without a user.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn passkey_of(&self, credential: &[u8]) -> Result<Option<StoredPasskey>, StoreError> {
        self.read(async |database| {
            let found = Entity::find().filter(Column::Credential.eq(credential)).one(database).await?;
            found.map(StoredPasskey::try_from).transpose()
        })
        .await
    }

    /// Adds a passkey whose registration began at `begun_at`. If it is the user's first factor, `codes` become the
    /// recovery codes and all sessions of the user end except `keep`. Reports whether it is the first. Returns `None`,
    /// and adds nothing, if another factor was added since.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the user has [`MAX_PASSKEYS`], [`StoreError::Taken`] if the credential is already
    /// registered, [`StoreError::Unavailable`].
    pub async fn add_passkey(
        &self,
        passkey: &StoredPasskey,
        begun_at: Time,
        keep: SessionId,
        codes: &[Digest],
        entry: &Audit,
    ) -> Result<Option<bool>, StoreError> {
        let user = passkey.user;
        self.transact(async |transaction| {
            if Entity::find().filter(Column::UserId.eq(user)).count(transaction).await? >= MAX_PASSKEYS {
                return Err(StoreError::Full(format!("a user may have at most {MAX_PASSKEYS} passkeys")));
            }
            if was_added_since(transaction, user, begun_at).await? {
                return Ok(None);
            }
            let is_first = !of_user(transaction, user).await?.any();
            let row = ActiveModel {
                id: Set(passkey.id),
                user_id: Set(user),
                credential: Set(passkey.credential.clone()),
                name: Set(passkey.name.clone()),
                passkey: Set(passkey.passkey.clone()),
                uses: Set(0),
                created_at: Set(passkey.created_at),
                used_at: Set(None),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "passkey", "user", Some(("credential", "credential"))))?;
            if is_first {
                recovery_codes::replace(transaction, passkey.user, codes).await?;
                let method = LogInMethod::PasswordAndPasskey;
                added(transaction, (passkey.user, keep), method, entry.at).await?;
            }
            append(transaction, entry).await?;
            Ok(Some(is_first))
        })
        .await
    }

    /// Consumes a factor and removes a passkey of the user. All sessions of the user end except `keep`. Returns false,
    /// and does nothing, if the factor was used before.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user does not have this passkey, [`StoreError::Unavailable`].
    pub async fn remove_passkey(
        &self,
        (user, keep): (UserId, SessionId),
        id: PasskeyId,
        used: &FactorUse,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        let owner = user;
        self.transact(async |transaction| {
            let its = Entity::find_by_id(id).filter(Column::UserId.eq(owner));
            if its.one(transaction).await?.is_none() {
                return Err(StoreError::NotFound("passkey"));
            }
            if !consume(transaction, owner, used).await? {
                return Ok(false);
            }
            Entity::delete_by_id(id).exec(transaction).await?;
            removed(transaction, (user, keep)).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }

    /// Consumes a passkey and opens a session by it alone, with its first refresh token. Returns false, and does
    /// nothing, if the passkey was used or removed, or the account was disabled.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::Unavailable`].
    pub async fn open_passkey_session(
        &self,
        session: &Session,
        refresh: &Digest,
        used: &FactorUse,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        let user = session.user;
        self.transact(async |transaction| {
            let is_open = users::Column::DisabledAt.is_null();
            let found = users::Entity::find_by_id(user).filter(is_open).one(transaction).await?;
            if found.is_none() || !consume(transaction, user, used).await? {
                return Ok(false);
            }
            sessions::insert(transaction, session, refresh).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }
}
