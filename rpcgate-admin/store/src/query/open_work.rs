//! The amount of work that waits for operators, and the number of answers that wait for a tenant.

use super::limit_requests::RequestStatus;
use super::ticket_status::TicketStatus;
use crate::entity::{limit_requests, tickets};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};

/// Work that waits for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenWork {
    /// Pending limit requests.
    pub limit_requests: u64,
    /// Tickets that wait for an operator.
    pub tickets: u64,
}

impl Store {
    /// Returns the work of all tenants that waits for operators.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn open_work(&self) -> Result<OpenWork, StoreError> {
        self.read(async |database| {
            let pending = limit_requests::Entity::find()
                .filter(limit_requests::Column::Status.eq(RequestStatus::Pending));
            let open = tickets::Entity::find().filter(tickets::Column::Status.eq(TicketStatus::Open));
            Ok(OpenWork {
                limit_requests: pending.count(database).await?,
                tickets: open.count(database).await?,
            })
        })
        .await
    }

    /// Returns the number of a tenant's tickets that an operator has answered and that wait for the tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn answered_tickets(&self, tenant: TenantId) -> Result<u64, StoreError> {
        self.read(async |database| {
            let answered = tickets::Entity::find()
                .filter(tickets::Column::TenantId.eq(tenant))
                .filter(tickets::Column::Status.eq(TicketStatus::Answered));
            Ok(answered.count(database).await?)
        })
        .await
    }
}
