//! NEAR.

use crate::node::{ScriptedNode, SimulatedNode};
use crate::reading::{Reader, all, data_of, names, only};
use rpcgate_core::event::{BlockRef, ChainEvent, EventType, ReadError};
use serde_json::{Value, json};

const TOKEN: &str = "usdt.tether-token.near";

fn status(node: &SimulatedNode, event: &ChainEvent) -> Value {
    let params = json!({
        "tx_hash": event.data["tx_hash"], "sender_account_id": event.data["from"], "wait_until": "NONE",
    });
    node.result("EXPERIMENTAL_tx_status", &params).unwrap()
}

// Shows (Events of chains).
#[test]
fn a_new_block_has_its_parent_and_the_number_of_its_chunks() {
    let reader = Reader::of("near");
    let node = SimulatedNode::of("near");
    let (block, event) = reader.first(&node, EventType::NewBlock);
    assert_eq!(names(&event), ["chunks", "parent_hash"]);
    let raw = node.result("block", &json!([block.height])).unwrap();
    assert_eq!(event.data["parent_hash"], raw["header"]["prev_hash"]);
    assert_eq!(event.data["chunks"], raw["header"]["chunks_included"]);
}

// Shows (Events of chains).
#[test]
fn an_account_that_sends_coins_has_activity() {
    let reader = Reader::of("near");
    let node = SimulatedNode::of("near");
    let (_, event) = reader.first(&node, EventType::AddressActivity);
    assert_eq!(names(&event), ["address", "direction", "from", "success", "to", "tx_hash", "value"]);
    let tx = status(&node, &event)["transaction"].clone();
    assert_eq!((&event.data["from"], &event.data["to"]), (&tx["signer_id"], &tx["receiver_id"]));
    assert_eq!(event.data["value"], tx["actions"][0]["Transfer"]["deposit"]);
    let party = if event.data["direction"] == "out" { "from" } else { "to" };
    assert_eq!(event.data["address"], event.data[party]);
}

// Shows (Events of chains).
#[test]
fn a_transfer_of_a_token_is_reported_with_its_parties() {
    let reader = Reader::of("near");
    let node = SimulatedNode::of("near");
    let (_, event) = reader.first(&node, EventType::TokenTransfer);
    assert_eq!(
        names(&event),
        ["from", "log_index", "receipt_id", "standard", "to", "token", "tx_hash", "value"]
    );
    assert_eq!((&event.data["token"], &event.data["standard"]), (&json!(TOKEN), &json!("nep141")));
    let status = status(&node, &event);
    assert_eq!(event.data["receipt_id"], status["receipts_outcome"][0]["id"]);
    let log = status["receipts_outcome"][0]["outcome"]["logs"][0].as_str().unwrap().to_owned();
    let item: Value = serde_json::from_str(log.strip_prefix("EVENT_JSON:").unwrap()).unwrap();
    let item = &item["data"][0];
    assert_eq!(
        [&event.data["from"], &event.data["to"], &event.data["value"]],
        [&item["old_owner_id"], &item["new_owner_id"], &item["amount"]]
    );
}

// Shows (Events of chains).
#[test]
fn a_standard_event_in_a_log_is_an_event_of_its_contract() {
    let reader = Reader::of("near");
    let node = SimulatedNode::of("near");
    let (_, event) = reader.first(&node, EventType::ContractEvent);
    assert_eq!(
        names(&event),
        ["address", "event", "log_index", "payload", "receipt_id", "standard", "tx_hash", "version"]
    );
    assert_eq!((&event.data["address"], &event.data["event"]), (&json!(TOKEN), &json!("ft_transfer")));
    let payload: Value = serde_json::from_str(event.data["payload"].as_str().unwrap()).unwrap();
    assert!(payload[0]["amount"].is_string());
}

fn missing() -> ReadError {
    ReadError::Refused { code: -32_000, message: "Server error".into() }
}

