//! The records of a demo: every answer's request can be found, and a restart continues the counts.

use super::account::{remembered, store};
use super::*;
use rpcgate_core::backend::usage_sink::{Outcome, OwnedRecord};
use rpcgate_core::caller::{KeyId, ProjectId, ProjectQuota, RequestId, Scope, TenantId};
use rpcgate_core::clock::Clock;
use rpcgate_core::secret::{KeyForge, KeyHash, shown};
use rpcgate_core::usage::{Metrics, Period, UsageAsk, UsageWindow};
use rpcgate_store::{Key, Project, Store, Tenant, UsageStore, url_of};
use tempfile::TempDir;

async fn usage(home: &TempDir) -> UsageStore {
    UsageStore::open(&url_of(&home.path().join("rpcgate.db")), true).await.unwrap()
}

async fn totals(home: &TempDir, now: Time) -> Metrics {
    let usage = usage(home).await;
    let ask = UsageAsk::new(remembered(home).tenant, UsageWindow::of(Period::Week, now));
    let totals = usage.usage(&ask).await.unwrap().totals;
    usage.close().await;
    totals
}

fn header<'a>(answer: &'a http::Response<Value>, name: &str) -> &'a str {
    answer.headers().get(name).unwrap_or_else(|| panic!("no {name}: {answer:?}")).to_str().unwrap()
}

/// A tenant with a project and a key, in addition to the demo's own.
struct TestCaller {
    tenant: TenantId,
    project: ProjectId,
    key: KeyId,
    text: String,
}

struct Fixture {
    home: TempDir,
    demo: Demo,
    store: Store,
    usage: UsageStore,
    callers: u128,
}

impl Fixture {
    async fn caller(&mut self, tier: Tier, scope: Scope, blocked: &[&str]) -> TestCaller {
        self.callers += 10;
        let tenant = TenantId(self.callers);
        let project = ProjectId(self.callers + 1);
        let key = KeyId(self.callers + 2);
        let text = KeyForge::new(remembered(&self.home).key_secret.as_bytes()).make().unwrap();
        let made = Tenant::new(tenant, "g", tier, NOW);
        self.store.create_tenant(&made).await.unwrap();
        let made = Project {
            blocked_methods: blocked.iter().map(|method| (*method).to_owned()).collect(),
            ..Project::new(project, tenant, "g", NOW)
        };
        self.store.create_project(&made).await.unwrap();
        let made = Key { scope, ..Key::new(key, project, shown(&text), KeyHash::of(&text), NOW) };
        self.store.create_key(&made, NOW).await.unwrap();
        TestCaller { tenant, project, key, text }
    }

    async fn plain(&mut self) -> TestCaller {
        self.caller(Tier::Enterprise, Scope::All, &[]).await
    }

    async fn answer(&self, caller: &TestCaller, chain: &str, body: &str) -> http::Response<Value> {
        ask_as(&self.demo, &caller.text, chain, body).await
    }

