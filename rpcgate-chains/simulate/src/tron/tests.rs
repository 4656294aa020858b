use super::*;
use crate::Simulated;
use crate::hash::sha256;
use crate::testing::golden::{NOW, assert_shape};
use crate::tron::address::{base58, long};
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};
use std::time::Duration;

const OWNER: &str = "417e5f4552091a69125d5dfcb7b8c2659029395bdf";
const OTHER: &str = "411111111111111111111111111111111111111111";
const USDT: &str = "41a614f803b6fd780986a42c78ec9c7f77e6ded13c";

fn raw(node: &mut TronNode, method: &http::Method, path: &str, body: &[u8], now: Time) -> (u16, String) {
    let reply = node.handle(&SimulatedRequest { method, path, body }, now);
    (reply.status, String::from_utf8(reply.body).expect("UTF-8"))
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(node: &mut TronNode, method: &str, params: Value, now: Time) -> Value {
    let path = format!("/wallet/{method}");
    let (status, body) = raw(node, &http::Method::POST, &path, params.to_string().as_bytes(), now);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Signs with the secret key that is the number `key`.
fn sign(tx: &mut Value, key: u8) {
    let id: [u8; 32] = sha256(&hex::decode(tx["raw_data_hex"].as_str().expect("hex")).expect("hex"));
    assert_eq!(tx["txID"], hex::encode(id));
    let mut secret = [0; 32];
    secret[31] = key;
    let key = SigningKey::from_slice(&secret).expect("a key");
    let (signature, recovery) = key.sign_prehash_recoverable(&id);
    let bytes = [&signature.to_bytes()[..], &[27 + recovery.to_byte()]].concat();
    tx["signature"] = json!([hex::encode(bytes)]);
}

fn transfer(node: &mut TronNode, to: &str, amount: i64, now: Time) -> Value {
    let params = json!({ "owner_address": OWNER, "to_address": to, "amount": amount });
    let mut tx = call(node, "createtransaction", params, now);
    sign(&mut tx, 1);
    tx
}

fn later(secs: u64) -> Time {
    NOW.plus(Duration::from_secs(secs))
}

#[test]
fn blocks_link_and_are_found_by_number_and_by_identity() {
    let mut node = TronNode::new(7);
    let newest = call(&mut node, "getnowblock", json!({}), NOW);
    let number = newest["block_header"]["raw_data"]["number"].as_u64().expect("a number");
    assert_eq!(number, node.height(NOW));
    assert_eq!(newest["block_header"]["raw_data"]["timestamp"].as_u64().expect("a time") % 3_000, 0);
    let mut child = newest.clone();
    for back in 1..70 {
        let block = call(&mut node, "getblockbynum", json!({ "num": number - back }), NOW);
        assert_eq!(child["block_header"]["raw_data"]["parentHash"], block["blockID"]);
        assert_eq!(call(&mut node, "getblockbyid", json!({ "value": block["blockID"] }), NOW), block);
        for tx in block["transactions"].as_array().map_or(&[][..], Vec::as_slice) {
            assert_eq!(call(&mut node, "gettransactionbyid", json!({ "value": tx["txID"] }), NOW), *tx);
            let info = call(&mut node, "gettransactioninfobyid", json!({ "value": tx["txID"] }), NOW);
            assert_eq!((&info["id"], &info["blockNumber"]), (&tx["txID"], &json!(number - back)));
        }
        child = block;
    }
    assert_eq!(call(&mut node, "getblockbynum", json!({ "num": number + 1 }), NOW), json!({}));
    assert_eq!(call(&mut node, "getblockbyid", json!({ "value": "00".repeat(32) }), NOW), json!({}));
    let next = call(&mut node, "getnowblock", json!({}), later(3));
    assert_eq!(next["block_header"]["raw_data"]["parentHash"], newest["blockID"]);
    let (status, body) = raw(&mut node, &http::Method::GET, "/wallet/getblockbynum?num=5", b"", NOW);
    assert_eq!(status, 200);
    assert!(body.contains(r#""number":5"#), "{body}");
}

#[test]
fn the_root_of_a_block_covers_its_transactions() {
    let mut node = TronNode::new(7);
    let newest = node.height(NOW);
    for height in newest - 20..newest {
        let block = call(&mut node, "getblockbynum", json!({ "num": height }), NOW);
        let root = block["block_header"]["raw_data"]["txTrieRoot"].as_str().expect("hex").to_owned();
        assert_eq!(block.get("transactions").is_none(), root == "0".repeat(64));
    }
}

#[test]
fn answers_have_the_shapes_of_java_tron() {
    let mut node = TronNode::new(7);
    let value = json!({ "amount": 1, "owner_address": "41", "to_address": "41" });
    let call_value = json!({ "data": "a9", "owner_address": "41", "contract_address": "41" });
    let contract = |value: &Value| json!([{ "parameter": { "value": value, "type_url": "type.googleapis.com/protocol.X" }, "type": "X" }]);
    let tx = |value: &Value| {
        json!({
            "ret": [{ "contractRet": "SUCCESS" }], "signature": ["00"], "txID": "00",
            "raw_data": {
                "contract": contract(value), "ref_block_bytes": "00", "ref_block_hash": "00", "expiration": 1,
                "timestamp": 1, "fee_limit": 1,
            },
            "raw_data_hex": "00",
        })
    };
    let block = json!({
        "blockID": "00",
        "block_header": {
            "raw_data": {
                "number": 1, "txTrieRoot": "00", "witness_address": "41", "parentHash": "00", "version": 1,
                "timestamp": 1,
            },
            "witness_signature": "00",
        },
        "transactions": [tx(&value), tx(&call_value)],
    });
    let head = node.height(NOW);
    for height in head - 10..head {
        let ours = call(&mut node, "getblockbynum", json!({ "num": height }), NOW);
        assert_shape("getblockbynum", &block, &ours, &["transactions", "fee_limit"]);
    }
    let account = json!({
        "address": "41", "balance": 1, "create_time": 1, "net_window_size": 1, "net_window_optimized": true,
        "account_resource": { "energy_window_size": 1, "energy_window_optimized": true },
        "owner_permission": { "permission_name": "owner", "threshold": 1, "keys": [{ "address": "41", "weight": 1 }] },
        "active_permission": [{
            "type": "Active", "id": 2, "permission_name": "active", "threshold": 1, "operations": "00",
            "keys": [{ "address": "41", "weight": 1 }],
        }],
        "frozenV2": [{}, { "type": "ENERGY" }], "asset_optimized": true,
    });
    assert_shape(
        "getaccount",
        &account,
        &call(&mut node, "getaccount", json!({ "address": OWNER }), NOW),
        &[],
    );
    let visible = json!({ "address": "TMVQGm1qAQYVdetCeGRRkTWYYrLXuHK2HC", "visible": true });
    let ours = call(&mut node, "getaccount", visible, NOW);
    assert_eq!(ours["address"], "TMVQGm1qAQYVdetCeGRRkTWYYrLXuHK2HC");
    assert_eq!(call(&mut node, "getaccount", json!({ "address": OTHER }), NOW), json!({}));

    let info = call(&mut node, "getnodeinfo", json!({}), NOW);
    assert!(info["block"].as_str().expect("text").starts_with(&format!("Num:{head},ID:0000")), "{info}");
    for name in ["configNodeInfo", "machineInfo"] {
        assert!(info[name].is_object());
    }
    let rows = call(&mut node, "getchainparameters", json!({}), NOW);
    let rows = rows["chainParameter"].as_array().expect("rows").clone();
    assert!(rows.contains(&json!({ "key": "getEnergyFee", "value": 100 })));
    assert!(rows.contains(&json!({ "key": "getAllowPBFT" })));
}

// Shows (Per-chain surface).
#[test]
fn the_accounts_of_the_first_block_exist() {
    let mut node = TronNode::new(3);
    let mut account =
        |address: &str| call(&mut node, "getaccount", json!({ "address": address, "visible": true }), NOW);
    let zion = account("TLLM21wteSPs4hKjbxgmH1L6poyMjeTbHm");
    assert_eq!(
        (&zion["account_name"], &zion["balance"]),
        (&json!("Zion"), &json!(99_000_000_000_000_000_i64))
    );
    assert_eq!(account("TXmVpin5vq5gdZsciyyjdZgKRUju4st1wM")["account_name"], "Sun");
    assert!(account("TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy")["balance"].as_i64().unwrap() < 0);
}

#[test]
fn balances_of_residents_move_with_their_transfers() {
    let mut node = TronNode::new(7);
    let start = node.height(NOW);
    let mut held: Option<Vec<i64>> = None;
    for step in 0..140u64 {
        let now = later(3 * step);
        let block = call(&mut node, "getblockbynum", json!({ "num": start + step }), now);
        let residents: Vec<String> = (0..48)
            .map(|n| hex::encode(long(&crate::seed::Seed::of("tron", 7).bytes("resident", n))))
            .collect();
        let balances: Vec<i64> = residents
            .iter()
            .map(|who| {
                call(&mut node, "getaccount", json!({ "address": who }), now)["balance"]
                    .as_i64()
                    .expect("sun")
            })
            .collect();
        if let Some(mut held) = held {
            for tx in block["transactions"].as_array().map_or(&[][..], Vec::as_slice) {
                let contract = &tx["raw_data"]["contract"][0];
                if contract["type"] == "TransferContract" {
                    let value = &contract["parameter"]["value"];
                    let place = |name: &str| {
                        residents.iter().position(|who| value[name] == **who).expect("a resident")
                    };
                    held[place("owner_address")] -= value["amount"].as_i64().expect("sun");
                    held[place("to_address")] += value["amount"].as_i64().expect("sun");
                }
            }
            assert_eq!(balances, held, "after block {}", start + step);
        }
        held = Some(balances);
    }
}

#[test]
fn a_transfer_is_created_signed_sent_and_found() {
    let mut node = TronNode::new(7);
    let tx = transfer(&mut node, OTHER, 5_000_000, NOW);
    let height = node.height(NOW);
    let sent = call(&mut node, "broadcasttransaction", tx.clone(), NOW);
    assert_eq!(sent, json!({ "result": true, "txid": tx["txID"] }));
    assert_eq!(node.submitted().len(), 1);
    let by_id = json!({ "value": tx["txID"] });
    assert_eq!(call(&mut node, "gettransactionbyid", by_id.clone(), NOW), json!({}));
    assert_eq!(call(&mut node, "gettransactionfrompending", by_id.clone(), NOW)["txID"], tx["txID"]);
    assert_eq!(call(&mut node, "broadcasttransaction", tx.clone(), NOW)["code"], "DUP_TRANSACTION_ERROR");
    let now = later(3);
    let found = call(&mut node, "gettransactionbyid", by_id.clone(), now);
    assert_eq!(found["raw_data"], tx["raw_data"]);
    let block = call(&mut node, "getblockbynum", json!({ "num": height + 1 }), now);
    assert_eq!(block["transactions"].as_array().expect("some").last(), Some(&found));
    let info = call(&mut node, "gettransactioninfobyid", by_id, now);
    assert_eq!((&info["fee"], &info["receipt"]), (&json!(1_100_000), &json!({ "net_fee": 100_000 })));
    let balance = |node: &mut TronNode, who: &str| {
        call(node, "getaccount", json!({ "address": who }), now)["balance"].clone()
    };
    assert_eq!(balance(&mut node, OTHER), 5_000_000);
    assert_eq!(balance(&mut node, OWNER), 10_000_000_000u64 - 5_000_000 - 1_100_000);

    // The second one goes to an existing account, within the day's free bandwidth; the third has to pay.
    let tx = transfer(&mut node, OTHER, 1, now);
    assert_eq!(call(&mut node, "broadcasttransaction", tx.clone(), now)["result"], true);
    let info = call(&mut node, "gettransactioninfobyid", json!({ "value": tx["txID"] }), later(6));
    assert_eq!(info.get("fee"), None);
    let size = info["receipt"]["net_usage"].as_i64().expect("bytes");
    assert!((250..300).contains(&size), "{size}");
    for amount in [2, 3] {
        let tx = transfer(&mut node, OTHER, amount, later(6));
        assert_eq!(call(&mut node, "broadcasttransaction", tx, later(6))["result"], true);
    }
    let tx = transfer(&mut node, OTHER, 4, later(6));
    assert_eq!(call(&mut node, "broadcasttransaction", tx.clone(), later(6))["result"], true);
    let info = call(&mut node, "gettransactioninfobyid", json!({ "value": tx["txID"] }), later(9));
    assert_eq!(info["receipt"]["net_fee"], info["fee"]);
}

#[test]
fn tokens_move_by_a_call_of_their_contract() {
    let mut node = TronNode::new(7);
    let read = |node: &mut TronNode, selector: &str, parameter: String, now| {
        let params = json!({
            "owner_address": OWNER, "contract_address": USDT, "function_selector": selector, "parameter": parameter,
        });
        call(node, "triggerconstantcontract", params, now)
    };
    let decimals = read(&mut node, "decimals()", String::new(), NOW);
    assert_eq!(decimals["constant_result"][0].as_str().map(|hex| hex.ends_with("06")), Some(true));
    assert_eq!(decimals["result"], json!({ "result": true }));
    let to = format!("{:0>64}", &OTHER[2..]);
    let send = |fee_limit: i64, amount: i64| {
        json!({
            "owner_address": OWNER, "contract_address": USDT, "function_selector": "transfer(address,uint256)",
            "parameter": format!("{to}{amount:064x}"), "fee_limit": fee_limit, "call_value": 0,
        })
    };
    let made = call(&mut node, "triggersmartcontract", send(100_000_000, 7), NOW);
    let mut tx = made["transaction"].clone();
    sign(&mut tx, 1);
    assert_eq!(call(&mut node, "broadcasttransaction", tx.clone(), NOW)["result"], true);
    let info = call(&mut node, "gettransactioninfobyid", json!({ "value": tx["txID"] }), later(3));
    assert_eq!(info["receipt"]["result"], "SUCCESS");
    assert_eq!(info["receipt"]["energy_fee"], 13_028_500);
    assert_eq!(info["log"][0]["topics"][2], to);
    let held = read(&mut node, "balanceOf(address)", to.clone(), later(3));
    assert_eq!(held["constant_result"][0], format!("{:064x}", 7));
    assert_eq!(call(&mut node, "getaccount", json!({ "address": OTHER }), later(3)), json!({}));

    for (params, outcome, secs) in
        [(send(100, 1), "OUT_OF_ENERGY", 3), (send(100_000_000, 1 << 50), "REVERT", 6)]
    {
        let now = later(secs);
        let then = later(secs + 3);
        let mut tx = call(&mut node, "triggersmartcontract", params, now)["transaction"].clone();
        sign(&mut tx, 1);
        assert_eq!(call(&mut node, "broadcasttransaction", tx.clone(), now)["result"], true);
        let info = call(&mut node, "gettransactioninfobyid", json!({ "value": tx["txID"] }), then);
        assert_eq!((&info["receipt"]["result"], &info["result"]), (&json!(outcome), &json!("FAILED")));
    }
    let refused = read(&mut node, "approve(address,uint256)", String::new(), NOW);
    assert_eq!(refused["transaction"]["ret"], json!([{ "ret": "FAILED" }]));
    let missing = json!({ "owner_address": OWNER, "contract_address": OTHER, "data": "06fdde03" });
    let missing = call(&mut node, "triggerconstantcontract", missing, NOW);
    assert_eq!(missing["result"]["code"], "CONTRACT_VALIDATE_ERROR");
}

#[test]
fn an_invalid_broadcast_is_refused_with_the_reason() {
    let mut node = TronNode::new(7);
    let good = transfer(&mut node, OTHER, 5, NOW);
    let mut refused = |tx: &Value| {
        let answer = call(&mut node, "broadcasttransaction", tx.clone(), NOW);
        let message = hex::decode(answer["message"].as_str().unwrap_or_default()).expect("hex");
        let code = answer["code"].as_str().unwrap_or_default().to_owned();
        (code, String::from_utf8(message).expect("UTF-8"))
    };
    let mut tx = good.clone();
    tx.as_object_mut().expect("an object").remove("signature");
    assert_eq!(refused(&tx), ("SIGERROR".into(), "Validate signature error: miss sig or contract".into()));
    tx["signature"] = json!(["00"]);
    assert_eq!(refused(&tx).1, "Validate signature error: Signature size is 1");
    let mut tx = good.clone();
    sign(&mut tx, 2);
    let who = base58(&long(&chain_developer()));
    assert!(refused(&tx).1.contains(&format!("is signed by {who} but")), "{:?}", refused(&tx));
    let resign = |change: &dyn Fn(&mut Value)| {
        let mut tx = good.clone();
        change(&mut tx["raw_data"]);
        let read = tx::Tx::from_json(&tx, false).expect("a transaction");
        tx["raw_data_hex"] = hex::encode(&read.raw).into();
        tx["txID"] = hex::encode(read.id).into();
        sign(&mut tx, 1);
        tx
    };
    let wrong = resign(&|data| data["ref_block_hash"] = json!("0011223344556677"));
    assert_eq!(refused(&wrong), ("TAPOS_ERROR".into(), "Tapos check error.".into()));
    let wrong = resign(&|data| data["expiration"] = json!(NOW.millis() - 1));
    assert_eq!(refused(&wrong), ("TRANSACTION_EXPIRATION_ERROR".into(), "Transaction expired".into()));
    let wrong = resign(&|data| data["contract"][0]["parameter"]["value"]["amount"] = json!(i64::MAX / 2));
    assert_eq!(refused(&wrong).0, "CONTRACT_VALIDATE_ERROR");
    let none = json!({ "raw_data": { "contract": [] }, "signature": [] });
    assert_eq!(
        refused(&none),
        ("CONTRACT_VALIDATE_ERROR".into(), "Contract validate error : No contract!".into())
    );

    let mut error = |method: &str, params: Value| {
        call(&mut node, method, params, NOW)["Error"].as_str().unwrap_or_default().to_owned()
    };
    assert!(error("broadcasttransaction", json!({})).contains("NullPointerException"));
    assert!(error("broadcasthex", json!({ "transaction": "zz" })).contains("DecoderException"));
    assert!(
        error("broadcasthex", json!({ "transaction": "0a05" })).contains("InvalidProtocolBufferException")
    );
    assert!(error("getblockbyid", json!({ "value": "xyz" })).contains("INVALID hex String"));
    assert!(error("getblockbynum", json!({ "num": "x" })).contains("Couldn't parse integer"));
    let poor = json!({ "owner_address": OTHER, "to_address": OWNER, "amount": 1 });
    assert!(error("createtransaction", poor).ends_with("Validate TransferContract error, no OwnerAccount."));
    assert_eq!(raw(&mut node, &http::Method::POST, "/wallet/nothing", b"{}", NOW).0, 404);
    assert_eq!(raw(&mut node, &http::Method::GET, "/wallet/createtransaction", b"", NOW).0, 405);
    assert_eq!(raw(&mut node, &http::Method::POST, "/wallet/getnowblock", b"", NOW).0, 200);
    assert!(
        raw(&mut node, &http::Method::POST, "/wallet/getnowblock", b"[", NOW).1.contains("JSONException")
    );
}

fn chain_developer() -> address::Address {
    let mut secret = [0; 32];
    secret[31] = 2;
    tx::address_of(SigningKey::from_slice(&secret).expect("a key").verifying_key())
}

#[test]
fn a_node_that_replays_submissions_agrees_with_the_original() {
    let mut first = TronNode::new(7);
    let mut past = Vec::new();
    for step in 0..4 {
        let now = later(step * 7);
        let tx = transfer(&mut first, OTHER, 10 + step.cast_signed(), now);
        let bytes = tx::Tx::from_json(&tx, false).expect("a transaction").write(None);
        let sent = call(&mut first, "broadcasthex", json!({ "transaction": hex::encode(bytes) }), now);
        assert_eq!((&sent["result"], &sent["code"]), (&json!(true), &json!("SUCCESS")));
        past.extend(first.submitted());
        assert!(first.submitted().is_empty());
    }
    assert_eq!(past.len(), 4);
    let mut second = TronNode::new(7);
    second.replay(&past);
    assert!(second.submitted().is_empty());
    let now = later(60);
    let start = first.height(NOW);
    for height in start..start + 15 {
        let ask = json!({ "num": height });
        assert_eq!(
            call(&mut first, "getblockbynum", ask.clone(), now),
            call(&mut second, "getblockbynum", ask, now)
        );
    }
    for who in [OWNER, OTHER] {
        let ask = json!({ "address": who });
        assert_eq!(
            call(&mut first, "getaccount", ask.clone(), now),
            call(&mut second, "getaccount", ask, now)
        );
    }
}

#[test]
fn a_clock_that_steps_back_does_not_shorten_the_chain() {
    let mut node = TronNode::new(7);
    let height = |node: &mut TronNode, now| {
        call(node, "getnowblock", json!({}), now)["block_header"]["raw_data"]["number"].as_u64()
    };
    let high = height(&mut node, later(60));
    assert_eq!(height(&mut node, NOW), high);
    assert_eq!(Some(node.height(NOW)), high);
}

#[test]
fn a_clock_from_before_the_chain_or_long_after_it_is_harmless() {
    for secs in [0, 1_600_000_000, 10_000_000_000] {
        let mut node = TronNode::new(7);
        let now = Time::from_secs(secs);
        call(&mut node, "getnowblock", json!({}), now);
        call(&mut node, "getnodeinfo", json!({}), now);
        call(&mut node, "listwitnesses", json!({}), now);
        call(&mut node, "getaccount", json!({ "address": OWNER }), now);
    }
}

// Shows (Per-chain surface): Simulated nodes serve what official clients ask first.
#[test]
fn a_node_returns_the_signers_of_a_transaction_and_whether_they_suffice() {
    let mut node = TronNode::new(7);
    let tx = transfer(&mut node, OTHER, 5_000_000, NOW);
    let weight = call(&mut node, "getsignweight", tx.clone(), NOW);
    assert_eq!(weight["approved_list"].as_array().map(Vec::len), Some(1));
    assert_eq!(weight["approved_list"][0], weight["permission"]["keys"][0]["address"]);
    assert_eq!((&weight["current_weight"], &weight["result"]), (&json!(1), &json!({})));
    assert_eq!(weight["transaction"]["txid"], tx["txID"]);
    let approved = call(&mut node, "getapprovedlist", tx.clone(), NOW);
    assert_eq!(approved["approved_list"], weight["approved_list"]);
    assert!(approved.get("permission").is_none());
    let mut unsigned = tx;
    unsigned.as_object_mut().expect("an object").remove("signature");
    let weight = call(&mut node, "getsignweight", unsigned, NOW);
    assert_eq!(weight["result"]["code"], "NOT_ENOUGH_PERMISSION");
    assert!(weight.get("approved_list").is_none() && weight.get("current_weight").is_none());
}
