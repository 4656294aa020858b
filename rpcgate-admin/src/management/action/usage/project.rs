//! Views of one project's usage.

use super::all;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Group, Metrics, Params, Period, UsageAsk, UsageView, UsageWindow, ask};
use std::collections::BTreeMap;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// Hours of a window up to which a chart has a point for each, if it is not told otherwise.
const MOST_HOURS: usize = 7 * 24;

/// The sums of a project, by chain.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The window.
    pub period: Period,
    /// All of it.
    pub totals: Metrics,
    /// The same by the chain's path name.
    pub by_chain: BTreeMap<String, Metrics>,
}

/// A project's usage over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// The first moment of the window.
    pub from: Time,
    /// The first moment after it.
    pub to: Time,
    /// The name it was told by, if it was.
    pub period: Option<Period>,
    /// [`Group::Hour`] or [`Group::Day`].
    pub interval: Group,
    /// A point for every hour or UTC day that the window touches, also where nothing was used. It is at the begin.
    pub points: Vec<(Time, Metrics)>,
}

/// How a project's calls went.
#[derive(Clone, PartialEq, Debug)]
pub struct Health {
    /// By chain; its totals are those of the project.
    pub chains: UsageView,
    /// By chain and method.
    pub methods: UsageView,
}

/// What a project used in the last `day` (the default) or `month`, which are 24 hours and 30 days.
///
/// # Errors
/// [`ActionError::Invalid`], [`ActionError::NotFound`] if the project is not this tenant's, [`ActionError::Unavailable`].
pub async fn summary(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
    period: Option<&str>,
) -> Result<Summary, ActionError> {
    expect_project(app, tenant, project).await?;
    let period = match period.unwrap_or_default() {
        "" | "day" => Period::Day,
        "month" => Period::ThirtyDays,
        _ => return Err(ActionError::Invalid("period must be day or month".into())),
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

/// A project's usage over time, by `interval`: `hour` or `day`.
///
/// # Errors
/// As [`summary`], and as [`usage`](super::usage()).
pub async fn chart(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
    params: &Params<'_>,
    interval: Option<&str>,
) -> Result<Chart, ActionError> {
    expect_project(app, tenant, project).await?;
    let ask = about(app, tenant, project, params).await?;
    let window = ask.window().clone();
    let interval = match interval.unwrap_or_default() {
        "" if window.hours().count() > MOST_HOURS => Group::Day,
        "" | "hour" => Group::Hour,
        "day" => Group::Day,
        _ => return Err(ActionError::Invalid("interval must be hour or day".into())),
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

/// How a project's calls went, by chain and method.
///
/// # Errors
/// As [`summary`], and as [`usage`](super::usage()).
pub async fn health(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
    params: &Params<'_>,
) -> Result<Health, ActionError> {
    expect_project(app, tenant, project).await?;
    let ask = about(app, tenant, project, params).await?;
    let by_chain = ask.clone().grouped(&[Group::Chain])?.limited(ask::MOST_ROWS)?;
    let chains = app.usage.usage(&by_chain).await?;
    let methods = app.usage.usage(&ask.grouped(&[Group::Chain, Group::Method])?).await?;
    Ok(Health { chains, methods })
}

async fn expect_project(app: &AppState, tenant: TenantId, project: ProjectId) -> Result<(), ActionError> {
    app.store.project(tenant, project).await?.map(drop).ok_or(ActionError::NotFound("project"))
}

/// What `params` ask, about this project.
async fn about(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
    params: &Params<'_>,
) -> Result<UsageAsk, ActionError> {
    let ask = UsageAsk::parse(tenant, params, app.now())?;
    super::expect_key(app, &ask).await?;
    let part = ask.part().clone();
    Ok(ask.only(rpcgate_core::usage::Only { project: Some(project), ..part }))
}
