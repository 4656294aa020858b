//! API keys.

use super::changes::{NewChange, record};
use super::plans::{counts, full};
use super::projects::expect_live;
use super::value::{insert_error, list, names, unreadable};
use crate::entity::keys::{ActiveModel, Column, Entity, Model};
use crate::entity::projects;
use crate::{Store, StoreError};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::{KeyId, ProjectId, Scope, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::secret::KeyHash;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    Select,
};
use uuid::Uuid;

const ENDED_KEPT: u64 = 1_000;

/// An API key, without its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its identifier.
    pub id: KeyId,
    /// The project on which its calls are metered.
    pub project: ProjectId,
    /// Its description, written by its owner.
    pub description: String,
    /// The part of the key that may be shown.
    pub prefix: String,
    /// The hash under which it is looked up.
    pub hash: KeyHash,
    /// The chains it may use.
    pub scope: Scope,
    /// The expiry time.
    pub expires_at: Option<Time>,
    /// The time of its revocation.
    pub revoked_at: Option<Time>,
    /// The creation time.
    pub created_at: Time,
}

impl Key {
    /// Returns a usable key for all chains, without a description.
    pub fn new(id: KeyId, project: ProjectId, prefix: &str, hash: KeyHash, created_at: Time) -> Self {
        Key {
            id,
            project,
            description: String::new(),
            prefix: prefix.to_owned(),
            hash,
            scope: Scope::All,
            expires_at: None,
            revoked_at: None,
            created_at,
        }
    }
}

impl TryFrom<Model> for Key {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let hash = <[u8; 32]>::try_from(row.hash.as_slice());
        Ok(Key {
            id: row.id,
            project: row.project_id,
            description: row.description,
            prefix: row.prefix,
            hash: KeyHash(hash.map_err(|_| unreadable("hash of a key", row.id))?),
            scope: scope(row.chains.as_deref())?,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            created_at: row.created_at,
        })
    }
}

pub(super) fn scope(chains: Option<&str>) -> Result<Scope, StoreError> {
    let Some(chains) = chains else { return Ok(Scope::All) };
    Ok(Scope::Only(names("chain list", chains)?.into_iter().map(Box::from).collect()))
}

fn of_tenant(tenant: TenantId, id: KeyId) -> Select<Entity> {
    Entity::find_by_id(id).inner_join(projects::Entity).filter(projects::Column::TenantId.eq(tenant))
}

pub(super) fn active(now: Time) -> Condition {
    let in_time = Condition::any().add(Column::ExpiresAt.is_null()).add(Column::ExpiresAt.gt(now));
    Condition::all().add(Column::RevokedAt.is_null()).add(in_time)
}

pub(super) fn ended(then: Time) -> Condition {
    Condition::any().add(Column::RevokedAt.lte(then)).add(Column::ExpiresAt.lte(then))
}

/// Removes the unusable keys of a project except the newest. Usage refers to them by identifier, and gateways refuse
/// them like any unknown key.
async fn remove_ended(
    transaction: &DatabaseTransaction,
    project: ProjectId,
    now: Time,
) -> Result<(), StoreError> {
    let too_many = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::ProjectId.eq(project))
        .filter(active(now).not())
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .offset(ENDED_KEPT)
        .limit(ENDED_KEPT);
    let too_many: Vec<Uuid> = too_many.into_tuple().all(transaction).await?;
    if !too_many.is_empty() {
        Entity::delete_many().filter(Column::Id.is_in(too_many)).exec(transaction).await?;
    }
    Ok(())
}

impl Store {
    /// Adds a key. Gateways that have found it unknown look it up again.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::NotFound`] if the project does not exist, [`StoreError::Full`] if the
    /// number of usable keys that the plan allows is reached, [`StoreError::Unavailable`].
    pub fn create_key<'a>(&'a self, key: &'a Key, now: Time) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.write(async |transaction| {
                let tenant = expect_live(transaction, key.project).await?;
                let max = counts(transaction, &self.plans, tenant, now).await?.keys_per_project;
                let project = key.project;
                let others = Entity::find().filter(Column::ProjectId.eq(project)).filter(active(now));
                if others.count(transaction).await? >= max.into() {
                    return Err(full(
                        max,
                        "keys of a project that can be used",
                        "revoke one that is not needed",
                    ));
                }
                remove_ended(transaction, project, now).await?;
                let chains = match &key.scope {
                    Scope::All => None,
                    Scope::Only(chains) => Some(list(chains.iter().map(|chain| &**chain))),
                };
                let row = ActiveModel {
                    id: Set(key.id),
                    project_id: Set(project),
                    description: Set(key.description.clone()),
                    prefix: Set(key.prefix.clone()),
                    hash: Set(key.hash.0.to_vec()),
                    chains: Set(chains),
                    expires_at: Set(key.expires_at),
                    revoked_at: Set(key.revoked_at),
                    created_at: Set(key.created_at),
                };
                let done = Entity::insert(row).exec_without_returning(transaction).await;
                done.map_err(|error| insert_error(error, "key", "project", Some(("hash", "text"))))?;
                record(transaction, NewChange::Key(key.id), now).await
            })
            .await
        })
    }

    /// Returns a key of a tenant, revoked or not.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn key(&self, tenant: TenantId, id: KeyId) -> BoxFuture<'_, Result<Option<Key>, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                of_tenant(tenant, id).one(database).await?.map(Key::try_from).transpose()
            })
            .await
        })
    }

    /// Returns the keys of a tenant's project, including revoked ones, the oldest first; nothing for another tenant's
    /// project.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn keys(&self, tenant: TenantId, project: ProjectId) -> Result<Vec<Key>, StoreError> {
        self.read(async |database| {
            let oldest = Entity::find()
                .inner_join(projects::Entity)
                .filter(projects::Column::TenantId.eq(tenant))
                .filter(Column::ProjectId.eq(project))
                .order_by_asc(Column::CreatedAt)
                .order_by_asc(Column::Id);
            oldest.all(database).await?.into_iter().map(Key::try_from).collect()
        })
        .await
    }

    /// Returns the number of usable keys of a tenant, or of one of its projects.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn active_keys(
        &self,
        tenant: TenantId,
        project: Option<ProjectId>,
        now: Time,
    ) -> Result<u64, StoreError> {
        self.read(async |database| {
            let mut its = Entity::find()
                .inner_join(projects::Entity)
                .filter(projects::Column::TenantId.eq(tenant))
                .filter(active(now));
            if let Some(project) = project {
                its = its.filter(Column::ProjectId.eq(project));
            }
            Ok(its.count(database).await?)
        })
        .await
    }

    /// Revokes a tenant's key for good. A revoked key keeps its time of revocation.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the key is not this tenant's, [`StoreError::Unavailable`].
    pub fn revoke_key(
        &self,
        tenant: TenantId,
        id: KeyId,
        now: Time,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.write(async |transaction| {
                let key = of_tenant(tenant, id).one(transaction).await?.ok_or(StoreError::NotFound("key"))?;
                let update = Entity::update_many()
                    .col_expr(Column::RevokedAt, Expr::value(now))
                    .filter(Column::Id.eq(key.id))
                    .filter(Column::RevokedAt.is_null());
                if update.exec(transaction).await?.rows_affected == 0 {
                    return Ok(());
                }
                record(transaction, NewChange::Key(id), now).await
            })
            .await
        })
    }
}
