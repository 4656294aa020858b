//! Solana.

use crate::node::{ScriptedNode, SimulatedNode, refused};
use crate::reading::{Reader, Reading, assert_flat, data, events_in, text};
use rpcgate_core::event::{BlockRef, EventFilter, EventType, NodeCalls, ReadError};
use serde_json::{Value, json};
use std::sync::Arc;

const SYSTEM: &str = "11111111111111111111111111111111";
const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const MINT: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";

fn simulated() -> Reading<SimulatedNode> {
    Reading::simulated("solana")
}

/// Returns the transactions of a block, as the node shows them.
fn shown(reading: &Reading<SimulatedNode>, slot: u64) -> Vec<Value> {
    let params = json!([slot, { "maxSupportedTransactionVersion": 0 }]);
    let block = reading.node.result("getBlock", &params).unwrap();
    block["transactions"].as_array().unwrap().clone()
}

// Shows (Events of chains): Events of Solana: every type from simulated blocks.
#[test]
fn a_simulated_block_of_solana_is_reported_as_new_without_its_transactions() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::NewBlock], 10, 400);
    for pair in blocks.windows(2) {
        assert_eq!(pair[1].block.height, pair[0].block.height + 1);
        let before = &pair[0].events[0].data;
        let after = &pair[1].events[0].data;
        assert_eq!(after["parent_hash"], *pair[0].block.hash);
        assert_eq!(
            (&after["parent_slot"], &after["transactions"]),
            (&json!(pair[0].block.height), &json!(2))
        );
        assert_eq!(after["block_height"].as_u64(), before["block_height"].as_u64().map(|height| height + 1));
    }
    assert!(reading.node.asked().iter().all(|call| !call.contains("full")));
    let above = BlockRef { height: blocks[9].block.height + 100, ..blocks[9].block.clone() };
    assert_eq!((reading.at(&above), reading.after(&above, &EventFilter::default())), (Ok(None), Ok(None)));
}

// Shows (Events of chains).
#[test]
fn activity_in_a_simulated_block_of_solana_is_reported_by_balance_changes() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::AddressActivity], 20, 400);
    assert_flat(&events_in(&blocks));
    for block in &blocks {
        let mut expected = Vec::new();
        for tx in shown(&reading, block.block.height) {
            let keys = tx["transaction"]["message"]["accountKeys"].as_array().unwrap().clone();
            for (key, row) in keys.iter().zip(0..) {
                let [before, after] =
                    ["preBalances", "postBalances"].map(|name| tx["meta"][name][row].as_i64().unwrap());
                if before != after {
                    let direction = if before > after { "out" } else { "in" };
                    expected.push(json!({
                        "tx_hash": tx["transaction"]["signatures"][0], "success": true, "address": key,
                        "direction": direction, "value": before.abs_diff(after).to_string(),
                    }));
                }
            }
        }
        assert!(expected.len() == 4);
        assert_eq!(data(&block.events), expected);
    }
    let watched = text(&blocks[0].events[1], "address").to_owned();
    let is_watched = {
        let watched = watched.clone();
        Arc::new(move |address: &str| address == watched)
    };
    let known = BlockRef { height: blocks[0].block.height - 1, ..blocks[0].block.clone() };
    let wanted = EventFilter::new([EventType::AddressActivity]).with_addresses(is_watched);
    assert_eq!(reading.after(&known, &wanted).unwrap().unwrap().events, [blocks[0].events[1].clone()]);
}

// Shows (Events of chains).
#[test]
fn transfers_of_coins_and_tokens_in_a_simulated_block_of_solana_are_reported() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::TokenTransfer], 10, 400);
    for block in &blocks {
        let mut expected = Vec::new();
        for tx in shown(&reading, block.block.height) {
            let meta = &tx["meta"];
            let keys = &tx["transaction"]["message"]["accountKeys"];
            let paid = meta["postBalances"][1].as_u64().unwrap() - meta["preBalances"][1].as_u64().unwrap();
            let tokens = meta["preTokenBalances"].as_array().unwrap().len();
            for (index, token) in ["SOL", MINT].into_iter().enumerate().take(1 + tokens / 2) {
                expected.push(json!({
                    "tx_hash": tx["transaction"]["signatures"][0], "index": index, "token": token,
                    "from": keys[0], "to": keys[1], "value": paid.to_string(),
                }));
            }
        }
        assert_eq!(data(&block.events), expected);
        assert_eq!(expected.len(), 3);
    }
}

