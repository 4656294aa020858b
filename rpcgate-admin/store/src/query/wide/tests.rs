use super::*;
use crate::UsageStore;
use crate::testing::TestDatabase;
use crate::usage::Bounds;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::sample::{HOUR, SampleRecord, SampleShipper, deed, item};
use rpcgate_core::usage::{UsageFilter, UsageWindow};
use std::ops::Range;
use std::task::{Context, Waker};
use std::time::Duration;

const START: u64 = 499_992;
const OURS: TenantId = TenantId(1);
const THEIRS: TenantId = TenantId(2);

fn at(hour: u64) -> Time {
    Time::from_secs(hour * HOUR)
}

fn ask(hours: Range<u64>, groups: &[Group]) -> UsageAsk {
    let window = UsageWindow::between(at(hours.start), at(hours.end)).unwrap();
    UsageAsk::new(OURS, window).grouped(groups).unwrap()
}

/// Opens a database in which a tenant has four rollups in each of three hours. A query by three columns is large above
/// three rows, and reads at most eight.
async fn open(site: &TestDatabase) -> UsageStore {
    let mut store = site.usage_within(Duration::from_secs(60)).await.unwrap();
    store.bounds = Bounds { large: 12, max: 32 };
    let hours = [START, START + 1, START + 2];
    let deeds: Vec<SampleRecord> = hours
        .into_iter()
        .flat_map(|hour| ["a", "b", "c", "d"].map(|method| deed(110, at(hour), vec![item(method)])))
        .collect();
    store.ship(&SampleShipper::new(1).pack(&deeds)).await.unwrap();
    store
}

async fn refused(store: &UsageStore, ask: &UsageAsk) -> String {
    match store.usage(ask).await {
        Err(StoreError::TooWide(why)) => why,
        other => panic!("{other:?}"),
    }
}

// Shows (Usage): Usage queries that read too many rows get 400 with advice how to narrow them.
#[tokio::test]
async fn a_query_that_reads_too_much_is_refused_with_advice_that_helps() {
    let site = TestDatabase::of(module_path!());
    let store = open(&site).await;
    let wide = [Group::Hour, Group::Key, Group::Method];
    assert_eq!(
        refused(&store, &ask(START..START + 3, &wide)).await,
        "this question reads more than 8 rows of usage: ask for a shorter time, or leave out key, or name one \
         project_id"
    );
    for hours in [1, 2] {
        let view = store.usage(&ask(START..START + hours, &wide)).await.unwrap();
        assert_eq!((view.rows.len() as u64, view.totals.requests), (4 * hours, 4 * hours));
    }
    let view = store.usage(&ask(START..START + 3, &[Group::Method])).await.unwrap();
    assert_eq!(view.totals.requests, 12, "with fewer names to group by, more rows are read in the same time");
    let another = UsageFilter { project: Some(ProjectId(999)), ..UsageFilter::default() };
    assert_eq!(store.usage(&ask(START..START + 3, &wide).only(another)).await.unwrap().totals.requests, 0);
    let text = refused(&store, &ask(START..START + 72, &wide)).await;
    assert!(text.contains("group by day instead of hour"), "{text}");

    // Summed hours take fewer rows.
    refused(&store, &ask(START..START + 24, &[Group::Day, Group::Key, Group::Method])).await;
    while store.sum(START + 24, 100).await.unwrap() {}
    for groups in [&[Group::Day, Group::Key, Group::Method][..], &[Group::Hour], &[]] {
        let view = store.usage(&ask(START..START + 24, groups)).await.unwrap();
        assert_eq!(view.totals.requests, 12, "{groups:?}");
    }
}

// Shows (Usage): The queries of a tenant, and all large queries, have a bounded share of the readers (promise 67).
#[tokio::test]
async fn a_tenant_with_all_its_permits_waits_and_others_are_answered() {
    let site = TestDatabase::of(module_path!());
    let store = open(&site).await;
    let held = (store.permits.acquire(OURS).await.unwrap(), store.permits.acquire(OURS).await.unwrap());
    let question = ask(START..START + 1, &[]);
    let window = question.window().clone();
    let mut ours = Box::pin(store.usage(&question));
    let mut spent = Box::pin(store.spent(OURS, None, &window));
    let mut context = Context::from_waker(Waker::noop());
    assert!(ours.as_mut().poll(&mut context).is_pending());
    assert!(spent.as_mut().poll(&mut context).is_pending());
    assert!(store.usage(&UsageAsk::new(THEIRS, window.clone())).await.is_ok());
    assert!(store.spent(THEIRS, None, &window).await.is_ok());
    drop(held);
    assert_eq!(ours.await.unwrap().totals.requests, 4);
    assert_eq!(spent.await.unwrap().len(), 1);
}
