//! EVM chains.

use crate::arbitrary::replaced;
use crate::names;
use crate::node::{RealNode, ScriptedNode, SimulatedNode, refused};
use crate::reading::{Reader, at_height, events_of, members};
use proptest::prelude::*;
use rpcgate_chains::catalog;
use rpcgate_core::chain::Dialect;
use rpcgate_core::event::{BlockRef, ChainEvent, EventFilter, EventType, ReadError};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// The first chains of the catalog.
static CHAINS: LazyLock<Vec<&str>> =
    LazyLock::new(|| names(catalog().take_while(|one| one.facts().dialect != Dialect::Utxo)));
/// Transactions that an official client signed with the keys of development nodes.
const SIGNED: &str = include_str!("../../simulate/golden/transactions.json");
const SENDER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";

fn eth() -> Reader {
    Reader::of("eth")
}

// Shows (Events of chains): EVM chains: every type of event is read from simulated blocks; transactions of every type,
// created contracts.
#[test]
fn simulated_chains_report_new_blocks() {
    for &chain in CHAINS.iter() {
        let events = events_of(chain, EventType::NewBlock);
        assert_eq!(events.len(), 40, "one a block");
        assert_eq!(members(&events), ["gas_used", "miner", "parent_hash", "transactions"], "{chain}");
        assert!(events.iter().any(|event| event.data["transactions"].as_u64() > Some(0)), "{chain}");
    }
}

// Shows (Events of chains).
#[test]
fn simulated_chains_report_the_activity_of_addresses() {
    for &chain in CHAINS.iter() {
        let events = events_of(chain, EventType::AddressActivity);
        let names = [
            "address",
            "batch_index",
            "direction",
            "from",
            "index",
            "kind",
            "log_index",
            "operator",
            "standard",
            "success",
            "to",
            "token",
            "token_id",
            "tx_hash",
            "value",
        ];
        assert_eq!(members(&events), names, "{chain}");
        for kind in ["native", "token"] {
            for direction in ["in", "out"] {
                let is =
                    |event: &&ChainEvent| event.data["kind"] == kind && event.data["direction"] == direction;
                let event = events.iter().find(is).unwrap();
                let party = if direction == "in" { "to" } else { "from" };
                assert_eq!(event.data["address"], event.data[party], "{chain}");
            }
        }
    }
}

// Shows (Events of chains).
#[test]
fn simulated_chains_report_transfers_of_every_standard() {
    for &chain in CHAINS.iter() {
        let events = events_of(chain, EventType::TokenTransfer);
        for standard in ["erc20", "erc721", "erc1155"] {
            let event = events.iter().find(|event| event.data["standard"] == standard).unwrap();
            assert_eq!(event.data.contains_key("token_id"), standard != "erc20", "{chain}");
            assert!(event.data["value"].is_string() && event.data["log_index"].is_u64());
        }
        let batch = |event: &&ChainEvent| event.data["standard"] == "erc1155";
        let places: Vec<_> = events
            .iter()
            .filter(batch)
            .map(|event| (&event.data["tx_hash"], &event.data["log_index"]))
            .collect();
        assert!(
            places.windows(2).any(|pair| pair[0] == pair[1]),
            "{chain}: one event for each id of a batch"
        );
    }
}

// Shows (Events of chains).
#[test]
fn simulated_chains_report_events_of_contracts() {
    for &chain in CHAINS.iter() {
        let events = events_of(chain, EventType::ContractEvent);
        let names = ["Transfer", "TransferBatch", "TransferSingle"];
        for name in names {
            assert!(events.iter().any(|event| event.data["event"] == name), "{chain} {name}");
        }
        for event in &events {
            assert_eq!(event.data["topics"][0], event.data["topic0"]);
        }
    }
}

