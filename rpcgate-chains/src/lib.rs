#![doc = include_str!("../README.md")]

use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::ChainName;
use std::sync::Arc;

#[cfg(feature = "events")]
mod activity;
#[cfg(feature = "events")]
mod answer;
#[cfg(feature = "events")]
mod following;
#[cfg(feature = "events")]
mod form;
#[cfg(feature = "events")]
mod kinds;
#[cfg(feature = "events")]
mod moves;

pub mod family;

pub mod aptos;
pub mod avax;
pub mod bch;
pub mod bsc;
pub mod btc;
pub mod cardano;
pub mod cosmos;
pub mod dash;
pub mod doge;
pub mod eth;
pub mod liquid;
pub mod ltc;
pub mod near;
pub mod polygon;
pub mod solana;
pub mod sui;
pub mod ton;
pub mod tron;
pub mod xlm;
pub mod xrp;

/// A function that creates the adapter of a chain.
pub type Make = fn() -> Arc<dyn Adapter>;

/// Every chain of this crate, by kind: EVM, UTXO, then the others. Lists of chains keep this order.
pub const CATALOG: &[Make] = &[
    eth::adapter,
    bsc::adapter,
    polygon::adapter,
    avax::adapter,
    btc::adapter,
    ltc::adapter,
    bch::adapter,
    doge::adapter,
    dash::adapter,
    liquid::adapter,
    xrp::adapter,
    xlm::adapter,
    tron::adapter,
    cosmos::adapter,
    near::adapter,
    aptos::adapter,
    sui::adapter,
    cardano::adapter,
    ton::adapter,
    solana::adapter,
];

/// Returns the adapters of [`CATALOG`], in its order.
pub fn catalog() -> impl Iterator<Item = Arc<dyn Adapter>> {
    CATALOG.iter().map(|make| make())
}

/// Returns the adapter of the chain at `/<path>`; `None` for any other text, aliases included.
pub fn by_path(path: &str) -> Option<Arc<dyn Adapter>> {
    catalog().find(|adapter| adapter.facts().name.as_str() == path)
}

