//! UTXO chains.

use crate::arbitrary::replaced;
use crate::names;
use crate::node::{RealNode, ScriptedNode, refused};
use crate::reading::{Reader, at_height, events_of, members, only};
use parking_lot::Mutex;
use proptest::prelude::*;
use rpcgate_chains::catalog;
use rpcgate_chains::family::utxo::{Utxo, facts};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Dialect;
use rpcgate_core::event::{BlockRef, ChainEvent, EventFilter, EventType, NodeCalls, ReadError};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

static CHAINS: LazyLock<Vec<&str>> =
    LazyLock::new(|| names(catalog().filter(|one| one.facts().dialect == Dialect::Utxo)));
/// The maximum number of a block's transactions whose outputs are looked up.
const MOST_LOOK_UPS: usize = 2_000;
/// Liquid's bitcoin.
const ASSET: &str = "6f0279e9ed041c3d710a9f57d0c02928416460c4b722ae3457a11eec381c526d";

// Shows (Events of chains): UTXO chains: every type of event is read from simulated blocks.
#[test]
fn simulated_chains_report_new_blocks() {
    for &chain in CHAINS.iter() {
        let events = events_of(chain, EventType::NewBlock);
        assert_eq!(events.len(), 40, "one a block");
        assert_eq!(members(&events), ["parent_hash", "transactions"], "{chain}");
        assert!(events.iter().all(|event| event.data["transactions"].as_u64() > Some(0)), "{chain}");
    }
}

// Shows (Events of chains).
#[test]
fn simulated_chains_report_what_addresses_get_and_spend() {
    for &chain in CHAINS.iter() {
        let events = events_of(chain, EventType::AddressActivity);
        let names =
            ["address", "coinbase", "direction", "index", "paid", "received", "token", "tx_hash", "value"];
        assert_eq!(members(&events), names, "{chain}: every input is known");
        let own = events.iter().find(|event| event.data["direction"] == "self").unwrap();
        let number = |name: &str| own.data[name].as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!(
            number("paid") - number("received"),
            number("value"),
            "{chain}: what it spent, fees included"
        );
        assert!(events.iter().any(|event| event.data["direction"] == "in"), "{chain}");
    }
}

// Shows (Events of chains).
#[test]
fn simulated_chains_report_every_payment() {
    for &chain in CHAINS.iter() {
        let events = events_of(chain, EventType::TokenTransfer);
        assert_eq!(members(&events), ["coinbase", "index", "to", "token", "tx_hash", "value"], "{chain}");
        let token = if chain == "liquid" { ASSET } else { chain };
        assert!(events.iter().all(|event| event.data["token"] == token), "{chain}");
        let reward = events.iter().find(|event| event.data.contains_key("coinbase")).unwrap();
        assert!(reward.data["value"].as_str().unwrap().bytes().all(|digit| digit.is_ascii_digit()));
    }
}

// Shows (Events of chains).
#[test]
fn simulated_chains_report_data_in_outputs() {
    for &chain in CHAINS.iter() {
        let events = events_of(chain, EventType::ContractEvent);
        assert_eq!(members(&events), ["data", "event", "index", "script", "tx_hash", "value"], "{chain}");
        for event in events {
            let data = event.data["data"].as_str().unwrap();
            let script = event.data["script"].as_str().unwrap();
            assert!(script.starts_with("6a") && script.ends_with(data), "{chain}");
        }
    }
}

fn id(n: u64) -> String {
    format!("{n:064x}")
}

const ALICE: &str = "1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH";
const BOB: &str = "3JvL6Ymt8MVWiCNHC7oWU6nLeHNJKLZGLN";

fn number(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn pay(n: u32, value: &str, address: &str) -> Value {
    json!({"n": n, "value": number(value), "scriptPubKey": {"hex": "76a9", "address": address, "type": "pubkeyhash"}})
}

fn spend(txid: u64, vout: u32) -> Value {
    json!({"txid": id(txid), "vout": vout, "scriptSig": {"asm": "", "hex": ""}, "sequence": 4_294_967_295u32})
}

fn tx(n: u64, vin: Value, vout: Value) -> Value {
    json!({"txid": id(n), "version": 2, "vin": vin, "vout": vout, "hex": "00"})
}

fn coinbase(n: u64, vout: Value) -> Value {
    tx(n, json!([{"coinbase": "0101", "sequence": 0}]), vout)
}

fn written_block(height: u64, txs: Value) -> Value {
    json!({
        "hash": id(height), "confirmations": 1, "height": height, "time": 1_700_000_000, "tx": txs,
        "previousblockhash": id(height - 1), "mweb": {"later": true},
    })
}

/// Returns a node with block 8 and these transactions by their ids.
fn node_with<'a>(
    block: Value,
    by_id: impl Fn(&str) -> Result<Value, ReadError> + Send + Sync + 'a,
) -> ScriptedNode<'a> {
    ScriptedNode::of_texts(move |method: &str, params: &str| match (method, params) {
        ("getblockhash", "[8]") => Ok(format!("\"{}\"", id(8))),
        ("getblockhash", _) => Err(refused(-8, "Block height out of range")),
        ("getblock", _) => Ok(block.to_string()),
        ("getrawtransaction", _) => {
            let params: (String, bool) = serde_json::from_str(params).unwrap();
            assert!(params.1);
            by_id(&params.0).map(|tx| tx.to_string())
        }
        _ => panic!("{method}"),
    })
}

