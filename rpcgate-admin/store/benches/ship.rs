//! Measures the events per second that go from journal frames into the database, and the time of a view of them.
#![expect(clippy::unwrap_used, reason = "the input of a benchmark is its own")]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rpcgate_core::backend::usage_sink::{Line, Outcome, Phase, Record};
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::Time;
use rpcgate_core::journal::{GatewayId, Reader, SegmentId, Writer};
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::{Blocks, Group, HourlyFold, Mark, Period, Shipment, UsageAsk, UsageWindow};
use rpcgate_store::{UsageStore, url_of};
use std::hint::black_box;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[cfg(have_postgres)]
#[expect(dead_code, unreachable_pub, reason = "it is the harness of the tests")]
#[path = "../../../tests/src/services/postgres.rs"]
mod postgres;

/// One shipment: 200 ms of 200,000 events per second.
const EVENTS: u64 = 40_000;

const NOW: Time = Time::from_secs(500_000 * 3_600 + 1_200);

const CHAINS: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Small numbers are frequent, like popular callers and methods in practice.
    fn skewed(&mut self, end: u64) -> u64 {
        let a = self.below(end);
        let b = self.below(end);
        a * b / end
    }
}

/// Returns the records of a busy gateway from `first` on: 200 keys of 120 projects, 6 chains with 40 methods each, some
/// batches, cached answers, refusals, node errors and stream messages.
fn frames(first: u64) -> Vec<u8> {
    let names: Vec<String> = (0..40).map(|n| format!("chain_getSomething{n}")).collect();
    let mut dice = Dice(first);
    let mut writer = Writer::new();
    let mut frames = Vec::new();
    for n in 0..EVENTS {
        let key = dice.skewed(200);
        let is_stream = dice.below(20) == 0;
        let calls = if dice.below(12) == 0 { 2 + dice.below(20) } else { 1 };
        let lines: Vec<Line<'_>> = (0..calls)
            .map(|_| {
                let (outcome, status, cu) = match dice.below(100) {
                    0..3 => (Outcome::Refused, 429, 0),
                    3..6 => (Outcome::NodeError, 200, 5),
                    6 => (Outcome::Failed, 502, 0),
                    _ => (Outcome::Answered, 200, 5),
                };
                Line {
                    method: names[dice.skewed(40) as usize].as_bytes(),
                    cu,
                    status,
                    outcome,
                    cached: dice.below(3) == 0,
                    calls: 1,
                    bytes_in: 80 + dice.below(200) as u32,
                    bytes_out: 50 + dice.below(5_000) as u32,
                }
            })
            .collect();
        let arrival = Time::from_micros(NOW.micros() + (first + n) * 5);
        let record = Record {
            phase: if is_stream { Phase::Pushed } else { Phase::Complete },
            request: RequestId::new(arrival),
            key: KeyId(u128::from(key)),
            project: ProjectId(u128::from(key * 3 / 5)),
            tenant: TenantId(u128::from(key / 4)),
            chain: ChainName::new(CHAINS[(key % 6) as usize]),
            transport: if is_stream { Transport::Ws } else { Transport::Http },
            tier: Tier::Standard,
            price: Price(1_000_000_000),
            arrival,
            latency: Duration::from_micros(200 + dice.below(50_000)),
            windowed: u32::from(!is_stream),
            lines: &lines,
        };
        writer.frame(&record, &mut frames);
    }
    frames
}

fn read(frames: &[u8], mut each: impl FnMut(&Reader, &rpcgate_core::journal::Event)) {
    let mut reader = Reader::new();
    let mut rest = frames;
    while let Some((length, event)) = reader.frame(rest).unwrap() {
        each(&reader, &event);
        rest = &rest[length..];
    }
}

fn shipment(frames: &[u8], blocks: &mut Blocks, segment: u128) -> Shipment {
    let mut fold = HourlyFold::new();
    read(frames, |reader, event| {
        fold.add(reader, event);
        blocks.add(reader, event);
    });
    Shipment {
        gateway: GatewayId(1),
        marks: vec![Mark { segment: SegmentId(segment), from: 0, to: frames.len() as u64 }],
        folded: fold.take(),
        blocks: blocks.take(),
    }
}

fn ship(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let parts: Vec<Vec<u8>> = (0..8).map(|part| frames(part * EVENTS)).collect();
    let mut group = c.benchmark_group("ship");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(20);

    group.bench_function("read", |b| {
        b.iter(|| {
            read(&parts[0], |_, event| {
                black_box(event);
            });
        });
    });
    group.bench_function("read and fold", |b| {
        b.iter(|| {
            let mut fold = HourlyFold::new();
            read(&parts[0], |reader, event| {
                fold.add(reader, event);
            });
            fold.take()
        });
    });
    group.bench_function("read and put into blocks", |b| {
        b.iter(|| {
            let mut blocks = Blocks::new();
            read(&parts[0], |reader, event| {
                blocks.add(reader, event);
            });
            blocks.take()
        });
    });
    let folder = TempDir::new().unwrap();
    let file = url_of(&folder.path().join("bench.db"));
    commit(&mut group, &runtime, "from frames to commit", &file, &parts);
    #[cfg(have_postgres)]
    {
        let server = postgres::Postgres::launch();
        commit(&mut group, &runtime, "from frames to commit on PostgreSQL", &server.database(), &parts);
    }
    group.finish();
}

fn commit(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    url: &str,
    parts: &[Vec<u8>],
) {
    let store = runtime.block_on(UsageStore::open(url, true)).unwrap();
    let mut segment = 0;
    let mut blocks = Blocks::new();
    group.bench_function(name, |b| {
        b.iter(|| {
            segment += 1;
            let shipment = shipment(&parts[segment % parts.len()], &mut blocks, segment as u128);
            runtime.block_on(store.ship(&shipment)).unwrap();
        });
    });
    runtime.block_on(store.close());
}

fn view(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = TempDir::new().unwrap();
    let url = url_of(&folder.path().join("bench.db"));
    let store = runtime.block_on(UsageStore::open(&url, true)).unwrap();
    // A day of every tenant, with one of its hours 30 times.
    let first = shipment(&frames(0), &mut Blocks::new(), 1);
    for hour in 0..24 {
        let mut next = first.clone();
        next.blocks.clear();
        next.marks.clear();
        for rollup in &mut next.folded.rollups {
            rollup.hour -= hour;
        }
        runtime.block_on(store.ship(&next)).unwrap();
    }
    let ask = UsageAsk::new(TenantId(3), UsageWindow::of(Period::ThirtyDays, NOW));
    let mut group = c.benchmark_group("view");
    group.sample_size(20);
    for (name, groups) in
        [("in one row", &[][..]), ("by hour, method and key", &[Group::Hour, Group::Method, Group::Key])]
    {
        let ask = ask.clone().grouped(groups).unwrap();
        group.bench_function(name, |b| b.iter(|| runtime.block_on(store.usage(&ask)).unwrap()));
    }
    group.finish();
}

criterion_group!(benches, ship, view);
criterion_main!(benches);