// Shows (Events of chains).
#[test]
fn instructions_and_logs_in_a_simulated_block_of_solana_are_events_of_contracts() {
    let blocks = simulated().follow(&[EventType::ContractEvent], 5, 400);
    assert_flat(&events_in(&blocks));
    for block in blocks {
        let told = data(&block.events);
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!((&told[0]["program"], &told[0]["kind"]), (&json!(TOKEN), &json!("instruction")));
        let log = json!({
            "tx_hash": told[0]["tx_hash"], "index": 1, "program": TOKEN, "kind": "log", "log": "Instruction: Transfer",
        });
        assert_eq!(told[1], log);
    }
}

fn key(n: u8) -> String {
    // 31 ones are 31 zero bytes, and one more digit is the last byte.
    format!("{}{}", "1".repeat(31), char::from(b"23456789ABCDEFGH"[usize::from(n)]))
}

fn balance(index: u64, owner: &str, mint: &str, amount: &str) -> Value {
    json!({
        "accountIndex": index, "mint": mint, "owner": owner, "programId": TOKEN,
        "uiTokenAmount": { "amount": amount, "decimals": 6, "uiAmount": 0.1, "uiAmountString": "0.1" },
    })
}

fn transaction(error: Value, meta: Value) -> Value {
    let mut whole = json!({
        "err": error, "fee": 5000, "preBalances": [10, 0, 1, 1], "postBalances": [5, 0, 1, 1],
        "logMessages": null, "innerInstructions": null, "preTokenBalances": null, "postTokenBalances": null,
    });
    for (name, value) in meta.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let message = json!({
        "accountKeys": [key(1), key(2), SYSTEM, key(3)],
        "instructions": [{ "programIdIndex": 3, "accounts": [0, 1], "data": "2" }],
    });
    json!({ "transaction": { "signatures": ["s"], "message": message }, "meta": whole, "version": "legacy" })
}

fn block(transactions: Vec<Value>) -> Value {
    json!({
        "blockhash": "h9", "previousBlockhash": "h6", "parentSlot": 6, "blockTime": 1_700_000_000,
        "blockHeight": 3, "transactions": transactions,
    })
}

/// Returns a node whose newest blocks are in slots 6 and 9.
fn node(transactions: Vec<Value>) -> ScriptedNode<'static> {
    ScriptedNode::new(move |method, params| {
        let params: Value = serde_json::from_str(params).unwrap();
        match (method, params[0].as_u64()) {
            ("getSlot", _) => Ok(json!(9)),
            ("getBlocksWithLimit", Some(first)) => {
                Ok([6, 9].into_iter().filter(|slot| *slot >= first).collect::<Vec<_>>().into())
            }
            ("getBlock", Some(9)) => Ok(block(transactions.clone())),
            ("getBlock", Some(8)) => Err(refused(-32_007, "")),
            ("getBlock", Some(7)) => Err(refused(-32_009, "")),
            ("getBlock", Some(10)) => Err(refused(-32_004, "")),
            _ => Err(refused(-32_001, "")),
        }
    })
}

fn known(slot: u64, hash: &str) -> BlockRef {
    BlockRef::new(slot, hash, "", 0)
}

