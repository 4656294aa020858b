//! The XRP Ledger.

use crate::arbitrary::replaced;
use crate::node::{ScriptedNode, SimulatedNode, refused};
use crate::reading::{Reader, at_height, events_of, members};
use proptest::prelude::*;
use rpcgate_core::event::{ChainEvent, EventFilter, EventType, ReadError};
use serde_json::{Value, json};

const ALICE: &str = "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh";
const BOB: &str = "r9cZA1mLK5R5Am25ArfXFmqgNwjZgnfk59";
const CAROL: &str = "rrrrrrrrrrrrrrrrrrrrBZbvji";

// Shows (Events of chains): XRP: every type of event is read from simulated ledgers; a partial payment is reported with
// the delivered amount.
#[test]
fn a_simulated_ledger_is_a_new_block() {
    let events = events_of("xrp", EventType::NewBlock);
    assert_eq!(events.len(), 40, "one a ledger");
    assert_eq!(members(&events), ["parent_hash", "transactions"]);
    assert!(events.iter().all(|event| event.data["transactions"].as_u64() >= Some(4)));
}

// Shows (Events of chains).
#[test]
fn both_sides_of_a_simulated_payment_are_active() {
    let events = events_of("xrp", EventType::AddressActivity);
    let names = [
        "address",
        "direction",
        "fee",
        "from",
        "index",
        "result",
        "success",
        "to",
        "token",
        "tx_hash",
        "tx_type",
        "value",
    ];
    assert_eq!(members(&events), names);
    let payments: Vec<_> = events.iter().filter(|event| event.data["tx_type"] == "Payment").collect();
    assert_eq!(payments.len(), 40 * 4 * 2);
    for event in &payments {
        let is_sender = event.data["direction"] == "out";
        assert_eq!(event.data["address"], event.data[if is_sender { "from" } else { "to" }]);
        assert_eq!((event.data.contains_key("fee"), &event.data["token"]), (is_sender, &"XRP".into()));
    }
    assert!(events.len() > payments.len(), "what is no payment is activity too");
}

// Shows (Events of chains).
#[test]
fn a_simulated_payment_is_a_transfer_of_what_it_delivered() {
    let events = events_of("xrp", EventType::TokenTransfer);
    assert_eq!(events.len(), 40 * 4);
    assert_eq!(members(&events), ["from", "index", "to", "token", "tx_hash", "value"]);
    assert!(events.iter().all(|event| event.data["value"].as_str().unwrap().parse::<u64>().is_ok()));
}

// Shows (Events of chains).
#[test]
fn a_simulated_transaction_that_is_no_payment_is_reported_with_its_type() {
    let events = events_of("xrp", EventType::ContractEvent);
    assert_eq!(members(&events), ["address", "index", "result", "success", "tx_hash", "tx_type"]);
    for kind in ["AccountSet", "OfferCancel"] {
        assert!(events.iter().any(|event| event.data["tx_type"] == kind), "{kind}");
    }
}

#[test]
fn a_head_is_validated_and_the_open_ledger_is_not_there_yet() {
    let node = SimulatedNode::of("xrp");
    let reader = Reader::of("xrp");
    let head = reader.head(&node).unwrap();
    assert_eq!(reader.at(&node, &at_height(head.height + 1)), Ok(None));
    assert_eq!(reader.after(&node, &head, &EventFilter::new(EventType::ALL)), Ok(None));
    node.wait(20_000);
    let wanted = EventFilter::new(EventType::ALL);
    assert!(reader.blocks_after(&node, head.height, &wanted).len() >= 4);
    let frame: Value = serde_json::from_str(reader.inner().head_subscription().unwrap().subscribe).unwrap();
    assert_eq!((&frame["command"], &frame["streams"]), (&"subscribe".into(), &json!(["ledger"])));
}

fn id(n: u64) -> String {
    format!("{n:064X}")
}

fn root(account: &str, before: &str, after: &str) -> Value {
    json!({"ModifiedNode": {
        "LedgerEntryType": "AccountRoot", "LedgerIndex": id(1),
        "FinalFields": {"Account": account, "Balance": after, "Flags": 0, "Sequence": 7},
        "PreviousFields": {"Balance": before},
    }})
}

