use crate::stream::{PUSHES, SUBSCRIPTIONS};
use crate::testing::client::Client;
use crate::testing::golden::NOW;
use crate::{Simulated, SimulatedRequest};
use serde_json::{Value, json};
use std::time::Duration;

const SIGNED: &str = include_str!("../../../golden/xrp.json");
const GENESIS: &str = "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh";

#[track_caller]
fn success(client: &mut Client, frame: Value) -> Value {
    let answer = client.ask(frame);
    assert_eq!((&answer["status"], &answer["type"]), (&json!("success"), &json!("response")), "{answer}");
    answer["result"].clone()
}

/// Returns the answer of the same node over HTTP.
fn http(node: &mut dyn Simulated, method: &str, params: &Value) -> Value {
    let body = json!({ "method": method, "params": [params] }).to_string();
    let request = SimulatedRequest { method: &http::Method::POST, path: "/", body: body.as_bytes() };
    serde_json::from_slice(&node.handle(&request, NOW).body).expect("JSON")
}

#[test]
fn commands_are_answered_as_over_http_in_an_envelope_with_the_id() {
    let mut client = Client::of("xrp");
    for (method, params) in [
        ("server_info", json!({ "api_version": 2 })),
        ("fee", json!({})),
        ("ledger", json!({ "ledger_index": "validated", "transactions": true, "expand": true })),
        ("account_info", json!({ "account": GENESIS })),
        ("account_info", json!({ "account": "rEhh6f9rj5UUBhFzGGaxS5zYU2CCqKFXBC", "api_version": 2 })),
        ("ping", json!({})),
        ("no_such", json!({})),
    ] {
        let over_http = http(&mut *client.node, method, &params)["result"].clone();
        for id in [json!(0), json!("a"), json!({ "x": [1] })] {
            let mut frame = params.clone();
            frame["id"] = id.clone();
            frame["command"] = json!(method);
            let answer = client.ask(frame.clone());
            assert_eq!((&answer["id"], &answer["type"]), (&id, &json!("response")), "{answer}");
            assert_eq!(answer["status"], over_http["status"], "{method}");
            assert_eq!(answer.get("api_version"), params.get("api_version"));
            if answer["status"] == "success" {
                let mut result = answer["result"].clone();
                result["status"] = json!("success");
                assert_eq!(result, over_http, "{method}");
            } else {
                assert_eq!(answer["request"], frame);
                for name in ["error", "error_code", "error_message", "account", "ledger_current_index"] {
                    assert_eq!(answer.get(name), over_http.get(name), "{method} {name}");
                }
            }
        }
    }
}

#[test]
fn frames_that_are_no_command_are_answered_as_rippled_does() {
    let mut client = Client::of("xrp");
    let answer = client.say("{nope").remove(0);
    assert_eq!(answer, json!({ "type": "error", "error": "jsonInvalid", "value": "{nope" }));
    for (frame, error) in [
        (json!({ "id": 1 }), "missingCommand"),
        (json!({ "id": 1, "command": 5 }), "missingCommand"),
        (json!({ "id": 1, "command": "fee", "api_version": 9 }), "invalid_API_version"),
        (json!({ "id": 1, "command": "stop" }), "noPermission"),
        (json!({ "id": 1, "command": "subscribe", "url": "http://h" }), "noPermission"),
        (json!({ "id": 1, "command": "subscribe", "streams": "ledger" }), "invalidParams"),
        (json!({ "id": 1, "command": "subscribe", "streams": ["ledgers"] }), "malformedStream"),
        (json!({ "id": 1, "command": "subscribe", "streams": ["peer_status"] }), "noPermission"),
        (json!({ "id": 1, "command": "subscribe", "accounts": [] }), "actMalformed"),
        (json!({ "id": 1, "command": "unsubscribe", "accounts": ["r"] }), "actMalformed"),
    ] {
        let answer = client.ask(frame.clone());
        assert_eq!((&answer["error"], &answer["id"]), (&json!(error), &json!(1)), "{frame}: {answer}");
    }
    let answer = client.ask(json!({ "command": "sign", "secret": "s", "tx_json": {} }));
    assert_eq!((&answer["request"]["secret"], answer.get("id")), (&json!("<masked>"), None));
}

