//! Support tickets.

use super::audit::{Audit, append};
use super::id::{LimitRequestId, TicketId, UserId};
use super::limit_requests::{self, LimitRequest};
use super::removal::remove;
use super::ticket_category::TicketCategory;
use super::ticket_status::TicketStatus;
use super::ticket_texts::{length_of, make_room};
use super::value::{insert_error, moment, number, time, unreadable};
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

/// Tickets that one call returns at most.
const MAX_RETURNED: u64 = 1_000;

/// Closed tickets of a tenant that are kept: those created last.
const CLOSED_KEPT: u64 = 1_000;

/// Closed tickets that are removed at once, at most. Each new ticket makes at most one of them superfluous.
const REMOVED_AT_ONCE: u64 = 2;

const IS_CLOSED: StoreError = StoreError::WrongState("the ticket is closed: reopen it first");

/// How satisfied a tenant is with the support that it got on a closed ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Satisfaction {
    /// From 1, very bad, to 5, very good.
    pub rating: u8,
    /// The reason, if one was given.
    pub text: Option<String>,
    /// When it was given.
    pub rated_at: Time,
}

/// A support ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupportTicket {
    /// Its identifier.
    pub id: TicketId,
    /// The tenant whose ticket it is.
    pub tenant: TenantId,
    /// The user who wrote it.
    pub user: UserId,
    /// What it is about.
    pub category: TicketCategory,
    /// Its status.
    pub status: TicketStatus,
    /// One line.
    pub subject: String,
    /// The text.
    pub text: String,
    /// The request for another plan that it is linked to.
    pub limit_request: Option<LimitRequestId>,
    /// The tenant's satisfaction.
    pub satisfaction: Option<Satisfaction>,
    /// When it was created.
    pub created_at: Time,
    /// When its status, its comments that the tenant sees, or its files last changed.
    pub updated_at: Time,
    /// When it was closed, if it is.
    pub closed_at: Option<Time>,
}

impl TryFrom<Model> for SupportTicket {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let rating = row.rating.map(|rating| u8::try_from(rating).map_err(|_| unreadable("rating", rating)));
        let satisfaction = rating.transpose()?.map(|rating| Satisfaction {
            rating,
            text: row.rating_text,
            rated_at: time(row.rated_at.unwrap_or_default()),
        });
        Ok(SupportTicket {
            id: TicketId(row.id.as_u128()),
            tenant: TenantId(row.tenant_id.as_u128()),
            user: UserId(row.user_id.as_u128()),
            category: row.category.parse().map_err(|_| unreadable("category", row.category))?,
            status: row.status.parse().map_err(|_| unreadable("status", row.status))?,
            subject: row.subject,
            text: row.text,
            limit_request: row.limit_request_id.map(|id| LimitRequestId(id.as_u128())),
            satisfaction,
            created_at: time(row.created_at),
            updated_at: time(row.updated_at),
            closed_at: row.closed_at.map(time),
        })
    }
}

/// Which tickets to list; fields that are `None` do not matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TicketFilter {
    /// Only tickets with this status.
    pub status: Option<TicketStatus>,
    /// Only tickets of this category.
    pub category: Option<TicketCategory>,
}

/// The request for another plan to which a new ticket of the category `limit_increase` is linked.
#[derive(Clone, Copy, Debug)]
pub enum TicketLimitRequest<'a> {
    /// The pending request of the tenant.
    Pending,
    /// The pending request of the tenant if it is for the same plan, or this new one, which the audit entry is about.
    New(&'a LimitRequest, &'a Audit),
}

fn of(tenant: TenantId) -> Select<Entity> {
    Entity::find().filter(Column::TenantId.eq(Uuid::from_u128(tenant.0)))
}

/// A tenant's ticket.
pub(super) async fn one(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    id: TicketId,
) -> Result<SupportTicket, StoreError> {
    let found = of(tenant).filter(Column::Id.eq(Uuid::from_u128(id.0))).one(transaction).await?;
    SupportTicket::try_from(found.ok_or(StoreError::NotFound("ticket"))?)
}

/// A tenant's ticket, which is not closed.
pub(super) async fn one_open(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    id: TicketId,
) -> Result<SupportTicket, StoreError> {
    let ticket = one(transaction, tenant, id).await?;
    if ticket.status == TicketStatus::Closed { Err(IS_CLOSED) } else { Ok(ticket) }
}

/// A ticket of any tenant.
pub(super) async fn of_any_tenant(
    transaction: &DatabaseTransaction,
    id: TicketId,
) -> Result<SupportTicket, StoreError> {
    let found = Entity::find_by_id(Uuid::from_u128(id.0)).one(transaction).await?;
    SupportTicket::try_from(found.ok_or(StoreError::NotFound("ticket"))?)
}

/// Gives a ticket a status, which counts as a change at `now`, and returns it as it is then.
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
        .col_expr(Column::Status, Expr::value(status.name()))
        .col_expr(Column::UpdatedAt, Expr::value(moment(now)))
        .col_expr(Column::ClosedAt, Expr::value(closed_at.map(moment)))
        .filter(Column::Id.eq(Uuid::from_u128(ticket.id.0)));
    update.exec(transaction).await?;
    Ok(SupportTicket { status, updated_at: now, closed_at, ..ticket })
}

/// Checks that a tenant may have one more ticket that is not closed.
async fn expect_room(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    max: u32,
) -> Result<(), StoreError> {
    let open = of(tenant).filter(Column::Status.ne(TicketStatus::Closed.name())).count(transaction).await?;
    if open < max.into() {
        return Ok(());
    }
    Err(StoreError::Full(format!(
        "at most {max} tickets of an organisation are open: close one that is done"
    )))
}

