//! The work that waits for operators, the oldest first, over all tenants.

use super::id::{LimitRequestId, TicketId};
use super::invoices::{Invoice, InvoiceNumber, InvoiceStatus};
use super::limit_requests::{LimitRequest, RequestStatus};
use super::ticket_status::TicketStatus;
use super::tickets::SupportTicket;
use crate::entity::{invoices, limit_requests, tickets};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

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
        let later = after.map(|(at, id)| {
            let same = Condition::all().add(Column::CreatedAt.eq(at)).add(Column::Id.gt(id));
            Condition::any().add(Column::CreatedAt.gt(at)).add(same)
        });
        let oldest = Entity::find()
            .filter(Column::Status.eq(RequestStatus::Pending.name()))
            .filter(Condition::all().add_option(later))
            .order_by_asc(Column::CreatedAt)
            .order_by_asc(Column::Id)
            .limit(limit.min(MAX_OLDEST));
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
        let later = after.map(|(at, id)| {
            let same = Condition::all().add(Column::CreatedAt.eq(at)).add(Column::Id.gt(id));
            Condition::any().add(Column::CreatedAt.gt(at)).add(same)
        });
        let oldest = Entity::find()
            .filter(Column::Status.eq(TicketStatus::Open.name()))
            .filter(Condition::all().add_option(later))
            .order_by_asc(Column::CreatedAt)
            .order_by_asc(Column::Id)
            .limit(limit.min(MAX_OLDEST));
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
        let later = after.map(|after| {
            let (year, serial) = after.columns();
            let same_year = Condition::all().add(Column::Year.eq(year)).add(Column::Serial.gt(serial));
            Condition::any().add(Column::Year.gt(year)).add(same_year)
        });
        let oldest = Entity::find()
            .filter(Column::Status.eq(InvoiceStatus::Open.name()))
            .filter(Column::DueAt.lte(now))
            .filter(Condition::all().add_option(later))
            .order_by_asc(Column::Year)
            .order_by_asc(Column::Serial)
            .limit(limit.min(MAX_OLDEST));
        self.read(async |database| oldest.all(database).await?.into_iter().map(Invoice::try_from).collect())
            .await
    }
}
