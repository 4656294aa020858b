//! API keys.

use super::changes::{NewChange, tell};
use super::plans::{counts, full};
use super::projects::expect_live;
use super::value::{insert_error, list, moment, names, time, unreadable};
use crate::store::entity::keys::{ActiveModel, Column, Entity, Model};
use crate::store::entity::projects;
use crate::store::{Store, StoreError};
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

/// Keys of a project that are kept though they cannot be used any more: the newest.
const ENDED: u64 = 1_000;

/// An API key as it is stored: its text is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its identifier.
    pub id: KeyId,
    /// The project that is metered.
    pub project: ProjectId,
    /// What its holder wrote down about it.
    pub description: String,
    /// The part of it that may be shown.
    pub prefix: String,
    /// What it is looked up under.
    pub hash: KeyHash,
    /// The chains it may use.
    pub scope: Scope,
    /// When it ends, if it ends.
    pub expires_at: Option<Time>,
    /// When it was withdrawn.
    pub revoked_at: Option<Time>,
    /// When it was made.
    pub created_at: Time,
}

impl TryFrom<Model> for Key {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let hash = <[u8; 32]>::try_from(row.hash.as_slice());
        Ok(Key {
            id: KeyId(row.id.as_u128()),
            project: ProjectId(row.project_id.as_u128()),
            description: row.description,
            prefix: row.prefix,
            hash: KeyHash(hash.map_err(|_| unreadable("hash of a key", row.id))?),
            scope: scope(row.chains.as_deref())?,
            expires_at: row.expires_at.map(time),
            revoked_at: row.revoked_at.map(time),
            created_at: time(row.created_at),
        })
    }
}

/// The scope that a column of chains stands for.
pub(super) fn scope(chains: Option<&str>) -> Result<Scope, StoreError> {
    let Some(chains) = chains else { return Ok(Scope::All) };
    Ok(Scope::Only(names("chain list", chains)?.into_iter().map(Box::from).collect()))
}

/// The keys of a tenant with this id: one or none.
fn of_tenant(tenant: TenantId, id: KeyId) -> Select<Entity> {
    Entity::find_by_id(Uuid::from_u128(id.0))
        .inner_join(projects::Entity)
        .filter(projects::Column::TenantId.eq(Uuid::from_u128(tenant.0)))
}

/// Keys that can be used at `now`.
pub(super) fn active(now: Time) -> Condition {
    let in_time = Condition::any().add(Column::ExpiresAt.is_null()).add(Column::ExpiresAt.gt(moment(now)));
    Condition::all().add(Column::RevokedAt.is_null()).add(in_time)
}

/// Keys that were withdrawn or ended by `then`.
pub(super) fn ended(then: Time) -> Condition {
    Condition::any().add(Column::RevokedAt.lte(moment(then))).add(Column::ExpiresAt.lte(moment(then)))
}

/// Removes those keys of a project that cannot be used any more, but for the newest of them. Usage tells them by
/// identifier, and gateways refuse them as they refuse whatever they do not know.
async fn forget_ended(transaction: &DatabaseTransaction, project: Uuid, now: Time) -> Result<(), StoreError> {
    let too_many = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::ProjectId.eq(project))
        .filter(active(now).not())
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .offset(ENDED)
        .limit(ENDED);
    let too_many: Vec<Uuid> = too_many.into_tuple().all(transaction).await?;
    if !too_many.is_empty() {
        Entity::delete_many().filter(Column::Id.is_in(too_many)).exec(transaction).await?;
    }
    Ok(())
}

impl Store {
    /// Adds a key. Gateways that have seen it and found it unknown look again.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::NotFound`] if there is no such project, [`StoreError::Full`] if it has as
    /// many that can be used as the plan allows, [`StoreError::Unavailable`].
    pub async fn create_key(&self, key: &Key, now: Time) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let tenant = expect_live(transaction, key.project).await?;
            let most = counts(transaction, &self.plans, tenant).await?.keys_per_project;
            let project = Uuid::from_u128(key.project.0);
            let others = Entity::find().filter(Column::ProjectId.eq(project)).filter(active(now));
            if others.count(transaction).await? >= most.into() {
                return Err(full(
                    most,
                    "keys of a project that can be used",
                    "revoke one that is not needed",
                ));
            }
            forget_ended(transaction, project, now).await?;
            let chains = match &key.scope {
                Scope::All => None,
                Scope::Only(chains) => Some(list(chains.iter().map(|chain| &**chain))),
            };
            let row = ActiveModel {
                id: Set(Uuid::from_u128(key.id.0)),
                project_id: Set(project),
                description: Set(key.description.clone()),
                prefix: Set(key.prefix.clone()),
                hash: Set(key.hash.0.to_vec()),
                chains: Set(chains),
                expires_at: Set(key.expires_at.map(moment)),
                revoked_at: Set(key.revoked_at.map(moment)),
                created_at: Set(moment(key.created_at)),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "key", "project", Some(("hash", "text"))))?;
            tell(transaction, NewChange::Key(key.id), now).await
        })
        .await
    }

    /// A key of a tenant, revoked or not.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn key(&self, tenant: TenantId, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.read(async |database| of_tenant(tenant, id).one(database).await?.map(Key::try_from).transpose())
            .await
    }

    /// The keys of a tenant's project, revoked ones too, the oldest first. None of another tenant's project.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn keys(&self, tenant: TenantId, project: ProjectId) -> Result<Vec<Key>, StoreError> {
        self.read(async |database| {
            let oldest = Entity::find()
                .inner_join(projects::Entity)
                .filter(projects::Column::TenantId.eq(Uuid::from_u128(tenant.0)))
                .filter(Column::ProjectId.eq(Uuid::from_u128(project.0)))
                .order_by_asc(Column::CreatedAt)
                .order_by_asc(Column::Id);
            oldest.all(database).await?.into_iter().map(Key::try_from).collect()
        })
        .await
    }

    /// How many keys of a tenant, or of one project of it, can be used now.
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
                .filter(projects::Column::TenantId.eq(Uuid::from_u128(tenant.0)))
                .filter(active(now));
            if let Some(project) = project {
                its = its.filter(Column::ProjectId.eq(Uuid::from_u128(project.0)));
            }
            Ok(its.count(database).await?)
        })
        .await
    }

    /// Withdraws a tenant's key for ever. One that was withdrawn before keeps the moment of it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::Unavailable`].
    pub async fn revoke_key(&self, tenant: TenantId, id: KeyId, now: Time) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let key = of_tenant(tenant, id).one(transaction).await?.ok_or(StoreError::NotFound("key"))?;
            let update = Entity::update_many()
                .col_expr(Column::RevokedAt, Expr::value(moment(now)))
                .filter(Column::Id.eq(key.id))
                .filter(Column::RevokedAt.is_null());
            if update.exec(transaction).await?.rows_affected == 0 {
                return Ok(());
            }
            tell(transaction, NewChange::Key(id), now).await
        })
        .await
    }
}
