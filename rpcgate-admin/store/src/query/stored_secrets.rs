//! Sealed secrets in long-term storage, which must be sealed again when the sealing secret is replaced.

use super::value::unreadable;
use crate::entity::{totp, webhooks};
use crate::{Store, StoreError};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};
use std::fmt;
use uuid::Uuid;

/// The place of a sealed secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretColumn {
    /// The authenticator app of a user.
    Totp,
    /// The signing secret of an endpoint.
    Webhook,
    /// The next signing secret of an endpoint.
    NextWebhook,
}

impl SecretColumn {
    /// All places.
    pub const ALL: [Self; 3] = [SecretColumn::Totp, SecretColumn::Webhook, SecretColumn::NextWebhook];
}

/// A sealed secret.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecret {
    /// The place where it is stored.
    pub place: SecretColumn,
    /// The user or the endpoint.
    pub row: u128,
    /// The sealed form.
    pub sealed: Vec<u8>,
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSecret").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Store {
    /// Returns at most `limit` sealed secrets of a place, by row, of rows after `after`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn stored_secrets(
        &self,
        place: SecretColumn,
        after: Option<u128>,
        limit: u64,
    ) -> Result<Vec<StoredSecret>, StoreError> {
        let after = after.map(Uuid::from_u128);
        let rows: Vec<(Uuid, Option<Vec<u8>>)> = self
            .read(async |database| {
                Ok(match place {
                    SecretColumn::Totp => {
                        use totp::Column::{Sealed, UserId};
                        let rows = totp::Entity::find().select_only().columns([UserId, Sealed]);
                        let rows = rows.apply_if(after, |rows, after| rows.filter(UserId.gt(after)));
                        rows.order_by_asc(UserId).limit(limit).into_tuple().all(database).await?
                    }
                    SecretColumn::Webhook | SecretColumn::NextWebhook => {
                        use webhooks::Column::{Id, NextSecret, Secret};
                        let secret = if place == SecretColumn::Webhook { Secret } else { NextSecret };
                        let rows = webhooks::Entity::find().select_only().columns([Id, secret]);
                        let rows = rows.filter(secret.is_not_null());
                        let rows = rows.apply_if(after, |rows, after| rows.filter(Id.gt(after)));
                        rows.order_by_asc(Id).limit(limit).into_tuple().all(database).await?
                    }
                })
            })
            .await?;
        let one = |(row, sealed): (Uuid, Option<Vec<u8>>)| {
            let sealed = sealed.ok_or_else(|| unreadable("secret", row))?;
            Ok(StoredSecret { place, row: row.as_u128(), sealed })
        };
        rows.into_iter().map(one).collect()
    }

    /// Replaces the sealed form of a secret, unless it has changed since it was read. Reports whether it did.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn seal_again(&self, secret: &StoredSecret, sealed: &[u8]) -> Result<bool, StoreError> {
        let row = Uuid::from_u128(secret.row);
        let old = secret.sealed.as_slice();
        self.write(async |transaction| {
            let done = match secret.place {
                SecretColumn::Totp => {
                    use totp::Column::{Sealed, UserId};
                    let update = totp::Entity::update_many().col_expr(Sealed, Expr::value(sealed));
                    update.filter(UserId.eq(row)).filter(Sealed.eq(old)).exec(transaction).await?
                }
                SecretColumn::Webhook | SecretColumn::NextWebhook => {
                    use webhooks::Column::{Id, NextSecret, Secret};
                    let is_next = secret.place == SecretColumn::NextWebhook;
                    let column = if is_next { NextSecret } else { Secret };
                    let update = webhooks::Entity::update_many().col_expr(column, Expr::value(sealed));
                    update.filter(Id.eq(row)).filter(column.eq(old)).exec(transaction).await?
                }
            };
            Ok(done.rows_affected > 0)
        })
        .await
    }
}
