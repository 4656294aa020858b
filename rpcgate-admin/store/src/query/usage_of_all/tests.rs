use super::*;
use crate::testing::TestDatabase;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Price;
use rpcgate_core::usage::ask::UsageFilter;
use rpcgate_core::usage::sample::{self, HOUR, SampleLine, SampleRecord, SampleShipper, deed, item, recount};
use rpcgate_core::usage::{Amount, Cell, Group};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

const MIDNIGHT: u64 = 500_016;
const HOURS: Range<u64> = MIDNIGHT..MIDNIGHT + 60;

/// A database in which nothing is summed by itself.
async fn shipped(deeds: &[SampleRecord]) -> (TestDatabase, UsageStore) {
    let dir = TestDatabase::of(module_path!());
    let store = dir.usage_within(Duration::from_secs(60)).await.unwrap();
    store.sums_retry_at.store(u64::MAX, Ordering::Relaxed);
    store.ship(&SampleShipper::new(1).pack(deeds)).await.unwrap();
    (dir, store)
}

fn at(hour: u64) -> Time {
    Time::from_secs(hour * HOUR)
}

fn hour_of(cell: &Cell) -> u64 {
    match cell {
        Cell::Hour(time) | Cell::Day(time) => time.hour(),
        other => panic!("{other:?}"),
    }
}

fn expected_units(deeds: &[SampleRecord], by: Group) -> BTreeMap<(u64, ProjectId), u64> {
    let mut all = BTreeMap::new();
    for tenant in [TenantId(1), TenantId(2)] {
        for (cells, row) in recount(deeds, tenant, &HOURS, &UsageFilter::default(), &[by, Group::Project]) {
            let [first, Cell::Project(project)] = &cells[..] else { panic!("{cells:?}") };
            all.insert((hour_of(first), *project), row.billable_units);
        }
    }
    all.retain(|_, units| *units > 0);
    all
}

fn found_units(rows: &[ProjectUnits]) -> BTreeMap<(u64, ProjectId), u64> {
    let rows = rows.iter().filter(|row| row.units > 0);
    let mut all = BTreeMap::new();
    for row in rows {
        assert_eq!(row.tenant.0, row.project.0 / 10);
        assert_eq!(all.insert((row.hour, row.project), row.units), None, "a row is there once");
    }
    all
}

fn expected_keys(deeds: &[SampleRecord], by: Group, floor: u64) -> BTreeMap<(u64, KeyId), (u64, u64)> {
    let mut all: BTreeMap<(u64, KeyId), (u64, u64)> = BTreeMap::new();
    for tenant in [TenantId(1), TenantId(2)] {
        for (cells, row) in
            recount(deeds, tenant, &HOURS, &UsageFilter::default(), &[by, Group::Key, Group::Status])
        {
            let [first, Cell::Key(key), Cell::Status(status)] = &cells[..] else { panic!("{cells:?}") };
            if *status == 429 {
                all.entry((hour_of(first), *key)).or_default().1 += row.rejected;
            }
        }
    }
    for deed in deeds.iter().filter(|deed| HOURS.contains(&deed.arrival.hour())) {
        let hour = deed.arrival.hour();
        let first = if by == Group::Day { hour - hour % DAY } else { hour };
        all.entry((first, deed.key)).or_default().0 += u64::from(deed.windowed);
    }
    all.retain(|_, (admitted, refused)| *admitted + *refused > floor);
    all
}

fn found_keys(rows: &[KeyUse]) -> BTreeMap<(u64, KeyId), (u64, u64)> {
    let mut all = BTreeMap::new();
    for row in rows {
        assert_eq!(row.tenant.0, row.key.0 / 100);
        assert_eq!(all.insert((row.hour, row.key), (row.admitted, row.refused)), None);
    }
    all
}

fn keys_of(of: TenantSet) -> KeysAsk {
    KeysAsk { above_in_hour: 2, above_in_day: 9, of }
}

fn part_of_answer(found: &UsageOfAll, tenant: TenantId) -> UsageOfAll {
    let mut part = found.clone();
    part.projects.retain(|row| row.tenant == tenant);
    part.methods.retain(|row| row.tenant == tenant);
    part.key_hours.retain(|row| row.tenant == tenant);
    part.key_days.retain(|row| row.tenant == tenant);
    part.charged.retain(|of, _| *of == tenant);
    sorted(part)
}

