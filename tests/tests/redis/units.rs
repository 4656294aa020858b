use crate::gateways::spend;
use crate::*;

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
        for round in 0..50 {
            let tasks: Vec<_> = (0..4 * count as usize)
                .map(|n| gateways[n % gateways.len()].clone())
                .map(|gateway| tokio::spawn(spend(gateway, capped.clone(), &[15, 75, 5, 20, 1])))
                .collect();
            let mut waited = 0;
            let mut calls = 0;
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
        assert_eq!(units_in(RedisServer::common(), &settings, capped.project, NOW.hour()), total);
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
    assert_eq!(units_in(RedisServer::common(), &settings, capped.project, NOW.hour()), 105);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn units_granted_to_a_client_that_disconnected_are_returned() {
    let settings = settings(RedisServer::common(), &prefix(), LONG);
    let gateway = joined(&settings, Arc::new(NoSeed)).await;
    let mut capped = caller(100);
    capped.quota.cu_per_day = 1_000;
    let granted = || gateway.used(capped.project, NOW);
    // The client disconnects after the answer has arrived but before it is read.
    let Answer::Pending(answer) = gateway.reserve(&capped, &[100, 50], NOW) else {
        panic!("nothing is leased yet")
    };
    until("the answer is there", || granted() >= 150).await;
    drop(answer);
    // This client disconnects before there is an answer.
    drop(gateway.reserve(&capped, &[900], NOW));
    gateway.reserve(&capped, &[7], NOW).wait().await;
    gateway.close().await;
    assert_eq!(units_in(RedisServer::common(), &settings, capped.project, NOW.hour()), 7);
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
        assert_eq!(gateway.state(), CounterState::Alone);
    }
    assert_eq!(units_in(RedisServer::common(), &settings, caller.project, hour), 24);
    let (mask, _) = gateways[0].reserve(&caller, &[5], NOW).wait().await;
    assert!(mask.has(0), "a late call is served nevertheless");
}
