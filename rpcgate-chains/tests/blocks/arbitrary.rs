//! Arbitrary answers of nodes: reading always ends with a result, nothing panics, and events are flat.

use crate::node::{ScriptedNode, SimulatedNode};
use crate::reading::{Reader, all, assert_flat};
use crate::{BY_HEIGHT, CHAINS};
use proptest::prelude::*;
use rpcgate_core::event::{BlockRef, EventType, NodeCalls};
use serde_json::{Map, Value};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names that the readers look at, so that arbitrary answers get further than their first member.
const NAMES: &[&str] = &[
    "block",
    "blockID",
    "block_header",
    "block_height",
    "block_id",
    "blockhash",
    "chunks",
    "data",
    "digest",
    "events",
    "hash",
    "header",
    "height",
    "id",
    "info",
    "intersection",
    "last",
    "ledger",
    "ledger_hash",
    "log",
    "number",
    "ok",
    "parentHash",
    "point",
    "previousDigest",
    "raw_data",
    "result",
    "sequenceNumber",
    "shards",
    "slot",
    "status",
    "time",
    "timestampMs",
    "tip",
    "transactions",
    "tx",
    "tx_responses",
    "txs",
    "validated",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        any::<u64>().prop_map(|number| number.to_string()),
        "[0-9a-f]{64}",
        "(0x)?[0-9a-f]{0,66}",
        "[0-9]{0,40}",
        "\\PC{0,12}",
        ".{0,20}",
        Just("9".repeat(80)),
        Just("EVENT_JSON:{\"standard\":\"nep141\",\"event\":\"ft_transfer\",\"data\":[{}]}".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = prop_oneof![proptest::sample::select(NAMES).prop_map(str::to_owned), text()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6)
                .prop_map(|pairs| { Value::from(pairs.into_iter().collect::<Map<_, _>>()) }),
        ]
    })
}

fn replace(tree: &mut Value, place: &mut usize, with: &Value) {
    let Some(left) = place.checked_sub(1) else {
        *tree = with.clone();
        *place = usize::MAX;
        return;
    };
    *place = left;
    let mut step = |part: &mut Value| {
        if *place != usize::MAX {
            replace(part, place, with);
        }
    };
    match tree {
        Value::Array(items) => items.iter_mut().for_each(&mut step),
        Value::Object(members) => members.values_mut().for_each(&mut step),
        _ => {}
    }
}

/// Replaces one value of the tree by `with`. `place` counts through the whole tree and may be beyond it.
pub(crate) fn replaced(mut tree: Value, mut place: usize, with: &Value) -> Value {
    replace(&mut tree, &mut place, with);
    tree
}

fn size(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.values().map(size).sum::<usize>(),
        _ => 0,
    }
}

/// Returns the newest block of each chain, or one far below it where blocks are found by their heights. Simulated nodes
/// have blocks above it after a minute.
fn known(chain: usize) -> &'static BlockRef {
    static KNOWN: OnceLock<Vec<BlockRef>> = OnceLock::new();
    let of = |chain: &&str| {
        let reader = Reader::of(chain);
        let node = SimulatedNode::of(chain);
        if BY_HEIGHT.contains(chain) { reader.back(&node, 40) } else { reader.head(&node).unwrap() }
    };
    &KNOWN.get_or_init(|| CHAINS.iter().map(of).collect())[chain]
}

/// Uses every call of a reader.
fn read(chain: &str, node: &dyn NodeCalls, known: &BlockRef) {
    let reader = Reader::of(chain);
    let _ = reader.head(node);
    let _ = reader.at(node, known);
    if let Ok(Some(next)) = reader.after(node, known, &all()) {
        assert_flat(&next.events);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    // Shows (Events of chains): No answer of a node on any chain causes a panic or an event that is not flat.
    #[test]
    fn no_answer_makes_a_reader_panic(
        answers in prop::collection::vec(value(), 1..6),
        height in prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()],
        place in prop_oneof![Just("1".to_owned()), ".{0,10}"],
    ) {
        let known = BlockRef::new(height, "h", "p", 0).with_position(place);
        for &chain in CHAINS.iter() {
            let count = AtomicUsize::new(0);
            let node = ScriptedNode::new(|_, _| {
                Ok(answers[count.fetch_add(1, Ordering::Relaxed) % answers.len()].clone())
            });
            read(chain, &node, &known);
        }
    }

    // Shows (Events of chains).
    #[test]
    fn no_bytes_make_a_reader_panic(answer in ".{0,200}") {
        for &chain in CHAINS.iter() {
            let node = ScriptedNode::of_texts(|_, _| Ok(answer.clone()));
            prop_assert!(Reader::of(chain).head(&node).is_err(), "{chain}: {answer}");
            read(chain, &node, &BlockRef::new(7, "h", "p", 0).with_position("1"));
        }
    }

    // Shows (Events of chains).
    #[test]
    fn no_changed_answer_makes_a_reader_panic(
        chain in 0..CHAINS.len(),
        call in 0usize..12,
        place in any::<prop::sample::Index>(),
        with in value(),
    ) {
        let node = SimulatedNode::changed(CHAINS[chain], move |number, answer| {
            if number == call {
                let place = place.index(size(&answer));
                replaced(answer, place, &with)
            } else {
                answer
            }
        });
        node.wait(60_000);
        if let Ok(Some(next)) = Reader::of(CHAINS[chain]).after(&node, known(chain), &all()) {
            assert_flat(&next.events);
        }
        read(CHAINS[chain], &node, known(chain));
    }

    // Shows (Events of chains).
    #[test]
    fn filters_are_never_changed_twice(
        key in prop_oneof!["address|from|to|token|tx_hash|block_hash|value|program|type|x", ".{0,5}"],
        value in prop_oneof![".{0,80}", "[1-9A-Za-z.]{0,70}", "(0x)?[0-9A-Fa-f]{0,66}"],
    ) {
        for &chain in CHAINS.iter() {
            let reader = Reader::of(chain);
            if let Some(form) = reader.canonical(&key, &value) {
                prop_assert_eq!(reader.canonical(&key, &form), Some(form.clone()), "{} {} {}", chain, key, value);
            }
        }
    }
}

// Shows (Events of chains).
#[test]
fn the_unbroken_answers_of_every_simulated_node_have_events_of_every_type() {
    for (place, chain) in CHAINS.iter().copied().enumerate() {
        let reader = Reader::of(chain);
        let node = SimulatedNode::changed(chain, |_, answer| answer);
        node.wait(60_000);
        let mut known = known(place).clone();
        let mut missing: Vec<_> = reader.kinds().to_vec();
        assert_eq!(missing, &EventType::ALL[..if chain == "xlm" { 1 } else { 4 }], "{chain}");
        for _ in 0..40 {
            let Some(next) = reader.after(&node, &known, &all()).unwrap() else { break };
            assert_eq!(next.events.first().map(|event| event.kind), Some(EventType::NewBlock));
            assert_flat(&next.events);
            missing.retain(|kind| next.events.iter().all(|event| event.kind != *kind));
            known = next.block;
        }
        assert_eq!(missing, [], "{chain}");
    }
}
