use crate::SimulatedRequest;
use crate::hash::{base58, from_base58};
use crate::stream::SUBSCRIPTIONS;
use crate::testing::client::Client;
use crate::testing::golden::{NOW, post};
use serde_json::{Value, json};
use std::time::Duration;

const SYSTEM: &str = "11111111111111111111111111111111";

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "7", "method": method, "params": params })
}

#[track_caller]
fn result(client: &mut Client, method: &str, params: Value) -> Value {
    let answer = client.ask(call(method, params));
    assert!(answer["id"] == "7" && answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

#[track_caller]
fn told<'a>(message: &'a Value, method: &str, id: &Value) -> &'a Value {
    assert_eq!((&message["method"], &message["params"]["subscription"]), (&json!(method), id), "{message}");
    &message["params"]["result"]
}

#[test]
fn slots_and_roots_are_pushed_several_times_a_second() {
    let mut client = Client::of("solana");
    let slots = result(&mut client, "slotSubscribe", json!([]));
    let mut slot =
        result(&mut client, "getSlot", json!([{ "commitment": "processed" }])).as_u64().expect("a slot");
    let start = client.now;
    for _ in 0..20 {
        let pushed = client.wait();
        slot += 1;
        let expected = json!({ "parent": slot - 1, "root": slot - 31, "slot": slot });
        assert_eq!(told(&pushed[0], "slotNotification", &slots), &expected);
    }
    assert!(client.now.since(start) < Duration::from_secs(9));
    assert_eq!(result(&mut client, "slotUnsubscribe", json!([slots])), true);
    let roots = result(&mut client, "rootSubscribe", Value::Null);
    assert_ne!(roots, slots);
    let pushed = client.wait();
    assert_eq!(told(&pushed[0], "rootNotification", &roots), &json!(slot + 1 - 31));
    assert_eq!(result(&mut client, "getSlot", json!([])), json!(slot + 1 - 31));
}

#[test]
fn a_transfer_is_pushed_by_its_logs_its_accounts_and_its_signature() {
    let mut client = Client::of("solana");
    let processed = json!({ "commitment": "processed", "encoding": "base64" });
    let logs = result(&mut client, "logsSubscribe", json!(["all", processed]));
    let program = result(&mut client, "programSubscribe", json!([SYSTEM, processed]));
    let pushed = client.wait();
    let of = |method: &str| pushed.iter().filter(|one| one["method"] == method).cloned().collect::<Vec<_>>();
    let first = &of("logsNotification")[0];
    let changed = &of("programNotification")[0];
    let first = told(first, "logsNotification", &logs);
    let changed = told(changed, "programNotification", &program);
    let signature = first["value"]["signature"].clone();
    assert_eq!(
        (&first["value"]["err"], first["value"]["logs"].as_array().map(Vec::len)),
        (&Value::Null, Some(2))
    );
    let key = &changed["value"]["pubkey"];
    let account = &changed["value"]["account"];
    let shown = result(&mut client, "getAccountInfo", json!([key, processed]));
    assert_eq!(&shown["value"], account);
    assert_eq!(result(&mut client, "getBalance", json!([key, processed]))["value"], account["lamports"]);
    for id in [(&logs, "logsUnsubscribe"), (&program, "programUnsubscribe")] {
        result(&mut client, id.1, json!([id.0]));
    }
    // The next notification follows the account's next change.
    let watched = result(&mut client, "accountSubscribe", json!([key, processed]));
    let mentioned = result(&mut client, "logsSubscribe", json!([{ "mentions": [key] }, processed]));
    let pushed = client.wait();
    let value = &told(&pushed[0], "accountNotification", &watched)["value"];
    assert_ne!(value["lamports"], account["lamports"]);
    assert_eq!(value["data"], json!(["", "base64"]));
    told(&pushed[1], "logsNotification", &mentioned);
    result(&mut client, "accountUnsubscribe", json!([watched]));
    result(&mut client, "logsUnsubscribe", json!([mentioned]));
    // A signature is reported once, at its commitment.
    let status = result(&mut client, "getSignatureStatuses", json!([[signature]]))["value"][0].clone();
    let sent = status["slot"].as_u64().expect("a slot");
    let confirmed =
        result(&mut client, "signatureSubscribe", json!([signature, { "commitment": "finalized" }]));
    let pushed = client.wait();
    let finalized = told(&pushed[0], "signatureNotification", &confirmed);
    assert_eq!(finalized["value"], json!({ "err": null }));
    assert!(finalized["context"]["slot"].as_u64() >= Some(sent));
    assert!(!client.is_waiting());
    assert_eq!(
        result(&mut client, "getSignatureStatuses", json!([[signature]]))["value"][0]["confirmationStatus"],
        "finalized"
    );
}

