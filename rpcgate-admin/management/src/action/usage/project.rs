//! Views of one project's usage.

use super::all;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Group, Metrics, Params, Period, UsageAsk, UsageView, UsageWindow, ask};
use std::collections::BTreeMap;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// The longest window, in hours, for which a chart has a point per hour by default.
const MAX_HOURLY: usize = 7 * 24;

/// The usage of a project, by chain.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The window.
    pub period: Period,
    /// The totals.
    pub totals: Metrics,
    /// The usage of each chain, by its path name.
    pub by_chain: BTreeMap<String, Metrics>,
}

/// A project's usage over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// The begin of the window.
    pub from: Time,
    /// The end of the window, exclusive.
    pub to: Time,
    /// The name of the window, if it was requested by name.
    pub period: Option<Period>,
    /// [`Group::Hour`] or [`Group::Day`].
    pub interval: Group,
    /// One point for each hour or UTC day that the window touches, identified by its beginning, including those without
    /// usage.
    pub points: Vec<(Time, Metrics)>,
}

/// The outcomes of a project's calls.
#[derive(Clone, PartialEq, Debug)]
pub struct Health {
    /// By chain; its totals are those of the project.
    pub chains: UsageView,
    /// By chain and method.
    pub methods: UsageView,
}

/// Returns the usage of a project in the last `day` (24 hours, the default) or `month` (30 days).
///
/// # Errors
/// [`ActionError::Invalid`], [`ActionError::NotFound`] if the project is not this tenant's,
/// [`ActionError::Unavailable`].
pub async fn summary(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
    period: Option<&str>,
) -> Result<Summary, ActionError> {
    check_project(app, tenant, project).await?;
    let period = match period.unwrap_or_default() {
        "" | "day" => Period::Day,
        "month" => Period::ThirtyDays,
        _ => return Err(ActionError::bare("period", "period must be day or month")),
    };
    let window = UsageWindow::of(period, app.now());
    let ask = all(tenant, Some(project), window).grouped(&[Group::Chain])?.limited(ask::MOST_ROWS)?;
    let view = app.usage.usage(&ask).await?;
    let mut by_chain = BTreeMap::new();
    for row in view.rows {
        if let Some(Cell::Chain(chain)) = row.cells.into_iter().next() {
            by_chain.insert(chain, row.metrics);
        }
    }
    Ok(Summary { period, totals: view.totals, by_chain })
}

/// Returns the usage of a project over time, by `interval`: `hour` or `day`.
///
/// # Errors
/// Those of [`summary`] and of [`usage`](super::usage()).
pub async fn chart(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
    params: &Params<'_>,
    interval: Option<&str>,
) -> Result<Chart, ActionError> {
    check_project(app, tenant, project).await?;
    let ask = project_query(app, tenant, project, params).await?;
    let window = ask.window().clone();
    let interval = match interval.unwrap_or_default() {
        "" if window.hours().count() > MAX_HOURLY => Group::Day,
        "" | "hour" => Group::Hour,
        "day" => Group::Day,
        _ => return Err(ActionError::bare("interval", "interval must be hour or day")),
    };
    let length = if interval == Group::Day { DAY } else { HOUR };
    // The longest window has fewer hours than an answer may have rows.
    let view = app.usage.usage(&ask.grouped(&[interval])?.limited(ask::MOST_ROWS)?).await?;
    let mut found = BTreeMap::new();
    for row in view.rows {
        if let [Cell::Hour(begin) | Cell::Day(begin)] = row.cells[..] {
            found.insert(begin, row.metrics);
        }
    }
    let numbers = window.from().secs() / length..window.to().secs().div_ceil(length);
    let point = |number: u64| {
        let begin = Time::from_secs(number.saturating_mul(length));
        (begin, found.remove(&begin).unwrap_or_default())
    };
    let points = numbers.map(point).collect();
    Ok(Chart { from: view.from, to: view.to, period: view.period, interval, points })
}

/// Returns the outcomes of a project's calls, by chain and method.
///
/// # Errors
/// Those of [`summary`] and of [`usage`](super::usage()).
pub async fn health(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
    params: &Params<'_>,
) -> Result<Health, ActionError> {
    check_project(app, tenant, project).await?;
    let ask = project_query(app, tenant, project, params).await?;
    let by_chain = ask.clone().grouped(&[Group::Chain])?.limited(ask::MOST_ROWS)?;
    let chains = app.usage.usage(&by_chain).await?;
    let methods = app.usage.usage(&ask.grouped(&[Group::Chain, Group::Method])?).await?;
    Ok(Health { chains, methods })
}

async fn check_project(app: &AppState, tenant: TenantId, project: ProjectId) -> Result<(), ActionError> {
    app.store.project(tenant, project).await?.map(drop).ok_or(ActionError::NotFound("project"))
}

async fn project_query(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
    params: &Params<'_>,
) -> Result<UsageAsk, ActionError> {
    let ask = UsageAsk::parse(tenant, params, app.now())?;
    super::check_key(app, &ask).await?;
    let part = ask.part().clone();
    Ok(ask.only(rpcgate_core::usage::UsageFilter { project: Some(project), ..part }))
}
