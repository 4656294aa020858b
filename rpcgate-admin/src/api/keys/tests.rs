use crate::testing::fixtures::error_body;
use crate::testing::{Site, Visitor};
use http::Method;
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::secret::KeyHash;
use rpcgate_management::identity::token::Claims;
use rpcgate_store::{
    Audit, AuditSubject, Digest, LogInMethod, Project, Role, Session, SessionId, User, UserId, fresh_id,
};
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(site: &Site, visitor: &Visitor, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = site.ask(Some(visitor), method, &format!("/api/v1{path}"), body).await;
    // Entries and rows of the same time have no order.
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), answer.body)
}

/// Creates a project of the visitor's tenant and returns the path of its keys.
async fn project(site: &Site, visitor: &Visitor) -> (ProjectId, String) {
    let now = site.app.now();
    let id = ProjectId(fresh_id(now));
    let project = Project::new(id, visitor.user.tenant.unwrap(), "Keys", now);
    site.app.store.create_project(&project).await.unwrap();
    (id, format!("/projects/{id}/keys"))
}

// Shows (Management): A key is shown once; its prefix is its first 12 characters.
#[tokio::test]
async fn a_key_is_shown_once_and_stored_as_a_hash() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let (project, path) = project(&site, &owner).await;
    let before = site.app.store.newest_change().await.unwrap();
    let (status, created) = ask(&site, &owner, Method::POST, &path, json!({"description": " CI "})).await;
    assert_eq!(status, 201, "{created}");
    assert!(site.app.store.newest_change().await.unwrap() > before, "gateways hear of it");
    let text = created["key"].as_str().unwrap();
    assert!(site.app.forge.is_genuine(text));
    let id: KeyId = created["id"].as_str().unwrap().parse().unwrap();
    let stored = site.app.store.key(tenant, id).await.unwrap().unwrap();
    assert_eq!(stored.hash, KeyHash::of(text));

    let (status, list) = ask(&site, &owner, Method::GET, &path, Value::Null).await;
    let expected = json!({"id": id.to_string(), "project_id": project.to_string(), "description": "CI",
        "prefix": &text[..12], "chains": null, "expires_at": null, "revoked_at": null,
        "created_at": "2026-12-31T12:00:00.000Z"});
    assert_eq!((status, &list), (200, &json!([expected])));
    let hidden = [text.to_owned(), text[12..].to_owned(), stored.hash.to_string()];
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    for secret in hidden {
        assert!(!list.to_string().contains(&secret) && !format!("{audit:?}").contains(&secret));
    }
    let entry = audit.iter().find(|entry| entry.action == "key.created").unwrap();
    assert_eq!((entry.subject.clone(), entry.detail.as_str()), (id.to_string(), &text[..12]));
}

// Shows (Management): A key has a scope, which may use aliases, and an expiry.
#[tokio::test]
async fn a_scope_is_stored_by_canonical_names_and_an_end_in_utc() {
    let site = Site::new().await;
    let owner = site.member(Role::Developer).await;
    let (_, path) = project(&site, &owner).await;
    let body = json!({"description": "", "chains": ["ethereum", "btc", "bitcoin", "avalanche"],
        "expires_at": "2027-01-31T14:00:00+02:00"});
    let (status, created) = ask(&site, &owner, Method::POST, &path, body).await;
    assert_eq!((status, &created["chains"]), (201, &json!(["avax", "btc", "eth"])));
    assert_eq!(created["expires_at"], "2027-01-31T12:00:00.000Z");
    let body = json!({"description": "", "chains": null, "expires_at": null});
    let (status, created) = ask(&site, &owner, Method::POST, &path, body).await;
    assert_eq!((status, &created["chains"], &created["expires_at"]), (201, &Value::Null, &Value::Null));
}

