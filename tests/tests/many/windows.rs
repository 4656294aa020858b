use crate::cluster::{Heard, rush, times_alone};
use crate::*;
use std::collections::BTreeMap;

/// A plan, the name of its window, its limits, and the function that numbers the windows.
type WindowSpan = (Tier, &'static str, &'static str, fn(Time) -> u64);

/// The plans. Each uses up one window: its limit is 100, and the others are out of reach.
const SPANS: [WindowSpan; 3] = [
    (Tier::Premium, "minute", "per_minute = 100\nper_hour = 1000000\nper_day = 1000000", Time::minute),
    (Tier::Standard, "hour", "per_minute = 1000000\nper_hour = 100\nper_day = 1000000", Time::hour),
    (Tier::Free, "day", "per_minute = 1000000\nper_hour = 1000000\nper_day = 100", Time::day),
];

const LIMIT: usize = 100;

async fn admit_exactly(gateways: usize) {
    let node = Node::evm().await;
    let setup = SPANS.iter().fold(Setup::of("eth", &node.url()), |setup, (tier, _, figures, _)| {
        setup.set(&format!("plans.{}", tier.name()), figures)
    });
    // All servers stay reachable: everything must be counted together, even on a slow machine.
    let cluster = Cluster::new(gateways, setup.set("redis", "timeout = \"5s\"")).await;
    let processes = cluster.start().await;
    let addrs: Vec<_> = processes.iter().map(Process::addr).collect();
    // The second gateway may start while the first one is still seeding the counters.
    let before: Vec<_> = processes.iter().map(times_alone).collect();
    for round in 0..3 {
        for (tier, span, _, number) in SPANS {
            let key = cluster.key(tier).await;
            // Five times the limit.
            let heard =
                rush(&addrs, &key.text, 8, 5 * LIMIT / 8 / gateways + 1, ("eth", "eth_chainId")).await;
            exact(&heard, span, number, &format!("round {round}, the {span}, {gateways} gateways"));
        }
    }
    assert_eq!(
        processes.iter().map(times_alone).collect::<Vec<_>>(),
        before,
        "all of it was counted together"
    );
}

/// Checks that in one window exactly the limit was served, and that each answer shows a different rest.
fn exact(heard: &[Heard], span: &str, number: fn(Time) -> u64, what: &str) {
    let mut spans: BTreeMap<u64, Vec<&Heard>> = BTreeMap::new();
    for one in heard {
        spans.entry(number(one.arrival)).or_default().push(one);
    }
    for came in spans.values() {
        let served: Vec<_> = came.iter().filter(|one| one.reply.status == 200).collect();
        let refused = came.iter().filter(|one| one.reply.status == 429).count();
        assert_eq!(served.len() + refused, came.len(), "{what}: nothing else happens");
        assert_eq!(served.len(), came.len().min(LIMIT), "{what}, of {}", came.len());
        let mut rests: Vec<_> =
            served.iter().map(|one| one.reply.number(&format!("x-ratelimit-remaining-{span}"))).collect();
        rests.sort_unstable_by(|a, b| b.cmp(a));
        let expected: Vec<u64> = (0..served.len()).map(|taken| (LIMIT - 1 - taken) as u64).collect();
        assert_eq!(rests, expected, "{what}");
    }
}

// Shows (Limits, budget and quota): Two and four gateways with one Redis admit exactly as many requests as one, in
// minute, hour and day (promise 23).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn two_gateways_admit_as_many_requests_as_one() {
    admit_exactly(2).await;
}

// Shows (Limits, budget and quota).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn four_gateways_admit_as_many_requests_as_one() {
    admit_exactly(4).await;
}
