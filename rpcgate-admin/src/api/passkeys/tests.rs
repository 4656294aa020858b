//! Tests of passkeys with a software authenticator.

use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mails, pair, post, register, register_confirmed, tokens,
};
use crate::api::factors::tests::{begun, recovery_codes, verify};
use crate::testing::second_factors::{Authenticator, ORIGIN, SoftwareKey};
use crate::testing::{ApiAnswer, Site};
use http::{Method, StatusCode};
use rpcgate_management::identity::passkey::CEREMONY_LIFE;
use rpcgate_store::{AuditSubject, MAX_PASSKEYS, PasskeyId, StoredPasskey, User, fresh_id};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

async fn site() -> Site {
    let text = format!(
        "[admin]\nauth_per_minute = 1000\ndash_url = \"{ORIGIN}\"\n[admin.challenge]\ndifficulty = 50\n"
    );
    Site::of(&text).await
}

async fn user(site: &Site) -> User {
    site.app.store.user_by_email(EMAIL).await.unwrap().unwrap()
}

/// Creates a confirmed account and returns its access token.
async fn account(site: &Site) -> String {
    assert_eq!(register(site, EMAIL).await.status, StatusCode::CREATED);
    let mail = mails(site).pop().unwrap();
    let (_, rest) = mail.split_once("/confirm?token=").unwrap();
    let form = json!({"token": rest.lines().next().unwrap()});
    assert_eq!(post(site, "/auth/confirm", form).await.status, StatusCode::NO_CONTENT);
    let (token, _) = tokens(site, EMAIL).await;
    prove(site, &token).await;
    token
}

async fn prove(site: &Site, token: &str) {
    let form = json!({"current_password": PASSWORD});
    let proved = ask(site, Some(token), Method::POST, "/auth/proof", Some(form)).await;
    assert_eq!(proved.status, StatusCode::NO_CONTENT, "{}", proved.body);
}

fn is_mailed(site: &Site, text: &str) -> bool {
    mails(site).iter().any(|mail| mail.contains(text))
}

async fn call(site: &Site, token: Option<&str>, path: &str, body: Value) -> ApiAnswer {
    ask(site, token, Method::POST, &format!("/auth/passkeys/{path}"), Some(body)).await
}

fn reported(answer: &ApiAnswer) -> (StatusCode, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or_default())
}

async fn me(site: &Site, token: &str) -> StatusCode {
    ask(site, Some(token), Method::GET, "/auth/me", None).await.status
}

/// Registers `key`, starting with `factor`, and returns the last answer.
async fn register_key(site: &Site, token: &str, key: &mut SoftwareKey, factor: Value) -> ApiAnswer {
    let started = call(site, Some(token), "register/start", factor).await;
    assert_eq!(started.status, StatusCode::OK, "{}", started.body);
    let credential = key.make(&started.body["options"]).await;
    let form = json!({"ceremony": started.body["ceremony"], "credential": credential, "name": "Telephone"});
    call(site, Some(token), "register/finish", form).await
}

/// Returns the access token of an account with a passkey, the key, and the recovery codes.
async fn account_with_key(site: &Site) -> (String, SoftwareKey, Vec<String>) {
    let token = account(site).await;
    let mut key = SoftwareKey::default();
    let added = register_key(site, &token, &mut key, json!({})).await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.body);
    (token, key, recovery_codes(&added))
}

/// Starts a log-in by a passkey alone. Returns the token of the ceremony and the options.
async fn started(site: &Site) -> (Value, Value) {
    let started = call(site, None, "login/start", json!({})).await;
    assert_eq!(started.status, StatusCode::OK, "{}", started.body);
    (started.body["ceremony"].clone(), started.body["options"].clone())
}

async fn finish(site: &Site, ceremony: &Value, credential: &Value) -> ApiAnswer {
    call(site, None, "login/finish", json!({"ceremony": ceremony, "credential": credential})).await
}

async fn log_in(site: &Site, key: &mut SoftwareKey) -> ApiAnswer {
    let (ceremony, options) = started(site).await;
    let credential = key.use_here(&options).await;
    finish(site, &ceremony, &credential).await
}

async fn listed(site: &Site, token: &str) -> Value {
    ask(site, Some(token), Method::GET, "/auth/passkeys", None).await.body
}