fn told(chain: &str, node: &dyn NodeCalls, kinds: &[EventType]) -> Result<Vec<ChainEvent>, ReadError> {
    let read = Reader::of(chain).after(node, &at_height(7), &only(kinds));
    Ok(read?.unwrap().events)
}

fn missing(_: &str) -> Result<Value, ReadError> {
    Err(refused(-5, "No such mempool transaction. Use -txindex"))
}

// Shows (Events of chains): UTXO chains: inputs are known from the block or looked up within a bound, and unknown ones
// are marked; amounts are exact.
#[test]
fn inputs_are_known_from_the_block_its_own_outputs_and_the_node_in_this_order() {
    let mut shown = spend(50, 0);
    shown["prevout"] = json!({"generated": false, "height": 3, "value": number("1.00000000"), "scriptPubKey": {"hex": "76", "address": ALICE}});
    let block = written_block(
        8,
        json!([
            coinbase(1, json!([pay(0, "3.12500000", BOB)])),
            tx(2, json!([shown]), json!([pay(0, "0.40000000", BOB), pay(1, "0.59990000", ALICE)])),
            tx(3, json!([spend(2, 0), spend(60, 1)]), json!([pay(0, "0.50000000", ALICE)])),
        ]),
    );
    let node = node_with(block, |txid| {
        assert_eq!(txid, id(60), "only what the block does not say is asked for");
        Ok(tx(60, json!([]), json!([pay(0, "9.0", ALICE), pay(1, "0.20000000", BOB)])))
    });
    let events = told("btc", &node, &[EventType::AddressActivity]).unwrap();
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            let text = |name: &str| event.data[name].as_str().unwrap();
            (event.data["index"].as_u64().unwrap(), text("address"), text("direction"), text("value"))
        })
        .collect();
    assert_eq!(
        shown,
        [
            (0, BOB, "in", "312500000"),
            (1, ALICE, "self", "40010000"),
            (1, BOB, "in", "40000000"),
            (2, ALICE, "in", "50000000"),
            (2, BOB, "out", "60000000"),
        ]
    );
    assert_eq!(
        (&events[1].data["paid"], &events[1].data["received"]),
        (&"100000000".into(), &"59990000".into())
    );
    assert!(events.iter().all(|event| !event.data.contains_key("inputs_known")));
    assert_eq!(events[0].data["coinbase"], true);
}

// Shows (Events of chains).
#[test]
fn unknown_inputs_are_marked_as_unknown_without_a_transaction_index() {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let block =
        written_block(8, json!([tx(3, json!([spend(60, 1), spend(61, 0)]), json!([pay(0, "0.5", ALICE)]))]));
    let node = node_with(block, move |txid| {
        *count.lock() += 1;
        missing(txid)
    });
    let events = told("ltc", &node, &[EventType::AddressActivity]).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0].data["direction"], &events[0].data["inputs_known"]),
        (&"in".into(), &false.into())
    );
    assert_eq!(*asked.lock(), 1, "a node without an index is asked once");
}

// Shows (Events of chains).
#[test]
fn the_inputs_that_are_looked_up_are_bounded() {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let inputs: Vec<Value> = (0..MOST_LOOK_UPS as u64 + 5).map(|n| spend(1_000 + n, 0)).collect();
    let block = written_block(8, json!([tx(3, inputs.into(), json!([pay(0, "0.5", ALICE)]))]));
    let node = node_with(block, move |txid| {
        *count.lock() += 1;
        Ok(json!({"txid": txid, "vin": [], "vout": [pay(0, "1.0", BOB)]}))
    });
    let events = told("doge", &node, &[EventType::AddressActivity]).unwrap();
    assert_eq!(*asked.lock(), MOST_LOOK_UPS);
    let spent = events.iter().find(|event| event.data["address"] == BOB).unwrap();
    assert_eq!(spent.data["value"], (MOST_LOOK_UPS as u64 * 100_000_000).to_string());
    assert_eq!(spent.data["inputs_known"], false);
    let none = told("doge", &node, &[EventType::TokenTransfer]).unwrap();
    assert_eq!((none.len(), *asked.lock()), (1, MOST_LOOK_UPS), "payments need no inputs");
}

