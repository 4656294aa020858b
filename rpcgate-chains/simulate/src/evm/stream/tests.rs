use crate::stream::{PUSHES, SUBSCRIPTIONS, TOLD};
use crate::testing::client::{Client, read};
use crate::testing::golden::{NOW, result};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

const SIGNED: &str = include_str!("../../../golden/transactions.json");

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

#[track_caller]
fn subscribe(client: &mut Client, params: Value) -> String {
    let answer = client.ask(call("eth_subscribe", params));
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
    answer["result"].as_str().expect("an id").to_owned()
}

/// Checks that a message is a notification of the subscription, and returns its result.
#[track_caller]
fn told<'a>(message: &'a Value, id: &str) -> &'a Value {
    assert_eq!(message["method"], "eth_subscription", "{message}");
    assert_eq!(message["params"]["subscription"], *id, "{message}");
    assert!(message.get("id").is_none(), "{message}");
    &message["params"]["result"]
}

fn number(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).expect("a quantity");
    u64::from_str_radix(digits, 16).expect("hex")
}

#[test]
fn every_new_head_is_pushed_once_in_order_on_every_chain() {
    for chain in ["eth", "bsc", "polygon", "avax"] {
        let mut client = Client::of(chain);
        let id = subscribe(&mut client, json!(["newHeads"]));
        let first = number(&client.ask(call("eth_blockNumber", json!([])))["result"]);
        for height in first + 1..first + 10 {
            let before = client.now;
            let pushed = client.wait();
            assert_eq!(pushed.len(), 1);
            assert!(client.now.since(before) <= Duration::from_secs(5));
            let head = told(&pushed[0], &id);
            assert_eq!(number(&head["number"]), height, "{chain}");
            let block =
                client.ask(call("eth_getBlockByHash", json!([head["hash"], false])))["result"].clone();
            for (name, value) in head.as_object().expect("a header") {
                assert_eq!(block[name], *value, "{chain} {name}");
            }
            assert!(head.get("size").is_none() && head.get("transactions").is_none(), "{head}");
        }
    }
}

#[test]
fn matching_logs_are_pushed_as_get_logs_returns_them() {
    let mut client = Client::of("eth");
    let token = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
    let all = subscribe(&mut client, json!(["logs", { "address": token }]));
    let other =
        subscribe(&mut client, json!(["logs", { "address": "0x1111111111111111111111111111111111111111" }]));
    let mut logs = Vec::new();
    while logs.len() < 5 {
        for message in client.wait() {
            assert_ne!(message["params"]["subscription"], *other);
            logs.push(told(&message, &all).clone());
        }
    }
    for log in &logs {
        let filter = json!([{ "blockHash": log["blockHash"], "address": token }]);
        let found = client.ask(call("eth_getLogs", filter))["result"].clone();
        assert!(found.as_array().expect("logs").contains(log), "{log}: {found}");
    }
    let receiver = &logs[0]["topics"][2];
    let one = subscribe(&mut client, json!(["logs", { "topics": [null, null, [receiver]] }]));
    let found =
        (0..10_000).flat_map(|_| client.wait()).find(|message| message["params"]["subscription"] == *one);
    let found = found.expect("the receiver is paid again");
    assert_eq!(found["params"]["result"]["topics"][2], *receiver);
}

#[test]
fn pending_transactions_are_pushed_before_they_are_in_a_block() {
    let mut client = Client::of("eth");
    let hashes = subscribe(&mut client, json!(["newPendingTransactions"]));
    let whole = subscribe(&mut client, json!(["newPendingTransactions", true]));
    // A submission is reported to every client at once.
    let all: Value = serde_json::from_str(SIGNED).expect("a fixture");
    let raw = &all["eth"]["dynamic"]["raw"];
    let hash = &all["eth"]["dynamic"]["hash"];
    result(&mut *client.node, "eth_sendRawTransaction", json!([raw]), NOW);
    let pushed = client.wait();
    assert_eq!(client.now, NOW);
    assert_eq!(told(&pushed[0], &hashes), hash);
    let shown = told(&pushed[1], &whole);
    assert_eq!((&shown["hash"], &shown["blockHash"]), (hash, &Value::Null));
    // The traffic of the next block is reported too; it is pending until then.
    let pushed = client.wait();
    let hash = told(&pushed[0], &hashes).clone();
    let look_up = call("eth_getTransactionByHash", json!([hash]));
    let waiting = client.ask(look_up.clone())["result"].clone();
    assert_eq!((&waiting["hash"], &waiting["blockNumber"]), (&hash, &Value::Null));
    let shown =
        pushed.iter().find(|message| message["params"]["subscription"] == *whole).expect("the whole one");
    assert_eq!(told(shown, &whole), &waiting);
    client.wait();
    assert!(client.ask(look_up)["result"]["blockNumber"].is_string());
}