// Shows (Events of chains).
#[test]
fn transactions_of_every_type_and_a_created_contract_are_reported() {
    let signed: Value = serde_json::from_str(SIGNED).unwrap();
    for &chain in CHAINS.iter() {
        let reader = Reader::of(chain);
        let node = SimulatedNode::of(chain);
        let before = reader.head(&node).unwrap();
        for name in ["dynamic", "token", "legacy", "access", "create"] {
            let raw = signed[chain][name]["raw"].as_str().unwrap();
            node.result("eth_sendRawTransaction", &json!([raw])).unwrap();
        }
        node.wait(30_000);
        let wanted = EventFilter::new([EventType::AddressActivity]);
        let blocks = reader.blocks_after(&node, before.height, &wanted);
        let events: Vec<_> = blocks.into_iter().flat_map(|block| block.events).collect();
        for name in ["dynamic", "token", "legacy", "access", "create"] {
            let sent = events.iter().find(|event| {
                event.data["tx_hash"] == signed[chain][name]["hash"] && event.data["direction"] == "out"
            });
            let sent = &sent.unwrap().data;
            assert_eq!((&sent["from"], &sent["success"]), (&SENDER.into(), &true.into()), "{chain} {name}");
        }
        let created = events.iter().find(|event| {
            event.data["tx_hash"] == signed[chain]["create"]["hash"] && event.data["direction"] == "in"
        });
        let created = &created.unwrap().data;
        assert_eq!(created["address"], created["to"]);
        assert_eq!(created["to"].as_str().unwrap().len(), 42, "the address of the contract");
    }
}

fn hash(n: u64) -> String {
    format!("0x{n:064x}")
}

fn address(n: u64) -> String {
    format!("0x{n:040x}")
}

fn written_block(height: u64, transactions: Value) -> Value {
    json!({
        "number": format!("{height:#x}"), "hash": hash(height), "parentHash": hash(height - 1),
        "timestamp": "0x68000000", "gasUsed": "0x5208", "miner": address(9), "extra": {"later": [1, null]},
        "transactions": transactions,
    })
}

fn written_tx(n: u64, to: Value) -> Value {
    json!({"hash": hash(n), "from": address(1), "to": to, "value": "0xde0b6b3a7640000", "type": "0x2"})
}

fn receipt(n: u64, block: u64, status: &str, created: Value) -> Value {
    json!({
        "transactionHash": hash(n), "blockHash": hash(block), "status": status, "contractAddress": created, "logs": [],
    })
}

/// Returns the address activity in block 8 of a node with these answers.
fn activity(
    block: Value,
    receipts: Result<Value, ReadError>,
    logs: Value,
) -> Result<Vec<ChainEvent>, ReadError> {
    let node = ScriptedNode::of_texts(move |method: &str, params: &str| {
        Ok(match method {
            "eth_getBlockByNumber" => {
                assert_eq!(params, "[\"0x8\",true]");
                block.to_string()
            }
            "eth_getBlockReceipts" => receipts.clone()?.to_string(),
            "eth_getLogs" => logs.to_string(),
            _ => panic!("{method}"),
        })
    });
    let wanted = EventFilter::new([EventType::AddressActivity]);
    let read = eth().after(&node, &at_height(7), &wanted);
    Ok(read?.unwrap().events)
}

// Shows (Webhooks): A failed transaction has no value on any chain; TON events show the failure.
// Shows (Events of chains).
#[test]
fn a_failed_transaction_moves_and_creates_nothing() {
    let txs = json!([written_tx(1, address(2).into()), written_tx(2, Value::Null)]);
    let receipts = json!([receipt(1, 8, "0x0", Value::Null), receipt(2, 8, "0x0", address(3).into())]);
    let events = activity(written_block(8, txs), Ok(receipts), json!([])).unwrap();
    let shown: Vec<_> = events
        .iter()
        .map(|event| (&event.data["address"], event.data.get("value"), &event.data["success"]))
        .collect();
    let sender = address(1).into();
    let recipient = address(2).into();
    let failed = false.into();
    assert_eq!(shown, [&sender, &recipient, &sender].map(|address| (address, None, &failed)));
    assert!(!events[2].data.contains_key("to"));
}

// Shows (Webhooks): An answer that lacks receipts or logs is rejected, as is a block that Avalanche has not accepted.
#[test]
fn an_incomplete_list_of_receipts_is_rejected() {
    let txs = || json!([written_tx(1, address(2).into()), written_tx(2, address(3).into())]);
    let lacks = Err(ReadError::Unreadable("the node lacks a receipt of the block"));
    for receipts in [json!([]), json!([receipt(1, 8, "0x1", Value::Null)])] {
        assert_eq!(activity(written_block(8, txs()), Ok(receipts), json!([])), lacks);
    }
    let both = json!([receipt(1, 8, "0x1", Value::Null), receipt(2, 8, "0x1", Value::Null)]);
    assert_eq!(activity(written_block(8, txs()), Ok(both), json!([])).map(|events| events.len()), Ok(4));
}

