use crate::testing::fixtures::error_body;
use crate::testing::{NOON, Site, Visitor};
use http::Method;
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

async fn made(site: &Site, visitor: &Visitor, name: &str) -> String {
    let path = format!("/tenants/{}/projects", visitor.user.tenant.unwrap());
    let (status, project) = ask(site, visitor, Method::POST, &path, json!({ "name": name })).await;
    assert_eq!(status, 201, "{project}");
    project["id"].as_str().unwrap().to_owned()
}

// Shows (Management): A creation answers 201 with the object, a deletion 204.
#[tokio::test]
async fn a_project_is_made_read_changed_and_deleted() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let id = made(&site, &owner, "  First ").await;
    let path = format!("/projects/{id}");
    let expected = json!({"id": id, "tenant_id": tenant.to_string(), "name": "First", "allowed_methods": [],
        "blocked_methods": [], "created_at": "2026-12-31T12:00:00.000Z"});
    assert_eq!(ask(&site, &owner, Method::GET, &path, Value::Null).await, (200, expected.clone()));

    let lists = json!({"allowed_methods": ["b", "a", "b"], "blocked_methods": ["c"]});
    let before = site.app.store.newest_change().await.unwrap();
    let (status, changed) = ask(&site, &owner, Method::PUT, &path, lists).await;
    assert_eq!((status, &changed["name"]), (200, &json!("First")));
    assert_eq!(
        (&changed["allowed_methods"], &changed["blocked_methods"]),
        (&json!(["b", "a"]), &json!(["c"]))
    );
    assert!(site.app.store.newest_change().await.unwrap() > before, "gateways hear of lists");

    let (status, renamed) = ask(&site, &owner, Method::PUT, &path, json!({"name": "Second"})).await;
    assert_eq!((status, &renamed["allowed_methods"]), (200, &json!(["b", "a"])), "omitted fields stay");
    let (_, same) = ask(&site, &owner, Method::PUT, &path, json!({})).await;
    assert_eq!(same, renamed);
    let (_, cleared) = ask(&site, &owner, Method::PUT, &path, json!({"allowed_methods": []})).await;
    assert_eq!(cleared["allowed_methods"], json!([]));

    let of_tenant = format!("/tenants/{tenant}/projects");
    let second = made(&site, &owner, "Other").await;
    let (_, list) = ask(&site, &owner, Method::GET, &of_tenant, Value::Null).await;
    let ids: Vec<_> = list.as_array().unwrap().iter().map(|project| project["id"].clone()).collect();
    assert_eq!(ids, [json!(id), json!(second)]);

    assert_eq!(ask(&site, &owner, Method::DELETE, &path, Value::Null).await, (204, Value::Null));
    let gone = (404, error_body("not_found", "project not found"));
    for (method, body) in [
        (Method::GET, Value::Null),
        (Method::PUT, json!({"name": "x"})),
        (Method::PUT, json!({})),
        (Method::DELETE, Value::Null),
    ] {
        assert_eq!(ask(&site, &owner, method, &path, body).await, gone);
    }
    assert_eq!(ask(&site, &owner, Method::GET, &of_tenant, Value::Null).await.1.as_array().unwrap().len(), 1);

    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    let reported: Vec<_> = audit
        .iter()
        .rev()
        .filter(|entry| entry.subject == id)
        .map(|entry| (entry.action.as_str(), entry.detail.as_str()))
        .collect();
    assert_eq!(
        reported,
        [
            ("project.created", "First"),
            ("project.changed", "allowed_methods, blocked_methods"),
            ("project.changed", "name"),
            ("project.changed", "allowed_methods"),
            ("project.deleted", ""),
        ],
        "each write has an entry, and a refused one has none"
    );
    let first = audit.iter().rfind(|entry| entry.action == "project.created").unwrap();
    assert_eq!((first.user, first.address.as_str(), first.at), (Some(owner.user.id), "192.0.2.1", NOON));
}

#[tokio::test]
async fn an_invalid_request_is_refused_and_changes_nothing() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let id = made(&site, &owner, "Kept").await;
    let path = format!("/projects/{id}");
    let of_tenant = format!("/tenants/{}/projects", owner.user.tenant.unwrap());
    let before = ask(&site, &owner, Method::GET, &path, Value::Null).await;
    let many: Vec<_> = (0..201).map(|n| n.to_string()).collect();
    for (body, text) in [
        (json!({"name": " "}), "`name` must not be empty"),
        (json!({"name": "a\nb"}), "`name` must not contain control characters"),
        (json!({"name": "a".repeat(201)}), "`name` must be at most 200 characters long"),
        (json!({"name": 5}), "`name` must be a string"),
        (json!({"name": "x", "tenant_id": "y"}), "unknown field `tenant_id`"),
        (json!({"name": "x", "id": "y"}), "unknown field `id`"),
        (json!({"name": "x", "allowed_methods": [""]}), "`allowed_methods` must name methods"),
        (json!({"name": "x", "blocked_methods": ["a b"]}), "`blocked_methods` must name methods"),
        (
            json!({"name": "x", "blocked_methods": ["debug_*"]}),
            "`blocked_methods` must name methods one by one",
        ),
        (json!({"name": "x", "blocked_methods": many}), "`blocked_methods` must have at most 200 methods"),
        (json!({"name": "x", "allowed_methods": "a"}), "`allowed_methods` must be an array"),
    ] {
        let (status, answer) = ask(&site, &owner, Method::PUT, &path, body.clone()).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer["error"].as_str().unwrap().starts_with(text), "{answer} {text}");
        let (status, _) = ask(&site, &owner, Method::POST, &of_tenant, body.clone()).await;
        assert_eq!(status, 400, "{body}");
    }
    assert_eq!(ask(&site, &owner, Method::POST, &of_tenant, json!({})).await.1["error"], "`name` is missing");
    assert_eq!(ask(&site, &owner, Method::GET, &path, Value::Null).await, before);
    assert_eq!(ask(&site, &owner, Method::GET, &of_tenant, Value::Null).await.1.as_array().unwrap().len(), 1);
}
