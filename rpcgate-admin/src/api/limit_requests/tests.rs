//! Tests of requests for another plan, for members and operators.

use crate::testing::fixtures::error_body;
use crate::testing::{Site, Visitor};
use http::Method;
use rpcgate_core::plan::Tier;
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(site: &Site, visitor: &Visitor, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = site.ask(Some(visitor), method, &format!("/api/v1{path}"), body).await;
    // Entries and rows of the same time have no order.
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), answer.body)
}

fn wish() -> Value {
    json!({"requested_tier": "premium", "reason": "More calls"})
}

// Shows (States and transitions): One limit request is pending, a second is 409; approval moves the tier.
// Shows (Mails and notifications): The members of a tenant are notified once of the decision about a limit request, by
// mail too if they may make one.
#[tokio::test]
async fn one_request_is_pending_and_approval_moves_the_tier() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let operator = site.operator().await;
    let (status, first) = ask(&site, &owner, Method::POST, "/limit-requests", wish()).await;
    assert_eq!(status, 201, "{first}");
    let id = first["id"].as_str().unwrap().to_owned();
    let expected = json!({"id": id, "tenant_id": tenant.to_string(), "user_id": owner.user.id.to_string(),
        "requested_plan": "premium", "requested_tier": "premium", "reason": "More calls", "status": "pending", "note": null,
        "created_at": "2026-12-31T12:00:00.000Z", "reviewed_at": null});
    assert_eq!(first, expected);
    let refused = (409, error_body("limit_request_pending", "a limit request is pending already"));
    assert_eq!(ask(&site, &owner, Method::POST, "/limit-requests", wish()).await, refused);
    let colleague = site.visitor(Some(tenant), Role::Billing).await;
    assert_eq!(ask(&site, &colleague, Method::POST, "/limit-requests", wish()).await, refused);
    let list = ask(&site, &owner, Method::GET, "/limit-requests", Value::Null).await;
    assert_eq!(list, (200, json!([expected])));

    let path = format!("/operator/limit-requests/{id}");
    let before = site.app.store.newest_change().await.unwrap();
    let review = json!({"status": "approved", "note": "Have fun"});
    let (status, done) = ask(&site, &operator, Method::PUT, &path, review.clone()).await;
    assert_eq!((status, &done["status"], &done["note"]), (200, &json!("approved"), &json!("Have fun")));
    assert!(done["reviewed_at"].as_str().unwrap() >= "2026-12-31T12:00:00.001Z", "{done}");
    assert_eq!(site.app.store.tenant(tenant).await.unwrap().unwrap().tier, Tier::Premium);
    assert!(site.app.store.newest_change().await.unwrap() > before, "gateways hear of it");
    let again = (409, error_body("already_decided", "this has been decided already"));
    assert_eq!(ask(&site, &operator, Method::PUT, &path, json!({"status": "rejected"})).await, again);

    let (status, second) = ask(&site, &owner, Method::POST, "/limit-requests", wish()).await;
    assert_eq!(status, 201, "nothing is pending any more");
    let path = format!("/operator/limit-requests/{}", second["id"].as_str().unwrap());
    let (status, done) = ask(&site, &operator, Method::PUT, &path, json!({"status": "rejected"})).await;
    assert_eq!((status, &done["status"]), (200, &json!("rejected")));
    let (_, told) = ask(&site, &owner, Method::GET, "/notifications", Value::Null).await;
    let told: Vec<_> = told.as_array().unwrap().iter().map(|one| (&one["kind"], &one["message"])).collect();
    let kind = json!("limit_request.decided");
    let text = "Your organisation's request for the plan premium was";
    let approved = json!(format!("{text} approved"));
    let rejected = json!(format!("{text} rejected"));
    assert_eq!(
        told,
        [(&kind, &rejected), (&kind, &approved)],
        "each once, and not for what was decided before"
    );
    let actions: Vec<_> = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    let actions: Vec<_> = actions.iter().rev().map(|entry| entry.action.as_str()).collect();
    let reported: Vec<_> = actions.into_iter().filter(|action| action.starts_with("limit_request")).collect();
    let created = "limit_request.created";
    let approved = "limit_request.approved";
    assert_eq!(reported, [created, approved, created, "limit_request.rejected"]);
}

// Shows (States and transitions).
#[tokio::test]
async fn one_of_parallel_limit_requests_is_accepted() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let made =
        std::array::from_fn::<_, 5, _>(|_| ask(&site, &owner, Method::POST, "/limit-requests", wish()));
    let [a, b, c, d, e] = made;
    let (a, b, c, d, e) = tokio::join!(a, b, c, d, e);
    let mut statuses = [a.0, b.0, c.0, d.0, e.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409]);
}

#[tokio::test]
async fn requests_have_a_plan_and_a_reason_and_stay_in_their_tenant() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let outsider = site.member(Role::Owner).await;
    for (body, text) in [
        (json!({"reason": "x"}), "`requested_tier` is missing"),
        (
            json!({"requested_tier": "gold", "reason": "x"}),
            "`requested_tier` must be one of `free`, `standard`, `premium`, `enterprise`",
        ),
        (json!({"requested_tier": "premium", "reason": " "}), "`reason` must not be empty"),
        (json!({"requested_tier": "premium"}), "`reason` is missing"),
        (
            json!({"requested_tier": "premium", "reason": "x", "status": "approved"}),
            "unknown field `status`: expected one of `requested_tier`, `requested_plan`, `reason`",
        ),
    ] {
        let (status, answer) = ask(&site, &owner, Method::POST, "/limit-requests", body.clone()).await;
        assert_eq!((status, &answer["error"]), (400, &json!(text)), "{body}");
    }
    let (_, mine) = ask(&site, &owner, Method::POST, "/limit-requests", wish()).await;
    assert_eq!(ask(&site, &outsider, Method::GET, "/limit-requests", Value::Null).await, (200, json!([])));
    let viewer = site.visitor(owner.user.tenant, Role::Viewer).await;
    assert_eq!(ask(&site, &viewer, Method::POST, "/limit-requests", wish()).await.0, 403);
    let operator = site.operator().await;
    assert_eq!(ask(&site, &operator, Method::POST, "/limit-requests", wish()).await.0, 403);

    let all = |query: &str| format!("/operator/limit-requests{query}");
    let (_, theirs) = ask(&site, &outsider, Method::POST, "/limit-requests", wish()).await;
    let list = async |query| ask(&site, &operator, Method::GET, &all(query), Value::Null).await;
    let (_, found) = list("").await;
    assert_eq!(found, json!([theirs, mine]));
    assert_eq!(list("?status=approved").await, (200, json!([])));
    assert_eq!(list("?status=pending&limit=1").await, (200, json!([theirs])));
    for wrong in ["?status=open", "?limit=0", "?limit=1001", "?limit=x"] {
        assert_eq!(list(wrong).await.0, 400, "{wrong}");
    }
    let path = format!("/operator/limit-requests/{}", mine["id"].as_str().unwrap());
    for body in [json!({}), json!({"status": "pending"}), json!({"status": "approved", "note": " "})] {
        assert_eq!(ask(&site, &operator, Method::PUT, &path, body.clone()).await.0, 400, "{body}");
    }
    let unknown = "/operator/limit-requests/00000000-0000-7000-8000-000000000000";
    assert_eq!(ask(&site, &operator, Method::PUT, unknown, json!({"status": "approved"})).await.0, 404);
}
