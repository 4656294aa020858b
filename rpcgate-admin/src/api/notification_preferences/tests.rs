//! Tests of notification preferences, and of the users that notifications reach.

use crate::api::accounts::tests::mails;
use crate::testing::fixtures::use_up;
use crate::testing::{Site, Visitor};
use axum::body::Body;
use http::Method;
use rpcgate_management::action::notifications::{mail_new, raise};
use rpcgate_store::{AuditSubject, NotificationKind, Role};
use serde_json::{Value, json};
use std::time::Duration;

async fn get(site: &Site, visitor: &Visitor, path: &str) -> (u16, Value) {
    let answer = site.ask(Some(visitor), Method::GET, &format!("/api/v1{path}"), Body::empty()).await;
    (answer.status.as_u16(), answer.body)
}

async fn put(site: &Site, visitor: &Visitor, body: Value) -> (u16, Value) {
    let path = "/api/v1/notifications/preferences";
    let answer = site.ask(Some(visitor), Method::PUT, path, body.to_string()).await;
    (answer.status.as_u16(), answer.body)
}

/// Returns the kinds of the notifications that a user sees.
async fn kinds(site: &Site, visitor: &Visitor) -> Vec<String> {
    let (status, all) = get(site, visitor, "/notifications").await;
    assert_eq!(status, 200, "{all}");
    all.as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
}

/// Returns the addresses that got a mail with this text.
fn mailed(site: &Site, text: &str) -> Vec<String> {
    let about = mails(site).into_iter().filter(|mail| mail.contains(text));
    let mut to: Vec<_> = about
        .map(|mail| mail.lines().find_map(|line| line.strip_prefix("To: ")).unwrap().to_owned())
        .collect();
    to.sort();
    to
}

// Shows (Mails and notifications): Users are notified about invoices, security and webhooks according to their
// preferences per kind; requested mails are sent once each.
#[tokio::test]
async fn each_user_has_preferences_for_the_kinds_of_its_role() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let viewer = site.visitor(owner.user.tenant, Role::Viewer).await;
    let one = |kind: &str, mail: bool| json!({"kind": kind, "shown": true, "mail": mail});
    let mut expected = vec![
        one("usage.daily_requests_80", false),
        one("usage.daily_requests_95", false),
        one("usage.daily_requests_100", false),
        one("usage.rate_limited_spike", false),
        one("billing.invoice", true),
        one("account.suspension", true),
        one("account.security", true),
        one("webhook.health", true),
        one("billing.prices", true),
        one("limit_request.decided", true),
    ];
    assert_eq!(get(&site, &owner, "/notifications/preferences").await, (200, json!(expected)));
    let kind = "webhook.health";
    let changed = json!({"kind": kind, "shown": false, "mail": false});
    assert_eq!(put(&site, &owner, json!({"kind": kind, "mail": false})).await, (200, one(kind, false)));
    assert_eq!(put(&site, &owner, json!({"kind": kind, "shown": false})).await, (200, changed.clone()));
    assert_eq!(
        put(&site, &owner, json!({"kind": kind})).await,
        (200, changed.clone()),
        "what is left out stays"
    );
    expected[7] = changed;
    assert_eq!(get(&site, &owner, "/notifications/preferences").await, (200, json!(expected)));
    let (_, of_viewer) = get(&site, &viewer, "/notifications/preferences").await;
    let of_viewer = of_viewer.as_array().unwrap();
    assert!(of_viewer.len() == 8 && of_viewer.iter().all(|one| one["kind"] != "billing.invoice"));
    assert_eq!(of_viewer[4], one("account.suspension", false), "a viewer can do nothing about it");
    assert_eq!(of_viewer[6], one(kind, false), "another user's");
    let entries = site.app.store.audit(AuditSubject::Tenant(owner.user.tenant.unwrap()), 99).await.unwrap();
    let noted = entries.iter().filter(|entry| entry.action == "notification.preference_changed");
    assert_eq!(noted.count(), 2, "what changes nothing is not noted");
}

