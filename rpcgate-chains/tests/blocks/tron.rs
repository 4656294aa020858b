//! TRON.

use crate::node::{ScriptedNode, SimulatedNode};
use crate::reading::{Reader, all, data_of, names, only};
use http::Method;
use rpcgate_core::event::{BlockRef, EventType, ReadError};
use serde_json::{Value, json};

const USDT: &str = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
const TOKEN: &str = "41a614f803b6fd780986a42c78ec9c7f77e6ded13c";
const A: &str = "411111111111111111111111111111111111111111";
const B: &str = "412222222222222222222222222222222222222222";
const C: &str = "413333333333333333333333333333333333333333";

fn shown(hex: &str) -> String {
    Reader::of("tron").canonical("address", hex).unwrap()
}

fn hash(digit: u8) -> String {
    format!("{digit:x}").repeat(64)
}

/// Returns the raw block that an event belongs to.
fn raw(node: &SimulatedNode, block: &BlockRef) -> Value {
    let body = json!({ "num": block.height }).to_string();
    node.body(&Method::POST, "/wallet/getblockbynum", &body).unwrap()
}

fn raw_transaction(node: &SimulatedNode, block: &BlockRef, tx_hash: &Value) -> Value {
    let all = raw(node, block)["transactions"].as_array().unwrap().clone();
    all.into_iter().find(|tx| tx["txID"] == *tx_hash).unwrap()
}

// Shows (Events of chains): Every type of event of each of these chains occurs in simulated blocks, with the stated
// members.
#[test]
fn a_new_block_has_its_parent_and_the_number_of_its_transactions() {
    let reader = Reader::of("tron");
    let node = SimulatedNode::of("tron");
    let (block, event) = reader.first(&node, EventType::NewBlock);
    assert_eq!(names(&event), ["parent_hash", "transactions"]);
    let raw = raw(&node, &block);
    assert_eq!(event.data["parent_hash"], raw["block_header"]["raw_data"]["parentHash"]);
    assert_eq!(event.data["transactions"], raw["transactions"].as_array().map_or(0, Vec::len));
    assert_eq!(block.hash, raw["blockID"].as_str().unwrap());
}

// Shows (Events of chains).
#[test]
fn an_address_that_sends_coins_has_activity() {
    let reader = Reader::of("tron");
    let node = SimulatedNode::of("tron");
    let (block, event) = reader.first(&node, EventType::AddressActivity);
    assert_eq!(names(&event), ["address", "direction", "success", "tx_hash", "tx_type", "value"]);
    let tx = raw_transaction(&node, &block, &event.data["tx_hash"]);
    let operation = &tx["raw_data"]["contract"][0];
    assert_eq!(event.data["tx_type"], operation["type"]);
    let value = &operation["parameter"]["value"];
    assert_eq!(event.data["value"], value["amount"].to_string());
    let member = if event.data["direction"] == "out" { "owner_address" } else { "to_address" };
    assert_eq!(event.data["address"], shown(value[member].as_str().unwrap()));
}

// Shows (Events of chains).
#[test]
fn a_transfer_of_a_token_is_reported_with_its_parties() {
    let reader = Reader::of("tron");
    let node = SimulatedNode::of("tron");
    let (block, event) = reader.first(&node, EventType::TokenTransfer);
    assert_eq!(names(&event), ["from", "log_index", "standard", "to", "token", "tx_hash", "value"]);
    assert_eq!((&event.data["token"], &event.data["standard"]), (&json!(USDT), &json!("trc20")));
    let tx = raw_transaction(&node, &block, &event.data["tx_hash"]);
    let value = &tx["raw_data"]["contract"][0]["parameter"]["value"];
    assert_eq!(event.data["from"], shown(value["owner_address"].as_str().unwrap()));
    let call = value["data"].as_str().unwrap();
    assert_eq!(event.data["to"], shown(&format!("0x{}", &call[32..72])));
    let amount = u64::from_str_radix(&call[120..], 16).unwrap();
    assert_eq!(event.data["value"], amount.to_string());
    let activity = reader.after(&node, &reader.at(&node, &below(&block)).unwrap().unwrap(), &all());
    let activity = data_of(&activity.unwrap().unwrap().events, EventType::AddressActivity);
    for (party, direction) in [("from", "out"), ("to", "in")] {
        let is_told = |one: &Value| {
            one["address"] == event.data[party]
                && one["tx_hash"] == event.data["tx_hash"]
                && one["direction"] == direction
        };
        assert!(activity.iter().any(is_told), "{party}");
    }
}

