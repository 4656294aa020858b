use super::*;
use crate::{AuditSubject, LogInMethod, Rotation, Session, SessionId, SessionLifetimes};

const HASH: &str = "$argon2id$secret";
const TTL: u64 = 30 * 86_400;
const LIVES: SessionLifetimes =
    SessionLifetimes { idle: Duration::from_secs(TTL), absolute: Duration::from_secs(3 * TTL) };

fn token(text: &str) -> Digest {
    Digest::of(text)
}

fn session(id: u128, at: Time) -> Session {
    Session {
        id: SessionId(id),
        user: UserId(1),
        created_at: at,
        seen_at: at,
        expires_at: at.plus(Duration::from_secs(TTL)),
        address: "192.0.2.1".into(),
        agent: "curl".into(),
        method: LogInMethod::Password,
        factor_at: None,
        proved_at: None,
        seen_address: "192.0.2.1".into(),
    }
}

fn confirmed(id: u128) -> User {
    User { confirmed_at: Some(now()), ..user(id, &format!("{id}@b.example")) }
}

/// A store with two users, who have no session.
async fn with_users() -> (TestDatabase, Store) {
    let (dir, store) = empty().await;
    store.create_user(&confirmed(1)).await.unwrap();
    store.create_user(&confirmed(2)).await.unwrap();
    (dir, store)
}

async fn open(store: &Store, session: &Session, refresh: &str) {
    let entry = entry("session.opened");
    assert!(store.open_session(session, &token(refresh), HASH, &entry).await.unwrap());
}

async fn rotate(store: &Store, old: &str, new: &str, now: Time) -> Rotation {
    store.rotate(&token(old), &token(new), LIVES, &entry("session.reused"), now).await.unwrap()
}

async fn is_open(store: &Store, id: u128) -> bool {
    store.session(SessionId(id), now()).await.unwrap().is_some()
}

#[tokio::test]
async fn a_session_lives_as_long_as_it_is_refreshed() {
    let (_dir, store) = with_users().await;
    open(&store, &session(1, now()), "a").await;
    let expected = (session(1, now()), confirmed(1));
    assert_eq!(store.session(SessionId(1), later(TTL - 1)).await.unwrap(), Some(expected.clone()));
    assert_eq!(store.session(SessionId(1), later(TTL)).await.unwrap(), None);
    assert_eq!(store.session(SessionId(2), now()).await.unwrap(), None);
    let at = later(TTL - 1);
    let refreshed = Session { seen_at: at, expires_at: at.plus(Duration::from_secs(TTL)), ..expected.0 };
    let done = Rotation::Done(refreshed.clone(), expected.1.clone());
    assert_eq!(rotate(&store, "a", "b", at).await, done);
    assert_eq!(
        store.session(SessionId(1), later(TTL + 1)).await.unwrap(),
        Some((refreshed.clone(), expected.1))
    );
    assert_eq!(store.sessions(UserId(1), later(TTL + 1)).await.unwrap(), [refreshed]);
    assert_eq!(rotate(&store, "b", "c", later(2 * TTL)).await, Rotation::Unknown, "too late");
    assert_eq!(rotate(&store, "never", "c", at).await, Rotation::Unknown);
}