#[tokio::test]
async fn a_preference_survives_a_change_of_role_even_if_it_was_the_default() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let chooser = site.visitor(Some(tenant), Role::Admin).await;
    let other = site.visitor(Some(tenant), Role::Admin).await;
    let kind = "billing.invoice";
    assert_eq!(
        put(&site, &chooser, json!({"kind": kind, "mail": false})).await,
        (200, json!({"kind": kind, "shown": true, "mail": false})),
        "as it is by default"
    );
    for member in [&chooser, &other] {
        let path = format!("/api/v1/tenants/{tenant}/members/{}", member.user.id);
        let body = json!({"role": "owner"}).to_string();
        let moved = site.ask(Some(&owner), Method::PUT, &path, body).await;
        assert_eq!(moved.status.as_u16(), 200, "{}", moved.body);
    }
    let mailed = async |visitor| {
        let (_, all) = get(&site, visitor, "/notifications/preferences").await;
        all.as_array().unwrap().iter().find(|one| one["kind"] == kind).unwrap()["mail"].clone()
    };
    assert_eq!(mailed(&chooser).await, json!(false), "it was chosen");
    assert_eq!(mailed(&other).await, json!(true), "nothing was");
}

// Shows (Mails and notifications).
#[tokio::test]
async fn every_kind_is_switched_for_the_list_and_for_mails_by_each_user() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let other = site.visitor(Some(tenant), Role::Owner).await;
    for kind in NotificationKind::ALL.into_iter().filter(|kind| *kind != NotificationKind::Security) {
        let text = format!("Of the kind {}", kind.name());
        let list = async |visitor: &Visitor| kinds(&site, visitor).await.contains(&kind.name().to_owned());
        assert_eq!(put(&site, &owner, json!({"kind": kind, "shown": false, "mail": false})).await.0, 200);
        assert_eq!(put(&site, &other, json!({"kind": kind, "shown": true, "mail": true})).await.0, 200);
        raise(&site.app, tenant, kind, text.as_str()).await.unwrap();
        site.send_mails().await;
        assert_eq!(mailed(&site, &format!("\r\nSubject: {text}\r\n")), [other.user.email.as_str()]);
        assert!(!list(&owner).await && list(&other).await, "{kind:?}");
        assert_eq!(put(&site, &owner, json!({"kind": kind, "shown": true})).await.0, 200);
        assert!(list(&owner).await, "what was raised before is listed again");
    }
}

#[tokio::test]
async fn a_preference_that_cannot_be_is_refused() {
    let site = Site::new().await;
    let viewer = site.member(Role::Viewer).await;
    let (status, body) = put(&site, &viewer, json!({"kind": "account.security", "mail": false})).await;
    assert_eq!((status, &body["error"]), (400, &json!("`mail` of account.security cannot be switched off")));
    let (status, body) = put(&site, &viewer, json!({"kind": "account.security", "shown": false})).await;
    assert_eq!((status, body), (200, json!({"kind": "account.security", "shown": false, "mail": true})));
    assert_eq!(put(&site, &viewer, json!({"kind": "billing.invoice", "mail": true})).await.0, 403);
    assert_eq!(put(&site, &viewer, json!({"kind": "usage", "mail": true})).await.0, 400);
    let operator = site.operator().await;
    assert_eq!(get(&site, &operator, "/notifications/preferences").await.0, 403);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_raised_notification_is_seen_and_mailed_as_each_member_wants() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let payer = site.visitor(Some(tenant), Role::Billing).await;
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    let outsider = site.member(Role::Owner).await;
    let off = json!({"kind": "billing.invoice", "shown": false, "mail": false});
    assert_eq!(put(&site, &payer, off.clone()).await, (200, off));
    assert_eq!(put(&site, &viewer, json!({"kind": "webhook.health", "mail": true})).await.0, 200);
    raise(&site.app, tenant, NotificationKind::Invoice, "Invoice 7 of 12.00 USD was issued").await.unwrap();
    site.clock.advance(Duration::from_secs(1));
    let text = "Deliveries of the webhook \"<b>a</b>\" fail";
    raise(&site.app, tenant, NotificationKind::WebhookHealth, text).await.unwrap();
    site.send_mails().await;
    assert_eq!(kinds(&site, &owner).await, ["webhook.health", "billing.invoice"]);
    for visitor in [&payer, &viewer] {
        assert_eq!(kinds(&site, visitor).await, ["webhook.health"]);
    }
    assert_eq!(kinds(&site, &outsider).await, [""; 0]);
    assert_eq!(mailed(&site, "Invoice 7 of"), [owner.user.email.as_str()]);
    let mut both = [owner.user.email.as_str(), viewer.user.email.as_str()];
    both.sort_unstable();
    assert_eq!(mailed(&site, "Deliveries of the webhook"), both);
    let mail = mails(&site).pop().unwrap();
    for part in ["List-Unsubscribe: <http://127.0.0.1:8081/>\r\n", "&#60;b&#62;a&#60;/b&#62;"] {
        assert!(mail.contains(part), "{part} is not in {mail}");
    }
    let (_, all) = get(&site, &owner, "/notifications").await;
    let expected = json!({"id": all[0]["id"], "tenant_id": tenant.to_string(), "kind": "webhook.health",
        "message": text, "since": "2026-12-31T12:00:01.000Z", "requests": null, "requests_limit": null,
        "created_at": "2026-12-31T12:00:01.000Z", "read_at": null});
    assert_eq!(all[0], expected);
    let read = |id: &Value| format!("/api/v1/notifications/{}/read", id.as_str().unwrap());
    let health = read(&all[0]["id"]);
    let answer = site.ask(Some(&viewer), Method::POST, &health, Body::empty()).await;
    assert_eq!((answer.status.as_u16(), &answer.body["read_at"]), (200, &json!("2026-12-31T12:00:01.000Z")));
    for (visitor, path) in [(&viewer, read(&all[1]["id"])), (&outsider, health)] {
        let answer = site.ask(Some(visitor), Method::POST, &path, Body::empty()).await;
        assert_eq!(answer.status.as_u16(), 404, "it is for others");
    }
}

