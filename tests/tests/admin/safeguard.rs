//! The safeguard of the gateways, from the view of users whose keys are cooled down.

use rpcgate_core::clock::ManualClock;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::{ApiUser, TestService};
use rpcgate_tests::client::TestClient;
use rpcgate_tests::gateway::{START, Setup};
use rpcgate_tests::node::Node;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Waits for the expected cooled keys in usage.
async fn cooled(account: &ApiUser, path: &str, so: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let reported = account.shown(path).await["limits"]["cooled_keys"].clone();
            if so(&reported) {
                return reported;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, wait).await.unwrap()
}

// Shows (Limits, budget and quota).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_shows_a_throttled_key_with_the_limits_in_its_answers() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("plans.free", "per_minute = 8\nper_hour = 400\nper_day = 1000")
        .set("safeguard", "enabled = true\nrefusals = 3\nminutes = 1");
    let clock = Arc::new(ManualClock::at(START));
    let service = TestService::start(setup, clock.clone()).await;
    let one = service.gateway().await;
    let two = service.gateway().await;
    let mut owner = service.owner("ada@example.com").await;
    let outsider = service.owner("eve@example.com").await;
    let project = owner.project("one").await;
    let other = owner.project("two").await;
    let (id, key) = owner.key(&project).await;
    let here = TestClient::new(one.addr(), Some(&key));
    let call = async |client: &TestClient| client.call("eth", "eth_blockNumber", "[]").await;
    for status in [200, 200, 200, 200, 200, 200, 200, 200, 429, 429, 429] {
        assert_eq!(call(&here).await.status, status);
    }
    let reported = cooled(&owner, "/usage", Value::is_array).await;
    let until = START.plus(Duration::from_secs(3_600));
    let expected = json!([{"key": id, "project_id": project, "until": "2027-01-15T09:30:15.000Z",
        "requests_per_minute": 2, "requests_per_hour": 100, "requests_per_day": 250, "rps_limit": null}]);
    assert_eq!(reported, expected);
    let refused = call(&here).await;
    let limits = ["minute", "hour", "day"].map(|span| refused.number(&format!("x-ratelimit-limit-{span}")));
    assert_eq!((refused.status, limits), (429, [2, 100, 250]));
    // The other gateway has seen no storm and continues as before.
    let there = TestClient::new(two.addr(), Some(&key));
    assert_eq!(call(&there).await.number("x-ratelimit-limit-minute"), 8);

    let own = owner.shown(&format!("/usage?project_id={project}")).await;
    assert_eq!(own["limits"]["cooled_keys"], expected);
    for nothing in [owner.shown(&format!("/usage?project_id={other}")).await, outsider.shown("/usage").await]
    {
        assert!(nothing["limits"].get("cooled_keys").is_none(), "{nothing}");
    }
    let operator = service.operator().await;
    let by_id = operator.shown(&format!("/tenants/{}/usage", owner.tenant().await)).await;
    assert_eq!(by_id["limits"]["cooled_keys"], expected);

    // It is shown until it ends.
    clock.set(until);
    owner.log_in_again().await;
    assert!(owner.shown("/usage").await["limits"].get("cooled_keys").is_none());
    assert_eq!(call(&here).await.number("x-ratelimit-limit-minute"), 8);
    for n in 0..11 {
        assert_eq!(call(&here).await.status, if n < 7 { 200 } else { 429 });
    }
    let again = cooled(&owner, "/usage", Value::is_array).await;
    assert_eq!(again[0]["key"], id);
    // The cool-down disappears together with its gateway.
    one.drain().await;
    clock.advance(Duration::from_secs(60));
    cooled(&owner, "/usage", Value::is_null).await;
}