    /// Returns the record of an answer's request, once it is stored.
    async fn event(&self, tenant: TenantId, answer: &http::Response<Value>) -> OwnedRecord {
        let id: RequestId = header(answer, "x-request-id").parse().unwrap();
        let look = async {
            loop {
                if let Some(event) = self.usage.event(tenant, id).await.unwrap() {
                    return event;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(30), look).await;
        found.unwrap_or_else(|_| panic!("no record of {answer:?}"))
    }

    /// Sends a call as `caller`, and checks status and outcome of the answer and of its record.
    async fn check(
        &self,
        caller: &TestCaller,
        chain: &str,
        body: &str,
        status: u16,
        outcome: Outcome,
    ) -> OwnedRecord {
        let answer = self.answer(caller, chain, body).await;
        let event = self.event(caller.tenant, &answer).await;
        assert_eq!(answer.status(), status, "{body}: {answer:?}");
        assert_eq!((event.lines[0].outcome, event.lines[0].status), (outcome, status), "{body}: {answer:?}");
        assert_eq!(
            (event.key, event.project, event.chain.as_str()),
            (caller.key, caller.project, chain),
            "{body}"
        );
        let units: u32 = event.lines.iter().map(|line| line.cu).sum();
        if outcome != Outcome::Refused {
            assert_eq!(header(&answer, "x-compute-units"), units.to_string(), "{body}");
        } else {
            assert_eq!(units, 0, "{body}");
        }
        event
    }
}

async fn app(settings: &str) -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let node = ("bsc".to_owned(), "url".to_owned(), format!("http://{}", gone.local_addr().unwrap()));
    drop(gone);
    let options = DemoOptions { nodes: vec![node], ..options(home.path()) };
    let demo = start(&with_file(options, &home, settings)).await;
    let store = store(&home).await;
    let usage = usage(&home).await;
    Fixture { home, demo, store, usage, callers: 0 }
}

fn text(method: &str) -> String {
    call(method, &json!([])).to_string()
}

// Shows (Usage).
#[tokio::test]
async fn the_request_of_every_answer_that_was_served_or_failed_is_found() {
    let mut app = app("").await;
    let caller = app.plain().await;
    let event = app.check(&caller, "eth", &text("eth_blockNumber"), 200, Outcome::Answered).await;
    assert_eq!(
        (event.lines[0].method.as_str(), event.windowed, event.lines[0].cached),
        ("eth_blockNumber", 1, false)
    );

    let latest = app.answer(&caller, "eth", &text("eth_blockNumber")).await.into_body();
    let height =
        u64::from_str_radix(latest["result"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let block = call("eth_getBlockByNumber", &json!([format!("{:#x}", height - 500), false])).to_string();
    for (found, cached) in [("MISS", false), ("HIT", true)] {
        let answer = app.answer(&caller, "eth", &block).await;
        assert_eq!(header(&answer, "x-cache"), found);
        let event = app.event(caller.tenant, &answer).await;
        assert_eq!((event.lines[0].cached, event.lines[0].outcome), (cached, Outcome::Answered));
    }

    app.check(&caller, "eth", &text("eth_noSuchMethod"), 200, Outcome::NodeError).await;
    app.check(&caller, "bsc", &text("eth_blockNumber"), 200, Outcome::Failed).await;
    let batch = format!("[{},{},{}]", text("eth_chainId"), text("admin_peers"), text("eth_noSuchMethod"));
    let event = app.check(&caller, "eth", &batch, 200, Outcome::Answered).await;
    let outcomes: Vec<_> = event.lines.iter().map(|line| line.outcome).collect();
    assert_eq!(outcomes, [Outcome::Answered, Outcome::Refused, Outcome::NodeError]);

    // The demo's own key too.
    let own = remembered(&app.home);
    let answer = ask_as(&app.demo, &own.api_key, "btc", &text("getblockcount")).await;
    let event = app.event(own.tenant, &answer).await;
    assert_eq!((event.key, event.project, event.tier), (own.key, own.project, Tier::Enterprise));
}

// Shows (Usage).
#[tokio::test]
async fn the_request_of_every_refusal_is_found() {
    let settings = "[gateway.limits]\nbody = \"64KiB\"\n[chains.doge]\nenabled = false\n";
    let mut app = app(settings).await;
    let chain_id = text("eth_chainId");
    let refused = Outcome::Refused;

    let caller = app.plain().await;
    app.store.revoke_key(caller.tenant, caller.key, NOW).await.unwrap();
    app.check(&caller, "eth", &chain_id, 401, refused).await;

    let caller = app.plain().await;
    app.store.suspend(caller.tenant, NOW).await.unwrap();
    app.check(&caller, "eth", &chain_id, 402, refused).await;

    let caller = app.caller(Tier::Enterprise, Scope::Only(["btc".into()].into_iter().collect()), &[]).await;
    app.check(&caller, "eth", &chain_id, 403, refused).await;

    let caller = app.plain().await;
    app.check(&caller, "eth", "{", 400, refused).await;
    app.check(&caller, "eth", "[]", 400, refused).await;
    let event = app.check(&caller, "eth", &" ".repeat(65 << 10), 413, refused).await;
    assert_eq!((event.lines[0].method.as_str(), event.windowed), ("-", 0));

    let caller = app.caller(Tier::Enterprise, Scope::All, &["eth_chainId"]).await;
    app.check(&caller, "eth", &chain_id, 403, refused).await;
    app.check(&caller, "eth", &text("debug_traceCall"), 403, refused).await;

    let caller = app.caller(Tier::Free, Scope::All, &[]).await;
    for _ in 0..10 {
        app.check(&caller, "eth", &chain_id, 200, Outcome::Answered).await;
    }
    app.check(&caller, "eth", &chain_id, 429, refused).await;

    let caller = app.plain().await;
    let rps = ProjectQuota { rps_limit: Some(1), ..ProjectQuota::default() };
    app.store.put_quota(caller.project, &rps, NOW).await.unwrap();
    app.check(&caller, "eth", &chain_id, 200, Outcome::Answered).await;
    app.check(&caller, "eth", &chain_id, 429, refused).await;

    let caller = app.plain().await;
    app.check(&caller, "doge", &text("getblockcount"), 200, refused).await;
    app.check(&caller, "eth", &text("admin_peers"), 200, refused).await;
    app.check(&caller, "eth", &text("trace_block"), 200, refused).await;
    let logs = call("eth_getLogs", &json!([{ "fromBlock": "latest" }])).to_string();
    app.check(&caller, "eth", &logs, 200, Outcome::Answered).await;
    app.check(&caller, "eth", &logs, 429, refused).await;

    let caller = app.caller(Tier::Free, Scope::All, &[]).await;
    for _ in 0..6 {
        app.check(&caller, "eth", &text("trace_block"), 200, refused).await;
    }
    app.check(&caller, "eth", &text("trace_block"), 429, refused).await;

    let caller = app.plain().await;
    app.store
        .put_quota(caller.project, &ProjectQuota { cu_per_day: 0, ..ProjectQuota::default() }, NOW)
        .await
        .unwrap();
    app.check(&caller, "eth", &text("eth_gasPrice"), 200, refused).await;
}

// Shows (Commands and configuration).
// Shows (Reliability).
#[tokio::test]
async fn a_restart_continues_the_counts() {
    let home = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(NOW));
    let options = options(home.path());
    let body = text("eth_gasPrice");
    let ask = async |demo: &Demo| ask_as(demo, &remembered(&home).api_key, "eth", &body).await;
    let left = |answer: &http::Response<Value>| {
        ["minute", "hour", "day"]
            .map(|span| header(answer, &format!("x-ratelimit-remaining-{span}")).to_owned())
    };
    let text = |left: [u64; 3]| left.map(|left| left.to_string());

    let demo = start_at(&options, clock.clone()).await;
    let units: u64 = header(&ask(&demo).await, "x-compute-units").parse().unwrap();
    assert!(units > 0);
    // A quota for five calls; one is made.
    let quota = ProjectQuota { cu_per_day: 5 * units, ..ProjectQuota::default() };
    store(&home).await.put_quota(remembered(&home).project, &quota, NOW).await.unwrap();
    ask(&demo).await;
    let answer = ask_as(&demo, &remembered(&home).api_key, "eth", "{").await;
    assert_eq!(answer.status(), 400, "counted in no window");
    assert_eq!(demo.stop().await, Drained { cut: 0 });
    let shipped = totals(&home, NOW).await;
    assert_eq!((shipped.requests, shipped.billable_units, shipped.rejected), (3, 2 * units, 1));

    let demo = start_at(&options, clock.clone()).await;
    let sheet_before = sheet(&demo);
    assert_eq!(left(&ask(&demo).await), text([1_000 - 3, 50_000 - 3, 1_000_000 - 3]));
    // Killed, so it cannot shut down.
    drop(demo);

    clock.advance(Duration::from_secs(60));
    let demo = start_at(&options, clock.clone()).await;
    assert_eq!(sheet(&demo)["api_key"], sheet_before["api_key"]);
    assert_eq!(left(&ask(&demo).await), text([1_000 - 1, 50_000 - 4, 1_000_000 - 4]));
    assert!(ask(&demo).await.body()["result"].is_string(), "the fifth");
    assert_eq!(ask(&demo).await.body()["error"]["code"], -32005, "the quota was counted over both ends");
    demo.stop().await;
    let shipped = totals(&home, clock.now()).await;
    assert_eq!((shipped.requests, shipped.billable_units), (7, 5 * units));
    start_at(&options, clock.clone()).await.stop().await;
    assert_eq!(totals(&home, clock.now()).await, shipped, "nothing is shipped twice");
}

#[tokio::test]
async fn a_stop_finishes_requests_in_flight_and_ships_everything() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(home.path())).await;
    let key = remembered(&home).api_key;
    let body = text("eth_gasPrice");
    let url = format!("http://{}/eth", demo.addr());
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let url = url.clone();
            let key = key.clone();
            let body = body.clone();
            tokio::spawn(async move { try_post(&url, &[("apikey".to_owned(), key)], &body).await })
        })
        .collect();
    // Some are answered, the others somewhere on their way.
    until("one is answered", async || calls.iter().any(tokio::task::JoinHandle::is_finished)).await;
    let mut served = 0;
    let stopping = tokio::spawn(demo.stop());
    for call in calls {
        // A call that came too late was not accepted.
        if call.await.unwrap().is_ok_and(|answer| answer.status() == 200) {
            served += 1;
        }
    }
    assert_eq!(stopping.await.unwrap(), Drained { cut: 0 });
    assert!(served > 0);
    assert_eq!(totals(&home, NOW).await.requests, served, "each call that was answered, and no other");
}
