//! Projects.

use super::changes::{NewChange, record};
use super::plans::{counts, full};
use super::value::{insert_error, list, names};
use crate::entity::projects::{ActiveModel, Column, Entity, Model};
use crate::entity::{keys, quotas, webhooks};
use crate::{Store, StoreError};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::{Condition, Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    Select,
};

const DELETED_KEPT: u64 = 1_000;

pub(super) const HAS_LOG: &str =
    "EXISTS (SELECT 1 FROM project_events WHERE project_events.project_id = projects.id)";
/// A condition: the project has webhooks, deleted or not.
const HAS_WEBHOOK: &str = "EXISTS (SELECT 1 FROM webhooks WHERE webhooks.project_id = projects.id)";

/// A project, the unit of metering.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Project {
    /// Its identifier.
    pub id: ProjectId,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Its display name.
    pub name: String,
    /// If not empty, only these methods are allowed.
    pub allowed_methods: Vec<String>,
    /// These methods are never allowed.
    pub blocked_methods: Vec<String>,
    /// The creation time.
    pub created_at: Time,
}

impl Project {
    /// Creates a project whose keys may call all methods.
    pub fn new(id: ProjectId, tenant: TenantId, name: impl Into<String>, created_at: Time) -> Self {
        Project {
            id,
            tenant,
            name: name.into(),
            allowed_methods: Vec::new(),
            blocked_methods: Vec::new(),
            created_at,
        }
    }
}

impl TryFrom<Model> for Project {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(Project {
            id: row.id,
            tenant: row.tenant_id,
            name: row.name,
            allowed_methods: names("method list", &row.allowed_methods)?,
            blocked_methods: names("method list", &row.blocked_methods)?,
            created_at: row.created_at,
        })
    }
}

/// A change of a project; fields that are `None` stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProjectChange {
    /// Its name.
    pub name: Option<String>,
    /// The methods that are allowed; empty allows all.
    pub allowed_methods: Option<Vec<String>>,
    /// The methods that are never allowed.
    pub blocked_methods: Option<Vec<String>>,
}

pub(super) fn live() -> Select<Entity> {
    Entity::find().filter(Column::DeletedAt.is_null())
}

/// Checks that a project exists and is not deleted, and returns its tenant.
pub(super) async fn expect_live(
    transaction: &DatabaseTransaction,
    project: ProjectId,
) -> Result<TenantId, StoreError> {
    let found = live().filter(Column::Id.eq(project)).one(transaction).await?;
    found.map(|row| row.tenant_id).ok_or(StoreError::NotFound("project"))
}

/// Removes deleted projects and their dependent rows. Their usage stays and refers to them by identifier.
pub(super) async fn remove(
    transaction: &DatabaseTransaction,
    projects: Vec<ProjectId>,
) -> Result<u64, StoreError> {
    if projects.is_empty() {
        return Ok(0);
    }
    let keys_of_projects =
        keys::Entity::delete_many().filter(keys::Column::ProjectId.is_in(projects.iter().copied()));
    keys_of_projects.exec(transaction).await?;
    let quotas =
        quotas::Entity::delete_many().filter(quotas::Column::ProjectId.is_in(projects.iter().copied()));
    quotas.exec(transaction).await?;
    let rows = Entity::delete_many().filter(Column::Id.is_in(projects));
    Ok(rows.exec(transaction).await?.rows_affected)
}

fn methods(names: &[String]) -> String {
    list(names.iter().map(String::as_str))
}

