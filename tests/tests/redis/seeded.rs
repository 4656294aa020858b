use crate::*;
use rpcgate_core::backend::counters::Restored;
use rpcgate_core::caller::KeyId;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64};

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_redis_that_lost_everything_is_seeded_by_the_gateways() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), SHORT);
    let gateways = gateways(2, &settings).await;
    let caller = caller(100);
    assert_eq!(storm(&gateways, &caller, 40, NOW).await, 40);
    // Both know about all forty.
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
struct LateSeed {
    restored: Restored,
    is_there: AtomicBool,
    asked: AtomicU64,
}

impl Seed for LateSeed {
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
    let seed = Arc::new(LateSeed { restored, is_there: AtomicBool::new(false), asked: AtomicU64::new(0) });
    let first = Arc::new(RedisCounters::new(&settings, seed.clone()).unwrap());
    until("seeding", || first.standing() == CounterState::Seeding && seed.asked.load(Relaxed) > 0).await;
    assert!(
        matches!(first.take(&caller, 1, NOW), Answer::Now(WindowCount { refused: None, .. })),
        "no call waits"
    );
    seed.is_there.store(true, Relaxed);
    let second = joined(&settings, seed.clone()).await;
    until("counting together", || first.standing() == CounterState::Together).await;
    // A gateway that counts together has sent the counts that it made alone.
    let day = format!("GET {}", window_name(&settings, caller.key, 'd', NOW.day()));
    until("the counts to arrive", || matches!(number(RedisServer::common(), &day), 290 | 291)).await;
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
    assert_eq!(seed.asked.load(Relaxed), known, "a gateway that joins later need not ask");
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
    until("counting together", || gateways[0].standing() == CounterState::Together).await;
    assert_eq!(storm(&gateways, &caller, 50, NOW).await, 6);
}