// Shows (Webhooks).
#[test]
fn a_block_with_logs_is_not_read_without_them() {
    let told = |bloom: &str, logs: Value| {
        let mut block = written_block(8, json!([]));
        block["logsBloom"] = format!("0x{bloom:0<512}").into();
        let node = ScriptedNode::of_texts(move |method: &str, _: &str| {
            Ok(if method == "eth_getLogs" { logs.to_string() } else { block.to_string() })
        });
        let read = eth().after(&node, &at_height(7), &EventFilter::new([EventType::ContractEvent]));
        read.map(|block| block.unwrap().events.len())
    };
    let lacks = ReadError::Unreadable("the node lacks the logs of the block");
    assert_eq!(told("0001", json!([])), Err(lacks));
    assert_eq!(told("0001", json!([written_log(8, 0, 0)])), Ok(1));
    assert_eq!(told("", json!([])), Ok(0));
    assert_eq!(told("", json!([written_log(8, 0, 0)])), Ok(1), "of a transaction that the chain made itself");
}

// Shows (Webhooks).
#[test]
fn a_block_that_avalanche_has_not_accepted_yet_is_missing() {
    let node = ScriptedNode::new(|_, _| Err(refused(-32_000, "cannot query unfinalized data")));
    let reader = Reader::of("avax");
    let known = BlockRef::new(7, hash(7), hash(6), 0);
    assert_eq!(reader.after(&node, &known, &EventFilter::new([EventType::NewBlock])), Ok(None));
    assert_eq!(reader.at(&node, &known), Ok(None));
}

#[test]
fn a_node_without_receipts_is_asked_for_logs_and_failures_are_unknown() {
    for lack in [
        refused(-32601, "Method not found"),
        refused(-32004, "Method eth_getBlockReceipts is not supported"),
        refused(-32600, "The method eth_getBlockReceipts does not exist/is not available"),
    ] {
        let txs = json!([written_tx(1, address(1).into())]);
        let events = activity(written_block(8, txs), Err(lack), json!([])).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data["direction"], "self");
        assert_eq!(events[0].data["value"], "1000000000000000000");
        assert!(!events[0].data.contains_key("success"));
    }
    let error = refused(-32005, "limit exceeded");
    let answer = activity(written_block(8, json!([])), Err(error.clone()), json!([]));
    assert_eq!(answer, Err(error), "a passing refusal is no lack: the block is read again");
}

#[test]
fn transactions_that_a_chain_makes_itself_may_lack_members() {
    // A state sync as Polygon's nodes show it, and a node that leaves out missing members.
    let zero = address(0);
    let txs = json!([
        {"hash": hash(1), "from": zero, "to": zero, "value": "0x0", "gas": "0x0", "type": "0x7f"},
        {"hash": hash(2), "to": null},
        {"hash": hash(3)},
    ]);
    let events = activity(written_block(8, txs), Ok(json!([])), json!([])).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0].data["address"], &events[0].data["direction"]), (&zero.into(), &"self".into()));
}

fn written_log(block: u64, tx_index: u64, log_index: u64) -> Value {
    json!({
        "address": address(5), "topics": [hash(6)], "data": "0x", "blockHash": hash(block), "removed": false,
        "transactionHash": hash(tx_index + 1), "transactionIndex": format!("{tx_index:#x}"),
        "logIndex": format!("{log_index:#x}"), "blockNumber": "0x8",
    })
}

#[test]
fn events_have_their_order_in_the_block() {
    let logs = json!([written_log(8, 0, 0), written_log(8, 1, 1), written_log(8, 9, 2)]);
    let txs = json!([written_tx(1, address(2).into()), written_tx(2, address(3).into())]);
    let node = ScriptedNode::of_texts(move |method: &str, _: &str| {
        Ok(match method {
            "eth_getBlockByNumber" => written_block(8, txs.clone()).to_string(),
            "eth_getBlockReceipts" => return Err(refused(-32601, "unknown")),
            _ => logs.to_string(),
        })
    });
    let wanted =
        EventFilter::new([EventType::NewBlock, EventType::AddressActivity, EventType::ContractEvent])
            .with_addresses(Arc::new(|address: &str| address.ends_with('2') || address.ends_with('3')));
    let events = eth().after(&node, &at_height(7), &wanted).unwrap().unwrap().events;
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    use EventType::{AddressActivity, ContractEvent, NewBlock};
    assert_eq!(
        kinds,
        [NewBlock, AddressActivity, ContractEvent, AddressActivity, ContractEvent, ContractEvent]
    );
    assert_eq!(events[0].data["gas_used"], 21_000);
}

