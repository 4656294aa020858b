use crate::cluster::{all_reports, go_on, is_together, rush, times_alone, together};
use crate::*;
use rpcgate_tests::services::postgres::Postgres;
use rpcgate_tests::services::redis::RedisServer;

/// The time for which a database or a Redis server is unreachable.
const AWAY: Duration = Duration::from_secs(4);

/// The answers of each load during an outage. On four connections, these could not arrive within the test's timeout if
/// each took a quarter of a second.
const MANY: u64 = 800;

/// Calls with a key at every gateway for some time. Every answer must be `status`, and arrive during the outage, which
/// shows that the gateway stopped waiting. A test with a paused clock checks that it does so within a second
/// (`a_look_up_that_stalls_is_unavailable_within_a_second`).
async fn keep_calling(processes: &[Process], key: &str, status: u16, how_long: Duration) {
    let clock = SystemClock::new();
    let clients: Vec<_> =
        processes.iter().map(|process| TestClient::new(process.addr(), Some(key))).collect();
    while clock.elapsed() < how_long {
        for client in &clients {
            let reply = client.call("eth", "eth_chainId", "[]").await;
            assert_eq!(reply.status, status, "{reply:?}");
            if status == 503 {
                assert!(reply.number("retry-after") >= 1);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs two gateways and a management side under load during an outage of their database.
async fn without_its_database(leave: impl AsyncFn(&mut Postgres), come_back: impl AsyncFn(&mut Postgres)) {
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let setup = nodes
        .setup()
        .set("admin", "listen = \"127.0.0.1:0\"")
        .set("admin", "auth_per_minute = 1000")
        .set("admin.jwt", "secret = \"the same at every host, and long enough\"");
    let mut cluster = Cluster::new(2, setup).await;
    let processes = cluster.start().await;
    let admin = cluster.sites[0].manage().await;
    let known = cluster.key(Tier::Enterprise).await;
    let fresh = cluster.key(Tier::Enterprise).await;
    // The gateways look a new key up once more when they read the change.
    keep_calling(&processes, &known.text, 200, Duration::from_secs(1)).await;
    let loads: Vec<_> =
        processes.iter().map(|process| Load::start(process.addr(), 4, &seed, &numbers)).collect();
    until("some answers", || loads.iter().all(|load| load.answered() > 100)).await;
    leave(&mut cluster.postgres).await;
    let away = async {
        tokio::join!(
            keep_calling(&processes, &known.text, 200, AWAY),
            keep_calling(&processes, &fresh.text, 503, AWAY),
            management_says_so(&admin),
            go_on(&loads, MANY),
        )
    };
    assert!(tokio::time::timeout(TIMEOUT, away).await.is_ok(), "a call waits for an unavailable server");
    come_back(&mut cluster.postgres).await;
    let look = async {
        for process in &processes {
            while fresh.client(process.addr()).call("eth", "eth_chainId", "[]").await.status != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "an earlier key is never known");
    let report = all_reports(loads).await;
    ledger::agrees(&cluster.stored_usage().await, &report).await;
    for process in processes {
        assert_eq!(process.health().await, 200);
        let (status, log) = process.stop().await;
        assert!(status.success(), "{}", log.text());
    }
}

/// Checks that the management side answers 503 without its database, and does not wait for it.
async fn management_says_so(admin: &Process) {
    for _ in 0..3 {
        let client = TestClient::new(admin.addr(), None);
        let form = br#"{"email":"unknown@example.com","password":"correct horse battery staple"}"#;
        let json = [("content-type", "application/json")];
        let reply = client.send("POST", "/api/v1/auth/login", &json, form).await;
        assert_eq!(reply.status, 503, "{reply:?}");
    }
}

// Shows (Reliability): Calls are served while PostgreSQL is stopped or frozen under load, and stored when it is back
// (promises 5, 6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn with_postgresql_stopped_known_keys_are_served_and_billed_later() {
    without_its_database(async |postgres| postgres.stop(), async |postgres| postgres.start()).await;
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn with_postgresql_frozen_known_keys_are_served_and_billed_later() {
    without_its_database(async |postgres| postgres.freeze(), async |postgres| postgres.thaw()).await;
}

const LIMIT: usize = 300;

/// Runs two gateways during an outage of Redis.
async fn without_redis(leave: impl Fn(&mut RedisServer), come_back: impl Fn(&mut RedisServer)) {
    let node = Node::evm().await;
    let figures = format!("per_minute = 1000000\nper_hour = 1000000\nper_day = {LIMIT}");
    let setup = Setup::of("eth", &node.url()).set("plans.premium", &figures).set("plans.enterprise", PLENTY);
    let mut cluster = Cluster::new(2, setup).await;
    let processes = cluster.start().await;
    let addrs: Vec<_> = processes.iter().map(Process::addr).collect();
    let half = cluster.key(Tier::Premium).await;
    let busy = cluster.key(Tier::Enterprise).await;
    let call = async |key: &TestKey, each: usize| {
        let calls = rush(&addrs, &key.text, 4, each, ("eth", "eth_chainId"));
        let heard =
            tokio::time::timeout(TIMEOUT, calls).await.unwrap_or_else(|_| panic!("they wait for Redis"));
        for one in &heard {
            assert!(matches!(one.reply.status, 200 | 429), "{one:?}");
        }
        heard.iter().filter(|one| one.reply.status == 200).count()
    };
    let said_alone = || processes.iter().map(times_alone).sum::<usize>();
    // Uses up the day at gateways that count together. On a busy machine Redis may be late, which they log.
    let used_up = async |cluster: &Cluster| {
        for _ in 0..10 {
            let key = cluster.key(Tier::Premium).await;
            let before = said_alone();
            let admitted = call(&key, LIMIT / 8 + 20).await;
            // All calls of one gateway may have finished before the last of the other: each must be refused once to
            // know that the day is used up.
            if admitted == LIMIT && call(&key, 2).await == 0 {
                return key;
            }
            until(&format!("a gateway that admits {admitted} counts alone"), || said_alone() > before).await;
            for process in &processes {
                together(process).await;
            }
        }
        panic!("they do not stay together");
    };
    early_in(DAY).await;
    let began = now().day();
    // One key has used up its day, one has used a third.
    let spent = used_up(&cluster).await;
    let before = call(&half, 13).await;
    assert_eq!((before, call(&busy, 10).await), (104, 80));

    let before_it_left: Vec<_> = processes.iter().map(times_alone).collect();
    leave(&mut cluster.redis);
    // This number of calls on a connection would exceed the timeout if each waited for the deadline of Redis.
    assert_eq!(call(&busy, 200).await, 1_600, "no call fails");
    for (process, before) in processes.iter().zip(before_it_left) {
        until("it says that it counts alone", || times_alone(process) > before).await;
    }
    assert_eq!(call(&spent, 10).await, 0, "an exhausted limit stays exhausted");
    // Each gateway admits the rest of the limit alone.
    let alone = call(&half, LIMIT).await;
    assert!((LIMIT - before..=2 * LIMIT).contains(&alone), "{alone}");
    let fresh = cluster.key(Tier::Premium).await;
    let admitted = call(&fresh, LIMIT).await;
    assert!((LIMIT..=2 * LIMIT).contains(&admitted), "{admitted}");

    come_back(&mut cluster.redis);
    for process in &processes {
        together(process).await;
    }
    // Counts made alone are included, and new counts are exact.
    for key in [&spent, &half, &fresh] {
        assert_eq!(call(key, 10).await, 0);
    }
    used_up(&cluster).await;
    assert_eq!(call(&busy, 10).await, 80);
    assert_eq!(now().day(), began, "at midnight all of it begins anew: run it again");
}

// Shows (Reliability): While Redis is killed or frozen each gateway counts alone and no call fails; when it is back all
// count together again (promise 7).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn with_redis_killed_each_gateway_counts_alone_and_then_together_again() {
    without_redis(RedisServer::kill, RedisServer::revive).await;
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn with_redis_frozen_each_gateway_counts_alone_and_then_together_again() {
    without_redis(|redis| redis.freeze(), |redis| redis.thaw()).await;
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn with_redis_frozen_under_load_no_call_fails_and_every_unit_is_billed_once() {
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let cluster = Cluster::new(2, nodes.setup()).await;
    let processes = cluster.start().await;
    let loads: Vec<_> =
        processes.iter().map(|process| Load::start(process.addr(), 4, &seed, &numbers)).collect();
    for _ in 0..3 {
        go_on(&loads, 100).await;
        cluster.redis.freeze();
        go_on(&loads, MANY / 2).await;
        for process in &processes {
            until("it says that it counts alone", || !is_together(process)).await;
        }
        go_on(&loads, 100).await;
        cluster.redis.thaw();
        for process in &processes {
            together(process).await;
        }
    }
    let report = all_reports(loads).await;
    ledger::agrees(&cluster.stored_usage().await, &report).await;
}
