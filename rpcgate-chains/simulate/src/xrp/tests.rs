use super::XrpNode;
use super::wire::{Fields, parse_address};
use crate::testing::golden::{NOW, assert_shape};
use crate::{EPOCH, NodeReply, Simulated, SimulatedRequest};
use rpcgate_core::clock::Time;
use serde_json::{Value, json};
use std::time::Duration;

/// Transactions that an official client signed with the key of the phrase "masterpassphrase".
const SIGNED: &str = include_str!("../../golden/xrp.json");
const GENESIS: &str = "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh";
/// The destination of their payments.
const PAYEE: &str = "rEhh6f9rj5UUBhFzGGaxS5zYU2CCqKFXBC";

fn later(seconds: u64) -> Time {
    NOW.plus(Duration::from_secs(seconds))
}

fn post(node: &mut XrpNode, body: &str, now: Time) -> NodeReply {
    node.handle(&SimulatedRequest { method: &http::Method::POST, path: "/", body: body.as_bytes() }, now)
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(node: &mut XrpNode, method: &str, params: Value, now: Time) -> Value {
    let reply = post(node, &json!({ "method": method, "params": [params] }).to_string(), now);
    assert_eq!((reply.status, reply.content_type), (200, "application/json"), "{method}");
    let answer: Value = serde_json::from_slice(&reply.body).expect("JSON");
    assert_eq!(answer.as_object().expect("an object").len(), 1, "a result alone");
    answer["result"].clone()
}

#[track_caller]
fn result(node: &mut XrpNode, method: &str, params: Value, now: Time) -> Value {
    let result = call(node, method, params, now);
    assert_eq!(result["status"], "success", "{method}: {result}");
    result
}

#[track_caller]
fn refusal(node: &mut XrpNode, method: &str, params: Value, now: Time) -> (String, Option<u64>) {
    let result = call(node, method, params, now);
    assert_eq!(result["status"], "error", "{method}: {result}");
    assert_eq!(result["request"]["command"], method);
    (result["error"].as_str().expect("a name").to_owned(), result["error_code"].as_u64())
}

fn signed(name: &str) -> (String, String) {
    let all: Value = serde_json::from_str(SIGNED).expect("a fixture");
    let text = |part: &str| all[name][part].as_str().expect("hex").to_owned();
    (text("raw"), text("hash"))
}

fn submit(node: &mut XrpNode, name: &str, now: Time) -> Value {
    result(node, "submit", json!({ "tx_blob": signed(name).0 }), now)
}

fn number(value: &Value) -> u64 {
    value.as_str().map_or_else(|| value.as_u64(), |text| text.parse().ok()).expect("a number")
}

#[test]
fn the_server_status_comes_in_both_forms() {
    let node = &mut XrpNode::new(1);
    let info = result(node, "server_info", json!({}), NOW)["info"].clone();
    let account = json!({ "duration_us": "1", "transitions": "1" });
    let real = json!({
        "build_version": "2", "complete_ledgers": "1-2", "hostid": "X", "initial_sync_duration_us": "1",
        "io_latency_ms": 1, "jq_trans_overflow": "0", "last_close": { "converge_time_s": 3.0, "proposers": 35 },
        "load_factor": 1, "network_id": 0, "peer_disconnects": "0", "peer_disconnects_resources": "0", "peers": 21,
        "ports": [{ "port": "51235", "protocol": ["peer"] }], "pubkey_node": "n9", "server_state": "full",
        "server_state_duration_us": "1",
        "state_accounting": {
            "connected": account, "disconnected": account, "full": account, "syncing": account, "tracking": account,
        },
        "time": "t", "uptime": 1,
        "validated_ledger": {
            "age": 1, "base_fee_xrp": 1e-5, "hash": "A", "reserve_base_xrp": 1, "reserve_inc_xrp": 0.2, "seq": 1,
        },
        "validation_quorum": 28,
    });
    assert_shape("server_info", &real, &info, &[]);
    assert!(info["pubkey_node"].as_str().expect("a key").starts_with('n'));
    let height = node.height(NOW);
    assert_eq!(info["validated_ledger"]["seq"], height);
    assert!(info["complete_ledgers"].as_str().expect("a range").ends_with(&format!("-{height}")));
    let later_info = result(node, "server_info", json!({}), later(8))["info"].clone();
    assert_eq!(later_info["validated_ledger"]["seq"], height + 2);
    assert_eq!(later_info["uptime"], 8);
    let state = result(node, "server_state", json!({}), NOW)["state"].clone();
    assert_eq!(state["validated_ledger"]["base_fee"], 10);
    assert_eq!(state["load_base"], 256);
    let fee = result(node, "fee", json!({}), NOW);
    assert_eq!(fee["drops"]["base_fee"], "10");
    let open = result(node, "ledger_current", json!({}), NOW)["ledger_current_index"].clone();
    assert_eq!(fee["ledger_current_index"], open);
    let random = |node: &mut XrpNode, now| result(node, "random", json!({}), now)["random"].clone();
    assert_ne!(random(node, later(20)), random(node, later(21)));
    assert_eq!(random(node, later(20)).as_str().map(str::len), Some(64));
}

#[test]
fn ledgers_link_and_list_transactions_that_are_found() {
    let node = &mut XrpNode::new(2);
    let head = node.height(NOW);
    let mut parent: Option<Value> = None;
    for index in head - 30..=head {
        let params = json!({ "ledger_index": index, "transactions": true, "expand": true });
        let answer = result(node, "ledger", params, NOW);
        let ledger = &answer["ledger"];
        assert_eq!((&answer["ledger_index"], &answer["validated"]), (&json!(index), &json!(true)));
        assert_eq!(ledger["ledger_index"], index.to_string());
        assert_eq!(answer["ledger_hash"], ledger["ledger_hash"]);
        if let Some(parent) = parent {
            assert_eq!(ledger["parent_hash"], parent["ledger_hash"]);
            assert_eq!(ledger["parent_close_time"], parent["close_time"]);
            assert!(number(&ledger["close_time"]) > number(&parent["close_time"]));
            let transactions = if index % 4 == 0 { 5 } else { 4 };
            assert_eq!(ledger["transactions"].as_array().map(Vec::len), Some(transactions));
            let burned = number(&parent["total_coins"]) - number(&ledger["total_coins"]);
            assert_eq!(burned, 12 * transactions as u64);
        }
        for tx in ledger["transactions"].as_array().expect("a list") {
            let found = result(node, "tx", json!({ "transaction": tx["hash"] }), NOW);
            assert_eq!((&found["ledger_index"], &found["meta"]), (&json!(index), &tx["metaData"]));
            assert_eq!((&found["Amount"], &found["date"]), (&tx["Amount"], &ledger["close_time"]));
        }
        let by_hash = result(node, "ledger", json!({ "ledger_hash": ledger["ledger_hash"] }), NOW);
        assert_eq!(by_hash["ledger_index"], index);
        parent = Some(ledger.clone());
    }
    let plain = result(node, "ledger", json!({ "ledger_index": "validated", "transactions": true }), NOW);
    let hashes = plain["ledger"]["transactions"].as_array().expect("a list");
    assert!(hashes.len() >= 4 && hashes.iter().all(Value::is_string));
    let both = result(node, "ledger", json!({}), NOW);
    assert_eq!(both["open"]["ledger"]["parent_hash"], both["closed"]["ledger"]["ledger_hash"]);
    let current = result(node, "ledger", json!({ "ledger_index": "current" }), NOW);
    assert_eq!(current["ledger_current_index"], head + 1);
    assert_eq!(current["validated"], false);
}

#[test]
fn a_residents_balance_moves_with_its_transactions() {
    let node = &mut XrpNode::new(3);
    let head = node.height(NOW);
    let at = json!({ "ledger_index": head, "transactions": true, "expand": true });
    let ledger = result(node, "ledger", at, NOW);
    let list = ledger["ledger"]["transactions"].as_array().expect("a list");
    for tx in list.iter().filter(|tx| tx["TransactionType"] == "Payment") {
        let mut account = |index: u64, whom: &Value| {
            let params = json!({ "account": whom, "ledger_index": index });
            result(node, "account_info", params, NOW)["account_data"].clone()
        };
        let before = account(head - 1, &tx["Account"]);
        let after = account(head, &tx["Account"]);
        assert_eq!(number(&before["Sequence"]), number(&tx["Sequence"]));
        assert_eq!(number(&after["Sequence"]), number(&tx["Sequence"]) + 1);
        let spent = number(&tx["Amount"]) + number(&tx["Fee"]);
        assert_eq!(number(&before["Balance"]) - number(&after["Balance"]), spent);
        assert_eq!(after["PreviousTxnID"], tx["hash"]);
        let got = number(&account(head, &tx["Destination"])["Balance"]);
        assert_eq!(got - number(&account(head - 1, &tx["Destination"])["Balance"]), number(&tx["Amount"]));
    }
}

#[test]
fn a_payment_of_a_real_client_is_validated_with_the_next_ledger() {
    let node = &mut XrpNode::new(4);
    let (raw, hash) = signed("pay");
    let head = node.height(NOW);
    let answer = submit(node, "pay", NOW);
    assert_eq!(answer["engine_result"], "tesSUCCESS");
    assert_eq!(answer["tx_json"]["hash"], hash);
    assert_eq!(answer["tx_blob"], raw);
    let real = json!({
        "accepted": true, "account_sequence_available": 2, "account_sequence_next": 2, "applied": true,
        "broadcast": true, "engine_result": "", "engine_result_code": 0, "engine_result_message": "",
        "kept": true, "open_ledger_cost": "10", "queued": false, "status": "success", "tx_blob": "",
        "tx_json": {
            "Account": "", "Amount": "", "Destination": "", "Fee": "", "Flags": 0, "Sequence": 1,
            "SigningPubKey": "", "TransactionType": "", "TxnSignature": "", "hash": "",
        },
        "validated_ledger_index": 1,
    });
    assert_shape("submit", &real, &answer, &[]);
    let waiting = result(node, "tx", json!({ "transaction": hash }), NOW);
    assert_eq!((&waiting["validated"], &waiting["meta"]), (&json!(false), &Value::Null));
    assert_eq!(
        refusal(node, "account_info", json!({ "account": PAYEE, "ledger_index": "validated" }), NOW),
        ("actNotFound".into(), Some(19))
    );
    assert!(result(node, "account_info", json!({ "account": PAYEE }), NOW)["validated"] == false);
    for name in ["pay2", "set"] {
        assert_eq!(submit(node, name, NOW)["engine_result"], "tesSUCCESS", "{name}");
    }
    let now = later(5);
    let tx = result(node, "tx", json!({ "transaction": hash }), now);
    assert_eq!((&tx["validated"], &tx["inLedger"]), (&json!(true), &json!(head + 1)));
    assert_eq!(tx["meta"]["TransactionResult"], "tesSUCCESS");
    assert_eq!(tx["meta"]["delivered_amount"], "25000000");
    let nodes = tx["meta"]["AffectedNodes"].as_array().expect("a list");
    assert_eq!(nodes[0]["ModifiedNode"]["PreviousFields"]["Balance"], "1000000000000");
    assert_eq!(nodes[0]["ModifiedNode"]["FinalFields"]["Balance"], "999974999990");
    assert_eq!(nodes[1]["CreatedNode"]["NewFields"]["Balance"], "25000000");
    let listed = result(node, "ledger", json!({ "ledger_index": head + 1, "transactions": true }), now);
    let place = number(&tx["meta"]["TransactionIndex"]) as usize;
    assert_eq!(listed["ledger"]["transactions"][place], hash);
    let info = |node: &mut XrpNode, account: &str| {
        let params = json!({ "account": account, "ledger_index": "validated", "api_version": 2 });
        result(node, "account_info", params, now)["account_data"].clone()
    };
    let payer = info(node, GENESIS);
    let payee = info(node, PAYEE);
    assert_eq!((&payer["Balance"], &payer["Sequence"]), (&json!("999973999968"), &json!(4)));
    assert_eq!((&payee["Balance"], &payee["Sequence"]), (&json!("26000000"), &json!(head + 1)));
    let second = result(node, "tx", json!({ "transaction": signed("pay2").1, "api_version": 2 }), now);
    assert_eq!(second["tx_json"]["Memos"][0]["Memo"]["MemoData"], "6869");
    assert_eq!(second["tx_json"]["DestinationTag"], 77);
    let binary = result(node, "tx", json!({ "transaction": hash, "binary": true }), now);
    assert_eq!(binary["tx"], raw);
    let meta =
        Fields::decode(&hex::decode(binary["meta"].as_str().expect("hex")).expect("hex")).expect("fields");
    assert_eq!(meta.number("TransactionIndex"), Some(place as u64));
}

#[test]
fn an_invalid_transaction_is_refused_with_the_reason() {
    let node = &mut XrpNode::new(5);
    let engine = |node: &mut XrpNode, name: &str| submit(node, name, NOW)["engine_result"].clone();
    assert_eq!(engine(node, "ahead"), "terPRE_SEQ");
    assert_eq!(engine(node, "old"), "tefMAX_LEDGER");
    assert_eq!(engine(node, "offer"), "temDISABLED");
    assert!(node.submitted().is_empty());
    for name in ["pay", "pay2", "set"] {
        assert_eq!(engine(node, name), "tesSUCCESS");
        assert_eq!(node.submitted().len(), 1);
    }
    assert_eq!(engine(node, "pay"), "tefPAST_SEQ");
    let dry = submit(node, "iou", NOW);
    assert_eq!((&dry["engine_result"], &dry["engine_result_code"]), (&json!("tecPATH_DRY"), &json!(128)));
    assert_eq!(dry["tx_json"]["Amount"]["value"], "12.5");
    let tx = result(node, "tx", json!({ "transaction": signed("iou").1 }), later(5));
    assert_eq!(tx["meta"]["TransactionResult"], "tecPATH_DRY");
    let mut raw = signed("ahead").0;
    raw.replace_range(60..62, "99");
    let broken = call(node, "submit", json!({ "tx_blob": raw }), NOW);
    assert_eq!(broken["error"], "invalidTransaction");
    assert_eq!(broken["error_exception"], "fails local checks: Invalid signature.");
    let cut = &signed("ahead").0[..80];
    assert_eq!(refusal(node, "submit", json!({ "tx_blob": cut }), NOW), ("invalidTransaction".into(), None));
    for wrong in [json!({}), json!({ "tx_blob": "xyz" }), json!({ "tx_blob": "" }), json!({ "tx_blob": 7 })] {
        assert_eq!(refusal(node, "submit", wrong, NOW), ("invalidParams".into(), Some(31)));
    }
    let secret = json!({ "tx_json": {}, "secret": "s" });
    let refused = call(node, "submit", secret, NOW);
    assert_eq!(
        (&refused["error"], &refused["request"]["secret"]),
        (&json!("notSupported"), &json!("<masked>"))
    );
}

#[test]
fn errors_are_inside_the_result_with_their_codes() {
    let node = &mut XrpNode::new(6);
    let head = node.height(NOW);
    let nobody = "rrrrrrrrrrrrrrrrrrrrrhoLvTp";
    assert!(parse_address(nobody).is_some());
    let zeros = "0".repeat(64);
    let rows = [
        ("no_such", json!({}), "unknownCmd", Some(32)),
        ("account_info", json!({}), "invalidParams", Some(31)),
        ("account_info", json!({ "account": "rBad" }), "actMalformed", Some(35)),
        ("account_info", json!({ "account": nobody }), "actNotFound", Some(19)),
        ("account_info", json!({ "account": GENESIS, "ledger_index": 5 }), "lgrNotFound", Some(21)),
        ("account_lines", json!({ "account": nobody }), "actNotFound", Some(19)),
        ("ledger", json!({ "ledger_index": head + 1 }), "lgrNotFound", Some(21)),
        ("ledger", json!({ "ledger_index": head - 400_000 }), "lgrNotFound", Some(21)),
        ("ledger", json!({ "ledger_hash": zeros }), "lgrNotFound", Some(21)),
        ("ledger", json!({ "ledger_hash": "12" }), "invalidParams", Some(31)),
        ("ledger", json!({ "ledger_index": "soon" }), "invalidParams", Some(31)),
        ("ledger", json!({ "ledger_index": "validated", "full": true }), "noPermission", Some(6)),
        ("tx", json!({ "transaction": zeros }), "txnNotFound", Some(29)),
        ("tx", json!({ "transaction": "12" }), "notImpl", Some(74)),
        ("tx", json!({}), "invalidParams", Some(31)),
        (
            "tx",
            json!({ "transaction": zeros, "min_ledger": 5, "max_ledger": 4 }),
            "invalidLgrRange",
            Some(79),
        ),
        (
            "tx",
            json!({ "transaction": zeros, "min_ledger": 5, "max_ledger": 4_000 }),
            "excessiveLgrRange",
            Some(78),
        ),
        ("ledger_entry", json!({}), "invalidParams", Some(31)),
        ("ledger_entry", json!({ "account_root": nobody }), "entryNotFound", None),
        ("sign", json!({}), "notSupported", Some(75)),
    ];
    for (method, params, name, code) in rows {
        let shown = params.to_string();
        assert_eq!(refusal(node, method, params, NOW), (name.to_owned(), code), "{method} {shown}");
    }
    let wrong = [
        ("{nope", 400),
        ("[]", 400),
        ("{}", 400),
        (r#"{"method":7}"#, 400),
        (r#"{"method":"fee","params":{}}"#, 400),
        (r#"{"method":"fee","params":[{"api_version":9}]}"#, 400),
        (r#"{"method":"stop"}"#, 403),
    ];
    for (body, status) in wrong {
        assert_eq!(post(node, body, NOW).status, status, "{body}");
    }
    assert_eq!(post(node, r#"{"method":"ping"}"#, NOW).body, b"{\"result\":{\"status\":\"success\"}}\n");
    assert_eq!(
        post(node, r#"{"method":"ping","id":"7"}"#, NOW).body,
        b"{\"result\":{\"status\":\"success\"},\"id\":\"7\"}\n"
    );
}

#[test]
fn ledgers_older_than_the_range_are_gone_and_the_range_moves() {
    let node = &mut XrpNode::new(7);
    let range = |node: &mut XrpNode, now| {
        let info = result(node, "server_info", json!({}), now);
        let text = info["info"]["complete_ledgers"].as_str().expect("a range").to_owned();
        text.split_once('-').and_then(|(low, _)| low.parse::<u64>().ok()).expect("a number")
    };
    let low = range(node, NOW);
    result(node, "ledger", json!({ "ledger_index": low }), NOW);
    assert_eq!(refusal(node, "ledger", json!({ "ledger_index": low - 1 }), NOW).0, "lgrNotFound");
    assert!(range(node, later(10_000)) > low);
    assert_eq!(refusal(node, "ledger", json!({ "ledger_index": low }), later(10_000)).0, "lgrNotFound");
}

#[test]
fn a_node_that_replays_its_submissions_is_the_same() {
    let mut first = XrpNode::new(8);
    let mut past = Vec::new();
    for (name, at) in [("pay", 0), ("pay2", 3), ("set", 60), ("iou", 61)] {
        submit(&mut first, name, later(at));
        past.extend(first.submitted());
    }
    assert_eq!(past.len(), 4);
    let mut second = XrpNode::new(8);
    second.replay(&past);
    assert!(second.submitted().is_empty());
    let now = later(100);
    for name in ["pay", "pay2", "set", "iou"] {
        let params = json!({ "transaction": signed(name).1, "api_version": 2 });
        assert_eq!(result(&mut first, "tx", params.clone(), now), result(&mut second, "tx", params, now));
    }
    let params = json!({ "account": GENESIS });
    assert_eq!(
        result(&mut first, "account_info", params.clone(), now),
        result(&mut second, "account_info", params, now)
    );
    assert_eq!(first.height(EPOCH), first.height(now), "time that steps back changes nothing");
}

#[test]
fn a_clock_far_in_the_past_is_harmless() {
    let node = &mut XrpNode::new(9);
    for now in [Time::default(), Time::from_secs(900_000_000), EPOCH] {
        let ledger =
            result(node, "ledger", json!({ "ledger_index": "validated", "transactions": true }), now);
        assert_eq!(number(&ledger["ledger_index"]), node.height(now));
    }
}
