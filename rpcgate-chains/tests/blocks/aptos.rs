//! Aptos.

use crate::node::{ScriptedNode, SimulatedNode, refused};
use crate::reading::{Reader, Reading, assert_flat, data, events_in, text};
use rpcgate_core::event::{BlockRef, EventFilter, EventType, ReadError};
use serde_json::{Value, json};
use std::sync::Arc;

const APT: &str = "0x1::aptos_coin::AptosCoin";

fn simulated() -> Reading<SimulatedNode> {
    Reading::simulated("aptos")
}

/// Returns the transfers of a block as the node shows them: sender, receiver and amount.
fn shown(reading: &Reading<SimulatedNode>, height: u64) -> Vec<(Value, Value, Value)> {
    let block = reading.node.get(&format!("/v1/blocks/by_height/{height}?with_transactions=true"));
    let transfers =
        block["transactions"].as_array().unwrap().iter().filter(|tx| tx["type"] == "user_transaction");
    let row = |tx: &Value| {
        let arguments = &tx["payload"]["arguments"];
        (tx["sender"].clone(), arguments[0].clone(), arguments[1].clone())
    };
    transfers.map(row).collect()
}

// Shows (Events of chains): Events of Aptos: every type from simulated blocks.
#[test]
fn a_simulated_block_of_aptos_is_reported_as_new_without_reading_its_transactions() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::NewBlock], 10, 250);
    for pair in blocks.windows(2) {
        assert_eq!(pair[1].block.height, pair[0].block.height + 1);
        assert_eq!(pair[1].events.len(), 1);
        let before = &pair[0].events[0].data;
        let after = &pair[1].events[0].data;
        assert_eq!(after["first_version"].as_u64(), before["last_version"].as_u64().map(|last| last + 1));
        let versions = after["last_version"].as_u64().unwrap() + 1 - after["first_version"].as_u64().unwrap();
        assert_eq!(after["transactions"], versions);
    }
    assert!(reading.node.asked().iter().all(|path| !path.contains("=true")));
    let block = &blocks[9].block;
    let at = reading.node.get(&format!("/v1/blocks/by_height/{}", block.height));
    assert_eq!((&at["block_hash"], &*block.parent), (&json!(block.hash), ""));
    let above = BlockRef { height: block.height + 1_000, ..block.clone() };
    assert_eq!(reading.at(&above), Ok(None));
    assert_eq!(reading.after(&above, &EventFilter::default()), Ok(None));
}

// Shows (Events of chains).
#[test]
fn address_activity_in_a_simulated_aptos_block_is_reported_once_per_transaction() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::AddressActivity], 8, 250);
    let mut seen = 0;
    for block in &blocks {
        assert_flat(&block.events);
        for (from, to, amount) in shown(&reading, block.block.height) {
            let row = |address: &Value, direction| {
                let is_it = |event: &&rpcgate_core::event::ChainEvent| {
                    event.data["address"] == *address && event.data["direction"] == direction
                };
                let found: Vec<_> = block.events.iter().filter(is_it).collect();
                assert_eq!(found.len(), 1, "{:?}", block.events);
                found[0].data.clone()
            };
            assert_eq!(row(&from, "out")["value"], amount);
            let arrived = row(&to, "in");
            assert_eq!((&arrived["value"], &arrived["success"]), (&amount, &json!(true)));
            seen += 1;
        }
    }
    assert!(seen > 3);
    let watched = text(&events_in(&blocks)[0], "address").to_owned();
    let is_watched = {
        let watched = watched.clone();
        Arc::new(move |address: &str| address == watched)
    };
    let wanted = EventFilter::new([EventType::AddressActivity]).with_addresses(is_watched);
    let known = BlockRef { height: blocks[0].block.height - 1, ..blocks[0].block.clone() };
    let block = blocks.iter().find(|block| !block.events.is_empty()).unwrap();
    let known = BlockRef { height: block.block.height - 1, ..known };
    let only = reading.after(&known, &wanted).unwrap().unwrap();
    assert_eq!(only.events.len(), 1);
    assert_eq!(text(&only.events[0], "address"), watched);
}

