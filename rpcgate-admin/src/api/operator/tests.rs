use crate::testing::fixtures::error_body;
use crate::testing::{Site, Visitor};
use axum::body::Body;
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use rpcgate_config::Plans;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_management::action::billing::closing::close_months;
use rpcgate_management::action::billing::month::BillingMonth;
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::{AuditSubject, GatewayReport, NodeState, Project, Role, fresh_id};
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(site: &Site, visitor: &Visitor, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = site.ask(Some(visitor), method, &format!("/api/v1/operator{path}"), body).await;
    // Entries and rows of the same time have no order.
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), answer.body)
}

const UNKNOWN_ID: &str = "00000000-0000-7000-8000-000000000000";

// Shows (Management): Only operators may call operator endpoints.
#[tokio::test]
async fn operator_routes_require_an_operator() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    for (method, path, body) in [
        (Method::GET, "/tenants".to_owned(), Value::Null),
        (Method::PUT, format!("/tenants/{tenant}"), json!({"tier": "enterprise"})),
        (Method::GET, "/users".into(), Value::Null),
        (Method::POST, format!("/users/{UNKNOWN_ID}/disable"), Value::Null),
        (Method::PUT, format!("/projects/{UNKNOWN_ID}/quota"), json!({})),
        (Method::DELETE, format!("/projects/{UNKNOWN_ID}/quota"), Value::Null),
        (Method::GET, "/limit-requests".into(), Value::Null),
        (Method::PUT, format!("/limit-requests/{UNKNOWN_ID}"), json!({"status": "approved"})),
        (Method::GET, "/cu-weights/eth/eth_call".into(), Value::Null),
        (Method::PUT, "/cu-weights/eth/eth_call".into(), json!({"cu": 0})),
        (Method::DELETE, "/cu-weights/eth/eth_call".into(), Value::Null),
        (Method::PUT, "/chains/eth".into(), json!({"enabled": false})),
        (Method::GET, "/nodes".into(), Value::Null),
        (Method::GET, "/plans/free".into(), Value::Null),
        (Method::PUT, "/plans/free".into(), json!({"per_minute": 1})),
    ] {
        let (status, answer) = ask(&site, &owner, method.clone(), &path, body.clone()).await;
        assert_eq!(
            (status, answer),
            (403, error_body("forbidden", "only operators may do this")),
            "{method} {path}"
        );
        let path = format!("/api/v1/operator{path}");
        let answer = site.ask(None, method, &path, body.to_string()).await;
        assert_eq!(answer.status.as_u16(), 401, "{path}");
    }
    assert_eq!(site.app.store.overlay().await.unwrap(), rpcgate_config::Overlay::default());
}

