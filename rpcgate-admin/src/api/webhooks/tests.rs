use crate::testing::fixtures::error_body;
use crate::testing::fixtures::{event, project, webhook};
use crate::testing::{Site, Visitor};
use http::Method;
use http::header::AUTHORIZATION;
use rpcgate_core::backend::changes::{Change, ChangeFeed};
use rpcgate_core::clock::Time;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::webhooks::{NewWebhook, create};
use rpcgate_management::error::ErrorCode;
use rpcgate_management::identity::webhook_secret::{SecretUse, WebhookSecret};
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::{
    AuditSubject, ChainEventFilter, DeliveryId, DeliveryStatus, Role, User, UserId, Webhook, WebhookId,
    fresh_id,
};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) async fn ask(
    site: &Site,
    visitor: &Visitor,
    method: Method,
    path: &str,
    body: Value,
) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = site.ask(Some(visitor), method, &format!("/api/v1{path}"), body).await;
    // Entries and rows of the same time have no order.
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), answer.body)
}

/// Returns a site with an owner and a project that has an endpoint.
pub(crate) async fn listening() -> (Site, Visitor, Webhook) {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let project = project(&site, &owner).await;
    let webhook = webhook(&site, owner.user.tenant.unwrap(), project).await;
    site.clock.advance(Duration::from_millis(1));
    (site, owner, webhook)
}

/// Returns the secret that signs, and the next one with the time from which it signs alone.
async fn secrets(site: &Site, visitor: &Visitor, id: WebhookId) -> (String, Option<(String, Time)>) {
    let stored = site.app.store.webhook(visitor.user.tenant.unwrap(), id).await.unwrap().unwrap();
    let open = |purpose, sealed: &[u8]| {
        WebhookSecret::open(&site.app.sealing, id, purpose, sealed).unwrap().expose().to_owned()
    };
    let next = stored.next_secret.map(|(next, at)| (open(SecretUse::Next, &next), at));
    (open(SecretUse::Current, &stored.secret), next)
}

// Shows (Webhooks): A webhook's secret is shown once, stored sealed, and in no later answer; an undeliverable URL is
// 400.
#[tokio::test]
async fn a_secret_is_shown_once_and_is_in_no_later_answer() {
    let site = Site::new().await;
    let owner = site.member(Role::Developer).await;
    let project = project(&site, &owner).await;
    let path = format!("/projects/{project}/webhooks");
    let new = json!({"url": "https://hooks.example/a?token=t"});
    let (status, created) = ask(&site, &owner, Method::POST, &path, new).await;
    assert_eq!((status, &created["active"]), (201, &json!(true)), "{created}");
    assert_eq!(created["url"], "https://hooks.example/a?token=t");
    let secret = created["secret"].as_str().unwrap().to_owned();
    assert!(secret.len() == 70 && secret.starts_with("whsec_"), "{secret}");
    let id = created["id"].as_str().unwrap();
    assert_eq!(secrets(&site, &owner, id.parse().unwrap()).await, (secret.clone(), None));
    let stored = site.app.store.webhook(owner.user.tenant.unwrap(), id.parse().unwrap()).await.unwrap();
    assert!(!String::from_utf8_lossy(&stored.unwrap().secret).contains(&secret[6..]), "it is sealed");

    let one = format!("/webhooks/{id}");
    let mut all = vec![ask(&site, &owner, Method::GET, &one, Value::Null).await];
    all.push(ask(&site, &owner, Method::GET, &path, Value::Null).await);
    all.push(ask(&site, &owner, Method::PUT, &one, json!({"active": true})).await);
    let (status, tested) = ask(&site, &owner, Method::POST, &format!("{one}/test"), Value::Null).await;
    assert_eq!(status, 201, "{tested}");
    let delivery = format!("/deliveries/{}", tested["id"].as_str().unwrap());
    all.push(ask(&site, &owner, Method::GET, &delivery, Value::Null).await);
    all.push(ask(&site, &owner, Method::GET, &format!("{one}/deliveries"), Value::Null).await);
    for (status, answer) in all {
        assert_eq!(status, 200, "{answer}");
        assert!(!answer.to_string().contains(&secret), "{answer}");
    }
    let audit = site.app.store.audit(AuditSubject::Tenant(owner.user.tenant.unwrap()), 100).await.unwrap();
    assert!(!format!("{audit:?}").contains(&secret));
    let entry = audit.iter().find(|entry| entry.action == "webhook.created").unwrap();
    assert_eq!((entry.subject.as_str(), entry.detail.as_str()), (id, "hooks.example"));
}

