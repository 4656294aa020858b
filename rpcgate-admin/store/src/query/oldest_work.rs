//! The work that waits for operators, the oldest first, over all tenants.

use super::id::{LimitRequestId, TicketId};
use super::invoices::{Invoice, InvoiceNumber, InvoiceStatus};
use super::keyset::page;
use super::limit_requests::{LimitRequest, RequestStatus};
use super::ticket_status::TicketStatus;
use super::tickets::SupportTicket;
use crate::entity::{invoices, limit_requests, tickets};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

const MAX_OLDEST: u64 = 1_000;

impl Store {
    /// Returns the pending limit requests, the oldest first, starting after `after`: at most `limit`, and at most
    /// 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn oldest_limit_requests(
        &self,
        after: Option<(Time, LimitRequestId)>,
        limit: u64,
    ) -> Result<Vec<LimitRequest>, StoreError> {
        use limit_requests::{Column, Entity};
        let its = Entity::find().filter(Column::Status.eq(RequestStatus::Pending));
        let mut oldest = page(its, (Column::CreatedAt, Column::Id), after, limit.min(MAX_OLDEST));
        self.read(async |database| Ok(oldest.all(database).await?)).await
    }

    /// Returns the tickets that wait for an operator, the oldest first, starting after `after`: at most `limit`, and at
    /// most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn oldest_tickets(
        &self,
        after: Option<(Time, TicketId)>,
        limit: u64,
    ) -> Result<Vec<SupportTicket>, StoreError> {
        use tickets::{Column, Entity};
        let its = Entity::find().filter(Column::Status.eq(TicketStatus::Open));
        let mut oldest = page(its, (Column::CreatedAt, Column::Id), after, limit.min(MAX_OLDEST));
        self.read(async |database| {
            oldest.all(database).await?.into_iter().map(SupportTicket::try_from).collect()
        })
        .await
    }

    /// Returns the unpaid invoices that are due at `now`, the oldest first, starting after `after`: at most `limit`,
    /// and at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn oldest_overdue(
        &self,
        after: Option<InvoiceNumber>,
        limit: u64,
        now: Time,
    ) -> Result<Vec<Invoice>, StoreError> {
        use invoices::{Column, Entity};
        let its = Entity::find()
            .filter(Column::Status.eq(InvoiceStatus::Open.name()))
            .filter(Column::DueAt.lte(now));
        let after = after.map(InvoiceNumber::columns);
        let mut oldest = page(its, (Column::Year, Column::Serial), after, limit.min(MAX_OLDEST));
        self.read(async |database| oldest.all(database).await?.into_iter().map(Invoice::try_from).collect())
            .await
    }
}
