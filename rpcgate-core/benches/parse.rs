//! The cost of parsing a body and of writing a call, compared with serde parsing the same body into borrowed raw
//! values.
#![expect(clippy::unwrap_used, reason = "the input of a benchmark is its own")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rpcgate_core::envelope::{Limits, ParsedBody, WireId, parse, replies, reply_head};
use rpcgate_core::json::DEEPEST;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::hint::black_box;

/// The parts of a call that a gateway needs, as serde would parse them. It finds no repeated or misspelled members
/// among the unknown ones, so it does less.
#[derive(Deserialize)]
struct Borrowed<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

fn call(number: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"toy_read","params":[{{"to":"0x52908400098527886e0f7030069857d2e4169ee7","data":"0x70a082310000000000000000000000006e0d01a76c3cf4288372a29124a26d4353ee51be"}},"latest"]}}"#
    )
}

fn batch(calls: usize) -> String {
    format!("[{}]", (0..calls).map(call).collect::<Vec<_>>().join(","))
}

fn reading(criterion: &mut Criterion) {
    let limits = Limits::default();
    for (name, body) in [("single", call(1)), ("batch of 100", batch(100))] {
        let mut group = criterion.benchmark_group(format!("read {name}"));
        group.throughput(Throughput::Bytes(body.len() as u64));
        let body = body.as_bytes();
        group.bench_function("envelope", |bench| bench.iter(|| parse(black_box(body), &limits).unwrap()));
        group.bench_function("serde, raw values", |bench| {
            bench.iter(|| {
                let calls: Vec<Borrowed<'_>> = match body[0] {
                    b'[' => serde_json::from_slice(black_box(body)).unwrap(),
                    _ => vec![serde_json::from_slice(black_box(body)).unwrap()],
                };
                let raw = |value: Option<&RawValue>| value.map_or(0, |value| value.get().len());
                calls
                    .iter()
                    .map(|c| raw(c.jsonrpc) + raw(c.id) + c.method.len() + raw(c.params))
                    .sum::<usize>()
            });
        });
        group.finish();
    }
}

fn reading_replies(criterion: &mut Criterion) {
    let reply = |number| format!(r#"{{"jsonrpc":"2.0","id":{number},"result":"0x{:064x}"}}"#, number * 31);
    let many = format!("[{}]", (0..100).map(reply).collect::<Vec<_>>().join(","));
    let mut group = criterion.benchmark_group("read replies");
    for (name, body) in [("single", reply(1)), ("batch of 100", many)] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bench| {
            bench.iter(|| replies(black_box(body.as_bytes()), DEEPEST).unwrap());
        });
    }
    group.finish();
}

/// Compares the head of a long complete answer with one that has only begun to arrive: both should cost the same.
fn reading_heads(criterion: &mut Criterion) {
    let beginning =
        |length: usize| format!(r#"{{"jsonrpc":"2.0","id":1,"result":"0x{}"#, "ab".repeat(length / 2));
    let mut group = criterion.benchmark_group("read the head of a reply");
    for (name, body) in [("256 bytes of it", beginning(256)), ("400 KiB of it", beginning(400 << 10))] {
        group.bench_function(name, |bench| bench.iter(|| reply_head(black_box(body.as_bytes()))));
    }
    group.finish();
}

fn writing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("write");
    for (name, body) in [("single", call(1)), ("batch of 100", batch(100))] {
        let calls: Vec<_> = match parse(body.as_bytes(), &Limits::default()).unwrap() {
            ParsedBody::Single(call) => vec![call.unwrap()],
            ParsedBody::Batch(calls) => calls.into_iter().map(Result::unwrap).collect(),
        };
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bench| {
            bench.iter_batched_ref(
                || Vec::with_capacity(body.len() + 64),
                |out| {
                    for (place, call) in calls.iter().enumerate() {
                        call.write(body.as_bytes(), WireId::Index(place), out);
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, reading, reading_replies, reading_heads, writing);
criterion_main!(benches);
