//! Support tickets.

use super::audit::{Audit, append};
use super::id::{LimitRequestId, TicketId, UserId};
use super::keyset::page;
use super::limit_requests::{self, LimitRequest};
use super::removal::remove;
use super::ticket_category::TicketCategory;
use super::ticket_status::TicketStatus;
use super::ticket_texts::{free_capacity, length_of};
use super::value::{insert_error, number, unreadable};
use crate::entity::tickets::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ColumnTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

const MAX_RETURNED: u64 = 1_000;

/// The number of closed tickets kept per tenant: those created last.
const CLOSED_KEPT: u64 = 1_000;

/// The maximum number of closed tickets that are removed at once. Each new ticket makes at most one of them
/// superfluous.
const REMOVED_AT_ONCE: u64 = 2;

const IS_CLOSED: StoreError = StoreError::WrongState("the ticket is closed: reopen it first");

/// A tenant's rating of the support on a closed ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Satisfaction {
    /// The rating from 1, very bad, to 5, very good.
    pub rating: u8,
    /// The reason, if given.
    pub text: Option<String>,
    /// The time of the rating.
    pub rated_at: Time,
}

/// A support ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupportTicket {
    /// Its identifier.
    pub id: TicketId,
    /// The tenant.
    pub tenant: TenantId,
    /// The author.
    pub user: UserId,
    /// The category.
    pub category: TicketCategory,
    /// Its status.
    pub status: TicketStatus,
    /// The subject, one line.
    pub subject: String,
    /// The text.
    pub text: String,
    /// The linked request for another plan.
    pub limit_request: Option<LimitRequestId>,
    /// The tenant's satisfaction.
    pub satisfaction: Option<Satisfaction>,
    /// The creation time.
    pub created_at: Time,
    /// The last change of its status, its visible comments, or its files.
    pub updated_at: Time,
    /// The time when it was closed, if it is.
    pub closed_at: Option<Time>,
}

impl TryFrom<Model> for SupportTicket {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let rating = row.rating.map(|rating| u8::try_from(rating).map_err(|_| unreadable("rating", rating)));
        let satisfaction = rating.transpose()?.map(|rating| Satisfaction {
            rating,
            text: row.rating_text,
            rated_at: row.rated_at.unwrap_or_default(),
        });
        Ok(SupportTicket {
            id: row.id,
            tenant: row.tenant_id,
            user: row.user_id,
            category: row.category,
            status: row.status,
            subject: row.subject,
            text: row.text,
            limit_request: row.limit_request_id,
            satisfaction,
            created_at: row.created_at,
            updated_at: row.updated_at,
            closed_at: row.closed_at,
        })
    }
}

/// The filter of a list of tickets; `None` matches all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TicketFilter {
    /// The status.
    pub status: Option<TicketStatus>,
    /// The category.
    pub category: Option<TicketCategory>,
}

/// The request for another plan to which a new ticket of the category `limit_increase` is linked.
#[derive(Clone, Copy, Debug)]
pub enum TicketLimitRequest<'a> {
    /// The pending request of the tenant.
    Pending,
    /// The pending request of the tenant if it is for the same plan, or else this new one, which the audit entry
    /// records.
    New(&'a LimitRequest, &'a Audit),
}

fn of(tenant: TenantId) -> Select<Entity> {
    Entity::find().filter(Column::TenantId.eq(tenant))
}

pub(super) async fn one(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    id: TicketId,
) -> Result<SupportTicket, StoreError> {
    let found = of(tenant).filter(Column::Id.eq(id)).one(transaction).await?;
    SupportTicket::try_from(found.ok_or(StoreError::NotFound("ticket"))?)
}

pub(super) async fn one_open(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    id: TicketId,
) -> Result<SupportTicket, StoreError> {
    let ticket = one(transaction, tenant, id).await?;
    if ticket.status == TicketStatus::Closed { Err(IS_CLOSED) } else { Ok(ticket) }
}

pub(super) async fn of_any_tenant(
    transaction: &DatabaseTransaction,
    id: TicketId,
) -> Result<SupportTicket, StoreError> {
    let found = Entity::find_by_id(id).one(transaction).await?;
    SupportTicket::try_from(found.ok_or(StoreError::NotFound("ticket"))?)
}

pub(super) async fn set_status(
    transaction: &DatabaseTransaction,
    ticket: SupportTicket,
    status: TicketStatus,
    now: Time,
) -> Result<SupportTicket, StoreError> {
    let closed_at = match (status, ticket.closed_at) {
        (TicketStatus::Closed, None) => Some(now),
        (TicketStatus::Closed, closed_at) => closed_at,
        (TicketStatus::Open | TicketStatus::Answered, _) => None,
    };
    let update = Entity::update_many()
        .col_expr(Column::Status, Expr::value(status))
        .col_expr(Column::UpdatedAt, Expr::value(now))
        .col_expr(Column::ClosedAt, Expr::value(closed_at))
        .filter(Column::Id.eq(ticket.id));
    update.exec(transaction).await?;
    Ok(SupportTicket { status, updated_at: now, closed_at, ..ticket })
}

