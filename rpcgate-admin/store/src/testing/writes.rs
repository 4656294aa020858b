//! Reads and writes that only tests make.

use crate::entity::{idempotency, notifications, sessions};
use crate::usage::Bounds;
use crate::{NotificationId, SessionId, Store, StoreError, UsageStore};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

impl UsageStore {
    /// Returns this store with other limits on the rows of a query.
    pub fn bounded_by(mut self, large: u64, max: u64) -> Self {
        self.bounds = Bounds { large, max };
        self
    }

    /// Clears the marks of mailed notifications, as if a janitor had been killed before it set them.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn unmark_mailed(&self, ids: &[NotificationId]) -> Result<(), StoreError> {
        let ids = ids.to_vec();
        self.write(async |transaction| {
            let none = notifications::Entity::update_many()
                .col_expr(notifications::Column::MailedAt, Expr::value(None::<Time>));
            none.filter(notifications::Column::Id.is_in(ids)).exec(transaction).await?;
            Ok::<_, StoreError>(())
        })
        .await
    }
}

impl Store {
    /// Clears the times at which the user of a session gave a password or a second factor.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn forget_proof(&self, id: SessionId) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let update = sessions::Entity::update_many()
                .col_expr(sessions::Column::ProvedAt, Expr::value(None::<Time>))
                .col_expr(sessions::Column::FactorAt, Expr::value(None::<Time>))
                .filter(sessions::Column::Id.eq(id));
            update.exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Returns the encrypted answers of all runs.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn stored_answers(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        self.read(async |database| {
            let rows = idempotency::Entity::find().all(database).await?;
            Ok(rows.into_iter().filter_map(|row| row.answer).collect())
        })
        .await
    }
}
