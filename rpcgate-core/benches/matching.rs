//! The cost of a busy EVM block with a million subscriptions, of one change among them, and their memory.
#![expect(clippy::unwrap_used, reason = "the input of a benchmark is its own")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rpcgate_core::event::{BlockRef, ChainEvent, EventType, IndexedSubscription, SubscriptionIndex};
use serde_json::{Map, Value};
use std::hint::black_box;

const SUBSCRIPTIONS: u128 = 1_000_000;
const TRANSACTIONS: u64 = 400;
const LOGS: u64 = 1_500;

fn address(number: u64) -> String {
    format!("0x{:040x}", u128::from(number) * 0x9e37_79b9_7f4a_7c15_f39c_0c21)
}

fn subscription(id: u128) -> IndexedSubscription {
    let mut filter = Map::new();
    let kind = match id % 10 {
        0 => {
            filter.insert("token".into(), address(id as u64 % 5_000).into());
            filter.insert("to".into(), address(id as u64).into());
            EventType::TokenTransfer
        }
        1 => {
            filter.insert("address".into(), address(id as u64 % 20_000).into());
            EventType::ContractEvent
        }
        _ => {
            filter.insert("address".into(), address(id as u64).into());
            EventType::AddressActivity
        }
    };
    IndexedSubscription::new(id, "eth", kind).of_webhook(id / 100, id / 1_000).with_filter(filter)
}

/// Returns the events of a block of 400 transactions with 1,500 logs, including 1,000 transfers.
fn events() -> Vec<ChainEvent> {
    let activity = |number| {
        ChainEvent::new(EventType::AddressActivity)
            .with("address", address(number * 1_237))
            .with("from", address(number))
            .with("to", address(number + 1))
            .with("tx_hash", format!("0x{number:064x}"))
            .with("direction", "in")
            .with("value", "1000000000000000000")
    };
    let log = |number: u64| {
        ChainEvent::new(EventType::ContractEvent)
            .with("address", address(number % 300))
            .with("tx_hash", format!("0x{number:064x}"))
            .with("topics", Value::Array(vec![format!("0x{number:064x}").into(); 3]))
            .with("data", format!("0x{number:0256x}"))
            .with("log_index", number)
    };
    let transfer = |number: u64| {
        ChainEvent::new(EventType::TokenTransfer)
            .with("token", address(number % 300))
            .with("from", address(number * 7))
            .with("to", address(number * 11))
            .with("tx_hash", format!("0x{number:064x}"))
            .with("value", "123456789")
            .with("log_index", number)
    };
    let mut events = vec![ChainEvent::new(EventType::NewBlock).with("transactions", TRANSACTIONS)];
    events.extend((0..2 * TRANSACTIONS).map(activity));
    events.extend((0..LOGS).map(log));
    events.extend((0..1_000).map(transfer));
    events
}

/// Returns the resident bytes of this process, if the system shows them.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4_096
}

fn matching(criterion: &mut Criterion) {
    let index = SubscriptionIndex::default();
    let before = resident();
    for id in 0..SUBSCRIPTIONS {
        index.insert(&subscription(id), |_, _, value| Some(value.to_lowercase()));
    }
    let bytes = resident().saturating_sub(before) / u64::try_from(SUBSCRIPTIONS).unwrap();
    #[expect(clippy::print_stderr, reason = "it is a figure that the benchmark measures")]
    {
        eprintln!("a subscription takes {bytes} bytes");
    }
    let block = BlockRef::new(20_000_000, "0xb", "0xa", 1_700_000_000);
    let events = events();
    let mut group = criterion.benchmark_group("a million subscriptions");
    group.sample_size(20).throughput(Throughput::Elements(events.len() as u64));
    group.bench_function("a block of 400 transactions and 1,500 logs", |bencher| {
        bencher.iter(|| {
            let matched = events.iter().map(|event| index.matches("eth", &block, event).len());
            black_box(matched.sum::<usize>())
        });
    });
    let changed = subscription(SUBSCRIPTIONS / 2);
    group.throughput(Throughput::Elements(1));
    group.bench_function("one of them replaced", |bencher| {
        bencher.iter(|| index.insert(&changed, |_, _, value| Some(value.to_lowercase())));
    });
    group.finish();
}

criterion_group!(benches, matching);
criterion_main!(benches);
