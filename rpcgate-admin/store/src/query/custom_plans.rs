//! Plans of operators' own, beside the four: each has some figures of its own, and those of one of the four, its base.

use super::changes::{NewChange, record};
use super::figures::Figures;
use super::plan_fees::record_fee;
use super::tier_changes::TenantPlan;
use super::value::{moment, tier, time};
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
use uuid::Uuid;

/// Plans of operators' own, at most, including those that were deleted and are kept.
pub const MAX_CUSTOM_PLANS: u64 = 100;

/// How long a deleted plan that a tenant was on is kept: longer than any month stays unbilled.
const DELETED_KEPT: Duration = Duration::from_secs(400 * 86_400);

/// A plan of an operator's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CustomPlan {
    /// Its identifier.
    pub id: CustomPlanId,
    /// Its name, which no other plan has.
    pub name: String,
    /// The plan whose figures it has where it has none of its own.
    pub base: Tier,
    /// Whether all tenants see it. Otherwise those see it that an operator has moved to it.
    pub is_visible: bool,
    /// The figures of its own.
    pub figures: Figures,
    /// When it was made.
    pub created_at: Time,
}

impl CustomPlan {
    /// The plan of a tenant that is on it.
    pub const fn plan(&self) -> TenantPlan {
        TenantPlan { tier: self.base, custom: Some(self.id) }
    }
}

/// A change to a plan of an operator's own; fields that are `None` stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CustomPlanChange {
    /// Its name.
    pub name: Option<String>,
    /// Whether all tenants see it.
    pub is_visible: Option<bool>,
    /// All figures of its own.
    pub figures: Option<Figures>,
}

impl TryFrom<Model> for CustomPlan {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(CustomPlan {
            id: CustomPlanId(row.id.as_u128()),
            name: row.name,
            base: tier(&row.base_tier)?,
            is_visible: row.visible,
            figures: Figures::read(&row.figures)?,
            created_at: time(row.created_at),
        })
    }
}

/// Plans that were deleted long ago.
pub(super) fn are_old(now: Time) -> Condition {
    let kept = i64::try_from(DELETED_KEPT.as_micros()).unwrap_or(i64::MAX);
    Condition::all().add(Column::DeletedAt.lte(moment(now).saturating_sub(kept)))
}

/// The plan with this identifier, unless it was deleted.
pub(super) async fn find(
    database: &impl ConnectionTrait,
    id: CustomPlanId,
) -> Result<Option<CustomPlan>, StoreError> {
    let found = Entity::find_by_id(Uuid::from_u128(id.0)).filter(Column::DeletedAt.is_null());
    found.one(database).await?.map(CustomPlan::try_from).transpose()
}

/// The plan of an operator's own that a tenant is on.
pub(super) async fn of_tenant(
    database: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<Option<CustomPlan>, StoreError> {
    let its = tenants::Entity::find()
        .select_only()
        .column(tenants::Column::CustomPlanId)
        .filter(tenants::Column::Id.eq(Uuid::from_u128(tenant.0)));
    let plan = Entity::find().filter(Column::Id.in_subquery(its.into_query()));
    plan.one(database).await?.map(CustomPlan::try_from).transpose()
}

/// All plans of operators' own, also those that were deleted.
pub(super) async fn all(database: &impl ConnectionTrait) -> Result<Vec<CustomPlan>, StoreError> {
    let rows = Entity::find().order_by_asc(Column::Id).all(database).await?;
    rows.into_iter().map(CustomPlan::try_from).collect()
}

/// Checks that no other plan of an operator's own has this name. Writes exclude each other, so none gets it meanwhile.
async fn expect_free(
    transaction: &DatabaseTransaction,
    id: CustomPlanId,
    name: &str,
) -> Result<(), StoreError> {
    let others = Entity::find()
        .filter(Column::Name.eq(name))
        .filter(Column::DeletedAt.is_null())
        .filter(Column::Id.ne(Uuid::from_u128(id.0)));
    if others.count(transaction).await? > 0 {
        return Err(StoreError::Taken { what: "plan", value: "name" });
    }
    Ok(())
}

impl Store {
    /// Adds a plan of an operator's own. Gateways are not notified, since no tenant is on it yet.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if another one has its name, [`StoreError::Full`] for more than [`MAX_CUSTOM_PLANS`],
    /// [`StoreError::Unavailable`].
    pub async fn create_custom_plan(&self, plan: &CustomPlan) -> Result<(), StoreError> {
        let row = ActiveModel {
            id: Set(Uuid::from_u128(plan.id.0)),
            name: Set(plan.name.clone()),
            base_tier: Set(plan.base.name().into()),
            visible: Set(plan.is_visible),
            figures: Set(plan.figures.text()),
            created_at: Set(moment(plan.created_at)),
            deleted_at: Set(None),
        };
        self.write_settings(None, plan.created_at, async |transaction| {
            if Entity::find().count(transaction).await? >= MAX_CUSTOM_PLANS {
                let why = format!(
                    "there can be {MAX_CUSTOM_PLANS} plans beside the four, including those that were in use and deleted \
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

    /// All plans of operators' own, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn custom_plans(&self) -> Result<Vec<CustomPlan>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().filter(Column::DeletedAt.is_null()).order_by_asc(Column::Id);
            rows.all(database).await?.into_iter().map(CustomPlan::try_from).collect()
        })
        .await
    }

    /// All plans of operators' own that an invoice may be about, the oldest first: also those that were deleted.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn billed_custom_plans(&self) -> Result<Vec<CustomPlan>, StoreError> {
        self.read(async |database| all(database).await).await
    }

    /// A plan of an operator's own.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn custom_plan(&self, id: CustomPlanId) -> Result<Option<CustomPlan>, StoreError> {
        self.read(async |database| find(database, id).await).await
    }

    /// Changes a plan of an operator's own, and returns it as it is then. Gateways are notified.
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
            figures: change.figures.map_or(NotSet, |figures| Set(figures.text())),
            ..Default::default()
        };
        self.write_settings(None, now, async |transaction| {
            let plan = find(transaction, id).await?.ok_or(StoreError::NotFound("plan"))?;
            if let Some(name) = &change.name {
                expect_free(transaction, id, name).await?;
            }
            if *change != CustomPlanChange::default() {
                let its = Column::Id.eq(Uuid::from_u128(id.0));
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

    /// Deletes a plan of an operator's own that no tenant is on. One that a tenant was on is kept for the invoices of its
    /// time.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::WrongState`] if a tenant is on it, [`StoreError::Unavailable`].
    pub async fn delete_custom_plan(&self, id: CustomPlanId, now: Time) -> Result<(), StoreError> {
        let uuid = Uuid::from_u128(id.0);
        self.write_settings(None, now, async |transaction| {
            find(transaction, id).await?.ok_or(StoreError::NotFound("plan"))?;
            let on_it = tenants::Entity::find().filter(tenants::Column::CustomPlanId.eq(uuid));
            if on_it.count(transaction).await? > 0 {
                return Err(StoreError::WrongState(
                    "tenants are on this plan: move them to another one before you delete it",
                ));
            }
            let were_on_it = tier_changes::Entity::find().filter(tier_changes::Column::CustomBefore.eq(uuid));
            if were_on_it.count(transaction).await? > 0 {
                let update = Entity::update_many()
                    .col_expr(Column::DeletedAt, Expr::value(Some(moment(now))))
                    .filter(Column::Id.eq(uuid));
                update.exec(transaction).await?;
            } else {
                Entity::delete_by_id(uuid).exec(transaction).await?;
            }
            Ok(())
        })
        .await
    }
}