// Shows (Events of chains).
#[test]
fn a_node_that_only_lists_ids_is_asked_for_each_transaction() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    let node = ScriptedNode::of_texts(move |method: &str, params: &str| {
        seen.lock().push(format!("{method} {params}"));
        match (method, params) {
            ("getblockhash", _) => Ok(format!("\"{}\"", id(8))),
            ("getblock", params) if params.ends_with(",true]") => {
                Ok(written_block(8, json!([id(1), id(2)])).to_string())
            }
            ("getblock", _) => Err(refused(-1, "JSON value is not a boolean as expected")),
            _ => {
                let (txid, _): (String, bool) = serde_json::from_str(params).unwrap();
                Ok(json!({"txid": txid, "vin": [{"coinbase": "00"}], "vout": [{
                    "n": 0, "value": number("10000.00000000"),
                    "scriptPubKey": {"hex": "76a9", "addresses": ["DFpN6QqFfUm3gKNaxN6tNcab1FArL9cZLE"]},
                }]})
                .to_string())
            }
        }
    });
    let events = told("doge", &node, &[EventType::AddressActivity, EventType::TokenTransfer]).unwrap();
    assert_eq!(events.len(), 4);
    assert!(events.iter().all(|event| event.data["value"] == "1000000000000"));
    assert_eq!(calls.lock().iter().filter(|call| call.starts_with("getblock ")).count(), 3, "3, 2, true");
    let gone = ScriptedNode::of_texts(|method: &str, _: &str| match method {
        "getblockhash" => Ok(format!("\"{}\"", id(8))),
        _ => Err(refused(-5, "Block not found")),
    });
    let answer = told("doge", &gone, &[EventType::NewBlock]);
    assert_eq!(answer, Err(refused(-5, "Block not found")), "a block that was taken back since");
}

