use crate::testing::fixtures::error_body;
use crate::testing::{ApiAnswer, Site, Visitor};
use axum::body::Body;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, StatusCode};
use rpcgate_management::identity::token::Claims;
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};
use std::time::Duration;

async fn post(site: &Site, visitor: &Visitor, path: &str, key: &str, body: &Value) -> ApiAnswer {
    let request = http::Request::post(format!("/api/v1{path}"))
        .header(AUTHORIZATION, format!("Bearer {}", visitor.token))
        .header("Idempotency-Key", key);
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

/// Gives the same user in the same session a fresh access token.
fn with_new_token(site: &Site, Visitor { user, session, .. }: Visitor) -> Visitor {
    let claims = Claims {
        sub: user.id,
        sid: session.0,
        tenant: user.tenant.unwrap_or_default(),
        role: user.role,
        operator: user.is_operator(),
    };
    let token = site.app.tokens.issue(&claims, site.app.now()).unwrap();
    Visitor { user, session, token }
}

async fn projects(site: &Site, visitor: &Visitor) -> usize {
    site.app.store.projects(visitor.user.tenant.unwrap()).await.unwrap().len()
}

fn path(visitor: &Visitor) -> String {
    format!("/tenants/{}/projects", visitor.user.tenant.unwrap())
}

// Shows (Management): `Idempotency-Key` on a creating POST is kept for 24 h per tenant: the same body gets the first
// answer, another body 409.
#[tokio::test]
async fn a_request_that_is_sent_again_creates_nothing_and_gets_the_first_answer() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let path = path(&owner);
    let one = json!({"name": "one"});
    let first = post(&site, &owner, &path, "k 1", &one).await;
    assert_eq!(first.status, StatusCode::CREATED);
    assert!(!first.headers.contains_key("idempotency-replayed"));
    site.clock.advance(Duration::from_secs(24 * 3_600 - 1));
    let owner = with_new_token(&site, owner);
    let again = post(&site, &owner, &path, "k 1", &one).await;
    assert_eq!((again.status, &again.body), (StatusCode::CREATED, &first.body));
    assert_eq!(again.headers[CONTENT_TYPE], first.headers[CONTENT_TYPE]);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(projects(&site, &owner).await, 1);
    let entries = site.app.store.audit(AuditSubject::User(owner.user.id), 9).await.unwrap();
    assert_eq!(entries.iter().filter(|entry| entry.action == "project.created").count(), 1);
    let other = post(&site, &owner, &path, "k 1", &json!({"name": "two"})).await;
    let text = "the idempotency key was used for another request";
    assert_eq!(
        (other.status, other.body),
        (StatusCode::CONFLICT, error_body("idempotency_key_reused", text))
    );
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(post(&site, &owner, &path, "k 1", &json!({"name": "two"})).await.status, StatusCode::CREATED);
    assert_eq!(projects(&site, &owner).await, 2);
}

// Shows (Management).
#[tokio::test]
async fn a_key_belongs_to_a_tenant_and_its_answer_to_the_user_who_asked() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let outsider = site.member(Role::Owner).await;
    let colleague = site.visitor(owner.user.tenant, Role::Admin).await;
    let body = json!({"name": "one"});
    let first = post(&site, &owner, &path(&owner), "k", &body).await;
    assert_eq!(first.status, StatusCode::CREATED);
    let others = post(&site, &colleague, &path(&owner), "k", &body).await;
    assert_eq!(
        (others.status, &others.body["code"]),
        (StatusCode::CONFLICT, &json!("idempotency_key_reused"))
    );
    let elsewhere = post(&site, &outsider, &path(&outsider), "k", &body).await;
    assert_eq!(elsewhere.status, StatusCode::CREATED);
    assert_ne!(elsewhere.body["id"], first.body["id"]);
    let viewer = site.visitor(owner.user.tenant, Role::Viewer).await;
    assert_eq!(post(&site, &viewer, &path(&owner), "k", &body).await.status, StatusCode::FORBIDDEN);
}

// Shows (Management).
#[tokio::test]
async fn a_secret_is_answered_again_and_not_stored_readable() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let project = post(&site, &owner, &path(&owner), "p", &json!({"name": "one"})).await.body["id"].clone();
    let keys = format!("/projects/{}/keys", project.as_str().unwrap());
    let body = json!({"description": "one"});
    let first = post(&site, &owner, &keys, "k", &body).await;
    let again = post(&site, &owner, &keys, "k", &body).await;
    let text = first.body["key"].as_str().unwrap().to_owned();
    assert!(text.starts_with("rpcg_"));
    assert_eq!(again.body, first.body);
    let stored = site.app.store.stored_answers().await.unwrap();
    assert_eq!(stored.len(), 2);
    for answer in stored {
        assert!(!answer.windows(text.len()).any(|part| part == text.as_bytes()), "the key is readable");
        assert!(!answer.windows(6).any(|part| part == b"prefix"), "the answer is readable");
    }
}