// Shows (Management): Operators suspend tenants and move them to another tier.
#[tokio::test]
async fn a_tenant_is_suspended_and_moved_to_another_plan() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let first = site.tenant().await;
    let second = site.tenant().await;
    let path = format!("/tenants/{first}");
    let before = site.app.store.newest_change().await.unwrap();
    let (status, reported) = ask(&site, &operator, Method::PUT, &path, json!({"status": "suspended"})).await;
    assert_eq!((status, &reported["status"], &reported["tier"]), (200, &json!("suspended"), &json!("free")));
    let heard = site.app.store.newest_change().await.unwrap();
    assert!(heard > before, "gateways hear of it");
    let (_, reported) = ask(&site, &operator, Method::PUT, &path, json!({"tier": "standard"})).await;
    assert_eq!((&reported["status"], &reported["tier"]), (&json!("suspended"), &json!("standard")));
    let both = json!({"status": "active", "tier": "premium"});
    let (_, reported) = ask(&site, &operator, Method::PUT, &path, both).await;
    assert_eq!((&reported["status"], &reported["tier"]), (&json!("active"), &json!("premium")));
    let (status, same) = ask(&site, &operator, Method::PUT, &path, json!({})).await;
    assert_eq!((status, same), (200, reported));
    let audit = site.app.store.audit(AuditSubject::Tenant(first), 100).await.unwrap();
    let reported: Vec<_> = audit.iter().map(|entry| (entry.action.as_str(), entry.detail.as_str())).collect();
    let changed = ["active, premium", "standard", "suspended"].map(|detail| ("tenant.changed", detail));
    assert_eq!(reported, changed);
    for body in [json!({"status": "gone"}), json!({"tier": "gold"}), json!({"name": "x"})] {
        assert_eq!(ask(&site, &operator, Method::PUT, &path, body.clone()).await.0, 400, "{body}");
    }
    for id in [UNKNOWN_ID, "x"] {
        let unknown = format!("/tenants/{id}");
        let gone = (404, error_body("not_found", "tenant not found"));
        for body in [json!({"status": "active"}), json!({})] {
            assert_eq!(ask(&site, &operator, Method::PUT, &unknown, body).await, gone);
        }
    }

    let list = async |query: &str| {
        ask(&site, &operator, Method::GET, &format!("/tenants{query}"), Value::Null).await
    };
    let mut ids = [first.to_string(), second.to_string()];
    ids.sort();
    let (_, all) = list("").await;
    let reported: Vec<_> = all.as_array().unwrap().iter().map(|tenant| tenant["id"].clone()).collect();
    assert_eq!(reported, ids.clone());
    let (_, page) = list("?limit=1").await;
    assert_eq!(page, json!([all[0]]));
    let (_, page) = list(&format!("?after={}&limit=5", ids[0])).await;
    assert_eq!(page, json!([all[1]]));
    for wrong in ["?after=x", "?limit=0", "?limit=1001"] {
        assert_eq!(list(wrong).await.0, 400, "{wrong}");
    }
}

// Shows (Management): A quota may set any of its fields to any u64; unset fields have their defaults.
#[tokio::test]
async fn a_quota_takes_any_of_its_fields_and_can_be_taken_away() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let tenant = site.tenant().await;
    let now = site.app.now();
    let id = ProjectId(fresh_id(now));
    let lists = (Vec::new(), Vec::new());
    let project =
        Project { allowed_methods: lists.0, blocked_methods: lists.1, ..Project::new(id, tenant, "P", now) };
    site.app.store.create_project(&project).await.unwrap();
    let path = format!("/projects/{id}/quota");
    let quota = |day: u64, month: Option<u64>, rps: Option<u64>| {
        json!({"project_id": id.to_string(), "cu_per_day": day, "cu_per_month": month, "rps_limit": rps,
            "has_quota_row": true})
    };
    for (body, expected) in [
        (json!({"cu_per_day": 5, "cu_per_month": 6, "rps_limit": 7}), quota(5, Some(6), Some(7))),
        (
            json!({"cu_per_day": u64::MAX, "cu_per_month": 1_u64 << 63, "rps_limit": u64::MAX}),
            quota(u64::MAX, Some(1 << 63), Some(u64::MAX)),
        ),
        (json!({"cu_per_day": 0}), quota(0, None, None)),
        (json!({"rps_limit": 3}), quota(100_000, None, Some(3))),
        (json!({}), quota(100_000, None, None)),
    ] {
        let before = site.app.store.newest_change().await.unwrap();
        let reported = ask(&site, &operator, Method::PUT, &path, body.clone()).await;
        assert_eq!(reported, (200, expected), "{body}");
        assert!(site.app.store.newest_change().await.unwrap() > before, "gateways hear of it");
    }
    assert!(
        site.app.store.quota(tenant, id, &Plans::default(), site.app.now()).await.unwrap().unwrap().has_row
    );
    for body in [json!({"cu_per_day": -1}), json!({"cu_per_day": 1.5}), json!({"rps": 1})] {
        assert_eq!(ask(&site, &operator, Method::PUT, &path, body.clone()).await.0, 400, "{body}");
    }
    assert_eq!(ask(&site, &operator, Method::DELETE, &path, Value::Null).await, (204, Value::Null));
    assert!(
        !site.app.store.quota(tenant, id, &Plans::default(), site.app.now()).await.unwrap().unwrap().has_row
    );
    assert_eq!(ask(&site, &operator, Method::DELETE, &path, Value::Null).await.0, 404);
    let unknown = format!("/projects/{UNKNOWN_ID}/quota");
    assert_eq!(ask(&site, &operator, Method::PUT, &unknown, json!({})).await.0, 404);
    assert_eq!(ask(&site, &operator, Method::DELETE, &unknown, Value::Null).await.0, 404);
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    assert_eq!(audit.len(), 6);
    assert_eq!((audit[0].action.as_str(), audit[0].user), ("quota.deleted", Some(operator.user.id)));
    assert_eq!(audit[5].detail, "cu_per_day 5, cu_per_month 6, rps_limit 7");
}

