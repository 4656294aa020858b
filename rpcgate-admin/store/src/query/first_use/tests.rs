use super::*;
use crate::testing::TestDatabase;
use rpcgate_core::usage::sample::{SampleShipper, deed, item};

const MIDNIGHT: u64 = 500_016;
const KEPT: Duration = Duration::from_secs(400 * 86_400);
const OURS: TenantId = TenantId(1);
const THEIRS: TenantId = TenantId(2);

fn at(hour: u64, micros: u64) -> Time {
    Time::from_micros(hour * HOUR * 1_000_000 + micros)
}

// Shows (Dashboard).
#[tokio::test]
async fn the_first_use_is_that_of_the_tenant_alone() {
    let site = TestDatabase::of(module_path!());
    let store = site.usage_within(Duration::from_secs(60)).await.unwrap();
    let since = at(MIDNIGHT - 48, 0);
    let now = at(MIDNIGHT + 3, 0);
    let first = async |tenant| store.first_use(tenant, since, KEPT, now).await.unwrap();
    assert_eq!(first(OURS).await, None, "nothing was used yet");
    let mut sender = SampleShipper::new(1);
    store.ship(&sender.pack(&[deed(210, at(MIDNIGHT, 1), vec![item("a")])])).await.unwrap();
    assert_eq!((first(OURS).await, first(THEIRS).await), (None, Some(at(MIDNIGHT, 1))));
    store.ship(&sender.pack(&[deed(110, at(MIDNIGHT + 2, 7), vec![item("a")])])).await.unwrap();
    assert_eq!(first(OURS).await, Some(at(MIDNIGHT + 2, 7)));
}

#[tokio::test]
async fn usage_whose_events_are_no_longer_kept_is_found_by_its_hour() {
    let site = TestDatabase::of(module_path!());
    let store = site.usage_within(Duration::from_secs(60)).await.unwrap();
    let mut sender = SampleShipper::new(1);
    let mut shipment = sender.pack(&[deed(110, at(MIDNIGHT + 2, 7), vec![item("a")])]);
    shipment.blocks.clear();
    store.ship(&shipment).await.unwrap();
    let first = async |since, kept| store.first_use(OURS, since, kept, at(MIDNIGHT + 5, 0)).await.unwrap();
    let long_ago = at(MIDNIGHT - 48, 0);
    assert_eq!(first(long_ago, KEPT).await, Some(at(MIDNIGHT + 2, 0)));
    assert_eq!(first(at(MIDNIGHT + 3, 0), KEPT).await, None, "the tenant is younger");
    assert_eq!(first(long_ago, Duration::from_secs(2 * HOUR)).await, None, "it is kept no longer");
    while store.sum(MIDNIGHT + 4, 100).await.unwrap() {}
    assert_eq!(first(at(MIDNIGHT, 0), KEPT).await, Some(at(MIDNIGHT, 0)), "it is in the sums of the day now");
}
