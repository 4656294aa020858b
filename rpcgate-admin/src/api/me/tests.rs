use crate::api::accounts::tests::{EMAIL, PASSWORD, ask, login, register, site, tokens};
use crate::testing::{ApiAnswer, Site};
use axum::body::Body;
use http::{Method, StatusCode};
use rpcgate_store::{ATTEMPTS, AuditSubject, Role};
use serde_json::{Value, json};

const NEW: &str = "an even better password";

fn reported(answer: &ApiAnswer) -> (StatusCode, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or_default())
}

async fn change(site: &Site, token: &str, current: &str, new: &str) -> ApiAnswer {
    let form = json!({"current_password": current, "new_password": new});
    ask(site, Some(token), Method::POST, "/auth/me/password", Some(form)).await
}

async fn me(site: &Site, token: &str) -> ApiAnswer {
    ask(site, Some(token), Method::GET, "/auth/me", None).await
}

#[tokio::test]
async fn every_user_can_read_its_own_account() {
    let site = Site::new().await;
    let get =
        async |visitor| site.ask(Some(visitor), Method::GET, "/api/v1/auth/me", Body::empty()).await.body;
    let visitor = site.member(Role::Billing).await;
    let user = &visitor.user;
    assert_eq!(
        get(&visitor).await,
        json!({"id": user.id.to_string(), "tenant_id": user.tenant.unwrap().to_string(), "email": user.email,
            "name": "Somebody", "role": "billing", "operator": false, "confirmed": true})
    );
    let operator = get(&site.operator().await).await;
    assert_eq!(
        (&operator["tenant_id"], &operator["role"], &operator["operator"]),
        (&Value::Null, &json!("operator"), &json!(true))
    );
    assert_eq!(ask(&site, None, Method::GET, "/auth/me", None).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn users_change_only_their_own_name() {
    let site = Site::new().await;
    let visitor = site.member(Role::Viewer).await;
    let put =
        async |form: Value| site.ask(Some(&visitor), Method::PUT, "/api/v1/auth/me", form.to_string()).await;
    for field in ["id", "tenant_id", "email", "role", "operator", "confirmed"] {
        let answer = put(json!({"name": "Eve", field: "owner"})).await;
        let text = format!("unknown field `{field}`: expected `name`");
        assert_eq!(reported(&answer), (StatusCode::BAD_REQUEST, text.as_str()));
    }
    assert_eq!(put(json!({"name": "x".repeat(201)})).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(site.app.store.user(visitor.user.id).await.unwrap().unwrap(), visitor.user);
    let answer = put(json!({"name": " Zoë <b>"})).await;
    assert_eq!((answer.status, &answer.body["name"]), (StatusCode::OK, &json!("Zoë <b>")));
    let again = site.ask(Some(&visitor), Method::GET, "/api/v1/auth/me", Body::empty()).await;
    assert_eq!(again.body, answer.body);
}

// Shows (Accounts and second factors): A password change and logout-all end every other session at once.
#[tokio::test]
async fn a_new_password_ends_all_other_sessions() {
    let site = site().await;
    register(&site, EMAIL).await;
    let (own, _) = tokens(&site, EMAIL).await;
    let (other, _) = tokens(&site, EMAIL).await;
    assert_eq!(change(&site, &own, PASSWORD, NEW).await.status, StatusCode::NO_CONTENT);
    assert_eq!(me(&site, &own).await.status, StatusCode::OK);
    assert_eq!(me(&site, &other).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(login(&site, EMAIL, NEW).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_locked_log_in_does_not_prevent_a_change_of_password_in_an_open_session() {
    let site = site().await;
    register(&site, EMAIL).await;
    let (token, _) = tokens(&site, EMAIL).await;
    for _ in 0..ATTEMPTS {
        login(&site, EMAIL, "a wrong password").await;
    }
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::FORBIDDEN);
    assert_eq!(change(&site, &token, PASSWORD, NEW).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_stolen_token_does_not_help_to_guess_the_password() {
    let site = site().await;
    register(&site, EMAIL).await;
    let (token, _) = tokens(&site, EMAIL).await;
    let weak = change(&site, &token, "a wrong password", "short").await;
    assert_eq!(reported(&weak), (StatusCode::BAD_REQUEST, "the password must have at least 10 characters"));
    for _ in 0..ATTEMPTS {
        let answer = change(&site, &token, "a wrong password", NEW).await;
        assert_eq!(reported(&answer), (StatusCode::FORBIDDEN, "the current password is wrong"));
    }
    let locked = (StatusCode::FORBIDDEN, "account temporarily locked");
    assert_eq!(reported(&change(&site, &token, PASSWORD, NEW).await), locked);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK, "the owner is not locked out");
}

// Shows (Management): A name may change a few times in a quarter of an hour, and an unchanged one leaves no audit entry
// (promise 70).
#[tokio::test]
async fn renaming_to_the_same_name_does_not_fill_the_audit_log() {
    let site = Site::new().await;
    let visitor = site.member(Role::Viewer).await;
    let rename = async |name: &str| {
        let body = json!({"name": name}).to_string();
        site.ask(Some(&visitor), Method::PUT, "/api/v1/auth/me", body).await
    };
    let renamed = async || {
        let noted = site.app.store.audit(AuditSubject::User(visitor.user.id), 99).await.unwrap();
        noted.iter().filter(|entry| entry.action == "account.renamed").count()
    };
    for _ in 0..20 {
        assert_eq!(rename("Somebody").await.status, StatusCode::OK);
    }
    assert_eq!(renamed().await, 0, "it is the name that there was");
    for number in 0..ATTEMPTS {
        assert_eq!(rename(&format!("Name {number}")).await.status, StatusCode::OK);
    }
    let refused = rename("Another").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers.contains_key(http::header::RETRY_AFTER));
    assert_eq!(renamed().await, ATTEMPTS as usize);
}
