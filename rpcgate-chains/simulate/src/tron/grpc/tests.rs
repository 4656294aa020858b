use super::*;
use crate::hash::sha256;
use crate::testing::golden::NOW;
use crate::{Simulated, SimulatedRequest};
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};
use std::time::Duration;

const OWNER: &str = "417e5f4552091a69125d5dfcb7b8c2659029395bdf";
const OTHER: &str = "411111111111111111111111111111111111111111";
const USDT: &str = "41a614f803b6fd780986a42c78ec9c7f77e6ded13c";

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn http(node: &mut TronNode, method: &str, params: Value, now: Time) -> Value {
    let path = format!("/wallet/{method}");
    let body = params.to_string();
    let request = SimulatedRequest { method: &http::Method::POST, path: &path, body: body.as_bytes() };
    serde_json::from_slice(&node.handle(&request, now).body).unwrap()
}

fn raw(node: &mut TronNode, name: &str, message: &[u8], now: Time) -> Result<Value, GrpcFailure> {
    let path = format!("/protocol.Wallet/{name}");
    let output = &SCHEMA.method(&path).unwrap_or_else(|| panic!("{path}")).output;
    Ok(SCHEMA.decode(output, &node.handle_grpc(&path, message, now)?).expect("a message"))
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(node: &mut TronNode, name: &str, request: Json, now: Time) -> Value {
    let input = &SCHEMA.method(&format!("/protocol.Wallet/{name}")).unwrap().input;
    raw(node, name, &SCHEMA.encode(input, &request), now).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Removes the members that no message has, and the values that an encoded message omits.
fn essential(value: Value) -> Value {
    const HTTP_ONLY: [&str; 9] = [
        "txID",
        "raw_data_hex",
        "blockID",
        "visible",
        "cheatWitnessInfoMap",
        "peerList",
        "deadLockThreadInfoList",
        "allowOldRewardOpt",
        "versionNum",
    ];
    let is_default = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(is_set) => !is_set,
        Value::Null => true,
    };
    match value {
        // A contract's parameter has its value next to its type.
        Value::Object(mut members) if members.contains_key("type_url") => {
            let mut out = essential(members.remove("value").unwrap_or_default());
            out["@type"] = members.remove("type_url").unwrap_or_default();
            out
        }
        Value::Object(members) => {
            let members = members.into_iter().filter(|(name, _)| !HTTP_ONLY.contains(&name.as_str()));
            let members = members.map(|(name, value)| (name, essential(value)));
            // The first value of an enumeration is omitted too.
            Value::Object(members.filter(|(_, value)| !is_default(value) && value != "Owner").collect())
        }
        Value::Array(items) => items.into_iter().map(essential).collect(),
        other => other,
    }
}

#[test]
fn the_files_are_in_the_known_syntax_and_each_call_is_served() {
    let schema = Schema::read(FILES, JsonForm::Hex).unwrap();
    assert_eq!(schema.services(), ["protocol.Wallet"]);
    let mut node = TronNode::new(7);
    for (name, http, _) in CALLS {
        assert!(super::super::METHODS.is_served(http), "{http}");
        let code = node
            .handle_grpc(&format!("/protocol.Wallet/{name}"), b"", NOW)
            .map_or_else(|why| why.code, |_| 0);
        assert_ne!(code, 12, "{name}");
    }
    for http in super::super::METHODS.read.iter().chain(super::super::METHODS.posted) {
        let only_over_http =
            ["broadcasthex", "broadcasttransaction", "getapprovedlist", "getsignweight", "validateaddress"];
        let has_no_call = only_over_http.contains(http);
        assert!(has_no_call || CALLS.iter().any(|(_, known, _)| known == http), "{http}");
    }
}

#[test]
fn every_read_shows_what_http_shows() {
    let mut node = TronNode::new(7);
    let head = node.height(NOW);
    let busy = (head - 30..head).find(|height| {
        http(&mut node, "getblockbynum", json!({ "num": height }), NOW)["transactions"]
            .as_array()
            .is_some_and(|txs| txs.len() > 1)
    });
    let busy = busy.expect("this seed has traffic");
    let block = http(&mut node, "getblockbynum", json!({ "num": busy }), NOW);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let id = text(&block["blockID"]);
    let tx = text(&block["transactions"][1]["txID"]);
    for (name, method, params) in [
        ("GetAccount", "getaccount", vec![("address", OWNER)]),
        ("GetAccount", "getaccount", vec![("address", USDT)]),
        ("GetAccount", "getaccount", vec![("address", OTHER)]),
        ("GetAccountResource", "getaccountresource", vec![("address", OWNER)]),
        ("GetBandwidthPrices", "getbandwidthprices", vec![]),
        ("GetBlockById", "getblockbyid", vec![("value", id.as_str())]),
        ("GetBlockById", "getblockbyid", vec![("value", tx.as_str())]),
        ("GetChainParameters", "getchainparameters", vec![]),
        ("GetContract", "getcontract", vec![("value", USDT)]),
        ("GetEnergyPrices", "getenergyprices", vec![]),
        ("GetNextMaintenanceTime", "getnextmaintenancetime", vec![]),
        ("GetNodeInfo", "getnodeinfo", vec![]),
        ("GetNowBlock", "getnowblock", vec![]),
        ("GetTransactionById", "gettransactionbyid", vec![("value", tx.as_str())]),
        ("GetTransactionInfoById", "gettransactioninfobyid", vec![("value", tx.as_str())]),
        ("ListWitnesses", "listwitnesses", vec![]),
    ] {
        let members = params.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        let expected = http(&mut node, method, Value::Object(members.collect()), NOW);
        let members =
            params.into_iter().map(|(name, value)| (name.to_owned().into(), value.to_owned().into()));
        let ours = call(&mut node, name, Json::Object(members.collect()), NOW);
        assert_eq!(essential(ours), essential(expected), "{name}");
    }
    for (name, method, params, request) in [
        ("GetBlockByNum", "getblockbynum", json!({ "num": busy }), object! { "num": busy }),
        ("GetBlockByNum", "getblockbynum", json!({ "num": head + 9 }), object! { "num": head + 9 }),
        ("GetBlockByLatestNum", "getblockbylatestnum", json!({ "num": 2 }), object! { "num": 2u64 }),
        (
            "GetBlockByLimitNext",
            "getblockbylimitnext",
            json!({ "startNum": busy, "endNum": busy + 2 }),
            object! { "startNum": busy, "endNum": busy + 2 },
        ),
    ] {
        let expected = http(&mut node, method, params, NOW);
        let ours = call(&mut node, name, request, NOW);
        assert_eq!(essential(ours), essential(expected), "{name}");
    }
    let infos = http(&mut node, "gettransactioninfobyblocknum", json!({ "num": busy }), NOW);
    let ours = call(&mut node, "GetTransactionInfoByBlockNum", object! { "num": busy }, NOW);
    assert_eq!(essential(ours)["transactionInfo"], essential(infos));
    let count = call(&mut node, "GetTransactionCountByBlockNum", object! { "num": busy }, NOW);
    assert_eq!(count["num"], block["transactions"].as_array().unwrap().len());
}

#[test]
fn the_newer_methods_add_ids_and_results() {
    let mut node = TronNode::new(7);
    let newest = http(&mut node, "getnowblock", json!({}), NOW);
    let height = newest["block_header"]["raw_data"]["number"].as_u64().unwrap();
    for (name, request) in [
        ("GetNowBlock2", object! {}),
        ("GetBlockByNum2", object! { "num": height }),
        ("GetBlock", object! { "id_or_num": newest["blockID"].as_str().unwrap().to_owned(), "detail": true }),
    ] {
        let block = call(&mut node, name, request, NOW);
        assert_eq!(block["blockid"], newest["blockID"], "{name}");
        assert_eq!(block["block_header"], newest["block_header"], "{name}");
    }
    let blocks = call(&mut node, "GetBlockByLatestNum2", object! { "num": 9u64 }, NOW);
    let older = http(&mut node, "getblockbylatestnum", json!({ "num": 9 }), NOW);
    let mut seen = 0;
    for (block, older) in blocks["block"].as_array().unwrap().iter().zip(older["block"].as_array().unwrap()) {
        for (tx, older) in block["transactions"]
            .as_array()
            .into_iter()
            .flatten()
            .zip(older["transactions"].as_array().into_iter().flatten())
        {
            assert_eq!(tx["txid"], older["txID"]);
            assert_eq!(tx["result"], json!({ "result": true }));
            seen += 1;
        }
    }
    assert!(seen > 0, "this seed has traffic");
    let nothing = call(&mut node, "GetBlockByNum2", object! { "num": height + 9 }, NOW);
    assert_eq!(nothing, json!({}));
}

#[test]
fn a_transfer_is_made_signed_broadcast_and_found_by_both_apis() {
    let mut node = TronNode::new(7);
    let request = object! { "owner_address": OWNER, "to_address": OTHER, "amount": 5_000_000u64 };
    let path = "/protocol.Wallet/CreateTransaction";
    let message = node.handle_grpc(path, &SCHEMA.encode("protocol.TransferContract", &request), NOW).unwrap();
    let mut tx = Tx::read(&message).unwrap();
    let made = call(&mut node, "CreateTransaction2", request, NOW);
    assert_eq!(made["txid"], hex::encode(tx.id));
    assert_eq!((&made["result"]["result"], tx.id), (&json!(true), sha256(&tx.raw)));

    let unsigned = raw(&mut node, "BroadcastTransaction", &tx.write(None), NOW).unwrap();
    assert_eq!(unsigned["code"], "SIGERROR");
    assert!(node.submitted().is_empty());
    let mut secret = [0; 32];
    secret[31] = 1;
    let (signature, recovery) = SigningKey::from_slice(&secret).unwrap().sign_prehash_recoverable(&tx.id);
    tx.signatures = vec![[&signature.to_bytes()[..], &[27 + recovery.to_byte()]].concat()];
    let signed = tx.write(None);
    assert_eq!(raw(&mut node, "BroadcastTransaction", &signed, NOW).unwrap(), json!({ "result": true }));
    let submitted = node.submitted();
    assert_eq!(submitted.len(), 1);
    let again = raw(&mut node, "BroadcastTransaction", &signed, NOW).unwrap();
    assert_eq!(again["code"], "DUP_TRANSACTION_ERROR");
    assert_eq!(call(&mut node, "GetPendingSize", object! {}, NOW)["num"], 1);
    let value = || object! { "value": hex::encode(tx.id) };
    let pending = call(&mut node, "GetTransactionFromPending", value(), NOW);
    assert_eq!(pending["raw_data"]["contract"][0]["parameter"]["to_address"], OTHER);

    let later = NOW.plus(Duration::from_secs(4));
    let info = call(&mut node, "GetTransactionInfoById", value(), later);
    let older = http(&mut node, "gettransactioninfobyid", json!({ "value": hex::encode(tx.id) }), later);
    assert_eq!(
        (&info["blockNumber"], info["id"].as_str()),
        (&older["blockNumber"], Some(hex::encode(tx.id).as_str()))
    );
    let mut other = TronNode::new(7);
    other.replay(&submitted);
    assert_eq!(call(&mut other, "GetTransactionInfoById", value(), later), info);
}

#[test]
fn contracts_are_called_and_their_cost_is_estimated() {
    let mut node = TronNode::new(7);
    let request = |data: String| object! { "owner_address": OWNER, "contract_address": USDT, "data": data };
    let balance = format!("70a08231{:0>64}", &OWNER[2..]);
    let read = call(&mut node, "TriggerConstantContract", request(balance.clone()), NOW);
    assert_eq!(read["constant_result"], json!([format!("{:064x}", 10_000_000_000u64)]));
    assert_eq!((&read["result"], &read["energy_used"]), (&json!({ "result": true }), &json!(935)));
    assert_eq!(read["txid"].as_str().map(str::len), Some(64));
    let transfer = format!("a9059cbb{:0>64}{:064x}", &OTHER[2..], 5);
    let cost = call(&mut node, "EstimateEnergy", request(transfer.clone()), NOW);
    assert_eq!(cost, json!({ "result": { "result": true }, "energy_required": 130_285 }));
    let made = call(&mut node, "TriggerContract", request(transfer), NOW);
    assert_eq!(made["transaction"]["raw_data"]["contract"][0]["type"], "TriggerSmartContract");
    let unknown = object! { "owner_address": OWNER, "contract_address": OTHER, "data": balance };
    let refused = call(&mut node, "TriggerConstantContract", unknown, NOW);
    assert_eq!(refused["result"]["code"], "CONTRACT_VALIDATE_ERROR");
}

#[test]
fn failures_have_the_codes_of_java_tron() {
    let mut node = TronNode::new(7);
    let unknown = node.handle_grpc("/protocol.Wallet/Foo", b"", NOW).unwrap_err();
    assert_eq!((unknown.code, unknown.message.as_str()), (12, "Method not found: protocol.Wallet/Foo"));
    for (name, message) in
        [("GetAccount", &b"\x0a\x05"[..]), ("GetNowBlock", b"\xff"), ("BroadcastTransaction", b"\x0a")]
    {
        assert_eq!(raw(&mut node, name, message, NOW).unwrap_err().code, 3, "{name}");
    }
    let wrong = SCHEMA.encode("protocol.BlockReq", &object! { "id_or_num": "x" });
    assert_eq!(raw(&mut node, "GetBlock", &wrong, NOW).unwrap_err().code, 3);
    let poor = object! { "owner_address": OTHER, "to_address": OWNER, "amount": 5u64 };
    let refused = call(&mut node, "CreateTransaction2", poor.clone(), NOW);
    assert_eq!(refused["result"]["code"], "CONTRACT_VALIDATE_ERROR");
    let message = SCHEMA.encode("protocol.TransferContract", &poor);
    assert_eq!(raw(&mut node, "CreateTransaction", &message, NOW).unwrap_err().code, 3);
}
