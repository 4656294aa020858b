//! The limits of the four plans, as operators set them.

use crate::watch::Pair;
use rpcgate_core::clock::{Clock, ManualClock};
use rpcgate_management::shape::moment::Moment;
use rpcgate_tests::SOON;
use rpcgate_tests::admin::TestService;
use rpcgate_tests::client::{TestClient, TestReply};
use rpcgate_tests::gateway::{START, Setup};
use rpcgate_tests::node::Node;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const CALL: (&str, &str) = ("eth", "eth_getBalance");

// Shows (Plans, bills and payments).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quota_of_a_plan_applies_to_its_projects_without_their_own_at_every_gateway() {
    let pair = Pair::start().await;
    let one = pair.owner.project("one").await;
    let two = pair.owner.project("two").await;
    let (_, key_of_one) = pair.owner.key(&one).await;
    let (_, key_of_two) = pair.owner.key(&two).await;
    let granted = json!({ "cu_per_day": 1_000_000 });
    pair.operator.put(&format!("/operator/projects/{two}/quota"), &granted).await;
    let plan = "/operator/plans/enterprise";
    let limit = async |body| drop(pair.operator.put(plan, &body).await);
    let call = (key_of_one.as_str(), CALL.0, CALL.1);
    let is_over = |reply: &TestReply| reply.code() == -32005;
    pair.change("the plan has one unit", call, limit(json!({ "cu_per_day": 1 })), is_over).await;
    for gateway in &pair.gateways {
        let reply = TestClient::new(gateway.addr(), Some(&key_of_two)).call(CALL.0, CALL.1, "[]").await;
        assert_eq!((reply.status, reply.code()), (200, 0), "it has a quota of its own: {reply:?}");
    }
    let shown = pair.operator.shown(plan).await;
    assert_eq!((&shown["cu_per_day"], &shown["monthly_fee_cents"]), (&json!(1), &json!(0)));
    let quota = pair.operator.shown(&format!("/operator/projects/{one}/quota")).await;
    assert_eq!((&quota["cu_per_day"], &quota["has_quota_row"]), (&json!(1), &json!(false)));
    let listed = pair.owner.shown("/plans").await;
    let enterprise = listed.as_array().unwrap().iter().find(|plan| plan["name"] == "enterprise").unwrap();
    assert_eq!(enterprise["cu_per_day"], json!(1));
    let is_served = |reply: &TestReply| (reply.status, reply.code()) == (200, 0);
    let more = limit(json!({ "cu_per_day": 10_000_000 }));
    pair.change("the plan has more units", call, more, is_served).await;
}

// Shows (Plans, bills and payments): Fees, prices and quotas of the four plans have an effective date; a period is
// billed by the values in effect during it, fees by the day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduled_plan_change_takes_effect_on_time_at_the_gateway_and_on_the_invoice() {
    const DAY: u64 = 86_400;
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("plans.standard", "per_minute = 1000\nper_hour = 100000")
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
    until(&client, |reply| reply.number("x-ratelimit-limit-minute") == 1_000).await;
    let from = clock.now().plus(Duration::from_secs(3 * DAY));
    let change = json!({ "per_minute": 500, "cu_per_day": 1, "monthly_fee_cents": 6200,
        "from": Moment(from).to_string() });
    operator.put("/operator/plans/standard", &change).await;
    // From here on nothing is written.
    clock.advance(Duration::from_secs(3 * DAY - 1));
    until(&client, |reply| reply.number("x-ratelimit-limit-minute") == 1_000 && reply.code() == 0).await;
    clock.advance(Duration::from_secs(1));
    until(&client, |reply| reply.number("x-ratelimit-limit-minute") == 500 && reply.code() == -32005).await;

    // The next month.
    clock.advance(Duration::from_secs(20 * DAY));
    service.bill().await;
    owner.log_in_again().await;
    let invoices = owner.shown(&format!("/tenants/{tenant}/invoices")).await;
    let number = invoices[0]["number"].as_str().unwrap();
    let invoice = owner.shown(&format!("/tenants/{tenant}/invoices/{number}")).await;
    let lines = invoice["lines"].as_array().unwrap();
    let seconds = |price: f64| {
        let line = lines.iter().find(|line| line["kind"] == "plan" && line["price"] == json!(price));
        line.unwrap_or_else(|| panic!("{price}: {invoice}"))["seconds"].as_u64().unwrap()
    };
    assert_eq!(seconds(62.0) % DAY, 0, "whole days at the new fee: {invoice}");
    assert_eq!(seconds(31.0), from.secs() / DAY * DAY - START.secs(), "{invoice}");
}

async fn until(client: &TestClient, is_it: impl Fn(&TestReply) -> bool) {
    let wait = async {
        while !is_it(&client.call(CALL.0, CALL.1, "[]").await) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, wait).await.unwrap();
}
