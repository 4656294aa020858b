//! Contracts: limits that replace those of a tenant's plan for a period.

use crate::watch::Pair;
use rpcgate_core::clock::{Clock, ManualClock};
use rpcgate_management::shape::moment::Moment;
use rpcgate_tests::admin::TestService;
use rpcgate_tests::client::{TestClient, TestReply};
use rpcgate_tests::gateway::{START, Setup};
use rpcgate_tests::node::Node;
use rpcgate_tests::{SOON, TIMEOUT};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const CALL: (&str, &str) = ("eth", "eth_getBalance");

// Shows (Plans, bills and payments): A contract overrides single figures of a tenant's plan for a period; gateways
// apply it within 1 s, also without the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contract_takes_effect_at_every_gateway_and_so_does_its_end() {
    let pair = Pair::start().await;
    let project = pair.owner.project("one").await;
    let (_, text) = pair.owner.key(&project).await;
    let call = (text.as_str(), CALL.0, CALL.1);
    let limit = |limit| move |reply: &TestReply| reply.number("x-ratelimit-limit-minute") == limit;
    let path = format!("/operator/tenants/{}/contracts", pair.owner.tenant().await);
    let form = json!({ "figures": { "limits": { "per_minute": 800_000 } } });
    let make = async || drop(pair.operator.made(&path, &form).await);
    pair.change("a contract is made", call, make(), limit(800_000)).await;
    let made = pair.operator.shown(&path).await;
    let one = format!("{path}/{}", made[0]["id"].as_str().unwrap());
    pair.change("it ends", call, pair.operator.delete(&one), limit(1_000_000)).await;

    let none = json!({ "figures": { "default_quota": { "cu_per_day": 0 } } });
    let make = async || drop(pair.operator.made(&path, &none).await);
    let is_over = |reply: &TestReply| reply.code() == -32005;
    pair.change("a contract has no units", call, make(), is_over).await;
    let quota = format!("/operator/projects/{project}/quota");
    let grant = async || drop(pair.operator.put(&quota, &json!({ "cu_per_day": 1_000_000 })).await);
    let is_served = |reply: &TestReply| (reply.status, reply.code()) == (200, 0);
    pair.change("the project has a quota of its own", call, grant(), is_served).await;
}

