use crate::testing::{NOON, Site};
use http::{Method, StatusCode};
use rpcgate_core::caller::TenantId;
use rpcgate_core::plan::Tier;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_store::{Tenant, TenantFilter};
use serde_json::{Value, json};

async fn ask(site: &Site, question: &Value) -> (StatusCode, Value) {
    let operator = site.operator().await;
    let path = "/api/v1/operator/what-if";
    let answer = site.ask(Some(&operator), Method::POST, path, question.to_string()).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn an_answer_has_whole_numbers_and_changes_nothing() {
    let site = Site::new().await;
    let tenant = Tenant::new(TenantId(1), "Acme", Tier::Standard, NOON);
    site.app.store.create_tenant(&tenant).await.unwrap();
    let line = SampleLine { calls: 2, cu: 150, ..item("eth_getLogs") };
    let record = SampleRecord { chain: "eth", windowed: 9, ..deed(110, NOON, vec![line]) };
    site.app.usage.ship(&SampleShipper::new(1).pack(&[record])).await.unwrap();
    let before = site.app.store.overlay().await.unwrap();
    let question = json!({"weights": [{"chain": "eth", "method": "eth_getLogs", "cu": 100}],
        "plans": [{"plan": "standard", "figures": {"limits": {"per_hour": 4, "price_per_cu": 0.002}}}]});
    let (status, body) = ask(&site, &question).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let effect = json!({"charged": "0.000000000750", "units": {"before": 150, "after": 200},
        "amount": {"before": "0.150000000000", "after": "0.400000000000"},
        "refused": {"before": 0, "after": 5}, "quota_hours": {"before": 0, "after": 0}});
    let none = json!({"charged": "0.000000000000", "units": {"before": 0, "after": 0},
        "amount": {"before": "0.000000000000", "after": "0.000000000000"},
        "refused": {"before": 0, "after": 0}, "quota_hours": {"before": 0, "after": 0}});
    let expected = json!({"from": "2026-12-02T00:00:00.000Z", "to": "2026-12-31T13:00:00.000Z",
        "tenants": [{"tenant_id": TenantId(1).to_string(), "name": "Acme", "plan": "standard", "effect": effect}],
        "others": 0, "of_others": none, "total": effect,
        "affected": {"pay_more": 1, "pay_less": 0, "refused_more": 1, "refused_less": 0, "quota_more": 0,
            "quota_less": 0},
        "unfollowed_projects": 0});
    assert_eq!(body, expected);
    assert_eq!(site.app.store.overlay().await.unwrap(), before);
    assert_eq!(site.app.store.tenants(TenantFilter::default(), None, 9).await.unwrap(), [tenant]);
}

#[tokio::test]
async fn a_question_names_weights_or_plans_or_neither() {
    let site = Site::new().await;
    let (status, body) = ask(&site, &json!({})).await;
    assert_eq!((status, &body["tenants"]), (StatusCode::OK, &json!([])), "{body}");
    for (question, error) in [
        (json!({"weights": [["eth", "eth_call", 5]]}), "`weights` must be an object"),
        (json!({"weights": [{"chain": "eth", "method": "eth_call"}]}), "`weights`: `cu` is missing"),
        (json!({"plans": [{"plan": "gold", "figures": {}}]}), "`plans`: there is no plan \"gold\""),
        (
            json!({"plans": [{"plan": "free", "figures": {"limits": {"gold": 1}}}]}),
            "`plans`: unknown field `gold`",
        ),
    ] {
        let (status, body) = ask(&site, &question).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{question}");
        let text = body["error"].as_str().unwrap();
        assert!(text.starts_with(error), "{question}: {text}");
    }
}
