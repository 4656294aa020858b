use super::*;
use crate::connect::DEADLINE;
use crate::entity::blocks;
use crate::testing::TestDatabase;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rpcgate_core::backend::counters::Restored;
use rpcgate_core::backend::usage_sink::{Outcome, Phase};
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::journal::{GatewayId, HEAD, SegmentId};
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::ask::{MOST_ROWS, UsageFilter};
use rpcgate_core::usage::bound::{ROWS, ROWS_OF_KEY};
use rpcgate_core::usage::method::{MOST, OTHER};
use rpcgate_core::usage::rollup::join;
use rpcgate_core::usage::sample::{self, HOUR, SampleLine, SampleRecord, deed, item, recount};
use rpcgate_core::usage::{
    Block, Blocks, Cell, Group, HourlyFold, Mark, Metrics, Period, Rollup, Shipment, Stream, UsageAsk,
    UsageView, UsageWindow,
};
use sea_orm::sea_query::Expr;
use sea_orm::{ConnectionTrait, EntityTrait, QueryResult, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::Range;
use std::task::{Context, Waker};
use std::time::Duration;

const START: u64 = 500_012;
const GATEWAY: GatewayId = GatewayId(77);
const OURS: TenantId = TenantId(1);
const THEIRS: TenantId = TenantId(2);

fn at(hour: u64) -> Time {
    Time::from_secs(hour * HOUR)
}

fn later(time: Time, micros: u64) -> Time {
    Time::from_micros(time.micros() + micros)
}

struct Fixture {
    site: TestDatabase,
    store: UsageStore,
    fold: HourlyFold,
    blocks: Blocks,
    position: u64,
}

const SEGMENT: SegmentId = SegmentId(5);

impl Fixture {
    async fn new() -> Self {
        let site = TestDatabase::of(module_path!());
        // A loaded machine may be slow, and few tests here are about the deadline.
        let store = site.usage_within(Duration::from_secs(60)).await.unwrap();
        Fixture { site, store, fold: HourlyFold::new(), blocks: Blocks::new(), position: 0 }
    }

    fn pack(&mut self, deeds: &[SampleRecord]) -> Shipment {
        let frames = sample::frames(deeds);
        sample::take_in(&frames, &mut self.fold, &mut self.blocks);
        let from = self.position;
        self.position += frames.len() as u64;
        Shipment {
            gateway: GATEWAY,
            marks: vec![Mark { segment: SEGMENT, from, to: self.position }],
            folded: self.fold.take(),
            blocks: self.blocks.take(),
        }
    }

    async fn ship(&mut self, deeds: &[SampleRecord]) {
        let shipment = self.pack(deeds);
        self.store.ship(&shipment).await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        let sql = format!("SELECT CAST(({sql}) AS bigint)");
        self.rows(&sql).await[0].try_get_by_index(0).unwrap()
    }

    async fn rows(&self, sql: &str) -> Vec<QueryResult> {
        let rows = self.store.read(async |database| {
            Ok(database.query_all_raw(Statement::from_string(database.get_database_backend(), sql)).await?)
        });
        rows.await.unwrap()
    }

    /// Returns everything that is stored, as numbers that change with it.
    async fn state(&self) -> [i64; 7] {
        let mut state = [0; 7];
        for (number, sql) in state.iter_mut().zip([
            "SELECT count(*) FROM rollups",
            "SELECT coalesce(sum(requests + ws_messages + window_requests), 0) FROM rollups",
            "SELECT coalesce(sum(request_bytes + latency_us), 0) FROM rollups",
            "SELECT coalesce(sum(events), 0) FROM blocks",
            "SELECT coalesce(sum(length(bytes)), 0) FROM blocks",
            "SELECT coalesce(sum(last - first) + count(*), 0) FROM block_keys",
            "SELECT coalesce(sum(position) + count(*), 0) FROM marks",
        ]) {
            *number = self.number(sql).await;
        }
        state
    }

    async fn view(&self, ask: UsageAsk) -> UsageView {
        self.store.usage(&ask).await.unwrap()
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn cases(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 64, ..Config::default() })
}

/// Returns every set of at most four columns, except those with both hour and day, in some order.
fn groupings() -> Vec<Vec<Group>> {
    let sets = (0u32..256).filter(|set| set.count_ones() <= 4 && set & 3 != 3);
    sets.map(|set| {
        let mut groups: Vec<_> =
            Group::ALL.into_iter().enumerate().filter(|(n, _)| set >> n & 1 == 1).map(|(_, g)| g).collect();
        // The order differs between sets, so that every column occurs at every position.
        let by = set as usize % groups.len().max(1);
        groups.rotate_left(by);
        groups
    })
    .collect()
}

fn window(hours: Range<u64>) -> UsageWindow {
    UsageWindow::between(at(hours.start), at(hours.end)).unwrap()
}

/// Returns the sum of the rows, which must equal the totals.
fn sum<'r>(rows: impl IntoIterator<Item = (&'r Vec<Cell>, &'r Metrics)>) -> Metrics {
    let mut sum = Metrics::default();
    for (cells, metrics) in rows {
        let is_end = cells.iter().any(|cell| matches!(cell, Cell::Method(_, Stream::Disconnect)));
        let bytes = if is_end { (0, 0) } else { (metrics.request_bytes, metrics.response_bytes) };
        sum.add(&Metrics { request_bytes: bytes.0, response_bytes: bytes.1, ..*metrics });
    }
    sum
}

async fn check(
    fixture: &Fixture,
    deeds: &[SampleRecord],
    tenant: TenantId,
    hours: &Range<u64>,
    only: &UsageFilter,
    groups: &[Group],
) {
    let ask = UsageAsk::new(tenant, window(hours.clone())).only(only.clone());
    let ask = ask.grouped(groups).unwrap().limited(MOST_ROWS).unwrap();
    let view = fixture.view(ask).await;
    let context = format!("{tenant} {hours:?} {only:?} {groups:?}");
    assert!(!view.truncated, "{context}");
    let rows: Vec<_> = view.rows.into_iter().map(|row| (row.cells, row.metrics)).collect();
    let counted: Vec<_> = recount(deeds, tenant, hours, only, groups).into_iter().collect();
    assert_eq!(rows, counted, "{context}");
    let totals = sum(&recount(deeds, tenant, hours, only, &[]));
    assert_eq!(view.totals, totals, "{context}");
    assert_eq!(sum(rows.iter().map(|(cells, metrics)| (cells, metrics))), totals, "{context}");
}