// Shows (Webhooks).
#[tokio::test]
async fn a_url_to_which_nothing_can_be_sent_is_refused() {
    let (site, owner, webhook) = listening().await;
    let new = format!("/projects/{}/webhooks", webhook.project);
    let change = format!("/webhooks/{}", webhook.id);
    for url in
        ["", "hooks.example", "ftp://hooks.example/", "https://u:p@hooks.example/", "https://a/\r\nb: c"]
    {
        for (method, path) in [(Method::POST, &new), (Method::PUT, &change)] {
            let (status, answer) = ask(&site, &owner, method, path, json!({"url": url})).await;
            assert_eq!((status, &answer["field"]), (400, &json!("url")), "{url}: {answer}");
        }
    }
    let (status, answer) =
        ask(&site, &owner, Method::POST, &new, json!({"url": "http://127.0.0.1:1/"})).await;
    assert_eq!(status, 201, "whether it is a public address is decided at each delivery: {answer}");
}

#[tokio::test]
async fn a_caller_whose_address_is_not_confirmed_creates_no_webhook() {
    let (site, owner, webhook) = listening().await;
    let unconfirmed = User { confirmed_at: None, ..owner.user.clone() };
    let now = site.app.now();
    let id = UserId(fresh_id(now));
    let unconfirmed = User { id, email: format!("{id}@example.com"), ..unconfirmed };
    site.app.store.create_user(&unconfirmed).await.unwrap();
    let actor = Actor {
        user: unconfirmed.into(),
        address: [192, 0, 2, 1].into(),
        run: None,
        scopes: None,
        if_match: None,
        command_line: None,
        is_proved: false,
    };
    let new = NewWebhook { url: "https://hooks.example/".into(), standard_headers: false };
    let refused = create(&site.app, &actor, webhook.project, new).await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::EmailUnconfirmed);
}

// Shows (Webhooks): Enabling a webhook clears its disabled state; changes of webhooks and subscriptions are in the feed
// that watchers read.
#[tokio::test]
async fn an_endpoint_that_is_switched_on_is_no_longer_disabled() {
    let (site, owner, webhook) = listening().await;
    let path = format!("/webhooks/{}", webhook.id);
    let before = site.app.store.newest_change().await.unwrap();
    let (status, off) = ask(&site, &owner, Method::PUT, &path, json!({"active": false})).await;
    assert_eq!((status, &off["active"]), (200, &json!(false)));
    let feed = site.app.store.since(before).await.unwrap();
    let feed: Vec<_> = feed.into_iter().map(|numbered| numbered.change).collect();
    assert_eq!(feed, [Change::Project(webhook.project)], "watchers hear of it");
    // Disables the endpoint as a dispatcher does.
    let now = site.app.now();
    site.app.store.mark_disabled(webhook.id, now).await.unwrap();
    let (_, disabled) = ask(&site, &owner, Method::GET, &path, Value::Null).await;
    assert!(disabled["disabled_at"].is_string() && disabled["failing_since"].is_string(), "{disabled}");
    let (_, moved) = ask(&site, &owner, Method::PUT, &path, json!({"url": "https://b.example/"})).await;
    assert!(moved["disabled_at"].is_string() && moved["failing_since"].is_null(), "{moved}");
    let range = json!({"from": "2020-01-01T00:00:00.000Z", "to": "2100-01-01T00:00:00.000Z"});
    for (action, body) in [("test", Value::Null), ("replay", range)] {
        let (status, refused) = ask(&site, &owner, Method::POST, &format!("{path}/{action}"), body).await;
        let off = error_body("conflict", "the webhook is switched off: switch it on first");
        assert_eq!((status, refused), (409, off), "{action}");
    }
    let (status, on) = ask(&site, &owner, Method::PUT, &path, json!({"active": true})).await;
    assert_eq!((status, &on["active"], &on["disabled_at"]), (200, &json!(true), &Value::Null));
}

