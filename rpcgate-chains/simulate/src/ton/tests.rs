use super::*;
use crate::Simulated;
use crate::testing::golden::{NOW, assert_shape};
use serde_json::{Value, json};
use std::time::Duration;

const OWNER: &str = "EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000c";
const OTHER: &str = "0:1111111111111111111111111111111111111111111111111111111111111111";
/// Orders of the first developer's wallet with sequence number 0, valid for ten minutes: 1.5 TON with the comment "hello" to
/// `OTHER`, with the state for a new wallet; and 1, 2 and 3 TON for three accounts. Signed by TON's own library.
const ONE: &str = "te6cckECFwEAA7UAA+OIAEmN2TbTwL8rcDC298CF7gsGQCCrhdq7ODtdLxZtWbOmEZkgxidJk7kZqcHfZMN3oEoCv935CGAGphLOtmE2ORj6Tzb1ajzyl4wxiLd/y39R8x8hL+vobknmgcGG/T8P4EDlNTRi7Wk6iwAAAAAAABABFRYBFP8A9KQT9LzyyAsCAgEgAxACAUgEBwLm0AHQ0wMhcbCSXwTgItdJwSCSXwTgAtMfIYIQcGx1Z70ighBkc3RyvbCSXwXgA/pAMCD6RAHIygfL/8nQ7UTQgQFA1yH0BDBcgQEI9ApvoTGzkl8H4AXTP8glghBwbHVnupI4MOMNA4IQZHN0crqSXwbjDQUGAHgB+gD0BDD4J28iMFAKoSG+8uBQghBwbHVngx6xcIAYUATLBSbPFlj6Ahn0AMtpF8sfUmDLPyDJgED7AAYAilAEgQEI9Fkw7UTQgQFA1yDIAc8W9ADJ7VQBcrCOI4IQZHN0coMesXCAGFAFywVQA88WI/oCE8tqyx/LP8mAQPsAkl8D4gIBIAgPAgEgCQ4CAVgKCwA9sp37UTQgQFA1yH0BDACyMoHy//J0AGBAQj0Cm+hMYAIBIAwNABmtznaiaEAga5Drhf/AABmvHfaiaEAQa5DrhY/AABG4yX7UTQ1wsfgAWb0kK29qJoQICga5D6AhhHDUCAhHpJN9KZEM5pA+n/mDeBKAG3gQFImHFZ8xhAT48oMI1xgg0x/TH9MfAvgju/Jk7UTQ0x/TH9P/9ATRUUO68qFRUbryogX5AVQQZPkQ8qP4ACSkyMsfUkDLH1Iwy/9SEPQAye1U+A8B0wchwACfbFGTINdKltMH1AL7AOgw4CHAAeMAIcAC4wABwAORMOMNA6TIyx8Syx/L/xESExQAbtIH+gDU1CL5AAXIygcVy//J0Hd0gBjIywXLAiLPFlAF+gIUy2sSzMzJc/sAyEAUgQEI9FHypwIAcIEBCNcY+gDTP8hUIEeBAQj0UfKnghBub3RlcHSAGMjLBcsCUAbPFlAE+gIUy2oSyx/LP8lz+wACAGyBAQjXGPoA0z8wUiSBAQj0WfKnghBkc3RycHSAGMjLBcsCUAXPFlAD+gITy2rLHxLLP8lz+wAACvQAye1UAFEAAAAAKamjF0y1q/atefv1q7zK/MJp2FzSZR7UuIW1hp8kGu3wpbopQAB6QgAIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiKLLQXgAAAAAAAAAAAAAAAAAAAAAAABoZWxsb+25op0=";
const ONE_HASH: &str = "2e5927e7570bbc2389ab93fcc1346c44e5169e8d954203b15ca0bb892d0b78c6";
const THREE: &str = "te6cckECBAEAARoAA+WIAEmN2TbTwL8rcDC298CF7gsGQCCrhdq7ODtdLxZtWbOmB8PePm6xmXcEpaZIB04DVRqiKDGM0biQYBBbi0sU4H9m0SjGm9HJYiHgDYIOtkKV7ftAvJQErkATcjJBypuHeHlNTRi7Wk6iwAAAAAAAGBgcAQIDAGhCAAiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIodzWUAAAAAAAAAAAAAAAAAAAAGhCABERERERERERERERERERERERERERERERERERERERERERI7msoAAAAAAAAAAAAAAAAAAAAGhif5mZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZpZaC8AAAAAAAAAAAAAAAAAAAjWSegA==";
const THREE_HASH: &str = "456e597086904b84ab1c75e19378012ece1c93d33ebd552112cc3cf036173324";

