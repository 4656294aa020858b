use super::*;
use crate::{
    AuditSubject, FACTOR_TRIES, FactorUse, Factors, LogInMethod, MAX_PENDING_LOG_INS, PENDING_LOG_IN_LIFE,
    Session, SessionId,
};
use std::borrow::Borrow;

const HASH: &str = "$argon2id$secret";
const ADA: UserId = UserId(1);
const BOB: UserId = UserId(2);

fn session(id: u128) -> Session {
    Session {
        id: SessionId(id),
        user: ADA,
        created_at: now(),
        seen_at: now(),
        expires_at: later(3_600),
        address: "192.0.2.1".into(),
        agent: "curl".into(),
        method: LogInMethod::Password,
        factor_at: None,
        proved_at: None,
        seen_address: "192.0.2.1".into(),
    }
}

fn second(id: u128, method: LogInMethod) -> Session {
    Session { method, ..session(id) }
}

fn code(number: u8) -> Digest {
    Digest([number; 32])
}

/// A store with two users, of whom the first has two sessions.
async fn with_users() -> (TestDatabase, Store) {
    let (dir, store) = empty().await;
    for (id, email) in [(1, "a@b.example"), (2, "b@b.example")] {
        let confirmed = User { confirmed_at: Some(now()), ..user(id, email) };
        store.create_user(&confirmed).await.unwrap();
    }
    for id in [1, 2] {
        open(&store, id).await;
    }
    (dir, store)
}

async fn open(store: &Store, id: u128) {
    let refresh = Digest::of(&id.to_string());
    assert!(store.open_session(&session(id), &refresh, HASH, &entry("session.opened")).await.unwrap());
}

async fn offer(store: &Store, user: UserId, sealed: &[u8]) -> bool {
    store.start_totp(user, sealed, &entry("totp.offered"), now()).await.unwrap()
}

async fn activate(store: &Store, sealed: &[u8], step: u64) -> bool {
    let codes = [code(1), code(2)];
    store.activate_totp((ADA, SessionId(1)), sealed, step, &codes, &entry("totp.activated")).await.unwrap()
}

/// The same with an app whose codes up to step 10 are used up.
async fn with_app() -> (TestDatabase, Store) {
    let (dir, store) = with_users().await;
    assert!(offer(&store, ADA, b"sealed").await);
    assert!(activate(&store, b"sealed", 10).await);
    (dir, store)
}

async fn begin(store: &Store, token: &str, at: Time) -> bool {
    let entry = Audit { at, ..entry("login.factor_asked") };
    store.begin_log_in(ADA, &Digest::of(token), HASH, &entry).await.unwrap()
}

async fn finish(store: &Store, token: &str, used: impl Borrow<FactorUse>, id: u128, at: Time) -> bool {
    let used = used.borrow();
    let entry = Audit { at, ..entry("session.opened") };
    let session = second(id, used.method());
    let refresh = Digest::of(&format!("refresh {id}"));
    store.finish_log_in(&Digest::of(token), used, &session, &refresh, &entry).await.unwrap()
}

async fn methods(store: &Store) -> Vec<(u128, LogInMethod)> {
    let sessions = store.sessions(ADA, now()).await.unwrap();
    let mut found: Vec<_> = sessions.into_iter().map(|session| (session.id.0, session.method)).collect();
    found.sort_by_key(|(id, _)| *id);
    found
}

#[tokio::test]
async fn an_app_is_a_factor_once_it_is_activated_and_then_other_sessions_end() {
    let (_dir, store) = with_users().await;
    assert!(store.totp(ADA).await.unwrap().is_none());
    assert!(offer(&store, ADA, b"first").await);
    assert!(offer(&store, ADA, b"second").await, "an offer replaces another");
    assert_eq!(store.factors(ADA).await.unwrap(), Factors::default());
    assert!(!activate(&store, b"first", 5).await, "of that offer nothing is left");
    assert_eq!(methods(&store).await.len(), 2);
    assert!(activate(&store, b"second", 5).await);
    assert!(!activate(&store, b"second", 6).await, "once");
    assert!(!offer(&store, ADA, b"third").await, "an active one is not replaced");
    assert_eq!(store.totp(ADA).await.unwrap().unwrap().sealed, b"second");
    let has = Factors { totp: true, passkeys: 0, recovery_codes: 2 };
    assert_eq!(store.factors(ADA).await.unwrap(), has);
    assert_eq!(store.factors(BOB).await.unwrap(), Factors::default());
    assert_eq!(methods(&store).await, [(1, LogInMethod::PasswordAndCode)]);
    let refresh = Digest::of("x");
    let opened = store.open_session(&session(9), &refresh, HASH, &entry("session.opened")).await.unwrap();
    assert!(!opened, "a password alone opens no session any more");
}

