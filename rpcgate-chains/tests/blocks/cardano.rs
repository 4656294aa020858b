//! Cardano.

use crate::node::{ScriptedNode, SimulatedNode, refused};
use crate::reading::{Reader, Reading, assert_flat, data, events_in, text};
use rpcgate_core::event::{BlockRef, EventFilter, EventType, ReadError};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

fn simulated() -> Reading<SimulatedNode> {
    Reading::simulated("cardano")
}

// Shows (Events of chains): Events of Cardano: every type from simulated blocks.
#[test]
fn a_simulated_block_of_cardano_is_reported_as_new() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::NewBlock], 20, 20_000);
    for pair in blocks.windows(2) {
        let before = &pair[0];
        let after = &pair[1];
        assert_eq!(after.block.height, before.block.height + 1);
        assert_eq!(after.events.len(), 1);
        let data = &after.events[0].data;
        assert_eq!(data["parent_hash"], *before.block.hash);
        let count = if after.block.height.is_multiple_of(4) { 2 } else { 1 };
        assert_eq!(data["transactions"], count);
        assert_eq!(data["slot"].as_i64().map(|slot| slot + 1_591_566_291), Some(after.block.timestamp));
    }
    // A place has the points of a bounded number of ancestors.
    let place = |index: usize| blocks[index].block.position.split(',').count();
    assert_eq!((place(0), place(1), place(19)), (2, 3, 13));
    let asked = reading.node.asked();
    assert!(asked.iter().all(|call| !call.contains("utxo")));
}

// Shows (Events of chains).
#[test]
fn activity_in_a_simulated_block_of_cardano_is_reported_by_outputs() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::AddressActivity], 8, 20_000);
    assert_flat(&events_in(&blocks));
    for block in &blocks {
        for event in &block.events {
            assert!(text(event, "address").starts_with("addr1") && text(event, "direction") == "in");
            assert!(
                text(event, "value").parse::<u64>().unwrap() > 1_000_000 && event.data["success"] == true
            );
        }
        assert_eq!(block.events.len(), if block.block.height.is_multiple_of(4) { 3 } else { 2 });
    }
    let watched = text(&blocks[1].events[0], "address").to_owned();
    let is_watched = Arc::new(move |address: &str| address == watched);
    let wanted = EventFilter::new([EventType::AddressActivity]).with_addresses(is_watched);
    let only = reading.after(&blocks[0].block, &wanted).unwrap().unwrap();
    assert_eq!((&only.block, &only.events), (&blocks[1].block, &vec![blocks[1].events[0].clone()]));
}

// Shows (Events of chains).
#[test]
fn coins_and_tokens_in_a_simulated_block_of_cardano_are_reported_by_outputs() {
    let blocks = simulated().follow(&[EventType::TokenTransfer], 8, 20_000);
    let events = events_in(&blocks);
    assert_flat(&events);
    let tokens: Vec<_> = events.iter().filter(|event| event.data["token"] != "lovelace").collect();
    assert_eq!((tokens.len(), events.len()), (2, 2 * 8 + 2 * 2));
    assert!(text(tokens[0], "token").ends_with(".53494d"));
    let amount = |event| text(event, "value").parse::<u64>().unwrap();
    assert_eq!(amount(tokens[1]), amount(tokens[0]) + 1_000);
}

// Shows (Events of chains).
#[test]
fn minting_in_a_simulated_block_of_cardano_is_an_event_of_a_contract() {
    let blocks = simulated().follow(&[EventType::ContractEvent], 8, 20_000);
    assert_flat(&events_in(&blocks));
    for block in blocks {
        let told: Vec<_> = block.events.iter().map(|event| text(event, "kind")).collect();
        let expected: &[&str] =
            if block.block.height.is_multiple_of(4) { &["script", "redeemer", "mint"] } else { &[] };
        assert_eq!(told, expected);
        if let [script, redeemer, mint] = block.events.as_slice() {
            let policy = text(script, "script");
            assert_eq!(text(script, "language"), "plutus:v2");
            assert_eq!((text(redeemer, "script"), text(redeemer, "purpose")), (policy, "mint"));
            assert_eq!((text(mint, "value"), text(mint, "token")), ("1000", &*format!("{policy}.53494d")));
        }
    }
}

