//! The API surface of each chain, method by method, through the gateway to simulated nodes.

use crate::*;
use serde_json::{Value, json};

async fn site(chain: &str) -> (Node, TestGateway, TestClient) {
    let node = Node::simulated(chain).await;
    let gateway = Setup::of(chain, &node.url()).start().await;
    let client = gateway.client();
    (node, gateway, client)
}

async fn get(client: &TestClient, path: &str) -> (u16, Value) {
    let reply = client.send("GET", path, &[], b"").await;
    (reply.status, reply.json())
}

async fn post(client: &TestClient, path: &str, body: &Value) -> (u16, Value) {
    let reply = client.send("POST", path, &[], body.to_string().as_bytes()).await;
    (reply.status, reply.json())
}

async fn result(client: &TestClient, chain: &str, method: &str, params: &Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let (status, answer) = post(client, &format!("/{chain}"), &call).await;
    assert_eq!((status, &answer["error"], &answer["id"]), (200, &Value::Null, &json!(7)), "{chain} {method}");
    answer["result"].clone()
}

/// Returns the error code of a JSON-RPC 2.0 call.
async fn refusal(client: &TestClient, chain: &str, method: &str, params: &Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let (status, answer) = post(client, &format!("/{chain}"), &call).await;
    assert_eq!((status, answer.get("result")), (200, None), "{chain} {method}");
    answer["error"]["code"].clone()
}

#[tokio::test]
async fn xrp() {
    let (_node, _gateway, client) = site("xrp").await;
    let call = async |method: &str, params: Value| {
        let (status, answer) = post(&client, "/xrp", &json!({ "method": method, "params": [params] })).await;
        assert_eq!((status, answer.as_object().map(serde_json::Map::len)), (200, Some(1)), "{method}");
        answer["result"].clone()
    };
    for (method, member) in [
        ("server_info", "info"),
        ("server_state", "state"),
        ("fee", "drops"),
        ("ledger_current", "ledger_current_index"),
    ] {
        let result = call(method, json!({})).await;
        assert!(result["status"] == "success" && !result[member].is_null(), "{method}: {result}");
    }
    assert_eq!(call("random", json!({})).await["random"].as_str().map(str::len), Some(64));
    let ledger = call("ledger", json!({ "ledger_index": "validated", "transactions": true })).await;
    let listed = ledger["ledger"]["transactions"][0].clone();
    let found = call("tx", json!({ "transaction": listed })).await;
    assert_eq!((&found["hash"], &found["validated"]), (&listed, &json!(true)));
    let account = "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh";
    assert_eq!(call("account_info", json!({ "account": account })).await["account_data"]["Account"], account);
    let unknown = json!({ "account": "rrrrrrrrrrrrrrrrrrrrrhoLvTp" });
    assert_eq!(call("account_info", unknown).await["error"], "actNotFound");
    assert_eq!(call("ledger", json!({ "ledger_index": 1 })).await["error"], "lgrNotFound");
    assert_eq!(call("submit", json!({ "tx_blob": "00" })).await["status"], "error");
    assert_eq!(call("stop", json!({})).await["error"], "noPermission");
}

#[tokio::test]
async fn xlm() {
    let (_node, _gateway, client) = site("xlm").await;
    assert_eq!(get(&client, "/xlm/info").await.1["info"]["state"], "Synced!");
    assert!(get(&client, "/xlm/metrics").await.1["metrics"].is_object());
    assert!(get(&client, "/xlm/quorum").await.1["qset"].is_object());
}

#[tokio::test]
async fn tron() {
    let (_node, _gateway, client) = site("tron").await;
    let call = async |method: &str, body: Value| {
        let (status, answer) = post(&client, &format!("/tron/wallet/{method}"), &body).await;
        assert_eq!(status, 200, "{method}");
        answer
    };
    let newest = call("getnowblock", json!({})).await;
    let number = newest["block_header"]["raw_data"]["number"].as_u64().unwrap();
    assert_eq!(call("getblockbynum", json!({ "num": number })).await["blockID"], newest["blockID"]);
    assert_eq!(
        call("getblockbyid", json!({ "value": newest["blockID"] })).await["blockID"],
        newest["blockID"]
    );
    assert!(call("getnodeinfo", json!({})).await["block"].is_string());
    assert!(call("getchainparameters", json!({})).await["chainParameter"].is_array());
    let mut blocks = Vec::new();
    for back in 0..50 {
        blocks.push(call("getblockbynum", json!({ "num": number - back })).await);
    }
    let id = blocks.iter().find_map(|block| block["transactions"][0]["txID"].as_str()).unwrap().to_owned();
    assert_eq!(call("gettransactionbyid", json!({ "value": id })).await["txID"], id.as_str());
    assert_eq!(call("gettransactioninfobyid", json!({ "value": id })).await["id"], id.as_str());
    let owner = "TMVQGm1qAQYVdetCeGRRkTWYYrLXuHK2HC";
    let token = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
    assert_eq!(call("getaccount", json!({ "address": owner, "visible": true })).await["address"], owner);
    let payment = json!({ "owner_address": owner, "to_address": "TDvSsdrNM5eeXNL3czpa6AxLDHZA9nwe9K", "amount": 5, "visible": true });
    assert!(call("createtransaction", payment).await["txID"].is_string());
    let read = json!({ "owner_address": owner, "contract_address": token, "function_selector": "totalSupply()", "visible": true });
    for method in ["triggerconstantcontract", "triggersmartcontract"] {
        assert_eq!(call(method, read.clone()).await["result"]["result"], true, "{method}");
    }
    for (method, body) in [
        ("broadcasttransaction", json!({ "raw_data_hex": "00" })),
        ("broadcasthex", json!({ "transaction": "00" })),
    ] {
        let answer = call(method, body).await;
        assert!(answer["Error"].is_string() || answer["code"].is_string(), "{method}: {answer}");
    }
    assert_eq!(client.send("GET", "/tron/wallet/getnowblock", &[], b"").await.status, 200);
}

