use super::SuiNode;
use super::tx::{Id, blake, digest, parse_id};
use crate::hash::{base58, from_base58};
use crate::testing::golden::{NOW, assert_shape, call, post, refusal, result};
use crate::{EPOCH, Simulated};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rpcgate_core::clock::Time;
use serde_json::{Value, json};
use std::time::Duration;

const FAUCET: &str = "0xd0c2c91eda34bbfbaec6cfb9c7bb913e57dab3cbec4018a4b3f5e55531cd63af";
const PAYEE: &str = "0xabababababababababababababababababababababababababababababababab";
const SUI: u64 = 1_000_000_000;

fn later(millis: u64) -> Time {
    NOW.plus(Duration::from_millis(millis))
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{value} is no number"))
}

fn all() -> Value {
    json!({
        "showInput": true, "showRawInput": true, "showEffects": true, "showEvents": true,
        "showObjectChanges": true, "showBalanceChanges": true,
    })
}

fn balance(node: &mut SuiNode, owner: &str, now: Time) -> u64 {
    number(&result(node, "suix_getBalance", json!([owner]), now)["totalBalance"])
}

/// Returns the reference of a faucet coin in its current state, encoded in BCS.
fn coin(node: &mut SuiNode, n: usize, now: Time) -> Vec<u8> {
    let coin = &result(node, "suix_getCoins", json!([FAUCET]), now)["data"][n];
    let id = parse_id(coin["coinObjectId"].as_str().expect("an id")).expect("an id");
    let digest = from_base58::<32>(coin["digest"].as_str().expect("a digest")).expect("a digest");
    [&id[..], &number(&coin["version"]).to_le_bytes(), &[32], &digest[..]].concat()
}

/// Returns a transaction kind that splits an amount off the gas coin and transfers it to the payee.
fn payment(amount: u64) -> Vec<u8> {
    let payee: Id = parse_id(PAYEE).expect("an id");
    let mut out = vec![0, 2, 0, 8];
    out.extend_from_slice(&amount.to_le_bytes());
    out.extend([0, 32]);
    out.extend_from_slice(&payee);
    out.extend([2, 2, 0, 1, 1, 0, 0, 1, 1, 3, 0, 0, 0, 0, 1, 1, 0]);
    out
}

/// Returns the bytes of a transaction of the faucet, and its signature by the key of this secret.
fn signed(secret: u8, kind: &[u8], gas: &[Vec<u8>], price: u64, budget: u64) -> (Vec<u8>, String) {
    let mut seed = [0; 32];
    seed[31] = secret;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a key");
    let sender: Id = parse_id(FAUCET).expect("an id");
    let mut raw = vec![0];
    raw.extend_from_slice(kind);
    raw.extend_from_slice(&sender);
    raw.push(gas.len() as u8);
    raw.extend(gas.iter().flatten());
    raw.extend_from_slice(&sender);
    raw.extend_from_slice(&price.to_le_bytes());
    raw.extend_from_slice(&budget.to_le_bytes());
    raw.push(0);
    let message = blake(&[&[0, 0, 0], &raw]);
    let signature = [&[0], pair.sign(&message).as_ref(), pair.public_key().as_ref()].concat();
    (raw, STANDARD.encode(signature))
}

fn params((raw, signature): &(Vec<u8>, String), options: &Value) -> Value {
    json!([STANDARD.encode(raw), [signature], options, "WaitForLocalExecution"])
}

