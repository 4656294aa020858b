//! Rollups: hourly sums.

use super::metrics::Metrics;
use crate::caller::{KeyId, ProjectId, TenantId};
use crate::transport::Transport;

/// The counters of one combination of names in one UTC hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rollup {
    /// The number of the UTC hour of arrival, counted from the epoch.
    pub hour: u64,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The key's project.
    pub project: ProjectId,
    /// The key.
    pub key: KeyId,
    /// The chain's path name.
    pub chain: String,
    /// The method as [shown](crate::backend::usage_sink::shown_method). Rows of streams have their own methods.
    pub method: String,
    /// The transport of the calls.
    pub transport: Transport,
    /// The HTTP status that each call would have had alone.
    pub status: u16,
    /// The kind of events that are counted.
    pub stream: Stream,
    /// The counters.
    pub metrics: Metrics,
    /// The number of requests that the plan windows counted for these calls.
    pub window_requests: u64,
}

/// The kind of counted events. It is independent of the method's name, which clients choose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Stream {
    /// Calls.
    Call,
    /// Handshakes.
    Connect,
    /// Messages pushed to clients.
    Message,
    /// Ends, with the totals of each stream. They repeat counts of other rows and are never added to them.
    Disconnect,
}

impl Stream {
    /// All kinds, each at the index that is its [`code`](Stream::code).
    pub const ALL: [Stream; 4] = [Stream::Call, Stream::Connect, Stream::Message, Stream::Disconnect];

    /// Returns its number in the database.
    pub const fn code(self) -> u8 {
        match self {
            Stream::Call => 0,
            Stream::Connect => 1,
            Stream::Message => 2,
            Stream::Disconnect => 3,
        }
    }

    /// Returns the method of stream records; `None` for calls, which have their own methods.
    pub const fn method(self) -> Option<&'static str> {
        match self {
            Stream::Call => None,
            Stream::Connect => Some("WS:connect"),
            Stream::Message => Some("WS:message"),
            Stream::Disconnect => Some("WS:disconnect"),
        }
    }
}

/// Sorts rollups in storage order and combines those with the same names.
pub fn join(rollups: &mut Vec<Rollup>) {
    rollups.sort_unstable_by(|a, b| names(a).cmp(&names(b)));
    rollups.dedup_by(|next, previous| {
        let is_same = names(next) == names(previous);
        if is_same {
            previous.metrics.add(&next.metrics);
            previous.window_requests = previous.window_requests.saturating_add(next.window_requests);
        }
        is_same
    });
}

fn names(rollup: &Rollup) -> impl Ord + '_ {
    let Rollup { hour, tenant, project, key, chain, method, transport, status, stream, .. } = rollup;
    (hour, tenant, project, key, chain, method, transport, status, stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_indexed_by_their_code() {
        for (place, stream) in Stream::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(stream.code()), place);
        }
    }
}
