//! The cost of recording a set of calls on this machine's disk, compared with a plain write of the same bytes to a
//! file. The folder is created under the target directory; `TMPDIR` does not move it, because temporary files are often
//! in memory.
#![expect(clippy::unwrap_used, reason = "the input of a benchmark is its own")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rpcgate_core::backend::usage_sink::{Line, Outcome, Phase, Record, UsageSink};
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::journal::Writer;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::tally::Transport;
use rpcgate_server::journal::{Journal, JournalOptions};
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("journal-bench")
}

fn open(shards: usize) -> Arc<Journal> {
    let _ = fs::remove_dir_all(home());
    let config = rpcgate_config::JournalSettings { dir: home(), ..Default::default() };
    let options = JournalOptions { shards, ..JournalOptions::new(&config, Arc::new(SystemClock::new())) };
    Journal::open(options).unwrap()
}

fn lines(count: usize, outcome: Outcome) -> Vec<Line<'static>> {
    const METHODS: [&[u8]; 4] = [b"toy_read", b"toy_scan", b"toy_blockNumber", b"toy_getTransactionReceipt"];
    let line = |place: usize| Line {
        method: METHODS[place % METHODS.len()],
        cu: if outcome == Outcome::Refused { 0 } else { 15 },
        status: if outcome == Outcome::Refused { 429 } else { 200 },
        outcome,
        cached: place.is_multiple_of(3),
        calls: 1,
        bytes_in: 160,
        bytes_out: 940,
    };
    (0..count).map(line).collect()
}

fn record<'a>(number: u128, lines: &'a [Line<'a>], clock: &dyn Clock) -> Record<'a> {
    Record {
        phase: Phase::Complete,
        request: RequestId(number),
        key: KeyId(number % 16),
        project: ProjectId(2),
        tenant: TenantId(3),
        chain: ChainName::new("toy"),
        transport: Transport::Http,
        tier: Tier::Premium,
        price: Price(500_000_000),
        arrival: clock.now(),
        latency: Duration::from_micros(1_250),
        windowed: 1,
        lines,
    }
}

/// Removes sealed segments as a shipper would: a disk that must write gigabytes shows only its own speed.
fn tidy(journal: &Journal) {
    for segment in journal.segments().iter().filter(|segment| segment.sealed) {
        journal.forget(segment.id).unwrap();
    }
}

/// Calls `work` `times` times. The time of `between`, which runs at intervals, is not counted.
#[expect(clippy::disallowed_methods, reason = "a measurement of this machine")]
fn timed(mut times: u64, mut work: impl FnMut(), mut between: impl FnMut()) -> Duration {
    let mut sum = Duration::ZERO;
    while times > 0 {
        let now = times.min(4_096);
        let begun = Instant::now();
        (0..now).for_each(|_| work());
        sum += begun.elapsed();
        times -= now;
        between();
    }
    sum
}

fn appending(criterion: &mut Criterion) {
    let clock = SystemClock::new();
    for (name, count) in [("a call", 1), ("a set of 100", 100)] {
        let lines = lines(count, Outcome::Answered);
        let frame = frame(&lines, &clock);
        let mut group = criterion.benchmark_group(format!("record {name}"));
        group.throughput(Throughput::Bytes(frame.len() as u64));

        let journal = open(2);
        let mut number = 0;
        group.bench_function("journal", |bench| {
            bench.iter_custom(|times| {
                let append = || {
                    number += 1;
                    journal.append(black_box(&record(number, &lines, &clock)));
                };
                timed(times, append, || tidy(&journal))
            });
        });
        assert_eq!(journal.status().lost_records, 0);
        drop(journal);

        let file = plain();
        group.bench_function("plain write", |bench| {
            bench.iter_custom(|times| {
                let write = || (&file).write_all(black_box(&frame)).unwrap();
                timed(times, write, || shorten(&file))
            });
        });

        let mut writer = Writer::new();
        let mut bytes = Vec::with_capacity(64 * 1024);
        group.bench_function("byte form alone", |bench| {
            bench.iter(|| {
                number += 1;
                bytes.clear();
                writer.frame(black_box(&record(number, &lines, &clock)), &mut bytes);
            });
        });
        group.finish();
    }
    let _ = fs::remove_dir_all(home());
}

/// Returns a frame whose names are all defined already.
fn frame(lines: &[Line<'_>], clock: &dyn Clock) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut bytes = Vec::new();
    for number in 0..100 {
        bytes.clear();
        writer.frame(&record(number, lines, clock), &mut bytes);
    }
    bytes
}

/// Creates an empty file next to the journal's folder.
fn plain() -> File {
    fs::create_dir_all(home()).unwrap();
    OpenOptions::new().write(true).create(true).truncate(true).open(home().join("plain")).unwrap();
    OpenOptions::new().append(true).open(home().join("plain")).unwrap()
}

/// Empties a file that has reached a segment's maximum length.
fn shorten(file: &File) {
    if file.metadata().unwrap().len() > 16 << 20 {
        file.set_len(0).unwrap();
    }
}

/// Measures while another thread appends as fast as it can on its own shard.
fn beside_another(criterion: &mut Criterion) {
    let clock = SystemClock::new();
    let lines = lines(1, Outcome::Answered);
    let mut group = criterion.benchmark_group("record a call beside another thread");
    for shards in [2, 3] {
        let journal = open(shards);
        let stop = AtomicBool::new(false);
        let others = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let number = others.fetch_add(1, Ordering::Relaxed);
                    journal.append(&record(number.into(), &lines, &clock));
                    // A call is more than its record: this is about the work of a gateway per call.
                    let begun = clock.elapsed();
                    while clock.elapsed() - begun < Duration::from_micros(20) {
                        std::hint::spin_loop();
                    }
                }
            });
            group.bench_function(format!("{shards} shards"), |bench| {
                bench.iter_custom(|times| {
                    let append = || journal.append(black_box(&record(7, &lines, &clock)));
                    timed(times, append, || tidy(&journal))
                });
            });
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(journal.status().lost_records, 0);
    }
    group.finish();
    let _ = fs::remove_dir_all(home());
}