#[test]
fn checkpoints_link_and_list_transactions_that_are_found() {
    let node = &mut SuiNode::new(1);
    let head = number(&result(node, "sui_getLatestCheckpointSequenceNumber", json!([]), NOW));
    assert_eq!(head, node.height(NOW));
    let mut parent: Option<Value> = None;
    for sequence in head - 12..=head {
        let checkpoint = result(node, "sui_getCheckpoint", json!([sequence.to_string()]), NOW);
        let real = json!({
            "epoch": "", "sequenceNumber": "", "digest": "", "networkTotalTransactions": "", "previousDigest": "",
            "epochRollingGasCostSummary": {
                "computationCost": "", "storageCost": "", "storageRebate": "", "nonRefundableStorageFee": "",
            },
            "timestampMs": "", "transactions": [""], "checkpointCommitments": [], "validatorSignature": "",
        });
        assert_shape("sui_getCheckpoint", &real, &checkpoint, &[]);
        assert_eq!(result(node, "sui_getCheckpoint", json!([checkpoint["digest"]]), NOW), checkpoint);
        for digest in checkpoint["transactions"].as_array().expect("a list") {
            let tx = result(node, "sui_getTransactionBlock", json!([digest, all()]), NOW);
            assert_eq!(
                (&tx["checkpoint"], &tx["timestampMs"]),
                (&json!(sequence.to_string()), &checkpoint["timestampMs"])
            );
        }
        if let Some(parent) = parent {
            assert_eq!(checkpoint["previousDigest"], parent["digest"]);
            assert!(number(&checkpoint["timestampMs"]) > number(&parent["timestampMs"]));
            let total = |one: &Value| number(&one["networkTotalTransactions"]);
            assert_eq!(total(&checkpoint) - total(&parent), 1);
        }
        parent = Some(checkpoint);
    }
    let total = result(node, "sui_getTotalTransactionBlocks", json!([]), NOW);
    assert_eq!(Some(&total), parent.as_ref().map(|parent| &parent["networkTotalTransactions"]));
    let page = result(node, "sui_getCheckpoints", json!([null, 3, true]), NOW);
    assert_eq!(page["data"][0], parent.expect("a checkpoint"));
    assert_eq!((&page["nextCursor"], &page["hasNextPage"]), (&json!((head - 2).to_string()), &json!(true)));
    let first = result(node, "sui_getCheckpoint", json!(["0"]), NOW)["digest"].clone();
    let bytes = from_base58::<32>(first.as_str().expect("a digest")).expect("32 bytes");
    assert_eq!(result(node, "sui_getChainIdentifier", json!([]), NOW), hex::encode(&bytes[..4]));
    assert!(number(&result(node, "suix_getReferenceGasPrice", json!([]), NOW)) > 0);
}

#[test]
fn a_transaction_of_residents_leaves_the_objects_that_its_effects_name() {
    let node = &mut SuiNode::new(2);
    let head = node.height(NOW);
    for sequence in [head, head - 3] {
        let digest =
            result(node, "sui_getCheckpoint", json!([sequence.to_string()]), NOW)["transactions"][0].clone();
        let tx = result(node, "sui_getTransactionBlock", json!([digest, all()]), NOW);
        for change in tx["objectChanges"].as_array().expect("a list") {
            let shown = json!({ "showOwner": true, "showPreviousTransaction": true, "showType": true });
            let object =
                result(node, "sui_getObject", json!([change["objectId"], shown]), NOW)["data"].clone();
            assert_eq!((&object["version"], &object["digest"]), (&change["version"], &change["digest"]));
            assert_eq!((&object["owner"], &object["type"]), (&change["owner"], &change["objectType"]));
            assert_eq!(object["previousTransaction"], digest);
        }
        let sum: i128 = tx["balanceChanges"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|change| change["amount"].as_str().expect("digits").parse::<i128>().expect("a number"))
            .sum();
        let gas = &tx["effects"]["gasUsed"];
        let net =
            number(&gas["computationCost"]) + number(&gas["storageCost"]) - number(&gas["storageRebate"]);
        assert_eq!(-sum, i128::from(net));
        for before in tx["effects"]["dependencies"].as_array().expect("a list") {
            result(node, "sui_getTransactionBlock", json!([before]), NOW);
        }
        let commands = tx["transaction"]["data"]["transaction"]["transactions"].as_array().expect("a list");
        assert_eq!(commands.last().expect("a command")["TransferObjects"][1], json!({ "Input": 1 }));
    }
}

