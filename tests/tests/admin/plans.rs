//! The figures of the four plans, as operators set them.

use crate::watch::Pair;
use rpcgate_tests::client::{TestClient, TestReply};
use serde_json::json;

const CALL: (&str, &str) = ("eth", "eth_getBalance");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quota_of_a_plan_is_that_of_its_projects_at_every_gateway_unless_they_have_their_own() {
    let pair = Pair::start().await;
    let (one, two) = (pair.owner.project("one").await, pair.owner.project("two").await);
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