// Shows (Usage): Rows' sums equal the totals, except for the bytes of WS:disconnect.
#[test]
fn every_view_equals_a_count_of_the_records() {
    let groupings = groupings();
    assert_eq!(groupings.len(), 141);
    let methods = || prop::sample::select(sample::methods());
    let only = (
        prop::option::of(prop::sample::select(vec![11u128, 12, 21, 99])),
        prop::option::of(prop::sample::select(vec!["toy", "btc", "none"])),
        prop::option::weighted(0.3, methods()),
        prop::option::weighted(0.3, prop::sample::select(vec![110u128, 121, 210])),
        prop::option::weighted(
            0.3,
            prop::sample::select(vec![Transport::Http, Transport::Ws, Transport::Grpc]),
        ),
    )
        .prop_map(|(project, chain, method, key, transport)| UsageFilter {
            project: project.map(ProjectId),
            chain: chain.map(str::to_owned),
            method: method.map(|method| String::from_utf8_lossy(&method).replace('\0', "\u{fffd}")),
            key: key.map(KeyId),
            transport,
        });
    let given = (
        sample::deeds(START..START + 30, 1..300),
        prop::collection::vec(0usize..300, 0..4),
        prop::collection::vec(only, 3),
        (0u64..32, 1u64..32),
    );
    cases(6)
        .run(&given, |(deeds, mut cuts, onlys, (start, length))| {
            run(async {
                let mut fixture = Fixture::new().await;
                cuts.push(deeds.len());
                cuts.sort_unstable();
                let mut rest = deeds.as_slice();
                for pair in cuts.windows(2) {
                    let (part, after) = rest.split_at((pair[1] - pair[0]).min(rest.len()));
                    fixture.ship(part).await;
                    rest = after;
                }
                fixture.ship(rest).await;
                let all = START..START + 30;
                let some = START + start..START + start + length;
                for (n, groups) in groupings.iter().enumerate() {
                    check(&fixture, &deeds, OURS, &all, &UsageFilter::default(), groups).await;
                    check(&fixture, &deeds, [OURS, THEIRS][n % 2], &some, &onlys[n % 3], groups).await;
                }
            });
            Ok(())
        })
        .unwrap();
}

// Shows (Reliability).
#[tokio::test]
async fn a_shipment_counts_once_after_any_number_of_repeats() {
    let mut fixture = Fixture::new().await;
    let first = fixture.pack(&[deed(110, at(START), vec![item("a"), item("b")])]);
    fixture.store.ship(&first).await.unwrap();
    let state = fixture.state().await;
    for _ in 0..3 {
        assert!(matches!(fixture.store.ship(&first).await, Err(ShipError::Moved)));
        assert_eq!(fixture.state().await, state);
    }
    let second = fixture.pack(&[deed(110, at(START), vec![item("a")])]);
    fixture.store.ship(&second).await.unwrap();
    for shipment in [&first, &second] {
        assert!(matches!(fixture.store.ship(shipment).await, Err(ShipError::Moved)));
    }
    let view = fixture.view(UsageAsk::new(OURS, window(START..START + 1))).await;
    assert_eq!(view.totals.requests, 3);
    assert_eq!(fixture.store.marks(GATEWAY, SegmentId(0)).await.unwrap(), [(SEGMENT, fixture.position)]);
    assert_eq!(fixture.store.marks(GatewayId(78), SegmentId(0)).await.unwrap(), []);
}

#[tokio::test]
async fn a_mark_moves_only_from_its_current_value() {
    let mut fixture = Fixture::new().await;
    let mut shipment = fixture.pack(&[deed(110, at(START), vec![item("a")])]);
    let empty = fixture.state().await;
    let mark = |segment, from, to| Mark { segment: SegmentId(segment), from, to };
    let head = HEAD as u64;
    for wrong in [
        vec![mark(1, head + 1, head + 2)],
        vec![mark(1, 9, 8)],
        vec![mark(1, 0, 100), mark(2, head + 1, head + 2)],
        vec![mark(1, 0, 100), mark(1, 0, 100)],
    ] {
        shipment.marks = wrong;
        assert!(matches!(fixture.store.ship(&shipment).await, Err(ShipError::Moved)), "{:?}", shipment.marks);
        assert_eq!(fixture.state().await, empty, "{:?}", shipment.marks);
    }
    shipment.marks = vec![mark(1, head, 100), mark(2, 0, 90), mark(1, 100, 200), mark(3, head, head)];
    fixture.store.ship(&shipment).await.unwrap();
    let marks = [(SegmentId(1), 200), (SegmentId(2), 90), (SegmentId(3), head)];
    assert_eq!(fixture.store.marks(GATEWAY, SegmentId(0)).await.unwrap(), marks);

    let other = Shipment { gateway: GatewayId(78), marks: vec![mark(1, 0, 50)], ..shipment.clone() };
    fixture.store.ship(&other).await.unwrap();
    assert_eq!(fixture.store.marks(GATEWAY, SegmentId(0)).await.unwrap(), marks, "a mark is its gateway's");

    shipment.marks = vec![mark(3, head, 300)];
    fixture.store.ship(&shipment).await.unwrap();
    let marks = async |gateway, oldest| fixture.store.marks(gateway, SegmentId(oldest)).await.unwrap();
    assert_eq!(marks(GATEWAY, 2).await, [(SegmentId(2), 90), (SegmentId(3), 300)]);
    assert_eq!(marks(GatewayId(78), 0).await, [(SegmentId(1), 50)]);
    assert!(marks(GatewayId(78), 2).await.is_empty());
}

