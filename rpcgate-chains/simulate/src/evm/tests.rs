use super::EvmNode;
use crate::testing::golden::{NOW, assert_shape, call, post, recorded, refusal, result};
use crate::{Simulated, SimulatedRequest};
use rpcgate_core::clock::Time;
use serde_json::{Value, json};
use std::time::Duration;

const GOLDEN: &str = include_str!("../../golden/evm.json");
const SIGNED: &str = include_str!("../../golden/transactions.json");
const CHAINS: [(&str, u64); 4] = [("eth", 1), ("bsc", 56), ("polygon", 137), ("avax", 43_114)];
/// The account that signed the transactions, and the one that they pay.
const SENDER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const PAYEE: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
const EMPTY: &str = "0x1111111111111111111111111111111111111111";
const ZEROS: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";
/// Members that differ between development nodes and go-ethereum, or between the nodes of two chains.
const SPARE: &[&str] = &[
    "blobGasPrice",
    "blockTimestamp",
    "withdrawals",
    "withdrawalsRoot",
    "requestsHash",
    "blobGasUsed",
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "blockExtraData",
    "blockGasCost",
    "extDataGasUsed",
    "extDataHash",
    "baseFeePerBlobGas",
    "blobGasUsedRatio",
];

fn node(chain: &str) -> EvmNode {
    EvmNode::new(chain, 42).expect("a simulated chain")
}

fn signed(chain: &str, name: &str) -> (String, String) {
    let all: Value = serde_json::from_str(SIGNED).expect("a fixture");
    let tx = &all[chain][name];
    (tx["raw"].as_str().expect("bytes").into(), tx["hash"].as_str().expect("a hash").into())
}

fn later(seconds: u64) -> Time {
    NOW.plus(Duration::from_secs(seconds))
}

fn number(value: &Value) -> u128 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).expect("a quantity");
    u128::from_str_radix(digits, 16).expect("hex")
}

/// Sends the first four signed transactions; returns a time at which they are in a block.
fn with_transactions(node: &mut EvmNode, chain: &str) -> Time {
    for name in ["dynamic", "token", "legacy", "access"] {
        let (raw, hash) = signed(chain, name);
        assert_eq!(result(node, "eth_sendRawTransaction", json!([raw]), NOW), json!(hash), "{chain} {name}");
    }
    later(10)
}

