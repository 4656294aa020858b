use super::tx::{address, bech32, hash28, hash32};
use super::*;
use crate::testing::golden::{NOW, assert_shape};
use crate::{Simulated, Submission};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::time::Duration;

fn post(node: &mut CardanoNode, body: &str, now: Time) -> (u16, Value) {
    let reply =
        node.handle(&SimulatedRequest { method: &http::Method::POST, path: "/", body: body.as_bytes() }, now);
    (reply.status, serde_json::from_slice(&reply.body).expect("JSON"))
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(node: &mut CardanoNode, method: &str, params: Value, now: Time) -> (u16, Value) {
    let body = json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": { "requestId": "7" } });
    let (status, answer) = post(node, &body.to_string(), now);
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!({ "requestId": "7" })));
    (status, answer)
}

#[track_caller]
fn result(node: &mut CardanoNode, method: &str, params: Value, now: Time) -> Value {
    let (status, answer) = call(node, method, params, now);
    assert_eq!((status, &answer["method"]), (200, &json!(method)), "{answer}");
    answer["result"].clone()
}

#[track_caller]
fn refusal(node: &mut CardanoNode, method: &str, params: Value, now: Time) -> Value {
    let (status, answer) = call(node, method, params, now);
    assert_eq!(status, 400, "{answer}");
    answer["error"].clone()
}

fn later(secs: u64) -> Time {
    NOW.plus(Duration::from_secs(secs))
}

fn key(n: u8) -> Ed25519KeyPair {
    let mut secret = [0; 32];
    secret[31] = n;
    Ed25519KeyPair::from_seed_unchecked(&secret).expect("a key")
}

fn account(n: u8) -> Vec<u8> {
    [&[0x61], &hash28(key(n).public_key().as_ref())[..]].concat()
}

/// Returns the head of a CBOR value.
fn head(major: u8, number: u64) -> Vec<u8> {
    match number {
        0..24 => vec![major << 5 | number as u8],
        24..256 => vec![major << 5 | 24, number as u8],
        _ => [&[major << 5 | 27], &number.to_be_bytes()[..]].concat(),
    }
}

fn bytes(data: &[u8]) -> Vec<u8> {
    [head(2, data.len() as u64), data.to_vec()].concat()
}

/// Returns a transaction of inputs, outputs, a fee and a last slot, signed by the keys `signers`.
fn transaction(
    inputs: &[(Vec<u8>, u64)],
    outputs: &[(Vec<u8>, u64)],
    fee: u64,
    before: u64,
    signers: &[u8],
) -> (Vec<u8>, String) {
    let mut body = [head(5, 4), head(0, 0), head(6, 258), head(4, inputs.len() as u64)].concat();
    for (id, index) in inputs {
        body.extend([head(4, 2), bytes(id), head(0, *index)].concat());
    }
    body.extend([head(0, 1), head(4, outputs.len() as u64)].concat());
    for (index, (address, lovelace)) in outputs.iter().enumerate() {
        // Outputs alternate between their old and new form.
        let (shape, zero, one) = if index % 2 == 0 {
            (head(4, 2), Vec::new(), Vec::new())
        } else {
            (head(5, 2), head(0, 0), head(0, 1))
        };
        body.extend([shape, zero, bytes(address), one, head(0, *lovelace)].concat());
    }
    body.extend([head(0, 2), head(0, fee), head(0, 3), head(0, before)].concat());
    let id = hash32(&body);
    let mut witnesses = [head(5, 1), head(0, 0), head(4, signers.len() as u64)].concat();
    for n in signers {
        let signature = key(*n).sign(&id);
        witnesses
            .extend([head(4, 2), bytes(key(*n).public_key().as_ref()), bytes(signature.as_ref())].concat());
    }
    ([head(4, 4), body, witnesses, vec![0xf5, 0xf6]].concat(), hex::encode(id))
}

/// Returns the outputs of developer `n`.
fn coins(node: &mut CardanoNode, n: u8, now: Time) -> Value {
    result(node, "queryLedgerState/utxo", json!({ "addresses": [bech32("addr", &account(n))] }), now)
}

