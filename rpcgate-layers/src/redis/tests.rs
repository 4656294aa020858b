//! Gateways that count together in a real Redis.

use super::*;
use rpcgate_core::backend::suite;
use rpcgate_core::caller::KeyId;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

mod compared;
mod relayed;
mod server;

use server::{RedisServer, prefix};

const NOW: Time = Time::from_secs(400_000 * 3_600 + 90);
/// Longer than any pause of a busy machine.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(250);

fn settings(redis: &RedisServer, prefix: &str, patience: Duration) -> RedisSettings {
    RedisSettings { url: redis.url(), prefix: prefix.into(), patience }
}

async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(timeout(Duration::from_secs(60), wait).await.is_ok(), "never happened: {what}");
}

async fn joined(settings: &RedisSettings, seed: Arc<dyn Seed>) -> Arc<RedisCounters> {
    let counters = Arc::new(RedisCounters::new(settings, seed).unwrap());
    until("counting together", || counters.standing() == Standing::Together).await;
    counters
}

async fn gateways(count: u64, settings: &RedisSettings) -> Vec<Arc<RedisCounters>> {
    let mut gateways = Vec::new();
    for _ in 0..count {
        gateways.push(joined(settings, Arc::new(NoSeed)).await);
    }
    until("knowing of each other", || gateways.iter().all(|gateway| gateway.gateways() == count)).await;
    gateways
}

/// Waits until all count together, in the current era of Redis. They may leave an intermediate state before it can be
/// observed.
async fn in_step(gateways: &[Arc<RedisCounters>], redis: &RedisServer, settings: &RedisSettings) {
    let names = script::Names { prefix: settings.prefix.clone() };
    until("being in step", || {
        let era = redis.say(&format!("GET {}", names.era()));
        let era = era.lines().nth(1).and_then(|era| era.parse().ok());
        gateways.iter().all(|gateway| {
            gateway.standing() == Standing::Together && Some(gateway.shared.era.load(Relaxed)) == era
        })
    })
    .await;
}

fn caller(per_minute: u64) -> Caller {
    let mut caller = suite::caller(1);
    (caller.plan.per_minute, caller.plan.per_hour, caller.plan.per_day) = (per_minute, 100_000, 1_000_000);
    caller
}

