use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mailed, pair, post, register, register_confirmed, site,
};
use crate::testing::Site;
use http::{Method, StatusCode};
use rpcgate_management::action::resets::RESET_LIFE;
use rpcgate_store::{AuditSubject, LOCK};
use serde_json::json;
use std::time::Duration;

const NEW: &str = "another horse, another staple";

async fn forgot(site: &Site, email: &str) -> StatusCode {
    let status = post(site, "/auth/password/forgot", json!({"email": email})).await.status;
    site.clock.advance(Duration::from_secs(1));
    status
}

/// Returns the tokens of the reset mails, the oldest first, once `mails` mails exist.
async fn tokens(site: &Site, mails: usize) -> Vec<String> {
    mailed(site, mails, "/reset?token=").await
}

async fn reset(site: &Site, token: &str, password: &str) -> (StatusCode, String) {
    let answer = post(site, "/auth/password/reset", json!({"token": token, "password": password})).await;
    (answer.status, answer.body["error"].as_str().unwrap_or_default().to_owned())
}

const BAD: &str = "the token is not valid, was used, or has expired";

// Shows (Accounts and second factors): `POST /auth/password/forgot` {email} always gets 202; `POST
// /auth/password/reset` {token, password} sets the password.
#[tokio::test]
async fn the_reader_of_the_mails_sets_the_password_and_all_sessions_end() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    let (access, refresh) = pair(&login(&site, EMAIL, PASSWORD).await);
    assert_eq!(forgot(&site, "ADA@example.com").await, StatusCode::ACCEPTED);
    let tokens = tokens(&site, 2).await;
    assert_eq!(tokens.len(), 1);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK, "to ask changes nothing");
    let weak = (StatusCode::BAD_REQUEST, "the password must have at least 10 characters".to_owned());
    assert_eq!(reset(&site, &tokens[0], "short").await, weak);
    assert_eq!(reset(&site, &tokens[0], NEW).await, (StatusCode::NO_CONTENT, String::new()));
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(login(&site, EMAIL, NEW).await.status, StatusCode::OK);
    let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await;
    assert_eq!(me.status, StatusCode::UNAUTHORIZED);
    let renewed = post(&site, "/auth/refresh", json!({"refresh_token": refresh})).await;
    assert_eq!(renewed.status, StatusCode::UNAUTHORIZED);
    assert_eq!(reset(&site, &tokens[0], NEW).await, (StatusCode::BAD_REQUEST, BAD.to_owned()), "once");
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap();
    let reported = site.app.store.audit(AuditSubject::Tenant(user.tenant.unwrap()), 99).await.unwrap();
    for action in ["password.reset_asked", "password.reset"] {
        let own: Vec<_> = reported.iter().filter(|entry| entry.action == action).collect();
        assert_eq!(own.len(), 1, "{action}: {reported:?}");
        assert_eq!((own[0].user, own[0].subject.as_str()), (Some(user.id), user.id.to_string().as_str()));
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_address_without_an_account_is_not_revealed_and_mails_are_limited() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    for email in ["unknown@example.com", "no address", ""] {
        assert_eq!(forgot(&site, email).await, StatusCode::ACCEPTED, "{email}");
    }
    for _ in 0..7 {
        assert_eq!(forgot(&site, EMAIL).await, StatusCode::ACCEPTED);
    }
    assert_eq!(tokens(&site, 6).await.len(), 5);
    site.clock.advance(LOCK);
    assert_eq!(forgot(&site, EMAIL).await, StatusCode::ACCEPTED);
    assert_eq!(tokens(&site, 7).await.len(), 6, "and no mail has gone to another address");
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn only_the_newest_link_is_good_and_for_an_hour() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    forgot(&site, EMAIL).await;
    tokens(&site, 2).await;
    forgot(&site, EMAIL).await;
    let links = tokens(&site, 3).await;
    let bad = (StatusCode::BAD_REQUEST, BAD.to_owned());
    assert_eq!(reset(&site, &links[0], NEW).await, bad);
    site.clock.advance(RESET_LIFE);
    assert_eq!(reset(&site, &links[1], NEW).await, bad);
    forgot(&site, EMAIL).await;
    let links = tokens(&site, 4).await;
    let before = site.app.passwords.computed();
    for strange in ["", "rpcgp_", &links[0], &links[2].replace("rpcgp_", "rpcgc_")] {
        assert_eq!(reset(&site, strange, NEW).await, bad);
    }
    assert_eq!(site.app.passwords.computed(), before, "nothing is hashed for an invalid token");
    let confirmed = post(&site, "/auth/confirm", json!({"token": links[2]})).await;
    assert_eq!(confirmed.status, StatusCode::BAD_REQUEST, "it confirms nothing");
    assert_eq!(reset(&site, &links[2], NEW).await.0, StatusCode::NO_CONTENT);
    assert_eq!(site.app.store.sweep(site.app.now()).await.unwrap().mail_tokens, 0);
}

#[tokio::test]
async fn a_password_that_was_changed_makes_links_worthless_and_unread_ones_are_swept() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    forgot(&site, EMAIL).await;
    let links = tokens(&site, 2).await;
    let (access, _) = pair(&login(&site, EMAIL, PASSWORD).await);
    let form = json!({"current_password": PASSWORD, "new_password": NEW});
    let changed = ask(&site, Some(&access), Method::POST, "/auth/me/password", Some(form)).await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT);
    assert_eq!(reset(&site, &links[0], PASSWORD).await.0, StatusCode::BAD_REQUEST);
    forgot(&site, EMAIL).await;
    tokens(&site, 4).await;
    site.clock.advance(RESET_LIFE);
    assert_eq!(site.app.store.sweep(site.app.now()).await.unwrap().mail_tokens, 1);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_reset_ends_a_lock_and_confirms_the_address() {
    let site = site().await;
    register(&site, EMAIL).await;
    for _ in 0..5 {
        login(&site, EMAIL, "a wrong password").await;
    }
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::FORBIDDEN);
    forgot(&site, EMAIL).await;
    let links = tokens(&site, 2).await;
    assert_eq!(reset(&site, &links[0], NEW).await.0, StatusCode::NO_CONTENT);
    assert_eq!(login(&site, EMAIL, NEW).await.status, StatusCode::OK);
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap();
    assert!(user.confirmed_at.is_some());
    let confirmation = &mailed(&site, 2, "/confirm?token=").await[0];
    let confirmed = post(&site, "/auth/confirm", json!({"token": confirmation, "password": PASSWORD})).await;
    assert_eq!(confirmed.status, StatusCode::BAD_REQUEST, "the link of before sets no password any more");
}

#[tokio::test]
async fn the_requests_of_one_client_are_limited() {
    let site = Site::new().await;
    let bound = site.app.settings.auth_per_minute;
    for _ in 0..bound {
        assert_eq!(forgot(&site, "unknown@example.com").await, StatusCode::ACCEPTED);
    }
    assert_eq!(forgot(&site, "unknown@example.com").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(reset(&site, "x", NEW).await.0, StatusCode::TOO_MANY_REQUESTS);
}
