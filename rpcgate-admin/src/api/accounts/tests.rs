//! Tests of accounts through the API, and the helpers with which other tests get an account.

mod hosted;

use crate::testing::{ApiAnswer, NOON, Site};
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{AUTHORIZATION, RETRY_AFTER};
use http::{Method, StatusCode};
use rpcgate_core::plan::Tier;
use rpcgate_management::action::accounts::CONFIRMATION_LIFE;
use rpcgate_management::identity::challenge::{LIFE, solve};
use rpcgate_store::{AuditSubject, LOCK, Role};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) const EMAIL: &str = "ada@example.com";
pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// Returns a site with easy challenges and a high limit of attempts.
pub(crate) async fn site() -> Site {
    Site::of("[admin]\nauth_per_minute = 1000\n[admin.challenge]\ndifficulty = 50\n").await
}

pub(crate) async fn ask(
    site: &Site,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> ApiAnswer {
    let mut request = http::Request::builder().method(method).uri(format!("/api/v1{path}"));
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let body = body.map_or_else(Body::empty, |body| body.to_string().into());
    site.send(request.body(body).unwrap()).await
}

pub(crate) async fn post(site: &Site, path: &str, body: Value) -> ApiAnswer {
    ask(site, None, Method::POST, path, Some(body)).await
}

async fn solution(site: &Site) -> String {
    let posed = ask(site, None, Method::GET, "/auth/challenge", None).await;
    assert_eq!(posed.status, StatusCode::OK);
    solve(&serde_json::from_value(posed.body).unwrap()).unwrap()
}

pub(crate) async fn register(site: &Site, email: &str) -> ApiAnswer {
    let challenge = solution(site).await;
    let form = json!({"email": email, "password": PASSWORD, "name": "Ada", "challenge": challenge});
    post(site, "/auth/register", form).await
}

pub(crate) async fn login(site: &Site, email: &str, password: &str) -> ApiAnswer {
    post(site, "/auth/login", json!({"email": email, "password": password})).await
}

/// Returns the access token and the refresh token of an existing account.
pub(crate) async fn tokens(site: &Site, email: &str) -> (String, String) {
    let answer = login(site, email, PASSWORD).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    pair(&answer)
}

pub(crate) fn pair(answer: &ApiAnswer) -> (String, String) {
    let text = |name| answer.body[name].as_str().unwrap().to_owned();
    (text("token"), text("refresh_token"))
}

/// Registers an address and confirms it with the newest mail.
pub(crate) async fn register_confirmed(site: &Site, email: &str) {
    assert_eq!(register(site, email).await.status, StatusCode::CREATED);
    let form = json!({"token": token(mails(site).last().unwrap())});
    assert_eq!(post(site, "/auth/confirm", form).await.status, StatusCode::NO_CONTENT);
}

/// Returns the sent mails, the oldest first.
pub(crate) fn mails(site: &Site) -> Vec<String> {
    let folder = &site.app.settings.config.admin.mail.outbox;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    // Files without this extension are still being written.
    files.retain(|file| file.extension().is_some_and(|ending| ending == "eml"));
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// Waits for `least` mails, because some are sent in the background. Returns the tokens of the links to `page` in all
/// mails, the oldest first.
pub(crate) async fn mailed(site: &Site, least: usize, page: &str) -> Vec<String> {
    let enough = async {
        while mails(site).len() < least {
            tokio::time::sleep(Duration::from_millis(1)).await;
            site.send_mails().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), enough).await.unwrap();
    let mails = mails(site);
    let links = mails.iter().filter_map(|mail| Some(mail.split_once(page)?.1));
    links.map(|rest| rest.lines().next().unwrap().to_owned()).collect()
}

fn token(mail: &str) -> String {
    let (_, rest) = mail.split_once("http://127.0.0.1:8081/confirm?token=").unwrap();
    rest.lines().next().unwrap().to_owned()
}

fn reported(answer: &ApiAnswer) -> (StatusCode, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or_default())
}

// Shows (Accounts and second factors): A registration sends a mail whose link confirms the address.
#[tokio::test]
async fn an_account_is_made_and_confirmed_by_mail() {
    let site = site().await;
    let answer = register(&site, "Ada@Example.com").await;
    assert_eq!(answer.status, StatusCode::CREATED, "{:?}", answer.body);
    assert_eq!(answer.body, json!({"email": EMAIL, "name": "Ada", "confirmed": false}));
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap();
    assert_eq!((user.role, user.name.as_str(), user.confirmed_at), (Role::Owner, "Ada", None));
    assert!(user.password.as_deref().unwrap().starts_with("$argon2id$"));
    let tenant = site.app.store.tenant(user.tenant.unwrap()).await.unwrap().unwrap();
    assert_eq!((tenant.tier, tenant.suspended, tenant.name.as_str()), (Tier::Free, false, "Ada"));

    site.clock.advance(Duration::from_secs(1));
    let (access, _) = tokens(&site, EMAIL).await;
    site.clock.advance(Duration::from_secs(1));
    let confirmed = async || {
        let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await;
        me.body["confirmed"].as_bool().unwrap()
    };
    assert!(!confirmed().await, "an unconfirmed user may log in");
    let [mail] = &mails(&site)[..] else { panic!("there must be one mail") };
    assert!(mail.contains("To: ada@example.com\r\n"), "{mail}");
    let form = json!({"token": token(mail)});
    assert_eq!(post(&site, "/auth/confirm", form.clone()).await.status, StatusCode::NO_CONTENT);
    assert!(confirmed().await);
    let again = post(&site, "/auth/confirm", form).await;
    assert_eq!(
        reported(&again),
        (StatusCode::BAD_REQUEST, "the token is not valid, was used, or has expired")
    );
    let entries = site.app.store.audit(AuditSubject::Tenant(tenant.id), 9).await.unwrap();
    let actions: Vec<_> = entries.iter().rev().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["account.registered", "session.opened", "account.confirmed"]);
    assert!(entries.iter().all(|entry| entry.user == Some(user.id) && entry.address == "192.0.2.1"));
}

