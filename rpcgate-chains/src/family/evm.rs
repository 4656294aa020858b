//! Chains whose nodes speak Ethereum's JSON-RPC.
//!
//! A receipt, a transaction by hash and a block by hash or by an explicit number are cached without expiry once they
//! are final. Tags (`latest`, `safe`, `finalized`, …) name a new block every time, and their blocks are never cached.
//!
//! Filters (such as those of `eth_newFilter`) exist only in the node that created them, and a call for their changes
//! consumes these. Their methods are marked, so that the calls of a filter reach its node; they are never cached or
//! repeated.

#[cfg(feature = "events")]
mod blocks;
mod closed;
#[cfg(feature = "events")]
mod logs;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod signatures;
#[cfg(feature = "events")]
mod text;

pub use closed::{NAMES, NAMESPACES, PARITY_READS};

use super::params::{member, positional, positional_span, quantity};
use super::{Closing, UnservedErrors, listed, mark, marks, matches, narrow, says, submits, table};
use rpcgate_core::adapter::{
    Adapter, ClosedMethods, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::json::Span;
use std::time::Duration;

/// The texts of nodes that have pruned a state or a block: geth and its descendants, Erigon, Nethermind, Besu, Reth and
/// OpenEthereum. All of them share the error of EIP-4444.
const PRUNED: &[&str] = &[
    "missing trie node",
    "historical state unavailable",
    "historical state not available",
    "pruned history unavailable",
    "old data not available due to pruning",
    "history has been pruned",
    "no state available for block",
    "world state unavailable",
    "is pruned",
    "running with state pruning",
];

/// The errors of nodes and providers that cannot serve a call now. The words of the caller's own errors come first:
/// some nodes give the code of an internal error to a reverted call, and providers that of a limit to a query with too
/// many results.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &[
        "revert",
        "insufficient funds",
        "insufficient balance",
        "nonce too",
        "underpriced",
        "intrinsic gas",
        "gas required exceeds",
        "exceeds block gas limit",
        "out of gas",
        "invalid opcode",
        "stack underflow",
        "stack overflow",
        "invalid argument",
        "invalid params",
        "query returned more than",
        "block range",
        "range is too large",
        "too many results",
        "response size",
    ],
    // EIP-1474 (limit exceeded), and the codes of proxyd (no backends, over capacity, over a rate limit).
    node: (
        &[-32005, -32011, -32012, -32016],
        &[
            "database closed",
            "leveldb: closed",
            "not synced",
            "is syncing",
            "still syncing",
            "is starting up",
            "unable to complete request at this time",
        ],
    ),
    // EIP-1474: internal error, method not supported.
    method: (&[-32603, -32004], &["request timed out"]),
    data: (&[], &["header not found", "header for hash not found", "unknown block"]),
};

/// The methods whose answer is null if the node does not have the block whose number is their first parameter.
const OF_BLOCK: &[&[u8]] = &[
    b"eth_getBlockByNumber",
    b"eth_getBlockReceipts",
    b"eth_getBlockTransactionCountByNumber",
    b"eth_getTransactionByBlockNumberAndIndex",
    b"eth_getUncleByBlockNumberAndIndex",
    b"eth_getUncleCountByBlockNumber",
];

/// The lifetime of an answer that a reorganisation could still change, equal to that of a block number.
const UNSETTLED: CacheRule = CacheRule::immutable(2);

