//! Mails about the security of an account.

use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mails, pair, post, register, register_confirmed, site,
};
use crate::api::factors::tests::{account_with_app, begun, verify};
use crate::testing::Site;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::USER_AGENT;
use http::{Method, StatusCode};
use rpcgate_store::{LOCK, Role};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Returns the subjects of the mails to an address, the oldest first, without those of its registration.
fn told(site: &Site, email: &str) -> Vec<String> {
    let to = format!("\r\nTo: {email}\r\n");
    let mails = mails(site).into_iter().filter(|mail| mail.contains(&to));
    let subjects = mails.filter_map(|mail| {
        let (_, rest) = mail.split_once("\r\nSubject: ")?;
        Some(rest.split("\r\n").next()?.to_owned())
    });
    subjects.filter(|subject| !subject.starts_with("Confirm") && !subject.starts_with("Choose")).collect()
}

async fn notified(site: &Site, token: &str) -> Vec<String> {
    let all = ask(site, Some(token), Method::GET, "/notifications", None).await.body;
    let messages = all.as_array().unwrap().iter().rev();
    messages.map(|one| one["message"].as_str().unwrap().to_owned()).collect()
}

/// Waits for at least `least` mails to a user and returns them: some are written in the background.
async fn told_in_the_end(site: &Site, email: &str, least: usize) -> Vec<String> {
    let enough = async {
        while told(site, email).len() < least {
            tokio::time::sleep(Duration::from_millis(1)).await;
            site.send_mails().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), enough).await.unwrap();
    told(site, email)
}

async fn account() -> (Site, String, String) {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    let (access, refresh) = pair(&login(&site, EMAIL, PASSWORD).await);
    // Mails of the same time have no order.
    site.clock.advance(Duration::from_secs(1));
    (site, access, refresh)
}

async fn log_in_from(site: &Site, address: &str, agent: &str) {
    let form = json!({"email": EMAIL, "password": PASSWORD}).to_string();
    let request = http::Request::post("/api/v1/auth/login").header(USER_AGENT, agent);
    let mut request = request.body(Body::from(form)).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(address.parse().unwrap(), 9)));
    assert_eq!(site.send(request).await.status, StatusCode::OK);
    site.clock.advance(Duration::from_secs(1));
}

// Shows (Mails and notifications): Users get a mail for each event that concerns the security of their accounts.
#[tokio::test]
async fn a_user_is_notified_once_of_a_log_in_from_a_new_program_or_network() {
    let (site, ..) = account().await;
    assert_eq!(told(&site, EMAIL), [""; 0], "not of the first log-in");
    log_in_from(&site, "192.0.2.99", "").await;
    assert_eq!(told(&site, EMAIL), [""; 0], "the address within a network changes often");
    let new = "Your account was used from a new device";
    log_in_from(&site, "192.0.2.1", "Firefox <b>\"1\"").await;
    assert_eq!(told(&site, EMAIL), [new]);
    let mail = mails(&site).pop().unwrap();
    for part in
        ["calls itself \"Firefox <b>\"1\"\".", "Address: 192.0.2.1\r\n", "Time: 2026-12-31 12:00 UTC\r\n"]
    {
        assert!(mail.contains(part), "{part} is not in {mail}");
    }
    log_in_from(&site, "198.51.100.1", "Firefox <b>\"1\"").await;
    log_in_from(&site, "2001:db8:1::1", "Firefox <b>\"1\"").await;
    assert_eq!(told(&site, EMAIL), [new; 3]);
    for address in ["192.0.2.1", "198.51.100.200", "2001:db8:1:ffff::2"] {
        log_in_from(&site, address, "Firefox <b>\"1\"").await;
    }
    assert_eq!(told(&site, EMAIL), [new; 3]);
}