// Shows (Webhooks): A new secret of a webhook signs at once, or together with the old one for up to 72 hours.
#[tokio::test]
async fn a_new_secret_signs_at_once_or_together_with_the_old_one_during_the_overlap() {
    let (site, owner, webhook) = listening().await;
    let path = format!("/webhooks/{}/secret", webhook.id);
    let (first, _) = secrets(&site, &owner, webhook.id).await;
    let replace = async |visitor: &Visitor, body: Value| {
        let (status, answer) = ask(&site, visitor, Method::POST, &path, body).await;
        assert_eq!(status, 200, "{answer}");
        (answer["secret"].as_str().unwrap().to_owned(), answer["secret_overlap_until"].clone())
    };
    let (second, overlap) = replace(&owner, Value::Null).await;
    assert_eq!(overlap, Value::Null);
    assert_eq!(secrets(&site, &owner, webhook.id).await, (second.clone(), None));
    assert_ne!(first, second);

    let now = site.app.now();
    let (third, overlap) = replace(&owner, json!({"overlap_hours": 72})).await;
    assert!(overlap.is_string(), "{overlap}");
    let ends = now.plus(Duration::from_secs(72 * 3_600));
    assert_eq!(secrets(&site, &owner, webhook.id).await, (second.clone(), Some((third.clone(), ends))));

    // Another replacement during the overlap replaces the waiting secret.
    let now = site.app.now();
    let (fourth, _) = replace(&owner, json!({"overlap_hours": 1})).await;
    let ends = now.plus(Duration::from_secs(3_600));
    assert_eq!(secrets(&site, &owner, webhook.id).await, (second, Some((fourth.clone(), ends))));

    // After the overlap, the secret that had waited signs, even if a newer one waits.
    site.clock.set(ends);
    // The previous token has expired.
    let owner = site.visitor(owner.user.tenant, Role::Owner).await;
    let (_, shown) = ask(&site, &owner, Method::GET, &format!("/webhooks/{}", webhook.id), Value::Null).await;
    assert_eq!(shown["secret_overlap_until"], Value::Null);
    let now = site.app.now();
    let (fifth, _) = replace(&owner, json!({"overlap_hours": 2})).await;
    let ends = now.plus(Duration::from_secs(2 * 3_600));
    assert_eq!(secrets(&site, &owner, webhook.id).await, (fourth, Some((fifth, ends))));

    // Without an overlap, both secrets end.
    let (sixth, _) = replace(&owner, json!({"overlap_hours": 0})).await;
    assert_eq!(secrets(&site, &owner, webhook.id).await, (sixth, None));
    for wrong in [json!({"overlap_hours": 73}), json!({"overlap_hours": -1}), json!({"secret": "mine"})] {
        assert_eq!(ask(&site, &owner, Method::POST, &path, wrong.clone()).await.0, 400, "{wrong}");
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn a_test_event_is_delivered_and_is_in_no_log() {
    let (site, owner, webhook) = listening().await;
    let path = format!("/webhooks/{}", webhook.id);
    let (status, made) = ask(&site, &owner, Method::POST, &format!("{path}/test"), Value::Null).await;
    assert_eq!((status, &made["status"], &made["chain"]), (201, &json!("pending"), &json!("eth")), "{made}");
    assert_eq!((&made["subscription_id"], &made["replay"]), (&Value::Null, &json!(false)));
    let delivery = format!("/deliveries/{}", made["id"].as_str().unwrap());
    let (_, shown) = ask(&site, &owner, Method::GET, &delivery, Value::Null).await;
    let body: Value = serde_json::from_str(shown["request"]["body"].as_str().unwrap()).unwrap();
    assert_eq!((&body["event_type"], &body["data"]["data"]), (&json!("new_block"), &json!({"test": true})));
    assert_eq!(body["data"]["timestamp"], site.app.now().secs());

    let subscription = json!({"chain": "bitcoin", "event_type": "health"});
    ask(&site, &owner, Method::POST, &format!("{path}/subscriptions"), subscription).await;
    let (_, made) = ask(&site, &owner, Method::POST, &format!("{path}/test"), Value::Null).await;
    assert_eq!(made["chain"], "btc", "the chain of its subscription");
    let log = format!("/projects/{}/events", webhook.project);
    assert_eq!(ask(&site, &owner, Method::GET, &log, Value::Null).await, (200, json!([])));
}

// Shows (Webhooks).
#[tokio::test]
async fn tests_and_replays_of_a_tenant_are_bounded_in_a_minute() {
    let (site, owner, webhook) = listening().await;
    let path = format!("/webhooks/{}/test", webhook.id);
    for _ in 0..30 {
        assert_eq!(ask(&site, &owner, Method::POST, &path, Value::Null).await.0, 201);
    }
    assert_eq!(ask(&site, &owner, Method::POST, &path, Value::Null).await.0, 429);
    let range = json!({"from": "2020-01-01T00:00:00.000Z", "to": "2100-01-01T00:00:00.000Z"});
    let replay = format!("/webhooks/{}/replay", webhook.id);
    assert_eq!(ask(&site, &owner, Method::POST, &replay, range.clone()).await.0, 429);
    let other = site.member(Role::Owner).await;
    let theirs =
        crate::testing::fixtures::webhook(&site, other.user.tenant.unwrap(), project(&site, &other).await)
            .await;
    let path = format!("/webhooks/{}/test", theirs.id);
    assert_eq!(ask(&site, &other, Method::POST, &path, Value::Null).await.0, 201, "others are not held");
    site.clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&site, &owner, Method::POST, &replay, range).await.0, 202);
}

