use crate::*;

// Shows (Limits, budget and quota): Methods that control a node or its wallet are closed.
#[tokio::test]
async fn methods_that_control_an_evm_node_or_its_wallet_are_closed_and_cost_nothing() {
    let (evm, _utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    for chain in EVM {
        for method in [
            "admin_addPeer",
            "admin_nodeInfo",
            "personal_unlockAccount",
            "personal_x",
            "miner_start",
            "engine_newPayloadV3",
            "clique_propose",
            "eth_sign",
            "eth_signTransaction",
            "eth_submitWork",
            "anvil_setBalance",
            "hardhat_reset",
            "evm_mine",
            "parity_setMode",
            "trace_block",
            "trace_replayTransaction",
        ] {
            let reply = client.call(chain, method, "[]").await;
            assert_eq!((reply.status, reply.code(), reply.cu()), (200, -32601, 0), "{chain} {method}");
            assert_eq!(reply.json()["error"]["message"], "method not available");
        }
    }
    for chain in ["bsc", "polygon", "avax"] {
        assert_eq!(client.call(chain, "debug_traceTransaction", "[]").await.code(), -32601, "{chain}");
    }
    for method in ["platform.getHeight", "avax.getUTXOs", "admin.lockProfile", "keystore.createUser"] {
        assert_eq!(client.call("avax", method, "[]").await.code(), -32601, "{method}");
    }
    assert_eq!(evm.requests(), 0);
    assert!(gateway.lines().iter().all(|line| line.outcome == Outcome::Refused && line.status == 200));
}

// Shows (Routes and bodies).
// Shows (Limits, budget and quota).
#[tokio::test]
async fn methods_that_control_a_utxo_node_or_wallet_are_closed_in_the_chains_error_shape() {
    let (_evm, utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    for chain in UTXO {
        for method in [
            "stop",
            "invalidateblock",
            "reconsiderblock",
            "addnode",
            "setban",
            "dumpprivkey",
            "dumpwallet",
            "importprivkey",
            "importwallet",
            "getbalance",
            "getnewaddress",
            "sendtoaddress",
            "sendmany",
            "listunspent",
            "walletpassphrase",
            "encryptwallet",
            "loadwallet",
            "signrawtransactionwithwallet",
            "generatetoaddress",
            "setnetworkactive",
            "pruneblockchain",
            "logging",
        ] {
            let reply = client
                .post(chain, format!(r#"{{"jsonrpc":"1.0","id":"a","method":"{method}","params":[]}}"#))
                .await;
            assert_eq!(
                (reply.status, reply.text().as_str()),
                (200, r#"{"result":null,"error":{"code":-32601,"message":"method not available"},"id":"a"}"#),
                "{chain} {method}"
            );
            assert_eq!(reply.cu(), 0);
        }
    }
    assert_eq!(utxo.requests(), 0);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn methods_that_keep_a_utxo_daemon_busy_or_waiting_are_closed() {
    let (_evm, utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    for chain in UTXO {
        for (method, params) in [
            ("getblocktemplate", r#"[{"rules":["segwit"],"longpollid":"00"}]"#),
            ("getblocktemplate", r#"{"template_request":{"longp\u006fllid":"00"}}"#),
            ("gettxoutsetinfo", "[]"),
            ("scantxoutset", r#"["start",[]]"#),
            ("waitfornewblock", "[0]"),
            ("waitforblockheight", "[9999999]"),
            ("deriveaddresses", r#"["wpkh(x/*)",[0,999999]]"#),
            ("deriveaddresses", r#"{"args":["wpkh(x/*)"],"range":999999}"#),
        ] {
            let reply = client.call(chain, method, params).await;
            assert_eq!((reply.code(), reply.cu()), (-32601, 0), "{chain} {method} {params}");
        }
    }
    assert_eq!(utxo.requests(), 0);
    for (method, params) in [
        ("getblocktemplate", r#"[{"rules":["segwit"]}]"#),
        ("deriveaddresses", r#"["wpkh(x/*)",[0,1000]]"#),
        ("deriveaddresses", r#"["wpkh(x)"]"#),
    ] {
        assert_eq!(client.call("btc", method, params).await.code(), 0, "{method} {params}");
    }
}

// Shows (Limits, budget and quota): `gettxoutsetinfo` is closed and openable by the operator.
#[tokio::test]
async fn an_operator_may_open_methods_that_scan_all_unspent_outputs() {
    let node = Node::utxo().await;
    let open = r#"open_methods = ["gettxoutsetinfo"]"#;
    let gateway =
        Setup::of("btc", &node.url()).node("ltc", &node.url()).set("chains.btc", open).start().await;
    let client = gateway.client();
    assert_eq!(client.call("btc", "gettxoutsetinfo", "[]").await.code(), 0);
    assert_eq!(client.call("ltc", "gettxoutsetinfo", "[]").await.code(), -32601);
    assert_eq!(client.call("btc", "scantxoutset", "[]").await.code(), -32601);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn in_a_batch_only_the_closed_item_is_refused() {
    let (node, _gateway, client) = evm().await;
    let reply =
        client.batch("eth", &[("eth_chainId", "[]"), ("admin_peers", "[]"), ("eth_getBalance", "[]")]).await;
    assert_eq!((reply.codes(), reply.cu(), node.calls().len()), (vec![0, -32601, 0], 5, 2));
}

// Shows (Limits, budget and quota): eth_sendTransaction stays open.
#[tokio::test]
async fn methods_that_clients_need_stay_open() {
    let (_evm, _utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    for (chain, method) in [
        ("eth", "eth_sendTransaction"),
        ("polygon", "bor_getAuthor"),
        ("eth", "eth_newFilter"),
        ("btc", "createrawtransaction"),
        ("btc", "decoderawtransaction"),
        ("btc", "validateaddress"),
        ("dash", "masternode"),
        ("dash", "gobject"),
        ("doge", "getblock"),
        ("bch", "estimatefee"),
        ("btc", "estimatesmartfee"),
        ("btc", "submitblock"),
    ] {
        let reply = client.call(chain, method, "[]").await;
        assert_eq!(reply.code(), 0, "{chain} {method}: {}", reply.text());
    }
}

// Shows (Limits, budget and quota): An operator can open closed methods per chain.
#[tokio::test]
async fn an_operator_may_open_tracing_per_chain() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).node("bsc", &node.url()).node("avax", &node.url());
    let gateway =
        setup.plan("free").set("chains.bsc", r#"open_methods = ["debug_*", "trace_block"]"#).start().await;
    let client = gateway.client();
    for (chain, method, code) in [
        ("bsc", "debug_traceCall", 0),
        ("bsc", "trace_block", 0),
        ("bsc", "trace_call", -32601),
        ("avax", "debug_traceCall", -32601),
        ("avax", "trace_block", -32601),
        ("bsc", "debug_x", 0),
    ] {
        let reply = client.call(chain, method, "[]").await;
        assert_eq!((reply.code(), reply.cu()), (code, u64::from(code == 0)), "{chain} {method}");
    }
    assert_eq!(client.call("bsc", "debug_x", "[]").await.status, 429, "still heavy");
    assert_eq!(client.call("eth", "debug_x", "[]").await.status, 403);
}
