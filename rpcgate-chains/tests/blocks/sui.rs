//! Sui.

use crate::node::{ScriptedNode, SimulatedNode};
use crate::reading::{Reader, all, data_of, names};
use rpcgate_core::event::{BlockRef, ChainEvent, EventType, ReadError};
use serde_json::{Value, json};

const SUI: &str = "0x2::sui::SUI";

fn id(text: &str) -> String {
    format!("0x{text:0>64}")
}

fn found(node: &SimulatedNode, event: &ChainEvent) -> Value {
    let options =
        json!({ "showInput": true, "showEffects": true, "showBalanceChanges": true, "showEvents": true });
    node.result("sui_getTransactionBlock", &json!([event.data["tx_hash"], options])).unwrap()
}

// Shows (Events of chains).
#[test]
fn a_new_checkpoint_has_its_parent_and_the_number_of_its_transactions() {
    let reader = Reader::of("sui");
    let node = SimulatedNode::of("sui");
    let (block, event) = reader.first(&node, EventType::NewBlock);
    assert_eq!(names(&event), ["parent_hash", "transactions"]);
    let raw = node.result("sui_getCheckpoint", &json!([block.height.to_string()])).unwrap();
    assert_eq!(event.data["parent_hash"], raw["previousDigest"]);
    assert_eq!(event.data["transactions"], raw["transactions"].as_array().unwrap().len());
    assert_eq!(raw["digest"], block.hash.as_str());
}

// Shows (Events of chains).
#[test]
fn an_address_that_sends_coins_has_activity() {
    let reader = Reader::of("sui");
    let node = SimulatedNode::of("sui");
    let (_, event) = reader.first(&node, EventType::AddressActivity);
    assert_eq!(names(&event), ["address", "direction", "success", "token", "tx_hash", "value"]);
    let raw = found(&node, &event);
    let is_sender = raw["transaction"]["data"]["sender"] == event.data["address"];
    assert_eq!(event.data["direction"], if is_sender { "out" } else { "in" });
    let gained = raw["balanceChanges"].as_array().unwrap().iter();
    let mut gained =
        gained.map(|change| change["amount"].as_str().unwrap()).filter(|sum| !sum.starts_with('-'));
    assert_eq!(event.data["value"], gained.next().unwrap(), "without the gas");
    assert_eq!(event.data["token"], SUI);
}

// Shows (Events of chains).
#[test]
fn a_change_of_balances_is_a_transfer_without_the_gas() {
    let reader = Reader::of("sui");
    let node = SimulatedNode::of("sui");
    let (_, event) = reader.first(&node, EventType::TokenTransfer);
    assert_eq!(names(&event), ["from", "to", "token", "tx_hash", "value"]);
    let raw = found(&node, &event);
    assert_eq!(event.data["from"], raw["transaction"]["data"]["sender"]);
    let changes = raw["balanceChanges"].as_array().unwrap();
    let to = changes.iter().find(|change| change["owner"]["AddressOwner"] == event.data["to"]).unwrap();
    assert_eq!((&event.data["value"], &event.data["token"]), (&to["amount"], &to["coinType"]));
}

// Shows (Events of chains).
#[test]
fn a_move_event_is_reported_with_its_scalars() {
    let reader = Reader::of("sui");
    let node = SimulatedNode::of("sui");
    let (_, event) = reader.first(&node, EventType::ContractEvent);
    assert_eq!(
        names(&event),
        ["address", "coin", "from", "index", "module", "sender", "to", "tx_hash", "type", "value"]
    );
    let raw = found(&node, &event)["events"][0].clone();
    assert_eq!(
        (&event.data["address"], &event.data["module"]),
        (&raw["packageId"], &raw["transactionModule"])
    );
    assert_eq!((&event.data["type"], &event.data["sender"]), (&raw["type"], &raw["sender"]));
    assert_eq!(event.data["value"], raw["parsedJson"]["value"]);
}

fn change(owner: Value, coin: &str, amount: &str) -> Value {
    json!({ "owner": owner, "coinType": coin, "amount": amount })
}

fn owned(owner: &str) -> Value {
    json!({ "AddressOwner": id(owner) })
}

