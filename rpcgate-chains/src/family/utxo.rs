//! Chains whose nodes descend from Bitcoin's: JSON-RPC 1.0 over POST.
//!
//! In addition to block counts, blocks and transactions, these are cached:
//! - `getblockheader` like `getblock`: it is a smaller part of the same answer.
//! - `getblockhash`: the block at a height does not change once it is final, and callers that index a chain request
//!   every height.
//! - `gettxoutsetinfo`, with the lifetime of a block count: a node walks its whole set of unspent outputs for one
//!   answer. Where an operator opens the method, callers must therefore share one walk.

mod address;
#[cfg(feature = "events")]
mod amount;
#[cfg(feature = "events")]
mod blocks;
mod closed;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod transaction;

pub use address::AddressForms;
pub use closed::{NAMES, PREFIXES};

use super::params::{either, integer, is_hash};
use super::{Closing, UnservedErrors, listed, mark, marks, narrow, says, submits, table};
use rpcgate_core::adapter::{
    Adapter, ClosedMethods, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Dialect, Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::json::unescape;
use std::time::Duration;

/// The lifetime of an answer that counts confirmations or is not final, equal to that of a block count.
const UNSETTLED: CacheRule = CacheRule::immutable(10);

/// The family's methods. Each weighs 1 Compute Unit unless its chain says otherwise.
const METHODS: &[Method] = &[
    Method::new("getblockcount", 1).cached(CacheRule::secs(10)),
    Method::new("getbestblockhash", 1),
    Method::new("getblockhash", 1).cached(UNSETTLED),
    Method::new("getblockchaininfo", 1),
    Method::new("getnetworkinfo", 1),
    Method::new("getmininginfo", 1),
    Method::new("estimatesmartfee", 1),
    Method::new("getmempoolinfo", 1),
    Method::new("gettxout", 1),
    Method::new("getblock", 1).cached(UNSETTLED),
    Method::new("getblockheader", 1).cached(UNSETTLED),
    Method::new("getrawtransaction", 1).cached(UNSETTLED),
    Method::new("gettxoutsetinfo", 1).cached(CacheRule::secs(10)),
    Method::new("sendrawtransaction", 1).marked(Flags::BROADCAST),
    Method::new("getblocktemplate", 1),
    Method::new("deriveaddresses", 1),
    Method::new("scanblocks", 1),
    Method::new("scantxoutset", 1),
    Method::new("verifychain", 1),
    Method::new("waitforblock", 1),
    Method::new("waitforblockheight", 1),
    Method::new("waitfornewblock", 1),
];

/// Returns the facts of a chain at `/<path>`: JSON-RPC 1.0 with batches, no stream. A block is final for the cache with
/// `final_depth` blocks on top.
pub const fn facts(path: &'static str, title: &'static str, final_depth: u64) -> Facts {
    Facts::json_rpc(path, title)
        .with_dialect(Dialect::Utxo)
        .with_final_depth(final_depth)
        .with_block_time(Duration::from_secs(600))
}

/// A chain of the family.
///
/// ```
/// use rpcgate_chains::family::utxo::{self, Utxo};
/// use rpcgate_core::chain::{Chain, Facts, Flags};
/// use std::sync::Arc;
///
/// const FACTS: Facts = utxo::facts("dgb", "DigiByte", 40);
/// const DGB: Utxo = Utxo::new(FACTS).weighing(&[("getblock", 10)]);
///
/// let dgb = Chain::deployed(Arc::new(DGB));
/// assert_eq!(dgb.look_up("getblock").rule.cu, 10);
/// assert!(dgb.look_up("dumpprivkey").rule.flags.has(Flags::CLOSED));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Utxo {
    facts: Facts,
    weights: &'static [(&'static str, u32)],
    own: &'static [Method],
    lacking: &'static [&'static str],
    closed: &'static [Closing],
    commands: &'static [(&'static str, &'static [&'static str])],
    addresses: AddressForms,
    block: Option<(&'static str, &'static str)>,
}

impl Utxo {
    /// Creates a chain without deviations.
    pub const fn new(facts: Facts) -> Self {
        Utxo {
            facts,
            weights: &[],
            own: &[],
            lacking: &[],
            closed: &[],
            commands: &[],
            addresses: AddressForms::ANY,
            block: None,
        }
    }

