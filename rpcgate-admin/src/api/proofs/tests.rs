use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mailed, pair, post, register, register_confirmed, site, tokens,
};
use crate::api::factors::tests::{begun, recovery_codes};
use crate::testing::second_factors::Authenticator;
use crate::testing::{ApiAnswer, Site};
use http::{Method, StatusCode};
use rpcgate_management::access::RECENT;
use serde_json::{Value, json};
use std::time::Duration;

const NEW: &str = "another horse, another staple";
const DAY: Duration = Duration::from_secs(86_400);

async fn call(site: &Site, token: &str, path: &str, body: Value) -> ApiAnswer {
    ask(site, Some(token), Method::POST, &format!("/auth/{path}"), Some(body)).await
}

fn password() -> Value {
    json!({"current_password": PASSWORD})
}

fn is_refused(answer: &ApiAnswer) -> bool {
    (answer.status, &answer.body["code"]) == (StatusCode::UNAUTHORIZED, &json!("proof_required"))
}

/// Adds an app with the password as the proof. Returns the app and the recovery codes.
async fn add_app(site: &Site, token: &str) -> (Authenticator, Vec<String>) {
    let offered = call(site, token, "mfa/totp/enroll", password()).await;
    assert_eq!(offered.status, StatusCode::OK, "{}", offered.body);
    let app = Authenticator::typed(&offered);
    let activated = call(site, token, "mfa/totp/activate", json!({"code": app.shows(site)})).await;
    assert_eq!(activated.status, StatusCode::OK, "{}", activated.body);
    (app, recovery_codes(&activated))
}

// Shows (Accounts and second factors): An unconfirmed account cannot order or invite.
#[tokio::test]
async fn an_unconfirmed_account_orders_nothing() {
    let site = site().await;
    assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    let (token, _) = tokens(&site, EMAIL).await;
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap();
    let tenant = user.tenant.unwrap();
    for (path, body) in [
        ("/limit-requests".to_owned(), json!({"requested_tier": "standard", "reason": "please"})),
        (format!("/tenants/{tenant}/billing/checkout"), json!({"tier": "premium"})),
        (format!("/tenants/{tenant}/invitations"), json!({"email": "b@example.com", "role": "viewer"})),
    ] {
        let refused = ask(&site, Some(&token), Method::POST, &path, Some(body)).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}: {}", refused.body);
        assert_eq!(refused.body["error"], "confirm your e-mail address first", "{path}");
        assert_eq!(refused.body["code"], "email_unconfirmed", "{path}");
    }
    let ticket = json!({
        "category": "limit_increase", "subject": "More", "text": "We grow.", "requested_tier": "premium"
    });
    let refused = ask(&site, Some(&token), Method::POST, "/support/tickets", Some(ticket)).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    assert!(site.app.store.limit_requests(tenant).await.unwrap().is_empty());
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_proof_is_enough_for_ten_minutes_in_its_own_session() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    let (token, refresh) = tokens(&site, EMAIL).await;
    let (other, _) = tokens(&site, EMAIL).await;
    let enroll = async |token: &str| call(&site, token, "mfa/totp/enroll", json!({})).await;
    assert!(is_refused(&enroll(&token).await), "the log-in of a moment ago is no proof");
    assert!(is_refused(&call(&site, &token, "proof", json!({})).await));
    let wrong = call(&site, &token, "proof", json!({"current_password": NEW})).await;
    assert_eq!((wrong.status, &wrong.body["code"]), (StatusCode::FORBIDDEN, &json!("password_wrong")));
    assert!(is_refused(&enroll(&token).await));
    assert_eq!(call(&site, &token, "proof", password()).await.status, StatusCode::NO_CONTENT);
    assert_eq!(enroll(&token).await.status, StatusCode::OK);
    assert!(is_refused(&enroll(&other).await), "a proof belongs to its session");
    site.clock.advance(RECENT);
    let renewed = post(&site, "/auth/refresh", json!({"refresh_token": refresh})).await;
    let (token, _) = pair(&renewed);
    assert!(is_refused(&enroll(&token).await), "a refreshed token proves nothing");
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn wrong_proofs_lock_like_wrong_passwords() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    let (token, _) = tokens(&site, EMAIL).await;
    for _ in 0..5 {
        let wrong = call(&site, &token, "mfa/totp/enroll", json!({"current_password": NEW})).await;
        assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    }
    let locked = call(&site, &token, "proof", password()).await;
    assert_eq!((locked.status, &locked.body["code"]), (StatusCode::FORBIDDEN, &json!("account_locked")));
}

/// Resets the password by a mail, once `count` mails exist.
async fn reset(site: &Site, count: usize, more: Value) -> ApiAnswer {
    post(site, "/auth/password/forgot", json!({"email": EMAIL})).await;
    let link = mailed(site, count, "/reset?token=").await.pop().unwrap();
    let mut form = json!({"token": link, "password": NEW});
    form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    post(site, "/auth/password/reset", form).await
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_reset_takes_away_what_a_thief_has_added() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    let (token, _) = tokens(&site, EMAIL).await;
    add_app(&site, &token).await;
    let form = json!({"name": "robot", "scopes": ["read"]});
    let made = call(&site, &token, "tokens", form).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    let robot = made.body["token"].as_str().unwrap().to_owned();
    let pending = begun(&site).await;
    // The four mails are about the confirmation, the factor, the token, and the reset.
    assert_eq!(reset(&site, 4, json!({})).await.status, StatusCode::NO_CONTENT);
    let logged_in = login(&site, EMAIL, NEW).await;
    assert_eq!((logged_in.status, logged_in.body.get("mfa_required")), (StatusCode::OK, None));
    for ended in [&token, &robot] {
        let me = ask(&site, Some(ended), Method::GET, "/auth/me", None).await;
        assert_eq!(me.status, StatusCode::UNAUTHORIZED);
    }
    let late = post(&site, "/auth/mfa/verify", json!({"mfa_token": pending, "code": "000000"})).await;
    assert_eq!(late.status, StatusCode::UNAUTHORIZED);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_reset_keeps_old_factors_and_on_request_young_ones() {
    for (age, more) in [(DAY * 7, json!({})), (DAY, json!({"keep_factors": true}))] {
        let site = site().await;
        register_confirmed(&site, EMAIL).await;
        let (token, _) = tokens(&site, EMAIL).await;
        let (_, codes) = add_app(&site, &token).await;
        site.clock.advance(age);
        assert_eq!(reset(&site, 3, more).await.status, StatusCode::NO_CONTENT);
        let logged_in = login(&site, EMAIL, NEW).await;
        assert_eq!(logged_in.body["mfa_required"], true, "{age:?}: {}", logged_in.body);
        let pending = &logged_in.body["mfa_token"];
        let form = json!({"mfa_token": pending, "recovery_code": codes[0]});
        assert_eq!(post(&site, "/auth/mfa/verify", form).await.status, StatusCode::OK, "{age:?}");
    }
}