const METHODS: &[Method] = &[
    Method::new("eth_chainId", 0).cached(CacheRule::Static),
    Method::new("net_version", 0).cached(CacheRule::Static),
    Method::new("net_listening", 0),
    Method::new("web3_clientVersion", 0),
    Method::new("eth_blockNumber", 1).cached(CacheRule::secs(2)),
    Method::new("eth_gasPrice", 1).cached(CacheRule::secs(5)),
    Method::new("eth_maxPriorityFeePerGas", 1),
    Method::new("eth_feeHistory", 5),
    Method::new("eth_getBalance", 5),
    Method::new("eth_getTransactionCount", 5),
    Method::new("eth_getTransactionByHash", 5).cached(UNSETTLED),
    Method::new("eth_getTransactionReceipt", 5).cached(UNSETTLED),
    Method::new("eth_getBlockByNumber", 10).cached(UNSETTLED),
    Method::new("eth_getBlockByHash", 10).cached(UNSETTLED),
    Method::new("eth_getCode", 10),
    Method::new("eth_getStorageAt", 10),
    Method::new("eth_call", 15).cached(CacheRule::secs(2)),
    Method::new("eth_estimateGas", 15),
    Method::new("eth_sendRawTransaction", 20).marked(Flags::BROADCAST),
    Method::new("eth_getLogs", 75).marked(Flags::HEAVY),
    Method::new("eth_simulateV1", 1).marked(Flags::HEAVY),
    Method::new("txpool_content", 1).marked(Flags::HEAVY),
];

/// Debugging methods count in the heavy budget and are closed unless the operator opens them.
const DEBUGGING: Flags = Flags::HEAVY.and(Flags::OPENABLE);

/// Returns the facts of a chain at `/<path>`: JSON-RPC 2.0 with batches and a stream, and a block every two seconds. A
/// block is final for the cache with `final_depth` blocks on top.
///
/// ```
/// use rpcgate_chains::family::evm;
/// use rpcgate_core::chain::Facts;
///
/// const FACTS: Facts = evm::facts("gno", "Gnosis", 64).with_aliases(&["gnosis"]);
/// assert_eq!(FACTS.name.as_str(), "gno");
/// ```
pub const fn facts(path: &'static str, title: &'static str, final_depth: u64) -> Facts {
    Facts::json_rpc(path, title)
        .with_ws(true)
        .with_final_depth(final_depth)
        .with_max_lag(15)
        .with_block_time(Duration::from_secs(2))
}

/// An EVM chain.
///
/// ```
/// use rpcgate_chains::family::evm::{self, Evm};
/// use rpcgate_core::chain::{Chain, Facts, Flags, Method};
/// use std::sync::Arc;
///
/// const FACTS: Facts = evm::facts("base", "Base", 600);
/// const BASE: Evm = Evm::new(FACTS, 8453).with_methods(&[Method::new("optimism_outputAtBlock", 5)]);
///
/// let base = Chain::deployed(Arc::new(BASE));
/// assert_eq!(base.look_up("eth_call").rule.cu, 15);
/// assert_eq!(base.look_up("optimism_outputAtBlock").rule.cu, 5);
/// assert!(base.look_up("admin_addPeer").rule.flags.has(Flags::CLOSED));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Evm {
    facts: Facts,
    chain_id: u64,
    own: &'static [Method],
    closed: &'static [Closing],
    debug: Flags,
}

impl Evm {
    /// Creates a chain without deviations. `chain_id` is that of EIP-155.
    pub const fn new(facts: Facts, chain_id: u64) -> Self {
        Evm { facts, chain_id, own: &[], closed: &[], debug: DEBUGGING }
    }

    /// Adds the chain's own methods; one with the name of a family's method replaces it.
    #[must_use]
    pub const fn with_methods(mut self, own: &'static [Method]) -> Self {
        self.own = own;
        self
    }

    /// Also closes these methods.
    #[must_use]
    pub const fn closing(mut self, closed: &'static [Closing]) -> Self {
        self.closed = closed;
        self
    }

    /// Forbids `debug_*` before any budget is consulted. The operator cannot open it.
    #[must_use]
    pub const fn forbidding_debug(mut self) -> Self {
        self.debug = Flags::FORBIDDEN;
        self
    }

