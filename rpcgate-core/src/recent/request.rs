//! The stored data of one recent request.

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

/// A recent request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecentRequest {
    /// The data of the whole request.
    pub facts: RequestFacts,
    /// Its calls, in order.
    pub calls: Vec<RecentCall>,
    /// The tries of its calls.
    pub tries: Vec<NodeTry>,
}

/// A call of a recent request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecentCall {
    /// The metered method.
    pub method: String,
    /// The data of the call.
    pub facts: CallFacts,
}

/// The data that all calls of a request share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestFacts {
    /// The id of the request.
    pub request: RequestId,
    /// The key of the caller.
    pub key: KeyId,
    /// The key's project.
    pub project: ProjectId,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The tenant's tier at that time.
    pub tier: Tier,
    /// The transport of the request.
    pub transport: Transport,
    /// The chain.
    pub chain: ChainName,
    /// True if the request was an array.
    pub is_batch: bool,
    /// True if it began a stream or a long call. Its times and tries are then those of the begin.
    pub is_lasting: bool,
    /// True if the caller's limits were scaled down.
    pub is_cooled: bool,
    /// The arrival of the request.
    pub arrival: Time,
    /// The arrival by [`Clock::elapsed`](crate::clock::Clock::elapsed), like the times of tries.
    pub started: Duration,
    /// The time from arrival to answer.
    pub latency: Duration,
    /// The plan windows after the request was counted in them or refused by them; `None` if it did not get that far.
    pub windows: Option<Windows>,
    /// The number of requests that the windows counted.
    pub counted: u32,
    /// The project's quota; `None` if the request did not get that far or costs nothing.
    pub quota: Option<QuotaUse>,
    /// The reason if the whole request was refused.
    pub refused: Option<Refusal>,
    /// The number of tries that were not kept.
    pub tries_left_out: u32,
}

/// The Compute Units of a project around one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaUse {
    /// The units that the project may use in 24 hours.
    pub ceiling: u64,
    /// The units used before, as the gateway knew it.
    pub before: u64,
    /// The units reserved for the request.
    pub reserved: u64,
    /// The charged units. The rest was refunded.
    pub charged: u64,
}

/// The result of a call.
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
    /// The cache's part in the answer.
    pub cache: CacheUse,
    /// The reason of its refusal, if it was refused.
    pub refusal: Option<Refusal>,
    /// The fault, if no node answered.
    pub fault: Option<Fault>,
}

/// The cache's part in the answer to a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CacheUse {
    /// The answer was stored.
    Hit,
    /// An identical call was already in flight, and its answer served both.
    Joined,
    /// No answer was stored.
    Miss,
    /// Answers to the call are never stored.
    Uncacheable,
    /// The call did not reach the cache: it was refused before, or the gateway answered it.
    NotAsked,
}