// Shows (Events of chains): EVM chains: a block that is reorganised while it is read is an error or has its other
// parent; logs of another block are never reported.
#[test]
fn logs_and_receipts_of_another_block_are_an_error() {
    let logs = |log: Value| {
        let block = written_block(8, json!([]));
        let node = ScriptedNode::of_texts(move |method: &str, params: &str| {
            Ok(match method {
                "eth_getBlockByNumber" => block.to_string(),
                _ => {
                    assert_eq!(params, format!("[{{\"blockHash\":\"{}\"}}]", hash(8)));
                    json!([log]).to_string()
                }
            })
        });
        let wanted = EventFilter::new([EventType::ContractEvent]);
        eth().after(&node, &at_height(7), &wanted)
    };
    assert_eq!(logs(written_log(8, 0, 0)).unwrap().unwrap().events.len(), 1);
    let mut taken_back = written_log(8, 0, 0);
    taken_back["removed"] = true.into();
    let other = Err(ReadError::Unreadable("a log is of another block"));
    assert_eq!(logs(written_log(9, 0, 0)), other);
    assert_eq!(logs(taken_back), other);
    for (member, wrong) in [
        ("address", json!("0x12")),
        ("topics", json!([hash(1), hash(1), hash(1), hash(1), hash(1)])),
        ("data", json!("0x1")),
        ("logIndex", Value::Null),
    ] {
        let mut log = written_log(8, 0, 0);
        log[member] = wrong;
        assert!(matches!(logs(log), Err(ReadError::Unreadable(_))), "{member}");
    }
    let txs = json!([written_tx(1, Value::Null)]);
    let receipts = json!([receipt(1, 9, "0x1", Value::Null)]);
    assert_eq!(
        activity(written_block(8, txs.clone()), Ok(receipts), json!([])),
        Err(ReadError::Unreadable("a receipt is of another block"))
    );
    let gone = activity(written_block(8, txs), Ok(Value::Null), json!([]));
    assert!(matches!(gone, Err(ReadError::Unreadable(_))));
}

// Shows (Events of chains).
#[test]
fn a_block_on_another_parent_is_reported_with_that_parent() {
    let node = ScriptedNode::of_texts(|_: &str, _: &str| Ok(written_block(8, json!([])).to_string()));
    let reader = eth();
    let wanted = EventFilter::new([EventType::NewBlock]);
    let known = BlockRef::new(7, hash(77), hash(6), 0);
    let next = reader.after(&node, &known, &wanted).unwrap().unwrap();
    assert_eq!((next.block.hash, next.block.parent), (hash(8), hash(7)));
    let other = reader.at(&node, &at_height(7));
    assert!(matches!(other, Err(ReadError::Unreadable(_))), "a block of another number is no answer");
    let none = ScriptedNode::of_texts(|_: &str, _: &str| Ok("null".to_owned()));
    assert_eq!(reader.at(&none, &known), Ok(None));
    assert_eq!(reader.after(&none, &known, &wanted), Ok(None));
    assert!(matches!(reader.head(&none), Err(ReadError::Unreadable(_))));
    assert_eq!(reader.after(&none, &at_height(u64::MAX), &wanted), Ok(None));
}

#[test]
fn a_reader_subscribes_to_new_heads() {
    let chain = eth();
    let frame = chain.inner().head_subscription().unwrap().subscribe;
    let frame: Value = serde_json::from_str(frame).unwrap();
    assert_eq!((&frame["method"], &frame["params"]), (&"eth_subscribe".into(), &json!(["newHeads"])));
}

