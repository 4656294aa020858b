//! TON.

use crate::node::{ScriptedNode, SimulatedNode};
use crate::reading::{Reader, Reading, assert_flat, data, events_in, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rpcgate_core::event::{BlockRef, EventFilter, EventType, ReadError};
use serde_json::{Value, json};
use std::sync::Arc;

fn simulated() -> Reading<SimulatedNode> {
    Reading::simulated("ton")
}

/// Returns the transactions of the confirmed shard block, as the node shows them.
fn shown(reading: &Reading<SimulatedNode>, height: u64) -> Vec<Value> {
    let shards = reading.node.get(&format!("/shards?seqno={height}"));
    let seqno = &shards["result"]["shards"][0]["seqno"];
    let path = format!("/getBlockTransactions?workchain=0&shard=-9223372036854775808&seqno={seqno}");
    let rows = reading.node.get(&path)["result"]["transactions"].as_array().unwrap().clone();
    let whole = |row: &Value| {
        let hash = row["hash"].as_str().unwrap().replace('+', "%2B");
        let account = row["account"].as_str().unwrap();
        let lt = row["lt"].as_str().unwrap();
        let path = format!("/getTransactions?address={account}&lt={lt}&hash={hash}&limit=1");
        let mut tx = reading.node.get(&path)["result"][0].clone();
        tx["account"] = row["account"].clone();
        tx
    };
    rows.iter().map(whole).collect()
}

// Shows (Events of chains): Events of TON: every type from simulated blocks.
#[test]
fn a_simulated_masterchain_block_is_reported_as_new_without_reading_shards() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::NewBlock], 5, 5_000);
    for pair in blocks.windows(2) {
        assert_eq!(pair[1].block.height, pair[0].block.height + 1);
        assert_eq!(data(&pair[1].events), [json!({ "parent_hash": pair[0].block.hash })]);
    }
    assert!(reading.node.asked().iter().all(|path| !path.contains("shards")));
    let above = BlockRef { height: blocks[4].block.height + 100, ..blocks[4].block.clone() };
    assert_eq!(reading.at(&above), Ok(None));
}

// Shows (Events of chains).
#[test]
fn activity_in_a_simulated_block_of_ton_is_reported_for_both_sides_of_a_message() {
    let reading = simulated();
    let block = reading.follow(&[EventType::AddressActivity], 3, 5_000).remove(2);
    assert_flat(&block.events);
    let shown = shown(&reading, block.block.height);
    let payer = shown.iter().find(|tx| tx["in_msg"]["source"] == "").unwrap();
    let payee = shown.iter().find(|tx| tx["in_msg"]["source"] != "").unwrap();
    let value = &payee["in_msg"]["value"];
    let told = |tx: &Value| -> Vec<Value> {
        let hash = &tx["transaction_id"]["hash"];
        let own = block.events.iter().filter(|event| event.data["tx_hash"] == *hash);
        assert!(own.clone().all(|event| event.data["success"] == true), "the node shows its phases");
        let names = ["address", "direction", "value"];
        own.map(|event| names.map(|name| event.data.get(name).cloned().unwrap_or_default()).to_vec().into())
            .collect()
    };
    let from = &payer["account"];
    let to = &payee["account"];
    assert_eq!(told(payer), [json!([from, "out", value]), json!([to, "in", null])]);
    assert_eq!(told(payee), [json!([to, "in", value]), json!([from, "out", null])]);
    let watched = to.as_str().unwrap().to_owned();
    let is_watched = Arc::new(move |address: &str| address == watched);
    let wanted = EventFilter::new([EventType::AddressActivity]).with_addresses(is_watched);
    let known = BlockRef { height: block.block.height - 1, ..block.block };
    assert_eq!(reading.after(&known, &wanted).unwrap().unwrap().events.len(), 2);
}

