//! Quotas of projects: what operators granted.

use super::changes::{News, tell};
use super::value::{insert_error, number};
use crate::store::entity::quotas::{ActiveModel, Column, Entity};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::{ProjectId, Quota};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::EntityTrait;
use sea_orm::sea_query::OnConflict;
use uuid::Uuid;

impl Store {
    /// Sets a project's quota, all of it. [`Quota::has_row`] says nothing here.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such project; [`StoreError::TooLarge`] for a figure beyond 2⁶³ − 1;
    /// [`StoreError::Away`].
    pub async fn put_quota(&self, project: ProjectId, quota: &Quota, now: Time) -> Result<(), StoreError> {
        let row = ActiveModel {
            project_id: Set(Uuid::from_u128(project.0)),
            cu_per_day: Set(number("cu_per_day", quota.cu_per_day)?),
            cu_per_month: Set(quota.cu_per_month.map(|cu| number("cu_per_month", cu)).transpose()?),
            rps_limit: Set(quota.rps_limit.map(|rps| number("rps_limit", rps)).transpose()?),
        };
        self.write(async |transaction| {
            let there = OnConflict::column(Column::ProjectId)
                .update_columns([Column::CuPerDay, Column::CuPerMonth, Column::RpsLimit])
                .to_owned();
            let done = Entity::insert(row).on_conflict(there).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "quota", "project", None))?;
            tell(transaction, News::Project(project), now).await
        })
        .await
    }

    /// Takes a project's quota away: it has the default ceiling again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it has none, [`StoreError::Away`].
    pub async fn delete_quota(&self, project: ProjectId, now: Time) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let deleted = Entity::delete_by_id(Uuid::from_u128(project.0)).exec(transaction).await?;
            if deleted.rows_affected == 0 {
                return Err(StoreError::NotFound("quota"));
            }
            tell(transaction, News::Project(project), now).await
        })
        .await
    }
}
