//! TRON, `/tron`: the HTTP API of a full node, `/wallet/<method>`, by `POST` and for reads also by `GET`, and the gRPC
//! API of the same node in the proto package `protocol`.

#[cfg(feature = "events")]
mod address;
#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod token;

use crate::family::params::{at, is_hash, may_have, member, number};
use crate::family::{Closing, UnservedErrors, listed, marks, says};
use http::Method as Verb;
use rpcgate_core::adapter::{
    Adapter, ClosedMethods, KeySources, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Surface,
    Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::json::unescape;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::rest::Path;
use std::sync::Arc;
use std::time::Duration;

/// A block is solid once 19 of the 27 producers have built on it.
static FACTS: Facts = Facts::rest("tron", "TRON")
    .with_grpc(&["protocol"])
    .with_final_depth(19)
    .with_max_lag(10)
    .with_block_time(Duration::from_secs(3));

const METHODS: &[Method] = &[
    Method::new("getnodeinfo", 0).cached(CacheRule::Static),
    Method::new("getnowblock", 1),
    Method::new("getaccount", 5),
    Method::new("gettransactionbyid", 5),
    Method::new("gettransactioninfobyid", 5),
    Method::new("getblockbynum", 10),
    Method::new("getblockbyid", 10),
    Method::new("createtransaction", 15),
    Method::new("broadcasttransaction", 20).marked(Flags::BROADCAST),
    Method::new("broadcasthex", 20).marked(Flags::BROADCAST),
    Method::new("triggersmartcontract", 20),
    Method::new("getchainparameters", 1),
    Method::new("triggerconstantcontract", 1),
    // The names of gRPC methods that do the same as one of those above.
    Method::new("getblockbynum2", 10),
    Method::new("createtransaction2", 15),
    Method::new("triggercontract", 20),
];

/// Names in lower case, since [`unlisted`](Tron::unlisted) compares them so.
const CLOSED: &[Closing] = &[
    Closing::new(
        &[
            "addsign",
            "addtransactionsign",
            "createaddress",
            "easytransfer*",
            "generateaddress",
            "gettransactionsign*",
        ],
        "It takes a private key, or creates one; some sign and send in one call",
    ),
    Closing::new(
        &[
            "createshielded*",
            "createspendauthsig",
            "getakfromask",
            "getexpandedspendingkey",
            "getnewshieldedaddress",
            "getnkfromnsk",
            "getspendingkey",
        ],
        "It takes a spending key, or creates one; some make the node prove for seconds",
    ),
    Closing::new(
        &["scanandmarknotebyivk", "scannoteby*", "scanshieldedtrc20notesby*"],
        "It makes the node decrypt every note of up to 1,000 blocks",
    )
    .openable(),
];

/// The TRON adapter.
#[derive(Clone, Copy, Debug)]
pub struct Tron;

/// The words of java-tron and of TronGrid.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &[],
    node: (
        &[],
        &[
            "SERVER_BUSY",
            "ServerBusy",
            "lack of computing resources",
            "frequency limit",
            "NO_CONNECTION",
            "NOT_ENOUGH_EFFECTIVE_CONNECTION",
        ],
    ),
    method: (&[], &["API is unavailable", "this API is closed"]),
    data: (&[], &["this node is a lite fullnode"]),
};

