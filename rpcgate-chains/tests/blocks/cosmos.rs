//! The Cosmos Hub.

use crate::node::{ScriptedNode, SimulatedNode};
use crate::reading::{Reader, all, data_of, names};
use http::Method;
use rpcgate_core::event::{BlockRef, ChainEvent, EventType, ReadError};
use serde_json::{Value, json};

const A: &str = "cosmos1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnrk363e";
const B: &str = "cosmos1qurswpc8qurswpc8qurswpc8qurswpc8nn86qp";
const FEES: &str = "cosmos17xpfvakm2amg962yls6f84z3kell8c5lserqta";
const OPERATOR: &str = "cosmosvaloper1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnxz90a2";
const HASH: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8=";

fn found(node: &SimulatedNode, event: &ChainEvent) -> Value {
    let path = format!("/cosmos/tx/v1beta1/txs/{}", event.data["tx_hash"].as_str().unwrap());
    node.body(&Method::GET, &path, "").unwrap()["tx_response"].clone()
}

// Shows (Events of chains).
#[test]
fn a_new_block_has_its_parent_and_the_number_of_its_transactions() {
    let reader = Reader::of("cosmos");
    let node = SimulatedNode::of("cosmos");
    let (block, event) = reader.first(&node, EventType::NewBlock);
    assert_eq!(names(&event), ["parent_hash", "transactions"]);
    assert_eq!(event.data["parent_hash"], block.parent.as_str());
    let path = format!("/cosmos/base/tendermint/v1beta1/blocks/{}", block.height);
    let raw = node.body(&Method::GET, &path, "").unwrap();
    assert_eq!(event.data["transactions"], raw["block"]["data"]["txs"].as_array().unwrap().len());
    assert!(
        block.hash.len() == 64
            && block.hash.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    );
}

// Shows (Events of chains).
#[test]
fn an_address_that_sends_coins_has_activity() {
    let reader = Reader::of("cosmos");
    let node = SimulatedNode::of("cosmos");
    let (_, event) = reader.first(&node, EventType::AddressActivity);
    assert_eq!(names(&event), ["address", "direction", "success", "token", "tx_hash", "value"]);
    let message = found(&node, &event)["tx"]["body"]["messages"][0].clone();
    let member = if event.data["direction"] == "out" { "from_address" } else { "to_address" };
    assert_eq!(event.data["address"], message[member]);
    assert_eq!(event.data["value"], message["amount"][0]["amount"], "without the fee");
    assert_eq!((&event.data["token"], &event.data["success"]), (&json!("uatom"), &json!(true)));
}

// Shows (Events of chains).
#[test]
fn a_transfer_of_coins_is_reported_with_its_parties() {
    let reader = Reader::of("cosmos");
    let node = SimulatedNode::of("cosmos");
    let (_, event) = reader.first(&node, EventType::TokenTransfer);
    assert_eq!(names(&event), ["from", "index", "to", "token", "tx_hash", "value"]);
    let message = found(&node, &event)["tx"]["body"]["messages"][0].clone();
    assert_eq!((&event.data["from"], &event.data["to"]), (&message["from_address"], &message["to_address"]));
    assert_eq!(json!({ "denom": event.data["token"], "amount": event.data["value"] }), message["amount"][0]);
}

// Shows (Events of chains).
#[test]
fn every_event_of_a_module_is_reported_with_its_attributes() {
    let reader = Reader::of("cosmos");
    let node = SimulatedNode::of("cosmos");
    let (_, event) = reader.first(&node, EventType::ContractEvent);
    assert_eq!(names(&event), ["attributes", "index", "tx_hash", "type"]);
    let raw = found(&node, &event)["events"][0].clone();
    assert_eq!(event.data["type"], raw["type"]);
    assert_eq!(event.data["attributes"][0]["key"], raw["attributes"][0]["key"]);
    assert_eq!(event.data["attributes"][0]["value"], raw["attributes"][0]["value"]);
}

fn emitted(kind: &str, pairs: &[(&str, &str)]) -> Value {
    let pair = |(key, value): &(&str, &str)| json!({ "key": key, "value": value, "index": true });
    json!({ "type": kind, "attributes": pairs.iter().map(pair).collect::<Vec<_>>() })
}

/// Returns the events of a transfer, as the bank module emits them.
fn moved(from: &str, to: &str, amount: &str) -> Vec<Value> {
    vec![
        emitted("coin_spent", &[("spender", from), ("amount", amount)]),
        emitted("coin_received", &[("receiver", to), ("amount", amount)]),
        emitted("transfer", &[("recipient", to), ("sender", from), ("amount", amount)]),
        emitted("message", &[("sender", from)]),
    ]
}

