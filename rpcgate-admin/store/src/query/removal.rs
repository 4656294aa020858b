//! Bounded removal of rows.

use crate::StoreError;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, SelectStatement};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    TransactionTrait,
};

/// The part of the old rows that one transaction removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RemovalBatch {
    /// The number of rows to skip at the start, by identifier, because they cannot be removed.
    pub(super) skip: u64,
    pub(super) limit: u64,
    /// True if the rows are taken in the order of their identifiers, as [`skip`](Self::skip) requires. Any order is
    /// faster, and suffices while every row can be removed.
    pub(super) is_ordered: bool,
}

impl RemovalBatch {
    pub(super) fn any(limit: u64) -> Self {
        RemovalBatch { skip: 0, limit, is_ordered: false }
    }

    fn of<E: EntityTrait>(self, columns: &[E::Column], old: Condition) -> SelectStatement {
        let mut rows = E::find().select_only().columns(columns.iter().copied()).filter(old).limit(self.limit);
        if self.is_ordered {
            for column in columns {
                rows = rows.order_by_asc(*column);
            }
            rows = rows.offset(self.skip);
        }
        rows.into_query()
    }
}

pub(super) async fn remove<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    id: E::Column,
    old: Condition,
    limit: u64,
) -> Result<u64, StoreError> {
    remove_batch::<E>(transaction, id, old, RemovalBatch::any(limit)).await
}

pub(super) async fn remove_batch<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    id: E::Column,
    old: Condition,
    batch: RemovalBatch,
) -> Result<u64, StoreError> {
    let some = batch.of::<E>(&[id], old);
    Ok(E::delete_many().filter(id.in_subquery(some)).exec(transaction).await?.rows_affected)
}

/// Like [`remove`], for rows that are identified by two columns.
pub(super) async fn remove_pairs<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    names: [E::Column; 2],
    old: Condition,
    limit: u64,
) -> Result<u64, StoreError> {
    remove_batch_of_pairs::<E>(transaction, names, old, RemovalBatch::any(limit)).await
}

/// Like [`remove_batch`], for rows that are identified by two columns.
pub(super) async fn remove_batch_of_pairs<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    names: [E::Column; 2],
    old: Condition,
    batch: RemovalBatch,
) -> Result<u64, StoreError> {
    let some = batch.of::<E>(&names, old);
    let row = Expr::tuple(names.map(Expr::col));
    Ok(E::delete_many().filter(row.in_subquery(some)).exec(transaction).await?.rows_affected)
}

/// Removes rows within the transaction of a request that does not depend on the removal. If a row cannot be removed,
/// for example because another row refers to it, undoes all of `work`, logs the error, and continues the transaction.
/// Reports whether `work` succeeded.
///
/// # Errors
/// [`StoreError::Unavailable`], after which the transaction cannot continue either.
pub(super) async fn try_to_remove(
    transaction: &DatabaseTransaction,
    what: &'static str,
    work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    let savepoint = transaction.begin().await?;
    match work(&savepoint).await {
        Ok(()) => {
            savepoint.commit().await?;
            Ok(true)
        }
        Err(error @ StoreError::Unavailable(_)) => Err(error),
        Err(error) => {
            savepoint.rollback().await?;
            tracing::warn!(%error, what, "old rows could not be removed");
            Ok(false)
        }
    }
}
