use crate::api::accounts::tests::{EMAIL, PASSWORD, register_confirmed, tokens};
use crate::testing::fixtures::error_body;
use crate::testing::second_factors::Authenticator;
use crate::testing::{ApiAnswer, Site, Visitor};
use axum::body::Body;
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use rpcgate_management::action::notifications::raise;
use rpcgate_management::identity::token_scope::TokenScope;
use rpcgate_store::{AuditSubject, NotificationKind, Role};
use serde_json::{Value, json};
use std::time::Duration;

const TOKENS: &str = "/api/v1/auth/tokens";

async fn ask(site: &Site, token: &str, method: Method, path: &str, body: &Value) -> ApiAnswer {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    site.send(request.body(body).unwrap()).await
}

async fn get(site: &Site, token: &str, path: &str) -> ApiAnswer {
    ask(site, token, Method::GET, path, &Value::Null).await
}

/// Returns a new token of `visitor`, with its text.
async fn made(site: &Site, visitor: &Visitor, scopes: &[&str]) -> (String, Value) {
    let form = json!({"name": "deploy", "scopes": scopes});
    let answer = ask(site, &visitor.token, Method::POST, TOKENS, &form).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    (answer.body["token"].as_str().unwrap().to_owned(), answer.body)
}

// Shows (Management): Personal access tokens have scopes, an expiry and a time of last use, are shown once, have at
// most their user's rights, and end with the user.
#[tokio::test]
async fn a_token_is_shown_once_and_listed_with_its_last_use() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let (text, created) = made(&site, &owner, &["read", "manage_keys", "read"]).await;
    assert!(text.starts_with("rpcga_") && text.len() == 49, "{text}");
    let mut expected = created.clone();
    expected.as_object_mut().unwrap().remove("token");
    assert_eq!(
        expected,
        json!({"id": created["id"], "name": "deploy", "scopes": ["read", "manage_keys"],
            "created_at": "2026-12-31T12:00:00.000Z", "expires_at": "2027-03-31T12:00:00.000Z",
            "last_used_at": null, "last_used_from": null})
    );
    assert_eq!(get(&site, &owner.token, TOKENS).await.body, json!([expected]));
    site.clock.advance(Duration::from_secs(61));
    assert_eq!(get(&site, &text, "/api/v1/auth/me").await.body["id"], owner.user.id.to_string());
    expected["last_used_at"] = json!("2026-12-31T12:01:01.000Z");
    expected["last_used_from"] = json!("192.0.2.1");
    assert_eq!(get(&site, &owner.token, TOKENS).await.body, json!([expected]));
    let entries = site.app.store.audit(AuditSubject::User(owner.user.id), 1).await.unwrap();
    assert_eq!(entries[0].action, "access_token.created");
    assert_eq!(entries[0].detail, "deploy: read, manage_keys");
}

#[tokio::test]
async fn a_token_acts_as_its_user_within_its_scopes() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let projects = format!("/api/v1/tenants/{}/projects", owner.user.tenant.unwrap());
    let form = json!({"name": "one"});
    let (reads, _) = made(&site, &owner, &["read"]).await;
    let (makes, _) = made(&site, &owner, &["manage_projects"]).await;
    let missing = error_body("scope_missing", "the scopes of the personal access token do not permit this");
    let refused = ask(&site, &reads, Method::POST, &projects, &form).await;
    assert_eq!((refused.status, refused.body), (StatusCode::FORBIDDEN, missing.clone()));
    assert_eq!(ask(&site, &makes, Method::POST, &projects, &form).await.status, StatusCode::CREATED);
    let refused = get(&site, &makes, &projects).await;
    assert_eq!((refused.status, refused.body), (StatusCode::FORBIDDEN, missing));
    assert_eq!(get(&site, &reads, &projects).await.body.as_array().unwrap().len(), 1);
    let entry = &site.app.store.audit(AuditSubject::User(owner.user.id), 1).await.unwrap()[0];
    assert_eq!(entry.action, "project.created");
    let outsider = site.member(Role::Owner).await;
    let elsewhere = format!("/api/v1/tenants/{}/projects", outsider.user.tenant.unwrap());
    assert_eq!(get(&site, &reads, &elsewhere).await.status, StatusCode::NOT_FOUND);
}

