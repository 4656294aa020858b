//! Gateways with a state, with real sockets and real databases.

mod streams;

use super::directory::{KeySource, TRUST};
use super::*;
use crate::command::check;
use crate::gateway::tests::{KEY, Node, is_served, post, send, units};
use crate::gateway::{Gateway, StartOptions};
use rpcgate_config::{Input, LogFormat, PlanChange, Plans};
use rpcgate_core::backend::directory::{Directory, KeyLookup};
use rpcgate_core::backend::{BoxFuture, Unavailable, suite};
use rpcgate_core::caller::{KeyId, ProjectId, ProjectQuota, RequestId, TenantId};
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::{KeyForge, KeyHash, shown};
use rpcgate_core::usage::{Metrics, Period, UsageAsk, UsageWindow};
use rpcgate_process::testing::CapturedLog;
use rpcgate_store::ReloadPlan;
use rpcgate_store::{ConfigVersionFilter, Key, Project, Store, StoredKey, Tenant, Terms, UsageStore, url_of};
use std::net::SocketAddr;
use std::time::Duration;

/// 2027-01-15T08:30:15Z: 45 s are left of the minute, 1,785 s of the hour.
const START: Time = Time::from_secs(1_800_001_815);
const SECRET: &str = "shared by both binaries";

/// The shared home of a deployment's gateways, which run one after the other.
struct Fixture {
    home: tempfile::TempDir,
    node: Node,
    clock: Arc<ManualClock>,
}

struct Account {
    tenant: TenantId,
    project: ProjectId,
    key: KeyId,
    text: String,
}

impl Fixture {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let node = Node::start().await;
        Fixture { home, node, clock: Arc::new(ManualClock::at(START)) }
    }

    fn text(&self, more: &str) -> String {
        format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\nkey_secret = {SECRET:?}\n[database]\nurl = {:?}\n[journal]\n\
             dir = {:?}\n[tenants.default]\nplan = \"enterprise\"\n[keys.k]\nkey = {KEY:?}\n[chains.eth]\n\
             nodes = [\"http://{}\"]\nprobe_interval = \"1d\"\n{more}",
            self.url(),
            self.home.path().join("journal"),
            self.node.addr
        )
    }

    fn url(&self) -> String {
        url_of(&self.home.path().join("data/rpcgate.db"))
    }

    fn make_room(&self) {
        std::fs::create_dir_all(self.home.path().join("data")).unwrap();
    }

    fn config(&self, more: &str) -> Config {
        let text = self.text(more);
        let input = Input { chains: &["eth", "btc"], file: Some(("f", &text)), ..Input::default() };
        Config::read(&input).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Opens the state once the previous gateway, which may have been killed, has released the journal.
    async fn state(&self) -> Arc<State> {
        let mut state = None;
        until("the journal is free", async || {
            state = State::open(&self.config(""), self.clock.clone()).ok();
            state.is_some()
        })
        .await;
        Arc::new(state.unwrap())
    }

    async fn start_unready(&self) -> Gateway {
        let clock = self.clock.clone();
        let state = Some(self.state().await);
        let options = StartOptions { clock, state, ..StartOptions::default() };
        Gateway::start(self.config(""), options).await.unwrap()
    }

    async fn start(&self) -> Gateway {
        self.make_room();
        let gateway = self.start_unready().await;
        until("it is ready", async || gateway.ready()).await;
        gateway
    }

    async fn store(&self) -> Store {
        self.make_room();
        Store::open(&self.url(), true).await.unwrap()
    }

    async fn usage(&self) -> UsageStore {
        UsageStore::open(&self.url(), true).await.unwrap()
    }

    async fn totals(&self, tenant: TenantId) -> Metrics {
        let usage = self.usage().await;
        let ask = UsageAsk::new(tenant, UsageWindow::of(Period::Day, self.clock.now()));
        let totals = usage.usage(&ask).await.unwrap().totals;
        usage.close().await;
        totals
    }

    /// Creates a tenant of the plan standard with a project and a key.
    async fn account(&self, store: &Store, number: u128) -> Account {
        let tenant = TenantId(number + 1);
        let project = ProjectId(number + 2);
        let key = KeyId(number + 3);
        let text = KeyForge::new(SECRET.as_bytes()).make().unwrap();
        let name = format!("n{number}");
        let made = Tenant::new(tenant, name.clone(), Tier::Standard, START);
        store.create_tenant(&made).await.unwrap();
        let made = Project::new(project, tenant, name, START);
        store.create_project(&made).await.unwrap();
        let made = Key::new(key, project, shown(&text), KeyHash::of(&text), START);
        store.create_key(&made, START).await.unwrap();
        Account { tenant, project, key, text }
    }
}

