//! Gateways with clocks that the test controls. They run in this process because the test cannot move the clock of
//! another one.

use crate::cluster::{all_reports, go_on, in_step};
use crate::*;
use rpcgate_core::caller::ProjectQuota;
use rpcgate_core::clock::ManualClock;
use std::collections::BTreeMap;

const HOUR: Duration = Duration::from_secs(3_600);

// Shows (Limits, budget and quota).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn units_are_free_again_at_every_gateway_24_hours_after_the_hour_of_their_use_began() {
    // So small that nothing is reserved in advance.
    const CEILING: u64 = 1_000;
    const METHODS: [(&str, u64); 4] =
        [("unheard_of", 1), ("eth_getBalance", 5), ("eth_call", 15), ("eth_sendRawTransaction", 20)];
    let seed = TestSeed::new();
    let node = Node::evm().await;
    let mut dice = seed.dice(0);
    let setup = Setup::of("eth", &node.url()).set("plans.enterprise", PLENTY);
    // All servers stay reachable: everything must be counted together, even on a slow machine.
    let cluster = Cluster::new(2, setup.set("redis", "timeout = \"10s\"")).await;
    let clock = Arc::new(ManualClock::at(now()));
    let gateways =
        [cluster.sites[0].within(clock.clone()).await, cluster.sites[1].within(clock.clone()).await];
    let addrs = gateways.each_ref().map(rpcgate_server::Gateway::addr);
    in_step(&cluster, &addrs).await;
    let key = cluster.key(Tier::Enterprise).await;
    let quota = ProjectQuota { cu_per_day: CEILING, has_row: true, ..ProjectQuota::default() };
    cluster.store.put_quota(key.project, &quota, now()).await.unwrap();
    let clients = addrs.map(|addr| key.client(addr));

    // The model: units by the hour of their use.
    let mut hours: BTreeMap<u64, u64> = BTreeMap::new();
    let mut call = async |at: usize, (method, cost): (&str, u64)| {
        let hour = clock.now().hour();
        let used: u64 = hours.range(hour - 23..).map(|(_, units)| units).sum();
        let reply = clients[at].call("eth", method, &format!("[{hour},{used},{at}]")).await;
        let due = if used < CEILING { 0 } else { -32005 };
        assert_eq!((reply.code(), reply.cu()), (due, if due == 0 { cost } else { 0 }), "{used}: {reply:?}");
        *hours.entry(hour).or_default() += reply.cu();
        due == 0
    };
    let mut refused = 0;
    for _ in 0..300 {
        if dice.below(8) == 0 {
            clock.advance(Duration::from_secs(dice.below(3 * 3_600)));
        }
        let at = dice.below(2) as usize;
        let method = METHODS[dice.below(4) as usize];
        refused += u32::from(!call(at, method).await);
    }
    assert!(refused > 0, "the ceiling is met");

    // The quota is used up within one hour, so it stays used up until the end of that hour a day later.
    clock.advance(25 * HOUR);
    let hour = clock.now().hour();
    while call(dice.below(2) as usize, METHODS[3]).await {}
    let free = Time::from_secs((hour + 24) * 3_600);
    clock.advance(free.since(clock.now()) - Duration::from_micros(1));
    for at in [0, 1] {
        assert!(!call(at, METHODS[0]).await, "a moment too early");
    }
    clock.advance(Duration::from_micros(1));
    for at in [1, 0] {
        assert!(call(at, METHODS[0]).await, "the hour has left");
    }
    for gateway in gateways {
        gateway.drain().await;
    }
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_clock_that_jumps_an_hour_fails_no_call_and_bills_nothing_twice() {
    const LIMIT: usize = 20;
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let figures = format!("per_minute = {LIMIT}\nper_hour = 1000000\nper_day = 1000000");
    let setup = nodes.setup().set("plans.premium", &figures).set("redis", "timeout = \"10s\"");
    let cluster = Cluster::new(2, setup).await;
    // The clocks stop between jumps, so no minute ends by itself.
    let start = now();
    let clocks = [Arc::new(ManualClock::at(start)), Arc::new(ManualClock::at(start))];
    let gateways =
        [cluster.sites[0].within(clocks[0].clone()).await, cluster.sites[1].within(clocks[1].clone()).await];
    let addrs = gateways.each_ref().map(rpcgate_server::Gateway::addr);
    in_step(&cluster, &addrs).await;
    let loads: Vec<_> = addrs.iter().map(|addr| Load::start(*addr, 3, &seed, &numbers)).collect();
    let back = Time::from_micros(start.micros() - HOUR.as_micros() as u64);
    let forth = start.plus(HOUR);
    for jump in [[forth, start], [start, start], [back, start], [forth, forth], [back, back], [start, start]]
    {
        let key = cluster.key(Tier::Premium).await;
        for (clock, to) in clocks.iter().zip(jump) {
            clock.set(to);
        }
        let mut served = 0;
        for _ in 0..LIMIT + 5 {
            for addr in addrs {
                let reply = key.client(addr).call("eth", "eth_chainId", "[]").await;
                served += usize::from(reply.status == 200);
                if reply.status != 200 {
                    assert_eq!(reply.status, 429, "{reply:?}");
                    assert_eq!(reply.number("retry-after"), 60 - start.secs() % 60, "{reply:?}");
                }
            }
        }
        // The gateways share a minute only if it is the same one.
        let minutes = if jump[0] == jump[1] { 1 } else { 2 };
        assert_eq!(served, minutes * LIMIT, "{jump:?}");
        go_on(&loads, 50).await;
    }
    let report = all_reports(loads).await;
    ledger::agrees(&cluster.stored_usage().await, &report).await;
    for gateway in gateways {
        gateway.drain().await;
    }
}
