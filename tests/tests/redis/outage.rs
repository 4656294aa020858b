use crate::gateways::spend;
use crate::*;
use tokio::time::Instant;

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
    until("counting alone", || gateways.iter().all(|gateway| gateway.state() == CounterState::Alone)).await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    for gateway in &gateways {
        assert!(matches!(gateway.take(&caller, 1, NOW), Answer::Now(WindowCount { refused: None, .. })));
        assert!(matches!(gateway.reserve(&caller, &costs, NOW), Answer::Now((mask, _)) if mask.has(3)));
    }
    redis.thaw();
    until("counting together", || gateways.iter().all(|gateway| gateway.state() == CounterState::Together))
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
    assert_eq!(units_in(&redis, &settings, caller.project, NOW.hour()), 80);
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
            let one = one.clone();
            let caller = caller.clone();
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
            assert_eq!(one.state(), CounterState::Together);
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
        until("counting alone", || gateways.iter().all(|gateway| gateway.state() == CounterState::Alone))
            .await;
        assert_eq!(storm(&gateways, &caller, 20, NOW).await, 20);
        redis.thaw();
        until("counting together", || {
            gateways.iter().all(|gateway| gateway.state() == CounterState::Together)
        })
        .await;
        // The next tick sends the counts made between the last one and the reconnection.
        let window = format!("GET {}", window_name(&settings, caller.key, 'm', NOW.minute()));
        until("all are counted", || number(&redis, &window) == 10 + 20 * round).await;
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
    until("counting alone", || gateways.iter().all(|gateway| gateway.state() == CounterState::Alone)).await;
    assert_eq!(storm(&gateways, &caller, 400, NOW).await, 100);
    for gateway in &gateways {
        let spent = spend(gateway.clone(), caller.clone(), &[75]).await;
        assert_eq!((spent.0, spent.1), (1_050, 0));
    }
}
