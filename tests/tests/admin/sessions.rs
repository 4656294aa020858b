//! Logging in over real connections.

use rpcgate_core::clock::SystemClock;
use rpcgate_tests::admin::TestService;
use rpcgate_tests::client::TestClient;
use rpcgate_tests::gateway::Setup;
use serde_json::json;
use std::sync::Arc;

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_log_in_attempts_of_an_address_are_accepted_and_another_header_adds_none() {
    let service = TestService::start(Setup::new(), Arc::new(SystemClock::new())).await;
    let mut statuses = Vec::new();
    for attempt in 0..12 {
        // Each attempt uses a different e-mail address, so that none is locked, and a separate connection.
        let form = json!({ "email": format!("unknown{attempt}@example.com"), "password": "a wrong one" });
        let pretended = format!("198.51.100.{attempt}");
        let client = TestClient::new(service.addr(), None);
        let headers = [("x-forwarded-for", pretended.as_str())];
        let body = form.to_string();
        let reply = client.send("POST", "/api/v1/auth/login", &headers, body.as_bytes()).await;
        if reply.status == 429 {
            assert!((1..=60).contains(&reply.number("retry-after")), "{reply:?}");
        }
        statuses.push(reply.status);
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
}
