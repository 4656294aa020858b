//! Sample calls for the tests of logs and traces.

use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_core::recent::{CacheUse, CallFacts, RequestFacts};
use rpcgate_core::tally::Transport;
use std::time::Duration;

/// Returns a request with one HTTP call to the chain eth.
pub(crate) fn request_facts(request: u128, arrival: Time, latency: Duration) -> RequestFacts {
    RequestFacts {
        request: RequestId(request),
        key: KeyId(1),
        project: ProjectId(2),
        tenant: TenantId(3),
        tier: Tier::Free,
        transport: Transport::Http,
        chain: ChainName::new("eth"),
        is_batch: false,
        is_lasting: false,
        is_cooled: false,
        arrival,
        started: Duration::ZERO,
        latency,
        windows: None,
        counted: 1,
        quota: None,
        refused: None,
        tries_left_out: 0,
    }
}

/// Returns a call with this end that missed the cache.
pub(crate) fn call_facts(outcome: Outcome, status: u16) -> CallFacts {
    CallFacts { weight: 15, cu: 15, status, outcome, cache: CacheUse::Miss, refusal: None, fault: None }
}
