//! The cost of writing a record to the journal and reading it again.
#![expect(clippy::unwrap_used, reason = "the input of a benchmark is its own")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rpcgate_core::backend::usage_sink::{Line, Outcome, Phase, Record};
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::Time;
use rpcgate_core::journal::{Reader, Writer};
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::tally::Transport;
use std::hint::black_box;
use std::time::Duration;

const METHODS: [&[u8]; 5] = [b"toy_read", b"toy_height", b"toy_events", b"toy_send", b"toy_balanceOfAccount"];

/// The number of callers that a gateway serves at a time.
const CALLERS: u128 = 1_000;

fn lines(count: usize) -> Vec<Line<'static>> {
    let line = |number: usize| Line {
        method: METHODS[number % METHODS.len()],
        cu: 20,
        status: 200,
        outcome: Outcome::Answered,
        cached: number.is_multiple_of(3),
        calls: 1,
        bytes_in: 160,
        bytes_out: 1_200,
    };
    (0..count).map(line).collect()
}

fn record<'a>(number: u128, lines: &'a [Line<'a>]) -> Record<'a> {
    let caller = number % CALLERS;
    Record {
        phase: Phase::Complete,
        request: RequestId(0x0190_163d_8694_7000_8000_0000_0000_0000 | number),
        key: KeyId(caller),
        project: ProjectId(caller << 32),
        tenant: TenantId(caller << 64),
        chain: ChainName::new("toy"),
        transport: Transport::Http,
        tier: Tier::Premium,
        price: Price(500_000_000),
        arrival: Time::from_micros(1_790_000_000_123_456 + number as u64),
        latency: Duration::from_micros(25_000),
        windowed: 1,
        lines,
    }
}

/// Returns a writer that has written a record of every caller and method, and its output.
fn begun(lines: &[Line<'_>]) -> (Writer, Vec<u8>) {
    let mut writer = Writer::new();
    let mut out = Vec::new();
    for number in 0..CALLERS {
        writer.frame(&record(number, lines), &mut out);
    }
    (writer, out)
}

fn writing(criterion: &mut Criterion) {
    for (name, calls) in [("single", 1), ("batch of 100", 100)] {
        let lines = lines(calls);
        let (mut writer, mut out) = begun(&lines);
        out.clear();
        writer.frame(&record(1, &lines), &mut out);
        let mut group = criterion.benchmark_group(format!("write record, {name}"));
        group.throughput(Throughput::Bytes(out.len() as u64));
        let mut number = 0;
        group.bench_function("known names", |bench| {
            bench.iter(|| {
                number += 1;
                out.clear();
                writer.frame(black_box(&record(number, &lines)), &mut out);
                out.len()
            });
        });
        group.finish();
    }
}

fn reading(criterion: &mut Criterion) {
    for (name, calls) in [("single", 1), ("batch of 100", 100)] {
        let lines = lines(calls);
        let (mut writer, before) = begun(&lines);
        let mut frame = Vec::new();
        writer.frame(&record(1, &lines), &mut frame);
        let mut reader = Reader::new();
        let mut at = 0;
        while let Some((length, _)) = reader.frame(&before[at..]).unwrap() {
            at += length;
        }
        let mut group = criterion.benchmark_group(format!("read record, {name}"));
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_function("known names", |bench| {
            bench.iter(|| {
                let (length, event) = reader.frame(black_box(&frame)).unwrap().unwrap();
                (length, event, reader.lines().len())
            });
        });
        group.finish();
    }
}

criterion_group!(benches, writing, reading);
criterion_main!(benches);
