//! Tenants.

use super::changes::{News, tell};
use super::value::{insert_error, moment, tier, time};
use crate::store::entity::tenants::{ActiveModel, Column, Entity, Model};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, Value};
use uuid::Uuid;

/// An organisation: who pays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// Its identifier.
    pub id: TenantId,
    /// Its name, for people.
    pub name: String,
    /// Its plan.
    pub tier: Tier,
    /// Whether its calls are refused.
    pub suspended: bool,
    /// When it was made.
    pub created_at: Time,
}

impl TryFrom<Model> for Tenant {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(Tenant {
            id: TenantId(row.id.as_u128()),
            name: row.name,
            tier: tier(&row.tier)?,
            suspended: row.suspended,
            created_at: time(row.created_at),
        })
    }
}

impl Store {
    /// Adds a tenant. No gateway hears of it: it has no keys yet.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::Away`].
    pub async fn create_tenant(&self, tenant: &Tenant) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let row = ActiveModel {
                id: Set(Uuid::from_u128(tenant.id.0)),
                name: Set(tenant.name.clone()),
                tier: Set(tenant.tier.name().into()),
                suspended: Set(tenant.suspended),
                created_at: Set(moment(tenant.created_at)),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map(drop).map_err(|error| insert_error(error, "tenant", "tenant", None))
        })
        .await
    }

    /// A tenant.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        self.read(async |database| {
            let row = Entity::find_by_id(Uuid::from_u128(id.0)).one(database).await?;
            row.map(Tenant::try_from).transpose()
        })
        .await
    }

    /// Moves a tenant to another plan.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Away`].
    pub async fn set_tier(&self, id: TenantId, tier: Tier, now: Time) -> Result<(), StoreError> {
        self.change_tenant(id, Column::Tier, tier.name().into(), now).await
    }

    /// Suspends a tenant: every call of its keys is refused from now on.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Away`].
    pub async fn suspend(&self, id: TenantId, now: Time) -> Result<(), StoreError> {
        self.change_tenant(id, Column::Suspended, true.into(), now).await
    }

    /// Ends a suspension.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Away`].
    pub async fn reactivate(&self, id: TenantId, now: Time) -> Result<(), StoreError> {
        self.change_tenant(id, Column::Suspended, false.into(), now).await
    }

    async fn change_tenant(
        &self,
        id: TenantId,
        column: Column,
        value: Value,
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let update = Entity::update_many()
                .col_expr(column, Expr::value(value))
                .filter(Column::Id.eq(Uuid::from_u128(id.0)));
            if update.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("tenant"));
            }
            tell(transaction, News::Tenant(id), now).await
        })
        .await
    }
}
