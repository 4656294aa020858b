//! Custom plans of operators, in addition to the four built-in ones. Each overrides some figures of a built-in plan,
//! its base.

use super::changes::{NewChange, record};
use super::figures::Figures;
use super::plan_fees::record_fee;
use super::tier_changes::TenantPlan;
use crate::entity::custom_plans::{ActiveModel, Column, Entity, Model};
use crate::entity::{tenants, tier_changes};
use crate::{Store, StoreError};
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
};
use std::time::Duration;

/// The number of custom plans, including deleted ones that are kept.
pub const MAX_CUSTOM_PLANS: u64 = 100;

/// The time that a deleted plan with former tenants is kept: longer than any month stays unbilled.
const DELETED_KEPT: Duration = Duration::from_secs(400 * 86_400);

/// A custom plan of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CustomPlan {
    /// Its identifier.
    pub id: CustomPlanId,
    /// Its unique name.
    pub name: String,
    /// The built-in plan that supplies the other figures.
    pub base: Tier,
    /// True if all tenants see it. Otherwise only tenants that an operator has moved to it see it.
    pub is_visible: bool,
    /// The overriding figures.
    pub figures: Figures,
    /// The creation time.
    pub created_at: Time,
}

impl CustomPlan {
    /// Returns the plan of a tenant that is on it.
    pub const fn plan(&self) -> TenantPlan {
        TenantPlan { tier: self.base, custom: Some(self.id) }
    }
}

/// A change of a custom plan; fields that are `None` stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CustomPlanChange {
    /// Its name.
    pub name: Option<String>,
    /// The visibility to all tenants.
    pub is_visible: Option<bool>,
    /// All overriding figures.
    pub figures: Option<Figures>,
}

impl From<Model> for CustomPlan {
    fn from(row: Model) -> Self {
        CustomPlan {
            id: row.id,
            name: row.name,
            base: row.base_tier,
            is_visible: row.visible,
            figures: row.figures,
            created_at: row.created_at,
        }
    }
}

pub(super) fn are_old(now: Time) -> Condition {
    Condition::all().add(Column::DeletedAt.lte(now.minus(DELETED_KEPT)))
}

pub(super) async fn find(
    database: &impl ConnectionTrait,
    id: CustomPlanId,
) -> Result<Option<CustomPlan>, StoreError> {
    let found = Entity::find_by_id(id).filter(Column::DeletedAt.is_null());
    Ok(found.one(database).await?.map(CustomPlan::from))
}

