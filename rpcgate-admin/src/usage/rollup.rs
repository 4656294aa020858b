//! Rollups: the sums of an hour.

use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::tally::Transport;

/// The counters of one combination of names in one UTC hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rollup {
    /// Number of the UTC hour of arrival, counted from the epoch.
    pub hour: u64,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The key's project.
    pub project: ProjectId,
    /// Whose key.
    pub key: KeyId,
    /// The chain's path name.
    pub chain: String,
    /// The method as it is shown: see [`method::shown`](super::method::shown). A stream's own rows have theirs.
    pub method: String,
    /// How the calls came.
    pub transport: Transport,
    /// The HTTP status each of the calls would have had alone.
    pub status: u16,
    /// Whether these are calls, or the bookkeeping of streams.
    pub stream: Stream,
    /// The counters.
    pub metrics: Metrics,
    /// As how many requests the calls were counted in the plan windows.
    pub window_requests: u64,
}

/// What a rollup counts: calls, or a part of the life of WebSocket streams. It is no matter of the method's name, since
/// a client may call a method whatever it likes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Stream {
    /// Calls.
    Call,
    /// Handshakes.
    Connect,
    /// What was pushed to clients.
    Message,
    /// Ends, with the totals of each stream. They repeat what is counted elsewhere and are never added to it.
    Disconnect,
}

impl Stream {
    /// All of them, each at the place that is its [`code`](Stream::code).
    pub const ALL: [Stream; 4] = [Stream::Call, Stream::Connect, Stream::Message, Stream::Disconnect];

    /// The number it is stored as.
    pub const fn code(self) -> u8 {
        match self {
            Stream::Call => 0,
            Stream::Connect => 1,
            Stream::Message => 2,
            Stream::Disconnect => 3,
        }
    }

    /// The method under which the bookkeeping of streams is shown (specification, "Meaning of counters"); calls have
    /// one of their own.
    pub const fn method(self) -> Option<&'static str> {
        match self {
            Stream::Call => None,
            Stream::Connect => Some("WS:connect"),
            Stream::Message => Some("WS:message"),
            Stream::Disconnect => Some("WS:disconnect"),
        }
    }
}

/// The counters of usage (specification, "Meaning of counters"). All but the latency are as they are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Calls.
    pub requests: u64,
    /// Calls charged at least one Compute Unit.
    pub billed_requests: u64,
    /// Compute Units charged.
    pub billable_units: u64,
    /// Calls not answered with success.
    pub errors: u64,
    /// Calls that the gateway refused or could not serve.
    pub rejected: u64,
    /// Calls answered without asking a node for them.
    pub cache_hits: u64,
    /// Bytes of request bodies.
    pub request_bytes: u64,
    /// Bytes of answer bodies.
    pub response_bytes: u64,
    /// Streams opened.
    pub ws_connections: u64,
    /// Handshakes of streams refused.
    pub ws_refused: u64,
    /// Messages pushed on streams.
    pub ws_messages: u64,
    /// The latencies of answered calls added up, in microseconds.
    pub latency_us: u64,
    /// How many latencies those are.
    pub latency_count: u64,
}

impl Metrics {
    /// How many numbers these are.
    pub const COUNT: usize = 13;

    /// The numbers, in the order of the fields.
    pub const fn values(&self) -> [u64; Self::COUNT] {
        [
            self.requests,
            self.billed_requests,
            self.billable_units,
            self.errors,
            self.rejected,
            self.cache_hits,
            self.request_bytes,
            self.response_bytes,
            self.ws_connections,
            self.ws_refused,
            self.ws_messages,
            self.latency_us,
            self.latency_count,
        ]
    }

    /// The metrics with these numbers, in the order of the fields.
    pub const fn of(values: [u64; Self::COUNT]) -> Self {
        let [
            requests,
            billed_requests,
            billable_units,
            errors,
            rejected,
            cache_hits,
            request_bytes,
            response_bytes,
            ws_connections,
            ws_refused,
            ws_messages,
            latency_us,
            latency_count,
        ] = values;
        Metrics {
            requests,
            billed_requests,
            billable_units,
            errors,
            rejected,
            cache_hits,
            request_bytes,
            response_bytes,
            ws_connections,
            ws_refused,
            ws_messages,
            latency_us,
            latency_count,
        }
    }

    /// Adds those of `other`.
    pub fn add(&mut self, other: &Metrics) {
        let mut sums = self.values();
        for (sum, value) in sums.iter_mut().zip(other.values()) {
            *sum = sum.saturating_add(value);
        }
        *self = Self::of(sums);
    }

    /// Mean time from arrival to answer in milliseconds, over calls that a node or the cache answered; 0 without any.
    pub fn avg_latency_ms(&self) -> f64 {
        if self.latency_count == 0 {
            0.0
        } else {
            self.latency_us as f64 / self.latency_count as f64 / 1_000.0
        }
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts `calls` calls, all with that outcome and together charged `cu`.
    pub(super) const fn count(&mut self, calls: u64, cu: u64, outcome: Outcome, cached: bool) {
        self.requests = self.requests.saturating_add(calls);
        self.bill(calls, cu);
        self.judge(calls, outcome, cached);
    }

    /// Counts what calls were charged.
    pub(super) const fn bill(&mut self, calls: u64, cu: u64) {
        if cu > 0 {
            self.billed_requests = self.billed_requests.saturating_add(calls);
            self.billable_units = self.billable_units.saturating_add(cu);
        }
    }

    /// Counts what became of calls.
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

    /// Counts the bytes of bodies.
    pub(super) fn carry(&mut self, bytes_in: u32, bytes_out: u32) {
        self.request_bytes = self.request_bytes.saturating_add(bytes_in.into());
        self.response_bytes = self.response_bytes.saturating_add(bytes_out.into());
    }

    /// Counts the latency of each of `calls` calls, where it is one that counts.
    pub(super) const fn time(&mut self, calls: u64, outcome: Outcome, latency_us: u64) {
        if has_answer(outcome) {
            self.latency_us = self.latency_us.saturating_add(latency_us.saturating_mul(calls));
            self.latency_count = self.latency_count.saturating_add(calls);
        }
    }
}

/// Whether a node or the cache answered.
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

    #[test]
    fn without_latencies_their_mean_is_zero() {
        assert_eq!(Metrics::default().avg_latency_ms(), 0.0);
        let some = Metrics { latency_us: 4_500, latency_count: 3, ..Default::default() };
        assert_eq!(some.avg_latency_ms(), 1.5);
    }

    #[test]
    fn each_outcome_counts_as_the_specification_says() {
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

    #[test]
    fn streams_are_at_the_place_of_their_code() {
        for (place, stream) in Stream::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(stream.code()), place);
        }
    }
}
