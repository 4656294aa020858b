//! The names of keys, for lists.

use crate::entity::keys::Column;
use crate::entity::{keys, projects};
use crate::{Store, StoreError};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};

const MAX_IDS: usize = 1_000;

/// The name of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyName {
    /// The key.
    pub id: KeyId,
    /// Its project.
    pub project: ProjectId,
    /// Its description, written by its owner.
    pub description: String,
    /// The part of it that may be shown.
    pub prefix: String,
    /// True if it was revoked.
    pub is_revoked: bool,
}

impl From<keys::Model> for KeyName {
    fn from(row: keys::Model) -> Self {
        KeyName {
            id: row.id,
            project: row.project_id,
            description: row.description,
            prefix: row.prefix,
            is_revoked: row.revoked_at.is_some(),
        }
    }
}

fn of_tenant(tenant: TenantId) -> Select<keys::Entity> {
    keys::Entity::find().inner_join(projects::Entity).filter(projects::Column::TenantId.eq(tenant))
}

impl Store {
    /// Returns the names of a tenant's keys, or of those of one of its projects, the newest first: at most `limit`.
    /// Includes revoked keys and those of deleted projects, which may have usage.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn newest_key_names(
        &self,
        tenant: TenantId,
        project: Option<ProjectId>,
        limit: u64,
    ) -> Result<Vec<KeyName>, StoreError> {
        let mut its = of_tenant(tenant);
        if let Some(project) = project {
            its = its.filter(Column::ProjectId.eq(project));
        }
        let newest = its.order_by_desc(Column::CreatedAt).order_by_desc(Column::Id).limit(limit);
        self.read(async |database| Ok(newest.all(database).await?.into_iter().map(KeyName::from).collect()))
            .await
    }

    /// Returns the names of those of the first 1,000 `keys` that are the tenant's, in any order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn key_names(&self, tenant: TenantId, keys: &[KeyId]) -> Result<Vec<KeyName>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let ids = keys.iter().copied().take(MAX_IDS);
        let named = of_tenant(tenant).filter(Column::Id.is_in(ids));
        self.read(async |database| Ok(named.all(database).await?.into_iter().map(KeyName::from).collect()))
            .await
    }
}
