use super::*;
use crate::testing::TestDatabase;
use crate::{Mark, ShipError, Shipment, Spent};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::journal::{GatewayId, SegmentId};
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::ask::{MOST_ROWS, UsageFilter};
use rpcgate_core::usage::sample::{self, HOUR, SampleRecord, deed, item, recount};
use rpcgate_core::usage::{Blocks, Cell, Group, HourlyFold, Metrics, Stream, UsageAsk, UsageWindow};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// Four hours before midnight, so that the following hours contain two whole days.
const START: u64 = 500_012;
const HOURS: Range<u64> = START..START + 60;
const OURS: TenantId = TenantId(1);
const THEIRS: TenantId = TenantId(2);

struct Fixture {
    site: TestDatabase,
    store: UsageStore,
    position: u64,
    deeds: Vec<SampleRecord>,
    kept: u64,
}

impl Fixture {
    async fn new() -> Self {
        let site = TestDatabase::of(module_path!());
        let store = site.usage_within(Duration::from_secs(60)).await.unwrap();
        Fixture { site, store, position: 0, deeds: Vec::new(), kept: 0 }
    }

    async fn ship(&mut self, deeds: &[SampleRecord]) {
        let mut fold = HourlyFold::new();
        let mut blocks = Blocks::new();
        let frames = sample::frames(deeds);
        sample::take_in(&frames, &mut fold, &mut blocks);
        let from = self.position;
        self.position += frames.len() as u64;
        let shipment = Shipment {
            gateway: GatewayId(7),
            marks: vec![Mark { segment: SegmentId(5), from, to: self.position }],
            folded: fold.take(),
            blocks: blocks.take(),
        };
        self.store.ship(&shipment).await.unwrap();
        let state = self.sums().await;
        if !deeds.is_empty() {
            assert!(matches!(self.store.ship(&shipment).await, Err(ShipError::Moved)));
        }
        assert_eq!(self.sums().await, state, "a second time it changes nothing");
        let kept = deeds.iter().filter(|deed| deed.arrival.hour() >= self.kept);
        self.deeds.extend(kept.cloned());
    }

    async fn retain(&mut self, hour: u64) {
        self.store.retain(Time::from_secs(0), Time::from_secs(hour * HOUR)).await.unwrap();
        self.kept = hour;
        // Like a gateway, ships from the start of the segment if its mark was removed.
        if self.store.marks(GatewayId(7), SegmentId(0)).await.unwrap().is_empty() {
            self.position = 0;
        }
        self.deeds.retain(|deed| deed.arrival.hour() >= hour);
        let old = format!("hour < {hour}");
        assert_eq!(self.number(&format!("SELECT count(*) FROM sums WHERE {old}")).await, 0);
        assert_eq!(self.number(&format!("SELECT count(*) FROM rollups WHERE {old}")).await, 0);
    }

    async fn number(&self, sql: &str) -> i64 {
        let sql = format!("SELECT CAST(({sql}) AS bigint)");
        let row = self.store.read(async |database| {
            let ask = sea_orm::Statement::from_string(database.get_database_backend(), sql);
            Ok(database.query_one_raw(ask).await?)
        });
        row.await.unwrap().unwrap().try_get_by_index(0).unwrap()
    }