#[test]
fn an_ended_subscription_pushes_nothing_more() {
    let mut client = Client::of("eth");
    let one = subscribe(&mut client, json!(["newHeads"]));
    let two = subscribe(&mut client, json!(["newHeads"]));
    assert_ne!(one, two);
    assert_eq!(client.wait().len(), 2);
    assert_eq!(client.ask(call("eth_unsubscribe", json!([one])))["result"], true);
    let pushed = client.wait();
    assert_eq!(pushed.len(), 1);
    told(&pushed[0], &two);
    assert_eq!(
        client.ask(call("eth_unsubscribe", json!([one])))["error"]["message"],
        "subscription not found"
    );
    client.ask(call("eth_unsubscribe", json!([two])));
    assert!(!client.is_waiting());
}

#[test]
fn ordinary_calls_and_batches_are_answered_as_over_http() {
    let mut client = Client::of("eth");
    for text in [
        r#"{"jsonrpc":"2.0","id":"a","method":"eth_chainId"}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"},{"id":2,"method":"no_such"},{"method":"eth_chainId"}]"#,
        "{nope",
        "[]",
        r#"{"jsonrpc":"2.0","id":1}"#,
    ] {
        let (_, http) = crate::testing::golden::post(&mut *client.node, text, NOW);
        let answers = client.say(text);
        assert_eq!(answers, [serde_json::from_str::<Value>(&http).expect("JSON")], "{text}");
    }
    assert!(client.say(r#"{"method":"eth_chainId"}"#).is_empty(), "a notification");
    let batch =
        r#"[{"id":1,"method":"eth_subscribe","params":["newHeads"]},{"id":2,"method":"eth_chainId"}]"#;
    let answers = client.say(batch);
    assert!(answers[0][0]["result"].is_string() && answers[0][1]["result"] == "0x1", "{answers:?}");
    assert_eq!(client.wait().len(), 1);
}

#[test]
fn invalid_subscriptions_are_refused_and_subscriptions_are_bounded() {
    let mut client = Client::of("eth");
    for (params, code) in [
        (json!([]), -32602),
        (json!([5]), -32602),
        (json!(["newBlocks"]), -32601),
        (json!(["logs", { "topics": [1] }]), -32602),
        (json!(["newPendingTransactions", "yes"]), -32602),
    ] {
        assert_eq!(client.ask(call("eth_subscribe", params.clone()))["error"]["code"], code, "{params}");
    }
    let ids: HashSet<_> = (0..SUBSCRIPTIONS).map(|_| subscribe(&mut client, json!(["newHeads"]))).collect();
    assert_eq!(ids.len(), SUBSCRIPTIONS);
    let refused = client.ask(call("eth_subscribe", json!(["newHeads"])));
    assert_eq!(refused["error"]["message"], "too many subscriptions");
    // Messages beyond the limit of one push follow in the next push, at the same time.
    assert_eq!(client.wait().len(), PUSHES);
    let first = client.now;
    assert_eq!(client.wait().len(), SUBSCRIPTIONS - PUSHES);
    assert_eq!(client.now, first);
}

#[test]
fn a_stream_that_was_idle_for_long_pushes_only_the_newest_blocks() {
    let mut client = Client::of("eth");
    subscribe(&mut client, json!(["newHeads"]));
    client.now = client.now.plus(Duration::from_secs(86_400));
    let head = number(&client.ask(call("eth_blockNumber", json!([])))["result"]);
    let mut heights = Vec::new();
    let today = client.now;
    while client.now == today {
        heights.extend(client.wait().iter().map(|message| number(&message["params"]["result"]["number"])));
    }
    assert_eq!(heights, (head - TOLD + 1..=head + 1).collect::<Vec<_>>());
}

#[test]
fn a_rewound_stream_pushes_the_newest_block_again() {
    let mut client = Client::of("eth");
    subscribe(&mut client, json!(["newHeads"]));
    let pushed = client.wait();
    let id = client.id;
    let now = client.now;
    let streams = client.node.streams().expect("streams");
    for _ in 0..3 {
        streams.rewind(id);
        assert_eq!(read(streams.push(id, now)), pushed);
    }
    assert!(streams.push(id, now).is_empty());
    streams.close(id);
    assert!(streams.receive(id, b"{}", now).is_empty() && streams.push(id, now).is_empty());
}