#[tokio::test]
async fn an_invalid_request_creates_no_key() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let (_, path) = project(&site, &owner).await;
    let no_moment = "`expires_at` must be an RFC 3339 moment since 1970, such as 2027-01-31T12:00:00Z";
    for (body, text) in [
        (json!({}), "`description` is missing"),
        (json!({"description": "a".repeat(201)}), "`description` must be at most 200 characters long"),
        (
            json!({"description": "", "chains": []}),
            "`chains` must name a chain: leave it out for a key that may use all",
        ),
        (
            json!({"description": "", "chains": ["eth", "moon"]}),
            "`chains` has an unknown chain at position 2",
        ),
        (json!({"description": "", "chains": ["ETH"]}), "`chains` has an unknown chain at position 1"),
        (json!({"description": "", "chains": "eth"}), "`chains` must be an array"),
        (json!({"description": "", "expires_at": "soon"}), no_moment),
        (json!({"description": "", "expires_at": 1_900_000_000}), no_moment),
        (
            json!({"description": "", "expires_at": "2026-12-31T12:00:00.000Z"}),
            "`expires_at` must be in the future",
        ),
        (
            json!({"description": "", "expires_at": "2020-01-01T00:00:00.000Z"}),
            "`expires_at` must be in the future",
        ),
        (
            json!({"description": "", "key": "rpcg_mine"}),
            "unknown field `key`: expected one of `description`, `chains`, `expires_at`",
        ),
    ] {
        let (status, answer) = ask(&site, &owner, Method::POST, &path, body.clone()).await;
        assert_eq!((status, &answer["error"]), (400, &json!(text)), "{body}");
    }
    assert_eq!(ask(&site, &owner, Method::GET, &path, Value::Null).await, (200, json!([])));
}

async fn logged_in(site: &Site, user: User) -> Visitor {
    let now = site.app.now();
    let id = SessionId(fresh_id(now));
    let expires_at = now.plus(site.app.settings.refresh_ttl);
    let address = String::new();
    let agent = String::new();
    let session = Session {
        id,
        user: user.id,
        created_at: now,
        seen_at: now,
        expires_at,
        seen_address: address.clone(),
        address,
        agent,
        method: LogInMethod::Password,
        factor_at: None,
        proved_at: None,
    };
    let entry = Audit {
        tenant: user.tenant,
        user: Some(user.id),
        action: "session.opened".into(),
        subject: id.to_string(),
        address: String::new(),
        at: now,
        detail: String::new(),
    };
    let password = user.password.clone().unwrap();
    let digest = Digest::of(&id.to_string());
    assert!(site.app.store.open_session(&session, &digest, &password, &entry).await.unwrap());
    let tenant = user.tenant.unwrap();
    let role = user.role;
    let claims = Claims { sub: user.id, sid: id.0, tenant, role, operator: false };
    let token = site.app.tokens.issue(&claims, now).unwrap();
    Visitor { user, session: id, token }
}

// Shows (Accounts and second factors): Creating an API key is 403 before the address is confirmed.
#[tokio::test]
async fn there_is_no_key_before_the_address_is_confirmed() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let (_, path) = project(&site, &owner).await;
    let user = User {
        id: UserId(fresh_id(site.app.now())),
        email: "new@example.com".into(),
        confirmed_at: None,
        ..owner.user.clone()
    };
    site.app.store.create_user(&user).await.unwrap();
    let new = logged_in(&site, user).await;
    let (status, answer) = ask(&site, &new, Method::POST, &path, json!({"description": ""})).await;
    let text = "confirm your e-mail address before you create an API key";
    assert_eq!((status, answer), (403, error_body("email_unconfirmed", text)));
    assert_eq!(ask(&site, &new, Method::GET, &path, Value::Null).await, (200, json!([])));
}

#[tokio::test]
async fn a_revoked_key_stays_in_the_list_and_is_revoked_once() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let (project, path) = project(&site, &owner).await;
    let (_, created) = ask(&site, &owner, Method::POST, &path, json!({"description": ""})).await;
    let key = format!("/keys/{}", created["id"].as_str().unwrap());
    let before = site.app.store.newest_change().await.unwrap();
    assert_eq!(ask(&site, &owner, Method::DELETE, &key, Value::Null).await, (204, Value::Null));
    let after = site.app.store.newest_change().await.unwrap();
    assert!(after > before, "gateways hear of it");
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(ask(&site, &owner, Method::DELETE, &key, Value::Null).await, (204, Value::Null));
    assert_eq!(site.app.store.newest_change().await.unwrap(), after);
    let (_, list) = ask(&site, &owner, Method::GET, &path, Value::Null).await;
    assert_eq!(list[0]["revoked_at"], "2026-12-31T12:00:00.001Z", "the first time counts");
    let tenant = owner.user.tenant.unwrap();
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    assert_eq!(audit.iter().filter(|entry| entry.action == "key.revoked").count(), 1);

    site.app.store.delete_project(tenant, project, site.app.now()).await.unwrap();
    let gone = (404, error_body("not_found", "key not found"));
    assert_eq!(ask(&site, &owner, Method::DELETE, &key, Value::Null).await, gone);
    let gone = (404, error_body("not_found", "project not found"));
    assert_eq!(ask(&site, &owner, Method::GET, &path, Value::Null).await, gone);
    assert_eq!(ask(&site, &owner, Method::POST, &path, json!({"description": ""})).await, gone);
}
