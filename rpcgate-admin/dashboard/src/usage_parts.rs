//! Chart parts that overviews and the usage explorer share.

use super::chart::axis::{BucketKind, TimeAxis};
use super::chart::heat::{Heat, HeatStep};
use super::chart::line::LineSeries;
use super::chart::number::{grouped, millis, share};
use super::chart::stack::Series;
use rpcgate_core::usage::{Cell, Group, Metrics};
use rpcgate_management::action::usage::series::UsageSeries;

/// Returns the horizontal axis of charts of this usage.
pub(super) fn axis_of(found: &UsageSeries) -> TimeAxis {
    let bucket = if found.step == Group::Day { BucketKind::Day } else { BucketKind::Hour };
    TimeAxis { starts: found.starts.clone(), bucket, is_running: found.is_running }
}

/// Returns the mean latency in milliseconds, if any call was answered.
pub(super) fn mean(metrics: &Metrics) -> Option<f64> {
    (metrics.latency_count > 0).then(|| metrics.avg_latency_ms())
}

/// Returns the mean latency over time, with the overall mean in the legend.
pub(super) fn latency_of(name: &str, over_time: &[Metrics]) -> LineSeries {
    let mut sums = Metrics::default();
    over_time.iter().for_each(|metrics| sums.add(metrics));
    LineSeries {
        name: name.to_owned(),
        values: over_time.iter().map(mean).collect(),
        summary: mean(&sums).map_or_else(|| "–".to_owned(), millis),
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ErrorStrip {
    pub(super) chain: String,
    pub(super) heat: Heat,
    pub(super) errors: String,
    pub(super) share: String,
}

/// Returns the name of a chain in charts.
pub(super) fn chain(cell: &Option<Cell>) -> String {
    match cell {
        Some(Cell::Chain(name)) => name.clone(),
        _ => "all chains".to_owned(),
    }
}

/// Returns the values of each chain over time.
pub(super) fn by_chain(found: &UsageSeries, value: fn(&Metrics) -> u64) -> Vec<Series> {
    let series = |(cell, part): (&Option<Cell>, &Vec<Metrics>)| Series {
        name: chain(cell),
        values: part.iter().map(value).collect(),
    };
    found.parts.iter().map(series).collect()
}

/// Returns the errors of each chain, the chain with the most requests first.
pub(super) fn strips(found: &UsageSeries, axis: &TimeAxis) -> Vec<ErrorStrip> {
    let sums = |part: &[Metrics]| {
        let mut sums = Metrics::default();
        part.iter().for_each(|metrics| sums.add(metrics));
        sums
    };
    let mut chains: Vec<_> = found.parts.iter().map(|(cell, part)| (chain(cell), part, sums(part))).collect();
    chains.retain(|(.., sums)| sums.requests > 0);
    chains.sort_by(|(one, _, of_one), (other, _, of_other)| {
        of_other.requests.cmp(&of_one.requests).then_with(|| one.cmp(other))
    });
    let strip = |(chain, part, sums): (String, &Vec<Metrics>, Metrics)| {
        let cells = part.iter().enumerate().map(|(number, metrics)| {
            let words = format!(
                "{}: {} of {} failed",
                axis.name(number),
                grouped(metrics.errors),
                grouped(metrics.requests)
            );
            (HeatStep::of(metrics.errors, metrics.requests), words)
        });
        let noun = if sums.errors == 1 { "error" } else { "errors" };
        let step = if found.step == Group::Hour { "hours" } else { "days" };
        let sentence = format!("{}: {} {noun} in {} {step}", chain, grouped(sums.errors), part.len());
        ErrorStrip {
            heat: Heat::of(sentence, cells.collect()),
            errors: grouped(sums.errors),
            share: share(sums.errors, sums.requests),
            chain,
        }
    };
    chains.into_iter().map(strip).collect()
}
