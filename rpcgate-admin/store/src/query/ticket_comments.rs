//! Comments on support tickets.

use super::id::{TicketCommentId, TicketId, UserId};
use super::keyset::page;
use super::limit_requests::LimitRequest;
use super::ticket_status::TicketStatus;
use super::ticket_texts::{add, free_capacity, length_of};
use super::tickets::{SupportTicket, of_any_tenant, one_open, set_status};
use super::value::insert_error;
use crate::entity::ticket_comments::{Column, Entity};
use crate::entity::tickets;
use crate::{Store, StoreError, fresh_id};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::{
    ColumnTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, Select,
};

pub use crate::entity::ticket_comments::Model as TicketComment;

const MAX_RETURNED: u64 = 1_000;

/// The maximum number of comments of one ticket by members of the tenant, and also by operators.
const MAX_PER_TICKET: u64 = 200;

fn of(ticket: TicketId) -> Select<Entity> {
    Entity::find().filter(Column::TicketId.eq(ticket))
}

async fn insert(transaction: &DatabaseTransaction, comment: &TicketComment) -> Result<(), StoreError> {
    let row = comment.clone().into_active_model();
    let done = Entity::insert(row).exec_without_returning(transaction).await;
    done.map_err(|error| insert_error(error, "comment", "ticket", None))?;
    add(transaction, comment.ticket, length_of([comment.text.as_str()])).await
}

/// Checks that a ticket may have one more comment of an operator, or of a member. They are counted separately, so that
/// neither side can silence the other.
async fn check_capacity(
    transaction: &DatabaseTransaction,
    ticket: TicketId,
    by_operator: bool,
) -> Result<(), StoreError> {
    let written = of(ticket).filter(Column::Operator.eq(by_operator)).count(transaction).await?;
    if written < MAX_PER_TICKET {
        return Ok(());
    }
    let text = format!("a ticket has at most {MAX_PER_TICKET} comments of each side: write a new ticket");
    Err(StoreError::Full(text))
}

/// Answers every open ticket that is linked to a request for another plan with its decision, as a comment of the
/// deciding operator.
pub(super) async fn answer_linked(
    transaction: &DatabaseTransaction,
    request: &LimitRequest,
    operator: UserId,
    now: Time,
) -> Result<(), StoreError> {
    let linked = tickets::Entity::find()
        .filter(tickets::Column::LimitRequestId.eq(request.id))
        .filter(tickets::Column::Status.ne(TicketStatus::Closed));
    for row in linked.all(transaction).await? {
        let ticket = SupportTicket::try_from(row)?;
        let comment = TicketComment {
            id: TicketCommentId(fresh_id(now)),
            ticket: ticket.id,
            user: operator,
            by_operator: true,
            internal: false,
            text: request.decision(),
            created_at: now,
        };
        insert(transaction, &comment).await?;
        set_status(transaction, ticket, TicketStatus::Answered, now).await?;
    }
    Ok(())
}

async fn oldest(
    database: &DatabaseConnection,
    select: Select<Entity>,
    after: Option<(Time, TicketCommentId)>,
    limit: u64,
) -> Result<Vec<TicketComment>, StoreError> {
    let mut oldest = page(select, (Column::CreatedAt, Column::Id), after, limit.min(MAX_RETURNED));
    Ok(oldest.all(database).await?)
}

impl Store {
    /// Adds a comment of a member to the tenant's ticket, which waits for an operator again, and returns the ticket. If
    /// the texts of all tickets and comments of the tenant exceed 64 MiB, removes its oldest closed tickets.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the ticket is not this tenant's, [`StoreError::WrongState`] if it is closed,
    /// [`StoreError::Full`] if members have written 200 comments on it, or if the open tickets exceed the limit;
    /// [`StoreError::Unavailable`].
    pub async fn add_ticket_comment(
        &self,
        tenant: TenantId,
        comment: &TicketComment,
    ) -> Result<SupportTicket, StoreError> {
        self.write(async |transaction| {
            let ticket = one_open(transaction, tenant, comment.ticket).await?;
            check_capacity(transaction, ticket.id, false).await?;
            free_capacity(transaction, tenant, length_of([comment.text.as_str()])).await?;
            insert(transaction, comment).await?;
            set_status(transaction, ticket, TicketStatus::Open, comment.created_at).await
        })
        .await
    }

    /// Adds a comment of an operator to a ticket of any tenant and returns the ticket. With a comment that the tenant
    /// sees, the ticket gets `status`; an internal one leaves no trace that the tenant could see. Ignores the tenant's
    /// limit on texts, so that a tenant cannot keep operators from answering.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::WrongState`] for a visible comment on a closed ticket,
    /// [`StoreError::Full`] if operators have written 200 comments on it, [`StoreError::Unavailable`].
    pub async fn answer_ticket(
        &self,
        comment: &TicketComment,
        status: TicketStatus,
    ) -> Result<SupportTicket, StoreError> {
        self.write(async |transaction| {
            let ticket = of_any_tenant(transaction, comment.ticket).await?;
            if !comment.internal && ticket.status == TicketStatus::Closed {
                return Err(StoreError::WrongState("the ticket is closed: open it first"));
            }
            check_capacity(transaction, ticket.id, true).await?;
            insert(transaction, comment).await?;
            if comment.internal {
                return Ok(ticket);
            }
            set_status(transaction, ticket, status, comment.created_at).await
        })
        .await
    }

    /// Returns the comments on a tenant's ticket that the tenant may see, the oldest first, starting after `after`: at
    /// most `limit`, and at most 1,000. Returns nothing for another tenant's ticket.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn ticket_comments(
        &self,
        tenant: TenantId,
        ticket: TicketId,
        after: Option<(Time, TicketCommentId)>,
        limit: u64,
    ) -> Result<Vec<TicketComment>, StoreError> {
        let visible = of(ticket)
            .inner_join(tickets::Entity)
            .filter(tickets::Column::TenantId.eq(tenant))
            .filter(Column::Internal.eq(false));
        self.read(async |database| oldest(database, visible, after, limit).await).await
    }

    /// Returns all comments on a ticket of any tenant, in the order and number of
    /// [`ticket_comments`](Store::ticket_comments).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn all_ticket_comments(
        &self,
        ticket: TicketId,
        after: Option<(Time, TicketCommentId)>,
        limit: u64,
    ) -> Result<Vec<TicketComment>, StoreError> {
        self.read(async |database| oldest(database, of(ticket), after, limit).await).await
    }
}