// Shows (Events of chains): Events of Solana: skipped slots, failed transactions, tokens, called programs, nodes
// without HTTP.
#[test]
fn skipped_slots_of_solana_are_passed() {
    let reading = Reading::new("solana", node(vec![transaction(Value::Null, json!({}))]));
    let nine = BlockRef::new(9, "h9", "h6", 1_700_000_000);
    assert_eq!(reading.head(), Ok(nine.clone()));
    for slot in [6, 7, 8] {
        let next = reading
            .after(&known(slot, "h6"), &EventFilter::new([EventType::AddressActivity]))
            .unwrap()
            .unwrap();
        assert_eq!(next.block, nine, "after {slot}");
    }
    // The parent differs from the known block: the chain was reorganised.
    assert_ne!(nine.parent, known(6, "other").hash);
    assert_eq!(reading.after(&nine, &EventFilter::default()), Ok(None));
    for slot in [7, 8, 10] {
        assert_eq!(reading.at(&known(slot, "")), Ok(None), "{slot}");
    }
    assert_eq!(reading.at(&known(3, "")), Err(refused(-32_001, "")));
    assert_eq!(reading.at(&known(9, "")), Ok(Some(nine)));
}

// Shows (Events of chains).
#[test]
fn a_failed_transaction_of_solana_has_activity_alone() {
    let error = json!({ "InstructionError": [0, { "Custom": 1 }] });
    let meta = json!({
        "preTokenBalances": [balance(3, &key(4), MINT, "5")], "postTokenBalances": [balance(3, &key(4), MINT, "5")],
        "logMessages": [format!("Program {} invoke [1]", key(3)), "Program log: x"],
    });
    let reading = Reading::new("solana", node(vec![transaction(error, meta)]));
    let told = data(&reading.events(&known(6, "h6"), EventType::AddressActivity));
    let fee =
        json!({ "tx_hash": "s", "success": false, "address": key(1), "direction": "out", "value": "5" });
    assert_eq!(told, [fee]);
    for kind in [EventType::TokenTransfer, EventType::ContractEvent] {
        assert_eq!(reading.events(&known(6, "h6"), kind), []);
    }
}

// Shows (Events of chains).
#[test]
fn tokens_of_solana_are_moved_from_those_who_have_less_to_those_who_have_more() {
    let meta = json!({
        "preTokenBalances": [
            balance(0, &key(5), MINT, "100"), balance(1, &key(5), MINT, "7"), balance(2, &key(6), MINT, "0"),
            balance(3, &key(7), &key(9), "18446744073709551615"),
        ],
        "postTokenBalances": [
            balance(0, &key(5), MINT, "40"), balance(1, &key(5), MINT, "7"), balance(2, &key(6), MINT, "50"),
            balance(2, &key(8), MINT, "25"),
        ],
    });
    let reading = Reading::new("solana", node(vec![transaction(Value::Null, meta)]));
    let told = reading.events(&known(6, "h6"), EventType::TokenTransfer);
    let transfer = |index: u64, token: &str, from: Option<u8>, to: Option<u8>, value: &str| {
        let mut row = json!({ "tx_hash": "s", "index": index, "token": token, "value": value });
        for (name, n) in [("from", from), ("to", to)] {
            if let Some(n) = n {
                row[name] = key(n).into();
            }
        }
        row
    };
    assert_eq!(
        data(&told),
        [
            transfer(0, MINT, Some(5), Some(6), "50"),
            transfer(1, MINT, Some(5), Some(8), "10"),
            transfer(2, MINT, None, Some(8), "15"),
            transfer(3, &key(9), Some(7), None, "18446744073709551615"),
        ]
    );
}

// Shows (Events of chains).
#[test]
fn coins_that_a_called_program_moves_on_solana_are_reported_in_order() {
    // Transfer of 7 lamports, in base58.
    let moves = |from: u64, to: u64| json!({ "programIdIndex": 2, "accounts": [from, to], "data": "3Bxs422ZxaDKgeiB" });
    let meta = json!({
        "innerInstructions": [{ "index": 0, "instructions": [moves(0, 1), moves(4, 0)] }],
        "loadedAddresses": { "writable": [key(8)], "readonly": [key(9)] },
        "preBalances": [10, 0, 1, 1, 7, 0], "postBalances": [5, 7, 1, 1, 0, 0],
    });
    let reading = Reading::new("solana", node(vec![transaction(Value::Null, meta)]));
    let told = data(&reading.events(&known(6, "h6"), EventType::TokenTransfer));
    assert_eq!(told.len(), 2);
    assert_eq!(
        (&told[0]["from"], &told[0]["to"], &told[0]["token"]),
        (&json!(key(1)), &json!(key(2)), &json!("SOL"))
    );
    assert_eq!((&told[1]["from"], &told[1]["to"]), (&json!(key(8)), &json!(key(1))));
    let active = data(&reading.events(&known(6, "h6"), EventType::AddressActivity));
    assert_eq!(active.iter().map(|row| row["address"].clone()).collect::<Vec<_>>(), [key(1), key(2), key(8)]);
}