fn input(coin: &Value) -> (Vec<u8>, u64) {
    let id = coin["transaction"]["id"].as_str().expect("an identity");
    (hex::decode(id).expect("hex"), coin["index"].as_u64().expect("an index"))
}

fn slot(node: &mut CardanoNode, now: Time) -> u64 {
    result(node, "queryNetwork/tip", json!({}), now)["slot"].as_u64().expect("a slot")
}

#[test]
fn tip_height_and_epoch_go_together() {
    let mut node = CardanoNode::new(7);
    let tip = result(&mut node, "queryNetwork/tip", json!(null), NOW);
    assert_shape("queryNetwork/tip", &json!({ "slot": 1, "id": "" }), &tip, &[]);
    assert_eq!(result(&mut node, "queryNetwork/blockHeight", json!({}), NOW), node.height(NOW));
    assert_eq!(result(&mut node, "queryNetwork/startTime", json!({}), NOW), "2017-09-23T21:44:51Z");
    let slot = tip["slot"].as_u64().expect("a slot");
    let behind = NOW.secs() - 1_591_566_291 - slot;
    assert!(behind <= 40, "{behind}");
    assert_eq!(
        result(&mut node, "queryLedgerState/epoch", json!({}), NOW),
        (slot - 4_492_800) / 432_000 + 208
    );
    let next = result(&mut node, "queryNetwork/tip", json!({}), later(60));
    assert!(next["slot"].as_u64() > Some(slot) && next["id"] != tip["id"]);
    // A clock that steps back does not shorten the chain.
    assert_eq!(result(&mut node, "queryNetwork/tip", json!({}), NOW), next);
    let reply =
        node.handle(&SimulatedRequest { method: &http::Method::GET, path: "/health", body: b"" }, NOW);
    let health: Value = serde_json::from_slice(&reply.body).expect("JSON");
    assert_eq!((&health["lastKnownTip"]["id"], &health["network"]), (&next["id"], &json!("mainnet")));
}

#[test]
fn answers_have_the_shapes_of_ogmios() {
    let mut node = CardanoNode::new(7);
    let ada = json!({ "ada": { "lovelace": 1 } });
    let size = json!({ "bytes": 1 });
    let committee = json!({ "default": "", "stateOfNoConfidence": "" });
    let units = json!({ "memory": 1, "cpu": 1 });
    let parameters = json!({
        "minFeeCoefficient": 1, "minFeeConstant": ada,
        "minFeeReferenceScripts": { "range": 1, "base": 1.0, "multiplier": 1.2 },
        "minUtxoDepositCoefficient": 1, "minUtxoDepositConstant": ada, "maxBlockBodySize": size,
        "maxBlockHeaderSize": size, "maxTransactionSize": size, "maxValueSize": size, "maxReferenceScriptsSize": size,
        "stakeCredentialDeposit": ada, "stakePoolDeposit": ada, "stakePoolRetirementEpochBound": 1,
        "stakePoolPledgeInfluence": "", "minStakePoolCost": ada, "desiredNumberOfStakePools": 1,
        "monetaryExpansion": "", "treasuryExpansion": "", "collateralPercentage": 1, "maxCollateralInputs": 1,
        "plutusCostModels": { "plutus:v1": [1], "plutus:v2": [1], "plutus:v3": [1] },
        "scriptExecutionPrices": { "memory": "", "cpu": "" }, "maxExecutionUnitsPerTransaction": units,
        "maxExecutionUnitsPerBlock": units,
        "stakePoolVotingThresholds": {
            "noConfidence": "", "constitutionalCommittee": committee, "hardForkInitiation": "",
            "protocolParametersUpdate": { "security": "" },
        },
        "constitutionalCommitteeMinSize": 1, "constitutionalCommitteeMaxTermLength": 1, "governanceActionLifetime": 1,
        "governanceActionDeposit": ada,
        "delegateRepresentativeVotingThresholds": {
            "noConfidence": "", "constitution": "", "constitutionalCommittee": committee, "hardForkInitiation": "",
            "protocolParametersUpdate": { "network": "", "economic": "", "technical": "", "governance": "" },
            "treasuryWithdrawals": "",
        },
        "delegateRepresentativeDeposit": ada, "delegateRepresentativeMaxIdleTime": 1,
        "version": { "major": 1, "minor": 1 },
    });
    let ours = result(&mut node, "queryLedgerState/protocolParameters", json!({}), NOW);
    assert_shape("protocolParameters", &parameters, &ours, &[]);
    let pool = json!({
        "id": "", "vrfVerificationKeyHash": "", "owners": [""], "cost": ada, "margin": "", "pledge": ada,
        "rewardAccount": "", "metadata": { "hash": "", "url": "" },
        "relays": [{ "type": "", "hostname": "", "port": 1 }], "stake": ada,
    });
    let pools = result(&mut node, "queryLedgerState/stakePools", json!({ "includeStake": true }), NOW);
    let (id, first) = pools.as_object().expect("pools").iter().next().expect("a pool");
    assert_shape("stakePools", &pool, first, &[]);
    assert!(id.starts_with("pool1") && first["id"] == **id);
    let one = result(&mut node, "queryLedgerState/stakePools", json!({ "stakePools": [{ "id": id }] }), NOW);
    assert_eq!(one.as_object().map(serde_json::Map::len), Some(1));
    let rewards = result(&mut node, "queryLedgerState/rewardsProvenance", json!({}), NOW);
    for name in ["totalStake", "activeStake", "fees", "incentives", "treasuryTax", "totalRewards"] {
        assert_shape(name, &ada, &rewards[name], &[]);
    }
    assert_eq!(rewards["stakePools"].as_object().map(serde_json::Map::len), Some(12));
    let rows = coins(&mut node, 1, NOW);
    let expected = json!([{ "transaction": { "id": "" }, "index": 1, "address": "", "value": ada }]);
    assert_shape("utxo", &expected, &rows, &[]);
    assert_eq!(rows[0]["value"]["ada"]["lovelace"], 10_000_000_000u64);
    assert_eq!(rows[0]["address"].as_str().and_then(address), Some(account(1)));
}

