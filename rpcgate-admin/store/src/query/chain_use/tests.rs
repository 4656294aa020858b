use super::*;
use crate::testing::TestDatabase;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::sample::{HOUR, SampleLine, SampleRecord, SampleShipper, deed, item};
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIDNIGHT: u64 = 500_016;

fn called(key: u128, hour: u64, chain: &'static str, (method, calls): (&str, u32)) -> SampleRecord {
    let line = SampleLine { calls, cu: calls, ..item(method) };
    SampleRecord { chain, ..deed(key, Time::from_secs(hour * HOUR), vec![line]) }
}

// Shows (Dashboard): The list of weights omits methods whose calls were all refused.
#[tokio::test]
async fn chains_and_methods_are_counted_over_all_tenants_at_every_rollup_state() {
    let mut failed = called(210, MIDNIGHT + 2, "toy", ("b", 4));
    failed.items[0].outcome = Outcome::Failed;
    let mut refused = called(110, MIDNIGHT + 3, "toy", ("c", 8));
    (refused.items[0].outcome, refused.items[0].cu) = (Outcome::Refused, 0);
    let deeds = [
        refused,
        called(110, MIDNIGHT, "toy", ("a", 3)),
        called(120, MIDNIGHT + 30, "toy", ("b", 2)),
        failed,
        called(110, MIDNIGHT + 2, "btc", ("a", 7)),
        called(110, MIDNIGHT - 1, "toy", ("a", 90)),
        called(110, MIDNIGHT + 60, "toy", ("a", 90)),
    ];
    let dir = TestDatabase::of(module_path!());
    let store = dir.usage_within(Duration::from_secs(60)).await.unwrap();
    store.sums_retry_at.store(u64::MAX, Ordering::Relaxed);
    store.ship(&SampleShipper::new(1).pack(&deeds)).await.unwrap();
    let hours = MIDNIGHT..MIDNIGHT + 60;
    loop {
        let toy = ChainUse { tenants: 2, calls: 17, errors: 12 };
        let btc = ChainUse { tenants: 1, calls: 7, errors: 0 };
        let found = store.chain_use(hours.clone()).await.unwrap();
        assert_eq!(found, [("toy".to_owned(), toy), ("btc".to_owned(), btc)].into());
        let told = async |limit| -> Vec<(String, u64)> {
            let found = store.method_totals("toy", hours.clone(), limit).await.unwrap();
            found.into_iter().map(|one| (one.method, one.calls)).collect()
        };
        // A method whose calls were all refused does not displace others.
        assert_eq!(told(9).await, [("b".to_owned(), 6), ("a".to_owned(), 3)]);
        assert_eq!(told(1).await, [("b".to_owned(), 6)]);
        assert_eq!(store.method_totals("sol", hours.clone(), 9).await.unwrap(), []);
        if !store.sum(MIDNIGHT + 50, 1).await.unwrap() {
            break;
        }
    }
}
