use super::super::address::{ACCOUNT, OPERATOR, text};
use super::super::tx::{Coin, Content, Mode, Send, Signer, Tx};
use super::*;
use crate::grpc::protobuf::Message;
use crate::json::object;
use crate::testing::golden::NOW;
use crate::{Simulated, SimulatedRequest};
use k256::ecdsa::signature::Signer as _;
use k256::ecdsa::{Signature, SigningKey};
use serde_json::json;
use std::time::Duration;

const DEVELOPER: &str = "cosmos15yk64u7zc9g9k2yr2wmzeva5qgwxps6yxj00e7";
const DEVELOPER_KEY: &str = "e64e7928d4f6c06f01fefd31f760c51f59a16426e792761cd00529b76501c8a0";

fn http(node: &mut CosmosNode, path: &str) -> Value {
    let request = SimulatedRequest { method: &http::Method::GET, path, body: b"" };
    serde_json::from_slice(&node.handle(&request, NOW).body).unwrap()
}

fn call(node: &mut CosmosNode, path: &str, request: &Json, now: Time) -> Result<Value, GrpcFailure> {
    let method = SCHEMA.method(path).unwrap_or_else(|| panic!("{path}"));
    let answer = node.handle_grpc(path, &SCHEMA.encode(&method.input, request), now)?;
    Ok(SCHEMA.decode(&method.output, &answer).expect("a message"))
}

/// Removes the values that an encoded message omits, and writes decimals as messages do.
fn essential(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(name, _)| name != "logs").map(|(name, value)| {
                let value = match &value {
                    Value::String(text) if DECIMALS.contains(&name.as_str()) => {
                        text.replace('.', "").trim_start_matches('0').into()
                    }
                    _ => essential(value),
                };
                (name, value)
            });
            Value::Object(members.filter(|(_, value)| !is_default(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(essential).collect(),
        Value::String(text) if text == "0001-01-01T00:00:00Z" || text == "1970-01-01T00:00:00Z" => {
            Value::Null
        }
        other => other,
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || text == "0",
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) => false,
    }
}

#[test]
fn the_files_are_in_the_known_syntax_and_each_method_has_a_path() {
    let schema = Schema::read(FILES, JsonForm::Canonical { decimals: DECIMALS }).unwrap();
    assert_eq!(schema.services().len(), SERVICES.len());
    for service in schema.services() {
        assert!(SERVICES.iter().any(|(path, _)| path.trim_matches('/') == service), "{service}");
    }
    let mut node = CosmosNode::new(7);
    for (service, _) in SERVICES {
        for (name, _) in PATHS {
            let path = format!("{service}{name}");
            if schema.method(&path).is_some() {
                let code = node.handle_grpc(&path, b"", NOW).map_or_else(|failure| failure.code, |_| 0);
                assert_ne!(code, 12, "{path}");
            }
        }
    }
}

