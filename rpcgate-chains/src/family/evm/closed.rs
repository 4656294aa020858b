//! What nobody may call on an EVM node: its own controls, its keys, its mining work.

/// Namespaces that are closed as a whole: those in which geth, Erigon, Nethermind, Besu, GoQuorum, coreth and the
/// development nodes keep their controls, accounts and consensus votes. In alphabetical order.
pub const NAMESPACES: &[&str] = &[
    "account",
    "admin",
    "anvil",
    "baseline",
    "bzz",
    "clique",
    "db",
    "dev",
    "eea",
    "engine",
    "ethash",
    "evm",
    "hardhat",
    "ibft",
    "istanbul",
    "keystore",
    "les",
    "light",
    "miner",
    "perm",
    "personal",
    "plugins",
    "priv",
    "privx",
    "qbft",
    "quorumExtension",
    "quorumPermission",
    "raft",
    "secretstore",
    "shh",
    "signer",
    "tenderly",
    "testing",
    "vault",
    "vflux",
    "wallet",
];

/// Single methods, or beginnings of methods, that are closed: signing with the node's keys without sending anything
/// (`eth_sendTransaction` has a weight in the specification and stays open), and the work of a mining node.
pub const NAMES: &[&str] = &[
    "eth_getWork",
    "eth_resend",
    "eth_sendUnsignedTransaction",
    "eth_sign*",
    "eth_submitHashrate",
    "eth_submitWork",
];

/// What stays open of `parity_*`, which mixes reads with accounts, signing and node settings. In alphabetical order.
pub const PARITY_READS: &[&str] = &[
    "parity_chain",
    "parity_chainId",
    "parity_getBlockHeaderByNumber",
    "parity_getBlockReceipts",
    "parity_netPeers",
    "parity_nextNonce",
    "parity_pendingTransactions",
    "parity_pendingTransactionsStats",
    "parity_versionInfo",
];

pub(super) fn is_closed(method: &str) -> bool {
    // No EVM method has such a name, and a node that compares names loosely (ignoring invisible characters, say) must
    // not find another method in it than we do.
    if !method.bytes().all(|byte| byte.is_ascii_graphic()) {
        return true;
    }
    match method.split_once('_') {
        Some(("parity", _)) => PARITY_READS.binary_search(&method).is_err(),
        Some(("eth", _)) => NAMES.iter().any(|pattern| super::matches(pattern, method)),
        Some((space, _)) => NAMESPACES.binary_search(&space).is_ok(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searched_lists_are_sorted() {
        assert!(NAMESPACES.is_sorted() && PARITY_READS.is_sorted());
        assert!(NAMES.iter().all(|name| name.starts_with("eth_")), "others are not looked for here");
    }

    #[test]
    fn controls_accounts_and_keys_are_closed() {
        for method in [
            "admin_addPeer",
            "admin_nodeInfo",
            "personal_unlockAccount",
            "personal_sign",
            "miner_start",
            "miner_setEtherbase",
            "engine_newPayloadV4",
            "engine_forkchoiceUpdatedV3",
            "clique_propose",
            "les_addBalance",
            "evm_mine",
            "evm_increaseTime",
            "anvil_setBalance",
            "hardhat_impersonateAccount",
            "wallet_sendTransaction",
            "perm_addNodesToAllowlist",
            "plugins_reloadPluginConfig",
            "ibft_proposeValidatorVote",
            "testing_buildBlockV1",
            "parity_setEngineSigner",
            "parity_addReservedPeer",
            "parity_subscribe",
            "parity_",
            "eth_sign",
            "eth_signTransaction",
            "eth_signTypedData",
            "eth_signTypedData_v4",
            "eth_resend",
            "eth_getWork",
            "eth_submitWork",
            "eth_submitHashrate",
            "admin_",
            "eth_call\u{200b}",
            "admin\u{200b}_addPeer",
            "eth_call ",
            "\0debug_x",
        ] {
            assert!(is_closed(method), "{method:?}");
        }
    }

    #[test]
    fn reads_and_unknown_methods_reach_the_node() {
        for method in [
            "eth_accounts",
            "eth_fillTransaction",
            "eth_subscribe",
            "eth_newFilter",
            "eth_getFilterChanges",
            "eth_getProof",
            "eth_createAccessList",
            "bor_getAuthor",
            "parlia_getSnapshot",
            "erigon_getHeaderByNumber",
            "ots_getApiLevel",
            "txpool_status",
            "rpc_modules",
            "warp_getMessage",
            "parity_getBlockReceipts",
            "proof_call",
            "no_such_method",
            "admin",
            "Admin_addPeer",
            "",
        ] {
            assert!(!is_closed(method), "{method}");
        }
    }
}