fn response(code: u32, events: &[Vec<Value>]) -> Value {
    json!({
        "height": "8", "txhash": "AB".repeat(32), "codespace": if code == 0 { "" } else { "sdk" }, "code": code,
        "data": "", "raw_log": "", "logs": [], "info": "", "gas_wanted": "200000", "gas_used": "90000",
        "tx": { "@type": "/cosmos.tx.v1beta1.Tx", "body": { "memo": "a memo", "messages": [] } },
        "timestamp": "2023-11-14T22:13:20Z", "events": events.concat(),
    })
}

fn block(height: u64, txs: usize) -> Value {
    json!({
        "block_id": { "hash": HASH, "part_set_header": { "total": 1, "hash": HASH } },
        "block": {
            "header": {
                "version": { "block": "11", "app": "0" }, "chain_id": "cosmoshub-4", "height": height.to_string(),
                "time": "2023-11-14T22:13:20.123456789Z", "last_block_id": { "hash": HASH, "part_set_header": {} },
            },
            "data": { "txs": vec!["AA=="; txs] }, "evidence": { "evidence": [] }, "last_commit": {},
        },
        "sdk_block": {},
    })
}

/// Returns a node whose newest block is `head`. Each of its blocks has `count` transactions; `indexed` are in its
/// index.
fn node(head: u64, count: usize, indexed: Vec<Value>) -> ScriptedNode<'static> {
    ScriptedNode::new(move |path: &str, _: &str| {
        if let Some(height) = path.strip_prefix("/cosmos/base/tendermint/v1beta1/blocks/") {
            let height = if height == "latest" { head } else { height.parse().unwrap() };
            if height > head {
                let message = "requested block height is bigger then the chain length".into();
                return Err(ReadError::Refused { code: 400, message });
            }
            return Ok(block(height, count));
        }
        let page: usize = path.split_once("&page=").unwrap().1.split('&').next().unwrap().parse().unwrap();
        let page: Vec<&Value> = indexed.iter().skip((page - 1) * 100).take(100).collect();
        Ok(json!({ "txs": [], "tx_responses": page, "pagination": null, "total": indexed.len().to_string() }))
    })
}

fn events(response: Value) -> Vec<ChainEvent> {
    let known = BlockRef::new(7, "h", "p", 0);
    let next = Reader::of("cosmos").after(&node(8, 1, vec![response]), &known, &all()).unwrap().unwrap();
    assert_eq!(next.block.hash, format!("{:0>64}", "FF"));
    assert_eq!(next.block.timestamp, 1_700_000_000);
    next.events
}

// Shows (Events of chains): Cosmos: every message reports its own events, also coins of other chains; a block waits for
// the node's index.
#[test]
fn every_message_of_a_transaction_reports_its_own_events() {
    let events = events(response(
        0,
        &[
            moved(A, FEES, "500uatom"),
            vec![emitted("tx", &[("fee", "500uatom"), ("fee_payer", A)])],
            moved(A, B, "5uatom,6ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97EA622B25F41E5EB2"),
            vec![
                emitted("coin_spent", &[("spender", A), ("amount", "9uatom")]),
                emitted("delegate", &[("validator", OPERATOR), ("delegator", A), ("amount", "9uatom")]),
            ],
        ],
    ));
    let transfers = data_of(&events, EventType::TokenTransfer);
    assert_eq!(transfers.len(), 2, "one for each coin, and none for the fee");
    assert_eq!(
        transfers[0],
        json!({ "token": "uatom", "from": A, "to": B, "value": "5", "tx_hash": "AB".repeat(32), "index": 7 })
    );
    let activity = data_of(&events, EventType::AddressActivity);
    let rows: Vec<_> = activity
        .iter()
        .map(|one| (one["address"].as_str().unwrap(), one["direction"].as_str().unwrap()))
        .collect();
    assert_eq!(rows, [(A, "out"), (B, "in"), (OPERATOR, "in")]);
    assert!(activity.iter().all(|one| one["value"].is_null()), "two coins moved");
    assert_eq!(data_of(&events, EventType::ContractEvent).len(), 11);
}

// Shows (Events of chains).
#[test]
fn a_failed_transaction_moves_nothing_but_its_fee() {
    let failed = response(
        5,
        &[
            moved(A, FEES, "500uatom"),
            vec![
                emitted("tx", &[("fee", "500uatom"), ("fee_payer", A)]),
                emitted("tx", &[("acc_seq", "x/1")]),
            ],
        ],
    );
    let events = events(failed);
    assert_eq!(data_of(&events, EventType::TokenTransfer), [Value::Null; 0]);
    assert_eq!(
        data_of(&events, EventType::AddressActivity),
        [json!({ "address": A, "direction": "out", "success": false, "tx_hash": "AB".repeat(32) })]
    );
    assert_eq!(data_of(&events, EventType::ContractEvent).len(), 6);
}

