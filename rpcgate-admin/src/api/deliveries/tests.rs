use crate::api::webhooks::tests::{ask, listening};
use crate::testing::fixtures::error_body;
use crate::testing::fixtures::event;
use http::Method;
use rpcgate_management::webhook::AGENT;
use rpcgate_store::{DeliveryId, DeliveryStatus, fresh_id};
use serde_json::{Value, json};
use std::time::Duration;

// Shows (Webhooks): Deliveries are listed and shown with request, answers and times; an ended one can be retried.
#[tokio::test]
async fn a_delivery_is_shown_with_its_request_and_its_attempts() {
    let (site, owner, webhook) = listening().await;
    let now = site.app.now();
    let id = DeliveryId(fresh_id(now));
    let event = event(7, now);
    site.app.store.log_event(&webhook, (id, DeliveryStatus::Failed), &event).await.unwrap();
    site.app.store.failed_attempt(id, (Some(503), "HTTP status 503", b"too bu\xff"), now).await.unwrap();
    site.app.store.failed_attempt(id, (None, "no answer within 10 s", b""), now).await.unwrap();
    let (status, shown) = ask(&site, &owner, Method::GET, &format!("/deliveries/{id}"), Value::Null).await;
    let at = "2026-12-31T12:00:00.001Z";
    let expected = json!({
        "id": id.to_string(), "webhook_id": webhook.id.to_string(), "subscription_id": null,
        "event_id": event.id.to_string(), "chain": "eth", "event_type": "new_block", "status": "failed",
        "replay": false, "attempts": 2, "due_at": null, "held_until": null, "last_status": 503,
        "last_error": "no answer within 10 s", "created_at": at, "finished_at": at,
        "request": {
            "method": "POST", "url": "https://hooks.example/one",
            "headers": {"content-type": "application/json", "x-delivery-id": id.to_string(),
                "user-agent": AGENT, "x-delivery-attempt": "2"},
            "body": String::from_utf8(event.body.clone()).unwrap(),
        },
        "history": [
            {"number": 1, "started_at": at, "duration_ms": 250, "status": 503, "error": "HTTP status 503",
                "answer": "too bu\u{fffd}"},
            {"number": 2, "started_at": at, "duration_ms": 250, "status": null,
                "error": "no answer within 10 s", "answer": ""},
        ],
    });
    assert_eq!((status, shown), (200, expected));
    let endpoint = format!("/webhooks/{}", webhook.id);
    assert_eq!(ask(&site, &owner, Method::PUT, &endpoint, json!({"standard_headers": true})).await.0, 200);
    let (_, shown) = ask(&site, &owner, Method::GET, &format!("/deliveries/{id}"), Value::Null).await;
    let headers = &shown["request"]["headers"];
    assert_eq!(headers["webhook-id"], id.to_string());
    assert_eq!(headers["webhook-timestamp"], now.secs().to_string());
    assert!(!headers.to_string().contains("signature"), "{headers}");
}

// Shows (Webhooks).
#[tokio::test]
async fn a_delivery_that_has_ended_is_due_again_when_it_is_retried() {
    let (site, owner, webhook) = listening().await;
    for status in DeliveryStatus::ALL {
        let now = site.app.now();
        let id = DeliveryId(fresh_id(now));
        site.app.store.log_event(&webhook, (id, status), &event(7, now)).await.unwrap();
        site.clock.advance(Duration::from_secs(5));
        let path = format!("/deliveries/{id}/retry");
        let (answered, answer) = ask(&site, &owner, Method::POST, &path, Value::Null).await;
        if !status.is_final() {
            let refused = error_body("conflict", "the delivery has not ended yet");
            assert_eq!((answered, answer), (409, refused), "{status}");
            continue;
        }
        assert_eq!((answered, &answer["status"]), (200, &json!("pending")), "{status}");
        assert!(answer["due_at"].is_string() && answer["finished_at"].is_null(), "{answer}");
        assert_eq!(ask(&site, &owner, Method::POST, &path, Value::Null).await.0, 409, "it waits now");
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn a_delivery_is_retried_a_bounded_number_of_times_and_only_to_an_active_endpoint() {
    let (site, owner, webhook) = listening().await;
    let now = site.app.now();
    let id = DeliveryId(fresh_id(now));
    site.app.store.log_event(&webhook, (id, DeliveryStatus::Failed), &event(7, now)).await.unwrap();
    let path = format!("/deliveries/{id}/retry");
    let endpoint = format!("/webhooks/{}", webhook.id);
    ask(&site, &owner, Method::PUT, &endpoint, json!({"active": false})).await;
    assert_eq!(ask(&site, &owner, Method::POST, &path, Value::Null).await.0, 409);
    ask(&site, &owner, Method::PUT, &endpoint, json!({"active": true})).await;
    let mut retried = 0;
    loop {
        site.app.store.failed_attempt(id, (Some(500), "HTTP status 500", b""), site.app.now()).await.unwrap();
        let (status, answer) = ask(&site, &owner, Method::POST, &path, Value::Null).await;
        if status == 409 {
            let text = "the delivery was tried too often: replay its event instead";
            assert_eq!(answer, error_body("conflict", text));
            break;
        }
        retried += 1;
        assert!(status == 200 && retried <= 100, "{answer}");
    }
    assert_eq!(retried, 99);
}

// Shows (Webhooks).
#[tokio::test]
async fn deliveries_are_listed_by_their_state_the_newest_first() {
    let (site, owner, webhook) = listening().await;
    let mut ids = Vec::new();
    for status in [DeliveryStatus::Failed, DeliveryStatus::Delivered, DeliveryStatus::Failed] {
        let now = site.app.now();
        ids.push(DeliveryId(fresh_id(now)));
        site.app.store.log_event(&webhook, (*ids.last().unwrap(), status), &event(7, now)).await.unwrap();
        site.clock.advance(Duration::from_secs(1));
    }
    let path = format!("/webhooks/{}/deliveries", webhook.id);
    for (query, expected) in [
        ("", vec![2, 1, 0]),
        ("?status=failed", vec![2, 0]),
        ("?status=delivered", vec![1]),
        ("?status=held", vec![]),
    ] {
        let (status, list) = ask(&site, &owner, Method::GET, &format!("{path}{query}"), Value::Null).await;
        assert_eq!(status, 200, "{list}");
        let shown: Vec<_> = list.as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        assert_eq!(shown, expected.into_iter().map(|n: usize| json!(ids[n].to_string())).collect::<Vec<_>>());
    }
    let (status, refused) =
        ask(&site, &owner, Method::GET, &format!("{path}?status=lost"), Value::Null).await;
    assert_eq!((status, &refused["field"]), (400, &json!("status")));
}
