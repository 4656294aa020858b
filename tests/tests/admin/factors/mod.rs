//! Second factors over real connections: authenticator apps, recovery codes, passkeys, and rules that require a factor.

mod key;

use key::{Browser, ORIGIN};
use rpcgate_core::clock::{Clock, ManualClock};
use rpcgate_tests::admin::{ApiUser, PASSWORD, TestService};
use rpcgate_tests::authenticator_app::{AuthenticatorApp, STEP};
use rpcgate_tests::client::TestReply;
use rpcgate_tests::gateway::{START, Setup};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const ADA: &str = "ada@example.com";
const EVE: &str = "eve@example.com";
const NEW: &str = "another horse, another staple";
/// The time for which wrong passwords or factors lock an account.
const LOCK: Duration = Duration::from_secs(900);

/// Returns the URL of a new database on PostgreSQL if this file is included under that name.
fn url() -> Option<String> {
    #[cfg(have_postgres)]
    if module_path!().contains("on_postgres") {
        return Some(rpcgate_tests::services::postgres::Postgres::shared().database());
    }
    None
}

/// Starts a service whose clock stops, and returns both.
async fn service(setup: Setup) -> (TestService, Arc<ManualClock>) {
    let setup = setup
        .set("admin", "auth_per_minute = 1000")
        .set("admin", &format!("dash_url = \"{ORIGIN}\""))
        .set("admin.challenge", "difficulty = 100");
    let clock = Arc::new(ManualClock::at(START));
    (TestService::start_on(url(), setup, clock.clone()).await, clock)
}

async fn post(user: &ApiUser, path: &str, form: &Value) -> TestReply {
    user.ask("POST", path, Some(form).filter(|form| !form.is_null())).await
}

/// Posts a form, which must succeed with 200, and returns the answer.
async fn done(user: &ApiUser, path: &str, form: &Value) -> Value {
    let reply = post(user, path, form).await;
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.json()
}

/// Adds an authenticator app to a user's account, and returns the app and the recovery codes. The code that it shows
/// has not been used.
async fn enrolled(user: &ApiUser, clock: &ManualClock) -> (AuthenticatorApp, Vec<String>) {
    let offered = done(user, "/auth/mfa/totp/enroll", &json!({ "current_password": PASSWORD })).await;
    let app = AuthenticatorApp::scanned(offered["uri"].as_str().unwrap());
    let wrong = post(user, "/auth/mfa/totp/activate", &json!({ "code": app.wrong(clock.now()) })).await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let form = json!({ "code": app.shows(clock.now()) });
    let activated = done(user, "/auth/mfa/totp/activate", &form).await;
    clock.advance(STEP);
    (app, serde_json::from_value(activated["recovery_codes"].clone()).unwrap())
}

async fn begun(service: &TestService, email: &str, password: &str) -> Value {
    let form = json!({ "email": email, "password": password });
    let mut begun = done(&service.anonymous(), "/auth/login", &form).await;
    assert_eq!((&begun["mfa_required"], begun.get("token")), (&json!(true), None), "{begun}");
    begun["mfa_token"].take()
}

/// Sends a second factor on a new connection.
async fn verify(service: &TestService, token: &Value, factor: &str, text: &str) -> TestReply {
    post(&service.anonymous(), "/auth/mfa/verify", &json!({ "mfa_token": token, factor: text })).await
}