/// Resolves a key scope's chain, a path or an alias, to its canonical name. Names are compared exactly.
///
/// ```
/// use rpcgate_chains::scoped;
///
/// assert_eq!(scoped("bitcoin"), scoped("btc"));
/// assert_eq!(scoped("btc").map(|name| name.as_str()), Some("btc"));
/// assert_eq!(scoped("Bitcoin"), None);
/// ```
pub fn scoped(name: &str) -> Option<ChainName> {
    catalog()
        .map(|adapter| *adapter.facts())
        .find(|facts| facts.name.as_str() == name || facts.aliases.contains(&name))
        .map(|facts| facts.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::cache_rule::CacheRule;
    use rpcgate_core::chain::{Chain, Dialect, Flags};
    use std::collections::BTreeSet;

    const EVM: [&str; 4] = ["eth", "bsc", "polygon", "avax"];
    const UTXO: [&str; 6] = ["btc", "ltc", "bch", "doge", "dash", "liquid"];

    fn chain(path: &str) -> Chain {
        Chain::deployed(by_path(path).expect(path))
    }

    #[track_caller]
    fn costs(path: &str, cu: u32, methods: &[&str]) {
        let chain = chain(path);
        for method in methods {
            let found = chain.look_up(method);
            assert_eq!(found.rule.cu, cu, "/{path} {method}");
            assert!(found.metered.is_none_or(|name| name == *method), "/{path} {method}");
        }
    }

    #[test]
    fn the_catalog_is_the_chain_table_in_its_order() {
        use Dialect::{JsonRpc2, Near, Ogmios, Rest, Ton, Utxo, Xrp};
        let table: Vec<_> = catalog()
            .map(|adapter| {
                let facts = adapter.facts();
                (facts.name.as_str(), facts.dialect, facts.batch, facts.ws, !facts.grpc.is_empty())
            })
            .collect();
        let evm = EVM.map(|name| (name, JsonRpc2, true, true, false));
        let utxo = UTXO.map(|name| (name, Utxo, true, false, false));
        let others = [
            ("xrp", Xrp, false, true, false),
            ("xlm", Rest, false, false, false),
            ("tron", Rest, false, false, true),
            ("cosmos", Rest, false, true, true),
            ("near", Near, true, false, false),
            ("aptos", Rest, false, false, false),
            ("sui", JsonRpc2, true, false, false),
            ("cardano", Ogmios, true, true, false),
            ("ton", Ton, false, false, false),
            ("solana", JsonRpc2, false, true, false),
        ];
        assert_eq!(table, [&evm[..], &utxo[..], &others[..]].concat());
        assert!(
            catalog().all(|adapter| adapter.facts().https == (adapter.facts().name.as_str() != "solana"))
        );
    }

    #[test]
    fn scopes_take_paths_and_the_specifications_aliases() {
        for (alias, path) in [
            ("bitcoin", "btc"),
            ("ethereum", "eth"),
            ("ripple", "xrp"),
            ("stellar", "xlm"),
            ("litecoin", "ltc"),
            ("avalanche", "avax"),
        ] {
            assert_eq!(scoped(alias).map(ChainName::as_str), Some(path));
            assert_eq!(scoped(path).map(ChainName::as_str), Some(path));
            assert!(by_path(alias).is_none(), "{alias} is no path");
        }
        for unknown in ["", "ETH", "eth ", "dogecoin", "bitcoin-cash"] {
            assert_eq!(scoped(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn names_and_aliases_are_distinct() {
        let mut seen = BTreeSet::new();
        for adapter in catalog() {
            let facts = adapter.facts();
            assert!(!facts.title.is_empty());
            for name in facts.aliases.iter().copied().chain([facts.name.as_str()]) {
                assert!(seen.insert(name), "{name} twice");
            }
        }
    }

    #[test]
    fn evm_methods_have_the_weights_of_the_specification() {
        for path in EVM {
            costs(path, 0, &["eth_chainId", "net_version", "net_listening", "web3_clientVersion"]);
            costs(path, 1, &["eth_blockNumber", "eth_gasPrice", "eth_maxPriorityFeePerGas"]);
            costs(
                path,
                5,
                &[
                    "eth_feeHistory",
                    "eth_getBalance",
                    "eth_getTransactionCount",
                    "eth_getTransactionByHash",
                    "eth_getTransactionReceipt",
                ],
            );
            costs(
                path,
                10,
                &["eth_getBlockByNumber", "eth_getBlockByHash", "eth_getCode", "eth_getStorageAt"],
            );
            costs(path, 15, &["eth_call", "eth_estimateGas"]);
            costs(path, 20, &["eth_sendRawTransaction"]);
            costs(path, 75, &["eth_getLogs"]);
            costs(path, if path == "eth" { 20 } else { 1 }, &["eth_sendTransaction"]);
            costs(
                path,
                1,
                &["eth_getFilterLogs", "eth_simulateV1", "txpool_content", "eth_fillTransaction", "x"],
            );
        }
    }

    #[test]
    fn utxo_methods_have_the_weights_of_the_specification() {
        let named = [
            "getblockcount",
            "getbestblockhash",
            "getblockhash",
            "getblockchaininfo",
            "getnetworkinfo",
            "estimatesmartfee",
            "getmininginfo",
            "masternode",
            "nosuchmethod",
        ];
        let dearer = ["getmempoolinfo", "gettxout", "getblock", "getrawtransaction", "sendrawtransaction"];
        for path in UTXO {
            costs(path, 1, &named);
        }
        costs("btc", 5, &["getmempoolinfo", "gettxout"]);
        for path in ["ltc", "dash"] {
            costs(path, 1, &["getmempoolinfo", "gettxout"]);
        }
        for path in ["btc", "ltc", "dash"] {
            costs(path, 10, &["getblock", "getrawtransaction"]);
            costs(path, 20, &["sendrawtransaction"]);
        }
        for path in ["bch", "doge", "liquid"] {
            costs(path, 1, &dearer);
            assert!(by_path(path).expect(path).methods().iter().all(|method| method.rule.cu == 1));
        }
    }

    #[test]
    fn methods_of_the_other_chains_have_the_weights_of_the_specification() {
        for (path, rows) in [
            (
                "tron",
                &[
                    (0, &["getnodeinfo"][..]),
                    (1, &["getnowblock", "getchainparameters", "triggerconstantcontract"]),
                    (5, &["getaccount", "gettransactionbyid", "gettransactioninfobyid"]),
                    (10, &["getblockbynum", "getblockbyid"]),
                    (15, &["createtransaction"]),
                    (20, &["broadcasttransaction", "broadcasthex", "triggersmartcontract"]),
                ][..],
            ),
            (
                "xrp",
                &[
                    (0, &["server_info", "fee"]),
                    (1, &["server_state", "ledger_current", "random", "account_tx"]),
                    (5, &["account_info", "tx"]),
                    (10, &["ledger"]),
                    (20, &["submit", "submit_multisigned"]),
                ],
            ),
            (
                "near",
                &[
                    (0, &["status", "network_info"]),
                    (1, &["gas_price", "validators", "send_tx"]),
                    (5, &["block", "chunk", "tx"]),
                    (10, &["query", "EXPERIMENTAL_tx_status"]),
                    (20, &["broadcast_tx_async", "broadcast_tx_commit"]),
                ],
            ),
            (
                "sui",
                &[
                    (0, &["sui_getReferenceGasPrice"]),
                    (
                        1,
                        &[
                            "sui_getLatestCheckpointSequenceNumber",
                            "sui_getTotalTransactionBlocks",
                            "suix_getBalance",
                        ],
                    ),
                    (5, &["sui_getObject", "sui_getTransactionBlock"]),
                    (10, &["sui_multiGetTransactionBlocks"]),
                    (15, &["sui_dryRunTransactionBlock", "sui_devInspectTransactionBlock"]),
                    (20, &["sui_executeTransactionBlock"]),
                ],
            ),
            (
                "ton",
                &[
                    (0, &["getConfigAll"]),
                    (1, &["getMasterchainInfo", "getAddressInformation"]),
                    (5, &["getTransactions", "lookupBlock", "getShardBlockProof"]),
                    (10, &["runGetMethod"]),
                    (20, &["sendBoc", "sendBocReturnHash"]),
                ],
            ),
            ("xlm", &[(1, &["info", "metrics", "quorum"])]),
            ("cosmos", &[(1, &["latest", "txs", "by_denom", "validators"])]),
            ("aptos", &[(1, &["v1", "transactions", "view", "estimate_gas_price"])]),
            ("cardano", &[(1, &["queryNetwork/tip", "submitTransaction", "queryLedgerState/utxo"])]),
        ] {
            for (cu, methods) in rows {
                costs(path, *cu, methods);
            }
        }
        assert_eq!(chain("sui").look_up("suix_getReferenceGasPrice").rule.cu, 0);
    }

    #[test]
    fn every_named_method_of_the_surface_is_listed() {
        let evm = [
            "eth_blockNumber",
            "eth_chainId",
            "eth_gasPrice",
            "eth_maxPriorityFeePerGas",
            "eth_feeHistory",
            "eth_getBalance",
            "eth_getTransactionCount",
            "eth_getCode",
            "eth_getStorageAt",
            "eth_getBlockByNumber",
            "eth_getBlockByHash",
            "eth_getTransactionByHash",
            "eth_getTransactionReceipt",
            "eth_call",
            "eth_estimateGas",
            "eth_getLogs",
            "eth_sendRawTransaction",
            "net_version",
            "web3_clientVersion",
        ];
        let utxo = [
            "getblockcount",
            "getbestblockhash",
            "getblockhash",
            "getblockchaininfo",
            "getnetworkinfo",
            "getmempoolinfo",
            "gettxout",
            "getblock",
            "getrawtransaction",
            "sendrawtransaction",
            "getmininginfo",
        ];
        for (paths, surface) in [(&EVM[..], &evm[..]), (&UTXO[..], &utxo[..])] {
            for path in paths {
                let chain = chain(path);
                for method in surface {
                    let found = chain.look_up(method);
                    assert_eq!(found.metered, Some(*method), "/{path}");
                    assert!(!found.rule.flags.has(Flags::CLOSED), "/{path} {method}");
                }
            }
        }
    }

    #[test]
    fn a_method_table_has_no_duplicates() {
        for adapter in catalog() {
            let mut seen = BTreeSet::new();
            for method in adapter.methods() {
                assert!(seen.insert(method.name), "{} {}", adapter.facts().name, method.name);
            }
        }
    }

    #[test]
    fn nothing_that_submits_is_ever_cached() {
        let submits =
            ["eth_sendRawTransaction", "eth_sendTransaction", "eth_estimateGas", "sendrawtransaction"];
        for adapter in catalog() {
            for method in adapter.methods() {
                if method.rule.flags.has(Flags::BROADCAST) || submits.contains(&method.name) {
                    assert_eq!(method.rule.cache, CacheRule::Never, "{}", method.name);
                }
            }
            for method in submits {
                assert_eq!(adapter.unlisted(method).cache, CacheRule::Never);
            }
        }
    }

    /// The lists agree with the marks: a method listed as closed is closed, and an operator may open it if the list
    /// says so; a method with some closed calls is narrowed by its parameters.
    // Shows (Limits, budget and quota).
    #[test]
    fn every_listed_closed_call_is_closed() {
        for adapter in catalog() {
            let path = adapter.facts().name;
            let chain = Chain::deployed(adapter.clone());
            for row in adapter.closed() {
                for pattern in &row.methods {
                    let flags = chain.look_up(&pattern.replace('*', "x")).rule.flags;
                    if row.only.is_empty() || pattern == "parity_*" {
                        let is_closed = flags.has(Flags::CLOSED) || flags.has(Flags::FORBIDDEN);
                        assert!(is_closed, "{path} {pattern}");
                        assert!(
                            flags.has(Flags::FORBIDDEN) || flags.has(Flags::OPENABLE) == row.openable,
                            "{path} {pattern}"
                        );
                    } else {
                        assert!(flags.has(Flags::COMMANDS), "{path} {pattern}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_family_closes_a_method_that_a_chain_lists_as_open() {
        for adapter in catalog() {
            for method in adapter.methods() {
                if !method.rule.flags.has(Flags::OPENABLE) {
                    let unlisted = adapter.unlisted(method.name).flags;
                    assert!(!unlisted.has(Flags::CLOSED), "{} {}", adapter.facts().name, method.name);
                }
            }
        }
    }
}