    /// Sets weights, in Compute Units, other than 1.
    #[must_use]
    pub const fn weighing(mut self, weights: &'static [(&'static str, u32)]) -> Self {
        self.weights = weights;
        self
    }

    /// Adds the chain's own methods; one with the name of a family's method replaces it.
    #[must_use]
    pub const fn with_methods(mut self, own: &'static [Method]) -> Self {
        self.own = own;
        self
    }

    /// Removes methods of the family. They are not in the table; a call of one gets the node's own "not found".
    #[must_use]
    pub const fn lacking(mut self, names: &'static [&'static str]) -> Self {
        self.lacking = names;
        self
    }

    /// Also closes these methods.
    #[must_use]
    pub const fn closing(mut self, closed: &'static [Closing]) -> Self {
        self.closed = closed;
        self
    }

    /// Sets a block that no other network has: the parameters that request its hash, and the hash.
    #[must_use]
    pub const fn with_block(mut self, params: &'static str, hash: &'static str) -> Self {
        self.block = Some((params, hash));
        self
    }

    /// Opens only these commands of some methods. A command is the first parameter. The methods must be among the
    /// chain's own and marked [`Flags::COMMANDS`].
    #[must_use]
    pub const fn limiting(mut self, commands: &'static [(&'static str, &'static [&'static str])]) -> Self {
        self.commands = commands;
        self
    }

    /// Sets the forms of addresses.
    #[must_use]
    pub const fn with_addresses(mut self, addresses: AddressForms) -> Self {
        self.addresses = addresses;
        self
    }

    /// Returns the forms of the chain's addresses.
    pub const fn addresses(&self) -> &AddressForms {
        &self.addresses
    }
}

/// Bitcoin Core's `protocol.h`: warming up, downloading blocks, not connected, out of memory, database and internal
/// errors.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &[],
    node: (&[-28, -20, -10, -9, -7], &[]),
    method: (&[-32603], &[]),
    data: (&[], &["pruned data"]),
};

impl Adapter for Utxo {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn methods(&self) -> Vec<Method> {
        let mut rows = table(METHODS, self.own, self.lacking);
        for row in &mut rows {
            if let Some((_, cu)) = self.weights.iter().find(|(name, _)| *name == row.name) {
                row.rule.cu = *cu;
            }
        }
        mark(closed::HEAVY, &mut rows);
        mark(self.closed, &mut rows);
        rows
    }

    /// Names are case-sensitive, as in nodes.
    fn unlisted(&self, method: &str) -> MethodRule {
        let mut flags = marks(closed::HEAVY, method).and(marks(self.closed, method));
        if closed::is_closed(method) {
            flags = flags.and(Flags::CLOSED);
        }
        if submits(method) {
            flags = flags.and(Flags::BROADCAST);
        }
        MethodRule::UNLISTED.marked(flags)
    }

    /// An unlisted or unreadable command is closed. Without one the call is open: the node answers the usage.
    fn narrow(&self, call: CallView<'_>) -> MethodRule {
        let call = call.with_rule(narrow(closed::HEAVY, call));
        let mut rule = narrow(self.closed, call);
        let params = call.params.trim_ascii();
        let open = self.commands.iter().find(|(method, _)| method.as_bytes() == call.sent);
        if let Some((_, open)) = open
            && !matches!(params, b"" | b"null" | b"[]" | b"{}")
        {
            let command = either(params, 0, "command").and_then(unescape);
            if !command.is_some_and(|command| open.contains(&&*command)) {
                rule.flags = rule.flags.and(Flags::CLOSED);
            }
        }
        rule
    }

    fn closed(&self) -> Vec<ClosedMethods> {
        let mut rows = closed::words();
        rows.extend(listed(self.closed));
        rows.extend(self.commands.iter().map(|(method, open)| {
            let because = "It uses the keys, the peers or the settings of the node";
            ClosedMethods::new(vec![(*method).to_owned()], because)
                .with_only(format!("with another command than `{}`", open.join("`, `")))
        }));
        rows
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        let result = result.trim_ascii();
        if result == b"null" {
            return Permanence::Unknown;
        }
        if !matches!(call.rule.cache, CacheRule::Immutable { .. }) {
            return Permanence::Yes;
        }
        // Verbose answers are objects whose confirmations keep counting; serialised ones are strings.
        let serialised = result.starts_with(b"\"");
        let fixed = serialised
            && match call.method {
                // The hash commits to every byte, whether the block stays in the chain or not.
                b"getblock" | b"getblockheader" => true,
                // A transaction's id does not commit to its witness; the block that contains it does.
                b"getrawtransaction" => either(call.params, 2, "blockhash").is_some_and(is_hash),
                b"getblockhash" => either(call.params, 0, "height")
                    .and_then(integer)
                    .is_some_and(|height| finality.is_final(height)),
                _ => false,
            };
        if fixed { Permanence::Yes } else { Permanence::NotYet }
    }

