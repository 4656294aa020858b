use crate::api::webhooks::tests::{ask, listening};
use crate::testing::Site;
use crate::testing::fixtures::{project, webhook};
use http::Method;
use rpcgate_core::backend::changes::{Change, ChangeFeed};
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};

#[tokio::test]
async fn a_subscription_has_the_chains_path_and_the_filter_as_it_was_given() {
    let (site, owner, webhook) = listening().await;
    let path = format!("/webhooks/{}/subscriptions", webhook.id);
    let before = site.app.store.newest_change().await.unwrap();
    let new = json!({"chain": "litecoin", "event_type": "health", "filter": {"phase": "Degraded"}});
    let (status, made) = ask(&site, &owner, Method::POST, &path, new).await;
    let expected = json!({"id": made["id"], "webhook_id": webhook.id.to_string(), "chain": "ltc",
        "event_type": "health", "filter": {"phase": "Degraded"}, "confirmations": 0,
        "created_at": made["created_at"]});
    assert_eq!((status, &made), (201, &expected));
    let (_, plain) =
        ask(&site, &owner, Method::POST, &path, json!({"chain": "xlm", "event_type": "health"})).await;
    assert_eq!((&plain["chain"], &plain["filter"]), (&json!("xlm"), &Value::Null));
    let (status, list) = ask(&site, &owner, Method::GET, &path, Value::Null).await;
    assert_eq!((status, list), (200, json!([made, plain])));
    let one = format!("/subscriptions/{}", made["id"].as_str().unwrap());
    assert_eq!(ask(&site, &owner, Method::DELETE, &one, Value::Null).await, (204, Value::Null));
    assert_eq!(ask(&site, &owner, Method::DELETE, &one, Value::Null).await.0, 404);
    assert_eq!(ask(&site, &owner, Method::GET, &path, Value::Null).await, (200, json!([plain])));
    let feed = site.app.store.since(before).await.unwrap();
    let feed: Vec<_> = feed.into_iter().map(|numbered| numbered.change).collect();
    assert_eq!(feed, vec![Change::Project(webhook.project); 3], "watchers hear of each change");
    let audit = site.app.store.audit(AuditSubject::Tenant(owner.user.tenant.unwrap()), 100).await.unwrap();
    let entry = audit.iter().rfind(|entry| entry.action == "subscription.created").unwrap();
    assert_eq!(entry.detail, format!("health on ltc to {}", webhook.id));
}

// Shows (Webhooks): A subscription that cannot match is 400 with the field; every chain has `health`, and the other
// types that its reader supports.
#[tokio::test]
async fn a_subscription_that_nothing_can_match_is_refused_with_the_field() {
    let (site, owner, webhook) = listening().await;
    let path = format!("/webhooks/{}/subscriptions", webhook.id);
    let many: serde_json::Map<_, _> = (0..17).map(|n| (format!("key{n}"), json!(n))).collect();
    for (change, field) in [
        (json!({"chain": "moon"}), "chain"),
        (json!({"chain": "ETH"}), "chain"),
        (json!({"event_type": "everything"}), "event_type"),
        (json!({"filter": {"phase": "Sick"}}), "filter"),
        (json!({"filter": {"address": "0x1"}}), "filter"),
        (json!({"filter": {"phase": null}}), "filter"),
        (json!({"filter": {"phase": {"is": "Healthy"}}}), "filter"),
        (json!({"filter": {"chain": "btc"}}), "filter"),
        (json!({"filter": many}), "filter"),
        (json!({"filter": []}), "filter"),
        (json!({"confirmations": 1}), "confirmations"),
        (json!({"confirmations": 1_001}), "confirmations"),
        (json!({"confirmations": -1}), "confirmations"),
        (json!({"secret": "mine"}), "secret"),
        (json!({"webhook_id": "mine"}), "webhook_id"),
    ] {
        let mut new = json!({"chain": "eth", "event_type": "health"});
        new.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (status, answer) = ask(&site, &owner, Method::POST, &path, new).await;
        assert_eq!((status, &answer["field"]), (400, &json!(field)), "{change}: {answer}");
    }
    assert_eq!(ask(&site, &owner, Method::GET, &path, Value::Null).await, (200, json!([])));
}

// Shows (Webhooks).
#[tokio::test]
async fn every_chain_has_health_events() {
    let site = Site::of("[plans.free]\nsubscriptions_per_webhook = 100\n").await;
    let owner = site.member(Role::Developer).await;
    let project = project(&site, &owner).await;
    let tenant = owner.user.tenant.unwrap();
    let webhook = webhook(&site, tenant, project).await;
    let path = format!("/webhooks/{}/subscriptions", webhook.id);
    for adapter in rpcgate_chains::catalog() {
        let facts = adapter.facts();
        for name in facts.aliases.iter().copied().chain([facts.name.as_str()]) {
            let new = json!({"chain": name, "event_type": "health"});
            let (status, made) = ask(&site, &owner, Method::POST, &path, new).await;
            assert_eq!((status, &made["chain"]), (201, &json!(facts.name.as_str())), "{name}: {made}");
        }
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn subscriptions_of_a_webhook_are_limited_by_the_plan_even_when_created_in_parallel() {
    let (site, owner, webhook) = listening().await;
    let path = format!("/webhooks/{}/subscriptions", webhook.id);
    let new = json!({"chain": "eth", "event_type": "health"});
    let makes = (0..30).map(|_| ask(&site, &owner, Method::POST, &path, new.clone()));
    let made = futures_util::future::join_all(makes).await;
    assert_eq!(made.iter().filter(|(status, _)| *status == 201).count(), 20);
    let (status, refused) = made.iter().find(|(status, _)| *status != 201).unwrap();
    assert_eq!((*status, &refused["code"]), (409, &json!("limit_reached")), "{refused}");
    let text = refused["error"].as_str().unwrap();
    assert!(text.starts_with("the plan allows 20 subscriptions of a webhook"), "{text}");
}
