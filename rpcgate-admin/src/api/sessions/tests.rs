use crate::api::accounts::tests::{EMAIL, PASSWORD, ask, login, pair, post, register, site, tokens};
use crate::testing::fixtures::error_body;
use crate::testing::{ApiAnswer, NOON, Site};
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{AUTHORIZATION, RETRY_AFTER, USER_AGENT};
use http::{Method, StatusCode};
use rpcgate_store::{ATTEMPTS, Attempt, AttemptKind, AuditSubject, LOCK, UserId};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

async fn account() -> Site {
    let site = site().await;
    assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    site
}

async fn me(site: &Site, token: &str) -> StatusCode {
    ask(site, Some(token), Method::GET, "/auth/me", None).await.status
}

async fn refresh(site: &Site, token: &str) -> ApiAnswer {
    post(site, "/auth/refresh", json!({"refresh_token": token})).await
}

fn reported(answer: &ApiAnswer) -> (StatusCode, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or_default())
}

async fn user(site: &Site) -> UserId {
    site.app.store.user_by_email(EMAIL).await.unwrap().unwrap().id
}

async fn actions(site: &Site) -> Vec<String> {
    let entries = site.app.store.audit(AuditSubject::User(user(site).await), 100).await.unwrap();
    entries.into_iter().map(|entry| entry.action).collect()
}

