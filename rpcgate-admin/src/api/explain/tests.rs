use super::*;
use crate::api::accounts::tests::ask;
use crate::testing::{ApiAnswer, Site, Visitor};
use http::{Method, StatusCode};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{
    ExplainedCall, ExplainedTry, Explanation, ExplanationRequest, GatewayReport, QuotaShown, Role, WindowUse,
};
use std::time::Duration;

const ADDRESS: &str = "http://10.0.0.7:8545/";

fn explanation(tenant: TenantId) -> Explanation {
    Explanation {
        gateway: RequestId(5).to_string(),
        key: RequestId(6).to_string(),
        project: RequestId(7).to_string(),
        tenant: tenant.to_string(),
        plan: "free".into(),
        transport: "http".into(),
        chain: "eth".into(),
        arrived: 1_790_000_000_123_456,
        took: 2_070_500,
        counted: 1,
        windows: [10, 500, 10_000].map(|limit| WindowUse { limit, before: 3, after: 4, reset: 60 }).into(),
        quota: Some(QuotaShown { limit: 100, before: 10, reserved: 6, charged: 1 }),
        calls: vec![ExplainedCall {
            method: "eth_call".into(),
            weight: 1,
            cu: 1,
            status: 200,
            outcome: "answered".into(),
            cache: "miss".into(),
            refusal: None,
            failure: None,
        }],
        tries: vec![ExplainedTry {
            calls: vec![0],
            node: 2,
            address: Some(ADDRESS.into()),
            choice: "turn".into(),
            end: "answered".into(),
            failure: None,
            began: Some(100),
            took: Some(2_000_000),
        }],
        ..Explanation::default()
    }
}

/// Starts a gateway that has reported and remembers one request of `owner`.
async fn gateway(site: &Site, request: RequestId, owner: TenantId) -> tokio::task::JoinHandle<()> {
    let report = GatewayReport { id: 5, at: site.app.now(), nodes: Vec::new() };
    site.app.store.put_report(&report, &[]).await.unwrap();
    let app = site.app.clone();
    tokio::spawn(async move {
        loop {
            for asked in app.store.open_explanation_requests(app.now()).await.unwrap() {
                let ExplanationRequest { id, tenant, .. } = asked;
                if asked.request == request && tenant.is_none_or(|tenant| tenant == owner) {
                    app.store.answer_explanation_request(id, owner, &explanation(owner)).await.unwrap();
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
}

async fn get(site: &Site, visitor: &Visitor, request: RequestId) -> ApiAnswer {
    ask(site, Some(&visitor.token), Method::GET, &format!("/explain/{request}"), None).await
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn the_owner_and_operators_see_the_gateways_explanation() {
    let site = Site::new().await;
    let owner = site.member(Role::Viewer).await;
    let tenant = owner.user.tenant.unwrap();
    let request = RequestId::new(site.app.now());
    let gateway = gateway(&site, request, tenant).await;
    let own = get(&site, &owner, request).await;
    assert_eq!(own.status, StatusCode::OK, "{}", own.body);
    assert_eq!(own.body["request_id"], request.to_string());
    assert_eq!(own.body["tenant"]["name"], "Site");
    assert_eq!(own.body["project"]["name"], serde_json::Value::Null, "it is not in the database");
    assert_eq!(own.body["windows"]["day"]["after"], 4);
    assert_eq!((&own.body["quota"]["before"], &own.body["quota"]["after"]), (&10.into(), &11.into()));
    assert_eq!((&own.body["total_ms"], &own.body["node_ms"]), (&2_070.5.into(), &2_000.0.into()));
    assert_eq!(own.body["cu"], 1);
    assert_eq!(own.body["tries"][0]["node"], 2);
    assert_eq!(own.body["tries"][0]["address"], serde_json::Value::Null);
    let theirs = get(&site, &site.operator().await, request).await;
    assert_eq!(theirs.status, StatusCode::OK);
    assert_eq!(theirs.body["tries"][0]["address"], ADDRESS);
    gateway.abort();
}

// Shows (Traces, logs and metrics): Another tenant's request is answered like an unknown one; one that is too old or in
// the future is reported at once.
#[tokio::test]
async fn a_request_of_another_tenant_is_answered_like_an_unknown_one() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let outsider = site.member(Role::Owner).await;
    let request = RequestId::new(site.app.now());
    let gateway = gateway(&site, request, owner.user.tenant.unwrap()).await;
    assert_eq!(get(&site, &owner, request).await.status, StatusCode::OK, "so that the answer is known");
    let foreign = get(&site, &outsider, request).await;
    let unknown = get(&site, &outsider, RequestId::new(site.app.now())).await;
    assert_eq!((foreign.status, unknown.status), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND));
    assert_eq!(foreign.body, unknown.body);
    assert_eq!(unknown.body["code"], "not_found");
    let left = site.app.store.open_explanation_requests(site.app.now()).await.unwrap();
    assert_eq!(left, [], "nobody waits any more");
    gateway.abort();
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn without_a_gateway_and_outside_of_the_time_nothing_is_asked() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let now = site.app.now();
    let random = "b5e7c3f2-0d0a-4c5e-9a53-0f8f6a0c2d11".parse().unwrap();
    let old = Time::from_secs(now.secs() - 90_000);
    for (request, expected) in [
        (RequestId::new(now), "its last requests"),
        (RequestId::new(old), "older than 24 hours"),
        (RequestId::new(now.plus(Duration::from_secs(120))), "from the future"),
        (random, "`x-request-id`"),
    ] {
        let answer = get(&site, &owner, request).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        let text = answer.body["error"].as_str().unwrap();
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(site.app.store.open_explanation_requests(now).await.unwrap(), []);
}