async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok(), "never happened: {what}");
}

async fn end(gateway: Gateway) {
    gateway.drain().await;
}

async fn call(gateway: &Gateway, key: &str) -> String {
    send(gateway.addr(), &post("/eth", key, "some_method")).await
}

async fn readyz(addr: SocketAddr) -> String {
    send(addr, "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn header<'a>(answer: &'a str, name: &str) -> &'a str {
    let start = format!("\r\n{name}: ");
    answer.split(&start).nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or("none")
}

fn remaining(answer: &str) -> [u64; 3] {
    ["minute", "hour", "day"].map(|span| {
        let value = header(answer, &format!("x-ratelimit-remaining-{span}"));
        value.parse().unwrap_or_else(|_| panic!("{span}: {answer}"))
    })
}

// Shows (Keys).
#[tokio::test]
async fn without_its_database_a_gateway_waits_unready_and_then_serves() {
    let app = Fixture::new().await;
    let lines = CapturedLog::default();
    let _listening = lines.capture("info", LogFormat::Text);
    let gateway = app.start_unready().await;
    let addr = gateway.addr();
    let genuine = KeyForge::new(SECRET.as_bytes()).make().unwrap();
    let forged = KeyForge::new(b"another").make().unwrap();
    let answer = readyz(addr).await;
    assert!(status(&answer) == 503 && answer.contains("waiting for the database"), "{answer}");
    for (key, expected) in [(KEY, 503), (genuine.as_str(), 503), (forged.as_str(), 401)] {
        let answer = call(&gateway, key).await;
        assert_eq!(status(&answer), expected, "{answer}");
        assert_eq!(header(&answer, "retry-after") != "none", expected == 503, "{answer}");
    }
    until("the log says why", async || lines.text().contains("does not exist")).await;
    app.make_room();
    until("it is ready", async || gateway.ready()).await;
    assert_eq!(status(&readyz(addr).await), 200);
    assert!(is_served(&call(&gateway, KEY).await));
    assert_eq!(status(&call(&gateway, &genuine).await), 401, "now it is known that there is no such key");
    assert_eq!(lines.text().matches("does not exist").count(), 1, "{}", lines.text());
    end(gateway).await;
}

#[tokio::test]
async fn a_gateway_that_never_became_ready_still_ends() {
    let app = Fixture::new().await;
    let state = app.state().await;
    assert!(!state.is_ready());
    let (closed, ready) = tokio::join!(state.close(), state.ready());
    assert_eq!((closed, ready), ((), false));
    state.close().await;
    drop(state);
    app.state().await;
}

// Shows (Keys): Keys of the store and keys of the file are served together.
#[tokio::test]
async fn keys_of_the_file_and_of_the_database_are_served_and_metered() {
    let app = Fixture::new().await;
    let store = app.store().await;
    let account = app.account(&store, 10).await;
    let gateway = app.start().await;
    for key in [KEY, account.text.as_str(), KEY, account.text.as_str()] {
        let answer = call(&gateway, key).await;
        assert!(is_served(&answer), "{answer}");
    }
    end(gateway).await;
    assert_eq!(app.totals(account.tenant).await.requests, 2);
    let file = app.config("").tenants["default"].id;
    assert_eq!(app.totals(file).await.requests, 2);
}

// Shows (Usage).
#[tokio::test]
async fn a_call_is_in_usage_soon_after_its_answer() {
    let app = Fixture::new().await;
    let account = app.account(&app.store().await, 10).await;
    let gateway = app.start().await;
    let answer = call(&gateway, &account.text).await;
    let request: RequestId = header(&answer, "x-request-id").parse().unwrap();
    let usage = app.usage().await;
    until("the call is there", async || usage.event(account.tenant, request).await.unwrap().is_some()).await;
    let event = usage.event(account.tenant, request).await.unwrap().unwrap();
    assert_eq!((event.key, event.project, event.lines[0].cu), (account.key, account.project, 1));
    let totals = app.totals(account.tenant).await;
    assert_eq!((totals.requests, totals.billable_units, totals.errors), (1, 1, 0));
    drop(gateway);
}

// Shows (Commands and configuration): A drain flushes every usage event and exits with 0.
#[tokio::test]
async fn a_drain_ships_everything() {
    let app = Fixture::new().await;
    let account = app.account(&app.store().await, 10).await;
    let gateway = app.start().await;
    for _ in 0..30 {
        assert!(is_served(&call(&gateway, &account.text).await));
    }
    for _ in 0..5 {
        // Refusals too, which are held back for a moment.
        assert_eq!(status(&send(gateway.addr(), &post("/eth", &account.text, "debug_x")).await), 403);
    }
    end(gateway).await;
    let totals = app.totals(account.tenant).await;
    assert_eq!((totals.requests, totals.billable_units, totals.rejected), (35, 30, 5));
    let segments = std::fs::read_dir(app.home.path().join("journal")).unwrap().count();
    assert!(segments > 0, "files stay for a while");
    let again = app.start().await;
    end(again).await;
    assert_eq!(app.totals(account.tenant).await.requests, 35, "nothing is shipped twice");
}

// Shows (Keys): A change on the management side takes effect at every gateway within 1 s.
#[tokio::test]
async fn changes_by_the_management_side_take_effect_soon() {
    let app = Fixture::new().await;
    let store = app.store().await;
    let one = app.account(&store, 10).await;
    let other = app.account(&store, 20).await;
    // Capacity for every read of a test.
    let wide = |figure| PlanChange {
        per_minute: Some(figure),
        per_hour: Some(10_000_000),
        per_day: Some(10_000_000),
        ..PlanChange::default()
    };
    store.put_plan(Tier::Standard, &wide(1_000_000), START).await.unwrap();
    store.put_plan(Tier::Premium, &wide(2_000_000), START).await.unwrap();
    let gateway = app.start().await;
    let ask = async || call(&gateway, &one.text).await;
    assert!(is_served(&ask().await) && is_served(&call(&gateway, &other.text).await));

    store.suspend(one.tenant, START).await.unwrap();
    until("the tenant is suspended", async || status(&ask().await) == 402).await;
    store.reactivate(one.tenant, START).await.unwrap();
    until("and active again", async || is_served(&ask().await)).await;

    store.set_lists(one.tenant, one.project, &[], &["some_method".into()], START).await.unwrap();
    until("the method is blocked", async || status(&ask().await) == 403).await;
    store.set_lists(one.tenant, one.project, &[], &[], START).await.unwrap();
    until("and open again", async || is_served(&ask().await)).await;

    let limit = async || header(&ask().await, "x-ratelimit-limit-minute").to_owned();
    assert_eq!(limit().await, "1000000");
    store.set_tier(one.tenant, Tier::Premium, START).await.unwrap();
    until("the tenant is on another plan", async || limit().await == "2000000").await;
    store.put_plan(Tier::Premium, &wide(3_000_000), START).await.unwrap();
    until("the plan has other figures", async || limit().await == "3000000").await;

    store.put_weight("eth", "some_method", 7, START).await.unwrap();
    until("the method costs more", async || units(&ask().await) == "7").await;
    store.delete_weight("eth", "some_method", START).await.unwrap();
    until("and as before", async || units(&ask().await) == "1").await;

    store.switch_chain("eth", false, START).await.unwrap();
    until("the chain is off", async || ask().await.contains("chain not available")).await;
    store.switch_chain("eth", true, START).await.unwrap();
    until("and on", async || is_served(&ask().await)).await;

    store
        .put_quota(one.project, &ProjectQuota { cu_per_day: 1, ..ProjectQuota::default() }, START)
        .await
        .unwrap();
    until("the quota is used up", async || !is_served(&ask().await)).await;
    store.delete_quota(one.project, START).await.unwrap();
    until("and wide again", async || is_served(&ask().await)).await;

    store.revoke_key(one.tenant, one.key, START).await.unwrap();
    until("the key is refused", async || status(&ask().await) == 401).await;
    assert!(is_served(&call(&gateway, &other.text).await), "the other key is as it was");
    end(gateway).await;
}

// Shows (Reliability): A restart continues windows and quota exactly.
#[tokio::test]
async fn a_restart_keeps_windows_and_quota_to_the_unit() {
    let app = Fixture::new().await;
    let store = app.store().await;
    let account = app.account(&store, 10).await;
    store
        .put_quota(account.project, &ProjectQuota { cu_per_day: 9, ..ProjectQuota::default() }, START)
        .await
        .unwrap();
    let gateway = app.start().await;
    for _ in 0..3 {
        assert!(is_served(&call(&gateway, &account.text).await));
    }
    end(gateway).await;

    app.clock.advance(Duration::from_secs(44));
    let gateway = app.start().await;
    assert_eq!(remaining(&call(&gateway, &account.text).await), [50 - 4, 2_500 - 4, 50_000 - 4]);
    // Killed, so it cannot shut down.
    drop(gateway);

    app.clock.advance(Duration::from_secs(1));
    let gateway = app.start().await;
    assert_eq!(remaining(&call(&gateway, &account.text).await), [50 - 1, 2_500 - 5, 50_000 - 5]);
    end(gateway).await;

    app.clock.advance(Duration::from_secs(1_740));
    let gateway = app.start().await;
    assert_eq!(remaining(&call(&gateway, &account.text).await), [50 - 1, 2_500 - 1, 50_000 - 6]);
    end(gateway).await;

    // Three units are left of nine, and none of them leaves before 24 hours are over.
    app.clock.advance(Duration::from_secs(22 * 3_600));
    let gateway = app.start().await;
    for left in [true, true, true, false] {
        assert_eq!(is_served(&call(&gateway, &account.text).await), left);
    }
    end(gateway).await;
    assert_eq!(app.totals(account.tenant).await.billable_units, 9);
    app.clock.advance(Duration::from_secs(3_600));
    let gateway = app.start().await;
    let served: Vec<bool> = [is_served(&call(&gateway, &account.text).await), true].into();
    assert_eq!(served, [true, true], "the first hour has left");
    end(gateway).await;
}

// Shows (Management).
#[tokio::test]
async fn settings_of_operators_survive_a_reload() {
    let app = Fixture::new().await;
    let store = app.store().await;
    store.put_weight("eth", "some_method", 7, START).await.unwrap();
    let change = PlanChange { per_minute: Some(77), ..PlanChange::default() };
    store.put_plan(Tier::Enterprise, &change, START).await.unwrap();
    let account = app.account(&store, 10).await;
    let gateway = app.start().await;
    let answer = call(&gateway, KEY).await;
    assert_eq!((units(&answer), header(&answer, "x-ratelimit-limit-minute")), ("7", "77"));
    assert!(is_served(&call(&gateway, &account.text).await));

    let more = "cu = { some_method = 3, other = 4 }\n[plans.enterprise]\nper_hour = 88\n[plans.standard]\nper_day = 99\n";
    assert_eq!(
        gateway.reload(app.config(more)).unwrap(),
        Vec::<&str>::new(),
        "nothing of it needs a restart"
    );
    let answer = call(&gateway, KEY).await;
    assert_eq!((units(&answer), header(&answer, "x-ratelimit-limit-minute")), ("7", "77"));
    assert_eq!(header(&answer, "x-ratelimit-limit-hour"), "88");
    assert_eq!(units(&send(gateway.addr(), &post("/eth", KEY, "other")).await), "4");
    let answer = call(&gateway, &account.text).await;
    assert_eq!(
        header(&answer, "x-ratelimit-limit-day"),
        "99",
        "keys of the database have the figures of the file"
    );

    store.delete_weight("eth", "some_method", START).await.unwrap();
    until("the file's own weight is in force", async || units(&call(&gateway, KEY).await) == "3").await;
    end(gateway).await;
}

// Shows (Commands and configuration).
#[tokio::test]
async fn an_accepted_configuration_is_a_version_and_a_check_compares_with_the_running_one() {
    let app = Fixture::new().await;
    let gateway = app.start().await;
    let store = app.store().await;
    let versions = async || store.config_versions(&ConfigVersionFilter::default(), None, 9).await.unwrap();
    until("the start is a version", async || versions().await.len() == 1).await;
    let file = app.home.path().join("rpcgate.toml");
    let check = async |more: &str| {
        std::fs::write(&file, app.text(more)).unwrap();
        let mut out = Vec::new();
        let plan = check::against(&file, &mut out).await.unwrap();
        (plan, String::from_utf8(out).unwrap())
    };
    let (plan, shown) = check("").await;
    assert_eq!(plan, ReloadPlan::Nothing, "{shown}");
    let live = "cu = { some_method = 3 }\n";
    let both = "cu = { some_method = 3 }\n[cache]\nbytes = 0\n";
    let (plan, shown) = check(both).await;
    assert_eq!(plan, ReloadPlan::Restart, "{shown}");
    assert!(
        shown.contains("RESTART  cache.bytes: ") && shown.contains("reload   chains.eth.cu: "),
        "{shown}"
    );
    assert!(!shown.contains(SECRET) && !shown.contains(KEY), "{shown}");

    assert_eq!(gateway.reload(app.config(both)).unwrap(), ["cache"]);
    until("the reload is a version", async || versions().await.len() == 2).await;
    let (plan, shown) = check(both).await;
    assert_eq!(plan, ReloadPlan::Restart, "{shown}");
    assert!(shown.contains("it waits for a restart with: cache.bytes\n"), "{shown}");
    let (plan, shown) = check(live).await;
    assert_eq!(plan, ReloadPlan::Nothing, "the cache has its old size: {shown}");
    end(gateway).await;
}

// Shows (Keys).
#[tokio::test]
async fn a_key_added_to_the_file_belongs_to_the_file() {
    let app = Fixture::new().await;
    let store = app.store().await;
    let account = app.account(&store, 10).await;
    let gateway = app.start().await;
    let limit = async || header(&call(&gateway, &account.text).await, "x-ratelimit-limit-minute").to_owned();
    assert_eq!(limit().await, "50");
    gateway.reload(app.config(&format!("[keys.mine]\nkey = {:?}\n", account.text))).unwrap();
    assert_eq!(limit().await, "1000");
    end(gateway).await;
}

#[tokio::test]
async fn a_state_that_cannot_exist_fails_the_start() {
    let app = Fixture::new().await;
    let mut config = app.config("");
    let text = format!(
        "{}[database]\nurl = \"postgres://u:hunter2@h/db?sslmode=hunter2\"\n",
        app.text("").replace("[database]", "[redis]").replace(&format!("url = {:?}\n", app.url()), "")
    );
    let input = Input { chains: &["eth"], file: Some(("f", &text)), ..Input::default() };
    let postgres = Config::read(&input).unwrap();
    for error in
        [State::check(&postgres).unwrap_err(), State::open(&postgres, app.clock.clone()).unwrap_err()]
    {
        assert!(error.is_configuration(), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("database.url: cannot be read") && !text.contains("hunter2"), "{text}");
    }
    let first = app.state().await;
    let error = State::open(&config, app.clock.clone()).unwrap_err();
    assert!(!error.is_configuration() && error.to_string().contains("in use"), "{error}");
    assert!(State::check(&config).is_ok(), "a check may be made beside a gateway that runs");
    first.close().await;
    config.journal.dir = app.home.path().join("file");
    std::fs::write(&config.journal.dir, "").unwrap();
    for error in [State::check(&config).unwrap_err(), State::open(&config, app.clock.clone()).unwrap_err()] {
        assert!(error.is_configuration() && error.to_string().starts_with("journal.dir "), "{error}");
    }
}

#[tokio::test]
async fn settings_of_the_state_have_an_effect_where_there_is_one() {
    let app = Fixture::new().await;
    let lines = CapturedLog::default();
    let _listening = lines.capture("info", LogFormat::Text);
    end(app.start().await).await;
    assert!(!lines.text().contains("has no effect"), "{}", lines.text());
    assert!(!lines.text().contains("not stored"), "{}", lines.text());
    let options = StartOptions { clock: app.clock.clone(), ..StartOptions::default() };
    end(Gateway::start(app.config(""), options).await.unwrap()).await;
    for setting in ["database", "journal"] {
        let line = format!("has no effect in this version setting=\"{setting}\"");
        assert!(lines.text().contains(&line), "{}", lines.text());
    }
    assert!(lines.text().contains("not stored"), "{}", lines.text());
}

/// A directory of one key that can be made unavailable.
#[derive(Debug)]
struct FlakyDirectory {
    hash: KeyHash,
    away: Mutex<bool>,
}

impl KeySource for FlakyDirectory {
    fn look_up<'a>(
        &'a self,
        hash: KeyHash,
        plans: &'a Plans,
        _: Time,
    ) -> BoxFuture<'a, Result<Option<StoredKey>, Unavailable>> {
        Box::pin(async move {
            if *self.away.lock() {
                return Err(Unavailable);
            }
            let mut caller = suite::caller(7);
            caller.plan = plans.of(Tier::Enterprise);
            Ok((hash == self.hash).then_some(StoredKey { caller, terms: Terms::default(), revoked: false }))
        })
    }
}