// Shows (Accounts and second factors): A session ends at its limit even if it is renewed.
#[tokio::test]
async fn a_session_ends_on_time_even_if_it_is_renewed() {
    let (_dir, store) = with_users().await;
    open(&store, &session(1, now()), "0").await;
    let renew = async |number: u64, second| {
        rotate(&store, &(number - 1).to_string(), &number.to_string(), later(second)).await
    };
    for number in 1..=3 {
        let at = number * (TTL - 1);
        let Rotation::Done(session, _) = renew(number, at).await else { panic!("{number}") };
        assert_eq!(session.expires_at, later((at + TTL).min(3 * TTL)));
    }
    assert!(store.session(SessionId(1), later(3 * TTL - 1)).await.unwrap().is_some());
    assert_eq!(store.session(SessionId(1), later(3 * TTL)).await.unwrap(), None);
    assert_eq!(renew(4, 3 * TTL).await, Rotation::Unknown);
    // A shorter lifetime in the configuration ends sessions that are already older.
    let shorter = SessionLifetimes { absolute: Duration::from_secs(9), ..LIVES };
    let late = later(3 * TTL - 1);
    let ended = store.rotate(&token("3"), &token("x"), shorter, &entry("session.reused"), late).await;
    assert_eq!(ended.unwrap(), Rotation::Unknown);
    assert_eq!(rows(&store, "sessions").await, 0);
}

#[tokio::test]
async fn a_reused_token_ends_only_its_own_session() {
    let (_dir, store) = with_users().await;
    open(&store, &session(1, now()), "a").await;
    open(&store, &session(2, now()), "other").await;
    rotate(&store, "a", "b", now()).await;
    rotate(&store, "b", "c", now()).await;
    let noted = store.audit(AuditSubject::User(UserId(1)), 99).await.unwrap();
    assert!(noted.iter().all(|entry| entry.action != "session.reused"));
    assert!(matches!(rotate(&store, "a", "d", now()).await, Rotation::Reused(_)));
    assert_eq!((is_open(&store, 1).await, is_open(&store, 2).await), (false, true));
    for old in ["a", "b", "c", "d"] {
        assert_eq!(rotate(&store, old, "e", now()).await, Rotation::Unknown, "{old}");
    }
    assert!(matches!(rotate(&store, "other", "f", now()).await, Rotation::Done(..)));
    let noted = store.audit(AuditSubject::User(UserId(1)), 99).await.unwrap();
    let [reused] = &noted[..] else { panic!("{noted:?}") };
    assert_eq!((&*reused.action, reused.tenant), ("session.reused", Some(TENANT)), "it is filled in whose");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_uses_of_a_refresh_token_succeeds_and_the_session_ends() {
    let (dir, store) = with_users().await;
    let second = dir.store_within(Duration::from_secs(60)).await.unwrap();
    open(&store, &session(1, now()), "a").await;
    let done = at_once(20, |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move { rotate(&store, "a", &format!("new {number}"), now()).await }
    });
    let done = done.await;
    let count = |is: fn(&Rotation) -> bool| done.iter().filter(|done| is(done)).count();
    assert_eq!(count(|done| matches!(done, Rotation::Done(..))), 1);
    assert_eq!(
        count(|done| matches!(done, Rotation::Reused(_))),
        1,
        "the second; the others find no session"
    );
    assert!(!is_open(&store, 1).await);
    assert_eq!(rows(&store, "refreshes").await, 0);
    for number in 0..20 {
        assert_eq!(rotate(&store, &format!("new {number}"), "x", now()).await, Rotation::Unknown);
    }
}

#[tokio::test]
async fn a_new_token_must_be_new() {
    let (_dir, store) = with_users().await;
    open(&store, &session(1, now()), "a").await;
    let error =
        store.rotate(&token("a"), &token("a"), LIVES, &entry("session.reused"), now()).await.unwrap_err();
    assert_eq!(error.to_string(), "there is already a refresh token with this text");
    assert!(matches!(rotate(&store, "a", "b", now()).await, Rotation::Done(..)), "nothing had happened");
}

#[tokio::test]
async fn a_session_with_too_many_refresh_tokens_ends() {
    let (_dir, store) = with_users().await;
    open(&store, &session(1, now()), "a").await;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9998) \
                INSERT INTO refreshes SELECT randomblob(32), (SELECT id FROM sessions), \
                (SELECT expires_at FROM sessions), true FROM n";
    fill(&store, sql).await;
    assert!(matches!(rotate(&store, "a", "b", now()).await, Rotation::Done(..)));
    assert_eq!(rows(&store, "refreshes").await, 10_000);
    assert_eq!(rotate(&store, "b", "c", now()).await, Rotation::Unknown);
    assert!(!is_open(&store, 1).await);
    assert_eq!(rows(&store, "refreshes").await, 0);
}

