use super::*;
use crate::testing::TestDatabase;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::sample::{SampleRecord, SampleShipper, deed, item};

const MIDNIGHT: u64 = 500_016;

fn called(key: u128, chain: &'static str, hour: u64, methods: &[&str]) -> SampleRecord {
    let at = Time::from_secs(hour * 3_600 + 7);
    SampleRecord { chain, ..deed(key, at, methods.iter().map(item).collect()) }
}

// Shows (Dashboard): The calls of all tenants are the same at every rollup state.
#[tokio::test]
async fn the_calls_of_all_tenants_are_added_up_whether_they_are_summed_or_not() {
    let site = TestDatabase::of(module_path!());
    let store = site.usage_within(Duration::from_secs(60)).await.unwrap();
    let requests = async |hours: Range<u64>| -> Vec<(u64, String, u64)> {
        let found = store.served_hours(hours).await.unwrap();
        found.into_iter().map(|((hour, chain), metrics)| (hour - MIDNIGHT, chain, metrics.requests)).collect()
    };
    assert!(requests(MIDNIGHT..MIDNIGHT + 3).await.is_empty());
    let calls = [
        called(110, "eth", MIDNIGHT, &["a", "b"]),
        called(210, "eth", MIDNIGHT, &["a"]),
        called(210, "btc", MIDNIGHT + 1, &["a"]),
        called(110, "eth", MIDNIGHT + 2, &["a"]),
    ];
    store.ship(&SampleShipper::new(1).pack(&calls)).await.unwrap();
    let all = [(0, "eth".to_owned(), 3), (1, "btc".to_owned(), 1), (2, "eth".to_owned(), 1)];
    assert_eq!(requests(MIDNIGHT..MIDNIGHT + 3).await, all);
    // The result does not depend on the position of the sums.
    for until in [MIDNIGHT + 1, MIDNIGHT + 2, MIDNIGHT + 4] {
        while store.sum(until, 1).await.unwrap() {
            assert_eq!(requests(MIDNIGHT..MIDNIGHT + 3).await, all, "until {until}");
        }
    }
    assert_eq!(requests(MIDNIGHT + 1..MIDNIGHT + 2).await, all[1..2]);
}