const REFUSED: (StatusCode, &str) = (StatusCode::UNAUTHORIZED, "the passkey was not accepted");
const USED: (StatusCode, &str) =
    (StatusCode::BAD_REQUEST, "`ceremony` is not valid, was used, or has expired");

// Shows (Accounts and second factors): Passkeys have `POST /auth/passkeys/register/start|finish`, `GET /auth/passkeys`,
// `DELETE /auth/passkeys/{id}` (requires a factor), `POST /auth/passkeys/login/start|finish`, and `passkey` in `POST
// /auth/mfa/verify`; a user may have several with names and times of last use.
#[tokio::test]
async fn a_passkey_is_added_and_logs_its_user_in_without_a_password() {
    let site = site().await;
    let token = account(&site).await;
    let (other, _) = tokens(&site, EMAIL).await;
    let mut key = SoftwareKey::default();
    let added = register_key(&site, &token, &mut key, json!({})).await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.body);
    assert_eq!(recovery_codes(&added).len(), 10);
    assert_eq!(added.body["passkey"]["name"], "Telephone");
    assert_eq!(added.body["passkey"]["used_at"], Value::Null);
    assert_eq!(me(&site, &other).await, StatusCode::UNAUTHORIZED, "other sessions have ended");
    assert!(is_mailed(&site, "It is the passkey \"Telephone\"."));
    assert_eq!(listed(&site, &token).await, json!([added.body["passkey"]]));

    site.clock.advance(Duration::from_secs(60));
    let answer = log_in(&site, &mut key).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let (access, _) = pair(&answer);
    assert_eq!(me(&site, &access).await, StatusCode::OK);
    let sessions = ask(&site, Some(&access), Method::GET, "/auth/sessions", None).await.body;
    assert_eq!(sessions[0]["method"], "passkey");
    assert!(listed(&site, &access).await[0]["used_at"].is_string());
    assert_eq!(log_in(&site, &mut key).await.status, StatusCode::OK, "the counter goes on");
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_passkey_is_a_second_factor_after_the_password() {
    let site = site().await;
    let (_, mut key, _) = account_with_key(&site).await;
    let answer = login(&site, EMAIL, PASSWORD).await;
    assert_eq!(answer.body["methods"], json!(["passkey", "recovery_code"]));
    let pending = begun(&site).await;
    let give = async |pending: &str, ceremony: &Value, credential: &Value| {
        let passkey = json!({"ceremony": ceremony, "credential": credential});
        post(&site, "/auth/mfa/verify", json!({"mfa_token": pending, "passkey": passkey})).await
    };
    let alone = started(&site).await;
    let credential = key.use_here(&alone.1).await;
    let refused = give(&pending, &alone.0, &credential).await;
    assert_eq!(reported(&refused), USED, "a ceremony is for one purpose");

    let ask_for = call(&site, None, "login/start", json!({"mfa_token": pending})).await;
    let allowed = ask_for.body["options"]["publicKey"]["allowCredentials"].as_array().unwrap();
    assert_eq!(allowed.len(), 1, "{}", ask_for.body);
    let credential = key.use_here(&ask_for.body["options"]).await;
    assert_eq!(reported(&finish(&site, &ask_for.body["ceremony"], &credential).await), USED);
    let answer = give(&pending, &ask_for.body["ceremony"], &credential).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let sessions = ask(&site, Some(&pair(&answer).0), Method::GET, "/auth/sessions", None).await.body;
    assert_eq!(sessions[0]["method"], "password+passkey");
    let again = call(&site, None, "login/start", json!({"mfa_token": pending})).await;
    assert_eq!(again.status, StatusCode::UNAUTHORIZED);
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_ceremony_is_finished_once_also_in_parallel_and_within_five_minutes() {
    let site = Arc::new(site().await);
    let (_, mut key, _) = account_with_key(&site).await;
    let (ceremony, options) = started(&site).await;
    let credential = key.use_here(&options).await;
    let mut submits = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let site = site.clone();
        let ceremony = ceremony.clone();
        let credential = credential.clone();
        submits.spawn(async move { finish(&site, &ceremony, &credential).await.status });
    }
    let statuses = submits.join_all().await;
    let opened = statuses.iter().filter(|status| **status == StatusCode::OK).count();
    assert_eq!(opened, 1, "{statuses:?}");

    let (late, options) = started(&site).await;
    let credential = key.use_here(&options).await;
    site.clock.advance(CEREMONY_LIFE);
    assert_eq!(CEREMONY_LIFE, Duration::from_secs(300));
    assert_eq!(reported(&finish(&site, &late, &credential).await), USED);
    for strange in ["", "rpcgw_", "rpcgw_AAAA", "rpcgm_AAAA"] {
        assert_eq!(reported(&finish(&site, &json!(strange), &credential).await), USED, "{strange}");
    }
}

