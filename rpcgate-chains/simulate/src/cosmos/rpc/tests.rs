use crate::SimulatedRequest;
use crate::stream::SUBSCRIPTIONS;
use crate::testing::client::Client;
use crate::testing::golden::NOW;
use serde_json::{Value, json};
use std::time::Duration;

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(id: Value, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[track_caller]
fn result(client: &mut Client, method: &str, params: Value) -> Value {
    let answer = client.ask(call(json!(7), method, params));
    assert!(answer["id"] == 7 && answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

#[track_caller]
fn refusal(client: &mut Client, method: &str, params: Value) -> (i64, String) {
    let answer = client.ask(call(json!(7), method, params));
    let data = answer["error"]["data"].as_str().unwrap_or_default().to_owned();
    (answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}")), data)
}

fn rest(client: &mut Client, path: &str) -> Value {
    let request = SimulatedRequest { method: &http::Method::GET, path, body: b"" };
    serde_json::from_slice(&client.node.handle(&request, client.now).body).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Converts Base64 to upper-case hex.
fn upper(value: &Value) -> String {
    hex::encode_upper(super::unbase64(text(value)).expect("base64"))
}

#[test]
fn a_block_is_the_same_over_rest_in_another_form() {
    let mut client = Client::of("cosmos");
    let height = result(&mut client, "status", json!({}))["sync_info"]["latest_block_height"].clone();
    let path = format!("/cosmos/base/tendermint/v1beta1/blocks/{}", text(&height));
    let plain = rest(&mut client, &path);
    let block = result(&mut client, "block", json!({ "height": height }));
    assert_eq!(block["block_id"]["hash"], upper(&plain["block_id"]["hash"]));
    let ours = &block["block"]["header"];
    let theirs = &plain["block"]["header"];
    for name in ["height", "time", "chain_id"] {
        assert_eq!(ours[name], theirs[name], "{name}");
    }
    for name in ["data_hash", "app_hash", "validators_hash", "proposer_address", "evidence_hash"] {
        assert_eq!(ours[name], upper(&theirs[name]), "{name}");
    }
    assert_eq!(block["block"]["data"], plain["block"]["data"]);
    let commit = &block["block"]["last_commit"];
    assert_eq!(commit["block_id"], ours["last_block_id"]);
    assert_eq!(
        commit["signatures"][0]["block_id_flag"].as_u64().map(|flag| (1..=2).contains(&flag)),
        Some(true)
    );
    // Parameters may also be in order, and the block be found by its hash.
    assert_eq!(result(&mut client, "block", json!([height])), block);
    let hash = &plain["block_id"]["hash"];
    assert_eq!(result(&mut client, "block_by_hash", json!({ "hash": hash })), block);
    assert_eq!(&result(&mut client, "header", json!({ "height": height }))["header"], ours);
    let metas = result(&mut client, "blockchain", json!({}))["block_metas"].clone();
    assert_eq!((metas.as_array().map(Vec::len), &metas[0]["header"]), (Some(20), ours));
}

#[test]
fn the_application_is_queried_by_its_grpc_methods() {
    let mut client = Client::of("cosmos");
    // A request with `denom: "uatom"` in field 1.
    let request = hex::encode([&[0x0a, 5][..], b"uatom"].concat());
    let path = "/cosmos.bank.v1beta1.Query/SupplyOf";
    let answer =
        result(&mut client, "abci_query", json!({ "path": path, "data": request }))["response"].clone();
    assert_eq!(answer["code"], 0);
    let value = super::unbase64(text(&answer["value"])).expect("base64");
    let supply = rest(&mut client, "/cosmos/bank/v1beta1/supply/by_denom?denom=uatom");
    let amount = text(&supply["amount"]["amount"]).as_bytes();
    assert!(value.windows(amount.len()).any(|part| part == amount), "{value:?}");
    for (path, data, code) in [("/no.such/Method", "", 6), (path, "ff", 18)] {
        let params = json!({ "path": path, "data": data });
        assert_eq!(result(&mut client, "abci_query", params)["response"]["code"], code, "{path}");
    }
    assert_eq!(refusal(&mut client, "abci_query", json!({ "path": path, "data": "x" })).0, -32602);
}

#[test]
fn new_blocks_are_pushed_within_ten_seconds_under_the_subscription_id() {
    let mut client = Client::of("cosmos");
    let id = json!(123_456_789_012_u64);
    let query = "tm.event='NewBlock'";
    let answer = client.ask(call(id.clone(), "subscribe", json!({ "query": query })));
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    let status = result(&mut client, "status", json!({}));
    let mut height: u64 = text(&status["sync_info"]["latest_block_height"]).parse().expect("a height");
    for _ in 0..5 {
        let before = client.now;
        let pushed = client.wait();
        assert!(client.now.since(before) < Duration::from_secs(10));
        height += 1;
        let told = &pushed[0]["result"];
        assert_eq!((&pushed[0]["id"], &told["query"]), (&id, &json!(query)));
        assert_eq!(told["data"]["type"], "tendermint/event/NewBlock");
        assert_eq!(told["events"], json!({ "tm.event": ["NewBlock"] }));
        let block = result(&mut client, "block", json!({ "height": height.to_string() }));
        assert_eq!(told["data"]["value"]["block"], block["block"]);
    }
    result(&mut client, "unsubscribe", json!({ "query": query }));
    assert!(!client.is_waiting());
}

#[test]
fn transactions_are_pushed_to_subscriptions_with_matching_conditions() {
    let mut client = Client::of("cosmos");
    let subscribe = |client: &mut Client, id: u64, query: &str| {
        let answer = client.ask(call(json!(id), "subscribe", json!({ "query": query })));
        assert_eq!(answer["result"], json!({}), "{answer}");
    };
    subscribe(&mut client, 1, "tm.event='Tx'");
    let mut pushed = client.wait();
    let told = pushed.remove(0)["result"].clone();
    let sender = &told["events"]["transfer.sender"][0];
    let hash = text(&told["events"]["tx.hash"][0]);
    let bytes = crate::cosmos::page::base64(hex::decode(hash).expect("hex"));
    let found = result(&mut client, "tx", json!({ "hash": bytes }));
    let shown = &told["data"]["value"]["TxResult"];
    assert_eq!((&found["tx"], &found["tx_result"]), (&shown["tx"], &shown["result"]));
    let query = format!("tx.height={} AND message.sender='{}'", text(&shown["height"]), text(sender));
    let searched = result(&mut client, "tx_search", json!({ "query": query, "per_page": "5" }));
    assert_eq!((&searched["total_count"], &searched["txs"][0]["hash"]), (&json!("1"), &json!(hash)));
    // The sender sends again, some blocks later.
    result(&mut client, "unsubscribe_all", json!({}));
    subscribe(&mut client, 2, &format!("tm.event='Tx' AND message.sender='{}'", text(sender)));
    subscribe(&mut client, 3, "tm.event='Tx' AND message.sender='cosmos1nobody'");
    let again = client.wait();
    assert_eq!((again.len(), &again[0]["id"]), (1, &json!(2)));
    assert!(again[0]["result"]["events"]["message.sender"].as_array().expect("senders").contains(sender));
}

#[test]
fn validators_and_results_are_paged_and_of_a_known_height() {
    let mut client = Client::of("cosmos");
    let first = result(&mut client, "validators", json!({ "per_page": "50" }));
    assert_eq!((&first["count"], &first["total"]), (&json!("50"), &json!("60")));
    let rest = result(&mut client, "validators", json!({ "per_page": "50", "page": "2" }));
    assert_eq!(rest["count"], "10");
    assert_eq!(refusal(&mut client, "validators", json!({ "page": "9" })).0, -32603);
    let height = first["block_height"].clone();
    let results = result(&mut client, "block_results", json!({ "height": height }));
    let commit = result(&mut client, "commit", json!({ "height": height }));
    assert_eq!((&results["height"], &commit["signed_header"]["commit"]["height"]), (&height, &height));
    for (height, why) in
        [("1", "lowest height"), ("0", "greater than 0"), ("99999999999", "less than or equal")]
    {
        let (code, data) = refusal(&mut client, "block", json!({ "height": height }));
        assert!(code == -32603 && data.contains(why), "{data}");
    }
    assert_eq!(result(&mut client, "health", json!({})), json!({}));
    assert_eq!(result(&mut client, "net_info", json!({}))["listening"], true);
}

#[test]
fn a_broadcast_is_checked_and_an_invalid_one_gets_the_reason() {
    let mut client = Client::of("cosmos");
    let answer = result(&mut client, "broadcast_tx_sync", json!({ "tx": "AAAA" }));
    assert_eq!((&answer["code"], &answer["codespace"]), (&json!(2), &json!("sdk")));
    assert_eq!(text(&answer["hash"]).len(), 64);
    assert_eq!(result(&mut client, "broadcast_tx_async", json!({ "tx": "AAAA" }))["code"], 0);
    assert_eq!(refusal(&mut client, "broadcast_tx_sync", json!({ "tx": "?" })).0, -32602);
    assert!(client.node.submitted().is_empty());
}

#[test]
fn an_invalid_request_is_refused_and_one_without_an_id_is_ignored() {
    let mut client = Client::of("cosmos");
    for (text, code) in [
        ("{nope", -32700),
        ("[]", -32700),
        (r#"[{"id":1,"method":"health"}]"#, -32700),
        (r#"{"id":1}"#, -32600),
    ] {
        assert_eq!(client.say(text)[0]["error"]["code"], code, "{text}");
    }
    assert!(client.say(r#"{"jsonrpc":"2.0","method":"health"}"#).is_empty());
    assert!(
        client.say(r#"{"jsonrpc":"2.0","method":"subscribe","params":{"query":"tm.event='Tx'"}}"#).is_empty()
    );
    assert!(!client.is_waiting());
    assert_eq!(refusal(&mut client, "no_such", json!({})).0, -32601);
    assert_eq!(refusal(&mut client, "block", json!("x")).0, -32602);
    assert_eq!(refusal(&mut client, "block", json!([1, 2])).0, -32602);
}

#[test]
fn subscriptions_are_bounded_and_a_query_counts_once() {
    let mut client = Client::of("cosmos");
    let subscribe = |client: &mut Client, n: usize| {
        client.ask(call(
            json!(n),
            "subscribe",
            json!({ "query": format!("tm.event='Tx' AND tx.height>{n}") }),
        ))
    };
    for n in 0..SUBSCRIPTIONS {
        assert_eq!(subscribe(&mut client, n)["result"], json!({}));
    }
    assert_eq!(subscribe(&mut client, SUBSCRIPTIONS)["error"]["code"], -32603);
    result(&mut client, "unsubscribe", json!({ "query": "tm.event='Tx' AND tx.height>0" }));
    assert_eq!(subscribe(&mut client, 1)["error"]["data"], "already subscribed");
    assert_eq!(refusal(&mut client, "unsubscribe", json!({ "query": "a='b'" })).1, "subscription not found");
    assert_eq!(refusal(&mut client, "subscribe", json!({ "query": "a" })).0, -32603);
    assert_eq!(client.now, NOW);
}