#[test]
fn every_read_shows_what_rest_shows() {
    let mut node = CosmosNode::new(7);
    let head = node.height(NOW);
    let block = http(&mut node, &format!("/cosmos/tx/v1beta1/txs/block/{}", head - 1));
    let found = http(&mut node, &format!("/cosmos/tx/v1beta1/txs?query=tx.height%3D{}&limit=1", head - 1));
    let hash = found["tx_responses"][0]["txhash"].as_str().unwrap_or_default().to_owned();
    assert!(!block["txs"].as_array().unwrap().is_empty() && hash.len() == 64, "this seed has traffic");
    let validators = http(&mut node, "/cosmos/staking/v1beta1/validators?pagination.limit=1");
    let operator = validators["validators"][0]["operator_address"].as_str().unwrap().to_owned();
    let delegations = http(&mut node, &format!("/cosmos/staking/v1beta1/validators/{operator}/delegations"));
    let delegator = &delegations["delegation_responses"][0]["delegation"]["delegator_address"];
    let delegator = delegator.as_str().map_or_else(|| DEVELOPER.to_owned(), str::to_owned);
    let page = || object! { "limit": "2", "count_total": true };
    let address = || object! { "address": DEVELOPER };
    let height = (head - 1).to_string();
    for (method, request, path) in [
        ("auth.v1beta1.Query/Account", address(), format!("auth/v1beta1/accounts/{DEVELOPER}")),
        ("auth.v1beta1.Query/AccountInfo", address(), format!("auth/v1beta1/account_info/{DEVELOPER}")),
        (
            "auth.v1beta1.Query/Accounts",
            object! { "pagination": page() },
            "auth/v1beta1/accounts?pagination.limit=2&pagination.count_total=true".into(),
        ),
        ("auth.v1beta1.Query/Bech32Prefix", object! {}, "auth/v1beta1/bech32".into()),
        ("auth.v1beta1.Query/Params", object! {}, "auth/v1beta1/params".into()),
        (
            "bank.v1beta1.Query/Balance",
            object! { "address": DEVELOPER, "denom": "uatom" },
            format!("bank/v1beta1/balances/{DEVELOPER}/by_denom?denom=uatom"),
        ),
        ("bank.v1beta1.Query/AllBalances", address(), format!("bank/v1beta1/balances/{DEVELOPER}")),
        (
            "bank.v1beta1.Query/SpendableBalances",
            address(),
            format!("bank/v1beta1/spendable_balances/{DEVELOPER}"),
        ),
        (
            "bank.v1beta1.Query/SpendableBalanceByDenom",
            object! { "address": DEVELOPER, "denom": "uatom" },
            format!("bank/v1beta1/spendable_balances/{DEVELOPER}/by_denom?denom=uatom"),
        ),
        (
            "bank.v1beta1.Query/TotalSupply",
            object! { "pagination": object! { "limit": "2", "reverse": true } },
            "bank/v1beta1/supply?pagination.limit=2&pagination.reverse=true".into(),
        ),
        (
            "bank.v1beta1.Query/SupplyOf",
            object! { "denom": "uatom" },
            "bank/v1beta1/supply/by_denom?denom=uatom".into(),
        ),
        ("bank.v1beta1.Query/Params", object! {}, "bank/v1beta1/params".into()),
        ("bank.v1beta1.Query/DenomsMetadata", object! {}, "bank/v1beta1/denoms_metadata".into()),
        (
            "bank.v1beta1.Query/DenomMetadata",
            object! { "denom": "uatom" },
            "bank/v1beta1/denoms_metadata/uatom".into(),
        ),
        ("base.node.v1beta1.Service/Config", object! {}, "base/node/v1beta1/config".into()),
        ("base.node.v1beta1.Service/Status", object! {}, "base/node/v1beta1/status".into()),
        (
            "base.tendermint.v1beta1.Service/GetNodeInfo",
            object! {},
            "base/tendermint/v1beta1/node_info".into(),
        ),
        ("base.tendermint.v1beta1.Service/GetSyncing", object! {}, "base/tendermint/v1beta1/syncing".into()),
        (
            "base.tendermint.v1beta1.Service/GetLatestBlock",
            object! {},
            "base/tendermint/v1beta1/blocks/latest".into(),
        ),
        (
            "base.tendermint.v1beta1.Service/GetBlockByHeight",
            object! { "height": height.clone() },
            format!("base/tendermint/v1beta1/blocks/{height}"),
        ),
        (
            "base.tendermint.v1beta1.Service/GetLatestValidatorSet",
            object! { "pagination": page() },
            "base/tendermint/v1beta1/validatorsets/latest?pagination.limit=2".into(),
        ),
        (
            "base.tendermint.v1beta1.Service/GetValidatorSetByHeight",
            object! { "height": height.clone() },
            format!("base/tendermint/v1beta1/validatorsets/{height}"),
        ),
        ("consensus.v1.Query/Params", object! {}, "consensus/v1/params".into()),
        ("mint.v1beta1.Query/Params", object! {}, "mint/v1beta1/params".into()),
        (
            "staking.v1beta1.Query/Validators",
            object! { "status": "BOND_STATUS_UNBONDING" },
            "staking/v1beta1/validators?status=BOND_STATUS_UNBONDING".into(),
        ),
        (
            "staking.v1beta1.Query/Validator",
            object! { "validator_addr": operator.clone() },
            format!("staking/v1beta1/validators/{operator}"),
        ),
        (
            "staking.v1beta1.Query/ValidatorDelegations",
            object! { "validator_addr": operator.clone() },
            format!("staking/v1beta1/validators/{operator}/delegations"),
        ),
        (
            "staking.v1beta1.Query/DelegatorDelegations",
            object! { "delegator_addr": delegator.clone() },
            format!("staking/v1beta1/delegations/{delegator}"),
        ),
        (
            "staking.v1beta1.Query/DelegatorUnbondingDelegations",
            object! { "delegator_addr": delegator.clone() },
            format!("staking/v1beta1/delegators/{delegator}/unbonding_delegations"),
        ),
        ("staking.v1beta1.Query/Pool", object! {}, "staking/v1beta1/pool".into()),
        ("staking.v1beta1.Query/Params", object! {}, "staking/v1beta1/params".into()),
        ("tx.v1beta1.Service/GetTx", object! { "hash": hash.clone() }, format!("tx/v1beta1/txs/{hash}")),
        (
            "tx.v1beta1.Service/GetBlockWithTxs",
            object! { "height": height.clone() },
            format!("tx/v1beta1/txs/block/{height}"),
        ),
        (
            "tx.v1beta1.Service/GetTxsEvent",
            object! { "events": vec![format!("tx.height={height}")], "order_by": "ORDER_BY_DESC", "limit": "3" },
            format!("tx/v1beta1/txs?events=tx.height%3D{height}&order_by=ORDER_BY_DESC&limit=3"),
        ),
    ] {
        let rest = essential(http(&mut node, &format!("/cosmos/{path}")));
        assert!(rest.get("code").is_none(), "{path}: {rest}");
        let grpc = call(&mut node, &format!("/cosmos.{method}"), &request, NOW)
            .unwrap_or_else(|why| panic!("{method}: {why}"));
        assert_eq!(essential(grpc), rest, "{method}");
    }
}

