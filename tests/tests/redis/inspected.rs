use crate::*;
use rpcgate_layers::redis::{NotInspected, inspect};

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_server_reports_whether_it_would_lose_counters_and_its_time() {
    let redis = RedisServer::start();
    let url = settings(&redis, &prefix(), SHORT).url;
    let condition = inspect(&url).await.unwrap();
    assert!(condition.version.starts_with(|c: char| c.is_ascii_digit()), "{condition:?}");
    assert!(!condition.is_clustered && !condition.is_replica, "{condition:?}");
    assert_eq!((&*condition.policy, condition.most), ("noeviction", 0));
    assert!(condition.used > 0 && condition.now > Time::from_secs(1_700_000_000), "{condition:?}");
    redis.freeze();
    let found = inspect(&url).await;
    assert!(matches!(found, Err(NotInspected::Silent(_))), "{found:?}");
    redis.thaw();
}
