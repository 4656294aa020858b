//! Counters that differ from the recorded usage are corrected.

use crate::*;
use rpcgate_core::backend::counters::Restored;
use rpcgate_layers::redis::Recording;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The number of comparisons after a gateway has gone.
const COMPARISONS: u64 = 6;

#[derive(Debug)]
struct Recorded {
    restored: Mutex<Restored>,
    store: &'static str,
}

impl Recorded {
    fn new(store: &'static str) -> Arc<Self> {
        Arc::new(Recorded { restored: Mutex::new(Restored { now: NOW, ..Restored::default() }), store })
    }

    /// Sets the total requests and Compute Units of the caller.
    fn put(&self, caller: &Caller, requests: u64, units: u64) {
        let mut restored = self.restored.lock().unwrap();
        restored.windows = vec![(caller.key, [requests; 3])];
        restored.units = vec![(caller.project, NOW.hour(), units)];
    }
}

impl Seed for Recorded {
    fn counts(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        let restored = self.restored.lock().unwrap().clone();
        Box::pin(async move { Ok(restored) })
    }

    fn recording(&self) -> Option<Recording> {
        Some(Recording { store: self.store.into(), behind: Duration::ZERO })
    }
}

fn windows_in(redis: &RedisServer, settings: &RedisSettings, caller: &Caller) -> [u64; 2] {
    [('h', NOW.hour()), ('d', NOW.day())]
        .map(|(span, at)| number(redis, &format!("GET {}", window_name(settings, caller.key, span, at))))
}