#[test]
fn every_method_answers_in_a_real_nodes_shape_on_every_chain() {
    for (chain, id) in CHAINS {
        let node = &mut node(chain);
        let now = with_transactions(node, chain);
        let (_, hash) = signed(chain, "token");
        let receipt = result(node, "eth_getTransactionReceipt", json!([hash]), now);
        let height = &receipt["blockNumber"];
        let block = &receipt["blockHash"];
        let token = &receipt["to"];
        let sender = SENDER;
        let payee = PAYEE;
        let hash_of = |name| signed(chain, name).1;
        let span = json!({ "fromBlock": height, "toBlock": height, "address": token });
        let rows = [
            ("eth_blockNumber", json!([])),
            ("eth_chainId", json!([])),
            ("net_version", json!([])),
            ("net_listening", json!([])),
            ("web3_clientVersion", json!([])),
            ("web3_sha3", json!(["0x68656c6c6f"])),
            ("eth_syncing", json!([])),
            ("eth_gasPrice", json!([])),
            ("eth_maxPriorityFeePerGas", json!([])),
            ("eth_feeHistory", json!(["0x2", "latest", [20.0, 50]])),
            ("eth_getBalance", json!([sender, "latest"])),
            ("eth_getTransactionCount", json!([sender, "latest"])),
            ("eth_getCode", json!([token, "latest"])),
            ("eth_getCode/none", json!([sender, "latest"])),
            ("eth_getStorageAt", json!([token, "0x0", "latest"])),
            ("eth_getBlockByNumber", json!([height, false])),
            ("eth_getBlockByNumber/full", json!([height, true])),
            ("eth_getBlockByNumber/latest", json!(["latest", false])),
            ("eth_getBlockByNumber/earliest", json!(["earliest", false])),
            ("eth_getBlockByNumber/none", json!(["0xffffffff", false])),
            ("eth_getBlockByHash", json!([block, true])),
            ("eth_getBlockByHash/none", json!([ZEROS, false])),
            ("eth_getTransactionByHash/1559", json!([hash_of("dynamic")])),
            ("eth_getTransactionByHash/legacy", json!([hash_of("legacy")])),
            ("eth_getTransactionByHash/2930", json!([hash_of("access")])),
            ("eth_getTransactionByHash/none", json!([ZEROS])),
            ("eth_getTransactionReceipt", json!([hash_of("dynamic")])),
            ("eth_getTransactionReceipt/logs", json!([hash])),
            ("eth_getTransactionReceipt/none", json!([ZEROS])),
            ("eth_getTransactionByBlockNumberAndIndex", json!([height, "0x0"])),
            ("eth_getTransactionByBlockHashAndIndex", json!([block, "0x0"])),
            ("eth_getTransactionByBlockNumberAndIndex/none", json!([height, "0x77"])),
            ("eth_getBlockTransactionCountByNumber", json!([height])),
            ("eth_getBlockTransactionCountByHash", json!([block])),
            ("eth_getUncleCountByBlockNumber", json!([height])),
            ("eth_getUncleCountByBlockHash", json!([block])),
            ("eth_getUncleByBlockNumberAndIndex", json!([height, "0x0"])),
            ("eth_call", json!([{ "to": token, "data": "0x18160ddd" }, "latest"])),
            ("eth_call/empty", json!([{ "to": payee, "data": "0x" }, "latest"])),
            ("eth_estimateGas", json!([{ "from": sender, "to": payee, "value": "0x1" }])),
            ("eth_getLogs", span.as_object().map(|span| json!([span])).expect("an object")),
            ("eth_getLogs/none", json!([{ "fromBlock": height, "toBlock": height, "address": sender }])),
            ("eth_getLogs/hash", json!([{ "blockHash": block }])),
            ("eth_newBlockFilter", json!([])),
            ("eth_newFilter", json!([span])),
            ("eth_newPendingTransactionFilter", json!([])),
            ("eth_createAccessList", json!([{ "from": sender, "to": payee }, "latest"])),
            ("txpool_status", json!([])),
        ];
        for (name, params) in rows {
            let method = name.split('/').next().unwrap_or(name);
            let ours = result(node, method, params, now);
            assert_shape(&format!("{chain} {name}"), &recorded(GOLDEN, name), &ours, SPARE);
        }
        let receipts = result(node, "eth_getBlockReceipts", json!([height]), now);
        for ours in receipts.as_array().expect("a list") {
            assert_shape(chain, &recorded(GOLDEN, "eth_getTransactionReceipt/logs"), ours, SPARE);
        }
        let one = result(node, "eth_chainId", json!([]), now);
        let other = result(node, "net_version", json!([]), now);
        assert_eq!((number(&one), other), (id.into(), json!(id.to_string())));
    }
}

#[test]
fn eth_blocks_have_all_members_of_a_real_one() {
    let node = &mut node("eth");
    let ours = result(node, "eth_getBlockByNumber", json!(["latest", false]), NOW);
    assert_shape("block", &recorded(GOLDEN, "eth_getBlockByNumber"), &ours, &[]);
}

#[test]
fn the_pending_block_has_no_hash_yet() {
    let node = &mut node("eth");
    let (raw, hash) = signed("eth", "dynamic");
    result(node, "eth_sendRawTransaction", json!([raw]), NOW);
    let pending = result(node, "eth_getBlockByNumber", json!(["pending", false]), NOW);
    assert_eq!((&pending["hash"], &pending["transactions"]), (&Value::Null, &json!([hash])));
    let latest = result(node, "eth_blockNumber", json!([]), NOW);
    assert_eq!(number(&pending["number"]), number(&latest) + 1);
}

#[test]
fn tags_name_blocks_in_their_order() {
    for (chain, _) in CHAINS {
        let node = &mut node(chain);
        let heights: Vec<_> = ["earliest", "finalized", "safe", "latest", "pending"]
            .iter()
            .map(|tag| number(&result(node, "eth_getBlockByNumber", json!([tag, false]), NOW)["number"]))
            .collect();
        assert!(
            heights.is_sorted() && heights[0] == 0 && heights[4] == heights[3] + 1,
            "{chain} {heights:?}"
        );
        assert_eq!(u64::try_from(heights[3]).ok(), Some(node.height(NOW)));
    }
}

#[test]
fn blocks_are_linked_by_hash_number_and_time() {
    for (chain, _) in CHAINS {
        let node = &mut node(chain);
        let head = node.height(NOW);
        for height in [1, 1_000, head - 5_000, head - 1, head] {
            let at = |node: &mut EvmNode, n: u64| {
                result(node, "eth_getBlockByNumber", json!([format!("{n:#x}"), true]), NOW)
            };
            let parent = at(node, height - 1);
            let block = at(node, height);
            assert_eq!(parent["hash"], block["parentHash"]);
            assert!(number(&block["timestamp"]) > number(&parent["timestamp"]));
            assert_eq!(result(node, "eth_getBlockByHash", json!([block["hash"], true]), NOW), block);
            for tx in block["transactions"].as_array().expect("a list") {
                assert_eq!(&result(node, "eth_getTransactionByHash", json!([tx["hash"]]), NOW), tx);
                let receipt = result(node, "eth_getTransactionReceipt", json!([tx["hash"]]), NOW);
                assert_eq!(receipt["blockHash"], block["hash"]);
            }
        }
    }
}