#[test]
fn unspent_outputs_move_with_the_chain_and_are_found_by_reference() {
    let mut node = CardanoNode::new(7);
    let all = result(&mut node, "queryLedgerState/utxo", json!({}), NOW);
    let total = |rows: &Value| -> u64 {
        rows.as_array().expect("rows").iter().filter_map(|row| row["value"]["ada"]["lovelace"].as_u64()).sum()
    };
    assert_eq!(all.as_array().map(Vec::len), Some(37));
    for row in all.as_array().expect("rows") {
        let ask =
            json!({ "outputReferences": [{ "transaction": row["transaction"], "index": row["index"] }] });
        assert_eq!(result(&mut node, "queryLedgerState/utxo", ask, NOW), json!([row]));
    }
    let next = result(&mut node, "queryLedgerState/utxo", json!({}), later(45));
    let rows = all.as_array().expect("rows").iter();
    let gone = rows.filter(|row| !next.as_array().expect("rows").contains(row));
    // The minter's output has tokens as well as coins.
    let has_tokens = |row: &&Value| row["value"].as_object().is_some_and(|value| value.len() > 1);
    let (minted, gone): (Vec<_>, Vec<_>) = gone.partition(has_tokens);
    assert!((2..=6).contains(&gone.len()) && minted.len() <= 1, "{gone:?} {minted:?}");
    // The spent outputs were created again, less the fees.
    let fees = gone.len() as u64 * 87_000 + minted.len() as u64 * 310_000;
    assert_eq!(total(&all) - total(&next), fees);
}