/// Logs in a user with the password and a code.
async fn logged_in(
    service: &TestService,
    clock: &ManualClock,
    email: &str,
    app: &AuthenticatorApp,
) -> ApiUser {
    clock.advance(STEP);
    let token = begun(service, email, PASSWORD).await;
    let answer = verify(service, &token, "code", &app.shows(clock.now())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut user = service.anonymous();
    user.enter(&answer.json());
    user
}

/// Returns the subjects of the mails to an address about its account, oldest first.
async fn told(service: &TestService, email: &str) -> Vec<String> {
    let mails = service.mails(email).await;
    let subject =
        |mail: &String| mail.lines().find_map(|line| line.strip_prefix("Subject: ")).map(str::to_owned);
    mails.iter().filter_map(subject).filter(|subject| !subject.starts_with("Confirm")).collect()
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_asks_for_the_app_and_each_code_works_once_even_in_parallel() {
    let (service, clock) = service(Setup::new()).await;
    let ada = service.owner(ADA).await;
    let alone = post(&ada, "/auth/mfa/totp/enroll", &Value::Null).await;
    assert_eq!((alone.status, &alone.json()["code"]), (401, &json!("proof_required")), "{alone:?}");
    let offered = done(&ada, "/auth/mfa/totp/enroll", &json!({ "current_password": PASSWORD })).await;
    let typed = AuthenticatorApp::typed(offered["secret"].as_str().unwrap());
    let scanned = AuthenticatorApp::scanned(offered["uri"].as_str().unwrap());
    assert_eq!(typed.shows(clock.now()), scanned.shows(clock.now()));
    let (app, recovery) = enrolled(&ada, &clock).await;
    assert_eq!(recovery.len(), 10);
    assert_eq!(ada.shown("/auth/mfa").await, json!({ "totp": true, "passkeys": 0, "recovery_codes": 10 }));

    let token = begun(&service, ADA, PASSWORD).await;
    let mut waiting = service.anonymous();
    waiting.enter(&json!({ "token": token }));
    assert_eq!(waiting.ask("GET", "/auth/me", None).await.status, 401, "the token is for the second step");
    let opened = verify(&service, &token, "code", &app.shows(clock.now())).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    waiting.enter(&opened.json());
    assert_eq!(waiting.shown("/auth/me").await["email"], ADA);
    let sessions = waiting.shown("/auth/sessions").await;
    let current = sessions.as_array().unwrap().iter().find(|one| one["current"] == true).unwrap().clone();
    assert_eq!(current["method"], "password+totp");

    clock.advance(STEP);
    for (factor, text) in [("code", app.shows(clock.now())), ("recovery_code", recovery[0].clone())] {
        let mut tokens = Vec::new();
        for _ in 0..4 {
            tokens.push(begun(&service, ADA, PASSWORD).await);
        }
        let mut tries = JoinSet::new();
        for number in 0..16 {
            let client = service.anonymous();
            let token = tokens[number % 4].clone();
            let text = text.clone();
            tries.spawn(async move {
                let form = json!({ "mfa_token": token, factor: text });
                post(&client, "/auth/mfa/verify", &form).await.status
            });
        }
        let statuses = tries.join_all().await;
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{factor}: {statuses:?}");
        clock.advance(LOCK);
    }
    let token = begun(&service, ADA, PASSWORD).await;
    assert_eq!(verify(&service, &token, "recovery_code", &recovery[0]).await.status, 401, "it was used");
    assert_eq!(verify(&service, &token, "recovery_code", &recovery[1]).await.status, 200);
    let told = told(&service, ADA).await;
    let count = |text: &str| told.iter().filter(|subject| *subject == text).count();
    assert_eq!(count("A second factor was added to your account"), 1, "{told:?}");
    assert_eq!(count("A recovery code of your account was used"), 2, "{told:?}");
    service.stop().await;
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_wrong_codes_lock_the_factors_and_a_reset_by_mail_does_not_skip_them() {
    let (service, clock) = service(Setup::new()).await;
    let ada = service.owner(ADA).await;
    let (app, recovery) = enrolled(&ada, &clock).await;
    let first = begun(&service, ADA, PASSWORD).await;
    let second = begun(&service, ADA, PASSWORD).await;
    for _ in 0..5 {
        let wrong = verify(&service, &first, "code", &app.wrong(clock.now())).await;
        assert_eq!(wrong.status, 401, "{wrong:?}");
    }
    for (factor, text) in [("code", app.shows(clock.now())), ("recovery_code", recovery[0].clone())] {
        let locked = verify(&service, &second, factor, &text).await;
        assert_eq!((locked.status, &locked.json()["code"]), (403, &json!("account_locked")), "{locked:?}");
    }

    // The reader of the mails sets the password, and still needs the factor if the form keeps it: by default, a factor
    // that is younger than seven days is removed.
    let anonymous = service.anonymous();
    assert_eq!(post(&anonymous, "/auth/password/forgot", &json!({ "email": ADA })).await.status, 202);
    let sent = async {
        while !told(&service, ADA).await.contains(&"Choose a new password".to_owned()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(rpcgate_tests::TIMEOUT, sent).await.unwrap();
    let mails = service.mails(ADA).await;
    let link = mails.iter().find_map(|mail| Some(mail.split_once("/reset?token=")?.1)).unwrap();
    let form = json!({ "token": link.lines().next().unwrap(), "password": NEW, "keep_factors": true });
    assert_eq!(post(&anonymous, "/auth/password/reset", &form).await.status, 204);
    assert_eq!(ada.ask("GET", "/auth/me", None).await.status, 401, "all sessions have ended");
    let old = verify(&service, &second, "code", &app.shows(clock.now())).await;
    assert_ne!(old.status, 200, "that log-in began with the former password");
    let token = begun(&service, ADA, NEW).await;
    let locked = verify(&service, &token, "code", &app.shows(clock.now())).await;
    assert_eq!(locked.status, 403, "a new password does not unlock the factors: {locked:?}");
    clock.advance(LOCK);
    let token = begun(&service, ADA, NEW).await;
    assert_eq!(verify(&service, &token, "code", &app.shows(clock.now())).await.status, 200);
    let told = told(&service, ADA).await;
    let locks = told.iter().filter(|subject| *subject == "Your account was locked temporarily");
    assert_eq!(locks.count(), 1, "{told:?}");
    service.stop().await;
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passkey_registers_logs_in_alone_or_after_the_password_and_a_copy_is_refused() {
    let (service, clock) = service(Setup::new()).await;
    let ada = service.owner(ADA).await;
    let mut browser = Browser::default();
    let started = done(&ada, "/auth/passkeys/register/start", &json!({ "current_password": PASSWORD })).await;
    let credential = browser.make(&started["options"]).await;
    let form = json!({ "ceremony": started["ceremony"], "credential": credential, "name": "Telephone" });
    let added = post(&ada, "/auth/passkeys/register/finish", &form).await;
    assert_eq!(added.status, 201, "{added:?}");
    let added = added.json();
    assert_eq!(added["recovery_codes"].as_array().unwrap().len(), 10);
    let passkey = format!("/auth/passkeys/{}", added["passkey"]["id"].as_str().unwrap());
    let again = post(&ada, "/auth/passkeys/register/finish", &form).await;
    assert_eq!(again.status, 400, "a ceremony is finished once: {again:?}");

    let log_in = async |browser: &mut Browser| {
        let client = service.anonymous();
        let started = done(&client, "/auth/passkeys/login/start", &json!({})).await;
        let credential = browser.give(&started["options"]).await;
        let form = json!({ "ceremony": started["ceremony"], "credential": credential });
        (post(&client, "/auth/passkeys/login/finish", &form).await, form)
    };
    let mut copy = browser.clone();
    let (alone, form) = log_in(&mut browser).await;
    assert_eq!(alone.status, 200, "{alone:?}");
    let replayed = post(&service.anonymous(), "/auth/passkeys/login/finish", &form).await;
    assert_eq!(replayed.status, 400, "{replayed:?}");
    let mut session = service.anonymous();
    session.enter(&alone.json());
    assert_eq!(session.shown("/auth/me").await["email"], ADA);

    let (copied, _) = log_in(&mut copy).await;
    assert_eq!((copied.status, &copied.json()["code"]), (401, &json!("passkey_refused")), "{copied:?}");
    let audit = session.shown("/auth/audit").await;
    let entries = audit.as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["action"] == "passkey.copied"), "{audit}");

    let token = begun(&service, ADA, PASSWORD).await;
    let client = service.anonymous();
    let started = done(&client, "/auth/passkeys/login/start", &json!({ "mfa_token": token })).await;
    let given = browser.give(&started["options"]).await;
    let given = json!({ "ceremony": started["ceremony"], "credential": given });
    let second = post(&client, "/auth/mfa/verify", &json!({ "mfa_token": token, "passkey": given })).await;
    assert_eq!(second.status, 200, "{second:?}");

    let started = done(&session, "/auth/passkeys/factor/start", &Value::Null).await;
    let given = browser.give(&started["options"]).await;
    let factor = json!({ "passkey": { "ceremony": started["ceremony"], "credential": given } });
    clock.advance(Duration::from_secs(1));
    let removed = session.ask("DELETE", &passkey, Some(&factor)).await;
    assert_eq!(removed.status, 204, "{removed:?}");
    assert_eq!(log_in(&mut browser).await.0.status, 401, "the passkey is gone");
    let mut user = service.anonymous();
    user.log_in(ADA).await;
    let told = told(&service, ADA).await;
    for subject in
        ["A second factor was added to your account", "A second factor was removed from your account"]
    {
        assert!(told.iter().any(|one| one == subject), "{subject}: {told:?}");
    }
    service.stop().await;
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn factors_that_are_required_are_added_and_an_operator_removes_lost_ones() {
    let (service, clock) = service(Setup::new().set("admin", "operator_mfa = true")).await;
    let ada = service.owner(ADA).await;
    let tenant = ada.tenant().await;
    let operator = service.operator().await;
    let required =
        |reply: &TestReply| (reply.status, reply.json()["code"] == "factor_required") == (403, true);

    // Operators without a factor can read but not change anything.
    let theirs = format!("/operator/tenants/{tenant}");
    operator.shown(&theirs).await;
    let change = json!({ "tier": "premium" });
    let refused = operator.ask("PUT", &theirs, Some(&change)).await;
    assert!(required(&refused), "{refused:?}");
    enrolled(&operator, &clock).await;
    assert_eq!(operator.put(&theirs, &change).await["tier"], "premium");

    // An owner with a factor requires one from every member.
    let invitation = json!({ "email": EVE, "role": "viewer" });
    ada.made(&format!("/tenants/{tenant}/invitations"), &invitation).await;
    let form = json!({ "token": service.mailed(EVE).await, "name": "Eve", "password": PASSWORD });
    let mut eve = service.anonymous();
    eve.made("/auth/invitation", &form).await;
    eve.log_in(EVE).await;
    eve.shown("/tenants").await;
    let rule = format!("/tenants/{tenant}/mfa");
    let early = ada.ask("PUT", &rule, Some(&json!({ "required": true }))).await;
    assert_eq!(early.status, 409, "nobody requires what they do not have: {early:?}");
    enrolled(&ada, &clock).await;
    ada.put(&rule, &json!({ "required": true })).await;
    let refused = eve.ask("GET", "/tenants", None).await;
    assert!(required(&refused), "{refused:?}");
    let (app, _) = enrolled(&eve, &clock).await;
    eve.shown("/tenants").await;

    // Eve loses the app and the codes.
    let user = eve.shown("/auth/me").await["id"].as_str().unwrap().to_owned();
    let path = format!("/operator/users/{user}/remove-factors");
    let reason = json!({ "reason": "Lost telephone" });
    assert_eq!(post(&ada, &path, &reason).await.status, 403, "this is for operators");
    assert_eq!(post(&operator, &path, &json!({})).await.status, 400, "a reason is needed");
    assert_eq!(done(&operator, &path, &reason).await["mfa"], false);
    assert_eq!(eve.ask("GET", "/auth/me", None).await.status, 401, "all sessions have ended");
    assert_eq!(post(&operator, &path, &reason).await.status, 409, "none is left");
    let own = operator.shown("/auth/me").await["id"].as_str().unwrap().to_owned();
    let own = post(&operator, &format!("/operator/users/{own}/remove-factors"), &reason).await;
    assert_eq!(own.status, 409, "not for themselves: {own:?}");
    let mails = service.mails(EVE).await;
    let mail =
        mails.iter().find(|mail| mail.contains("Subject: An operator has removed your second factors\r\n"));
    assert!(mail.unwrap().contains("\"Lost telephone\""), "{mail:?}");

    // The password suffices again, but only to add another factor.
    eve.log_in(EVE).await;
    let refused = eve.ask("GET", "/tenants", None).await;
    assert!(required(&refused), "{refused:?}");
    let (renewed, _) = enrolled(&eve, &clock).await;
    eve.shown("/tenants").await;
    let told = eve.shown("/notifications").await;
    let told: Vec<_> = told.as_array().unwrap().iter().map(|one| one["message"].as_str().unwrap()).collect();
    assert!(told.contains(&"An operator has removed your second factors"), "{told:?}");
    let token = begun(&service, EVE, PASSWORD).await;
    let old = verify(&service, &token, "code", &app.shows(clock.now())).await;
    assert_eq!(old.status, 401, "the lost app is good for nothing: {old:?}");
    logged_in(&service, &clock, EVE, &renewed).await.shown("/tenants").await;
    service.stop().await;
}