fn sorted(mut found: UsageOfAll) -> UsageOfAll {
    found.projects.sort_unstable_by_key(|row| (row.hour, row.project));
    found.methods.sort_unstable_by(|one, other| {
        (one.hour, one.project, &one.chain, &one.method).cmp(&(
            other.hour,
            other.project,
            &other.chain,
            &other.method,
        ))
    });
    found.key_hours.sort_unstable_by_key(|row| (row.hour, row.key));
    found.key_days.sort_unstable_by_key(|row| (row.hour, row.key));
    found
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn the_answer_about_one_tenant_is_its_part_of_that_about_all() {
    let made = sample::deeds(HOURS, 300..301);
    let deeds = made.new_tree(&mut TestRunner::deterministic()).unwrap().current();
    let (_dir, store) = shipped(&deeds).await;
    let methods = vec![("toy".to_owned(), "toy_read".to_owned()), ("btc".into(), "toy_scan".into())];
    let ask = |only| UsageOfAllAsk {
        hours: HOURS,
        methods: methods.clone(),
        keys: Some(keys_of(TenantSet::All)),
        only,
    };
    loop {
        let all = store.usage_of_all(&ask(None)).await.unwrap();
        for tenant in [TenantId(1), TenantId(2), TenantId(3)] {
            let found = store.usage_of_all(&ask(Some(tenant))).await.unwrap();
            assert_eq!(sorted(found), part_of_answer(&all, tenant), "{tenant}");
        }
        if !store.sum(HOURS.end, 57).await.unwrap() {
            break;
        }
    }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn keys_are_read_of_the_tenants_whose_windows_are_in_question() {
    let made = sample::deeds(HOURS, 300..301);
    let deeds = made.new_tree(&mut TestRunner::deterministic()).unwrap().current();
    let (_dir, store) = shipped(&deeds).await;
    let asked = async |of| {
        let keys = Some(keys_of(of));
        let ask = UsageOfAllAsk { hours: HOURS, keys, ..UsageOfAllAsk::default() };
        sorted(store.usage_of_all(&ask).await.unwrap())
    };
    for _ in 0..2 {
        let all = asked(TenantSet::All).await;
        let first = part_of_answer(&all, TenantId(1));
        assert!(first.key_hours.len() > 1 && first.key_hours.len() < all.key_hours.len());
        for of in [TenantSet::Only(vec![TenantId(1)]), TenantSet::Except(vec![TenantId(2), TenantId(9)])] {
            let found = asked(of.clone()).await;
            assert_eq!((&found.key_hours, &found.key_days), (&first.key_hours, &first.key_days), "{of:?}");
            assert_eq!(found.projects, all.projects, "units are those of all");
        }
        while store.sum(HOURS.end, 100).await.unwrap() {}
    }
}

#[test]
fn a_set_of_tenants_is_listed_if_it_or_its_rest_is_short() {
    let many = |count: usize| (0..count as u128).map(TenantId).collect::<Vec<_>>();
    let max = many(TenantSet::MAX);
    let more = many(TenantSet::MAX + 1);
    assert_eq!(TenantSet::of(max.clone(), more.clone()), TenantSet::Only(max.clone()));
    assert_eq!(TenantSet::of(more.clone(), max.clone()), TenantSet::Except(max));
    assert_eq!(TenantSet::of(more.clone(), more), TenantSet::All);
}

#[tokio::test]
async fn a_list_of_the_maximum_number_of_tenants_is_read() {
    let (_dir, store) = shipped(&[deed(110, at(MIDNIGHT), vec![item("a")])]).await;
    for tenants in [1..=TenantSet::MAX as u128, 2..=1 + TenantSet::MAX as u128] {
        let is_in = tenants.contains(&1);
        let keys = KeysAsk {
            above_in_hour: 0,
            above_in_day: 0,
            of: TenantSet::Only(tenants.map(TenantId).collect()),
        };
        let ask = UsageOfAllAsk { hours: HOURS, keys: Some(keys), ..UsageOfAllAsk::default() };
        let found = store.usage_of_all(&ask).await.unwrap();
        assert_eq!((found.key_hours.len(), found.key_days.len()), (usize::from(is_in), usize::from(is_in)));
    }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn sums_equal_a_count_one_by_one_at_every_rollup_state() {
    let made = sample::deeds(HOURS, 300..301);
    let deeds = made.new_tree(&mut TestRunner::deterministic()).unwrap().current();
    let (_dir, store) = shipped(&deeds).await;
    let methods = vec![("toy".to_owned(), "toy_read".to_owned()), ("btc".into(), "toy_scan".into())];
    let ask = UsageOfAllAsk {
        hours: HOURS,
        methods: methods.clone(),
        keys: Some(keys_of(TenantSet::All)),
        only: None,
    };
    let projects = [ProjectId(11), ProjectId(12), ProjectId(21)];
    let first = store.usage_of_all(&ask).await.unwrap();
    assert!(first.key_hours.len() > 3 && first.key_days.len() > 3, "{first:?}");
    loop {
        let found = store.usage_of_all(&ask).await.unwrap();
        assert_eq!(found_units(&found.projects), expected_units(&deeds, Group::Day));
        assert_eq!(found_keys(&found.key_hours), expected_keys(&deeds, Group::Hour, 2));
        assert_eq!(found_keys(&found.key_days), expected_keys(&deeds, Group::Day, 9));
        let units = |methods: &[MethodUse]| {
            let mut all: BTreeMap<_, u64> = BTreeMap::new();
            for row in methods {
                *all.entry((row.hour - row.hour % DAY, row.project, row.method.clone())).or_default() +=
                    row.units;
            }
            all
        };
        assert_eq!(units(&found.methods), units(&first.methods));
        let (hours, of_methods) = store.hours_of_projects(&projects, HOURS, &methods).await.unwrap();
        assert_eq!(found_units(&hours), expected_units(&deeds, Group::Hour));
        assert_eq!(units(&of_methods), units(&first.methods));
        let (one, _) = store.hours_of_projects(&projects[2..], HOURS, &[]).await.unwrap();
        assert!(one.iter().all(|row| row.project == ProjectId(21)), "{one:?}");
        if !store.sum(HOURS.end, 23).await.unwrap() {
            break;
        }
    }
}

#[tokio::test]
async fn calls_of_a_free_method_are_those_that_would_be_charged() {
    let line = |cu, outcome, status, calls| SampleLine { cu, outcome, status, calls, ..item("toy_read") };
    let lines = |cu| {
        vec![
            line(cu, Outcome::Answered, 200, 3),
            line(cu, Outcome::NodeError, 200, 2),
            line(0, Outcome::Refused, 429, 5),
            line(0, Outcome::Failed, 502, 7),
            line(0, Outcome::Abandoned, 499, 11),
        ]
    };
    let other = SampleRecord { chain: "btc", ..deed(210, at(MIDNIGHT + 1), lines(9)) };
    let deeds = [
        deed(110, at(MIDNIGHT + 1), lines(0)),
        deed(120, at(MIDNIGHT + 1), lines(10)),
        deed(210, at(MIDNIGHT + 1), lines(10)),
        other,
        deed(210, at(MIDNIGHT + 25), lines(10)),
    ];
    let (_dir, store) = shipped(&deeds).await;
    let methods = vec![("toy".to_owned(), "toy_read".to_owned())];
    let ask = UsageOfAllAsk { hours: HOURS, methods: methods.clone(), ..UsageOfAllAsk::default() };
    let expected = [
        (MIDNIGHT, ProjectId(11), 5, 0),
        (MIDNIGHT, ProjectId(12), 5, 20),
        (MIDNIGHT, ProjectId(21), 5, 20),
        (MIDNIGHT + 24, ProjectId(21), 5, 20),
    ];
    for _ in 0..2 {
        let mut found = store.usage_of_all(&ask).await.unwrap();
        found.methods.sort_unstable_by_key(|row| (row.hour, row.project));
        let told: Vec<_> =
            found.methods.iter().map(|row| (row.hour, row.project, row.calls, row.units)).collect();
        assert_eq!(told, expected);
        assert!(found.key_hours.is_empty() && found.key_days.is_empty(), "nobody asked for them");
        let (_, of_hours) = store.hours_of_projects(&[ProjectId(21)], HOURS, &methods).await.unwrap();
        let mut hours: Vec<_> = of_hours.iter().map(|row| (row.hour, row.calls, row.units)).collect();
        hours.sort_unstable();
        assert_eq!(hours, [(MIDNIGHT + 1, 5, 20), (MIDNIGHT + 25, 5, 20)]);
        while store.sum(HOURS.end, 1).await.unwrap() {}
    }
}

#[tokio::test]
async fn charges_are_those_of_the_ledger_at_the_price_of_the_time() {
    let charge =
        |key, hour, price| SampleRecord { price: Price(price), ..deed(key, at(hour), vec![item("a"); 3]) };
    let deeds = [
        charge(110, MIDNIGHT, 5),
        charge(120, MIDNIGHT + 1, 7),
        charge(210, MIDNIGHT, u64::MAX >> 1),
        charge(110, MIDNIGHT + 59, 5),
        charge(110, MIDNIGHT + 60, 5),
        charge(110, MIDNIGHT - 1, 5),
    ];
    let (_dir, store) = shipped(&deeds).await;
    let found =
        store.usage_of_all(&UsageOfAllAsk { hours: HOURS, ..UsageOfAllAsk::default() }).await.unwrap();
    let large = Amount(3 * u128::from(u64::MAX >> 1));
    assert_eq!(found.charged, [(TenantId(1), Amount(3 * 5 + 3 * 7 + 3 * 5)), (TenantId(2), large)].into());
}

#[tokio::test]
async fn more_rows_than_an_answer_may_have_are_refused() {
    let deeds = [110, 120, 210].map(|key| deed(key, at(MIDNIGHT), vec![item("a")]));
    let (_dir, mut store) = shipped(&deeds).await;
    let ask = UsageOfAllAsk { hours: HOURS, ..UsageOfAllAsk::default() };
    store.bounds.max = 3;
    assert_eq!(store.usage_of_all(&ask).await.unwrap().projects.len(), 3);
    store.bounds.max = 2;
    assert!(matches!(store.usage_of_all(&ask).await, Err(StoreError::TooWide(_))));
}