fn request(node: &mut TonNode, method: &http::Method, path: &str, body: &str, now: Time) -> (u16, Value) {
    let reply = node.handle(&SimulatedRequest { method, path, body: body.as_bytes() }, now);
    (reply.status, serde_json::from_slice(&reply.body).expect("JSON"))
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
fn call(node: &mut TonNode, method: &str, params: Value, now: Time) -> (u16, Value) {
    let body = json!({ "jsonrpc": "2.0", "id": "1", "method": method, "params": params }).to_string();
    request(node, &http::Method::POST, "/jsonRPC", &body, now)
}

#[track_caller]
fn result(node: &mut TonNode, method: &str, params: Value, now: Time) -> Value {
    let (status, answer) = call(node, method, params, now);
    assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{method}: {answer}");
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("1")));
    answer["result"].clone()
}

fn get(node: &mut TonNode, path: &str, now: Time) -> (u16, Value) {
    request(node, &http::Method::GET, path, "", now)
}

fn later(secs: u64) -> Time {
    NOW.plus(Duration::from_secs(secs))
}

fn block_id() -> Value {
    json!({
        "@type": "ton.blockIdExt", "workchain": 1, "shard": "1", "seqno": 1, "root_hash": "", "file_hash": "",
    })
}

#[test]
fn the_masterchain_advances_and_its_blocks_are_found_in_three_ways() {
    let mut node = TonNode::new(7);
    let info = result(&mut node, "getMasterchainInfo", json!({}), NOW);
    let expected = json!({
        "@type": "blocks.masterchainInfo", "last": block_id(), "state_root_hash": "", "init": block_id(), "@extra": "",
    });
    assert_shape("getMasterchainInfo", &expected, &info, &[]);
    assert_eq!(info["last"]["seqno"], node.height(NOW));
    let rest = get(&mut node, "/getMasterchainInfo", NOW);
    assert_eq!(rest, (200, json!({ "ok": true, "result": info })));
    assert!(
        result(&mut node, "getMasterchainInfo", json!({}), later(12))["last"]["seqno"].as_u64()
            > info["last"]["seqno"].as_u64()
    );

    for workchain in [-1, 0] {
        let seqno = info["last"]["seqno"].as_i64().expect("a number")
            + if workchain == 0 { 5_300_000 } else { 0 }
            - 5;
        let shard = "-9223372036854775808";
        let ask = json!({ "workchain": workchain, "shard": shard, "seqno": seqno });
        let block = result(&mut node, "lookupBlock", ask.clone(), NOW);
        assert_eq!(block["seqno"], seqno);
        let header = result(&mut node, "getBlockHeader", ask, NOW);
        assert_eq!(header["id"], block);
        for (by, value) in [("lt", header["start_lt"].clone()), ("unixtime", header["gen_utime"].clone())] {
            let mut ask = json!({ "workchain": workchain, "shard": shard });
            ask[by] = value;
            assert_eq!(result(&mut node, "lookupBlock", ask, NOW), block, "{by}");
        }
        let parent = json!({ "workchain": workchain, "shard": shard, "seqno": seqno - 1 });
        assert_eq!(header["prev_blocks"][0], result(&mut node, "lookupBlock", parent, NOW));
        let path = format!("/lookupBlock?workchain={workchain}&shard={shard}&seqno={seqno}");
        assert_eq!(get(&mut node, &path, NOW).1["result"], block);
        let proof = json!({ "workchain": workchain, "shard": shard, "seqno": seqno });
        let proof = result(&mut node, "getShardBlockProof", proof, NOW);
        assert_eq!(proof["links"].as_array().map(Vec::len), Some(usize::from(workchain == 0)));
        assert_shape(
            "getShardBlockProof",
            &json!({
                "@type": "blocks.shardBlockProof", "from": block_id(), "mc_id": block_id(),
                "links": [{ "@type": "blocks.shardBlockLink", "id": block_id(), "proof": "" }],
                "mc_proof": [{
                    "@type": "blocks.blockLinkBack", "to_key_block": false, "from": block_id(), "to": block_id(),
                    "dest_proof": "", "proof": "", "state_proof": "",
                }],
                "@extra": "",
            }),
            &proof,
            &[],
        );
    }
    let ahead = json!({ "workchain": -1, "shard": "-9223372036854775808", "seqno": 99_999_999 });
    let (status, answer) = call(&mut node, "lookupBlock", ahead, NOW);
    assert_eq!((status, &answer["code"]), (500, &json!(500)));
    assert!(answer["error"].as_str().expect("text").starts_with("LITE_SERVER_NOTREADY"), "{answer}");
}