#[tokio::test]
async fn used_tokens_are_forgotten_when_they_would_have_expired() {
    let (_dir, store) = with_users().await;
    open(&store, &session(1, now()), "a").await;
    rotate(&store, "a", "b", later(TTL - 1)).await;
    assert_eq!(rows(&store, "refreshes").await, 2);
    rotate(&store, "b", "c", later(TTL)).await;
    assert_eq!(rows(&store, "refreshes").await, 2, "b and c");
    assert_eq!(rotate(&store, "a", "d", later(TTL)).await, Rotation::Unknown);
    assert!(store.session(SessionId(1), later(TTL)).await.unwrap().is_some());
}

#[tokio::test]
async fn sessions_are_ended_one_by_one_or_all_but_one() {
    let (_dir, store) = with_users().await;
    for number in 1..=4 {
        open(&store, &session(number, later(number as u64)), &number.to_string()).await;
    }
    let strange = Session { user: UserId(2), ..session(5, now()) };
    open(&store, &strange, "5").await;
    let open = async || {
        let sessions = store.sessions(UserId(1), now()).await.unwrap();
        sessions.into_iter().map(|session| session.id.0).collect::<Vec<_>>()
    };
    assert_eq!(open().await, [4, 3, 2, 1], "the newest first");
    let gone = store.end_session(UserId(2), SessionId(1)).await.unwrap_err();
    assert_eq!(gone.to_string(), "there is no such session", "it is another user's");
    store.end_session(UserId(1), SessionId(1)).await.unwrap();
    assert!(store.end_session(UserId(1), SessionId(1)).await.is_err());
    assert_eq!(rotate(&store, "1", "x", now()).await, Rotation::Unknown);
    assert_eq!(store.end_sessions(UserId(1), Some(SessionId(3))).await.unwrap(), 2);
    assert_eq!(open().await, [3]);
    assert_eq!(store.end_sessions(UserId(1), None).await.unwrap(), 1);
    assert_eq!(store.end_sessions(UserId(1), None).await.unwrap(), 0);
    assert!(is_open(&store, 5).await, "another user's");
    assert_eq!(rows(&store, "refreshes").await, 1);
}

#[tokio::test]
async fn the_oldest_session_is_removed_for_a_new_one() {
    let (_dir, store) = with_users().await;
    for number in 0..101 {
        open(&store, &session(number, later(number as u64)), &number.to_string()).await;
    }
    let open = store.sessions(UserId(1), later(0)).await.unwrap();
    assert_eq!((open.len(), open.last().unwrap().id), (100, SessionId(1)));
    assert_eq!(rows(&store, "refreshes").await, 100);
}

#[tokio::test]
async fn a_changed_password_ends_all_other_sessions() {
    let (_dir, store) = with_users().await;
    for number in 1..=3 {
        open(&store, &session(number, now()), &number.to_string()).await;
    }
    let change = async |old: &str, new: &str, keep| {
        let entry = Audit { user: Some(UserId(1)), ..entry("password.changed") };
        store.change_password(UserId(1), old, new, keep, &entry).await.unwrap()
    };
    assert!(!change("$argon2id$other", "$new", None).await, "the old one is another");
    assert!(
        is_open(&store, 1).await && store.audit(AuditSubject::User(UserId(1)), 9).await.unwrap().is_empty()
    );
    assert!(change(HASH, "$new", Some(SessionId(2))).await);
    assert_eq!(store.user(UserId(1)).await.unwrap().unwrap().password.as_deref(), Some("$new"));
    assert_eq!(store.user(UserId(2)).await.unwrap().unwrap().password.as_deref(), Some(HASH));
    let open: Vec<_> = store.sessions(UserId(1), now()).await.unwrap().into_iter().map(|s| s.id.0).collect();
    assert_eq!(open, [2]);
    assert_eq!(store.audit(AuditSubject::User(UserId(1)), 9).await.unwrap().len(), 1);
    assert!(change("$new", "$newer", None).await);
    assert!(!is_open(&store, 2).await);
}

