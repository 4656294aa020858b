use super::address::{ACCOUNT, text};
use super::page::{base64, unbase64};
use super::tx::{Coin, Content, Mode, Send, Signer, Tx};
use super::*;
use crate::Simulated;
use crate::testing::golden::{NOW, assert_shape};
use k256::ecdsa::signature::Signer as _;
use k256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};
use std::time::Duration;

const DEVELOPER: &str = "cosmos15yk64u7zc9g9k2yr2wmzeva5qgwxps6yxj00e7";
const DEVELOPER_KEY: &str = "e64e7928d4f6c06f01fefd31f760c51f59a16426e792761cd00529b76501c8a0";
const BLOCKS: &str = "/cosmos/base/tendermint/v1beta1/blocks";
const TXS: &str = "/cosmos/tx/v1beta1/txs";

fn ask(node: &mut CosmosNode, method: &http::Method, path: &str, body: &[u8], now: Time) -> (u16, Value) {
    let reply = node.handle(&SimulatedRequest { method, path, body }, now);
    assert_eq!(reply.content_type, "application/json");
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

#[track_caller]
fn get(node: &mut CosmosNode, path: &str, now: Time) -> Value {
    let (status, answer) = ask(node, &http::Method::GET, path, b"", now);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

#[track_caller]
fn refusal(node: &mut CosmosNode, path: &str) -> (u16, u64, String) {
    let (status, answer) = ask(node, &http::Method::GET, path, b"", NOW);
    assert_eq!(answer["details"], json!([]), "{path}: {answer}");
    (status, answer["code"].as_u64().unwrap(), answer["message"].as_str().unwrap().to_owned())
}

#[track_caller]
fn post(node: &mut CosmosNode, path: &str, body: &Value, now: Time) -> (u16, Value) {
    ask(node, &http::Method::POST, path, body.to_string().as_bytes(), now)
}

fn broadcast(node: &mut CosmosNode, raw: &[u8], now: Time) -> Value {
    let body = json!({ "tx_bytes": base64(raw), "mode": "BROADCAST_MODE_SYNC" });
    let (status, mut answer) = post(node, TXS, &body, now);
    assert_eq!(status, 200, "{answer}");
    answer["tx_response"].take()
}

fn atoms(amount: u128) -> Vec<Coin> {
    vec![Coin { denom: "uatom".into(), amount }]
}

/// Returns a signed transfer of the first developer, whose account has number 900.
fn transfer(to: &str, amount: Vec<Coin>, sequence: u64, mode: Mode, change: impl FnOnce(&mut Content)) -> Tx {
    let key = SigningKey::from_slice(&hex::decode(DEVELOPER_KEY).unwrap()).unwrap();
    let public = key.verifying_key().to_sec1_point(true).as_bytes().to_vec();
    let mut content = Content {
        sends: vec![Send { from: DEVELOPER.into(), to: to.into(), amount }],
        signers: vec![Signer { key: Some(public), mode, sequence }],
        fee: atoms(1_000),
        gas: 150_000,
        ..Content::default()
    };
    change(&mut content);
    let signed = Tx::new(content.clone()).signed(mode, "cosmoshub-4", 900, sequence);
    let signature: Signature = key.sign(&signed);
    content.signatures = vec![signature.to_bytes().to_vec()];
    Tx::new(content)
}

fn balance(node: &mut CosmosNode, address: &str, now: Time) -> u128 {
    let path = format!("/cosmos/bank/v1beta1/balances/{address}/by_denom?denom=uatom");
    let answer = get(node, &path, now);
    assert_eq!(answer["balance"]["denom"], "uatom");
    answer["balance"]["amount"].as_str().unwrap().parse().unwrap()
}

fn later(now: Time) -> Time {
    now.plus(Duration::from_secs(8))
}

#[test]
fn blocks_follow_each_other() {
    let mut node = CosmosNode::new(7);
    let latest = get(&mut node, &format!("{BLOCKS}/latest"), NOW);
    let height: u64 = latest["block"]["header"]["height"].as_str().unwrap().parse().unwrap();
    assert_eq!(height, node.height(NOW));
    assert_eq!(get(&mut node, &format!("{BLOCKS}/{height}"), NOW), latest);
    let before = get(&mut node, &format!("{BLOCKS}/{}", height - 1), NOW);
    assert_eq!(latest["block"]["header"]["last_block_id"], before["block_id"]);
    assert_eq!(latest["block"]["last_commit"]["block_id"], before["block_id"]);
    assert!(before["block"]["header"]["time"].as_str() < latest["block"]["header"]["time"].as_str());
    let id = json!({ "hash": "", "part_set_header": { "total": 1, "hash": "" } });
    let header = json!({
        "version": { "block": "11", "app": "0" }, "chain_id": "", "height": "", "time": "",
        "last_block_id": id,
        "last_commit_hash": "", "data_hash": "", "validators_hash": "", "next_validators_hash": "",
        "consensus_hash": "", "app_hash": "", "last_results_hash": "", "evidence_hash": "",
        "proposer_address": "",
    });
    let signed = json!({ "block_id_flag": "", "validator_address": "", "timestamp": "", "signature": "" });
    let absent =
        json!({ "block_id_flag": "", "validator_address": null, "timestamp": "", "signature": null });
    let commit = json!({ "height": "", "round": 0, "block_id": id, "signatures": [signed, absent] });
    let block = json!({
        "header": header, "data": { "txs": [""] }, "evidence": { "evidence": [] }, "last_commit": commit,
    });
    let whole = json!({ "block_id": id, "block": block, "sdk_block": block });
    assert_shape("blocks/latest", &whole, &latest, &[]);
    assert!(
        latest["sdk_block"]["header"]["proposer_address"].as_str().unwrap().starts_with("cosmosvalcons1")
    );
}

#[test]
fn transactions_of_a_block_are_found_by_their_hashes() {
    let mut node = CosmosNode::new(7);
    let head = node.height(NOW);
    let mut seen = 0;
    for height in [head, head - 1, head - 2, head - 3, head - chain::KEPT, head - chain::KEPT + 1] {
        let block = get(&mut node, &format!("{BLOCKS}/{height}"), NOW);
        let with_txs = get(&mut node, &format!("{TXS}/block/{height}"), NOW);
        for (n, raw) in block["block"]["data"]["txs"].as_array().unwrap().iter().enumerate() {
            let raw = unbase64(raw.as_str().unwrap()).unwrap();
            let hash = hex::encode_upper(crate::hash::sha256(&raw));
            let found = get(&mut node, &format!("{TXS}/{hash}"), NOW);
            assert_eq!(found["tx_response"]["height"], height.to_string());
            assert_eq!(found["tx_response"]["txhash"], hash);
            assert_eq!(found["tx"], with_txs["txs"][n]);
            assert_eq!(tx::from_json(&found["tx"]).unwrap().raw, raw);
            let query = format!("{TXS}?query=tx.height%3D{height}%20AND%20tx.hash%3D%27{hash}%27");
            assert_eq!(get(&mut node, &query, NOW)["tx_responses"], json!([found["tx_response"]]));
            seen += 1;
        }
    }
    assert!(seen > 0, "this seed has traffic");
    let old = head - chain::KEPT - 1;
    let (status, code, why) = refusal(&mut node, &format!("{BLOCKS}/{old}"));
    assert_eq!((status, code), (500, 2));
    assert_eq!(why, format!("height {old} is not available, lowest height is {}", old + 1));
}

#[test]
fn a_search_finds_what_an_account_sent_and_got() {
    let mut node = CosmosNode::new(7);
    let head = node.height(NOW);
    get(&mut node, "/cosmos/base/tendermint/v1beta1/syncing", NOW);
    let entries = (head - 40..=head).flat_map(|height| node.chain.entries(height)).collect::<Vec<_>>();
    let last = entries.last().expect("this seed has traffic");
    let Send { from, to, .. } = &last.tx.content.sends[0];
    for (name, party) in [("message.sender", from), ("transfer.recipient", to)] {
        let path = format!("{TXS}?query={name}%3D%27{party}%27&order_by=ORDER_BY_DESC&limit=2");
        let found = get(&mut node, &path, NOW);
        assert_eq!(found["tx_responses"][0]["txhash"], last.tx.name());
        assert_eq!(found["txs"].as_array().unwrap().len(), 2);
        // One turn in 32 blocks.
        let total: u64 = found["total"].as_str().unwrap().parse().unwrap();
        assert!((449..=451).contains(&total), "{total}");
        let next = get(&mut node, &format!("{path}&page=2"), NOW);
        assert_ne!(next["tx_responses"][0], found["tx_responses"][0]);
    }
    let nobody = get(&mut node, &format!("{TXS}?query=message.sender%3D%27nobody%27"), NOW);
    assert_eq!((&nobody["total"], &nobody["txs"]), (&json!("0"), &json!([])));
}

#[test]
fn transfers_of_residents_move_their_balances() {
    let node = CosmosNode::new(7);
    let mut now = NOW;
    let mut seen = 0;
    for _ in 0..8 {
        let next = later(now);
        let from = node.height(now);
        let to = node.height(next);
        let mut changes = std::collections::BTreeMap::<String, i128>::new();
        for height in from + 1..=to {
            for entry in node.chain.entries(height) {
                let send = &entry.tx.content.sends[0];
                let amount = send.amount[0].amount as i128;
                *changes.entry(send.from.clone()).or_default() -= amount + state::RESIDENT_FEE as i128;
                *changes.entry(send.to.clone()).or_default() += amount;
            }
        }
        for (address, change) in changes {
            // A request at a later time advances a chain, so each time has a separate node.
            let before = balance(&mut CosmosNode::new(7), &address, now);
            let after = balance(&mut CosmosNode::new(7), &address, next);
            assert_eq!(after as i128 - before as i128, change, "{address}");
            seen += 1;
        }
        now = next;
    }
    assert!(seen > 0, "this seed has traffic");
}

// Shows (Per-chain surface).
#[test]
fn the_accounts_of_the_foundation_and_of_the_modules_exist() {
    let mut node = CosmosNode::new(3);
    for (address, is_rich) in [
        ("cosmos1sufkm72dw7ua9crpfhhp0dqpyuggtlhdse98e7", true),
        ("cosmos1z6czaavlk6kjd48rpf58kqqw9ssad2uaxnazgl", true),
        ("cosmos17xpfvakm2amg962yls6f84z3kell8c5lserqta", true),
        ("cosmos1jv65s3grqf6v6jl3dp4t6c9t9rk99cd88lyufl", true),
        ("cosmos1fl48vsnmsdzcv85q5d2q4z5ajdha8yu34mf0eh", true),
        ("cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn", true),
        ("cosmos1m3h30wlvsf8llruxtpukdvsy0km2kum8g38c8q", false),
    ] {
        let account = get(&mut node, &format!("/cosmos/auth/v1beta1/accounts/{address}"), NOW);
        assert_eq!(account["account"]["address"], address);
        assert_eq!(balance(&mut node, address, NOW) > 0, is_rich, "{address}");
    }
}

#[test]
fn a_transfer_is_taken_into_the_next_block() {
    for mode in [Mode::Direct, Mode::Amino] {
        let mut node = CosmosNode::new(7);
        let to = text(ACCOUNT, &[9; 20]);
        assert_eq!(refusal(&mut node, &format!("/cosmos/auth/v1beta1/accounts/{to}")).0, 404);
        let tx = transfer(&to, atoms(2_500_000), 0, mode, |content| content.memo = "rent & <more>".into());
        let answer = broadcast(&mut node, &tx.raw, NOW);
        assert_eq!((&answer["code"], &answer["txhash"]), (&json!(0), &json!(tx.name())), "{answer}");
        assert_eq!(node.submitted().len(), 1);
        assert_eq!(refusal(&mut node, &format!("{TXS}/{}", tx.name())).0, 404);
        let again = broadcast(&mut node, &tx.raw, NOW);
        assert_eq!((&again["code"], &again["codespace"]), (&json!(19), &json!("sdk")));

        let now = later(NOW);
        let found = get(&mut node, &format!("{TXS}/{}", tx.name()), now);
        let height: u64 = found["tx_response"]["height"].as_str().unwrap().parse().unwrap();
        assert_eq!(height, CosmosNode::new(7).height(NOW) + 1);
        let block = get(&mut node, &format!("{BLOCKS}/{height}"), now);
        assert!(block["block"]["data"]["txs"].as_array().unwrap().contains(&json!(base64(&tx.raw))));
        assert_eq!(balance(&mut node, &to, now), 2_500_000);
        assert_eq!(balance(&mut node, DEVELOPER, now), 10_000_000_000 - 2_500_000 - 1_000);
        let account = get(&mut node, &format!("/cosmos/auth/v1beta1/accounts/{DEVELOPER}"), now);
        assert_eq!(account["account"]["sequence"], "1");
        assert_eq!(account["account"]["pub_key"]["@type"], "/cosmos.crypto.secp256k1.PubKey");
        let query = format!("{TXS}?query=transfer.recipient%3D%27{to}%27");
        assert_eq!(get(&mut node, &query, now)["total"], "1");
    }
}

#[test]
fn a_transaction_looks_like_the_sdk_s() {
    let mut node = CosmosNode::new(7);
    let tx = transfer(&text(ACCOUNT, &[9; 20]), atoms(5), 0, Mode::Direct, |_| ());
    broadcast(&mut node, &tx.raw, NOW);
    let found = get(&mut node, &format!("{TXS}/{}", tx.name()), later(NOW));
    let coin = json!({ "denom": "", "amount": "" });
    let shown = json!({
        "body": {
            "messages": [{ "@type": "", "from_address": "", "to_address": "", "amount": [coin] }], "memo": "",
            "timeout_height": "", "unordered": false, "timeout_timestamp": null, "extension_options": [],
            "non_critical_extension_options": [],
        },
        "auth_info": {
            "signer_infos": [{
                "public_key": { "@type": "", "key": "" }, "mode_info": { "single": { "mode": "" } },
                "sequence": "",
            }],
            "fee": { "amount": [coin], "gas_limit": "", "payer": "", "granter": "" },
            "tip": null,
        },
        "signatures": [""],
    });
    let mut typed = shown.clone();
    typed["@type"] = json!("");
    let event = json!({ "type": "", "attributes": [{ "key": "", "value": "", "index": true }] });
    let response = json!({
        "height": "", "txhash": "", "codespace": "", "code": 0, "data": "", "raw_log": "", "logs": [],
        "info": "",
        "gas_wanted": "", "gas_used": "", "tx": typed, "timestamp": "", "events": [event],
    });
    assert_shape("tx", &json!({ "tx": shown, "tx_response": response }), &found, &[]);
    let data = "12260A242F636F736D6F732E62616E6B2E763162657461312E4D736753656E64526573706F6E7365";
    assert_eq!(found["tx_response"]["data"], data);
    assert_eq!(found["tx_response"]["code"], 0);
}

#[test]
fn a_check_refuses_with_the_codes_of_the_sdk() {
    let mut node = CosmosNode::new(7);
    let to = text(ACCOUNT, &[9; 20]);
    let signed =
        |sequence, change: fn(&mut Content)| transfer(&to, atoms(5), sequence, Mode::Direct, change).raw;
    let mut forged = signed(0, |_| ());
    let last = forged.len() - 1;
    forged[last] ^= 1;
    for (raw, code) in [
        (b"rubbish".to_vec(), 2),
        (forged, 4),
        (signed(0, |content| content.fee = atoms(20_000_000_000)), 5),
        (signed(0, |content| content.signers[0].key = Some(vec![2; 33])), 8),
        (signed(0, |content| content.sends[0].from = text(ACCOUNT, &[1; 20])), 9),
        (signed(0, |content| content.gas = 1_000), 11),
        (signed(0, |content| content.memo = "x".repeat(257)), 12),
        (signed(0, |content| content.fee = Vec::new()), 13),
        (signed(0, |content| content.sends.clear()), 18),
        (signed(0, |content| content.timeout_height = 1), 30),
        (signed(3, |_| ()), 32),
    ] {
        let answer = broadcast(&mut node, &raw, NOW);
        assert_eq!((&answer["code"], &answer["codespace"]), (&json!(code), &json!("sdk")), "{answer}");
        assert!(node.submitted().is_empty());
    }
    // Two transactions of a sender may wait, the second with the next sequence.
    assert_eq!(broadcast(&mut node, &signed(0, |_| ()), NOW)["code"], 0);
    assert_eq!(broadcast(&mut node, &signed(1, |content| content.signers[0].key = None), NOW)["code"], 0);
    let account = get(&mut node, &format!("/cosmos/auth/v1beta1/accounts/{DEVELOPER}"), later(NOW));
    assert_eq!(account["account"]["sequence"], "2");
}

#[test]
fn a_transaction_that_fails_in_its_block_still_pays() {
    let mut node = CosmosNode::new(7);
    let tx = transfer(&text(ACCOUNT, &[9; 20]), atoms(90_000_000_000), 0, Mode::Direct, |_| ());
    assert_eq!(broadcast(&mut node, &tx.raw, NOW)["code"], 0);
    let found = get(&mut node, &format!("{TXS}/{}", tx.name()), later(NOW));
    assert_eq!(found["tx_response"]["code"], 5);
    assert!(found["tx_response"]["raw_log"].as_str().unwrap().ends_with("insufficient funds"), "{found}");
    assert_eq!(balance(&mut node, DEVELOPER, later(NOW)), 10_000_000_000 - 1_000);
}

#[test]
fn a_simulation_returns_the_gas_and_changes_nothing() {
    let mut node = CosmosNode::new(7);
    let tx = transfer(&text(ACCOUNT, &[9; 20]), atoms(5), 0, Mode::Direct, |content| content.fee.clear());
    let path = "/cosmos/tx/v1beta1/simulate";
    let (status, answer) = post(&mut node, path, &json!({ "tx_bytes": base64(&tx.raw) }), NOW);
    assert_eq!(status, 200, "{answer}");
    let used: u64 = answer["gas_info"]["gas_used"].as_str().unwrap().parse().unwrap();
    assert_eq!(used, chain::gas(&tx));
    assert_eq!(
        answer["result"]["msg_responses"],
        json!([{ "@type": "/cosmos.bank.v1beta1.MsgSendResponse" }])
    );
    let mut shown = String::new();
    tx.json().write(&mut shown);
    let by_json = json!({ "tx": serde_json::from_str::<Value>(&shown).unwrap() });
    assert_eq!(post(&mut node, path, &by_json, NOW), (200, answer));
    assert!(node.submitted().is_empty());

    let poor = transfer(&text(ACCOUNT, &[9; 20]), atoms(90_000_000_000), 0, Mode::Direct, |_| ());
    let (status, answer) = post(&mut node, path, &json!({ "tx_bytes": base64(&poor.raw) }), NOW);
    assert_eq!((status, &answer["code"]), (500, &json!(2)));
    for body in [json!({}), json!({ "tx_bytes": "!" }), json!({ "tx_bytes": "AAAA" }), json!([])] {
        assert_eq!(post(&mut node, path, &body, NOW).0, 400, "{body}");
    }
}

#[test]
fn a_broadcast_without_a_transaction_is_refused() {
    let mut node = CosmosNode::new(7);
    let mode = "BROADCAST_MODE_SYNC";
    assert_eq!(ask(&mut node, &http::Method::POST, TXS, b"{nope", NOW).0, 400);
    assert_eq!(post(&mut node, TXS, &json!({ "tx_bytes": "", "mode": mode }), NOW).0, 400);
    assert_eq!(post(&mut node, TXS, &json!({ "tx_bytes": "%%", "mode": mode }), NOW).0, 400);
    let (status, answer) = post(&mut node, TXS, &json!({ "tx_bytes": "AAAA" }), NOW);
    assert_eq!((status, &answer["code"]), (500, &json!(2)));
    let quiet = json!({ "tx_bytes": "AAAA", "mode": "BROADCAST_MODE_ASYNC" });
    assert_eq!(post(&mut node, TXS, &quiet, NOW).1["tx_response"]["code"], 0);
    assert_eq!(post(&mut node, "/cosmos/bank/v1beta1/supply", &json!({}), NOW).0, 501);
}

#[test]
fn lists_come_in_pages() {
    let mut node = CosmosNode::new(7);
    let path = "/cosmos/staking/v1beta1/validators";
    let mut names = Vec::new();
    let mut key = String::new();
    loop {
        let page = get(&mut node, &format!("{path}?pagination.limit=25&pagination.key={key}"), NOW);
        let validators = page["validators"].as_array().unwrap();
        assert!(validators.len() <= 25);
        names.extend(validators.iter().map(|one| one["operator_address"].as_str().unwrap().to_owned()));
        match page["pagination"]["next_key"].as_str() {
            Some(next) => key = next.replace('+', "%2B").replace('/', "%2F"),
            None => break,
        }
    }
    let whole = get(&mut node, path, NOW);
    let all = whole["validators"].as_array().unwrap();
    assert_eq!(whole["pagination"], json!({ "next_key": null, "total": all.len().to_string() }));
    assert_eq!(names, all.iter().map(|one| one["operator_address"].as_str().unwrap()).collect::<Vec<_>>());
    let bonded = get(&mut node, &format!("{path}?status=BOND_STATUS_BONDED"), NOW);
    let bonded = bonded["validators"].as_array().unwrap();
    assert!(bonded.len() < all.len() && bonded.iter().all(|one| one["jailed"] == false));
    let pool = get(&mut node, "/cosmos/staking/v1beta1/pool", NOW);
    let sum: u128 = bonded.iter().map(|one| one["tokens"].as_str().unwrap().parse::<u128>().unwrap()).sum();
    assert_eq!(pool["pool"]["bonded_tokens"], sum.to_string());

    let supply =
        get(&mut node, "/cosmos/bank/v1beta1/supply?pagination.limit=2&pagination.count_total=true", NOW);
    assert_eq!(supply["supply"].as_array().unwrap().len(), 2);
    assert_eq!(supply["pagination"]["total"], "8");
    let accounts = get(&mut node, "/cosmos/auth/v1beta1/accounts?pagination.limit=3", NOW);
    assert_eq!(accounts["accounts"].as_array().unwrap().len(), 3);
    assert!(accounts["pagination"]["next_key"].is_string());
}

#[test]
fn validators_look_like_the_sdk_s() {
    let mut node = CosmosNode::new(7);
    let page = get(&mut node, "/cosmos/staking/v1beta1/validators?pagination.limit=1", NOW);
    let validator = json!({
        "operator_address": "", "consensus_pubkey": { "@type": "", "key": "" }, "jailed": false, "status": "",
        "tokens": "", "delegator_shares": "",
        "description": {
            "moniker": "", "identity": "", "website": "", "security_contact": "", "details": "",
        },
        "unbonding_height": "", "unbonding_time": "",
        "commission": {
            "commission_rates": { "rate": "", "max_rate": "", "max_change_rate": "" }, "update_time": "",
        },
        "min_self_delegation": "", "unbonding_on_hold_ref_count": "", "unbonding_ids": [""],
    });
    let real = json!({ "validators": [validator], "pagination": { "next_key": "", "total": "" } });
    assert_shape("validators", &real, &page, &[]);
    let operator = page["validators"][0]["operator_address"].as_str().unwrap();
    let one = get(&mut node, &format!("/cosmos/staking/v1beta1/validators/{operator}"), NOW);
    assert_eq!(one["validator"], page["validators"][0]);
    let set = get(&mut node, "/cosmos/base/tendermint/v1beta1/validatorsets/latest", NOW);
    assert_eq!(set["validators"].as_array().unwrap().len(), 60);
}

#[test]
fn the_supply_is_listed_by_denomination_and_grows() {
    let mut node = CosmosNode::new(7);
    let path = "/cosmos/bank/v1beta1/supply/by_denom?denom=uatom";
    let amount = |value: &Value| value["amount"]["amount"].as_str().unwrap().parse::<u128>().unwrap();
    let first = get(&mut node, path, NOW);
    let second = get(&mut node, path, later(NOW));
    assert!(amount(&first) < amount(&second));
    let osmo = "ibc%2F14F9BC3E44B8A9C1BE1FB08980FAB87034C9905EF17CF2F5008FC085218811CC";
    assert!(amount(&get(&mut node, &format!("/cosmos/bank/v1beta1/supply/by_denom?denom={osmo}"), NOW)) > 0);
    assert_eq!(amount(&get(&mut node, "/cosmos/bank/v1beta1/supply/by_denom?denom=unknown", NOW)), 0);
    assert_eq!(refusal(&mut node, "/cosmos/bank/v1beta1/supply/by_denom?denom=1").0, 400);
    assert_eq!(refusal(&mut node, "/cosmos/bank/v1beta1/supply/by_denom").1, 3);
}

#[test]
fn missing_objects_are_refused_with_grpc_codes() {
    let mut node = CosmosNode::new(7);
    let head = node.height(NOW);
    for (path, status, code) in [
        ("/cosmos/bank/v1beta1/balances/nobody", 400, 3),
        ("/cosmos/auth/v1beta1/accounts/cosmos1qyqszqgpqyqszqgpqyqszqgpqyqszqgpjnp7du", 404, 5),
        ("/cosmos/staking/v1beta1/validators?status=x", 400, 3),
        ("/cosmos/staking/v1beta1/validators?pagination.limit=x", 400, 3),
        (&format!("{BLOCKS}/{}", head + 1), 400, 3),
        (&format!("{BLOCKS}/0"), 500, 2),
        (&format!("{BLOCKS}/new"), 400, 3),
        (&format!("{TXS}/{}", "AB".repeat(32)), 404, 5),
        (&format!("{TXS}/xyz"), 500, 2),
        (TXS, 400, 3),
        ("/cosmos/gov/v2/nothing", 501, 12),
        ("/ibc/core/client/v1/params", 501, 12),
        ("/status", 501, 12),
        ("/", 501, 12),
    ] {
        let (got, number, why) = refusal(&mut node, path);
        assert_eq!((got, number), (status, code), "{path}: {why}");
    }
    assert_eq!(refusal(&mut node, "/status").2, "Not Implemented");
}

#[test]
fn the_node_reports_its_status() {
    let mut node = CosmosNode::new(7);
    let info = get(&mut node, "/cosmos/base/tendermint/v1beta1/node_info", NOW);
    assert_eq!(info["default_node_info"]["network"], "cosmoshub-4");
    assert!(info["application_version"]["build_deps"][0]["path"].is_string());
    assert_eq!(get(&mut node, "/cosmos/base/tendermint/v1beta1/syncing", NOW), json!({ "syncing": false }));
    let status = get(&mut node, "/cosmos/base/node/v1beta1/status", NOW);
    assert_eq!(status["height"], node.height(NOW).to_string());
}

#[test]
fn a_restarted_node_is_the_same() {
    let mut node = CosmosNode::new(7);
    let mut past = Vec::new();
    let mut now = NOW;
    for sequence in 0..3 {
        let to = text(ACCOUNT, &[10 + sequence as u8; 20]);
        broadcast(&mut node, &transfer(&to, atoms(7), sequence, Mode::Direct, |_| ()).raw, now);
        past.extend(node.submitted());
        now = now.plus(Duration::from_secs(2));
    }
    let mut back = CosmosNode::new(7);
    back.replay(&past);
    assert!(back.submitted().is_empty());
    for moment in [now, later(now)] {
        for path in [
            format!("{BLOCKS}/latest"),
            format!("/cosmos/auth/v1beta1/accounts/{DEVELOPER}"),
            "/cosmos/auth/v1beta1/accounts?pagination.limit=1000".to_owned(),
            format!("{TXS}?query=message.sender%3D%27{DEVELOPER}%27"),
        ] {
            assert_eq!(get(&mut node, &path, moment), get(&mut back, &path, moment), "{path}");
        }
    }
}