#[tokio::test]
async fn a_taken_address_is_answered_like_a_free_one() {
    let site = site().await;
    let first = register(&site, EMAIL).await;
    let confirmed = post(&site, "/auth/confirm", json!({"token": token(&mails(&site)[0])})).await;
    assert_eq!(confirmed.status, StatusCode::NO_CONTENT);
    let before = site.app.passwords.computed();
    let challenge = solution(&site).await;
    let form = json!({"email": "ADA@example.com", "password": "another password", "name": "Ada",
        "challenge": challenge});
    let second = post(&site, "/auth/register", form).await;
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    let names = |answer: &ApiAnswer| answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&second), names(&first));
    assert_eq!((before, site.app.passwords.computed()), (1, 2), "a hash is computed for both");
    let mails = mails(&site);
    assert_eq!(mails.len(), 2);
    let known = mails.iter().filter(|mail| mail.contains("You have an account already"));
    assert_eq!(known.count(), 1);
    assert_eq!(login(&site, EMAIL, "another password").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK, "nothing was changed");
}

async fn squat(site: &Site) {
    let challenge = solution(site).await;
    let form = json!({"email": EMAIL, "password": "the password of a squatter", "challenge": challenge});
    assert_eq!(post(site, "/auth/register", form).await.status, StatusCode::CREATED);
    site.clock.advance(Duration::from_secs(1));
}

// Shows (Accounts and second factors): An unconfirmed account does not reserve an address; the valid password is the
// one given with or after the confirmation (promise 69).
#[tokio::test]
async fn the_reader_of_the_mails_owns_the_account_and_a_squatter_does_not() {
    let site = site().await;
    squat(&site).await;
    let (squatter, refresh) = pair(&login(&site, EMAIL, "the password of a squatter").await);
    assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    let [first, second] = &mails(&site)[..] else { panic!("there must be two mails") };
    let confirm = async |mail: &str| post(&site, "/auth/confirm", json!({"token": token(mail)})).await.status;
    assert_eq!(confirm(first).await, StatusCode::BAD_REQUEST, "the account of the squatter is gone");
    assert_eq!(confirm(second).await, StatusCode::NO_CONTENT);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK);
    assert_eq!(login(&site, EMAIL, "the password of a squatter").await.status, StatusCode::UNAUTHORIZED);
    let me = ask(&site, Some(&squatter), Method::GET, "/auth/me", None).await;
    assert_eq!(me.status, StatusCode::UNAUTHORIZED);
    let renewed = post(&site, "/auth/refresh", json!({"refresh_token": refresh})).await;
    assert_eq!(renewed.status, StatusCode::UNAUTHORIZED);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_password_that_is_given_with_the_confirmation_is_the_one_that_counts() {
    let site = site().await;
    squat(&site).await;
    let (squatter, _) = pair(&login(&site, EMAIL, "the password of a squatter").await);
    let [mail] = &mails(&site)[..] else { panic!("there must be one mail") };
    let confirm = async |password: &str| {
        let form = json!({"token": token(mail), "password": password});
        post(&site, "/auth/confirm", form).await
    };
    let weak = confirm("short").await;
    assert_eq!(reported(&weak), (StatusCode::BAD_REQUEST, "the password must have at least 10 characters"));
    assert_eq!(confirm(PASSWORD).await.status, StatusCode::NO_CONTENT);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK);
    assert_eq!(login(&site, EMAIL, "the password of a squatter").await.status, StatusCode::UNAUTHORIZED);
    let me = ask(&site, Some(&squatter), Method::GET, "/auth/me", None).await;
    assert_eq!(me.status, StatusCode::UNAUTHORIZED, "all sessions end");
}

