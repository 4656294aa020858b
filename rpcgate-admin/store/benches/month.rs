//! Measures a view of 30 days in the database of a large host: 100 million calls of several hundred tenants, one of
//! them large. The rollups are stored by shipments as usual; single requests are left out.
//!
//! It runs on SQLite, and on PostgreSQL if available, for some minutes each. The SQLite file is kept under the target
//! directory for the next run.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "the input of a benchmark is its own")]

use criterion::{Criterion, criterion_group, criterion_main};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::journal::{GatewayId, SegmentId};
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::fold::HourlySums;
use rpcgate_core::usage::{Group, Mark, Metrics, Period, Rollup, Shipment, Stream, UsageAsk, UsageWindow};
use rpcgate_store::{ShipError, StoreError, UsageStore, url_of};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

#[cfg(have_postgres)]
#[expect(dead_code, unreachable_pub, reason = "it is the harness of the tests")]
#[path = "../../../tests/src/services/postgres.rs"]
mod postgres;

const CALLS: u64 = 100_000_000;
const HOURS: u64 = 30 * 24;
/// The middle of a day, so that the window contains two partial days.
const LAST_HOUR: u64 = 500_004;
const SMALL: u128 = 300;
const PROJECTS: u128 = 20;
const KEYS: u128 = 3;
const CHAINS: [&str; 10] = ["eth", "bsc", "polygon", "btc", "ltc", "tron", "sol", "near", "sui", "cosmos"];
const METHODS: u64 = 15;
const ROWS: usize = 2_000;

const fn now() -> Time {
    Time::from_secs(LAST_HOUR * 3_600 + 1_500)
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn is(&mut self, of_a_hundred: u64) -> bool {
        self.below(100) < of_a_hundred
    }
}

