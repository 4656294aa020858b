use crate::*;
use rpcgate_core::plan::Tier;
use rpcgate_store::{Store, url_of};
use rpcgate_tests::client::TestClient;
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::load::ExpectedRequest;
use rpcgate_tests::node::Node;
use rpcgate_tests::stored_key::{SECRET, TestKey, forged};
use rpcgate_tests::stored_usage::connect;
use sea_orm::ConnectionTrait;
use std::fs;
use std::sync::atomic::AtomicU64;

// Shows (Reliability): While the database is locked or unreachable calls are served, and all of them are stored later
// (promise 5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_usage_database_is_locked_no_call_fails_and_all_are_stored_later() {
    let seed = TestSeed::new();
    let nodes = Nodes::start().await;
    let numbers = Arc::<AtomicU64>::default();
    let site = Site::new(nodes.setup());
    let process = site.start().await;
    let stored = StoredUsage::open(&site).await;
    let load = Load::start(process.addr(), 16, &seed, &numbers);
    rpcgate_tests::until("some answers", || load.answered() > 100).await;
    let held = DatabaseLock::take(&site.usage_database()).await;
    let refused = || !process.log().lines("usage cannot be shipped").is_empty();
    rpcgate_tests::until("the gateway has tried its database in vain", refused).await;
    let before = load.answered();
    rpcgate_tests::until("calls go on", || load.answered() > before + 500).await;
    assert_eq!(process.health().await, 200);
    let report = load.end().await;
    assert!(report.unanswered.is_empty());
    held.release().await;
    let served = report.answered.iter().filter(|(_, wanted)| !wanted.is_refused()).count();
    let look = async {
        loop {
            let events = stored.events().await;
            let answers =
                events.iter().filter(|event| event.lines.iter().any(|line| line.outcome != Outcome::Refused));
            if answers.count() == served {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let events = tokio::time::timeout(rpcgate_tests::TIMEOUT, look).await.unwrap();
    assert_eq!(charged(&events), report.answered.iter().map(|(_, wanted)| wanted.cu()).sum::<u64>());
    let (status, log) = process.stop().await;
    assert!(status.success(), "{}", log.text());
    rollups_agree(&stored, &stored.events().await).await;
}

// Shows (Reliability): Ready means that the content of the journal is replayed and shipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_while_its_database_is_locked_ships_everything_afterwards() {
    let Outage { site, held, process, load, .. } = &mut Outage::begin().await;
    process.take().unwrap().kill();
    let report = load.take().unwrap().end().await;
    comes_back(site, held.take().unwrap(), report).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_drained_while_its_database_is_locked_ships_everything_afterwards() {
    let Outage { site, held, process, load, .. } = &mut Outage::begin().await;
    let report = load.take().unwrap().end().await;
    assert!(report.unanswered.is_empty());
    let (status, log) = process.take().unwrap().stop().await;
    assert!(status.success(), "{}", log.text());
    assert_eq!(log.lines("stays in the journal and is shipped at the next start").len(), 1, "{}", log.text());
    comes_back(site, held.take().unwrap(), report).await;
}

/// A gateway under load while another connection locks its usage database.
struct Outage {
    _seed: TestSeed,
    _nodes: Nodes,
    site: Site,
    held: Option<DatabaseLock>,
    process: Option<Process>,
    load: Option<Load>,
}

impl Outage {
    async fn begin() -> Self {
        let seed = TestSeed::new();
        let nodes = Nodes::start().await;
        let numbers = Arc::<AtomicU64>::default();
        let site = Site::new(nodes.setup());
        let process = site.start().await;
        let held = DatabaseLock::take(&site.usage_database()).await;
        let load = Load::start(process.addr(), 16, &seed, &numbers);
        rpcgate_tests::until("some answers", || load.answered() > 300).await;
        Outage {
            _seed: seed,
            _nodes: nodes,
            site,
            held: Some(held),
            process: Some(process),
            load: Some(load),
        }
    }
}

/// Starts the gateway again after its database is unlocked, and checks that all answered calls are stored.
async fn comes_back(site: &Site, held: DatabaseLock, report: LoadReport) {
    let stored = StoredUsage::open(site).await;
    assert_eq!(stored.events().await.len(), 0);
    let process = site.begin().await;
    assert_eq!(process.health().await, 503, "it must not serve calls that it cannot count");
    let reply = process.client().call("eth", "unheard_of", "[]").await;
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.number("retry-after") >= 1);
    held.release().await;
    process.ready().await;
    // The refusal above may arrive at any time.
    let (status, log) = process.stop().await;
    assert!(status.success(), "{}", log.text());
    let events = stored.events().await;
    let answered = report.answered.iter().map(|(_, wanted)| wanted.cu()).sum::<u64>();
    let sent = answered + report.unanswered.iter().map(ExpectedRequest::cu).sum::<u64>();
    assert!((answered..=sent).contains(&charged(&events)), "{answered}..={sent}: {}", charged(&events));
    rollups_agree(&stored, &events).await;
}

// Shows (Keys): A gateway that starts without its database waits, unready.
#[tokio::test]
async fn a_gateway_whose_database_has_no_folder_yet_waits_for_it() {
    let node = Node::evm().await;
    let site = Site::new(Setup::of("eth", &node.url()));
    let process = site.begin().await;
    let client = process.client();
    assert_eq!(process.health().await, 503);
    for key in [&client, &TestClient::new(process.addr(), Some(&forged()))] {
        let reply = key.call("eth", "eth_chainId", "[]").await;
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(reply.number("retry-after") >= 1);
    }
    rpcgate_tests::until("the log names the reason for waiting", || {
        process.log().lines("does not exist").iter().any(|line| line["level"] == "ERROR")
    })
    .await;
    assert_eq!(node.requests(), 0);
    fs::create_dir_all(site.database().parent().unwrap()).unwrap();
    process.ready().await;
    assert_eq!(client.call("eth", "eth_call", "[]").await.cu(), 15);
}

async fn stored_key(store: &Store) -> TestKey {
    TestKey::new(store, Tier::Enterprise).await
}

// Shows (Keys).
#[tokio::test]
async fn an_unreadable_management_database_keeps_known_keys_and_reports_no_key_as_unknown() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).set("gateway", &format!("key_secret = \"{SECRET}\""));
    let site = Site::new(setup);
    let process = site.start().await;
    let store = Store::open(&url_of(&site.database()), false).await.unwrap();
    let [known, fresh] = [stored_key(&store).await.text, stored_key(&store).await.text];
    let nobodys = forged();
    let ask = async |key: &str| {
        let reply = TestClient::new(process.addr(), Some(key)).call("eth", "eth_chainId", "[]").await;
        if reply.status == 503 {
            assert!(reply.number("retry-after") >= 1);
        }
        reply.status
    };
    assert_eq!((ask(&known).await, ask(&nobodys).await), (200, 401));

    // Another writer does not block readers.
    let held = DatabaseLock::take(&site.database()).await;
    let unknown = forged();
    assert_eq!((ask(&known).await, ask(&unknown).await), (200, 401));
    held.release().await;

    // Once a revocation is in force, the gateway has read the feed beyond the creation of the keys, which drops them
    // once more.
    let passing = stored_key(&store).await;
    assert_eq!(ask(&passing.text).await, 200);
    store.revoke_key(passing.tenant, passing.key, now()).await.unwrap();
    let refused = async { while ask(&passing.text).await != 401 {} };
    assert!(tokio::time::timeout(rpcgate_tests::TIMEOUT, refused).await.is_ok(), "it is never refused");
    assert_eq!(ask(&known).await, 200);

    let raw = connect(&site.database()).await;
    let rename = async |from: &str, to: &str| {
        for table in ["keys", "changes", "plans"] {
            raw.execute_unprepared(&format!("ALTER TABLE {table}{from} RENAME TO {table}{to}"))
                .await
                .unwrap();
        }
    };
    rename("", "_hidden").await;
    rpcgate_tests::until("it finds out", || {
        !process.log().lines("the database cannot be reached").is_empty()
    })
    .await;
    for _ in 0..3 {
        assert_eq!((ask(&known).await, ask(&fresh).await, ask(&nobodys).await), (200, 503, 503));
        assert_eq!(
            process.client().call("eth", "eth_chainId", "[]").await.status,
            200,
            "those of its file, too"
        );
        assert_eq!(ask("rpcg_of_no_form").await, 401, "a key that was never made here is refused");
    }
    assert_eq!(process.health().await, 200);
    rename("_hidden", "").await;
    rpcgate_tests::until("it is back", || !process.log().lines("the database is back").is_empty()).await;
    assert_eq!((ask(&known).await, ask(&fresh).await, ask(&nobodys).await), (200, 200, 401));
}