#[tokio::test]
async fn a_password_can_be_set_without_the_old_one() {
    let (_dir, store) = with_users().await;
    store.create_user(&User { password: None, ..confirmed(3) }).await.unwrap();
    open(&store, &session(1, now()), "a").await;
    for id in [1, 3] {
        store.set_password(UserId(id), "$new").await.unwrap();
        assert_eq!(store.user(UserId(id)).await.unwrap().unwrap().password.as_deref(), Some("$new"));
    }
    assert!(!is_open(&store, 1).await);
    assert_eq!(store.user(UserId(2)).await.unwrap().unwrap().password.as_deref(), Some(HASH));
    let error = store.set_password(UserId(9), "$new").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no such user");
}

#[tokio::test]
async fn a_log_in_with_a_just_changed_password_opens_nothing() {
    let (_dir, store) = with_users().await;
    let entry = entry("session.opened");
    store.change_password(UserId(1), HASH, "$new", None, &entry).await.unwrap();
    let noted = rows(&store, "audit").await;
    assert!(!store.open_session(&session(1, now()), &token("a"), HASH, &entry).await.unwrap());
    assert!(!is_open(&store, 1).await);
    assert_eq!(rows(&store, "audit").await, noted);
    assert!(store.open_session(&session(1, now()), &token("a"), "$new", &entry).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_changes_of_a_password_succeeds() {
    let (_dir, store) = with_users().await;
    let done = at_once(10, |number| {
        let store = store.clone();
        let entry = entry("password.changed");
        async move {
            let new = format!("$new {number}");
            store.change_password(UserId(1), HASH, &new, None, &entry).await.unwrap()
        }
    });
    assert_eq!(done.await.into_iter().filter(|done| *done).count(), 1);
}

#[tokio::test]
async fn ended_sessions_are_swept() {
    let (_dir, store) = with_users().await;
    open(&store, &session(1, now()), "a").await;
    open(&store, &session(2, now()), "b").await;
    rotate(&store, "a", "c", later(9)).await;
    assert_eq!(store.sweep(later(TTL - 1)).await.unwrap().sessions, 0);
    let swept = store.sweep(later(TTL)).await.unwrap();
    assert_eq!((swept.sessions, swept.refreshes), (1, 1), "the second with its token, and the used one");
    assert!(store.session(SessionId(1), later(TTL)).await.unwrap().is_some());
    assert_eq!(rows(&store, "refreshes").await, 1);
}

// Shows (Accounts and second factors): Tokens that were never issued cause no write (promise 68).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tokens_that_were_never_issued_wait_for_no_write_and_make_none() {
    let (_dir, store) = with_users().await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let writer = store.clone();
    let writing = tokio::spawn(async move {
        let held = async |_: &sea_orm::DatabaseTransaction| {
            begun.send(()).unwrap();
            released.await.unwrap();
            Ok(())
        };
        writer.transact(held).await
    });
    has_begun.await.unwrap();
    let refused = at_once(100, |number| {
        let store = store.clone();
        async move {
            let invented = format!("invented {number}");
            let confirmed = store.confirm(&token(&invented), None, &entry("account.confirmed"), now()).await;
            (rotate(&store, &invented, "new", now()).await, confirmed.unwrap())
        }
    });
    assert!(refused.await.iter().all(|(rotation, user)| *rotation == Rotation::Unknown && user.is_none()));
    release.send(()).unwrap();
    writing.await.unwrap().unwrap();
}