#[test]
fn a_restart_is_not_a_reorganisation() {
    let mut first = node("eth");
    let mut second = node("eth");
    let mut other = EvmNode::new("eth", 43).expect("eth");
    let (raw, _) = signed("eth", "dynamic");
    result(&mut first, "eth_sendRawTransaction", json!([raw]), NOW);
    let ask = |node: &mut EvmNode| result(node, "eth_getBlockByNumber", json!(["latest", false]), later(30));
    let one = ask(&mut first);
    let two = ask(&mut second);
    assert_eq!(one["hash"], two["hash"]);
    assert_ne!(one["hash"], ask(&mut other)["hash"]);
}

#[test]
fn a_replay_gives_the_same_chain_regardless_of_reads_in_between() {
    let names = ["dynamic", "token", "legacy", "gap"];
    for (chain, _) in CHAINS {
        let watched = &mut node(chain);
        let blind = &mut node(chain);
        let mut past = Vec::new();
        for (index, name) in names.into_iter().enumerate() {
            let now = later(7 * index as u64);
            let raw = signed(chain, name).0;
            result(watched, "eth_sendRawTransaction", json!([raw]), now);
            past.extend(watched.submitted());
            assert!(watched.submitted().is_empty(), "reported once");
            refusal(watched, "eth_sendRawTransaction", json!([raw]), now);
            assert!(watched.submitted().is_empty(), "a refused one is not reported");
            for second in 0..7 {
                result(watched, "eth_blockNumber", json!([]), now.plus(Duration::from_secs(second)));
            }
        }
        let moments: Vec<_> = past.iter().map(|submission| submission.moment).collect();
        assert_eq!(moments, [later(0), later(7), later(14), later(21)]);
        blind.replay(&past);
        assert!(blind.submitted().is_empty(), "a replay is not a submission");
        let now = later(300);
        let hashes = names.map(|name| signed(chain, name).1);
        for hash in &hashes {
            let ask = |node: &mut EvmNode| {
                ["eth_getTransactionReceipt", "eth_getTransactionByHash"]
                    .map(|method| result(node, method, json!([hash]), now))
            };
            let seen = ask(watched);
            assert_eq!(ask(blind), seen, "{chain}");
            assert_ne!(seen[1], Value::Null);
        }
        for method in ["eth_getBalance", "eth_getTransactionCount"] {
            let ask = |node: &mut EvmNode| result(node, method, json!([SENDER, "latest"]), now);
            assert_eq!(ask(blind), ask(watched), "{chain}");
        }
        let pool = |node: &mut EvmNode| result(node, "txpool_content", json!([]), now);
        assert_eq!(pool(blind), pool(watched));
    }
}

#[test]
fn the_base_fee_moves_by_less_than_an_eighth_from_block_to_block() {
    let network = super::NETWORKS.iter().find(|network| network.name == "eth").expect("a network");
    let chain = super::Chain::of_network(network, 42);
    let fees: Vec<u128> = (0..2_000).map(|height| chain.base_fee(height)).collect();
    assert!(fees.windows(2).all(|pair| pair[0].abs_diff(pair[1]) * 8 < pair[0]));
    assert!(fees.iter().max() > fees.iter().min().map(|least| least * 5 / 4).as_ref(), "and it does move");
}

