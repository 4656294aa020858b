//! Files that are attached to support tickets.
//!
//! The content is stored in chunks, each in its own transaction, so that a large file neither misses the deadline of a
//! call nor delays other writes. A file counts from its first chunk on but is shown only when complete.

use super::id::{TicketAttachmentId, TicketId, UserId};
use super::tickets::{SupportTicket, one, one_open, set_status};
use super::value::{count, insert_error, number};
use crate::entity::ticket_attachments::{ActiveModel, Column, Entity, Model};
use crate::entity::{ticket_chunks, tickets};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use std::time::Duration;

pub use crate::entity::ticket_attachments::AttachmentKind;

/// The size of a chunk in bytes, which fits into one statement and into a downloader's memory.
const CHUNK: usize = 256 << 10;

/// The time that an incomplete upload is kept, so that a running one is never removed.
const INCOMPLETE_KEPT: Duration = Duration::from_secs(3_600);

/// A file that is attached to a ticket, without its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TicketAttachment {
    /// Its identifier, under which its content is stored.
    pub id: TicketAttachmentId,
    /// The ticket.
    pub ticket: TicketId,
    /// The user who attached it.
    pub user: UserId,
    /// True if that user is an operator.
    pub by_operator: bool,
    /// Its display name.
    pub name: String,
    /// The kind of its content.
    pub kind: AttachmentKind,
    /// The length of its content, in bytes.
    pub bytes: u64,
    /// The start of its upload.
    pub created_at: Time,
}

impl TryFrom<Model> for TicketAttachment {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(TicketAttachment {
            id: row.id,
            ticket: row.ticket_id,
            user: row.user_id,
            by_operator: row.operator,
            name: row.name,
            kind: row.kind,
            bytes: count("length of a file", row.bytes)?,
            created_at: row.created_at,
        })
    }
}

impl TicketAttachment {
    /// Returns the number of chunks of its content.
    pub const fn chunks(&self) -> u64 {
        self.bytes.div_ceil(CHUNK as u64)
    }
}

/// The limits on attachments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttachmentBounds {
    /// The number of files of one ticket.
    pub per_ticket: u64,
    /// The bytes of all files of a tenant.
    pub bytes_per_tenant: u64,
}

fn of(ticket: TicketId) -> Select<Entity> {
    Entity::find().filter(Column::TicketId.eq(ticket))
}

fn of_tenant(tenant: TenantId) -> Select<Entity> {
    let its = tickets::Column::TenantId.eq(tenant);
    Entity::find().inner_join(tickets::Entity).filter(its)
}

pub(super) fn is_broken_off(now: Time) -> Condition {
    Condition::all().add(Column::StoredAt.is_null()).add(Column::CreatedAt.lt(now.minus(INCOMPLETE_KEPT)))
}

/// Checks that a tenant may attach `bytes` more to its ticket. Running uploads count.
async fn check_capacity(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    ticket: TicketId,
    bytes: u64,
    bounds: AttachmentBounds,
) -> Result<(), StoreError> {
    let AttachmentBounds { per_ticket, bytes_per_tenant } = bounds;
    if of(ticket).count(transaction).await? >= per_ticket {
        return Err(StoreError::Full(format!("at most {per_ticket} files can be attached to a ticket")));
    }
    // PostgreSQL's sum of bigints is a numeric.
    let sum = of_tenant(tenant).select_only().column_as(Column::Bytes.sum().cast_as("bigint"), "sum");
    let sum: Option<Option<i64>> = sum.into_tuple().one(transaction).await?;
    let stored = count("length of files", sum.flatten().unwrap_or_default())?;
    if stored.saturating_add(bytes) > bytes_per_tenant {
        let mib = bytes_per_tenant >> 20;
        let text = format!("the files of an organisation have at most {mib} MiB together");
        return Err(StoreError::Full(text));
    }
    Ok(())
}

async fn in_order(
    database: &DatabaseConnection,
    select: Select<Entity>,
) -> Result<Vec<TicketAttachment>, StoreError> {
    let complete = select
        .filter(Column::StoredAt.is_not_null())
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id);
    complete.all(database).await?.into_iter().map(TicketAttachment::try_from).collect()
}

