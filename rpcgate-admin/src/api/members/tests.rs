use crate::testing::fixtures::error_body;
use crate::testing::{Site, Visitor};
use http::Method;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(site: &Site, visitor: &Visitor, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = site.ask(Some(visitor), method, &format!("/api/v1{path}"), body).await;
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), answer.body)
}

fn path(tenant: TenantId, member: &Visitor) -> String {
    format!("/tenants/{tenant}/members/{}", member.user.id)
}

async fn put(site: &Site, visitor: &Visitor, member: &Visitor, role: &str) -> (u16, Value) {
    let path = path(visitor.user.tenant.unwrap(), member);
    ask(site, visitor, Method::PUT, &path, json!({"role": role})).await
}

async fn delete(site: &Site, visitor: &Visitor, member: &Visitor) -> (u16, Value) {
    ask(site, visitor, Method::DELETE, &path(visitor.user.tenant.unwrap(), member), Value::Null).await
}

/// Returns the current role of a member, or `None` after its removal.
async fn role(site: &Site, member: &Visitor) -> Option<Role> {
    site.app.store.user(member.user.id).await.unwrap().map(|user| user.role)
}

async fn actions(site: &Site, tenant: TenantId) -> Vec<(String, String)> {
    let entries = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    let reported = entries.into_iter().rev().filter(|entry| entry.action.starts_with("member."));
    reported.map(|entry| (entry.action, entry.detail)).collect()
}

const NO_ROLE: &str = "your role does not permit this";
const LAST: &str = "this is the last owner: make another member an owner first";

#[tokio::test]
async fn members_see_members_oldest_first() {
    let site = Site::new().await;
    let viewer = site.member(Role::Viewer).await;
    let tenant = viewer.user.tenant.unwrap();
    site.clock.advance(Duration::from_secs(1));
    let owner = site.visitor(Some(tenant), Role::Owner).await;
    let outsider = site.member(Role::Owner).await;
    let members = format!("/tenants/{tenant}/members");
    let shown = |visitor: &Visitor, role: &str, at: &str| {
        json!({"id": visitor.user.id.to_string(), "email": visitor.user.email, "name": "Somebody", "role": role,
            "confirmed": true, "created_at": at})
    };
    let expected = json!([
        shown(&viewer, "viewer", "2026-12-31T12:00:00.000Z"),
        shown(&owner, "owner", "2026-12-31T12:00:01.000Z")
    ]);
    assert_eq!(ask(&site, &viewer, Method::GET, &members, Value::Null).await, (200, expected));
    let answer = ask(&site, &outsider, Method::GET, &members, Value::Null).await;
    assert_eq!(answer, (404, error_body("not_found", "tenant not found")));
}

#[tokio::test]
async fn a_changed_role_takes_effect_at_once() {
    let site = Site::new().await;
    let admin = site.member(Role::Admin).await;
    let tenant = admin.user.tenant.unwrap();
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    let projects = format!("/tenants/{tenant}/projects");
    let create = async || ask(&site, &viewer, Method::POST, &projects, json!({"name": "One"})).await.0;
    assert_eq!(create().await, 403);
    let (status, member) = put(&site, &admin, &viewer, "developer").await;
    assert_eq!(
        (status, &member["id"], &member["role"]),
        (200, &json!(viewer.user.id.to_string()), &json!("developer"))
    );
    assert_eq!(create().await, 201, "with the token of before");
    assert_eq!(put(&site, &admin, &viewer, "viewer").await.0, 200);
    assert_eq!(create().await, 403);
    assert_eq!(put(&site, &admin, &viewer, "viewer").await.0, 200, "nothing changes");
    let reported = ["developer", "viewer"].map(|role| ("member.role_changed".to_owned(), role.to_owned()));
    assert_eq!(actions(&site, tenant).await, reported);
    for (body, text) in [
        (json!({"role": "king"}), "`role`"),
        (json!({"role": "operator"}), "`role`"),
        (json!({"role": "viewer", "email": "x@example.com"}), "`email`"),
    ] {
        let (status, reported) = ask(&site, &admin, Method::PUT, &path(tenant, &viewer), body).await;
        assert_eq!(status, 400);
        assert!(reported["error"].as_str().unwrap().contains(text), "{reported}");
    }
}