#[test]
fn a_transaction_that_is_too_cheap_now_enters_the_same_block_regardless_of_reads() {
    let chain = "eth";
    let (raw, hash) = signed(chain, "dynamic");
    // Its price is far above any base fee, so the test moves the fee to it: between the minimum and the average.
    let price = {
        let node = &mut node(chain);
        result(node, "eth_sendRawTransaction", json!([raw]), NOW);
        number(&result(node, "eth_getTransactionByHash", json!([hash]), NOW)["maxFeePerGas"])
    };
    let leak = |base_fee: u64| -> EvmNode {
        let known = super::NETWORKS.iter().find(|network| network.name == chain).expect("a network");
        let network = super::network::Network { base_fee, ..known.clone() };
        let chain = super::Chain::of_network(Box::leak(Box::new(network)), 42);
        EvmNode {
            chain,
            filters: super::Filters::default(),
            sessions: super::Sessions::default(),
            subscribed: 0,
        }
    };
    let base_fee = u64::try_from(price).expect("a price") * 13 / 10;
    let watched = &mut leak(base_fee);
    let blind = &mut leak(base_fee);
    for node in [&mut *watched, &mut *blind] {
        assert_eq!(result(node, "eth_sendRawTransaction", json!([raw]), NOW), json!(hash));
    }
    let mut now = NOW;
    let receipt = loop {
        let receipt = result(watched, "eth_getTransactionReceipt", json!([hash]), now);
        if receipt != Value::Null {
            break receipt;
        }
        now = now.plus(Duration::from_secs(2));
        assert!(now < later(400_000), "it enters within days");
    };
    assert!(now > later(60), "not at once");
    assert_eq!(result(blind, "eth_getTransactionReceipt", json!([hash]), later(400_000)), receipt);
}

#[test]
fn a_sent_transaction_waits_for_the_next_block_and_moves_coins_and_tokens() {
    for (chain, _) in CHAINS {
        let node = &mut node(chain);
        let names = ["dynamic", "token", "legacy", "access", "create"];
        let held =
            |node: &mut EvmNode, now| number(&result(node, "eth_getBalance", json!([PAYEE, "latest"]), now));
        let before = held(node, NOW);
        with_transactions(node, chain);
        result(node, "eth_sendRawTransaction", json!([signed(chain, "create").0]), NOW);
        for name in names {
            let hash = signed(chain, name).1;
            let tx = result(node, "eth_getTransactionByHash", json!([hash]), NOW);
            assert_eq!((&tx["hash"], &tx["blockNumber"]), (&json!(hash), &Value::Null));
            assert_eq!(result(node, "eth_getTransactionReceipt", json!([hash]), NOW), Value::Null);
        }
        let count =
            |node: &mut EvmNode, tag, now| result(node, "eth_getTransactionCount", json!([SENDER, tag]), now);
        assert_eq!((count(node, "latest", NOW), count(node, "pending", NOW)), (json!("0x0"), json!("0x5")));
        let next = node.height(NOW) + 1;
        let now = later(5);
        for name in names {
            let receipt = result(node, "eth_getTransactionReceipt", json!([signed(chain, name).1]), now);
            assert_eq!(number(&receipt["blockNumber"]), u128::from(next), "{chain} {name}");
            assert_eq!(
                (&receipt["status"], &receipt["from"]),
                (&json!("0x1"), &json!(SENDER)),
                "{chain} {name}"
            );
        }
        assert_eq!(held(node, now) - before, 1_002);
        assert_eq!(count(node, "latest", now), json!("0x5"));
        let receipt = result(node, "eth_getTransactionReceipt", json!([signed(chain, "token").1]), now);
        let log = &receipt["logs"][0];
        assert_eq!(log["topics"][2], json!(format!("0x{:0>64}", &PAYEE[2..])));
        assert_eq!(number(&log["data"]), 1_000_000);
        let query = json!([{ "fromBlock": receipt["blockNumber"], "toBlock": "latest", "topics": [null, [log["topics"][1]]] }]);
        let found = result(node, "eth_getLogs", query, now);
        assert!(found.as_array().expect("a list").contains(log));
        let data = format!("0x70a08231{:0>64}", &PAYEE[2..]);
        let tokens = result(node, "eth_call", json!([{ "to": receipt["to"], "data": data }, "latest"]), now);
        let unit = if chain == "bsc" { 18 } else { 6 };
        assert_eq!(number(&tokens), 1_000_000 * 10u128.pow(unit) + 1_000_000);
        let made = result(node, "eth_getTransactionReceipt", json!([signed(chain, "create").1]), now);
        let code = result(node, "eth_getCode", json!([made["contractAddress"], "latest"]), now);
        assert_eq!(code, json!("0x6001600055"));
    }
}

#[test]
fn the_created_address_is_that_of_the_yellow_paper() {
    // The first contract of the first development account, as every development node shows it.
    let mut sender = [0; 20];
    hex::decode_to_slice(&SENDER[2..], &mut sender).expect("hex");
    let address = super::chain::created_address(&sender, 0);
    assert_eq!(hex::encode(address), "5fbdb2315678afecb367f032d93f642f64180aa3");
}

