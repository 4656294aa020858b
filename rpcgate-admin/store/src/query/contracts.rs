//! Contracts: figures that override those of a tenant's plan for a period.

use super::changes::{NewChange, record};
use super::id::ContractId;
use super::live_tenants::live_tenant;
use super::value::insert_error;
use crate::entity::contracts::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder,
};
use std::time::Duration;

pub use crate::entity::contracts::Model as TenantContract;

/// The number of contracts that a tenant may have, including ended ones that are kept.
pub const MAX_CONTRACTS: u64 = 100;

/// The time that an ended contract is kept, the same as for the sums of usage: longer than any month stays unbilled.
const ENDED_KEPT: Duration = Duration::from_secs(400 * 86_400);

impl TenantContract {
    /// Reports whether its figures are in force.
    pub fn is_in_force(&self, now: Time) -> bool {
        self.from <= now && !self.has_ended(now)
    }

    /// Reports whether it is over.
    pub fn has_ended(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

pub(super) fn are_old(now: Time) -> Condition {
    Condition::all().add(Column::EndsAt.lte(now.minus(ENDED_KEPT)))
}

pub(super) async fn of_tenant(
    database: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<Vec<TenantContract>, StoreError> {
    let its = Entity::find().filter(Column::TenantId.eq(tenant)).order_by_asc(Column::Id);
    Ok(its.all(database).await?)
}

pub(super) async fn of_tenants(
    database: &impl ConnectionTrait,
    tenants: &[TenantId],
) -> Result<Vec<TenantContract>, StoreError> {
    let all = Entity::find().filter(Column::TenantId.is_in(tenants.iter().copied())).order_by_asc(Column::Id);
    Ok(all.all(database).await?)
}

pub(super) async fn open(
    database: &impl ConnectionTrait,
    now: Time,
) -> Result<Vec<TenantContract>, StoreError> {
    let is_open = Condition::any().add(Column::EndsAt.is_null()).add(Column::EndsAt.gt(now));
    Ok(Entity::find().filter(is_open).order_by_asc(Column::Id).all(database).await?)
}

async fn expect_open(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    id: ContractId,
    now: Time,
) -> Result<TenantContract, StoreError> {
    let found = Entity::find_by_id(id).filter(Column::TenantId.eq(tenant)).one(transaction).await?;
    let contract = found.ok_or(StoreError::NotFound("contract"))?;
    if contract.has_ended(now) {
        return Err(StoreError::WrongState("the contract has ended"));
    }
    Ok(contract)
}

async fn set_end(
    transaction: &DatabaseTransaction,
    id: ContractId,
    until: Option<Time>,
) -> Result<(), StoreError> {
    let update = Entity::update_many().col_expr(Column::EndsAt, Expr::value(until)).filter(Column::Id.eq(id));
    update.exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Adds a contract. Notifies gateways now rather than when it begins or ends, which they know from the look-up of a
    /// key.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the tenant does not exist, [`StoreError::Full`] if it has [`MAX_CONTRACTS`],
    /// [`StoreError::Unavailable`].
    pub async fn create_contract(&self, contract: &TenantContract, now: Time) -> Result<(), StoreError> {
        let row = contract.clone().into_active_model();
        self.write_settings(Some(contract.tenant), now, async |transaction| {
            live_tenant(transaction, contract.tenant).await?;
            let its = Column::TenantId.eq(contract.tenant);
            if Entity::find().filter(its).count(transaction).await? >= MAX_CONTRACTS {
                let why = format!(
                    "a tenant can have {MAX_CONTRACTS} contracts, including those that ended in the last 400 days"
                );
                return Err(StoreError::Full(why));
            }
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "contract", "tenant", None))?;
            record(transaction, NewChange::Tenant(contract.tenant), now).await
        })
        .await
    }

    /// Returns a tenant's contracts, the oldest first, including those that have ended or not begun.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn contracts(&self, tenant: TenantId) -> Result<Vec<TenantContract>, StoreError> {
        self.read(async |database| of_tenant(database, tenant).await).await
    }

    /// Returns a tenant's contract.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn contract(
        &self,
        tenant: TenantId,
        id: ContractId,
    ) -> Result<Option<TenantContract>, StoreError> {
        let its = Entity::find_by_id(id).filter(Column::TenantId.eq(tenant));
        self.read(async |database| Ok(its.one(database).await?)).await
    }

    /// Moves or removes the end of a tenant's contract, and notifies gateways.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::WrongState`] if it has ended or would end
    /// before it begins, [`StoreError::Unavailable`].
    pub async fn set_contract_end(
        &self,
        tenant: TenantId,
        id: ContractId,
        until: Option<Time>,
        now: Time,
    ) -> Result<TenantContract, StoreError> {
        self.write_settings(Some(tenant), now, async |transaction| {
            let contract = expect_open(transaction, tenant, id, now).await?;
            if until.is_some_and(|until| until <= contract.from) {
                return Err(StoreError::WrongState("a contract must end after its begin"));
            }
            set_end(transaction, id, until).await?;
            record(transaction, NewChange::Tenant(tenant), now).await?;
            Ok(TenantContract { until, ..contract })
        })
        .await
    }

    /// Ends a tenant's contract now, or removes it if it has not begun, and notifies gateways.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::WrongState`] if it has ended,
    /// [`StoreError::Unavailable`].
    pub async fn end_contract(&self, tenant: TenantId, id: ContractId, now: Time) -> Result<(), StoreError> {
        self.write_settings(Some(tenant), now, async |transaction| {
            let contract = expect_open(transaction, tenant, id, now).await?;
            if contract.from < now {
                set_end(transaction, id, Some(now)).await?;
            } else {
                Entity::delete_by_id(id).exec(transaction).await?;
            }
            record(transaction, NewChange::Tenant(tenant), now).await
        })
        .await
    }
}