// Shows (Events of chains).
#[test]
fn coins_in_a_simulated_block_of_ton_are_reported_where_they_arrive() {
    let reading = simulated();
    for block in reading.follow(&[EventType::TokenTransfer], 3, 5_000) {
        let shown = shown(&reading, block.block.height);
        let payer = shown.iter().find(|tx| tx["in_msg"]["source"] == "").unwrap();
        let payee = shown.iter().find(|tx| tx["in_msg"]["source"] != "").unwrap();
        let id = &payee["transaction_id"];
        let expected = json!({
            "tx_hash": id["hash"], "lt": id["lt"].as_str().unwrap().parse::<u64>().unwrap(), "token": "TON",
            "from": payer["account"], "to": payee["account"], "value": payee["in_msg"]["value"],
        });
        assert_eq!(data(&block.events), [expected]);
    }
}

// Shows (Events of chains).
#[test]
fn messages_to_the_outside_in_a_simulated_block_of_ton_are_events_of_contracts() {
    let reading = simulated();
    let blocks = reading.follow(&[EventType::ContractEvent], 3, 5_000);
    assert_flat(&events_in(&blocks));
    for block in blocks {
        let shown = shown(&reading, block.block.height);
        let payee = shown.iter().find(|tx| tx["in_msg"]["source"] != "").unwrap();
        assert_eq!(block.events.len(), 1);
        let told = &block.events[0];
        assert_eq!((&told.data["address"], text(told, "opcode")), (&payee["account"], "0x9a3f5c01"));
        assert_eq!(told.data["body"], payee["out_msgs"][0]["msg_data"]["body"]);
    }
}