#[tokio::test]
async fn cosmos() {
    let (_node, _gateway, client) = site("cosmos").await;
    let base = "/cosmos/cosmos/base/tendermint/v1beta1";
    for (path, pointer) in [
        (format!("{base}/node_info"), "/default_node_info/network"),
        (format!("{base}/syncing"), "/syncing"),
        (format!("{base}/blocks/latest"), "/block/header/height"),
        ("/cosmos/cosmos/bank/v1beta1/supply/by_denom?denom=uatom".into(), "/amount/amount"),
        (
            "/cosmos/cosmos/bank/v1beta1/balances/cosmos1fl48vsnmsdzcv85q5d2q4z5ajdha8yu34mf0eh".into(),
            "/balances",
        ),
        (
            "/cosmos/cosmos/staking/v1beta1/validators?pagination.limit=2".into(),
            "/validators/1/operator_address",
        ),
    ] {
        let (status, answer) = get(&client, &path).await;
        assert!(status == 200 && answer.pointer(pointer).is_some(), "{path}: {answer}");
    }
    let (_, two) = get(&client, "/cosmos/cosmos/staking/v1beta1/validators?pagination.limit=2").await;
    assert_eq!(two["validators"].as_array().map(Vec::len), Some(2));
    assert_eq!(get(&client, "/cosmos/cosmos/nosuch/v1/x").await.0, 501);
}

#[tokio::test]
async fn near() {
    let (_node, _gateway, client) = site("near").await;
    let ask = async |method: &str, params: Value| result(&client, "near", method, &params).await;
    let block = ask("block", json!({ "finality": "final" })).await;
    let hash = block["header"]["hash"].clone();
    assert_eq!(
        ask("block", json!({ "block_id": hash })).await["header"]["height"],
        block["header"]["height"]
    );
    let chunk = &block["chunks"][0]["chunk_hash"];
    assert_eq!(ask("chunk", json!({ "chunk_id": chunk })).await["header"]["chunk_hash"], *chunk);
    for (method, params, member) in [
        ("status", json!([]), "sync_info"),
        ("network_info", json!([]), "active_peers"),
        ("gas_price", json!([null]), "gas_price"),
        ("validators", json!([null]), "current_validators"),
        (
            "query",
            json!({ "request_type": "view_account", "finality": "final", "account_id": "test.near" }),
            "amount",
        ),
    ] {
        assert!(!ask(method, params).await[member].is_null(), "{method}");
    }
    let nothing = json!(["11111111111111111111111111111111", "test.near"]);
    for (method, params) in [
        ("tx", nothing.clone()),
        ("EXPERIMENTAL_tx_status", nothing),
        ("broadcast_tx_async", json!(["AA=="])),
        ("broadcast_tx_commit", json!(["AA=="])),
        ("block", json!({ "block_id": 1 })),
    ] {
        assert!(refusal(&client, "near", method, &params).await.is_i64(), "{method}");
    }
}

#[tokio::test]
async fn aptos() {
    let (_node, _gateway, client) = site("aptos").await;
    let (_, ledger) = get(&client, "/aptos/v1").await;
    assert_eq!(ledger["chain_id"], 1);
    let height: u64 = ledger["block_height"].as_str().unwrap().parse().unwrap();
    let (status, block) = get(&client, &format!("/aptos/v1/blocks/by_height/{}", height - 3)).await;
    assert_eq!((status, &block["block_height"]), (200, &json!((height - 3).to_string())));
    assert_eq!(get(&client, "/aptos/v1/blocks/by_height/1").await.0, 410, "pruned");
    assert_eq!(get(&client, "/aptos/v1/transactions?limit=2").await.1.as_array().map(Vec::len), Some(2));
    assert!(get(&client, "/aptos/v1/estimate_gas_price").await.1["gas_estimate"].is_u64());
    assert_eq!(get(&client, "/aptos/v1/accounts/0xdead1").await.0, 404);
    let view = json!({ "function": "0x1::chain_id::get", "type_arguments": [], "arguments": [] });
    assert_eq!(post(&client, "/aptos/v1/view", &view).await, (200, json!([1])));
    assert_eq!(post(&client, "/aptos/v1/transactions", &json!({})).await.0, 400);
}