#[tokio::test]
async fn an_address_is_not_flooded_with_mails_by_registrations() {
    let site = site().await;
    for _ in 0..7 {
        assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    }
    assert_eq!(mails(&site).len(), 5);
    site.clock.advance(LOCK);
    assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    assert_eq!(mails(&site).len(), 6);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_solution_opens_one_account() {
    let site = site().await;
    let form = async |email: &str, challenge: &str| {
        let form = json!({"email": email, "password": PASSWORD, "challenge": challenge});
        post(&site, "/auth/register", form).await
    };
    let used = "the challenge's solution was used before, ask for a new challenge";
    let challenge = solution(&site).await;
    assert_eq!(form(EMAIL, &challenge).await.status, StatusCode::CREATED);
    assert_eq!(reported(&form("b@example.com", &challenge).await), (StatusCode::BAD_REQUEST, used));
    let challenge = solution(&site).await;
    assert_eq!(form(EMAIL, &challenge).await.status, StatusCode::CREATED);
    let answer = form("b@example.com", &challenge).await;
    assert_eq!(reported(&answer), (StatusCode::BAD_REQUEST, used), "nor does it reveal who has an account");
    let late = solution(&site).await;
    site.clock.advance(LIFE);
    let expired = "the challenge has expired, ask for a new one";
    assert_eq!(reported(&form("b@example.com", &late).await), (StatusCode::BAD_REQUEST, expired));
    assert_eq!(form("b@example.com", "bm9uZQ==").await.status, StatusCode::BAD_REQUEST);
    assert!(site.app.store.user_by_email("b@example.com").await.unwrap().is_none());
}

#[tokio::test]
async fn an_invalid_registration_is_refused_with_the_reason_and_creates_nothing() {
    let site = site().await;
    let good =
        json!({"email": EMAIL, "password": PASSWORD, "name": "Ada", "challenge": solution(&site).await});
    for (field, value, text) in [
        ("email", json!("ada"), "the e-mail address must be of the form name@example.com"),
        ("email", json!(7), "`email` must be a string"),
        ("password", json!("short"), "the password must have at least 10 characters"),
        ("password", json!(null), "`password` must be a string"),
        ("name", json!("a\r\nb"), "`name` must not contain control characters"),
        ("challenge", json!("x"), "the challenge's solution is malformed"),
        (
            "role",
            json!("owner"),
            "unknown field `role`: expected one of `email`, `password`, `name`, `challenge`",
        ),
        (
            "confirmed_at",
            json!(1),
            "unknown field `confirmed_at`: expected one of `email`, `password`, `name`, `challenge`",
        ),
    ] {
        let mut form = good.clone();
        form[field] = value;
        assert_eq!(reported(&post(&site, "/auth/register", form).await), (StatusCode::BAD_REQUEST, text));
    }
    assert!(site.app.store.user_by_email(EMAIL).await.unwrap().is_none());
    assert_eq!((mails(&site).len(), site.app.passwords.computed()), (0, 0));
    assert_eq!(post(&site, "/auth/register", good).await.status, StatusCode::CREATED, "it is not used up");
}

#[tokio::test]
async fn a_lost_mail_is_sent_again_with_a_limit() {
    let site = site().await;
    register(&site, EMAIL).await;
    let (access, _) = tokens(&site, EMAIL).await;
    let again =
        async |access: &str| ask(&site, Some(access), Method::POST, "/auth/me/confirmation", None).await;
    let confirm = async |token: &str| post(&site, "/auth/confirm", json!({"token": token})).await.status;
    assert_eq!(again(&access).await.status, StatusCode::NO_CONTENT);
    let mut sent: Vec<_> = mails(&site).iter().map(|mail| token(mail)).collect();
    assert_eq!(sent.len(), 2);
    for _ in 0..4 {
        assert_eq!(again(&access).await.status, StatusCode::NO_CONTENT);
    }
    let answer = again(&access).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers[RETRY_AFTER], (LOCK.as_secs() + 1).to_string());
    assert_eq!(mails(&site).len(), 6);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK, "it is no lock of the account");

    site.clock.advance(CONFIRMATION_LIFE);
    for old in &sent {
        assert_eq!(confirm(old).await, StatusCode::BAD_REQUEST);
    }
    let (access, _) = tokens(&site, EMAIL).await;
    assert_eq!(again(&access).await.status, StatusCode::NO_CONTENT);
    sent = mails(&site).iter().map(|mail| token(mail)).collect();
    let newest = sent.pop().unwrap();
    for old in &sent {
        assert_eq!(confirm(old).await, StatusCode::BAD_REQUEST, "only the newest is good");
    }
    assert_eq!(confirm(&newest).await, StatusCode::NO_CONTENT);
    assert_eq!(again(&access).await.status, StatusCode::CONFLICT);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_link_is_valid_until_it_expires_and_only_for_its_purpose() {
    let site = site().await;
    register(&site, EMAIL).await;
    let (_, refresh) = tokens(&site, EMAIL).await;
    let confirm = async |token: &str| post(&site, "/auth/confirm", json!({"token": token})).await.status;
    for strange in ["", "rpcgc_", &refresh] {
        assert_eq!(confirm(strange).await, StatusCode::BAD_REQUEST);
    }
    site.clock.advance(CONFIRMATION_LIFE - Duration::from_secs(1));
    assert_eq!(confirm(&token(&mails(&site)[0])).await, StatusCode::NO_CONTENT);
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap();
    assert_eq!(user.confirmed_at, Some(NOON.plus(CONFIRMATION_LIFE - Duration::from_secs(1))));
}