#[tokio::test]
async fn a_factor_and_the_token_of_a_log_in_work_once() {
    let (_dir, store) = with_app().await;
    let used = FactorUse::Code { step: 11 };
    for token in ["a", "b", "c", "d"] {
        assert!(begin(&store, token, now()).await);
    }
    assert!(!finish(&store, "unknown", &used, 3, now()).await);
    assert!(!finish(&store, "a", FactorUse::Code { step: 10 }, 3, now()).await, "used at the activation");
    assert!(finish(&store, "a", &used, 3, now()).await);
    assert!(!finish(&store, "a", FactorUse::Code { step: 12 }, 4, now()).await, "the log-in is finished");
    assert!(!finish(&store, "b", &used, 4, now()).await, "the code is used up");
    assert!(!finish(&store, "b", FactorUse::Code { step: 9 }, 4, now()).await, "so are earlier ones");
    assert!(finish(&store, "b", FactorUse::Code { step: 12 }, 4, now()).await, "a refusal uses up nothing");
    assert!(!finish(&store, "c", FactorUse::RecoveryCode(code(3)), 5, now()).await, "no code of the user");
    assert!(finish(&store, "c", FactorUse::RecoveryCode(code(1)), 5, now()).await);
    assert!(!finish(&store, "d", FactorUse::RecoveryCode(code(1)), 6, now()).await);
    assert_eq!(store.factors(ADA).await.unwrap().recovery_codes, 1);
    let expected = [
        (1, LogInMethod::PasswordAndCode),
        (3, LogInMethod::PasswordAndCode),
        (4, LogInMethod::PasswordAndCode),
        (5, LogInMethod::PasswordAndRecoveryCode),
    ];
    assert_eq!(methods(&store).await, expected);
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_fifty_parallel_log_ins_with_one_code_succeeds() {
    let (_dir, store) = with_app().await;
    for number in 0..MAX_PENDING_LOG_INS {
        assert!(begin(&store, &format!("token {number}"), now()).await);
    }
    for used in [FactorUse::Code { step: 11 }, FactorUse::RecoveryCode(code(2))] {
        let submit = |number: u128| {
            let store = store.clone();
            let used = used.clone();
            let id = 100 + number + 1_000 * u128::from(used.method() == LogInMethod::PasswordAndCode);
            async move { finish(&store, &format!("token {}", number % 10), used, id, now()).await }
        };
        let successes = at_once(50, submit).await.into_iter().filter(|is_done| *is_done).count();
        assert_eq!(successes, 1, "{used:?}");
    }
    assert_eq!(methods(&store).await.len(), 3);
}

// Shows (Accounts and second factors).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn five_factors_can_be_tried_for_a_log_in_also_at_once() {
    let (_dir, store) = with_app().await;
    assert!(begin(&store, "a", now()).await);
    assert_eq!(store.pending_log_in(&Digest::of("a"), now()).await.unwrap().unwrap().id, ADA);
    let try_one = |_| {
        let store = store.clone();
        async move { store.count_factor_try(&Digest::of("a"), now()).await.unwrap() }
    };
    let counted = at_once(50, try_one).await.into_iter().filter(|may| *may).count();
    assert_eq!(counted as u64, FACTOR_TRIES);
    assert!(store.pending_log_in(&Digest::of("a"), now()).await.unwrap().is_none());
    assert!(!store.count_factor_try(&Digest::of("unknown"), now()).await.unwrap());
}

