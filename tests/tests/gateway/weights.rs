use crate::*;

const ON_EVM: &[(u64, &[&str])] = &[
    (0, &["eth_chainId", "net_version", "net_listening", "web3_clientVersion"]),
    (1, &["eth_blockNumber", "eth_gasPrice", "eth_maxPriorityFeePerGas"]),
    (
        5,
        &[
            "eth_feeHistory",
            "eth_getBalance",
            "eth_getTransactionCount",
            "eth_getTransactionByHash",
            "eth_getTransactionReceipt",
        ],
    ),
    (10, &["eth_getBlockByNumber", "eth_getBlockByHash", "eth_getCode", "eth_getStorageAt"]),
    (15, &["eth_call", "eth_estimateGas"]),
    (20, &["eth_sendRawTransaction"]),
    (75, &["eth_getLogs"]),
];

const ON_BTC: &[(u64, &[&str])] = &[
    (
        1,
        &[
            "getblockcount",
            "getbestblockhash",
            "getblockhash",
            "getblockchaininfo",
            "getnetworkinfo",
            "estimatesmartfee",
        ],
    ),
    (5, &["getmempoolinfo", "gettxout"]),
    (10, &["getblock", "getrawtransaction"]),
    (20, &["sendrawtransaction"]),
];

const ON_LTC_AND_DASH: &[(u64, &[&str])] = &[
    (
        1,
        &[
            "getblockcount",
            "getbestblockhash",
            "getblockchaininfo",
            "getnetworkinfo",
            "getmempoolinfo",
            "gettxout",
            "estimatesmartfee",
            "getblockhash",
        ],
    ),
    (10, &["getblock", "getrawtransaction"]),
    (20, &["sendrawtransaction"]),
];

const ON_THE_OTHERS: &[(u64, &[&str])] = &[(
    1,
    &[
        "getblockcount",
        "getbestblockhash",
        "getblockhash",
        "getblock",
        "getrawtransaction",
        "sendrawtransaction",
        "getmempoolinfo",
        "gettxout",
    ],
)];

fn table() -> Vec<(&'static str, u64, &'static str)> {
    let mut rows = Vec::new();
    for chain in EVM.into_iter().chain(UTXO) {
        let weights = match chain {
            "btc" => ON_BTC,
            "ltc" | "dash" => ON_LTC_AND_DASH,
            "bch" | "doge" | "liquid" => ON_THE_OTHERS,
            _ => ON_EVM,
        };
        rows.extend(
            weights.iter().flat_map(|(cu, methods)| methods.iter().map(|method| (chain, *cu, *method))),
        );
        rows.push((chain, if chain == "eth" { 20 } else { 1 }, "eth_sendTransaction"));
        rows.push((chain, 1, "unheard_of"));
        rows.push((chain, 1, "getmininginfo"));
    }
    rows
}

// Shows (Compute Units): Every chain and method has its specified weight; unlisted methods cost 1.
// Shows (Nodes and cache).
#[tokio::test]
async fn every_chain_and_method_has_the_weight_of_the_table_alone_and_in_a_batch() {
    let (_evm, _utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    let rows = table();
    assert!(rows.len() > 140, "{}", rows.len());
    let mut sum = 0;
    for (chain, cu, method) in &rows {
        let reply = client.call(chain, method, "[1]").await;
        assert_eq!((reply.status, reply.cu()), (200, *cu), "{chain} {method}");
        sum += cu;
    }
    gateway.pass(60);
    for chain in EVM.into_iter().chain(UTXO) {
        let of_chain: Vec<_> = rows.iter().filter(|row| row.0 == chain).collect();
        let calls: Vec<_> = of_chain.iter().map(|row| (row.2, "[2]")).collect();
        let expected: u64 = of_chain.iter().map(|row| row.1).sum();
        assert_eq!(client.batch(chain, &calls).await.cu(), expected, "{chain}");
        sum += expected;
    }
    assert_eq!(gateway.charged(), sum, "the ledger has what the headers said");
    let lines = gateway.lines();
    for (line, (chain, cu, method)) in lines.iter().zip(&rows) {
        assert_eq!((line.method.as_str(), u64::from(line.cu)), (*method, *cu), "{chain}");
    }
}

// Shows (Compute Units): Operators can change weights.
// Shows (Management).
#[tokio::test]
async fn an_operator_may_change_weights_also_at_run_time() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).node("bsc", &node.url());
    let gateway = setup.start().await;
    let client = gateway.client();
    let tuned = setup
        .set("chains.eth", "cu = { eth_call = 7, eth_chainId = 3, unheard_of = 9, eth_estimateGas = 0 }");
    assert!(gateway.server.reload(tuned.config()).is_ok());
    for (chain, method, cu) in [
        ("eth", "eth_call", 7),
        ("eth", "eth_chainId", 3),
        ("eth", "unheard_of", 9),
        ("eth", "eth_estimateGas", 0),
        ("eth", "eth_getBalance", 5),
        ("bsc", "eth_call", 15),
        ("bsc", "unheard_of", 1),
    ] {
        assert_eq!(client.call(chain, method, "[]").await.cu(), cu, "{chain} {method}");
    }
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn an_answer_from_the_cache_costs_the_same() {
    let (_node, _gateway, client) = evm().await;
    let first = client.call("eth", "eth_call", "[]").await;
    let second = client.call("eth", "eth_call", "[]").await;
    assert_eq!((first.cache(), second.cache()), ("MISS", "HIT"));
    assert_eq!((first.cu(), second.cu()), (15, 15));
}

// Shows (Limits, budget and quota): Answers of nodes, including their errors, and answers of the cache are charged.
#[tokio::test]
async fn a_nodes_own_error_is_charged() {
    let (node, gateway, client) = evm().await;
    node.answer("eth_call", ScriptedAnswer::Error(r#"{"code":3,"message":"execution reverted"}"#.into()));
    let reply = client.call("eth", "eth_call", "[]").await;
    assert_eq!((reply.code(), reply.cu()), (3, 15));
    assert_eq!(only_line(&gateway), ("eth_call".into(), Outcome::NodeError, 15, 200));
}