#[test]
#[ignore = "needs anvil: its address in RPCGATE_EVM_NODE, such as 127.0.0.1:8545"]
fn a_real_development_node_is_read() {
    let node = RealNode::from_env("RPCGATE_EVM_NODE");
    let reader = eth();
    let wanted = EventFilter::new(EventType::ALL);
    let before = reader.head(&node).unwrap();
    let accounts = node.ask("eth_accounts", json!([]));
    let alice = accounts[0].as_str().unwrap();
    let bob = accounts[1].as_str().unwrap();
    let snapshot = node.ask("evm_snapshot", json!([]));
    let mut hashes = Vec::new();
    let mut send = |tx: Value| hashes.push(node.ask("eth_sendTransaction", json!([tx])));
    send(json!({"from": alice, "to": bob, "value": "0xde0b6b3a7640000"}));
    // The code that creates a contract writes the log of a transfer of 5 and returns nothing.
    let topic = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
    let code = format!("0x600560005273{}73{}7f{topic}60206000a360006000f3", &bob[2..], &alice[2..]);
    send(json!({"from": alice, "data": code}));
    send(json!({"from": alice, "data": "0x60006000fd", "value": "0x7", "gas": "0x30000"}));
    let blocks = reader.blocks_after(&node, before.height, &wanted);
    let events: Vec<_> = blocks.iter().flat_map(|block| &block.events).collect();
    let of = |kind: EventType, hash: &Value| {
        let found =
            events.iter().filter(|event| event.kind == kind && event.data.get("tx_hash") == Some(hash));
        found.map(|event| event.data.clone()).collect::<Vec<_>>()
    };
    let sent = of(EventType::AddressActivity, &hashes[0]);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|data| data["value"] == "1000000000000000000" && data["success"] == true));
    assert_eq!((&sent[0]["address"], &sent[1]["address"]), (&alice.into(), &bob.into()));
    let created = of(EventType::AddressActivity, &hashes[1]);
    assert_eq!(created.len(), 4, "the sender, the contract and both parties of the transfer");
    let transfer = of(EventType::TokenTransfer, &hashes[1]);
    assert_eq!((&transfer[0]["value"], &transfer[0]["token"]), (&"5".into(), &created[1]["address"]));
    assert_eq!(of(EventType::ContractEvent, &hashes[1])[0]["event"], "Transfer");
    let failed = of(EventType::AddressActivity, &hashes[2]);
    assert_eq!((failed.len(), failed[0].get("value"), &failed[0]["success"]), (1, None, &false.into()));
    let known = reader.head(&node).unwrap();
    node.ask("evm_revert", json!([snapshot]));
    assert_eq!(reader.at(&node, &known), Ok(None), "its block was taken back");
    node.ask("evm_increaseTime", json!([100]));
    node.ask("evm_mine", json!([]));
    let replaced = reader.at(&node, &blocks[0].block).unwrap().unwrap();
    assert_ne!(replaced.hash, blocks[0].block.hash);
    assert_eq!(replaced.parent, before.hash);
}

proptest! {
    // Shows (Events of chains): No damaged block makes a reader panic or invent an event (EVM, UTXO, XRP), and no other
    // bytes do, on any chain.
    #[test]
    fn no_answer_is_too_strange(at in 0usize..60, which in 0usize..3, by in prop_oneof![
        Just(Value::Null), Just(json!(-1)), Just(json!("0x")), Just(json!({})), Just(json!([[]])),
        "[0-9a-fx]{0,70}".prop_map(Value::from), any::<u64>().prop_map(Value::from),
    ]) {
        let mut answers = [
            written_block(8, json!([written_tx(1, address(2).into()), written_tx(2, Value::Null)])),
            json!([receipt(1, 8, "0x1", Value::Null), receipt(2, 8, "0x1", address(3).into())]),
            json!([written_log(8, 0, 0)]),
        ];
        answers[which] = replaced(answers[which].clone(), at, &by);
        let [block, receipts, logs] = answers;
        let node = ScriptedNode::of_texts(move |method: &str, _: &str| Ok(match method {
            "eth_getBlockByNumber" => block.to_string(),
            "eth_getBlockReceipts" => receipts.to_string(),
            _ => logs.to_string(),
        }));
        for kinds in [vec![EventType::ContractEvent], EventType::ALL.to_vec()] {
            let wanted = EventFilter::new(kinds);
            let read = eth().after(&node, &at_height(7), &wanted);
            prop_assert!(matches!(read, Ok(_) | Err(ReadError::Unreadable(_))));
        }
    }
}
