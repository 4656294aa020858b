use crate::cluster::rush;
use crate::*;
use rpcgate_core::caller::ProjectQuota;

const WEIGHT: u64 = 75;

/// Checks that parallel calls at several gateways use up a ceiling, and overrun it by one call at most.
async fn holds(gateways: usize) {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).node("bsc", &node.url()).set("plans.enterprise", PLENTY);
    // All servers stay reachable: everything must be counted together, even on a slow machine.
    let cluster = Cluster::new(gateways, setup.set("redis", "timeout = \"5s\"")).await;
    let keys = [6_000, 20_050, 1].map(async |ceiling| {
        let key = cluster.key(Tier::Enterprise).await;
        let quota = ProjectQuota { cu_per_day: ceiling, has_row: true, ..ProjectQuota::default() };
        cluster.store.put_quota(key.project, &quota, now()).await.unwrap();
        (ceiling, key)
    });
    let processes = cluster.start().await;
    let addrs: Vec<_> = processes.iter().map(Process::addr).collect();
    for key in keys {
        let (ceiling, key) = key.await;
        let each = (2 * ceiling / WEIGHT) as usize / 8 / gateways + 8;
        let (dear, cheap) = tokio::join!(
            rush(&addrs, &key.text, 8, each, ("bsc", "eth_getLogs")),
            rush(&addrs, &key.text, 8, each, ("eth", "eth_call")),
        );
        let mut charged = 0;
        let mut refused = 0;
        for one in dear.iter().chain(&cheap) {
            match (one.reply.status, one.reply.code()) {
                (200, 0) => charged += one.reply.cu(),
                (200, -32005) => refused += 1,
                _ => panic!("{:?}", one.reply),
            }
        }
        let what = format!("{charged} of {ceiling} at {gateways} gateways");
        assert!((ceiling..ceiling + WEIGHT).contains(&charged), "{what}");
        assert!(refused > 0, "{what}");
        for process in &processes {
            let reply = key.client(process.addr()).call("eth", "eth_call", "[\"late\"]").await;
            assert_eq!(reply.code(), -32005, "{what}");
        }
    }
}

// Shows (Limits, budget and quota): The ceiling is exact at two and four gateways too (promise 24).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn two_gateways_overrun_a_ceiling_by_one_call_at_most() {
    holds(2).await;
}

// Shows (Limits, budget and quota).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn four_gateways_overrun_a_ceiling_by_one_call_at_most() {
    holds(4).await;
}

// Shows (Limits, budget and quota): A lowered ceiling takes effect at every gateway within a second, even if it holds a
// slice of a higher one (promise 66).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_lowered_ceiling_takes_effect_at_every_gateway_within_a_second() {
    const CEILING: u64 = 10_000_000;
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).set("plans.enterprise", PLENTY);
    let cluster = Cluster::new(3, setup.set("redis", "timeout = \"5s\"")).await;
    let processes = cluster.start().await;
    let key = cluster.key(Tier::Enterprise).await;
    let put = async |cu_per_day| {
        let quota = ProjectQuota { cu_per_day, has_row: true, ..ProjectQuota::default() };
        cluster.store.put_quota(key.project, &quota, now()).await.unwrap();
    };
    put(CEILING).await;
    let clients: Vec<_> = processes.iter().map(|process| key.client(process.addr())).collect();
    let mut number = 0;
    let mut codes = async || {
        number += 1;
        let params = format!("[{number}]");
        let [one, two, three] = [0, 1, 2].map(|at| clients[at].call("eth", "eth_call", &params));
        let (one, two, three) = tokio::join!(one, two, three);
        [one, two, three].map(|reply| reply.code())
    };
    for lowered in [0, 15] {
        // Every gateway holds a slice that lasts for thousands of calls.
        let look = async { while (codes().await, codes().await) != ([0; 3], [0; 3]) {} };
        assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "never served");
        put(lowered).await;
        // The load continues, so no slice is idle.
        let look = async { while codes().await != [-32005; 3] {} };
        assert!(tokio::time::timeout(SOON, look).await.is_ok(), "the ceiling is not {lowered}");
        for _ in 0..100 {
            assert_eq!(codes().await, [-32005; 3], "the ceiling is {lowered}");
        }
        put(CEILING).await;
    }
}