// Shows (Webhooks): A replay sends a range again to one endpoint in new deliveries, a bounded number at a time; so does
// a test event.
#[tokio::test]
async fn a_replay_repeats_what_the_endpoint_was_sent_in_this_time() {
    let (site, owner, first) = listening().await;
    let tenant = owner.user.tenant.unwrap();
    let other = webhook(&site, tenant, first.project).await;
    let begin = site.app.now();
    let log = async |webhook: &Webhook, number: u64, status: DeliveryStatus, after: u64| {
        let at = begin.plus(Duration::from_secs(after));
        let id = DeliveryId(fresh_id(at));
        let event = event(number, at);
        site.app.store.log_event(webhook, (id, status), &event).await.unwrap();
        event.id.to_string()
    };
    log(&first, 1, DeliveryStatus::Delivered, 0).await;
    let failed = log(&first, 2, DeliveryStatus::Failed, 10).await;
    let delivered = log(&first, 3, DeliveryStatus::Delivered, 20).await;
    log(&first, 4, DeliveryStatus::Held, 20).await;
    log(&other, 5, DeliveryStatus::Failed, 20).await;
    log(&first, 6, DeliveryStatus::Failed, 30).await;
    site.clock.advance(Duration::from_secs(100));
    let moment = |after: u64| Moment(begin.plus(Duration::from_secs(after))).to_string();
    let path = format!("/webhooks/{}", first.id);
    let range = json!({"from": moment(10), "to": moment(30)});
    for _ in 0..2 {
        // A replay does not repeat what was replayed before.
        let answer = ask(&site, &owner, Method::POST, &format!("{path}/replay"), range.clone()).await;
        assert_eq!(answer, (202, json!({"deliveries": 2})));
        site.app.store.make_all_replays(site.app.now()).await;
    }
    let waiting = format!("{path}/deliveries?status=pending");
    let (_, waiting) = ask(&site, &owner, Method::GET, &waiting, Value::Null).await;
    let mut events: Vec<_> = waiting.as_array().unwrap().iter().map(|one| one["event_id"].clone()).collect();
    events.sort_by_key(Value::to_string);
    let mut expected = vec![json!(failed), json!(failed), json!(delivered), json!(delivered)];
    expected.sort_by_key(Value::to_string);
    assert_eq!(events, expected);
    assert!(waiting.as_array().unwrap().iter().all(|one| one["replay"] == true && one["attempts"] == 0));
    let others = format!("/webhooks/{}/deliveries", other.id);
    let (_, others) = ask(&site, &owner, Method::GET, &others, Value::Null).await;
    assert_eq!(others.as_array().unwrap().len(), 1, "the other endpoint gets nothing: {others}");
    let id = waiting[0]["id"].as_str().unwrap();
    let (_, shown) = ask(&site, &owner, Method::GET, &format!("/deliveries/{id}"), Value::Null).await;
    assert_eq!(shown["request"]["headers"]["x-replay"], "true");
    let nothing = json!({"from": moment(31), "to": moment(32)});
    let answer = ask(&site, &owner, Method::POST, &format!("{path}/replay"), nothing).await;
    assert_eq!(answer, (202, json!({"deliveries": 0})));
    let backwards = json!({"from": moment(30), "to": moment(30)});
    let (status, refused) = ask(&site, &owner, Method::POST, &format!("{path}/replay"), backwards).await;
    assert_eq!((status, &refused["field"]), (400, &json!("to")), "{refused}");
}

