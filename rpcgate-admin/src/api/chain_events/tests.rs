use crate::api::webhooks::tests::{ask, listening};
use crate::testing::fixtures::event;
use http::Method;
use rpcgate_core::event::EventType;
use rpcgate_store::{DeliveryId, DeliveryStatus, LoggedEvent, fresh_id};
use serde_json::{Value, json};
use std::time::Duration;

// Shows (Webhooks): The log of events of a project has filters and bounded pages.
#[tokio::test]
async fn a_log_has_the_events_of_its_project_that_match_all_parameters() {
    let (site, owner, webhook) = listening().await;
    let mut ids = Vec::new();
    for (number, chain, kind) in [
        (0, "eth", EventType::NewBlock),
        (1, "eth", EventType::TokenTransfer),
        (2, "btc", EventType::NewBlock),
        (3, "eth", EventType::NewBlock),
    ] {
        let now = site.app.now();
        let event = LoggedEvent { chain: chain.into(), kind, removed: number == 3, ..event(number, now) };
        let delivery = (DeliveryId(fresh_id(now)), DeliveryStatus::Delivered);
        site.app.store.log_event(&webhook, delivery, &event).await.unwrap();
        ids.push(event.id.to_string());
        site.clock.advance(Duration::from_secs(1));
    }
    let path = format!("/projects/{}/events", webhook.project);
    for (query, expected) in [
        ("", vec![3, 2, 1, 0]),
        ("?chain=bitcoin", vec![2]),
        ("?chain=eth&event_type=new_block", vec![3, 0]),
        ("?event_type=health", vec![]),
        ("?from=2026-12-31T12:00:01.000Z&to=2026-12-31T12:00:03.000Z", vec![2, 1]),
        ("?to=2026-12-31T12:00:01.000Z&event_type=new_block", vec![0]),
    ] {
        let (status, log) = ask(&site, &owner, Method::GET, &format!("{path}{query}"), Value::Null).await;
        assert_eq!(status, 200, "{query}: {log}");
        let shown: Vec<_> = log.as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        let expected: Vec<_> = expected.into_iter().map(|n: usize| json!(ids[n])).collect();
        assert_eq!(shown, expected, "{query}");
    }
    let (_, log) = ask(&site, &owner, Method::GET, &path, Value::Null).await;
    let newest = json!({"id": ids[3], "chain": "eth", "event_type": "new_block", "block_num": 3,
        "block_hash": "0xb3", "removed": true, "withheld": false, "created_at": log[0]["created_at"],
        "data": {"chain": "eth", "event_type": "new_block", "block_num": 3, "block_hash": "0xb3",
            "timestamp": 1_700_000_000, "data": {"transactions": 3}}});
    assert_eq!(log[0], newest);
    for (wrong, field) in
        [("chain=moon", "chain"), ("event_type=x", "event_type"), ("from=x", "from"), ("x=1", "x")]
    {
        let (status, refused) =
            ask(&site, &owner, Method::GET, &format!("{path}?{wrong}"), Value::Null).await;
        assert_eq!((status, &refused["field"]), (400, &json!(field)), "{wrong}: {refused}");
    }
}
