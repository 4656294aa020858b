//! Lists in pages.

use crate::testing::fixtures::{event, issue, webhook};
use crate::testing::{ApiAnswer, Site, Visitor};
use axum::body::Body;
use http::header::LINK;
use http::{Method, StatusCode};
use rpcgate_store::{DeliveryId, DeliveryStatus, GatewayReport, NodeState, Role, fresh_id};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the query of the next page from the `Link` header.
fn next(answer: &ApiAnswer) -> Option<String> {
    let link = answer.headers.get(LINK)?.to_str().unwrap();
    Some(link.strip_prefix("<?").unwrap().strip_suffix(">; rel=\"next\"").unwrap().to_owned())
}

/// Returns all entries of the list at `path`, read in pages of `limit`.
pub(crate) async fn followed(site: &Site, visitor: &Visitor, path: &str, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let given = path.split_once('?').map_or(String::new(), |(_, query)| format!("{query}&"));
    let mut query = format!("{given}limit={limit}");
    loop {
        let path = path.split('?').next().unwrap();
        let answer = site.ask(Some(visitor), Method::GET, &format!("{path}?{query}"), Body::empty()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let part = answer.body.as_array().unwrap();
        assert!(part.len() <= limit && all.len() <= 10_000);
        all.extend(part.iter().cloned());
        match next(&answer) {
            Some(next) => query = next,
            None => return all,
        }
        assert_eq!(part.len(), limit, "a part that is followed by another is full");
    }
}

fn node(url: &str) -> NodeState {
    NodeState {
        chain: "eth".into(),
        node: url.into(),
        priority: 0,
        standing: "well".into(),
        reason: "answers".into(),
        height: Some(7),
        lag: Some(0),
        latency_micros: 1_000,
        in_flight: 0,
        ..NodeState::default()
    }
}

// Shows (Management): Lists have `limit` (default 100, at most 1,000) and `cursor`; the answer stays an array, and
// `Link` has the next cursor.
// Shows (Management): Every list is paged by `limit` and `cursor`, with the next page in the `Link` header (promise
// 70).
// Shows (Webhooks).
#[tokio::test]
async fn the_pages_of_every_list_join_to_the_whole_list() {
    let site = Site::of("[plans.free]\nprojects = 20\nmembers = 20\nwebhooks_per_project = 20\n").await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let tenant = owner.user.tenant.unwrap();
    let base = "/api/v1";
    let post = async |path: String, body: Value| {
        site.clock.advance(Duration::from_millis(300));
        let answer = site.ask(Some(&owner), Method::POST, &path, body.to_string()).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{path} {}", answer.body);
        answer.body["id"].as_str().unwrap_or_default().to_owned()
    };
    let projects = format!("{base}/tenants/{tenant}/projects");
    let mut project = String::new();
    for _ in 0..7 {
        project = post(projects.clone(), json!({"name": "one"})).await;
    }
    let keys = format!("{base}/projects/{project}/keys");
    for _ in 0..7 {
        post(keys.clone(), json!({"description": "one"})).await;
    }
    let webhooks = format!("{base}/projects/{project}/webhooks");
    for _ in 0..5 {
        post(webhooks.clone(), json!({"url": "https://hooks.example/"})).await;
    }
    let listening = webhook(&site, tenant, project.parse().unwrap()).await;
    let listened = format!("{base}/webhooks/{}", listening.id);
    for number in 0..7 {
        let subscription = json!({"chain": "btc", "event_type": "health"});
        post(format!("{listened}/subscriptions"), subscription).await;
        // Several events at the same time.
        let now = site.app.now();
        for _ in 0..2 {
            let delivery = (DeliveryId(fresh_id(now)), DeliveryStatus::Delivered);
            site.app.store.log_event(&listening, delivery, &event(number, now)).await.unwrap();
        }
    }
    issue(&site, tenant).await;
    for _ in 0..4 {
        post(format!("{base}/auth/tokens"), json!({"name": "one", "scopes": ["read"]})).await;
        issue(&site, site.tenant().await).await;
        site.visitor(Some(tenant), Role::Viewer).await;
        let other = site.member(Role::Owner).await;
        let contract = json!({"figures": {"monthly_fee_cents": 5}}).to_string();
        let path = format!("{base}/operator/tenants/{tenant}/contracts");
        let made = site.ask(Some(&operator), Method::POST, &path, contract).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
        let name = format!("plan-{}", site.app.now().micros());
        let plan = json!({"name": name, "base_tier": "free", "visibility": "visible", "figures": {}});
        let path = format!("{base}/operator/custom-plans");
        let made = site.ask(Some(&operator), Method::POST, &path, plan.to_string()).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
        let ask = json!({"requested_tier": "premium", "reason": "x"}).to_string();
        let path = format!("{base}/limit-requests");
        assert_eq!(site.ask(Some(&other), Method::POST, &path, ask).await.status, StatusCode::CREATED);
    }
    for gateway in 1..=3 {
        let nodes = (0..3).map(|number| node(&format!("http://{gateway}.{number}.example/"))).collect();
        let report = GatewayReport { id: gateway, at: site.app.now(), nodes };
        site.app.store.put_report(&report, &[]).await.unwrap();
    }
    for (visitor, path, least) in [
        (&owner, projects, 7),
        (&owner, keys, 7),
        (&owner, webhooks, 6),
        (&owner, format!("{listened}/subscriptions"), 7),
        (&owner, format!("{listened}/deliveries"), 14),
        (&owner, format!("{base}/projects/{project}/events"), 14),
        (&owner, format!("{base}/projects/{project}/events?chain=ethereum&event_type=new_block"), 14),
        (&owner, format!("{base}/tenants/{tenant}/members"), 5),
        (&owner, format!("{base}/auth/audit"), 14),
        (&owner, format!("{base}/auth/sessions"), 1),
        (&owner, format!("{base}/auth/tokens"), 4),
        (&owner, format!("{base}/auth/passkeys"), 0),
        (&owner, format!("{base}/tenants"), 1),
        (&owner, format!("{base}/tenants/{tenant}/invitations"), 0),
        (&owner, format!("{base}/limit-requests"), 0),
        (&owner, format!("{base}/notifications"), 0),
        (&operator, format!("{base}/operator/audit"), 20),
        (&owner, format!("{base}/tenants/{tenant}/invoices"), 1),
        (&operator, format!("{base}/operator/invoices"), 5),
        (&owner, format!("{base}/tenants/{tenant}/contracts"), 4),
        (&operator, format!("{base}/operator/tenants/{tenant}/contracts"), 4),
        (&operator, format!("{base}/operator/custom-plans"), 4),
        (&operator, format!("{base}/operator/tenants"), 5),
        (&operator, format!("{base}/operator/nodes"), 9),
        (&operator, format!("{base}/operator/limit-requests"), 4),
    ] {
        let whole = followed(&site, visitor, &path, 1_000).await;
        assert!(whole.len() >= least, "{path} {whole:?}");
        for limit in [1, 3, 7] {
            assert_eq!(followed(&site, visitor, &path, limit).await, whole, "{path} {limit}");
        }
        for wrong in ["limit=0", "limit=1001", "limit=x", "cursor=x"] {
            let path = format!("{path}?{wrong}");
            let answer = site.ask(Some(visitor), Method::GET, &path, Body::empty()).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        }
    }
}
