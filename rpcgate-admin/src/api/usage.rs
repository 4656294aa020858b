//! Routes of usage.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, VARY};
use http::{HeaderMap, HeaderValue};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::usage::Params;
use rpcgate_management::access::{AuthSession, Member};
use rpcgate_management::action;
use rpcgate_management::action::usage::Usage;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Query};
use rpcgate_management::shape::csv;
use rpcgate_management::shape::usage::{ProjectMetrics, ProjectUsage, UsageChart, View, table};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The parameters of a usage view.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Only this project; all by default.
    #[param(format = "uuid")]
    pub project_id: Option<String>,
    /// 24h (the default), 7d, 30d, today or month.
    #[param(example = "24h")]
    pub period: Option<String>,
    /// The start of a window that replaces the period.
    #[param(format = "date-time")]
    pub from: Option<String>,
    /// The end of the window, at most 92 days later; now by default.
    #[param(format = "date-time")]
    pub to: Option<String>,
    /// At most four of hour, day, chain, method, key, project, transport, status, separated by commas; hour and day
    /// exclude each other.
    #[param(example = "day,chain")]
    pub group_by: Option<String>,
    /// Only this chain.
    pub chain: Option<String>,
    /// Only this method.
    pub method: Option<String>,
    /// Only the API key with this identifier.
    #[param(format = "uuid")]
    pub key: Option<String>,
    /// Only this transport: http, ws or grpc.
    pub transport: Option<String>,
    /// The maximum number of rows: 500 by default, at most 5000.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 5000)]
    pub limit: Option<String>,
}

impl UsageQuery {
    fn params(&self) -> Params<'_> {
        Params {
            project_id: self.project_id.as_deref(),
            period: self.period.as_deref(),
            from: self.from.as_deref(),
            to: self.to.as_deref(),
            group_by: self.group_by.as_deref(),
            chain: self.chain.as_deref(),
            method: self.method.as_deref(),
            key: self.key.as_deref(),
            transport: self.transport.as_deref(),
            limit: self.limit.as_deref(),
        }
    }
}

/// The parameters of a project's summary.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SummaryQuery {
    /// day (24 hours, the default) or month (30 days).
    #[param(example = "day")]
    pub period: Option<String>,
}

/// The parameters of a project's chart.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ChartQuery {
    /// 24h (the default), 7d, 30d, today or month.
    pub period: Option<String>,
    /// The start of a window that replaces the period.
    #[param(format = "date-time")]
    pub from: Option<String>,
    /// The end of the window, at most 92 days later; now by default.
    #[param(format = "date-time")]
    pub to: Option<String>,
    /// hour or day; by default hour for windows of up to seven days.
    pub interval: Option<String>,
    /// Only this chain.
    pub chain: Option<String>,
    /// Only this method.
    pub method: Option<String>,
    /// Only the API key with this identifier.
    #[param(format = "uuid")]
    pub key: Option<String>,
    /// Only this transport: http, ws or grpc.
    pub transport: Option<String>,
}

impl ChartQuery {
    fn params(&self) -> Params<'_> {
        Params {
            period: self.period.as_deref(),
            from: self.from.as_deref(),
            to: self.to.as_deref(),
            chain: self.chain.as_deref(),
            method: self.method.as_deref(),
            key: self.key.as_deref(),
            transport: self.transport.as_deref(),
            ..Params::default()
        }
    }
}

/// The parameters of a project's metrics.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MetricsQuery {
    /// 24h (the default), 7d, 30d, today or month.
    pub period: Option<String>,
    /// The start of a window that replaces the period.
    #[param(format = "date-time")]
    pub from: Option<String>,
    /// The end of the window, at most 92 days later; now by default.
    #[param(format = "date-time")]
    pub to: Option<String>,
    /// Only this chain.
    pub chain: Option<String>,
    /// Only this method.
    pub method: Option<String>,
    /// Only the API key with this identifier.
    #[param(format = "uuid")]
    pub key: Option<String>,
    /// Only this transport: http, ws or grpc.
    pub transport: Option<String>,
    /// The maximum number of methods: 500 by default, at most 5000.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 5000)]
    pub limit: Option<String>,
}