    /// Returns the chain id of EIP-155, the result of `eth_chainId`.
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    fn marks(&self, method: &str) -> Flags {
        let (space, verb) = method.split_once('_').unwrap_or(("", method));
        let mut marks = marks(self.closed, method).and(match space {
            "trace" | "overlay" => DEBUGGING,
            "debug" => self.debug,
            _ => Flags::NONE,
        });
        if closed::is_closed(method) {
            marks = marks.and(Flags::CLOSED);
        }
        if method.ends_with("_getTokenBalances") {
            marks = marks.and(Flags::HEAVY);
        }
        if submits(verb) {
            marks = marks.and(Flags::BROADCAST);
        }
        marks.and(filter_marks(method))
    }
}

/// Returns the marks of a filter method. Filter methods have the same names in each namespace (`eth`, or `kaia` and
/// `klay`); a name without a namespace is not one.
fn filter_marks(method: &str) -> Flags {
    let (_, verb) = method.split_once('_').unwrap_or_default();
    match verb {
        "getFilterChanges" | "getFilterLogs" | "uninstallFilter" => Flags::USES_STATE,
        _ if verb.starts_with("new") && verb.ends_with("Filter") => Flags::MAKES_STATE,
        _ => Flags::NONE,
    }
}

impl Adapter for Evm {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn methods(&self) -> Vec<Method> {
        let mut rows = table(METHODS, self.own, &[]);
        mark(self.closed, &mut rows);
        for row in &mut rows {
            row.rule = row.rule.marked(filter_marks(row.name));
        }
        rows
    }

    /// Names are case-sensitive, as in nodes.
    fn unlisted(&self, method: &str) -> MethodRule {
        MethodRule::UNLISTED.marked(self.marks(method))
    }

    fn narrow(&self, call: CallView<'_>) -> MethodRule {
        narrow(self.closed, call)
    }

    fn closed(&self) -> Vec<ClosedMethods> {
        let row = |methods: &[&str], openable| {
            let methods = methods.iter().map(|name| (*name).to_owned()).collect();
            ClosedMethods::new(methods, closed::REPLAYS).with_openable(openable)
        };
        let mut rows = closed::listed();
        rows.push(row(&["trace_*", "overlay_*"], true));
        rows.push(row(&["debug_*"], !self.debug.has(Flags::FORBIDDEN)));
        rows.extend(listed(self.closed));
        rows
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        if result.trim_ascii() == b"null" {
            return Permanence::Unknown;
        }
        let immutable = matches!(call.rule.cache, CacheRule::Immutable { .. });
        match call.method {
            // A pending transaction has `blockNumber` null.
            b"eth_getTransactionReceipt" | b"eth_getTransactionByHash" => {
                mined(result, "blockNumber", finality)
            }
            b"eth_getBlockByHash" => mined(result, "number", finality),
            b"eth_getBlockByNumber" if immutable => {
                let requested = positional(call.params, 0).and_then(quantity);
                let reported = member(result, "number").and_then(quantity);
                if requested.is_some() && requested == reported {
                    mined(result, "number", finality)
                } else {
                    Permanence::Unknown
                }
            }
            // The operator has put another method into this class; its permanence is unknown here.
            _ if immutable => Permanence::NotYet,
            _ => Permanence::Yes,
        }
    }

    /// The id is the first parameter (execution-apis, `eth_getFilterChanges`).
    fn state_id(&self, call: CallView<'_>) -> Option<Span> {
        positional_span(call.params, 0)
    }