// Shows (Events of chains).
#[test]
fn coins_from_another_chain_arrive_as_transfers_of_their_denomination() {
    let denom = "ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97EA622B25F41E5EB2";
    let packet = [
        ("module", "transfer"),
        ("sender", "osmo1qqqsyqcyq5rqwzqfpg9scrgwpugpzysntdz28t"),
        ("receiver", B),
        ("denom", "uosmo"),
        ("amount", "12"),
    ];
    let events = events(response(
        0,
        &[
            moved(A, B, &format!("12{denom}")),
            vec![
                emitted("fungible_token_packet", &packet),
                emitted("wasm", &[("_contract_address", B), ("action", "x")]),
                json!({ "type": "odd", "attributes": [{ "key": "no_value", "value": null }] }),
            ],
        ],
    ));
    assert_eq!(data_of(&events, EventType::TokenTransfer)[0]["token"], denom);
    let activity = data_of(&events, EventType::AddressActivity);
    let to_b = activity.iter().find(|one| one["address"] == B).unwrap();
    assert_eq!((&to_b["value"], &to_b["token"]), (&json!("12"), &json!(denom)));
    assert!(activity.iter().all(|one| one["address"] != packet[1].1), "an address of another chain");
    let told = data_of(&events, EventType::ContractEvent);
    assert_eq!(told[5]["address"], B);
    assert_eq!(told[6]["attributes"], json!([{ "key": "no_value", "value": "" }]));
}

// Shows (Events of chains).
#[test]
fn a_block_waits_until_its_transactions_are_indexed() {
    let reader = Reader::of("cosmos");
    let known = BlockRef::new(7, "h", "p", 0);
    let one = || response(0, &[]);
    assert_eq!(reader.after(&node(8, 2, vec![one()]), &known, &all()), Ok(None), "the newest block");
    assert_eq!(
        reader.after(&node(9, 2, vec![one()]), &known, &all()),
        Err(ReadError::Unreadable("the node's index lacks transactions of the block"))
    );
    let many: Vec<_> = (0..250).map(|_| one()).collect();
    assert!(reader.after(&node(8, 250, many), &known, &all()).unwrap().is_some(), "three pages");
    let mut other = one();
    other["height"] = json!("9");
    let wrong = reader.after(&node(8, 1, vec![other]), &known, &all());
    assert!(matches!(wrong, Err(ReadError::Unreadable(_))), "{wrong:?}");
}

// Shows (Events of chains).
#[test]
fn an_answer_without_a_block_is_unreadable() {
    let reader = Reader::of("cosmos");
    let with = |pointer: &str, value: Value| {
        let mut block = block(8, 0);
        *block.pointer_mut(pointer).unwrap() = value;
        block
    };
    for wrong in [
        json!({}),
        json!(null),
        json!({ "code": 5, "message": "not found", "details": [] }),
        with("/block_id/hash", json!("AA==")),
        with("/block/header/height", json!("-1")),
        with("/block/header/height", json!(8)),
        with("/block/header/time", json!("yesterday")),
        with("/block/header/last_block_id", json!({ "hash": "x" })),
    ] {
        let node = ScriptedNode::new({
            let wrong = wrong.clone();
            move |_, _| Ok(wrong.clone())
        });
        assert!(matches!(reader.head(&node), Err(ReadError::Unreadable(_))), "{wrong}");
    }
    let node = ScriptedNode::new(move |_, _| Ok(with("/block/header/last_block_id", json!(null))));
    assert_eq!(reader.head(&node).unwrap().parent, "", "the first block");
}

// Shows (Events of chains).
#[test]
fn values_of_filters_are_compared_in_one_form() {
    let reader = Reader::of("cosmos");
    for key in ["address", "from", "to"] {
        assert_eq!(reader.canonical(key, &A.to_uppercase()).as_deref(), Some(A), "{key}");
        assert_eq!(reader.canonical(key, "osmo1qqqsyqcyq5rqwzqfpg9scrgwpugpzysntdz28t"), None, "{key}");
    }
    assert_eq!(reader.canonical("tx_hash", &format!("0x{}", "ab".repeat(32))), Some("AB".repeat(32)));
    assert_eq!(reader.canonical("block_hash", HASH), None, "the form of the REST API");
    assert_eq!(reader.canonical("token", "ibc/27A").as_deref(), Some("ibc/27A"));
}