// Shows (Events of chains).
#[test]
fn transfers_in_a_simulated_block_of_aptos_are_reported_with_both_sides() {
    let reading = simulated();
    let mut seen = 0;
    for block in reading.follow(&[EventType::TokenTransfer], 8, 250) {
        let told = block.events.iter().map(|event| {
            assert_eq!(event.data["token"], APT);
            (event.data["from"].clone(), event.data["to"].clone(), event.data["value"].clone())
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told, shown(&reading, block.block.height));
        seen += told.len();
        assert_flat(&block.events);
    }
    assert!(seen > 3);
}

// Shows (Events of chains).
#[test]
fn events_of_contracts_in_a_simulated_block_of_aptos_have_their_data_flat() {
    let blocks = simulated().follow(&[EventType::ContractEvent], 4, 250);
    for block in &blocks {
        let new: Vec<_> =
            block.events.iter().filter(|event| event.data["type"] == "0x1::block::NewBlock").collect();
        assert_eq!(new.len(), 1);
        assert_eq!(text(new[0], "data_height"), block.block.height.to_string());
        assert_eq!(text(new[0], "data_failed_proposer_indices"), "[]");
        assert_eq!(text(new[0], "account"), "0x0");
    }
    let events = events_in(&blocks);
    assert_flat(&events);
    assert!(events.iter().any(|event| event.data["type"] == "0x1::coin::CoinDeposit"));
}

fn event(kind: &str, data: Value) -> Value {
    json!({
        "guid": { "creation_number": "0", "account_address": "0x0" }, "sequence_number": "0", "type": kind,
        "data": data,
    })
}

fn handle_event(account: &str, number: u64, kind: &str, data: Value) -> Value {
    json!({
        "guid": { "creation_number": number.to_string(), "account_address": account }, "sequence_number": "4",
        "type": kind, "data": data,
    })
}

fn resource(address: &str, kind: &str, data: Value) -> Value {
    json!({
        "address": address, "state_key_hash": "0x1", "type": "write_resource",
        "data": { "type": kind, "data": data },
    })
}

fn address(n: u8) -> String {
    format!("0x{}", hex(n))
}

fn hex(n: u8) -> String {
    format!("{n:02x}").repeat(32)
}

fn transaction(version: u64, success: bool, events: Value, changes: Value) -> Value {
    json!({
        "type": "user_transaction", "version": version.to_string(), "hash": format!("0x{version:064x}"),
        "success": success, "vm_status": "", "sender": address(1), "events": events, "changes": changes,
        "signature": { "type": "fee_payer_signature", "fee_payer_address": address(9), "secondary_signer_addresses": [] },
    })
}

/// Returns a node whose only block is number 8, with these transactions.
fn node(transactions: Vec<Value>, in_block: usize) -> Reading<ScriptedNode<'static>> {
    let answer = move |path: &str, _: &str| {
        if path == "/v1" {
            return Ok(json!({ "chain_id": 1, "block_height": "8", "ledger_version": "108" }));
        }
        if let Some(rest) = path.strip_prefix("/v1/transactions?start=") {
            let (start, limit) = rest.split_once("&limit=").unwrap();
            let (start, limit): (usize, usize) = (start.parse().unwrap(), limit.parse().unwrap());
            // A node may return fewer than requested.
            let rows = transactions.iter().skip(start - 100).take(limit.min(2));
            return Ok(rows.cloned().collect());
        }
        match path.split('?').next() {
            Some("/v1/blocks/by_height/8") => {
                let mut block = json!({
                    "block_height": "8", "block_hash": "0xb8", "block_timestamp": "1700000000999999",
                    "first_version": "100", "last_version": (99 + transactions.len()).to_string(),
                });
                if path.ends_with("=true") {
                    block["transactions"] = transactions.iter().take(in_block).cloned().collect();
                }
                Ok(block)
            }
            Some("/v1/blocks/by_height/7") => Err(refused(410, "")),
            _ => Err(refused(404, "")),
        }
    };
    Reading::new("aptos", ScriptedNode::new(answer))
}

fn known() -> BlockRef {
    BlockRef::new(7, "0xb7", "", 0)
}