async fn agreed(redis: &RedisServer, settings: &RedisSettings, caller: &Caller, requests: u64, units: u64) {
    let look = async {
        loop {
            let counted = units_in(redis, settings, caller.project, NOW.hour());
            let found = (windows_in(redis, settings, caller), counted);
            if found == ([requests; 2], units) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    if timeout(Duration::from_secs(60), look).await.is_err() {
        let found = windows_in(redis, settings, caller);
        let counted = units_in(redis, settings, caller.project, NOW.hour());
        panic!("{found:?} of {requests}, {counted} of {units}");
    }
}

async fn serve(gateway: &RedisCounters, caller: &Caller, calls: u64) {
    for _ in 0..calls {
        assert!(gateway.take(caller, 1, NOW).wait().await.refused.is_none());
        assert!(gateway.reserve(caller, &[10], NOW).wait().await.0.has(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn usage_shipped_at_start_up_is_counted_although_no_comparison_is_due_for_long() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let caller = caller(1_000);
    let recorded = Recorded::new("a");
    let _gateway = joined(&settings, recorded.clone()).await;
    let left = named(&settings, "comparisons");
    let pause = named(&settings, "pause");
    until("one was made", || number(&redis, &format!("EXISTS {left}")) == 0).await;
    redis.say(&format!("SET {left} 3"));
    redis.say(&format!("SET {pause} 1 EX 1900"));
    recorded.put(&caller, 7, 70);
    let _started = joined(&settings, recorded.clone()).await;
    agreed(&redis, &settings, &caller, 7, 70).await;
}

/// Makes a gateway look silent for a long time: it is considered gone unless it sends a sign of life.
fn forget_gateways(redis: &RedisServer, settings: &RedisSettings) {
    let gateways = named(settings, "gateways");
    let all = redis.say(&format!("ZRANGE {gateways} 0 -1"));
    for gateway in all.lines().filter(|line| line.bytes().all(|byte| byte.is_ascii_digit())) {
        redis.say(&format!("ZADD {gateways} XX 1 {gateway}"));
    }
}

#[test]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
fn the_slice_of_a_killed_gateway_expires() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let caller = caller(1_000);
    let recorded = Recorded::new("a");
    let living = Runtime::new().unwrap();
    let dying = Runtime::new().unwrap();
    let _alive = living.block_on(joined(&settings, recorded.clone()));
    let killed = dying.block_on(joined(&settings, recorded.clone()));
    dying.block_on(serve(&killed, &caller, 3));
    dying.shutdown_background();
    recorded.put(&caller, 3, 30);
    living.block_on(async {
        let counted = units_in(&redis, &settings, caller.project, NOW.hour());
        assert!(counted > 30, "it held a slice: {counted}");
        forget_gateways(&redis, &settings);
        agreed(&redis, &settings, &caller, 3, 30).await;
    });
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn after_a_redis_lost_its_counters_neither_slices_nor_requests_stay_counted_twice() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), SHORT);
    let caller = caller(1_000);
    let recorded = Recorded::new("a");
    let gateways = [joined(&settings, recorded.clone()).await, joined(&settings, recorded.clone()).await];
    for loss in 1..=2 {
        redis.kill();
        until("counting alone", || gateways.iter().all(|gateway| gateway.state() == CounterState::Alone))
            .await;
        for gateway in &gateways {
            serve(gateway, &caller, 5).await;
        }
        // Everything is recorded before Redis is back, so the seed includes the counts that the other gateway has made
        // alone.
        recorded.put(&caller, 20 * loss, 200 * loss);
        redis.revive();
        in_step(&gateways, &redis, &settings).await;
        // Now both hold slices and know the slices of the other.
        for gateway in &gateways {
            serve(gateway, &caller, 5).await;
        }
        redis.say("FLUSHALL");
        in_step(&gateways, &redis, &settings).await;
        agreed(&redis, &settings, &caller, 20 * loss, 200 * loss).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn counts_made_alone_are_not_counted_again_by_a_gateway_that_starts_then() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), SHORT);
    let caller = caller(1_000);
    let recorded = Recorded::new("a");
    let other = joined(&settings, recorded.clone()).await;
    serve(&other, &caller, 10).await;
    redis.freeze();
    until("counting alone", || other.state() == CounterState::Alone).await;
    // Requests during a frozen Redis are decided alone too.
    serve(&other, &caller, 20).await;
    recorded.put(&caller, 35, 350);
    let restarted = Arc::new(RedisCounters::new(&settings, recorded.clone()).unwrap());
    restarted.restore(&recorded.restored.lock().unwrap().clone());
    redis.thaw();
    in_step(&[other.clone(), restarted.clone()], &redis, &settings).await;
    // A gateway that was killed had counted five of them alone.
    agreed(&redis, &settings, &caller, 35, 350).await;
    assert_eq!(restarted.take(&caller, 1, NOW).wait().await.windows.day.remaining, 1_000_000 - 36);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_caller_refused_by_too_high_a_window_is_served_once_it_is_lowered() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let recorded = Recorded::new("a");
    let mut caller = caller(1_000);
    caller.plan.per_hour = 50;
    let gateways = [joined(&settings, recorded.clone()).await, joined(&settings, recorded.clone()).await];
    serve(&gateways[0], &caller, 10).await;
    recorded.put(&caller, 10, 100);
    for (span, at) in [('h', NOW.hour()), ('d', NOW.day())] {
        redis.say(&format!("INCRBY {} 40", window_name(&settings, caller.key, span, at)));
    }
    for gateway in &gateways {
        assert!(
            gateway.take(&caller, 1, NOW).wait().await.refused.is_some(),
            "used up, according to the counters"
        );
    }
    // An unknown gateway has gone.
    redis.say(&format!("ZADD {} 1 7", named(&settings, "gateways")));
    agreed(&redis, &settings, &caller, 10, 100).await;
    for gateway in &gateways {
        let look = async { while gateway.take(&caller, 1, NOW).wait().await.refused.is_some() {} };
        assert!(
            timeout(Duration::from_secs(60), look).await.is_ok(),
            "refused by counts that are no longer there"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_comparison_whose_gateway_was_disconnected_is_followed_by_another() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let caller = caller(1_000);
    let recorded = Recorded::new("a");
    let gateway = joined(&settings, recorded.clone()).await;
    serve(&gateway, &caller, 3).await;
    let call = gateway.in_flight();
    redis.say(&format!("ZADD {} 1 7", named(&settings, "gateways")));
    until("it compares", || !reported(&redis, &settings).is_empty()).await;
    redis.say("CLIENT KILL TYPE normal");
    recorded.put(&caller, 2, 20);
    drop(call);
    agreed(&redis, &settings, &caller, 2, 20).await;
}

/// Returns the last report of each gateway to the running comparison: the time up to which everything is recorded.
fn reported(redis: &RedisServer, settings: &RedisSettings) -> Vec<i64> {
    let comparison = redis.say(&format!("GET {}", named(settings, "comparing")));
    let Some(comparison) = comparison.lines().nth(1) else { return Vec::new() };
    let reports = redis.say(&format!("HVALS {}", named(settings, &format!("reports:{comparison}"))));
    reports.lines().filter_map(|line| line.split_once(' ')?.0.parse().ok()).collect()
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn the_counts_of_a_call_in_flight_are_not_subtracted() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let caller = caller(1_000);
    let recorded = Recorded::new("a");
    let gateways = [joined(&settings, recorded.clone()).await, joined(&settings, recorded.clone()).await];
    let call = gateways[0].in_flight();
    serve(&gateways[0], &caller, 3).await;
    // An unknown gateway has gone.
    redis.say(&format!("ZADD {} 1 7", named(&settings, "gateways")));
    until("the other one has waited for it", || {
        let reported = reported(&redis, &settings);
        let first = reported.iter().min();
        let last = reported.iter().max();
        first.zip(last).is_some_and(|(first, last)| last.saturating_sub(*first) > 2_000_000)
    })
    .await;
    assert_eq!(windows_in(&redis, &settings, &caller), [3; 2]);
    assert!(units_in(&redis, &settings, caller.project, NOW.hour()) >= 30);
    recorded.put(&caller, 2, 20);
    drop(call);
    agreed(&redis, &settings, &caller, 2, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_gateway_whose_slices_expired_neither_spends_nor_returns_them() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let caller = caller(1_000);
    let gateway = joined(&settings, Arc::new(NoSeed)).await;
    serve(&gateway, &caller, 1).await;
    // The gateway was silent for a long time, and counters were lowered.
    let script =
        "redis.call('DEL',KEYS[1]) redis.call('INCR',KEYS[2]) return redis.call('HGET',KEYS[3],ARGV[1])";
    let listed = named(&settings, "gateways");
    let keys = [listed.clone(), named(&settings, "lowered"), units_name(&settings, caller.project)].join(" ");
    let before = number(&redis, &format!("EVAL \"{script}\" 3 {keys} {}", NOW.hour()));
    assert!(before > 0);
    until("it has sent a sign of life", || number(&redis, &format!("ZCARD {listed}")) == 1).await;
    // It sends this request only after it has read the answer to the sign of life.
    assert!(gateway.take(&caller, 1, NOW).wait().await.refused.is_none());
    let reserved = gateway.reserve(&caller, &[10], NOW);
    assert!(matches!(reserved, Answer::Pending(_)), "it has no slice to spend");
    assert!(reserved.wait().await.0.has(0));
    gateway.close().await;
    assert_eq!(units_in(&redis, &settings, caller.project, NOW.hour()), before + 10);
}

/// A connection to Redis that can lose answers and can be cut.
struct Lossy {
    url: String,
    loses: Arc<AtomicBool>,
    cut: Arc<Notify>,
}

impl Lossy {
    async fn to(redis: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}/0", listener.local_addr().unwrap());
        let loses = Arc::<AtomicBool>::default();
        let cut = Arc::<Notify>::default();
        let target = redis.url();
        let target = target.trim_start_matches("redis://").trim_end_matches("/0").to_owned();
        let is_lost = loses.clone();
        let is_cut = cut.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&target).await.unwrap();
                let is_lost = is_lost.clone();
                let is_cut = is_cut.clone();
                tokio::spawn(async move {
                    let ((mut commands, mut to_gateway), (mut answers, mut to_redis)) =
                        (near.into_split(), far.into_split());
                    let forward =
                        tokio::spawn(async move { tokio::io::copy(&mut commands, &mut to_redis).await });
                    let mut bytes = vec![0; 1 << 16];
                    let mut cut = pin!(is_cut.notified());
                    loop {
                        let read = tokio::select! {
                            biased;
                            () = &mut cut => break,
                            read = answers.read(&mut bytes) => read,
                        };
                        let Ok(read @ 1..) = read else { break };
                        if !is_lost.load(Relaxed) && to_gateway.write_all(&bytes[..read]).await.is_err() {
                            break;
                        }
                    }
                    forward.abort();
                });
            }
        });
        Lossy { url, loses, cut }
    }
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn requests_whose_answers_from_redis_were_lost_are_counted_once_in_the_end() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let caller = caller(1_000);
    let recorded = Recorded::new("a");
    let lossy = Lossy::to(&redis).await;
    let gateway =
        joined(&RedisSettings { url: lossy.url.clone(), ..settings.clone() }, recorded.clone()).await;
    serve(&gateway, &caller, 3).await;
    lossy.loses.store(true, Relaxed);
    let cut = async {
        until("Redis has counted it", || windows_in(&redis, &settings, &caller) == [4; 2]).await;
        lossy.cut.notify_waiters();
        lossy.loses.store(false, Relaxed);
    };
    let (taken, ()) = tokio::join!(gateway.take(&caller, 1, NOW).wait(), cut);
    assert!(taken.refused.is_none(), "it is counted alone as well");
    recorded.put(&caller, 4, 30);
    in_step(std::slice::from_ref(&gateway), &redis, &settings).await;
    agreed(&redis, &settings, &caller, 4, 30).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn gateways_that_record_in_different_databases_lower_no_count() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let caller = caller(1_000);
    let here = Recorded::new("here");
    let there = Recorded::new("there");
    let _gateways = [joined(&settings, here).await, joined(&settings, there).await];
    let units = units_name(&settings, caller.project);
    redis.say(&format!("HSET {units} {} 900", NOW.hour()));
    redis.say(&format!("ZADD {} 1 7", named(&settings, "gateways")));
    let left = named(&settings, "comparisons");
    let pause = named(&settings, "pause");
    until("comparisons are left", || number(&redis, &format!("GET {left}")) == COMPARISONS).await;
    until("one was tried", || number(&redis, &format!("EXISTS {pause}")) == 1).await;
    assert_eq!(number(&redis, &format!("GET {left}")), COMPARISONS, "it was not made");
    assert!(number(&redis, &format!("TTL {pause}")) > 12, "the attempt is not repeated at once");
    assert_eq!(units_in(&redis, &settings, caller.project, NOW.hour()), 900);
}
