use super::UtxoNode;
use super::coin::{COINS, Kind};
use super::script::to_key_hash;
use super::tx::{Input, Output, Tx, merkle_root, parse_hash, sha256d, shown};
use crate::testing::golden::{NOW, assert_shape, call, post, recorded, refusal, result};
use crate::{Simulated, SimulatedRequest};
use rpcgate_core::clock::Time;
use serde_json::{Value, json};
use std::time::Duration;

const GOLDEN: &str = include_str!("../../golden/utxo.json");
const CHAINS: [&str; 6] = ["btc", "ltc", "bch", "doge", "dash", "liquid"];
/// Members that only mainnet shows, or only the recorded test network.
const SPARE: &[&str] = &["testdummy", "mweb", "bip9", "nextblockhash"];
const UNKNOWN: &str = "1111111111111111111111111111111111111111111111111111111111111111";

fn node(chain: &str) -> UtxoNode {
    UtxoNode::new(chain, 42).expect("a simulated chain")
}

fn kind(chain: &str) -> Kind {
    COINS.iter().find(|coin| coin.name == chain).expect("a coin").kind
}

fn later(seconds: u64) -> Time {
    NOW.plus(Duration::from_secs(seconds))
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

/// Returns a height of a block of odd height whose coinbase may be spent, and the id of its coinbase.
fn funds(node: &mut UtxoNode, chain: &str, skip: u64) -> (u64, String) {
    // Blocks whose coinbase pays to a key hash, so that the check looks at the input's script.
    let height = (node.height(NOW) - 150) / 4 * 4 + 3 - 4 * skip;
    let hash = result(node, "getblockhash", json!([height]), NOW);
    let block = result(node, "getblock", json!([hash]), NOW);
    assert!(!chain.is_empty());
    (height, text(&block["tx"][0]).to_owned())
}

/// Returns a payment of `paid` from an output of `value`, with a placeholder for the signature.
fn payment(chain: &str, txid: &str, value: u64, paid: u64) -> Tx {
    let kind = kind(chain);
    let mut outputs = vec![Output::new(kind, paid, to_key_hash(&[5; 20]))];
    if kind == Kind::Liquid {
        outputs.push(Output::new(kind, value.saturating_sub(paid), Vec::new()));
    }
    let input = Input::new(parse_hash(txid).expect("a hash"), 0, vec![0x51]);
    Tx { version: 2, inputs: vec![input], outputs, locktime: 0, tail: Vec::new() }
}

fn hex_of(chain: &str, tx: &Tx) -> String {
    hex::encode(tx.encode(kind(chain), true))
}

fn reward(chain: &str) -> u64 {
    COINS.iter().find(|coin| coin.name == chain).expect("a coin").reward
}

/// Returns a payment that the node accepts: its hex and id.
fn good(node: &mut UtxoNode, chain: &str, skip: u64) -> (String, String) {
    let (_, txid) = funds(node, chain, skip);
    let tx = payment(chain, &txid, reward(chain), reward(chain) - 20_000);
    (hex_of(chain, &tx), shown(&tx.txid(kind(chain))))
}

#[test]
fn litecoin_answers_in_litecoinds_shape() {
    let node = &mut node("ltc");
    let (raw, txid) = good(node, "ltc", 0);
    let accept = result(node, "testmempoolaccept", json!([[raw]]), NOW);
    assert_shape("testmempoolaccept", &recorded(GOLDEN, "testmempoolaccept"), &accept, &[]);
    assert_eq!(result(node, "sendrawtransaction", json!([raw]), NOW), json!(txid));
    let waiting = [
        ("getrawmempool", json!([])),
        ("getmempoolinfo", json!([])),
        ("getmempoolentry", json!([txid])),
        ("getrawtransaction/mempool", json!([txid, true])),
        ("gettxout/mempool", json!([txid, 0])),
        ("testmempoolaccept/known", json!([[raw]])),
        ("testmempoolaccept/orphan", json!([[hex_of("ltc", &payment("ltc", UNKNOWN, 2, 1))]])),
    ];
    let now = later(10);
    let (height, coinbase) = funds(node, "ltc", 5);
    let hash = result(node, "getblockhash", json!([height]), NOW);
    let address = recorded(GOLDEN, "validateaddress");
    assert_eq!(
        result(node, "validateaddress", json!([address["address"]]), NOW),
        json!({ "isvalid": false })
    );
    let settled = [
        ("getblockcount", json!([])),
        ("getbestblockhash", json!([])),
        ("getblockhash", json!([1])),
        ("getblockheader", json!([hash])),
        ("getblockheader/hex", json!([hash, false])),
        ("getblockheader/linked", json!([hash])),
        ("getblock", json!([hash])),
        ("getblock/0", json!([hash, 0])),
        ("getblock/1", json!([hash, 1])),
        ("getblock/2", json!([hash, 2])),
        ("getblockchaininfo", json!([])),
        ("getnetworkinfo", json!([])),
        ("getmininginfo", json!([])),
        ("getdifficulty", json!([])),
        ("getconnectioncount", json!([])),
        ("getpeerinfo", json!([])),
        ("uptime", json!([])),
        ("getchaintips", json!([])),
        ("validateaddress", json!(["LVuDpNCSSj6pQ7t9Pv6d6sUkLKoqDEVUnJ"])),
        ("validateaddress/segwit", json!(["ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9"])),
        ("validateaddress/bad", json!(["nonsense"])),
        ("gettxoutsetinfo", json!([])),
        ("getrawtransaction", json!([txid])),
        ("getrawtransaction/verbose", json!([txid, true])),
        ("getrawtransaction/coinbase", json!([coinbase, true])),
        ("gettxout", json!([txid, 0])),
        ("gettxout/none", json!([UNKNOWN, 0])),
        ("gettxout/coinbase", json!([coinbase, 0])),
        ("decoderawtransaction", json!([raw])),
        ("getnettotals", json!([])),
        ("getindexinfo", json!([])),
        ("getnetworkhashps", json!([])),
    ];
    let rows = waiting.map(|row| (row, NOW)).into_iter().chain(settled.map(|row| (row, now)));
    for ((name, params), now) in rows {
        let method = name.split('/').next().unwrap_or(name);
        let mut ours = result(node, method, params, now);
        if let Some(forks) = ours.get_mut("softforks").and_then(Value::as_object_mut) {
            // These forks are active here and not on the recorded network; taproot has the shape of an active one.
            forks.remove("mweb");
        }
        assert_shape(name, &recorded(GOLDEN, name), &ours, SPARE);
    }
    let home = result(node, "getrawtransaction", json!([txid, true]), now)["blockhash"].clone();
    let there = result(node, "getrawtransaction", json!([txid, true, home]), now);
    assert_shape("getrawtransaction/block", &recorded(GOLDEN, "getrawtransaction/block"), &there, &[]);
    let pool = {
        let (raw, txid) = good(node, "ltc", 9);
        result(node, "sendrawtransaction", json!([raw]), now);
        result(node, "getrawmempool", json!([true]), now)[&txid].clone()
    };
    let real = recorded(GOLDEN, "getrawmempool/verbose");
    let real = real.as_object().and_then(|all| all.values().next()).expect("an entry");
    assert_shape("getrawmempool true", real, &pool, &[]);
    let smart = json!({ "feerate": 0.0001, "blocks": 6 });
    assert_shape("estimatesmartfee", &smart, &result(node, "estimatesmartfee", json!([6]), now), &[]);
}

#[test]
fn a_real_transaction_decodes_as_litecoind_decodes_it() {
    let rows: Vec<Value> = serde_json::from_str(GOLDEN).expect("a fixture");
    let row = rows.iter().find(|row| row["name"] == "decoderawtransaction").expect("a row");
    let real = &row["response"]["result"];
    let ours = result(&mut node("ltc"), "decoderawtransaction", row["request"]["params"].clone(), NOW);
    // Only the addresses differ between the networks.
    for member in ["txid", "hash", "version", "size", "vsize", "weight", "locktime", "vin"] {
        assert_eq!(ours[member], real[member], "{member}");
    }
    for (ours, real) in
        ours["vout"].as_array().expect("outputs").iter().zip(real["vout"].as_array().expect("outputs"))
    {
        assert_eq!(ours["value"], real["value"]);
        for member in ["asm", "hex", "type", "reqSigs"] {
            assert_eq!(ours["scriptPubKey"][member], real["scriptPubKey"][member], "{member}");
        }
    }
    let block = recorded(GOLDEN, "getblock/2");
    for tx in block["tx"].as_array().expect("transactions") {
        let ours = result(&mut node("ltc"), "decoderawtransaction", json!([tx["hex"]]), NOW);
        for member in ["txid", "hash", "size", "vsize", "weight"] {
            assert_eq!(ours[member], tx[member], "{member}");
        }
    }
    let ids = block["tx"]
        .as_array()
        .expect("transactions")
        .iter()
        .map(|tx| parse_hash(text(&tx["txid"])).expect("a hash"));
    assert_eq!(shown(&merkle_root(ids.collect())), text(&block["merkleroot"]));
}

#[test]
fn every_method_of_every_daemon_answers() {
    for chain in CHAINS {
        let node = &mut node(chain);
        let (raw, txid) = good(node, chain, 0);
        result(node, "sendrawtransaction", json!([raw]), NOW);
        let hash = result(node, "getbestblockhash", json!([]), NOW);
        let help = result(node, "help", json!([]), NOW);
        let mut answered = 0;
        for line in text(&help).lines().filter(|line| !line.is_empty() && !line.starts_with("==")) {
            let method = line.split(' ').next().unwrap_or(line);
            let params = match method {
                "getblock" | "getblockheader" => json!([hash]),
                "getblockhash" => json!([5]),
                "getmempoolentry" | "getmempoolancestors" | "getmempooldescendants" | "getrawtransaction" => {
                    json!([txid])
                }
                "gettxout" => json!([txid, 0]),
                "decoderawtransaction" | "sendrawtransaction" => json!([raw]),
                "testmempoolaccept" => json!([[raw]]),
                "decodescript" => json!(["51"]),
                "validateaddress" => json!(["x"]),
                "estimatesmartfee" => json!([6]),
                "estimatefee" if chain == "doge" => json!([6]),
                "masternode" | "gobject" => json!(["count"]),
                "mnsync" => json!(["status"]),
                "quorum" => json!(["list"]),
                _ => json!([]),
            };
            let answer = call(node, method, params, NOW);
            assert_eq!(answer["error"], Value::Null, "{chain} {method}");
            assert!(method == "ping" || !answer["result"].is_null(), "{chain} {method}");
            answered += 1;
        }
        assert!(answered > 30, "{chain}");
    }
}

#[test]
fn a_blocks_bytes_hash_to_its_hash_and_hold_its_transactions() {
    for chain in CHAINS {
        let node = &mut node(chain);
        let head = node.height(NOW);
        for height in [1, 127, 128, 40_000, head - 3, head] {
            let hash = result(node, "getblockhash", json!([height]), NOW);
            let block = result(node, "getblock", json!([hash, 2]), NOW);
            let raw = hex::decode(text(&result(node, "getblock", json!([hash, 0]), NOW))).expect("hex");
            let head =
                hex::decode(text(&result(node, "getblockheader", json!([hash, false]), NOW))).expect("hex");
            assert_eq!(raw[..head.len()], head);
            // Liquid's header ends with its solution, which is not hashed; the height and the challenge precede it.
            let hashed = if chain == "liquid" { 76 + 1 + usize::from(raw[76]) } else { 80 };
            assert_eq!(shown(&sha256d(&raw[..hashed])), text(&hash), "{chain} {height}");
            let ids: Vec<_> = block["tx"]
                .as_array()
                .expect("transactions")
                .iter()
                .map(|tx| parse_hash(text(&tx["txid"])).expect("a hash"))
                .collect();
            assert_eq!(shown(&merkle_root(ids.clone())), text(&block["merkleroot"]));
            assert_eq!(raw[36..68], merkle_root(ids), "{chain} {height}");
            let mut rest = &raw[head.len() + 1..];
            assert_eq!(usize::from(raw[head.len()]), block["tx"].as_array().expect("transactions").len());
            for tx in block["tx"].as_array().expect("transactions") {
                let bytes = hex::decode(text(&tx["hex"])).expect("hex");
                rest = rest.strip_prefix(&bytes[..]).expect("the transaction in the block");
                let decoded = Tx::decode(kind(chain), &bytes).expect("a transaction");
                assert_eq!(decoded.encode(kind(chain), true), bytes);
                assert_eq!(shown(&decoded.txid(kind(chain))), text(&tx["txid"]), "{chain} {height}");
            }
            assert!(rest.is_empty(), "{chain} {height}");
            assert_eq!(block["size"], json!(raw.len()));
        }
    }
}

#[test]
fn blocks_are_linked_both_ways_and_confirmed_by_their_depth() {
    for chain in CHAINS {
        let node = &mut node(chain);
        let head = node.height(NOW);
        // The heights include the joint between two runs of blocks.
        for height in [1, 4_095, 4_096, head / 4_096 * 4_096 - 1, head / 4_096 * 4_096, head - 1] {
            let at = |node: &mut UtxoNode, n: u64| {
                let hash = result(node, "getblockhash", json!([n]), NOW);
                result(node, "getblockheader", json!([hash]), NOW)
            };
            let before = at(node, height - 1);
            let block = at(node, height);
            let after = at(node, height + 1);
            assert_eq!(
                (&block["previousblockhash"], &block["nextblockhash"]),
                (&before["hash"], &after["hash"])
            );
            assert_eq!(block["confirmations"], json!(head - height + 1));
            assert_eq!(block["height"], json!(height));
            assert!(
                block["mediantime"].as_u64() <= block["time"].as_u64()
                    && before["time"].as_u64() < block["time"].as_u64()
            );
        }
        let best = result(node, "getbestblockhash", json!([]), NOW);
        let best = result(node, "getblockheader", json!([best]), NOW);
        assert_eq!((&best["confirmations"], best.get("nextblockhash")), (&json!(1), None));
    }
}

#[test]
fn a_restart_is_not_a_reorganisation() {
    for chain in CHAINS {
        let ask = |seed: u64, before: u64| {
            let node = &mut UtxoNode::new(chain, seed).expect("a chain");
            let height = node.height(NOW) - before;
            result(node, "getblockhash", json!([height]), NOW)
        };
        for before in [0, 1, 5_000] {
            assert_eq!(ask(1, before), ask(1, before));
            assert_ne!(ask(1, before), ask(2, before));
        }
    }
}

#[test]
fn a_replay_gives_the_same_blocks_regardless_of_reads_in_between() {
    for chain in CHAINS {
        let watched = &mut node(chain);
        let blind = &mut node(chain);
        let mut past = Vec::new();
        let mut sent: Vec<_> = (0..5).map(|skip| good(watched, chain, skip)).collect();
        let ids: Vec<_> = sent.iter().map(|(_, txid)| txid.clone()).collect();
        let last = sent.pop().expect("the fifth").0;
        for (index, (raw, _)) in sent.into_iter().enumerate() {
            let now = later(7 * index as u64);
            result(watched, "sendrawtransaction", json!([raw]), now);
            past.extend(watched.submitted());
            assert!(watched.submitted().is_empty(), "reported once");
            result(watched, "sendrawtransaction", json!([raw]), now);
            assert!(watched.submitted().is_empty(), "sent again, it is not reported again");
            for second in 0..7 {
                result(watched, "getbestblockhash", json!([]), now.plus(Duration::from_secs(second)));
            }
        }
        // The clock steps back behind the newest block.
        result(watched, "sendrawtransaction", json!([last]), later(1));
        past.extend(watched.submitted());
        assert!(past.iter().map(|submission| submission.moment).is_sorted());
        blind.replay(&past);
        assert!(blind.submitted().is_empty(), "a replay is not a submission");
        let newest = past.last().expect("submissions").moment;
        for (method, params) in [
            ("getrawmempool", json!([])),
            ("getmempoolentry", json!([ids[4]])),
            ("getbestblockhash", json!([])),
        ] {
            let seen = result(watched, method, params.clone(), newest);
            assert_eq!(result(blind, method, params, newest), seen, "{chain} {method}");
        }
        let top = watched.height(newest) + 5;
        for height in top - 20..=top {
            let ask = |node: &mut UtxoNode| result(node, "getblockhash", json!([height]), later(90));
            assert_eq!(ask(blind), ask(watched), "{chain}");
        }
        for txid in ids {
            // Days later, far below the runs of blocks that are searched.
            let now = later(400_000);
            let ask = |node: &mut UtxoNode| result(node, "getrawtransaction", json!([txid, true]), now);
            assert_eq!(ask(blind), ask(watched), "{chain}");
        }
    }
}

#[test]
fn a_replay_skips_malformed_and_repeated_transactions() {
    let node = &mut node("btc");
    let (raw, txid) = good(node, "btc", 0);
    result(node, "sendrawtransaction", json!([raw]), NOW);
    let once = node.submitted();
    let mut past = [once.clone(), once.clone(), once].concat();
    past[1].raw.truncate(20);
    let again = &mut super::UtxoNode::new("btc", 42).expect("btc");
    again.replay(&past);
    assert_eq!(result(again, "getrawmempool", json!([]), NOW), json!([txid]));
    past[2].moment = later(60);
    let again = &mut super::UtxoNode::new("btc", 42).expect("btc");
    again.replay(&past);
    assert_eq!(result(again, "getrawmempool", json!([]), later(60)), json!([]));
}

#[test]
fn a_node_is_full_at_its_byte_limit() {
    let node = &mut node("btc");
    let (raw, _) = good(node, "btc", 0);
    node.chain.submissions.bytes = crate::SUBMISSION_BYTES - raw.len() / 2 + 1;
    let full = refusal(node, "sendrawtransaction", json!([raw]), NOW);
    assert_eq!(full, (-26, "mempool full".into()));
    node.chain.submissions.bytes -= 1;
    result(node, "sendrawtransaction", json!([raw]), NOW);
}

#[test]
fn a_block_of_hours_ago_is_found_by_a_hash_from_before_a_restart() {
    let height = node("btc").height(NOW) - 20_000;
    let hash = result(&mut node("btc"), "getblockhash", json!([height]), NOW);
    assert_eq!(result(&mut node("btc"), "getblockheader", json!([hash]), NOW)["height"], json!(height));
}

#[test]
fn a_sent_transaction_waits_and_then_is_in_the_next_block() {
    for chain in CHAINS {
        let node = &mut node(chain);
        let (raw, txid) = good(node, chain, 0);
        let (_, source) = funds(node, chain, 0);
        let missing = refusal(node, "getrawtransaction", json!([txid]), NOW);
        assert_eq!(missing.0, -5);
        assert_ne!(result(node, "gettxout", json!([source, 0]), NOW), Value::Null);
        assert_eq!(result(node, "sendrawtransaction", json!([raw]), NOW), json!(txid), "{chain}");
        assert_eq!(result(node, "sendrawtransaction", json!([raw]), NOW), json!(txid), "a second time");
        assert_eq!(result(node, "getrawmempool", json!([]), NOW), json!([txid]));
        assert_eq!(result(node, "getrawtransaction", json!([txid]), NOW), json!(raw));
        assert_eq!(result(node, "gettxout", json!([source, 0]), NOW), Value::Null);
        assert_ne!(result(node, "gettxout", json!([source, 0, false]), NOW), Value::Null);
        let next = node.height(NOW) + 1;
        let now = later(5);
        let tx = result(node, "getrawtransaction", json!([txid, true]), now);
        let hash = result(node, "getblockhash", json!([next]), now);
        assert_eq!(tx["blockhash"], hash, "{chain}");
        let block = result(node, "getblock", json!([hash, 1]), now);
        assert!(block["tx"].as_array().expect("ids").contains(&json!(txid)));
        let raw_block = hex::decode(text(&result(node, "getblock", json!([hash, 0]), now))).expect("hex");
        let hashed = if chain == "liquid" { 77 + usize::from(raw_block[76]) } else { 80 };
        assert_eq!(shown(&sha256d(&raw_block[..hashed])), text(&hash));
        assert_eq!(result(node, "getrawmempool", json!([]), now), json!([]));
        assert_eq!(result(node, "gettxout", json!([source, 0, false]), now), Value::Null);
        let out = result(node, "gettxout", json!([txid, 0]), now);
        assert_eq!((&out["coinbase"], out["confirmations"].as_u64() >= Some(1)), (&json!(false), true));
        let again = refusal(node, "sendrawtransaction", json!([raw]), now);
        assert_eq!(again, (-27, "Transaction already in block chain".into()));
    }
}

#[test]
fn broadcasts_are_refused_with_the_daemons_messages() {
    let node = &mut node("ltc");
    let reward = reward("ltc");
    let (height, source) = funds(node, "ltc", 0);
    let send = |node: &mut UtxoNode, raw: String| refusal(node, "sendrawtransaction", json!([raw]), NOW);
    let decode = (-22, "TX decode failed. Make sure the tx has at least one input.".to_owned());
    for raw in ["1234", "zz", "", "02000000000000000000"] {
        assert_eq!(send(node, raw.into()), decode);
    }
    let hex = |tx: &Tx| hex_of("ltc", tx);
    let orphan = payment("ltc", UNKNOWN, reward, reward / 2);
    assert_eq!(send(node, hex(&orphan)), (-25, "bad-txns-inputs-missingorspent".into()));
    let mut unsigned = payment("ltc", &source, reward, reward * 99 / 100);
    unsigned.inputs[0].script.clear();
    let message = "mandatory-script-verify-flag-failed (Operation not valid with the current stack size)";
    assert_eq!(send(node, hex(&unsigned)), (-26, message.into()));
    let over = payment("ltc", &source, reward, reward * 2);
    assert_eq!(
        send(node, hex(&over)),
        (-26, "bad-txns-in-belowout, value in (6.25) < value out (12.50)".into())
    );
    let free = payment("ltc", &source, reward, reward);
    assert_eq!(
        send(node, hex(&free)).1,
        format!("min relay fee not met, 0 < {}", free.encode(Kind::Ltc, true).len())
    );
    let rich = payment("ltc", &source, reward, reward / 2);
    let message = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
    assert_eq!(send(node, hex(&rich)), (-25, message.into()));
    let young = node.height(NOW) - 2;
    let young = result(node, "getblockhash", json!([young]), NOW);
    let young = result(node, "getblock", json!([young]), NOW);
    let young = payment("ltc", text(&young["tx"][0]), reward, reward * 99 / 100);
    let message = "bad-txns-premature-spend-of-coinbase, tried to spend coinbase at depth 3";
    assert_eq!(send(node, hex(&young)), (-26, message.into()));
    let mut twice = payment("ltc", &source, reward, reward * 99 / 100);
    twice.inputs.push(twice.inputs[0].clone());
    assert_eq!(send(node, hex(&twice)).1, "bad-txns-inputs-duplicate");
    result(node, "sendrawtransaction", json!([hex(&rich), 0]), NOW);
    let rival = payment("ltc", &source, reward, reward * 98 / 100);
    assert_eq!(send(node, hex(&rival)), (-26, "txn-mempool-conflict".into()));
    let hash = result(node, "getblockhash", json!([height]), NOW);
    let block = result(node, "getblock", json!([hash, 2]), NOW);
    assert_eq!(send(node, text(&block["tx"][0]["hex"]).into()), (-26, "coinbase".into()));
}

#[test]
fn a_chain_of_payments_enters_a_block_in_its_order() {
    let node = &mut node("btc");
    let (_, source) = funds(node, "btc", 0);
    let a = reward("btc") - 20_000;
    let b = reward("btc") - 40_000;
    let first = payment("btc", &source, reward("btc"), a);
    let second = payment("btc", &shown(&first.txid(Kind::Btc)), a, b);
    let ids = [&first, &second]
        .map(|tx| text(&result(node, "sendrawtransaction", json!([hex_of("btc", tx)]), NOW)).to_owned());
    let entry = result(node, "getmempoolentry", json!([ids[1]]), NOW);
    assert_eq!((&entry["depends"], &entry["ancestorcount"]), (&json!([ids[0]]), &json!(2)));
    assert_eq!(result(node, "getmempoolancestors", json!([ids[1]]), NOW), json!([ids[0]]));
    assert_eq!(result(node, "getmempooldescendants", json!([ids[0]]), NOW), json!([ids[1]]));
    let tx = result(node, "getrawtransaction", json!([ids[1], true]), later(5));
    let block = result(node, "getblock", json!([tx["blockhash"]]), later(5));
    let list = block["tx"].as_array().expect("ids");
    assert_eq!(list[list.len() - 2..], [json!(ids[0]), json!(ids[1])]);
}

#[test]
fn the_chains_own_payments_spend_real_outputs_once() {
    for chain in CHAINS {
        let node = &mut node(chain);
        let head = node.height(NOW);
        let mut seen = 0;
        for height in head - 40..=head {
            let hash = result(node, "getblockhash", json!([height]), NOW);
            let block = result(node, "getblock", json!([hash, 2]), NOW);
            for tx in &block["tx"].as_array().expect("transactions")[1..] {
                let input = &tx["vin"][0];
                let source = result(node, "getrawtransaction", json!([input["txid"], true]), NOW);
                assert!(source["vout"][0]["value"].as_f64() > tx["vout"][0]["value"].as_f64());
                assert_eq!(result(node, "gettxout", json!([input["txid"], 0]), NOW), Value::Null);
                assert_ne!(result(node, "gettxout", json!([tx["txid"], 0]), NOW), Value::Null);
                seen += 1;
            }
        }
        assert!(seen > 3, "{chain}");
    }
}

#[test]
fn amounts_keep_their_eight_decimals() {
    for (chain, amount) in [("btc", "3.12500000"), ("doge", "10000.00000000"), ("liquid", "0.00100000")] {
        let node = &mut node(chain);
        let hash = result(node, "getbestblockhash", json!([]), NOW);
        let body = format!("{{\"id\":1,\"method\":\"getblock\",\"params\":[{hash},2]}}");
        let answer = post(node, &body, NOW).1;
        assert!(answer.contains(&format!("\"value\":{amount}")), "{chain}");
    }
    let body = "{\"id\":1,\"method\":\"getnetworkinfo\"}";
    assert!(post(&mut node("btc"), body, NOW).1.contains("\"relayfee\":0.00001000"));
    let body = "{\"id\":1,\"method\":\"estimatesmartfee\",\"params\":[2]}";
    assert!(post(&mut node("doge"), body, NOW).1.contains("\"feerate\":0.01000000"));
}

#[test]
fn each_daemon_has_its_own_fee_method() {
    let bch = &mut node("bch");
    let missing = (-32601, "Method not found".to_owned());
    assert_eq!(refusal(bch, "estimatesmartfee", json!([6]), NOW), missing);
    assert_eq!(result(bch, "estimatefee", json!([]), NOW), json!(0.00001));
    assert_eq!(refusal(bch, "estimatefee", json!([6]), NOW).0, -1);
    assert_eq!(refusal(&mut node("btc"), "estimatefee", json!([6]), NOW), missing);
    assert_eq!(refusal(&mut node("doge"), "testmempoolaccept", json!([["00"]]), NOW), missing);
    let limits = "Invalid conf_target, must be between 1 and 1008";
    assert_eq!(refusal(&mut node("btc"), "estimatesmartfee", json!([0]), NOW), (-8, limits.into()));
}

#[test]
fn dash_adds_locks_and_masternodes() {
    let node = &mut node("dash");
    let height = node.height(NOW) - 5;
    let hash = result(node, "getblockhash", json!([height]), NOW);
    let block = result(node, "getblock", json!([hash, 2]), NOW);
    assert_eq!((&block["chainlock"], &block["cbTx"]["height"]), (&json!(true), &json!(height)));
    let tx = result(node, "getrawtransaction", json!([block["tx"][0]["txid"], true]), NOW);
    assert_eq!(
        (&tx["instantlock"], &tx["chainlock"], &tx["type"], &tx["version"]),
        (&json!(true), &json!(true), &json!(5), &json!(3))
    );
    assert!(tx["instantlock_internal"].is_boolean() && tx.get("vsize").is_none());
    let best = result(node, "getbestblockhash", json!([]), NOW);
    assert_eq!(result(node, "getblock", json!([best]), NOW)["chainlock"], json!(false));
    let count = result(node, "masternode", json!(["count"]), NOW);
    let list = result(node, "masternode", json!(["list"]), NOW);
    assert_eq!(count["total"], json!(list.as_object().expect("an object").len()));
    let entry = list.as_object().and_then(|list| list.values().next()).expect("a masternode");
    for member in ["proTxHash", "address", "payee", "status", "type", "lastpaidblock", "pubkeyoperator"] {
        assert!(!entry[member].is_null(), "{member}");
    }
    assert_eq!(
        result(node, "masternodelist", json!(["status"]), NOW).as_object().map(serde_json::Map::len),
        Some(24)
    );
    let objects = result(node, "gobject", json!(["list"]), NOW);
    for (hash, object) in objects.as_object().expect("an object") {
        assert_eq!(&object["Hash"], hash);
        assert_eq!(hex::encode(text(&object["DataString"])), text(&object["DataHex"]));
        assert!(serde_json::from_str::<Value>(text(&object["DataString"])).is_ok());
    }
    assert_eq!(refusal(node, "masternode", json!(["nope"]), NOW).0, -32601);
    assert_eq!(refusal(&mut self::node("btc"), "masternode", json!(["count"]), NOW).0, -32601);
}

#[test]
fn dogecoin_blocks_carry_an_auxpow_that_names_them() {
    let node = &mut node("doge");
    let hash = result(node, "getbestblockhash", json!([]), NOW);
    for method in ["getblockheader", "getblock"] {
        let aux = &result(node, method, json!([hash]), NOW)["auxpow"];
        assert!(text(&aux["tx"]["vin"][0]["coinbase"]).contains(text(&hash)), "{method}");
        let parent = hex::decode(text(&aux["parentblock"])).expect("hex");
        assert_eq!(
            (parent.len(), shown(&parent[36..68].try_into().expect("a root"))),
            (80, text(&aux["tx"]["txid"]).to_owned())
        );
    }
}

#[test]
fn litecoin_shows_its_extension_block_and_liquid_its_side_chain() {
    let ltc = &mut node("ltc");
    let hash = result(ltc, "getbestblockhash", json!([]), NOW);
    let block = result(ltc, "getblock", json!([hash, 2]), NOW);
    assert_eq!(block["mweb"]["height"], block["height"]);
    assert_eq!(block["tx"][0]["vout"][0]["ismweb"], json!(false));
    let liquid = &mut node("liquid");
    let info = result(liquid, "getblockchaininfo", json!([]), NOW);
    assert_eq!(info["chain"], "liquidv1");
    assert!(info["current_signblock_hex"].is_string() && info.get("difficulty").is_none());
    let hash = result(liquid, "getbestblockhash", json!([]), NOW);
    let block = result(liquid, "getblock", json!([hash, 2]), NOW);
    assert!(block["signblock_witness_hex"].is_string() && block["signblock_challenge"].is_string());
    let asset = "6f0279e9ed041c3d710a9f57d0c02928416460c4b722ae3457a11eec381c526d";
    assert_eq!(block["tx"][0]["vout"][0]["asset"], asset);
}

#[test]
fn bitcoin_shows_descriptors_fees_and_spent_outputs() {
    let node = &mut node("btc");
    let head = node.height(NOW);
    let mut found = false;
    for height in head - 20..=head {
        let hash = result(node, "getblockhash", json!([height]), NOW);
        let block = result(node, "getblock", json!([hash, 3]), NOW);
        for tx in &block["tx"].as_array().expect("transactions")[1..] {
            assert_eq!(tx["fee"], json!(0.00003));
            let prevout = &tx["vin"][0]["prevout"];
            assert_eq!((&prevout["generated"], &prevout["value"]), (&json!(true), &json!(3.125)));
            assert!(text(&tx["vout"][0]["scriptPubKey"]["desc"]).starts_with("addr("));
            found = true;
        }
    }
    assert!(found);
}

#[test]
fn refusals_carry_the_daemons_codes_and_messages() {
    let rows: Vec<Value> = serde_json::from_str(GOLDEN).expect("a fixture");
    let node = &mut node("ltc");
    let unlike = ["getblockhash/missing", "getblockcount/toomany"];
    let mut compared = 0;
    for row in rows.iter().filter(|row| !row["response"]["error"].is_null()) {
        let name = text(&row["name"]);
        // Separate tests cover errors about the recorded chain's own transactions.
        if name.starts_with("sendrawtransaction/")
            && !["decode", "nothex"].iter().any(|end| name.ends_with(end))
            || ["getrawtransaction/badblock", "getrawtransaction/otherblock", "getrawtransaction/genesis"]
                .contains(&name)
        {
            continue;
        }
        let body = row["request"].to_string();
        let (status, answer) = post(node, &body, NOW);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(json!(status), row["status"], "{name}");
        assert_eq!(answer["error"]["code"], row["response"]["error"]["code"], "{name}");
        if !unlike.contains(&name) {
            assert_eq!(answer["error"]["message"], row["response"]["error"]["message"], "{name}");
        }
        assert_eq!(answer["result"], Value::Null);
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn transactions_are_looked_up_in_the_named_block_only() {
    let node = &mut node("ltc");
    let (height, coinbase) = funds(node, "ltc", 0);
    let other = result(node, "getblockhash", json!([height + 1]), NOW);
    let ask = |node: &mut UtxoNode, params| refusal(node, "getrawtransaction", params, NOW);
    let none = "No such transaction found in the provided block. Use gettransaction for wallet transactions.";
    assert_eq!(ask(node, json!([coinbase, true, other])), (-5, none.into()));
    assert_eq!(ask(node, json!([coinbase, true, UNKNOWN])), (-5, "Block hash not found".into()));
    let genesis = result(node, "getblockhash", json!([0]), NOW);
    let genesis = result(node, "getblock", json!([genesis]), NOW);
    assert!(ask(node, json!([genesis["tx"][0]])).1.starts_with("The genesis block coinbase"));
}

#[test]
fn statuses_and_envelopes_match_litecoind() {
    let node = &mut node("ltc");
    let error = |code: i64, message: &str, id: &str| {
        format!("{{\"result\":null,\"error\":{{\"code\":{code},\"message\":\"{message}\"}},\"id\":{id}}}\n")
    };
    let count = node.height(NOW);
    let fine = |id: &str| format!("{{\"result\":{count},\"error\":null,\"id\":{id}}}\n");
    let rows = [
        ("{\"id\":1,\"method\":\"getblockcount\"}", 200, fine("1")),
        ("{\"id\":1,\"method\":\"getblockcount\",\"params\":null}", 200, fine("1")),
        ("{\"id\":1,\"method\":\"getblockcount\",\"params\":{}}", 200, fine("1")),
        ("{\"method\":\"getblockcount\"}", 200, fine("null")),
        ("{\"id\":1,\"method\":\"nosuch\"}", 404, error(-32601, "Method not found", "1")),
        ("{\"id\":1,\"method\":\"getnewaddress\"}", 404, error(-32601, "Method not found", "1")),
        (
            "{\"id\":1,\"method\":\"getblockhash\",\"params\":[99999999999]}",
            500,
            error(-8, "Block height out of range", "1"),
        ),
        (
            "{\"id\":1,\"method\":\"getblockhash\",\"params\":{\"hoho\":1}}",
            500,
            error(-8, "Unknown named parameter hoho", "1"),
        ),
        ("{nope", 500, error(-32700, "Parse error", "null")),
        ("1", 500, error(-32700, "Top-level object parse error", "null")),
        ("{\"id\":1}", 400, error(-32600, "Missing method", "1")),
        ("{\"id\":1,\"method\":3}", 400, error(-32600, "Method must be a string", "1")),
        (
            "{\"id\":1,\"method\":\"getblockcount\",\"params\":\"a\"}",
            400,
            error(-32600, "Params must be an array or object", "1"),
        ),
        ("[]", 200, "[]\n".into()),
        (
            "[{\"id\":1,\"method\":\"getblockcount\"},{\"id\":\"a\",\"method\":\"nosuch\"},1]",
            200,
            format!(
                "[{},{},{}]\n",
                fine("1").trim_end(),
                error(-32601, "Method not found", "\\\"a\\\"").replace('\\', "").trim_end(),
                error(-32600, "Invalid Request object", "null").trim_end()
            ),
        ),
    ];
    for (body, status, answer) in rows {
        assert_eq!(post(node, body, NOW), (status, answer), "{body}");
    }
    let hash = post(node, "{\"id\":1,\"method\":\"getblockhash\",\"params\":{\"height\":1}}", NOW).1;
    assert!(hash.contains(text(&result(node, "getblockhash", json!([1]), NOW))));
    let reply = node.handle(&SimulatedRequest { method: &http::Method::GET, path: "/", body: b"" }, NOW);
    assert_eq!(reply.status, 405);
}

#[test]
fn ids_come_back_byte_for_byte() {
    let node = &mut node("btc");
    for id in
        ["0", "\"\"", "null", "9223372036854775807", "{\"requestId\": \"x\" }", "\"1700000000-1\"", "-1"]
    {
        let (status, body) =
            post(node, &format!("{{\"id\":{id},\"method\":\"ping\",\"jsonrpc\":\"1.0\"}}"), NOW);
        assert_eq!((status, body), (200, format!("{{\"result\":null,\"error\":null,\"id\":{id}}}\n")));
    }
}

#[test]
fn a_backward_step_of_the_clock_removes_no_block() {
    let node = &mut node("btc");
    let head = result(node, "getblockcount", json!([]), later(60));
    assert_eq!(result(node, "getblockcount", json!([]), NOW), head);
    assert_eq!(json!(node.height(NOW)), head);
}

#[test]
fn truncated_and_lengthened_transactions_are_refused() {
    for chain in CHAINS {
        let node = &mut node(chain);
        let hash = result(node, "getbestblockhash", json!([]), NOW);
        let block = result(node, "getblock", json!([hash, 2]), NOW);
        let raw = hex::decode(text(&block["tx"][0]["hex"])).expect("hex");
        assert!(Tx::decode(kind(chain), &raw).is_some());
        for end in 0..raw.len() {
            assert_eq!(Tx::decode(kind(chain), &raw[..end]), None, "{chain} cut at {end}");
        }
        assert_eq!(Tx::decode(kind(chain), &[&raw[..], &[0]].concat()), None, "{chain}");
    }
}