/// A node's chain of blocks, and the client's position in it.
#[derive(Default)]
struct Ogmios {
    /// Ids by height.
    chain: Vec<String>,
    /// The last height that the client received.
    told: usize,
    is_placed: bool,
    transactions: Vec<Value>,
    /// Blocks that replace the chain's from a height, once the client has read another block.
    fork: Option<(usize, Vec<String>)>,
}

/// Two slots to a block.
fn slot(height: usize) -> usize {
    2 * height
}

impl Ogmios {
    fn point(&self, height: usize) -> Value {
        json!({ "slot": slot(height), "id": self.chain[height] })
    }

    fn tip(&self) -> Value {
        let mut tip = self.point(self.chain.len() - 1);
        tip["height"] = (self.chain.len() - 1).into();
        tip
    }

    fn replace(&mut self, from: usize, ids: Vec<String>) {
        self.chain.truncate(from);
        self.chain.extend(ids);
        if self.told >= from {
            (self.told, self.is_placed) = (from - 1, false);
        }
    }

    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, ReadError> {
        match method {
            "queryNetwork/startTime" => Ok(json!("2022-06-01T00:00:00Z")),
            "queryLedgerState/eraStart" => Ok(json!({ "time": { "seconds": 100 }, "slot": 20, "epoch": 1 })),
            "findIntersection" => {
                for point in params["points"].as_array().unwrap() {
                    let found = if point == "origin" {
                        return Ok(json!({ "intersection": "origin", "tip": self.tip() }));
                    } else {
                        (0..self.chain.len()).find(|height| self.point(*height) == *point)
                    };
                    if let Some(height) = found {
                        (self.told, self.is_placed) = (height, false);
                        return Ok(json!({ "intersection": point, "tip": self.tip() }));
                    }
                }
                Err(refused(1_000, ""))
            }
            "nextBlock" => {
                if !self.is_placed {
                    self.is_placed = true;
                    let point = self.point(self.told);
                    return Ok(json!({ "direction": "backward", "point": point, "tip": self.tip() }));
                }
                assert!(self.told + 1 < self.chain.len(), "it would wait");
                self.told += 1;
                let block = json!({
                    "type": "praos", "era": "conway", "id": self.chain[self.told],
                    "ancestor": self.chain[self.told - 1], "height": self.told, "slot": slot(self.told),
                    "transactions": self.transactions,
                });
                let answer = json!({ "direction": "forward", "block": block, "tip": self.tip() });
                if let Some((from, ids)) = self.fork.take() {
                    self.replace(from, ids);
                }
                Ok(answer)
            }
            method => panic!("{method}"),
        }
    }
}

/// Returns a reader of such a node, whose chain has these ids.
fn reading(ids: &[&str]) -> (Arc<Mutex<Ogmios>>, Reading<ScriptedNode<'static>>) {
    let chain = ids.iter().map(|id| (*id).to_owned()).collect();
    let ogmios = Arc::new(Mutex::new(Ogmios { chain, ..Ogmios::default() }));
    let node = ogmios.clone();
    let node = ScriptedNode::new(move |method, params| {
        node.lock().unwrap().answer(method, &serde_json::from_str(params).unwrap())
    });
    (ogmios, Reading::new("cardano", node))
}

fn chain(fork: &str, heights: std::ops::Range<usize>) -> Vec<String> {
    heights.map(|height| format!("{fork}{height}")).collect()
}

fn read_on(reading: &Reading<ScriptedNode<'static>>, mut known: BlockRef) -> Vec<BlockRef> {
    let mut found = vec![known.clone()];
    while let Some(next) = reading.after(&known, &EventFilter::default()).unwrap() {
        assert_eq!(next.block.height, known.height + 1);
        known = next.block;
        found.push(known.clone());
        assert!(found.len() < 100);
    }
    found
}

