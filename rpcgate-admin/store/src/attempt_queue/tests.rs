use super::*;
use crate::testing::TestDatabase;
use crate::{ATTEMPTS, AttemptKind, AttemptTicket, Digest, LOCK, Store};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rpcgate_core::clock::Time;
use sea_orm::ConnectionTrait;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const EMAIL: &str = "a@b.example";

const DEADLINE: Duration = Duration::from_secs(60);

fn now() -> Time {
    Time::from_secs(1_790_000_000)
}

async fn open() -> (TestDatabase, Store) {
    let site = TestDatabase::of(module_path!());
    let store = site.store_within(DEADLINE).await.unwrap();
    (site, store)
}

/// Starts `call`, which joins the queue. The writing task runs only when the test waits.
fn joined<'c, T>(call: impl Future<Output = T> + 'c) -> Pin<Box<dyn Future<Output = T> + 'c>> {
    let mut call: Pin<Box<dyn Future<Output = T> + 'c>> = Box::pin(call);
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    call
}

async fn begin(store: &Store, email: &str) -> Result<Attempt, StoreError> {
    store.begin_attempt(AttemptKind::LogIns(email), now()).await
}

/// Waits until the writing task has taken all attempts.
async fn taken(store: &Store) {
    while !store.attempts.waiting().attempts.is_empty() {
        tokio::task::yield_now().await;
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_thousand_attempts_wait_and_are_counted_in_sixteen_transactions() {
    let (_site, store) = open().await;
    let statements: Arc<Mutex<Vec<String>>> = Arc::default();
    let observed = statements.clone();
    store.database.observe_writes(move |sql| {
        if sql.contains("attempts") {
            observed.lock().unwrap().push(sql.into());
        }
    });
    let mut attempts: Vec<_> = (0..MAX_WAITING).map(|_| joined(begin(&store, EMAIL))).collect();
    let mut full = Box::pin(begin(&store, "other@b.example"));
    let full = full.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(full)) = full else { panic!("{full:?}") };
    assert_eq!(full.to_string(), "the database cannot be reached now: 1024 attempts wait for it already");
    // An attempt whose caller leaves before its turn is not made.
    drop(attempts.pop());
    let mut allowed = Vec::new();
    for attempt in attempts {
        match attempt.await.unwrap() {
            Attempt::Allowed(ticket) => allowed.push(ticket.locks()),
            Attempt::Locked(until) => assert_eq!(until, now().plus(LOCK)),
        }
    }
    assert_eq!(allowed, [false, false, false, false, true], "{ATTEMPTS} are allowed");
    // In each transaction, one statement removes old attempts and one reads; the first also inserts.
    assert_eq!(statements.lock().unwrap().len(), 16 * 2 + 1, "{statements:?}");
    assert!(matches!(begin(&store, "other@b.example").await.unwrap(), Attempt::Allowed(_)));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn callers_that_leave_neither_roll_back_nor_delay_the_others() {
    let (_site, store) = open().await;
    let held = store.database.begin().await.unwrap();
    // The first attempt starts the writing task and is in the batch that waits for the database.
    let first = joined(begin(&store, EMAIL));
    let second = joined(begin(&store, EMAIL));
    taken(&store).await;
    let third = joined(begin(&store, EMAIL));
    let fourth = joined(begin(&store, "other@b.example"));
    drop((first, third));
    held.rollback().await.unwrap();
    assert!(matches!(second.await.unwrap(), Attempt::Allowed(_)));
    assert!(matches!(fourth.await.unwrap(), Attempt::Allowed(_)));
    for left in [2, 1, 0] {
        let Attempt::Allowed(ticket) = begin(&store, EMAIL).await.unwrap() else { panic!("{left} are left") };
        assert_eq!(ticket.locks(), left == 0, "of the two that left, the one in the batch counts");
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn attempts_waiting_for_a_stopped_runtime_get_an_error_and_later_ones_are_counted() {
    let (_site, store) = open().await;
    let held = store.database.begin().await.unwrap();
    let other = store.clone();
    let outcomes = std::thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let join = || {
                let (caller, outcome) = oneshot::channel();
                let write = AttemptWrite::Forgive(Digest::of(EMAIL));
                other.attempts.join(WaitingAttempt { write, caller }).unwrap();
                outcome
            };
            let written = join();
            taken(&other).await;
            [written, join()]
        })
    });
    for outcome in outcomes.join().unwrap() {
        assert!(outcome.await.is_err());
    }
    held.rollback().await.unwrap();
    assert!(matches!(begin(&store, EMAIL).await.unwrap(), Attempt::Allowed(_)));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn each_attempt_of_a_batch_that_fails_gets_the_error() {
    let (_site, store) = open().await;
    store.close().await;
    let attempts: Vec<_> = (0..3).map(|_| joined(begin(&store, EMAIL))).collect();
    for attempt in attempts {
        let error = attempt.await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    }
}

/// A write of the model. Its ticket is one that earlier batches returned.
#[derive(Clone, Copy, Debug)]
enum ModelWrite {
    Begin(usize),
    Admit(usize, u32),
    Forgive(usize),
    Withdraw(usize),
}

/// The attempts of each subject, numbered, as they are when the writes run one after the other.
#[derive(Default)]
struct Model {
    attempts: Vec<(u64, usize, Time)>,
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Allowed { locks: bool },
    Locked(Time),
}

impl Model {
    /// Returns the times of a subject's attempts, the newest first, from `before` to `after` around `now`.
    fn around(&self, subject: usize, now: Time, before: Duration, after: Duration) -> Vec<Time> {
        let from = Time::from_micros(now.micros() - before.as_micros() as u64);
        let its = self
            .attempts
            .iter()
            .filter(|(_, of, at)| *of == subject && (from..=now.plus(after)).contains(at));
        let mut times: Vec<_> = its.map(|(_, _, at)| *at).collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        times
    }

    fn add(&mut self, subject: usize, now: Time) -> u64 {
        self.next += 1;
        self.attempts.push((self.next, subject, now));
        self.next
    }

    fn locked_until(&self, subject: usize, now: Time) -> Option<Time> {
        let newest = self.around(subject, now, LOCK * 2, LOCK);
        let fifth = newest.get(4)?;
        let until = newest[0].plus(LOCK);
        (newest[0].since(*fifth) < LOCK && now < until).then_some(until)
    }

    /// Five attempts within 15 minutes lock their subject for another 15.
    fn begin(&mut self, subject: usize, now: Time) -> (Expected, u64) {
        if let Some(until) = self.locked_until(subject, now) {
            return (Expected::Locked(until), 0);
        }
        let number = self.add(subject, now);
        (Expected::Allowed { locks: self.locked_until(subject, now).is_some() }, number)
    }

    fn admit(&mut self, subject: usize, max: u32, now: Time) -> Option<Duration> {
        let minute = Duration::from_secs(60);
        let newest = self.around(subject, now, minute - Duration::from_micros(1), minute);
        let Some(limiting) = newest.get(max as usize - 1) else {
            self.add(subject, now);
            return None;
        };
        Some(limiting.plus(minute).since(now))
    }
}

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

/// Seconds since the previous batch, and its writes, each with the seconds by which its clock is ahead.
type Batch = (u64, Vec<(ModelWrite, u64)>);

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let subject = || 0..NAMES.len();
    let write = prop_oneof![
        6 => subject().prop_map(ModelWrite::Begin),
        3 => (subject(), 1_u32..5).prop_map(|(subject, max)| ModelWrite::Admit(subject, max)),
        1 => (0_usize..64).prop_map(ModelWrite::Forgive),
        1 => (0_usize..64).prop_map(ModelWrite::Withdraw),
    ];
    let pause = prop_oneof![Just(0_u64), Just(59), Just(60), Just(225), Just(899), Just(900), 0_u64..700];
    prop::collection::vec((pause, prop::collection::vec((write, 0_u64..3), 1..24)), 1..6)
}