#[tokio::test]
async fn a_log_in_waits_for_five_minutes_and_ten_of_a_user_do() {
    let (_dir, store) = with_app().await;
    assert!(begin(&store, "a", now()).await);
    let end = now().plus(PENDING_LOG_IN_LIFE);
    assert_eq!(end, later(300));
    assert!(store.pending_log_in(&Digest::of("a"), later(299)).await.unwrap().is_some());
    assert!(store.pending_log_in(&Digest::of("a"), end).await.unwrap().is_none());
    assert!(!store.count_factor_try(&Digest::of("a"), end).await.unwrap());
    assert!(!finish(&store, "a", FactorUse::Code { step: 11 }, 3, end).await);
    assert_eq!(store.sweep(later(299)).await.unwrap().pending_log_ins, 0);
    assert_eq!(store.sweep(end).await.unwrap().pending_log_ins, 1);
    for number in 0..MAX_PENDING_LOG_INS + 3 {
        assert!(begin(&store, &number.to_string(), later(number)).await);
    }
    assert_eq!(rows(&store, "pending_log_ins").await as u64, MAX_PENDING_LOG_INS);
    for number in 0..MAX_PENDING_LOG_INS + 3 {
        let waits =
            store.pending_log_in(&Digest::of(&number.to_string()), later(20)).await.unwrap().is_some();
        assert_eq!(waits, number >= 3, "{number}");
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_log_in_is_void_once_the_password_changes_or_the_account_is_disabled() {
    let (_dir, store) = with_app().await;
    assert!(begin(&store, "a", now()).await);
    assert!(store.renew_hash(ADA, HASH, "$argon2id$another").await.unwrap());
    assert!(!finish(&store, "a", FactorUse::Code { step: 11 }, 3, now()).await);
    assert!(!begin(&store, "b", now()).await, "the password was verified against another hash");
    assert!(store.renew_hash(ADA, "$argon2id$another", HASH).await.unwrap());
    assert!(begin(&store, "b", now()).await);
    store.disable_account(ADA, true, &entry("user.disabled")).await.unwrap();
    assert!(!finish(&store, "b", FactorUse::Code { step: 11 }, 3, now()).await);
    assert!(!begin(&store, "c", now()).await);
    assert_eq!(rows(&store, "sessions").await, 0);
}

#[tokio::test]
async fn an_app_is_removed_by_a_factor_with_its_recovery_codes_and_other_sessions() {
    let (_dir, store) = with_app().await;
    assert!(begin(&store, "a", now()).await);
    assert!(finish(&store, "a", FactorUse::Code { step: 11 }, 3, now()).await);
    let remove =
        async |used| store.remove_totp((ADA, SessionId(3)), &used, &entry("totp.disabled")).await.unwrap();
    assert!(!remove(FactorUse::Code { step: 11 }).await, "used at the log-in");
    assert!(!remove(FactorUse::RecoveryCode(code(9))).await);
    assert_eq!(methods(&store).await.len(), 2);
    assert!(remove(FactorUse::RecoveryCode(code(2))).await);
    assert!(!remove(FactorUse::RecoveryCode(code(1))).await, "it is removed");
    assert_eq!(store.factors(ADA).await.unwrap(), Factors::default());
    assert_eq!(methods(&store).await, [(3, LogInMethod::Password)]);
    open(&store, 7).await;
}

#[tokio::test]
async fn new_recovery_codes_replace_the_earlier_ones_of_their_user() {
    let (_dir, store) = with_app().await;
    let renew = async |used| {
        let codes = [code(4), code(5), code(6)];
        store.renew_recovery_codes(ADA, &used, &codes, &entry("recovery_codes.renewed")).await.unwrap()
    };
    assert!(!renew(FactorUse::RecoveryCode(code(4))).await);
    assert!(renew(FactorUse::RecoveryCode(code(1))).await);
    assert_eq!(store.factors(ADA).await.unwrap().recovery_codes, 3);
    assert!(begin(&store, "a", now()).await);
    assert!(!finish(&store, "a", FactorUse::RecoveryCode(code(2)), 3, now()).await);
    assert!(finish(&store, "a", FactorUse::RecoveryCode(code(6)), 3, now()).await);
}

#[tokio::test]
async fn the_factors_of_a_removed_user_are_removed() {
    let (_dir, store) = with_app().await;
    assert!(begin(&store, "a", now()).await);
    fill(&store, "DELETE FROM users").await;
    for table in ["totp", "recovery_codes", "pending_log_ins", "sessions"] {
        assert_eq!(rows(&store, table).await, 0, "{table}");
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn a_factor_that_is_given_again_is_kept_with_its_session() {
    let (_dir, store) = with_app().await;
    let given_at = async |id: u128| {
        let found = store.session(SessionId(id), later(30)).await.unwrap();
        found.map(|(session, _)| session.factor_at)
    };
    assert_eq!(given_at(1).await, Some(Some(now())), "the app was proven there");
    let again = Audit { at: later(20), ..entry("factor.given") };
    let used = FactorUse::Code { step: 11 };
    assert!(!store.give_factor((ADA, SessionId(99)), &used, &again).await.unwrap(), "no such session");
    assert!(!store.give_factor((BOB, SessionId(1)), &used, &again).await.unwrap(), "no factor of this user");
    assert!(
        store.give_factor((ADA, SessionId(1)), &used, &again).await.unwrap(),
        "a refusal uses up nothing"
    );
    assert_eq!(given_at(1).await, Some(Some(later(20))));
    assert!(!store.give_factor((ADA, SessionId(1)), &used, &again).await.unwrap(), "the code is used up");
    let entries = store.audit(AuditSubject::Tenant(TENANT), 99).await.unwrap();
    assert_eq!(entries.iter().filter(|one| one.action == "factor.given").count(), 1);
}