async fn check_capacity(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    max: u32,
) -> Result<(), StoreError> {
    let open = of(tenant).filter(Column::Status.ne(TicketStatus::Closed)).count(transaction).await?;
    if open < max.into() {
        return Ok(());
    }
    Err(StoreError::Full(format!(
        "at most {max} tickets of an organisation are open: close one that is done"
    )))
}

async fn remove_old(transaction: &DatabaseTransaction, tenant: TenantId) -> Result<(), StoreError> {
    let closed = Column::Status.eq(TicketStatus::Closed);
    let too_many = of(tenant)
        .filter(closed)
        .select_only()
        .column(Column::Id)
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .offset(CLOSED_KEPT)
        .limit(REMOVED_AT_ONCE);
    let ids: Vec<Uuid> = too_many.into_tuple().all(transaction).await?;
    if !ids.is_empty() {
        let these = Condition::all().add(Column::Id.is_in(ids));
        remove::<Entity>(transaction, Column::Id, these, REMOVED_AT_ONCE).await?;
    }
    Ok(())
}

async fn link(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    wanted: TicketLimitRequest<'_>,
) -> Result<LimitRequestId, StoreError> {
    let pending = limit_requests::pending(transaction, tenant).await?;
    match (pending, wanted) {
        (Some(pending), TicketLimitRequest::Pending) => Ok(pending.id),
        (Some(pending), TicketLimitRequest::New(new, _)) if pending.plan() == new.plan() => Ok(pending.id),
        (None, TicketLimitRequest::Pending) => Err(StoreError::NotFound("pending limit request")),
        (_, TicketLimitRequest::New(new, entry)) => {
            limit_requests::insert(transaction, new).await?;
            append(transaction, entry).await?;
            Ok(new.id)
        }
    }
}

async fn newest(
    database: &DatabaseConnection,
    select: Select<Entity>,
    filter: TicketFilter,
    before: Option<(Time, TicketId)>,
    limit: u64,
) -> Result<Vec<SupportTicket>, StoreError> {
    let mut matching = Condition::all();
    if let Some(status) = filter.status {
        matching = matching.add(Column::Status.eq(status));
    }
    if let Some(category) = filter.category {
        matching = matching.add(Column::Category.eq(category));
    }
    let its = select.filter(matching);
    let mut newest = page(its, (Column::CreatedAt, Column::Id), before, limit.min(MAX_RETURNED));
    newest.desc().all(database).await?.into_iter().map(SupportTicket::try_from).collect()
}