// Shows (Events of chains): Events of Cardano: rollbacks of depth 1 to 10 and deeper ones, spent outputs, tokens,
// failed scripts.
#[test]
fn a_rollback_on_cardano_is_found_by_the_ancestors_of_the_known_block() {
    for depth in 1..=10 {
        let (ogmios, reading) = reading(&["a0"]);
        let start = reading.head().unwrap();
        assert_eq!((start.height, &*start.parent, start.timestamp), (0, "", 1_654_041_600 + 80));
        ogmios.lock().unwrap().chain = chain("a", 0..20);
        let known = read_on(&reading, start).pop().unwrap();
        assert_eq!((known.height, &*known.hash, &*known.parent), (19, "a19", "a18"));
        // The fork is longer by one block.
        ogmios.lock().unwrap().replace(20 - depth, chain("b", 20 - depth..21));
        let next = reading.after(&known, &EventFilter::default()).unwrap().unwrap();
        assert_eq!((&*next.block.hash, &*next.block.parent), ("b20", "b19"), "depth {depth}");
        let other = reading.at(&known).unwrap().unwrap();
        assert_eq!((other.height, &*other.hash), (19, "b19"));
        assert_eq!(&*other.parent, if depth == 1 { "a18" } else { "b18" });
        // The place of the other block is good for the next fork.
        ogmios.lock().unwrap().replace(18, chain("c", 18..25));
        assert_eq!(reading.after(&other, &EventFilter::default()).unwrap().unwrap().block.hash, "c20");
        let back = read_on(&reading, next.block);
        assert_eq!(back[1].hash, "c21");
    }
}

// Shows (Events of chains).
#[test]
fn a_fork_of_cardano_that_is_shorter_has_no_block_yet() {
    let (ogmios, reading) = reading(&["a0", "a1"]);
    let start = reading.head().unwrap();
    ogmios.lock().unwrap().chain = chain("a", 0..6);
    let known = read_on(&reading, start).pop().unwrap();
    ogmios.lock().unwrap().replace(4, chain("b", 4..5));
    assert_eq!((reading.after(&known, &EventFilter::default()), reading.at(&known)), (Ok(None), Ok(None)));
    ogmios.lock().unwrap().replace(5, chain("b", 5..6));
    assert_eq!(reading.after(&known, &EventFilter::default()), Ok(None));
    assert_eq!(reading.at(&known).unwrap().map(|other| other.hash).as_deref(), Some("b5"));
}

// Shows (Events of chains).
#[test]
fn a_cardano_fork_deeper_than_all_known_ancestors_is_detected_by_the_head_alone() {
    let (ogmios, reading) = reading(&["a0", "a1"]);
    let start = reading.head().unwrap();
    ogmios.lock().unwrap().chain = chain("b", 0..5);
    assert_eq!((reading.at(&start), reading.after(&start, &EventFilter::default())), (Ok(None), Ok(None)));
    let head = reading.head().unwrap();
    assert!(head.height > start.height && head.hash != start.hash);
}

// Shows (Events of chains).
#[test]
fn a_rollback_on_cardano_while_blocks_are_read_is_followed() {
    let (ogmios, reading) = reading(&["a0"]);
    let start = reading.head().unwrap();
    ogmios.lock().unwrap().chain = chain("a", 0..10);
    let known = read_on(&reading, start).pop().unwrap();
    let mut node = ogmios.lock().unwrap();
    node.replace(6, chain("b", 6..12));
    node.fork = Some((5, chain("c", 5..14)));
    drop(node);
    let next = reading.after(&known, &EventFilter::default()).unwrap().unwrap();
    assert_eq!((&*next.block.hash, &*next.block.parent), ("c10", "c9"));
    assert!(next.block.position.starts_with("20,18:c9,16:c8"), "{}", next.block.position);
}

fn with(transactions: Vec<Value>) -> Reading<ScriptedNode<'static>> {
    let (ogmios, reading) = reading(&["a0", "a1"]);
    ogmios.lock().unwrap().transactions = transactions;
    reading
}

/// Returns the first block's reference.
fn genesis() -> BlockRef {
    BlockRef::new(0, "a0", "", 0).with_position("0")
}

fn output(address: &str, value: &Value) -> Value {
    json!({ "address": address, "value": value })
}

fn spent(id: &str, index: u64) -> Value {
    json!({ "transaction": { "id": id }, "index": index })
}

