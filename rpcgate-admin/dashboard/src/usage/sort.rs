//! The columns of numbers that sort the rows.

use super::super::chart::number::{grouped, millis};
use rpcgate_core::usage::Metrics;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UsageSort {
    Requests,
    Billed,
    Units,
    Errors,
    Rejected,
    CacheHits,
    In,
    Out,
    Latency,
}

impl UsageSort {
    pub(super) const ALL: [UsageSort; 9] = [
        UsageSort::Requests,
        UsageSort::Billed,
        UsageSort::Units,
        UsageSort::Errors,
        UsageSort::Rejected,
        UsageSort::CacheHits,
        UsageSort::In,
        UsageSort::Out,
        UsageSort::Latency,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            UsageSort::Requests => "requests",
            UsageSort::Billed => "billed",
            UsageSort::Units => "cu",
            UsageSort::Errors => "errors",
            UsageSort::Rejected => "rejected",
            UsageSort::CacheHits => "cache",
            UsageSort::In => "in",
            UsageSort::Out => "out",
            UsageSort::Latency => "latency",
        }
    }

    /// Returns the heading, and the classes of the cells.
    pub(super) const fn head(self) -> (&'static str, &'static str) {
        match self {
            UsageSort::Requests => ("Requests", "num"),
            UsageSort::Billed => ("Billed", "num p3"),
            UsageSort::Units => ("CU", "num"),
            UsageSort::Errors => ("Errors", "num"),
            UsageSort::Rejected => ("Rejected", "num p2"),
            UsageSort::CacheHits => ("Cache hits", "num p2"),
            UsageSort::In => ("In", "num p3"),
            UsageSort::Out => ("Out", "num p3"),
            UsageSort::Latency => ("Latency", "num p2"),
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        UsageSort::ALL.into_iter().find(|sort| sort.name() == name)
    }

    /// Returns the value to sort by, in microseconds for latencies.
    pub(super) fn value(self, metrics: &Metrics) -> u64 {
        match self {
            UsageSort::Requests => metrics.requests,
            UsageSort::Billed => metrics.billed_requests,
            UsageSort::Units => metrics.billable_units,
            UsageSort::Errors => metrics.errors,
            UsageSort::Rejected => metrics.rejected,
            UsageSort::CacheHits => metrics.cache_hits,
            UsageSort::In => metrics.request_bytes,
            UsageSort::Out => metrics.response_bytes,
            UsageSort::Latency => metrics.latency_us.checked_div(metrics.latency_count).unwrap_or_default(),
        }
    }

    pub(super) fn text(self, metrics: &Metrics) -> String {
        match self {
            UsageSort::In | UsageSort::Out => byte_text(self.value(metrics)),
            UsageSort::Latency if metrics.latency_count == 0 => "–".to_owned(),
            UsageSort::Latency => millis(metrics.avg_latency_ms()),
            _ => grouped(self.value(metrics)),
        }
    }
}

/// Formats bytes in units of 1,000: `1.5 MB`.
fn byte_text(count: u64) -> String {
    let (unit, name) = match count {
        0..1_000 => return format!("{count} B"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => (1e9, "GB"),
        _ => (1e12, "TB"),
    };
    format!("{:.1} {name}", count as f64 / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (count, text) in
            [(999, "999 B"), (1_500, "1.5 kB"), (28_000_000, "28.0 MB"), (3_200_000_000, "3.2 GB")]
        {
            assert_eq!(byte_text(count), text);
        }
        let metrics = Metrics { latency_us: 3_000_000, latency_count: 2, ..Metrics::default() };
        assert_eq!(
            (UsageSort::Latency.text(&metrics), UsageSort::Latency.value(&metrics)),
            ("1500 ms".into(), 1_500_000)
        );
        assert_eq!(UsageSort::Latency.text(&Metrics::default()), "–");
        for sort in UsageSort::ALL {
            assert_eq!(UsageSort::parse(sort.name()), Some(sort));
        }
    }
}