#[tokio::test]
async fn an_address_that_was_never_confirmed_is_not_notified() {
    let site = site().await;
    assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    log_in_from(&site, "192.0.2.1", "one").await;
    log_in_from(&site, "192.0.2.1", "two").await;
    assert_eq!((told(&site, EMAIL), mails(&site).len()), (Vec::new(), 1));
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_user_is_notified_of_changed_and_reset_passwords_and_of_ended_sessions() {
    let (site, access, refresh) = account().await;
    let new = "another horse, another staple";
    let change = json!({"current_password": PASSWORD, "new_password": new});
    let changed = ask(&site, Some(&access), Method::POST, "/auth/me/password", Some(change)).await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT, "{changed:?}");
    assert_eq!(told(&site, EMAIL), ["Your password was changed"]);
    site.clock.advance(Duration::from_secs(1));
    let form = json!({"refresh_token": refresh});
    let renewed = post(&site, "/auth/refresh", form.clone()).await;
    assert_eq!(renewed.status, StatusCode::OK);
    assert_eq!(post(&site, "/auth/refresh", form.clone()).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(told(&site, EMAIL)[1], "A session was ended because its token was used twice");
    assert_eq!(post(&site, "/auth/refresh", form).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(told(&site, EMAIL).len(), 2, "the session is gone");
    site.clock.advance(Duration::from_secs(1));
    let (access, _) = pair(&login(&site, EMAIL, new).await);
    let ended = ask(&site, Some(&access), Method::POST, "/auth/logout-all", None).await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT, "{ended:?}");
    assert_eq!(told(&site, EMAIL)[2], "Your sessions were ended");
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(
        post(&site, "/auth/password/forgot", json!({"email": EMAIL})).await.status,
        StatusCode::ACCEPTED
    );
    let link = crate::api::accounts::tests::mailed(&site, 5, "/reset?token=").await;
    site.clock.advance(Duration::from_secs(1));
    let form = json!({"token": link.last().unwrap(), "password": PASSWORD});
    assert_eq!(post(&site, "/auth/password/reset", form).await.status, StatusCode::NO_CONTENT);
    assert_eq!(told(&site, EMAIL)[3..], ["Your password was set by a mailed link"]);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_user_is_notified_of_keys_created_and_revoked_in_its_name() {
    let (site, access, _) = account().await;
    let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await.body;
    let projects = format!("/tenants/{}/projects", me["tenant_id"].as_str().unwrap());
    let project =
        ask(&site, Some(&access), Method::POST, &projects, Some(json!({"name": "wallet"}))).await.body;
    let keys = format!("/projects/{}/keys", project["id"].as_str().unwrap());
    let key =
        ask(&site, Some(&access), Method::POST, &keys, Some(json!({"description": "a key"}))).await.body;
    assert_eq!(told(&site, EMAIL), ["An API key was created"]);
    let mail = mails(&site).pop().unwrap();
    let text = key["key"].as_str().unwrap();
    assert!(mail.contains(&text[..12]) && !mail.contains(text), "{mail}");
    site.clock.advance(Duration::from_secs(1));
    let path = format!("/keys/{}", key["id"].as_str().unwrap());
    for _ in 0..2 {
        let revoked = ask(&site, Some(&access), Method::DELETE, &path, None).await;
        assert_eq!(revoked.status, StatusCode::NO_CONTENT, "{revoked:?}");
    }
    assert_eq!(told(&site, EMAIL), ["An API key was created", "An API key was revoked"]);
    for _ in 0..6 {
        let key = ask(&site, Some(&access), Method::POST, &keys, Some(json!({"description": "a key"}))).await;
        assert_eq!(key.status, StatusCode::CREATED);
    }
    assert_eq!(told(&site, EMAIL).len(), 5, "a program may create many");
    let all = ask(&site, Some(&access), Method::GET, "/notifications", None).await;
    assert_eq!(all.body, json!([]));
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_user_is_notified_of_each_change_of_factors_by_mail_and_in_the_dashboard() {
    let site = site().await;
    let (access, app, recovery) = account_with_app(&site).await;
    let call = async |path: &str, form: Value| {
        site.clock.advance(Duration::from_secs(30));
        let done = ask(&site, Some(&access), Method::POST, path, Some(form)).await;
        assert!(done.status.is_success(), "{path} {done:?}");
    };
    let pending = begun(&site).await;
    assert_eq!(verify(&site, &pending, ("recovery_code", &recovery[0])).await.status, StatusCode::OK);
    call("/auth/mfa/recovery-codes", json!({"recovery_code": recovery[1]})).await;
    site.clock.advance(Duration::from_secs(30));
    call("/auth/mfa/totp/disable", json!({"code": app.shows_at(&site, 1)})).await;
    let added = "A second factor was added to your account";
    let removed = "A second factor was removed from your account";
    let used = "A recovery code of your account was used";
    let renewed = "Your recovery codes were replaced";
    let mut expected = [added, used, used, renewed, removed].map(str::to_owned);
    expected.sort();
    for mut seen in [told(&site, EMAIL), notified(&site, &access).await] {
        // Rows of the same time have no order.
        seen.sort();
        assert_eq!(seen, expected);
    }
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_user_is_notified_once_of_each_lock_and_an_unknown_address_never() {
    let (site, access, _) = account().await;
    let wrong = "a wrong password";
    for _ in 0..8 {
        login(&site, EMAIL, wrong).await;
        login(&site, "unknown@example.com", wrong).await;
    }
    let locked = "Your account was locked temporarily";
    assert_eq!(told_in_the_end(&site, EMAIL, 1).await, [locked]);
    assert!(mails(&site).pop().unwrap().contains("There were 5 wrong passwords at log-ins,"));
    site.clock.advance(Duration::from_secs(1));
    let form = json!({"current_password": wrong, "new_password": "another horse, another staple"});
    for _ in 0..8 {
        let refused = ask(&site, Some(&access), Method::POST, "/auth/me/password", Some(form.clone())).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(told(&site, EMAIL), [locked; 2], "passwords of a session are counted apart");
    assert_eq!(notified(&site, &access).await, [locked; 2]);
    site.clock.advance(LOCK);
    for _ in 0..4 {
        login(&site, EMAIL, wrong).await;
    }
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK);
    login(&site, EMAIL, wrong).await;
    site.send_mails().await;
    assert_eq!(told(&site, EMAIL).len(), 2, "the right password has ended the count");
    assert_eq!(told(&site, "unknown@example.com"), [""; 0]);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_user_is_notified_of_wrong_factors_that_lock_the_account() {
    let site = site().await;
    let (_, app, _) = account_with_app(&site).await;
    let locked = "Your account was locked temporarily".to_owned();
    let pending = begun(&site).await;
    for _ in 0..5 {
        verify(&site, &pending, ("code", &app.wrong(&site))).await;
    }
    assert!(told_in_the_end(&site, EMAIL, 2).await.contains(&locked));
    site.clock.advance(LOCK);
    let pending = begun(&site).await;
    let (access, _) = pair(&verify(&site, &pending, ("code", &app.shows(&site))).await);
    for _ in 0..5 {
        let form = json!({"code": app.wrong(&site)});
        ask(&site, Some(&access), Method::POST, "/auth/mfa/totp/disable", Some(form)).await;
    }
    let all = told(&site, EMAIL);
    assert_eq!(all.iter().filter(|subject| **subject == locked).count(), 2, "{all:?}");
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_user_is_notified_of_another_ended_session_but_not_of_a_log_out() {
    let (site, access, _) = account().await;
    let (other, _) = pair(&login(&site, EMAIL, PASSWORD).await);
    let end = async |token: &str, current: bool| {
        let all = ask(&site, Some(token), Method::GET, "/auth/sessions", None).await.body;
        let one = all.as_array().unwrap().iter().find(|one| one["current"] == current).unwrap().clone();
        let path = format!("/auth/sessions/{}", one["id"].as_str().unwrap());
        let ended = ask(&site, Some(token), Method::DELETE, &path, None).await;
        assert_eq!(ended.status, StatusCode::NO_CONTENT, "{ended:?}");
    };
    end(&access, false).await;
    let ended = "One of your sessions was ended";
    assert_eq!(
        (told(&site, EMAIL), notified(&site, &access).await),
        (vec![ended.into()], vec![ended.into()])
    );
    let gone = ask(&site, Some(&other), Method::GET, "/auth/me", None).await;
    assert_eq!(gone.status, StatusCode::UNAUTHORIZED);
    end(&access, true).await;
    assert_eq!(told(&site, EMAIL).len(), 1);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_user_is_notified_of_a_new_device_after_every_kind_of_log_in() {
    let site = site().await;
    let (_, app, _) = account_with_app(&site).await;
    let pending = begun(&site).await;
    let form = json!({"mfa_token": pending, "code": app.shows(&site)}).to_string();
    let request = http::Request::post("/api/v1/auth/mfa/verify").header(USER_AGENT, "Firefox");
    let answer = site.send(request.body(Body::from(form)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert!(told(&site, EMAIL).contains(&"Your account was used from a new device".to_owned()));
}

// Shows (Mails and notifications): The owner is notified of each new personal access token.
#[tokio::test]
async fn a_new_personal_access_token_is_reported_after_any_number_of_new_keys() {
    let (site, access, _) = account().await;
    let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await.body;
    let projects = format!("/tenants/{}/projects", me["tenant_id"].as_str().unwrap());
    let project = ask(&site, Some(&access), Method::POST, &projects, Some(json!({"name": "p"}))).await.body;
    let keys = format!("/projects/{}/keys", project["id"].as_str().unwrap());
    for _ in 0..6 {
        let key = ask(&site, Some(&access), Method::POST, &keys, Some(json!({"description": "ci"}))).await;
        assert_eq!(key.status, StatusCode::CREATED);
    }
    assert_eq!(told(&site, EMAIL), ["An API key was created"; 5]);
    site.clock.advance(Duration::from_secs(1));
    let proof = json!({"current_password": PASSWORD});
    let proved = ask(&site, Some(&access), Method::POST, "/auth/proof", Some(proof)).await;
    assert_eq!(proved.status, StatusCode::NO_CONTENT);
    for _ in 0..6 {
        let form = json!({"name": "a program", "scopes": ["read"]});
        let made = ask(&site, Some(&access), Method::POST, "/auth/tokens", Some(form)).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    }
    let created = "An access token was created";
    assert_eq!(told(&site, EMAIL)[5..], [created; 6]);
    assert_eq!(notified(&site, &access).await, [created; 6]);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn members_are_notified_of_changes_by_others_and_only_of_changes() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let member = site.visitor(Some(tenant), Role::Viewer).await;
    let path = format!("/api/v1/tenants/{tenant}/members/{}", member.user.id);
    for role in ["developer", "developer"] {
        let body = json!({"role": role}).to_string();
        assert_eq!(site.ask(Some(&owner), Method::PUT, &path, body).await.status, StatusCode::OK);
        site.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(told(&site, &member.user.email), ["Your role was changed"]);
    assert!(mails(&site)[0].contains("It is \"developer\" now."), "{:?}", mails(&site));
    let gone = site.ask(Some(&owner), Method::DELETE, &path, Body::empty()).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(told(&site, &member.user.email)[1..], ["You were removed from an organisation"]);
    assert_eq!(told(&site, &owner.user.email), [""; 0]);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_user_is_notified_of_a_disabled_account_and_of_a_new_address_at_both() {
    let (site, access, _) = account().await;
    let new = "countess@example.com";
    let body = json!({"email": new, "current_password": PASSWORD});
    let answer = ask(&site, Some(&access), Method::PUT, "/auth/me/email", Some(body)).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
    let confirming =
        mails(&site).into_iter().find(|mail| mail.contains(&format!("\r\nTo: {new}\r\n"))).unwrap();
    let (_, rest) = confirming.split_once("/confirm?token=").unwrap();
    let form: Value = json!({"token": rest.lines().next().unwrap()});
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(post(&site, "/auth/confirm", form).await.status, StatusCode::NO_CONTENT);
    assert_eq!(
        told(&site, EMAIL),
        ["Your e-mail address is to be changed", "Your e-mail address was changed"]
    );
    assert_eq!(told(&site, new), ["Your e-mail address was changed"]);
    assert!(mails(&site).iter().any(|mail| mail.contains(&format!("It was {EMAIL} before."))));
    site.clock.advance(Duration::from_secs(1));
    let operator = site.operator().await;
    let id = site.app.store.user_by_email(new).await.unwrap().unwrap().id;
    for (what, status) in [("disable", StatusCode::OK), ("enable", StatusCode::OK)] {
        let path = format!("/api/v1/operator/users/{id}/{what}");
        assert_eq!(site.ask(Some(&operator), Method::POST, &path, Body::empty()).await.status, status);
        site.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(told(&site, new)[1..], ["Your account was disabled", "Your account was enabled again"]);
}
