//! The closed methods of an EVM node: its controls, its keys, its mining work.

use crate::family::by_reason;
use rpcgate_core::adapter::ClosedMethods;

const CONSENSUS: &str = "It takes part in consensus, mines or builds blocks with the node";
const CONTROL: &str = "It controls the node, its peers, its files or its settings";
const KEYS: &str = "It holds accounts of the node and signs with them";
const PRIVATE: &str = "It manages a private network and sends transactions with the node's keys";
const RUNS: &str = "It makes the node run the blocks that its parameters hold";
const STALE: &str = "It is a protocol of its own, with peers and storage of the node";
const TESTS: &str = "It changes the state, the clock or the mining of a node made for tests";
const WAITS: &str = "It waits until a transaction is in a block, for as long as its parameters say";

/// Namespaces that are closed as a whole, with the reason: those in which geth, Erigon, Nethermind, Besu, reth,
/// GoQuorum, coreth and the development nodes have their controls, accounts and consensus votes. In alphabetical order.
pub const NAMESPACES: &[(&str, &str)] = &[
    ("account", KEYS),
    ("admin", CONTROL),
    ("anvil", TESTS),
    ("baseline", PRIVATE),
    ("bzz", STALE),
    ("clique", CONSENSUS),
    ("db", STALE),
    ("dev", TESTS),
    ("eea", PRIVATE),
    ("engine", CONSENSUS),
    ("ethash", CONSENSUS),
    ("evm", TESTS),
    ("flashbots", RUNS),
    ("hardhat", TESTS),
    ("ibft", CONSENSUS),
    ("istanbul", CONSENSUS),
    ("keystore", KEYS),
    ("les", CONTROL),
    ("light", CONTROL),
    ("miner", CONSENSUS),
    ("perm", CONTROL),
    ("personal", KEYS),
    ("plugins", CONTROL),
    ("priv", PRIVATE),
    ("privx", PRIVATE),
    ("qbft", CONSENSUS),
    ("quorumExtension", PRIVATE),
    ("quorumPermission", PRIVATE),
    ("raft", CONSENSUS),
    ("rbuilder", RUNS),
    ("secretstore", KEYS),
    ("shh", STALE),
    ("signer", KEYS),
    ("tenderly", TESTS),
    ("testing", TESTS),
    ("vault", KEYS),
    ("vflux", CONTROL),
    ("wallet", KEYS),
];

/// Single methods, or prefixes of methods, that are closed, with the reason. `eth_sendTransaction` signs with the
/// node's keys too; it has a weight and stays open.
pub const NAMES: &[(&str, &str)] = &[
    ("eth_getWork", CONSENSUS),
    ("eth_resend", KEYS),
    ("eth_sendRawTransactionSync", WAITS),
    ("eth_sendTransactionSync", WAITS),
    ("eth_sendUnsignedTransaction", TESTS),
    ("eth_sign*", KEYS),
    ("eth_submitHashrate", CONSENSUS),
    ("eth_submitWork", CONSENSUS),
];

/// The open reads of `parity_*`, in alphabetical order. Its other methods are accounts, signing and node settings.
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

/// The reason why tracing and debugging are closed until an operator opens them.
pub(super) const REPLAYS: &str = "It executes whole blocks again, or shows the internals of a node";

pub(super) fn is_closed(method: &str) -> bool {
    // No EVM method has such a name, and a node that compares names loosely (ignoring invisible characters, say) must
    // not find another method in it than the gateway does.
    if !method.bytes().all(|byte| byte.is_ascii_graphic()) {
        return true;
    }
    match method.split_once('_') {
        Some(("parity", _)) => PARITY_READS.binary_search(&method).is_err(),
        Some(("eth", _)) => NAMES.iter().any(|(pattern, _)| super::matches(pattern, method)),
        Some((space, _)) => NAMESPACES.binary_search_by_key(&space, |(name, _)| name).is_ok(),
        None => false,
    }
}

pub(super) fn listed() -> Vec<ClosedMethods> {
    let mut rows = by_reason(NAMESPACES, |space| format!("{space}_*"));
    for row in by_reason(NAMES, str::to_owned) {
        match rows.iter_mut().find(|other| other.because == row.because) {
            Some(other) => other.methods.extend(row.methods),
            None => rows.push(row),
        }
    }
    let because = "It mixes reads with accounts, signing and settings of the node";
    let parity = ClosedMethods::new(vec!["parity_*".into()], because);
    rows.push(parity.with_only(format!("but for `{}`", PARITY_READS.join("`, `"))));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searched_lists_are_sorted() {
        assert!(NAMESPACES.is_sorted_by(|a, b| a.0 < b.0) && PARITY_READS.is_sorted());
        assert!(NAMES.iter().all(|(name, _)| name.starts_with("eth_")), "others are not looked for here");
    }

    // Shows (Limits, budget and quota).
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
            "eth_sendRawTransactionSync",
            "eth_sendTransactionSync",
            "flashbots_validateBuilderSubmissionV3",
            "rbuilder_calculateStateRoot",
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
