//! Custom plans of operators in addition to the four built-in ones.

use crate::watch::Pair;
use rpcgate_tests::client::TestReply;
use serde_json::json;

const CALL: (&str, &str) = ("eth", "eth_getBalance");

// Shows (Plans, bills and payments): Operators can add custom plans to the four built-in ones, each with a base,
// visible or by invitation; gateways apply them and their changes within 1 s; one in use is not deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_custom_plan_and_its_changes_take_effect_at_every_gateway() {
    let pair = Pair::start().await;
    let project = pair.owner.project("one").await;
    let (_, text) = pair.owner.key(&project).await;
    let call = (text.as_str(), CALL.0, CALL.1);
    let limit = |limit| move |reply: &TestReply| reply.number("x-ratelimit-limit-minute") == limit;
    let form = json!({ "name": "startup", "base_tier": "enterprise", "visibility": "by_invitation",
        "figures": { "limits": { "per_minute": 700_000 } } });
    let plan = pair.operator.made("/operator/custom-plans", &form).await;
    let path = format!("/operator/custom-plans/{}", plan["id"].as_str().unwrap());
    let tenant = format!("/operator/tenants/{}", pair.owner.tenant().await);
    let put = async |path: &str, body| drop(pair.operator.put(path, &body).await);
    let to_it = put(&tenant, json!({ "custom_plan_id": plan["id"] }));
    pair.change("a tenant moves to it", call, to_it, limit(700_000)).await;
    let figures = json!({ "figures": { "limits": { "per_minute": 600_000 } } });
    pair.change("its figures change", call, put(&path, figures), limit(600_000)).await;
    let base = put(&path, json!({ "figures": {} }));
    pair.change("it has those of its base", call, base, limit(1_000_000)).await;
    let of_base = put("/operator/plans/enterprise", json!({ "per_minute": 800_000 }));
    pair.change("its base changes", call, of_base, limit(800_000)).await;
    assert_eq!(pair.operator.ask("DELETE", &path, None).await.status, 409, "a tenant is on it");
    pair.change("the tenant moves on", call, put(&tenant, json!({ "tier": "premium" })), limit(900_000))
        .await;
    pair.operator.delete(&path).await;
}