fn below(block: &BlockRef) -> BlockRef {
    BlockRef { height: block.height - 1, ..block.clone() }
}

// Shows (Events of chains).
#[test]
fn a_log_of_a_contract_is_an_event_with_its_topics() {
    let reader = Reader::of("tron");
    let node = SimulatedNode::of("tron");
    let (block, event) = reader.first(&node, EventType::ContractEvent);
    assert_eq!(names(&event), ["address", "data", "log_index", "topic0", "topics", "tx_hash"]);
    let body = json!({ "num": block.height }).to_string();
    let results = node.body(&Method::POST, "/wallet/gettransactioninfobyblocknum", &body).unwrap();
    let result = results.as_array().unwrap().iter().find(|one| one["id"] == event.data["tx_hash"]).unwrap();
    assert_eq!(event.data["address"], USDT);
    assert_eq!(event.data["topics"], result["log"][0]["topics"]);
    assert_eq!(event.data["topic0"], result["log"][0]["topics"][0]);
    assert_eq!(event.data["data"], result["log"][0]["data"]);
}

fn operation(kind: &str, value: Value) -> Value {
    let url = format!("type.googleapis.com/protocol.{kind}");
    json!({ "parameter": { "value": value, "type_url": url }, "type": kind })
}

fn transaction(id: u8, ret: &str, operation: Value) -> Value {
    json!({
        "ret": [{ "contractRet": ret }], "signature": ["00"], "txID": hash(id),
        "raw_data": {
            "data": "6d656d6f", "contract": [operation], "ref_block_bytes": "0001",
            "ref_block_hash": "0000000000000001", "expiration": 1_700_000_060_000u64,
            "timestamp": 1_700_000_000_000u64, "fee_limit": 30_000_000,
        },
        "raw_data_hex": "0a",
    })
}

fn block(transactions: Vec<Value>) -> Value {
    let mut block = json!({
        "blockID": hash(8),
        "block_header": {
            "raw_data": {
                "number": 8, "txTrieRoot": hash(0), "witness_address": A, "parentHash": hash(7), "version": 32,
                "timestamp": 1_700_000_001_500u64,
            },
            "witness_signature": "00",
        },
    });
    if !transactions.is_empty() {
        block["transactions"] = Value::from(transactions);
    }
    block
}

fn result(id: u8, more: Value) -> Value {
    let mut result = json!({
        "id": hash(id), "fee": 0, "blockNumber": 8, "blockTimeStamp": 1_700_000_001_500u64,
        "contractResult": [""], "receipt": { "net_usage": 268 },
    });
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    result
}

fn told(transactions: Vec<Value>, results: Vec<Value>) -> Result<Vec<(String, Value)>, ReadError> {
    let block = block(transactions);
    let node = ScriptedNode::new(move |path, _| {
        Ok(if path.ends_with("infobyblocknum") { Value::from(results.clone()) } else { block.clone() })
    });
    let known = BlockRef::new(7, hash(7), hash(6), 0);
    let next = Reader::of("tron").after(&node, &known, &all())?.unwrap();
    assert_eq!(next.block, BlockRef::new(8, hash(8), hash(7), 1_700_000_001));
    let row =
        |event: rpcgate_core::event::ChainEvent| (event.kind.name().to_owned(), Value::Object(event.data));
    Ok(next.events.into_iter().skip(1).map(row).collect())
}

#[test]
fn an_empty_block_needs_no_results() {
    assert_eq!(told(Vec::new(), vec![json!("unread")]), Ok(Vec::new()));
}

// Shows (Events of chains): A failed transaction moves nothing.
#[test]
fn a_failed_call_moves_nothing() {
    let call = json!({
        "owner_address": A, "contract_address": TOKEN, "call_value": 5, "data": "a9059cbb",
    });
    let topics = [
        "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        &format!("{:0>64}", &A[2..]),
        &format!("{:0>64}", &B[2..]),
    ];
    let log = json!({ "address": &TOKEN[2..], "topics": topics, "data": format!("{:0>64}", "64") });
    let moved = json!({
        "hash": hash(2), "caller_address": TOKEN, "transferTo_address": B, "note": "63616c6c",
        "callValueInfo": [{ "callValue": 3 }],
    });
    for (ret, result_of) in [("REVERT", Some("FAILED")), ("OUT_OF_ENERGY", None), ("SUCCESS", Some("FAILED"))]
    {
        let mut more = json!({
            "contract_address": TOKEN, "log": [log], "internal_transactions": [moved],
        });
        if let Some(text) = result_of {
            more["result"] = text.into();
        }
        let events = told(
            vec![transaction(1, ret, operation("TriggerSmartContract", call.clone()))],
            vec![result(1, more)],
        );
        let kind = "TriggerSmartContract";
        assert_eq!(
            events.unwrap(),
            [(A, "out"), (TOKEN, "in")].map(|(address, direction)| {
                let data = json!({
                    "address": shown(address), "direction": direction, "tx_type": kind,
                    "success": false, "tx_hash": hash(1),
                });
                ("address_activity".to_owned(), data)
            }),
            "{ret}"
        );
    }
}

