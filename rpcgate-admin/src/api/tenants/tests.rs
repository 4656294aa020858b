//! Tests of tenants through the API, and of permissions on a tenant's objects.

use crate::testing::{Site, Visitor};
use http::Method;
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(
    site: &Site,
    visitor: Option<&Visitor>,
    method: &Method,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = site.ask(visitor, method.clone(), &format!("/api/v1{path}"), body).await;
    // Entries and rows of the same time have no order.
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), answer.body)
}

#[tokio::test]
async fn a_member_sees_one_tenant_and_admins_rename_it() {
    let site = Site::new().await;
    let admin = site.member(Role::Admin).await;
    let tenant = admin.user.tenant.unwrap();
    let path = format!("/tenants/{tenant}");
    let mut expected = json!({"id": tenant.to_string(), "name": "Site", "plan": "free", "tier": "free", "status": "active",
        "created_at": "2026-12-31T12:00:00.000Z"});
    let get = ask(&site, Some(&admin), &Method::GET, "/tenants", &Value::Null).await;
    assert_eq!(get, (200, json!([expected])));
    expected["billing_name"] = Value::Null;
    expected["billing_address"] = json!([]);
    expected["billing_tax_id"] = Value::Null;
    let get = ask(&site, Some(&admin), &Method::GET, &path, &Value::Null).await;
    assert_eq!(get, (200, expected));
    let (status, renamed) = ask(&site, Some(&admin), &Method::PUT, &path, &json!({"name": " New "})).await;
    assert_eq!((status, &renamed["name"]), (200, &json!("New")));
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 1).await.unwrap();
    assert_eq!((audit[0].action.as_str(), audit[0].detail.as_str()), ("tenant.renamed", "New"));
    for body in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "x", "tier": "enterprise"}),
        json!({"name": "x", "status": "active"}),
    ] {
        let (status, _) = ask(&site, Some(&admin), &Method::PUT, &path, &body).await;
        assert_eq!(status, 400, "{body}");
    }
    let get = ask(&site, Some(&admin), &Method::GET, &path, &Value::Null).await;
    assert_eq!((&get.1["name"], &get.1["tier"]), (&json!("New"), &json!("free")));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn admins_set_their_organisations_data_on_invoices() {
    let site = Site::new().await;
    let admin = site.member(Role::Admin).await;
    let tenant = admin.user.tenant.unwrap();
    let path = format!("/tenants/{tenant}");
    let put = async |body: Value| ask(&site, Some(&admin), &Method::PUT, &path, &body).await;
    let lines = json!([" 1 High Street ", "", "London"]);
    let body = json!({"billing_name": "Bank plc", "billing_address": lines, "billing_tax_id": "GB123"});
    let (status, answer) = put(body).await;
    assert_eq!((status, &answer["billing_address"]), (200, &json!(["1 High Street", "London"])));
    let (status, answer) = put(json!({"billing_tax_id": ""})).await;
    assert_eq!(
        (status, &answer["billing_name"], &answer["billing_tax_id"]),
        (200, &json!("Bank plc"), &Value::Null)
    );
    assert_eq!(answer["name"], "Site", "its own name stays");
    for body in [
        json!({"billing_name": "x".repeat(201)}),
        json!({"billing_address": ["a\nb"]}),
        json!({"billing_address": vec!["a"; 11]}),
        json!({"billing_address": "1 High Street"}),
    ] {
        assert_eq!(put(body.clone()).await.0, 400, "{body}");
    }
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 1).await.unwrap();
    assert_eq!(audit[0].action, "tenant.billing_changed");
}

/// Creates a project and a key in a tenant, and returns their identifiers.
async fn furnished(site: &Site, owner: &Visitor) -> (String, String) {
    let projects = format!("/tenants/{}/projects", owner.user.tenant.unwrap());
    let (_, project) = ask(site, Some(owner), &Method::POST, &projects, &json!({"name": "P"})).await;
    let project = project["id"].as_str().unwrap().to_owned();
    let keys = format!("/projects/{project}/keys");
    let (_, key) = ask(site, Some(owner), &Method::POST, &keys, &json!({"description": "K"})).await;
    (project, key["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_route_to_something_of_a_tenant_admits_only_members_with_the_right_role() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let (project, key) = furnished(&site, &owner).await;
    let name = json!({"name": "N"});
    let description = json!({"description": "D"});
    let nothing = "00000000-0000-7000-8000-000000000000";
    let routes = |tenant: &str, project: &str, key: &str| {
        [
            (Method::GET, format!("/tenants/{tenant}"), Value::Null, 200),
            (Method::PUT, format!("/tenants/{tenant}"), name.clone(), 200),
            (Method::GET, format!("/tenants/{tenant}/projects"), Value::Null, 200),
            (Method::POST, format!("/tenants/{tenant}/projects"), name.clone(), 201),
            (Method::GET, format!("/projects/{project}"), Value::Null, 200),
            (Method::PUT, format!("/projects/{project}"), name.clone(), 200),
            (Method::GET, format!("/projects/{project}/keys"), Value::Null, 200),
            (Method::POST, format!("/projects/{project}/keys"), description.clone(), 201),
            (Method::DELETE, format!("/keys/{key}"), Value::Null, 204),
            (Method::DELETE, format!("/projects/{project}"), Value::Null, 204),
        ]
    };
    let mine = routes(&tenant.to_string(), &project, &key);
    let outsider = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    let billing = site.visitor(Some(tenant), Role::Billing).await;
    for (method, path, body, _) in &mine {
        let operation = format!("{method} {path}");
        let status = async |visitor| ask(&site, visitor, method, path, body).await.0;
        assert_eq!(status(None).await, 401, "{operation}");
        assert_eq!(status(Some(&outsider)).await, 404, "{operation}");
        assert_eq!(status(Some(&operator)).await, 403, "{operation}");
        for reader in [&viewer, &billing] {
            let expected = if method == Method::GET { 200 } else { 403 };
            assert_eq!(status(Some(reader)).await, expected, "{operation}");
        }
    }
    for unknown in [nothing, "none", "%2e%2e"] {
        for (method, path, body, _) in routes(unknown, unknown, unknown) {
            let answer = ask(&site, Some(&owner), &method, &path, &body).await;
            assert_eq!(answer.0, 404, "{method} {path}");
        }
    }
    let developer = site.visitor(Some(tenant), Role::Developer).await;
    for (method, path, body, expected) in &mine {
        let is_tenants = *method == Method::PUT && path.starts_with("/tenants");
        let (status, answer) = ask(&site, Some(&developer), method, path, body).await;
        assert_eq!(status, if is_tenants { 403 } else { *expected }, "{method} {path}: {answer}");
    }
    let stored = site.app.store.tenant(outsider.user.tenant.unwrap()).await.unwrap().unwrap();
    assert_eq!(stored.name, "Site");
}