#[test]
fn two_residents_record_their_payments_in_events() {
    let node = &mut SuiNode::new(6);
    let head = node.height(NOW);
    let mut recorded = 0;
    for sequence in head - 15..=head {
        let digest =
            result(node, "sui_getCheckpoint", json!([sequence.to_string()]), NOW)["transactions"][0].clone();
        let tx = result(node, "sui_getTransactionBlock", json!([digest, all()]), NOW);
        let events = tx["events"].as_array().expect("a list");
        assert_eq!(result(node, "sui_getEvents", json!([digest]), NOW), tx["events"]);
        assert_eq!(tx["effects"].get("eventsDigest").is_some(), !events.is_empty());
        for event in events {
            recorded += 1;
            let real = json!({
                "id": { "txDigest": "", "eventSeq": "" }, "packageId": "", "transactionModule": "", "sender": "",
                "type": "", "parsedJson": { "coin": "", "from": "", "to": "", "value": "" },
                "bcsEncoding": "", "bcs": "",
            });
            assert_shape("event", &real, event, &[]);
            assert_eq!(event["id"]["txDigest"], digest);
            let call = &tx["transaction"]["data"]["transaction"]["transactions"][0]["MoveCall"];
            assert_eq!(
                (&call["package"], &call["module"]),
                (&event["packageId"], &event["transactionModule"])
            );
            let to = &event["parsedJson"]["to"];
            let gained = tx["balanceChanges"].as_array().expect("a list");
            let gained = gained.iter().find(|change| change["owner"]["AddressOwner"] == *to);
            assert_eq!(gained.expect("a change")["amount"], event["parsedJson"]["value"]);
        }
    }
    assert_eq!(recorded, 2);
}

/// The first examples of most clients read these objects.
// Shows (Per-chain surface).
#[test]
fn the_system_state_and_the_clock_can_be_read() {
    let mut node = SuiNode::new(3);
    let options = json!({ "showType": true, "showOwner": true, "showContent": true, "showBcs": true });
    for (id, kind) in [("0x5", "0x3::sui_system::SuiSystemState"), ("0x6", "0x2::clock::Clock")] {
        let object = result(&mut node, "sui_getObject", json!([id, options]), NOW)["data"].clone();
        assert_eq!((&object["type"], &object["content"]["type"]), (&json!(kind), &json!(kind)));
        assert_eq!(object["owner"]["Shared"]["initial_shared_version"], 1);
        assert_eq!(object["objectId"], format!("0x{}{}", "0".repeat(63), &id[2..]));
        assert_eq!(STANDARD.decode(object["bcs"]["bcsBytes"].as_str().unwrap()).unwrap().len(), 40);
    }
    let mut clock = |now| {
        let object = result(&mut node, "sui_getObject", json!(["0x6", { "showContent": true }]), now);
        number(&object["data"]["content"]["fields"]["timestamp_ms"])
    };
    let first = clock(NOW);
    assert!(first <= NOW.millis() && clock(later(5_000)) > first);
    let many = result(&mut node, "sui_multiGetObjects", json!([["0x5", "0x7"], {}]), NOW);
    assert!(many[0]["data"].is_object() && many[1]["error"].is_object());
}

