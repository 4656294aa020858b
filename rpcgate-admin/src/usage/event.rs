//! Single events, as they were recorded.

use super::method;
use rpcgate_core::backend::usage_sink::{Outcome, Phase};
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::journal::{Event, EventLine, Reader};
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::tally::Transport;
use std::time::Duration;

/// The most events that are answered when the last ones of a key are asked for.
pub const MOST_LAST: u64 = 1_000;

/// One set of calls, or a part of a stream's life, as it was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredEvent {
    /// What part of a life it tells.
    pub phase: Phase,
    /// The request.
    pub request: RequestId,
    /// Whose key.
    pub key: KeyId,
    /// The key's project.
    pub project: ProjectId,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The tenant's tier at the time.
    pub tier: Tier,
    /// The price of a Compute Unit at the time.
    pub price: Price,
    /// The chain's path name.
    pub chain: String,
    /// How it came.
    pub transport: Transport,
    /// When it came.
    pub arrival: Time,
    /// From its arrival to its answer, in whole microseconds.
    pub latency: Duration,
    /// As how many requests it was counted in the plan windows.
    pub windowed: u32,
    /// Its calls.
    pub lines: Vec<StoredLine>,
}

/// One call, or several of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredLine {
    /// The metered method, as it is [shown](method::shown).
    pub method: String,
    /// Compute Units charged.
    pub cu: u32,
    /// The HTTP status the call would have had alone.
    pub status: u16,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether no node was asked for it.
    pub cached: bool,
    /// How many calls it stands for.
    pub calls: u32,
    /// Its part of the request's body, in bytes.
    pub bytes_in: u32,
    /// Its part of the answer's body, in bytes.
    pub bytes_out: u32,
}

impl StoredEvent {
    /// What `reader` has read last; `None` if `event` is not from it.
    pub(super) fn read(reader: &Reader, event: &Event) -> Option<Self> {
        let party = reader.party(event.party)?;
        Some(StoredEvent {
            phase: event.phase,
            request: event.request,
            key: party.key,
            project: party.project,
            tenant: party.tenant,
            tier: party.tier,
            price: party.price,
            chain: reader.chain(event.chain)?.to_owned(),
            transport: event.transport,
            arrival: event.arrival,
            latency: event.latency,
            windowed: event.windowed,
            lines: reader.lines().iter().map(|line| StoredLine::read(reader, line)).collect::<Option<_>>()?,
        })
    }
}

impl StoredLine {
    fn read(reader: &Reader, line: &EventLine) -> Option<Self> {
        Some(StoredLine {
            method: method::shown(reader.method(line.method)?).into_owned(),
            cu: line.cu,
            status: line.status,
            outcome: line.outcome,
            cached: line.cached,
            calls: line.calls,
            bytes_in: line.bytes_in,
            bytes_out: line.bytes_out,
        })
    }
}