// Shows (Management).
#[tokio::test]
async fn a_weight_comes_from_operators_or_else_the_file_or_else_the_table() {
    let site = Site::of("[chains.btc]\ncu = { getblock = 33 }\n").await;
    let operator = site.operator().await;
    let get = async |path: &str| {
        let (status, weight) =
            ask(&site, &operator, Method::GET, &format!("/cu-weights/{path}"), Value::Null).await;
        assert_eq!(status, 200, "{path} {weight}");
        (weight["cu"].as_u64().unwrap(), weight["is_set"].as_bool().unwrap())
    };
    assert_eq!(get("eth/eth_call").await, (15, false));
    assert_eq!(get("btc/getblock").await, (33, false));
    assert_eq!(get("btc/unheard-of").await, (1, false));
    for (path, method) in [("eth/eth_call", "eth_call"), ("eth/queryNetwork%2Ftip", "queryNetwork/tip")] {
        let full = format!("/cu-weights/{path}");
        let before = site.app.store.newest_change().await.unwrap();
        let reported = ask(&site, &operator, Method::PUT, &full, json!({"cu": 0})).await;
        assert_eq!(reported, (200, json!({"chain": "eth", "method": method, "cu": 0, "is_set": true})));
        assert!(site.app.store.newest_change().await.unwrap() > before, "gateways hear of it");
        assert_eq!(site.app.store.weight("eth", method).await.unwrap(), Some(0));
        assert_eq!(get(path).await, (0, true));
        assert_eq!(ask(&site, &operator, Method::DELETE, &full, Value::Null).await, (204, Value::Null));
        assert_eq!(ask(&site, &operator, Method::DELETE, &full, Value::Null).await.0, 404);
    }
    assert_eq!(get("eth/eth_call").await, (15, false));
    for (path, status) in [
        ("/cu-weights/moon/eth_call", 404),
        ("/cu-weights/ethereum/eth_call", 404),
        ("/cu-weights/eth/a%20b", 400),
        ("/cu-weights/eth/a*", 400),
        ("/cu-weights/eth/a/b", 404),
    ] {
        for (method, body) in
            [(Method::GET, Value::Null), (Method::PUT, json!({"cu": 1})), (Method::DELETE, Value::Null)]
        {
            assert_eq!(ask(&site, &operator, method.clone(), path, body).await.0, status, "{method} {path}");
        }
    }
    for body in [json!({}), json!({"cu": -1}), json!({"cu": 4_294_967_296_u64}), json!({"cu": 1, "x": 1})] {
        let (status, _) = ask(&site, &operator, Method::PUT, "/cu-weights/eth/eth_call", body.clone()).await;
        assert_eq!(status, 400, "{body}");
    }
    let audit = site.app.store.audit(AuditSubject::User(operator.user.id), 4).await.unwrap();
    let reported: Vec<_> =
        audit.iter().map(|entry| (entry.action.as_str(), entry.subject.as_str())).collect();
    let tip = "eth/queryNetwork/tip";
    let call = "eth/eth_call";
    assert_eq!(
        reported,
        [("weight.deleted", tip), ("weight.set", tip), ("weight.deleted", call), ("weight.set", call)]
    );
}