fn block(height: u64, previous: u64) -> Value {
    json!({
        "author": "figment.poolv1.near",
        "chunks": [
            { "chunk_hash": format!("chunk{height}"), "height_created": height, "height_included": height, "shard_id": 0 },
            { "chunk_hash": "old", "height_created": 1, "height_included": 1, "shard_id": 1 },
        ],
        "header": {
            "height": height, "prev_height": previous, "hash": format!("block{height}"),
            "prev_hash": format!("block{previous}"), "timestamp": 1_700_000_000_000_000_000u64,
            "timestamp_nanosec": "1700000000999999999", "chunks_included": 1,
        },
    })
}

fn transaction(actions: Value) -> Value {
    json!({
        "actions": actions, "hash": "tx", "nonce": 1, "public_key": "ed25519:x", "receiver_id": "b.near",
        "signature": "ed25519:x", "signer_id": "a.near", "priority_fee": 0,
    })
}

/// Returns a node with blocks at these heights, the last one final, and one transaction in every block.
fn node(heights: &[u64], status: Value) -> ScriptedNode<'static> {
    let heights = heights.to_vec();
    ScriptedNode::new(move |method: &str, params: &str| {
        let params: Value = serde_json::from_str(params).unwrap();
        match method {
            "block" => {
                let last = *heights.last().unwrap();
                let wanted = params["block_id"].as_u64().unwrap_or(last);
                let at = heights.iter().position(|height| *height == wanted).ok_or_else(missing)?;
                Ok(block(wanted, if at == 0 { wanted - 1 } else { heights[at - 1] }))
            }
            "chunk" => {
                assert_ne!(params["chunk_id"], "old", "a chunk of an earlier block");
                Ok(
                    json!({ "author": "x", "header": {}, "receipts": [], "transactions": [status["transaction"]] }),
                )
            }
            "EXPERIMENTAL_tx_status" => Ok(status.clone()),
            _ => Err(ReadError::Refused { code: -32_601, message: "Method not found".into() }),
        }
    })
}

fn at(height: u64) -> BlockRef {
    BlockRef::new(height, format!("block{height}"), format!("block{}", height - 1), 1_700_000_000)
}

// Shows (Events of chains): NEAR: heights without a block are skipped, others never; a block waits for its receipts,
// within a bound.
#[test]
fn heights_without_a_block_are_skipped() {
    let reader = Reader::of("near");
    let node = node(&[7, 10, 11, 40], json!({}));
    let wanted = only(&[EventType::NewBlock]);
    let next = reader.after(&node, &at(7), &wanted).unwrap().unwrap().block;
    assert_eq!((next.height, next.parent.as_str()), (10, "block7"));
    let next = reader.after(&node, &at(11), &wanted).unwrap().unwrap().block;
    assert_eq!(next.height, 40, "the newest final block");
    assert_eq!(reader.at(&node, &at(8)), Ok(None), "skipped");
    assert_eq!(reader.at(&node, &at(41)), Ok(None), "above the head");
    assert_eq!(reader.at(&node, &at(40)).unwrap().unwrap().hash, "block40");
    assert_eq!(reader.after(&node, &at(40), &wanted), Ok(None));
}

// Shows (Events of chains).
#[test]
fn a_block_that_the_node_cannot_show_is_not_taken_for_a_skipped_one() {
    let reader = Reader::of("near");
    let whole = node(&[7, 8, 9, 10], json!({}));
    let broken = ScriptedNode::new(move |method, params: &str| match params {
        r#"{"block_id":8}"# => Err(missing()),
        _ => whole.answer(method, params),
    });
    let wanted = only(&[EventType::NewBlock]);
    assert_eq!(
        reader.after(&broken, &at(7), &wanted),
        Err(ReadError::Unreadable("the node leaves out a block"))
    );
    assert_eq!(reader.at(&broken, &at(8)), Err(missing()));
}

// Shows (Events of chains).
#[test]
fn the_search_for_the_next_block_ends() {
    let reader = Reader::of("near");
    let node = node(&[7, 1_000_000], json!({}));
    assert_eq!(
        reader.after(&node, &at(7), &only(&[EventType::NewBlock])),
        Err(ReadError::Unreadable("the node has no block at the next heights"))
    );
}

