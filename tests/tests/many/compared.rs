use crate::cluster::{all_reports, go_on, in_step, is_together, rush};
use crate::*;
use rpcgate_core::backend::counters::Restored;
use rpcgate_core::caller::ProjectQuota;
use rpcgate_tests::services::redis::RedisServer;

/// A ceiling whose slices at two gateways are large enough to be visible.
const CEILING: u64 = 1_000_000;
/// The time within which counters must be corrected.
const SOON: Duration = Duration::from_secs(60);

/// Returns the counts in Redis for a key and its project: requests of the day, and Compute Units of all hours.
fn counted(redis: &RedisServer, key: &TestKey) -> (u64, u64) {
    let numbers = |answer: String| -> Vec<u64> {
        answer
            .lines()
            .filter(|line| !line.starts_with(['$', '*']))
            .filter_map(|line| line.parse().ok())
            .collect()
    };
    let day = format!("rpcgate:w:{:x}:d{}", key.key.0, now().day());
    let requests = numbers(redis.say(&format!("GET {day}")));
    let units = numbers(redis.say(&format!("HVALS rpcgate:u:{:x}", key.project.0)));
    (requests.first().copied().unwrap_or(0), units.iter().sum())
}

async fn agrees(redis: &RedisServer, key: &TestKey, served: (u64, u64)) {
    let look = async {
        while counted(redis, key) != served {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, look).await;
    assert!(in_time.is_ok(), "{:?} are counted of {served:?}", counted(redis, key));
}

/// Makes calls of 15 units, evenly at these gateways, and adds requests and charges to `served`.
async fn serve(processes: &[&Process], key: &TestKey, each: usize, served: &mut (u64, u64)) {
    let addrs: Vec<_> = processes.iter().map(|process| process.addr()).collect();
    for one in rush(&addrs, &key.text, 2, each, ("eth", "eth_call")).await {
        assert_eq!((one.reply.status, one.reply.code()), (200, 0), "{:?}", one.reply);
        *served = (served.0 + 1, served.1 + one.reply.cu());
    }
}

async fn shipped(cluster: &Cluster, processes: &[&Process]) {
    let stored = cluster.stored_usage().await;
    for process in processes {
        let reply = process.client().call("eth", "eth_call", "[\"last\"]").await;
        stored.hold(ledger::single(&reply, "eth", "eth_call").0).await;
    }
}

async fn cluster() -> (Cluster, TestKey, Vec<Process>, Node) {
    let node = Node::evm().await;
    let cluster = Cluster::new(2, Setup::of("eth", &node.url()).set("plans.enterprise", PLENTY)).await;
    let key = cluster.key(Tier::Enterprise).await;
    let quota = ProjectQuota { cu_per_day: CEILING, has_row: true, ..ProjectQuota::default() };
    cluster.store.put_quota(key.project, &quota, now()).await.unwrap();
    let processes = cluster.start().await;
    (cluster, key, processes, node)
}

// Shows (Reliability): Counters are corrected to the recorded usage within a minute after a kill, a restart of a
// gateway while Redis was frozen, and a loss of Redis' data (promise 7).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn reservations_of_a_killed_gateway_expire_within_a_minute() {
    let (cluster, key, mut processes, _node) = cluster().await;
    early_in(DAY).await;
    let mut served = (0, 0);
    let began = now().day();
    for round in 0..2 {
        serve(&processes.iter().collect::<Vec<_>>(), &key, 5, &mut served).await;
        shipped(&cluster, &processes.iter().collect::<Vec<_>>()).await;
        serve(&[&processes[round]], &key, 1, &mut served).await;
        let (_, units) = counted(&cluster.redis, &key);
        assert!(units > served.1, "it has reserved units in advance: {units} of {}", served.1);
        processes.remove(round).kill();
        let again = cluster.sites[round].spawn().listening().await;
        again.ready().await;
        processes.insert(round, again);
        agrees(&cluster.redis, &key, served).await;
    }
    assert_eq!(now().day(), began, "at midnight all of it begins anew: run it again");
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_gateway_that_is_restarted_while_redis_is_frozen_makes_nothing_count_twice() {
    let (cluster, key, mut processes, _node) = cluster().await;
    early_in(DAY).await;
    let mut served = (0, 0);
    let began = now().day();
    serve(&processes.iter().collect::<Vec<_>>(), &key, 5, &mut served).await;
    cluster.redis.freeze();
    serve(&processes.iter().collect::<Vec<_>>(), &key, 20, &mut served).await;
    shipped(&cluster, &processes.iter().collect::<Vec<_>>()).await;
    processes.remove(0).kill();
    let again = cluster.sites[0].spawn().listening().await;
    again.ready().await;
    processes.insert(0, again);
    cluster.redis.thaw();
    for process in &processes {
        until("it counts together", || is_together(process)).await;
    }
    agrees(&cluster.redis, &key, served).await;
    in_step(&cluster, &[processes[0].addr(), processes[1].addr()]).await;
    assert_eq!(now().day(), began, "at midnight all of it begins anew: run it again");
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_redis_that_loses_its_data_again_and_again_counts_nothing_twice_in_the_end() {
    let (mut cluster, key, processes, _node) = cluster().await;
    early_in(DAY).await;
    let mut served = (0, 0);
    let began = now().day();
    let all: Vec<_> = processes.iter().collect();
    for _ in 0..3 {
        serve(&all, &key, 5, &mut served).await;
        cluster.redis.kill();
        serve(&all, &key, 20, &mut served).await;
        cluster.redis.revive();
        for process in &processes {
            until("it counts together", || is_together(process)).await;
        }
    }
    serve(&all, &key, 5, &mut served).await;
    agrees(&cluster.redis, &key, served).await;
    assert_eq!(now().day(), began, "at midnight all of it begins anew: run it again");
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_gateway_frozen_until_its_slices_expired_counts_exactly_when_it_resumes() {
    let (cluster, key, processes, _node) = cluster().await;
    early_in(DAY).await;
    let mut served = (0, 0);
    let began = now().day();
    let all: Vec<_> = processes.iter().collect();
    for round in 0..2 {
        serve(&all, &key, 5, &mut served).await;
        shipped(&cluster, &all).await;
        all[round].freeze();
        serve(&[all[1 - round]], &key, 5, &mut served).await;
        agrees(&cluster.redis, &key, served).await;
        all[round].thaw();
        serve(&all, &key, 5, &mut served).await;
        agrees(&cluster.redis, &key, served).await;
    }
    in_step(&cluster, &[all[0].addr(), all[1].addr()]).await;
    assert_eq!(now().day(), began, "at midnight all of it begins anew: run it again");
}

/// Returns for each recorded counter its name in Redis (with its hour if it has hours), the recorded count, and the
/// current count in Redis.
fn side_by_side(redis: &RedisServer, recorded: &Restored) -> Vec<(String, u64, u64)> {
    let number =
        |line: String| redis.say(&line).lines().nth(1).and_then(|line| line.parse().ok()).unwrap_or(0);
    let hour = recorded.now.hour();
    let day = recorded.now.day();
    let windows = recorded.windows.iter().flat_map(|(key, [_, in_hour, in_day])| {
        let name = |span: &str| format!("GET rpcgate:w:{:x}:{span}", key.0);
        [(name(&format!("h{hour}")), *in_hour), (name(&format!("d{day}")), *in_day)]
    });
    let units = recorded
        .units
        .iter()
        .map(|(project, hour, units)| (format!("HGET rpcgate:u:{:x} {hour}", project.0), *units));
    windows.chain(units).map(|(line, recorded)| (line.clone(), recorded, number(line))).collect()
}

// Shows (Reliability): Requests that a connected gateway has counted are never subtracted (promise 7).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn under_load_no_comparison_removes_counted_requests() {
    const COMPARISONS: usize = 5;
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let cluster = Cluster::new(2, nodes.setup()).await;
    let processes = cluster.start().await;
    let loads: Vec<_> =
        processes.iter().map(|process| Load::start(process.addr(), 4, &seed, &numbers)).collect();
    let stored = cluster.stored_usage().await;
    let redis = &cluster.redis;
    early_in(HOUR).await;
    let began = now().hour();
    go_on(&loads, 100).await;
    let mut seen = Vec::new();
    let mut samples = 0;
    let watch = async {
        while seen.len() <= COMPARISONS {
            match redis.say("GET rpcgate:comparing").lines().nth(1) {
                Some(comparison) if seen.last().is_none_or(|last| last != comparison) => {
                    seen.push(comparison.to_owned());
                }
                Some(_) => {}
                // An unknown gateway has left, so the next comparison is due.
                None => drop(redis.say("ZADD rpcgate:gateways 1 7")),
            }
            // Recorded calls were counted before.
            let recorded = stored.store().recorded(now()).await.unwrap();
            for (counter, recorded, counted) in side_by_side(redis, &recorded) {
                samples += 1;
                assert!(counted >= recorded, "{counter}: {counted} counted of {recorded}");
            }
        }
    };
    let in_time = tokio::time::timeout(2 * SOON, watch).await;
    assert!(in_time.is_ok() && samples > 0, "{} comparisons, {samples} samples", seen.len());
    go_on(&loads, 100).await;
    all_reports(loads).await;
    shipped(&cluster, &processes.iter().collect::<Vec<_>>()).await;
    redis.say("ZADD rpcgate:gateways 1 7");
    let agree = async {
        loop {
            let recorded = stored.store().recorded(now()).await.unwrap();
            if side_by_side(redis, &recorded).iter().all(|(_, recorded, counted)| recorded == counted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, agree).await;
    let recorded = stored.store().recorded(now()).await.unwrap();
    assert!(in_time.is_ok(), "{:?}", side_by_side(redis, &recorded));
    assert_eq!(now().hour(), began, "with the hour all of it begins anew: run it again");
}
