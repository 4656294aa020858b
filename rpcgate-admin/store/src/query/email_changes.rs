//! Changes of an account's address, which take effect once the new address is confirmed.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::id::UserId;
use super::mail_tokens::{self, Purpose};
use super::registrations::remove_unconfirmed_account;
use super::users::{User, stored_email};
use super::value::insert_error;
use crate::entity::confirmations;
use crate::entity::users::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter};

const EMAIL: (&str, &str) = ("email", "e-mail address");

/// A requested change of a user's address.
#[derive(Clone, Copy, Debug)]
pub struct EmailChange<'c> {
    /// The user.
    pub user: UserId,
    /// The new address in its stored form.
    pub email: &'c str,
    /// The digest of the token that is mailed to the new address.
    pub token: Digest,
    /// The expiry time of that token.
    pub expires_at: Time,
}

/// The outcome of a request to change an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmailChangeOutcome {
    /// The change waits for its token.
    Pending,
    /// Another account has the address and keeps it.
    HasAccount,
}

/// A completed change of an account's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EmailChanged {
    /// The user.
    pub user: User,
    /// The previous address.
    pub before: String,
}

/// Reports whether an account keeps this address: a confirmed one, or an operator's, which needs no confirmation.
async fn is_taken(transaction: &DatabaseTransaction, email: &str) -> Result<bool, StoreError> {
    let keeps = Condition::any().add(Column::ConfirmedAt.is_not_null()).add(Column::TenantId.is_null());
    let same = Entity::find().filter(Column::Email.eq(stored_email(email))).filter(keeps);
    Ok(same.count(transaction).await? > 0)
}

impl Store {
    /// Stores a user's request for another address until its token arrives, replacing an earlier request. Adds `entry`
    /// to the audit.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user does not exist, [`StoreError::Taken`] if a token with this digest exists,
    /// [`StoreError::Unavailable`].
    pub async fn put_email_change(
        &self,
        change: &EmailChange<'_>,
        entry: &Audit,
    ) -> Result<EmailChangeOutcome, StoreError> {
        let EmailChange { user, email, token, expires_at } = *change;
        self.transact(async |transaction| {
            append(transaction, entry).await?;
            if is_taken(transaction, email).await? {
                return Ok(EmailChangeOutcome::HasAccount);
            }
            let what = (Purpose::EmailChange, Some(email));
            mail_tokens::put(transaction, user, what, &token, expires_at).await?;
            Ok(EmailChangeOutcome::Pending)
        })
        .await
    }

    /// Gives the user whose token has this digest the address that the token was sent to, and consumes the token.
    /// Removes an unconfirmed account with that address. Invalidates tokens that were sent to the user's previous
    /// address. Adds `entry` to the audit with the user, its tenant and both addresses filled in. Returns `None` if the
    /// token does not exist or has expired, or if operators have disabled the user.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if another account now has the address, [`StoreError::Unavailable`].
    pub async fn change_email(
        &self,
        hash: &Digest,
        entry: &Audit,
        now: Time,
    ) -> Result<Option<EmailChanged>, StoreError> {
        self.transact(async |transaction| {
            let taken = mail_tokens::take(transaction, Purpose::EmailChange, hash, now).await?;
            let Some((id, Some(email))) = taken else { return Ok(None) };
            let found = Entity::find_by_id(id).filter(Column::DisabledAt.is_null()).one(transaction).await?;
            let Some(found) = found else { return Ok(None) };
            let user = User::from(found);
            if is_taken(transaction, &email).await? {
                return Err(StoreError::Taken { what: "user", value: EMAIL.1 });
            }
            remove_unconfirmed_account(transaction, &email).await?;
            let update = Entity::update_many()
                .col_expr(Column::Email, Expr::value(email.as_str()))
                .col_expr(Column::ConfirmedAt, Expr::value(now))
                .filter(Column::Id.eq(user.id));
            let updated = update.exec(transaction).await;
            updated.map_err(|error| insert_error(error, "user", "tenant", Some(EMAIL)))?;
            confirmations::Entity::delete_by_id(id).exec(transaction).await?;
            mail_tokens::withdraw(transaction, user.id).await?;
            let entry = Audit {
                user: Some(user.id),
                tenant: user.tenant,
                subject: user.id.to_string(),
                detail: format!("{}, before: {}", email, user.email),
                ..entry.clone()
            };
            append(transaction, &entry).await?;
            let before = user.email.clone();
            Ok(Some(EmailChanged { user: User { email, confirmed_at: Some(now), ..user }, before }))
        })
        .await
    }
}
