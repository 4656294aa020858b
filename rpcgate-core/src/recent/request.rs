//! What is remembered of one request.

use crate::backend::usage_sink::Outcome;
use crate::caller::{KeyId, ProjectId, RequestId, TenantId};
use crate::chain::ChainName;
use crate::clock::Time;
use crate::fault::Fault;
use crate::node_try::NodeTry;
use crate::plan::Tier;
use crate::refusal::Refusal;
use crate::transport::Transport;
use crate::window::Windows;
use std::time::Duration;

/// A request that is remembered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecentRequest {
    /// What holds for all of it.
    pub facts: RequestFacts,
    /// Its calls, in order.
    pub calls: Vec<RecentCall>,
    /// The tries of its calls at nodes.
    pub tries: Vec<NodeTry>,
}

/// A call of a request that is remembered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecentCall {
    /// The metered method.
    pub method: String,
    /// What became of it.
    pub facts: CallFacts,
}

/// What holds for all calls of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestFacts {
    /// The request.
    pub request: RequestId,
    /// The key of the caller.
    pub key: KeyId,
    /// The key's project.
    pub project: ProjectId,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The tenant's tier at the time.
    pub tier: Tier,
    /// The transport of the request.
    pub transport: Transport,
    /// The chain.
    pub chain: ChainName,
    /// Whether the request was an array.
    pub is_batch: bool,
    /// Whether it began something that lasts: a stream, or a long call. Its times and tries are then those of the begin.
    pub is_lasting: bool,
    /// Whether the caller's limits were scaled down.
    pub is_cooled: bool,
    /// The arrival of the request.
    pub arrival: Time,
    /// The arrival by [`Clock::elapsed`](crate::clock::Clock::elapsed), by which tries are measured.
    pub started: Duration,
    /// The time from its arrival to its answer.
    pub latency: Duration,
    /// The plan windows after the request was counted in them or refused by them; `None` if it did not come so far.
    pub windows: Option<Windows>,
    /// How much the windows counted.
    pub counted: u32,
    /// The project's quota; `None` if the request did not come so far, or costs nothing.
    pub quota: Option<QuotaUse>,
    /// The reason why the request was refused as a whole.
    pub refused: Option<Refusal>,
    /// How many tries at nodes are not among those that are kept.
    pub tries_left_out: u32,
}

/// The Compute Units of a project around one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaUse {
    /// The units that the project may use in 24 hours.
    pub ceiling: u64,
    /// Those that it had used before, as far as the gateway knew.
    pub before: u64,
    /// Those that were reserved for the request.
    pub reserved: u64,
    /// Those that it was charged; the others were returned.
    pub charged: u64,
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallFacts {
    /// The weight of its method in Compute Units.
    pub weight: u32,
    /// Compute Units charged.
    pub cu: u32,
    /// The HTTP status that the call would have had alone.
    pub status: u16,
    /// Its outcome.
    pub outcome: Outcome,
    /// The part of the cache in its answer.
    pub cache: CacheUse,
    /// Why it was refused, if it was.
    pub refusal: Option<Refusal>,
    /// Why no node answered it, if none did.
    pub fault: Option<Fault>,
}

/// The part of the cache in the answer to a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CacheUse {
    /// The answer was stored.
    Hit,
    /// The same call was in flight already, and its answer served both.
    Joined,
    /// No answer was stored.
    Miss,
    /// Answers to the call are never stored.
    Uncacheable,
    /// The call did not come so far: it was refused before, or answered by the gateway itself.
    NotAsked,
}
