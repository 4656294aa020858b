//! Explanations of recent requests for the management side.

use rpcgate_config::Config;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::RequestId;
use rpcgate_core::journal::GatewayId;
use rpcgate_core::node_try::{NodeTry, TryEnd};
use rpcgate_core::recent::{CacheUse, RecentCall, RecentRequest, RecentRequests, RequestFacts};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::window::Allowance;
use rpcgate_layers::nodes::Pools;
use rpcgate_store::{ExplainedCall, ExplainedTry, Explanation, QuotaShown, RefusalShown, WindowUse};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Creates the memory of recent requests, if the configuration enables it. Must run inside a tokio runtime.
pub(crate) fn memory(config: &Config) -> Option<Arc<RecentRequests>> {
    let limit = usize::try_from(config.gateway.explain_requests).unwrap_or(usize::MAX);
    let threads = Handle::current().metrics().num_workers();
    (limit > 0).then(|| Arc::new(RecentRequests::new(limit, threads)))
}

/// Explains a request that `gateway` served. The names of nodes are looked up in `pools`.
pub(crate) fn explanation(gateway: GatewayId, request: &RecentRequest, pools: &Pools) -> Explanation {
    let RecentRequest { facts, calls, tries } = request;
    Explanation {
        gateway: RequestId(gateway.0).to_string(),
        key: facts.key.to_string(),
        project: facts.project.to_string(),
        tenant: facts.tenant.to_string(),
        plan: facts.tier.name().to_owned(),
        is_cooled: facts.is_cooled,
        transport: facts.transport.name().to_owned(),
        chain: facts.chain.to_string(),
        is_batch: facts.is_batch,
        is_lasting: facts.is_lasting,
        arrived: facts.arrival.micros(),
        took: micros(facts.latency),
        counted: facts.counted,
        windows: windows(facts),
        quota: facts.quota.map(|quota| QuotaShown {
            limit: quota.ceiling,
            before: quota.before,
            reserved: quota.reserved,
            charged: quota.charged,
        }),
        refusal: facts.refused.map(refusal),
        calls: calls.iter().map(call).collect(),
        tries: tries.iter().map(|one| node_try(one, facts, calls.len(), pools)).collect(),
        tries_left_out: facts.tries_left_out,
    }
}

fn windows(facts: &RequestFacts) -> Vec<WindowUse> {
    let counted = u64::from(facts.counted);
    let window = |Allowance { limit, remaining, reset }: Allowance| {
        let after = limit.saturating_sub(remaining);
        WindowUse { limit, before: after.saturating_sub(counted), after, reset }
    };
    let windows = facts.windows.map(|windows| [windows.minute, windows.hour, windows.day].map(window));
    windows.map(Vec::from).unwrap_or_default()
}

fn refusal(refusal: Refusal) -> RefusalShown {
    RefusalShown {
        status: refusal.status().as_u16(),
        message: refusal.message().to_owned(),
        retry_after: refusal.retry_after(),
    }
}

fn call(RecentCall { method, facts }: &RecentCall) -> ExplainedCall {
    let outcome = match facts.outcome {
        Outcome::Answered => "answered",
        Outcome::NodeError => "node_error",
        Outcome::Refused => "refused",
        Outcome::Failed => "failed",
        Outcome::Abandoned => "abandoned",
    };
    let cache = match facts.cache {
        CacheUse::Hit => "hit",
        CacheUse::Joined => "joined",
        CacheUse::Miss => "miss",
        CacheUse::Uncacheable => "uncacheable",
        CacheUse::NotAsked => "not_asked",
    };
    ExplainedCall {
        method: method.clone(),
        weight: facts.weight,
        cu: facts.cu,
        status: facts.status,
        outcome: outcome.to_owned(),
        cache: cache.to_owned(),
        refusal: facts.refusal.map(refusal),
        failure: facts.fault.map(|fault| fault.to_string()),
    }
}