/// Removes the oldest closed tickets of a tenant that has too many, with everything that belongs to them.
async fn remove_old(transaction: &DatabaseTransaction, tenant: TenantId) -> Result<(), StoreError> {
    let closed = Column::Status.eq(TicketStatus::Closed.name());
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

/// Finds or creates the request for another plan.
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
        matching = matching.add(Column::Status.eq(status.name()));
    }
    if let Some(category) = filter.category {
        matching = matching.add(Column::Category.eq(category.name()));
    }
    if let Some((at, id)) = before {
        let (at, id) = (moment(at), Uuid::from_u128(id.0));
        let same_time = Condition::all().add(Column::CreatedAt.eq(at)).add(Column::Id.lt(id));
        matching = matching.add(Condition::any().add(Column::CreatedAt.lt(at)).add(same_time));
    }
    let newest = select
        .filter(matching)
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .limit(limit.min(MAX_RETURNED));
    newest.all(database).await?.into_iter().map(SupportTicket::try_from).collect()
}

impl Store {
    /// Adds a ticket, linked to `limit_request` if one is given, and returns it with its link. A tenant has at most
    /// `max_open` tickets that are not closed; of its closed tickets only the newest 1,000 are kept, and fewer if the texts
    /// of all tickets and comments are longer than 64 MiB together.
    ///
    /// # Errors
    /// [`StoreError::Full`] beyond `max_open`, and beyond 64 MiB of text in tickets that are not closed; [`StoreError::NotFound`] if the tenant does not exist, or has no pending
    /// request to link to; [`StoreError::Taken`] if its pending request is for another plan than the new one;
    /// [`StoreError::Unavailable`].
    pub async fn create_ticket(
        &self,
        ticket: SupportTicket,
        limit_request: Option<TicketLimitRequest<'_>>,
        max_open: u32,
    ) -> Result<SupportTicket, StoreError> {
        self.write(async |transaction| {
            expect_room(transaction, ticket.tenant, max_open).await?;
            remove_old(transaction, ticket.tenant).await?;
            let text_bytes = length_of([ticket.subject.as_str(), &ticket.text]);
            make_room(transaction, ticket.tenant, text_bytes).await?;
            let mut ticket = ticket;
            if let Some(wanted) = limit_request {
                ticket.limit_request = Some(link(transaction, ticket.tenant, wanted).await?);
            }
            let row = ActiveModel {
                id: Set(Uuid::from_u128(ticket.id.0)),
                tenant_id: Set(Uuid::from_u128(ticket.tenant.0)),
                user_id: Set(Uuid::from_u128(ticket.user.0)),
                category: Set(ticket.category.name().into()),
                status: Set(ticket.status.name().into()),
                subject: Set(ticket.subject.clone()),
                text: Set(ticket.text.clone()),
                limit_request_id: Set(ticket.limit_request.map(|id| Uuid::from_u128(id.0))),
                rating: Set(None),
                rating_text: Set(None),
                rated_at: Set(None),
                created_at: Set(moment(ticket.created_at)),
                updated_at: Set(moment(ticket.updated_at)),
                closed_at: Set(ticket.closed_at.map(moment)),
                text_bytes: Set(number("length of texts", text_bytes)?),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "ticket", "tenant", None))?;
            Ok(ticket)
        })
        .await
    }

    /// A tenant's tickets that `filter` matches, the newest first, starting behind `before` in this order: at most
    /// `limit`, and at most 1,000.
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

    /// A tenant's ticket.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn ticket(&self, tenant: TenantId, id: TicketId) -> Result<Option<SupportTicket>, StoreError> {
        self.read(async |database| {
            let found = of(tenant).filter(Column::Id.eq(Uuid::from_u128(id.0))).one(database).await?;
            found.map(SupportTicket::try_from).transpose()
        })
        .await
    }

    /// A ticket of any tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn any_ticket(&self, id: TicketId) -> Result<Option<SupportTicket>, StoreError> {
        self.read(async |database| {
            let found = Entity::find_by_id(Uuid::from_u128(id.0)).one(database).await?;
            found.map(SupportTicket::try_from).transpose()
        })
        .await
    }

    /// The tickets that are linked to a request for another plan, the newest first: at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tickets_of_limit_request(
        &self,
        id: LimitRequestId,
    ) -> Result<Vec<SupportTicket>, StoreError> {
        let linked = Entity::find().filter(Column::LimitRequestId.eq(Uuid::from_u128(id.0)));
        let (filter, limit) = (TicketFilter::default(), MAX_RETURNED);
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

    /// Opens a tenant's closed ticket again and returns it. The tenant has at most `max_open` tickets that are not
    /// closed.
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
            expect_room(transaction, tenant, max_open).await?;
            set_status(transaction, ticket, TicketStatus::Open, now).await
        })
        .await
    }

    /// Stores the tenant's satisfaction with a closed ticket, once each time that the ticket was closed, and returns
    /// the ticket.
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
                .col_expr(Column::RatedAt, Expr::value(moment(satisfaction.rated_at)))
                .filter(Column::Id.eq(Uuid::from_u128(id.0)));
            update.exec(transaction).await?;
            Ok(SupportTicket { satisfaction: Some(satisfaction.clone()), ..ticket })
        })
        .await
    }

    /// Gives a ticket of any tenant a status, for operators. Returns the ticket, and whether that changed it: one that has
    /// the status is left as it is, without an audit entry.
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
