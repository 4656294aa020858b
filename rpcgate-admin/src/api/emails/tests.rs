use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mailed, mails, pair, post, register, register_confirmed, site,
};
use crate::testing::{ApiAnswer, Site};
use http::{Method, StatusCode};
use rpcgate_management::action::emails::EMAIL_CHANGE_LIFE;
use rpcgate_store::{AuditSubject, LOCK};
use serde_json::{Value, json};
use std::time::Duration;

const NEW: &str = "countess@example.com";

async fn change(site: &Site, access: &str, email: &str, password: &str) -> ApiAnswer {
    let form = json!({"email": email, "current_password": password});
    let answer = ask(site, Some(access), Method::PUT, "/auth/me/email", Some(form)).await;
    site.clock.advance(Duration::from_secs(1));
    answer
}

/// Returns the access token of a confirmed user.
async fn owner(site: &Site) -> String {
    register_confirmed(site, EMAIL).await;
    site.clock.advance(Duration::from_secs(1));
    pair(&login(site, EMAIL, PASSWORD).await).0
}

/// Returns the token of the newest confirmation mail.
async fn newest(site: &Site) -> String {
    mailed(site, 0, "/confirm?token=").await.pop().unwrap()
}

async fn confirm(site: &Site, token: &str) -> (StatusCode, Value) {
    let answer = post(site, "/auth/confirm", json!({"token": token})).await;
    (answer.status, answer.body["error"].clone())
}

fn to<'m>(mails: &'m [String], email: &str) -> Vec<&'m String> {
    mails.iter().filter(|mail| mail.contains(&format!("To: {email}\r\n"))).collect()
}

