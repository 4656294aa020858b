//! From registration to a revoked key.

use rpcgate_core::clock::SystemClock;
use rpcgate_server::Drained;
use rpcgate_tests::admin::TestService;
use rpcgate_tests::client::TestClient;
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::node::Node;
use rpcgate_tests::{SOON, TIMEOUT};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const EMAIL: &str = "ada@example.com";

// Shows (Usage): A call is in usage within 1 s of its answer.
// Shows (Management): A key works from the registration until it is revoked, and its calls are seen in usage.
// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_works_from_registration_to_revocation() {
    let node = Node::evm().await;
    let clock = Arc::new(SystemClock::new());
    let service = TestService::start(Setup::of("eth", &node.url()), clock.clone()).await;
    let gateway = service.gateway().await;

    let mut ada = service.anonymous();
    ada.register(EMAIL).await;
    ada.log_in(EMAIL).await;
    assert_eq!(ada.shown("/auth/me").await["confirmed"], false);
    let project = ada.project("first").await;
    let keys = format!("/projects/{project}/keys");
    let early = ada.ask("POST", &keys, Some(&json!({ "description": "too early" }))).await;
    assert_eq!(early.status, 403, "{early:?}");
    assert_eq!(ada.shown(&keys).await, json!([]));

    let token = service.mailed(EMAIL).await;
    assert_eq!(service.mails(EMAIL).await.len(), 1);
    let confirm =
        async || service.anonymous().ask("POST", "/auth/confirm", Some(&json!({ "token": token }))).await;
    assert_eq!(confirm().await.status, 204);
    assert_eq!(confirm().await.status, 400, "a link is good once");
    assert_eq!(ada.shown("/auth/me").await["confirmed"], true);

    let (id, text) = ada.key(&project).await;
    let listed = ada.shown(&keys).await;
    assert_eq!((&listed[0]["id"], &listed[0]["prefix"]), (&json!(id), &json!(&text[..12])));
    assert!(!listed.to_string().contains(&text), "a key is shown once");

    let client = TestClient::new(gateway.addr(), Some(&text));
    let reply = client.call("eth", "eth_getBalance", "[]").await;
    let answered = elapsed(&service);
    assert_eq!((reply.status, reply.cu(), &reply.json()["result"]), (200, 5, &json!("ok")));
    let wait = async {
        loop {
            let usage = ada.shown("/usage?group_by=key,method").await;
            if usage["totals"]["requests"] == 1 {
                break usage;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let usage = timeout(TIMEOUT, wait).await.unwrap();
    let waited = elapsed(&service) - answered;
    assert!(waited <= SOON, "usage showed the call after {waited:?}");
    let row = &usage["rows"][0];
    assert_eq!(
        (&row["key"], &row["method"], &row["billable_units"]),
        (&json!(id), &json!("eth_getBalance"), &json!(5))
    );
    let day = ada.shown(&format!("/projects/{project}/usage")).await;
    assert_eq!(day["by_chain"], json!({ "eth": { "cu": 5, "request_count": 1 } }));

    ada.delete(&format!("/keys/{id}")).await;
    let deleted = elapsed(&service);
    let refused = async {
        while client.call("eth", "eth_getBalance", "[]").await.status != 401 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, refused).await.unwrap();
    let waited = elapsed(&service) - deleted;
    assert!(waited <= SOON, "the key was refused after {waited:?}");
    let reply = client.call("eth", "eth_getBalance", "[]").await;
    assert_eq!(reply.json(), json!({ "message": "Invalid authentication credentials" }));
    assert_ne!(ada.shown(&keys).await[0]["revoked_at"], json!(null));
    let actions: Vec<_> = ada
        .shown("/auth/audit")
        .await
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|entry| entry["action"].clone())
        .collect();
    assert_eq!(
        actions,
        [
            "account.registered",
            "session.opened",
            "project.created",
            "account.confirmed",
            "key.created",
            "key.revoked"
        ]
    );
    drop(client);
    assert_eq!(gateway.drain().await, Drained { cut: 0 });
    service.stop().await;
}

fn elapsed(service: &TestService) -> Duration {
    service.clock().elapsed()
}