type ModelTicket = (AttemptTicket, u64, usize);

/// A waiting call: its outcome, the expected one, and its ticket if it has one.
type Call<'c> = Pin<Box<dyn Future<Output = (Expected, Expected, Option<ModelTicket>)> + 'c>>;

/// Submits each batch at once, and compares its outcomes with those of the model.
async fn compare(store: &Store, batches: &[Batch]) {
    let clear = store.database.transact(async |transaction| {
        transaction.execute_unprepared("DELETE FROM attempts").await?;
        Ok::<_, StoreError>(())
    });
    clear.await.unwrap();
    let mut model = Model::default();
    let mut base = now();
    let mut tickets: Vec<ModelTicket> = Vec::new();
    for (pause, writes) in batches {
        base = base.plus(Duration::from_secs(*pause));
        let mut calls: Vec<Call<'_>> = Vec::new();
        for (place, (write, ahead)) in writes.iter().enumerate() {
            // Attempts that one batch removed as old must not matter to the next.
            let at = base.plus(Duration::from_secs(if place == 0 { 0 } else { *ahead }));
            let ticket = |number: usize| (!tickets.is_empty()).then(|| tickets[number % tickets.len()]);
            match *write {
                ModelWrite::Begin(subject) => {
                    let (expected, number) = model.begin(subject, at);
                    calls.push(joined(async move {
                        match store.begin_attempt(AttemptKind::Clients(NAMES[subject]), at).await.unwrap() {
                            Attempt::Allowed(ticket) => {
                                let outcome = Expected::Allowed { locks: ticket.locks() };
                                (outcome, expected, Some((ticket, number, subject)))
                            }
                            Attempt::Locked(until) => (Expected::Locked(until), expected, None),
                        }
                    }));
                }
                ModelWrite::Admit(subject, max) => {
                    let outcome = move |wait: Option<Duration>| {
                        wait.map_or(Expected::Allowed { locks: false }, |wait| {
                            Expected::Locked(at.plus(wait))
                        })
                    };
                    let expected = outcome(model.admit(subject, max, at));
                    calls.push(joined(async move {
                        let kind = AttemptKind::Clients(NAMES[subject]);
                        (outcome(store.admit_within_minute(kind, max, at).await.unwrap()), expected, None)
                    }));
                }
                ModelWrite::Forgive(number) => {
                    let Some((ticket, _, subject)) = ticket(number) else { continue };
                    model.attempts.retain(|(_, of, _)| *of != subject);
                    calls.push(joined(async move {
                        store.forgive_attempts(&ticket).await.unwrap();
                        (Expected::Locked(at), Expected::Locked(at), None)
                    }));
                }
                ModelWrite::Withdraw(number) => {
                    let Some((ticket, withdrawn, _)) = ticket(number) else { continue };
                    model.attempts.retain(|(number, ..)| *number != withdrawn);
                    calls.push(joined(async move {
                        store.withdraw_attempt(&ticket).await.unwrap();
                        (Expected::Locked(at), Expected::Locked(at), None)
                    }));
                }
            }
        }
        for (place, call) in calls.into_iter().enumerate() {
            let (outcome, expected, ticket) = call.await;
            assert_eq!(outcome, expected, "write {place} of {writes:?}");
            tickets.extend(ticket);
        }
    }
}

// Shows (Accounts and second factors): Parallel attempts are counted as if they came one after the other; at most 1,024
// wait, and one that leaves does not affect the others.
#[test]
fn the_attempts_of_a_batch_have_the_outcomes_that_they_have_one_after_the_other() {
    let runtime: Runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (_site, store) = runtime.block_on(open());
    let config = Config { cases: 64, failure_persistence: None, max_shrink_iters: 64, ..Config::default() };
    let compared = TestRunner::new(config).run(&batches(), |batches| {
        runtime.block_on(compare(&store, &batches));
        Ok(())
    });
    compared.unwrap();
    runtime.block_on(store.close());
}