fn meta(result: &str, nodes: Value, delivered: Value) -> Value {
    let mut meta = json!({"AffectedNodes": nodes, "TransactionIndex": 0, "TransactionResult": result});
    if !delivered.is_null() {
        meta["delivered_amount"] = delivered;
    }
    meta
}

fn payment(amount: Value, meta: Value) -> Value {
    json!({
        "TransactionType": "Payment", "Account": ALICE, "Destination": BOB, "Amount": amount, "Fee": "12", "Flags": 0,
        "Sequence": 7, "SigningPubKey": "", "hash": id(3), "metaData": meta,
    })
}

fn answer(transactions: Value) -> Value {
    json!({
        "ledger": {
            "ledger_hash": id(8), "parent_hash": id(7), "ledger_index": "8", "close_time": 700_000_000, "closed": true,
            "transactions": transactions,
        },
        "ledger_hash": id(8), "ledger_index": 8, "validated": true, "status": "success",
    })
}

fn told(answer: Value, kinds: &[EventType]) -> Result<Option<Vec<ChainEvent>>, ReadError> {
    let node = ScriptedNode::of_texts(move |method: &str, _: &str| {
        assert_eq!(method, "ledger");
        Ok(answer.to_string())
    });
    let wanted = EventFilter::new(kinds.iter().copied());
    let read = Reader::of("xrp").after(&node, &at_height(7), &wanted);
    read.map(|block| block.map(|block| block.events))
}

fn transfers(tx: Value) -> Vec<Value> {
    let events = told(answer(json!([tx])), &[EventType::TokenTransfer]).unwrap().unwrap();
    events.into_iter().map(|event| event.data.into()).collect()
}

// Shows (Events of chains).
#[test]
fn a_partial_payment_is_reported_with_the_delivered_amount() {
    let usd = |value: &str| json!({"currency": "USD", "issuer": CAROL, "value": value});
    let nodes = json!([root(ALICE, "1000", "988")]);
    let mut partial = payment(usd("1000000"), meta("tesSUCCESS", nodes.clone(), usd("0.01")));
    partial["Flags"] = 131_072.into();
    let told = transfers(partial.clone());
    assert_eq!(
        told,
        [json!({
            "from": ALICE, "to": BOB, "token": format!("USD.{CAROL}"), "value": "0.01", "tx_hash": id(3), "index": 0,
        })]
    );
    for delivered in [json!("unavailable"), Value::Null] {
        partial["metaData"] = meta("tesSUCCESS", nodes.clone(), delivered);
        assert_eq!(transfers(partial.clone())[0].get("value"), None, "nobody knows what it delivered");
    }
    let whole = transfers(payment(json!("2500"), meta("tesSUCCESS", nodes.clone(), Value::Null)));
    assert_eq!((&whole[0]["value"], &whole[0]["token"]), (&"2500".into(), &"XRP".into()));
    let failed = transfers(payment(json!("2500"), meta("tecPATH_DRY", nodes, Value::Null)));
    assert_eq!(failed, Vec::<Value>::new());
}

#[test]
fn the_form_of_version_2_is_also_read() {
    let mut tx = payment(json!("2500"), Value::Null);
    let fields = tx.as_object_mut().unwrap();
    let meta = meta("tesSUCCESS", json!([]), json!("2500"));
    let hash = fields.remove("hash");
    fields.remove("metaData");
    let amount = fields.remove("Amount");
    fields.insert("DeliverMax".into(), amount.unwrap());
    let told = transfers(json!({"hash": hash, "tx_json": tx, "meta": meta, "validated": true}));
    assert_eq!((&told[0]["value"], &told[0]["tx_hash"]), (&"2500".into(), &id(3).into()));
    let mpt = json!({"mpt_issuance_id": "00".repeat(24), "value": "7"});
    let tx = payment(mpt.clone(), self::meta("tesSUCCESS", json!([]), mpt));
    assert_eq!(transfers(tx)[0]["token"], "00".repeat(24));
}