impl MetricsQuery {
    fn params(&self) -> Params<'_> {
        Params {
            period: self.period.as_deref(),
            from: self.from.as_deref(),
            to: self.to.as_deref(),
            chain: self.chain.as_deref(),
            method: self.method.as_deref(),
            key: self.key.as_deref(),
            transport: self.transport.as_deref(),
            limit: self.limit.as_deref(),
            ..Params::default()
        }
    }
}

/// Show usage
///
/// For all projects of the caller's tenant, or for one. With `Accept: text/csv` the response has only the rows, as CSV.
#[utoipa::path(get, path = "/usage", operation_id = "show_usage", tag = "usage", params(UsageQuery),
    responses((status = 200, description = "The usage.", content((View = "application/json"), (String = "text/csv"))),
        (status = 404, description = "The project or the key is not the caller's.")))]
pub async fn view(
    State(app): State<Arc<AppState>>,
    member: Member,
    Query(query): Query<UsageQuery>,
    headers: HeaderMap,
) -> Result<Response, ActionError> {
    let usage = action::usage::usage(&app, member.tenant, &query.params()).await?;
    Ok(shown(usage, &headers))
}

/// Show a tenant's usage
///
/// The same view for a tenant's identifier, for its members and for operators.
#[utoipa::path(get, path = "/tenants/{id}/usage", operation_id = "show_tenant_usage", tag = "usage",
    params(("id" = String, Path, description = "The tenant.", format = "uuid"), UsageQuery),
    responses((status = 200, description = "The usage.", content((View = "application/json"), (String = "text/csv")))))]
pub async fn of_tenant(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    Id(tenant): Id<TenantId>,
    Query(query): Query<UsageQuery>,
    headers: HeaderMap,
) -> Result<Response, ActionError> {
    let usage = action::usage::usage_of(&app, &session.user, tenant, &query.params()).await?;
    Ok(shown(usage, &headers))
}

/// Show a project's usage
///
/// In the last 24 hours or 30 days, in total and by chain.
#[utoipa::path(get, path = "/projects/{id}/usage", operation_id = "show_project_usage", tag = "usage",
    params(SummaryQuery),
    responses((status = 200, description = "The usage.", body = ProjectUsage)))]
pub async fn of_project(
    State(app): State<Arc<AppState>>,
    member: Member,
    Id(project): Id<ProjectId>,
    Query(query): Query<SummaryQuery>,
) -> Result<Json<ProjectUsage>, ActionError> {
    let period = query.period.as_deref();
    let summary = action::usage::project::summary(&app, member.tenant, project, period).await?;
    Ok(Json(ProjectUsage::of(project, summary)))
}

/// Show a project's usage over time
///
/// One point per hour or UTC day.
#[utoipa::path(get, path = "/projects/{id}/usage-chart", operation_id = "show_project_usage_chart", tag = "usage",
    params(ChartQuery),
    responses((status = 200, description = "The points.", body = UsageChart)))]
pub async fn chart(
    State(app): State<Arc<AppState>>,
    member: Member,
    Id(project): Id<ProjectId>,
    Query(query): Query<ChartQuery>,
) -> Result<Json<UsageChart>, ActionError> {
    let interval = query.interval.as_deref();
    let chart =
        action::usage::project::chart(&app, member.tenant, project, &query.params(), interval).await?;
    Ok(Json(UsageChart::of(project, chart)))
}

/// Show the outcomes of a project's calls
///
/// Errors, refusals, cache hits and latency by chain and method.
#[utoipa::path(get, path = "/projects/{id}/metrics", operation_id = "show_project_metrics", tag = "usage",
    params(MetricsQuery),
    responses((status = 200, description = "The outcomes.", body = ProjectMetrics)))]
pub async fn metrics(
    State(app): State<Arc<AppState>>,
    member: Member,
    Id(project): Id<ProjectId>,
    Query(query): Query<MetricsQuery>,
) -> Result<Json<ProjectMetrics>, ActionError> {
    let health = action::usage::project::health(&app, member.tenant, project, &query.params()).await?;
    Ok(Json(ProjectMetrics::of(project, health)))
}

fn shown(usage: Usage, headers: &HeaderMap) -> Response {
    let mut answer =
        if csv::is_requested(headers) { table(&usage) } else { Json(View::from(usage)).into_response() };
    answer.headers_mut().append(VARY, HeaderValue::from(ACCEPT));
    answer
}

#[cfg(test)]
mod tests;
