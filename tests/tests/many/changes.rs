use crate::*;

/// Calls every gateway with a key until all have answered with `status`. Returns the longest time.
async fn all_answer(processes: &[Process], key: &TestKey, status: u16) -> Duration {
    let clock = SystemClock::new();
    let mut longest = Duration::ZERO;
    let clients: Vec<_> = processes.iter().map(|process| key.client(process.addr())).collect();
    let look = async {
        for client in &clients {
            while client.call("eth", "eth_chainId", "[]").await.status != status {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            longest = longest.max(clock.elapsed());
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "never {status}");
    longest
}

// Shows (Reliability): Revocation and suspension also take effect at four gateways on PostgreSQL (promises 19, 20).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn revoked_keys_and_suspended_tenants_are_refused_by_every_gateway_within_a_second() {
    let node = Node::evm().await;
    let cluster = Cluster::new(4, Setup::of("eth", &node.url()).set("plans.enterprise", PLENTY)).await;
    let processes = cluster.start().await;
    for _ in 0..10 {
        let key = cluster.key(Tier::Enterprise).await;
        all_answer(&processes, &key, 200).await;
        cluster.store.suspend(key.tenant, now()).await.unwrap();
        let suspended = all_answer(&processes, &key, 402).await;
        cluster.store.reactivate(key.tenant, now()).await.unwrap();
        let reactivated = all_answer(&processes, &key, 200).await;
        cluster.store.revoke_key(key.tenant, key.key, now()).await.unwrap();
        let revoked = all_answer(&processes, &key, 401).await;
        for took in [suspended, reactivated, revoked] {
            assert!(took < SOON, "{suspended:?} {reactivated:?} {revoked:?}");
        }
    }
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_gateway_that_was_away_has_all_changes_before_it_is_ready() {
    let node = Node::evm().await;
    let cluster = Cluster::new(2, Setup::of("eth", &node.url()).set("plans.enterprise", PLENTY)).await;
    let mut processes = cluster.start().await;
    let revoked = cluster.key(Tier::Enterprise).await;
    let suspended = cluster.key(Tier::Enterprise).await;
    for key in [&revoked, &suspended] {
        all_answer(&processes, key, 200).await;
    }
    processes.pop().unwrap().kill();
    cluster.store.revoke_key(revoked.tenant, revoked.key, now()).await.unwrap();
    cluster.store.suspend(suspended.tenant, now()).await.unwrap();
    let back = cluster.sites[1].start().await;
    for (key, status) in [(&revoked, 401), (&suspended, 402)] {
        assert_eq!(key.client(back.addr()).call("eth", "eth_chainId", "[]").await.status, status, "at once");
        all_answer(&processes, key, status).await;
    }
}
