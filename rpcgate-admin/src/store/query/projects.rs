//! Projects.

use super::changes::{News, tell};
use super::value::{insert_error, list, moment, names, time};
use crate::store::entity::projects::{ActiveModel, Column, Entity, Model};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use uuid::Uuid;

/// What is metered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Project {
    /// Its identifier.
    pub id: ProjectId,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Its name, for people.
    pub name: String,
    /// When not empty, only these methods pass.
    pub allowed_methods: Vec<String>,
    /// These methods never pass.
    pub blocked_methods: Vec<String>,
    /// When it was made.
    pub created_at: Time,
}

impl TryFrom<Model> for Project {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(Project {
            id: ProjectId(row.id.as_u128()),
            tenant: TenantId(row.tenant_id.as_u128()),
            name: row.name,
            allowed_methods: names("method list", &row.allowed_methods)?,
            blocked_methods: names("method list", &row.blocked_methods)?,
            created_at: time(row.created_at),
        })
    }
}

fn methods(names: &[String]) -> String {
    list(names.iter().map(String::as_str))
}

impl Store {
    /// Adds a project. No gateway hears of it: it has no keys yet.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::NotFound`] if there is no such tenant, [`StoreError::Away`].
    pub async fn create_project(&self, project: &Project) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let row = ActiveModel {
                id: Set(Uuid::from_u128(project.id.0)),
                tenant_id: Set(Uuid::from_u128(project.tenant.0)),
                name: Set(project.name.clone()),
                allowed_methods: Set(methods(&project.allowed_methods)),
                blocked_methods: Set(methods(&project.blocked_methods)),
                created_at: Set(moment(project.created_at)),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map(drop).map_err(|error| insert_error(error, "project", "tenant", None))
        })
        .await
    }

    /// A tenant's projects, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn projects(&self, tenant: TenantId) -> Result<Vec<Project>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find()
                .filter(Column::TenantId.eq(Uuid::from_u128(tenant.0)))
                .order_by_asc(Column::CreatedAt)
                .order_by_asc(Column::Id)
                .all(database)
                .await?;
            rows.into_iter().map(Project::try_from).collect()
        })
        .await
    }

    /// Sets the method lists of a tenant's project.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::Away`].
    pub async fn set_lists(
        &self,
        tenant: TenantId,
        project: ProjectId,
        allowed: &[String],
        blocked: &[String],
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::AllowedMethods, Expr::value(methods(allowed)))
                .col_expr(Column::BlockedMethods, Expr::value(methods(blocked)))
                .filter(Column::Id.eq(Uuid::from_u128(project.0)))
                .filter(Column::TenantId.eq(Uuid::from_u128(tenant.0)));
            if update.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("project"));
            }
            tell(transaction, News::Project(project), now).await
        })
        .await
    }
}
