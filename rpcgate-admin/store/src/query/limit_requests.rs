//! Requests for another plan.

use super::id::{LimitRequestId, UserId};
use super::keyset::page;
use super::tier_changes::TenantPlan;
use super::users::UnknownName;
use super::value::{insert_error, moment, tier, time, unreadable};
use crate::entity::limit_requests::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, QueryFilter, Select};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

const MAX_RETURNED: u64 = 1_000;

/// The status of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestStatus {
    /// Waits for a decision.
    Pending,
    /// Approved: the tenant has got the plan.
    Approved,
    /// Rejected.
    Rejected,
}

impl RequestStatus {
    /// All statuses.
    pub const ALL: [RequestStatus; 3] =
        [RequestStatus::Pending, RequestStatus::Approved, RequestStatus::Rejected];

    /// Returns its name in the database and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            RequestStatus::Pending => "pending",
            RequestStatus::Approved => "approved",
            RequestStatus::Rejected => "rejected",
        }
    }
}

impl fmt::Display for RequestStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RequestStatus {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = RequestStatus::ALL.into_iter().find(|status| status.name() == text);
        found.ok_or(UnknownName("status"))
    }
}

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

/// A request for another plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitRequest {
    /// Its identifier.
    pub id: LimitRequestId,
    /// The requesting tenant.
    pub tenant: TenantId,
    /// The requesting user.
    pub user: UserId,
    /// The requested plan, or its base.
    pub requested_tier: Tier,
    /// The requested plan, if it is a custom plan.
    pub custom_plan: Option<CustomPlanId>,
    /// The user's reason.
    pub reason: String,
    /// Its status.
    pub status: RequestStatus,
    /// A note of the deciding operator.
    pub note: Option<String>,
    /// The creation time.
    pub created_at: Time,
    /// The time of the decision.
    pub reviewed_at: Option<Time>,
    /// The deciding operator.
    pub reviewer: Option<UserId>,
}

impl TryFrom<Model> for LimitRequest {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(LimitRequest {
            id: LimitRequestId(row.id.as_u128()),
            tenant: TenantId(row.tenant_id.as_u128()),
            user: UserId(row.user_id.as_u128()),
            requested_tier: tier(&row.requested_tier)?,
            custom_plan: row.custom_plan_id.map(|id| CustomPlanId(id.as_u128())),
            reason: row.reason,
            status: row.status.parse().map_err(|_| unreadable("status", row.status))?,
            note: row.note,
            created_at: time(row.created_at),
            reviewed_at: row.reviewed_at.map(time),
            reviewer: row.reviewer_id.map(|id| UserId(id.as_u128())),
        })
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
    let before = before.map(|(at, id)| (moment(at), Uuid::from_u128(id.0)));
    let mut newest = page(select, (Column::CreatedAt, Column::Id), before, limit.min(MAX_RETURNED));
    newest.desc().all(database).await?.into_iter().map(LimitRequest::try_from).collect()
}

pub(super) async fn pending(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
) -> Result<Option<LimitRequest>, StoreError> {
    let pending = Entity::find()
        .filter(Column::TenantId.eq(Uuid::from_u128(tenant.0)))
        .filter(Column::Status.eq(RequestStatus::Pending.name()));
    pending.one(transaction).await?.map(LimitRequest::try_from).transpose()
}

pub(super) async fn insert(
    transaction: &DatabaseTransaction,
    request: &LimitRequest,
) -> Result<(), StoreError> {
    let row = ActiveModel {
        id: Set(Uuid::from_u128(request.id.0)),
        tenant_id: Set(Uuid::from_u128(request.tenant.0)),
        user_id: Set(Uuid::from_u128(request.user.0)),
        requested_tier: Set(request.requested_tier.name().into()),
        reason: Set(request.reason.clone()),
        status: Set(request.status.name().into()),
        note: Set(request.note.clone()),
        created_at: Set(moment(request.created_at)),
        reviewed_at: Set(request.reviewed_at.map(moment)),
        custom_plan_id: Set(request.plan().custom_column()),
        reviewer_id: Set(request.reviewer.map(|id| Uuid::from_u128(id.0))),
    };
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
        let its = Entity::find().filter(Column::TenantId.eq(Uuid::from_u128(tenant.0)));
        self.read(async |database| newest(database, its, None, MAX_RETURNED).await).await
    }

    /// Returns a request of any tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn limit_request(&self, id: LimitRequestId) -> Result<Option<LimitRequest>, StoreError> {
        self.read(async |database| {
            let found = Entity::find_by_id(Uuid::from_u128(id.0)).one(database).await?;
            found.map(LimitRequest::try_from).transpose()
        })
        .await
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
            select = select.filter(Column::Status.eq(status.name()));
        }
        self.read(async |database| newest(database, select, before, limit).await).await
    }
}
