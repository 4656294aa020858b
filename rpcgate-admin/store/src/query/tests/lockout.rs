use super::*;
use crate::{ATTEMPTS, Attempt, AttemptKind, AttemptTicket, LOCK};

const EMAIL: &str = "a@b.example";

async fn begin(store: &Store, email: &str, now: Time) -> Attempt {
    store.begin_attempt(AttemptKind::LogIns(email), now).await.unwrap()
}

async fn may(store: &Store, email: &str, now: Time) -> AttemptTicket {
    match begin(store, email, now).await {
        Attempt::Allowed(ticket) => ticket,
        Attempt::Locked(until) => panic!("locked until {until:?}"),
    }
}

#[tokio::test]
async fn five_wrong_passwords_lock_an_address_for_fifteen_minutes() {
    let (_dir, store) = empty().await;
    for number in 0..ATTEMPTS {
        may(&store, EMAIL, later(number * 60)).await;
    }
    let until = later(4 * 60).plus(LOCK);
    assert_eq!(until, later(19 * 60));
    for now in [later(4 * 60), later(15 * 60), later(19 * 60 - 1)] {
        assert_eq!(begin(&store, EMAIL, now).await, Attempt::Locked(until));
    }
    may(&store, "other@b.example", later(300)).await;
    for number in 0..ATTEMPTS {
        may(&store, EMAIL, later(19 * 60 + number)).await;
    }
    assert!(matches!(begin(&store, EMAIL, later(20 * 60)).await, Attempt::Locked(_)));
}

#[tokio::test]
async fn the_last_attempt_before_a_lock_reports_the_lock() {
    let (_dir, store) = empty().await;
    for round in 0..2 {
        let from = later(round * 2 * LOCK.as_secs());
        for number in 1..=ATTEMPTS {
            assert_eq!(may(&store, EMAIL, from).await.locks(), number == ATTEMPTS, "{round} {number}");
        }
    }
}

#[tokio::test]
async fn wrong_passwords_further_apart_lock_no_account() {
    let (_dir, store) = empty().await;
    for number in 0..40 {
        may(&store, EMAIL, later(number * 225)).await;
    }
    // Four in the last moment of a quarter of an hour and four right after it are eight within 15 minutes.
    let from = 40 * 225 + 3_600;
    for number in 0..4 {
        may(&store, EMAIL, later(from + 899 - number)).await;
    }
    may(&store, EMAIL, later(from + 900)).await;
    assert!(matches!(begin(&store, EMAIL, later(from + 901)).await, Attempt::Locked(_)));
}

#[tokio::test]
async fn failed_log_ins_lock_nothing_but_the_log_in() {
    let (_dir, store) = empty().await;
    let others = [
        AttemptKind::Checks(EMAIL),
        AttemptKind::Registrations(EMAIL),
        AttemptKind::Confirmations(EMAIL),
        AttemptKind::Invitations(EMAIL),
    ];
    for typed in [
        EMAIL.to_owned(),
        format!("confirmation of {EMAIL}"),
        format!("check\n\n{EMAIL}"),
        format!("registration\n\n{EMAIL}"),
        format!("confirmation\n\n{EMAIL}"),
        format!("invitation\n{TENANT}\n{EMAIL}"),
    ] {
        for _ in 0..ATTEMPTS {
            may(&store, &typed, now()).await;
        }
        assert!(matches!(begin(&store, &typed, now()).await, Attempt::Locked(_)));
    }
    for counted in others {
        for _ in 0..ATTEMPTS {
            assert!(
                matches!(store.begin_attempt(counted, now()).await.unwrap(), Attempt::Allowed(_)),
                "{counted:?}"
            );
        }
        assert!(
            matches!(store.begin_attempt(counted, now()).await.unwrap(), Attempt::Locked(_)),
            "{counted:?}"
        );
    }
}