    /// A pruned node keeps the headers of all blocks, and the newest blocks.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(answer, &["pruned data"])
    }

    /// In the mempool, or in a block.
    fn is_known_transaction(&self, answer: &[u8]) -> bool {
        says(
            answer,
            &["txn-already-in-mempool", "txn-already-known", "already in block chain", "already in utxo set"],
        )
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn missing_block(&self, call: CallView<'_>, answer: &[u8]) -> Option<u64> {
        let is_missing = call.method == b"getblockhash" && says(answer, &["block height out of range"]);
        either(call.params, 0, "height").and_then(integer).filter(|_| is_missing)
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "getblockcount", params: "[]" }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        integer(answer).map(NodeStatus::at)
    }

    fn network(&self) -> Option<NetworkProbe> {
        let (params, hash) = self.block?;
        let probe = Probe::Rpc { method: "getblockhash", params };
        let read = |answer: &[u8]| {
            let hash = Some(answer.trim_ascii()).filter(|answer| is_hash(answer));
            hash.and_then(unescape).map(Into::into)
        };
        Some(NetworkProbe { probe, expected: hash.into(), read })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, judged, wrong};
    use rpcgate_core::cache_rule::CacheDecision;
    use rpcgate_core::chain::{Chain, ChainOverrides};
    use std::sync::Arc;
    use std::time::Duration;

    const FACTS: Facts = facts("toy", "Toy", 6);
    const TOY: Utxo = Utxo::new(FACTS);

    const YES: (Permanence, CacheDecision) = (Permanence::Yes, CacheDecision::Forever);
    const NOT_YET: (Permanence, CacheDecision) =
        (Permanence::NotYet, CacheDecision::For(Duration::from_secs(10)));
    const UNKNOWN: (Permanence, CacheDecision) = (Permanence::Unknown, CacheDecision::No);
    const HASH: &str = "00000000000000000001f0a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6";

    #[test]
    fn classes_are_the_specifications() {
        let chain = at(TOY, 100);
        assert_eq!(chain.look_up("getblockcount").rule.cache, CacheRule::secs(10));
        assert_eq!(judged(&chain, "getblockcount", "[]", "100").0, Permanence::Yes);
        for method in [
            "getmininginfo",
            "getbestblockhash",
            "getblockchaininfo",
            "getnetworkinfo",
            "estimatesmartfee",
            "getmempoolinfo",
            "gettxout",
            "sendrawtransaction",
            "getrawmempool",
        ] {
            assert_eq!(chain.look_up(method).rule.cache, CacheRule::Never, "{method}");
        }
    }

    #[test]
    fn a_serialised_block_is_fixed_by_its_hash_and_a_verbose_one_counts_confirmations() {
        let chain = at(TOY, 100);
        for method in ["getblock", "getblockheader"] {
            assert_eq!(judged(&chain, method, &format!("[\"{HASH}\",0]"), "\"0100ab\""), YES);
            assert_eq!(judged(&chain, method, &format!("[\"{HASH}\",false]"), " \"0100ab\" "), YES);
            for params in [format!("[\"{HASH}\"]"), format!("[\"{HASH}\",0]"), format!("[ \"{HASH}\" , 2 ]")]
            {
                let verbose = "{\"hash\":\"00\",\"confirmations\":90}";
                assert_eq!(judged(&chain, method, &params, verbose), NOT_YET, "{params}");
            }
            assert_eq!(judged(&chain, method, "[]", "null"), UNKNOWN);
        }
    }

    #[test]
    fn a_raw_transaction_is_fixed_only_by_a_block_hash() {
        let chain = at(TOY, 100);
        let raw = "\"0200000001ab\"";
        let id = "ab".repeat(32);
        for params in [
            format!("[\"{id}\",false,\"{HASH}\"]"),
            format!("[ \"{id}\" ,\n0 , \"{HASH}\" ]"),
            format!("[\"{id}\",null,\"\\u0030{}\"]", &HASH[1..]),
            format!("{{\"txid\":\"{id}\",\"blockhash\":\"{HASH}\"}}"),
        ] {
            assert_eq!(judged(&chain, "getrawtransaction", &params, raw), YES, "{params}");
            let verbose = "{\"hex\":\"02\",\"confirmations\":3}";
            assert_eq!(judged(&chain, "getrawtransaction", &params, verbose), NOT_YET, "{params}");
        }
        for params in [
            String::new(),
            "null".into(),
            format!("[\"{id}\"]"),
            format!("[\"{id}\",false]"),
            format!("[\"{id}\",false,null]"),
            format!("[\"{id}\",false,\"\"]"),
            format!("[\"{id}\",false,\"{}\"]", &HASH[1..]),
            format!("[\"{id}\",false,[\"{HASH}\"]]"),
            format!("[\"{id}\",\"{HASH}\"]"),
            format!("{{\"txid\":\"{id}\",\"blockhash\":null,\"blockhash\":\"{HASH}\"}}"),
            format!("{{\"args\":[\"{id}\",false,\"{HASH}\"]}}"),
            format!("[{{\"blockhash\":\"{HASH}\"}}]"),
        ] {
            assert_eq!(judged(&chain, "getrawtransaction", &params, raw), NOT_YET, "{params}");
        }
    }

    #[test]
    fn the_hash_of_a_height_is_fixed_once_the_height_is_final() {
        let chain = at(TOY, 100);
        let hash = format!("\"{HASH}\"");
        for params in ["[94]", "[ 0 ]", "{\"height\":94}"] {
            assert_eq!(judged(&chain, "getblockhash", params, &hash), YES, "{params}");
        }
        for params in ["[95]", "[100]", "[9e1]", "[-1]", "[94.0]", "[\"94\"]", "[null]", "[]", "", "{}", "94"]
        {
            assert_eq!(judged(&chain, "getblockhash", params, &hash), NOT_YET, "{params}");
        }
        assert_eq!(judged(&at(TOY, 0), "getblockhash", "[1]", &hash), NOT_YET);
    }

    #[test]
    fn an_operators_class_is_followed_where_it_can_be_judged() {
        let changes = ChainOverrides::default()
            .with_cache("getblock", CacheRule::secs(3))
            .with_cache("getmininginfo", CacheRule::immutable(10));
        let chain = Chain::new(Arc::new(TOY), changes, true, Arc::default());
        let kept = CacheDecision::For(Duration::from_secs(3));
        assert_eq!(judged(&chain, "getblock", "[]", "\"00\""), (Permanence::Yes, kept));
        assert_eq!(judged(&chain, "getmininginfo", "[]", "{}"), NOT_YET);
    }

    #[test]
    fn methods_that_block_a_node_are_closed_until_the_operator_opens_them() {
        let names = ["scantxoutset", "scanblocks", "verifychain", "waitforblock", "waitfornewblock"];
        assert_eq!(wrong(&at(TOY, 0), &names, Flags::CLOSED, true), [""; 0]);
        let changes =
            ChainOverrides::default().with_open("scan*").with_open("verifychain").with_open("wait*");
        let chain = Chain::new(Arc::new(TOY), changes, true, Arc::default());
        assert_eq!(wrong(&chain, &names, Flags::CLOSED, false), [""; 0]);
    }

    #[test]
    fn a_submission_is_never_sent_twice() {
        let chain = at(TOY, 0);
        let submits = ["sendrawtransaction", "submitpackage", "submitblock", "submitheader"];
        assert_eq!(wrong(&chain, &submits, Flags::BROADCAST, true), [""; 0]);
        assert_eq!(wrong(&chain, &submits, Flags::CLOSED, false), [""; 0]);
        assert_eq!(wrong(&chain, &["getblock", "testmempoolaccept"], Flags::BROADCAST, false), [""; 0]);
    }

    #[test]
    fn the_probe_reads_its_own_answer() {
        assert_eq!(TOY.probe(), Probe::Rpc { method: "getblockcount", params: "[]" });
        assert_eq!(TOY.seen(b"840000"), Some(NodeStatus::at(840_000)));
        for bad in [&b"null"[..], b"\"840000\"", b"-1", b"8.4e5", b""] {
            assert_eq!(TOY.seen(bad), None);
        }
    }
}
