use super::WAITING;
use crate::testing::client::Client;
use serde_json::{Value, json};

/// Returns a call of the official client, whose ids are objects.
#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": { "requestId": "7" } })
}

#[track_caller]
fn result(client: &mut Client, method: &str, params: Value) -> Value {
    let answer = client.ask(call(method, params));
    assert_eq!(
        (&answer["method"], &answer["id"]),
        (&json!(method), &json!({ "requestId": "7" })),
        "{answer}"
    );
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

#[test]
fn a_client_follows_the_chain_from_an_intersection_and_waits_at_the_tip() {
    let mut client = Client::of("cardano");
    let tip = result(&mut client, "findIntersection", json!({ "points": ["origin"] }))["tip"].clone();
    let point = json!({ "slot": tip["slot"], "id": tip["id"] });
    let unknown = json!({ "slot": 1, "id": "00".repeat(32) });
    let found = result(&mut client, "findIntersection", json!({ "points": [unknown, point] }));
    assert_eq!((&found["intersection"], &found["tip"]), (&point, &tip));
    let back = result(&mut client, "nextBlock", json!({}));
    assert_eq!((&back["direction"], &back["point"]), (&json!("backward"), &point));
    // From the tip on, a call waits for a block. Ids may be of any kind, or missing.
    assert!(client.say(&call("nextBlock", json!({})).to_string()).is_empty());
    assert!(client.say(r#"{"jsonrpc":"2.0","method":"nextBlock"}"#).is_empty());
    let mut ancestor = tip["id"].clone();
    for id in [json!({ "requestId": "7" }), Value::Null] {
        let pushed = client.wait();
        assert_eq!(pushed.len(), 1);
        assert_eq!((&pushed[0]["id"], &pushed[0]["method"]), (&id, &json!("nextBlock")));
        let block = &pushed[0]["result"]["block"];
        assert_eq!((&block["ancestor"], &pushed[0]["result"]["direction"]), (&ancestor, &json!("forward")));
        assert_eq!(pushed[0]["result"]["tip"]["height"], block["height"]);
        ancestor = block["id"].clone();
    }
    assert!(!client.is_waiting());
    assert_eq!(result(&mut client, "queryNetwork/tip", json!({}))["id"], ancestor);
}

#[test]
fn blocks_follow_each_other_and_spend_what_earlier_ones_made() {
    let mut client = Client::of("cardano");
    let origin = result(&mut client, "nextBlock", json!({}));
    assert_eq!((&origin["direction"], &origin["point"]), (&json!("backward"), &json!("origin")));
    let blocks: Vec<_> =
        (0..40).map(|_| result(&mut client, "nextBlock", json!({}))["block"].clone()).collect();
    for pair in blocks.windows(2) {
        assert_eq!(pair[1]["ancestor"], pair[0]["id"]);
        assert!(pair[1]["slot"].as_u64() > pair[0]["slot"].as_u64());
    }
    let old = &blocks[10]["transactions"][0];
    let new = &blocks[26]["transactions"][0];
    for (index, spent) in new["inputs"].as_array().expect("inputs").iter().enumerate() {
        assert_eq!((&spent["transaction"]["id"], &spent["index"]), (&old["id"], &json!(index)));
    }
    let sum = |tx: &Value| -> u64 {
        let rows = tx["outputs"].as_array().expect("outputs");
        rows.iter().map(|row| row["value"]["ada"]["lovelace"].as_u64().expect("coins")).sum()
    };
    assert_eq!(sum(old), sum(new) + new["fee"]["ada"]["lovelace"].as_u64().expect("a fee"));
}

#[test]
fn tokens_are_minted_in_every_fourth_block_and_stay_at_one_output() {
    let mut client = Client::of("cardano");
    let mut known = Value::Null;
    result(&mut client, "nextBlock", json!({}));
    for _ in 0..9 {
        let block = result(&mut client, "nextBlock", json!({}))["block"].clone();
        let is_fourth = block["height"].as_u64().is_some_and(|height| height % 4 == 0);
        assert_eq!(block["transactions"].as_array().map(Vec::len), Some(if is_fourth { 2 } else { 1 }));
        if !is_fourth {
            continue;
        }
        let tx = block["transactions"][1].clone();
        if let Some(id) = known["id"].as_str() {
            assert_eq!(tx["inputs"][0], json!({ "transaction": { "id": id }, "index": 0 }));
            let tokens = |tx: &Value| -> u64 {
                let value = tx["outputs"][0]["value"].as_object().expect("assets").clone();
                let rows = value.values().flat_map(|assets| assets.as_object().expect("assets").values());
                let amounts: Vec<_> = rows.filter_map(Value::as_u64).collect();
                amounts.iter().filter(|amount| **amount < 1_000_000_000_000).sum()
            };
            assert_eq!(tokens(&tx), tokens(&known) + 1_000);
        }
        known = tx;
    }
    let address = known["outputs"][0]["address"].clone();
    let unspent = result(&mut client, "queryLedgerState/utxo", json!({ "addresses": [address] }));
    assert_eq!(unspent.as_array().map(Vec::len), Some(1));
    assert_eq!(unspent[0]["value"].as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn a_stream_answers_everything_that_http_answers() {
    let mut client = Client::of("cardano");
    for (method, params) in [
        ("queryNetwork/blockHeight", json!({})),
        ("queryLedgerState/epoch", json!({})),
        ("queryLedgerState/utxo", json!({ "addresses": [] })),
        ("no_such", json!({})),
        ("submitTransaction", json!({ "transaction": { "cbor": "00" } })),
    ] {
        let message = call(method, params).to_string();
        let (_, http) = crate::testing::golden::post(&mut *client.node, &message, client.now);
        assert_eq!(client.say(&message), [serde_json::from_str::<Value>(&http).expect("JSON")]);
    }
    assert_eq!(client.say("{nope")[0]["error"]["code"], -32_600);
}

#[test]
fn points_that_are_not_in_the_chain_are_refused() {
    let mut client = Client::of("cardano");
    let tip = result(&mut client, "queryNetwork/tip", json!({}));
    let acquired = result(&mut client, "acquireLedgerState", json!({ "point": tip }));
    assert_eq!((&acquired["acquired"], &acquired["point"]), (&json!("ledgerState"), &tip));
    assert_eq!(result(&mut client, "releaseLedgerState", Value::Null)["released"], "ledgerState");
    let unknown = json!({ "slot": tip["slot"], "id": "00".repeat(32) });
    for (method, params, code) in [
        ("findIntersection", json!({ "points": [unknown] }), 1_000),
        ("findIntersection", json!({ "points": [{ "slot": 1 }] }), -32_600),
        ("findIntersection", json!({ "points": 1 }), -32_600),
        ("acquireLedgerState", json!({ "point": unknown }), 2_000),
        ("acquireLedgerState", json!({ "point": "origin" }), 2_000),
    ] {
        assert_eq!(client.ask(call(method, params.clone()))["error"]["code"], code, "{method} {params}");
    }
}

#[test]
fn calls_that_wait_are_bounded() {
    let mut client = Client::of("cardano");
    let tip = result(&mut client, "queryNetwork/tip", json!({}));
    result(&mut client, "findIntersection", json!({ "points": [tip] }));
    result(&mut client, "nextBlock", json!({}));
    let next = call("nextBlock", json!({})).to_string();
    for _ in 0..WAITING {
        assert!(client.say(&next).is_empty());
    }
    assert_eq!(client.say(&next)[0]["error"]["code"], -32_600);
    assert_eq!(client.wait().len(), 1);
    assert!(client.say(&next).is_empty());
}
