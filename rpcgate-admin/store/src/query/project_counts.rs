//! The number of usable keys and endpoints per project.

use super::keys::active;
use crate::entity::{keys, projects, webhooks};
use crate::{Store, StoreError};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use std::collections::BTreeMap;

/// The counts of a project.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProjectCounts {
    /// Keys that can be used.
    pub keys: u64,
    /// Endpoints, switched on or off.
    pub webhooks: u64,
}

impl Store {
    /// Returns the counts of those of `projects` that belong to the tenant and have any.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn project_counts(
        &self,
        tenant: TenantId,
        projects: &[ProjectId],
        now: Time,
    ) -> Result<BTreeMap<ProjectId, ProjectCounts>, StoreError> {
        let mut counts: BTreeMap<ProjectId, ProjectCounts> = BTreeMap::new();
        if projects.is_empty() {
            return Ok(counts);
        }
        let ids = || projects.iter().copied();
        let owned = projects::Column::TenantId.eq(tenant);
        let usable = keys::Entity::find()
            .select_only()
            .column(keys::Column::ProjectId)
            .column_as(keys::Column::Id.count(), "number")
            .inner_join(projects::Entity)
            .filter(owned.clone())
            .filter(keys::Column::ProjectId.is_in(ids()))
            .filter(active(now))
            .group_by(keys::Column::ProjectId)
            .into_tuple::<(ProjectId, i64)>();
        let endpoints = webhooks::Entity::find()
            .select_only()
            .column(webhooks::Column::ProjectId)
            .column_as(webhooks::Column::Id.count(), "number")
            .inner_join(projects::Entity)
            .filter(owned)
            .filter(webhooks::Column::ProjectId.is_in(ids()))
            .filter(webhooks::Column::DeletedAt.is_null())
            .group_by(webhooks::Column::ProjectId)
            .into_tuple::<(ProjectId, i64)>();
        self.read(async |database| {
            for (project, number) in usable.all(database).await? {
                counts.entry(project).or_default().keys = number.unsigned_abs();
            }
            for (project, number) in endpoints.all(database).await? {
                counts.entry(project).or_default().webhooks = number.unsigned_abs();
            }
            Ok(counts)
        })
        .await
    }
}