// Shows (Accounts and second factors): A log-in returns a token, its lifetime and a refresh token.
#[tokio::test]
async fn a_log_in_returns_tokens_for_the_api() {
    let site = account().await;
    let answer = login(&site, "ADA@example.com", PASSWORD).await;
    assert_eq!((answer.status, &answer.body["expires_in"]), (StatusCode::OK, &json!(900)));
    assert_eq!(answer.body.as_object().unwrap().len(), 3);
    assert_eq!(answer.headers[http::header::CACHE_CONTROL], "no-store");
    assert_eq!(me(&site, &pair(&answer).0).await, StatusCode::OK);
    let more = json!({"email": EMAIL, "password": PASSWORD, "remember": true});
    let answer = post(&site, "/auth/login", more).await;
    assert_eq!(
        reported(&answer),
        (StatusCode::BAD_REQUEST, "unknown field `remember`: expected `email` or `password`")
    );
    let answer = post(&site, "/auth/login", json!({"email": EMAIL})).await;
    assert_eq!(reported(&answer), (StatusCode::BAD_REQUEST, "`password` is missing"));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_wrong_password_and_an_unknown_address_look_the_same() {
    let site = account().await;
    // An account without a password cannot be logged in to either.
    let locked = site.member(rpcgate_store::Role::Owner).await;
    let mut answers = Vec::new();
    for (email, password) in [
        (EMAIL, "correct horse battery stapler"),
        ("unknown@example.com", PASSWORD),
        ("nobody", PASSWORD),
        (locked.user.email.as_str(), ""),
        (EMAIL, &"x".repeat(9_000)),
    ] {
        let before = site.app.passwords.computed();
        let answer = login(&site, email, password).await;
        assert_eq!(site.app.passwords.computed() - before, 1, "{email}");
        let names: Vec<_> = answer.headers.keys().map(ToString::to_string).collect();
        answers.push((answer.status, answer.body, names));
    }
    assert_eq!(answers[0].0, StatusCode::UNAUTHORIZED);
    assert_eq!(answers[0].1, error_body("credentials_wrong", "the e-mail address or the password is wrong"));
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

// Shows (Accounts and second factors): Five wrong passwords lock an address for a while, whether it has an account or
// not.
#[tokio::test]
async fn wrong_passwords_lock_an_address_for_a_while_with_or_without_an_account() {
    let site = account().await;
    let locked = (StatusCode::FORBIDDEN, "account temporarily locked");
    for email in [EMAIL, "unknown@example.com"] {
        for _ in 0..ATTEMPTS {
            assert_eq!(login(&site, email, "a wrong password").await.status, StatusCode::UNAUTHORIZED);
        }
        let before = site.app.passwords.computed();
        assert_eq!(reported(&login(&site, email, PASSWORD).await), locked, "the right one does not help");
        assert_eq!(site.app.passwords.computed(), before);
    }
    site.clock.advance(LOCK - Duration::from_secs(1));
    assert_eq!(reported(&login(&site, &EMAIL.to_uppercase(), PASSWORD).await), locked);
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_right_password_resets_the_attempts() {
    let site = account().await;
    for _ in 0..3 {
        for _ in 1..ATTEMPTS {
            assert_eq!(login(&site, EMAIL, "a wrong password").await.status, StatusCode::UNAUTHORIZED);
        }
        assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK);
    }
}

// Shows (Accounts and second factors): Parallel guesses do not circumvent the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_guesses_at_once_get_no_further_than_one_after_another() {
    let site = std::sync::Arc::new(account().await);
    let mut answers = Vec::new();
    for email in [EMAIL, "unknown@example.com"] {
        let before = site.app.passwords.computed();
        let mut guesses = tokio::task::JoinSet::new();
        for n in 0..200 {
            let site = site.clone();
            guesses.spawn(async move { login(&site, email, &format!("guess number {n}")).await });
        }
        let mut guesses = guesses.join_all().await;
        guesses.sort_by_key(|guess| guess.status);
        let (wrong, locked) = guesses.split_at(ATTEMPTS as usize);
        for (guesses, status) in [(wrong, StatusCode::UNAUTHORIZED), (locked, StatusCode::FORBIDDEN)] {
            let statuses: Vec<_> = guesses.iter().map(|guess| guess.status).collect();
            assert!(statuses.iter().all(|other| *other == status), "{email} {statuses:?}");
            assert!(guesses.iter().all(|guess| guess.body == guesses[0].body), "{email}");
        }
        assert_eq!(site.app.passwords.computed() - before, ATTEMPTS);
        answers.push((wrong[0].body.clone(), locked[0].body.clone()));
    }
    assert_eq!(answers[0], answers[1], "an address without an account looks the same");
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn log_ins_to_many_accounts_at_once_are_checked_or_may_come_again() {
    let site = std::sync::Arc::new(account().await);
    let mut guesses = tokio::task::JoinSet::new();
    for n in 0..200 {
        let site = site.clone();
        guesses.spawn(async move { login(&site, &format!("u{n}@example.com"), PASSWORD).await.status });
    }
    let statuses = guesses.join_all().await;
    let expected = [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS];
    assert!(statuses.iter().all(|status| expected.contains(status)), "{statuses:?}");
    assert!(statuses.contains(&StatusCode::UNAUTHORIZED), "{statuses:?}");
}

#[tokio::test]
async fn an_attempt_without_a_free_slot_does_not_count() {
    let site = account().await;
    let passwords = site.app.passwords.clone();
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let passwords = passwords.clone();
        crowd.spawn(async move {
            loop {
                let password = rpcgate_management::identity::password::Password::new(PASSWORD).unwrap();
                drop(passwords.hash(password).await);
                tokio::task::yield_now().await;
            }
        });
    }
    let mut refused = None;
    for n in 0..100 {
        let email = format!("u{n}@example.com");
        let answer = login(&site, &email, PASSWORD).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            refused = Some((email, answer));
            break;
        }
    }
    crowd.shutdown().await;
    let (email, answer) = refused.unwrap();
    assert_eq!(answer.headers[RETRY_AFTER], "2");
    for _ in 0..ATTEMPTS {
        let attempt = site.app.store.begin_attempt(AttemptKind::LogIns(&email), NOON).await.unwrap();
        assert!(matches!(attempt, Attempt::Allowed(_)));
    }
    let attempt = site.app.store.begin_attempt(AttemptKind::LogIns(&email), NOON).await.unwrap();
    assert!(matches!(attempt, Attempt::Locked(_)));
}