/// A test block: its name, its shard as a number, its own number, and the names of its parents.
type Known = (&'static str, i64, u64, &'static [&'static str]);

const WHOLE: i64 = i64::MIN;
const LEFT: i64 = 0x4000_0000_0000_0000;
const RIGHT: i64 = -0x4000_0000_0000_0000;

/// Block 10 of the masterchain confirms a block of the whole workchain; block 11 its two halves, which have two blocks
/// each; block 12 a half with one more block, and block 13 the whole again.
const BLOCKS: [Known; 11] = [
    ("m9", 0, 9, &["m8"]),
    ("m10", 0, 10, &["m9"]),
    ("m11", 0, 11, &["m10"]),
    ("m12", 0, 12, &["m11"]),
    ("m13", 0, 13, &["m12"]),
    ("w5", WHOLE, 5, &["w4"]),
    ("l6", LEFT, 6, &["w5"]),
    ("l7", LEFT, 7, &["l6"]),
    ("r6", RIGHT, 6, &["w5"]),
    ("r7", RIGHT, 7, &["r6"]),
    ("w8", WHOLE, 8, &["l7", "r7"]),
];

fn id(name: &str) -> Value {
    let (_, shard, seqno, _) =
        BLOCKS.iter().find(|block| block.0 == name).copied().unwrap_or(("", WHOLE, 4, &[]));
    let is_master = name.starts_with('m');
    let (workchain, shard) = if is_master { (-1, WHOLE) } else { (0, shard) };
    json!({
        "@type": "ton.blockIdExt", "workchain": workchain, "shard": shard.to_string(), "seqno": seqno,
        "root_hash": name, "file_hash": "",
    })
}

fn query(path: &str, name: &str) -> Option<i64> {
    let (_, query) = path.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn account(n: u8) -> String {
    format!("0:{}", format!("{n:02x}").repeat(32))
}

fn message(source: &str, destination: &str, value: &str, body: &str) -> Value {
    let address = |text: &str| json!({ "@type": "accountAddress", "account_address": text });
    json!({
        "@type": "raw.message", "source": address(source), "destination": destination, "value": value,
        "msg_data": { "@type": "msg.dataRaw", "body": body, "init_state": "" },
    })
}

fn transaction(n: u8, lt: u64, incoming: Value, outgoing: Value) -> Value {
    json!({
        "@type": "raw.transaction", "account": account(n),
        "address": { "@type": "accountAddress", "account_address": account(n) }, "utime": 1,
        "transaction_id": { "@type": "internal.transactionId", "lt": lt.to_string(), "hash": format!("t{lt}") },
        "fee": "1", "in_msg": incoming, "out_msgs": outgoing,
    })
}

/// Returns a node with these blocks, and with these transactions by the name of a block, two in a page.
fn node(transactions: impl Fn(&str) -> Vec<Value> + Send + Sync + 'static) -> Reading<ScriptedNode<'static>> {
    let answer = move |path: &str, _: &str| {
        let found = || {
            let seqno = query(path, "seqno").unwrap();
            let workchain = query(path, "workchain").unwrap();
            let shard = query(path, "shard").unwrap();
            let is_it = |block: &&Known| {
                let id = id(block.0);
                id["seqno"] == seqno && id["workchain"] == workchain && id["shard"] == *shard.to_string()
            };
            *BLOCKS.iter().find(is_it).unwrap_or_else(|| panic!("{path}"))
        };
        let result = match path.split('?').next().unwrap() {
            "/getMasterchainInfo" => json!({ "last": id("m13") }),
            "/shards" => {
                let names: &[&str] = match query(path, "seqno") {
                    Some(10) => &["w5"],
                    Some(11) => &["l7", "r6"],
                    Some(12) => &["l7", "r7"],
                    Some(13) => &["w8"],
                    _ => &["w4"],
                };
                json!({ "shards": names.iter().map(|name| id(name)).collect::<Vec<_>>() })
            }
            "/getBlockHeader" => {
                let (name, .., before) = found();
                let before: Vec<_> = before.iter().map(|name| id(name)).collect();
                json!({ "id": id(name), "gen_utime": 1_700_000_000, "prev_blocks": before })
            }
            "/getBlockTransactionsExt" => {
                let mut rows = transactions(found().0);
                if let Some(lt) = query(path, "after_lt") {
                    assert!(path.contains("&after_hash=") && path.ends_with("%3D"), "{path}");
                    let last = |row: &Value| row["transaction_id"]["lt"] == *lt.to_string();
                    rows.drain(..=rows.iter().position(last).unwrap());
                }
                json!({ "incomplete": rows.len() > 2, "transactions": rows.into_iter().take(2).collect::<Vec<_>>() })
            }
            _ => panic!("{path}"),
        };
        Ok(json!({ "ok": true, "result": result }))
    };
    Reading::new("ton", ScriptedNode::new(answer))
}

/// Returns the names of the shard blocks that a masterchain block is the first to confirm.
fn confirmed(height: u64) -> Vec<String> {
    let number = |name: &str| BLOCKS.iter().position(|block| block.0 == name).unwrap() as u64;
    let reading = node(move |name| vec![transaction(1, number(name), Value::Null, json!([]))]);
    let known = BlockRef::new(height - 1, format!("m{}", height - 1), "", 0);
    let told = reading.events(&known, EventType::AddressActivity);
    told.iter().map(|event| BLOCKS[event.data["lt"].as_u64().unwrap() as usize].0.to_owned()).collect()
}

// Shows (Events of chains): Events of TON: shards that split and merge, pages, another chain, jettons.
#[test]
fn blocks_of_shards_that_split_and_merge_are_each_read_once() {
    assert_eq!(confirmed(10), ["m10", "w5"]);
    assert_eq!(confirmed(11), ["m11", "r6", "l6", "l7"]);
    assert_eq!(confirmed(12), ["m12", "r7"]);
    assert_eq!(confirmed(13), ["m13", "w8"]);
}

// Shows (Events of chains).
#[test]
fn a_chain_of_blocks_of_a_shard_without_end_is_unreadable() {
    let id = |workchain: i64, seqno: i64| {
        json!({
            "workchain": workchain, "shard": WHOLE.to_string(), "seqno": seqno,
            "root_hash": format!("{workchain} {seqno}"),
        })
    };
    let node = ScriptedNode::new(move |path, _| {
        let seqno = query(path, "seqno");
        Ok(match (path.split('?').next().unwrap(), seqno) {
            ("/getMasterchainInfo", _) => json!({ "ok": true, "result": { "last": id(-1, 13) } }),
            ("/shards", Some(13)) => json!({ "ok": true, "result": { "shards": [id(0, 5_000)] } }),
            ("/shards", _) => json!({ "ok": true, "result": { "shards": [] } }),
            (_, seqno) => {
                let workchain = query(path, "workchain").unwrap();
                let seqno = seqno.unwrap();
                let before = [id(workchain, seqno - 1)];
                json!({ "ok": true, "result": {
                    "id": id(workchain, seqno), "gen_utime": 1, "prev_blocks": before,
                } })
            }
        })
    });
    let next = Reading::new("ton", node)
        .after(&BlockRef::new(12, "", "", 0), &EventFilter::new([EventType::ContractEvent]));
    assert_eq!(next, Err(ReadError::Unreadable("the blocks of shards")));
}

// Shows (Events of chains).
#[test]
fn the_block_after_one_of_another_chain_names_its_own_parent() {
    let reading = node(|_| Vec::new());
    let next = reading.after(&BlockRef::new(11, "other", "", 0), &EventFilter::default()).unwrap().unwrap();
    assert_eq!(next.block, BlockRef::new(12, "m12", "m11", 1_700_000_000));
    assert_eq!(reading.at(&BlockRef::new(11, "other", "", 0)).unwrap().unwrap().hash, "m11");
    assert_eq!(reading.after(&BlockRef::new(13, "m13", "m12", 0), &EventFilter::default()), Ok(None));
    assert_eq!(reading.head().map(|head| head.height), Ok(13));
}

// Shows (Events of chains).
#[test]
fn all_pages_of_a_block_of_ton_are_read() {
    let rows =
        || (1..=7).map(|lt| transaction(0xfb, lt, message(&account(2), &account(0xfb), "5", ""), json!([])));
    let reading = node(move |name| if name == "w5" { rows().collect() } else { Vec::new() });
    let told = reading.events(&BlockRef::new(9, "m9", "", 0), EventType::TokenTransfer);
    let lts: Vec<_> = told.iter().map(|event| event.data["lt"].as_u64().unwrap()).collect();
    assert_eq!(lts, (1..=7).collect::<Vec<_>>());
    let endless = node(|_| vec![transaction(1, 1, Value::Null, json!([])); 3]);
    let endless = Reading::new(
        "ton",
        ScriptedNode::new(move |path, params| {
            let mut answer = endless.node.answer(path.split("&after").next().unwrap(), params)?;
            if path.contains("Ext") {
                answer["result"]["incomplete"] = json!(true);
            }
            Ok(answer)
        }),
    );
    let next = endless.after(&BlockRef::new(9, "m9", "", 0), &EventFilter::new([EventType::TokenTransfer]));
    assert_eq!(next, Err(ReadError::Unreadable("the transactions of a block")));
}

/// Returns the body of a jetton message: the operation, an amount of 2,000, and the account 0x77 as the sender.
fn jettons(operation: u32) -> String {
    let mut bits: Vec<bool> = Vec::new();
    let mut put =
        |value: u128, width: u32| bits.extend((0..width).rev().map(|place| value >> place & 1 == 1));
    put(operation.into(), 32);
    put(9, 64);
    put(2, 4);
    put(2_000, 16);
    put(0b100, 3);
    put(0, 8);
    for _ in 0..32 {
        put(0x77, 8);
    }
    // No address for the answer, and nothing forwarded.
    put(0, 2 + 4 + 1);
    let odd = !bits.len().is_multiple_of(8);
    if odd {
        bits.push(true);
    }
    while !bits.len().is_multiple_of(8) {
        bits.push(false);
    }
    let bytes: Vec<u8> =
        bits.chunks(8).map(|bits| bits.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit))).collect();
    let size = u8::try_from(2 * bytes.len()).unwrap() - u8::from(odd);
    let cells = [&[0, size], &bytes[..]].concat();
    STANDARD.encode(
        [&[0xb5, 0xee, 0x9c, 0x72, 1, 1, 1, 1, 0, u8::try_from(cells.len()).unwrap(), 0], &cells[..]]
            .concat(),
    )
}

// Shows (Events of chains).
#[test]
fn jettons_are_reported_where_they_arrive_unless_the_message_is_returned() {
    let arrives = || message(&account(2), &account(1), "0", &jettons(0x178d_4519));
    let notified = message(&account(1), &account(3), "1", &jettons(0x7362_d09c));
    let returned = message(&account(1), &account(2), "0", "te6cckEBAQEABgAACP/////btDe4");
    let told = |outgoing: Value| {
        let incoming = arrives();
        let reading = node(move |name| match name {
            "w5" => vec![transaction(1, 4, incoming.clone(), outgoing.clone())],
            _ => Vec::new(),
        });
        data(&reading.events(&BlockRef::new(9, "m9", "", 0), EventType::TokenTransfer))
    };
    let transfer = json!({
        "tx_hash": "t4", "lt": 4, "token": "jetton", "jetton_wallet": account(1), "value": "2000",
        "from": account(0x77),
    });
    assert_eq!(told(json!([])), std::slice::from_ref(&transfer));
    let mut known = transfer;
    known["to"] = account(3).into();
    assert_eq!(told(json!([notified])), [known]);
    assert_eq!(told(json!([returned])), [Value::Null; 0]);
}

/// Returns a transaction whose contract ran, in Base64: a cell with one of its messages and one of its description.
fn phases(is_success: bool) -> Value {
    let aborted = if is_success { 0x10 } else { 0x90 };
    let cells = [2, 2, 0x70, 1, 2, 0, 0, 0, 5, 0x01, 0x00, aborted];
    STANDARD.encode([&[0xb5, 0xee, 0x9c, 0x72, 1, 1, 3, 1, 0, 12, 0][..], &cells].concat()).into()
}

// Shows (Webhooks).
#[test]
fn a_ton_transaction_shows_its_success_and_a_failed_one_moves_no_jettons() {
    for (data, success, jettons_told) in [
        (phases(true), json!(true), 1),
        (phases(false), json!(false), 0),
        (json!("te6c"), Value::Null, 1),
        (Value::Null, Value::Null, 1),
    ] {
        let reading = node(move |name| match name {
            "w5" => {
                let arrives = message(&account(2), &account(1), "0", &jettons(0x178d_4519));
                let mut tx = transaction(1, 4, arrives, json!([]));
                tx["data"] = data.clone();
                vec![tx]
            }
            _ => Vec::new(),
        });
        let known = BlockRef::new(9, "m9", "", 0);
        let activity = reading.events(&known, EventType::AddressActivity);
        assert!(activity.iter().all(|event| event.data.get("success").unwrap_or(&Value::Null) == &success));
        assert_eq!(activity.len(), 2);
        assert_eq!(reading.events(&known, EventType::TokenTransfer).len(), jettons_told, "{success}");
    }
}

// Shows (Events of chains).
#[test]
fn an_unreadable_address_of_ton_is_rejected() {
    let reading = node(|_| vec![transaction(1, 4, message("0:zz", "", "1", ""), json!([]))]);
    let next = reading.after(&BlockRef::new(9, "m9", "", 0), &EventFilter::new([EventType::TokenTransfer]));
    assert_eq!(next, Err(ReadError::Unreadable("an address")));
    let fails =
        ScriptedNode::new(|_, _| Ok(json!({ "ok": false, "error": "LITE_SERVER_NETWORK", "code": 503 })));
    let expected = ReadError::Refused { code: 503, message: "LITE_SERVER_NETWORK".into() };
    assert_eq!(Reading::new("ton", fails).head(), Err(expected));
}

// Shows (Events of chains).
#[test]
fn filters_of_ton_have_one_form() {
    let reader = Reader::of("ton");
    let raw = "0:24c6ec9b69e05f95b8185b7be042f70583201055c2ed5d9c1dae978b36acd9d3";
    for text in [
        raw,
        "EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000c",
        "UQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ0xDZ",
    ] {
        for key in ["address", "from", "to", "jetton_wallet"] {
            assert_eq!(reader.canonical(key, text).as_deref(), Some(raw));
        }
    }
    assert_eq!(reader.canonical("address", "EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000d"), None);
    assert_eq!(reader.canonical("token", "TON").as_deref(), Some("TON"));
}
