use crate::cluster::{all_reports, go_on, in_step, rush};
use crate::*;
use rpcgate_core::caller::ProjectQuota;

const LIMIT: usize = 200;
const CEILING: u64 = 20_000;

/// Makes calls with a key at one gateway. Returns the number of served calls and their charge.
async fn served(
    process: &Process,
    key: &TestKey,
    each: usize,
    what: (&'static str, &'static str),
) -> (usize, u64) {
    let heard = rush(&[process.addr()], &key.text, 4, each, what).await;
    for one in &heard {
        assert!(matches!((one.reply.status, one.reply.code()), (200, 0 | -32005) | (429, _)), "{one:?}");
    }
    let served = heard.iter().filter(|one| (one.reply.status, one.reply.code()) == (200, 0));
    served.fold((0, 0), |(calls, units), one| (calls + 1, units + one.reply.cu()))
}

async fn until_refused(
    process: &Process,
    key: &TestKey,
    (chain, method): (&'static str, &'static str),
) -> usize {
    let client = key.client(process.addr());
    let mut served = 0;
    let look = async {
        loop {
            let reply = client.call(chain, method, &format!("[\"late\",{served}]")).await;
            match (reply.status, reply.code()) {
                (200, 0) => served += 1,
                (429, _) | (200, -32005) => return served,
                _ => panic!("{reply:?}"),
            }
        }
    };
    tokio::time::timeout(TIMEOUT, look)
        .await
        .unwrap_or_else(|_| panic!("an exhausted limit is never enforced"))
}

// Shows (Reliability): A gateway that is frozen under load and resumed counts exactly (promise 7).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_gateway_that_was_frozen_bills_once_and_respects_counts_of_others() {
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let figures = format!("per_minute = 1000000\nper_hour = 1000000\nper_day = {LIMIT}");
    let cluster = Cluster::new(2, nodes.setup().set("plans.premium", &figures)).await;
    let processes = cluster.start().await;
    let loads: Vec<_> =
        processes.iter().map(|process| Load::start(process.addr(), 4, &seed, &numbers)).collect();
    early_in(DAY).await;
    let stored = cluster.stored_usage().await;
    let began = now().day();
    let mut report = LoadReport::default();
    for round in 0..2 {
        let frozen = &processes[round % 2];
        let other = &processes[1 - round % 2];
        let window = cluster.key(Tier::Premium).await;
        let units = cluster.key(Tier::Enterprise).await;
        let quota = ProjectQuota { cu_per_day: CEILING, has_row: true, ..ProjectQuota::default() };
        cluster.store.put_quota(units.project, &quota, now()).await.unwrap();
        // Both gateways know the key, and hold reserved units.
        let mut calls = 0;
        let mut charged = 0;
        for process in &processes {
            calls += served(process, &window, 5, ("eth", "eth_chainId")).await.0;
            charged += served(process, &units, 5, ("eth", "eth_call")).await.1;
        }
        assert_eq!((calls, charged), (40, 40 * 15));
        go_on(&loads, 100).await;
        frozen.freeze();

        // The other gateway uses up the rest. The slices of the frozen one do not keep it from shipping.
        let (rest, _) = served(other, &window, LIMIT / 4, ("eth", "eth_chainId")).await;
        assert!((LIMIT - calls..=LIMIT - calls / 2).contains(&rest), "{rest}");
        charged += served(other, &units, 100, ("bsc", "eth_getLogs")).await.1;
        let reply = other.client().call("eth", "eth_call", &format!("[\"round\",{round}]")).await;
        let single = ledger::single(&reply, "eth", "eth_call");
        stored.hold(single.0).await;
        report.answered.push(single);

        // The gateway does not mistake its own delay for one of Redis. But if Redis is slow at this moment, the gateway
        // may count alone for a moment, starting from its known counts: these bounds hold even then.
        frozen.thaw();
        let late = until_refused(frozen, &window, ("eth", "eth_chainId")).await;
        let late_units = 75 * until_refused(frozen, &units, ("bsc", "eth_getLogs")).await as u64;
        assert!(late <= LIMIT - calls / 2, "{late}");
        assert!((CEILING..2 * (CEILING + 75)).contains(&(charged + late_units)), "{charged} {late_units}");
        in_step(&cluster, &[frozen.addr(), other.addr()]).await;
        for process in &processes {
            assert_eq!(
                served(process, &window, 5, ("eth", "eth_chainId")).await.0,
                0,
                "used up by both together"
            );
            assert_eq!(
                served(process, &units, 5, ("bsc", "eth_getLogs")).await.0,
                0,
                "used up by both together"
            );
        }
        go_on(&loads, 100).await;
        assert_eq!(frozen.health().await, 200);
    }
    assert_eq!(now().day(), began, "at midnight all of it begins anew: run it again");
    report.extend(all_reports(loads).await);
    ledger::agrees(&stored, &report).await;
}
