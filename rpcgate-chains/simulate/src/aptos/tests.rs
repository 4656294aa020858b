use super::tx::tests::transfer;
use super::*;
use crate::Simulated;
use crate::testing::golden::{NOW, assert_shape};
use serde_json::{Value, json};
use std::time::Duration;

const DEVELOPER: &str = "0x7df415e5b21bdaa8b2946e8f1f4278b39904e51a69627494cd3e6f2996732fbd";
const START: u64 = 100_000_000_000;

fn ask(node: &mut AptosNode, method: &http::Method, path: &str, body: &[u8], now: Time) -> (u16, Value) {
    let reply = node.handle(&SimulatedRequest { method, path, body }, now);
    assert_eq!(reply.content_type, "application/json");
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

#[track_caller]
fn get(node: &mut AptosNode, path: &str, now: Time) -> Value {
    let (status, answer) = ask(node, &http::Method::GET, path, b"", now);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

fn post(node: &mut AptosNode, path: &str, body: &[u8], now: Time) -> (u16, Value) {
    ask(node, &http::Method::POST, path, body, now)
}

fn text(value: &Value) -> u64 {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).parse().unwrap()
}

/// Returns a transfer by the first developer that expires after a minute.
fn signed(sequence: u64, to: Address, amount: u64) -> Vec<u8> {
    transfer(1, sequence, to, amount, NOW.secs() + 60, 100)
}

fn later(now: Time) -> Time {
    now.plus(Duration::from_millis(700))
}

fn front() -> Value {
    json!({
        "version": "", "hash": "", "state_change_hash": "", "event_root_hash": "",
        "state_checkpoint_hash": null,
        "gas_used": "", "success": true, "vm_status": "", "accumulator_root_hash": "", "changes": [],
        "timestamp": "", "type": "",
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their members in place")]
fn with(mut value: Value, more: Value) -> Value {
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    value
}

fn asked() -> Value {
    json!({
        "sender": "", "sequence_number": "", "max_gas_amount": "", "gas_unit_price": "",
        "expiration_timestamp_secs": "",
        "payload": { "function": "", "type_arguments": [""], "arguments": ["", ""], "type": "" },
        "signature": { "public_key": "", "signature": "", "type": "" }, "replay_protection_nonce": null,
    })
}

/// Returns the members of each kind of transaction in the types of the official client.
fn known(kind: &str) -> Value {
    let guid = json!({ "creation_number": "", "account_address": "" });
    let event = |data: Value| json!({ "guid": guid, "sequence_number": "", "type": "", "data": data });
    match kind {
        "user_transaction" => {
            let change = |data: Value| {
                let data = json!({ "type": "", "data": data });
                json!({ "address": "", "state_key_hash": "", "data": data, "type": "" })
            };
            let handle = json!({ "counter": "", "guid": { "id": { "addr": "", "creation_num": "" } } });
            let none = json!({ "for": { "vec": [] } });
            let own = json!({
                "authentication_key": "", "coin_register_events": handle, "guid_creation_num": "",
                "key_rotation_events": handle, "rotation_capability_offer": none, "sequence_number": "",
                "signer_capability_offer": none,
            });
            let coins = json!({
                "coin": { "value": "" }, "deposit_events": handle, "frozen": false, "withdraw_events": handle,
            });
            let moved = json!({ "account": "", "amount": "", "coin_type": "" });
            let fee = json!({
                "execution_gas_units": "", "io_gas_units": "", "storage_fee_octas": "",
                "storage_fee_refund_octas": "", "total_charge_gas_units": "",
            });
            let more =
                json!({ "events": [event(moved), event(fee)], "changes": [change(own), change(coins)] });
            with(with(front(), asked()), more)
        }
        "block_metadata_transaction" => {
            let data = json!({
                "hash": "", "epoch": "", "round": "", "height": "", "proposer": "",
                "failed_proposer_indices": [],
                "previous_block_votes_bitvec": "", "time_microseconds": "",
            });
            let more = json!({
                "id": "", "epoch": "", "round": "", "events": [event(data)],
                "previous_block_votes_bitvec": [1],
                "proposer": "", "failed_proposer_indices": [],
            });
            with(front(), more)
        }
        "block_epilogue_transaction" => {
            let end = json!({
                "block_gas_limit_reached": false, "block_output_limit_reached": false,
                "block_effective_block_gas_units": 1, "block_approx_output_size": 1,
            });
            with(front(), json!({ "block_end_info": end, "state_checkpoint_hash": "" }))
        }
        other => panic!("{other} is not known"),
    }
}

#[test]
fn the_ledger_advances_and_has_its_newest_block() {
    let mut node = AptosNode::new(7);
    let ledger = get(&mut node, "/v1", NOW);
    let real = json!({
        "chain_id": 1, "epoch": "", "ledger_version": "", "oldest_ledger_version": "", "ledger_timestamp": "",
        "node_role": "", "oldest_block_height": "", "block_height": "", "git_hash": "",
    });
    assert_shape("ledger", &real, &ledger, &[]);
    let height = text(&ledger["block_height"]);
    assert_eq!(height, node.height(NOW));
    let block = get(&mut node, &format!("/v1/blocks/by_height/{height}?with_transactions=true"), NOW);
    assert_eq!(block["last_version"], ledger["ledger_version"]);
    assert_eq!(block["block_timestamp"], ledger["ledger_timestamp"]);
    let before = get(&mut node, &format!("/v1/blocks/by_height/{}", height - 1), NOW);
    assert_eq!(text(&before["last_version"]) + 1, text(&block["first_version"]));
    assert!(before.get("transactions").is_none());
    let next = get(&mut node, "/v1/", later(NOW));
    assert!(text(&next["block_height"]) > height);
    assert!(text(&next["ledger_version"]) > text(&ledger["ledger_version"]));
}

#[test]
fn a_transaction_in_a_block_is_found_by_version_and_by_hash() {
    let mut node = AptosNode::new(7);
    let head = node.height(NOW);
    let mut kinds = std::collections::BTreeSet::new();
    for height in (head - 33..=head).chain([head - chain::KEPT]) {
        let block = get(&mut node, &format!("/v1/blocks/by_height/{height}?with_transactions=true"), NOW);
        let transactions = block["transactions"].as_array().unwrap();
        let versions = text(&block["first_version"])..=text(&block["last_version"]);
        assert_eq!(versions.clone().count(), transactions.len());
        for (version, shown) in versions.zip(transactions) {
            assert_eq!(text(&shown["version"]), version);
            let kind = shown["type"].as_str().unwrap();
            assert_shape(kind, &known(kind), shown, &[]);
            kinds.insert(kind.to_owned());
            let hash = shown["hash"].as_str().unwrap();
            assert_eq!(get(&mut node, &format!("/v1/transactions/by_hash/{hash}"), NOW), *shown);
            assert_eq!(get(&mut node, &format!("/v1/transactions/by_version/{version}"), NOW), *shown);
            let whole = get(&mut node, &format!("/v1/blocks/by_version/{version}"), NOW);
            assert_eq!(whole["block_height"], block["block_height"]);
            let page = get(&mut node, &format!("/v1/transactions?start={version}&limit=1"), NOW);
            assert_eq!(page, json!([shown]));
            if kind == "user_transaction" {
                let sender = shown["sender"].as_str().unwrap();
                let number = text(&shown["sequence_number"]);
                let path = format!("/v1/accounts/{sender}/transactions?start={number}&limit=1");
                assert_eq!(get(&mut node, &path, NOW), json!([shown]));
            }
        }
    }
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    let newest = get(&mut node, "/v1/transactions?limit=40", NOW);
    let versions: Vec<_> = newest.as_array().unwrap().iter().map(|one| text(&one["version"])).collect();
    assert_eq!(versions.len(), 40);
    assert!(versions.windows(2).all(|two| two[0] + 1 == two[1]));
    assert_eq!(versions.last().copied(), Some(node.chain.version()));
}

#[test]
fn a_transfer_waits_and_is_committed_under_the_same_hash() {
    let mut node = AptosNode::new(7);
    let raw = signed(0, [9; 32], 2_500);
    let (status, pending) = post(&mut node, "/v1/transactions", &raw, NOW);
    assert_eq!(status, 202, "{pending}");
    assert_shape("pending", &with(asked(), json!({ "hash": "", "type": "" })), &pending, &[]);
    assert_eq!(pending["hash"], format!("0x{}", hex::encode(Tx::decode(&raw).unwrap().hash)));
    assert_eq!(node.submitted().len(), 1);
    let path = format!("/v1/transactions/by_hash/{}", pending["hash"].as_str().unwrap());
    assert_eq!(get(&mut node, &path, NOW), pending);
    // Submitting the same bytes again changes nothing.
    assert_eq!(post(&mut node, "/v1/transactions", &raw, NOW), (202, pending.clone()));
    assert!(node.submitted().is_empty());

    let now = later(NOW);
    let done = get(&mut node, &path, now);
    assert_shape("committed", &known("user_transaction"), &done, &[]);
    assert_eq!((&done["success"], &done["payload"]), (&json!(true), &pending["payload"]));
    let version = text(&done["version"]);
    let block = get(&mut node, &format!("/v1/blocks/by_version/{version}?with_transactions=true"), now);
    assert!(block["transactions"].as_array().unwrap().contains(&done));
    assert_eq!(get(&mut node, &format!("/v1/transactions/by_version/{version}"), now), done);
    assert_eq!(get(&mut node, &format!("/v1/accounts/{DEVELOPER}/transactions"), now), json!([done]));

    let account = get(&mut node, &format!("/v1/accounts/{DEVELOPER}"), now);
    assert_eq!(account, json!({ "sequence_number": "1", "authentication_key": DEVELOPER }));
    let balance = format!("/v1/accounts/{DEVELOPER}/balance/{COIN}");
    assert_eq!(get(&mut node, &balance, now), json!(START - 2_500 - text(&done["gas_used"]) * 100));
    let paid = format!("/v1/accounts/{}/resource/0x1::coin::CoinStore%3C{COIN}%3E", name(&[9; 32]));
    assert_eq!(get(&mut node, &paid, now)["data"]["coin"]["value"], "2500");
}

#[test]
fn versions_have_no_gaps_around_transactions_of_clients() {
    let mut node = AptosNode::new(7);
    let mut now = NOW;
    for sequence in 0..3 {
        assert_eq!(post(&mut node, "/v1/transactions", &signed(sequence, [9; 32], 1), now).0, 202);
        now = later(now);
    }
    let head = node.height(now);
    get(&mut node, "/v1", now);
    let mut expected = node.chain.first_version(head - 12);
    for height in head - 12..=head {
        let block = get(&mut node, &format!("/v1/blocks/by_height/{height}?with_transactions=true"), now);
        for shown in block["transactions"].as_array().unwrap() {
            assert_eq!(text(&shown["version"]), expected);
            assert_eq!(node.chain.block_of(expected), Ok(height));
            expected += 1;
        }
    }
    assert_eq!(expected, node.chain.version() + 1);
}

#[test]
fn a_transaction_that_arrives_early_waits_for_its_predecessor() {
    let mut node = AptosNode::new(7);
    let early = post(&mut node, "/v1/transactions", &signed(1, [9; 32], 1), NOW);
    assert_eq!(early.0, 202);
    let path = format!("/v1/transactions/by_hash/{}", early.1["hash"].as_str().unwrap());
    let now = later(NOW);
    assert_eq!(get(&mut node, &path, now)["type"], "pending_transaction");
    assert_eq!(post(&mut node, "/v1/transactions", &signed(0, [8; 32], 1), now).0, 202);
    assert_eq!(get(&mut node, &path, later(now))["type"], "user_transaction");
    assert_eq!(get(&mut node, &format!("/v1/accounts/{DEVELOPER}"), later(now))["sequence_number"], "2");
}

#[test]
fn a_transaction_that_waits_too_long_is_dropped() {
    let mut node = AptosNode::new(7);
    let early = post(&mut node, "/v1/transactions", &signed(1, [9; 32], 1), NOW);
    let path = format!("/v1/transactions/by_hash/{}", early.1["hash"].as_str().unwrap());
    let now = NOW.plus(Duration::from_secs(62));
    assert_eq!(ask(&mut node, &http::Method::GET, &path, b"", now).0, 404);
}

#[test]
fn a_transaction_is_accepted_as_json_and_as_bytes() {
    let mut node = AptosNode::new(7);
    let raw = signed(0, [9; 32], 5);
    let mut body = String::new();
    Tx::decode(&raw).unwrap().json().write(&mut body);
    let (status, pending) = post(&mut node, "/v1/transactions", body.as_bytes(), NOW);
    assert_eq!(status, 202, "{pending}");
    assert_eq!(pending["hash"], format!("0x{}", hex::encode(Tx::decode(&raw).unwrap().hash)));
    assert_eq!(node.submitted()[0].raw, raw);
}

#[test]
fn the_virtual_machine_refuses_with_its_codes() {
    let mut node = AptosNode::new(7);
    let soon = NOW.secs() + 60;
    let mut forged = signed(0, [9; 32], 5);
    let last = forged.len() - 1;
    forged[last] ^= 1;
    for (raw, code, word) in [
        (forged, 1, "INVALID_SIGNATURE"),
        (transfer(1, 0, [9; 32], 5, soon, 90_000_000), 5, "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE"),
        (transfer(1, 0, [9; 32], 5, NOW.secs(), 100), 6, "TRANSACTION_EXPIRED"),
        (transfer(6, 0, [9; 32], 5, soon, 100), 7, "SENDING_ACCOUNT_DOES_NOT_EXIST"),
        (transfer(1, 0, [9; 32], 5, soon, 1), 16, "GAS_UNIT_PRICE_BELOW_MIN_BOUND"),
    ] {
        let (status, answer) = post(&mut node, "/v1/transactions", &raw, NOW);
        assert_eq!((status, &answer["error_code"]), (400, &json!("vm_error")), "{answer}");
        assert_eq!(answer["vm_error_code"], code, "{answer}");
        assert!(answer["message"].as_str().unwrap().ends_with(word), "{answer}");
        assert!(node.submitted().is_empty());
    }
    assert_eq!(post(&mut node, "/v1/transactions", &signed(0, [9; 32], 5), NOW).0, 202);
    let rival = post(&mut node, "/v1/transactions", &signed(0, [9; 32], 6), NOW);
    assert_eq!((rival.0, &rival.1["error_code"]), (400, &json!("invalid_transaction_update")));
    let old = post(&mut node, "/v1/transactions", &signed(0, [9; 32], 6), later(NOW));
    assert_eq!((old.0, &old.1["vm_error_code"]), (400, &json!(3)));
    for body in [&b"rubbish"[..], b"{}", b"[]", b""] {
        let (status, answer) = post(&mut node, "/v1/transactions", body, NOW);
        assert_eq!((status, &answer["error_code"]), (400, &json!("invalid_input")), "{answer}");
        assert_eq!(answer["vm_error_code"], Value::Null);
    }
}

#[test]
fn a_failed_transaction_is_committed_and_pays() {
    let mut node = AptosNode::new(7);
    let (_, pending) = post(&mut node, "/v1/transactions", &signed(0, [9; 32], 2 * START), NOW);
    let path = format!("/v1/transactions/by_hash/{}", pending["hash"].as_str().unwrap());
    let done = get(&mut node, &path, later(NOW));
    assert_eq!(done["success"], false);
    assert!(done["vm_status"].as_str().unwrap().contains("EINSUFFICIENT_BALANCE"), "{done}");
    let balance = get(&mut node, &format!("/v1/accounts/{DEVELOPER}/balance/0xa"), later(NOW));
    assert_eq!(balance, json!(START - text(&done["gas_used"]) * 100));
}

#[test]
fn a_simulation_needs_no_signature_and_changes_nothing() {
    let mut node = AptosNode::new(7);
    let raw = signed(0, [9; 32], 5);
    let refused = post(&mut node, "/v1/transactions/simulate", &raw, NOW);
    assert_eq!((refused.0, &refused.1["error_code"]), (400, &json!("invalid_input")));
    let mut unsigned = raw;
    let length = unsigned.len();
    unsigned[length - 64..].fill(0);
    let (status, answer) = post(&mut node, "/v1/transactions/simulate", &unsigned, NOW);
    assert_eq!((status, &answer[0]["success"]), (200, &json!(true)), "{answer}");
    assert_shape("simulated", &known("user_transaction"), &answer[0], &[]);
    assert!(node.submitted().is_empty());
    assert_eq!(get(&mut node, &format!("/v1/accounts/{DEVELOPER}"), later(NOW))["sequence_number"], "0");
}

#[test]
fn functions_are_viewed_by_json_and_by_bytes() {
    let mut node = AptosNode::new(7);
    let ask = |function: &str, types: Value, arguments: Value| {
        json!({ "function": function, "type_arguments": types, "arguments": arguments }).to_string()
    };
    let coin = json!([COIN]);
    let developer = json!([DEVELOPER]);
    for (body, answer) in [
        (ask("0x1::coin::balance", coin.clone(), developer.clone()), json!([START.to_string()])),
        (ask("0x1::coin::decimals", coin.clone(), json!([])), json!([8])),
        (ask("0x1::chain_id::get", json!([]), json!([])), json!([1])),
        (ask("0x1::account::get_sequence_number", json!([]), developer), json!(["0"])),
        (ask("0x1::coin::balance", coin, json!(["0x77"])), json!(["0"])),
    ] {
        assert_eq!(post(&mut node, "/v1/view", body.as_bytes(), NOW), (200, answer), "{body}");
    }
    // 0x1::coin::balance<0x1::aptos_coin::AptosCoin>, as the official client encodes it.
    let one = format!("{}1", "0".repeat(63));
    let coin = format!("07{one}0a6170746f735f636f696e094170746f73436f696e00");
    let call = format!("{one}04636f696e0762616c616e636501{coin}0120{}", &DEVELOPER[2..]);
    let bytes = hex::decode(call).unwrap();
    assert_eq!(post(&mut node, "/v1/view", &bytes, NOW), (200, json!([START.to_string()])));
    for body in [&b"{}"[..], b"\x00", br#"{"function":"x","type_arguments":[],"arguments":[]}"#] {
        let (status, answer) = post(&mut node, "/v1/view", body, NOW);
        assert_eq!((status, &answer["error_code"]), (400, &json!("invalid_input")));
    }
}

/// The first examples of most clients read these resources.
// Shows (Per-chain surface).
#[test]
fn the_system_account_has_the_coin_and_the_framework_resources() {
    let mut node = AptosNode::new(3);
    let account = get(&mut node, "/v1/accounts/0x1", NOW);
    assert_eq!(account["authentication_key"], format!("0x{}1", "0".repeat(63)));
    let all = get(&mut node, "/v1/accounts/0x1/resources", NOW);
    let kinds: Vec<_> = all.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert!(
        kinds.contains(&"0x1::account::Account") && kinds.contains(&"0x1::chain_id::ChainId"),
        "{kinds:?}"
    );
    let resource = |node: &mut AptosNode, kind: &str| {
        get(node, &format!("/v1/accounts/0x1/resource/{kind}"), NOW)["data"].clone()
    };
    let coin = resource(&mut node, "0x1::coin::CoinInfo%3C0x1::aptos_coin::AptosCoin%3E");
    assert_eq!((&coin["symbol"], &coin["decimals"]), (&json!("APT"), &json!(8)));
    let block = resource(&mut node, "0x1::block::BlockResource");
    let ledger = get(&mut node, "/v1", NOW);
    assert_eq!(block["height"], ledger["block_height"]);
    assert_eq!(
        resource(&mut node, "0x1::timestamp::CurrentTimeMicroseconds")["microseconds"],
        format!("{}", text(&ledger["ledger_timestamp"]))
    );
    assert_eq!(resource(&mut node, "0x1::reconfiguration::Configuration")["epoch"], ledger["epoch"]);
    let (status, _) = ask(&mut node, &http::Method::GET, "/v1/accounts/0x1/resource/0x1::no::Such", b"", NOW);
    assert_eq!(status, 404);
}

#[test]
fn missing_objects_are_refused_with_a_code() {
    let mut node = AptosNode::new(7);
    get(&mut node, "/v1", NOW);
    let head = node.chain.head;
    let newest = node.chain.version();
    let oldest = node.chain.first_version(head - chain::KEPT);
    for (path, status, code) in [
        (format!("/v1/accounts/{}", name(&[7; 32])), 404, "account_not_found"),
        ("/v1/accounts/nobody".into(), 400, "web_framework_error"),
        (format!("/v1/accounts/{DEVELOPER}?ledger_version={}", newest + 99), 404, "version_not_found"),
        (format!("/v1/accounts/{DEVELOPER}?ledger_version=5"), 410, "version_pruned"),
        (format!("/v1/accounts/{DEVELOPER}/resource/0x1::a::B"), 404, "resource_not_found"),
        ("/v1/accounts/0x1/module/nothing".into(), 404, "module_not_found"),
        (format!("/v1/blocks/by_height/{}", head + 1), 404, "block_not_found"),
        (format!("/v1/blocks/by_height/{}", head - chain::KEPT - 1), 410, "block_pruned"),
        ("/v1/blocks/by_height/x".into(), 400, "web_framework_error"),
        (format!("/v1/blocks/by_version/{}", newest + 1), 404, "version_not_found"),
        (format!("/v1/transactions/by_version/{}", newest + 1), 404, "transaction_not_found"),
        (format!("/v1/transactions/by_version/{}", oldest - 1), 410, "version_pruned"),
        (format!("/v1/transactions/by_hash/0x{}", "7".repeat(64)), 404, "transaction_not_found"),
        ("/v1/transactions/by_hash/0x7".into(), 400, "web_framework_error"),
        (format!("/v1/transactions?start={}", newest + 1), 400, "invalid_input"),
        ("/v1/transactions?limit=0".into(), 400, "invalid_input"),
        ("/v1/transactions?start=1".into(), 410, "version_pruned"),
        ("/v1/nothing".into(), 404, "web_framework_error"),
        ("/v2".into(), 404, "web_framework_error"),
    ] {
        let (got, answer) = ask(&mut node, &http::Method::GET, &path, b"", NOW);
        assert_eq!((got, &answer["error_code"]), (status, &json!(code)), "{path}: {answer}");
        assert!(answer["message"].is_string() && answer["vm_error_code"].is_null());
    }
    assert_eq!(ask(&mut node, &http::Method::DELETE, "/v1", b"", NOW).0, 405);
}

#[test]
fn the_modules_of_the_system_list_their_functions() {
    let mut node = AptosNode::new(7);
    let module = get(&mut node, "/v1/accounts/0x1/module/aptos_account", NOW);
    let transfer = &module["abi"]["exposed_functions"][0];
    assert_eq!((&transfer["name"], &transfer["is_entry"]), (&json!("transfer"), &json!(true)));
    assert_eq!(transfer["params"], json!(["&signer", "address", "u64"]));
    let gas = get(&mut node, "/v1/estimate_gas_price", NOW);
    assert!(gas["deprioritized_gas_estimate"].as_u64() <= gas["gas_estimate"].as_u64());
    assert_eq!(get(&mut node, "/v1/-/healthy", NOW)["message"], "aptos-node:ok");
}

#[test]
fn a_restarted_node_is_the_same() {
    let mut node = AptosNode::new(7);
    let mut past = Vec::new();
    let mut now = NOW;
    for sequence in [0, 2, 1] {
        post(&mut node, "/v1/transactions", &signed(sequence, [sequence as u8 + 9; 32], 7), now);
        past.extend(node.submitted());
        now = later(now);
    }
    let mut back = AptosNode::new(7);
    back.replay(&past);
    assert!(back.submitted().is_empty());
    for moment in [now, later(now)] {
        for path in
            ["/v1".to_owned(), "/v1/transactions?limit=100".into(), format!("/v1/accounts/{DEVELOPER}")]
        {
            assert_eq!(get(&mut node, &path, moment), get(&mut back, &path, moment), "{path}");
        }
    }
    assert_eq!(get(&mut back, &format!("/v1/accounts/{DEVELOPER}"), later(now))["sequence_number"], "3");
}