#[test]
fn recorded_transactions_of_a_real_node_have_the_same_hash_and_sender_here() {
    let rows: Vec<Value> = serde_json::from_str(GOLDEN).expect("a fixture");
    let node = &mut node("eth");
    let mut sent = 0;
    for row in rows
        .iter()
        .filter(|row| row["name"].as_str().is_some_and(|n| n.starts_with("eth_sendRawTransaction/")))
    {
        let hash = result(node, "eth_sendRawTransaction", row["request"]["params"].clone(), NOW);
        assert_eq!(hash, row["response"]["result"]);
        assert_eq!(result(node, "eth_getTransactionByHash", json!([hash]), NOW)["from"], SENDER);
        sent += 1;
    }
    assert_eq!(sent, 5);
    for name in ["1559", "legacy", "2930"] {
        let real = recorded(GOLDEN, &format!("eth_getTransactionByHash/{name}"));
        let ours = result(node, "eth_getTransactionByHash", json!([real["hash"]]), later(10));
        for member in [
            "r",
            "s",
            "v",
            "yParity",
            "nonce",
            "value",
            "input",
            "to",
            "gas",
            "type",
            "accessList",
            "chainId",
        ] {
            assert_eq!(ours[member], real[member], "{name} {member}");
        }
    }
}

#[test]
fn broadcasts_are_refused_with_go_ethereums_messages() {
    let node = &mut node("eth");
    let send = |node: &mut EvmNode, name: &str, now| {
        refusal(node, "eth_sendRawTransaction", json!([signed("eth", name).0]), now)
    };
    let first = signed("eth", "dynamic").0;
    result(node, "eth_sendRawTransaction", json!([first]), NOW);
    assert_eq!(send(node, "dynamic", NOW), (-32000, "already known".into()));
    assert_eq!(send(node, "underpriced", NOW), (-32000, "replacement transaction underpriced".into()));
    let rows = [
        ("thin", "intrinsic gas too low: gas 20999, minimum needed 21000"),
        ("wide", "exceeds block gas limit"),
        ("foreign", "invalid sender: invalid chain id for signer: have 2 want 1"),
        ("unbound", "only replay-protected (EIP-155) transactions allowed over RPC"),
    ];
    for (name, message) in rows {
        let (code, text) = send(node, name, NOW);
        assert_eq!(code, -32000);
        assert_eq!(text, message);
    }
    let (code, text) = send(node, "rich", NOW);
    assert!(
        code == -32000 && text.starts_with("insufficient funds for gas * price + value: balance 1000000"),
        "{text}"
    );
    assert_eq!(send(node, "dynamic", later(10)), (-32000, "nonce too low: next nonce 1, tx nonce 0".into()));
    for raw in ["0x", "0x02", "0x1234", "0x05aa", "0xc0", "0xf8", "0x02c0"] {
        assert_eq!(refusal(node, "eth_sendRawTransaction", json!([raw]), NOW).0, -32000, "{raw}");
    }
    for raw in ["1234", "0x1", "0xzz"] {
        assert_eq!(refusal(node, "eth_sendRawTransaction", json!([raw]), NOW).0, -32602, "{raw}");
    }
}

#[test]
fn no_byte_of_a_transaction_can_change_unnoticed() {
    let (raw, hash) = signed("eth", "dynamic");
    for at in (4..raw.len()).step_by(2) {
        let node = &mut node("eth");
        let flipped = if &raw[at..=at] == "0" { "1" } else { "0" };
        let changed = format!("{}{flipped}{}", &raw[..at], &raw[at + 1..]);
        let answer = call(node, "eth_sendRawTransaction", json!([changed]), NOW);
        assert_ne!(answer["result"], json!(hash), "nibble {at}");
        let found = result(
            node,
            "eth_getTransactionByHash",
            json!([answer["result"].as_str().unwrap_or(ZEROS)]),
            NOW,
        );
        assert_ne!(found["from"], json!(SENDER), "nibble {at}");
    }
}

#[test]
fn a_dearer_transaction_replaces_one_that_waits() {
    let node = &mut node("eth");
    let old = signed("eth", "dynamic");
    let new = signed("eth", "replace");
    result(node, "eth_sendRawTransaction", json!([old.0]), NOW);
    result(node, "eth_sendRawTransaction", json!([new.0]), NOW);
    assert_eq!(result(node, "eth_getTransactionByHash", json!([old.1]), later(10)), Value::Null);
    assert_eq!(result(node, "eth_getTransactionReceipt", json!([new.1]), later(10))["status"], json!("0x1"));
}