fn transaction(sender: &str, status: &str, changes: Vec<Value>, events: Vec<Value>) -> Value {
    let gas = if sender == "0" { ["0", "0", "0"] } else { ["1000", "500", "300"] };
    json!({
        "digest": "tx0",
        "transaction": {
            "data": {
                "messageVersion": "v1", "transaction": { "kind": "ProgrammableTransaction" }, "sender": id(sender),
                "gasData": { "payment": [], "owner": id(sender), "price": "750", "budget": "5000000" },
            },
            "txSignatures": [""],
        },
        "effects": {
            "messageVersion": "v1", "status": { "status": status }, "executedEpoch": "1",
            "gasUsed": {
                "computationCost": gas[0], "storageCost": gas[1], "storageRebate": gas[2],
                "nonRefundableStorageFee": "1",
            },
            "transactionDigest": "tx0",
        },
        "events": events, "balanceChanges": changes, "timestampMs": "1700000000999", "checkpoint": "8",
    })
}

/// Returns the events of a node whose checkpoint 8 has these transactions, named `tx0`, `tx1`, ….
fn told(transactions: Vec<Value>) -> Result<Vec<ChainEvent>, ReadError> {
    let digests: Vec<_> = (0..transactions.len()).map(|n| format!("tx{n}")).collect();
    let checkpoint = json!({
        "epoch": "1", "sequenceNumber": "8", "digest": "d8", "networkTotalTransactions": "9",
        "previousDigest": "d7", "epochRollingGasCostSummary": {}, "timestampMs": "1700000000999",
        "transactions": digests, "checkpointCommitments": [], "validatorSignature": "",
    });
    let node = ScriptedNode::new(move |method, params| match method {
        "sui_getLatestCheckpointSequenceNumber" => Ok(json!("9")),
        "sui_getCheckpoint" => Ok(checkpoint.clone()),
        _ => {
            let params: Value = serde_json::from_str(params).unwrap();
            let page = params[0].as_array().unwrap();
            assert!(page.len() <= 50);
            let first = digests.iter().position(|digest| *digest == page[0]).unwrap();
            Ok(Value::from(transactions[first..first + page.len()].to_vec()))
        }
    });
    let known = BlockRef::new(7, "d7", "d6", 0);
    let next = Reader::of("sui").after(&node, &known, &all())?.unwrap();
    assert_eq!(next.block, BlockRef::new(8, "d8", "d7", 1_700_000_000));
    Ok(next.events)
}

// Shows (Events of chains).
#[test]
fn a_failed_transaction_moves_nothing() {
    let failed = transaction("a", "failure", vec![change(owned("a"), SUI, "-1200")], Vec::new());
    let events = told(vec![failed]).unwrap();
    assert_eq!(data_of(&events, EventType::TokenTransfer), [Value::Null; 0]);
    assert_eq!(
        data_of(&events, EventType::AddressActivity),
        [json!({ "address": id("a"), "direction": "out", "success": false, "tx_hash": "tx0" })]
    );
}

#[test]
fn a_transaction_of_the_system_is_no_address_activity() {
    let events = told(vec![transaction("0", "success", Vec::new(), Vec::new())]).unwrap();
    assert_eq!(events.len(), 1, "the checkpoint alone");
    let reward = transaction("0", "success", vec![change(owned("b"), SUI, "70")], Vec::new());
    let events = told(vec![reward]).unwrap();
    assert_eq!(
        data_of(&events, EventType::TokenTransfer),
        [json!({ "token": SUI, "to": id("b"), "value": "70", "tx_hash": "tx0" })]
    );
}

#[test]
fn coins_of_every_kind_of_owner_count() {
    let usdc = format!("{}::usdc::USDC", id("dba3"));
    let changes = vec![
        change(owned("a"), SUI, "-1200"),
        change(owned("a"), &usdc, "-30"),
        change(json!({ "ObjectOwner": id("b") }), &usdc, "10"),
        change(json!({ "ConsensusAddressOwner": { "owner": id("c"), "start_version": "1" } }), &usdc, "20"),
        change(json!({ "Shared": { "initial_shared_version": 1 } }), &usdc, "5"),
        change(json!("Immutable"), &usdc, "5"),
    ];
    let events = told(vec![transaction("a", "success", changes, Vec::new())]).unwrap();
    let transfers = data_of(&events, EventType::TokenTransfer);
    let token = "0xdba3::usdc::USDC";
    let one = |to: &str, value: &str| json!({ "token": token, "from": id("a"), "to": id(to), "value": value, "tx_hash": "tx0" });
    assert_eq!(transfers, [one("b", "10"), one("c", "20")]);
    let activity = data_of(&events, EventType::AddressActivity);
    assert_eq!((&activity[0]["value"], &activity[0]["token"]), (&json!("30"), &json!(token)));
}

