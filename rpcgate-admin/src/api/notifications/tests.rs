use crate::testing::fixtures::error_body;
use crate::testing::fixtures::use_up;
use crate::testing::{Site, Visitor};
use axum::body::Body;
use http::Method;
use rpcgate_management::action::notifications::raise;
use rpcgate_store::{NotificationKind, Role};
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(site: &Site, visitor: &Visitor, method: Method, path: &str) -> (u16, Value) {
    let answer = site.ask(Some(visitor), method, &format!("/api/v1{path}"), Body::empty()).await;
    (answer.status.as_u16(), answer.body)
}

// Shows (Mails and notifications).
#[tokio::test]
async fn notifications_are_listed_newest_first_and_marked_read_by_each_user() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    assert_eq!(ask(&site, &owner, Method::GET, "/notifications").await, (200, json!([])));
    use_up(&site, tenant).await;
    let (status, reported) = ask(&site, &owner, Method::GET, "/notifications").await;
    let id = |n: usize| reported[n]["id"].as_str().unwrap().to_owned();
    assert_eq!(status, 200, "{reported}");
    let spike = json!({"id": id(0), "tenant_id": tenant.to_string(), "kind": "usage.rate_limited_spike",
        "message": "60 calls were refused with 429 within a minute", "since": "2026-12-31T12:00:00.000Z",
        "requests": 60, "requests_limit": null, "created_at": "2026-12-31T12:00:05.000Z", "read_at": null});
    let used = json!({"id": id(1), "tenant_id": tenant.to_string(), "kind": "usage.daily_requests_80",
        "message": "80 percent of the day's requests are used: 90 of 100", "since": "2026-12-31T00:00:00.000Z",
        "requests": 90, "requests_limit": 100, "created_at": "2026-12-31T12:00:00.000Z", "read_at": null});
    assert_eq!(reported, json!([spike, used]));

    let path = format!("/notifications/{}/read", id(1));
    let mut read = used;
    read["read_at"] = json!("2026-12-31T12:00:00.000Z");
    assert_eq!(ask(&site, &owner, Method::POST, &path).await, (200, read.clone()));
    site.clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&site, &owner, Method::POST, &path).await, (200, read.clone()));
    assert_eq!(ask(&site, &owner, Method::GET, "/notifications").await, (200, json!([spike, read])));
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    assert_eq!(ask(&site, &viewer, Method::GET, "/notifications").await, (200, reported.clone()));
    read["read_at"] = json!("2026-12-31T12:01:00.000Z");
    assert_eq!(ask(&site, &viewer, Method::POST, &path).await, (200, read));
}

// Shows (Mails and notifications).
#[tokio::test]
async fn notifications_are_visible_only_to_their_tenant() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let outsider = site.member(Role::Owner).await;
    use_up(&site, owner.user.tenant.unwrap()).await;
    let (_, reported) = ask(&site, &owner, Method::GET, "/notifications").await;
    let path = format!("/notifications/{}/read", reported[0]["id"].as_str().unwrap());
    assert_eq!(ask(&site, &outsider, Method::GET, "/notifications").await, (200, json!([])));
    let none = (404, error_body("not_found", "notification not found"));
    assert_eq!(ask(&site, &outsider, Method::POST, &path).await, none);
    let unknown = "/notifications/00000000-0000-7000-8000-000000000000/read";
    assert_eq!(ask(&site, &owner, Method::POST, unknown).await, none);
    let operator = site.operator().await;
    for (method, path) in [(Method::GET, "/notifications"), (Method::POST, &*path)] {
        assert_eq!(ask(&site, &operator, method, path).await.0, 403);
        assert_eq!(site.ask(None, Method::GET, "/api/v1/notifications", Body::empty()).await.status, 401);
    }
    assert_eq!(ask(&site, &owner, Method::GET, "/notifications").await, (200, reported));
}

#[tokio::test]
async fn notifications_are_all_listed_or_not_at_all() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let text = "Your organisation is suspended";
    raise(&site.app, tenant, NotificationKind::Suspension, text).await.unwrap();
    assert_eq!(ask(&site, &owner, Method::GET, "/notifications").await.0, 200);
    site.app.usage.close().await;
    assert_eq!(ask(&site, &owner, Method::GET, "/notifications").await.0, 503);
}