#[test]
fn transactions_of_a_block_are_found_in_the_history_of_their_accounts() {
    let mut node = TonNode::new(7);
    let head = node.height(NOW) + 5_300_000;
    for seqno in head - 10..=head {
        let ask = json!({ "workchain": 0, "shard": "-9223372036854775808", "seqno": seqno });
        let block = result(&mut node, "getBlockTransactions", ask, NOW);
        let rows = block["transactions"].as_array().expect("rows").clone();
        assert_eq!(rows.len(), 2);
        for row in rows {
            let ask = json!({ "address": row["account"], "lt": row["lt"], "hash": row["hash"], "limit": 3 });
            let history = result(&mut node, "getTransactions", ask, NOW);
            let history = history.as_array().expect("rows").clone();
            assert_eq!(history.len(), 3);
            assert_eq!(history[0]["transaction_id"]["hash"], row["hash"]);
            // Each transaction's cell names the previous one.
            for pair in history.windows(2) {
                let data = address::from_base64(pair[0]["data"].as_str().expect("Base64")).expect("Base64");
                let cell = cell::Cell::of_bag(&data).expect("a cell");
                let mut slice = cell.slice();
                slice.number(4);
                slice.bytes(32);
                slice.number(64);
                let before = address::base64(&slice.bytes(32).expect("a hash"));
                assert_eq!(pair[1]["transaction_id"]["hash"], before);
                assert_eq!(
                    slice.number(64).map(|lt| lt.to_string().into()),
                    Some(pair[1]["transaction_id"]["lt"].clone())
                );
            }
        }
    }
}

#[test]
fn whole_transactions_of_a_block_are_read_page_by_page() {
    let mut node = TonNode::new(7);
    let seqno = node.height(NOW) + 5_300_000;
    let ask = json!({ "workchain": 0, "shard": "-9223372036854775808", "seqno": seqno });
    let all = result(&mut node, "getBlockTransactionsExt", ask.clone(), NOW);
    assert_eq!((&all["@type"], &all["incomplete"]), (&json!("blocks.transactionsExt"), &json!(false)));
    let all = all["transactions"].as_array().expect("rows").clone();
    assert_eq!(all.len(), 2);
    let mut ask = ask;
    ask["count"] = 1.into();
    let page = result(&mut node, "getBlockTransactionsExt", ask.clone(), NOW);
    assert_eq!((&page["transactions"], &page["incomplete"]), (&json!([all[0]]), &json!(true)));
    let account = all[0]["account"].as_str().and_then(|raw| raw.strip_prefix("0:")).expect("an account");
    ask["after_hash"] = address::base64(&hex::decode(account).expect("hex")).into();
    ask["after_lt"] = all[0]["transaction_id"]["lt"].clone();
    let page = result(&mut node, "getBlockTransactionsExt", ask, NOW);
    assert_eq!((&page["transactions"], &page["incomplete"]), (&json!([all[1]]), &json!(false)));
    // The payee emits an external message about the payment.
    let paid = all.iter().find(|tx| tx["in_msg"]["source"]["account_address"] != "").expect("a payment");
    let told = &paid["out_msgs"][0];
    assert_eq!((&told["destination"]["account_address"], &told["value"]), (&json!(""), &json!("0")));
    assert_eq!(told["source"], paid["address"]);
}