    async fn execute(&self, sql: &str) {
        let transaction = self.store.database.begin().await.unwrap();
        transaction.execute_unprepared(sql).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// Returns numbers that change with the sums.
    async fn sums(&self) -> (i64, i64) {
        let all =
            "SELECT coalesce(sum(requests + ws_messages + request_bytes + window_requests), 0) FROM sums";
        (self.number("SELECT count(*) FROM sums").await, self.number(all).await)
    }

    async fn finish(&self, rows: u64) {
        while self.store.sum(HOURS.end, rows).await.unwrap() {}
    }

    async fn check(&self, tenant: TenantId, hours: &Range<u64>, only: &UsageFilter, groups: &[Group]) {
        let window =
            UsageWindow::between(Time::from_secs(hours.start * HOUR), Time::from_secs(hours.end * HOUR));
        let ask = UsageAsk::new(tenant, window.unwrap()).only(only.clone()).grouped(groups).unwrap();
        let context = format!("{tenant} {hours:?} {only:?} {groups:?}");
        let rows = recount(&self.deeds, tenant, hours, only, groups);
        let totals = recount(&self.deeds, tenant, hours, only, &[]);
        let totals = totals.into_values().next().unwrap_or_default();
        for limit in [MOST_ROWS, 1] {
            let view = self.store.usage(&ask.clone().limited(limit).unwrap()).await.unwrap();
            let seen: Vec<_> = view.rows.into_iter().map(|row| (row.cells, row.metrics)).collect();
            let mut counted: Vec<_> = rows.iter().map(|(cells, row)| (cells.clone(), *row)).collect();
            let is_time = |cell: &&Cell| matches!(cell, Cell::Hour(_) | Cell::Day(_));
            counted.sort_by_cached_key(|(cells, _)| {
                Reverse(cells.iter().filter(is_time).cloned().collect::<Vec<_>>())
            });
            counted.truncate(limit as usize);
            counted.sort_by(|(one, _), (other, _)| one.cmp(other));
            assert_eq!(seen, counted, "{context}");
            assert_eq!(view.truncated, rows.len() > limit as usize, "{context}");
            assert_eq!(view.totals, totals, "{context}");
        }
    }

    async fn check_spent(&self, tenant: TenantId, hours: &Range<u64>) {
        let mut expected: BTreeMap<ProjectId, Spent> = BTreeMap::new();
        for (cells, row) in recount(&self.deeds, tenant, hours, &UsageFilter::default(), &[Group::Project]) {
            let [Cell::Project(project)] = cells[..] else { panic!("{cells:?}") };
            let Metrics { requests, billable_units, .. } = row;
            expected.insert(project, Spent { requests, billable_units, admitted: 0 });
        }
        for deed in self.deeds.iter().filter(|deed| deed.tenant == tenant) {
            if hours.contains(&deed.arrival.hour()) && (deed.windowed > 0 || !deed.items.is_empty()) {
                expected.entry(deed.project).or_default().admitted += u64::from(deed.windowed);
            }
        }
        let window =
            UsageWindow::between(Time::from_secs(hours.start * HOUR), Time::from_secs(hours.end * HOUR));
        let found = self.store.spent(tenant, None, &window.unwrap()).await.unwrap();
        assert_eq!(found, expected, "{tenant} {hours:?}");
    }

    async fn check_all(&self, some: &Range<u64>) {
        let parts = [
            UsageFilter::default(),
            UsageFilter { project: Some(ProjectId(11)), ..UsageFilter::default() },
            UsageFilter { chain: Some("toy".into()), ..UsageFilter::default() },
            UsageFilter { key: Some(KeyId(110)), ..UsageFilter::default() },
            UsageFilter { transport: Some(Transport::Ws), ..UsageFilter::default() },
        ];
        let groupings = [
            &[][..],
            &[Group::Chain, Group::Method],
            &[Group::Project, Group::Day],
            &[Group::Day, Group::Status],
            &[Group::Key, Group::Transport],
            &[Group::Hour, Group::Project],
            &[Group::Hour, Group::Method],
        ];
        for (n, groups) in groupings.into_iter().enumerate() {
            self.check(OURS, &HOURS, &UsageFilter::default(), groups).await;
            self.check(OURS, some, &parts[n % parts.len()], groups).await;
            self.check(THEIRS, some, &parts[(n + 2) % parts.len()], groups).await;
        }
        for hours in [&HOURS, some] {
            self.check_spent(OURS, hours).await;
            self.check_spent(THEIRS, hours).await;
        }
    }
}

// Shows (Usage).
#[test]
fn views_equal_a_count_regardless_of_the_progress_of_sums_and_late_records() {
    let step = (0usize..120, any::<bool>(), (0u64..66, 1u64..40));
    let given = (
        sample::deeds(HOURS, 1..240),
        any::<bool>(),
        prop::collection::vec(step, 1..5),
        (0u64..62, 1u64..62),
        prop::option::of(0u64..62),
    );
    let config = Config { cases: 10, failure_persistence: None, max_shrink_iters: 64, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    TestRunner::new(config)
        .run(&given, |(mut deeds, in_order, steps, (first, length), kept)| {
            runtime.block_on(async {
                if in_order {
                    deeds.sort_by_key(|deed| deed.arrival);
                }
                let some = START + first..START + first + length;
                let mut fixture = Fixture::new().await;
                let mut rest = deeds.as_slice();
                for (many, sums, (over, rows)) in steps {
                    let (part, after) = rest.split_at(many.min(rest.len()));
                    rest = after;
                    fixture.ship(part).await;
                    if sums {
                        fixture.store.sum(START + over, rows).await.unwrap();
                    }
                    fixture.check_all(&some).await;
                }
                if let Some(kept) = kept {
                    fixture.retain(START + kept).await;
                    fixture.check_all(&some).await;
                }
                // A gateway that was unreachable for long has records older than the removed ones.
                fixture.ship(rest).await;
                fixture.check_all(&some).await;
                fixture.finish(9).await;
                fixture.check_all(&some).await;
            });
            Ok(())
        })
        .unwrap();
}

/// Returns a call of each of two tenants' keys in every hour.
fn every_hour() -> Vec<SampleRecord> {
    let calls = HOURS.flat_map(|hour| {
        [110, 111, 120, 210]
            .map(|key| deed(key, Time::from_secs(hour * HOUR + 7), vec![item("a"), item("b")]))
    });
    calls.collect()
}

#[tokio::test]
async fn whole_days_and_summed_hours_need_no_rollups() {
    let mut fixture = Fixture::new().await;
    fixture.ship(&every_hour()).await;
    fixture.finish(50).await;
    let groups = [Group::Chain, Group::Method];
    fixture.check(OURS, &HOURS, &UsageFilter::default(), &groups).await;
    fixture.execute("DELETE FROM rollups").await;
    fixture.check(OURS, &HOURS, &UsageFilter::default(), &groups).await;
    fixture.check(OURS, &HOURS, &UsageFilter::default(), &[Group::Hour, Group::Project]).await;
    fixture.check_spent(THEIRS, &HOURS).await;
    // Keys are distinguished only in whole days.
    let midnight = START.next_multiple_of(24);
    fixture.check(OURS, &(midnight..midnight + 48), &UsageFilter::default(), &[Group::Key]).await;
}

#[tokio::test]
async fn usage_without_sums_is_right_at_once_and_summed_by_shipments() {
    let mut fixture = Fixture::new().await;
    fixture.ship(&every_hour()).await;
    fixture.execute("DELETE FROM sums").await;
    fixture.execute("UPDATE summed SET hour = 0, first = 0, project = NULL, key = NULL").await;
    fixture.store.close().await;
    fixture.store = fixture.site.usage_within(Duration::from_secs(60)).await.unwrap();
    assert_eq!(fixture.sums().await, (0, 0));
    fixture.check_all(&(START + 3..START + 50)).await;
    fixture.ship(&[deed(110, Time::from_secs((HOURS.end - 1) * HOUR + 600), vec![item("a")])]).await;
    assert_eq!(fixture.number("SELECT hour FROM summed").await as u64, HOURS.end - 1);
    fixture.check_all(&(START + 3..START + 50)).await;
    let sums = "SELECT sum(requests) FROM sums WHERE level = 5";
    let rollups = format!("SELECT sum(requests) FROM rollups WHERE hour < {}", HOURS.end - 1);
    assert_eq!(fixture.number(sums).await, fixture.number(&rollups).await);
}

// Shows (Usage): Summing continues within a tenant's hour, and start-up reads summed hours from sums (promise 67).
#[tokio::test]
async fn a_step_takes_a_bounded_number_of_rollups_of_any_tenant_and_splits_no_key() {
    let mut fixture = Fixture::new().await;
    // The last minutes of an hour are left alone for gateways that still ship them.
    let early = Time::from_secs(START * HOUR + 200);
    let calls = [110, 111, 120, 210].map(|key| deed(key, early, vec![item("a"), item("b")]));
    fixture.ship(&calls).await;
    fixture.ship(&[deed(110, Time::from_secs((START + 1) * HOUR + 299), vec![item("a")])]).await;
    let reached = async |fixture: &Fixture| {
        let hour = fixture.number("SELECT hour FROM summed").await as u64;
        (hour, fixture.number("SELECT count(*) FROM sums WHERE level = 5").await)
    };
    assert_eq!(reached(&fixture).await, (START, 0));
    // Two rows for each key. If a step ends within those of a key, the next one begins with that key.
    for (rows, summed) in [(3, 2), (1, 4), (3, 6)] {
        assert!(fixture.store.sum(START + 1, rows).await.unwrap());
        assert_eq!(reached(&fixture).await, (START, summed));
        fixture.check_all(&(START..START + 2)).await;
    }
    // Late usage of a summed key is added at once; that of other keys waits for its step.
    fixture.ship(&[110, 210].map(|key| deed(key, early, vec![item("c")]))).await;
    assert_eq!(reached(&fixture).await, (START, 7));
    fixture.check_all(&(START..START + 2)).await;
    assert!(!fixture.store.sum(START + 1, 3).await.unwrap());
    assert_eq!(reached(&fixture).await, (START + 1, 10));
    assert!(!fixture.store.sum(START + 1, 3).await.unwrap());
    fixture.check_all(&(START..START + 2)).await;
}

#[tokio::test]
async fn the_end_of_a_stream_counts_its_bytes_only_by_method_also_in_sums() {
    let mut fixture = Fixture::new().await;
    let end = SampleRecord {
        phase: rpcgate_core::backend::usage_sink::Phase::End,
        transport: Transport::Ws,
        ..deed(110, Time::from_secs(START * HOUR), vec![item("x")])
    };
    fixture.ship(&[end, deed(110, Time::from_secs(START * HOUR), vec![item("a")])]).await;
    fixture.finish(10).await;
    fixture.check_all(&(START..START + 4)).await;
    let window =
        UsageWindow::between(Time::from_secs(START * HOUR), Time::from_secs((START + 1) * HOUR)).unwrap();
    let ask = UsageAsk::new(OURS, window).grouped(&[Group::Method]).unwrap();
    let rows = fixture.store.usage(&ask).await.unwrap().rows;
    assert_eq!(rows[0].cells, [Cell::Method("WS:disconnect".into(), Stream::Disconnect)]);
    assert_eq!(rows[0].metrics.request_bytes, 100);
}
