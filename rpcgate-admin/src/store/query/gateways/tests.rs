use super::*;
use crate::store::site::Site;

#[tokio::test]
async fn a_gateways_newest_report_is_the_one_that_holds_and_the_long_gone_are_forgotten() {
    let site = Site::of(module_path!());
    let store = site.store_within(Duration::from_secs(60)).await.unwrap();
    let report = |id, secs, node: &str| GatewayReport {
        id,
        at: Time::from_secs(secs),
        nodes: vec![NodeState { node: node.into(), height: Some(7), ..NodeState::default() }],
    };
    for (id, secs, node) in [(1, 100_000, "old"), (2, 100_001, "b"), (1, 100_002, "a")] {
        store.put_report(&report(id, secs, node)).await.unwrap();
    }
    let all = store.reports(Time::from_secs(0)).await.unwrap();
    assert_eq!(all, [report(1, 100_002, "a"), report(2, 100_001, "b")]);
    let fresh = store.reports(Time::from_secs(100_001)).await.unwrap();
    assert_eq!(fresh, [report(1, 100_002, "a")]);
    store.put_report(&report(3, 100_001 + 86_400, "c")).await.unwrap();
    let ids: Vec<_> =
        store.reports(Time::from_secs(0)).await.unwrap().iter().map(|report| report.id).collect();
    assert_eq!(ids, [1, 3]);
}
