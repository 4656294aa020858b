//! The chains of the two families with the simulated nodes of the demo.

use crate::*;

async fn demo() -> (Vec<Node>, TestGateway) {
    let mut setup = Setup::new();
    let mut nodes = Vec::new();
    for chain in EVM.into_iter().chain(UTXO) {
        let node = Node::simulated(chain).await;
        setup = setup.node(chain, &node.url());
        nodes.push(node);
    }
    (nodes, setup.start().await)
}

// Shows (Per-chain surface): The four EVM chains answer under their chain ids.
#[tokio::test]
async fn evm_chains_answer_under_their_chain_ids() {
    let (_nodes, gateway) = demo().await;
    let client = gateway.client();
    for (chain, id) in [("eth", "0x1"), ("bsc", "0x38"), ("polygon", "0x89"), ("avax", "0xa86a")] {
        assert_eq!(client.call(chain, "eth_chainId", "[]").await.json()["result"], id, "{chain}");
        let height =
            client.call(chain, "eth_blockNumber", "[]").await.json()["result"].as_str().unwrap().to_owned();
        let block = client.call(chain, "eth_getBlockByNumber", &format!("[\"{height}\",false]")).await.json();
        assert_eq!(block["result"]["number"], height.as_str(), "{chain}");
        let hash = block["result"]["hash"].as_str().unwrap().to_owned();
        let same = client.call(chain, "eth_getBlockByHash", &format!("[\"{hash}\",false]")).await.json();
        assert_eq!(same["result"], block["result"], "{chain}");
    }
}

// Shows (Per-chain surface): Every named EVM method is answered.
#[tokio::test]
async fn every_evm_method_is_answered_by_the_node() {
    let (_nodes, gateway) = demo().await;
    let client = gateway.client();
    let address = "0x00000000000000000000000000000000000000aa";
    let hash = format!("0x{}", "0".repeat(64));
    let to = format!(r#"[{{"to":"{address}"}},"latest"]"#);
    for chain in EVM {
        for (method, params) in [
            ("eth_gasPrice", "[]".to_owned()),
            ("eth_maxPriorityFeePerGas", "[]".into()),
            ("eth_feeHistory", r#"["0x2","latest",[]]"#.into()),
            ("net_version", "[]".into()),
            ("web3_clientVersion", "[]".into()),
            ("eth_getBalance", format!("[\"{address}\",\"latest\"]")),
            ("eth_getTransactionCount", format!("[\"{address}\",\"latest\"]")),
            ("eth_getCode", format!("[\"{address}\",\"latest\"]")),
            ("eth_getStorageAt", format!("[\"{address}\",\"0x0\",\"latest\"]")),
            ("eth_getTransactionByHash", format!("[\"{hash}\"]")),
            ("eth_getTransactionReceipt", format!("[\"{hash}\"]")),
            ("eth_call", to.clone()),
            ("eth_estimateGas", format!(r#"[{{"to":"{address}"}}]"#)),
            ("eth_getLogs", r#"[{"fromBlock":"latest"}]"#.into()),
        ] {
            let reply = client.call(chain, method, &params).await;
            assert!(
                reply.status == 200 && reply.json().get("result").is_some(),
                "{chain} {method}: {:.300}",
                reply.text()
            );
        }
    }
}

// Shows (Per-chain surface): The UTXO chains speak JSON-RPC 1.0; /bch has estimatefee and no estimatesmartfee.
#[tokio::test]
async fn utxo_chains_answer_alone_and_in_batches() {
    let (_nodes, gateway) = demo().await;
    let client = gateway.client();
    for chain in UTXO {
        let ask = async |method: &str, params: &str| {
            client
                .post(chain, format!(r#"{{"jsonrpc":"1.0","id":"u","method":"{method}","params":{params}}}"#))
                .await
        };
        let height = ask("getblockcount", "[]").await.json();
        assert!(height["error"].is_null() && height["id"] == "u", "{chain}: {height}");
        let height = height["result"].as_u64().unwrap();
        let hash =
            ask("getblockhash", &format!("[{height}]")).await.json()["result"].as_str().unwrap().to_owned();
        let block = ask("getblock", &format!("[\"{hash}\"]")).await.json();
        assert_eq!(block["result"]["height"], height, "{chain}");
        for (method, params) in [
            ("getblockchaininfo", "[]"),
            ("getnetworkinfo", "[]"),
            ("getmempoolinfo", "[]"),
            ("getbestblockhash", "[]"),
            ("getmininginfo", "[]"),
        ] {
            assert!(ask(method, params).await.json()["error"].is_null(), "{chain} {method}");
        }
        let missing = ask("unheardof", "[]").await;
        assert!(
            missing.json()["error"]["code"].as_i64() == Some(-32601) && missing.json()["result"].is_null(),
            "{chain}"
        );
        let batch = client.post(chain, r#"[{"id":1001,"method":"getblockcount"},{"id":1002,"method":"getbestblockhash"},{"id":1003,"method":"stop"}]"#).await.json();
        assert_eq!(
            (batch[0]["result"].as_u64(), batch[1]["result"].as_str(), batch[2]["error"]["code"].as_i64()),
            (Some(height), Some(hash.as_str()), Some(-32601)),
            "{chain}"
        );
    }
    let fee = client.call("bch", "estimatefee", "[]").await.json();
    assert!(fee["result"].is_number(), "{fee}");
    assert_ne!(client.call("bch", "estimatesmartfee", "[6]").await.code(), 0);
    assert_eq!(client.call("btc", "estimatesmartfee", "[6]").await.code(), 0);
}

// Shows (Per-chain surface): A malformed broadcast gets the error of the node.
#[tokio::test]
async fn a_malformed_broadcast_gets_the_nodes_own_error() {
    let (_nodes, gateway) = demo().await;
    let client = gateway.client();
    let evm = client.call("eth", "eth_sendRawTransaction", "[\"0x00\"]").await;
    assert!(evm.status == 200 && evm.code() < 0 && evm.code() != -32603 && evm.cu() == 20, "{}", evm.text());
    let utxo = client.call("btc", "sendrawtransaction", "[\"00\"]").await;
    assert!(utxo.code() < 0 && utxo.code() != -32603 && utxo.cu() == 20, "{}", utxo.text());
}
