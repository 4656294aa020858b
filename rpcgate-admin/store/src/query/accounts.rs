//! User accounts as operators see them, with everything that prevents a log-in.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::id::UserId;
use super::keyset::page;
use super::mail_tokens::{self, Purpose};
use super::users::{User, stored_email};
use super::{attempts, factors, members, session_rows};
use crate::entity::users::{Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter};

/// A user and everything that prevents its log-in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The user.
    pub user: User,
    /// The time when operators disabled it.
    pub disabled_at: Option<Time>,
    /// The end of the lock that wrong passwords or second factors caused.
    pub locked_until: Option<Time>,
    /// True if log-ins ask for a second factor.
    pub has_factor: bool,
}

/// The filter of a list of accounts. An account must match all given fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountFilter {
    /// The address, in any spelling.
    pub email: Option<String>,
    /// The tenant of the members.
    pub tenant: Option<TenantId>,
}

async fn accounts(
    database: &impl ConnectionTrait,
    rows: Vec<Model>,
    now: Time,
) -> Result<Vec<Account>, StoreError> {
    let emails: Vec<&str> = rows.iter().map(|row| row.email.as_str()).collect();
    let locks = attempts::locks(database, &emails, now).await?;
    let ids: Vec<UserId> = rows.iter().map(|row| row.id).collect();
    let having = factors::having_any(database, &ids).await?;
    let accounts = rows.into_iter().zip(locks).map(|(row, locked_until)| {
        let disabled_at = row.disabled_at;
        let has_factor = having.contains(&row.id);
        Account { user: row.into(), disabled_at, locked_until, has_factor }
    });
    Ok(accounts.collect())
}

async fn one(database: &impl ConnectionTrait, id: UserId, now: Time) -> Result<Account, StoreError> {
    let found = Entity::find_by_id(id).one(database).await?;
    let found = accounts(database, found.into_iter().collect(), now).await?.pop();
    found.ok_or(StoreError::NotFound("user"))
}

async fn note(transaction: &DatabaseTransaction, account: &Account, entry: &Audit) -> Result<(), StoreError> {
    append(transaction, &Audit { tenant: account.user.tenant, ..entry.clone() }).await
}

impl Store {
    /// Lists at most `limit` accounts by ascending identifier, starting after `after` if given.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn accounts(
        &self,
        filter: &AccountFilter,
        after: Option<UserId>,
        limit: u64,
        now: Time,
    ) -> Result<Vec<Account>, StoreError> {
        self.read(async |database| {
            let mut wanted = Entity::find();
            if let Some(email) = &filter.email {
                wanted = wanted.filter(Column::Email.eq(stored_email(email)));
            }
            if let Some(tenant) = filter.tenant {
                wanted = wanted.filter(Column::TenantId.eq(tenant));
            }
            let rows = page(wanted, Column::Id, after, limit).all(database).await?;
            accounts(database, rows, now).await
        })
        .await
    }

    /// Returns an account.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn account(&self, id: UserId, now: Time) -> Result<Account, StoreError> {
        self.read(async |database| one(database, id, now).await).await
    }

    /// Reports whether operators have disabled an account.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn is_disabled(&self, id: UserId) -> Result<bool, StoreError> {
        self.read(async |database| {
            let found = Entity::find_by_id(id).one(database).await?;
            Ok(found.is_some_and(|found| found.disabled_at.is_some()))
        })
        .await
    }

    /// Ends the locks that wrong passwords and second factors caused, and returns the account.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn unlock_account(&self, id: UserId, entry: &Audit) -> Result<Account, StoreError> {
        self.transact(async |transaction| {
            let account = one(transaction, id, entry.at).await?;
            attempts::unlock_all(transaction, &account.user.email).await?;
            note(transaction, &account, entry).await?;
            Ok(Account { locked_until: None, ..account })
        })
        .await
    }

    /// Removes the password of an account, ends its sessions, its access tokens and the lock that wrong passwords
    /// caused, withdraws its invitations, and stores the digest of a token that sets a new password. Returns the
    /// account, or `None` and changes nothing if it is disabled.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Taken`] if a token with this digest exists,
    /// [`StoreError::Unavailable`].
    pub async fn reset_account(
        &self,
        id: UserId,
        hash: &Digest,
        expires_at: Time,
        entry: &Audit,
    ) -> Result<Option<Account>, StoreError> {
        self.transact(async |transaction| {
            let account = one(transaction, id, entry.at).await?;
            if account.disabled_at.is_some() {
                return Ok(None);
            }
            let update = Entity::update_many()
                .col_expr(Column::Password, Expr::value(None::<String>))
                .filter(Column::Id.eq(id));
            update.exec(transaction).await?;
            session_rows::end_all(transaction, id, None).await?;
            session_rows::end_access_tokens(transaction, id).await?;
            mail_tokens::withdraw(transaction, id).await?;
            members::withdraw_invitations(transaction, id, &[]).await?;
            mail_tokens::put(transaction, id, (Purpose::Reset, None), hash, expires_at).await?;
            attempts::unlock(transaction, &account.user.email).await?;
            note(transaction, &account, entry).await?;
            Ok(Some(one(transaction, id, entry.at).await?))
        })
        .await
    }

    /// Removes all second factors of an account with their recovery codes and the lock that wrong ones caused, and ends
    /// its sessions and the log-ins that wait for a factor. Returns the account, or `None` if it has no factor.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn remove_factors(&self, id: UserId, entry: &Audit) -> Result<Option<Account>, StoreError> {
        self.transact(async |transaction| {
            let account = one(transaction, id, entry.at).await?;
            if !factors::remove_all(transaction, id).await? {
                return Ok(None);
            }
            session_rows::end_all(transaction, id, None).await?;
            attempts::unlock_factors(transaction, &account.user.email).await?;
            note(transaction, &account, entry).await?;
            Ok(Some(one(transaction, id, entry.at).await?))
        })
        .await
    }

    /// Disables or enables an account. Disabling ends its sessions and access tokens, invalidates the links that were
    /// mailed to it and withdraws its invitations. Returns the account, and whether it changed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn disable_account(
        &self,
        id: UserId,
        is_disabled: bool,
        entry: &Audit,
    ) -> Result<(Account, bool), StoreError> {
        self.transact(async |transaction| {
            let account = one(transaction, id, entry.at).await?;
            if account.disabled_at.is_some() == is_disabled {
                return Ok((account, false));
            }
            let disabled_at = is_disabled.then_some(entry.at);
            let update = Entity::update_many()
                .col_expr(Column::DisabledAt, Expr::value(disabled_at))
                .filter(Column::Id.eq(id));
            update.exec(transaction).await?;
            if is_disabled {
                session_rows::end_all(transaction, id, None).await?;
                session_rows::end_access_tokens(transaction, id).await?;
                mail_tokens::withdraw(transaction, id).await?;
                // A person who used the account could come back through one of them.
                members::withdraw_invitations(transaction, id, &[]).await?;
            }
            note(transaction, &account, entry).await?;
            Ok((Account { disabled_at, ..account }, true))
        })
        .await
    }
}