#[test]
fn a_payment_is_in_effect_at_once_and_in_the_next_checkpoint() {
    let node = &mut SuiNode::new(3);
    assert_eq!(balance(node, FAUCET, NOW), 10_000 * SUI);
    let gas = coin(node, 0, NOW);
    let tx = signed(1, &payment(3 * SUI), &[gas], 750, 5_000_000);
    let dry = result(node, "sui_dryRunTransactionBlock", json!([STANDARD.encode(&tx.0)]), NOW);
    let done = result(node, "sui_executeTransactionBlock", params(&tx, &all()), NOW);
    assert_eq!(node.submitted().len(), 1);
    assert_eq!(done["digest"], base58(&digest(&tx.0)));
    for part in ["effects", "objectChanges", "balanceChanges"] {
        assert_eq!(dry[part], done[part], "{part}");
    }
    let reference = json!({ "objectId": "", "version": 1, "digest": "" });
    let owned = json!({ "owner": { "AddressOwner": "" }, "reference": reference });
    let change = json!({
        "type": "", "sender": "", "owner": { "AddressOwner": "" }, "objectType": "", "objectId": "",
        "version": "", "previousVersion": "", "digest": "",
    });
    let real = json!({
        "digest": "",
        "transaction": {
            "data": {
                "messageVersion": "v1", "sender": "",
                "transaction": {
                    "kind": "",
                    "inputs": [{ "type": "pure", "valueType": "u64", "value": "" }],
                    "transactions": [
                        { "SplitCoins": ["GasCoin", [{ "Input": 0 }]] },
                        { "TransferObjects": [[{ "NestedResult": [0, 0] }], { "Input": 1 }] },
                    ],
                },
                "gasData": { "payment": [reference], "owner": "", "price": "", "budget": "" },
            },
            "txSignatures": [""],
        },
        "rawTransaction": "",
        "effects": {
            "messageVersion": "v1", "status": { "status": "success" }, "executedEpoch": "",
            "gasUsed": {
                "computationCost": "", "storageCost": "", "storageRebate": "", "nonRefundableStorageFee": "",
            },
            "modifiedAtVersions": [{ "objectId": "", "sequenceNumber": "" }], "transactionDigest": "",
            "created": [owned], "mutated": [owned], "gasObject": owned, "dependencies": [""],
        },
        "events": [],
        "objectChanges": [change],
        "balanceChanges": [{ "owner": { "AddressOwner": "" }, "coinType": "", "amount": "" }],
        "confirmedLocalExecution": true,
    });
    // The members of the first command are ordered differently, so they are compared by value.
    let commands = &done["transaction"]["data"]["transaction"]["transactions"];
    assert_eq!(*commands, real["transaction"]["data"]["transaction"]["transactions"]);
    let mut plain = done.clone();
    plain["transaction"]["data"]["transaction"]["transactions"] = json!([]);
    assert_shape("sui_executeTransactionBlock", &real, &plain, &["previousVersion"]);
    assert_eq!(done["transaction"]["data"]["transaction"]["inputs"][0]["value"], (3 * SUI).to_string());
    assert_eq!(balance(node, PAYEE, NOW), 3 * SUI);
    let used = 750_000 + 2 * 988_000 - 978_120;
    assert_eq!(balance(node, FAUCET, NOW), 9_997 * SUI - used);
    let early = result(node, "sui_getTransactionBlock", json!([done["digest"], {}]), NOW);
    assert_eq!(early, json!({ "digest": done["digest"] }));
    let next = node.height(NOW) + 1;
    let now = later(600);
    let late = result(node, "sui_getTransactionBlock", json!([done["digest"], all()]), now);
    assert_eq!(late["checkpoint"], next.to_string());
    let listed = result(node, "sui_getCheckpoint", json!([next.to_string()]), now);
    assert_eq!(listed["transactions"][1], done["digest"]);
    assert_eq!(late["effects"], done["effects"]);
    let again = result(node, "sui_executeTransactionBlock", params(&tx, &all()), now);
    assert_eq!(again["effects"], done["effects"], "the same bytes again have the same effects");
    assert!(node.submitted().is_empty());
    let both =
        json!([[done["digest"], listed["transactions"][0], base58(&[7; 32])], { "showEffects": true }]);
    let both = result(node, "sui_multiGetTransactionBlocks", both, now);
    assert_eq!(both[0]["effects"], done["effects"]);
    assert_eq!(both[2], json!({ "digest": base58(&[7; 32]) }));
}

#[test]
fn a_program_that_fails_costs_its_gas_and_moves_nothing() {
    let node = &mut SuiNode::new(4);
    let gas = coin(node, 0, NOW);
    let tx = signed(1, &payment(2_000 * SUI), &[gas], 750, 5_000_000);
    let done = result(node, "sui_executeTransactionBlock", params(&tx, &all()), NOW);
    let status = json!({ "status": "failure", "error": "InsufficientCoinBalance in command 0" });
    assert_eq!(done["effects"]["status"], status);
    assert_eq!(balance(node, PAYEE, NOW), 0);
    assert_eq!(balance(node, FAUCET, NOW), 10_000 * SUI - 750_000 - 988_000 + 978_120);
}