#[tokio::test]
async fn an_address_is_locked_in_every_spelling() {
    let (_dir, store) = empty().await;
    for email in
        ["jürgen@b.example", "JÜRGEN@b.example", "Jürgen@B.example", "jürgen@b.EXAMPLE", "jÜrgen@b.example"]
    {
        may(&store, email, now()).await;
    }
    assert!(matches!(begin(&store, "JÜRGEN@B.EXAMPLE", now()).await, Attempt::Locked(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn five_of_two_hundred_parallel_guesses_are_verified() {
    let (dir, store) = empty().await;
    let second = dir.store_within(Duration::from_secs(60)).await.unwrap();
    let guesses = at_once(200, |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move { begin(&store, EMAIL, later(number as u64 % 3)).await }
    });
    let looked_at = guesses.await.into_iter().filter(|guess| matches!(guess, Attempt::Allowed(_))).count();
    assert_eq!(looked_at, 5);
    assert_eq!(rows(&store, "attempts").await, 5);
}

#[tokio::test]
async fn a_right_password_leaves_no_attempts() {
    let (_dir, store) = empty().await;
    for _ in 0..4 {
        may(&store, EMAIL, now()).await;
    }
    may(&store, "other@b.example", now()).await;
    let ticket = may(&store, EMAIL, now()).await;
    assert!(
        matches!(begin(&store, EMAIL, now()).await, Attempt::Locked(_)),
        "until the password is verified"
    );
    store.forgive_attempts(&ticket).await.unwrap();
    assert_eq!(rows(&store, "attempts").await, 1, "the other's");
    for _ in 0..5 {
        may(&store, EMAIL, now()).await;
    }
    assert!(matches!(begin(&store, EMAIL, now()).await, Attempt::Locked(_)));
}

#[tokio::test]
async fn a_returned_try_does_not_count() {
    let (_dir, store) = empty().await;
    for _ in 0..4 {
        may(&store, EMAIL, now()).await;
    }
    for _ in 0..3 {
        let ticket = may(&store, EMAIL, now()).await;
        store.withdraw_attempt(&ticket).await.unwrap();
    }
    may(&store, EMAIL, now()).await;
    assert!(matches!(begin(&store, EMAIL, now()).await, Attempt::Locked(_)));
}

#[tokio::test]
async fn a_clock_that_steps_back_locks_no_address_for_long() {
    let (_dir, store) = empty().await;
    for _ in 0..5 {
        may(&store, EMAIL, later(86_400)).await;
    }
    assert!(matches!(begin(&store, EMAIL, later(86_000)).await, Attempt::Locked(_)), "by a little: yes");
    may(&store, EMAIL, now()).await;
}

#[tokio::test]
async fn unknown_addresses_cannot_fill_the_table() {
    let (_dir, store) = empty().await;
    for number in 0..100 {
        may(&store, &format!("{number}@b.example"), now()).await;
    }
    assert_eq!(rows(&store, "attempts").await, 100);
    for number in 0..10 {
        may(&store, &format!("{number}@c.example"), later(1_800)).await;
    }
    assert_eq!(rows(&store, "attempts").await, 10);
    assert_eq!(store.sweep(later(3_599)).await.unwrap().attempts, 0);
    assert_eq!(store.sweep(later(3_600)).await.unwrap().attempts, 10);
}

#[tokio::test]
async fn no_address_is_kept_in_the_clear() {
    let (dir, store) = empty().await;
    may(&store, "third@b.example", now()).await;
    // A server's files are not accessible, and contain the same.
    let Some(folder) = dir.folder() else { return };
    for name in ["rpcgate.db", "rpcgate.db-wal"] {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        assert!(!bytes.windows(8).any(|part| part == b"somebody"), "{name}");
    }
}

// Shows (Management).
#[tokio::test]
async fn in_any_minute_exactly_the_allowed_number_of_attempts_is_admitted() {
    let (_dir, store) = empty().await;
    let admit = async |network: &str, second| {
        store.admit_within_minute(AttemptKind::Clients(network), 3, later(second)).await.unwrap()
    };
    for second in [0, 10, 10] {
        assert_eq!(admit("192.0.2.1/32", second).await, None);
    }
    assert_eq!(admit("192.0.2.1/32", 20).await, Some(Duration::from_secs(40)));
    assert_eq!(admit("192.0.2.2/32", 20).await, None);
    assert_eq!(admit("192.0.2.1/32", 59).await, Some(Duration::from_secs(1)));
    assert_eq!(admit("192.0.2.1/32", 60).await, None, "refused attempts are not counted");
    assert_eq!(admit("192.0.2.1/32", 60).await, Some(Duration::from_secs(10)));
    assert_eq!(admit("192.0.2.1/32", 70).await, None);
}
