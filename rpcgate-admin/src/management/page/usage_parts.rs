//! What the overview and the usage explorer draw alike.

use super::chart::axis::{BucketKind, TimeAxis};
use super::chart::line::LineSeries;
use super::chart::number::millis;
use crate::management::action::usage::series::UsageSeries;
use rpcgate_core::usage::{Group, Metrics};

/// The horizontal axis of charts of this usage.
pub(super) fn axis_of(found: &UsageSeries) -> TimeAxis {
    let bucket = if found.step == Group::Day { BucketKind::Day } else { BucketKind::Hour };
    TimeAxis { starts: found.starts.clone(), bucket, is_running: found.is_running }
}

/// The mean latency in milliseconds, if any call was answered.
pub(super) fn mean(metrics: &Metrics) -> Option<f64> {
    (metrics.latency_count > 0).then(|| metrics.avg_latency_ms())
}

/// The mean latency over time, with the mean of all of it in the legend.
pub(super) fn latency_of(name: &str, over_time: &[Metrics]) -> LineSeries {
    let mut sums = Metrics::default();
    over_time.iter().for_each(|metrics| sums.add(metrics));
    LineSeries {
        name: name.to_owned(),
        values: over_time.iter().map(mean).collect(),
        summary: mean(&sums).map_or_else(|| "–".to_owned(), millis),
    }
}
