use super::NearNode;
use super::chain::EPOCH_LENGTH;
use super::tx::sha256;
use crate::hash::{base58, from_base58};
use crate::testing::golden::{NOW, assert_shape, call, post, result};
use crate::{EPOCH, Simulated, SimulatedRequest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rpcgate_core::clock::Time;
use serde_json::{Value, json};
use std::time::Duration;

const KEY: &str = "ed25519:6ASf5EcmmEHTgDJ4X4ZT5vT6iHVJBXPg5AN5YoTCpGWt";
const NEAR: u128 = 10u128.pow(24);

fn later(millis: u64) -> Time {
    NOW.plus(Duration::from_millis(millis))
}

#[track_caller]
fn refusal(node: &mut NearNode, method: &str, params: Value, now: Time) -> (String, i64) {
    let answer = call(node, method, params, now);
    let error = &answer["error"];
    let cause =
        error["cause"]["name"].as_str().unwrap_or_else(|| panic!("{method} did not refuse: {answer}"));
    assert!(error["cause"]["info"].is_object() && error["message"].is_string(), "{error}");
    (cause.to_owned(), error["code"].as_i64().expect("a code"))
}

/// Returns a signed transaction of `test.near` in hand-written Borsh.
fn signed(secret: u8, receiver: &str, nonce: u64, block: &Value, actions: &[Vec<u8>]) -> (String, String) {
    let mut seed = [0; 32];
    seed[31] = secret;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a key");
    let mut body = Vec::new();
    let text = |text: &str, body: &mut Vec<u8>| {
        body.extend_from_slice(&(text.len() as u32).to_le_bytes());
        body.extend_from_slice(text.as_bytes());
    };
    text("test.near", &mut body);
    body.push(0);
    body.extend_from_slice(pair.public_key().as_ref());
    body.extend_from_slice(&nonce.to_le_bytes());
    text(receiver, &mut body);
    body.extend_from_slice(&from_base58::<32>(block.as_str().expect("a hash")).expect("32 bytes"));
    body.extend_from_slice(&(actions.len() as u32).to_le_bytes());
    body.extend(actions.iter().flatten());
    let hash = sha256(&[&body]);
    body.push(0);
    body.extend_from_slice(pair.sign(&hash).as_ref());
    (STANDARD.encode(body), base58(&hash))
}

fn transfer(amount: u128) -> Vec<u8> {
    [&[3], &amount.to_le_bytes()[..]].concat()
}

fn function_call(method: &str, args: &str, deposit: u128) -> Vec<u8> {
    let mut out = vec![2];
    for part in [method, args] {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(&30_000_000_000_000u64.to_le_bytes());
    out.extend_from_slice(&deposit.to_le_bytes());
    out
}

fn head(node: &mut NearNode, now: Time) -> Value {
    result(node, "block", json!({ "finality": "optimistic" }), now)["header"].clone()
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn amount(node: &mut NearNode, account: &str, block: Value, now: Time) -> u128 {
    let params = json!({ "request_type": "view_account", "account_id": account, "block_id": block });
    let amount = result(node, "query", params, now)["amount"].clone();
    amount.as_str().and_then(|digits| digits.parse().ok()).expect("a number")
}

fn look(node: &mut NearNode, method: &str, args: Value, now: Time) -> Value {
    look_at(node, "usdt.tether-token.near", method, args, now)
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn look_at(node: &mut NearNode, contract: &str, method: &str, args: Value, now: Time) -> Value {
    let params = json!({
        "request_type": "call_function", "account_id": contract, "method_name": method,
        "args_base64": STANDARD.encode(args.to_string()), "finality": "optimistic",
    });
    let bytes: Vec<u8> =
        serde_json::from_value(result(node, "query", params, now)["result"].clone()).expect("bytes");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn the_node_reports_its_status() {
    let node = &mut NearNode::new(1);
    let status = result(node, "status", json!([]), NOW);
    let real = json!({
        "chain_id": "", "detailed_debug_status": null, "genesis_hash": "", "latest_protocol_version": 1,
        "node_key": null, "node_public_key": "", "protocol_version": 1, "rpc_addr": "",
        "sync_info": {
            "earliest_block_hash": "", "earliest_block_height": 1, "earliest_block_time": "", "epoch_id": "",
            "epoch_start_height": 1, "latest_block_hash": "", "latest_block_height": 1, "latest_block_time": "",
            "latest_state_root": "", "syncing": false,
        },
        "uptime_sec": 0, "validator_account_id": null, "validator_public_key": null,
        "validators": [{ "account_id": "", "is_slashed": false }],
        "version": { "build": "", "commit": "", "rustc_version": "", "version": "" },
    });
    assert_shape("status", &real, &status, &[]);
    assert_eq!(status["sync_info"]["latest_block_height"], node.height(NOW));
    let block = head(node, NOW);
    assert_eq!(status["sync_info"]["latest_block_hash"], block["hash"]);
    assert_eq!(status["sync_info"]["epoch_id"], block["epoch_id"]);
    assert!(
        result(node, "status", json!([]), later(12_000))["sync_info"]["latest_block_height"].as_u64()
            == Some(node.height(NOW))
    );
    let info = result(node, "network_info", json!([]), NOW);
    assert_eq!(
        info["active_peers"].as_array().map(Vec::len).map(|n| json!(n)),
        Some(info["num_active_peers"].clone())
    );
    assert_eq!(result(node, "gas_price", json!([null]), NOW), json!({ "gas_price": "100000000" }));
    assert_eq!(result(node, "health", json!([]), NOW), Value::Null);
    let get = SimulatedRequest { method: &http::Method::GET, path: "/status", body: b"" };
    assert_eq!(node.handle(&get, NOW).status, 200);
}

/// The first examples of most clients read this account.
// Shows (Per-chain surface): Simulated chains have the accounts of clients' first examples: NEAR `near`, Aptos `0x1`,
// Sui `0x5` and `0x6`, TRON's and Cosmos' foundation accounts.
#[test]
fn the_account_near_exists_with_its_keys_and_code() {
    let mut node = NearNode::new(3);
    let mut ask = |kind: &str| {
        let params = json!({ "request_type": kind, "finality": "final", "account_id": "near" });
        result(&mut node, "query", params, NOW)
    };
    let account = ask("view_account");
    assert!(account["amount"].as_str().unwrap().parse::<u128>().unwrap() > 0);
    assert_ne!(account["code_hash"], "11111111111111111111111111111111");
    let keys = ask("view_access_key_list");
    assert_eq!(keys["keys"][0]["access_key"]["permission"], "FullAccess");
    assert!(keys["keys"][0]["public_key"].as_str().unwrap().starts_with("ed25519:"));
    assert_eq!(ask("view_code")["hash"], account["code_hash"]);
}

#[test]
fn blocks_link_and_chunks_list_transactions_that_are_found() {
    let node = &mut NearNode::new(2);
    let top = node.height(NOW);
    let mut parent: Option<Value> = None;
    let mut seen = 0;
    for height in top - 6..=top {
        let block = result(node, "block", json!([height]), NOW);
        let header = &block["header"];
        assert_eq!(header["height"], height);
        assert_eq!(result(node, "block", json!({ "block_id": header["hash"] }), NOW), block);
        if let Some(parent) = parent {
            assert_eq!((&header["prev_hash"], &header["prev_height"]), (&parent["hash"], &parent["height"]));
            let gap =
                header["timestamp"].as_u64().expect("a time") - parent["timestamp"].as_u64().expect("a time");
            assert!((850_000_000..=1_550_000_000).contains(&gap), "{gap}");
        }
        assert_eq!(header["timestamp"].to_string(), header["timestamp_nanosec"].as_str().expect("digits"));
        for shown in block["chunks"].as_array().expect("a list") {
            let chunk = result(node, "chunk", json!({ "chunk_id": shown["chunk_hash"] }), NOW);
            assert_eq!(&chunk["header"], shown);
            let same = result(node, "chunk", json!([[height, shown["shard_id"]]]), NOW);
            assert_eq!(chunk, same);
            for tx in chunk["transactions"].as_array().expect("a list") {
                seen += 1;
                let found = result(node, "tx", json!([tx["hash"], tx["signer_id"]]), NOW);
                assert_eq!(&found["transaction"], tx);
                assert_eq!(found["transaction_outcome"]["block_hash"], header["hash"]);
                let receiver = tx["receiver_id"].as_str().expect("a name");
                let signer = tx["signer_id"].as_str().expect("a name");
                let call = &tx["actions"][0]["FunctionCall"];
                let action = if call.is_null() { &tx["actions"][0]["Transfer"] } else { call };
                let deposit: u128 = action["deposit"].as_str().expect("digits").parse().expect("a number");
                if height + 1 < top && call.is_null() {
                    let before = amount(node, receiver, json!(height), NOW);
                    assert_eq!(amount(node, receiver, json!(height + 1), NOW) - before, deposit);
                }
                if height + 1 < top {
                    assert_eq!(
                        found["receipts_outcome"][0]["block_hash"],
                        result(node, "block", json!([height + 1]), NOW)["header"]["hash"]
                    );
                }
                let spent =
                    amount(node, signer, json!(height - 1), NOW) - amount(node, signer, json!(height), NOW);
                let gas = |outcome: &Value| outcome["outcome"]["gas_burnt"].as_u64().expect("a number");
                let burnt = gas(&found["transaction_outcome"]) + gas(&found["receipts_outcome"][0]);
                assert_eq!(spent - deposit, u128::from(burnt) * 100_000_000);
                if call.is_null() {
                    assert_eq!(burnt, 2 * 223_182_562_500);
                }
                let key = json!({
                    "request_type": "view_access_key", "account_id": signer, "public_key": tx["public_key"], "block_id": height,
                });
                assert_eq!(result(node, "query", key, NOW)["nonce"], tx["nonce"]);
            }
        }
        parent = Some(header.clone());
    }
    assert_eq!(seen, 14);
    let back = result(node, "block", json!({ "finality": "final" }), NOW)["header"]["height"].clone();
    assert_eq!(back, top - 2);
}

#[test]
fn a_payment_is_in_the_next_block_and_paid_out_in_the_one_after() {
    let node = &mut NearNode::new(3);
    let block = head(node, NOW)["hash"].clone();
    let payee = "ab".repeat(32);
    let (raw, hash) = signed(1, &payee, 1, &block, &[transfer(3 * NEAR)]);
    assert_eq!(result(node, "broadcast_tx_async", json!([raw]), NOW), json!(hash));
    assert_eq!(node.submitted().len(), 1);
    assert_eq!(result(node, "broadcast_tx_async", json!([raw]), NOW), json!(hash), "sent again");
    assert!(node.submitted().is_empty());
    let top = node.height(NOW);
    let now = later(4_000);
    let done = result(
        node,
        "EXPERIMENTAL_tx_status",
        json!({ "tx_hash": hash, "sender_account_id": "test.near" }),
        now,
    );
    let outcome = json!({
        "block_hash": "", "id": "", "proof": [],
        "outcome": {
            "executor_id": "", "gas_burnt": 1, "logs": [], "metadata": { "gas_profile": null, "version": 1 },
            "receipt_ids": [], "status": {}, "tokens_burnt": "1",
        },
    });
    let real = json!({
        "final_execution_status": "", "receipts": [{
            "predecessor_id": "", "priority": 0, "receipt_id": "", "receiver_id": "",
            "receipt": { "Action": {
                "actions": [{ "Transfer": { "deposit": "" } }], "gas_price": "", "input_data_ids": [],
                "is_promise_yield": false, "output_data_receivers": [], "signer_id": "", "signer_public_key": "",
            } },
        }],
        "receipts_outcome": [outcome], "status": { "SuccessValue": "" },
        "transaction": {
            "actions": [{ "Transfer": { "deposit": "" } }], "hash": "", "nonce": 1, "priority_fee": 0,
            "public_key": "", "receiver_id": "", "signature": "", "signer_id": "",
        },
        "transaction_outcome": outcome,
    });
    assert_shape("EXPERIMENTAL_tx_status", &real, &done, &["SuccessReceiptId", "SuccessValue"]);
    assert_eq!(done["transaction"]["public_key"], KEY);
    let block_of = |node: &mut NearNode, height: u64| {
        result(node, "block", json!([height]), now)["header"]["hash"].clone()
    };
    assert_eq!(done["transaction_outcome"]["block_hash"], block_of(node, top + 1));
    assert_eq!(done["receipts_outcome"][0]["block_hash"], block_of(node, top + 2));
    assert_eq!(
        done["transaction_outcome"]["outcome"]["status"]["SuccessReceiptId"],
        done["receipts_outcome"][0]["id"]
    );
    assert_eq!(amount(node, &payee, json!(top + 2), now), 3 * NEAR);
    let gone = json!({ "request_type": "view_account", "account_id": payee, "block_id": top + 1 });
    assert_eq!(refusal(node, "query", gone, now), ("UNKNOWN_ACCOUNT".into(), -32_000));
    assert!(amount(node, "test.near", json!(top + 1), now) < 999_997 * NEAR);
    let listed = (0..9).any(|shard| {
        let chunk = result(node, "chunk", json!({ "block_id": top + 1, "shard_id": shard }), now);
        chunk["transactions"].as_array().expect("a list").iter().any(|tx| tx["hash"] == hash)
    });
    assert!(listed);
    let receipt = json!({ "receipt_id": done["receipts"][0]["receipt_id"] });
    assert_eq!(result(node, "EXPERIMENTAL_receipt", receipt, now), done["receipts"][0]);
    let keys =
        json!({ "request_type": "view_access_key_list", "account_id": "test.near", "finality": "final" });
    let keys = result(node, "query", keys, later(10_000))["keys"].clone();
    assert_eq!(keys[0]["access_key"], json!({ "nonce": 1, "permission": "FullAccess" }));
}

#[test]
fn a_client_that_waits_for_a_transaction_gets_its_outcome() {
    let node = &mut NearNode::new(4);
    let block = head(node, NOW)["hash"].clone();
    let payee = "cd".repeat(32);
    let (raw, _) = signed(1, &payee, 1, &block, &[transfer(NEAR)]);
    let done = result(node, "send_tx", json!({ "signed_tx_base64": raw, "wait_until": "FINAL" }), NOW);
    assert_eq!(done["status"], json!({ "SuccessValue": "" }));
    let none = signed(1, &payee, 2, &block, &[transfer(NEAR)]).0;
    let key = json!({
        "request_type": "view_access_key", "account_id": "test.near", "public_key": KEY, "finality": "final",
    });
    assert_eq!(result(node, "query", key, NOW)["nonce"], 1, "a client that got the outcome sees its effect");
    let early = result(node, "send_tx", json!({ "signed_tx_base64": none, "wait_until": "NONE" }), NOW);
    assert_eq!(early, json!({ "final_execution_status": "NONE" }));
    let nobody = signed(1, "nobody.near", 3, &block, &[transfer(NEAR)]).0;
    let failed = result(node, "broadcast_tx_commit", json!([nobody]), NOW);
    assert_eq!(
        failed["status"]["Failure"]["ActionError"],
        json!({ "index": 0, "kind": { "AccountDoesNotExist": { "account_id": "nobody.near" } } })
    );
    assert_eq!(failed["receipts_outcome"].as_array().map(Vec::len), Some(2), "the deposit comes back");
    let now = later(9_000);
    let left = 1_000_000 * NEAR - amount(node, "test.near", json!(node.height(now)), now);
    assert!(left > 2 * NEAR && left < 2 * NEAR + NEAR / 100, "{left}");
    let child = signed(1, "child.test.near", 4, &block, &[vec![0], transfer(7)]).0;
    let made = result(node, "broadcast_tx_commit", json!([child]), now);
    assert_eq!(made["status"]["SuccessValue"], "");
    let again = signed(1, "child.test.near", 5, &block, &[vec![0]]).0;
    let failed = result(node, "broadcast_tx_commit", json!([again]), now);
    assert!(
        failed["status"]["Failure"]["ActionError"]["kind"]["AccountAlreadyExists"].is_object(),
        "{failed}"
    );
}

/// Returns the tokens of an account after a block.
fn tokens(node: &mut NearNode, account: &str, height: u64) -> u128 {
    node.chain.state.account(account, height).expect("an account").tokens
}

#[test]
fn two_residents_pay_each_other_tokens() {
    let node = &mut NearNode::new(11);
    let top = node.height(NOW) - 2;
    let mut seen = 0;
    let mut sums = Vec::new();
    for height in top - 40..=top {
        for shard in 0..9 {
            let chunk = result(node, "chunk", json!({ "block_id": height, "shard_id": shard }), NOW);
            for tx in chunk["transactions"].as_array().expect("a list") {
                if tx["receiver_id"] != "usdt.tether-token.near" {
                    continue;
                }
                seen += 1;
                let params = json!([tx["hash"], tx["signer_id"]]);
                let done = result(node, "EXPERIMENTAL_tx_status", params, NOW);
                assert_eq!(done["status"], json!({ "SuccessValue": "" }));
                let outcome = &done["receipts_outcome"][0]["outcome"];
                assert_eq!(outcome["executor_id"], "usdt.tether-token.near");
                let log = outcome["logs"][0].as_str().expect("a log").strip_prefix("EVENT_JSON:");
                let event: Value = serde_json::from_str(log.expect("an event")).expect("JSON");
                let item = &event["data"][0];
                assert_eq!(item["old_owner_id"], tx["signer_id"]);
                let moved: u128 = item["amount"].as_str().expect("digits").parse().expect("a number");
                let payer = tx["signer_id"].as_str().expect("a name").to_owned();
                let payee = item["new_owner_id"].as_str().expect("a name").to_owned();
                assert_eq!(tokens(node, &payer, height) - tokens(node, &payer, height + 1), moved);
                assert_eq!(tokens(node, &payee, height + 1) - tokens(node, &payee, height), moved);
                sums.push(tokens(node, &payer, height + 1) + tokens(node, &payee, height + 1));
            }
        }
    }
    assert!((5..=6).contains(&seen), "{seen}");
    assert!(sums.iter().all(|sum| *sum == 10_000_000_000), "{sums:?}");
}

#[test]
fn the_token_moves() {
    let node = &mut NearNode::new(5);
    let block = head(node, NOW)["hash"].clone();
    let contract = "usdt.tether-token.near";
    let payee = "test.near";
    assert_eq!(look(node, "ft_metadata", json!({}), NOW)["decimals"], 6);
    assert_eq!(look(node, "ft_balance_of", json!({ "account_id": payee }), NOW), "1000000000000");
    let (receiver, _) = node.chain.state.resident(3);
    let args = json!({ "receiver_id": receiver, "amount": "2500" }).to_string();
    let (raw, _) = signed(1, contract, 1, &block, &[function_call("ft_transfer", &args, 1)]);
    let done = result(node, "broadcast_tx_commit", json!([raw]), NOW);
    let log = done["receipts_outcome"][0]["outcome"]["logs"][0].as_str().expect("a log");
    assert!(log.starts_with("EVENT_JSON:{\"standard\":\"nep141\""), "{log}");
    let now = later(4_000);
    assert_eq!(look(node, "ft_balance_of", json!({ "account_id": receiver }), now), "2500");
    assert_eq!(look(node, "ft_balance_of", json!({ "account_id": payee }), now), "999999997500");
    let (raw, _) = signed(1, contract, 2, &block, &[function_call("ft_transfer", &args, 0)]);
    let failed = result(node, "broadcast_tx_commit", json!([raw]), now);
    let why = &failed["status"]["Failure"]["ActionError"]["kind"]["FunctionCallError"]["ExecutionError"];
    assert!(why.as_str().expect("words").contains("1 yoctoNEAR"), "{failed}");
    let state = json!({ "request_type": "view_state", "account_id": contract, "prefix_base64": "", "finality": "final" });
    assert_eq!(result(node, "query", state, now)["values"].as_array().map(Vec::len), Some(1));
    let code = json!({ "request_type": "view_code", "account_id": contract, "finality": "final" });
    let code = result(node, "query", code, now);
    let bytes = STANDARD.decode(code["code_base64"].as_str().expect("base64")).expect("base64");
    assert_eq!(code["hash"], base58(&sha256(&[&bytes])));
}

#[test]
fn a_transaction_that_breaks_a_rule_is_refused_with_the_protocols_error() {
    let node = &mut NearNode::new(6);
    let block = head(node, NOW)["hash"].clone();
    let payee = "ab".repeat(32);
    let mut why = |raw: String| {
        let answer = call(node, "broadcast_tx_commit", json!([raw]), NOW);
        assert_eq!(answer["error"]["cause"]["name"], "INVALID_TRANSACTION", "{answer}");
        answer["error"]["data"]["TxExecutionError"]["InvalidTxError"].clone()
    };
    let old = json!(base58(&[7; 32]));
    assert_eq!(why(signed(1, &payee, 1, &old, &[transfer(1)]).0), "Expired");
    let key = why(signed(2, &payee, 1, &block, &[transfer(1)]).0);
    assert!(key["InvalidAccessKeyError"]["AccessKeyNotFound"].is_object(), "{key}");
    assert_eq!(
        why(signed(1, &payee, 0, &block, &[transfer(1)]).0),
        json!({ "InvalidNonce": { "ak_nonce": 0, "tx_nonce": 0 } })
    );
    assert!(why(signed(1, &payee, u64::MAX, &block, &[transfer(1)]).0)["NonceTooLarge"].is_object());
    assert!(
        why(signed(1, &payee, 1, &block, &[transfer(9_000_000 * NEAR)]).0)["NotEnoughBalance"].is_object()
    );
    let mut bytes = STANDARD.decode(signed(1, &payee, 1, &block, &[transfer(1)]).0).expect("base64");
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    assert_eq!(why(STANDARD.encode(&bytes)), "InvalidSignature");
    assert!(node.submitted().is_empty());
    for wrong in [json!(["AAAA"]), json!(["%"]), json!([]), json!([7])] {
        assert_eq!(refusal(node, "broadcast_tx_async", wrong, NOW), ("PARSE_ERROR".into(), -32_700));
    }
}

#[test]
fn errors_name_their_cause() {
    let node = &mut NearNode::new(7);
    let top = node.height(NOW);
    let zeros = base58(&[0; 32]);
    let oldest = top - super::chain::KEPT;
    let query = |kind: &str, account: &str| json!({ "request_type": kind, "account_id": account, "finality": "final" });
    let with = |mut params: Value, name: &str, value: Value| {
        params[name] = value;
        params
    };
    let collected =
        json!({ "request_type": "view_account", "account_id": "test.near", "block_id": oldest - 1 });
    let rows = [
        ("no_such", json!([]), "METHOD_NOT_FOUND", -32_601),
        ("block", json!({ "block_id": top + 100 }), "UNKNOWN_BLOCK", -32_000),
        ("block", json!({ "block_id": oldest - 1 }), "UNKNOWN_BLOCK", -32_000),
        ("block", json!({ "block_id": zeros }), "UNKNOWN_BLOCK", -32_000),
        ("block", json!({}), "PARSE_ERROR", -32_700),
        ("block", json!({ "finality": "soon" }), "PARSE_ERROR", -32_700),
        ("chunk", json!({ "chunk_id": zeros }), "UNKNOWN_CHUNK", -32_000),
        ("chunk", json!({ "block_id": top, "shard_id": 99 }), "INVALID_SHARD_ID", -32_000),
        ("chunk", json!({ "block_id": oldest - 1, "shard_id": 0 }), "UNKNOWN_BLOCK", -32_000),
        ("tx", json!([zeros, "test.near"]), "UNKNOWN_TRANSACTION", -32_000),
        ("tx", json!(["0", "test.near"]), "PARSE_ERROR", -32_700),
        ("validators", json!({ "epoch_id": zeros }), "UNKNOWN_EPOCH", -32_000),
        ("query", query("view_account", "nobody.near"), "UNKNOWN_ACCOUNT", -32_000),
        ("query", query("view_account", "No.near"), "PARSE_ERROR", -32_700),
        ("query", query("view_all", "test.near"), "PARSE_ERROR", -32_700),
        ("query", query("view_code", "test.near"), "NO_CONTRACT_CODE", -32_000),
        ("query", collected, "GARBAGE_COLLECTED_BLOCK", -32_000),
        (
            "query",
            with(
                query("view_access_key", "test.near"),
                "public_key",
                json!("ed25519:11111111111111111111111111111111"),
            ),
            "UNKNOWN_ACCESS_KEY",
            -32_000,
        ),
        (
            "query",
            with(
                with(query("call_function", "test.near"), "method_name", json!("x")),
                "args_base64",
                json!(""),
            ),
            "CONTRACT_EXECUTION_ERROR",
            -32_000,
        ),
        ("EXPERIMENTAL_receipt", json!({ "receipt_id": zeros }), "UNKNOWN_RECEIPT", -32_000),
    ];
    for (method, params, cause, code) in rows {
        let shown = params.to_string();
        assert_eq!(refusal(node, method, params, NOW), (cause.to_owned(), code), "{method} {shown}");
    }
    result(node, "block", json!({ "block_id": oldest }), NOW);
    assert_eq!(post(node, "{nope", NOW).0, 400);
    assert_eq!(post(node, r#"{"jsonrpc":"2.0","method":"no_such","id":"a"}"#, NOW).0, 400);
    let (status, body) =
        post(node, r#"[{"method":"gas_price","params":[null],"id":{"a":1}},{"method":"health"}]"#, NOW);
    assert_eq!(
        (status, body.as_str()),
        (200, r#"[{"jsonrpc":"2.0","result":{"gas_price":"100000000"},"id":{"a":1}}]"#)
    );
}

#[test]
fn validators_belong_to_an_epoch() {
    let node = &mut NearNode::new(8);
    let now = result(node, "validators", json!([null]), NOW);
    let start = now["epoch_start_height"].as_u64().expect("a height");
    assert!(start.is_multiple_of(EPOCH_LENGTH));
    let block = head(node, NOW);
    assert_eq!(result(node, "validators", json!({ "epoch_id": block["epoch_id"] }), NOW), now);
    assert_eq!(result(node, "validators", json!("latest"), NOW), now);
    let before = result(node, "validators", json!([start - 1]), NOW);
    assert_eq!(before["epoch_height"], now["epoch_height"].as_u64().expect("a number") - 1);
    assert_eq!(before["next_validators"][0]["stake"], now["current_validators"][0]["stake"]);
}

#[test]
fn a_node_that_replays_its_submissions_is_the_same() {
    let mut first = NearNode::new(9);
    let mut past = Vec::new();
    let block = head(&mut first, NOW)["hash"].clone();
    let mut hashes = Vec::new();
    for nonce in 1..5 {
        let (raw, hash) = signed(1, &"ef".repeat(32), nonce, &block, &[transfer(u128::from(nonce) * NEAR)]);
        result(&mut first, "broadcast_tx_async", json!([raw]), later(nonce * 900));
        past.extend(first.submitted());
        hashes.push(hash);
    }
    assert_eq!(past.len(), 4);
    let mut second = NearNode::new(9);
    second.replay(&past);
    assert!(second.submitted().is_empty());
    let now = later(30_000);
    for hash in hashes {
        let params = json!([hash, "test.near"]);
        assert_eq!(result(&mut first, "tx", params.clone(), now), result(&mut second, "tx", params, now));
    }
    assert_eq!(first.height(EPOCH), first.height(now), "time that steps back changes nothing");
}

#[test]
fn a_clock_far_in_the_past_is_harmless() {
    let node = &mut NearNode::new(10);
    for now in [Time::default(), Time::from_secs(900_000_000), EPOCH] {
        assert_eq!(head(node, now)["height"], node.height(now));
        result(node, "validators", json!([null]), now);
        let height = node.height(now);
        result(node, "chunk", json!([[height, 0]]), now);
    }
}

// Shows (Per-chain surface).
#[test]
fn wrapped_coins_are_a_token_with_the_decimals_of_the_coin() {
    let node = &mut NearNode::new(1);
    let look = |node: &mut NearNode, method, args| look_at(node, "wrap.near", method, args, NOW);
    let metadata = look(node, "ft_metadata", json!({}));
    assert_eq!((&metadata["symbol"], &metadata["decimals"]), (&json!("wNEAR"), &json!(24)));
    assert_eq!(look(node, "ft_balance_of", json!({ "account_id": "test.near" })), "0");
    assert_eq!(look(node, "ft_total_supply", json!({})), "0");
    assert!(!look(node, "storage_balance_of", json!({ "account_id": "test.near" })).is_null());
    let account = json!({ "request_type": "view_account", "account_id": "wrap.near", "finality": "final" });
    assert_ne!(result(node, "query", account, NOW)["code_hash"], "11111111111111111111111111111111");
}