impl Store {
    /// Checks that a tenant may attach a file to its ticket, before the file is uploaded.
    ///
    /// # Errors
    /// Those of [`attach`](Store::attach).
    pub async fn may_attach(
        &self,
        tenant: TenantId,
        ticket: TicketId,
        bounds: AttachmentBounds,
    ) -> Result<(), StoreError> {
        self.database
            .snapshot(async |transaction| {
                one_open(transaction, tenant, ticket).await?;
                check_capacity(transaction, tenant, ticket, 1, bounds).await
            })
            .await
    }

    /// Attaches a file with this `content` to a tenant's ticket, and returns the ticket. After a failure or
    /// cancellation midway, no part of the file is shown, and the sweep removes its chunks after an hour.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the ticket is not this tenant's, [`StoreError::WrongState`] if it is closed,
    /// [`StoreError::Full`] beyond `bounds`, [`StoreError::Unavailable`].
    pub async fn attach(
        &self,
        tenant: TenantId,
        attachment: &TicketAttachment,
        content: &[u8],
        bounds: AttachmentBounds,
        now: Time,
    ) -> Result<SupportTicket, StoreError> {
        let id = attachment.id;
        let row = ActiveModel {
            id: Set(id),
            ticket_id: Set(attachment.ticket),
            user_id: Set(attachment.user),
            name: Set(attachment.name.clone()),
            kind: Set(attachment.kind),
            bytes: Set(number("length of a file", attachment.bytes)?),
            created_at: Set(attachment.created_at),
            stored_at: Set(None),
            operator: Set(attachment.by_operator),
        };
        // An incomplete file is no effect of a run of an idempotency key, which may be retried.
        let parts = self.without_run();
        parts
            .transact(async |transaction| {
                one_open(transaction, tenant, attachment.ticket).await?;
                check_capacity(transaction, tenant, attachment.ticket, attachment.bytes, bounds).await?;
                let done = Entity::insert(row).exec_without_returning(transaction).await;
                done.map(drop).map_err(|error| insert_error(error, "file", "ticket", None))
            })
            .await?;
        for (position, chunk) in content.chunks(CHUNK).enumerate() {
            let row = ticket_chunks::ActiveModel {
                attachment_id: Set(id),
                number: Set(i32::try_from(position).map_err(|_| StoreError::TooLarge("number of a chunk"))?),
                content: Set(chunk.to_vec()),
            };
            parts
                .transact(async |transaction| {
                    let done = ticket_chunks::Entity::insert(row).exec_without_returning(transaction).await;
                    done.map(drop).map_err(|error| insert_error(error, "chunk", "file", None))
                })
                .await?;
        }
        self.write(async |transaction| {
            let ticket = one(transaction, tenant, attachment.ticket).await?;
            let update =
                Entity::update_many().col_expr(Column::StoredAt, Expr::value(now)).filter(Column::Id.eq(id));
            update.exec(transaction).await?;
            let status = ticket.status;
            set_status(transaction, ticket, status, now).await
        })
        .await
    }

    /// Returns the files of a tenant's ticket, the oldest first; nothing for another tenant's ticket.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn ticket_attachments(
        &self,
        tenant: TenantId,
        ticket: TicketId,
    ) -> Result<Vec<TicketAttachment>, StoreError> {
        let its = of_tenant(tenant).filter(Column::TicketId.eq(ticket));
        self.read(async |database| in_order(database, its).await).await
    }

    /// Returns the files of a ticket of any tenant, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn all_ticket_attachments(
        &self,
        ticket: TicketId,
    ) -> Result<Vec<TicketAttachment>, StoreError> {
        self.read(async |database| in_order(database, of(ticket)).await).await
    }

    /// Returns one chunk of a file, counted from zero.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the file was removed or the chunk does not exist, [`StoreError::Unavailable`].
    pub async fn attachment_chunk(
        &self,
        attachment: &TicketAttachment,
        position: u64,
    ) -> Result<Vec<u8>, StoreError> {
        const MISSING: StoreError = StoreError::NotFound("chunk");
        let key = (attachment.id, i32::try_from(position).map_err(|_| MISSING)?);
        self.read(async |database| {
            let found = ticket_chunks::Entity::find_by_id(key).one(database).await?;
            Ok(found.ok_or(MISSING)?.content)
        })
        .await
    }
}