// Shows (Events of chains): Events of Aptos: fungible assets, coins of handles, failed transactions, cut blocks,
// bounds.
#[test]
fn fungible_assets_of_aptos_are_reported_by_the_owners_of_their_stores() {
    let stores = |owners: &[(u8, u8)]| -> Value {
        let rows = owners.iter().flat_map(|(store, owner)| {
            let metadata = json!({ "balance": "1", "frozen": false, "metadata": { "inner": "0xA" } });
            [
                resource(&address(*store), "0x1::object::ObjectCore", json!({ "owner": address(*owner) })),
                resource(&address(*store), "0x1::fungible_asset::FungibleStore", metadata),
            ]
        });
        rows.collect()
    };
    let events = json!([
        event("0x1::fungible_asset::Withdraw", json!({ "store": address(0x51), "amount": "30" })),
        event("0x1::fungible_asset::Deposit", json!({ "store": address(0x52), "amount": "20" })),
        event("0x1::fungible_asset::Deposit", json!({ "store": address(0x53), "amount": "15" })),
        // The asset of this store is unknown, so it has no transfer.
        event("0x1::fungible_asset::Deposit", json!({ "store": address(0x54), "amount": "1" })),
    ]);
    let reading = node(vec![transaction(100, true, events, stores(&[(0x51, 1), (0x52, 2), (0x53, 3)]))], 9);
    let told = reading.events(&known(), EventType::TokenTransfer);
    let transfer = |index: u64, value: &str, from: Option<u8>, to: (u8, u8)| {
        let mut row = json!({
            "tx_hash": format!("0x{:064x}", 100), "version": 100, "index": index, "token": "0xa", "value": value,
            "to": address(to.1), "to_store": address(to.0),
        });
        if let Some(from) = from {
            (row["from"], row["from_store"]) = (json!(address(from)), json!(address(0x51)));
        }
        row
    };
    assert_eq!(
        data(&told),
        [
            transfer(0, "20", Some(1), (0x52, 2)),
            transfer(1, "10", Some(1), (0x53, 3)),
            transfer(2, "5", None, (0x53, 3)),
        ]
    );
    let active = reading.events(&known(), EventType::AddressActivity);
    let row =
        |n: u8| active.iter().find(|event| event.data["address"] == address(n)).map(|event| &event.data);
    assert_eq!(row(1).unwrap()["value"], "30");
    assert_eq!((&row(2).unwrap()["direction"], &row(2).unwrap()["value"]), (&json!("in"), &json!("20")));
    assert_eq!(row(9).unwrap()["direction"], "out", "it pays the fee");
    assert!(row(0x51).unwrap().get("direction").is_none(), "its resources change");
    assert!(row(0x54).is_none());
}

