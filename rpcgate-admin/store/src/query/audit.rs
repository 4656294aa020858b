//! The audit log: the actions of users, with their times.

use super::id::UserId;
use super::keyset::page;
use super::removal::{remove, try_to_remove};
use crate::entity::audit::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::{Condition, LikeExpr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

const MAX_RETURNED: u64 = 1_000;

/// The number of entries kept per tenant, the newest first. A user who makes changes as fast as the limits allow would
/// need more than five hours to push an entry out.
const KEPT: u64 = 200_000;

/// The interval, in entries, of the check for excess entries, whose cost grows with their number.
const CHECK_INTERVAL: u64 = 64;

/// An entry of the audit log. It must not contain a secret, because people read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// The tenant concerned.
    pub tenant: Option<TenantId>,
    /// The user who acted.
    pub user: Option<UserId>,
    /// The action as a short code: `key.revoked`.
    pub action: String,
    /// The identifier of the object, or empty.
    pub subject: String,
    /// The client's address.
    pub address: String,
    /// The time of the action.
    pub at: Time,
    /// Further details, or empty.
    pub detail: String,
}

impl From<Model> for Audit {
    fn from(row: Model) -> Self {
        Audit {
            tenant: row.tenant_id,
            user: row.user_id,
            action: row.action,
            subject: row.subject,
            address: row.address,
            at: row.at,
            detail: row.detail,
        }
    }
}

/// The filter of a list of entries. An entry must match all given fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditFilter {
    /// The user who acted.
    pub user: Option<UserId>,
    /// The action: a code, or its first word, such as `key` for `key.created` and `key.revoked`.
    pub action: Option<String>,
    /// The identifier of the object.
    pub subject: Option<String>,
    /// The earliest time.
    pub from: Option<Time>,
    /// The end of the period, exclusive.
    pub until: Option<Time>,
}

impl AuditFilter {
    fn condition(&self) -> Condition {
        let of_action = |action: &String| {
            let escaped = action.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
            let word = LikeExpr::new(format!("{escaped}.%")).escape('\\');
            Condition::any().add(Column::Action.eq(action)).add(Column::Action.like(word))
        };
        Condition::all()
            .add_option(self.user.map(|id| Column::UserId.eq(id)))
            .add_option(self.action.as_ref().map(of_action))
            .add_option(self.subject.as_ref().map(|subject| Column::Subject.eq(subject)))
            .add_option(self.from.map(|from| Column::At.gte(from)))
            .add_option(self.until.map(|until| Column::At.lt(until)))
    }
}

/// The set of entries to list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuditSubject {
    /// All entries about a tenant, by any user.
    Tenant(TenantId),
    /// All entries of a user.
    User(UserId),
    /// All entries.
    Everyone,
}

pub(crate) async fn append(transaction: &DatabaseTransaction, entry: &Audit) -> Result<(), StoreError> {
    Entity::insert(row(entry)).exec_without_returning(transaction).await?;
    trim_sometimes(transaction, entry).await
}

/// [`append`]s an entry, or does the same work without leaving one.
pub(super) async fn append_or_simulate(
    transaction: &DatabaseTransaction,
    entry: &Audit,
    is_kept: bool,
) -> Result<(), StoreError> {
    let number = Entity::insert(row(entry)).exec(transaction).await?.last_insert_id;
    // No entry has the number 0.
    Entity::delete_by_id(if is_kept { 0 } else { number }).exec(transaction).await?;
    trim_sometimes(transaction, entry).await
}

async fn trim_sometimes(transaction: &DatabaseTransaction, entry: &Audit) -> Result<(), StoreError> {
    match entry.tenant {
        Some(tenant) if entry.at.micros().is_multiple_of(CHECK_INTERVAL) => {
            let trim = async |transaction: &DatabaseTransaction| trim(transaction, tenant).await;
            try_to_remove(transaction, "audit entries", trim).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// Removes the oldest entries of a tenant that has too many: more than are added until the next check.
async fn trim(transaction: &DatabaseTransaction, tenant: TenantId) -> Result<(), StoreError> {
    let its = Column::TenantId.eq(tenant);
    let newest_of_old = Entity::find()
        .select_only()
        .column(Column::At)
        .filter(its.clone())
        .order_by_desc(Column::At)
        .offset(KEPT)
        .limit(1);
    let at: Option<Time> = newest_of_old.into_tuple().one(transaction).await?;
    let Some(at) = at else { return Ok(()) };
    let old = Condition::all().add(its).add(Column::At.lte(at));
    remove::<Entity>(transaction, Column::Number, old, 16 * CHECK_INTERVAL).await?;
    Ok(())
}

fn row(entry: &Audit) -> ActiveModel {
    ActiveModel {
        number: NotSet,
        tenant_id: Set(entry.tenant),
        user_id: Set(entry.user),
        action: Set(entry.action.clone()),
        subject: Set(entry.subject.clone()),
        address: Set(entry.address.clone()),
        at: Set(entry.at),
        detail: Set(entry.detail.clone()),
    }
}

pub(super) async fn simulate_append(
    transaction: &DatabaseTransaction,
    entry: &Audit,
) -> Result<(), StoreError> {
    let number = Entity::insert(row(entry)).exec(transaction).await?.last_insert_id;
    Entity::delete_by_id(number).exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Appends an entry that belongs to no write.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn note(&self, entry: &Audit) -> Result<(), StoreError> {
        self.transact(async |transaction| append(transaction, entry).await).await
    }

    /// Does the work of [`note`](Store::note) without leaving an entry, for requests whose timing must not reveal their
    /// effect.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn simulate_note(&self, entry: &Audit) -> Result<(), StoreError> {
        self.transact(async |transaction| simulate_append(transaction, entry).await).await
    }

    /// Lists entries, the newest first; of the same time, the last written first: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn audit(&self, subject: AuditSubject, limit: u64) -> Result<Vec<Audit>, StoreError> {
        Ok(self
            .audit_before(subject, &AuditFilter::default(), None, limit)
            .await?
            .into_iter()
            .map(|(_, entry)| entry)
            .collect())
    }

    /// Like [`audit`](Store::audit), with the entries' numbers, restricted to those that match `filter` and follow
    /// `before`, a time and a number, in this order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn audit_before(
        &self,
        subject: AuditSubject,
        filter: &AuditFilter,
        before: Option<(Time, i64)>,
        limit: u64,
    ) -> Result<Vec<(i64, Audit)>, StoreError> {
        self.read(async |database| {
            let is_wanted = match subject {
                AuditSubject::Tenant(id) => Some(Column::TenantId.eq(id)),
                AuditSubject::User(id) => Some(Column::UserId.eq(id)),
                AuditSubject::Everyone => None,
            };
            let its = Entity::find().filter(filter.condition().add_option(is_wanted));
            let mut newest = page(its, (Column::At, Column::Number), before, limit.min(MAX_RETURNED));
            let newest = newest.desc().all(database).await?;
            Ok(newest.into_iter().map(|row| (row.number, Audit::from(row))).collect())
        })
        .await
    }
}
