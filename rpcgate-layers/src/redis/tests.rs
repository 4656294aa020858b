//! Counters without Redis. Package `rpcgate-tests` tests them with one.

use super::*;
use rpcgate_core::backend::suite;

/// A source that is never ready, so that the counters do not connect to Redis.
#[derive(Debug)]
struct NeverReady;

impl Seed for NeverReady {
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn counts(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        Box::pin(std::future::ready(Err(Unavailable)))
    }
}

#[tokio::test]
async fn a_sweep_removes_counts_that_are_over_and_were_sent() {
    let now = Time::from_secs(400_000 * 3_600 + 90);
    let later = now.plus(Duration::from_secs(3 * 86_400));
    let settings =
        RedisSettings { url: "redis://127.0.0.1/0".into(), prefix: String::new(), patience: Duration::ZERO };
    let counters = RedisCounters::new(&settings, Arc::new(NeverReady)).unwrap();
    let swept_at = |now| {
        counters.sweep(now);
        (counters.shared.keys.len(), counters.shared.units.len())
    };
    let served = suite::caller(1);
    let restored = suite::caller(2);
    counters.restore(&Restored {
        now,
        windows: vec![(served.key, [3; 3]), (restored.key, [3; 3])],
        units: vec![(served.project, now.hour(), 7), (restored.project, now.hour(), 7)],
    });
    assert!(counters.take(&served, 1, now).wait().await.refused.is_none());
    assert!(counters.reserve(&served, &[5], now).wait().await.0.has(0));
    assert_eq!(swept_at(now), (2, 2), "their day is not over");
    assert_eq!(swept_at(later), (1, 1), "counts made alone are still to be sent");
    counters.shared.pay(false);
    assert_eq!(swept_at(later), (0, 0));
}

#[test]
fn an_invalid_url_is_refused_without_its_password() {
    let settings =
        RedisSettings { url: "http://u:hunter2@h".into(), prefix: String::new(), patience: Duration::ZERO };
    let error = RedisCounters::check(&settings).unwrap_err().to_string();
    assert!(error.starts_with("redis.url: ") && !error.contains("hunter2"), "{error}");
    assert!(!format!("{settings:?}").contains("hunter2"));
}
