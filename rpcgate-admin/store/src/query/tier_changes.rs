//! Moves of tenants from one plan to another, and their history.

use super::changes::{NewChange, record};
use super::live_tenants::live_tenant;
use crate::entity::tenants;
use crate::entity::tier_changes::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};

/// The plan of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantPlan {
    /// The built-in plan, or the base of the custom plan.
    pub tier: Tier,
    /// The custom plan, if the tenant is on one.
    pub custom: Option<CustomPlanId>,
}

impl From<Tier> for TenantPlan {
    fn from(tier: Tier) -> Self {
        TenantPlan { tier, custom: None }
    }
}

/// A change of a tenant's plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierChange {
    /// The time when it took effect.
    pub at: Time,
    /// The plan before.
    pub before: TenantPlan,
    /// The plan after.
    pub after: TenantPlan,
}

impl From<&Model> for TierChange {
    fn from(row: &Model) -> Self {
        TierChange {
            at: row.at,
            before: TenantPlan { tier: row.before, custom: row.custom_before },
            after: TenantPlan { tier: row.after, custom: row.custom_after },
        }
    }
}

/// Moves a tenant to a plan, adds an entry to its history, and notifies the gateways.
pub(super) async fn move_to(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    after: TenantPlan,
    now: Time,
) -> Result<(), StoreError> {
    let row = live_tenant(transaction, tenant).await?;
    let before = TenantPlan { tier: row.tier, custom: row.custom_plan_id };
    if before != after {
        let update = tenants::Entity::update_many()
            .col_expr(tenants::Column::Tier, Expr::value(after.tier))
            .col_expr(tenants::Column::CustomPlanId, Expr::value(after.custom))
            .filter(tenants::Column::Id.eq(tenant));
        update.exec(transaction).await?;
        let change = ActiveModel {
            number: NotSet,
            tenant_id: Set(tenant),
            at: Set(now),
            before: Set(before.tier),
            after: Set(after.tier),
            custom_before: Set(before.custom),
            custom_after: Set(after.custom),
        };
        Entity::insert(change).exec_without_returning(transaction).await?;
    }
    record(transaction, NewChange::Tenant(tenant), now).await
}

impl Store {
    /// Returns the changes of a tenant's plan at `from` and later, in order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tier_changes(&self, tenant: TenantId, from: Time) -> Result<Vec<TierChange>, StoreError> {
        self.read(async |database| {
            let its = Column::TenantId.eq(tenant);
            let changes = Entity::find().filter(its).filter(Column::At.gte(from));
            let rows = changes.order_by_asc(Column::At).order_by_asc(Column::Number).all(database).await?;
            Ok(rows.iter().map(TierChange::from).collect())
        })
        .await
    }
}