// Shows (Accounts and second factors): `PUT /auth/me/email` takes effect when the new address is confirmed; the old one
// gets a mail.
#[tokio::test]
async fn a_new_address_takes_effect_once_confirmed_and_the_old_one_is_notified() {
    let site = site().await;
    let access = owner(&site).await;
    let answer = change(&site, &access, "Countess@example.com", PASSWORD).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{:?}", answer.body);
    assert_eq!(answer.body, json!({"email": NEW, "confirmed": false}));
    let me = async || ask(&site, Some(&access), Method::GET, "/auth/me", None).await.body["email"].clone();
    assert_eq!(me().await, EMAIL);
    assert_eq!(login(&site, NEW, PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    let sent = mails(&site);
    let text = "was entered for your account at rpcgate: countess@example.com";
    assert!(to(&sent, EMAIL).last().unwrap().contains(text));
    assert_eq!(to(&sent, NEW).len(), 1);

    let token = newest(&site).await;
    let with_password = post(&site, "/auth/confirm", json!({"token": token, "password": PASSWORD})).await;
    assert_eq!(with_password.status, StatusCode::BAD_REQUEST);
    assert_eq!(confirm(&site, &token).await.0, StatusCode::NO_CONTENT);
    assert_eq!(me().await, NEW);
    assert_eq!(login(&site, NEW, PASSWORD).await.status, StatusCode::OK);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    assert!(to(&mails(&site), EMAIL).iter().any(|mail| mail.contains("is now countess@example.com")));
    assert_eq!(confirm(&site, &token).await.0, StatusCode::BAD_REQUEST, "once");
    let user = site.app.store.user_by_email(NEW).await.unwrap().unwrap();
    let reported = site.app.store.audit(AuditSubject::Tenant(user.tenant.unwrap()), 99).await.unwrap();
    let changed: Vec<_> = reported.iter().filter(|entry| entry.action == "email.changed").collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].detail, "countess@example.com, before: ada@example.com");
    assert!(reported.iter().any(|entry| entry.action == "email.change_asked" && entry.detail == NEW));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_change_of_address_needs_the_password_and_a_confirmed_address() {
    let site = site().await;
    register(&site, EMAIL).await;
    let (early, _) = pair(&login(&site, EMAIL, PASSWORD).await);
    let refused = change(&site, &early, NEW, PASSWORD).await;
    assert_eq!(refused.body["error"], "confirm your e-mail address before you change it");
    site.clock.advance(Duration::from_secs(1));
    let access = owner(&site).await;
    let before = mails(&site).len();
    for (email, password, status, text) in [
        (NEW, "a wrong password", 403, "the current password is wrong"),
        ("ADA@example.com", PASSWORD, 400, "this is your e-mail address already"),
        ("ada", PASSWORD, 400, "the e-mail address must be of the form name@example.com"),
    ] {
        let answer = change(&site, &access, email, password).await;
        assert_eq!((answer.status.as_u16(), &answer.body["error"]), (status, &json!(text)), "{email}");
    }
    for _ in 0..4 {
        change(&site, &access, NEW, "a wrong password").await;
    }
    let locked = change(&site, &access, NEW, PASSWORD).await;
    assert_eq!(locked.body["error"], "account temporarily locked");
    assert_eq!(mails(&site).len(), before + 1, "the user is told of the lock alone");
}

#[tokio::test]
async fn a_taken_address_is_answered_like_a_free_one_and_its_owner_is_notified() {
    let site = site().await;
    register_confirmed(&site, NEW).await;
    site.clock.advance(Duration::from_secs(1));
    let access = owner(&site).await;
    let taken = change(&site, &access, NEW, PASSWORD).await;
    let free = change(&site, &access, "free@example.com", PASSWORD).await;
    assert_eq!((taken.status, taken.body), (free.status, json!({"email": NEW, "confirmed": false})));
    assert!(to(&mails(&site), NEW).last().unwrap().contains("belongs to another account"));
    let user = site.app.store.user_by_email(NEW).await.unwrap().unwrap();
    assert_ne!(user.name, "", "it is the same user");
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_unconfirmed_account_gives_up_its_address_and_a_confirmed_one_does_not() {
    let site = site().await;
    let access = owner(&site).await;
    register(&site, NEW).await;
    assert_eq!(mailed(&site, 2, "/confirm?token=").await.len(), 2);
    site.clock.advance(Duration::from_secs(1));
    change(&site, &access, NEW, PASSWORD).await;
    let token = newest(&site).await;
    assert_eq!(confirm(&site, &token).await.0, StatusCode::NO_CONTENT);
    assert_eq!(login(&site, NEW, PASSWORD).await.status, StatusCode::OK);

    let late = "late@example.com";
    change(&site, &access, late, PASSWORD).await;
    let token = newest(&site).await;
    register_confirmed(&site, late).await;
    let taken = json!("there is already a user with this e-mail address");
    assert_eq!(confirm(&site, &token).await, (StatusCode::CONFLICT, taken));
    let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await;
    assert_eq!(me.body["email"], NEW);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_change_of_password_invalidates_a_requested_change_of_address() {
    let site = site().await;
    let access = owner(&site).await;
    change(&site, &access, NEW, PASSWORD).await;
    let token = newest(&site).await;
    let form = json!({"current_password": PASSWORD, "new_password": "another horse, another staple"});
    ask(&site, Some(&access), Method::POST, "/auth/me/password", Some(form)).await;
    assert_eq!(confirm(&site, &token).await.0, StatusCode::BAD_REQUEST);
    let password = "another horse, another staple";
    change(&site, &access, NEW, password).await;
    let first = newest(&site).await;
    change(&site, &access, "third@example.com", password).await;
    assert_eq!(confirm(&site, &first).await.0, StatusCode::BAD_REQUEST, "only the newest is good");
    let last = newest(&site).await;
    site.clock.advance(EMAIL_CHANGE_LIFE);
    assert_eq!(confirm(&site, &last).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_link_that_was_sent_to_the_address_before_sets_no_password_of_the_account() {
    let site = site().await;
    let access = owner(&site).await;
    post(&site, "/auth/password/forgot", json!({"email": EMAIL})).await;
    let reset = mailed(&site, 2, "/reset?token=").await.pop().unwrap();
    change(&site, &access, NEW, PASSWORD).await;
    let token = newest(&site).await;
    assert_eq!(confirm(&site, &token).await.0, StatusCode::NO_CONTENT);
    let form = json!({"token": reset, "password": "another horse, another staple"});
    assert_eq!(post(&site, "/auth/password/reset", form).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn mails_to_other_addresses_are_limited() {
    let site = site().await;
    let access = owner(&site).await;
    let before = mails(&site).len();
    for number in 0..5 {
        let answer = change(&site, &access, &format!("victim{number}@example.com"), PASSWORD).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
    }
    let refused = change(&site, &access, "victim5@example.com", PASSWORD).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(mails(&site).len(), before + 10, "to each of them and to the own one");
    site.clock.advance(LOCK);
    let (access, _) = pair(&login(&site, EMAIL, PASSWORD).await);
    assert_eq!(change(&site, &access, NEW, PASSWORD).await.status, StatusCode::ACCEPTED);
}
