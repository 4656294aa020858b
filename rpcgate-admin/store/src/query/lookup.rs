//! Look-up by name or prefix over all tenants, for operators who do not know the identifier.

use super::keys::Key;
use super::live_tenants::live_tenants;
use super::projects::{Project, live};
use super::tenants::Tenant;
use crate::entity::{keys, projects, tenants};
use crate::{Store, StoreError};
use rpcgate_core::caller::{KeyId, TenantId};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

type KeyRow = (keys::Model, Option<projects::Model>);

fn of_tenant((key, project): KeyRow) -> Result<(TenantId, Key), StoreError> {
    let project = project.ok_or(StoreError::NotFound("project"))?;
    Ok((project.tenant_id, key.try_into()?))
}

impl Store {
    /// Returns the tenants with exactly this name, the oldest first: at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tenants_named(&self, name: &str, limit: u64) -> Result<Vec<Tenant>, StoreError> {
        self.read(async |database| {
            let found = live_tenants()
                .filter(tenants::Column::Name.eq(name))
                .order_by_asc(tenants::Column::Id)
                .limit(limit);
            Ok(found.all(database).await?.into_iter().map(Tenant::from).collect())
        })
        .await
    }

    /// Returns the projects with exactly this name, of one tenant or of all, the oldest first: at most `limit`. Omits
    /// deleted projects.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn projects_named(
        &self,
        tenant: Option<TenantId>,
        name: &str,
        limit: u64,
    ) -> Result<Vec<Project>, StoreError> {
        self.read(async |database| {
            let mut found = live().filter(projects::Column::Name.eq(name));
            if let Some(tenant) = tenant {
                found = found.filter(projects::Column::TenantId.eq(tenant));
            }
            let found = found.order_by_asc(projects::Column::Id).limit(limit);
            found.all(database).await?.into_iter().map(Project::try_from).collect()
        })
        .await
    }

    /// Returns a key of any tenant, revoked or not, with its tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn any_key(&self, id: KeyId) -> Result<Option<(TenantId, Key)>, StoreError> {
        self.read(async |database| {
            let found = keys::Entity::find_by_id(id).find_also_related(projects::Entity);
            found.one(database).await?.map(of_tenant).transpose()
        })
        .await
    }

    /// Returns the keys that begin with `prefix`, the 12 visible characters of a key, each with its tenant, the oldest
    /// first: at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn keys_with_prefix(
        &self,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<(TenantId, Key)>, StoreError> {
        self.read(async |database| {
            let found = keys::Entity::find()
                .find_also_related(projects::Entity)
                .filter(keys::Column::Prefix.eq(prefix))
                .order_by_asc(keys::Column::Id)
                .limit(limit);
            found.all(database).await?.into_iter().map(of_tenant).collect()
        })
        .await
    }
}