// Shows (Events of chains).
#[test]
fn coins_of_aptos_are_found_by_the_handles_of_their_stores() {
    let store = |account: u8, withdraw: u64, deposit: u64| {
        let handle = |number: u64| json!({ "guid": { "id": { "addr": address(account), "creation_num": number.to_string() } } });
        resource(
            &address(account),
            "0x1::coin::CoinStore<0x5::usd::USD<u8, 0x1::a::B>>",
            json!({ "withdraw_events": handle(withdraw), "deposit_events": handle(deposit) }),
        )
    };
    let events = json!([
        handle_event(&address(1), 3, "0x1::coin::WithdrawEvent", json!({ "amount": "7" })),
        handle_event(&address(2), 2, "0x1::coin::DepositEvent", json!({ "amount": "7" })),
        // No store has this handle.
        handle_event(&address(2), 9, "0x1::coin::DepositEvent", json!({ "amount": "7" })),
        event(
            "0x1::coin::Withdraw<0x1::aptos_coin::AptosCoin>",
            json!({ "account": address(3), "amount": "2" })
        ),
        event("0x1::coin::Deposit<0x1::aptos_coin::AptosCoin>", json!({ "account": "0xa", "amount": "1" })),
    ]);
    let reading = node(vec![transaction(100, true, events, json!([store(1, 3, 2), store(2, 3, 2)]))], 9);
    let told = reading.events(&known(), EventType::TokenTransfer);
    let told: Vec<_> = told
        .iter()
        .map(|event| {
            ["token", "from", "to", "value"].map(|name| event.data.get(name).cloned().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        told,
        [
            ["0x5::usd::USD<u8, 0x1::a::B>", &address(1), &address(2), "7"].map(Value::from),
            [APT, &address(3), "0xa", "1"].map(Value::from),
            [json!(APT), json!(address(3)), Value::Null, json!("1")],
        ]
    );
}

// Shows (Events of chains).
#[test]
fn a_failed_transaction_of_aptos_transfers_nothing() {
    let events = || {
        json!([
            event(
                "0x1::coin::CoinWithdraw",
                json!({ "account": address(1), "amount": "2", "coin_type": APT })
            ),
            event("0x1::transaction_fee::FeeStatement", json!({ "total_charge_gas_units": "9" })),
        ])
    };
    let reading = node(vec![transaction(100, false, events(), json!([]))], 9);
    assert_eq!(reading.events(&known(), EventType::TokenTransfer), []);
    let active = reading.events(&known(), EventType::AddressActivity);
    assert!(active.iter().all(|event| event.data["success"] == false) && active.len() == 2);
    assert_eq!(reading.events(&known(), EventType::ContractEvent).len(), 2);
}

// Shows (Events of chains).
#[test]
fn the_rest_of_a_cut_block_of_aptos_is_read_by_versions() {
    let rows: Vec<_> = (100..107)
        .map(|version| {
            let events = json!([event("0x7::m::E", json!({ "n": version, "list": [1, { "a": 1.5 }] }))]);
            transaction(version, true, events, json!([]))
        })
        .collect();
    let reading = node(rows.clone(), 3);
    let told = reading.events(&known(), EventType::ContractEvent);
    let numbers: Vec<_> = told.iter().map(|event| event.data["data_n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (100..107).collect::<Vec<_>>());
    assert_eq!(text(&told[0], "data_list"), "[1,{\"a\":1.5}]");
    let mut wrong = rows;
    wrong.swap(3, 4);
    let next = node(wrong, 3).after(&known(), &EventFilter::new([EventType::ContractEvent]));
    assert_eq!(next, Err(ReadError::Unreadable("transactions of a block")));
}

// Shows (Events of chains).
#[test]
fn the_size_of_an_aptos_event_is_bounded() {
    let members: serde_json::Map<String, Value> =
        (0..100).map(|n| (format!("m{n:03}{}", "x".repeat(3_000)), json!("y".repeat(5_000)))).collect();
    let events = json!([event("0x7::m::E", members.into()), event("0x7::m::F", json!("z".repeat(5_000)))]);
    let told =
        node(vec![transaction(100, true, events, json!([]))], 9).events(&known(), EventType::ContractEvent);
    assert!(serde_json::to_string(&data(&told)).unwrap().len() < 100_000);
    assert_eq!(text(&told[1], "data").len(), 1_024);
}

#[test]
fn members_that_an_aptos_event_lacks_are_omitted() {
    let events =
        json!([event("0x7::m::E", json!({ "none": null, "one": 1 })), event("0x7::m::F", Value::Null),]);
    let told =
        node(vec![transaction(100, true, events, json!([]))], 9).events(&known(), EventType::ContractEvent);
    assert_flat(&told);
    assert_eq!((&told[0].data["data_one"], told[1].data.contains_key("data")), (&json!(1), false));
}

// Shows (Events of chains).
#[test]
fn a_block_of_aptos_with_more_transactions_than_blocks_can_have_is_unreadable() {
    for (first, last) in [("1", "100001"), ("2", "1"), ("0", "18446744073709551615")] {
        let node = ScriptedNode::new(move |_, _| {
            Ok(json!({
                "block_height": "8", "block_hash": "", "block_timestamp": "1", "first_version": first,
                "last_version": last, "transactions": [],
            }))
        });
        let reading = Reading::new("aptos", node);
        for kind in [EventType::NewBlock, EventType::TokenTransfer] {
            let next = reading.after(&known(), &EventFilter::new([kind]));
            assert_eq!(next, Err(ReadError::Unreadable("versions of a block")), "{first} {last}");
        }
    }
}

// Shows (Events of chains).
#[test]
fn blocks_that_a_node_of_aptos_lacks_are_missing_or_errors() {
    let reading = node(Vec::new(), 0);
    let head = reading.head();
    // A block has at least one transaction, its metadata.
    assert_eq!(
        head.as_ref().map(|head| (head.height, &*head.hash, head.timestamp)),
        Ok((8, "0xb8", 1_700_000_000))
    );
    assert_eq!(reading.after(&head.unwrap(), &EventFilter::new([EventType::NewBlock])), Ok(None));
    assert_eq!(reading.at(&known()), Err(refused(410, "")));
    let wrong = ScriptedNode::new(|_, _| {
        Ok(json!({
            "block_height": "9", "block_hash": "", "block_timestamp": "1", "first_version": "1", "last_version": "1",
        }))
    });
    assert_eq!(Reading::new("aptos", wrong).at(&known()), Err(ReadError::Unreadable("a block's height")));
}

// Shows (Events of chains): Filters of Aptos, TON, Solana and Cardano are compared in the chain's own form.
#[test]
fn filters_of_aptos_have_one_form() {
    let reader = Reader::of("aptos");
    let form = |key: &str, value: &str| reader.canonical(key, value);
    assert_eq!(form("address", "0X1"), None);
    assert_eq!(form("from", "01").as_deref(), Some("0x1"));
    assert_eq!(form("to", &hex(0xAB).to_uppercase()), Some(address(0xab)));
    assert_eq!(form("token", APT).as_deref(), Some(APT));
    assert_eq!(form("token", "0x0A").as_deref(), Some("0xa"));
    assert_eq!(form("token", "APT"), None);
    assert_eq!(form("tx_hash", &hex(0xAB).to_uppercase()), Some(address(0xab)));
    assert_eq!(form("type", "0x1::A::B").as_deref(), Some("0x1::A::B"));
}
