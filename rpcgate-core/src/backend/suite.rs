//! Conformance suites for backends. A test calls its suite with a constructor. A failed expectation panics.
#![expect(clippy::panic, clippy::expect_used, reason = "a suite fails by panicking")]

use super::changes::{Change, ChangeFeed};
use super::counters::Counters;
use super::directory::{Directory, KeyLookup};
use super::reply_store::{ReplyKey, ReplyStore};
use super::usage_sink::{Line, Outcome, OwnedRecord, Phase, Receipt, Record, UsageSink};
use super::{Answer, BoxFuture};
use crate::caller::{Caller, KeyId, ProjectId, RequestId, TenantId};
use crate::chain::ChainName;
use crate::clock::Time;
use crate::plan::{Plan, Price, Tier};
use crate::refusal::Refusal;
use crate::secret::KeyHash;
use crate::transport::Transport;
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Creates a caller on the Free plan.
pub fn caller(number: u128) -> Caller {
    Caller::new(KeyId(number), ProjectId(number + 1_000), TenantId(number + 2_000), Plan::of(Tier::Free))
}

/// Creates a record of the request with this number.
pub fn record<'a>(number: u128, lines: &'a [Line<'a>]) -> Record<'a> {
    Record {
        phase: Phase::Complete,
        request: RequestId(number),
        key: KeyId(1),
        project: ProjectId(2),
        tenant: TenantId(3),
        chain: ChainName::new("toy"),
        transport: Transport::Http,
        tier: Tier::Free,
        price: Price(0),
        arrival: Time::from_secs(1_000_000),
        latency: Duration::from_micros(70),
        windowed: 1,
        lines,
    }
}

/// Polls a future to completion. It must need no runtime, or be woken by another thread.
fn wait<T>(mut future: BoxFuture<'_, T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}

fn now_or_later<T>(answer: Answer<T>) -> T {
    match answer {
        Answer::Now(answer) => answer,
        Answer::Pending(future) => wait(future),
    }
}

/// Checks that [`Counters`] refuse beyond a window, ignore refused requests, separate callers, and accept refunds.
pub fn counters(make: impl Fn() -> Arc<dyn Counters>) {
    let now = Time::from_secs(3_600 * 400_000 + 59);
    let free = caller(1);

    let counters = make();
    for left in (0..10).rev() {
        let taken = now_or_later(counters.take(&free, 1, now));
        assert_eq!((taken.refused, taken.windows.minute.remaining), (None, left));
    }
    let refused = now_or_later(counters.take(&free, 1, now));
    assert_eq!(refused.refused, Some(Refusal::Window { retry_after: 1 }));
    assert_eq!(counters.peek(&free, now), refused.windows, "a refused request counts nowhere");
    assert_eq!(
        now_or_later(counters.take(&caller(2), 1, now)).refused,
        None,
        "another key has windows of its own"
    );
    let minute = Time::from_secs(3_600 * 400_000 + 60);
    let taken = now_or_later(counters.take(&free, 3, minute));
    assert_eq!((taken.refused, taken.windows.minute.remaining, taken.windows.hour.remaining), (None, 7, 487));
    assert!(
        now_or_later(counters.take(&free, 8, minute)).refused.is_some(),
        "a batch fits whole or not at all"
    );

    let hours_ago = Time::from_secs(3_600 * 399_998);
    for arrival in [hours_ago, now] {
        let late = now_or_later(counters.take(&free, 8, arrival));
        assert!(late.refused.is_some(), "a late arrival counts in the newest minute");
    }
    assert_eq!(counters.peek(&free, minute).minute.remaining, 7, "which it does not take back");

    let counters = make();
    let mut slow = caller(3);
    slow.quota.rps_limit = Some(2);
    let outcomes: Vec<_> = (0..3).map(|_| now_or_later(counters.take(&slow, 1, now)).refused).collect();
    assert_eq!(outcomes, [None, None, Some(Refusal::Window { retry_after: 1 })]);
    assert_eq!(counters.peek(&slow, now).minute.remaining, 8, "what the second refuses no window counts");
    let mut sibling = slow.clone();
    sibling.key = KeyId(4);
    assert!(now_or_later(counters.take(&sibling, 1, now)).refused.is_some(), "the second is the project's");
    assert!(now_or_later(counters.take(&slow, 2, minute)).refused.is_none());
    let late = now_or_later(counters.take(&slow, 1, now));
    assert!(late.refused.is_some(), "a late arrival counts in the newest second");

    let counters = make();
    let mut capped = caller(5);
    capped.quota.cu_per_day = 100;
    let (mask, first) = now_or_later(counters.reserve(&capped, &[75, 20, 75, 5, 0], now));
    let granted: Vec<_> = (0..5).map(|n| mask.has(n)).collect();
    assert_eq!(granted, [true, true, true, false, true], "the call that crosses the ceiling is served");
    assert_eq!((first.units, first.hour), (170, now.hour()));
    counters.refund(capped.project, first.hour, 75);
    let (mask, _) = now_or_later(counters.reserve(&capped, &[5, 5], now));
    assert!(mask.has(0) && !mask.has(1), "95 were used, then 100");
    let (mask, _) = now_or_later(counters.reserve(&caller(6), &[5], now));
    assert!(mask.has(0), "another project has a quota of its own");
    let later = now.plus(Duration::from_secs(24 * 3_600));
    let (mask, _) = now_or_later(counters.reserve(&capped, &[5], later));
    assert!(mask.has(0), "units that are 24 hours old have expired");
}

/// A directory, and a function that revokes a key in it.
pub type MadeDirectory = (Arc<dyn Directory>, Box<dyn Fn(KeyHash)>);

/// Checks that a [`Directory`] finds keys, separates unknown from revoked ones, and keeps callers of revoked keys.
pub fn directory(make: impl Fn(Vec<(KeyHash, Arc<Caller>)>) -> MadeDirectory) {
    let (directory, revoke) =
        make(vec![(KeyHash::of("first"), Arc::new(caller(1))), (KeyHash::of("second"), Arc::new(caller(2)))]);
    let ask = |key: &str| match directory.peek(key) {
        KeyLookup::Miss => wait(directory.fetch(key)).expect("the store is reachable"),
        known => known,
    };
    let KeyLookup::Known(found) = ask("first") else { panic!("first is a key") };
    assert_eq!(*found, caller(1));
    assert!(matches!(ask("third"), KeyLookup::Unknown));
    assert!(matches!(ask(""), KeyLookup::Unknown));
    revoke(KeyHash::of("first"));
    let KeyLookup::Revoked(found) = ask("first") else { panic!("first was revoked") };
    assert_eq!(found.project, caller(1).project);
    assert!(matches!(ask("second"), KeyLookup::Known(_)), "the other key is still valid");
}

/// A sink, and a function that reads it.
pub type MadeUsageSink = (Arc<dyn UsageSink>, Box<dyn Fn() -> Vec<OwnedRecord>>);

/// Checks that a [`UsageSink`] keeps each record completely and once, also from many threads.
pub fn sink(make: impl Fn() -> MadeUsageSink) {
    let (sink, read) = make();
    let line = |method, outcome| Line {
        method,
        cu: 5,
        status: 200,
        outcome,
        cached: false,
        calls: 1,
        bytes_in: 10,
        bytes_out: 20,
    };
    let lines = [line(b"toy_read", Outcome::Answered), line(b"toy_scan", Outcome::NodeError)];
    let one = record(7, &lines);
    sink.append(&one);
    assert_eq!(read(), [OwnedRecord::from(&one)]);

    std::thread::scope(|scope| {
        for thread in 0..4 {
            let sink = &sink;
            scope.spawn(move || {
                for n in 0..250 {
                    sink.append(&record(1_000 + thread * 1_000 + n, &lines[..1]));
                }
            });
        }
    });
    let mut requests: Vec<_> = read().iter().map(|record| record.request.0).collect();
    requests.sort_unstable();
    requests.dedup();
    assert_eq!(requests.len(), 1_001);

    let wide: Vec<_> = (0..64).map(|_| lines[0]).collect();
    let sets: Vec<_> = (1..=64).map(|n| record(10_000 + n as u128, &wide[..n])).collect();
    let receipts: Vec<_> = sets.iter().map(|set| Receipt::hold(&sink, set)).collect();
    for receipt in receipts {
        drop(receipt);
    }
    let mut held: Vec<_> = read().into_iter().filter(|record| record.request.0 > 10_000).collect();
    held.sort_unstable_by_key(|record| record.request.0);
    assert_eq!(held, sets.iter().map(OwnedRecord::from).collect::<Vec<_>>());

    std::thread::scope(|scope| {
        for thread in 0..4 {
            let sink = &sink;
            scope.spawn(move || {
                for n in 0..250 {
                    drop(Receipt::hold(sink, &record(20_000 + thread * 1_000 + n, &lines[..1])));
                }
            });
        }
    });
    let held = read().iter().filter(|record| record.request.0 >= 20_000).count();
    assert_eq!(held, 1_000);
}

/// Checks that a [`ReplyStore`] returns stored results until they expire, and holds no more than its bound.
pub fn reply_store(make: impl Fn(usize) -> Arc<dyn ReplyStore>) {
    let key = |n: usize| ReplyKey::new(ChainName::new("toy"), b"toy_read", format!("[{n}]").as_bytes());
    let now = Duration::from_secs(1_000_000);

    let store = make(1 << 20);
    store.put(&key(1).sought(), &Bytes::from_static(b"\"one\""), Some(now + Duration::from_secs(2)));
    store.put(&key(2).sought(), &Bytes::from_static(b"2"), None);
    assert_eq!(store.get(&key(1).sought(), now).as_deref(), Some(&b"\"one\""[..]));
    assert_eq!(
        store.get(&key(1).sought(), now + Duration::from_micros(1_999_999)).as_deref(),
        Some(&b"\"one\""[..])
    );
    assert_eq!(store.get(&key(1).sought(), now + Duration::from_secs(2)), None, "its time is over");
    assert_eq!(store.get(&key(2).sought(), now + Duration::from_secs(1 << 30)).as_deref(), Some(&b"2"[..]));
    assert_eq!(store.get(&key(3).sought(), now), None);
    let other = ReplyKey::new(ChainName::new("toy2"), b"toy_read", b"[2]");
    assert_eq!(store.get(&other.sought(), now), None, "another chain's answer is another answer");
    store.put(&key(2).sought(), &Bytes::from_static(b"3"), Some(now + Duration::from_secs(1)));
    assert_eq!(store.get(&key(2).sought(), now).as_deref(), Some(&b"3"[..]), "the newer answer counts");
    assert_eq!(store.get(&key(2).sought(), now + Duration::from_secs(1)), None, "and its time too");

    let bound = 256 * 1024;
    let store = make(bound);
    let large = Bytes::from(vec![b'x'; 1_024]);
    for n in 0..4_096 {
        store.put(&key(n).sought(), &large, None);
    }
    let held = (0..4_096).filter(|n| store.get(&key(*n).sought(), now).is_some()).count() * large.len();
    assert!(held <= bound, "{held} bytes are held");
    let huge = Bytes::from(vec![b'x'; bound + 1]);
    store.put(&key(9_999).sought(), &huge, None);
    assert_eq!(store.get(&key(9_999).sought(), now), None, "a result beyond the bound is not stored");
}

/// A change feed, and a function that publishes in it.
pub type MadeChanges = (Arc<dyn ChangeFeed>, Box<dyn Fn(Change)>);

/// Checks that a [`ChangeFeed`] returns each change to each reader, in order.
pub fn changes(make: impl Fn() -> MadeChanges) {
    let (changes, publish) = make();
    let read = |number| wait(changes.since(number)).expect("the feed is reachable");
    assert!(read(0).is_empty());
    let all = [Change::Key(KeyId(1)), Change::Tenant(TenantId(2)), Change::Chain("toy".into())];
    for change in &all {
        publish(change.clone());
    }
    let first = read(0);
    assert_eq!(first.iter().map(|n| n.change.clone()).collect::<Vec<_>>(), all);
    assert!(first.windows(2).all(|pair| pair[0].number < pair[1].number));
    assert_eq!(read(first[0].number), first[1..]);
    assert!(read(first[2].number).is_empty());
    publish(Change::Plan(Tier::Free));
    assert_eq!(read(first[2].number).len(), 1);
}