fn outcome(id: &str, executor: &str, logs: Value, status: Value) -> Value {
    json!({
        "block_hash": "x", "id": id, "proof": [],
        "outcome": {
            "executor_id": executor, "gas_burnt": 1, "logs": logs, "metadata": {}, "receipt_ids": [],
            "status": status, "tokens_burnt": "1",
        },
    })
}

fn receipt(id: &str, from: &str, to: &str, actions: Value) -> Value {
    json!({
        "predecessor_id": from, "receiver_id": to, "receipt_id": id, "priority": 0,
        "receipt": { "Action": { "actions": actions, "gas_price": "1", "input_data_ids": [], "output_data_receivers": [], "signer_id": "a.near", "signer_public_key": "x" } },
    })
}

/// Returns a call with coins whose receipt pays a part of them on, and gets gas back from the system.
fn called(first: Value, stage: &str) -> Value {
    let log = r#"EVENT_JSON:{"standard":"nep171","version":"1.0.0","event":"nft_transfer","data":[{"old_owner_id":"a.near","new_owner_id":"d.near","token_ids":["7"]}]}"#;
    let call =
        json!([{ "FunctionCall": { "method_name": "buy", "args": "e30=", "gas": 1, "deposit": "9" } }]);
    let mut converted = outcome("tx", "a.near", json!([]), json!({ "SuccessReceiptId": "r1" }));
    converted["outcome"]["receipt_ids"] = json!(["r1"]);
    json!({
        "final_execution_status": stage,
        "status": if first.get("Failure").is_some() { first.clone() } else { json!({ "SuccessValue": "" }) },
        "transaction": transaction(call.clone()),
        "transaction_outcome": converted,
        "receipts_outcome": [
            outcome("r1", "b.near", json!(["words", log]), first),
            outcome("r2", "c.near", json!([]), json!({ "SuccessValue": "" })),
            outcome("r3", "a.near", json!([]), json!({ "SuccessValue": "" })),
        ],
        "receipts": [
            receipt("r1", "a.near", "b.near", call),
            receipt("r2", "b.near", "c.near", json!(["CreateAccount", { "Transfer": { "deposit": "4" } }])),
            receipt("r3", "system", "a.near", json!([{ "Transfer": { "deposit": "1000" } }])),
        ],
    })
}

fn rows(events: &[ChainEvent]) -> Vec<(String, String, Value)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let activity = data_of(events, EventType::AddressActivity).into_iter();
    activity.map(|one| (text(&one["address"]), text(&one["direction"]), one["value"].clone())).collect()
}

#[test]
fn receipts_are_reported_with_the_transaction_that_made_them() {
    let node = node(&[7, 8, 20], called(json!({ "SuccessValue": "" }), "FINAL"));
    let events = Reader::of("near").after(&node, &at(7), &all()).unwrap().unwrap().events;
    let row =
        |address: &str, direction: &str, value: Value| (address.to_owned(), direction.to_owned(), value);
    assert_eq!(
        rows(&events),
        [
            row("a.near", "out", json!("9")),
            row("b.near", "self", json!("5")),
            row("c.near", "in", json!("4")),
            row("d.near", "in", Value::Null),
        ]
    );
    assert_eq!(
        data_of(&events, EventType::TokenTransfer),
        [json!({
            "token": "b.near", "standard": "nep171", "from": "a.near", "to": "d.near", "token_id": "7",
            "tx_hash": "tx", "receipt_id": "r1", "log_index": 1,
        })]
    );
    assert_eq!(data_of(&events, EventType::ContractEvent).len(), 1);
}

