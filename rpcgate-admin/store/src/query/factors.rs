//! Second factors of users: the factors that a user has, and their consumption.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::id::{PasskeyId, SessionId, UserId};
use super::session_rows;
use super::session_rows::end_all;
use super::value::number;
use crate::entity::{passkeys, pending_log_ins, recovery_codes, sessions, totp};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect,
};
use std::collections::BTreeSet;

pub use crate::entity::sessions::LogInMethod;

/// A factor whose secret was verified. It is valid once: the store consumes it in the transaction that it permits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FactorUse {
    /// A code of the user's authenticator app.
    Code {
        /// The time step of the code. Codes of this and earlier steps are consumed with it.
        step: u64,
    },
    /// A recovery code, by its hash.
    RecoveryCode(Digest),
    /// A passkey.
    Passkey {
        /// Its identifier.
        id: PasskeyId,
        /// Its use count when it was verified.
        uses: u64,
        /// The public key and its new counter, as JSON.
        passkey: String,
        /// The time of use.
        used_at: Time,
    },
}

impl FactorUse {
    /// Returns the method of a log-in with a password and this factor.
    pub const fn method(&self) -> LogInMethod {
        match self {
            FactorUse::Code { .. } => LogInMethod::PasswordAndCode,
            FactorUse::RecoveryCode(_) => LogInMethod::PasswordAndRecoveryCode,
            FactorUse::Passkey { .. } => LogInMethod::PasswordAndPasskey,
        }
    }
}

/// The factors of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Factors {
    /// True if an authenticator app is activated.
    pub totp: bool,
    /// The number of passkeys.
    pub passkeys: u64,
    /// The number of unused recovery codes.
    pub recovery_codes: u64,
}

impl Factors {
    /// Reports whether a log-in needs a second factor. Recovery codes replace a factor but do not count as one.
    pub const fn any(&self) -> bool {
        self.totp || self.passkeys > 0
    }
}

pub(super) async fn of_user(database: &impl ConnectionTrait, user: UserId) -> Result<Factors, StoreError> {
    let totp = totp::Entity::find_by_id(user).filter(totp::Column::ActivatedAt.is_not_null());
    let passkeys = passkeys::Entity::find().filter(passkeys::Column::UserId.eq(user));
    let codes = recovery_codes::Entity::find().filter(recovery_codes::Column::UserId.eq(user));
    Ok(Factors {
        totp: totp.count(database).await? > 0,
        passkeys: passkeys.count(database).await?,
        recovery_codes: codes.count(database).await?,
    })
}

pub(super) async fn was_added_since(
    database: &impl ConnectionTrait,
    user: UserId,
    since: Time,
) -> Result<bool, StoreError> {
    let app = totp::Entity::find_by_id(user).filter(totp::Column::ActivatedAt.gt(since));
    let passkey = passkeys::Entity::find().filter(passkeys::Column::UserId.eq(user));
    let passkey = passkey.filter(passkeys::Column::CreatedAt.gt(since));
    Ok(app.count(database).await? > 0 || passkey.count(database).await? > 0)
}

pub(super) async fn having_any(
    database: &impl ConnectionTrait,
    users: &[UserId],
) -> Result<BTreeSet<UserId>, StoreError> {
    let with_app = totp::Entity::find()
        .select_only()
        .column(totp::Column::UserId)
        .filter(totp::Column::ActivatedAt.is_not_null())
        .filter(totp::Column::UserId.is_in(users.iter().copied()));
    let with_passkey = passkeys::Entity::find()
        .select_only()
        .column(passkeys::Column::UserId)
        .filter(passkeys::Column::UserId.is_in(users.iter().copied()));
    let mut having: BTreeSet<UserId> =
        with_app.into_tuple::<UserId>().all(database).await?.into_iter().collect();
    having.extend(with_passkey.into_tuple::<UserId>().all(database).await?);
    Ok(having)
}

/// Removes all second factors of a user, the recovery codes, and the log-ins that wait for a factor. Returns false if
/// the user has none.
pub(super) async fn remove_all(transaction: &DatabaseTransaction, user: UserId) -> Result<bool, StoreError> {
    if !of_user(transaction, user).await?.any() {
        return Ok(false);
    }
    totp::Entity::delete_by_id(user).exec(transaction).await?;
    let its = passkeys::Entity::delete_many().filter(passkeys::Column::UserId.eq(user));
    its.exec(transaction).await?;
    let its = recovery_codes::Entity::delete_many().filter(recovery_codes::Column::UserId.eq(user));
    its.exec(transaction).await?;
    let its = pending_log_ins::Entity::delete_many().filter(pending_log_ins::Column::UserId.eq(user));
    its.exec(transaction).await?;
    Ok(true)
}

/// Removes the second factors of a user that were added after `then`, and apps that were never activated. If a factor
/// was removed, the recovery codes are removed too, because the person who added it may know them. Reports whether one
/// was removed.
pub(super) async fn remove_younger(
    transaction: &DatabaseTransaction,
    user: UserId,
    then: Time,
) -> Result<bool, StoreError> {
    let offers = totp::Entity::delete_many().filter(totp::Column::UserId.eq(user));
    offers.filter(totp::Column::ActivatedAt.is_null()).exec(transaction).await?;
    let apps = totp::Entity::delete_many()
        .filter(totp::Column::UserId.eq(user))
        .filter(totp::Column::ActivatedAt.gt(then));
    let mut removed = apps.exec(transaction).await?.rows_affected;
    let young = passkeys::Entity::delete_many()
        .filter(passkeys::Column::UserId.eq(user))
        .filter(passkeys::Column::CreatedAt.gt(then));
    removed += young.exec(transaction).await?.rows_affected;
    if removed == 0 {
        return Ok(false);
    }
    let codes = recovery_codes::Entity::delete_many().filter(recovery_codes::Column::UserId.eq(user));
    codes.exec(transaction).await?;
    Ok(true)
}

