use crate::testing::{Site, Visitor};
use axum::body::Body;
use http::{Method, StatusCode};
use rpcgate_store::{Audit, Role};
use serde_json::{Value, json};
use std::time::Duration;

async fn read(site: &Site, visitor: &Visitor, query: &str) -> (StatusCode, Value) {
    let path = format!("/api/v1/auth/audit{query}");
    let answer = site.ask(Some(visitor), Method::GET, &path, Body::empty()).await;
    (answer.status, answer.body)
}

/// Returns the user of each entry.
async fn whose(site: &Site, visitor: &Visitor) -> Vec<String> {
    let (status, body) = read(site, visitor, "").await;
    assert_eq!(status, StatusCode::OK);
    body.as_array().unwrap().iter().map(|entry| entry["user_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn owners_and_admins_read_all_entries_of_the_tenant_and_others_their_own() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let mut ids = vec![owner.user.id.to_string()];
    let mut all = vec![owner];
    for role in [Role::Admin, Role::Developer, Role::Billing, Role::Viewer] {
        site.clock.advance(Duration::from_secs(1));
        let visitor = site.visitor(all[0].user.tenant, role).await;
        ids.insert(0, visitor.user.id.to_string());
        all.push(visitor);
    }
    let outsider = site.member(Role::Owner).await;
    let operator = site.operator().await;
    for manager in &all[..2] {
        assert_eq!(whose(&site, manager).await, ids, "the newest first");
    }
    for visitor in all[2..].iter().chain([&outsider, &operator]) {
        assert_eq!(whose(&site, visitor).await, [visitor.user.id.to_string()]);
    }
}

#[tokio::test]
async fn an_entry_has_the_actor_the_action_the_address_and_the_time() {
    let site = Site::new().await;
    let visitor = site.member(Role::Viewer).await;
    site.clock.advance(Duration::from_micros(1_500_000));
    let form = json!({"name": "Zoe"}).to_string();
    site.ask(Some(&visitor), Method::PUT, "/api/v1/auth/me", form).await;
    let (_, body) = read(&site, &visitor, "?limit=1").await;
    let id = visitor.user.id.to_string();
    let tenant = visitor.user.tenant.unwrap().to_string();
    assert_eq!(
        body,
        json!([{"at": "2026-12-31T12:00:01.500Z", "tenant_id": tenant, "user_id": id, "action": "account.renamed", "subject": id,
            "address": "192.0.2.1", "detail": ""}])
    );
    for wrong in ["0", "1001", "x", "-1"] {
        assert_eq!(
            read(&site, &visitor, &format!("?limit={wrong}")).await.0,
            StatusCode::BAD_REQUEST,
            "{wrong}"
        );
    }
}

/// Returns the codes and subjects of the entries that a query finds.
async fn found(site: &Site, visitor: &Visitor, query: &str) -> Vec<(String, String)> {
    let (status, body) = read(site, visitor, query).await;
    assert_eq!(status, StatusCode::OK, "{query} {body}");
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    body.as_array().unwrap().iter().map(|entry| (text(entry, "action"), text(entry, "subject"))).collect()
}

// Shows (Management): The audit log has filters and a CSV form.
#[tokio::test]
async fn entries_are_filtered_by_action_user_subject_and_time() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let developer = site.visitor(owner.user.tenant, Role::Developer).await;
    let projects = format!("/api/v1/tenants/{}/projects", owner.user.tenant.unwrap());
    let mut ids = Vec::new();
    for visitor in [&owner, &developer] {
        site.clock.advance(Duration::from_secs(60));
        let form = json!({"name": "one"}).to_string();
        let answer = site.ask(Some(visitor), Method::POST, &projects, form).await;
        ids.push(answer.body["id"].as_str().unwrap().to_owned());
    }
    site.clock.advance(Duration::from_secs(60));
    let gone = format!("/api/v1/projects/{}", ids[0]);
    site.ask(Some(&owner), Method::DELETE, &gone, Body::empty()).await;
    let created = |n: usize| ("project.created".to_owned(), ids[n].clone());
    let deleted = ("project.deleted".to_owned(), ids[0].clone());
    for (query, expected) in [
        ("?action=project.created".to_owned(), vec![created(1), created(0)]),
        ("?action=project".to_owned(), vec![deleted.clone(), created(1), created(0)]),
        ("?action=projec".to_owned(), vec![]),
        ("?action=proj%25".to_owned(), vec![]),
        ("?action=pro_ect".to_owned(), vec![]),
        (format!("?action=project&user_id={}", developer.user.id), vec![created(1)]),
        (format!("?subject={}", ids[0]), vec![deleted.clone(), created(0)]),
        ("?action=project&from=2026-12-31T12:02:00.000Z".to_owned(), vec![deleted.clone(), created(1)]),
        ("?action=project&to=2026-12-31T12:02:00.000Z".to_owned(), vec![created(0)]),
        ("?from=2026-12-31T12:02:00.000Z&to=2026-12-31T12:03:00.000Z".to_owned(), vec![created(1)]),
    ] {
        assert_eq!(found(&site, &owner, &query).await, expected, "{query}");
    }
    assert_eq!(found(&site, &developer, "?action=project").await, [created(1)], "a filter shows no more");
    for (query, field) in [("?user_id=x", "user_id"), ("?from=yesterday", "from"), ("?actor=x", "actor")] {
        let (status, body) = read(&site, &owner, query).await;
        assert_eq!((status, &body["field"]), (StatusCode::BAD_REQUEST, &json!(field)), "{query}");
    }
    let paged = crate::router::tests::lists::followed;
    let path = "/api/v1/auth/audit?action=project";
    let all = site.ask(Some(&owner), Method::GET, path, Body::empty()).await.body;
    assert_eq!(json!(paged(&site, &owner, path, 1).await), all);
}

// Shows (Management).
#[tokio::test]
async fn operators_read_the_entries_of_all_tenants_or_of_one() {
    let site = Site::new().await;
    let one = site.member(Role::Owner).await;
    let two = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let users = async |query: &str| {
        let path = format!("/api/v1/operator/audit{query}");
        let answer = site.ask(Some(&operator), Method::GET, &path, Body::empty()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let entries = answer.body.as_array().unwrap().clone();
        entries.iter().map(|entry| entry["user_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ids = [&operator, &two, &one].map(|visitor| visitor.user.id.to_string());
    assert_eq!(users("").await, ids);
    assert_eq!(users(&format!("?tenant_id={}", one.user.tenant.unwrap())).await, [ids[2].clone()]);
    assert_eq!(users(&format!("?user_id={}", ids[1])).await, [ids[1].clone()]);
    assert_eq!(users("?action=key").await, Vec::<String>::new());
}

#[tokio::test]
async fn members_learn_what_an_operator_did_but_not_who_nor_from_where() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let tenant = owner.user.tenant.unwrap();
    site.clock.advance(Duration::from_secs(1));
    let path = format!("/api/v1/operator/tenants/{tenant}");
    let form = json!({"tier": "premium"}).to_string();
    let changed = site.ask(Some(&operator), Method::PUT, &path, form).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    let typed = Audit {
        tenant: Some(tenant),
        user: None,
        action: "tenant.changed".into(),
        subject: tenant.to_string(),
        address: "command line (root)".into(),
        at: site.app.now().plus(Duration::from_secs(1)),
        detail: String::new(),
    };
    site.app.store.note(&typed).await.unwrap();
    let (status, entries) = read(&site, &owner, "?limit=3").await;
    assert_eq!(status, StatusCode::OK);
    for entry in &entries.as_array().unwrap()[..2] {
        assert_eq!(entry["action"], "tenant.changed");
        assert_eq!((&entry["user_id"], &entry["address"]), (&Value::Null, &json!("")), "{entry}");
    }
    assert_eq!(entries[2]["user_id"], owner.user.id.to_string(), "members are shown");
    let request = http::Request::get("/api/v1/auth/audit")
        .header(http::header::ACCEPT, "text/csv")
        .header(http::header::AUTHORIZATION, format!("Bearer {}", owner.token));
    let (_, table) = site.raw(request.body(Body::empty()).unwrap()).await;
    let table = String::from_utf8(table.to_vec()).unwrap();
    assert!(table.contains("tenant.changed"), "{table}");
    assert!(!table.contains(&operator.user.id.to_string()) && !table.contains("root"), "{table}");
    let path = format!("/api/v1/operator/audit?tenant_id={tenant}&limit=2");
    let seen = site.ask(Some(&operator), Method::GET, &path, Body::empty()).await.body;
    assert_eq!(
        (&seen[0]["address"], &seen[1]["address"]),
        (&json!("command line (root)"), &json!("192.0.2.1"))
    );
    assert_eq!(seen[1]["user_id"], operator.user.id.to_string());
}

// Shows (Management).
#[tokio::test]
async fn a_page_of_entries_comes_as_csv_that_no_spreadsheet_runs() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let projects = format!("/api/v1/tenants/{}/projects", owner.user.tenant.unwrap());
    site.clock.advance(Duration::from_secs(1));
    let form = json!({"name": "=cmd(\"a\"), b"}).to_string();
    let id = site.ask(Some(&owner), Method::POST, &projects, form).await.body["id"].clone();
    let request = http::Request::get("/api/v1/auth/audit?limit=1")
        .header(http::header::ACCEPT, "text/csv")
        .header(http::header::AUTHORIZATION, format!("Bearer {}", owner.token));
    let (head, body) = site.raw(request.body(Body::empty()).unwrap()).await;
    assert_eq!(head.headers[http::header::CONTENT_TYPE], "text/csv; charset=utf-8; header=present");
    assert_eq!(head.headers[http::header::CONTENT_DISPOSITION], "attachment; filename=\"audit.csv\"");
    assert!(head.headers[http::header::LINK].to_str().unwrap().ends_with("rel=\"next\""));
    let expected = format!(
        "\u{feff}at,tenant_id,user_id,action,subject,address,detail\r\n\
         2026-12-31T12:00:01.000Z,{},{},project.created,{},192.0.2.1,\"'=cmd(\"\"a\"\"), b\"\r\n",
        owner.user.tenant.unwrap(),
        owner.user.id,
        id.as_str().unwrap()
    );
    assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
}