// Shows (Webhooks).
#[test]
fn equal_transfers_in_one_log_are_distinguished() {
    let item = json!({ "old_owner_id": "a.near", "new_owner_id": "d.near", "amount": "7" });
    let log =
        json!({ "standard": "nep141", "version": "1.0.0", "event": "ft_transfer", "data": [item, item] });
    let mut status = called(json!({ "SuccessValue": "" }), "FINAL");
    status["receipts_outcome"][0]["outcome"]["logs"] = json!([format!("EVENT_JSON:{log}")]);
    let events =
        Reader::of("near").after(&node(&[7, 8, 20], status), &at(7), &all()).unwrap().unwrap().events;
    let indexes: Vec<_> =
        data_of(&events, EventType::TokenTransfer).iter().map(|one| one["index"].clone()).collect();
    assert_eq!(indexes, [json!(0), json!(1)]);
}

// Shows (Events of chains).
#[test]
fn a_failed_receipt_moves_nothing() {
    let failure = json!({ "Failure": { "ActionError": { "index": 0, "kind": {} } } });
    let mut status = called(failure, "FINAL");
    status["receipts_outcome"].as_array_mut().unwrap().truncate(1);
    status["receipts"].as_array_mut().unwrap().remove(1);
    let node = node(&[7, 8, 20], status);
    let events = Reader::of("near").after(&node, &at(7), &all()).unwrap().unwrap().events;
    assert_eq!(
        rows(&events),
        [("a.near".into(), "out".into(), Value::Null), ("b.near".into(), "in".into(), Value::Null)]
    );
    assert!(data_of(&events, EventType::AddressActivity).iter().all(|one| one["success"] == false));
    assert_eq!(data_of(&events, EventType::TokenTransfer), [Value::Null; 0]);
    assert_eq!(data_of(&events, EventType::ContractEvent), [Value::Null; 0]);
}

#[test]
fn a_payment_to_oneself_whose_receipt_is_not_listed_is_reported() {
    let mut status = called(json!({ "SuccessValue": "" }), "FINAL");
    status["transaction"]["actions"] = json!([{ "Transfer": { "deposit": "3" } }]);
    status["transaction"]["receiver_id"] = json!("a.near");
    status["receipts"] = json!([]);
    status["receipts_outcome"].as_array_mut().unwrap().truncate(1);
    status["receipts_outcome"][0]["outcome"]["logs"] = json!([]);
    let node = node(&[7, 8, 20], status);
    let events = Reader::of("near").after(&node, &at(7), &all()).unwrap().unwrap().events;
    assert_eq!(rows(&events), [("a.near".into(), "self".into(), json!("0"))]);
}

#[test]
fn the_coins_of_a_deleted_account_are_reported() {
    let mut status = called(json!({ "SuccessValue": "" }), "FINAL");
    status["transaction"]["actions"] = json!([{ "DeleteAccount": { "beneficiary_id": "z.near" } }]);
    status["transaction"]["receiver_id"] = json!("a.near");
    status["receipts"] = json!([
        receipt("r2", "system", "z.near", json!([{ "Transfer": { "deposit": "50" } }])),
        receipt("r3", "system", "z.near", json!([{ "Transfer": { "deposit": "1" } }])),
    ]);
    status["receipts_outcome"][0]["outcome"]["receipt_ids"] = json!(["r2", "r3"]);
    let told = |status: Value| {
        rows(&Reader::of("near").after(&node(&[7, 8, 20], status), &at(7), &all()).unwrap().unwrap().events)
    };
    let sent = told(status.clone());
    assert!(sent.contains(&("z.near".into(), "in".into(), json!("50"))), "{sent:?}");
    assert!(sent.iter().any(|row| row.0 == "a.near"), "{sent:?}");
    status["receipts_outcome"][0]["outcome"]["status"] = json!({ "Failure": {} });
    assert!(told(status).iter().all(|row| row.0 != "z.near"), "it was not deleted");
}