/// Returns an identifier as scattered as a UUID.
const fn scattered(kind: u128, number: u128) -> u128 {
    (kind << 64 | number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

const fn tenant(number: u128) -> TenantId {
    TenantId(scattered(1, number))
}

struct Caller {
    tenant: TenantId,
    project: ProjectId,
    key: KeyId,
    chains: Vec<&'static str>,
    methods: u64,
    /// The number of hours with calls, out of a hundred.
    busy: u64,
}

fn callers() -> Vec<Caller> {
    let mut callers = Vec::new();
    for project in 0..PROJECTS {
        let chains: Vec<_> = (0..3).map(|n| CHAINS[(project as usize + 3 * n) % CHAINS.len()]).collect();
        for key in 0..KEYS {
            callers.push(Caller {
                tenant: tenant(0),
                project: ProjectId(scattered(2, project)),
                key: KeyId(scattered(3, project * KEYS + key)),
                chains: chains.clone(),
                methods: METHODS,
                busy: 100,
            });
        }
    }
    let mut dice = Dice(7);
    for number in 1..=SMALL {
        for key in 0..u128::from(1 + dice.below(2)) {
            let first = dice.below(10) as usize;
            callers.push(Caller {
                tenant: tenant(number),
                project: ProjectId(scattered(4, number * 2 + key)),
                key: KeyId(scattered(5, number * 2 + key)),
                chains: CHAINS.iter().cycle().skip(first).take(1 + dice.below(2) as usize).copied().collect(),
                methods: 5,
                busy: 10 + dice.below(50),
            });
        }
    }
    callers
}

fn hour(number: u64, callers: &[Caller], calls: u64, dice: &mut Dice) -> Vec<Rollup> {
    let mut rows = Vec::new();
    let mut weights = Vec::new();
    for caller in callers {
        if !dice.is(caller.busy) {
            continue;
        }
        for chain in &caller.chains {
            for method in 0..caller.methods {
                for (status, of_a_hundred) in [(200, 100), (429, 6), (502, 2)] {
                    if !dice.is(of_a_hundred) {
                        continue;
                    }
                    let most = if status == 200 { 2_000 / (method + 1) } else { 20 };
                    weights.push(1 + dice.below(most));
                    rows.push(Rollup {
                        hour: number,
                        tenant: caller.tenant,
                        project: caller.project,
                        key: caller.key,
                        chain: (*chain).to_owned(),
                        method: format!("{chain}_getSomething{method}"),
                        transport: Transport::Http,
                        status,
                        stream: Stream::Call,
                        metrics: Metrics::default(),
                        window_requests: 0,
                    });
                }
            }
        }
    }
    let all: u64 = weights.iter().sum();
    let mut rest = calls;
    for (row, weight) in rows.iter_mut().zip(weights).rev() {
        let share = (calls * weight / all).min(rest);
        rest -= share;
        fill(row, share, dice);
    }
    // The remainder of the rounding.
    let share = rows[0].metrics.requests + rest;
    fill(&mut rows[0], share, dice);
    rows
}

fn fill(row: &mut Rollup, calls: u64, dice: &mut Dice) {
    let is_answered = row.status == 200;
    let served = if is_answered { calls } else { 0 };
    row.window_requests = served;
    row.metrics = Metrics {
        requests: calls,
        billed_requests: served,
        billable_units: served * 15,
        errors: calls - served,
        rejected: calls - served,
        cache_hits: served / 3,
        request_bytes: calls * (90 + dice.below(100)),
        response_bytes: calls * (300 + dice.below(3_000)),
        latency_us: served * (800 + dice.below(40_000)),
        latency_count: served,
        ..Metrics::default()
    };
}

fn ship(runtime: &Runtime, store: &UsageStore) {
    let callers = callers();
    let mut dice = Dice(1);
    let mut rows = 0;
    let mut calls = 0;
    let mut segment = 0;
    for number in 0..HOURS {
        let share = CALLS * (number + 1) / HOURS - CALLS * number / HOURS;
        let at = LAST_HOUR + 1 - HOURS + number;
        let rollups = hour(at, &callers, share, &mut dice);
        rows += rollups.len();
        calls += rollups.iter().map(|rollup| rollup.metrics.requests).sum::<u64>();
        for part in rollups.chunks(ROWS) {
            segment += 1;
            let newest = Time::from_secs(at * 3_600 + 1_500);
            let shipment = Shipment {
                gateway: GatewayId(1),
                marks: vec![Mark { segment: SegmentId(segment), from: 0, to: 1 }],
                folded: HourlySums { rollups: part.to_vec(), newest, ..HourlySums::default() },
                blocks: Vec::new(),
            };
            // On a busy machine a shipment may miss its deadline, and is repeated as a gateway does.
            loop {
                match runtime.block_on(store.ship(&shipment)) {
                    Ok(()) | Err(ShipError::Moved) => break,
                    Err(ShipError::Store(StoreError::Unavailable(_))) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    assert_eq!(calls, CALLS);
    eprintln!("{rows} rollups of {calls} calls");
}

fn ask(of: TenantId, groups: &[Group]) -> UsageAsk {
    UsageAsk::new(of, UsageWindow::of(Period::ThirtyDays, now())).grouped(groups).unwrap()
}

/// Reads everything that `GET /usage` reads in this database: the view, and the projects' usage of the current windows.
async fn usage(store: &UsageStore, of: TenantId) {
    let view = store.usage(&ask(of, &[Group::Chain, Group::Method])).await.unwrap();
    assert!(!view.rows.is_empty() && !view.truncated);
    for period in [Period::Day, Period::Today, Period::Month] {
        store.spent(of, None, &UsageWindow::of(period, now())).await.unwrap();
    }
}

fn measure(c: &mut Criterion, runtime: &Runtime, store: &UsageStore, database: &str) {
    let all = ask(tenant(0), &[]);
    let totals = runtime.block_on(store.usage(&all)).unwrap().totals;
    eprintln!("the large tenant has {} calls", totals.requests);
    let mut group = c.benchmark_group(format!("30 days on {database}"));
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    for (name, of) in [("large tenant", tenant(0)), ("small tenant", tenant(9))] {
        for (by, groups) in [
            ("chain and method", &[Group::Chain, Group::Method][..]),
            ("project and day", &[Group::Project, Group::Day]),
            ("key", &[Group::Key]),
        ] {
            let ask = ask(of, groups);
            group.bench_function(format!("{name}, by {by}"), |b| {
                b.iter(|| runtime.block_on(store.usage(&ask)).unwrap());
            });
        }
        group.bench_function(format!("{name}, all of GET /usage"), |b| {
            b.iter(|| runtime.block_on(usage(store, of)));
        });
    }
    group.finish();
}

fn on_sqlite(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let making = home.join("month-bench.part");
    let made = home.join("month-bench");
    if !made.exists() {
        let _ = fs::remove_dir_all(&making);
        fs::create_dir_all(&making).unwrap();
        let store = runtime.block_on(UsageStore::open(&url_of(&making.join("bench.db")), true)).unwrap();
        ship(&runtime, &store);
        runtime.block_on(store.close());
        fs::rename(&making, &made).unwrap();
    }
    let store = runtime.block_on(UsageStore::open(&url_of(&made.join("bench.db")), true)).unwrap();
    measure(c, &runtime, &store, "SQLite");
    runtime.block_on(store.close());
}

#[cfg(have_postgres)]
fn on_postgres(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = postgres::Postgres::launch();
    let store = runtime.block_on(UsageStore::open(&server.database(), true)).unwrap();
    ship(&runtime, &store);
    measure(c, &runtime, &store, "PostgreSQL");
    runtime.block_on(store.close());
}

#[cfg(not(have_postgres))]
fn on_postgres(_: &mut Criterion) {
    eprintln!("PostgreSQL is left out: apt install postgresql");
}

criterion_group!(benches, on_sqlite, on_postgres);
criterion_main!(benches);