// Shows (Management): An operator can switch a chain, but cannot enable one that the file disables.
#[tokio::test]
async fn a_chain_is_switched_but_not_against_the_file() {
    let node = "nodes = [\"http://127.0.0.1:1/\"]\n";
    let site = Site::of(&format!("[chains.eth]\n{node}[chains.btc]\nenabled = false\n{node}")).await;
    let operator = site.operator().await;
    for (chain, on, expected) in [("eth", false, false), ("eth", true, true), ("btc", true, false)] {
        let before = site.app.store.newest_change().await.unwrap();
        let path = format!("/chains/{chain}");
        let (status, reported) = ask(&site, &operator, Method::PUT, &path, json!({"enabled": on})).await;
        assert_eq!((status, &reported["name"]), (200, &json!(chain)));
        assert_eq!(
            (&reported["enabled"], &reported["served"]),
            (&json!(expected), &json!(expected)),
            "{chain} {on}"
        );
        assert!(site.app.store.newest_change().await.unwrap() > before, "gateways hear of it");
    }
    for (path, body, status) in [
        ("/chains/moon", json!({"enabled": true}), 404),
        ("/chains/bitcoin", json!({"enabled": true}), 404),
        ("/chains/eth", json!({}), 400),
        ("/chains/eth", json!({"enabled": "yes"}), 400),
    ] {
        assert_eq!(ask(&site, &operator, Method::PUT, path, body).await.0, status, "{path}");
    }
    let audit = site.app.store.audit(AuditSubject::User(operator.user.id), 1).await.unwrap();
    assert_eq!((audit[0].action.as_str(), audit[0].detail.as_str()), ("chain.switched", "on"));
}

// Shows (Management): Only the sent fields of a plan change.
#[tokio::test]
async fn only_the_given_limits_of_a_plan_change() {
    let site = Site::of("[plans.free]\nper_hour = 600\n").await;
    let operator = site.operator().await;
    let get = async || ask(&site, &operator, Method::GET, "/plans/free", Value::Null).await;
    let plan = |minute: u64, price: f64| {
        json!({"tier": "free", "per_minute": minute, "per_hour": 600, "per_day": 10_000, "heavy_per_minute": 6,
            "price_per_cu": price, "ws_connections": 5, "ws_connections_per_key": 5, "projects": 3, "keys_per_project": 10, "members": 3,
            "webhooks_per_project": 2, "subscriptions_per_webhook": 20, "cu_per_day": 100_000, "cu_per_month": null, "rps_limit": null, "monthly_fee_cents": 0, "scheduled": []})
    };
    assert_eq!(get().await, (200, plan(10, 0.0)));
    let put = async |body| ask(&site, &operator, Method::PUT, "/plans/free", body).await;
    let before = site.app.store.newest_change().await.unwrap();
    assert_eq!(put(json!({"per_minute": 20})).await, (200, plan(20, 0.0)));
    assert!(site.app.store.newest_change().await.unwrap() > before, "gateways hear of it");
    assert_eq!(put(json!({"price_per_cu": 0.002})).await, (200, plan(20, 0.002)));
    assert_eq!(put(json!({})).await, (200, plan(20, 0.002)));
    let mut counted = plan(20, 0.002);
    for (field, count) in
        [("projects", 7), ("keys_per_project", 8), ("members", 9), ("webhooks_per_project", 0)]
    {
        counted[field] = count.into();
        assert_eq!(put(json!({field: count})).await, (200, counted.clone()));
    }
    for (change, streams) in [
        (json!({"ws_connections": 8}), (8, 8)),
        (json!({"ws_connections_per_key": 2}), (8, 2)),
        (json!({"ws_connections": 9}), (9, 2)),
    ] {
        (counted["ws_connections"], counted["ws_connections_per_key"]) = (streams.0.into(), streams.1.into());
        assert_eq!(put(change).await, (200, counted.clone()));
    }
    for body in [
        json!({"per_minute": 0}),
        json!({"ws_connections": 1_000_001}),
        json!({"ws_connections_per_key": 1_000_001}),
        json!({"per_day": 1_000_000_000_001_u64}),
        json!({"price_per_cu": -1}),
        json!({"price_per_cu": 1001}),
        json!({"price_per_cu": 1e-13}),
        json!({"tier": "premium"}),
        json!({"per_minute": "20"}),
        json!({"projects": -1}),
        json!({"keys_per_project": 1_000_001}),
    ] {
        assert_eq!(put(body.clone()).await.0, 400, "{body}");
    }
    assert_eq!(get().await, (200, counted));
    for path in ["/plans/gold", "/plans/Free"] {
        assert_eq!(ask(&site, &operator, Method::GET, path, Value::Null).await.0, 404);
        assert_eq!(ask(&site, &operator, Method::PUT, path, json!({"per_day": 1})).await.0, 404);
    }
    let audit = site.app.store.audit(AuditSubject::User(operator.user.id), 9).await.unwrap();
    let details: Vec<_> = audit.iter().map(|entry| entry.detail.as_str()).collect();
    assert_eq!(details[..2], ["ws_connections 9", "ws_connections_per_key 2"]);
    assert_eq!(details[7..], ["price_per_cu 0.002", "per_minute 20"]);
}

