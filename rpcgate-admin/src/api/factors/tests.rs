//! Tests of the second step of a log-in, and an authenticator app for other tests.

use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mailed, mails, pair, post, register_confirmed, site, tokens,
};
use crate::testing::second_factors::{Authenticator, STEP};
use crate::testing::{ApiAnswer, Site};
use http::{Method, StatusCode};
use rpcgate_store::{AuditSubject, FACTOR_TRIES, LOCK, PENDING_LOG_IN_LIFE};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Returns the access token of an account with an app, the app, and the recovery codes. The app's current code has not
/// been used.
pub(crate) async fn account_with_app(site: &Site) -> (String, Authenticator, Vec<String>) {
    register_confirmed(site, EMAIL).await;
    let (token, _) = tokens(site, EMAIL).await;
    let answer = ask(
        site,
        Some(&token),
        Method::POST,
        "/auth/mfa/totp/enroll",
        Some(json!({"current_password": PASSWORD})),
    )
    .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let app = Authenticator::typed(&answer);
    let form = json!({"code": app.shows(site)});
    let answer = ask(site, Some(&token), Method::POST, "/auth/mfa/totp/activate", Some(form)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    site.clock.advance(STEP);
    (token, app, recovery_codes(&answer))
}

pub(crate) fn recovery_codes(answer: &ApiAnswer) -> Vec<String> {
    serde_json::from_value(answer.body["recovery_codes"].clone()).unwrap()
}

/// Returns the token of a log-in that waits for a factor.
pub(crate) async fn begun(site: &Site) -> String {
    let answer = login(site, EMAIL, PASSWORD).await;
    assert_eq!((answer.status, &answer.body["mfa_required"]), (StatusCode::OK, &json!(true)));
    answer.body["mfa_token"].as_str().unwrap().to_owned()
}

pub(crate) async fn verify(site: &Site, token: &str, factor: (&str, &str)) -> ApiAnswer {
    post(site, "/auth/mfa/verify", json!({"mfa_token": token, factor.0: factor.1})).await
}

fn reported(answer: &ApiAnswer) -> (StatusCode, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or_default())
}

async fn me(site: &Site, token: &str) -> StatusCode {
    ask(site, Some(token), Method::GET, "/auth/me", None).await.status
}

async fn overview(site: &Site, token: &str) -> Value {
    ask(site, Some(token), Method::GET, "/auth/mfa", None).await.body
}

const EXPIRED: (StatusCode, &str) =
    (StatusCode::UNAUTHORIZED, "the log-in has expired or was finished: log in again");
const WRONG: (StatusCode, &str) = (StatusCode::UNAUTHORIZED, "the code is wrong or was used before");
const LOCKED: (StatusCode, &str) = (StatusCode::FORBIDDEN, "account temporarily locked");