// Shows (Events of chains): A contract cannot give its events the members of others, or stop the reading.
#[test]
fn a_move_event_cannot_pass_for_another() {
    let fields = json!({
        "address": "0xbad", "removed": true, "truncated": true, "chain": "eth", "tx_hash": "x", "pool": "0x7", "amount": "12",
        "fee": 3, "large": 1e300, "flag": false, "nested": { "a": 1 }, "list": [1], "none": null,
    });
    let event = json!({
        "id": { "txDigest": "tx0", "eventSeq": "2" }, "packageId": "0x07", "transactionModule": "pool",
        "sender": "0xa", "type": "0x07::pool::Swapped<0x2::sui::SUI>", "parsedJson": fields,
        "bcsEncoding": "base64", "bcs": "",
    });
    let events = told(vec![transaction("a", "success", Vec::new(), vec![event])]).unwrap();
    assert_eq!(
        data_of(&events, EventType::ContractEvent),
        [json!({
            "address": id("7"), "module": "pool", "type": "0x7::pool::Swapped<0x2::sui::SUI>", "sender": id("a"),
            "tx_hash": "tx0", "index": 2, "pool": "0x7", "amount": "12", "fee": 3, "flag": false,
        })]
    );
}

#[test]
fn the_scalars_of_a_move_event_are_bounded() {
    let fields: serde_json::Map<String, Value> =
        (0..500).map(|n| (format!("field{n}"), Value::from(n))).collect();
    let event = json!({
        "id": { "txDigest": "tx0", "eventSeq": "0" }, "packageId": "0x7", "transactionModule": "m",
        "sender": "0xa", "type": "0x7::m::E", "parsedJson": fields,
    });
    let events = told(vec![transaction("a", "success", Vec::new(), vec![event])]).unwrap();
    assert_eq!(names(events.last().unwrap()).len(), 6 + 64);
}

#[test]
fn transactions_come_in_pages() {
    let many = (0..120).map(|n| {
        let mut one = transaction("a", "success", vec![change(owned("a"), SUI, "-1200")], Vec::new());
        one["digest"] = json!(format!("tx{n}"));
        one
    });
    assert_eq!(told(many.collect()).unwrap().len(), 1 + 120);
}

// Shows (Events of chains).
#[test]
fn an_answer_that_is_not_the_apis_is_unreadable() {
    let with = |pointer: &str, value: Value| {
        let changes = vec![change(owned("a"), SUI, "-1200")];
        let mut one = transaction("a", "success", changes, Vec::new());
        *one.pointer_mut(pointer).unwrap() = value;
        told(vec![one])
    };
    for (pointer, value) in [
        ("/digest", json!("tx9")),
        ("/transaction", json!(null)),
        ("/effects/gasUsed/storageRebate", json!("-1")),
        ("/balanceChanges", json!(null)),
        ("/events", json!(null)),
        ("/balanceChanges/0/amount", json!("1.5")),
        ("/balanceChanges/0/amount", json!(5)),
        ("/balanceChanges/0/coinType", json!("SUI")),
        ("/balanceChanges/0/owner/AddressOwner", json!("nobody")),
        ("/transaction/data/sender", json!("")),
    ] {
        let told = with(pointer, value.clone());
        assert!(matches!(told, Err(ReadError::Unreadable(_))), "{pointer} {value}: {told:?}");
    }
}

// Shows (Events of chains).
#[test]
fn values_of_filters_are_compared_in_one_form() {
    let reader = Reader::of("sui");
    for key in ["address", "from", "to", "sender"] {
        assert_eq!(reader.canonical(key, "0xA"), Some(id("a")), "{key}");
        assert_eq!(reader.canonical(key, "a.sui"), None, "{key}");
    }
    assert_eq!(reader.canonical("token", &format!("{}::sui::SUI", id("2"))).as_deref(), Some(SUI));
    assert_eq!(reader.canonical("token", "SUI"), None);
    assert_eq!(
        reader.canonical("type", "0x2::coin::Coin<0x2::sui::SUI>").as_deref(),
        Some("0x2::coin::Coin<0x2::sui::SUI>")
    );
}