// Shows (Dashboard).
#[tokio::test]
async fn nodes_are_listed_with_the_health_that_running_gateways_see() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let (status, none) = ask(&site, &operator, Method::GET, "/nodes", Value::Null).await;
    assert_eq!((status, none), (200, json!([])));
    let node = NodeState {
        chain: "eth".into(),
        node: "https://h/".into(),
        priority: 1,
        standing: "behind".into(),
        reason: "7 blocks behind; 3 are allowed".into(),
        height: Some(93),
        lag: Some(7),
        latency_micros: 1_500,
        in_flight: 2,
        faults: 3,
        rate_limit: Some(50),
        monthly_calls: Some(30_000_000),
        month_calls: Some(4_000_000),
        price_per_million: Some(2_500_000),
        over_rate: 11,
        over_budget: 12,
    };
    let report = |id, nodes| GatewayReport { id, at: site.app.now(), nodes };
    site.app.store.put_report(&report(1, vec![node]), &[]).await.unwrap();
    site.clock.advance(Duration::from_secs(30));
    let silent = NodeState { chain: "btc".into(), standing: "silent".into(), ..NodeState::default() };
    site.app.store.put_report(&report(2, vec![silent]), &[]).await.unwrap();
    let (_, nodes) = ask(&site, &operator, Method::GET, "/nodes", Value::Null).await;
    assert_eq!(nodes[0]["gateway"], "00000000-0000-0000-0000-000000000001");
    for (field, value) in [
        ("chain", json!("eth")),
        ("node", json!("https://h/")),
        ("priority", json!(1)),
        ("health", json!("behind")),
        ("reason", json!("7 blocks behind; 3 are allowed")),
        ("height", json!(93)),
        ("lag", json!(7)),
        ("latency_ms", json!(1.5)),
        ("in_flight", json!(2)),
        ("faults", json!(3)),
        ("rate_limit", json!(50)),
        ("monthly_calls", json!(30_000_000)),
        ("month_calls", json!(4_000_000)),
        ("price_per_million", json!(2.5)),
        ("month_cost", json!(10.0)),
        ("over_rate", json!(11)),
        ("over_budget", json!(12)),
    ] {
        assert_eq!(nodes[0][field], value, "{field}");
    }
    assert_eq!(
        (&nodes[1]["health"], &nodes[1]["height"], &nodes[1]["latency_ms"]),
        (&json!("silent"), &Value::Null, &Value::Null)
    );
    site.clock.advance(Duration::from_secs(40));
    let (_, nodes) = ask(&site, &operator, Method::GET, "/nodes", Value::Null).await;
    assert_eq!(nodes.as_array().map(Vec::len), Some(1), "one gateway has said nothing for a minute");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_node_is_drained_and_resumed_and_the_last_usable_one_only_with_force() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let node = |name: &str, standing: &str| NodeState {
        chain: "eth".into(),
        node: name.into(),
        standing: standing.into(),
        ..NodeState::default()
    };
    let report = |id, nodes| GatewayReport { id, at: site.app.now(), nodes };
    let both = vec![node("http://a", "well"), node("http://b", "well"), node("http://c", "silent")];
    site.app.store.put_report(&report(1, both), &[]).await.unwrap();
    let path = "/chains/eth/nodes";
    let put = |body: Value| ask(&site, &operator, Method::PUT, path, body);
    let drained = async || site.app.store.overlay().await.unwrap().drained.len();
    let (status, done) = put(json!({"node": "http://a", "drained": true})).await;
    assert_eq!((status, done), (200, json!({"chain": "eth", "node": "http://a", "drained": true})));
    assert_eq!(put(json!({"node": "http://a", "drained": true})).await.0, 200, "it is drained already");
    let (status, last) = put(json!({"node": "http://b", "drained": true})).await;
    assert_eq!((status, &last["code"]), (409, &json!("conflict")), "the third does not answer");
    assert_eq!(drained().await, 1);
    let (_, nodes) = ask(&site, &operator, Method::GET, "/nodes", Value::Null).await;
    assert_eq!((&nodes[0]["drained"], &nodes[1]["drained"]), (&json!(true), &json!(false)));
    assert_eq!(put(json!({"node": "http://b", "drained": true, "force": true})).await.0, 200);
    for (node, drained, status) in
        [("http://x", true, 404), ("http://x", false, 200), ("", true, 400), ("http://a", false, 200)]
    {
        assert_eq!(put(json!({"node": node, "drained": drained})).await.0, status, "{node}");
    }
    assert_eq!(
        ask(&site, &operator, Method::PUT, "/chains/x/nodes", json!({"node": "a", "drained": true})).await.0,
        404
    );
    assert_eq!(put(json!({"node": "http://b", "drained": false})).await.0, 200);
    // One of the two gateways has no other node.
    site.app.store.put_report(&report(2, vec![node("http://a", "well")]), &[]).await.unwrap();
    assert_eq!(put(json!({"node": "http://a", "drained": true})).await.0, 409);
    assert_eq!(put(json!({"node": "http://b", "drained": true})).await.0, 200);
    let audit = site.app.store.audit(AuditSubject::User(operator.user.id), 9).await.unwrap();
    let actions: Vec<_> = audit.iter().map(|entry| (entry.action.as_str(), entry.detail.as_str())).collect();
    for expected in [("node.drained", "http://b"), ("node.resumed", "http://a")] {
        assert!(actions.contains(&expected), "{actions:?}");
    }
    let changes = actions.iter().filter(|(action, _)| action.starts_with("node.")).count();
    assert_eq!(changes, 5, "what changes nothing leaves no trace: {actions:?}");
}

