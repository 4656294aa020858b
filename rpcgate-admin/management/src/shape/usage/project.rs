//! JSON shapes of a project's usage: a summary, a chart, and metrics by chain and method.

use super::moment;
use super::view::{Row, Sums};
use crate::action::usage::project::{Chart, Health, Summary};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::usage::{Cell, Group, Metrics, Period};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The usage of a project.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct ProjectUsage {
    /// The project.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// Compute Units charged.
    pub total_cu: u64,
    /// Calls.
    pub request_count: u64,
    /// The window: 24h for a day, 30d for a month.
    #[schema(example = "24h")]
    pub period: &'static str,
    /// The usage of each chain.
    pub by_chain: BTreeMap<String, ChainUsage>,
}

/// The usage of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct ChainUsage {
    /// Compute Units charged.
    pub cu: u64,
    /// Calls.
    pub request_count: u64,
}

/// A project's usage over time.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct UsageChart {
    /// The project.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// The start of the window.
    #[schema(format = "date-time")]
    pub from: String,
    /// The end of the window, exclusive.
    #[schema(format = "date-time")]
    pub to: String,
    /// The period; null if the window was given by its ends.
    pub period: Option<&'static str>,
    /// The interval of a point: hour or day.
    pub interval: &'static str,
    /// The points in order, including those without usage.
    pub points: Vec<ChartPoint>,
}

/// A point of a chart.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct ChartPoint {
    /// The start of its hour or UTC day.
    #[schema(format = "date-time")]
    pub at: String,
    /// The sums.
    #[serde(flatten)]
    pub sums: Sums,
}

/// The outcomes of a project's calls.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct ProjectMetrics {
    /// The project.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// The start of the window.
    #[schema(format = "date-time")]
    pub from: String,
    /// The end of the window, exclusive.
    #[schema(format = "date-time")]
    pub to: String,
    /// The period; null if the window was given by its ends.
    pub period: Option<&'static str>,
    /// All calls.
    pub totals: CallMetrics,
    /// The calls of each chain.
    pub by_chain: BTreeMap<String, CallMetrics>,
    /// The calls of each chain and method.
    pub by_method: Vec<MethodMetrics>,
    /// True if there are more methods than the limit.
    pub truncated: bool,
}

/// The outcomes of calls.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, ToSchema)]
pub struct CallMetrics {
    /// Calls.
    pub requests: u64,
    /// Calls that were not answered with success.
    pub errors: u64,
    /// Calls that the gateway refused or could not serve.
    pub rejected: u64,
    /// Calls answered without asking a node.
    pub cache_hits: u64,
    /// The mean latency of answered calls, in milliseconds.
    pub avg_latency_ms: f64,
}

/// The outcomes of a method's calls.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct MethodMetrics {
    /// The chain.
    pub chain: String,
    /// The method.
    pub method: String,
    /// The outcomes.
    #[serde(flatten)]
    pub calls: CallMetrics,
}

impl ProjectUsage {
    /// Returns the usage of `project`.
    pub fn of(project: ProjectId, summary: Summary) -> Self {
        let chain = |(name, metrics): (String, Metrics)| {
            (name, ChainUsage { cu: metrics.billable_units, request_count: metrics.requests })
        };
        ProjectUsage {
            project_id: project.to_string(),
            total_cu: summary.totals.billable_units,
            request_count: summary.totals.requests,
            period: summary.period.name(),
            by_chain: summary.by_chain.into_iter().map(chain).collect(),
        }
    }
}

impl UsageChart {
    /// Returns the chart of `project`.
    pub fn of(project: ProjectId, chart: Chart) -> Self {
        let point = |(at, metrics): (_, Metrics)| ChartPoint { at: moment(at), sums: (&metrics).into() };
        UsageChart {
            project_id: project.to_string(),
            from: moment(chart.from),
            to: moment(chart.to),
            period: chart.period.map(Period::name),
            interval: Group::name(chart.interval),
            points: chart.points.into_iter().map(point).collect(),
        }
    }
}

impl ProjectMetrics {
    /// Returns the outcomes of the calls of `project`.
    pub fn of(project: ProjectId, health: Health) -> Self {
        let Health { chains, methods } = health;
        let mut by_chain = BTreeMap::new();
        for row in chains.rows {
            if let Some(Cell::Chain(chain)) = row.cells.into_iter().next() {
                by_chain.insert(chain, (&row.metrics).into());
            }
        }
        let mut by_method = Vec::with_capacity(methods.rows.len());
        for row in methods.rows {
            let row = Row::of(row.cells, &row.metrics);
            by_method.push(MethodMetrics {
                chain: row.chain.unwrap_or_default(),
                method: row.method.unwrap_or_default(),
                calls: row.sums.into(),
            });
        }
        ProjectMetrics {
            project_id: project.to_string(),
            from: moment(chains.from),
            to: moment(chains.to),
            period: chains.period.map(Period::name),
            totals: (&chains.totals).into(),
            by_chain,
            by_method,
            truncated: methods.truncated,
        }
    }
}

impl From<&Metrics> for CallMetrics {
    fn from(metrics: &Metrics) -> Self {
        Sums::from(metrics).into()
    }
}

impl From<Sums> for CallMetrics {
    fn from(sums: Sums) -> Self {
        let Sums { requests, errors, rejected, cache_hits, avg_latency_ms, .. } = sums;
        CallMetrics { requests, errors, rejected, cache_hits, avg_latency_ms }
    }
}
