//! The audit: who did what, and when.

use super::id::UserId;
use super::removal::remove;
use super::value::{moment, time};
use crate::store::entity::audit::{ActiveModel, Column, Entity, Model};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

/// The most entries that are told at once.
const MOST: u64 = 1_000;

/// Entries of a tenant that are kept: the newest. Who changes things as fast as a user may, and means to have an entry
/// forgotten, needs more than five hours for it.
const KEPT: u64 = 200_000;

/// Of so many entries one has it looked at whether there are too many, which takes as long as there are many.
const LOOKED_AT: u64 = 64;

/// An entry of the audit. It must hold no secret: people read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// The tenant that was acted on.
    pub tenant: Option<TenantId>,
    /// Who acted.
    pub user: Option<UserId>,
    /// What was done, in few words: `key.revoked`.
    pub action: String,
    /// What it was done to: an identifier, or empty.
    pub subject: String,
    /// The client's address.
    pub address: String,
    /// When.
    pub at: Time,
    /// Anything else that is worth knowing, or empty.
    pub detail: String,
}

impl From<Model> for Audit {
    fn from(row: Model) -> Self {
        Audit {
            tenant: row.tenant_id.map(|id| TenantId(id.as_u128())),
            user: row.user_id.map(|id| UserId(id.as_u128())),
            action: row.action,
            subject: row.subject,
            address: row.address,
            at: time(row.at),
            detail: row.detail,
        }
    }
}

/// Whose entries are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuditSubject {
    /// All that was done to a tenant, by whomever.
    Tenant(TenantId),
    /// All that a user did.
    User(UserId),
}

/// Appends an entry, in the transaction of the write that it speaks of.
pub(in crate::store) async fn append(
    transaction: &DatabaseTransaction,
    entry: &Audit,
) -> Result<(), StoreError> {
    Entity::insert(row(entry)).exec_without_returning(transaction).await?;
    match entry.tenant {
        Some(tenant) if entry.at.micros().is_multiple_of(LOOKED_AT) => bound(transaction, tenant).await,
        _ => Ok(()),
    }
}

/// Removes the oldest entries of a tenant that has too many, more than are added until this is looked at again.
async fn bound(transaction: &DatabaseTransaction, tenant: TenantId) -> Result<(), StoreError> {
    let its = Column::TenantId.eq(Uuid::from_u128(tenant.0));
    let newest_of_old = Entity::find()
        .select_only()
        .column(Column::At)
        .filter(its.clone())
        .order_by_desc(Column::At)
        .offset(KEPT)
        .limit(1);
    let at: Option<i64> = newest_of_old.into_tuple().one(transaction).await?;
    let Some(at) = at else { return Ok(()) };
    let old = Condition::all().add(its).add(Column::At.lte(at));
    remove::<Entity>(transaction, Column::Number, old, 16 * LOOKED_AT).await?;
    Ok(())
}

fn row(entry: &Audit) -> ActiveModel {
    ActiveModel {
        number: NotSet,
        tenant_id: Set(entry.tenant.map(|id| Uuid::from_u128(id.0))),
        user_id: Set(entry.user.map(|id| Uuid::from_u128(id.0))),
        action: Set(entry.action.clone()),
        subject: Set(entry.subject.clone()),
        address: Set(entry.address.clone()),
        at: Set(moment(entry.at)),
        detail: Set(entry.detail.clone()),
    }
}

/// Does the work of [`append`] and leaves nothing.
pub(super) async fn feign(transaction: &DatabaseTransaction, entry: &Audit) -> Result<(), StoreError> {
    let number = Entity::insert(row(entry)).exec(transaction).await?.last_insert_id;
    Entity::delete_by_id(number).exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Leaves an entry that belongs to no write.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn note(&self, entry: &Audit) -> Result<(), StoreError> {
        self.transact(async |transaction| append(transaction, entry).await).await
    }

    /// Does the work of [`note`](Store::note) and leaves nothing: for what must not be told from it by its time.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn feign(&self, entry: &Audit) -> Result<(), StoreError> {
        self.transact(async |transaction| feign(transaction, entry).await).await
    }

    /// The newest entries first, of one moment the last that was written: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn audit(&self, whose: AuditSubject, limit: u64) -> Result<Vec<Audit>, StoreError> {
        Ok(self.audit_before(whose, None, limit).await?.into_iter().map(|(_, entry)| entry).collect())
    }

    /// The same with the entries' numbers, and only those that come behind `before` in this order, a time and a number.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn audit_before(
        &self,
        whose: AuditSubject,
        before: Option<(Time, i64)>,
        limit: u64,
    ) -> Result<Vec<(i64, Audit)>, StoreError> {
        let is_before = before.map(|(at, number)| {
            let then = Condition::all().add(Column::At.eq(moment(at))).add(Column::Number.lt(number));
            Condition::any().add(Column::At.lt(moment(at))).add(then)
        });
        self.read(async |database| {
            let is_wanted = match whose {
                AuditSubject::Tenant(id) => Column::TenantId.eq(Uuid::from_u128(id.0)),
                AuditSubject::User(id) => Column::UserId.eq(Uuid::from_u128(id.0)),
            };
            let newest = Entity::find()
                .filter(is_wanted)
                .filter(is_before.unwrap_or_else(Condition::all))
                .order_by_desc(Column::At)
                .order_by_desc(Column::Number)
                .limit(limit.min(MOST));
            let newest = newest.all(database).await?;
            Ok(newest.into_iter().map(|row| (row.number, Audit::from(row))).collect())
        })
        .await
    }
}