#[test]
fn every_account_that_a_transaction_touches_is_active() {
    let line = json!({"ModifiedNode": {
        "LedgerEntryType": "RippleState", "LedgerIndex": id(2),
        "FinalFields": {
            "Balance": {"currency": "USD", "issuer": "rrrrrrrrrrrrrrrrrrrrBZbvji", "value": "-5"},
            "HighLimit": {"currency": "USD", "issuer": BOB, "value": "0"},
            "LowLimit": {"currency": "USD", "issuer": ALICE, "value": "9"},
        },
        "PreviousFields": {"Balance": {"currency": "USD", "issuer": "rrrrrrrrrrrrrrrrrrrrBZbvji", "value": "-4"}},
    }});
    let offer = json!({"DeletedNode": {
        "LedgerEntryType": "Offer", "LedgerIndex": id(3), "FinalFields": {"Account": CAROL, "BookDirectory": id(4)},
    }});
    let book = json!({"DeletedNode": {
        "LedgerEntryType": "DirectoryNode", "LedgerIndex": id(4), "FinalFields": {"RootIndex": id(4)},
    }});
    let nodes = json!([root(ALICE, "1000", "488"), root(CAROL, "100", "600"), line, offer, book]);
    let tx = json!({
        "TransactionType": "OfferCreate", "Account": ALICE, "Fee": "12", "TakerGets": "500", "TakerPays": "9",
        "hash": id(5), "metaData": meta("tesSUCCESS", nodes, Value::Null),
    });
    let events = told(answer(json!([tx])), &[EventType::AddressActivity]).unwrap().unwrap();
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or("");
            (text("address"), text("direction"), text("value"), text("fee"))
        })
        .collect();
    assert_eq!(shown, [(BOB, "", "", ""), (ALICE, "out", "500", "12"), (CAROL, "in", "500", "")]);
}

#[test]
fn funds_of_a_new_account_and_a_cashed_check_count_as_received() {
    let created = json!({"CreatedNode": {
        "LedgerEntryType": "AccountRoot", "LedgerIndex": id(1),
        "NewFields": {"Account": BOB, "Balance": "20000000", "Sequence": 8},
    }});
    let tx = payment(
        json!("20000000"),
        meta("tesSUCCESS", json!([root(ALICE, "50000000", "29999988"), created]), json!("20000000")),
    );
    let events = told(answer(json!([tx])), &[EventType::AddressActivity]).unwrap().unwrap();
    let values: Vec<_> =
        events.iter().map(|event| (&event.data["direction"], &event.data["value"])).collect();
    let value = Value::from("20000000");
    assert_eq!(values, [(&"in".into(), &value), (&"out".into(), &value)]);
    let cash = json!({
        "TransactionType": "CheckCash", "Account": ALICE, "Fee": "12", "CheckID": id(6), "hash": id(5),
        "metaData": meta("tesSUCCESS", json!([root(ALICE, "100", "188"), root(CAROL, "500", "400")]), Value::Null),
    });
    let events = told(answer(json!([cash])), &[EventType::AddressActivity]).unwrap().unwrap();
    let directions: Vec<_> =
        events.iter().map(|event| (&event.data["address"], &event.data["direction"])).collect();
    assert_eq!(directions, [(&ALICE.into(), &"in".into()), (&CAROL.into(), &"out".into())]);
    assert!(events.iter().all(|event| event.data["value"] == "100"));
}

// Shows (Webhooks).
#[test]
fn a_fee_paid_by_a_delegate_is_not_a_gain_of_the_sender() {
    let mut tx = payment(
        json!("100"),
        meta(
            "tesSUCCESS",
            json!([root(ALICE, "500", "400"), root(BOB, "500", "600"), root(CAROL, "500", "488")]),
            json!("100"),
        ),
    );
    tx["TransactionType"] = "EscrowFinish".into();
    tx["Delegate"] = CAROL.into();
    let events = told(answer(json!([tx])), &[EventType::AddressActivity]).unwrap().unwrap();
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or("");
            (text("address"), text("direction"), text("value"), text("fee"))
        })
        .collect();
    assert_eq!(shown, [(BOB, "in", "100", ""), (ALICE, "out", "100", ""), (CAROL, "", "", "12")]);
}