impl Store {
    /// Adds a project. Gateways are not notified, because it has no keys yet.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::NotFound`] if the tenant does not exist, [`StoreError::Full`] if the number
    /// of projects that its plan allows is reached; [`StoreError::Unavailable`].
    pub fn create_project<'a>(&'a self, project: &'a Project) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.write(async |transaction| {
                let max =
                    counts(transaction, &self.plans, project.tenant, project.created_at).await?.projects;
                let its = Column::TenantId.eq(project.tenant);
                if live().filter(its.clone()).count(transaction).await? >= max.into() {
                    return Err(full(max, "projects", "delete one that is not needed"));
                }
                let surplus = Entity::find()
                    .select_only()
                    .column(Column::Id)
                    .filter(its)
                    .filter(Column::DeletedAt.is_not_null())
                    // Large projects are left to the sweep, which removes them in steps.
                    .filter(Expr::cust(HAS_LOG).not())
                    .filter(Expr::cust(HAS_WEBHOOK).not())
                    .order_by_desc(Column::DeletedAt)
                    .offset(DELETED_KEPT)
                    .limit(DELETED_KEPT);
                remove(transaction, surplus.into_tuple().all(transaction).await?).await?;
                let row = ActiveModel {
                    id: Set(project.id),
                    tenant_id: Set(project.tenant),
                    name: Set(project.name.clone()),
                    allowed_methods: Set(methods(&project.allowed_methods)),
                    blocked_methods: Set(methods(&project.blocked_methods)),
                    created_at: Set(project.created_at),
                    deleted_at: Set(None),
                };
                let done = Entity::insert(row).exec_without_returning(transaction).await;
                done.map(drop).map_err(|error| insert_error(error, "project", "tenant", None))
            })
            .await
        })
    }

    /// Returns a tenant's project.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn project(&self, tenant: TenantId, project: ProjectId) -> Result<Option<Project>, StoreError> {
        self.read(async |database| {
            let found = live().filter(Column::Id.eq(project)).filter(Column::TenantId.eq(tenant));
            found.one(database).await?.map(Project::try_from).transpose()
        })
        .await
    }

    /// Returns the tenant of a project, for operators, who name a project without its tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tenant_of(&self, project: ProjectId) -> Result<Option<TenantId>, StoreError> {
        self.read(async |database| {
            let found = live().filter(Column::Id.eq(project)).one(database).await?;
            Ok(found.map(|row| row.tenant_id))
        })
        .await
    }

    /// Returns a tenant's projects, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn projects(&self, tenant: TenantId) -> BoxFuture<'_, Result<Vec<Project>, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                let rows = live()
                    .filter(Column::TenantId.eq(tenant))
                    .order_by_asc(Column::CreatedAt)
                    .order_by_asc(Column::Id)
                    .all(database)
                    .await?;
                rows.into_iter().map(Project::try_from).collect()
            })
            .await
        })
    }

    /// Applies `change` to a tenant's project and returns the project. Notifies gateways about changed method lists.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the project is not this tenant's, [`StoreError::Unavailable`].
    pub async fn update_project(
        &self,
        tenant: TenantId,
        project: ProjectId,
        change: &ProjectChange,
        now: Time,
    ) -> Result<Project, StoreError> {
        let ProjectChange { name, allowed_methods, blocked_methods } = change;
        let row = ActiveModel {
            name: name.clone().map_or(NotSet, Set),
            allowed_methods: allowed_methods.as_deref().map_or(NotSet, |names| Set(methods(names))),
            blocked_methods: blocked_methods.as_deref().map_or(NotSet, |names| Set(methods(names))),
            ..Default::default()
        };
        let is_it = Condition::all()
            .add(Column::Id.eq(project))
            .add(Column::TenantId.eq(tenant))
            .add(Column::DeletedAt.is_null());
        self.write(async |transaction| {
            if *change != ProjectChange::default() {
                Entity::update_many().set(row).filter(is_it.clone()).exec(transaction).await?;
            }
            let found = Entity::find().filter(is_it).one(transaction).await?;
            let found = found.ok_or(StoreError::NotFound("project"))?;
            if allowed_methods.is_some() || blocked_methods.is_some() {
                record(transaction, NewChange::Project(project), now).await?;
            }
            found.try_into()
        })
        .await
    }

    /// Sets the method lists of a tenant's project.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the project is not this tenant's, [`StoreError::Unavailable`].
    pub async fn set_lists(
        &self,
        tenant: TenantId,
        project: ProjectId,
        allowed: &[String],
        blocked: &[String],
        now: Time,
    ) -> Result<(), StoreError> {
        let change = ProjectChange {
            name: None,
            allowed_methods: Some(allowed.to_vec()),
            blocked_methods: Some(blocked.to_vec()),
        };
        self.update_project(tenant, project, &change, now).await.map(drop)
    }

    /// Deletes a tenant's project: it is no longer found, its keys are revoked and its webhooks deleted. Its usage
    /// stays, and so do the rows that give the tenant of the usage.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the project is not this tenant's, [`StoreError::Unavailable`].
    pub async fn delete_project(
        &self,
        tenant: TenantId,
        project: ProjectId,
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::DeletedAt, Expr::value(now))
                .filter(Column::Id.eq(project))
                .filter(Column::TenantId.eq(tenant))
                .filter(Column::DeletedAt.is_null());
            if update.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("project"));
            }
            let its_keys = keys::Entity::update_many()
                .col_expr(keys::Column::RevokedAt, Expr::value(now))
                .filter(keys::Column::ProjectId.eq(project))
                .filter(keys::Column::RevokedAt.is_null());
            its_keys.exec(transaction).await?;
            // The sweep removes their rows, because there may be many.
            let its_webhooks = webhooks::Entity::update_many()
                .col_expr(webhooks::Column::Active, Expr::value(false))
                .col_expr(webhooks::Column::DeletedAt, Expr::value(now))
                .filter(webhooks::Column::ProjectId.eq(project))
                .filter(webhooks::Column::DeletedAt.is_null());
            its_webhooks.exec(transaction).await?;
            // A change of a project makes gateways look up each of its keys again.
            record(transaction, NewChange::Project(project), now).await
        })
        .await
    }
}
