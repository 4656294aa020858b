//! Usage compared with an independent count: clients of two tenants store their requests and the answers, and every
//! view must agree.

mod caller;
mod endpoints;
mod tally;
mod views;
mod windows;

use caller::{AWAY, CUT, Caller, ERRING, Lists, NO, World};
use rpcgate_core::clock::{Clock, ManualClock};
use rpcgate_server::Gateway;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::{ApiUser, TestService};
use rpcgate_tests::client::TestClient;
use rpcgate_tests::gateway::{START, Setup, key};
use rpcgate_tests::load::TestSeed;
use rpcgate_tests::node::{Node, ScriptedAnswer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tally::{Call, Rows, Sums, Who, add, moment, rows, shown, sums, total};
use tokio::time::{sleep, timeout};

struct Town {
    service: TestService,
    clock: Arc<ManualClock>,
    owners: Vec<ApiUser>,
    operator: ApiUser,
    callers: Vec<Caller>,
    gateway: Gateway,
    _nodes: Vec<Node>,
}

impl Town {
    fn calls(&self, tenant: usize) -> Vec<Call> {
        let calls = self.callers.iter().flat_map(|caller| &caller.calls);
        calls.filter(|call| call.who.tenant == tenant).cloned().collect()
    }

    async fn traffic(&mut self, requests: usize) {
        let sending: Vec<_> =
            self.callers.drain(..).map(|caller| tokio::spawn(caller.send(requests))).collect();
        for caller in sending {
            self.callers.push(caller.await.unwrap());
        }
    }

    fn caller(&mut self, key: &str) -> &mut Caller {
        self.callers.iter_mut().find(|caller| caller.tag == key).unwrap()
    }

    fn gone(&self) -> &str {
        let caller = self.callers.iter().find(|caller| caller.tag == "gone");
        &caller.unwrap().who.project
    }

    /// Calls with a key until the status is the expected one.
    async fn until(&mut self, key: &str, so: impl Fn(u16) -> bool) {
        let caller = self.caller(key);
        let wait = async {
            while !so(caller.call("bsc", "unlisted").await) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(timeout(TIMEOUT, wait).await.is_ok(), "{key} is never answered so");
    }

    /// Advances the clock and renews tokens that would expire.
    async fn pass(&mut self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
        for account in self.owners.iter_mut().chain([&mut self.operator]) {
            account.log_in_again().await;
        }
    }

    async fn counted(&self, tenant: usize) {
        let all = self.calls(tenant).len() as u64;
        let wait = async {
            while self.view(tenant, "period=7d").await["totals"]["requests"].as_u64().unwrap() < all {
                sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(timeout(TIMEOUT, wait).await.is_ok(), "not {all} calls of {tenant}");
    }

    async fn view(&self, tenant: usize, query: &str) -> Value {
        self.owners[tenant].shown(&format!("/usage?{query}")).await
    }

    /// Checks that a view of a tenant equals the count of its clients.
    async fn check(&self, tenant: usize, groups: &[&str], only: &[(&str, &str)], hours: Option<Range<u64>>) {
        let mut query = format!("limit=5000&group_by={}", groups.join(","));
        for (name, value) in only {
            query += &format!("&{name}={value}");
        }
        query += &match &hours {
            Some(hours) => format!("&from={}&to={}", moment(hours.start), moment(hours.end)),
            None => "&period=7d".to_owned(),
        };
        let view = self.view(tenant, &query).await;
        let calls: Vec<_> = self.calls(tenant);
        let counted = calls
            .iter()
            .filter(|call| call.is_in(only) && hours.as_ref().is_none_or(|hours| hours.contains(&call.hour)));
        let counted: Vec<_> = counted.collect();
        same(&shown(&view, groups), &rows(counted.iter().copied(), groups), &query);
        assert_eq!(sums(&view["totals"]), total(counted), "{query}");
        let mut sum = Sums::default();
        for row in view["rows"].as_array().unwrap() {
            add(&mut sum, &sums(row));
        }
        assert_eq!(sum, sums(&view["totals"]), "rows add up to the totals: {query}");
        assert_eq!(view["truncated"], false);
    }
}

/// Like `assert_eq`, but shows only the differences.
#[track_caller]
fn same(shown: &Rows, counted: &Rows, query: &str) {
    let names: BTreeSet<_> = shown.keys().chain(counted.keys()).collect();
    let differ: Vec<String> = names
        .into_iter()
        .filter(|name| shown.get(*name) != counted.get(*name))
        .map(|name| format!("{name:?}: shown {:?}, counted {:?}", shown.get(name), counted.get(name)))
        .collect();
    assert!(differ.is_empty(), "{query}\n{:?}\n{}", tally::SUMS, differ.join("\n"));
}

/// Starts two tenants with several projects and keys. Each key can be refused for some reason.
async fn town(seed: &TestSeed) -> Town {
    let clock = Arc::new(ManualClock::at(START));
    let world = World::new(clock.clone());
    let mut setup =
        Setup::new().set("admin", "auth_per_minute = 100000").set("admin.challenge", "difficulty = 100");
    let mut nodes = Vec::new();
    for (chain, is_utxo) in [("eth", false), ("bsc", false), ("btc", true), ("doge", true)] {
        let node = if is_utxo { Node::utxo().await } else { Node::evm().await };
        for method in ERRING {
            node.answer(method, ScriptedAnswer::Error(format!(r#"{{"code":-8,"message":"{NO}"}}"#)));
        }
        node.answer(CUT, ScriptedAnswer::Cut);
        world.listen(chain, &node);
        setup = setup.node(chain, &node.url());
        nodes.push(node);
    }
    let service = TestService::start(setup, clock.clone()).await;
    let gateway = service.gateway().await;
    let operator = service.operator().await;
    let owners = vec![service.owner("ada@example.com").await, service.owner("bob@example.com").await];
    let tenant = owners[0].tenant().await;
    operator.put(&format!("/operator/tenants/{tenant}"), &json!({ "tier": "enterprise" })).await;
    operator.put("/operator/plans/free", &json!({ "per_minute": 12, "heavy_per_minute": 2 })).await;

    let mut callers = Vec::new();
    // Every project has its own setting, and keys with one each.
    let later = moment(START.hour() + 12);
    let blocked = Lists { blocked: &["blocked", "eth_getBalance"], ..Lists::default() };
    let allowed = Lists { allowed: &["eth_call", "eth_chainId", "getblock", "unlisted"], ..Lists::default() };
    let narrow = ("narrow", json!({ "chains": ["ethereum", "btc"] }));
    let ending = ("ending", json!({ "expires_at": later }));
    let projects = [
        (0, Lists::default(), json!({}), vec![("all", json!({})), narrow]),
        (0, blocked, json!({}), vec![ending, ("revoked", json!({}))]),
        (0, Lists::default(), json!({ "cu_per_day": 700 }), vec![("little", json!({}))]),
        (1, Lists::default(), json!({}), vec![("free", json!({})), ("free too", json!({}))]),
        (1, allowed, json!({ "rps_limit": 3 }), vec![("listed", json!({}))]),
        (1, Lists::default(), json!({}), vec![("gone", json!({}))]),
    ];
    for (tenant, lists, quota, keys) in projects {
        let owner: &ApiUser = &owners[tenant];
        let project = owner.project("one of them").await;
        let Lists { allowed, blocked } = lists;
        let change = json!({ "allowed_methods": allowed, "blocked_methods": blocked });
        owner.put(&format!("/projects/{project}"), &change).await;
        if quota != json!({}) {
            operator.put(&format!("/operator/projects/{project}/quota"), &quota).await;
        }
        for (tag, mut settings) in keys {
            settings["description"] = json!(tag);
            let (key, text) = owner.key_with(&project, &settings).await;
            let who = Who { tenant, project: project.clone(), key };
            let client = TestClient::new(gateway.addr(), Some(&text));
            let dice = seed.dice(callers.len() as u64);
            callers.push(Caller::new(&world, client, who, tag, lists, dice));
        }
    }
    Town { service, clock, owners, operator, callers, gateway, _nodes: nodes }
}

/// Makes calls of all kinds, over two days, while keys expire and tenants are suspended.
async fn lived(seed: &TestSeed) -> Town {
    let mut town = town(seed).await;
    let addr = town.gateway.addr();
    // Calls without a known key and unknown paths are charged to no tenant.
    let known = town.caller("all").another();
    for (client, method, path, status) in [
        (TestClient::new(addr, None), "POST", "/eth", 401),
        (TestClient::new(addr, Some(&key("unknown"))), "POST", "/eth", 401),
        (known, "POST", "/nowhere", 404),
        (town.caller("all").another(), "GET", "/eth", 405),
    ] {
        assert_eq!(client.send(method, path, &[], b"").await.status, status);
    }
    // Every possible failure occurs, independently of the random numbers.
    for (key, chain, method, times) in [
        ("all", "eth", "eth_getLogs", 2),
        ("all", "eth", "debug_traceCall", 1),
        ("all", "bsc", "admin_peers", 1),
        ("all", "btc", ERRING[1], 1),
        ("all", AWAY, "eth_call", 1),
        ("narrow", "bsc", "eth_call", 1),
        ("revoked", "eth", "blocked", 1),
        ("little", "bsc", "eth_getLogs", 12),
        ("little", "doge", CUT, 1),
        ("free", "bsc", "txpool_content", 13),
    ] {
        for _ in 0..times {
            town.caller(key).call(chain, method).await;
        }
    }
    for body in
        ["{".to_owned(), "[]".to_owned(), format!("[{}7]", "7,".repeat(100)), " ".repeat((5 << 20) + 1)]
    {
        town.caller("all").say(body).await;
    }
    town.pass(45).await;
    town.traffic(20).await;
    town.pass(50).await;
    town.traffic(20).await;

    town.pass(3_600).await;
    let revoked = town.caller("revoked").who.key.clone();
    town.owners[0].delete(&format!("/keys/{revoked}")).await;
    town.until("revoked", |status| status == 401).await;
    let gone = town.caller("gone").who.project.clone();
    town.owners[1].delete(&format!("/projects/{gone}")).await;
    town.until("gone", |status| status == 401).await;
    town.traffic(20).await;

    // One key has expired.
    town.pass(12 * 3_600).await;
    let bob = format!("/operator/tenants/{}", town.owners[1].tenant().await);
    town.operator.put(&bob, &json!({ "status": "suspended" })).await;
    town.until("free", |status| status == 402).await;
    town.traffic(10).await;
    town.operator.put(&bob, &json!({ "status": "active" })).await;
    town.until("free", |status| status != 402).await;
    town.traffic(10).await;

    // Another day: the first hours are more than 24 hours ago.
    town.pass(12 * 3_600).await;
    town.traffic(20).await;
    for tenant in [0, 1] {
        town.counted(tenant).await;
    }
    town
}