#[test]
fn an_invalid_fee_is_omitted() {
    let fee_of = |sent: &str| {
        let mut tx = payment(json!("2500"), meta("tesSUCCESS", json!([]), Value::Null));
        tx["Fee"] = sent.into();
        let events = told(answer(json!([tx])), &[EventType::AddressActivity]).unwrap().unwrap();
        let of_sender = events.iter().find(|event| event.data["address"] == ALICE).unwrap();
        of_sender.data.get("fee").cloned()
    };
    for wrong in ["", "-12", "1.5", "0x12", "twelve", "99999999999999999999"] {
        assert_eq!(fee_of(wrong), None, "{wrong}");
    }
    assert_eq!((fee_of("12"), fee_of("012")), (Some("12".into()), Some("12".into())));
}

#[test]
fn transactions_are_reported_in_the_order_in_which_they_changed_the_ledger() {
    let tx = |n: u64, place: u64| {
        let mut meta = meta("tesSUCCESS", json!([]), Value::Null);
        meta["TransactionIndex"] = place.into();
        json!({
            "TransactionType": "NFTokenMint", "Account": ALICE, "Fee": "12", "hash": id(n), "metaData": meta,
            "NFTokenTaxon": 0,
        })
    };
    let mut minted = tx(4, 0);
    minted["metaData"]["nftoken_id"] = id(44).into();
    let events =
        told(answer(json!([tx(5, 2), minted, tx(6, 1)])), &[EventType::ContractEvent]).unwrap().unwrap();
    let shown: Vec<_> =
        events.iter().map(|event| (&event.data["tx_hash"], event.data.get("nftoken_id"))).collect();
    let first = id(4).into();
    let second = id(6).into();
    let third = id(5).into();
    let token = id(44).into();
    assert_eq!(shown, [(&first, Some(&token)), (&second, None), (&third, None)]);
}

#[test]
fn a_missing_or_unvalidated_ledger_is_reported_as_missing() {
    let kinds = &[EventType::NewBlock][..];
    let mut open = answer(json!([]));
    open["validated"] = false.into();
    assert_eq!(told(open, kinds), Ok(None));
    let missing = json!({"error": "lgrNotFound", "error_code": 21, "error_message": "ledgerNotFound", "status": "error"});
    assert_eq!(told(missing, kinds), Ok(None));
    let busy = json!({"error": "tooBusy", "error_code": 9, "status": "error"});
    assert_eq!(told(busy, kinds), Err(refused(9, "tooBusy")));
    let mut other = answer(json!([]));
    other["ledger_index"] = 9.into();
    assert!(matches!(told(other, kinds), Err(ReadError::Unreadable(_))));
    let lacking = ScriptedNode::of_texts(|_: &str, _: &str| Err(refused(21, "lgrNotFound")));
    assert_eq!(Reader::of("xrp").at(&lacking, &at_height(7)), Ok(None));
    let event = &told(answer(json!([])), kinds).unwrap().unwrap()[0];
    assert_eq!((&event.data["parent_hash"], &event.data["transactions"]), (&id(7).into(), &0.into()));
}

proptest! {
    // Shows (Events of chains).
    #[test]
    fn no_answer_is_too_strange(at in 0usize..60, by in prop_oneof![
        Just(Value::Null), Just(json!(-1)), Just(json!("")), Just(json!({})), Just(json!([[]])),
        "[0-9A-F]{0,70}".prop_map(Value::from), any::<u64>().prop_map(Value::from),
    ]) {
        let nodes = json!([root(ALICE, "1000", "488"), root(BOB, "100", "600")]);
        let usd = json!({"currency": "USD", "issuer": CAROL, "value": "5"});
        let answer = answer(json!([payment(usd.clone(), meta("tesSUCCESS", nodes, usd))]));
        let read = told(replaced(answer, at, &by), &EventType::ALL);
        let is_told = !matches!(read, Err(ReadError::Unreachable(_)));
        prop_assert!(is_told);
    }
}