fn node_try(one: &NodeTry, facts: &RequestFacts, calls: usize, pools: &Pools) -> ExplainedTry {
    let (end, failure) = match one.end {
        TryEnd::Running => ("running", None),
        TryEnd::Answered => ("answered", None),
        TryEnd::IdleClosed => ("idle_closed", None),
        TryEnd::Stopped => ("stopped", None),
        TryEnd::Failed(fault) => ("failed", Some(fault.to_string())),
    };
    // In a newer pool the same index may belong to another node.
    let pool = pools.get(facts.chain).filter(|pool| pool.number() == one.pool);
    let address = pool.and_then(|pool| pool.nodes().nth(one.node.into()).map(|node| node.name.to_string()));
    ExplainedTry {
        calls: (0..calls).filter(|index| one.calls.has(*index)).map(|index| index as u32).collect(),
        node: u32::from(one.node) + 1,
        address,
        choice: one.choice.name().to_owned(),
        end: end.to_owned(),
        failure,
        began: one.began.map(|began| micros(began.saturating_sub(facts.started))),
        took: one.took.map(micros),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::Input;
    use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
    use rpcgate_core::chain::ChainName;
    use rpcgate_core::clock::{Clock, SystemClock, Time};
    use rpcgate_core::fault::{Cause, Fault};
    use rpcgate_core::node_try::NodeChoice;
    use rpcgate_core::node_try::NodeTries;
    use rpcgate_core::plan::{Plan, Tier};
    use rpcgate_core::recent::{CallFacts, QuotaUse};
    use rpcgate_core::tally::Transport;
    use rpcgate_core::window::Windows;
    use rpcgate_layers::nodes::{NodeDrains, NodeSpendings};
    use rpcgate_process::node_pool;

    const MILLI: Duration = Duration::from_millis(1);

    fn pools() -> (Pools, u32) {
        let text = "[chains.eth]\nnodes = [\"http://a/\", \"http://user:pass@b/\"]\n";
        let config =
            Config::read(&Input { chains: &["eth"], file: Some(("f", text)), ..Input::default() }).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let facts = rpcgate_chains::by_path("eth").unwrap();
        let pool = node_pool(
            facts.facts(),
            &config.chains["eth"],
            &clock,
            &NodeDrains::default(),
            &NodeSpendings::default(),
        )
        .unwrap()
        .unwrap();
        let number = pool.number();
        ([pool].into_iter().collect(), number)
    }

    fn request(pool: u32) -> RecentRequest {
        let mut tries = NodeTries::default();
        tries.set_calls([0, 2]);
        tries.push((pool, 0), NodeChoice::Turn);
        tries.begin(12 * MILLI);
        tries.end(TryEnd::Failed(Fault::sent(Cause::Timeout)), 14 * MILLI);
        tries.push((pool, 1), NodeChoice::OnlyHealthy);
        tries.begin(14 * MILLI);
        tries.arrive(17 * MILLI);
        tries.accept();
        let answered = CallFacts {
            weight: 15,
            cu: 15,
            status: 200,
            outcome: Outcome::Answered,
            cache: CacheUse::Miss,
            refusal: None,
            fault: None,
        };
        let refused = CallFacts {
            cu: 0,
            outcome: Outcome::Refused,
            cache: CacheUse::NotAsked,
            refusal: Some(Refusal::Paced { retry_after: 9 }),
            ..answered
        };
        let call = |facts| RecentCall { method: "eth_call".into(), facts };
        RecentRequest {
            facts: RequestFacts {
                request: RequestId(1),
                key: KeyId(2),
                project: ProjectId(3),
                tenant: TenantId(4),
                tier: Tier::Free,
                transport: Transport::Http,
                chain: ChainName::new("eth"),
                is_batch: true,
                is_lasting: false,
                is_cooled: false,
                arrival: Time::from_secs(7),
                started: 10 * MILLI,
                latency: 8 * MILLI,
                windows: Some(Windows::of(&Plan::of(Tier::Free), [4, 5, 6], Time::from_secs(7))),
                counted: 1,
                quota: Some(QuotaUse { ceiling: 100, before: 20, reserved: 45, charged: 30 }),
                refused: None,
                tries_left_out: 0,
            },
            calls: vec![call(answered), call(refused), call(answered)],
            tries: tries.as_slice().to_vec(),
        }
    }

    #[test]
    fn windows_calls_and_tries_are_described_in_text() {
        let (pools, number) = pools();
        let said = explanation(GatewayId(9), &request(number), &pools);
        let windows: Vec<_> =
            said.windows.iter().map(|window| (window.limit, window.before, window.after)).collect();
        assert_eq!(windows, [(10, 3, 4), (500, 4, 5), (10_000, 5, 6)]);
        let [first, second] = &said.tries[..] else { panic!("{said:?}") };
        assert_eq!(
            (first.calls.as_slice(), first.node, first.began, first.took),
            (&[0, 2][..], 1, Some(2_000), Some(2_000))
        );
        assert_eq!((first.end.as_str(), first.failure.as_deref()), ("failed", Some("no answer in time")));
        assert_eq!((second.node, second.end.as_str(), second.took), (2, "answered", Some(3_000)));
        let refusal = said.calls[1].refusal.as_ref().unwrap();
        assert_eq!((refusal.status, refusal.retry_after), (429, Some(9)));
        assert_eq!(said.calls[1].cache, "not_asked");
    }

    #[test]
    fn the_address_of_a_node_has_no_secret_and_is_not_that_of_another_pool() {
        let (pools, number) = pools();
        let said = explanation(GatewayId(9), &request(number), &pools);
        let shown = said.tries[1].address.as_deref().unwrap();
        assert!(shown.contains("@b") || shown.contains("//b"), "{shown}");
        assert!(!shown.contains("pass"), "{shown}");
        let said = explanation(GatewayId(9), &request(number + 1), &pools);
        assert!(said.tries.iter().all(|one| one.address.is_none()), "{said:?}");
    }
}
