//! Password resets through a mailed token.

use super::audit::{Audit, append, simulate_append};
use super::digest::Digest;
use super::mail_tokens::{self, Purpose};
use super::users::{User, stored_email};
use super::{attempts, factors, members, pending_log_ins, session_rows};
use crate::entity::confirmations;
use crate::entity::users::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use std::time::Duration;

/// The maximum age of second factors that may belong to a thief who had a session of the account.
const YOUNG_FACTORS: Duration = Duration::from_secs(7 * 86_400);

/// The factors and invitations that a reset keeps. A thief who had a session of the account may have made them, so the
/// default is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptByReset {
    /// Second factors that were added in the last seven days, and the recovery codes.
    pub factors: bool,
    /// The user's open invitations.
    pub invitations: bool,
}

impl Store {
    /// Stores a token with which the user with this address, in any spelling, can set a password, replacing an earlier
    /// one. Reports whether the user exists and is not disabled. Adds `entry` to the audit with that user and its
    /// tenant filled in. Without such a user, does equivalent work and keeps nothing.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if a token with this digest exists, [`StoreError::Unavailable`].
    pub async fn put_reset(
        &self,
        email: &str,
        hash: &Digest,
        expires_at: Time,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            let found = Entity::find()
                .filter(Column::Email.eq(stored_email(email)))
                .filter(Column::DisabledAt.is_null());
            let Some(found) = found.one(transaction).await? else {
                simulate_append(transaction, entry).await?;
                return Ok(false);
            };
            let user = User::from(found);
            mail_tokens::put(transaction, user.id, (Purpose::Reset, None), hash, expires_at).await?;
            let subject = user.id.to_string();
            let entry = Audit { user: Some(user.id), tenant: user.tenant, subject, ..entry.clone() };
            append(transaction, &entry).await?;
            Ok(true)
        })
        .await
    }

    /// Sets the password hash `new` of the user whose token has this digest, and consumes the token. Also confirms the
    /// user's address, ends a lock and all its sessions, access tokens and pending log-ins, and removes the factors and
    /// invitations that are not `kept`. Adds `entry` to the audit with that user and its tenant filled in. Returns
    /// `None` if the token does not exist or has expired, or if operators have disabled the user.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn reset_password(
        &self,
        hash: &Digest,
        new: &str,
        kept: KeptByReset,
        entry: &Audit,
    ) -> Result<Option<User>, StoreError> {
        let now = entry.at;
        self.transact(async |transaction| {
            let taken = mail_tokens::take(transaction, Purpose::Reset, hash, now).await?;
            let Some((id, _)) = taken else { return Ok(None) };
            let update = Entity::update_many()
                .col_expr(Column::Password, Expr::value(new))
                .filter(Column::Id.eq(id))
                .filter(Column::DisabledAt.is_null());
            if update.exec(transaction).await?.rows_affected == 0 {
                return Ok(None);
            }
            let confirm = Entity::update_many()
                .col_expr(Column::ConfirmedAt, Expr::value(now))
                .filter(Column::Id.eq(id))
                .filter(Column::ConfirmedAt.is_null());
            confirm.exec(transaction).await?;
            confirmations::Entity::delete_by_id(id).exec(transaction).await?;
            let user = Entity::find_by_id(id).one(transaction).await?;
            let user = User::from(user.ok_or(StoreError::NotFound("user"))?);
            mail_tokens::withdraw(transaction, user.id).await?;
            session_rows::end_all(transaction, user.id, None).await?;
            session_rows::end_access_tokens(transaction, user.id).await?;
            pending_log_ins::end_all(transaction, id).await?;
            let removes_factors =
                !kept.factors && factors::remove_younger(transaction, id, now.minus(YOUNG_FACTORS)).await?;
            // All open ones were made in the last seven days, because an invitation expires after that.
            let withdraws =
                !kept.invitations && members::withdraw_invitations(transaction, user.id, &[]).await?;
            attempts::unlock(transaction, &user.email).await?;
            let subject = user.id.to_string();
            let entry = Audit { user: Some(user.id), tenant: user.tenant, subject, ..entry.clone() };
            append(transaction, &entry).await?;
            let removals = [
                (removes_factors, "factors.removed_by_reset"),
                (withdraws, "invitations.withdrawn_by_reset"),
            ];
            for (_, action) in removals.into_iter().filter(|(is_done, _)| *is_done) {
                append(transaction, &Audit { action: action.into(), ..entry.clone() }).await?;
            }
            Ok(Some(user))
        })
        .await
    }
}