// Shows (Webhooks).
#[tokio::test]
async fn resources_of_a_deleted_webhook_or_project_are_not_found() {
    for whole_project in [false, true] {
        let (site, owner, webhook) = listening().await;
        let path = format!("/webhooks/{}", webhook.id);
        let new = json!({"chain": "eth", "event_type": "health"});
        let (_, made) = ask(&site, &owner, Method::POST, &format!("{path}/subscriptions"), new).await;
        let subscription = format!("/subscriptions/{}", made["id"].as_str().unwrap());
        let (_, made) = ask(&site, &owner, Method::POST, &format!("{path}/test"), Value::Null).await;
        let delivery = format!("/deliveries/{}", made["id"].as_str().unwrap());
        let gone = if whole_project { format!("/projects/{}", webhook.project) } else { path.clone() };
        assert_eq!(ask(&site, &owner, Method::DELETE, &gone, Value::Null).await.0, 204);
        let range = json!({"from": "2020-01-01T00:00:00.000Z", "to": "2100-01-01T00:00:00.000Z"});
        for (method, path, body) in [
            (Method::GET, path.clone(), Value::Null),
            (Method::PUT, path.clone(), json!({"active": true})),
            (Method::DELETE, path.clone(), Value::Null),
            (Method::POST, format!("{path}/secret"), Value::Null),
            (Method::POST, format!("{path}/test"), Value::Null),
            (Method::POST, format!("{path}/replay"), range),
            (Method::GET, format!("{path}/subscriptions"), Value::Null),
            (Method::POST, format!("{path}/subscriptions"), json!({"chain": "eth", "event_type": "health"})),
            (Method::GET, format!("{path}/deliveries"), Value::Null),
            (Method::DELETE, subscription, Value::Null),
            (Method::GET, delivery.clone(), Value::Null),
            (Method::POST, format!("{delivery}/retry"), Value::Null),
        ] {
            let (status, answer) = ask(&site, &owner, method.clone(), &path, body).await;
            assert_eq!(status, 404, "{method} {path}: {answer}");
        }
        let retention = Duration::from_secs(86_400);
        let swept = site.app.store.sweep_events(retention, site.app.now()).await.unwrap();
        assert_eq!((swept.webhooks, swept.deliveries, swept.events), (1, 1, 0));
    }
}

// Shows (Webhooks): Webhooks of a project and subscriptions of a webhook are limited by the plan (promise 70).
#[tokio::test]
async fn webhooks_of_a_project_are_limited_by_the_plan_even_when_created_in_parallel() {
    let (site, owner, webhook) = listening().await;
    let path = format!("/projects/{}/webhooks", webhook.project);
    let new = json!({"url": "https://hooks.example/"});
    let makes = (0..8).map(|_| ask(&site, &owner, Method::POST, &path, new.clone()));
    let made = futures_util::future::join_all(makes).await;
    let created = made.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(created, 1, "the free plan has two, and there was one: {made:?}");
    let text =
        "the plan allows 2 webhooks of a project: delete one that is not needed, or ask for a larger plan";
    let refused = made.iter().find(|(status, _)| *status != 201).unwrap();
    assert_eq!(refused, &(409, error_body("limit_reached", text)));
    let (_, gone) =
        ask(&site, &owner, Method::DELETE, &format!("/webhooks/{}", webhook.id), Value::Null).await;
    assert_eq!(gone, Value::Null);
    assert_eq!(ask(&site, &owner, Method::POST, &path, new).await.0, 201, "a deleted one does not count");
}

#[tokio::test]
async fn a_repeated_creation_with_an_idempotency_key_shows_the_same_secret() {
    let (site, owner, webhook) = listening().await;
    let request = async || {
        let request = http::Request::post(format!("/api/v1/projects/{}/webhooks", webhook.project))
            .header(AUTHORIZATION, format!("Bearer {}", owner.token))
            .header("idempotency-key", "one");
        let body = json!({"url": "https://hooks.example/"}).to_string();
        site.send(request.body(body.into()).unwrap()).await
    };
    let first = request().await;
    let again = request().await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 201));
    assert_eq!(first.body, again.body);
    let tenant = owner.user.tenant.unwrap();
    let all = site.app.store.webhooks(tenant, webhook.project).await.unwrap();
    assert_eq!(all.len(), 2, "the first one, and one that was created once");
    let filter = ChainEventFilter::default();
    let log = site.app.store.project_events(tenant, webhook.project, &filter, None, 10).await.unwrap();
    assert!(log.events.is_empty());
}