#[test]
fn a_ping_without_an_id_is_harmless() {
    let mut client = Client::of("solana");
    assert!(client.say(r#"{"jsonrpc":"2.0","method":"ping"}"#).is_empty());
    assert_eq!(client.ask(call("ping", Value::Null))["error"]["code"], -32601);
    assert_eq!(result(&mut client, "getHealth", Value::Null), "ok");
}

#[test]
fn invalid_subscriptions_are_refused_and_subscriptions_are_bounded() {
    let mut client = Client::of("solana");
    for (method, params, code) in [
        ("accountSubscribe", json!([]), -32602),
        ("accountSubscribe", json!(["0"]), -32602),
        ("accountSubscribe", json!([SYSTEM, { "encoding": "x" }]), -32602),
        ("accountSubscribe", json!([SYSTEM, { "commitment": "max" }]), -32602),
        ("logsSubscribe", json!(["some"]), -32602),
        ("logsSubscribe", json!([{ "mentions": [] }]), -32602),
        ("signatureSubscribe", json!([SYSTEM]), -32602),
        ("slotUnsubscribe", json!([9]), -32602),
        ("blockSubscribe", json!(["all"]), -32601),
    ] {
        assert_eq!(client.ask(call(method, params.clone()))["error"]["code"], code, "{method} {params}");
    }
    assert_eq!(client.say("{nope")[0]["error"]["code"], -32700);
    for _ in 0..SUBSCRIPTIONS {
        result(&mut client, "slotSubscribe", json!([]));
    }
    assert_eq!(client.ask(call("slotSubscribe", json!([])))["error"]["code"], -32603);
}

#[test]
fn calls_are_answered_over_http_and_in_batches_too() {
    let mut client = Client::of("solana");
    for (method, params) in [
        ("getVersion", json!([])),
        ("getLatestBlockhash", json!([{ "commitment": "confirmed" }])),
        ("getEpochInfo", json!([])),
        ("getBlockTime", json!([390_000_000])),
        ("getMinimumBalanceForRentExemption", json!([0])),
        ("getBalance", json!([SYSTEM])),
    ] {
        let text = call(method, params).to_string();
        let (status, body) = post(&mut *client.node, &text, NOW);
        let http: Value = serde_json::from_str(&body).expect("JSON");
        assert!(status == 200 && http["result"].is_object() || http["result"].is_u64(), "{http}");
        assert_eq!(client.say(&text), [http]);
    }
    let hash = result(&mut client, "getLatestBlockhash", json!([]))["value"]["blockhash"].clone();
    let hash: [u8; 32] = from_base58(hash.as_str().expect("a text")).expect("32 bytes");
    assert_eq!(base58(&hash).len(), base58(&hash).trim().len());
    let answers =
        client.say(r#"[{"id":1,"method":"getSlot"},{"method":"ping"},{"id":2,"method":"slotSubscribe"}]"#);
    assert_eq!(answers[0].as_array().map(Vec::len), Some(2));
    let request = SimulatedRequest { method: &http::Method::GET, path: "/health", body: b"" };
    assert_eq!(client.node.handle(&request, NOW).body, b"ok");
    assert_eq!(client.node.height(NOW), answers[0][0]["result"].as_u64().expect("a slot") + 31);
}

#[test]
fn finalized_blocks_have_transactions_whose_balances_add_up() {
    let mut client = Client::of("solana");
    let head = result(&mut client, "getSlot", json!([])).as_u64().expect("a slot");
    let slots = result(&mut client, "getBlocks", json!([head - 3]));
    assert_eq!(slots, json!([head - 3, head - 2, head - 1, head]));
    assert_eq!(result(&mut client, "getBlocks", json!([head - 3, head - 2])), json!([head - 3, head - 2]));
    assert_eq!(result(&mut client, "getBlocksWithLimit", json!([head - 3, 2])), json!([head - 3, head - 2]));
    assert_eq!(result(&mut client, "getBlocksWithLimit", json!([head + 1, 2])), json!([]));
    let options = json!({ "maxSupportedTransactionVersion": 0 });
    let before = result(&mut client, "getBlock", json!([head - 1, { "transactionDetails": "none" }]));
    let block = result(&mut client, "getBlock", json!([head, options]));
    assert_eq!((&block["previousBlockhash"], &block["parentSlot"]), (&before["blockhash"], &json!(head - 1)));
    assert!(before.get("transactions").is_none());
    let signatures = result(&mut client, "getBlock", json!([head, { "transactionDetails": "signatures" }]));
    let transactions = block["transactions"].as_array().expect("transactions");
    for (tx, signature) in transactions.iter().zip(signatures["signatures"].as_array().expect("signatures")) {
        assert_eq!(tx["transaction"]["signatures"][0], *signature);
        let meta = &tx["meta"];
        let keys = &tx["transaction"]["message"]["accountKeys"];
        let sum = |name: &str| -> u64 {
            let rows = meta[name].as_array().expect("balances");
            assert_eq!(rows.len(), keys.as_array().expect("keys").len());
            rows.iter().map(|row| row.as_u64().expect("lamports")).sum()
        };
        assert_eq!(sum("preBalances"), sum("postBalances") + meta["fee"].as_u64().expect("a fee"));
        let tokens = |name: &str| -> u64 {
            let rows = meta[name].as_array().expect("balances").iter();
            let amount = |row: &Value| row["uiTokenAmount"]["amount"].as_str().map(str::parse);
            rows.map(|row| amount(row).expect("a text").unwrap_or(0u64)).sum()
        };
        assert_eq!(tokens("preTokenBalances"), tokens("postTokenBalances"));
    }
    for (params, code) in [
        (json!([head + 1]), -32004),
        (json!([1]), -32001),
        (json!([]), -32602),
        (json!([head, { "encoding": "base64" }]), -32602),
        (json!([head, { "transactionDetails": "accounts" }]), -32602),
        (json!([head, { "commitment": "processed" }]), -32602),
    ] {
        assert_eq!(client.ask(call("getBlock", params.clone()))["error"]["code"], code, "{params}");
    }
    assert_eq!(client.ask(call("getBlocks", json!([0, 600_000])))["error"]["code"], -32602);
}