#[test]
fn transactions_and_accounts_have_the_shapes_of_toncenter() {
    let mut node = TonNode::new(7);
    let resident = node.chain.block(node.height(NOW) - 1)[1].account.friendly();
    let message = |data: Value| {
        json!({
            "@type": "raw.message", "hash": "", "source": "", "destination": "", "value": "", "extra_currencies": [],
            "fwd_fee": "", "ihr_fee": "", "created_lt": "", "body_hash": "", "msg_data": data, "message": "",
        })
    };
    let raw = || message(json!({ "@type": "msg.dataRaw", "body": "", "init_state": "" }));
    let id = json!({ "@type": "internal.transactionId", "lt": "", "hash": "" });
    let expected = json!([{
        "@type": "raw.transaction", "address": { "@type": "accountAddress", "account_address": "" }, "utime": 1,
        "data": "", "transaction_id": id, "fee": "", "storage_fee": "", "other_fee": "", "in_msg": raw(),
        "out_msgs": [raw()],
    }]);
    let (_, ours) = get(&mut node, &format!("/getTransactions?address={resident}&limit=70"), NOW);
    assert_eq!(ours["result"].as_array().map(Vec::len), Some(70));
    assert_shape("getTransactions", &expected, &ours["result"], &[]);
    let account = json!({
        "@type": "raw.fullAccountState", "balance": "", "extra_currencies": [], "code": "", "data": "",
        "last_transaction_id": id, "block_id": block_id(), "frozen_hash": "", "sync_utime": 1, "@extra": "", "state": "",
    });
    for (who, state, balance) in [(OWNER, "active", "10000000000000"), (OTHER, "uninitialized", "0")] {
        let ours = result(&mut node, "getAddressInformation", json!({ "address": who }), NOW);
        assert_shape("getAddressInformation", &account, &ours, &[]);
        assert_eq!((&ours["state"], &ours["balance"]), (&json!(state), &json!(balance)));
        assert_eq!(result(&mut node, "getAddressBalance", json!({ "address": who }), NOW), balance);
    }
    let config = result(&mut node, "getConfigAll", json!({}), NOW);
    assert_eq!((&config["@type"], &config["config"]["@type"]), (&json!("configInfo"), &json!("tvm.cell")));
    let run = |method: &str, who: &str| json!({ "address": who, "method": method, "stack": [] });
    let seqno = result(&mut node, "runGetMethod", run("seqno", OWNER), NOW);
    assert_eq!((&seqno["exit_code"], &seqno["stack"]), (&json!(0), &json!([["num", "0x0"]])));
    assert_eq!(result(&mut node, "runGetMethod", run("nothing", OWNER), NOW)["exit_code"], 11);
    assert_eq!(result(&mut node, "runGetMethod", run("seqno", OTHER), NOW)["exit_code"], -13);
    let (status, posted) =
        request(&mut node, &http::Method::POST, "/runGetMethod", &run("seqno", OWNER).to_string(), NOW);
    assert_eq!((status, &posted["result"]["stack"]), (200, &json!([["num", "0x0"]])));
}

#[test]
fn balances_of_residents_follow_from_their_transactions() {
    let mut node = TonNode::new(7);
    let who = node.chain.block(node.height(NOW))[0].account.friendly();
    let balance = |node: &mut TonNode, now| {
        let text = result(node, "getAddressBalance", json!({ "address": who }), now);
        text.as_str().expect("text").parse::<i64>().expect("a number")
    };
    let mut held = balance(&mut node, NOW);
    let mut seen =
        result(&mut node, "getTransactions", json!({ "address": who, "limit": 1 }), NOW)[0].clone();
    for step in 1..40 {
        let now = later(40 * step);
        let ask = json!({ "address": who, "limit": 20, "to_lt": seen["transaction_id"]["lt"] });
        let news = result(&mut node, "getTransactions", ask, now);
        for tx in news.as_array().expect("rows").iter().rev() {
            let number = |value: &Value| value.as_str().expect("text").parse::<i64>().expect("a number");
            let sent: i64 =
                tx["out_msgs"].as_array().expect("rows").iter().map(|out| number(&out["value"])).sum();
            held += number(&tx["in_msg"]["value"]) - sent - number(&tx["fee"]);
            seen = tx.clone();
        }
        assert_eq!(balance(&mut node, now), held, "after {step}");
    }
}