// Shows (Accounts and second factors): With a second factor a log-in returns `mfa_required` and an `mfa_token`, also on
// the page; `POST /auth/mfa/verify` completes it once, within five minutes.
#[tokio::test]
async fn a_log_in_needs_the_factor_after_the_password() {
    let site = site().await;
    let (_, app, _) = account_with_app(&site).await;
    let answer = login(&site, EMAIL, PASSWORD).await;
    let token = answer.body["mfa_token"].as_str().unwrap().to_owned();
    let methods = json!(["totp", "recovery_code"]);
    assert_eq!(
        answer.body,
        json!({"mfa_required": true, "mfa_token": token, "expires_in": 300, "methods": methods})
    );
    assert_eq!(login(&site, EMAIL, "a wrong password").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(reported(&verify(&site, &token, ("code", &app.wrong(&site))).await), WRONG);
    let answer = verify(&site, &token, ("code", &app.shows(&site))).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(answer.body.as_object().unwrap().len(), 3);
    let (access, refresh) = pair(&answer);
    assert_eq!(me(&site, &access).await, StatusCode::OK);
    let sessions = ask(&site, Some(&access), Method::GET, "/auth/sessions", None).await.body;
    assert_eq!(sessions[0]["method"], "password+totp");
    let renewed = post(&site, "/auth/refresh", json!({"refresh_token": refresh})).await;
    assert_eq!(renewed.status, StatusCode::OK);
    let again = verify(&site, &token, ("code", &app.shows_at(&site, 1))).await;
    assert_eq!(reported(&again), EXPIRED, "the token works once");
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap().id;
    let entries = site.app.store.audit(AuditSubject::User(user), 100).await.unwrap();
    let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
    for action in ["totp.offered", "totp.activated", "login.factor_asked", "session.opened"] {
        assert!(actions.contains(&action), "{actions:?}");
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn codes_of_the_step_before_and_after_are_accepted_and_no_others() {
    for (steps, is_good) in [(-2, false), (-1, true), (0, true), (1, true), (2, false)] {
        let site = site().await;
        let (_, app, _) = account_with_app(&site).await;
        site.clock.advance(STEP);
        let token = begun(&site).await;
        let answer = verify(&site, &token, ("code", &app.shows_at(&site, steps))).await;
        assert_eq!(answer.status == StatusCode::OK, is_good, "{steps}: {}", answer.body);
    }
}

// Shows (Accounts and second factors): A code works once for a user, also in parallel, and one step before and after; a
// log-in has five tries (promise 36).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_code_that_is_submitted_fifty_times_at_once_opens_one_session() {
    let site = Arc::new(site().await);
    let (_, app, recovery) = account_with_app(&site).await;
    for factor in [("code", app.shows(&site)), ("recovery_code", recovery[0].clone())] {
        let mut pending = Vec::new();
        for _ in 0..5 {
            pending.push(begun(&site).await);
        }
        let mut submits = tokio::task::JoinSet::new();
        for number in 0..50 {
            let site = site.clone();
            let token = pending[number % 5].clone();
            let factor = factor.clone();
            submits.spawn(async move { verify(&site, &token, (factor.0, &factor.1)).await.status });
        }
        let statuses = submits.join_all().await;
        let opened = statuses.iter().filter(|status| **status == StatusCode::OK).count();
        assert_eq!(opened, 1, "{statuses:?}");
        site.clock.advance(LOCK);
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_code_works_once_for_its_user_for_any_purpose() {
    let site = site().await;
    let (token, app, _) = account_with_app(&site).await;
    let first = begun(&site).await;
    let second = begun(&site).await;
    let used = app.shows(&site);
    assert_eq!(verify(&site, &first, ("code", &used)).await.status, StatusCode::OK);
    assert_eq!(reported(&verify(&site, &second, ("code", &used)).await), WRONG);
    let off = json!({"code": used});
    let answer = ask(&site, Some(&token), Method::POST, "/auth/mfa/totp/disable", Some(off.clone())).await;
    assert_eq!(reported(&answer), (StatusCode::FORBIDDEN, WRONG.1));
    let answer = ask(&site, Some(&token), Method::POST, "/auth/mfa/recovery-codes", Some(off)).await;
    assert_eq!(reported(&answer), (StatusCode::FORBIDDEN, WRONG.1));
    assert_eq!(verify(&site, &second, ("code", &app.shows_at(&site, 1))).await.status, StatusCode::OK);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn five_wrong_factors_end_a_log_in_and_lock_the_factors_for_a_while() {
    let site = site().await;
    let (_, app, recovery) = account_with_app(&site).await;
    let first = begun(&site).await;
    let second = begun(&site).await;
    for number in 0..FACTOR_TRIES {
        let wrong = app.wrong(&site);
        let factor = if number % 2 == 0 { ("code", wrong.as_str()) } else { ("recovery_code", "x") };
        assert_eq!(reported(&verify(&site, &first, factor).await), WRONG);
    }
    assert_eq!(reported(&verify(&site, &first, ("code", &app.shows(&site))).await), EXPIRED);
    for factor in [("code", app.shows(&site)), ("recovery_code", recovery[0].clone())] {
        assert_eq!(reported(&verify(&site, &second, (factor.0, &factor.1)).await), LOCKED);
    }
    site.clock.advance(LOCK);
    let third = begun(&site).await;
    assert_eq!(verify(&site, &third, ("code", &app.shows(&site))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_log_in_has_five_tries_even_if_another_one_succeeds() {
    let site = site().await;
    let (_, app, _) = account_with_app(&site).await;
    let first = begun(&site).await;
    let second = begun(&site).await;
    for _ in 1..FACTOR_TRIES {
        assert_eq!(reported(&verify(&site, &first, ("code", &app.wrong(&site))).await), WRONG);
    }
    assert_eq!(verify(&site, &second, ("code", &app.shows(&site))).await.status, StatusCode::OK);
    assert_eq!(reported(&verify(&site, &first, ("code", &app.wrong(&site))).await), WRONG);
    assert_eq!(reported(&verify(&site, &first, ("code", &app.shows_at(&site, 1))).await), EXPIRED);
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_guesses_of_a_code_at_once_get_no_further_than_five() {
    let site = Arc::new(site().await);
    let (_, app, _) = account_with_app(&site).await;
    let mut pending = Vec::new();
    for _ in 0..5 {
        pending.push(begun(&site).await);
    }
    let wrong = app.wrong(&site);
    let mut guesses = tokio::task::JoinSet::new();
    for number in 0..50 {
        let site = site.clone();
        let token = pending[number % 5].clone();
        let wrong = wrong.clone();
        guesses.spawn(async move { verify(&site, &token, ("code", &wrong)).await.status });
    }
    let statuses = guesses.join_all().await;
    let evaluated = statuses.iter().filter(|status| **status == StatusCode::UNAUTHORIZED).count();
    assert_eq!(evaluated as u64, FACTOR_TRIES, "{statuses:?}");
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn the_token_of_a_pending_log_in_works_for_five_minutes_and_only_for_it() {
    let site = site().await;
    let (access, app, _) = account_with_app(&site).await;
    let token = begun(&site).await;
    assert_eq!(me(&site, &token).await, StatusCode::UNAUTHORIZED);
    let refreshed = post(&site, "/auth/refresh", json!({"refresh_token": token})).await;
    assert_eq!(refreshed.status, StatusCode::UNAUTHORIZED);
    let confirmed = post(&site, "/auth/confirm", json!({"token": token})).await;
    assert_eq!(confirmed.status, StatusCode::BAD_REQUEST);
    let form = json!({"token": token, "password": "another horse, another staple"});
    assert_eq!(post(&site, "/auth/password/reset", form).await.status, StatusCode::BAD_REQUEST);
    for strange in [access.as_str(), "", "rpcgm_", &token.replace("rpcgm_", "rpcgr_"), &format!("{token}x")] {
        assert_eq!(reported(&verify(&site, strange, ("code", &app.shows(&site))).await), EXPIRED);
    }
    site.clock.advance(PENDING_LOG_IN_LIFE - Duration::from_secs(1));
    assert_eq!(reported(&verify(&site, &token, ("code", &app.wrong(&site))).await), WRONG);
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(reported(&verify(&site, &token, ("code", &app.shows(&site))).await), EXPIRED);
}

// Shows (Accounts and second factors): Ten recovery codes are shown once; each works for one log-in, and they can be
// renewed.
#[tokio::test]
async fn a_recovery_code_replaces_the_app_once() {
    let site = site().await;
    let (token, app, recovery) = account_with_app(&site).await;
    let all = json!({"totp": true, "passkeys": 0, "recovery_codes": 10});
    assert_eq!(overview(&site, &token).await, all);
    let before = mails(&site).len();
    let pending = begun(&site).await;
    assert_eq!(reported(&verify(&site, &pending, ("code", &recovery[3])).await), WRONG, "it is no code");
    let answer = verify(&site, &pending, ("recovery_code", &recovery[3].to_uppercase())).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(overview(&site, &pair(&answer).0).await["recovery_codes"], 9);
    let pending = begun(&site).await;
    assert_eq!(reported(&verify(&site, &pending, ("recovery_code", &recovery[3])).await), WRONG);
    assert_eq!(verify(&site, &pending, ("recovery_code", &recovery[4])).await.status, StatusCode::OK);
    let sent = mails(&site);
    assert_eq!(sent.len(), before + 2);
    for left in ["9 of them can still be used", "8 of them can still be used"] {
        assert!(sent.iter().any(|mail| mail.contains(left)), "{left}: {sent:?}");
    }

    let form = json!({"code": app.shows(&site)});
    let answer = ask(&site, Some(&token), Method::POST, "/auth/mfa/recovery-codes", Some(form)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let renewed = recovery_codes(&answer);
    assert_eq!(renewed.len(), 10);
    let pending = begun(&site).await;
    assert_eq!(reported(&verify(&site, &pending, ("recovery_code", &recovery[5])).await), WRONG);
    assert_eq!(verify(&site, &pending, ("recovery_code", &renewed[5])).await.status, StatusCode::OK);
}

// Shows (Accounts and second factors): A reset of the password does not skip the second factor.
#[tokio::test]
async fn a_reset_of_the_password_does_not_skip_the_factor() {
    let site = site().await;
    let (token, app, _) = account_with_app(&site).await;
    let pending = begun(&site).await;
    let sent = mails(&site).len();
    let forgotten = post(&site, "/auth/password/forgot", json!({"email": EMAIL})).await;
    assert_eq!(forgotten.status, StatusCode::ACCEPTED);
    let links = mailed(&site, sent + 1, "/reset?token=").await;
    let new = "another horse, another staple";
    // Otherwise the reset removes the app, which was added less than seven days ago.
    let form = json!({"token": links.last().unwrap(), "password": new, "keep_factors": true});
    assert_eq!(post(&site, "/auth/password/reset", form).await.status, StatusCode::NO_CONTENT);
    assert_eq!(me(&site, &token).await, StatusCode::UNAUTHORIZED, "all sessions have ended");
    let before = verify(&site, &pending, ("code", &app.shows(&site))).await;
    assert_eq!(reported(&before), EXPIRED, "the reset ends log-ins that wait for a factor");
    let answer = login(&site, EMAIL, new).await;
    assert_eq!(answer.body["mfa_required"], true, "{}", answer.body);
    let pending = answer.body["mfa_token"].as_str().unwrap();
    assert_eq!(verify(&site, pending, ("code", &app.shows(&site))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn exactly_one_factor_is_given() {
    let site = site().await;
    let (_, app, recovery) = account_with_app(&site).await;
    let token = begun(&site).await;
    let needed = "exactly one of `code`, `recovery_code` and `passkey` is needed";
    for form in [
        json!({"mfa_token": token}),
        json!({"mfa_token": token, "code": null}),
        json!({"mfa_token": token, "code": app.shows(&site), "recovery_code": recovery[0]}),
    ] {
        let answer = post(&site, "/auth/mfa/verify", form).await;
        assert_eq!(reported(&answer), (StatusCode::BAD_REQUEST, needed));
        assert_eq!(answer.body["field"], "code");
    }
    assert_eq!(verify(&site, &token, ("code", &app.shows(&site))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_account_that_is_disabled_during_a_log_in_does_not_complete_it() {
    let site = site().await;
    let (_, app, _) = account_with_app(&site).await;
    let token = begun(&site).await;
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap().id;
    let operator = site.operator().await;
    let path = format!("/operator/users/{user}/disable");
    let done = ask(&site, Some(&operator.token), Method::POST, &path, None).await;
    assert!(done.status.is_success(), "{}", done.body);
    assert_eq!(reported(&verify(&site, &token, ("code", &app.shows(&site))).await), WRONG);
}