// Shows (Mails and notifications).
#[tokio::test]
async fn only_the_user_sees_a_notification_about_account_security() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let member = site.visitor(Some(tenant), Role::Viewer).await;
    let path = format!("/api/v1/tenants/{tenant}/members/{}", member.user.id);
    let role = json!({"role": "developer"}).to_string();
    assert_eq!(site.ask(Some(&owner), Method::PUT, &path, role).await.status.as_u16(), 200);
    assert_eq!(kinds(&site, &member).await, ["account.security"]);
    assert_eq!(kinds(&site, &owner).await, [""; 0]);
    let (_, all) = get(&site, &member, "/notifications").await;
    assert_eq!(all[0]["message"], "Your role was changed");
    let path = format!("/api/v1/notifications/{}/read", all[0]["id"].as_str().unwrap());
    assert_eq!(site.ask(Some(&owner), Method::POST, &path, Body::empty()).await.status.as_u16(), 404);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn new_notifications_of_gateways_are_mailed_once_to_users_who_want_mail() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    let preference = json!({"kind": "usage.rate_limited_spike", "mail": true});
    assert_eq!(put(&site, &viewer, preference.clone()).await.0, 200);
    use_up(&site, tenant).await;
    let notified = site.app.usage.unmailed_notifications().await.unwrap();
    assert_eq!(notified.len(), 2);
    assert!(mail_new(&site.app).await.unwrap());
    assert!(!mail_new(&site.app).await.unwrap());
    site.send_mails().await;
    assert_eq!(mailed(&site, "60 calls were refused"), [viewer.user.email.as_str()]);
    assert_eq!(mails(&site).len(), 1);
    // Simulates a janitor that was killed after it sent the mails and before it marked them.
    let ids: Vec<_> = notified.iter().map(|one| one.id).collect();
    site.app.usage.unmark_mailed(&ids).await.unwrap();
    assert!(mail_new(&site.app).await.unwrap());
    site.send_mails().await;
    assert_eq!(mails(&site).len(), 1, "once");
    let other = site.member(Role::Owner).await;
    assert_eq!(put(&site, &other, preference).await.0, 200);
    use_up(&site, other.user.tenant.unwrap()).await;
    site.clock.advance(Duration::from_secs(2 * 86_400));
    assert!(mail_new(&site.app).await.unwrap(), "they are marked");
    site.send_mails().await;
    assert_eq!(mails(&site).len(), 1, "but too old");
}
