use crate::management::app_state::tests::{Site, Visitor};
use crate::store::Role;
use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

async fn read(site: &Site, visitor: &Visitor, query: &str) -> (StatusCode, Value) {
    let path = format!("/api/v1/auth/audit{query}");
    let answer = site.ask(Some(visitor), Method::GET, &path, Body::empty()).await;
    (answer.status, answer.body)
}

/// The user of each entry.
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
    let (outsider, operator) = (site.member(Role::Owner).await, site.operator().await);
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
    assert_eq!(
        body,
        json!([{"at": "2026-12-31T12:00:01.5Z", "user_id": id, "action": "account.renamed", "subject": id,
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
