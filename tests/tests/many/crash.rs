use crate::*;
use rpcgate_tests::admin::{ApiUser, PASSWORD};
use serde_json::json;

const CALLERS: usize = 8;

// Shows (Reliability): Gateways on PostgreSQL survive kills, and a journal that two of them replay at once is stored
// once (promises 1, 3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn answered_calls_are_billed_once_for_any_killed_gateway() {
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let mut dice = seed.dice(u64::MAX);
    let cluster = Cluster::new(2, nodes.setup()).await;
    let mut report = LoadReport::default();
    for round in 0..6 {
        let mut running = Vec::new();
        for process in cluster.start().await {
            let load = Load::start(process.addr(), CALLERS, &seed, &numbers);
            running.push((process, load));
        }
        until("the first answers", || running.iter().all(|(_, load)| load.answered() > 20)).await;
        tokio::time::sleep(Duration::from_millis(dice.below(900))).await;
        let (process, load) = running.swap_remove(round % 2);
        process.kill();
        let heard = load.end().await;
        assert!(heard.unanswered.len() <= CALLERS);
        report.extend(heard);
        // Clients of the other gateway do not notice.
        let (process, load) = running.pop().unwrap();
        let before = load.answered();
        until("the other one goes on", || load.answered() > before + 100).await;
        let heard = load.end().await;
        assert!(heard.unanswered.is_empty(), "the other one serves all");
        report.extend(heard);
        process.kill();
    }
    let _processes = cluster.start().await;
    ledger::agrees(&cluster.stored_usage().await, &report).await;
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_journal_that_two_gateways_replay_at_once_is_billed_once() {
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let mut cluster = Cluster::new(1, nodes.setup()).await;
    let process = cluster.start().await.pop().unwrap();
    let load = Load::start(process.addr(), CALLERS, &seed, &numbers);
    until("some answers", || load.answered() > 300).await;
    // From now on nothing is shipped, so that there is something to replay.
    cluster.postgres.stop();
    let before = load.answered();
    until("calls go on", || load.answered() > before + 300).await;
    process.kill();
    let report = load.end().await;
    let twin = Site::beside(&cluster.sites[0]);
    cluster.sites[0].copy_journal(&twin);
    cluster.sites.push(twin);
    cluster.postgres.start();
    for _ in 0..3 {
        let processes = cluster.start().await;
        ledger::agrees(&cluster.stored_usage().await, &report).await;
        for process in processes {
            process.kill();
        }
    }
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_killed_management_side_has_kept_every_acknowledged_change() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("plans.free", PLENTY)
        .set("admin", "listen = \"127.0.0.1:0\"")
        .set("admin", "auth_per_minute = 1000")
        .set("admin.jwt", "secret = \"the same at every host, and long enough\"")
        .set("admin.challenge", "difficulty = 1000");
    let cluster = Cluster::new(2, setup).await;
    let processes = cluster.start().await;
    let office = &cluster.sites[0];
    let mut admin = office.manage().await;
    let mut owner = ApiUser::at(admin.addr());
    owner.register("ada@example.com").await;
    let confirmed =
        owner.ask("POST", "/auth/confirm", Some(&json!({ "token": office.mailed().await }))).await;
    assert_eq!(confirmed.status, 204, "{confirmed:?}");
    owner.log_in("ada@example.com").await;
    let project = owner.project("wallet").await;
    let mut kept = Vec::new();
    for round in 0..6 {
        let (_, spared) = owner.key(&project).await;
        let (id, revoked) = owner.key(&project).await;
        for process in &processes {
            for key in [&spared, &revoked] {
                assert_eq!(call(process, key).await, 200);
            }
        }
        if round % 2 == 0 {
            owner.delete(&format!("/keys/{id}")).await;
            // It is killed right after the answer.
            admin.kill();
        } else {
            admin.kill();
            admin = office.manage().await;
            owner = owner.moved(admin.addr());
            owner.delete(&format!("/keys/{id}")).await;
            admin.kill();
        }
        for process in &processes {
            let refused = async { while call(process, &revoked).await != 401 {} };
            let in_time = tokio::time::timeout(SOON, refused).await;
            assert!(in_time.is_ok(), "revoked, and still served");
            kept.push(spared.clone());
        }
        admin = office.manage().await;
        owner = owner.moved(admin.addr());
        let form = json!({ "email": "ada@example.com", "password": PASSWORD });
        assert_eq!(owner.ask("POST", "/auth/login", Some(&form)).await.status, 200);
    }
    for process in &processes {
        for key in &kept {
            assert_eq!(call(process, key).await, 200, "made, and there");
        }
    }
}

async fn call(process: &Process, key: &str) -> u16 {
    TestClient::new(process.addr(), Some(key)).call("eth", "eth_chainId", "[]").await.status
}
