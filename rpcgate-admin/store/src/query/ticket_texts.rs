//! The limit on the text of a tenant's tickets.
//!
//! The numbers of tickets and comments are limited, but their product is gigabytes. Each ticket therefore stores the
//! bytes of its subject, its text and its comments, and a tenant's total is a sum that an index covers.

use super::id::TicketId;
use super::ticket_status::TicketStatus;
use super::value::{count, number};
use crate::StoreError;
use crate::entity::tickets::{Column, Entity};
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};

/// The maximum bytes of a tenant's tickets and their comments: years of honest correspondence (64 KiB for each of 1,000
/// tickets), and little enough that no tenant fills the database by writing.
const MAX_TEXT: u64 = 64 << 20;

/// The maximum number of closed tickets to look at: the number that a tenant keeps.
const MAX_REMOVED: u64 = 1_000;

fn of(tenant: TenantId) -> Select<Entity> {
    Entity::find().filter(Column::TenantId.eq(tenant))
}

pub(super) fn length_of<'t>(texts: impl IntoIterator<Item = &'t str>) -> u64 {
    texts.into_iter().map(|text| text.len() as u64).sum()
}

/// Ensures that a member of the tenant may write `bytes` of text. If too much is stored, removes the oldest closed
/// tickets with their dependent rows; never removes open ones.
///
/// # Errors
/// [`StoreError::Full`] if the open tickets exceed the limit, [`StoreError::Unavailable`].
pub(super) async fn free_capacity(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    bytes: u64,
) -> Result<(), StoreError> {
    // PostgreSQL's sum of bigints is a numeric.
    let sum = of(tenant).select_only().column_as(Column::TextBytes.sum().cast_as("bigint"), "sum");
    let sum: Option<Option<i64>> = sum.into_tuple().one(transaction).await?;
    let stored = count("length of texts", sum.flatten().unwrap_or_default())?;
    let excess = stored.saturating_add(bytes).saturating_sub(MAX_TEXT);
    if excess == 0 {
        return Ok(());
    }
    let oldest = of(tenant)
        .filter(Column::Status.eq(TicketStatus::Closed))
        .select_only()
        .columns([Column::Id, Column::TextBytes])
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .limit(MAX_REMOVED);
    let oldest: Vec<(TicketId, i64)> = oldest.into_tuple().all(transaction).await?;
    let mut ids = Vec::new();
    let mut freed = 0_u64;
    for (id, bytes) in oldest {
        if freed >= excess {
            break;
        }
        ids.push(id);
        freed = freed.saturating_add(count("length of texts", bytes)?);
    }
    if freed < excess {
        let mib = MAX_TEXT >> 20;
        let text = format!(
            "the tickets and comments of an organisation have at most {mib} MiB of text together: close tickets that are done"
        );
        return Err(StoreError::Full(text));
    }
    Entity::delete_many().filter(Column::Id.is_in(ids)).exec(transaction).await?;
    Ok(())
}

pub(super) async fn add(
    transaction: &DatabaseTransaction,
    ticket: TicketId,
    bytes: u64,
) -> Result<(), StoreError> {
    let added = Expr::col(Column::TextBytes).add(number("length of texts", bytes)?);
    let update = Entity::update_many().col_expr(Column::TextBytes, added).filter(Column::Id.eq(ticket));
    update.exec(transaction).await?;
    Ok(())
}