// Shows (Webhooks).
#[test]
fn coins_and_tokens_that_a_contract_moves_are_reported() {
    let call = json!({ "owner_address": A, "contract_address": TOKEN, "call_value": 5 });
    let internal = json!([
        {
            "hash": hash(2), "caller_address": TOKEN, "transferTo_address": B, "note": "63616c6c",
            "callValueInfo": [
                { "callValue": 3 }, { "callValue": 9, "tokenId": "1002000" }, {},
                { "callValue": 9, "tokenId": "1002000" },
            ],
        },
        {
            "hash": hash(3), "caller_address": TOKEN, "transferTo_address": B, "note": "63616c6c",
            "callValueInfo": [{ "callValue": 1000 }], "rejected": true,
        },
        {
            "hash": hash(4), "caller_address": TOKEN, "transferTo_address": C,
            "note": "64656c65676174655265736f757263654f66456e65726779",
            "callValueInfo": [{ "callValue": 2000 }],
        },
    ]);
    let events = told(
        vec![transaction(1, "SUCCESS", operation("TriggerSmartContract", call))],
        vec![result(1, json!({ "contract_address": TOKEN, "internal_transactions": internal }))],
    );
    let events = events.unwrap();
    assert_eq!(events.iter().filter(|(kind, _)| kind == "token_transfer").count(), 2);
    let activity = |address: &str| {
        let found = events
            .iter()
            .find(|(kind, data)| kind == "address_activity" && data["address"] == shown(address));
        let data = &found.unwrap().1;
        (data["direction"].clone(), data["value"].clone())
    };
    assert_eq!(activity(A), (json!("out"), json!("5")));
    assert_eq!(activity(TOKEN), (json!("self"), Value::Null), "a token went out beside the coins");
    assert_eq!(activity(B), (json!("in"), Value::Null), "coins and tokens");
    assert_eq!(activity(C), (json!("in"), Value::Null), "delegated, not moved");
    assert_eq!(
        events.last().unwrap(),
        &(
            "token_transfer".to_owned(),
            json!({
                "token": "1002000", "standard": "trc10", "index": 1, "from": USDT, "to": shown(B), "value": "9",
                "tx_hash": hash(1),
            })
        )
    );
}

#[test]
fn a_transfer_of_a_trc10_token_is_a_token_transfer() {
    let value = json!({ "owner_address": A, "to_address": B, "asset_name": "31303032303030", "amount": 7 });
    let events = told(
        vec![transaction(1, "SUCCESS", operation("TransferAssetContract", value))],
        vec![result(1, json!({}))],
    );
    let events = events.unwrap();
    assert_eq!(
        events[2].1,
        json!({
            "token": "1002000", "standard": "trc10", "index": 0, "from": shown(A), "to": shown(B), "value": "7",
            "tx_hash": hash(1),
        })
    );
    assert_eq!((&events[0].1["value"], &events[0].1["token"]), (&json!("7"), &json!("1002000")));
    assert_eq!(events.len(), 3);
}