#[tokio::test]
async fn owners_are_made_and_unmade_by_owners_alone() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant;
    let admin = site.visitor(tenant, Role::Admin).await;
    let other = site.visitor(tenant, Role::Admin).await;
    let refused = (403, error_body("forbidden", NO_ROLE));
    assert_eq!(put(&site, &admin, &admin, "owner").await, refused, "not oneself either");
    assert_eq!(put(&site, &admin, &other, "owner").await, refused);
    assert_eq!(put(&site, &admin, &owner, "viewer").await, refused);
    assert_eq!(put(&site, &admin, &owner, "owner").await, refused, "even if nothing would change");
    assert_eq!(delete(&site, &admin, &owner).await, refused);
    assert_eq!(actions(&site, tenant.unwrap()).await, []);
    assert_eq!(put(&site, &admin, &other, "billing").await.0, 200);
    assert_eq!(put(&site, &owner, &other, "owner").await.0, 200);
    assert_eq!(put(&site, &other, &owner, "viewer").await.0, 200);
    assert_eq!(put(&site, &owner, &admin, "viewer").await, refused, "an owner no more");
    assert_eq!(delete(&site, &other, &admin).await.0, 204);
    assert_eq!(role(&site, &admin).await, None);
}

#[tokio::test]
async fn the_last_owner_stays_one() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let admin = site.visitor(owner.user.tenant, Role::Admin).await;
    let last = (409, error_body("last_owner", LAST));
    assert_eq!(put(&site, &owner, &owner, "admin").await, last);
    assert_eq!(delete(&site, &owner, &owner).await, last);
    assert_eq!(role(&site, &owner).await, Some(Role::Owner));
    assert_eq!(put(&site, &owner, &admin, "owner").await.0, 200);
    assert_eq!(delete(&site, &owner, &owner).await.0, 204);
    assert_eq!(delete(&site, &admin, &admin).await, last);
}

#[tokio::test]
async fn a_member_that_leaves_or_is_removed_is_logged_out_and_deleted() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    let developer = site.visitor(Some(tenant), Role::Developer).await;
    let outsider = site.member(Role::Owner).await;
    assert_eq!(delete(&site, &viewer, &developer).await, (403, error_body("forbidden", NO_ROLE)));
    let foreign = (404, error_body("not_found", "user not found"));
    assert_eq!(delete(&site, &owner, &outsider).await, foreign);
    assert_eq!(
        delete(&site, &viewer, &outsider).await,
        foreign,
        "the answer does not reveal whether the user exists"
    );
    assert_eq!(put(&site, &owner, &outsider, "viewer").await, foreign);
    let other = ask(&site, &outsider, Method::DELETE, &path(tenant, &viewer), Value::Null).await;
    assert_eq!(other, (404, error_body("not_found", "tenant not found")));
    for (by, gone) in [(&viewer, &viewer), (&owner, &developer)] {
        assert_eq!(delete(&site, by, gone).await, (204, Value::Null));
        assert_eq!(ask(&site, gone, Method::GET, "/auth/me", Value::Null).await.0, 401);
        assert_eq!(role(&site, gone).await, None);
        assert_eq!(delete(&site, &owner, gone).await, foreign);
    }
    assert_eq!(role(&site, &outsider).await, Some(Role::Owner));
    let reported = [&viewer, &developer].map(|gone| ("member.removed".to_owned(), gone.user.email.clone()));
    assert_eq!(actions(&site, tenant).await, reported);
}

#[tokio::test]
async fn a_lowered_role_withdraws_invitations_that_exceed_it() {
    let site = Site::of("[plans.free]\nmembers = 4\n").await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let admin = site.visitor(Some(tenant), Role::Admin).await;
    let second = site.visitor(Some(tenant), Role::Owner).await;
    let path = format!("/tenants/{tenant}/invitations");
    for (by, email, role) in
        [(&admin, "a", "admin"), (&second, "b", "owner"), (&second, "c", "viewer"), (&owner, "d", "owner")]
    {
        let body = json!({"email": format!("{email}@example.com"), "role": role});
        assert_eq!(ask(&site, by, Method::POST, &path, body).await.0, 201);
    }
    let open = async || {
        let (_, all) = ask(&site, &owner, Method::GET, &path, Value::Null).await;
        let all = all.as_array().unwrap().iter();
        all.map(|one| one["email"].as_str().unwrap()[..1].to_owned()).collect::<String>()
    };
    assert_eq!(open().await, "abcd");
    assert_eq!(put(&site, &owner, &second, "admin").await.0, 200);
    assert_eq!(open().await, "acd");
    assert_eq!(put(&site, &owner, &second, "developer").await.0, 200);
    assert_eq!(open().await, "ad");
    assert_eq!(delete(&site, &owner, &admin).await.0, 204);
    assert_eq!(open().await, "d");
}