#[test]
fn a_gap_in_the_nonces_waits_and_a_revert_is_a_failed_receipt() {
    let node = &mut node("eth");
    let gap = signed("eth", "gap");
    result(node, "eth_sendRawTransaction", json!([gap.0]), NOW);
    let (raw, hash) = signed("eth", "revert");
    result(node, "eth_sendRawTransaction", json!([raw]), NOW);
    assert_eq!(result(node, "eth_getTransactionReceipt", json!([gap.1]), later(60)), Value::Null);
    let receipt = result(node, "eth_getTransactionReceipt", json!([hash]), later(60));
    assert_eq!((&receipt["status"], &receipt["logs"]), (&json!("0x0"), &json!([])));
}

#[test]
fn the_token_answers_its_functions_and_reverts_with_a_reason() {
    let node = &mut node("eth");
    let token = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
    let ask = |node: &mut EvmNode, data: &str| {
        result(node, "eth_call", json!([{ "to": token, "data": data }, "latest"]), NOW)
    };
    assert_eq!(number(&ask(node, "0x313ce567")), 6);
    let symbol = ask(node, "0x95d89b41");
    assert_eq!(symbol, json!(format!("0x{:064x}{:064x}{:0<64}", 32, 4, hex::encode("USDC"))));
    assert_eq!(number(&ask(node, "0x18160ddd")), (10 + 320) * 1_000_000 * 1_000_000);
    let data = format!("0xa9059cbb{:0>64}{:064x}", &PAYEE[2..], 5);
    let answer = call(node, "eth_call", json!([{ "from": EMPTY, "to": token, "data": data }, "latest"]), NOW);
    let error = &answer["error"];
    assert_eq!(error["code"], 3);
    assert_eq!(error["message"], "execution reverted: ERC20: transfer amount exceeds balance");
    assert!(error["data"].as_str().is_some_and(|data| data.starts_with("0x08c379a0")));
    let estimate =
        refusal(node, "eth_estimateGas", json!([{ "from": EMPTY, "to": PAYEE, "value": "0x1" }]), NOW);
    assert!(
        estimate.1.starts_with("insufficient funds for gas * price + value: address 0x1111"),
        "{}",
        estimate.1
    );
}

#[test]
fn logs_are_refused_beyond_the_span_and_backwards() {
    let node = &mut node("eth");
    let head = node.height(NOW);
    let ask = |node: &mut EvmNode, from: u64, to: u64| {
        let query = json!([{ "fromBlock": format!("{from:#x}"), "toBlock": format!("{to:#x}") }]);
        refusal(node, "eth_getLogs", query, NOW)
    };
    assert_eq!(ask(node, head - 5_000, head), (-32602, "exceed maximum block range: 5000".into()));
    assert_eq!(ask(node, head, head - 1), (-32602, "invalid block range params".into()));
    let both = json!([{ "fromBlock": "0x1", "blockHash": ZEROS }]);
    assert_eq!(refusal(node, "eth_getLogs", both, NOW).0, -32602);
    assert_eq!(
        refusal(node, "eth_getLogs", json!([{ "blockHash": ZEROS }]), NOW),
        (-32000, "unknown block".into())
    );
    for wrong in [json!([{ "address": "0x12" }]), json!([{ "topics": "x" }]), json!(["x"]), json!([])] {
        assert_eq!(refusal(node, "eth_getLogs", wrong.clone(), NOW).0, -32602, "{wrong}");
    }
}

#[test]
fn filters_report_each_event_once() {
    let node = &mut node("eth");
    let blocks = result(node, "eth_newBlockFilter", json!([]), NOW);
    let pending = result(node, "eth_newPendingTransactionFilter", json!([]), NOW);
    let logs = result(node, "eth_newFilter", json!([{}]), NOW);
    with_transactions(node, "eth");
    let changes = |node: &mut EvmNode, id: &Value, now| {
        result(node, "eth_getFilterChanges", json!([id]), now).as_array().expect("a list").len()
    };
    assert_eq!(changes(node, &pending, NOW), 4);
    assert_eq!(changes(node, &pending, NOW), 0);
    let came = (node.height(later(60)) - node.height(NOW)) as usize;
    assert_eq!(changes(node, &blocks, later(60)), came);
    assert_eq!(changes(node, &blocks, later(60)), 0);
    assert!(changes(node, &logs, later(60)) >= 1);
    assert_eq!(changes(node, &logs, later(60)), 0);
    assert_eq!(result(node, "eth_uninstallFilter", json!([logs]), NOW), json!(true));
    assert_eq!(result(node, "eth_uninstallFilter", json!([logs]), NOW), json!(false));
    let gone = (-32000, "filter not found".to_owned());
    assert_eq!(refusal(node, "eth_getFilterChanges", json!([logs]), NOW), gone);
    assert_eq!(refusal(node, "eth_getFilterLogs", json!([blocks]), NOW), gone);
    assert_eq!(refusal(node, "eth_getFilterChanges", json!([blocks]), later(3_600)), gone);
}