// Shows (Management).
#[tokio::test]
async fn the_account_itself_and_other_tokens_need_a_log_in() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let scopes: Vec<_> =
        TokenScope::all().filter(|scope| scope.is_of(Some(Role::Owner))).map(TokenScope::as_str).collect();
    let (text, created) = made(&site, &owner, &scopes).await;
    let own = format!("{TOKENS}/{}", created["id"].as_str().unwrap());
    let form = json!({"name": "more", "scopes": ["read"]});
    let needed = error_body("login_needed", "a personal access token cannot do this: log in");
    for (method, path, body) in [
        (Method::POST, TOKENS, form),
        (Method::GET, TOKENS, Value::Null),
        (Method::DELETE, &own, Value::Null),
        (Method::PUT, "/api/v1/auth/me", json!({"name": "x"})),
        (Method::POST, "/api/v1/auth/logout-all", Value::Null),
        (Method::GET, "/api/v1/auth/sessions", Value::Null),
    ] {
        let answer = ask(&site, &text, method.clone(), path, &body).await;
        assert_eq!((answer.status, answer.body), (StatusCode::FORBIDDEN, needed.clone()), "{method} {path}");
    }
    assert_eq!(get(&site, &text, "/api/v1/plans").await.status, StatusCode::OK);
}

// Shows (Management).
#[tokio::test]
async fn every_operation_admits_tokens_as_its_description_states() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let scopes: Vec<_> = TokenScope::all().map(TokenScope::as_str).collect();
    let document = site.ask(None, Method::GET, "/openapi.json", Body::empty()).await.body;
    let mut needing = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(least) = operation["x-least-role"].as_str() else { continue };
            if least == "none" {
                continue;
            }
            let scope = operation["x-token-scope"].as_str();
            assert!(scope.is_none_or(|scope| scopes.contains(&scope)), "{method} {path}: {scope:?}");
            let (maker, own) = match least {
                "operator" => (&operator, scope),
                _ => (&owner, scope),
            };
            needing.push((
                method.to_uppercase(),
                path.replace(['{', '}'], "_"),
                maker,
                own.map(str::to_owned),
            ));
        }
    }
    let mut tokens = Vec::new();
    for (maker, role) in [(&owner, Some(Role::Owner)), (&operator, None)] {
        for scope in TokenScope::all().filter(|scope| scope.is_of(role)) {
            tokens.push((maker.user.id, scope, made(&site, maker, &[scope.as_str()]).await.0));
        }
    }
    assert_eq!(tokens.len(), scopes.len());
    for (maker, scope, text) in tokens {
        // A user may make 600 requests a minute.
        site.clock.advance(Duration::from_secs(120));
        for (method, path, its, needed) in &needing {
            if its.user.id == maker {
                let answer = ask(&site, &text, method.parse().unwrap(), path, &Value::Null).await;
                let code = answer.body["code"].as_str().unwrap_or_default();
                let expected = match needed.as_deref() {
                    None => code == "login_needed",
                    Some(needed) if needed == scope.as_str() => {
                        !matches!(code, "login_needed" | "scope_missing" | "unauthenticated")
                    }
                    Some(_) => code == "scope_missing",
                };
                assert!(expected, "{method} {path} with {scope}, needs {needed:?}: {}", answer.body);
            }
        }
    }
}

// Shows (Management).
#[tokio::test]
async fn no_user_makes_a_token_with_more_rights_than_its_own() {
    let site = Site::new().await;
    let viewer = site.member(Role::Viewer).await;
    let operator = site.operator().await;
    for (maker, scope) in
        [(&viewer, "manage_keys"), (&viewer, "operator_read"), (&operator, "read"), (&operator, "x")]
    {
        let form = json!({"name": "x", "scopes": [scope]});
        let answer = ask(&site, &maker.token, Method::POST, TOKENS, &form).await;
        assert_eq!(
            (answer.status, &answer.body["field"]),
            (StatusCode::BAD_REQUEST, &json!("scopes")),
            "{scope}"
        );
    }
    let (reads, _) = made(&site, &operator, &["operator_read"]).await;
    assert_eq!(get(&site, &reads, "/api/v1/operator/tenants").await.status, StatusCode::OK);
    let weight = json!({"cu": 3});
    let path = "/api/v1/operator/cu-weights/eth/eth_call";
    assert_eq!(ask(&site, &reads, Method::PUT, path, &weight).await.body["code"], "scope_missing");
    let (writes, _) = made(&site, &operator, &["operator_write"]).await;
    assert_eq!(ask(&site, &writes, Method::PUT, path, &weight).await.status, StatusCode::OK);
}