// Shows (Events of chains).
#[test]
fn balances_without_accounts_are_no_answer_of_solana() {
    let reading = Reading::new("solana", node(vec![transaction(Value::Null, json!({ "preBalances": [1] }))]));
    let next = reading.after(&known(6, "h6"), &EventFilter::new([EventType::AddressActivity]));
    assert_eq!(next, Err(ReadError::Unreadable("the balances of a transaction")));
    let outside =
        json!([{ "index": 0, "instructions": [{ "programIdIndex": 99, "accounts": [], "data": "" }] }]);
    let reading =
        Reading::new("solana", node(vec![transaction(Value::Null, json!({ "innerInstructions": outside }))]));
    let next = reading.after(&known(6, "h6"), &EventFilter::new([EventType::ContractEvent]));
    assert_eq!(next, Err(ReadError::Unreadable("the program of an instruction")));
    let backwards = ScriptedNode::new(|_, _| Ok(json!([9, 6])));
    let next = Reading::new("solana", backwards).after(&known(5, ""), &EventFilter::default());
    assert_eq!(next, Err(ReadError::Unreadable("slots with blocks")));
}

/// A node with only a WebSocket.
#[derive(Debug)]
struct StreamAlone(SimulatedNode);

impl NodeCalls for StreamAlone {
    fn call<'a>(
        &'a self,
        _: &'a str,
        _: String,
    ) -> rpcgate_core::backend::BoxFuture<'a, Result<bytes::Bytes, ReadError>> {
        Box::pin(std::future::ready(Err(ReadError::Unreachable("it has no url".into()))))
    }

    fn request<'a>(
        &'a self,
        verb: http::Method,
        path: String,
        body: String,
    ) -> rpcgate_core::backend::BoxFuture<'a, Result<bytes::Bytes, ReadError>> {
        self.0.request(verb, path, body)
    }

    fn stream_call<'a>(
        &'a self,
        method: &'a str,
        params: String,
    ) -> rpcgate_core::backend::BoxFuture<'a, Result<bytes::Bytes, ReadError>> {
        self.0.stream_call(method, params)
    }
}

// Shows (Events of chains).
#[test]
fn a_node_of_solana_without_an_http_address_is_asked_over_its_websocket() {
    let reading = Reading::new("solana", StreamAlone(SimulatedNode::of("solana")));
    let head = reading.head().unwrap();
    assert_eq!(reading.at(&head), Ok(Some(head.clone())));
    reading.node.0.wait(1_000);
    let next = reading.after(&head, &EventFilter::new([EventType::NewBlock])).unwrap().unwrap();
    assert_eq!((next.block.parent, next.events.len()), (head.hash, 1));
    let away = ScriptedNode::new(|_, _| Err(ReadError::Unreachable("away".into())));
    assert_eq!(Reading::new("solana", away).head(), Err(ReadError::Unreachable("away".into())));
}

// Shows (Events of chains).
#[test]
fn filters_of_solana_are_public_keys() {
    let reader = Reader::of("solana");
    for name in ["address", "from", "to", "program", "token"] {
        assert_eq!(reader.canonical(name, MINT).as_deref(), Some(MINT));
        assert_eq!(reader.canonical(name, "0x1"), None);
    }
    assert_eq!(reader.canonical("token", "SOL").as_deref(), Some("SOL"));
    assert_eq!(reader.canonical("kind", "log").as_deref(), Some("log"));
}