// Shows (Accounts and second factors): Log-ins and registrations together are limited per minute and client; then 429
// with `Retry-After`.
#[tokio::test]
async fn the_attempts_of_a_client_are_limited_for_all_operations_together() {
    let site = Site::of("[admin.challenge]\ndifficulty = 50\n").await;
    for n in 0..9 {
        let answer = login(&site, &format!("u{n}@example.com"), PASSWORD).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    let computed = site.app.passwords.computed();
    for answer in [login(&site, EMAIL, PASSWORD).await, register(&site, "b@example.com").await] {
        assert_eq!(reported(&answer), (StatusCode::TOO_MANY_REQUESTS, "too many attempts, try again later"));
        assert_eq!(answer.headers[RETRY_AFTER], "60");
    }
    assert_eq!(site.app.passwords.computed(), computed, "no password was looked at");
    let form = json!({"email": EMAIL, "password": PASSWORD}).to_string();
    let mut request = http::Request::post("/api/v1/auth/login").body(Body::from(form)).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 2], 9))));
    assert_eq!(site.send(request).await.status, StatusCode::OK, "others are not held");
    site.clock.advance(Duration::from_secs(60));
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK);
}

// Shows (Mails and notifications): An unreachable mail server fails no request.
#[tokio::test]
async fn an_unavailable_mailer_fails_no_request_and_is_retried() {
    let site = site().await;
    register(&site, EMAIL).await;
    std::fs::remove_dir_all(&site.app.settings.config.admin.mail.outbox).unwrap();
    for email in [EMAIL, "b@example.com"] {
        let answer = register(&site, email).await;
        assert_eq!(answer.status, StatusCode::CREATED);
    }
    std::fs::create_dir(&site.app.settings.config.admin.mail.outbox).unwrap();
    site.send_mails().await;
    assert_eq!(mails(&site).len(), 0, "it is not its time yet");
    site.clock.advance(Duration::from_secs(10));
    site.send_mails().await;
    assert_eq!(mails(&site).len(), 2);
}
