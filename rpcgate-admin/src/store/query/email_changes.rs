//! Accounts that get another address, once its mails are read.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::id::UserId;
use super::mail_tokens::{self, Purpose};
use super::registrations::displace;
use super::users::{User, stored_email};
use super::value::{insert_error, moment};
use crate::store::entity::confirmations;
use crate::store::entity::users::{Column, Entity};
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter};
use uuid::Uuid;

const EMAIL: (&str, &str) = ("email", "e-mail address");

/// An address that a user wants to have.
#[derive(Clone, Copy, Debug)]
pub struct EmailChange<'c> {
    /// The user.
    pub user: UserId,
    /// The address, as it is stored.
    pub email: &'c str,
    /// The digest of the token that shows that its mails are read.
    pub token: Digest,
    /// When that token expires.
    pub expires_at: Time,
}

/// What became of a wish for another address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmailAsked {
    /// It waits for whoever reads the mails.
    Waits,
    /// Somebody has the address, and keeps it.
    HasAccount,
}

/// An account that has another address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EmailChanged {
    /// The user as it is now.
    pub user: User,
    /// Its address until now.
    pub before: String,
}

/// Whether somebody has an address whose mails they have read. Operators need not have.
async fn is_taken(transaction: &DatabaseTransaction, email: &str) -> Result<bool, StoreError> {
    let keeps = Condition::any().add(Column::ConfirmedAt.is_not_null()).add(Column::TenantId.is_null());
    let same = Entity::find().filter(Column::Email.eq(stored_email(email))).filter(keeps);
    Ok(same.count(transaction).await? > 0)
}

impl Store {
    /// Keeps the wish of a user for another address until its token comes, in the place of one before. `entry` is left in
    /// the audit.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such user, [`StoreError::Taken`] if there is a token with this digest,
    /// [`StoreError::Unavailable`].
    pub async fn put_email_change(
        &self,
        change: &EmailChange<'_>,
        entry: &Audit,
    ) -> Result<EmailAsked, StoreError> {
        let EmailChange { user, email, token, expires_at } = *change;
        self.transact(async |transaction| {
            append(transaction, entry).await?;
            if is_taken(transaction, email).await? {
                return Ok(EmailAsked::HasAccount);
            }
            let what = (Purpose::EmailChange, Some(email));
            mail_tokens::put(transaction, user, what, &token, expires_at).await?;
            Ok(EmailAsked::Waits)
        })
        .await
    }

    /// Gives the user whose token has this digest the address that the token was sent to, and uses the token up. An
    /// account that was registered with that address and never confirmed makes room. Tokens that were sent to the address
    /// before are worth nothing any more. `entry` is left in the audit with the user, its tenant and both addresses filled
    /// in. None if there is no such token, or not any more, or operators have disabled the user.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if somebody has the address by now, [`StoreError::Unavailable`].
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
            let user = User::try_from(found)?;
            if is_taken(transaction, &email).await? {
                return Err(StoreError::Taken { what: "user", value: EMAIL.1 });
            }
            displace(transaction, &email).await?;
            let update = Entity::update_many()
                .col_expr(Column::Email, Expr::value(email.as_str()))
                .col_expr(Column::ConfirmedAt, Expr::value(moment(now)))
                .filter(Column::Id.eq(Uuid::from_u128(user.id.0)));
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