/// Calls until the limit of the minute is `limit`. Returns the charged units.
async fn until_limit(client: &TestClient, limit: u64) -> u64 {
    let mut units = 0;
    let wait = async {
        loop {
            let reply = client.call(CALL.0, CALL.1, "[]").await;
            // A refused request costs nothing.
            units += if reply.status == 200 { reply.cu() } else { 0 };
            if reply.number("x-ratelimit-limit-minute") == limit {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, wait).await.unwrap_or_else(|_| panic!("the limit is not {limit}"));
    units
}

// Shows (Plans, bills and payments).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contract_begins_and_ends_on_time_and_its_price_and_fee_are_on_the_invoice() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("plans.standard", "per_minute = 1000\nper_hour = 100000\nprice_per_cu = 0.5")
        .set("billing.fees", "standard = 3100");
    let clock = Arc::new(ManualClock::at(START));
    let service = TestService::start(setup, clock.clone()).await;
    service.bill().await;
    let gateway = service.gateway().await;
    let mut owner = service.owner("ada@example.com").await;
    let operator = service.operator().await;
    let tenant = owner.tenant().await;
    operator.put(&format!("/operator/tenants/{tenant}"), &json!({ "tier": "standard" })).await;
    let (_, key) = owner.key(&owner.project("one").await).await;
    let client = TestClient::new(gateway.addr(), Some(&key));
    let mut before = until_limit(&client, 1_000).await;
    let from = clock.now().plus(Duration::from_secs(60));
    let until = clock.now().plus(Duration::from_secs(160));
    let form = json!({
        "figures": { "limits": { "per_minute": 5, "price_per_cu": 0.25 }, "monthly_fee_cents": 6200 },
        "from": Moment(from).to_string(),
        "until": Moment(until).to_string(),
    });
    operator.made(&format!("/operator/tenants/{tenant}/contracts"), &form).await;
    // From here on nothing is written.
    before += until_limit(&client, 1_000).await;
    clock.advance(Duration::from_secs(60));
    let begun = until_limit(&client, 5).await;
    clock.advance(Duration::from_secs(60));
    let mut agreed = 0;
    for _ in 0..5 {
        let reply = client.call(CALL.0, CALL.1, "[]").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        agreed += reply.cu();
    }
    assert_eq!(client.call(CALL.0, CALL.1, "[]").await.status, 429, "the window of the contract");
    clock.advance(Duration::from_secs(60));
    let ended = until_limit(&client, 1_000).await;

    let bill = format!("/tenants/{tenant}/billing");
    let all = before + begun + agreed + ended;
    let recorded = async {
        loop {
            let lines = owner.shown(&bill).await["lines"].clone();
            let lines = lines.as_array().unwrap().clone();
            let usage: Vec<_> = lines.into_iter().filter(|line| line["kind"] == "usage").collect();
            if usage.iter().map(|line| line["compute_units"].as_u64().unwrap()).sum::<u64>() == all {
                return usage;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let usage = timeout(TIMEOUT, recorded).await.unwrap();
    for line in &usage {
        let quarters = line["compute_units"].as_u64().unwrap() * if line["price"] == 0.25 { 1 } else { 2 };
        let exact = format!("{}.{:02}0000000000", quarters / 4, quarters % 4 * 25);
        assert_eq!(line["amount"], json!(exact), "{line}");
    }
    let cheap = usage.iter().find(|line| line["price"] == 0.25).unwrap();
    assert!(cheap["compute_units"].as_u64().unwrap() >= agreed, "{cheap}");

    // The next month.
    clock.advance(Duration::from_secs(20 * 86_400));
    service.bill().await;
    owner.log_in_again().await;
    let invoices = owner.shown(&format!("/tenants/{tenant}/invoices")).await;
    let number = invoices[0]["number"].as_str().unwrap();
    let invoice = owner.shown(&format!("/tenants/{tenant}/invoices/{number}")).await;
    let lines = invoice["lines"].as_array().unwrap();
    let fee = lines.iter().find(|line| line["price"] == 62.0).unwrap();
    assert_eq!(fee["seconds"], json!(100), "{invoice}");
    let exact = 62_000_000_000_000_u128 * 100 / (31 * 86_400);
    let exact = format!("{}.{:012}", exact / 1_000_000_000_000, exact % 1_000_000_000_000);
    assert_eq!((&fee["kind"], &fee["amount"]), (&json!("plan"), &json!(exact)));
}

// Shows (Plans, bills and payments): The bill has the charged calls and units of each hour at the price in effect; the
// free plan is billed nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_free_plan_bills_nothing_but_a_contract_does_and_lines_name_a_custom_plan() {
    let node = Node::evm().await;
    let clock = Arc::new(ManualClock::at(START));
    let service = TestService::start(Setup::of("eth", &node.url()), clock.clone()).await;
    service.bill().await;
    let gateway = service.gateway().await;
    let mut owner = service.owner("ada@example.com").await;
    let mut operator = service.operator().await;
    let tenant = owner.tenant().await;
    let (_, key) = owner.key(&owner.project("one").await).await;
    let client = TestClient::new(gateway.addr(), Some(&key));
    let calls = async || {
        let mut units = 0;
        for _ in 0..3 {
            let reply = client.call(CALL.0, CALL.1, "[]").await;
            assert_eq!(reply.status, 200, "{reply:?}");
            units += reply.cu();
        }
        units
    };
    operator.put("/operator/plans/free", &json!({ "per_minute": 66, "price_per_cu": 0.125 })).await;
    until_limit(&client, 66).await;
    let free = calls().await;
    let contracts = format!("/operator/tenants/{tenant}/contracts");
    let form = json!({ "figures": { "limits": { "per_minute": 77, "price_per_cu": 0.5 } } });
    let contract = operator.made(&contracts, &form).await;
    until_limit(&client, 77).await;
    let agreed = calls().await;

    // Two hours later, so that the hour tells the plans apart.
    clock.advance(Duration::from_secs(7_200));
    owner.log_in_again().await;
    operator.log_in_again().await;
    operator.delete(&format!("{contracts}/{}", contract["id"].as_str().unwrap())).await;
    let form = json!({ "name": "startup", "base_tier": "free", "visibility": "visible",
        "figures": { "limits": { "per_minute": 88, "price_per_cu": 0.25 } } });
    let plan = operator.made("/operator/custom-plans", &form).await;
    operator.put(&format!("/operator/tenants/{tenant}"), &json!({ "custom_plan_id": plan["id"] })).await;
    until_limit(&client, 88).await;
    let own = calls().await;

    let bill = format!("/tenants/{tenant}/billing");
    let units = |lines: &serde_json::Value, price: f64, name: Option<&str>| -> u64 {
        let lines = lines.as_array().unwrap().iter();
        let its = lines.filter(|line| line["price"] == json!(price) && line["custom_plan"] == json!(name));
        its.map(|line| line["compute_units"].as_u64().unwrap()).sum()
    };
    let recorded = async {
        loop {
            let lines = owner.shown(&bill).await["lines"].clone();
            let counted = [(0.0, None, free), (0.5, None, agreed), (0.25, Some("startup"), own)];
            if counted.iter().all(|(price, plan, least)| units(&lines, *price, *plan) >= *least) {
                return lines;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let lines = timeout(TIMEOUT, recorded).await.unwrap();
    assert!(lines.as_array().unwrap().iter().all(|line| line["tier"] == "free"), "{lines}");
    assert_eq!(units(&lines, 0.125, None), 0, "{lines}");
    clock.advance(Duration::from_secs(20 * 86_400));
    service.bill().await;
    owner.log_in_again().await;
    let invoices = owner.shown(&format!("/tenants/{tenant}/invoices")).await;
    let number = invoices[0]["number"].as_str().unwrap();
    let invoice = owner.shown(&format!("/tenants/{tenant}/invoices/{number}")).await;
    let billed = &invoice["lines"];
    assert!(units(billed, 0.5, None) >= agreed && units(billed, 0.25, Some("startup")) >= own, "{invoice}");
    assert!(invoice["total_cents"].as_u64().unwrap() >= agreed * 50 + own * 25, "{invoice}");
}
