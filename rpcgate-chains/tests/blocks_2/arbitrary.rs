//! Whatever a node answers, reading ends with a result: nothing panics.

use super::CHAINS;
use super::node::{Reader, Recorded, Scripted, all};
use proptest::prelude::*;
use rpcgate_core::event::BlockRef;
use serde_json::{Map, Value};
use std::sync::OnceLock;

/// Names that the readers look at, so that arbitrary answers get further than their first member.
const NAMES: &[&str] = &[
    "block",
    "blockID",
    "block_header",
    "block_id",
    "chunks",
    "data",
    "digest",
    "events",
    "hash",
    "header",
    "height",
    "log",
    "previousDigest",
    "raw_data",
    "result",
    "sequenceNumber",
    "status",
    "time",
    "timestampMs",
    "transactions",
    "tx_responses",
    "txs",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        any::<u64>().prop_map(|number| number.to_string()),
        "[0-9a-f]{64}",
        "\\PC{0,12}",
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

/// Replaces the value at `place`, counted through the whole tree, by `with`.
fn replace(tree: &mut Value, place: &mut usize, with: &Value) {
    if *place == 0 {
        *tree = with.clone();
    }
    let Some(left) = place.checked_sub(1) else {
        *place = usize::MAX;
        return;
    };
    *place = left;
    match tree {
        Value::Array(items) => items.iter_mut().for_each(|item| step(item, place, with)),
        Value::Object(members) => members.iter_mut().for_each(|(_, member)| step(member, place, with)),
        _ => {}
    }
}

fn step(tree: &mut Value, place: &mut usize, with: &Value) {
    if *place != usize::MAX {
        replace(tree, place, with);
    }
}

fn size(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.values().map(size).sum::<usize>(),
        _ => 0,
    }
}

/// A block of each chain that is far enough below the newest one.
fn known(chain: usize) -> &'static BlockRef {
    static KNOWN: OnceLock<Vec<BlockRef>> = OnceLock::new();
    let of = |chain: &&str| Reader::of(chain).back(&Recorded::simulated(chain), 12);
    &KNOWN.get_or_init(|| CHAINS.iter().map(of).collect())[chain]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_makes_a_reader_panic(answers in prop::collection::vec(value(), 1..4), height in any::<u64>()) {
        let node = Scripted::new(move |_, with| Ok(answers[with.len() % answers.len()].clone()));
        let known = BlockRef::new(height, "h", "p", 0);
        for chain in CHAINS {
            let reader = Reader::of(chain);
            let _ = reader.head(&node);
            let _ = reader.at(&node, &known);
            let _ = reader.after(&node, &known, &all());
        }
    }

    #[test]
    fn no_changed_answer_makes_a_reader_panic(
        chain in 0..CHAINS.len(),
        call in 0usize..8,
        place in any::<prop::sample::Index>(),
        with in value(),
    ) {
        let node = Recorded::changed(CHAINS[chain], move |number, mut answer| {
            if number == call {
                let mut place = place.index(size(&answer));
                replace(&mut answer, &mut place, &with);
            }
            answer
        });
        let _ = Reader::of(CHAINS[chain]).after(&node, known(chain), &all());
    }
}