fn refusing(criterion: &mut Criterion) {
    let clock = SystemClock::new();
    let lines = lines(1, Outcome::Refused);
    let journal = open(2);
    let mut number = 0;
    criterion.bench_function("record a refusal in a storm", |bench| {
        bench.iter(|| {
            number += 1;
            journal.append(black_box(&record(number, &lines, &clock)));
        });
    });
    drop(journal);
    let _ = fs::remove_dir_all(home());
}

/// Single appends while the journal is flushed twice a second, including the slowest ones. On a machine that is busy
/// with other work, go by the median.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a measurement of this machine, for a person"
)]
fn spread(_: &mut Criterion) {
    fn measure(name: &str, mut append: impl FnMut(), mut between: impl FnMut()) {
        let mut took = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(4) {
            if took.len() % 4_096 == 0 {
                between();
            }
            let before = Instant::now();
            append();
            took.push(before.elapsed());
        }
        took.sort_unstable();
        let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
        let [median, slow, slower, slowest] = [0.5, 0.99, 0.9999, 1.0].map(at);
        eprintln!("{name:<28} median {median:?}, 99 % {slow:?}, 99.99 % {slower:?}, longest {slowest:?}");
    }

    let clock = SystemClock::new();
    measure("nothing", || {}, || {});
    for count in [1, 100] {
        let lines = lines(count, Outcome::Answered);
        let frame = frame(&lines, &clock);
        let journal = open(2);
        let mut number = 0;
        let append = || {
            number += 1;
            journal.append(&record(number, &lines, &clock));
        };
        measure(&format!("journal, {count} calls"), append, || tidy(&journal));
        let status = journal.status();
        assert_eq!((status.stalled, status.lost_records), (false, 0));
        drop(journal);
        let file = plain();
        let write = || (&file).write_all(&frame).unwrap();
        measure(&format!("plain write, {} bytes", frame.len()), write, || shorten(&file));
    }
    let _ = fs::remove_dir_all(home());
}

criterion_group!(benches, appending, beside_another, refusing, spread);
criterion_main!(benches);
