//! Requests for another plan.

use super::id::LimitRequestId;
use super::keyset::page;
use super::named::UnknownName;
use super::tier_changes::TenantPlan;
use super::value::insert_error;
use crate::entity::limit_requests::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::{
    ColumnTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, Select,
};
use std::str::FromStr;

pub use crate::entity::limit_requests::{Model as LimitRequest, RequestStatus};

const MAX_RETURNED: u64 = 1_000;

/// The decision about a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// The tenant gets the plan.
    Approved,
    /// The tenant does not get the plan.
    Rejected,
}

impl Verdict {
    /// Returns the status of a request after this decision.
    pub const fn status(self) -> RequestStatus {
        match self {
            Verdict::Approved => RequestStatus::Approved,
            Verdict::Rejected => RequestStatus::Rejected,
        }
    }
}

impl FromStr for Verdict {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let both = [Verdict::Approved, Verdict::Rejected];
        both.into_iter().find(|verdict| verdict.status().name() == text).ok_or(UnknownName("status"))
    }
}

impl LimitRequest {
    /// Returns the requested plan.
    pub const fn plan(&self) -> TenantPlan {
        TenantPlan { tier: self.requested_tier, custom: self.custom_plan }
    }

    /// Returns the decision as text: the answer to tickets that are linked to the request.
    pub fn decision(&self) -> String {
        let LimitRequest { requested_tier, status, note, .. } = self;
        let plan = match self.custom_plan {
            Some(_) => "another plan".to_owned(),
            None => format!("the plan {requested_tier}"),
        };
        let note = note.as_ref().map(|note| format!("\n\n{note}")).unwrap_or_default();
        format!("The request for {plan} was {status}.{note}")
    }
}

async fn newest(
    database: &DatabaseConnection,
    select: Select<Entity>,
    before: Option<(Time, LimitRequestId)>,
    limit: u64,
) -> Result<Vec<LimitRequest>, StoreError> {
    let mut newest = page(select, (Column::CreatedAt, Column::Id), before, limit.min(MAX_RETURNED));
    Ok(newest.desc().all(database).await?)
}

pub(super) async fn pending(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
) -> Result<Option<LimitRequest>, StoreError> {
    let pending =
        Entity::find().filter(Column::TenantId.eq(tenant)).filter(Column::Status.eq(RequestStatus::Pending));
    Ok(pending.one(transaction).await?)
}

pub(super) async fn insert(
    transaction: &DatabaseTransaction,
    request: &LimitRequest,
) -> Result<(), StoreError> {
    let row = request.clone().into_active_model();
    let done = Entity::insert(row).exec_without_returning(transaction).await;
    let unique = Some(("tenant_id", "tenant"));
    done.map(drop).map_err(|error| insert_error(error, "pending limit request", "tenant", unique))
}

impl Store {
    /// Adds a request. A tenant has at most one pending request.
    ///
    /// # Errors
    /// [`StoreError::Taken`] while another request of the tenant is pending, [`StoreError::NotFound`] if the tenant
    /// does not exist, [`StoreError::Unavailable`].
    pub async fn create_limit_request(&self, request: &LimitRequest) -> Result<(), StoreError> {
        self.write(async |transaction| insert(transaction, request).await).await
    }

    /// Returns a tenant's requests, the newest first: the last 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn limit_requests(&self, tenant: TenantId) -> Result<Vec<LimitRequest>, StoreError> {
        let its = Entity::find().filter(Column::TenantId.eq(tenant));
        self.read(async |database| newest(database, its, None, MAX_RETURNED).await).await
    }

    /// Returns a request of any tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn limit_request(&self, id: LimitRequestId) -> Result<Option<LimitRequest>, StoreError> {
        self.read(async |database| Ok(Entity::find_by_id(id).one(database).await?)).await
    }

    /// Returns the requests of all tenants, optionally of one status, the newest first, starting after `before`: at
    /// most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn all_limit_requests(
        &self,
        status: Option<RequestStatus>,
        before: Option<(Time, LimitRequestId)>,
        limit: u64,
    ) -> Result<Vec<LimitRequest>, StoreError> {
        let mut select = Entity::find();
        if let Some(status) = status {
            select = select.filter(Column::Status.eq(status));
        }
        self.read(async |database| newest(database, select, before, limit).await).await
    }
}