#[tokio::test]
async fn one_of_two_equal_shipments_is_stored() {
    let mut fixture = Fixture::new().await;
    let shipment = fixture.pack(&[deed(110, at(START), vec![item("a")])]);
    let other = fixture.site.usage_within(DEADLINE).await.unwrap();
    let (here, there) = tokio::join!(fixture.store.ship(&shipment), other.ship(&shipment));
    assert!(here.is_ok() != there.is_ok());
    let view = fixture.view(UsageAsk::new(OURS, window(START..START + 1))).await;
    assert_eq!(view.totals.requests, 1);
}

#[tokio::test]
async fn a_shipment_that_is_dropped_half_way_is_taken_wholly_or_not_at_all() {
    let mut fixture = Fixture::new().await;
    let mut taken = 0;
    for polls in 0..60 {
        let deeds: Vec<_> =
            (0..40).map(|n| deed(110 + n % 2, at(START), vec![item(format!("m{n}"))])).collect();
        let shipment = fixture.pack(&deeds);
        let mut shipping = Box::pin(fixture.store.ship(&shipment));
        let mut done = false;
        for _ in 0..polls {
            done = shipping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            if done {
                break;
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        drop(shipping);
        // The next write waits until the dropped one is rolled back, or finds it committed.
        let again = fixture.store.ship(&shipment).await;
        assert!(!done || matches!(again, Err(ShipError::Moved)));
        taken += usize::from(matches!(again, Err(ShipError::Moved)));
        if let Err(error) = again {
            assert!(matches!(error, ShipError::Moved), "{error}");
        }
        let view = fixture.view(UsageAsk::new(OURS, window(START..START + 1))).await;
        assert_eq!(view.totals.requests, 40 * (polls + 1));
        assert_eq!(fixture.store.marks(GATEWAY, SegmentId(0)).await.unwrap(), [(SEGMENT, fixture.position)]);
    }
    assert!(taken < 60, "at least the queries that never began were not executed");
}

#[tokio::test]
async fn a_shipment_waits_for_another_writer_and_succeeds_later() {
    let mut fixture = Fixture::new().await;
    let impatient = fixture.site.usage_within(Duration::from_secs(2)).await.unwrap();
    let shipment = fixture.pack(&[deed(110, at(START), vec![item("a")])]);
    let lock = fixture.store.database.begin().await.unwrap();
    let failed = impatient.ship(&shipment).await;
    assert!(matches!(failed, Err(ShipError::Store(StoreError::Unavailable(_)))), "{failed:?}");
    lock.rollback().await.unwrap();
    impatient.ship(&shipment).await.unwrap();
    assert_eq!(fixture.view(UsageAsk::new(OURS, window(START..START + 1))).await.totals.requests, 1);
}

#[tokio::test]
async fn a_quiet_gateway_leaves_one_block() {
    let mut fixture = Fixture::new().await;
    let deeds: Vec<_> =
        (0..30).map(|n| deed(110 + n % 2, later(at(START), n as u64), vec![item("a")])).collect();
    for one in &deeds {
        fixture.ship(std::slice::from_ref(one)).await;
    }
    assert_eq!(fixture.number("SELECT count(*) FROM blocks").await, 1);
    assert_eq!(fixture.number("SELECT count(*) FROM block_keys").await, 2);
    assert_eq!(fixture.number("SELECT events FROM blocks").await, 30);
    for one in &deeds {
        let found = fixture.store.event(OURS, one.request).await.unwrap().unwrap();
        assert_eq!((found.key, found.arrival), (one.key, one.arrival));
    }
    // A new process does not know the open block and begins another.
    fixture.blocks = Blocks::new();
    fixture.ship(&deeds[..1]).await;
    assert_eq!(fixture.number("SELECT count(*) FROM blocks").await, 2);
}

// Shows (Usage).
// Shows (Reliability).
#[test]
fn restored_counts_equal_a_count_of_the_records() {
    let hour = 500_000;
    let given = (sample::deeds(hour..hour + 50, 1..300), 0u64..50 * 3_600_000_000);
    cases(24)
        .run(&given, |(mut deeds, offset)| {
            let now = later(at(hour), offset);
            // Few random records fall into the same minute, and none on its borders.
            let minute = now.minute() * 60_000_000;
            for (n, deed) in deeds.iter_mut().enumerate() {
                let border = [0, 1, 59_999_999, 60_000_000, 30_000_000];
                match n % 11 {
                    near @ 0..5 => deed.arrival = Time::from_micros(minute + border[near]),
                    5 => deed.arrival = Time::from_micros(minute.saturating_sub(1)),
                    _ => {}
                }
            }
            let mut windows: BTreeMap<KeyId, [u64; 3]> = BTreeMap::new();
            let mut units: BTreeMap<(ProjectId, u64), u64> = BTreeMap::new();
            for deed in &deeds {
                let then = deed.arrival;
                let counted = u64::from(deed.windowed);
                let is_in =
                    [then.minute() == now.minute(), then.hour() == now.hour(), then.day() == now.day()];
                if counted > 0 && is_in[2] {
                    let window = windows.entry(deed.key).or_default();
                    for (sum, is_in) in window.iter_mut().zip(is_in) {
                        *sum += if is_in { counted } else { 0 };
                    }
                }
                let is_charged = match deed.phase {
                    Phase::Complete | Phase::Begin => true,
                    Phase::Pushed => deed.transport == Transport::Ws,
                    Phase::End => false,
                };
                if is_charged && then.hour() <= now.hour() && then.hour() + 23 >= now.hour() {
                    let charged: u64 = deed.items.iter().map(|item| u64::from(item.cu)).sum();
                    *units.entry((deed.project, then.hour())).or_default() += charged;
                }
            }
            units.retain(|_, units| *units > 0);
            run(async {
                let mut fixture = Fixture::new().await;
                for (n, part) in deeds.chunks(70).enumerate() {
                    fixture.ship(part).await;
                    // Sums of any hours.
                    fixture.store.sum(now.hour().saturating_sub(n as u64), 7 * n as u64).await.unwrap();
                }
                let restored = fixture.store.restore(now).await.unwrap();
                let expected = Restored {
                    now,
                    windows: windows.into_iter().collect(),
                    units: units.into_iter().map(|((project, hour), units)| (project, hour, units)).collect(),
                };
                assert_eq!(restored, expected);
            });
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn windows_are_restored_up_to_their_borders() {
    let mut fixture = Fixture::new().await;
    let midnight = at(500_016);
    let begin = |micros: i64| Time::from_micros(midnight.micros().strict_add_signed(micros));
    let counted = |arrival, windowed| SampleRecord { windowed, ..deed(110, arrival, vec![item("a")]) };
    let second = 1_000_000;
    fixture
        .ship(&[
            counted(begin(-1), 1),
            counted(begin(0), 10),
            counted(begin(60 * second - 1), 100),
            counted(begin(60 * second), 1_000),
            counted(begin(3_600 * second - 1), 10_000),
            counted(begin(3_600 * second), 100_000),
            counted(begin(24 * 3_600 * second - 1), 1_000_000),
            counted(begin(24 * 3_600 * second), 10_000_000),
        ])
        .await;
    let restored = async |now| {
        let restored = fixture.store.restore(now).await.unwrap();
        restored.windows.into_iter().map(|(_, window)| window).collect::<Vec<_>>()
    };
    assert_eq!(restored(begin(-1)).await, [[1, 1, 1]]);
    assert_eq!(restored(begin(0)).await, [[110, 11_110, 1_111_110]]);
    assert_eq!(restored(begin(60 * second - 1)).await, [[110, 11_110, 1_111_110]]);
    assert_eq!(restored(begin(60 * second)).await, [[1_000, 11_110, 1_111_110]]);
    assert_eq!(restored(begin(3_600 * second)).await, [[100_000, 100_000, 1_111_110]]);
    assert_eq!(restored(begin(24 * 3_600 * second)).await, [[10_000_000, 10_000_000, 10_000_000]]);
    assert_eq!(restored(begin(-60 * second - 1)).await, [[0, 1, 1]]);
    assert_eq!(restored(begin(48 * 3_600 * second)).await, [] as [[u64; 3]; 0]);
}

#[tokio::test]
async fn units_are_restored_for_this_hour_and_the_23_before() {
    let mut fixture = Fixture::new().await;
    let charged = |hour, cu| deed(110, at(hour), vec![SampleLine { cu, ..item("a") }]);
    fixture
        .ship(&[charged(START - 24, 1), charged(START - 23, 2), charged(START, 4), charged(START + 1, 8)])
        .await;
    fixture.ship(&[charged(START, 16)]).await;
    let restored = fixture.store.restore(later(at(START), HOUR * 1_000_000 - 1)).await.unwrap();
    assert_eq!(restored.units, [(ProjectId(11), START - 23, 2), (ProjectId(11), START, 20)]);
}

#[tokio::test]
async fn rows_are_cut_at_the_limit_and_totals_are_not() {
    let mut fixture = Fixture::new().await;
    let deeds: Vec<_> = (0..10).map(|n| deed(110, at(START + 9 - n), vec![item("a")])).collect();
    fixture.ship(&deeds).await;
    let ask = UsageAsk::new(OURS, window(START..START + 10)).grouped(&[Group::Hour]).unwrap();
    for (limit, rows, truncated) in [(1, 1, true), (9, 9, true), (10, 10, false), (11, 10, false)] {
        let view = fixture.view(ask.clone().limited(limit).unwrap()).await;
        assert_eq!((view.rows.len(), view.truncated, view.totals.requests), (rows, truncated, 10), "{limit}");
        let hours: Vec<_> = view.rows.iter().map(|row| row.cells.clone()).collect();
        let newest: Vec<_> = (10 - rows as u64..10).map(|n| vec![Cell::Hour(at(START + n))]).collect();
        assert_eq!(hours, newest, "the newest, the earliest of them first");
    }
}

// Shows (Usage).
#[test]
fn totals_are_the_same_whether_rows_are_cut_or_not() {
    cases(24)
        .run(&sample::deeds(START..START + 30, 1..200), |deeds| {
            run(async {
                let mut fixture = Fixture::new().await;
                fixture.ship(&deeds).await;
                let hours = START..START + 30;
                let totals = sum(&recount(&deeds, OURS, &hours, &UsageFilter::default(), &[]));
                for groups in [&[Group::Method, Group::Hour][..], &[Group::Status, Group::Key], &[]] {
                    let ask = UsageAsk::new(OURS, window(hours.clone())).grouped(groups).unwrap();
                    for limit in [1, 3, MOST_ROWS] {
                        let view = fixture.view(ask.clone().limited(limit).unwrap()).await;
                        assert_eq!(view.totals, totals, "{groups:?} {limit} {}", view.truncated);
                    }
                }
            });
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn a_group_without_any_count_has_no_row_and_uses_no_limit() {
    let mut fixture = Fixture::new().await;
    let end = SampleRecord {
        phase: Phase::End,
        transport: Transport::Ws,
        windowed: 1,
        ..deed(110, at(START), vec![SampleLine { status: 101, ..item("x") }])
    };
    fixture.ship(&[end, deed(111, at(START), vec![item("a")]), deed(120, at(START), vec![])]).await;
    let ask = UsageAsk::new(OURS, window(START..START + 1)).limited(1).unwrap();
    let by_status = fixture.view(ask.clone().grouped(&[Group::Status]).unwrap()).await;
    let cells: Vec<_> = by_status.rows.iter().map(|row| row.cells.clone()).collect();
    assert_eq!((cells, by_status.truncated), (vec![vec![Cell::Status(200)]], false));
    let by_key = fixture.view(ask.clone().grouped(&[Group::Key]).unwrap()).await;
    assert_eq!((by_key.rows[0].cells.clone(), by_key.truncated), (vec![Cell::Key(KeyId(111))], false));
    let by_method = fixture.view(ask.limited(9).unwrap().grouped(&[Group::Method]).unwrap()).await;
    let ended = &by_method.rows[0];
    assert_eq!(ended.cells, [Cell::Method("WS:disconnect".into(), Stream::Disconnect)]);
    let bytes = Metrics { request_bytes: 100, response_bytes: 200, ..Default::default() };
    assert_eq!(ended.metrics, bytes);
    assert_eq!(by_method.totals.request_bytes, 100, "only those of the call");

    let nothing = fixture.view(UsageAsk::new(OURS, window(START + 5..START + 6))).await;
    assert_eq!((nothing.totals, nothing.rows.len()), (Metrics::default(), 0));
}

// Shows (Usage): A period of 24 h covers 24 hour buckets; custom ranges widen to whole hours.
#[tokio::test]
async fn each_period_looks_at_its_hours_at_odd_moments() {
    let mut fixture = Fixture::new().await;
    // From mid-January to the end of March of a leap year. The request count identifies the hour.
    let start = 1_831_590_000 / HOUR;
    let hours = start..start + 76 * 24;
    let deeds: Vec<_> = hours
        .clone()
        .map(|hour| {
            deed(110, later(at(hour), 1), vec![SampleLine { calls: (hour - start + 1) as u32, ..item("a") }])
        })
        .collect();
    for part in deeds.chunks(500) {
        fixture.ship(part).await;
    }
    // 2028-03-01T00:00:00Z.
    let march = 1_835_481_600 / HOUR;
    let day = 24;
    for (now, month, today) in [
        (later(at(march), 0), march, march),
        (Time::from_micros(at(march).micros() - 1), march - 29 * day, march - day),
        (later(at(march + 3 * day + 7), 1_234_567_890), march, march + 3 * day),
        (later(at(march + 23), 3_599_999_999), march, march),
    ] {
        let hour = now.hour();
        for (period, first) in [
            (Period::Day, hour - 23),
            (Period::Week, hour - 167),
            (Period::ThirtyDays, hour - 719),
            (Period::Today, today),
            (Period::Month, month),
        ] {
            let view = fixture.view(UsageAsk::new(OURS, UsageWindow::of(period, now))).await;
            assert_eq!((view.from, view.to), (at(first), at(hour + 1)), "{period} at {now:?}");
            let requests: u64 = (first..=hour).map(|hour| hour.saturating_sub(start) + 1).sum();
            assert_eq!(view.totals.requests, requests, "{period} at {now:?}");
            assert_eq!(view.period, Some(period));
        }
    }
    let widest = UsageWindow::between(later(at(start), 1), later(at(start + 92 * day), 1)).unwrap();
    let view = fixture.view(UsageAsk::new(OURS, widest).grouped(&[Group::Day]).unwrap()).await;
    let all: u64 = (1..=76 * day).sum();
    assert_eq!(view.totals.requests, all);
    assert_eq!(view.rows.len(), 77, "it began in the middle of a day");
}

// Shows (Usage): A single request is found by its id, and only by its tenant.
#[tokio::test]
async fn single_requests_are_found_by_id_and_only_by_their_tenant() {
    let mut fixture = Fixture::new().await;
    let deeds: Vec<_> = (0..500)
        .map(|n| {
            deed([110, 111, 210][n % 3], later(at(START), n as u64 * 30_000_017), vec![item(format!("m{n}"))])
        })
        .collect();
    for part in deeds.chunks(90) {
        fixture.ship(part).await;
    }
    for (n, one) in deeds.iter().enumerate() {
        let (mine, other) = if one.tenant == OURS { (OURS, THEIRS) } else { (THEIRS, OURS) };
        let found = fixture.store.event(mine, one.request).await.unwrap().unwrap();
        assert_eq!((found.request, found.arrival, found.key), (one.request, one.arrival, one.key));
        assert_eq!(found.lines[0].method, format!("m{n}"));
        assert_eq!(fixture.store.event(other, one.request).await.unwrap(), None);
    }
    let unknown = RequestId::new(deeds[7].arrival);
    assert_eq!(fixture.store.event(OURS, unknown).await.unwrap(), None);
    for id in [RequestId(0), RequestId(u128::MAX)] {
        assert_eq!(fixture.store.event(OURS, id).await.unwrap(), None);
    }
}

#[tokio::test]
async fn the_event_of_a_stream_is_its_end() {
    let mut fixture = Fixture::new().await;
    let begin = SampleRecord {
        phase: Phase::Begin,
        transport: Transport::Ws,
        ..deed(110, at(START), vec![item("x")])
    };
    let part = |phase| SampleRecord { phase, ..begin.clone() };
    fixture.ship(&[begin.clone(), part(Phase::Pushed)]).await;
    let phase = async |fixture: &Fixture| {
        fixture.store.event(OURS, begin.request).await.unwrap().map(|event| event.phase)
    };
    assert_eq!(phase(&fixture).await, Some(Phase::Begin));
    fixture.ship(&[part(Phase::End), part(Phase::Pushed)]).await;
    assert_eq!(phase(&fixture).await, Some(Phase::End));
}

#[tokio::test]
async fn the_last_events_of_a_key_come_newest_first() {
    let mut fixture = Fixture::new().await;
    // Not in order of arrival, over several hours and blocks.
    let mut deeds: Vec<_> = (0..900u64)
        .map(|n| {
            let arrival = later(at(START), n * 7_919 % 900 * 20_000_000);
            deed([110, 111, 210][n as usize % 3], arrival, vec![item("a")])
        })
        .collect();
    for part in deeds.chunks(100) {
        fixture.ship(part).await;
        fixture.blocks = Blocks::new();
    }
    deeds.retain(|deed| deed.key == KeyId(111));
    deeds.sort_by_key(|deed| std::cmp::Reverse((deed.arrival, deed.request)));
    for limit in [0, 1, 2, 50, 299, 300, 5_000] {
        let last = fixture.store.last_events(OURS, KeyId(111), limit).await.unwrap();
        let requests: Vec<_> = last.iter().map(|event| event.request).collect();
        let expected: Vec<_> = deeds.iter().take(limit as usize).map(|deed| deed.request).collect();
        assert_eq!(requests, expected, "{limit}");
    }
    assert_eq!(fixture.store.last_events(THEIRS, KeyId(111), 10).await.unwrap(), []);
    assert_eq!(fixture.store.last_events(OURS, KeyId(210), 10).await.unwrap(), []);
}

#[tokio::test]
async fn history_begins_with_the_oldest_event_in_scope() {
    let mut fixture = Fixture::new().await;
    let project = |project| UsageFilter { project: Some(ProjectId(project)), ..UsageFilter::default() };
    let ask = |only| UsageAsk::new(OURS, window(START..START + 1)).only(only);
    assert_eq!(fixture.view(ask(UsageFilter::default())).await.history_from, None);
    fixture
        .ship(&[
            deed(210, later(at(START), 1), vec![]),
            deed(120, later(at(START), 900), vec![]),
            deed(110, later(at(START), 500), vec![]),
            deed(120, later(at(START), 700), vec![]),
        ])
        .await;
    // A block that ends earlier and begins later, and one of a later hour.
    fixture.blocks = Blocks::new();
    fixture.ship(&[deed(120, later(at(START), 800), vec![])]).await;
    fixture.ship(&[deed(120, at(START + 1), vec![])]).await;
    assert_eq!(fixture.view(ask(UsageFilter::default())).await.history_from, Some(later(at(START), 500)));
    assert_eq!(fixture.view(ask(project(12))).await.history_from, Some(later(at(START), 700)));
    assert_eq!(fixture.view(ask(project(21))).await.history_from, None, "another tenant's");
}

// Shows (Usage).
#[tokio::test]
async fn old_usage_is_removed_in_small_steps_and_nothing_else() {
    let mut fixture = Fixture::new().await;
    let deeds: Vec<_> = (0..60).map(|n| deed(110, later(at(START + n), 5), vec![item("a")])).collect();
    for one in &deeds {
        fixture.ship(std::slice::from_ref(one)).await;
    }
    // More rollups in an hour than a step removes.
    let names: Vec<_> =
        (0..2_300).map(|n| deed(110 + n % 3, at(START + 1), vec![item(format!("m{:03}", n / 3))])).collect();
    for part in names.chunks(400) {
        fixture.ship(part).await;
    }
    let before = fixture.number("SELECT count(*) FROM rollups").await;
    assert_eq!(before, 60 + 2_300);
    let nothing = fixture.store.retain(at(START), at(START)).await.unwrap();
    assert_eq!((nothing.blocks, nothing.rollups), (0, 0));

    let kept = later(at(START + 50), 5);
    // A server removes whole days; the last complete one ended 22 hours before.
    let first = if fixture.site.folder().is_some() { 50 } else { 28 };
    let removed = fixture.store.retain(kept, at(START)).await.unwrap();
    assert_eq!(removed.rollups, 0);
    assert_eq!(removed.blocks as i64 + fixture.number("SELECT count(*) FROM blocks").await, 60 + 1);
    assert_eq!(fixture.number("SELECT count(*) FROM blocks").await, 60 - first);
    assert_eq!(fixture.number("SELECT count(*) FROM block_keys").await, 60 - first);
    let view = fixture.view(UsageAsk::new(OURS, window(START..START + 60))).await;
    let history = later(at(START + first as u64), 5);
    assert_eq!((view.history_from, view.totals.requests), (Some(history), 2_360));
    assert_eq!(fixture.store.event(OURS, deeds[first as usize - 1].request).await.unwrap(), None);
    assert!(fixture.store.event(OURS, deeds[first as usize].request).await.unwrap().is_some());

    // The hour ends in half an hour.
    let removed = fixture.store.retain(at(START), later(at(START + 2), 1_800_000_000)).await.unwrap();
    assert_eq!((removed.blocks, removed.rollups), (0, 2_302));
    let view = fixture.view(UsageAsk::new(OURS, window(START..START + 60))).await;
    assert_eq!(view.totals.requests, 58);
}

// Shows (Usage): A segment is billed once, even if its gateway was stopped for long (promise 72).
#[tokio::test]
async fn a_segment_that_returns_after_any_time_is_billed_once() {
    let mut fixture = Fixture::new().await;
    // The stream begins in one hour and ends in the next, as if no shipment was possible in between.
    let mut shipment = fixture.pack(&[
        SampleRecord { windowed: 1, ..deed(110, at(START), vec![item("a")]) },
        deed(110, at(START + 1), vec![item("b")]),
    ]);
    let segment = SegmentId::new(at(START));
    shipment.marks = vec![Mark { segment, from: 0, to: 500 }];
    let charged = "SELECT coalesce(sum(units), 0) FROM ledger";
    let used = "SELECT coalesce(sum(requests), 0) FROM rollups";
    let summed = "SELECT coalesce(sum(requests), 0) FROM sums";
    fixture.store.ship(&shipment).await.unwrap();
    let all = fixture.number(charged).await;
    let half = fixture.number(charged).await / 2;
    assert!(half > 0);
    // Retention of events, and then of the ledger up to and after each of the two hours.
    for (events, ledger, units, requests, marks) in [
        (START + 100, START, all, 2, 1),
        (START + 100, START + 1, half, 1, 1),
        (START + 100, START + 2, 0, 0, 0),
    ] {
        let removed = fixture.store.retain(at(events), at(ledger)).await.unwrap();
        assert_eq!(removed.marks, u64::from(marks == 0));
        let known = fixture.store.marks(GATEWAY, segment).await.unwrap();
        assert_eq!(known.len(), marks, "ledger from {ledger}");
        let again = fixture.store.ship(&shipment).await;
        assert_eq!(matches!(again, Err(ShipError::Moved)), marks == 1, "{again:?}");
        assert_eq!(fixture.number(charged).await, units, "ledger from {ledger}");
        assert_eq!(fixture.number(used).await, requests, "ledger from {ledger}");
    }
    assert_eq!(fixture.number(summed).await, 0);
    assert_eq!(fixture.number("SELECT count(*) FROM daily_requests").await, 0);

    // Later records are billed, and the mark is kept for the same time.
    let mut rest = fixture.pack(&[deed(110, at(START + 3), vec![item("c")])]);
    rest.marks = vec![Mark { segment, from: 500, to: 600 }];
    fixture.store.ship(&rest).await.unwrap();
    assert_eq!(fixture.number(charged).await, half);
    for (ledger, marks) in [(START + 3, 1), (START + 4, 0)] {
        fixture.store.retain(at(ledger), at(ledger)).await.unwrap();
        assert_eq!(fixture.store.marks(GATEWAY, segment).await.unwrap().len(), marks);
    }
}

#[tokio::test]
async fn hostile_names_are_stored_and_found_without_harm() {
    let mut fixture = Fixture::new().await;
    let deeds: Vec<_> =
        sample::methods().into_iter().map(|name| deed(110, at(START), vec![item(name)])).collect();
    fixture.ship(&deeds).await;
    let ask = UsageAsk::new(OURS, window(START..START + 1));
    let view = fixture.view(ask.clone().grouped(&[Group::Method]).unwrap()).await;
    let names: BTreeSet<_> = view.rows.iter().map(|row| row.cells[0].clone()).collect();
    assert_eq!(names.len(), deeds.len() - 1, "two are shown alike");
    for deed in &deeds {
        let shown = String::from_utf8_lossy(&deed.items[0].method).replace('\0', "\u{fffd}");
        assert!(names.contains(&Cell::Method(shown.clone(), Stream::Call)), "{shown}");
        let only = UsageFilter { method: Some(shown.clone()), ..UsageFilter::default() };
        let requests = fixture.view(ask.clone().only(only)).await.totals.requests;
        assert_eq!(requests, if shown.starts_with("not") { 2 } else { 1 }, "{shown}");
        let found = fixture.store.event(OURS, deed.request).await.unwrap().unwrap();
        assert_eq!(found.lines[0].method, shown);
    }
    let raw =
        UsageFilter { method: Some("nul\0nul".into()), chain: Some("toy".into()), ..UsageFilter::default() };
    assert_eq!(fixture.view(ask.clone().only(raw)).await.totals.requests, 1);
    for chain in ["toy\0", "' OR 1=1 --", ""] {
        let only = UsageFilter { chain: Some(chain.into()), ..UsageFilter::default() };
        assert_eq!(fixture.view(ask.clone().only(only)).await.totals, Metrics::default(), "{chain}");
    }
}

#[tokio::test]
async fn a_call_named_like_a_part_of_a_stream_is_a_row_of_its_own() {
    let mut fixture = Fixture::new().await;
    let end = SampleRecord {
        phase: Phase::End,
        transport: Transport::Ws,
        ..deed(110, at(START), vec![SampleLine { bytes_in: 7, ..item("x") }])
    };
    fixture.ship(&[deed(110, at(START), vec![item("WS:disconnect")]), end]).await;
    let view =
        fixture.view(UsageAsk::new(OURS, window(START..START + 1)).grouped(&[Group::Method]).unwrap()).await;
    let rows: Vec<_> =
        view.rows.iter().map(|row| (row.cells[0].clone(), row.metrics.request_bytes)).collect();
    let name = || "WS:disconnect".to_owned();
    assert_eq!(
        rows,
        [(Cell::Method(name(), Stream::Call), 100), (Cell::Method(name(), Stream::Disconnect), 7)]
    );
    assert_eq!(view.totals.request_bytes, 100);
}

// Shows (Usage): Rows of a tenant and hour are limited, and no count is lost (promise 67).
#[tokio::test]
async fn rows_of_a_tenant_beyond_the_hourly_limit_lose_their_method_but_no_count() {
    let mut fixture = Fixture::new().await;
    let most = (ROWS + ROWS_OF_KEY) as i64;
    let flood = |fixture: &mut Fixture, numbers: Range<u16>| {
        let mut shipment = fixture.pack(&[deed(110, at(START), vec![item("a")])]);
        let one = shipment.folded.rollups[0].clone();
        let row =
            |n: u16| Rollup { method: format!("m{:03}", n % 900), status: 200 + n / 900, ..one.clone() };
        shipment.folded.rollups = numbers.map(row).collect();
        join(&mut shipment.folded.rollups);
        shipment
    };
    let first = flood(&mut fixture, 0..9_000);
    let second = flood(&mut fixture, 9_000..12_000);
    fixture.store.ship(&first).await.unwrap();
    fixture.store.ship(&second).await.unwrap();
    let counts = async |fixture: &Fixture| {
        let reported = fixture.number("SELECT count(*) FROM rollups WHERE method <> '(other)'").await;
        let all = fixture.number("SELECT count(*) FROM rollups").await;
        (reported, all - reported, fixture.number("SELECT sum(requests) FROM rollups").await)
    };
    let statuses_beyond = 4;
    assert_eq!(counts(&fixture).await, (most, statuses_beyond, 12_000));
    // The same holds for a fresh store; another tenant and another hour have their own limits.
    fixture.store = fixture.site.usage_within(Duration::from_secs(60)).await.unwrap();
    let third = flood(&mut fixture, 12_000..12_100);
    fixture.store.ship(&third).await.unwrap();
    assert_eq!(counts(&fixture).await, (most, statuses_beyond, 12_100));
    fixture.ship(&[deed(210, at(START), vec![item("z")]), deed(110, at(START + 1), vec![item("z")])]).await;
    assert_eq!(counts(&fixture).await, (most + 2, statuses_beyond, 12_102));
}

// Shows (Usage): 1,000 methods of a project and hour are counted separately, the others as `(other)`.
#[tokio::test]
async fn a_thousand_methods_of_a_project_and_hour_have_rows_of_their_own() {
    let mut fixture = Fixture::new().await;
    let call = |key, hour, name: String| deed(key, at(hour), vec![item(name)]);
    let flood = |key, names: Range<usize>| -> Vec<_> {
        names.map(|n| call(key, START, format!("made{n:04}"))).collect()
    };
    fixture.ship(&[call(110, START, "toy_read".into())]).await;
    // One method too many in one shipment, over two keys; then more, with methods that are already stored.
    fixture.ship(&flood(111, 0..MOST)).await;
    let reported = fixture.store.methods(OURS, ProjectId(11), START).await.unwrap();
    assert_eq!(reported.len(), MOST);
    assert!(reported.contains("toy_read") && !reported.contains(OTHER));
    fixture
        .ship(&[flood(110, MOST - 10..MOST + 10), vec![call(110, START, "toy_read".into())]].concat())
        .await;
    // The same holds for a fresh store, and after a failed shipment.
    fixture.store = fixture.site.usage_within(DEADLINE).await.unwrap();
    let mut moved = fixture.pack(&flood(110, 5_000..5_010));
    moved.marks[0].from += 1;
    assert!(matches!(fixture.store.ship(&moved).await, Err(ShipError::Moved)));
    moved.marks[0].from -= 1;
    fixture.store.ship(&moved).await.unwrap();
    fixture.ship(&flood(110, 0..5)).await;
    assert_eq!(fixture.store.methods(OURS, ProjectId(11), START).await.unwrap(), reported);

    let ask = UsageAsk::new(OURS, window(START..START + 1)).grouped(&[Group::Method]).unwrap();
    let view = fixture.view(ask.limited(MOST_ROWS).unwrap()).await;
    let count = |name: &str| -> u64 {
        let cell = Cell::Method(name.into(), Stream::Call);
        view.rows.iter().filter(|row| row.cells[0] == cell).map(|row| row.metrics.requests).sum()
    };
    assert_eq!(view.rows.len(), MOST + 1);
    assert_eq!((count("toy_read"), count("made0000"), count("made0995")), (2, 2, 2));
    // The method that did not fit, the eleven after it, and those of the second store.
    assert_eq!(count(OTHER), 1 + 1 + 10 + 10);
    assert_eq!(view.totals.requests, 1 + 1_000 + 21 + 10 + 5);

    fixture.ship(&[call(110, START + 1, "later".into()), call(120, START, "elsewhere".into())]).await;
    fixture
        .ship(&[SampleRecord {
            phase: Phase::Begin,
            transport: Transport::Ws,
            ..call(110, START, "x".into())
        }])
        .await;
    let methods =
        async |project, hour| fixture.store.methods(OURS, ProjectId(project), hour).await.unwrap().len();
    assert_eq!(
        (methods(11, START + 1).await, methods(12, START).await, methods(11, START).await),
        (1, 1, MOST)
    );
    assert_eq!(fixture.store.methods(THEIRS, ProjectId(11), START).await.unwrap().len(), 0);
    let ask = UsageAsk::new(OURS, window(START..START + 1));
    assert_eq!(fixture.view(ask).await.totals.ws_connections, 1);
}

#[tokio::test]
async fn a_damaged_block_is_reported_as_damaged() {
    let mut fixture = Fixture::new().await;
    let one = deed(110, at(START), vec![item("a")]);
    fixture.ship(std::slice::from_ref(&one)).await;
    let damage =
        blocks::Entity::update_many().col_expr(blocks::Column::Bytes, Expr::value(vec![1u8, 2, 3, 4, 5]));
    let transaction = fixture.store.database.begin().await.unwrap();
    damage.exec(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    let is_unreadable = |error: &StoreError| matches!(error, StoreError::Unreadable { what: "block", .. });
    assert!(is_unreadable(&fixture.store.event(OURS, one.request).await.unwrap_err()));
    assert!(is_unreadable(&fixture.store.last_events(OURS, KeyId(110), 1).await.unwrap_err()));
    assert!(is_unreadable(&fixture.store.restore(at(START)).await.unwrap_err()));
}

#[tokio::test]
async fn all_data_survives_reopening() {
    let mut fixture = Fixture::new().await;
    fixture.ship(&[deed(110, at(START), vec![item("a")])]).await;
    let state = fixture.state().await;
    fixture.store.close().await;
    fixture.store = UsageStore::open(fixture.site.url(), false).await.unwrap();
    assert_eq!(fixture.state().await, state);
}

#[tokio::test]
async fn the_usage_of_a_file_is_in_a_file_of_its_own() {
    let site = TestDatabase::empty_file();
    site.usage_within(Duration::from_secs(60)).await.unwrap().close().await;
    let files = std::fs::read_dir(site.folder().unwrap()).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["rpcgate-usage.db"]);
}

#[test]
fn no_event_is_stored_twice_over_many_shipments() {
    cases(12)
        .run(&(sample::deeds(START..START + 4, 1..400), 1usize..50), |(deeds, step)| {
            run(async {
                let mut fixture = Fixture::new().await;
                for part in deeds.chunks(step) {
                    fixture.ship(part).await;
                }
                let rows = fixture.rows("SELECT bytes FROM blocks").await;
                let mut seen = Vec::new();
                for row in rows {
                    let bytes: Vec<u8> = row.try_get_by_index(0).unwrap();
                    let events = Block::events(&bytes, |_, _| true).unwrap();
                    seen.extend(events.iter().map(|event| (event.request, event.arrival, event.lines.len())));
                }
                seen.sort_unstable();
                let mut all: Vec<_> =
                    deeds.iter().map(|deed| (deed.request, deed.arrival, deed.items.len())).collect();
                all.sort_unstable();
                assert_eq!(seen, all);
            });
            Ok(())
        })
        .unwrap();
}

// Shows (Reliability).
#[test]
fn refusals_that_were_summed_count_as_many() {
    run(async {
        let mut fixture = Fixture::new().await;
        let refused = SampleLine { outcome: Outcome::Refused, status: 429, cu: 0, calls: 250, ..item("a") };
        fixture.ship(&[SampleRecord { windowed: 0, ..deed(110, at(START), vec![refused]) }]).await;
        let totals = fixture.view(UsageAsk::new(OURS, window(START..START + 1))).await.totals;
        let expected = Metrics {
            requests: 250,
            errors: 250,
            rejected: 250,
            request_bytes: 100,
            response_bytes: 200,
            ..Default::default()
        };
        assert_eq!(totals, expected);
    });
}