#[tokio::test]
async fn sui() {
    let (_node, gateway, client) = site("sui").await;
    let owner = "0x0000000000000000000000000000000000000000000000000000000000000001";
    for (method, params) in [
        ("sui_getLatestCheckpointSequenceNumber", json!([])),
        ("sui_getChainIdentifier", json!([])),
        ("sui_getTotalTransactionBlocks", json!([])),
        ("sui_getObject", json!(["0x5", {}])),
        ("sui_multiGetTransactionBlocks", json!([[]])),
        ("suix_getBalance", json!([owner])),
        ("suix_getReferenceGasPrice", json!([])),
    ] {
        assert!(!result(&client, "sui", method, &params).await.is_null(), "{method}");
    }
    assert_eq!(
        gateway.lines().last().map(|line| line.method.clone()),
        Some("sui_getReferenceGasPrice".into())
    );
    for (method, params) in [
        ("sui_getTransactionBlock", json!(["11111111111111111111111111111111"])),
        ("sui_dryRunTransactionBlock", json!(["AA=="])),
        ("sui_devInspectTransactionBlock", json!([owner, "AA=="])),
        ("sui_executeTransactionBlock", json!(["AA==", []])),
    ] {
        assert_eq!(refusal(&client, "sui", method, &params).await, -32602, "{method}");
    }
}

#[tokio::test]
async fn cardano() {
    let (_node, _gateway, client) = site("cardano").await;
    for method in [
        "queryNetwork/tip",
        "queryNetwork/blockHeight",
        "queryNetwork/startTime",
        "queryLedgerState/epoch",
        "queryLedgerState/protocolParameters",
        "queryLedgerState/stakePools",
        "queryLedgerState/rewardsProvenance",
    ] {
        let call = json!({ "jsonrpc": "2.0", "id": { "requestId": "a" }, "method": method });
        for _ in 0..2 {
            let (status, answer) = post(&client, "/cardano", &call).await;
            assert_eq!(
                (status, &answer["method"], &answer["id"]),
                (200, &json!(method), &call["id"]),
                "{method}"
            );
            assert!(!answer["result"].is_null(), "{method}: {answer}");
        }
    }
    let addresses = json!({ "addresses": ["addr1vx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzers66hrl8"] });
    assert!(result(&client, "cardano", "queryLedgerState/utxo", &addresses).await.is_array());
    for method in ["submitTransaction", "evaluateTransaction"] {
        let code = refusal(&client, "cardano", method, &json!({ "transaction": { "cbor": "00" } })).await;
        assert!(code.is_i64(), "{method}");
    }
}

#[tokio::test]
async fn ton() {
    let (_node, _gateway, client) = site("ton").await;
    let ask = async |target: String| {
        let (status, answer) = get(&client, &format!("/ton/{target}")).await;
        assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{target}");
        answer["result"].clone()
    };
    let last = ask("getMasterchainInfo".into()).await["last"].clone();
    let seqno = last["seqno"].as_u64().unwrap() - 2;
    let found = ask(format!("lookupBlock?workchain=-1&shard=-9223372036854775808&seqno={seqno}")).await;
    assert_eq!(found["seqno"], seqno);
    ask(format!("getShardBlockProof?workchain=0&shard=-9223372036854775808&seqno={seqno}")).await;
    ask("getConfigAll".into()).await;
    let address = "EQCD39VS5jcptHL8vMjEXrzGaRcCVYto7HUn4bpAOg8xqB2N";
    ask(format!("getTransactions?address={address}&limit=1")).await;
    let run = json!({ "address": address, "method": "seqno", "stack": [] });
    assert_eq!(post(&client, "/ton/runGetMethod", &run).await.1["result"]["@type"], "smc.runResult");
    for method in ["sendBoc", "sendBocReturnHash"] {
        let (status, answer) = post(&client, &format!("/ton/{method}"), &json!({ "boc": "AA==" })).await;
        assert_eq!((status, &answer["ok"], &answer["code"]), (500, &json!(false), &json!(500)), "{method}");
    }
    let (status, answer) = get(&client, "/ton/getTransactions?address=zzz").await;
    assert_eq!((status, &answer["code"]), (416, &json!(416)));
    for path in ["/ton", "/ton/jsonRPC"] {
        let call = json!({ "id": "1", "jsonrpc": "2.0", "method": "getMasterchainInfo", "params": {} });
        let (_, answer) = post(&client, path, &call).await;
        assert_eq!(
            (&answer["ok"], &answer["id"], &answer["result"]["last"]),
            (&json!(true), &json!("1"), &last)
        );
    }
}