pub(super) async fn of_tenant(
    database: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<Option<CustomPlan>, StoreError> {
    let its = tenants::Entity::find()
        .select_only()
        .column(tenants::Column::CustomPlanId)
        .filter(tenants::Column::Id.eq(tenant));
    let plan = Entity::find().filter(Column::Id.in_subquery(its.into_query()));
    Ok(plan.one(database).await?.map(CustomPlan::from))
}

pub(super) async fn all(database: &impl ConnectionTrait) -> Result<Vec<CustomPlan>, StoreError> {
    let rows = Entity::find().order_by_asc(Column::Id).all(database).await?;
    Ok(rows.into_iter().map(CustomPlan::from).collect())
}

/// Checks that no other custom plan has this name. Writes exclude each other, so the name stays free.
async fn expect_free(
    transaction: &DatabaseTransaction,
    id: CustomPlanId,
    name: &str,
) -> Result<(), StoreError> {
    let others = Entity::find()
        .filter(Column::Name.eq(name))
        .filter(Column::DeletedAt.is_null())
        .filter(Column::Id.ne(id));
    if others.count(transaction).await? > 0 {
        return Err(StoreError::Taken { what: "plan", value: "name" });
    }
    Ok(())
}

impl Store {
    /// Adds a custom plan. Gateways are not notified, because no tenant is on it yet.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if another one has its name, [`StoreError::Full`] for more than [`MAX_CUSTOM_PLANS`],
    /// [`StoreError::Unavailable`].
    pub async fn create_custom_plan(&self, plan: &CustomPlan) -> Result<(), StoreError> {
        let row = ActiveModel {
            id: Set(plan.id),
            name: Set(plan.name.clone()),
            base_tier: Set(plan.base),
            visible: Set(plan.is_visible),
            figures: Set(plan.figures),
            created_at: Set(plan.created_at),
            deleted_at: Set(None),
        };
        self.write_settings(None, plan.created_at, async |transaction| {
            if Entity::find().count(transaction).await? >= MAX_CUSTOM_PLANS {
                let why = format!(
                    "there can be {MAX_CUSTOM_PLANS} custom plans, including those that were in use and deleted \
                     in the last 400 days"
                );
                return Err(StoreError::Full(why));
            }
            expect_free(transaction, plan.id, &plan.name).await?;
            Entity::insert(row).exec_without_returning(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Returns all custom plans, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn custom_plans(&self) -> Result<Vec<CustomPlan>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().filter(Column::DeletedAt.is_null()).order_by_asc(Column::Id);
            Ok(rows.all(database).await?.into_iter().map(CustomPlan::from).collect())
        })
        .await
    }

    /// Returns all custom plans that an invoice may be about, the oldest first, including deleted ones.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn billed_custom_plans(&self) -> Result<Vec<CustomPlan>, StoreError> {
        self.read(async |database| all(database).await).await
    }

    /// Returns a custom plan.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn custom_plan(&self, id: CustomPlanId) -> Result<Option<CustomPlan>, StoreError> {
        self.read(async |database| find(database, id).await).await
    }

    /// Changes a custom plan, returns it, and notifies gateways.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Taken`] if another one has the new name, [`StoreError::Unavailable`].
    pub async fn update_custom_plan(
        &self,
        id: CustomPlanId,
        change: &CustomPlanChange,
        now: Time,
    ) -> Result<CustomPlan, StoreError> {
        let row = ActiveModel {
            name: change.name.clone().map_or(NotSet, Set),
            visible: change.is_visible.map_or(NotSet, Set),
            figures: change.figures.map_or(NotSet, Set),
            ..Default::default()
        };
        self.write_settings(None, now, async |transaction| {
            let plan = find(transaction, id).await?.ok_or(StoreError::NotFound("plan"))?;
            if let Some(name) = &change.name {
                expect_free(transaction, id, name).await?;
            }
            if *change != CustomPlanChange::default() {
                let its = Column::Id.eq(id);
                Entity::update_many().set(row).filter(its).exec(transaction).await?;
            }
            if let Some(figures) = &change.figures {
                let fees = (plan.figures.plan.monthly_fee, figures.plan.monthly_fee);
                record_fee(transaction, plan.plan(), fees, now).await?;
            }
            record(transaction, NewChange::CustomPlan(id), now).await?;
            Ok(CustomPlan {
                name: change.name.clone().unwrap_or(plan.name),
                is_visible: change.is_visible.unwrap_or(plan.is_visible),
                figures: change.figures.unwrap_or(plan.figures),
                ..plan
            })
        })
        .await
    }

    /// Deletes a custom plan without tenants. A plan that had a tenant is kept for the invoices of that time.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::WrongState`] if a tenant is on it, [`StoreError::Unavailable`].
    pub async fn delete_custom_plan(&self, id: CustomPlanId, now: Time) -> Result<(), StoreError> {
        self.write_settings(None, now, async |transaction| {
            find(transaction, id).await?.ok_or(StoreError::NotFound("plan"))?;
            let on_it = tenants::Entity::find().filter(tenants::Column::CustomPlanId.eq(id));
            if on_it.count(transaction).await? > 0 {
                return Err(StoreError::WrongState(
                    "tenants are on this plan: move them to another one before you delete it",
                ));
            }
            let were_on_it = tier_changes::Entity::find().filter(tier_changes::Column::CustomBefore.eq(id));
            if were_on_it.count(transaction).await? > 0 {
                let update = Entity::update_many()
                    .col_expr(Column::DeletedAt, Expr::value(Some(now)))
                    .filter(Column::Id.eq(id));
                update.exec(transaction).await?;
            } else {
                Entity::delete_by_id(id).exec(transaction).await?;
            }
            Ok(())
        })
        .await
    }
}