#[test]
fn the_outputs_of_a_transaction_exist_after_the_next_block() {
    let mut node = CardanoNode::new(7);
    let coin = coins(&mut node, 1, NOW)[0].clone();
    let before = slot(&mut node, NOW) + 7_200;
    let foreign = [&[0x61], &[9; 28][..]].concat();
    let outputs = [(foreign.clone(), 3_000_000), (account(1), 9_996_800_000)];
    let (cbor, id) = transaction(&[input(&coin)], &outputs, 200_000, before, &[1]);
    let params = json!({ "transaction": { "cbor": hex::encode(&cbor) } });
    assert_eq!(result(&mut node, "evaluateTransaction", params.clone(), NOW), json!([]));
    let taken = result(&mut node, "submitTransaction", params.clone(), NOW);
    assert_eq!(taken, json!({ "transaction": { "id": id } }));
    assert_eq!(node.submitted().len(), 1);
    assert_eq!(coins(&mut node, 1, NOW)[0], coin);
    let refused = refusal(&mut node, "submitTransaction", params, NOW);
    assert_eq!(refused["code"], 3117);
    assert_eq!(refused["data"]["unknownOutputReferences"][0]["transaction"], coin["transaction"]);
    let left = coins(&mut node, 1, later(60));
    assert_eq!((&left[0]["transaction"]["id"], &left[0]["index"]), (&json!(id), &json!(1)));
    assert_eq!(left[0]["value"]["ada"]["lovelace"], 9_996_800_000u64);
    let paid = json!({ "addresses": [bech32("addr", &foreign)] });
    let paid = result(&mut node, "queryLedgerState/utxo", paid, later(60));
    assert_eq!(paid[0]["value"]["ada"]["lovelace"], 3_000_000);

    let mut second = CardanoNode::new(7);
    second.replay(&[Submission { moment: NOW, raw: cbor }]);
    assert!(second.submitted().is_empty());
    assert_eq!(coins(&mut second, 1, later(60)), left);
}

#[test]
fn a_transaction_that_breaks_a_rule_is_refused_with_its_code() {
    let mut node = CardanoNode::new(7);
    let coin = input(&coins(&mut node, 1, NOW)[0]);
    let now = slot(&mut node, NOW);
    let change = |lovelace: u64| vec![(account(1), lovelace)];
    let foreign = vec![([&[0x60], &[9; 28][..]].concat(), 9_999_800_000)];
    for (inputs, outputs, fee, before, signers, code, member) in [
        (vec![], change(1), 200_000, now + 9, vec![1], 3121, ""),
        (vec![coin.clone()], change(1), 200_000, now, vec![1], 3118, "currentSlot"),
        (vec![coin.clone()], change(1), 1_000, now + 9, vec![1], 3122, "minimumRequiredFee"),
        (vec![(vec![5; 32], 0)], change(1), 200_000, now + 9, vec![1], 3117, "unknownOutputReferences"),
        (vec![coin.clone()], foreign, 200_000, now + 9, vec![1], 3124, "invalidEntities"),
        (vec![coin.clone()], change(1), 200_000, now + 9, vec![1], 3123, "valueConsumed"),
        (vec![coin.clone()], change(9_999_800_000), 200_000, now + 9, vec![2], 3101, "missingSignatories"),
    ] {
        let (cbor, _) = transaction(&inputs, &outputs, fee, before, &signers);
        let params = json!({ "transaction": { "cbor": hex::encode(cbor) } });
        let error = refusal(&mut node, "submitTransaction", params, NOW);
        assert_eq!(error["code"], code, "{error}");
        assert!(
            error["message"].is_string() && (member.is_empty() || !error["data"][member].is_null()),
            "{error}"
        );
    }
    let (mut forged, _) = transaction(&[coin], &change(9_999_800_000), 200_000, now + 9, &[1]);
    let place = forged.len() - 3;
    forged[place] ^= 1;
    let params = json!({ "transaction": { "cbor": hex::encode(forged) } });
    assert_eq!(refusal(&mut node, "submitTransaction", params, NOW)["code"], 3100);
    assert!(node.submitted().is_empty());
}

