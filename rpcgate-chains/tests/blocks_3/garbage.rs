//! Whatever a node answers, a reader neither panics nor makes events that are not flat.

use crate::calls::{Reading, ScriptedCalls, SimulatedCalls, assert_flat, done};
use proptest::prelude::*;
use rpcgate_core::event::{BlockRef, EventType, NodeCalls, ReadError, Wanted};
use serde_json::Value;
use std::sync::Mutex;

const CHAINS: [&str; 4] = ["aptos", "ton", "solana", "cardano"];

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9]{0,40}".prop_map(Value::from),
        "(0x)?[0-9a-f]{0,66}".prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The number of values in a value, itself included.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.values().map(size).sum::<usize>(),
        _ => 0,
    }
}

/// Replaces the value with this number, in the order of the text.
fn replace(value: &mut Value, place: &mut usize, by: &Value) {
    if *place == 0 {
        *value = by.clone();
    }
    let Some(next) = place.checked_sub(1) else {
        *place = usize::MAX;
        return;
    };
    *place = next;
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, place, by)),
        Value::Object(members) => members.values_mut().for_each(|member| replace(member, place, by)),
        _ => {}
    }
}

fn wanted() -> Wanted {
    Wanted::new(EventType::ALL)
}

/// Uses every call of a reader.
fn read(reading: &Reading<impl NodeCalls>, known: &BlockRef) {
    let _ = reading.head();
    let _ = reading.at(known);
    if let Ok(Some(next)) = reading.after(known, &wanted()) {
        assert_flat(&next.events);
    }
}

/// A simulated node, one value of one answer of which is another.
fn broken(chain: &'static str, answer: usize, place: usize, by: Value) -> (Reading<ScriptedCalls>, BlockRef) {
    let simulated = Reading::new(chain, SimulatedCalls::of(chain));
    let known = simulated.head().unwrap();
    simulated.node.pass(60_000);
    let count = Mutex::new(0);
    let node = ScriptedCalls::new(move |what, params| {
        let node = &simulated.node;
        let found = match chain {
            "aptos" | "ton" => done(node.request(http::Method::GET, what.to_owned(), String::new())),
            "solana" => done(node.call(what, params.to_owned())),
            _ => done(node.stream_call(what, params.to_owned())),
        };
        let mut found: Value = serde_json::from_slice(&found?).unwrap();
        let mut count = count.lock().unwrap();
        if *count == answer {
            let mut place = place % size(&found);
            replace(&mut found, &mut place, &by);
        }
        *count += 1;
        Ok(found)
    });
    (Reading::new(chain, node), known)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_answers_are_no_blocks_and_no_panics(
        answers in prop::collection::vec(json(), 1..6),
        chain in 0usize..4,
        height in prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()],
        place in prop_oneof![Just("1".to_owned()), ".{0,10}"],
    ) {
        let count = Mutex::new(0);
        let node = ScriptedCalls::new(move |_, _| {
            let mut count = count.lock().unwrap();
            *count += 1;
            Ok(answers[*count % answers.len()].clone())
        });
        let reading = Reading::new(CHAINS[chain], node);
        read(&reading, &BlockRef::new(height, "h", "p", 0).with_place(place));
    }

    #[test]
    fn an_answer_with_one_wrong_value_is_no_panic(
        chain in 0usize..4,
        answer in 0usize..12,
        place in 0usize..10_000,
        by in json(),
    ) {
        let (reading, known) = broken(CHAINS[chain], answer, place, by);
        let mut height = known.clone();
        height.height -= 1;
        if let Ok(Some(next)) = reading.after(&known, &wanted()) {
            assert_flat(&next.events);
        }
        read(&reading, &height);
    }

    #[test]
    fn filters_are_never_changed_twice(chain in 0usize..4, key in "address|from|token|tx_hash|program|x", value in ".{0,80}") {
        let node = ScriptedCalls::new(|_, _| Err(ReadError::Unreachable(String::new())));
        let reading = Reading::new(CHAINS[chain], node);
        if let Some(form) = reading.canonical(&key, &value) {
            prop_assert_eq!(reading.canonical(&key, &form), Some(form.clone()));
        }
    }
}

#[test]
fn the_unbroken_answers_of_every_simulated_node_have_events_of_every_type() {
    for chain in CHAINS {
        // No node gives so many answers.
        let (reading, mut known) = broken(chain, usize::MAX, 0, Value::Null);
        let mut missing: Vec<_> = reading.kinds().to_vec();
        assert_eq!(missing, &EventType::ALL[..4], "{chain}");
        for _ in 0..8 {
            let Some(next) = reading.after(&known, &wanted()).unwrap() else { break };
            assert_eq!(next.events.first().map(|event| event.kind), Some(EventType::NewBlock));
            missing.retain(|kind| next.events.iter().all(|event| event.kind != *kind));
            known = next.block;
        }
        assert_eq!(missing, [], "{chain}");
    }
}
