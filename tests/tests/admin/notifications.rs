//! Notifications: created from the shipments of gateways, read over the management API.

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

/// Waits until an account has `many` notifications and returns them, newest first, with their numbers of requests.
async fn reported(account: &ApiUser, many: usize) -> Vec<(String, u64)> {
    let wait = async {
        loop {
            let all = account.shown("/notifications").await;
            let all = all.as_array().unwrap();
            if all.len() >= many {
                let one = |one: &Value| {
                    (one["kind"].as_str().unwrap().to_owned(), one["requests"].as_u64().unwrap())
                };
                return all.iter().map(one).collect();
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, wait).await.unwrap()
}

// Shows (Mails and notifications): Users are notified at 80, 95 and 100 percent of the tenant's daily requests, once
// each per UTC day, and of a spike of 50 refusals with 429 in a minute, at most hourly; notifications are listed and
// marked as read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_notified_once_of_its_daily_requests_and_of_a_spike_at_any_gateway() {
    let node = Node::evm().await;
    let setup =
        Setup::of("eth", &node.url()).set("plans.free", "per_minute = 20\nper_hour = 20\nper_day = 20");
    let service = TestService::start(setup, Arc::new(ManualClock::at(START))).await;
    let one = service.gateway().await;
    let two = service.gateway().await;
    let owner = service.owner("ada@example.com").await;
    let outsider = service.owner("eve@example.com").await;
    let project = owner.project("one").await;
    let (_, key) = owner.key(&project).await;
    let clients = [one.addr(), two.addr()].map(|addr| TestClient::new(addr, Some(&key)));
    let call = async |gateway: usize, many: usize, status: u16| {
        for _ in 0..many {
            let reply = clients[gateway].call("eth", "eth_blockNumber", "[]").await;
            assert_eq!(reply.status, status, "{reply:?}");
        }
    };
    call(0, 8, 200).await;
    call(1, 7, 200).await;
    let counted = async {
        while owner.shown("/usage").await["totals"]["requests"] != 15 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, counted).await.unwrap();
    assert_eq!(owner.shown("/notifications").await, json!([]));
    call(1, 1, 200).await;
    assert_eq!(reported(&owner, 1).await, [("usage.daily_requests_80".to_owned(), 16)]);
    call(0, 3, 200).await;
    assert_eq!(reported(&owner, 2).await.len(), 2);
    call(1, 1, 200).await;
    let all = reported(&owner, 3).await;
    let (kinds, numbers): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let daily = ["usage.daily_requests_100", "usage.daily_requests_95", "usage.daily_requests_80"];
    assert_eq!((kinds, numbers), (daily.map(str::to_owned).to_vec(), vec![20, 19, 16]));

    // Each gateway has counted alone: first its windows are used up.
    call(0, 9, 200).await;
    call(1, 11, 200).await;
    call(0, 30, 429).await;
    call(1, 70, 429).await;
    let all = reported(&owner, 4).await;
    assert_eq!(all[0].0, "usage.rate_limited_spike");
    assert!((50..=100).contains(&all[0].1), "{all:?}");
    let counted = async {
        while owner.shown("/usage").await["totals"]["rejected"] != 100 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, counted).await.unwrap();
    assert_eq!(reported(&owner, 4).await.len(), 4, "it is reported once");
    assert_eq!(owner.shown("/usage").await["current_period"]["today"]["requests_limit"], 20);

    let notifications = owner.shown("/notifications").await;
    let path = format!("/notifications/{}/read", notifications[0]["id"].as_str().unwrap());
    let read = owner.ask("POST", &path, None).await;
    assert_eq!(read.status, 200, "{read:?}");
    assert!(read.json()["read_at"].is_string());
    assert_eq!(owner.shown("/notifications").await[0], read.json());
    assert_eq!(outsider.shown("/notifications").await, json!([]));
    let refused = outsider.ask("POST", &path, None).await;
    assert_eq!(
        (refused.status, refused.json()),
        (404, json!({ "error": "notification not found", "code": "not_found" }))
    );
}