#[test]
fn an_order_of_a_wallets_owner_is_executed_in_the_next_block() {
    let mut node = TonNode::new(7);
    let sent = result(&mut node, "sendBocReturnHash", json!({ "boc": ONE }), NOW);
    let hash = hex::decode(ONE_HASH).expect("hex");
    assert_eq!(
        (&sent["@type"], &sent["hash"]),
        (&json!("raw.extMessageInfo"), &json!(address::base64(&hash)))
    );
    assert_eq!(node.submitted().len(), 1);
    assert_eq!(result(&mut node, "getAddressBalance", json!({ "address": OTHER }), NOW), "0");
    // The same order is forwarded again and has no effect.
    assert_eq!(result(&mut node, "sendBoc", json!({ "boc": ONE }), NOW)["@type"], "ok");
    assert!(node.submitted().is_empty());
    let now = later(10);
    assert_eq!(result(&mut node, "getAddressBalance", json!({ "address": OTHER }), now), "1500000000");
    let arrived = result(&mut node, "getTransactions", json!({ "address": OTHER }), now);
    assert_eq!(arrived.as_array().map(Vec::len), Some(1));
    assert_eq!(arrived[0]["in_msg"]["message"], "hello");
    assert_eq!(arrived[0]["in_msg"]["msg_data"], json!({ "@type": "msg.dataText", "text": "aGVsbG8=" }));
    let order = result(&mut node, "getTransactions", json!({ "address": OWNER }), now);
    assert_eq!(order[0]["in_msg"]["hash"], address::base64(&hash));
    assert_eq!(order[0]["out_msgs"][0]["hash"], arrived[0]["in_msg"]["hash"]);
    let run = json!({ "address": OWNER, "method": "seqno", "stack": [] });
    assert_eq!(result(&mut node, "runGetMethod", run, now)["stack"], json!([["num", "0x1"]]));
    let fee = order[0]["fee"].as_str().expect("text").parse::<u64>().expect("a number");
    let left = (10_000_000_000_000 - 1_500_000_000 - fee).to_string();
    assert_eq!(result(&mut node, "getAddressBalance", json!({ "address": OWNER }), now), left);
    let (status, answer) = call(&mut node, "sendBoc", json!({ "boc": ONE }), now);
    assert_eq!(status, 500);
    assert!(answer["error"].as_str().expect("text").contains("exitcode=33"), "{answer}");
}

#[test]
fn an_order_can_contain_several_payments() {
    let mut node = TonNode::new(7);
    let sent = result(&mut node, "sendBocReturnHash", json!({ "boc": THREE }), NOW);
    assert_eq!(sent["hash"], address::base64(&hex::decode(THREE_HASH).expect("hex")));
    let order = result(&mut node, "getTransactions", json!({ "address": OWNER }), later(10));
    let values: Vec<_> =
        order[0]["out_msgs"].as_array().expect("rows").iter().map(|out| out["value"].clone()).collect();
    assert_eq!(values, ["1000000000", "2000000000", "3000000000"]);
    let master = format!("-1:{}", "33".repeat(32));
    assert_eq!(result(&mut node, "getAddressBalance", json!({ "address": master }), later(10)), "3000000000");
}