// Shows (Accounts and second factors): Challenges of 256 bits are used once, within five minutes; origin, site,
// presence and unlocking are checked; a counter that goes back is refused; removing a passkey requires a factor
// (promise 37).
#[tokio::test]
async fn challenges_are_random_and_long() {
    let site = site().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let (_, options) = started(&site).await;
        let challenge = options["publicKey"]["challenge"].as_str().unwrap().to_owned();
        assert_eq!(challenge.len(), 43, "256 bits in base64url: {challenge}");
        assert_eq!(options["publicKey"]["userVerification"], "required");
        assert!(seen.insert(challenge));
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_answer_for_another_site_or_challenge_or_without_unlocking_is_refused() {
    let site = site().await;
    let (_, mut key, _) = account_with_key(&site).await;
    let refused = async |ceremony: &Value, credential: &Value, why: &str| {
        assert_eq!(reported(&finish(&site, ceremony, credential).await), REFUSED, "{why}");
    };
    // A page on a subdomain of the host may use its passkeys, but is not ours.
    let (ceremony, options) = started(&site).await;
    let credential = key.use_at("https://evil.dash.example.com", &options).await.unwrap();
    refused(&ceremony, &credential, "another origin").await;

    let (ceremony, mut options) = started(&site).await;
    options["publicKey"]["rpId"] = "evil.example".into();
    let credential = key.use_at("https://evil.example", &options).await.unwrap();
    refused(&ceremony, &credential, "another site").await;

    let (ceremony, _) = started(&site).await;
    let (_, options) = started(&site).await;
    let credential = key.use_here(&options).await;
    refused(&ceremony, &credential, "another challenge").await;

    let (ceremony, mut options) = started(&site).await;
    options["publicKey"]["userVerification"] = "discouraged".into();
    let credential = key.use_here(&options).await;
    refused(&ceremony, &credential, "without unlocking").await;

    let (ceremony, options) = started(&site).await;
    let mut credential = key.use_here(&options).await;
    let handle = credential["response"]["userHandle"].take();
    refused(&ceremony, &credential, "without a user").await;
    credential["response"]["userHandle"] = handle;
    let (ceremony, options) = started(&site).await;
    let mut other = key.use_here(&options).await;
    other["response"]["signature"] = credential["response"]["signature"].clone();
    refused(&ceremony, &other, "another signature").await;

    assert_eq!(log_in(&site, &mut key).await.status, StatusCode::OK);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_passkey_whose_counter_goes_back_is_refused_and_recorded() {
    let site = site().await;
    let (_, mut key, _) = account_with_key(&site).await;
    let mut copy = key.clone();
    assert_eq!(log_in(&site, &mut key).await.status, StatusCode::OK);
    assert_eq!(reported(&log_in(&site, &mut copy).await), REFUSED);
    assert_eq!(log_in(&site, &mut key).await.status, StatusCode::OK);
    let entries = site.app.store.audit(AuditSubject::User(user(&site).await.id), 100).await.unwrap();
    assert!(entries.iter().any(|entry| entry.action == "passkey.copied"), "{entries:?}");
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_further_passkey_needs_a_factor_and_a_user_may_have_several() {
    let site = site().await;
    let (token, mut first, recovery) = account_with_key(&site).await;
    let missing = call(&site, Some(&token), "register/start", json!({})).await;
    assert_eq!(
        reported(&missing),
        (StatusCode::FORBIDDEN, "give one of your second factors to add a passkey")
    );
    let wrong = json!({"recovery_code": "0000-0000-0000-0000"});
    assert_eq!(call(&site, Some(&token), "register/start", wrong).await.status, StatusCode::FORBIDDEN);
    let mut second = SoftwareKey::default();
    let factor = json!({"recovery_code": recovery[0]});
    let added = register_key(&site, &token, &mut second, factor).await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.body);
    assert_eq!(added.body.as_object().unwrap().len(), 1, "the recovery codes stay: {}", added.body);
    assert_eq!(listed(&site, &token).await.as_array().unwrap().len(), 2);
    for key in [&mut first, &mut second] {
        assert_eq!(log_in(&site, key).await.status, StatusCode::OK);
    }
    let started = call(&site, Some(&token), "factor/start", json!({})).await;
    assert_eq!(started.status, StatusCode::OK, "{}", started.body);
    let credential = first.use_here(&started.body["options"]).await;
    let factor = json!({"passkey": {"ceremony": started.body["ceremony"], "credential": credential}});
    let again = call(&site, Some(&token), "register/start", factor.clone()).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.body);
    assert_eq!(reported(&call(&site, Some(&token), "register/start", factor).await), USED);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_user_has_at_most_twenty_passkeys_and_each_credential_one_owner() {
    let site = site().await;
    let (token, mut key, recovery) = account_with_key(&site).await;
    let user = user(&site).await;
    let now = site.app.now();
    let entry = rpcgate_store::Audit {
        tenant: user.tenant,
        user: Some(user.id),
        action: "prepared".into(),
        subject: String::new(),
        address: String::new(),
        at: now,
        detail: String::new(),
    };
    let session = site.app.store.sessions(user.id, now).await.unwrap()[0].id;
    let made = |credential: Vec<u8>| StoredPasskey {
        id: PasskeyId(fresh_id(now)),
        user: user.id,
        credential,
        name: "One".into(),
        passkey: "{}".into(),
        uses: 0,
        created_at: now,
        used_at: None,
    };
    let existing = site.app.store.passkeys(user.id).await.unwrap().remove(0).credential;
    let twice = site.app.store.add_passkey(&made(existing), now, session, &[], &entry).await.unwrap_err();
    assert_eq!(twice.to_string(), "there is already a passkey with this credential");
    for number in 1..MAX_PASSKEYS {
        let added = made(number.to_be_bytes().to_vec());
        site.app.store.add_passkey(&added, now, session, &[], &entry).await.unwrap();
    }
    let factor = json!({"recovery_code": recovery[0]});
    let full = register_key(&site, &token, &mut SoftwareKey::default(), factor).await;
    assert_eq!(reported(&full), (StatusCode::CONFLICT, "a user may have at most 20 passkeys"));
    assert_eq!(log_in(&site, &mut key).await.status, StatusCode::OK);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn removing_a_passkey_asks_for_a_factor_and_ends_other_sessions() {
    let site = site().await;
    let (token, mut key, _) = account_with_key(&site).await;
    let (other, _) = pair(&log_in(&site, &mut key).await);
    let id = listed(&site, &token).await[0]["id"].as_str().unwrap().to_owned();
    let remove = async |factor: Value| {
        ask(&site, Some(&token), Method::DELETE, &format!("/auth/passkeys/{id}"), Some(factor)).await
    };
    // The session has a proof by password, which is not enough to remove a factor.
    let alone = remove(json!({})).await;
    assert_eq!((alone.status, &alone.body["code"]), (StatusCode::UNAUTHORIZED, &json!("proof_required")));
    assert_eq!(listed(&site, &token).await.as_array().unwrap().len(), 1, "nothing was removed");
    let wrong = remove(json!({"recovery_code": "0000-0000-0000-0000"})).await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN, "{}", wrong.body);
    assert_eq!(me(&site, &other).await, StatusCode::OK);
    let started = call(&site, Some(&token), "factor/start", json!({})).await;
    let credential = key.use_here(&started.body["options"]).await;
    let factor = json!({"passkey": {"ceremony": started.body["ceremony"], "credential": credential}});
    assert_eq!(remove(factor).await.status, StatusCode::NO_CONTENT);
    assert!(is_mailed(&site, "It was the passkey \"Telephone\"."));
    assert_eq!(me(&site, &token).await, StatusCode::OK);
    assert_eq!(me(&site, &other).await, StatusCode::UNAUTHORIZED);
    assert_eq!(reported(&log_in(&site, &mut key).await), REFUSED);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.body.get("mfa_required"), None, "no factor is left");
    let started = call(&site, Some(&token), "factor/start", json!({})).await;
    assert_eq!(reported(&started), (StatusCode::CONFLICT, "the user has no passkey"));
}

#[tokio::test]
async fn a_passkey_and_an_app_are_independent_factors() {
    let site = site().await;
    let (token, mut key, recovery) = account_with_key(&site).await;
    let offered = ask(
        &site,
        Some(&token),
        Method::POST,
        "/auth/mfa/totp/enroll",
        Some(json!({"current_password": PASSWORD})),
    )
    .await;
    let app = Authenticator::typed(&offered);
    let activate = async |form: Value| {
        ask(&site, Some(&token), Method::POST, "/auth/mfa/totp/activate", Some(form)).await
    };
    let alone = activate(json!({"code": app.shows(&site)})).await;
    assert_eq!(alone.status, StatusCode::FORBIDDEN, "{}", alone.body);
    let added = activate(json!({"code": app.shows(&site), "recovery_code": recovery[0]})).await;
    assert_eq!(added.status, StatusCode::OK, "{}", added.body);
    let renewed = recovery_codes(&added);
    let pending = begun(&site).await;
    assert_eq!(
        verify(&site, &pending, ("recovery_code", &recovery[1])).await.status,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(verify(&site, &pending, ("recovery_code", &renewed[1])).await.status, StatusCode::OK);
    site.clock.advance(Duration::from_secs(30));
    let off = json!({"code": app.shows(&site)});
    let off = ask(&site, Some(&token), Method::POST, "/auth/mfa/totp/disable", Some(off)).await;
    assert_eq!(off.status, StatusCode::NO_CONTENT, "{}", off.body);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.body["methods"], json!(["passkey", "recovery_code"]));
    assert_eq!(log_in(&site, &mut key).await.status, StatusCode::OK);
}

#[tokio::test]
async fn accounts_that_are_unconfirmed_or_disabled_have_no_use_of_passkeys() {
    let site = site().await;
    assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    let (token, _) = tokens(&site, EMAIL).await;
    let refused = call(&site, Some(&token), "register/start", json!({})).await;
    assert_eq!(
        reported(&refused),
        (StatusCode::FORBIDDEN, "confirm your e-mail address before you add a second factor")
    );
    // Mails of the same time have no order.
    site.clock.advance(Duration::from_secs(1));
    let (_, mut key, _) = account_with_key(&site).await;
    let operator = site.operator().await;
    let path = format!("/operator/users/{}/disable", user(&site).await.id);
    let done = ask(&site, Some(&operator.token), Method::POST, &path, None).await;
    assert!(done.status.is_success(), "{}", done.body);
    assert_eq!(reported(&log_in(&site, &mut key).await), (StatusCode::FORBIDDEN, "this account is disabled"));
}

#[tokio::test]
async fn without_a_host_name_there_are_no_passkeys() {
    let site = crate::api::accounts::tests::site().await;
    register_confirmed(&site, EMAIL).await;
    let (token, _) = tokens(&site, EMAIL).await;
    prove(&site, &token).await;
    let text = "passkeys need a host name and https: operators have to set admin.dash_url";
    let refused = call(&site, Some(&token), "register/start", json!({})).await;
    assert_eq!(reported(&refused), (StatusCode::CONFLICT, text));
    assert_eq!(reported(&call(&site, None, "login/start", json!({})).await), (StatusCode::CONFLICT, text));
}

#[tokio::test]
async fn a_malformed_passkey_response_is_refused_before_the_ceremony_is_used() {
    let site = site().await;
    let (_, mut key, _) = account_with_key(&site).await;
    let (ceremony, options) = started(&site).await;
    for strange in [json!({}), json!({"id": 7}), json!({"id": "a", "rawId": "a", "type": "public-key"})] {
        let answer = finish(&site, &ceremony, &strange).await;
        assert_eq!(
            reported(&answer),
            (StatusCode::BAD_REQUEST, "`credential` is not what a browser returns")
        );
    }
    let credential = key.use_here(&options).await;
    assert_eq!(finish(&site, &ceremony, &credential).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_registration_that_began_before_another_factor_was_added_adds_no_passkey() {
    let site = site().await;
    let token = account(&site).await;
    let mut key = SoftwareKey::default();
    let started = call(&site, Some(&token), "register/start", json!({})).await;
    site.clock.advance(Duration::from_secs(1));
    let added = register_key(&site, &token, &mut SoftwareKey::default(), json!({})).await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.body);
    let credential = key.make(&started.body["options"]).await;
    let form = json!({"ceremony": started.body["ceremony"], "credential": credential, "name": "Late"});
    assert_eq!(reported(&call(&site, Some(&token), "register/finish", form).await), USED);
    assert_eq!(listed(&site, &token).await.as_array().unwrap().len(), 1);
}