/// Counts `count` requests at once, evenly at all gateways. Returns how many were admitted.
async fn storm(gateways: &[Arc<RedisCounters>], caller: &Caller, requests: usize, now: Time) -> u64 {
    let tasks: Vec<_> = (0..requests)
        .map(|n| {
            let (gateway, caller) = (gateways[n % gateways.len()].clone(), caller.clone());
            tokio::spawn(async move { gateway.take(&caller, 1, now).wait().await.refused.is_none() })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += u64::from(task.await.unwrap());
    }
    admitted
}

/// The used requests of the minute, the hour and the day, as a gateway receives them from Redis.
async fn used(settings: &RedisSettings, caller: &Caller, now: Time) -> [u64; 3] {
    let fresh = joined(settings, Arc::new(NoSeed)).await;
    let taken = fresh.take(caller, 1, now).wait().await;
    let counted = u64::from(taken.refused.is_none());
    [taken.windows.minute, taken.windows.hour, taken.windows.day].map(|w| w.limit - w.remaining - counted)
}

async fn units_in(redis: &RedisServer, settings: &RedisSettings, project: ProjectId, hour: u64) -> u64 {
    let names = script::Names { prefix: settings.prefix.clone() };
    let answer = redis.say(&format!("HGET {} {hour}", names.units(project)));
    answer.lines().nth(1).and_then(|units| units.parse().ok()).unwrap_or(0)
}

#[test]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
fn redis_passes_the_suite_of_counters() {
    let runtime = Runtime::new().unwrap();
    suite::counters(|| {
        runtime.block_on(joined(&settings(RedisServer::common(), &prefix(), LONG), Arc::new(NoSeed)))
    });
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn gateways_together_admit_exactly_the_limit() {
    for count in [2, 4] {
        let settings = settings(RedisServer::common(), &prefix(), LONG);
        let gateways = gateways(count, &settings).await;
        for minute in 0..5 {
            let (caller, now) = (caller(100), NOW.plus(Duration::from_secs(60 * minute)));
            assert_eq!(storm(&gateways, &caller, 500, now).await, 100);
            for gateway in &gateways {
                let windows = gateway.take(&caller, 1, now).wait().await.windows;
                assert_eq!(
                    (windows.minute.remaining, windows.hour.remaining),
                    (0, 100_000 - 100 * (minute + 1))
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn gateways_together_admit_exactly_the_requests_per_second() {
    let settings = settings(RedisServer::common(), &prefix(), LONG);
    let gateways = gateways(3, &settings).await;
    let mut slow = caller(10_000);
    slow.quota.rps_limit = Some(25);
    let mut sibling = slow.clone();
    sibling.key = KeyId(2);
    let both = tokio::join!(storm(&gateways, &slow, 100, NOW), storm(&gateways, &sibling, 100, NOW));
    assert_eq!(both.0 + both.1, 25, "the second is the project's");
    let used = [used(&settings, &slow, NOW).await[0], used(&settings, &sibling, NOW).await[0]];
    assert_eq!(used.iter().sum::<u64>(), 25, "what the second refuses no window counts");
    let next = NOW.plus(Duration::from_secs(1));
    assert_eq!(storm(&gateways, &slow, 100, next).await, 25);
}

/// Reserves calls at one gateway until one is refused. Returns the granted units and how many calls had to wait.
async fn spend(gateway: Arc<RedisCounters>, caller: Caller, costs: &'static [u32]) -> (u64, usize, usize) {
    let (mut units, mut waited, mut calls) = (0, 0, 0);
    for cost in costs.iter().cycle() {
        let answer = gateway.reserve(&caller, &[*cost], NOW);
        waited += usize::from(matches!(answer, Answer::Pending(_)));
        calls += 1;
        let (mask, grant) = answer.wait().await;
        if !mask.has(0) {
            break;
        }
        units += grant.units;
    }
    (units, waited, calls)
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_ceiling_is_overrun_by_one_call_at_most_and_needs_few_round_trips() {
    for count in [2, 4] {
        let settings = settings(RedisServer::common(), &prefix(), LONG);
        let gateways = gateways(count, &settings).await;
        let mut capped = caller(100);
        capped.quota.cu_per_day = 100_000;
        let mut total = 0;
        // An idle slice of one gateway is returned within a second; then another gateway can spend it.
        for round in 0..10 {
            let tasks: Vec<_> = (0..4 * count as usize)
                .map(|n| gateways[n % gateways.len()].clone())
                .map(|gateway| tokio::spawn(spend(gateway, capped.clone(), &[15, 75, 5, 20, 1])))
                .collect();
            let (mut waited, mut calls) = (0, 0);
            for task in tasks {
                let spent = task.await.unwrap();
                total += spent.0;
                waited += spent.1;
                calls += spent.2;
            }
            assert!(total < 100_000 + 75, "{total}");
            if round == 0 {
                assert!(total > 90_000, "{total}");
                assert!(waited * 4 < calls, "{waited} of {calls} calls asked Redis");
            }
            if total >= 100_000 {
                break;
            }
            sleep(Duration::from_millis(600)).await;
        }
        assert!((100_000..100_075).contains(&total), "{total}");
        assert_eq!(units_in(RedisServer::common(), &settings, capped.project, NOW.hour()).await, total);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn returned_units_can_be_spent_at_another_gateway() {
    let settings = settings(RedisServer::common(), &prefix(), LONG);
    let gateways = gateways(2, &settings).await;
    let mut capped = caller(100);
    capped.quota.cu_per_day = 200;
    let (mask, grant) = gateways[0].reserve(&capped, &[100, 100, 100], NOW).wait().await;
    assert_eq!((mask.has(1), mask.has(2), grant.units), (true, false, 200));
    assert!(!gateways[1].reserve(&capped, &[5], NOW).wait().await.0.has(0));
    gateways[0].refund(capped.project, grant.hour, 100);
    let next = async {
        while !gateways[1].reserve(&capped, &[5], NOW).wait().await.0.has(0) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, next).await.unwrap();
    assert_eq!(units_in(RedisServer::common(), &settings, capped.project, NOW.hour()).await, 105);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn units_granted_to_a_client_that_disconnected_are_returned() {
    let settings = settings(RedisServer::common(), &prefix(), LONG);
    let gateway = joined(&settings, Arc::new(NoSeed)).await;
    let mut capped = caller(100);
    capped.quota.cu_per_day = 1_000;
    let granted = || gateway.used(capped.project, NOW);
    // The answer has arrived and was not read when the client disconnects.
    let Answer::Pending(answer) = gateway.reserve(&capped, &[100, 50], NOW) else {
        panic!("nothing is leased yet")
    };
    until("the answer is there", || granted() >= 150).await;
    drop(answer);
    // This client disconnects before there is an answer.
    drop(gateway.reserve(&capped, &[900], NOW));
    gateway.reserve(&capped, &[7], NOW).wait().await;
    gateway.close().await;
    assert_eq!(units_in(RedisServer::common(), &settings, capped.project, NOW.hour()).await, 7);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_gateway_that_shuts_down_returns_its_slices() {
    let settings = settings(RedisServer::common(), &prefix(), LONG);
    let gateways = gateways(2, &settings).await;
    let caller = caller(100);
    let hour = NOW.hour();
    for gateway in &gateways {
        gateway.reserve(&caller, &[5], NOW).wait().await;
        gateway.reserve(&caller, &[7], NOW).wait().await;
    }
    for gateway in &gateways {
        gateway.close().await;
        assert_eq!(gateway.standing(), Standing::Alone);
    }
    assert_eq!(units_in(RedisServer::common(), &settings, caller.project, hour).await, 24);
    let (mask, _) = gateways[0].reserve(&caller, &[5], NOW).wait().await;
    assert!(mask.has(0), "a late call is served nevertheless");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_frozen_redis_fails_no_call_and_is_exact_again_when_it_is_back() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), SHORT);
    let gateways = gateways(2, &settings).await;
    let caller = caller(1_000);
    assert_eq!(storm(&gateways, &caller, 100, NOW).await, 100);
    let costs = [5_u32; 4];
    for gateway in &gateways {
        gateway.reserve(&caller, &costs, NOW).wait().await;
    }
    redis.freeze();
    let start = Instant::now();
    assert_eq!(storm(&gateways, &caller, 60, NOW).await, 60, "calls in flight are decided alone");
    until("counting alone", || gateways.iter().all(|gateway| gateway.standing() == Standing::Alone)).await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    for gateway in &gateways {
        assert!(matches!(gateway.take(&caller, 1, NOW), Answer::Now(Taken { refused: None, .. })));
        assert!(matches!(gateway.reserve(&caller, &costs, NOW), Answer::Now((mask, _)) if mask.has(3)));
    }
    redis.thaw();
    until("counting together", || gateways.iter().all(|gateway| gateway.standing() == Standing::Together))
        .await;
    let settled = async {
        while used(&settings, &caller, NOW).await[0] < 162 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(timeout(LONG, settled).await.is_ok());
    for gateway in &gateways {
        gateway.close().await;
    }
    assert_eq!(units_in(&redis, &settings, caller.project, NOW.hour()).await, 80);
}

#[test]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
fn a_suspended_gateway_does_not_mistake_its_own_delay_for_silence_of_redis() {
    let redis = RedisServer::start();
    let caller = caller(100);
    let prefix = prefix();
    let others = Runtime::new().unwrap();
    let other = others.block_on(joined(&settings(&redis, &prefix, LONG), Arc::new(NoSeed)));
    // Everything of the first gateway runs on this thread: blocking it suspends the gateway.
    let stopped = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let one = stopped.block_on(joined(&settings(&redis, &prefix, SHORT), Arc::new(NoSeed)));
    stopped.block_on(async {
        for _ in 0..10 {
            assert!(one.take(&caller, 1, NOW).wait().await.refused.is_none());
        }
        redis.freeze();
        let asked = tokio::spawn({
            let (one, caller) = (one.clone(), caller.clone());
            async move { one.take(&caller, 1, NOW).wait().await }
        });
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        redis.thaw();
        // Longer than its deadline, and until the other gateway has used up the minute.
        let admitted = std::thread::scope(|scope| {
            let elsewhere =
                scope.spawn(|| others.block_on(storm(std::slice::from_ref(&other), &caller, 200, NOW)));
            elsewhere.join().unwrap()
        });
        std::thread::sleep(3 * SHORT);
        assert!(asked.await.unwrap().refused.is_none());
        assert_eq!(admitted, 100 - 11);
        for _ in 0..20 {
            assert!(one.take(&caller, 1, NOW).wait().await.refused.is_some(), "used up by both");
            assert_eq!(one.standing(), Standing::Together);
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn counts_made_alone_are_added_exactly() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), SHORT);
    let gateways = gateways(2, &settings).await;
    let caller = caller(100);
    assert_eq!(storm(&gateways, &caller, 10, NOW).await, 10);
    for round in 1..=3 {
        redis.freeze();
        until("counting alone", || gateways.iter().all(|gateway| gateway.standing() == Standing::Alone))
            .await;
        assert_eq!(storm(&gateways, &caller, 20, NOW).await, 20);
        redis.thaw();
        until("counting together", || {
            gateways.iter().all(|gateway| gateway.standing() == Standing::Together)
        })
        .await;
        // The next tick sends the counts made between the last one and the reconnection.
        sleep(Duration::from_millis(700)).await;
        let names = script::Names { prefix: settings.prefix.clone() };
        let counted = redis.say(&format!("GET {}", names.window(caller.key, 0, NOW.minute())));
        assert_eq!(counted.lines().nth(1), Some((10 + 20 * round).to_string().as_str()));
    }
    assert_eq!(storm(&gateways, &caller, 200, NOW).await, 30, "exact again");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn alone_each_gateway_admits_its_own_limit_at_most() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), SHORT);
    let gateways = gateways(2, &settings).await;
    let mut caller = caller(50);
    caller.quota.cu_per_day = 1_000;
    redis.kill();
    until("counting alone", || gateways.iter().all(|gateway| gateway.standing() == Standing::Alone)).await;
    assert_eq!(storm(&gateways, &caller, 400, NOW).await, 100);
    for gateway in &gateways {
        let spent = spend(gateway.clone(), caller.clone(), &[75]).await;
        assert_eq!((spent.0, spent.1), (1_050, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_redis_that_lost_everything_is_seeded_by_the_gateways() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), SHORT);
    let gateways = gateways(2, &settings).await;
    let caller = caller(100);
    assert_eq!(storm(&gateways, &caller, 40, NOW).await, 40);
    // Both know of all forty.
    for gateway in &gateways {
        assert!(gateway.take(&caller, 1, NOW).wait().await.refused.is_none());
    }
    assert!(gateways[0].take(&caller, 1, NOW).wait().await.refused.is_none());
    redis.revive();
    in_step(&gateways, &redis, &settings).await;
    assert_eq!(storm(&gateways, &caller, 200, NOW).await, 57);
    redis.say("FLUSHALL");
    in_step(&gateways, &redis, &settings).await;
    assert_eq!(storm(&gateways, &caller, 50, NOW).await, 0);
}

#[derive(Debug)]
struct Told {
    restored: Restored,
    is_there: AtomicBool,
    asked: AtomicU64,
}

impl Seed for Told {
    fn tell(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        self.asked.fetch_add(1, Relaxed);
        let there = self.is_there.load(Relaxed);
        Box::pin(async move { if there { Ok(self.restored.clone()) } else { Err(Unavailable) } })
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn an_empty_redis_is_seeded_once_from_the_database() {
    let settings = settings(RedisServer::common(), &prefix(), LONG);
    let caller = caller(100);
    let restored = Restored {
        now: NOW,
        windows: vec![(caller.key, [90, 190, 290])],
        units: vec![(caller.project, NOW.hour(), 99_950), (caller.project, NOW.hour() - 3, 20)],
    };
    let seed = Arc::new(Told { restored, is_there: AtomicBool::new(false), asked: AtomicU64::new(0) });
    let first = Arc::new(RedisCounters::new(&settings, seed.clone()).unwrap());
    until("seeding", || first.standing() == Standing::Seeding && seed.asked.load(Relaxed) > 0).await;
    assert!(matches!(first.take(&caller, 1, NOW), Answer::Now(Taken { refused: None, .. })), "no call waits");
    seed.is_there.store(true, Relaxed);
    let second = joined(&settings, seed.clone()).await;
    until("counting together", || first.standing() == Standing::Together).await;
    until("the counts to arrive", || {
        let names = script::Names { prefix: settings.prefix.clone() };
        let day = RedisServer::common().say(&format!("GET {}", names.window(caller.key, 2, NOW.day())));
        first.shared.keys.look(caller.key, |known| known.unwrap().owed(2, NOW.day()) == 0)
            && day.lines().nth(1).is_some_and(|day| matches!(day, "290" | "291"))
    })
    .await;
    let known = seed.asked.load(Relaxed);
    let left = storm(&[first.clone(), second.clone()], &caller, 50, NOW).await;
    assert!(left == 9 || left == 10, "{left}: the counts made alone may or may not be included");
    let mut other = caller.clone();
    other.key = KeyId(77);
    assert!(second.take(&other, 1, NOW).wait().await.refused.is_none());
    let (mask, _) = second.reserve(&caller, &[25, 25, 25], NOW).wait().await;
    let granted: HashSet<_> = (0..3).filter(|n| mask.has(*n)).collect();
    assert_eq!(granted, HashSet::from([0, 1]), "99,970 were used, then 99,995, then 100,020");
    drop(joined(&settings, seed.clone()).await);
    assert_eq!(seed.asked.load(Relaxed), known, "a later caller need not ask");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn counts_restored_before_redis_was_reachable_are_kept() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), SHORT);
    redis.kill();
    let caller = caller(100);
    let restored = Restored {
        now: NOW,
        windows: vec![(caller.key, [90, 90, 90])],
        units: vec![(caller.project, NOW.hour(), 7)],
    };
    let gateway = Arc::new(RedisCounters::new(&settings, Arc::new(NoSeed)).unwrap());
    gateway.restore(&restored);
    assert_eq!(gateway.used(caller.project, NOW), 7);
    let gateways = [gateway];
    assert_eq!(storm(&gateways, &caller, 4, NOW).await, 4);
    redis.revive();
    until("counting together", || gateways[0].standing() == Standing::Together).await;
    assert_eq!(storm(&gateways, &caller, 50, NOW).await, 6);
    let later = NOW.plus(Duration::from_secs(3 * 86_400));
    sleep(Duration::from_millis(700)).await;
    gateways[0].sweep(later);
    assert!(gateways[0].shared.keys.is_empty() && gateways[0].shared.units.is_empty());
}

#[test]
fn an_invalid_url_is_refused_without_its_password() {
    let settings =
        RedisSettings { url: "http://u:hunter2@h".into(), prefix: String::new(), patience: Duration::ZERO };
    let error = RedisCounters::check(&settings).unwrap_err().to_string();
    assert!(error.starts_with("redis.url: ") && !error.contains("hunter2"), "{error}");
    assert!(!format!("{settings:?}").contains("hunter2"));
}