    /// Judged by words, because the codes of these errors have many other meanings.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(answer, PRUNED)
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        if self.lacks_history(error.answer) { Some(Unserved::Data) } else { UNSERVED.judge(error) }
    }

    fn missing_block(&self, call: CallView<'_>, answer: &[u8]) -> Option<u64> {
        let is_missing = answer.trim_ascii() == b"null" && OF_BLOCK.contains(&call.method);
        // A hash has more digits than a number.
        positional(call.params, 0).filter(|_| is_missing).and_then(quantity)
    }

    /// The words of geth and most others, of Besu, of Nethermind and of OpenEthereum.
    fn is_known_transaction(&self, answer: &[u8]) -> bool {
        says(answer, &["already known", "known transaction", "alreadyknown", "was already imported"])
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "eth_blockNumber", params: "[]" }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        quantity(answer).map(NodeStatus::at)
    }

    fn network(&self) -> Option<NetworkProbe> {
        let probe = Probe::Rpc { method: "eth_chainId", params: "[]" };
        Some(NetworkProbe {
            probe,
            expected: self.chain_id.to_string(),
            read: |answer| quantity(answer).map(|id| id.to_string()),
        })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(self)
    }
}

/// Returns the permanence of a result by the height in its member `name`.
fn mined(result: &[u8], name: &str, finality: &Finality) -> Permanence {
    Permanence::at(member(result, name).and_then(quantity), finality)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, judged, wrong};
    use rpcgate_core::cache_rule::CacheDecision;
    use rpcgate_core::chain::{Chain, ChainOverrides};
    use std::sync::Arc;
    use std::time::Duration;

    const FACTS: Facts = facts("toy", "Toy", 64);
    const TOY: Evm = Evm::new(FACTS, 7);

    const SHORT: CacheDecision = CacheDecision::For(Duration::from_secs(2));
    const YES: (Permanence, CacheDecision) = (Permanence::Yes, CacheDecision::Forever);
    const NOT_YET: (Permanence, CacheDecision) = (Permanence::NotYet, SHORT);
    const UNKNOWN: (Permanence, CacheDecision) = (Permanence::Unknown, CacheDecision::No);

    #[test]
    fn classes_are_the_specifications() {
        let chain = at(TOY, 100);
        let rule = |method: &str| chain.look_up(method).rule.cache;
        for method in ["eth_chainId", "net_version"] {
            assert_eq!(rule(method), CacheRule::Static, "{method}");
            assert_eq!(judged(&chain, method, "", "\"0x1\""), YES);
        }
        assert_eq!(judged(&chain, "eth_blockNumber", "[]", "\"0x64\""), (Permanence::Yes, SHORT));
        assert_eq!(judged(&chain, "eth_call", "[{},\"latest\"]", "\"0x\""), (Permanence::Yes, SHORT));
        assert_eq!(rule("eth_gasPrice"), CacheRule::secs(5));
        for method in [
            "eth_estimateGas",
            "eth_getTransactionCount",
            "eth_getBalance",
            "eth_maxPriorityFeePerGas",
            "eth_feeHistory",
            "eth_getLogs",
            "eth_newFilter",
            "eth_getFilterChanges",
            "web3_clientVersion",
            "net_listening",
            "eth_getBlockReceipts",
        ] {
            assert_eq!(rule(method), CacheRule::Never, "{method}");
        }
    }

    #[test]
    fn receipts_transactions_and_blocks_are_cached_forever_once_final() {
        let chain = at(TOY, 164);
        for (method, member) in [
            ("eth_getTransactionReceipt", "blockNumber"),
            ("eth_getTransactionByHash", "blockNumber"),
            ("eth_getBlockByHash", "number"),
        ] {
            let with =
                |height: &str| format!("{{\"logs\":[{{\"{member}\":\"0x1\"}}], \"{member}\" : {height}}}");
            assert_eq!(judged(&chain, method, "[\"0x1\"]", &with("\"0x64\"")), YES, "{method}");
            assert_eq!(judged(&chain, method, "[\"0x1\"]", &with("\"0x65\"")), NOT_YET, "{method}");
            for unknown in ["null", "\"\"", "\"latest\"", "100", "{}", "\"0x\""] {
                assert_eq!(
                    judged(&chain, method, "[\"0x1\"]", &with(unknown)),
                    UNKNOWN,
                    "{method} {unknown}"
                );
            }
            for unknown in ["null", " null ", "{}", "[]", "\"0x64\"", "{\"blockNumber\""] {
                assert_eq!(judged(&chain, method, "[\"0x1\"]", unknown), UNKNOWN, "{method} {unknown}");
            }
        }
    }

    #[test]
    fn nothing_is_final_while_the_head_is_not_known() {
        let chain = at(TOY, 0);
        assert_eq!(judged(&chain, "eth_getBlockByHash", "[]", "{\"number\":\"0x0\"}"), NOT_YET);
    }

    #[test]
    fn a_block_by_number_is_cached_only_for_an_explicit_number() {
        let chain = at(TOY, 164);
        let result = "{\"hash\":\"0xab\",\"number\":\"0x64\"}";
        for params in
            ["[\"0x64\",false]", "[ \"0x64\" , true ]", "[\"\\u0030x64\",false]", "[\"0x064\",false]"]
        {
            assert_eq!(judged(&chain, "eth_getBlockByNumber", params, result), YES, "{params}");
        }
        for params in [
            "",
            "null",
            "[]",
            "[null]",
            "[100]",
            "[\"100\"]",
            "[\"latest\",false]",
            "[\"l\\u0061test\",false]",
            "[\"pending\",false]",
            "[\"safe\",false]",
            "[\"finalized\",false]",
            "[\"earliest\",false]",
            "[\" 0x64\",false]",
            "[[\"0x64\"],false]",
            "[{\"blockNumber\":\"0x64\"},false]",
            "{\"0\":\"0x64\"}",
            "\"0x64\"",
            "[\"0x65\",false]",
        ] {
            assert_eq!(judged(&chain, "eth_getBlockByNumber", params, result), UNKNOWN, "{params}");
        }
        let near = "{\"number\":\"0xa4\"}";
        assert_eq!(judged(&chain, "eth_getBlockByNumber", "[\"0xa4\",false]", near), NOT_YET);
        assert_eq!(judged(&chain, "eth_getBlockByNumber", "[\"0xa5\",false]", "null"), UNKNOWN);
    }

    #[test]
    fn an_operators_class_is_followed_where_it_can_be_judged() {
        let changes = ChainOverrides::default()
            .with_cache("eth_getBlockByNumber", CacheRule::secs(1))
            .with_cache("eth_getCode", CacheRule::immutable(2));
        let chain = Chain::new(Arc::new(TOY), changes, true, Arc::default());
        let kept = judged(&chain, "eth_getBlockByNumber", "[\"latest\",false]", "{\"number\":\"0x1\"}");
        assert_eq!(kept, (Permanence::Yes, CacheDecision::For(Duration::from_secs(1))));
        assert_eq!(judged(&chain, "eth_getCode", "[\"0x1\",\"latest\"]", "\"0x6000\""), NOT_YET);
    }

    #[test]
    fn heavy_methods_are_the_specifications() {
        let chain = at(TOY, 0);
        let heavy = [
            "trace_block",
            "trace_call",
            "trace_rawTransaction",
            "debug_traceTransaction",
            "debug_",
            "eth_getLogs",
            "eth_simulateV1",
            "txpool_content",
            "alchemy_getTokenBalances",
            "ankr_getTokenBalances",
            "qn_x_getTokenBalances",
        ];
        let light = [
            "eth_call",
            "eth_getFilterLogs",
            "txpool_status",
            "txpool_contentFrom",
            "getTokenBalances",
            "alchemy_getTokenBalance",
            "tracer_x",
            "trace",
            "DEBUG_traceCall",
            "eth_getlogs",
        ];
        assert_eq!(wrong(&chain, &heavy, Flags::HEAVY, true), [""; 0]);
        assert_eq!(wrong(&chain, &light, Flags::HEAVY, false), [""; 0]);
    }

    #[test]
    fn debugging_methods_are_closed_until_the_operator_opens_them() {
        let names = ["trace_block", "debug_traceCall"];
        assert_eq!(wrong(&at(TOY, 0), &names, Flags::CLOSED, true), [""; 0]);
        assert_eq!(wrong(&at(TOY, 0), &names, Flags::FORBIDDEN, false), [""; 0]);
        let changes = ChainOverrides::default().with_open("trace_*").with_open("debug_*");
        let chain = Chain::new(Arc::new(TOY), changes, true, Arc::default());
        assert_eq!(wrong(&chain, &names, Flags::CLOSED, false), [""; 0]);
        assert_eq!(wrong(&chain, &names, Flags::HEAVY, true), [""; 0]);
    }

    #[test]
    fn opening_debugging_methods_opens_nothing_that_controls_the_node() {
        let changes = ChainOverrides::default().with_open("*");
        let chain = Chain::new(Arc::new(TOY), changes, true, Arc::default());
        assert_eq!(
            wrong(&chain, &["admin_addPeer", "miner_start", "eth_sign"], Flags::CLOSED, true),
            [""; 0]
        );
    }

    #[test]
    fn a_submission_is_never_sent_twice() {
        let submits = [
            "eth_sendRawTransaction",
            "eth_sendTransaction",
            "eth_sendRawTransactionConditional",
            "eth_sendPrivateTransaction",
            "eth_cancelPrivateTransaction",
            "eth_sendBundle",
            "eth_sendUserOperation",
            "mev_sendBundle",
            "mev_sendBid",
            "bor_sendRawTransactionConditional",
        ];
        let chain = at(TOY, 0);
        assert_eq!(wrong(&chain, &submits, Flags::BROADCAST, true), [""; 0]);
        assert_eq!(wrong(&chain, &submits, Flags::CLOSED, false), [""; 0]);
        let reads = ["eth_call", "eth_fillTransaction", "eth_callBundle", "eth_subscribe", "sender_x"];
        assert_eq!(wrong(&chain, &reads, Flags::BROADCAST, false), [""; 0]);
    }

    // Shows (Nodes and cache).
    #[test]
    fn the_calls_of_filters_are_marked_and_never_cached() {
        let makes =
            ["eth_newFilter", "eth_newBlockFilter", "eth_newPendingTransactionFilter", "kaia_newFilter"];
        let uses = ["eth_getFilterChanges", "eth_getFilterLogs", "eth_uninstallFilter", "klay_getFilterLogs"];
        for chain in [at(TOY, 0), at(crate::eth::ETH, 0)] {
            assert_eq!(wrong(&chain, &makes, Flags::MAKES_STATE, true), [""; 0]);
            assert_eq!(wrong(&chain, &uses, Flags::USES_STATE, true), [""; 0]);
        }
        for name in ["eth_getLogs", "eth_newHeads", "trace_filter", "newFilter", "eth_getFilter", "eth_call"]
        {
            assert!(!at(TOY, 0).look_up(name).rule.flags.has_state(), "{name}");
        }
        let changes = ["eth_newFilter", "eth_getFilterChanges", "eth_call"]
            .into_iter()
            .fold(ChainOverrides::default(), |all, name| all.with_cache(name, CacheRule::secs(9)));
        let chain = Chain::new(Arc::new(TOY), changes, true, Arc::default());
        let cache = |name: &str| chain.look_up(name).rule.cache;
        assert_eq!(
            (cache("eth_newFilter"), cache("eth_getFilterChanges")),
            (CacheRule::Never, CacheRule::Never)
        );
        assert_eq!(cache("eth_call"), CacheRule::secs(9));
    }

    #[test]
    fn the_probe_reads_its_own_answer() {
        assert_eq!(TOY.probe(), Probe::Rpc { method: "eth_blockNumber", params: "[]" });
        assert_eq!(TOY.seen(b"\"0x1312d00\""), Some(NodeStatus::at(20_000_000)));
        for bad in [&b"null"[..], b"20000000", b"\"20000000\"", b"{}", b""] {
            assert_eq!(TOY.seen(bad), None);
        }
    }
}