// Shows (Management).
#[tokio::test]
async fn a_tenant_is_deleted_once_it_owes_nothing() {
    // The fee is a dollar a minute in a month of 31 days.
    let site = Site::of("[billing.fees]\nstandard = 4464000\n").await;
    let operator = site.operator().await;
    let tenant = site.tenant().await;
    let path = format!("/tenants/{tenant}");
    site.app.store.begin_billing(BillingMonth::of(site.app.now()).start()).await.unwrap();
    assert_eq!(ask(&site, &operator, Method::PUT, &path, json!({"tier": "standard"})).await.0, 200);
    site.clock.advance(Duration::from_secs(60));
    let (status, refused) = ask(&site, &operator, Method::DELETE, &path, Value::Null).await;
    assert_eq!((status, &refused["code"]), (409, &json!("conflict")), "a minute of its fee is not billed");
    let text = refused["error"].as_str().unwrap();
    assert!(text.starts_with("this tenant owes something for a month that is not closed"), "{text}");
    assert_eq!(ask(&site, &operator, Method::PUT, &path, json!({"tier": "free"})).await.0, 200);
    assert_eq!(ask(&site, &operator, Method::DELETE, &path, Value::Null).await.0, 409, "it still owes that");

    site.clock.advance(Duration::from_secs(40 * 86_400));
    close_months(&site.app).await.unwrap();
    let operator = site.operator().await;
    let owner = site.visitor(Some(tenant), Role::Owner).await;
    let (status, refused) = ask(&site, &operator, Method::DELETE, &path, Value::Null).await;
    let open = "an invoice of this tenant is open: let it be paid, or cancel it, first";
    assert_eq!((status, refused), (409, error_body("conflict", open)));
    let paid = ask(&site, &operator, Method::PUT, "/invoices/2027-000001", json!({"status": "paid"})).await;
    assert_eq!((paid.0, &paid.1["total_cents"]), (200, &json!(100)), "{}", paid.1);
    assert_eq!(ask(&site, &owner, Method::DELETE, &path, Value::Null).await.0, 403);
    assert_eq!(ask(&site, &operator, Method::DELETE, &path, Value::Null).await, (204, Value::Null));
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(ask(&site, &operator, method, &path, Value::Null).await.0, 404);
    }
    let me = site.ask(Some(&owner), Method::GET, "/api/v1/auth/me", Body::empty()).await;
    assert_eq!(me.status, StatusCode::UNAUTHORIZED, "its members are gone");
    let (status, invoice) = ask(&site, &operator, Method::GET, "/invoices/2027-000001", Value::Null).await;
    assert_eq!((status, &invoice["status"]), (200, &json!("paid")), "invoices stay");
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
    let deleted = (audit[0].action.as_str(), audit[0].user, audit[0].detail.as_str());
    assert_eq!(deleted, ("tenant.deleted", Some(operator.user.id), "Site"));
}