#[test]
fn data_in_an_output_is_what_its_script_pushes() {
    let output = |hex: &str| json!({"n": 0, "value": 0, "scriptPubKey": {"hex": hex, "type": "nulldata"}});
    let data = |hex: &str| {
        let node = node_with(written_block(8, json!([coinbase(1, json!([output(hex)]))])), missing);
        let events = told("btc", &node, &[EventType::ContractEvent]).unwrap();
        events.into_iter().map(|event| event.data["data"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(data("6a0568656c6c6f"), ["68656c6c6f"]);
    assert_eq!(data("6A4C0568656C6C6F"), ["68656c6c6f"]);
    assert_eq!(data("6a4d050068656c6c6f"), ["68656c6c6f"]);
    assert_eq!(data("6a5d02aabb01cc"), ["aabbcc"], "numbers push no data");
    assert_eq!(data("6a"), [""]);
    assert_eq!(data("6a05aabb"), ["05aabb"], "what cannot be read as pushes is told as it is");
    assert_eq!(data("6a4effffffff00"), ["4effffffff00"]);
    assert_eq!(data("76a914"), [""; 0]);
}

#[test]
fn confidential_amounts_are_omitted() {
    let sealed = json!({
        "n": 0, "valuecommitment": "08aa", "assetcommitment": "0abb", "commitmentnonce": "",
        "scriptPubKey": {"hex": "76a9", "address": "Q7qMEJcGJ1bXcyjvQsYTfaGfsBhK8CW4vs"},
    });
    let fee = json!({"n": 1, "value": number("0.00000040"), "asset": ASSET, "scriptPubKey": {"asm": "", "hex": "", "type": "fee"}});
    let mut open = pay(2, "5.00000000", "Q7qMEJcGJ1bXcyjvQsYTfaGfsBhK8CW4vs");
    open["asset"] = id(77).into();
    let pegin = json!({"txid": id(5), "vout": 0, "is_pegin": true});
    let block = written_block(8, json!([tx(2, json!([pegin]), json!([sealed, fee, open]))]));
    let node = node_with(block, missing);
    let events = told("liquid", &node, &[EventType::TokenTransfer, EventType::AddressActivity]).unwrap();
    assert_eq!(events.len(), 4);
    for event in &events {
        let is_open = event.data.contains_key("value");
        assert_eq!(event.data.contains_key("token"), is_open);
        assert!(!is_open || (event.data["token"] == id(77) && event.data["value"] == "500000000"));
        assert!(!event.data.contains_key("inputs_known"));
    }
    assert_eq!(events.iter().filter(|event| event.data.contains_key("value")).count(), 2);
}

// Shows (Webhooks): A hidden asset of Liquid is not reported as its coin; a fee paid by a delegate is not a gain;
// tokens that go to a contract with a call are reported.
#[test]
fn an_open_amount_of_a_hidden_asset_does_not_pass_for_the_coin() {
    let mut output = pay(0, "1000.00000000", ALICE);
    output["assetcommitment"] = format!("0a{}", id(7)).into();
    let mut spent = spend(5, 0);
    spent["prevout"] = output.clone();
    spent["prevout"]["scriptPubKey"]["address"] = BOB.into();
    let node = node_with(written_block(8, json!([tx(2, json!([spent]), json!([output]))])), missing);
    let events = told("liquid", &node, &[EventType::TokenTransfer, EventType::AddressActivity]).unwrap();
    assert_eq!(events.len(), 3);
    for event in events {
        assert!(!event.data.contains_key("token") && !event.data.contains_key("value"), "{event:?}");
    }
}

#[test]
fn tokens_of_bitcoin_cash_are_reported_next_to_coins_with_one_form_of_address() {
    let mut output = pay(0, "0.00001000", "1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu");
    output["tokenData"] = json!({"category": id(9), "amount": "12345678901234567890", "nft": {"capability": "none", "commitment": "00FF"}});
    let node = node_with(written_block(8, json!([tx(2, json!([]), json!([output]))])), missing);
    let events = told("bch", &node, &[EventType::TokenTransfer]).unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!((&events[0].data["token"], &events[0].data["value"]), (&"bch".into(), &"1000".into()));
    assert_eq!(
        Value::from(events[1].data.clone()),
        json!({
            "to": "bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a", "tx_hash": id(2), "index": 0,
            "standard": "cashtokens", "token": id(9), "value": "12345678901234567890", "token_id": "00ff",
        })
    );
}

#[test]
fn the_content_of_litecoins_extension_block_is_not_reported() {
    let vin = json!([{"ismweb": true, "output_id": id(4)}]);
    let mut open = pay(1, "1.0", "LVuDpNCSSj6pQ7t9Pv6d6sUkLKoqDEVUnJ");
    open["ismweb"] = false.into();
    let block = written_block(8, json!([tx(2, vin, json!([{"ismweb": true, "output_id": id(5)}, open]))]));
    let events = told("ltc", &node_with(block, missing), EventType::ALL.as_slice()).unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventType::NewBlock, EventType::AddressActivity, EventType::TokenTransfer]);
}

#[test]
fn a_script_of_several_addresses_pays_none_of_them() {
    let several = json!({"n": 0, "value": 1, "scriptPubKey": {"hex": "51", "addresses": [ALICE, BOB], "type": "multisig"}});
    let node = node_with(written_block(8, json!([coinbase(1, json!([several]))])), missing);
    assert_eq!(told("doge", &node, &[EventType::TokenTransfer, EventType::AddressActivity]), Ok(Vec::new()));
}

#[test]
fn a_block_on_another_parent_is_reported_with_that_parent() {
    let node = ScriptedNode::of_texts(|method: &str, params: &str| match method {
        "getblockhash" if params == "[9]" => Err(refused(-8, "Block height out of range")),
        "getblockhash" | "getbestblockhash" => Ok(format!("\"{}\"", id(8))),
        _ => Ok(written_block(8, json!([id(1)])).to_string()),
    });
    let reader = Reader::of("btc");
    let wanted = EventFilter::new([EventType::NewBlock]);
    let known = BlockRef::new(7, id(77), id(6), 0);
    let next = reader.after(&node, &known, &wanted).unwrap().unwrap();
    assert_eq!((next.block.hash, next.block.parent), (id(8), id(7)));
    let replaced = BlockRef::new(8, id(88), id(77), 0);
    assert_eq!(reader.at(&node, &replaced).unwrap().unwrap().hash, id(8));
    assert_eq!(reader.after(&node, &replaced, &wanted), Ok(None));
    assert_eq!(reader.head(&node).unwrap().height, 8);
    assert_eq!(reader.after(&node, &at_height(u64::MAX), &wanted), Ok(None));
    let other = reader.after(&node, &at_height(4), &wanted);
    assert!(matches!(other, Err(ReadError::Unreadable(_))), "a block of another height is no answer");
    assert!(reader.inner().head_subscription().is_none());
}

#[test]
#[ignore = "needs litecoind -regtest -txindex=1: RPCGATE_UTXO_NODE='127.0.0.1:19443 Basic dTpw' for user u, password p"]
fn a_real_daemon_is_read() {
    let node = RealNode::from_env("RPCGATE_UTXO_NODE");
    let reader = Reader::of("ltc");
    // Anyone can spend payments to the hash of the script that is true.
    let address = node.ask("decodescript", json!(["51"]))["p2sh"].as_str().unwrap().to_owned();
    assert_eq!(reader.canonical("address", &address).as_ref(), Some(&address));
    let mined = node.ask("generatetoaddress", json!([101, address]));
    let funds = node.ask("getblock", json!([mined[0], 2]))["tx"][0].clone();
    let before = reader.head(&node).unwrap();
    let inputs = json!([{"txid": funds["txid"], "vout": 0}]);
    let outputs = json!([{"data": "68656c6c6f"}, {address.as_str(): 1.5}]);
    let raw = node.ask("createrawtransaction", json!([inputs, outputs]));
    let raw = raw.as_str().unwrap().replacen("0000000000ffffffff", "00000000020151ffffffff", 1);
    let made = node.ask("generateblock", json!([address, [raw]]));
    let blocks = reader.blocks_after(&node, before.height, &EventFilter::new(EventType::ALL));
    assert_eq!((blocks.len(), &made["hash"]), (1, &blocks[0].block.hash.as_str().into()));
    let events = &blocks[0].events;
    assert_eq!(events[0].data["transactions"], 2);
    let is_spent =
        |event: &&ChainEvent| event.kind == EventType::AddressActivity && event.data["direction"] == "self";
    let spent = &events.iter().find(is_spent).unwrap().data;
    assert_eq!((&spent["address"], &spent["received"]), (&address.as_str().into(), &"150000000".into()));
    assert!(spent["paid"].as_str().unwrap().len() > 9 && !spent.contains_key("inputs_known"));
    assert!(events.iter().any(|event| event.data.get("data") == Some(&"68656c6c6f".into())));
    let known = blocks[0].block.clone();
    node.ask("invalidateblock", json!([known.hash]));
    assert_eq!(reader.at(&node, &known), Ok(None), "its block was taken back");
    node.ask("generatetoaddress", json!([1, address]));
    let replaced = reader.at(&node, &known).unwrap().unwrap();
    assert!(replaced.hash != known.hash && replaced.parent == before.hash);
}

#[test]
fn filters_are_compared_with_values_in_their_form() {
    let reader = Reader::of("btc");
    assert_eq!(reader.canonical("tx_hash", &"AB".repeat(32)), Some("ab".repeat(32)));
    assert_eq!(reader.canonical("tx_hash", "0xab"), None);
    assert_eq!(reader.canonical("token", "btc").as_deref(), Some("btc"));
    assert_eq!(reader.canonical("token", "ltc"), None);
    assert_eq!(reader.canonical("value", "0.5"), None);
    assert_eq!(reader.canonical("to", "somebody"), None);
    let custom = Utxo::new(facts("dgb", "DigiByte", 40));
    let reader = custom.block_reader().unwrap();
    assert_eq!(
        reader.canonical("to", "dgb1q").as_deref(),
        Some("dgb1q"),
        "a chain without forms takes any text"
    );
}

proptest! {
    // Shows (Events of chains).
    #[test]
    fn no_answer_is_too_strange(at in 0usize..70, by in prop_oneof![
        Just(Value::Null), Just(json!(-1)), Just(json!("0x")), Just(json!({})), Just(json!([[]])), Just(json!(1e300)),
        "[0-9a-f]{0,70}".prop_map(Value::from), any::<u64>().prop_map(Value::from),
    ]) {
        let mut spending = spend(50, 0);
        spending["prevout"] = pay(0, "1.0", ALICE);
        let returned = json!({"n": 1, "value": 0, "scriptPubKey": {"hex": "6a0568656c6c6f", "type": "nulldata"}});
        let block = written_block(8, json!([
            tx(2, json!([spending, spend(60, 1)]), json!([pay(0, "0.5", BOB), returned])),
        ]));
        let block = replaced(block, at, &by);
        for &chain in CHAINS.iter() {
            let read = told(chain, &node_with(block.clone(), missing), &EventType::ALL);
            let is_told = !matches!(read, Err(ReadError::Unreachable(_)));
            prop_assert!(is_told);
        }
    }
}