// Shows (Events of chains).
#[test]
fn a_block_waits_for_its_receipts_for_a_bounded_time() {
    let reader = Reader::of("near");
    let after = |head: u64, stage: &str| {
        let node = node(&[7, 8, head], called(json!({ "SuccessValue": "" }), stage));
        reader.after(&node, &at(7), &all()).unwrap().map(|next| next.events.len())
    };
    assert_eq!(after(11, "FINAL"), None, "too few blocks lie above");
    let whole = after(12, "FINAL").unwrap();
    assert_eq!(after(12, "INCLUDED_FINAL"), None);
    assert_eq!(after(57, "INCLUDED_FINAL"), None);
    assert_eq!(after(58, "INCLUDED_FINAL"), Some(whole), "what has run by then");
    let early = node(&[7, 8, 9], called(json!({ "SuccessValue": "" }), "FINAL"));
    assert!(reader.after(&early, &at(7), &only(&[EventType::NewBlock])).unwrap().is_some());
    let nothing = node(
        &[7, 8, 58],
        json!({
            "final_execution_status": "INCLUDED",
            "transaction": called(json!({ "SuccessValue": "" }), "FINAL")["transaction"],
        }),
    );
    assert_eq!(reader.after(&nothing, &at(7), &all()).unwrap().unwrap().events.len(), 1, "the block alone");
}

#[test]
fn the_status_of_another_transaction_is_rejected() {
    let asked = called(json!({ "SuccessValue": "" }), "FINAL");
    let mut other = Value::Null;
    other.clone_from(&asked);
    other["transaction"]["hash"] = json!("other");
    let usual = node(&[7, 8, 20], asked);
    let mixed = ScriptedNode::new(move |method: &str, params: &str| match method {
        "EXPERIMENTAL_tx_status" => Ok(other.clone()),
        _ => usual.answer(method, params),
    });
    let told = Reader::of("near").after(&mixed, &at(7), &all());
    assert_eq!(told, Err(ReadError::Unreadable("the status is another transaction's")));
}

// Shows (Events of chains).
#[test]
fn an_answer_that_is_not_the_apis_is_unreadable() {
    let reader = Reader::of("near");
    let with = |pointer: &str, value: Value| {
        let mut status = called(json!({ "SuccessValue": "" }), "FINAL");
        *status.pointer_mut(pointer).unwrap() = value;
        reader.after(&node(&[7, 8, 20], status), &at(7), &all())
    };
    for (pointer, value) in [
        ("/transaction/signer_id", json!(5)),
        ("/receipts/0/receipt/Action/actions/0/FunctionCall/deposit", json!(9)),
        ("/receipts/0/receipt/Action/actions/0/FunctionCall/deposit", json!("1.5")),
        ("/receipts_outcome/0/outcome/logs", json!("none")),
        ("/transaction_outcome", json!(null)),
    ] {
        let told = with(pointer, value.clone());
        assert!(matches!(told, Err(ReadError::Unreadable(_))), "{pointer} {value}: {told:?}");
    }
    let head = |wrong: Value| reader.head(&ScriptedNode::new(move |_, _| Ok(wrong.clone())));
    let mut many = block(8, 7);
    many["chunks"] = Value::from(vec![many["chunks"][0].clone(); 129]);
    let mut timeless = block(8, 7);
    timeless["header"]["timestamp_nanosec"] = json!("now");
    for wrong in [json!(null), json!({}), many, timeless] {
        assert!(matches!(head(wrong.clone()), Err(ReadError::Unreadable(_))), "{wrong}");
    }
}

// Shows (Events of chains).
#[test]
fn values_of_filters_are_compared_in_one_form() {
    let reader = Reader::of("near");
    for key in ["address", "from", "to", "token"] {
        assert_eq!(reader.canonical(key, "USDT.tether-token.near").as_deref(), Some(TOKEN), "{key}");
        assert_eq!(reader.canonical(key, "0x a"), None, "{key}");
    }
    assert_eq!(reader.canonical("address", &"AB".repeat(32)), Some("ab".repeat(32)));
    let hash = "9xKkpbdYzPs8Ho3WbJBaiUxfr9vXwA9m2cdG7e6YvSFR";
    for key in ["tx_hash", "receipt_id", "block_hash", "parent_hash"] {
        assert_eq!(reader.canonical(key, hash).as_deref(), Some(hash), "{key}");
        // Hashes have 32 bytes, so this filter would never match.
        assert_eq!(reader.canonical(key, "AbC"), None, "{key}");
    }
}
