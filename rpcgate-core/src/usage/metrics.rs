//! The usage counters, listed once: [`usage_metrics!`](crate::usage_metrics).

use crate::backend::usage_sink::Outcome;

/// Passes the list of usage counters to another macro. [`Metrics`](crate::usage::Metrics), the database rows, the API's
/// JSON and the CSV columns are derived from it, so a new counter needs one line here and a migration.
///
/// `shown` are the counters in answers, in order, with their texts in the API's document. Of `latency`, answers show
/// only the quotient, [`avg_latency_ms`](crate::usage::Metrics::avg_latency_ms).
///
/// ```
/// macro_rules! names {
///     (
///         shown { $($(#[$text:meta])* $shown:ident,)* }
///         latency { $($(#[$more:meta])* $latency:ident,)* }
///     ) => {
///         [$(stringify!($shown),)* $(stringify!($latency),)*]
///     };
/// }
/// let names = rpcgate_core::usage_metrics!(names);
/// assert_eq!(names, rpcgate_core::usage::Metrics::NAMES);
/// ```
#[macro_export]
macro_rules! usage_metrics {
    ($then:ident) => {
        $then! {
            shown {
                /// Calls.
                requests,
                /// Calls that were charged.
                billed_requests,
                /// Compute Units charged.
                billable_units,
                /// Calls not answered with success.
                errors,
                /// Calls that the gateway refused or could not serve.
                rejected,
                /// Calls answered without asking a node.
                cache_hits,
                /// Bytes of request bodies.
                request_bytes,
                /// Bytes of answer bodies.
                response_bytes,
                /// WebSocket streams opened.
                ws_connections,
                /// Handshakes of streams refused.
                ws_refused,
                /// Messages pushed on streams.
                ws_messages,
            }
            latency {
                /// The sum of the latencies of answered calls, in microseconds.
                latency_us,
                /// The number of these latencies.
                latency_count,
            }
        }
    };
}

macro_rules! metrics {
    (
        shown { $($(#[$text:meta])* $shown:ident,)* }
        latency { $($(#[$more:meta])* $latency:ident,)* }
    ) => {
        /// The usage counters. All except the latency are shown unchanged.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Metrics {
            $($(#[$text])* pub $shown: u64,)*
            $($(#[$more])* pub $latency: u64,)*
        }

        impl Metrics {
            /// The names, in list order.
            pub const NAMES: [&str; Self::COUNT] = [$(stringify!($shown),)* $(stringify!($latency),)*];

            /// The number of counters.
            pub const COUNT: usize = Self::SHOWN + [$(stringify!($latency)),*].len();

            /// The number of counters that are shown unchanged. They come first.
            pub const SHOWN: usize = [$(stringify!($shown)),*].len();

            /// Returns the numbers, in list order.
            pub const fn values(&self) -> [u64; Self::COUNT] {
                [$(self.$shown,)* $(self.$latency,)*]
            }

            /// Creates metrics from these numbers, in list order.
            pub const fn of(values: [u64; Self::COUNT]) -> Self {
                let [$($shown,)* $($latency,)*] = values;
                Metrics { $($shown,)* $($latency,)* }
            }
        }
    };
}

usage_metrics!(metrics);

impl Metrics {
    /// Adds `other`.
    pub fn add(&mut self, other: &Metrics) {
        let mut sums = self.values();
        for (sum, value) in sums.iter_mut().zip(other.values()) {
            *sum = sum.saturating_add(value);
        }
        *self = Self::of(sums);
    }

    /// Returns the average latency in milliseconds of calls that a node or the cache answered; 0 without any.
    pub fn avg_latency_ms(&self) -> f64 {
        if self.latency_count == 0 {
            0.0
        } else {
            self.latency_us as f64 / self.latency_count as f64 / 1_000.0
        }
    }

    /// Reports whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts `calls` calls with the same outcome that are charged `cu` in total.
    pub(super) const fn count(&mut self, calls: u64, cu: u64, outcome: Outcome, cached: bool) {
        self.requests = self.requests.saturating_add(calls);
        self.bill(calls, cu);
        self.judge(calls, outcome, cached);
    }

    pub(super) const fn bill(&mut self, calls: u64, cu: u64) {
        if cu > 0 {
            self.billed_requests = self.billed_requests.saturating_add(calls);
            self.billable_units = self.billable_units.saturating_add(cu);
        }
    }

    pub(super) const fn judge(&mut self, calls: u64, outcome: Outcome, cached: bool) {
        if !matches!(outcome, Outcome::Answered) {
            self.errors = self.errors.saturating_add(calls);
        }
        if matches!(outcome, Outcome::Refused | Outcome::Failed) {
            self.rejected = self.rejected.saturating_add(calls);
        }
        if cached && has_answer(outcome) {
            self.cache_hits = self.cache_hits.saturating_add(calls);
        }
    }

    pub(super) fn carry(&mut self, bytes_in: u32, bytes_out: u32) {
        self.request_bytes = self.request_bytes.saturating_add(bytes_in.into());
        self.response_bytes = self.response_bytes.saturating_add(bytes_out.into());
    }

    /// Counts the latency of `calls` calls, if their outcome counts.
    pub(super) const fn time(&mut self, calls: u64, outcome: Outcome, latency_us: u64) {
        if has_answer(outcome) {
            self.latency_us = self.latency_us.saturating_add(latency_us.saturating_mul(calls));
            self.latency_count = self.latency_count.saturating_add(calls);
        }
    }
}

const fn has_answer(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Answered | Outcome::NodeError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_in_the_order_of_the_fields() {
        let numbers: [u64; Metrics::COUNT] = std::array::from_fn(|n| n as u64 + 1);
        let metrics = Metrics::of(numbers);
        assert_eq!((metrics.requests, metrics.ws_connections, metrics.latency_count), (1, 9, 13));
        assert_eq!(metrics.values(), numbers);
        let mut twice = metrics;
        twice.add(&metrics);
        assert_eq!(twice.values(), numbers.map(|n| 2 * n));
    }

    // Shows (Usage).
    #[test]
    fn without_latencies_their_mean_is_zero() {
        assert_eq!(Metrics::default().avg_latency_ms(), 0.0);
        let some = Metrics { latency_us: 4_500, latency_count: 3, ..Default::default() };
        assert_eq!(some.avg_latency_ms(), 1.5);
    }

    // Shows (Usage): Usage counts by outcome; billed calls cost at least 1 CU; the mean latency is over answers, and 0
    // without any.
    #[test]
    fn each_outcome_counts_as_specified() {
        let counted = |outcome, cached| {
            let mut metrics = Metrics::default();
            metrics.count(2, 10, outcome, cached);
            (metrics.requests, metrics.errors, metrics.rejected, metrics.cache_hits)
        };
        assert_eq!(counted(Outcome::Answered, false), (2, 0, 0, 0));
        assert_eq!(counted(Outcome::Answered, true), (2, 0, 0, 2));
        assert_eq!(counted(Outcome::NodeError, true), (2, 2, 0, 2));
        assert_eq!(counted(Outcome::Refused, true), (2, 2, 2, 0));
        assert_eq!(counted(Outcome::Failed, false), (2, 2, 2, 0));
        assert_eq!(counted(Outcome::Abandoned, false), (2, 2, 0, 0));
    }
}