#[tokio::test]
async fn a_refused_request_can_be_sent_again_with_its_key() {
    let site = Site::of("[plans.free]\nprojects = 1\n").await;
    let owner = site.member(Role::Owner).await;
    let path = path(&owner);
    let first = post(&site, &owner, &path, "a", &json!({"name": "one"})).await;
    let body = json!({"name": "two"});
    assert_eq!(post(&site, &owner, &path, "b", &body).await.body["code"], "limit_reached");
    let project = format!("/api/v1/projects/{}", first.body["id"].as_str().unwrap());
    let deleted = site.ask(Some(&owner), Method::DELETE, &project, Body::empty()).await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    assert_eq!(post(&site, &owner, &path, "b", &body).await.status, StatusCode::CREATED);
    assert_eq!(post(&site, &owner, &path, "c", &json!({})).await.body["field"], "name");
    assert_eq!(post(&site, &owner, &path, "c", &body).await.body["code"], "limit_reached", "not: key reused");
}

// Shows (Management).
#[tokio::test]
async fn one_of_two_equal_requests_at_once_is_carried_out() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let path = path(&owner);
    let body = json!({"name": "one"});
    for round in 0..3 {
        let key = round.to_string();
        let answers = tokio::join!(
            post(&site, &owner, &path, &key, &body),
            post(&site, &owner, &path, &key, &body),
            post(&site, &owner, &path, &key, &body)
        );
        let answers = [answers.0, answers.1, answers.2];
        let created: Vec<_> = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).collect();
        assert!(created.iter().all(|answer| answer.body == created[0].body), "{answers:?}");
        assert!(!created.is_empty(), "{answers:?}");
        for answer in answers.iter().filter(|answer| answer.status != StatusCode::CREATED) {
            let waits = (StatusCode::CONFLICT, &json!("request_in_progress"));
            assert_eq!((answer.status, &answer.body["code"]), waits);
        }
        assert_eq!(projects(&site, &owner).await, round + 1);
    }
}

// Shows (Management).
#[tokio::test]
async fn a_client_that_leaves_finds_the_answer_when_it_asks_again() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let path = path(&owner);
    let body = json!({"name": "one"});
    {
        let mut left = Box::pin(post(&site, &owner, &path, "k", &body));
        // Until the project exists, or the request is answered.
        while projects(&site, &owner).await == 0 {
            tokio::select! {
                _ = &mut left => break,
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let again = async {
        loop {
            let answer = post(&site, &owner, &path, "k", &body).await;
            if answer.body["code"] != "request_in_progress" {
                return answer;
            }
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
    assert_eq!(again.status, StatusCode::CREATED, "{}", again.body);
    assert_eq!(projects(&site, &owner).await, 1);
}

#[tokio::test]
async fn a_key_has_1_to_255_printable_characters_and_is_given_once() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let body = json!({"name": "one"});
    for key in ["", &"k".repeat(256), "a\tb", "é"] {
        let answer = post(&site, &owner, &path(&owner), key, &body).await;
        let field = (StatusCode::BAD_REQUEST, &json!("Idempotency-Key"));
        assert_eq!((answer.status, &answer.body["field"]), field, "{key}");
    }
    assert_eq!(post(&site, &owner, &path(&owner), &"k".repeat(255), &body).await.status, StatusCode::CREATED);
    let request = http::Request::post(format!("/api/v1{}", path(&owner)))
        .header(AUTHORIZATION, format!("Bearer {}", owner.token))
        .header("idempotency-key", "a")
        .header("idempotency-key", "b");
    let twice = site.send(request.body(Body::from(body.to_string())).unwrap()).await;
    assert_eq!(twice.status, StatusCode::BAD_REQUEST);
    assert_eq!(projects(&site, &owner).await, 1);
}

// Shows (Management).
#[tokio::test]
async fn every_operation_that_creates_something_for_a_user_takes_a_key() {
    let site = Site::new().await;
    let document = site.ask(None, Method::GET, "/openapi.json", Body::empty()).await.body;
    let mut takers = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let none = Vec::new();
            let parameters = operation["parameters"].as_array().unwrap_or(&none);
            let takes = parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key");
            let creates = method == "post" && operation["responses"].get("201").is_some();
            let has_user = operation["x-least-role"] != "none";
            assert_eq!(takes, creates && has_user, "{method} {path}");
            takers += usize::from(takes);
        }
    }
    assert!(takers >= 4, "{takers}");
}