#[test]
fn each_closed_ledger_is_pushed_within_nine_seconds() {
    let mut client = Client::of("xrp");
    let first =
        success(&mut client, json!({ "id": 1, "command": "subscribe", "streams": ["ledger", "server"] }));
    assert_eq!((&first["server_status"], first.get("type")), (&json!("full"), None));
    let mut index = first["ledger_index"].as_u64().expect("an index");
    for _ in 0..10 {
        let before = client.now;
        let pushed = client.wait();
        assert!(client.now.since(before) < Duration::from_secs(9));
        index += 1;
        let closed = &pushed[0];
        assert_eq!((&closed["type"], &closed["ledger_index"]), (&json!("ledgerClosed"), &json!(index)));
        let ledger = json!({ "id": 2, "command": "ledger", "ledger_index": index, "transactions": true });
        let ledger = success(&mut client, ledger)["ledger"].clone();
        assert_eq!(closed["ledger_hash"], ledger["ledger_hash"]);
        assert_eq!(closed["ledger_time"], ledger["close_time"]);
        assert_eq!(closed["txn_count"], ledger["transactions"].as_array().expect("hashes").len());
    }
    success(&mut client, json!({ "id": 3, "command": "unsubscribe", "streams": ["ledger", "server"] }));
    assert!(!client.is_waiting());
}

#[test]
fn transactions_are_pushed_to_their_accounts_and_to_the_stream() {
    let mut client = Client::of("xrp");
    let all: Value = serde_json::from_str(SIGNED).expect("a fixture");
    let tx = &all["pay"];
    success(&mut client, json!({ "id": 1, "command": "subscribe", "accounts": [GENESIS], "api_version": 2 }));
    success(&mut client, json!({ "id": 1, "command": "subscribe", "streams": ["transactions"] }));
    let sent = success(&mut client, json!({ "id": 2, "command": "submit", "tx_blob": tx["raw"] }));
    assert_eq!(sent["engine_result"], "tesSUCCESS");
    assert_eq!(client.node.submitted().len(), 1);
    let pushed = client.wait();
    let (to_account, to_stream): (Vec<_>, Vec<_>) =
        pushed.iter().partition(|one| one.get("tx_json").is_some());
    assert_eq!((to_account.len(), to_account[0]["hash"].clone()), (1, tx["hash"].clone()));
    assert!(to_stream.len() > 1);
    for told in pushed.iter() {
        assert_eq!((&told["type"], &told["validated"]), (&json!("transaction"), &json!(true)));
        assert_eq!(told["meta"]["TransactionResult"], told["engine_result"]);
    }
    let told = to_stream.iter().find(|told| told["transaction"]["hash"] == tx["hash"]).expect("the payment");
    let shown = success(&mut client, json!({ "id": 3, "command": "tx", "transaction": tx["hash"] }));
    assert_eq!((&shown["meta"], &shown["date"]), (&told["meta"], &told["transaction"]["date"]));
}

#[test]
fn subscriptions_are_bounded_and_named_twice_they_count_once() {
    let mut client = Client::of("xrp");
    let account = |n: usize| super::super::wire::address(&[n as u8; 20]);
    let accounts: Vec<_> = (0..SUBSCRIPTIONS).map(account).collect();
    for _ in 0..2 {
        success(&mut client, json!({ "id": 1, "command": "subscribe", "accounts": accounts }));
    }
    let refused = client.ask(json!({ "id": 1, "command": "subscribe", "streams": ["ledger"] }));
    assert_eq!(refused["error"], "slowDown");
    success(&mut client, json!({ "id": 1, "command": "unsubscribe", "accounts": accounts }));
    success(&mut client, json!({ "id": 1, "command": "subscribe", "streams": ["ledger", "transactions"] }));
    client.now = client.now.plus(Duration::from_secs(3_600));
    let pushed = client.wait();
    assert!((PUSHES..2 * PUSHES).contains(&pushed.len()), "{}", pushed.len());
}
