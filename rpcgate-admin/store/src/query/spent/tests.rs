use super::*;
use crate::testing::TestDatabase;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::ask::UsageFilter;
use rpcgate_core::usage::sample::{self, HOUR, SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_core::usage::{Cell, Group, Metrics, Period};
use std::time::Duration;

const MIDNIGHT: u64 = 500_016;

async fn shipped(deeds: &[SampleRecord]) -> (TestDatabase, UsageStore) {
    let dir = TestDatabase::of(module_path!());
    let store = dir.usage_within(Duration::from_secs(60)).await.unwrap();
    store.ship(&SampleShipper::new(1).pack(deeds)).await.unwrap();
    (dir, store)
}

fn at(hour: u64, micros: u64) -> Time {
    Time::from_micros(hour * HOUR * 1_000_000 + micros)
}

fn spent(requests: u64, admitted: u64, billable_units: u64) -> Spent {
    Spent { requests, admitted, billable_units }
}

#[tokio::test]
async fn a_batch_is_one_windows_request_and_a_refused_batch_is_not_counted() {
    let refused = SampleLine { cu: 0, status: 429, outcome: Outcome::Refused, ..item("a") };
    let free = SampleLine { cu: 0, ..item("b") };
    let (_dir, store) = shipped(&[
        deed(110, at(MIDNIGHT, 0), vec![item("a"), free.clone(), refused.clone()]),
        deed(111, at(MIDNIGHT, 1), vec![free]),
        SampleRecord { windowed: 0, ..deed(110, at(MIDNIGHT, 2), vec![refused]) },
        deed(120, at(MIDNIGHT, 0), vec![item("a")]),
        deed(210, at(MIDNIGHT, 0), vec![item("a"); 7]),
    ])
    .await;
    let today = UsageWindow::of(Period::Today, at(MIDNIGHT, 5));
    let ours = store.spent(TenantId(1), None, &today).await.unwrap();
    assert_eq!(ours, [(ProjectId(11), spent(5, 2, 1)), (ProjectId(12), spent(1, 1, 1))].into());
    assert_eq!(ours.into_values().fold(Spent::default(), Spent::plus), spent(6, 3, 2));
    let one = store.spent(TenantId(1), Some(ProjectId(11)), &today).await.unwrap();
    assert_eq!(one, [(ProjectId(11), spent(5, 2, 1))].into());
    let theirs = store.spent(TenantId(2), None, &today).await.unwrap();
    assert_eq!(theirs, [(ProjectId(21), spent(7, 1, 7))].into());
    for (tenant, project) in [(1, 21), (2, 11), (1, 13)] {
        let found = store.spent(TenantId(tenant), Some(ProjectId(project)), &today).await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}

#[tokio::test]
async fn a_day_begins_at_midnight_to_the_microsecond() {
    let last = at(MIDNIGHT, 0).micros() - 1;
    let one = |time| deed(110, time, vec![item("a")]);
    let (_dir, store) = shipped(&[
        one(Time::from_micros(last)),
        one(at(MIDNIGHT, 0)),
        one(at(MIDNIGHT + 23, 3_599_999_999)),
        one(at(MIDNIGHT + 24, 0)),
    ])
    .await;
    for (now, counted) in [
        (Time::from_micros(last), 1),
        (at(MIDNIGHT, 0), 1),
        (at(MIDNIGHT + 23, 3_599_999_999), 2),
        (at(MIDNIGHT + 24, 0), 1),
    ] {
        let window = UsageWindow::of(Period::Today, now);
        let found = store.spent(TenantId(1), None, &window).await.unwrap();
        assert_eq!(found[&ProjectId(11)].admitted, counted, "{now:?}");
    }
}

#[tokio::test]
async fn sums_are_those_of_a_count_one_by_one() {
    let made = sample::deeds(MIDNIGHT - 30..MIDNIGHT + 6, 300..301);
    let deeds = made.new_tree(&mut TestRunner::deterministic()).unwrap().current();
    let (_dir, store) = shipped(&deeds).await;
    for now in [at(MIDNIGHT - 1, 0), at(MIDNIGHT, 0), at(MIDNIGHT + 5, 0)] {
        for (period, tenant) in [(Period::Today, 1), (Period::Today, 2), (Period::Day, 1), (Period::Month, 2)]
        {
            let window = UsageWindow::of(period, now);
            let tenant = TenantId(tenant);
            let mut expected: BTreeMap<ProjectId, Spent> = BTreeMap::new();
            let all = UsageFilter::default();
            for (cells, row) in sample::recount(&deeds, tenant, &window.hours(), &all, &[Group::Project]) {
                let [Cell::Project(project)] = cells[..] else { panic!("{cells:?}") };
                let Metrics { requests, billable_units, .. } = row;
                expected.insert(project, Spent { requests, billable_units, admitted: 0 });
            }
            for deed in deeds.iter().filter(|deed| deed.tenant == tenant) {
                if window.hours().contains(&deed.arrival.hour()) {
                    expected.entry(deed.project).or_default().admitted += u64::from(deed.windowed);
                }
            }
            let found = store.spent(tenant, None, &window).await.unwrap();
            assert_eq!(found, expected, "{period} {now:?}");
            assert!(!found.is_empty() || period == Period::Today);
        }
    }
}