// Shows (Management).
#[tokio::test]
async fn a_token_loses_what_its_user_loses() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let developer = site.visitor(owner.user.tenant, Role::Developer).await;
    let projects = format!("/api/v1/tenants/{}/projects", owner.user.tenant.unwrap());
    let (text, _) = made(&site, &developer, &["manage_projects"]).await;
    let member = format!("/api/v1/tenants/{}/members/{}", owner.user.tenant.unwrap(), developer.user.id);
    let demoted = ask(&site, &owner.token, Method::PUT, &member, &json!({"role": "viewer"})).await;
    assert_eq!(demoted.status, StatusCode::OK);
    let refused = ask(&site, &text, Method::POST, &projects, &json!({"name": "one"})).await;
    assert_eq!((refused.status, &refused.body["code"]), (StatusCode::FORBIDDEN, &json!("forbidden")));
    assert_eq!(
        ask(&site, &owner.token, Method::DELETE, &member, &Value::Null).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(get(&site, &text, "/api/v1/plans").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_token_that_manages_members_makes_no_owners_unless_it_may() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let colleague = site.visitor(owner.user.tenant, Role::Viewer).await;
    let tenant = owner.user.tenant.unwrap();
    let member = format!("/api/v1/tenants/{tenant}/members/{}", colleague.user.id);
    let invitations = format!("/api/v1/tenants/{tenant}/invitations");
    let (some, _) = made(&site, &owner, &["manage_members"]).await;
    let (all, _) = made(&site, &owner, &["manage_members", "manage_owners"]).await;
    let form = json!({"email": "new@example.com", "role": "owner"});
    assert_eq!(ask(&site, &some, Method::POST, &invitations, &form).await.status, StatusCode::FORBIDDEN);
    let form = json!({"role": "owner"});
    assert_eq!(ask(&site, &some, Method::PUT, &member, &form).await.status, StatusCode::FORBIDDEN);
    assert_eq!(
        ask(&site, &some, Method::PUT, &member, &json!({"role": "admin"})).await.status,
        StatusCode::OK
    );
    assert_eq!(ask(&site, &all, Method::PUT, &member, &form).await.status, StatusCode::OK);
}

// Shows (Management).
#[tokio::test]
async fn a_token_ends_when_it_is_revoked_or_expires_or_its_user_is_disabled() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let (text, created) = made(&site, &owner, &["read"]).await;
    let path = format!("{TOKENS}/{}", created["id"].as_str().unwrap());
    let outsider = site.member(Role::Owner).await;
    let foreign = ask(&site, &outsider.token, Method::DELETE, &path, &Value::Null).await;
    assert_eq!(
        (foreign.status, foreign.body),
        (StatusCode::NOT_FOUND, error_body("not_found", "personal access token not found"))
    );
    assert_eq!(
        ask(&site, &owner.token, Method::DELETE, &path, &Value::Null).await.status,
        StatusCode::NO_CONTENT
    );
    let gone = get(&site, &text, "/api/v1/auth/me").await;
    assert_eq!((gone.status, &gone.body["code"]), (StatusCode::UNAUTHORIZED, &json!("unauthenticated")));

    let form = json!({"name": "short", "scopes": ["read"], "expires_at": "2026-12-31T12:00:10.000Z"});
    let short = ask(&site, &owner.token, Method::POST, TOKENS, &form).await.body["token"].clone();
    let short = short.as_str().unwrap();
    assert_eq!(get(&site, short, "/api/v1/auth/me").await.status, StatusCode::OK);
    site.clock.advance(Duration::from_secs(10));
    assert_eq!(get(&site, short, "/api/v1/auth/me").await.status, StatusCode::UNAUTHORIZED);

    let (text, _) = made(&site, &owner, &["read"]).await;
    let disable = format!("/api/v1/operator/users/{}/disable", owner.user.id);
    assert_eq!(
        ask(&site, &operator.token, Method::POST, &disable, &Value::Null).await.status,
        StatusCode::OK
    );
    assert_eq!(get(&site, &text, "/api/v1/auth/me").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn tokens_end_with_a_changed_password_and_with_a_new_factor() {
    let site = Site::of("[admin]\nauth_per_minute = 1000\n[admin.challenge]\ndifficulty = 50\n").await;
    register_confirmed(&site, EMAIL).await;
    let make = async |session: &str| {
        let form = json!({"name": "deploy", "scopes": ["read"]});
        let answer = ask(&site, session, Method::POST, TOKENS, &form).await;
        answer.body["token"].as_str().unwrap().to_owned()
    };
    let (session, _) = tokens(&site, EMAIL).await;
    let form = json!({"name": "deploy", "scopes": ["read"]});
    let bare = ask(&site, &session, Method::POST, TOKENS, &form).await;
    assert_eq!((bare.status, &bare.body["code"]), (StatusCode::UNAUTHORIZED, &json!("proof_required")));
    let wrong = json!({"name": "deploy", "scopes": ["read"], "current_password": "no password of hers"});
    assert_eq!(ask(&site, &session, Method::POST, TOKENS, &wrong).await.status, StatusCode::FORBIDDEN);
    let proof = json!({"current_password": PASSWORD});
    assert_eq!(
        ask(&site, &session, Method::POST, "/api/v1/auth/proof", &proof).await.status,
        StatusCode::NO_CONTENT
    );
    let text = make(&session).await;
    assert_eq!(get(&site, &text, "/api/v1/auth/me").await.status, StatusCode::OK);
    let change = json!({"current_password": PASSWORD, "new_password": "another password of ada"});
    let changed = ask(&site, &session, Method::POST, "/api/v1/auth/me/password", &change).await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT, "{}", changed.body);
    assert_eq!(get(&site, &text, "/api/v1/auth/me").await.status, StatusCode::UNAUTHORIZED);

    let text = make(&session).await;
    let path = "/api/v1/auth/mfa/totp/enroll";
    let offered = ask(&site, &session, Method::POST, path, &Value::Null).await;
    let code = json!({"code": Authenticator::typed(&offered).shows(&site)});
    let path = "/api/v1/auth/mfa/totp/activate";
    assert_eq!(ask(&site, &session, Method::POST, path, &code).await.status, StatusCode::OK);
    assert_eq!(get(&site, &text, "/api/v1/auth/me").await.status, StatusCode::UNAUTHORIZED);
    let text = make(&session).await;
    assert_eq!(get(&site, &text, "/api/v1/auth/me").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_without_the_scopes_requests_no_higher_limits_and_sees_no_invoice_notices() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let (text, _) = made(&site, &owner, &["read", "manage_tickets"]).await;
    let wish = json!({"category": "limit_increase", "subject": "More", "text": "We grow.", "requested_tier": "premium"});
    let refused = ask(&site, &text, Method::POST, "/api/v1/support/tickets", &wish).await;
    assert_eq!((refused.status, &refused.body["code"]), (StatusCode::FORBIDDEN, &json!("scope_missing")));
    assert_eq!(get(&site, &owner.token, "/api/v1/limit-requests").await.body, json!([]));

    let tenant = owner.user.tenant.unwrap();
    raise(&site.app, tenant, NotificationKind::Invoice, "An invoice").await.unwrap();
    let about_bills = async |token: &str| {
        let listed = get(&site, token, "/api/v1/notifications").await.body;
        let ours = listed.as_array().unwrap().iter().filter(|one| one["kind"] == "billing.invoice");
        ours.map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let listed = about_bills(&owner.token).await;
    assert_eq!(listed.len(), 1);
    assert!(about_bills(&text).await.is_empty());
    let (text, _) = made(&site, &owner, &["read", "read_billing"]).await;
    assert_eq!(about_bills(&text).await, listed);
}

#[tokio::test]
async fn a_new_token_is_checked() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    for (form, field) in [
        (json!({"name": " ", "scopes": ["read"]}), "name"),
        (json!({"name": "x", "scopes": []}), "scopes"),
        (json!({"name": "x", "scopes": ["read"], "expires_at": "2026-12-31T12:00:00.000Z"}), "expires_at"),
        (json!({"name": "x", "scopes": ["read"], "expires_at": "2028-01-01T12:00:01.000Z"}), "expires_at"),
        (json!({"name": "x", "scopes": ["read"], "user_id": "y"}), "user_id"),
    ] {
        let answer = ask(&site, &owner.token, Method::POST, TOKENS, &form).await;
        assert_eq!(
            (answer.status, &answer.body["field"]),
            (StatusCode::BAD_REQUEST, &json!(field)),
            "{form}"
        );
    }
    for _ in 0..50 {
        made(&site, &owner, &["read"]).await;
    }
    let form = json!({"name": "x", "scopes": ["read"]});
    let full = ask(&site, &owner.token, Method::POST, TOKENS, &form).await;
    assert_eq!((full.status, &full.body["code"]), (StatusCode::CONFLICT, &json!("limit_reached")));
}