#[test]
fn old_state_is_pruned_and_future_blocks_have_none() {
    let node = &mut node("eth");
    let head = node.height(NOW);
    let ask = |height: u64| json!([SENDER, format!("{height:#x}")]);
    assert_eq!(refusal(node, "eth_getBalance", ask(head + 1), NOW), (-32000, "header not found".into()));
    let (code, message) = refusal(node, "eth_getBalance", ask(head - 128), NOW);
    assert!(code == -32000 && message.starts_with("missing trie node"), "{message}");
    result(node, "eth_getBalance", ask(head - 127), NOW);
    let hash = json!([SENDER, { "blockHash": ZEROS }]);
    assert_eq!(refusal(node, "eth_getBalance", hash, NOW), (-32000, "header for hash not found".into()));
}

#[test]
fn balances_of_the_past_stay_what_they_were() {
    let node = &mut node("eth");
    let before = node.height(NOW);
    let now = with_transactions(node, "eth");
    let at = |node: &mut EvmNode, height: u64| {
        number(&result(node, "eth_getBalance", json!([PAYEE, format!("{height:#x}")]), now))
    };
    assert_eq!(at(node, before + 1) - at(node, before), 1_002);
}

#[test]
fn parameters_are_refused_with_go_ethereums_messages() {
    let node = &mut node("eth");
    let rows = [
        ("eth_getBalance", json!([]), "missing value for required argument 0"),
        ("eth_getBalance", json!([SENDER, null]), "missing value for required argument 1"),
        ("eth_getBalance", json!([SENDER, "latest", 1]), "too many arguments, want at most 2"),
        ("eth_getBalance", json!({ "a": 1 }), "non-array args"),
        (
            "eth_getBalance",
            json!(["f39f", "latest"]),
            "invalid argument 0: hex string without 0x prefix for common.Address",
        ),
        (
            "eth_getBalance",
            json!(["0x12", "latest"]),
            "invalid argument 0: hex string has length 2, want 40 for common.Address",
        ),
        (
            "eth_getBlockByNumber",
            json!(["0x01", false]),
            "invalid argument 0: hex number with leading zero digits",
        ),
        ("eth_getBlockByNumber", json!(["0x", false]), "invalid argument 0: hex string \"0x\""),
        (
            "eth_getBlockByNumber",
            json!(["newest", false]),
            "invalid argument 0: hex string without 0x prefix",
        ),
        ("eth_blockNumber", json!([1]), "too many arguments, want at most 0"),
    ];
    for (method, params, message) in rows {
        assert_eq!(refusal(node, method, params, NOW), (-32602, message.to_owned()));
    }
    assert_eq!(
        refusal(node, "eth_feeHistory", json!(["0x1", "latest", [50, 20]]), NOW).1,
        "invalid reward percentile"
    );
    assert_eq!(refusal(node, "eth_feeHistory", json!(["0x1", "0xffffffff", []]), NOW).0, -32000);
}

#[test]
fn methods_that_a_node_lacks_are_refused() {
    for (chain, _) in CHAINS {
        let node = &mut node(chain);
        for method in [
            "eth_nope",
            "debug_traceTransaction",
            "trace_block",
            "eth_fillTransaction",
            "personal_unlockAccount",
            "",
        ] {
            let message = format!("the method {method} does not exist/is not available");
            assert_eq!(refusal(node, method, json!([]), NOW), (-32601, message));
        }
        assert_eq!(
            refusal(node, "bor_getAuthor", json!(["a"]), NOW).0,
            if chain == "polygon" { -32602 } else { -32601 }
        );
        assert_eq!(
            refusal(node, "eth_subscribe", json!(["newHeads"]), NOW),
            (-32001, "notifications not supported".into())
        );
        let unknown = (-32000, "unknown account".to_owned());
        assert_eq!(
            refusal(node, "eth_sendTransaction", json!([{ "from": SENDER, "to": PAYEE }]), NOW),
            unknown
        );
    }
}

#[test]
fn polygon_names_its_block_producers() {
    let node = &mut node("polygon");
    let block = result(node, "eth_getBlockByNumber", json!(["latest", false]), NOW);
    assert_eq!(result(node, "bor_getAuthor", json!(["latest"]), NOW), block["miner"]);
    let signers = result(node, "bor_getSignersAtHash", json!([block["hash"]]), NOW);
    assert!(signers.as_array().expect("a list").contains(&block["miner"]));
    assert_eq!(
        result(node, "bor_getCurrentValidators", json!([]), NOW).as_array().expect("a list").len(),
        21
    );
    assert_eq!(result(node, "bor_getRootHash", json!([1, 5]), NOW).as_str().map(str::len), Some(64));
}