// Shows (Events of chains).
#[test]
fn an_input_of_cardano_has_an_address_if_its_output_is_of_the_same_block() {
    let ada = |lovelace: u64| json!({ "ada": { "lovelace": lovelace } });
    let reading = with(vec![
        json!({
            "id": "t1", "spends": "inputs", "inputs": [spent("t0", 0)],
            "outputs": [output("addr1a", &ada(7)), output("addr1b", &ada(u64::MAX))],
        }),
        json!({
            "id": "t2", "spends": "inputs", "inputs": [spent("t1", 1), spent("t1", 5)],
            "outputs": [output("addr1b", &ada(5)), output("Ae2", &ada(2))],
        }),
    ]);
    let told = reading.events(&genesis(), EventType::AddressActivity);
    let row = |tx: &str, address: &str, direction: &str, value: &str| {
        json!({
            "tx_hash": tx, "success": true, "address": address, "direction": direction, "value": value,
        })
    };
    let mut own = row("t2", "addr1b", "self", "18446744073709551610");
    (own["paid"], own["received"]) = (json!("18446744073709551615"), json!("5"));
    assert_eq!(
        data(&told),
        [
            row("t1", "addr1a", "in", "7"),
            row("t1", "addr1b", "in", "18446744073709551615"),
            own,
            row("t2", "Ae2", "in", "2"),
        ]
    );
}

// Shows (Events of chains).
#[test]
fn tokens_of_cardano_are_reported_with_their_policy_and_name() {
    let policy = "ab".repeat(28);
    let value =
        json!({ "ada": { "lovelace": 2 }, policy.clone(): { "": 1, "4d": 18_446_744_073_709_551_615u64 } });
    let reading = with(vec![json!({
        "id": "t1", "spends": "inputs", "inputs": [], "outputs": [output("addr1a", &value)],
        "mint": { policy.clone(): { "4d": -3 } },
        "redeemers": [
            { "redeemer": "d8", "validator": { "purpose": "spend", "index": 4 }, "executionUnits": {} },
            { "redeemer": "00".repeat(1_000), "validator": { "purpose": "mint", "index": 0 } },
        ],
    })]);
    let told = reading.events(&genesis(), EventType::TokenTransfer);
    let row = |token: &str, value: &str| json!({ "tx_hash": "t1", "index": 0, "token": token, "to": "addr1a", "value": value });
    let named = format!("{policy}.4d");
    assert_eq!(data(&told), [row(&policy, "1"), row(&named, "18446744073709551615"), row("lovelace", "2")]);
    let told = reading.events(&genesis(), EventType::ContractEvent);
    assert_eq!(
        data(&told),
        [
            json!({ "tx_hash": "t1", "success": true, "kind": "redeemer", "purpose": "spend", "index": 4, "redeemer": "d8" }),
            json!({ "tx_hash": "t1", "success": true, "kind": "redeemer", "purpose": "mint", "index": 0, "script": policy }),
            json!({
                "tx_hash": "t1", "success": true, "kind": "mint", "script": policy, "token": named, "value": "-3",
            }),
        ]
    );
}

// Shows (Webhooks).
#[test]
fn deeply_nested_metadata_of_a_sender_does_not_stop_the_chain() {
    let (ogmios, _) = reading(&["a0", "a1"]);
    ogmios.lock().unwrap().transactions = vec![json!({
        "id": "t1", "spends": "inputs", "inputs": [], "metadata": "deep",
        "outputs": [output("addr1a", &json!({ "ada": { "lovelace": 2 } }))],
    })];
    let deep = format!("{}{}", "[".repeat(16_000), "]".repeat(16_000));
    let node = ScriptedNode::of_texts(move |method, params| {
        let answer = ogmios.lock().unwrap().answer(method, &serde_json::from_str(params).unwrap())?;
        Ok(answer.to_string().replace("\"deep\"", &deep))
    });
    let told = Reading::new("cardano", node).events(&genesis(), EventType::TokenTransfer);
    assert_eq!(told.len(), 1);
}