impl Store {
    /// Adds a ticket, linked to `limit_request` if given, and returns it with its link. A tenant has at most `max_open`
    /// open tickets. Of its closed tickets only the newest 1,000 are kept, and fewer if the texts of all tickets and
    /// comments exceed 64 MiB.
    ///
    /// # Errors
    /// [`StoreError::Full`] beyond `max_open`, and beyond 64 MiB of text in open tickets; [`StoreError::NotFound`] if
    /// the tenant does not exist, or has no pending request to link to; [`StoreError::Taken`] if its pending request is
    /// for another plan than the new one; [`StoreError::Unavailable`].
    pub async fn create_ticket(
        &self,
        ticket: SupportTicket,
        limit_request: Option<TicketLimitRequest<'_>>,
        max_open: u32,
    ) -> Result<SupportTicket, StoreError> {
        self.write(async |transaction| {
            check_capacity(transaction, ticket.tenant, max_open).await?;
            remove_old(transaction, ticket.tenant).await?;
            let text_bytes = length_of([ticket.subject.as_str(), &ticket.text]);
            free_capacity(transaction, ticket.tenant, text_bytes).await?;
            let mut ticket = ticket;
            if let Some(wanted) = limit_request {
                ticket.limit_request = Some(link(transaction, ticket.tenant, wanted).await?);
            }
            let row = ActiveModel {
                id: Set(ticket.id),
                tenant_id: Set(ticket.tenant),
                user_id: Set(ticket.user),
                category: Set(ticket.category),
                status: Set(ticket.status),
                subject: Set(ticket.subject.clone()),
                text: Set(ticket.text.clone()),
                limit_request_id: Set(ticket.limit_request),
                rating: Set(None),
                rating_text: Set(None),
                rated_at: Set(None),
                created_at: Set(ticket.created_at),
                updated_at: Set(ticket.updated_at),
                closed_at: Set(ticket.closed_at),
                text_bytes: Set(number("length of texts", text_bytes)?),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "ticket", "tenant", None))?;
            Ok(ticket)
        })
        .await
    }

    /// Returns a tenant's tickets that match `filter`, the newest first, starting after `before`: at most `limit`, and
    /// at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tickets(
        &self,
        tenant: TenantId,
        filter: TicketFilter,
        before: Option<(Time, TicketId)>,
        limit: u64,
    ) -> Result<Vec<SupportTicket>, StoreError> {
        self.read(async |database| newest(database, of(tenant), filter, before, limit).await).await
    }

    /// Like [`tickets`](Store::tickets), of one tenant or of all.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn all_tickets(
        &self,
        tenant: Option<TenantId>,
        filter: TicketFilter,
        before: Option<(Time, TicketId)>,
        limit: u64,
    ) -> Result<Vec<SupportTicket>, StoreError> {
        let select = tenant.map_or_else(Entity::find, of);
        self.read(async |database| newest(database, select, filter, before, limit).await).await
    }

    /// Returns a tenant's ticket.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn ticket(&self, tenant: TenantId, id: TicketId) -> Result<Option<SupportTicket>, StoreError> {
        self.read(async |database| {
            let found = of(tenant).filter(Column::Id.eq(id)).one(database).await?;
            found.map(SupportTicket::try_from).transpose()
        })
        .await
    }

    /// Returns a ticket of any tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn any_ticket(&self, id: TicketId) -> Result<Option<SupportTicket>, StoreError> {
        self.read(async |database| {
            let found = Entity::find_by_id(id).one(database).await?;
            found.map(SupportTicket::try_from).transpose()
        })
        .await
    }

    /// Returns the tickets that are linked to a request for another plan, the newest first: at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tickets_of_limit_request(
        &self,
        id: LimitRequestId,
    ) -> Result<Vec<SupportTicket>, StoreError> {
        let linked = Entity::find().filter(Column::LimitRequestId.eq(id));
        let filter = TicketFilter::default();
        let limit = MAX_RETURNED;
        self.read(async |database| newest(database, linked, filter, None, limit).await).await
    }

    /// Closes a tenant's ticket and returns it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the ticket is not this tenant's, [`StoreError::WrongState`] if it is closed already,
    /// [`StoreError::Unavailable`].
    pub async fn close_ticket(
        &self,
        tenant: TenantId,
        id: TicketId,
        now: Time,
    ) -> Result<SupportTicket, StoreError> {
        self.write(async |transaction| {
            let ticket = one(transaction, tenant, id).await?;
            if ticket.status == TicketStatus::Closed {
                return Err(StoreError::WrongState("the ticket is closed already"));
            }
            set_status(transaction, ticket, TicketStatus::Closed, now).await
        })
        .await
    }

    /// Reopens a tenant's closed ticket and returns it. The tenant has at most `max_open` open tickets.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the ticket is not this tenant's, [`StoreError::WrongState`] if it is not closed,
    /// [`StoreError::Full`] beyond `max_open`, [`StoreError::Unavailable`].
    pub async fn reopen_ticket(
        &self,
        tenant: TenantId,
        id: TicketId,
        max_open: u32,
        now: Time,
    ) -> Result<SupportTicket, StoreError> {
        self.write(async |transaction| {
            let ticket = one(transaction, tenant, id).await?;
            if ticket.status != TicketStatus::Closed {
                return Err(StoreError::WrongState("the ticket is not closed"));
            }
            check_capacity(transaction, tenant, max_open).await?;
            set_status(transaction, ticket, TicketStatus::Open, now).await
        })
        .await
    }

    /// Stores the tenant's rating of a closed ticket, once for each closing, and returns the ticket.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the ticket is not this tenant's, [`StoreError::WrongState`] if it is not closed or
    /// was rated since it was closed, [`StoreError::Unavailable`].
    pub async fn rate_ticket(
        &self,
        tenant: TenantId,
        id: TicketId,
        satisfaction: &Satisfaction,
    ) -> Result<SupportTicket, StoreError> {
        self.write(async |transaction| {
            let ticket = one(transaction, tenant, id).await?;
            let Some(closed_at) = ticket.closed_at else {
                return Err(StoreError::WrongState("the ticket can be rated when it is closed"));
            };
            if ticket.satisfaction.as_ref().is_some_and(|before| before.rated_at >= closed_at) {
                return Err(StoreError::WrongState("the ticket has been rated already"));
            }
            let update = Entity::update_many()
                .col_expr(Column::Rating, Expr::value(i16::from(satisfaction.rating)))
                .col_expr(Column::RatingText, Expr::value(satisfaction.text.clone()))
                .col_expr(Column::RatedAt, Expr::value(satisfaction.rated_at))
                .filter(Column::Id.eq(id));
            update.exec(transaction).await?;
            Ok(SupportTicket { satisfaction: Some(satisfaction.clone()), ..ticket })
        })
        .await
    }

    /// Sets the status of a ticket of any tenant, for operators. Returns the ticket, and whether this changed it. An
    /// unchanged ticket gets no audit entry.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn set_ticket_status(
        &self,
        id: TicketId,
        status: TicketStatus,
        now: Time,
    ) -> Result<(SupportTicket, bool), StoreError> {
        self.transact(async |transaction| {
            let ticket = of_any_tenant(transaction, id).await?;
            if ticket.status == status {
                return Ok((ticket, false));
            }
            let ticket = set_status(transaction, ticket, status, now).await?;
            if let Some(entry) = &self.entry {
                append(transaction, entry).await?;
            }
            Ok((ticket, true))
        })
        .await
    }
}
