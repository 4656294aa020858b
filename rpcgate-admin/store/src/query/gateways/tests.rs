use super::*;
use crate::testing::TestDatabase;

#[tokio::test]
async fn the_newest_report_of_a_gateway_counts_and_old_ones_are_forgotten() {
    let site = TestDatabase::of(module_path!());
    let store = site.store_within(Duration::from_secs(60)).await.unwrap();
    let report = |id, secs, node: &str| GatewayReport {
        id,
        at: Time::from_secs(secs),
        nodes: vec![NodeState { node: node.into(), height: Some(7), ..NodeState::default() }],
    };
    for (id, secs, node) in [(1, 100_000, "old"), (2, 100_001, "b"), (1, 100_002, "a")] {
        store.put_report(&report(id, secs, node), &[]).await.unwrap();
    }
    let all = store.reports(Time::from_secs(0)).await.unwrap();
    assert_eq!(all, [report(1, 100_002, "a"), report(2, 100_001, "b")]);
    let fresh = store.reports(Time::from_secs(100_001)).await.unwrap();
    assert_eq!(fresh, [report(1, 100_002, "a")]);
    store.put_report(&report(3, 100_001 + 86_400, "c"), &[]).await.unwrap();
    let ids: Vec<_> =
        store.reports(Time::from_secs(0)).await.unwrap().iter().map(|report| report.id).collect();
    assert_eq!(ids, [1, 3]);
}

#[tokio::test]
async fn the_throttled_keys_at_a_gateway_are_those_of_its_last_report() {
    let site = TestDatabase::of(module_path!());
    let store = site.store_within(Duration::from_secs(60)).await.unwrap();
    let ours = TenantId(1);
    let theirs = TenantId(2);
    let cooled = |tenant, key, end| CoolDown {
        key: KeyId(key),
        project: ProjectId(key + 10),
        tenant,
        percent: 25,
        end: Time::from_secs(end),
    };
    let put = async |id, secs, cooled: &[CoolDown]| {
        let report = GatewayReport { id, at: Time::from_secs(secs), nodes: Vec::new() };
        store.put_report(&report, cooled).await.unwrap();
    };
    let reported = async |tenant, since, now| {
        store.throttled_keys(tenant, Time::from_secs(since), Time::from_secs(now)).await.unwrap()
    };
    let first = cooled(ours, 3, 5_000);
    let second = cooled(ours, 4, 6_000);
    put(1, 1_000, &[second, first, cooled(theirs, 5, 5_000)]).await;
    put(2, 1_001, &[cooled(ours, 3, 7_000)]).await;
    assert_eq!(reported(ours, 0, 1_000).await, [first, cooled(ours, 3, 7_000), second]);
    assert_eq!(reported(theirs, 0, 1_000).await, [cooled(theirs, 5, 5_000)]);
    assert_eq!(reported(TenantId(3), 0, 1_000).await, []);
    assert_eq!(
        reported(ours, 0, 5_000).await,
        [cooled(ours, 3, 7_000), second],
        "an ended cool-down is not listed"
    );
    assert_eq!(reported(ours, 1_000, 1_000).await, [cooled(ours, 3, 7_000)], "the first is not at work");

    put(1, 1_002, &[second]).await;
    assert_eq!(reported(ours, 0, 1_000).await, [cooled(ours, 3, 7_000), second]);
    put(2, 1_003, &[]).await;
    assert_eq!(reported(ours, 0, 1_000).await, [second]);
    let many: Vec<_> = (0..2_500).map(|key| cooled(ours, key, 9_000)).collect();
    put(2, 1_004, &many).await;
    assert_eq!(reported(ours, 1_003, 1_000).await, many);
    put(2, 1_002 + 86_400, &[]).await;
    assert_eq!(reported(ours, 0, 1_000).await, [], "the report of a forgotten gateway is removed");
}