/// Consumes a factor, and reports whether it was still usable. Of parallel transactions with the same factor, one
/// succeeds.
pub(super) async fn consume(
    transaction: &DatabaseTransaction,
    user: UserId,
    used: &FactorUse,
) -> Result<bool, StoreError> {
    let rows = match used {
        FactorUse::Code { step } => {
            let step = i64::try_from(*step).unwrap_or(i64::MAX);
            let newer = totp::Entity::update_many()
                .col_expr(totp::Column::LastStep, Expr::value(step))
                .filter(totp::Column::UserId.eq(user))
                .filter(totp::Column::ActivatedAt.is_not_null())
                .filter(totp::Column::LastStep.lt(step));
            newer.exec(transaction).await?.rows_affected
        }
        FactorUse::RecoveryCode(hash) => {
            let code = recovery_codes::Entity::delete_by_id((user, hash.bytes()));
            code.exec(transaction).await?.rows_affected
        }
        FactorUse::Passkey { id, uses, passkey, used_at } => {
            let uses = number("uses of a passkey", *uses)?;
            let as_verified = passkeys::Entity::update_many()
                .col_expr(passkeys::Column::Passkey, Expr::value(passkey.as_str()))
                .col_expr(passkeys::Column::Uses, Expr::value(uses.saturating_add(1)))
                .col_expr(passkeys::Column::UsedAt, Expr::value(*used_at))
                .filter(passkeys::Column::Id.eq(*id))
                .filter(passkeys::Column::UserId.eq(user))
                .filter(passkeys::Column::Uses.eq(uses));
            as_verified.exec(transaction).await?.rows_affected
        }
    };
    Ok(rows > 0)
}

async fn record_use(
    transaction: &DatabaseTransaction,
    (user, session): (UserId, SessionId),
    at: Time,
) -> Result<bool, StoreError> {
    let update = sessions::Entity::update_many()
        .col_expr(sessions::Column::FactorAt, Expr::value(at))
        .col_expr(sessions::Column::ProvedAt, Expr::value(at))
        .filter(sessions::Column::Id.eq(session))
        .filter(sessions::Column::UserId.eq(user));
    Ok(update.exec(transaction).await?.rows_affected > 0)
}

async fn set_method(
    transaction: &DatabaseTransaction,
    session: SessionId,
    method: LogInMethod,
) -> Result<(), StoreError> {
    let update = sessions::Entity::update_many()
        .col_expr(sessions::Column::Method, Expr::value(method))
        .filter(sessions::Column::Id.eq(session));
    update.exec(transaction).await?;
    Ok(())
}

/// Applies the effects of a new factor, which the user has proven in the session `keep` at `now`. A session that was
/// opened by a password alone counts as opened by `method`. All other sessions and the personal access tokens end,
/// because they may be older than the factor.
pub(super) async fn added(
    transaction: &DatabaseTransaction,
    (user, keep): (UserId, SessionId),
    method: LogInMethod,
    now: Time,
) -> Result<(), StoreError> {
    end_all(transaction, user, Some(keep)).await?;
    record_use(transaction, (user, keep), now).await?;
    session_rows::end_access_tokens(transaction, user).await?;
    let session = sessions::Entity::find_by_id(keep);
    let by_password = session.filter(sessions::Column::Method.eq(LogInMethod::Password));
    match by_password.one(transaction).await? {
        Some(_) => set_method(transaction, keep, method).await,
        None => Ok(()),
    }
}

/// Applies the effects of a removed factor: all sessions of the user but `keep` end. A user without factors needs no
/// recovery codes.
pub(super) async fn removed(
    transaction: &DatabaseTransaction,
    (user, keep): (UserId, SessionId),
) -> Result<(), StoreError> {
    end_all(transaction, user, Some(keep)).await?;
    if of_user(transaction, user).await?.any() {
        return Ok(());
    }
    let codes = recovery_codes::Entity::delete_many().filter(recovery_codes::Column::UserId.eq(user));
    codes.exec(transaction).await?;
    set_method(transaction, keep, LogInMethod::Password).await
}

impl Store {
    /// Consumes a factor that a user has given again in a session, and records the time. Returns false if it was used
    /// before, or the session has ended.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn give_factor(
        &self,
        whose: (UserId, SessionId),
        used: &FactorUse,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        let done = self.transact(async |transaction| {
            if !consume(transaction, whose.0, used).await? {
                return Ok(false);
            }
            if !record_use(transaction, whose, entry.at).await? {
                return Err(StoreError::NotFound("session"));
            }
            append(transaction, entry).await?;
            Ok(true)
        });
        match done.await {
            // The factor of a session that has ended is not consumed.
            Err(StoreError::NotFound(_)) => Ok(false),
            done => done,
        }
    }

    /// Returns the factors of a user.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn factors(&self, user: UserId) -> Result<Factors, StoreError> {
        self.read(async |database| of_user(database, user).await).await
    }
}
