//! The quotas of projects, which are set on the page of their tenant.

use super::tenant::refused_quota;
use crate::context::{OperatorPage, PageResult};
use crate::form::FieldList;
use crate::outcome::Done;
use axum::Router;
use axum::extract::State;
use rpcgate_config::QuotaChange;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_management::action::operator::{lookup, quotas};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Ids;
use rpcgate_management::routing::post;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/operator/tenants/{id}/projects/{project}/quota", post(put))
}

async fn put(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Ids(tenant, project): Ids<TenantId, ProjectId>,
    fields: FieldList,
) -> PageResult {
    if lookup::project(&app, project).await?.tenant != tenant {
        return Err(ActionError::NotFound("project"));
    }
    let path = format!("operator/tenants/{tenant}");
    let actor = page.expecting(&fields);
    let saved = async {
        if fields.one("do") == "default" {
            quotas::delete(&app, &actor, project).await?;
            return Ok(Done::QuotaRemoved);
        }
        let quota = QuotaChange {
            cu_per_day: fields.number("cu_per_day")?,
            cu_per_month: fields.number("cu_per_month")?,
            rps_limit: fields.number("rps_limit")?,
        };
        quotas::put(&app, &actor, project, quota).await?;
        Ok(Done::QuotaSaved)
    };
    match saved.await {
        Ok(done) => Ok(page.done(&path, done)),
        Err(error) => refused_quota(&app, &page, (tenant, project), &fields, error).await,
    }
}