#[test]
fn decimals_have_no_point_in_messages() {
    let mut node = CosmosNode::new(7);
    let inflation = node.handle_grpc("/cosmos.mint.v1beta1.Query/Inflation", b"", NOW).unwrap();
    assert_eq!(inflation, Message::default().bytes(1, "100000000000000000").done());
    let answer = node.handle_grpc("/cosmos.mint.v1beta1.Query/AnnualProvisions", b"", NOW).unwrap();
    let supply = http(&mut node, "/cosmos/bank/v1beta1/supply/by_denom?denom=uatom");
    let tenth = supply["amount"]["amount"].as_str().unwrap().parse::<u128>().unwrap() / 10;
    assert_eq!(answer, Message::default().bytes(1, format!("{tenth}000000000000000000")).done());
}

#[test]
fn a_broadcast_over_grpc_is_in_a_block_of_both_apis() {
    let mut node = CosmosNode::new(7);
    let key = SigningKey::from_slice(&hex::decode(DEVELOPER_KEY).unwrap()).unwrap();
    let public = key.verifying_key().to_sec1_point(true).as_bytes().to_vec();
    let coins = |amount| vec![Coin { denom: "uatom".into(), amount }];
    let mut content = Content {
        sends: vec![Send { from: DEVELOPER.into(), to: text(ACCOUNT, &[9; 20]), amount: coins(7) }],
        signers: vec![Signer { key: Some(public), mode: Mode::Direct, sequence: 0 }],
        fee: coins(1_000),
        gas: 150_000,
        ..Content::default()
    };
    let signature: Signature =
        key.sign(&Tx::new(content.clone()).signed(Mode::Direct, "cosmoshub-4", 900, 0));
    content.signatures = vec![signature.to_bytes().to_vec()];
    let tx = Tx::new(content);
    let bytes = super::super::page::base64(&tx.raw);

    let simulated =
        call(&mut node, "/cosmos.tx.v1beta1.Service/Simulate", &object! { "tx_bytes": bytes.clone() }, NOW);
    assert!(simulated.unwrap()["gas_info"]["gas_used"].as_str().unwrap().parse::<u64>().unwrap() > 50_000);
    // The older form of the request has the decoded transaction.
    let older = call(&mut node, "/cosmos.tx.v1beta1.Service/Simulate", &object! { "tx": tx.json() }, NOW);
    assert!(older.unwrap()["result"]["msg_responses"][0]["@type"] == "/cosmos.bank.v1beta1.MsgSendResponse");

    let request = object! { "tx_bytes": bytes, "mode": "BROADCAST_MODE_SYNC" };
    let broadcast = "/cosmos.tx.v1beta1.Service/BroadcastTx";
    let taken = call(&mut node, broadcast, &request, NOW).unwrap();
    assert_eq!(taken["tx_response"], json!({ "txhash": tx.name() }));
    let submitted = node.submitted();
    assert_eq!(submitted.len(), 1);
    let again = call(&mut node, broadcast, &request, NOW).unwrap();
    assert_eq!(again["tx_response"]["code"], 19);

    let later = NOW.plus(Duration::from_secs(8));
    let found =
        call(&mut node, "/cosmos.tx.v1beta1.Service/GetTx", &object! { "hash": tx.name() }, later).unwrap();
    assert_eq!(found["tx"]["body"]["messages"][0]["from_address"], DEVELOPER);
    let path = format!("/cosmos/tx/v1beta1/txs/{}", tx.name());
    let request = SimulatedRequest { method: &http::Method::GET, path: &path, body: b"" };
    let rest: Value = serde_json::from_slice(&node.handle(&request, later).body).unwrap();
    assert_eq!(rest["tx_response"]["height"], found["tx_response"]["height"]);
    // A second node that replays the submissions has the same chain.
    let mut other = CosmosNode::new(7);
    other.replay(&submitted);
    let same = call(&mut other, "/cosmos.tx.v1beta1.Service/GetTx", &object! { "hash": tx.name() }, later);
    assert_eq!(same, Ok(found));
}