#[test]
fn coins_that_pay_together_become_one() {
    let node = &mut SuiNode::new(5);
    let gas = [coin(node, 0, NOW), coin(node, 1, NOW), coin(node, 2, NOW)];
    let gone = result(node, "suix_getCoins", json!([FAUCET]), NOW)["data"][1]["coinObjectId"].clone();
    let tx = signed(1, &payment(2_500 * SUI), &gas, 750, 5_000_000);
    let done = result(node, "sui_executeTransactionBlock", params(&tx, &all()), NOW);
    assert_eq!(done["effects"]["status"]["status"], "success");
    assert_eq!(done["effects"]["deleted"].as_array().map(Vec::len), Some(2));
    assert_eq!(balance(node, PAYEE, NOW), 2_500 * SUI);
    assert_eq!(result(node, "suix_getBalance", json!([FAUCET]), NOW)["coinObjectCount"], 8);
    let error = result(node, "sui_getObject", json!([gone]), NOW)["error"].clone();
    assert_eq!(error["code"], "deleted");
    let owned = result(
        node,
        "suix_getOwnedObjects",
        json!([FAUCET, { "options": { "showType": true } }, null, 5]),
        NOW,
    );
    assert_eq!((owned["data"].as_array().map(Vec::len), &owned["hasNextPage"]), (Some(5), &json!(true)));
    let rest = result(node, "suix_getOwnedObjects", json!([FAUCET, null, owned["nextCursor"], 5]), NOW);
    assert_eq!((rest["data"].as_array().map(Vec::len), &rest["hasNextPage"]), (Some(3), &json!(false)));
}

#[test]
fn an_inspection_of_a_program_changes_nothing() {
    let node = &mut SuiNode::new(6);
    let kind = STANDARD.encode(payment(7));
    let seen = result(node, "sui_devInspectTransactionBlock", json!([FAUCET, kind]), NOW);
    assert_eq!(seen["effects"]["status"]["status"], "success");
    let value = &seen["results"][0]["returnValues"][0];
    assert_eq!(value[0].as_array().map(Vec::len), Some(40));
    assert_eq!((&value[0][32], &value[1]), (&json!(7), &json!("0x2::coin::Coin<0x2::sui::SUI>")));
    assert_eq!(seen["results"][1], json!({}));
    assert_eq!(balance(node, PAYEE, NOW), 0);
    assert!(node.submitted().is_empty());
}

#[test]
fn a_dry_run_needs_no_coin_for_its_gas() {
    let node = &mut SuiNode::new(11);
    let (raw, _) = signed(1, &payment(5), &[], 750, 50_000_000_000);
    let dry = result(node, "sui_dryRunTransactionBlock", json!([STANDARD.encode(raw)]), NOW);
    assert_eq!(dry["effects"]["status"]["status"], "success");
    assert_eq!(dry["effects"]["gasUsed"]["computationCost"], "750000");
    let (raw, signature) = signed(1, &payment(5), &[], 750, 50_000_000_000);
    assert_eq!(
        refusal(node, "sui_executeTransactionBlock", json!([STANDARD.encode(raw), [signature]]), NOW).0,
        -32002
    );
}

#[test]
fn a_transaction_that_breaks_a_rule_is_refused() {
    let node = &mut SuiNode::new(7);
    let gas = coin(node, 0, NOW);
    let mut why = |tx: (Vec<u8>, String)| {
        let (code, message) = refusal(node, "sui_executeTransactionBlock", params(&tx, &json!({})), NOW);
        assert_eq!(code, -32002, "{message}");
        message
    };
    let kind = payment(SUI);
    assert!(
        why(signed(2, &kind, std::slice::from_ref(&gas), 750, 5_000_000)).contains("Invalid user signature")
    );
    let (raw, _) = signed(1, &kind, std::slice::from_ref(&gas), 750, 5_000_000);
    assert!(why((raw, STANDARD.encode([0; 97]))).contains("Invalid user signature"));
    assert!(why(signed(1, &kind, std::slice::from_ref(&gas), 1, 5_000_000)).contains("reference gas price"));
    assert!(why(signed(1, &kind, std::slice::from_ref(&gas), 750, 5)).contains("lower than min"));
    assert!(
        why(signed(1, &kind, std::slice::from_ref(&gas), u64::MAX, 5_000_000))
            .contains("exceeds the maximum")
    );
    let mut old = gas.clone();
    old[32] ^= 6;
    assert!(why(signed(1, &kind, &[old], 750, 5_000_000)).contains("needs to be rebuilt"));
    let mut unknown = gas.clone();
    unknown[0] ^= 1;
    assert!(
        why(signed(1, &kind, &[unknown], 750, 5_000_000)).contains("Could not find the referenced object")
    );
    let call = [vec![0, 0, 1, 0], vec![9; 32], vec![1, b'm', 1, b'f', 0, 0]].concat();
    assert!(
        why(signed(1, &call, std::slice::from_ref(&gas), 750, 5_000_000))
            .contains("Dependent package not found")
    );
    assert!(node.submitted().is_empty());
    let spent = signed(1, &kind, std::slice::from_ref(&gas), 750, 5_000_000);
    result(node, "sui_executeTransactionBlock", params(&spent, &json!({})), NOW);
    let other = signed(1, &payment(5), &[gas], 750, 5_000_000);
    let (_, message) = refusal(node, "sui_executeTransactionBlock", params(&other, &json!({})), NOW);
    assert!(message.contains("unavailable for consumption"), "{message}");
}