#[test]
fn a_malformed_transaction_or_request_gets_a_structured_error() {
    let mut node = CardanoNode::new(7);
    for cbor in ["zz", "", "00", "8201", "83a0a0f6", "84a0a0f5f6"] {
        for method in ["submitTransaction", "evaluateTransaction"] {
            let (status, answer) = call(&mut node, method, json!({ "transaction": { "cbor": cbor } }), NOW);
            assert_eq!(
                (status, &answer["method"], &answer["error"]["code"]),
                (400, &json!(method), &json!(-32602))
            );
            assert_eq!(answer["error"]["data"].as_object().map(serde_json::Map::len), Some(6));
        }
    }
    for (method, params) in [
        ("nothing", json!({})),
        ("queryNetwork/Tip", json!({})),
        ("submitTransaction", json!({})),
        ("queryLedgerState/utxo", json!({ "addresses": ["nonsense"] })),
        ("queryLedgerState/utxo", json!({ "addresses": 7 })),
    ] {
        let (_, answer) = call(&mut node, method, params, NOW);
        assert_eq!((&answer["error"]["code"], answer.get("method")), (&json!(-32600), None), "{method}");
    }
    for body in ["{", "7", "[]", r#"{"id":1}"#] {
        let (status, answer) = post(&mut node, body, NOW);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32600)), "{body}");
    }
    let (status, both) = post(
        &mut node,
        r#"[{"method":"queryNetwork/blockHeight","id":1},{"method":"nothing","id":{"a":2}}]"#,
        NOW,
    );
    assert_eq!((status, &both[0]["id"], &both[1]["id"]), (200, &json!(1), &json!({ "a": 2 })));
    let reply =
        node.handle(&SimulatedRequest { method: &http::Method::GET, path: "/nothing", body: b"" }, NOW);
    assert_eq!(reply.status, 404);
}

#[test]
fn a_clock_from_before_the_chain_or_long_after_it_is_harmless() {
    for secs in [0, 1_600_000_000, 10_000_000_000] {
        let mut node = CardanoNode::new(7);
        let now = Time::from_secs(secs);
        result(&mut node, "queryLedgerState/utxo", json!({}), now);
        result(&mut node, "queryLedgerState/rewardsProvenance", json!({}), now);
    }
}

// Shows (Per-chain surface).
#[test]
fn the_eras_follow_one_another_to_the_present_one() {
    let node = &mut CardanoNode::new(7);
    let eras = result(node, "queryLedgerState/eraSummaries", json!({}), NOW);
    let eras = eras.as_array().expect("a list");
    assert!(eras.windows(2).all(|pair| pair[0]["end"] == pair[1]["start"]));
    let present = eras.last().expect("one");
    assert_eq!(present["start"], result(node, "queryLedgerState/eraStart", json!({}), NOW));
    assert_eq!(present["parameters"]["slotLength"]["milliseconds"], 1_000);
    let epoch = result(node, "queryLedgerState/epoch", json!({}), NOW).as_u64();
    assert!(present["end"]["epoch"].as_u64() > epoch);
}

#[test]
fn the_configuration_of_each_era_is_known() {
    let node = &mut CardanoNode::new(7);
    for era in ["byron", "shelley", "alonzo", "conway"] {
        let genesis = result(node, "queryNetwork/genesisConfiguration", json!({ "era": era }), NOW);
        assert_eq!(genesis["era"], era);
    }
    refusal(node, "queryNetwork/genesisConfiguration", json!({ "era": "babbage" }), NOW);
}

#[test]
fn the_reward_accounts_of_pools_have_rewards_and_others_are_omitted() {
    let node = &mut CardanoNode::new(7);
    let pools = result(node, "queryLedgerState/stakePools", json!({}), NOW);
    let (id, pool) = pools.as_object().and_then(|pools| pools.iter().next()).expect("a pool");
    let owner = &pool["owners"][0];
    let account = &pool["rewardAccount"];
    for key in [owner, account] {
        let params = json!({ "keys": [key, "00".repeat(28)] });
        let found = result(node, "queryLedgerState/rewardAccountSummaries", params, NOW);
        assert_eq!(found.as_array().map(Vec::len), Some(1));
        assert_eq!((&found[0]["credential"], &found[0]["stakePool"]["id"]), (owner, &json!(id)));
        assert!(found[0]["rewards"]["ada"]["lovelace"].is_u64());
    }
    refusal(node, "queryLedgerState/rewardAccountSummaries", json!({ "keys": ["x"] }), NOW);
}
