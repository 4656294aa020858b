//! Bounded removal of rows.

use crate::store::StoreError;
use sea_orm::sea_query::{Condition, Expr, ExprTrait};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect, QueryTrait};

/// Removes at most `limit` of the `old` rows and returns how many.
pub(super) async fn remove<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    id: E::Column,
    old: Condition,
    limit: u64,
) -> Result<u64, StoreError> {
    let some = E::find().select_only().column(id).filter(old).limit(limit).into_query();
    Ok(E::delete_many().filter(id.in_subquery(some)).exec(transaction).await?.rows_affected)
}

/// Like [`remove`], for rows that are identified by two columns.
pub(super) async fn remove_pairs<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    [first, second]: [E::Column; 2],
    old: Condition,
    limit: u64,
) -> Result<u64, StoreError> {
    let some = E::find().select_only().columns([first, second]).filter(old).limit(limit).into_query();
    let row = Expr::tuple([Expr::col(first), Expr::col(second)]);
    Ok(E::delete_many().filter(row.in_subquery(some)).exec(transaction).await?.rows_affected)
}