#[test]
fn errors_have_their_codes() {
    let node = &mut SuiNode::new(8);
    let head = node.height(NOW);
    let rows = [
        ("no_such", json!([]), -32601),
        ("sui_getObject", json!([]), -32602),
        ("sui_getObject", json!(["12"]), -32602),
        ("sui_getObject", json!([7]), -32602),
        ("sui_getTransactionBlock", json!([base58(&[0; 32])]), -32602),
        ("sui_getTransactionBlock", json!(["0"]), -32602),
        ("sui_getCheckpoint", json!([(head + 9).to_string()]), -32602),
        ("sui_getCheckpoint", json!(["5"]), -32602),
        ("sui_multiGetTransactionBlocks", json!([[base58(&[0; 32]), base58(&[0; 32])]]), -32602),
        ("sui_executeTransactionBlock", json!(["AAAA", []]), -32602),
        ("sui_executeTransactionBlock", json!(["%", []]), -32602),
        ("sui_dryRunTransactionBlock", json!(["AAAA"]), -32602),
        ("suix_getBalance", json!([FAUCET, "SUI"]), -32602),
    ];
    for (method, params, code) in rows {
        let shown = params.to_string();
        assert_eq!(refusal(node, method, params, NOW).0, code, "{method} {shown}");
    }
    let none = result(node, "sui_getObject", json!(["0x99"]), NOW);
    assert_eq!(none["error"]["code"], "notExists");
    assert_eq!(balance(node, "0x99", NOW), 0);
    let named = result(node, "sui_getObject", json!({ "object_id": "0x99" }), NOW);
    assert_eq!(named, none);
    assert_eq!(
        post(node, "{nope", NOW).1,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#
    );
    let batch = r#"[{"method":"sui_getChainIdentifier","id":"x"},{"method":"sui_getChainIdentifier"}]"#;
    assert_eq!(post(node, batch, NOW).1, r#"[{"jsonrpc":"2.0","id":"x","result":"35834a8a"}]"#);
    assert_eq!(call(node, "sui_getEvents", json!([base58(&[0; 32])]), NOW)["error"]["code"], -32602);
}

#[test]
fn a_node_that_replays_its_submissions_is_the_same() {
    let mut first = SuiNode::new(9);
    let mut past = Vec::new();
    let mut digests = Vec::new();
    for n in 0..4 {
        let now = later(n * 400);
        let gas = coin(&mut first, 0, now);
        let tx = signed(1, &payment(SUI + n), &[gas], 750, 5_000_000);
        digests.push(
            result(&mut first, "sui_executeTransactionBlock", params(&tx, &json!({})), now)["digest"].clone(),
        );
        past.extend(first.submitted());
    }
    assert_eq!(past.len(), 4);
    let mut second = SuiNode::new(9);
    second.replay(&past);
    assert!(second.submitted().is_empty());
    let now = later(9_000);
    for digest in digests {
        let params = json!([digest, all()]);
        assert_eq!(
            result(&mut first, "sui_getTransactionBlock", params.clone(), now),
            result(&mut second, "sui_getTransactionBlock", params, now)
        );
    }
    assert_eq!(balance(&mut first, FAUCET, now), balance(&mut second, FAUCET, now));
    assert_eq!(first.height(EPOCH), first.height(now), "time that steps back changes nothing");
}

#[test]
fn a_clock_far_in_the_past_is_harmless() {
    let node = &mut SuiNode::new(10);
    for now in [Time::default(), Time::from_secs(900_000_000), EPOCH] {
        let head = node.height(now).to_string();
        assert_eq!(result(node, "sui_getCheckpoint", json!([head]), now)["sequenceNumber"], head);
    }
}