// Shows (Webhooks).
#[test]
fn coins_and_tokens_that_go_to_a_contract_with_its_call_are_reported() {
    let token = json!({
        "token": "1002000", "standard": "trc10", "index": 0, "from": shown(A), "to": USDT, "value": "7", "tx_hash": hash(1),
    });
    let call = json!({
        "owner_address": A, "contract_address": TOKEN, "token_id": 1_002_000, "call_token_value": 7,
    });
    let create = json!({
        "owner_address": A, "new_contract": { "origin_address": A, "name": "x", "call_value": 5 },
        "token_id": 1_002_000, "call_token_value": 7,
    });
    for (kind, value) in [("TriggerSmartContract", call), ("CreateSmartContract", create)] {
        let made = |ret: &str| {
            told(
                vec![transaction(1, ret, operation(kind, value.clone()))],
                vec![result(1, json!({ "contract_address": TOKEN }))],
            )
            .unwrap()
        };
        let of = |events: &[(String, Value)], name: &str| {
            events.iter().filter(|(kind, _)| kind == name).map(|(_, data)| data.clone()).collect::<Vec<_>>()
        };
        let events = made("SUCCESS");
        assert_eq!(of(&events, "token_transfer"), std::slice::from_ref(&token), "{kind}");
        let directions: Vec<_> = of(&events, "address_activity")
            .iter()
            .map(|data| (data["address"].clone(), data["direction"].clone()))
            .collect();
        assert_eq!(directions, [(json!(shown(A)), json!("out")), (json!(USDT), json!("in"))], "{kind}");
        assert_eq!(of(&made("REVERT"), "token_transfer"), [Value::Null; 0], "{kind}");
    }
    let create = json!({ "owner_address": A, "new_contract": { "call_value": 5 } });
    let events = told(
        vec![transaction(1, "SUCCESS", operation("CreateSmartContract", create))],
        vec![result(1, json!({ "contract_address": TOKEN }))],
    );
    let values: Vec<_> = events.unwrap().into_iter().map(|(_, data)| data["value"].clone()).collect();
    assert_eq!(values, ["5", "5"], "of the sender and of the contract");
}

#[test]
fn an_operation_without_a_transfer_has_activity_of_all_its_addresses() {
    let value = json!({ "owner_address": A, "receiver_address": B, "balance": 100, "resource": "ENERGY" });
    let events = told(
        vec![transaction(1, "SUCCESS", operation("DelegateResourceContract", value))],
        vec![result(1, json!({}))],
    );
    let rows: Vec<_> = events
        .unwrap()
        .into_iter()
        .map(|(_, data)| (data["address"].clone(), data.get("value").cloned()))
        .collect();
    assert_eq!(rows, [(json!(shown(A)), None), (json!(shown(B)), None)]);
}

// Shows (Events of chains).
#[test]
fn results_of_another_block_are_not_mixed_in() {
    let value = json!({ "owner_address": A, "to_address": B, "amount": 7 });
    let one = || transaction(1, "SUCCESS", operation("TransferContract", value.clone()));
    let unreadable = Err(ReadError::Unreadable("the node has no results of the block's transactions"));
    assert_eq!(told(vec![one()], vec![result(2, json!({}))]), unreadable);
    assert_eq!(told(vec![one()], Vec::new()), unreadable);
    assert_eq!(told(vec![one()], vec![result(1, json!({ "blockNumber": 9 }))]), unreadable);
    assert!(told(vec![one()], vec![result(1, json!({}))]).is_ok());
}

// Shows (Events of chains): No answer of a node causes a panic or an invented event.
#[test]
fn an_answer_without_a_block_is_unreadable() {
    let reader = Reader::of("tron");
    let known = BlockRef::new(7, hash(7), hash(6), 0);
    let wanted = only(&[EventType::NewBlock]);
    let after = |answer: Value| {
        let node = ScriptedNode::new(move |_, _| Ok(answer.clone()));
        reader.after(&node, &known, &wanted)
    };
    assert_eq!(after(json!({})), Ok(None));
    assert_eq!(
        after(json!({ "Error": "class java.lang.NullPointerException : null" })),
        Err(ReadError::Refused { code: 200, message: "class java.lang.NullPointerException : null".into() })
    );
    let mut short = block(Vec::new());
    short["blockID"] = json!("08");
    let mut other = block(Vec::new());
    other["block_header"]["raw_data"]["number"] = json!(9);
    for wrong in [json!([]), json!(null), json!({ "blockID": hash(8) }), short, other] {
        assert!(matches!(after(wrong.clone()), Err(ReadError::Unreadable(_))), "{wrong}");
    }
}

// Shows (Events of chains): Addresses are compared in the chain's own way.
#[test]
fn values_of_filters_are_compared_in_one_form() {
    let reader = Reader::of("tron");
    for key in ["address", "from", "to", "token"] {
        assert_eq!(reader.canonical(key, TOKEN).as_deref(), Some(USDT), "{key}");
        assert_eq!(reader.canonical(key, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), None, "{key}");
    }
    assert_eq!(reader.canonical("token", "1002000").as_deref(), Some("1002000"));
    assert_eq!(reader.canonical("tx_hash", &format!("0x{}", "AB".repeat(32))), Some("ab".repeat(32)));
    assert_eq!(reader.canonical("tx_hash", "abc"), None);
    assert_eq!(reader.canonical("tx_type", "TransferContract").as_deref(), Some("TransferContract"));
}