#[test]
fn heavy_methods_answer_too() {
    let node = &mut node("eth");
    with_transactions(node, "eth");
    let content = result(node, "txpool_content", json!([]), NOW);
    assert_eq!(content["pending"][SENDER]["0"]["hash"], json!(signed("eth", "dynamic").1));
    let calls = json!([{ "blockStateCalls": [{ "calls": [{ "from": SENDER, "to": PAYEE, "value": "0x1" }] }] }, "latest"]);
    let simulated = result(node, "eth_simulateV1", calls, NOW);
    assert_eq!(simulated[0]["calls"][0]["status"], "0x1");
    assert_eq!(refusal(node, "eth_simulateV1", json!([{}]), NOW).0, -32602);
}

#[test]
fn ids_come_back_byte_for_byte() {
    let node = &mut node("eth");
    for id in
        ["0", "\"\"", "null", "9223372036854775807", "{\"requestId\": \"x\" }", "\"\\u00e9\"", "-1", "1.0"]
    {
        let (status, body) =
            post(node, &format!("{{\"id\":{id},\"method\":\"eth_chainId\",\"jsonrpc\":\"2.0\"}}"), NOW);
        assert_eq!((status, body), (200, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"0x1\"}}")));
    }
}

#[test]
fn envelopes_batches_and_notifications() {
    let node = &mut node("eth");
    let one = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x1\"}";
    let ask = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}";
    let silent = "{\"jsonrpc\":\"2.0\",\"method\":\"eth_chainId\"}";
    let invalid = |id: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32600,\"message\":\"invalid request\"}}}}"
        )
    };
    let rows = [
        (ask.to_owned(), one.to_owned()),
        (ask.replace('}', ",\"params\":null}"), one.into()),
        (format!(" [{ask}]"), format!("[{one}]")),
        (format!("[{ask},{ask}]"), format!("[{one},{one}]")),
        (format!("[{silent},{ask},{silent}]"), format!("[{one}]")),
        (format!("[{silent}]"), String::new()),
        (silent.into(), String::new()),
        ("[1]".into(), format!("[{}]", invalid("null"))),
        ("1".into(), invalid("null")),
        ("{\"id\":7}".into(), invalid("7")),
        ("[]".into(), invalid("null").replace("invalid request", "empty batch")),
        (
            "{nope".into(),
            invalid("null").replace("-32600", "-32700").replace("invalid request", "parse error"),
        ),
        (
            format!("[{}]", vec![ask; 1_001].join(",")),
            invalid("null").replace("invalid request", "batch too large"),
        ),
    ];
    for (body, answer) in rows {
        assert_eq!(post(node, &body, NOW), (200, answer), "{}", &body[..body.len().min(100)]);
    }
}

#[test]
fn only_post_is_a_call() {
    let node = &mut node("eth");
    let mut ask = |method: http::Method, body: &'static [u8]| {
        node.handle(&SimulatedRequest { method: &method, path: "/", body }, NOW).status
    };
    assert_eq!(
        (ask(http::Method::GET, b""), ask(http::Method::PUT, b""), ask(http::Method::GET, b"{}")),
        (200, 405, 405)
    );
}

#[test]
fn a_backward_step_of_the_clock_removes_no_block() {
    let node = &mut node("eth");
    let now = with_transactions(node, "eth");
    let head = result(node, "eth_blockNumber", json!([]), now);
    assert_eq!(result(node, "eth_blockNumber", json!([]), NOW), head);
    assert_eq!(u128::from(node.height(NOW)), number(&head));
}

// Shows (Per-chain surface).
#[test]
fn the_multicall_contract_has_code_and_answers_at_its_usual_address() {
    for (chain, id) in CHAINS {
        let node = &mut node(chain);
        let to = "0xca11bde05977b3631167028862be2a173976ca11";
        assert_ne!(result(node, "eth_getCode", json!([to, "latest"]), NOW), "0x", "{chain}");
        let call = json!([{ "to": to, "data": "0x3408e470" }, "latest"]);
        let answer = result(node, "eth_call", call, NOW);
        let digits = answer.as_str().and_then(|text| text.strip_prefix("0x")).expect("hex");
        assert_eq!(u64::from_str_radix(digits, 16).ok(), Some(id), "{chain}");
    }
}
