//! Tenants.

use super::billing_accounts::forget_suspension;
use super::changes::{NewChange, record};
use super::custom_plans;
use super::invoices::{BillingParty, address_text, read_address};
use super::keyset::page;
use super::live_tenants::{live_tenant, live_tenants};
use super::tier_changes::{TenantPlan, move_to};
use super::value::insert_error;
use crate::entity::tenants::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};

const MAX_RETURNED: u64 = 1_000;

/// An organisation, which pays for its usage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// Its identifier.
    pub id: TenantId,
    /// Its display name.
    pub name: String,
    /// Its plan, or the base of its plan.
    pub tier: Tier,
    /// Its custom plan.
    pub custom_plan: Option<CustomPlanId>,
    /// True if its calls are refused.
    pub suspended: bool,
    /// The creation time.
    pub created_at: Time,
}

impl Tenant {
    /// Creates a tenant on a built-in plan that is not suspended.
    pub fn new(id: TenantId, name: impl Into<String>, tier: Tier, created_at: Time) -> Self {
        Tenant { id, name: name.into(), tier, custom_plan: None, suspended: false, created_at }
    }
}

impl From<Model> for Tenant {
    fn from(row: Model) -> Self {
        Tenant {
            id: row.id,
            name: row.name,
            tier: row.tier,
            custom_plan: row.custom_plan_id,
            suspended: row.suspended,
            created_at: row.created_at,
        }
    }
}

impl Tenant {
    /// Returns its plan.
    pub const fn plan(&self) -> TenantPlan {
        TenantPlan { tier: self.tier, custom: self.custom_plan }
    }
}

/// The filter of a list of tenants. A tenant must match all given fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TenantFilter {
    /// The plan. Tenants on a custom plan are not on its base.
    pub plan: Option<TenantPlan>,
    /// True for tenants whose calls are refused, false for the others.
    pub suspended: Option<bool>,
}

/// A change of a tenant; fields that are `None` stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TenantChange {
    /// Its name.
    pub name: Option<String>,
    /// One of the built-in plans, which replaces a custom one.
    pub tier: Option<Tier>,
    /// A custom plan, which takes precedence over `tier`.
    pub custom_plan: Option<CustomPlanId>,
    /// True if its calls are refused.
    pub suspended: Option<bool>,
    /// All its details for invoices.
    pub billing: Option<BillingParty>,
}

pub(super) async fn insert(transaction: &DatabaseTransaction, tenant: &Tenant) -> Result<(), StoreError> {
    insert_all(transaction, std::slice::from_ref(tenant)).await
}

pub(super) async fn insert_all(
    transaction: &DatabaseTransaction,
    tenants: &[Tenant],
) -> Result<(), StoreError> {
    let rows = tenants.iter().map(|tenant| ActiveModel {
        id: Set(tenant.id),
        name: Set(tenant.name.clone()),
        tier: Set(tenant.tier),
        suspended: Set(tenant.suspended),
        created_at: Set(tenant.created_at),
        requires_factor: NotSet,
        custom_plan_id: Set(tenant.custom_plan),
        deleted_at: NotSet,
        is_empty: NotSet,
        billing_name: NotSet,
        billing_address: NotSet,
        billing_tax_id: NotSet,
    });
    let done = Entity::insert_many(rows.collect::<Vec<_>>()).exec_without_returning(transaction).await;
    done.map(drop).map_err(|error| insert_error(error, "tenant", "tenant", None))
}

pub(super) fn on_plan(plan: TenantPlan) -> Condition {
    match plan.custom {
        Some(custom) => Condition::all().add(Column::CustomPlanId.eq(custom)),
        None => Condition::all().add(Column::Tier.eq(plan.tier)).add(Column::CustomPlanId.is_null()),
    }
}