#[tokio::test]
async fn a_failed_log_in_is_recorded_for_the_account() {
    let site = account().await;
    site.clock.advance(Duration::from_secs(1));
    login(&site, EMAIL, "a wrong password").await;
    login(&site, "unknown@example.com", "a wrong password").await;
    // The entry is written after the client has got its answer.
    for _ in 0..1_000 {
        if actions(&site).await.len() > 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(actions(&site).await, ["login.failed", "account.registered"]);
}

// Shows (Accounts and second factors): Refresh tokens rotate; using one again ends the session.
#[tokio::test]
async fn a_session_is_renewed_with_a_token_that_is_good_once() {
    let site = account().await;
    let (_, first) = tokens(&site, EMAIL).await;
    site.clock.advance(Duration::from_secs(3_600));
    let answer = refresh(&site, &first).await;
    assert_eq!((answer.status, &answer.body["expires_in"]), (StatusCode::OK, &json!(900)));
    let (access, second) = pair(&answer);
    assert_eq!(me(&site, &access).await, StatusCode::OK);
    assert_ne!(first, second);
    let (other, _) = tokens(&site, EMAIL).await;

    let refused = "the refresh token is not valid or has expired";
    for used in [&first, &first, &second] {
        assert_eq!(reported(&refresh(&site, used).await), (StatusCode::UNAUTHORIZED, refused));
    }
    assert_eq!(me(&site, &access).await, StatusCode::UNAUTHORIZED, "the whole family has ended");
    assert_eq!(me(&site, &other).await, StatusCode::OK, "and no other");
    assert!(actions(&site).await.contains(&"session.token_reused".to_owned()));
    for strange in ["", "x", "rpcgr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &access] {
        assert_eq!(reported(&refresh(&site, strange).await), (StatusCode::UNAUTHORIZED, refused));
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn at_most_one_of_two_parallel_refreshes_succeeds() {
    let site = account().await;
    let (_, token) = tokens(&site, EMAIL).await;
    let (a, b) = tokio::join!(refresh(&site, &token), refresh(&site, &token));
    let mut statuses = [a.status, b.status];
    statuses.sort();
    assert_eq!(statuses, [StatusCode::OK, StatusCode::UNAUTHORIZED]);
    let winner = if a.status == StatusCode::OK { a } else { b };
    assert_eq!(me(&site, &pair(&winner).0).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_refresh_token_that_is_not_used_ends_with_its_time() {
    let site = account().await;
    let (_, token) = tokens(&site, EMAIL).await;
    site.clock.advance(site.app.settings.refresh_ttl);
    assert_eq!(refresh(&site, &token).await.status, StatusCode::UNAUTHORIZED);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_log_out_takes_effect_at_once_here_or_everywhere() {
    let site = account().await;
    let (a, a_refresh) = tokens(&site, EMAIL).await;
    let (b, b_refresh) = tokens(&site, EMAIL).await;
    let (c, _) = tokens(&site, EMAIL).await;
    site.clock.advance(Duration::from_secs(1));
    let leave =
        async |path: &str, token: &str| ask(&site, Some(token), Method::POST, path, None).await.status;
    assert_eq!(leave("/auth/logout", &a).await, StatusCode::NO_CONTENT);
    assert_eq!(me(&site, &a).await, StatusCode::UNAUTHORIZED);
    assert_eq!(refresh(&site, &a_refresh).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(leave("/auth/logout", &a).await, StatusCode::UNAUTHORIZED);
    assert_eq!((me(&site, &b).await, me(&site, &c).await), (StatusCode::OK, StatusCode::OK));
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(leave("/auth/logout-all", &b).await, StatusCode::NO_CONTENT);
    for token in [&b, &c] {
        assert_eq!(me(&site, token).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(refresh(&site, &b_refresh).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(actions(&site).await[..2], ["session.all_ended", "session.ended"]);
}

// Shows (Accounts and second factors): A log-out needs only the refresh token.
#[tokio::test]
async fn a_refresh_token_alone_suffices_to_log_out() {
    let site = account().await;
    let (a, a_refresh) = tokens(&site, EMAIL).await;
    let (b, _) = tokens(&site, EMAIL).await;
    let leave = async |body: Option<Value>| ask(&site, None, Method::POST, "/auth/logout", body).await.status;
    assert_eq!(leave(None).await, StatusCode::UNAUTHORIZED);
    assert_eq!(leave(Some(json!({}))).await, StatusCode::BAD_REQUEST);
    assert_eq!(leave(Some(json!({"refresh_token": a_refresh}))).await, StatusCode::NO_CONTENT);
    assert_eq!(me(&site, &a).await, StatusCode::UNAUTHORIZED);
    assert_eq!(me(&site, &b).await, StatusCode::OK);
    assert_eq!(refresh(&site, &a_refresh).await.status, StatusCode::UNAUTHORIZED);
    for unknown in [a_refresh.as_str(), "rpcgr_x", ""] {
        let reported = leave(Some(json!({"refresh_token": unknown}))).await;
        assert_eq!(reported, StatusCode::NO_CONTENT, "there is no such session any more");
    }
    assert_eq!(actions(&site).await[0], "session.ended");
}

#[tokio::test]
async fn sessions_are_listed_and_ended_by_their_users() {
    let site = account().await;
    register(&site, "eve@example.com").await;
    let (old, _) = tokens(&site, EMAIL).await;
    site.clock.advance(Duration::from_millis(1_500));
    let (new, _) = tokens(&site, EMAIL).await;
    let (eve, _) = tokens(&site, "eve@example.com").await;
    let list = async |token: &str| ask(&site, Some(token), Method::GET, "/auth/sessions", None).await.body;
    let end = async |token: &str, id: &Value| {
        let path = format!("/auth/sessions/{}", id.as_str().unwrap());
        ask(&site, Some(token), Method::DELETE, &path, None).await.status
    };
    let own = list(&new).await;
    assert_eq!(own.as_array().unwrap().len(), 2);
    assert_eq!((&own[0]["current"], &own[1]["current"]), (&json!(true), &json!(false)));
    assert_eq!(own[0]["created_at"], "2026-12-31T12:00:01.500Z");
    assert_eq!(own[1]["created_at"], "2026-12-31T12:00:00.000Z");
    assert_eq!(own[1]["address"], "192.0.2.1");
    let id = &own[1]["id"];
    assert_eq!(end(&eve, id).await, StatusCode::NOT_FOUND);
    assert_eq!(end(&eve, &json!("1")).await, StatusCode::NOT_FOUND);
    assert_eq!(me(&site, &old).await, StatusCode::OK);
    assert_eq!(end(&new, id).await, StatusCode::NO_CONTENT);
    assert_eq!(me(&site, &old).await, StatusCode::UNAUTHORIZED);
    assert_eq!(end(&new, id).await, StatusCode::NOT_FOUND);
    assert_eq!(list(&new).await.as_array().unwrap().len(), 1);
}

// Shows (Accounts and second factors): Sessions show their device, their addresses and their last use, and what the
// user logged in with.
#[tokio::test]
async fn a_session_shows_its_device_its_last_address_and_its_last_use() {
    let site = account().await;
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let request = |method, path: &str, token: &str, address: [u8; 4]| {
        let request = http::Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = request.header(USER_AGENT, agent).header(AUTHORIZATION, format!("Bearer {token}"));
        request.extension(ConnectInfo(SocketAddr::from((address, 9))))
    };
    let form = json!({"email": EMAIL, "password": PASSWORD}).to_string();
    let login = request(Method::POST, "/auth/login", "", [192, 0, 2, 1]).body(form.into()).unwrap();
    let (token, _) = pair(&site.send(login).await);
    let listed = async |address| {
        let list = request(Method::GET, "/auth/sessions", &token, address).body(Body::empty()).unwrap();
        site.send(list).await.body[0].clone()
    };
    let first = listed([192, 0, 2, 1]).await;
    assert_eq!((&first["device"], &first["agent"]), (&json!("Firefox on Linux"), &json!(agent)));
    assert_eq!((&first["address"], &first["seen_address"]), (&json!("192.0.2.1"), &json!("192.0.2.1")));
    assert_eq!((&first["method"], &first["seen_at"]), (&json!("password"), &first["created_at"]));
    site.clock.advance(Duration::from_secs(299));
    assert_eq!(listed([192, 0, 2, 1]).await, first, "it is noted every five minutes");
    site.clock.advance(Duration::from_secs(1));
    let second = listed([192, 0, 2, 1]).await;
    assert_eq!(second["seen_at"], "2026-12-31T12:05:00.000Z");
    assert_eq!(second["created_at"], first["created_at"]);
    let moved = listed([198, 51, 100, 7]).await;
    assert_eq!((&moved["address"], &moved["seen_address"]), (&json!("192.0.2.1"), &json!("198.51.100.7")));
}