#[test]
fn an_invalid_order_is_refused_with_the_reason() {
    let mut node = TonNode::new(7);
    let mut refused = |params: Value, now: Time| {
        let (status, answer) = call(&mut node, "sendBoc", params, now);
        assert_eq!((&answer["ok"], &answer["code"]), (&json!(false), &json!(status)), "{answer}");
        (status, answer["error"].as_str().expect("text").to_owned())
    };
    assert_eq!(refused(json!({ "boc": "AAA" }), NOW), (503, "Incorrect padding".into()));
    assert_eq!(
        refused(json!({ "boc": "AAAAAAAA" }), NOW),
        (500, "LITE_SERVER_UNKNOWN: cannot deserialize bag-of-cells: invalid magic".into())
    );
    let empty = address::base64(&cell::Builder::default().done().bag());
    assert!(
        refused(json!({ "boc": empty }), NOW)
            .1
            .ends_with("external message must begin with ext_in_msg_info$10")
    );
    let missing = address::Address::read(OTHER).expect("an address");
    let to_missing = missing.write(cell::Builder::default().number(0b1000, 4)).coins(0).number(0, 2).done();
    let to_missing = address::base64(&to_missing.bag());
    assert!(refused(json!({ "boc": to_missing }), NOW).1.ends_with("Failed to unpack account state"));
    let mut forged = address::from_base64(THREE).expect("Base64");
    let place = forged.len() - 30;
    forged[place] ^= 1;
    assert!(refused(json!({ "boc": address::base64(&forged) }), NOW).1.ends_with("crc32c mismatch"));
    // The checksum is ignored if the header declares no checksum.
    forged[4] &= !0x40;
    forged.truncate(forged.len() - 4);
    assert!(refused(json!({ "boc": address::base64(&forged) }), NOW).1.contains("exitcode=35"));
    assert!(refused(json!({ "boc": THREE }), later(601)).1.contains("exitcode=36"));
}

#[test]
fn errors_have_toncenters_statuses_and_shapes() {
    let mut node = TonNode::new(7);
    assert_eq!(
        get(&mut node, "/getTransactions?address=zzz", NOW),
        (416, json!({ "ok": false, "error": "Incorrect address", "code": 416 }))
    );
    let (status, answer) = get(&mut node, "/getTransactions", NOW);
    assert_eq!((status, &answer["code"]), (422, &json!(422)));
    assert_eq!(
        get(&mut node, "/nothing", NOW),
        (404, json!({ "ok": false, "error": "Not Found", "code": 404 }))
    );
    assert_eq!(get(&mut node, "/sendBoc", NOW).0, 405);
    assert_eq!(get(&mut node, "/jsonRPC", NOW).0, 405);
    assert_eq!(get(&mut node, &format!("/getTransactions?address={OWNER}&limit=0"), NOW).0, 422);
    assert_eq!(
        call(&mut node, "nothing", json!({}), NOW),
        (422, json!({ "ok": false, "error": "Unknown method", "jsonrpc": "2.0", "id": "1" }))
    );
    assert_eq!(
        call(&mut node, "getTransactions", json!({}), NOW),
        (
            422,
            json!({ "ok": false, "error": "TypeError: Non-optional argument expected", "jsonrpc": "2.0", "id": "1" })
        )
    );
    let (_, numbered) =
        request(&mut node, &http::Method::POST, "/", r#"{"id":7,"method":"getMasterchainInfo"}"#, NOW);
    assert_eq!((&numbered["ok"], &numbered["id"]), (&json!(true), &json!("7")));
    assert_eq!(request(&mut node, &http::Method::POST, "/jsonRPC", "[]", NOW).0, 422);
    assert_eq!(request(&mut node, &http::Method::POST, "/jsonRPC", "{", NOW).0, 422);
    let wrong = json!({ "address": OWNER, "lt": "5", "hash": "00".repeat(32) });
    assert_eq!(call(&mut node, "getTransactions", wrong, NOW).0, 500);
}

#[test]
fn a_node_that_replays_submissions_agrees_with_the_original() {
    let mut first = TonNode::new(7);
    result(&mut first, "sendBoc", json!({ "boc": ONE }), NOW);
    let past = first.submitted();
    let mut second = TonNode::new(7);
    second.replay(&past);
    assert!(second.submitted().is_empty());
    for who in [OWNER, OTHER] {
        let ask = json!({ "address": who });
        let one = result(&mut first, "getTransactions", ask.clone(), later(30));
        assert_eq!(one.as_array().map(Vec::len), Some(1));
        assert_eq!(one, result(&mut second, "getTransactions", ask, later(30)));
    }
}

#[test]
fn a_clock_from_before_the_chain_or_long_after_it_is_harmless() {
    for secs in [0, 1_600_000_000, 10_000_000_000] {
        let mut node = TonNode::new(7);
        let now = Time::from_secs(secs);
        result(&mut node, "getMasterchainInfo", json!({}), now);
        let who = node.chain.block(0)[0].account.friendly();
        result(&mut node, "getAddressInformation", json!({ "address": who }), now);
        result(&mut node, "getTransactions", json!({ "address": who }), now);
    }
}