impl Store {
    /// Adds a tenant. Gateways are not notified, because it has no keys yet.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::Unavailable`].
    pub fn create_tenant<'a>(&'a self, tenant: &'a Tenant) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.write(async |transaction| insert(transaction, tenant).await).await })
    }

    /// Returns a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        self.read(async |database| {
            let found = live_tenants().filter(Column::Id.eq(id));
            Ok(found.one(database).await?.map(Tenant::from))
        })
        .await
    }

    /// Lists tenants that match `filter` by ascending identifier, starting after `after` if given: at most `limit`, and
    /// at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tenants(
        &self,
        filter: TenantFilter,
        after: Option<TenantId>,
        limit: u64,
    ) -> Result<Vec<Tenant>, StoreError> {
        let wanted = Condition::all()
            .add_option(filter.plan.map(on_plan))
            .add_option(filter.suspended.map(|suspended| Column::Suspended.eq(suspended)));
        let mut select = page(live_tenants().filter(wanted), Column::Id, after, limit.min(MAX_RETURNED));
        self.read(async |database| Ok(select.all(database).await?.into_iter().map(Tenant::from).collect()))
            .await
    }

    /// Applies `change` and returns the changed tenant. Notifies gateways of all changes but those of the name and the
    /// details for invoices.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for the tenant or the plan, [`StoreError::Unavailable`].
    pub async fn update_tenant(
        &self,
        id: TenantId,
        change: &TenantChange,
        now: Time,
    ) -> Result<Tenant, StoreError> {
        let billing = change.billing.as_ref();
        let row = ActiveModel {
            name: change.name.clone().map_or(NotSet, Set),
            suspended: change.suspended.map_or(NotSet, Set),
            billing_name: billing.map_or(NotSet, |party| Set(party.name.clone())),
            billing_address: billing.map_or(NotSet, |party| Set(address_text(&party.address))),
            billing_tax_id: billing.map_or(NotSet, |party| Set(party.tax_id.clone())),
            ..Default::default()
        };
        self.write(async |transaction| {
            let after = match change.custom_plan {
                Some(custom) => {
                    let plan = custom_plans::find(transaction, custom).await?;
                    let plan = plan.ok_or(StoreError::NotFound("plan"))?;
                    Some(plan.plan())
                }
                None => change.tier.map(TenantPlan::from),
            };
            if let Some(after) = after {
                move_to(transaction, id, after, now).await?;
            }
            if change.suspended.is_some() {
                // The operator has decided, so a payment no longer changes it.
                forget_suspension(transaction, id).await?;
            }
            if change.name.is_some() || change.suspended.is_some() || billing.is_some() {
                Entity::update_many().set(row).filter(Column::Id.eq(id)).exec(transaction).await?;
            }
            let tenant = live_tenant(transaction, id).await?;
            if after.is_none() && change.suspended.is_some() {
                record(transaction, NewChange::Tenant(id), now).await?;
            }
            Ok(tenant.into())
        })
        .await
    }

    /// Returns the invoice details of a tenant in addition to its name.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn billing_party(&self, id: TenantId) -> Result<BillingParty, StoreError> {
        self.read(async |database| {
            let row = Entity::find_by_id(id).one(database).await?;
            let row = row.ok_or(StoreError::NotFound("tenant"))?;
            let address = read_address(&row.billing_address)?;
            Ok(BillingParty { name: row.billing_name, address, tax_id: row.billing_tax_id })
        })
        .await
    }

    /// Reports whether the members of a tenant need a second factor.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn requires_factor(&self, id: TenantId) -> Result<bool, StoreError> {
        self.read(async |database| {
            let row = Entity::find_by_id(id).one(database).await?;
            Ok(row.is_some_and(|row| row.requires_factor))
        })
        .await
    }

    /// Sets whether the members of a tenant need a second factor.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn set_requires_factor(&self, id: TenantId, is_required: bool) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::RequiresFactor, Expr::value(is_required))
                .filter(Column::Id.eq(id));
            if update.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("tenant"));
            }
            Ok(())
        })
        .await
    }

    /// Moves a tenant to another plan.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub fn set_tier(&self, id: TenantId, tier: Tier, now: Time) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let change = TenantChange { tier: Some(tier), ..TenantChange::default() };
            self.update_tenant(id, &change, now).await.map(drop)
        })
    }

    /// Suspends a tenant: all calls with its keys are refused from then on.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn suspend(&self, id: TenantId, now: Time) -> Result<(), StoreError> {
        let change = TenantChange { suspended: Some(true), ..TenantChange::default() };
        self.update_tenant(id, &change, now).await.map(drop)
    }

    /// Ends a suspension.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn reactivate(&self, id: TenantId, now: Time) -> Result<(), StoreError> {
        let change = TenantChange { suspended: Some(false), ..TenantChange::default() };
        self.update_tenant(id, &change, now).await.map(drop)
    }
}