impl Adapter for Tron {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn surface(&self, verb: &Verb, path: &Path) -> Result<Surface, Refusal> {
        let method = path.as_str().strip_prefix("/wallet/").unwrap_or_default();
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Refusal::NoRoute);
        }
        match *verb {
            Verb::GET | Verb::HEAD | Verb::POST => Ok(Surface::Rest),
            _ => Err(Refusal::MethodNotAllowed { allow: "GET, POST, OPTIONS" }),
        }
    }

    fn methods(&self) -> Vec<Method> {
        METHODS.to_vec()
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        let name = method.to_ascii_lowercase();
        let mut flags = marks(CLOSED, &name);
        if name.starts_with("broadcast") {
            flags = flags.and(Flags::BROADCAST);
        }
        MethodRule::UNLISTED.marked(flags)
    }

    fn closed(&self) -> Vec<ClosedMethods> {
        listed(CLOSED)
    }

    /// TronGrid's clients send their key in this header.
    fn key_sources(&self) -> KeySources {
        KeySources::default().with_header("tron-pro-api-key")
    }

    fn settled(&self, call: CallView<'_>, body: &[u8], finality: &Finality) -> Permanence {
        // A node answers an empty object for missing data.
        if body.trim_ascii() == b"{}" {
            return Permanence::Unknown;
        }
        if !matches!(call.rule.cache, CacheRule::Immutable { .. }) {
            return Permanence::Yes;
        }
        let height =
            at(body, &["block_header", "raw_data", "number"]).or_else(|| member(body, "blockNumber"));
        match height.and_then(number) {
            Some(height) if finality.is_final(height) => Permanence::Yes,
            _ => Permanence::NotYet,
        }
    }

    /// Errors come with HTTP status 200: `{"Error": …}`, or a `code` that is a word, at the top or in `result`.
    fn is_error(&self, body: &[u8]) -> bool {
        let is_failure = |code: &[u8]| code.starts_with(b"\"") && code != b"\"SUCCESS\"";
        (may_have(body, "\"Error\"") && member(body, "Error").is_some())
            || (may_have(body, "\"code\"")
                && [&["code"][..], &["result", "code"]]
                    .iter()
                    .any(|path| at(body, path).is_some_and(is_failure)))
    }

    /// A light node refuses calls that need old blocks with this text, at status 200.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(answer, &["this node is a lite fullnode"])
    }

    /// The code of a duplicate.
    fn is_known_transaction(&self, answer: &[u8]) -> bool {
        says(answer, &["\"DUP_TRANSACTION_ERROR\""])
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rest { target: "/wallet/getnowblock", body: Some("{}") }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        at(answer, &["block_header", "raw_data", "number"]).and_then(number).map(NodeStatus::at)
    }

    fn network(&self) -> Option<NetworkProbe> {
        let probe = Probe::Rest { target: "/wallet/getblockbynum", body: Some("{\"num\":0}") };
        let expected = "00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc".into();
        let read = |answer: &[u8]| {
            let id = member(answer, "blockID").filter(|id| is_hash(id));
            id.and_then(unescape).map(Into::into)
        };
        Some(NetworkProbe { probe, expected, read })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(&blocks::TronBlocks)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Tron)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at as chain_at, judged, wrong};
    use rpcgate_core::cache_rule::CacheDecision;
    use rpcgate_core::grpc::GrpcPath;

    #[test]
    fn methods_of_the_wallet_api_are_served_and_no_other_path() {
        let at = |verb, path| Tron.surface(&verb, &Path::canonical(path).unwrap());
        for path in ["/wallet/getnowblock", "/wallet/getBrokerage", "/wallet/getdelegatedresourcev2"] {
            assert!(matches!(at(Verb::POST, path), Ok(Surface::Rest)), "{path}");
            assert!(matches!(at(Verb::GET, path), Ok(Surface::Rest)), "{path}");
        }
        for path in [
            "",
            "/wallet",
            "/wallet/a/b",
            "/walletsolidity/getnowblock",
            "/walletpbft/x",
            "/net/listnodes",
            "/v1/x",
            "/wallet/a-b",
        ] {
            assert_eq!(at(Verb::POST, path).err(), Some(Refusal::NoRoute), "{path}");
        }
        assert!(matches!(at(Verb::DELETE, "/wallet/getnowblock"), Err(Refusal::MethodNotAllowed { .. })));
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn methods_that_take_a_private_key_are_closed() {
        let chain = chain_at(Tron, 0);
        let closed = [
            "easytransferbyprivate",
            "EasyTransfer",
            "gettransactionsign",
            "gettransactionsign2",
            "addsign",
            "addtransactionsign",
            "createaddress",
            "createshieldedtransaction",
            "createShieldedContractParameters",
            "getnewshieldedaddress",
            "scannotebyivk",
        ];
        assert_eq!(wrong(&chain, &closed, Flags::CLOSED, true), [""; 0]);
        assert_eq!(wrong(&chain, &["createtransaction", "freezebalancev2"], Flags::CLOSED, false), [""; 0]);
        assert_eq!(wrong(&chain, &["broadcasttransaction", "broadcasthex"], Flags::BROADCAST, true), [""; 0]);
    }

    // Shows (gRPC).
    #[test]
    fn a_grpc_method_has_the_rule_of_its_name_in_lower_case() {
        let chain = chain_at(Tron, 0);
        let found = |path: &str| chain.look_up_grpc(GrpcPath::parse(path).unwrap());
        for (path, cu, metered) in [
            ("/protocol.Wallet/GetNowBlock", 1, Some("getnowblock")),
            ("/protocol.Wallet/GetAccount", 5, Some("getaccount")),
            ("/protocol.Wallet/GetBlockByNum2", 10, Some("getblockbynum2")),
            ("/protocol.Wallet/TriggerContract", 20, Some("triggercontract")),
            ("/protocol.WalletSolidity/GetDelegatedResource", 1, None),
        ] {
            assert_eq!((found(path).rule.cu, found(path).metered), (cu, metered), "{path}");
        }
        let has = |path: &str, mark| found(path).rule.flags.has(mark);
        for method in ["EasyTransferByPrivate", "GetTransactionSign2", "AddSign", "CreateShieldedTransaction"]
        {
            assert!(has(&format!("/protocol.Wallet/{method}"), Flags::CLOSED), "{method}");
        }
        assert!(has("/protocol.Wallet/ScanNoteByIvk", Flags::OPENABLE));
        assert!(has("/protocol.Wallet/BroadcastTransaction", Flags::BROADCAST));
        let node_info = found("/protocol.Wallet/GetNodeInfo").rule.cache;
        assert_eq!(node_info, CacheRule::Never, "the table's answers are JSON");
    }

    #[test]
    fn errors_are_distinguished_from_answers() {
        for error in [
            r#"{"Error":"class java.lang.NumberFormatException : null"}"#,
            r#"{"code":"SIGERROR","txid":"77","message":"56616c"}"#,
            r#"{"code":"TAPOS_ERROR","message":""}"#,
            r#"{"result":{"code":"CONTRACT_VALIDATE_ERROR","message":"4e6f"}}"#,
        ] {
            assert!(Tron.is_error(error.as_bytes()), "{error}");
        }
        for answer in [
            r#"{"result":true,"txid":"77","code":"SUCCESS"}"#,
            r#"{"result":{"result":true},"constant_result":["00"]}"#,
            "{}",
            r#"{"contractRet":"OK","code":7,"data":"Error"}"#,
        ] {
            assert!(!Tron.is_error(answer.as_bytes()), "{answer}");
        }
    }

    #[test]
    fn node_info_is_static_and_missing_objects_are_not_cached() {
        let chain = chain_at(Tron, 70_000_000);
        let line = "POST /wallet/getnodeinfo\n{}";
        assert_eq!(judged(&chain, "getnodeinfo", line, r#"{"block":"Num:1"}"#).1, CacheDecision::Forever);
        assert_eq!(judged(&chain, "getnodeinfo", line, "{}\n").1, CacheDecision::No);
    }

    #[test]
    fn a_node_reports_its_newest_block() {
        let block = br#"{"blockID":"00","block_header":{"raw_data":{"number":70000000,"txTrieRoot":"0"}}}"#;
        assert_eq!(Tron.seen(block), Some(NodeStatus::at(70_000_000)));
        assert_eq!(Tron.seen(b"{}"), None);
    }
}
