//! Quotas that operators grant to projects.

use super::changes::{NewChange, record};
use super::live_tenants::live_tenants;
use super::projects::{expect_live, live};
use super::terms;
use super::value::insert_error;
use crate::entity::quotas::{ActiveModel, Column, Entity, Model};
use crate::entity::{projects, tenants};
use crate::{Store, StoreError};
use rpcgate_config::Plans;
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::PlanQuota;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::collections::BTreeMap;

const MOST_QUOTAS: u64 = 200_000;

/// Returns the quota in a row; a project without a row has that of its plan.
///
/// A limit may be any `u64`. Its column is a signed 64-bit integer with the same bits: limits from 2⁶³ on are negative
/// there. No query compares them.
pub(super) fn quota(row: Option<&Model>, plan: PlanQuota) -> ProjectQuota {
    row.map_or(ProjectQuota::of_plan(plan), own_quota)
}

pub(super) fn own_quota(row: &Model) -> ProjectQuota {
    ProjectQuota {
        cu_per_day: row.cu_per_day.cast_unsigned(),
        cu_per_month: row.cu_per_month.map(i64::cast_unsigned),
        rps_limit: row.rps_limit.map(i64::cast_unsigned),
        has_row: true,
    }
}

/// Returns the quota of a tenant's projects without their own. A tenant that does not exist has no projects.
async fn plan_quota(
    database: &impl ConnectionTrait,
    tenant: TenantId,
    plans: &Plans,
    now: Time,
) -> Result<PlanQuota, StoreError> {
    let found = live_tenants().filter(tenants::Column::Id.eq(tenant));
    let Some(row) = found.one(database).await? else { return Ok(PlanQuota::DEFAULT) };
    let terms = terms::of_tenant(database, tenant, now).await?;
    Ok(terms.plan(plans.of_tenant(row.tier), now).quota)
}

impl Store {
    /// Returns the quota of a tenant's project at `now`, with the figures of `plans`, or `None` if the project is not
    /// this tenant's.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn quota(
        &self,
        tenant: TenantId,
        project: ProjectId,
        plans: &Plans,
        now: Time,
    ) -> Result<Option<ProjectQuota>, StoreError> {
        self.read(async |database| {
            let found = live()
                .filter(projects::Column::Id.eq(project))
                .filter(projects::Column::TenantId.eq(tenant))
                .find_also_related(Entity);
            let Some((_, row)) = found.one(database).await? else { return Ok(None) };
            let plan = plan_quota(database, tenant, plans, now).await?;
            Ok(Some(quota(row.as_ref(), plan)))
        })
        .await
    }

    /// Returns the quotas of all projects of a tenant at `now`, with the figures of `plans`, the oldest project first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn quotas(
        &self,
        tenant: TenantId,
        plans: &Plans,
        now: Time,
    ) -> Result<Vec<(ProjectId, ProjectQuota)>, StoreError> {
        self.read(async |database| {
            let all = live()
                .filter(projects::Column::TenantId.eq(tenant))
                .order_by_asc(projects::Column::CreatedAt)
                .order_by_asc(projects::Column::Id)
                .find_also_related(Entity);
            let rows = all.all(database).await?.into_iter();
            let plan = plan_quota(database, tenant, plans, now).await?;
            let one =
                |(project, row): (projects::Model, Option<Model>)| (project.id, quota(row.as_ref(), plan));
            Ok(rows.map(one).collect())
        })
        .await
    }

    /// Returns the quotas that operators have set, by project.
    ///
    /// # Errors
    /// [`StoreError::TooWide`] for more than 200,000, [`StoreError::Unavailable`].
    pub async fn own_quotas(&self) -> Result<BTreeMap<ProjectId, ProjectQuota>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().limit(MOST_QUOTAS + 1).all(database).await?;
            if rows.len() as u64 > MOST_QUOTAS {
                return Err(StoreError::TooWide(format!("there are more than {MOST_QUOTAS} quotas")));
            }
            Ok(rows.iter().map(|row| (row.project_id, own_quota(row))).collect())
        })
        .await
    }

    /// Returns the quotas that operators have set for the projects of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn own_quotas_of(
        &self,
        tenant: TenantId,
    ) -> Result<BTreeMap<ProjectId, ProjectQuota>, StoreError> {
        self.read(async |database| {
            let its = live().filter(projects::Column::TenantId.eq(tenant));
            let rows = its.find_also_related(Entity).all(database).await?;
            let own = rows.into_iter().filter_map(|(project, row)| Some((project.id, own_quota(&row?))));
            Ok(own.collect())
        })
        .await
    }

    /// Sets all limits of a project's quota. Ignores [`ProjectQuota::has_row`].
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the project does not exist, [`StoreError::Unavailable`].
    pub async fn put_quota(
        &self,
        project: ProjectId,
        quota: &ProjectQuota,
        now: Time,
    ) -> Result<(), StoreError> {
        let row = ActiveModel {
            project_id: Set(project),
            cu_per_day: Set(quota.cu_per_day.cast_signed()),
            cu_per_month: Set(quota.cu_per_month.map(u64::cast_signed)),
            rps_limit: Set(quota.rps_limit.map(u64::cast_signed)),
        };
        let tenant = self.tenant_of(project).await?.ok_or(StoreError::NotFound("project"))?;
        self.write_settings(Some(tenant), now, async |transaction| {
            expect_live(transaction, project).await?;
            let upsert = OnConflict::column(Column::ProjectId)
                .update_columns([Column::CuPerDay, Column::CuPerMonth, Column::RpsLimit])
                .to_owned();
            let done = Entity::insert(row).on_conflict(upsert).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "quota", "project", None))?;
            record(transaction, NewChange::Project(project), now).await
        })
        .await
    }

    /// Removes a project's quota, so that the quota of the tenant's contracts or plan applies again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it has no quota or the project does not exist, [`StoreError::Unavailable`].
    pub async fn delete_quota(&self, project: ProjectId, now: Time) -> Result<(), StoreError> {
        let tenant = self.tenant_of(project).await?.ok_or(StoreError::NotFound("project"))?;
        self.write_settings(Some(tenant), now, async |transaction| {
            expect_live(transaction, project).await?;
            let deleted = Entity::delete_by_id(project).exec(transaction).await?;
            if deleted.rows_affected == 0 {
                return Err(StoreError::NotFound("quota"));
            }
            record(transaction, NewChange::Project(project), now).await
        })
        .await
    }
}