// Shows (Keys).
#[tokio::test]
async fn without_the_database_known_keys_are_served_for_a_day_and_unknown_ones_get_503() {
    let app = Fixture::new().await;
    let forge = || KeyForge::new(SECRET.as_bytes());
    let key = forge().make().unwrap();
    let unknown = forge().make().unwrap();
    let source = Arc::new(FlakyDirectory { hash: KeyHash::of(&key), away: Mutex::new(false) });
    let directory = Arc::new(StoreDirectory::new(Some(forge()), Plans::default(), app.clock.clone()));
    directory.open(source.clone());
    directory.reached();
    let options = StartOptions {
        clock: app.clock.clone(),
        directory: Some(directory.clone()),
        ..StartOptions::default()
    };
    let gateway = Gateway::start(app.config(""), options).await.unwrap();
    assert!(is_served(&call(&gateway, &key).await));
    assert_eq!(status(&call(&gateway, &unknown).await), 401);
    *source.away.lock() = true;
    app.clock.advance(TRUST - Duration::from_secs(1));
    assert!(is_served(&call(&gateway, &key).await));
    assert_eq!(status(&call(&gateway, &unknown).await), 503);
    app.clock.advance(Duration::from_secs(1));
    let answer = call(&gateway, &key).await;
    assert!(status(&answer) == 503 && header(&answer, "retry-after") != "none", "{answer}");
    *source.away.lock() = false;
    assert!(is_served(&call(&gateway, &key).await), "the database is back, if not its feed");
    assert!(matches!(directory.peek(&key), KeyLookup::Miss));
}