#[test]
fn failures_have_the_codes_of_the_sdk() {
    let mut node = CosmosNode::new(7);
    let failure =
        |node: &mut CosmosNode, path: &str, message: &[u8]| node.handle_grpc(path, message, NOW).unwrap_err();
    let unknown = failure(&mut node, "/cosmos.gov.v1.Query/Proposal", b"");
    assert_eq!((unknown.code, unknown.message.as_str()), (12, "unknown service cosmos.gov.v1.Query"));
    let unknown = failure(&mut node, "/cosmos.bank.v1beta1.Query/Burn", b"");
    assert_eq!(unknown.message, "unknown method Burn for service cosmos.bank.v1beta1.Query");
    let broken = failure(&mut node, "/cosmos.bank.v1beta1.Query/SupplyOf", b"\x0a\x05");
    assert_eq!(broken.code, 3);
    let denom = failure(&mut node, "/cosmos.bank.v1beta1.Query/SupplyOf", b"");
    assert_eq!((denom.code, denom.message.as_str()), (3, "invalid denom: "));
    let hash = Message::default().bytes(1, "AB".repeat(32)).done();
    assert_eq!(failure(&mut node, "/cosmos.tx.v1beta1.Service/GetTx", &hash).code, 5);
    let unknown = Message::default().bytes(1, text(ACCOUNT, &[3; 20])).done();
    assert_eq!(failure(&mut node, "/cosmos.auth.v1beta1.Query/Account", &unknown).code, 5);
    let unknown = Message::default().bytes(1, text(OPERATOR, &[3; 20])).done();
    assert_eq!(failure(&mut node, "/cosmos.staking.v1beta1.Query/Validator", &unknown).code, 5);
    assert_eq!(failure(&mut node, "/cosmos.tx.v1beta1.Service/BroadcastTx", b"").code, 3);
    for path in ["", "/", "cosmos.bank.v1beta1.Query/SupplyOf", "/cosmos.bank.v1beta1.Query"] {
        assert_eq!(failure(&mut node, path, b"").code, 12, "{path}");
    }
}