// Shows (Management).
#[tokio::test]
async fn a_tenant_is_deleted_in_the_version_that_was_seen_and_before_billing_has_begun() {
    let site = Site::of("[billing.fees]\nfree = 100000\n").await;
    let operator = site.operator().await;
    let path = format!("/api/v1/operator/tenants/{}", site.tenant().await);
    let seen = site.ask(Some(&operator), Method::GET, &path, Body::empty()).await.headers["etag"].clone();
    let body = json!({"status": "suspended"}).to_string();
    assert_eq!(site.ask(Some(&operator), Method::PUT, &path, body).await.status, StatusCode::OK);
    let delete = async |etag: &http::HeaderValue| {
        let request = http::Request::delete(&path)
            .header(AUTHORIZATION, format!("Bearer {}", operator.token))
            .header("If-Match", etag.clone());
        site.send(request.body(Body::empty()).unwrap()).await.status
    };
    assert_eq!(delete(&seen).await, StatusCode::PRECONDITION_FAILED);
    let now = site.ask(Some(&operator), Method::GET, &path, Body::empty()).await.headers["etag"].clone();
    assert_eq!(delete(&now).await, StatusCode::NO_CONTENT, "what is never billed is not owed");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn operators_set_the_quota_and_the_fee_of_a_plan() {
    let site = Site::of("[plans.free]\ncu_per_day = 500\n[billing.fees]\nfree = 100\n").await;
    let operator = site.operator().await;
    let tenant = site.tenant().await;
    let owner = site.visitor(Some(tenant), Role::Owner).await;
    let plan = async || ask(&site, &operator, Method::GET, "/plans/free", Value::Null).await.1;
    let figures = |plan: &Value| {
        ["cu_per_day", "cu_per_month", "rps_limit", "monthly_fee_cents"].map(|name| plan[name].clone())
    };
    assert_eq!(figures(&plan().await), [json!(500), json!(null), json!(null), json!(100)]);
    let body = json!({"cu_per_day": 70, "cu_per_month": 900, "rps_limit": 3, "monthly_fee_cents": 250});
    let (status, changed) = ask(&site, &operator, Method::PUT, "/plans/free", body).await;
    let expected = [json!(70), json!(900), json!(3), json!(250)];
    assert_eq!((status, figures(&changed)), (200, expected.clone()));
    assert_eq!(figures(&plan().await), expected);
    let listed = site.ask(Some(&owner), Method::GET, "/api/v1/plans", Body::empty()).await.body;
    assert_eq!(figures(&listed[0]), expected, "and members see them");
    let own = json!({"name": "small", "base_tier": "free", "visibility": "visible",
        "figures": {"default_quota": {"rps_limit": 9}}});
    assert_eq!(ask(&site, &operator, Method::POST, "/custom-plans", own).await.0, 201);
    let listed = site.ask(Some(&owner), Method::GET, "/api/v1/plans", Body::empty()).await.body;
    let of_base = [json!(70), json!(900), json!(9), json!(250)];
    assert_eq!(figures(&listed[4]), of_base, "a plan of one's own has what it does not give from its base");
    let wrong = [
        ("/plans/free", Method::PUT, json!({"monthly_fee_cents": 100_000_001})),
        ("/plans/free", Method::PUT, json!({"cu_per_day": u64::MAX})),
        ("/plans/free", Method::PUT, json!({"default_quota": {"cu_per_day": 1}})),
        (
            "/custom-plans",
            Method::POST,
            json!({"name": "a", "base_tier": "free", "visibility": "visible",
            "figures": {"limits": {"cu_per_day": 1}}}),
        ),
    ];
    for (path, method, body) in wrong {
        assert_eq!(ask(&site, &operator, method, path, body.clone()).await.0, 400, "{body}");
    }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_change_of_a_plan_can_take_effect_later_and_be_withdrawn_before() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let at = |secs| Moment(site.app.now().plus(Duration::from_secs(secs))).to_string();
    let put = async |body| ask(&site, &operator, Method::PUT, "/plans/premium", body).await;
    let day = 86_400;
    let past = Moment(Time::from_secs(site.app.now().secs() - 1)).to_string();
    for wrong in [
        json!({"monthly_fee_cents": 5, "from": past}),
        json!({"cu_per_day": 5, "from": at(367 * day)}),
        json!({"from": at(day)}),
        json!({"cu_per_day": 5, "from": "tomorrow"}),
    ] {
        assert_eq!(put(wrong.clone()).await.0, 400, "{wrong}");
    }
    let (status, plan) = put(json!({"monthly_fee_cents": 500, "cu_per_day": 7, "from": at(2 * day)})).await;
    assert_eq!((status, &plan["cu_per_day"], &plan["monthly_fee_cents"]), (200, &json!(100_000), &json!(0)));
    put(json!({"monthly_fee_cents": 900, "from": at(3 * day)})).await;
    let shown = async || ask(&site, &operator, Method::GET, "/plans/premium", Value::Null).await.1;
    let scheduled = shown().await["scheduled"].clone();
    assert_eq!(scheduled[0]["figures"], json!({"cu_per_day": 7, "monthly_fee_cents": 500}));
    assert_eq!(scheduled[1]["figures"], json!({"monthly_fee_cents": 900}));
    let second = format!("/plans/premium/changes/{}", scheduled[1]["id"].as_str().unwrap());
    assert_eq!(ask(&site, &operator, Method::DELETE, &second, Value::Null).await.0, 204);
    assert_eq!(ask(&site, &operator, Method::DELETE, &second, Value::Null).await.0, 404);
    site.clock.advance(Duration::from_secs(4 * day));
    let operator = site.operator().await;
    let plan = ask(&site, &operator, Method::GET, "/plans/premium", Value::Null).await.1;
    assert_eq!((&plan["cu_per_day"], &plan["monthly_fee_cents"]), (&json!(7), &json!(500)));
    assert_eq!(plan["scheduled"], json!([]));
    let first = format!("/plans/premium/changes/{}", scheduled[0]["id"].as_str().unwrap());
    assert_eq!(ask(&site, &operator, Method::DELETE, &first, Value::Null).await.0, 404, "it took effect");
}