// Shows (Events of chains).
#[test]
fn a_failed_transaction_of_cardano_spends_its_collateral_alone() {
    let ada = |lovelace: u64| json!({ "ada": { "lovelace": lovelace } });
    let reading = with(vec![
        json!({
            "id": "t1", "spends": "collaterals", "inputs": [spent("t0", 0)], "collaterals": [spent("t0", 1)],
            "outputs": [output("addr1a", &ada(7))], "collateralReturn": output("addr1b", &ada(3)),
            "mint": { "ab": { "": 1 } }, "scripts": { "cd": { "language": "plutus:v3", "cbor": "00" } },
        }),
        // The change of a collateral comes after the outputs that are not created.
        json!({ "id": "t2", "spends": "inputs", "inputs": [spent("t1", 1)], "outputs": [] }),
    ]);
    let told = data(&reading.events(&genesis(), EventType::AddressActivity));
    assert_eq!(told.len(), 2);
    assert_eq!(
        (&told[0]["address"], &told[0]["success"], &told[0]["value"]),
        (&json!("addr1b"), &json!(false), &json!("3"))
    );
    assert_eq!((&told[1]["address"], &told[1]["direction"]), (&json!("addr1b"), &json!("out")));
    assert_eq!(reading.events(&genesis(), EventType::TokenTransfer), []);
    let told = data(&reading.events(&genesis(), EventType::ContractEvent));
    assert_eq!(
        told,
        [
            json!({ "tx_hash": "t1", "success": false, "kind": "script", "script": "cd", "language": "plutus:v3" })
        ]
    );
}

// Shows (Events of chains).
#[test]
fn an_invalid_block_of_cardano_is_unreadable() {
    for (name, value) in
        [("height", json!(7)), ("ancestor", json!("x")), ("slot", json!(-1)), ("transactions", json!([{}]))]
    {
        let (ogmios, _) = reading(&["a0", "a1"]);
        let node = ScriptedNode::new(move |method, params| {
            let mut answer = ogmios.lock().unwrap().answer(method, &serde_json::from_str(params).unwrap())?;
            if answer["direction"] == "forward" {
                answer["block"][name] = value.clone();
            }
            Ok(answer)
        });
        let next = Reading::new("cardano", node).after(&genesis(), &EventFilter::default());
        assert_eq!(next, Err(ReadError::Unreadable("the next block")), "{name}");
    }
    // A node that goes back again and again.
    let tip = json!({ "slot": 9, "id": "y", "height": 4 });
    let back = ScriptedNode::new(move |method, _| {
        let point = json!({ "slot": 0, "id": "a0" });
        Ok(match method {
            "findIntersection" => json!({ "intersection": point, "tip": tip }),
            _ => json!({ "direction": "backward", "point": point, "tip": tip }),
        })
    });
    let next = Reading::new("cardano", back).after(&genesis(), &EventFilter::default());
    assert_eq!(next, Err(ReadError::Unreadable("the next block")));
    let other = ScriptedNode::new(|_, _| {
        Ok(json!({ "intersection": { "slot": 5, "id": "x" }, "tip": { "slot": 9, "id": "y", "height": 4 } }))
    });
    let next = Reading::new("cardano", other).after(&genesis(), &EventFilter::default());
    assert_eq!(next, Err(ReadError::Unreadable("an intersection")));
}

// Shows (Events of chains).
#[test]
fn filters_of_cardano_have_one_form() {
    let reader = Reader::of("cardano");
    let address = "addr1vx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzers66hrl8";
    for key in ["address", "to"] {
        assert_eq!(reader.canonical(key, &address.to_uppercase()).as_deref(), Some(address));
        assert_eq!(reader.canonical(key, "addr1"), None);
    }
    assert_eq!(reader.canonical("token", "lovelace").as_deref(), Some("lovelace"));
    assert_eq!(reader.canonical("token", "ada"), None);
    for key in ["tx_hash", "block_hash", "parent_hash"] {
        assert_eq!(reader.canonical(key, &"AB".repeat(32)), Some("ab".repeat(32)), "{key}");
        // No hash has two digits, so this filter would never match.
        assert_eq!(reader.canonical(key, "AB"), None, "{key}");
    }
    assert_eq!(reader.canonical("kind", "mint").as_deref(), Some("mint"));
}
