use crate::*;
use rpcgate_core::caller::KeyId;

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
            let caller = caller(100);
            let now = NOW.plus(Duration::from_secs(60 * minute));
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
