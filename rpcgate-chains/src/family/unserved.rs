//! Errors of nodes that cannot serve a call now, although another node may.

use super::node_errors::says;
use super::params::{at, member};
use rpcgate_core::adapter::{NodeError, Unserved};

/// The errors of a chain's nodes by code and text.
///
/// Codes and words are those of the node programs and of the providers in front of them. An error with one of the words
/// in `own` is always the caller's: nodes give the code of an internal error to many of those.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnservedErrors {
    /// Words of the caller's own errors.
    pub(crate) own: &'static [&'static str],
    /// Codes and words of a node that currently serves no call.
    pub(crate) node: (&'static [i64], &'static [&'static str]),
    /// Codes and words of a node that fails at a method, or lacks it.
    pub(crate) method: (&'static [i64], &'static [&'static str]),
    /// Codes and words of a node that lacks a state or a block.
    pub(crate) data: (&'static [i64], &'static [&'static str]),
}

/// Words of providers' limits, which are the same for all chains.
const LIMITS: &[&str] = &[
    "rate limit",
    "ratelimit",
    "rate-limit",
    "too many requests",
    "request limit",
    "requests limit",
    "daily request count exceeded",
    "quota exceeded",
    "exceeded the quota",
    "monthly capacity",
    "throughput",
    "compute units per second",
    "over capacity",
    "server is busy",
    "overloaded",
    "service unavailable",
    "temporarily unavailable",
    "no backend",
];

/// The code of a method that a node does not know (JSON-RPC 2.0, section 5.1), and rippled's word for it.
const UNKNOWN_METHOD: (&[i64], &[&str]) = (&[-32601], &["unknowncmd"]);

/// The code for too many requests, as providers use it in JSON.
const TOO_MANY: i64 = 429;

impl UnservedErrors {
    /// The errors that are the same for all chains.
    pub(crate) const COMMON: UnservedErrors =
        UnservedErrors { own: &[], node: (&[], &[]), method: (&[], &[]), data: (&[], &[]) };

    /// Returns the reason why the node cannot serve the call; `None` if the error is the caller's own.
    pub(crate) fn judge(&self, error: &NodeError<'_>) -> Option<Unserved> {
        let answer = error.answer;
        if says(answer, self.own) {
            return None;
        }
        let code = code(answer);
        let is = |(codes, words): (&[i64], &[&str])| {
            code.is_some_and(|code| codes.contains(&code)) || says(answer, words)
        };
        if is(self.data) {
            return Some(Unserved::Data);
        }
        let by_status = error.by_status();
        if is(self.node) || is((&[TOO_MANY, 503], LIMITS)) || by_status == Some(Unserved::Node) {
            return Some(Unserved::Node);
        }
        if is(self.method) {
            return Some(Unserved::Method);
        }
        if is(UNKNOWN_METHOD) {
            return Some(error.unknown_method());
        }
        by_status
    }
}

/// Returns the `code` of an error, or of an `error` within it.
fn code(answer: &[u8]) -> Option<i64> {
    let raw = member(answer, "code").or_else(|| at(answer, &["error", "code"]))?;
    std::str::from_utf8(raw).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_path;

    fn judge(chain: &str, status: u16, answer: &str) -> Option<Unserved> {
        let error = NodeError { answer: answer.as_bytes(), status, is_listed: true };
        by_path(chain).unwrap().cannot_serve(&error)
    }

    // Shows (Nodes and cache).
    #[test]
    fn all_messages_of_nodes_that_cannot_serve_a_call_now_are_recognised() {
        use Unserved::{Data, Method, Node};
        for (chain, status, answer, why) in [
            (
                "polygon",
                200,
                r#"{"code":-32005,"message":"daily request count exceeded, request rate limited"}"#,
                Node,
            ),
            ("eth", 200, r#"{"code":-32000,"message":"database closed"}"#, Node),
            ("eth", 200, r#"{"code":-32000,"message":"node is syncing"}"#, Node),
            ("eth", 200, r#"{"code":-32000,"message":"Unable to complete request at this time."}"#, Node),
            ("eth", 200, r#"{"code":-32002,"message":"request timed out"}"#, Method),
            ("eth", 200, r#"{"code":429,"message":"Your app has exceeded its compute units"}"#, Node),
            ("eth", 200, r#"{"code":-32016,"message":"over rate limit"}"#, Node),
            ("eth", 503, r#"{"code":-32011,"message":"no backends available for method"}"#, Node),
            ("bsc", 200, r#"{"code":-32603,"message":"Internal error"}"#, Method),
            ("eth", 200, r#"{"code":-32601,"message":"the method trace_block does not exist"}"#, Method),
            ("eth", 200, r#"{"code":-32000,"message":"missing trie node 1a (path )"}"#, Data),
            ("eth", 200, r#"{"code":-32000,"message":"header not found"}"#, Data),
            ("btc", 500, r#"{"code":-28,"message":"Loading block index…"}"#, Node),
            ("doge", 500, r#"{"code":-10,"message":"Dogecoin is downloading blocks..."}"#, Node),
            ("btc", 500, r#"{"code":-1,"message":"Block not available (pruned data)"}"#, Data),
            ("xrp", 200, r#"{"error":"tooBusy","error_code":9,"status":"error"}"#, Node),
            ("xrp", 200, r#"{"error":"noNetwork","error_code":17,"status":"error"}"#, Node),
            ("xrp", 200, r#"{"error":"unknownCmd","error_code":32,"status":"error"}"#, Method),
            ("xrp", 200, r#"{"error":"noCurrent","error_code":16,"status":"error"}"#, Node),
            (
                "near",
                200,
                r#"{"name":"HANDLER_ERROR","cause":{"name":"NOT_SYNCED_YET"},"code":-32000}"#,
                Node,
            ),
            (
                "near",
                200,
                r#"{"name":"HANDLER_ERROR","cause":{"name":"UNAVAILABLE_SHARD"},"code":-32000}"#,
                Data,
            ),
            (
                "near",
                408,
                r#"{"name":"HANDLER_ERROR","cause":{"name":"TIMEOUT_ERROR"},"code":-32000}"#,
                Method,
            ),
            ("near", 200, r#"{"name":"INTERNAL_ERROR","cause":{"name":"INTERNAL_ERROR"}}"#, Method),
            ("solana", 200, r#"{"code":-32005,"message":"Node is behind by 42 slots"}"#, Node),
            ("solana", 200, r#"{"code":-32004,"message":"Block not available for slot 9"}"#, Data),
            (
                "sui",
                200,
                r#"{"code":-32603,"message":"Internal error: Db is in the process of being restored"}"#,
                Method,
            ),
            ("sui", 200, r#"{"code":-32050,"message":"Transient error"}"#, Node),
            ("cosmos", 503, r#"{"code":14,"message":"connection error"}"#, Node),
            ("cosmos", 500, r#"{"code":8,"message":"grpc: received message larger than max"}"#, Node),
            ("cosmos", 501, r#"{"code":12,"message":"Not Implemented"}"#, Method),
            ("cosmos", 400, r#"{"code":3,"message":"height 1 is not available, lowest height is 9"}"#, Data),
            ("aptos", 500, r#"{"message":"Internal","error_code":"internal_error"}"#, Method),
            ("aptos", 503, r#"{"message":"too far behind","error_code":"internal_error"}"#, Node),
            ("aptos", 410, r#"{"message":"pruned","error_code":"version_pruned"}"#, Data),
            ("tron", 200, r#"{"code":"SERVER_BUSY","message":"53657276"}"#, Node),
            (
                "tron",
                200,
                r#"{"Error":"class org.tron.core.services.http.RateLimiterServlet : lack of computing resources"}"#,
                Node,
            ),
            ("ton", 200, r#"{"ok":false,"error":"Ratelimit exceed","code":429}"#, Node),
            ("ton", 503, r#"{"ok":false,"error":"No working liteservers","code":503}"#, Node),
            (
                "ton",
                500,
                r#"{"ok":false,"error":"LITE_SERVER_NOTREADY: ltdb: block not applied","code":500}"#,
                Data,
            ),
            ("cardano", 200, r#"{"code":-32603,"message":"Internal error"}"#, Method),
            ("cardano", 200, r#"{"code":2000,"message":"Failed to acquire requested point."}"#, Data),
            ("xlm", 503, r#"{"error":"busy"}"#, Node),
        ] {
            assert_eq!(judge(chain, status, answer), Some(why), "{chain} {answer}");
        }
    }

    // Shows (Nodes and cache).
    #[test]
    fn an_error_of_the_caller_is_not_a_failure_of_the_node() {
        for (chain, status, answer) in [
            ("eth", 200, r#"{"code":3,"message":"execution reverted","data":"0x08c379a0"}"#),
            ("eth", 200, r#"{"code":-32000,"message":"execution reverted"}"#),
            ("eth", 200, r#"{"code":-32603,"message":"Internal error: VM Exception: revert"}"#),
            ("eth", 200, r#"{"code":-32603,"message":"insufficient funds for gas * price + value"}"#),
            ("eth", 200, r#"{"code":-32005,"message":"query returned more than 10000 results"}"#),
            ("eth", 200, r#"{"code":-32602,"message":"invalid argument 0: hex string without 0x prefix"}"#),
            ("eth", 200, r#"{"code":-32000,"message":"nonce too low"}"#),
            ("btc", 500, r#"{"code":-5,"message":"No such mempool or blockchain transaction"}"#),
            ("btc", 500, r#"{"code":-8,"message":"Block height out of range"}"#),
            ("xrp", 200, r#"{"error":"actNotFound","status":"error"}"#),
            ("xrp", 200, r#"{"error":"invalidParams","status":"error"}"#),
            ("near", 200, r#"{"name":"HANDLER_ERROR","cause":{"name":"UNKNOWN_ACCOUNT"},"code":-32000}"#),
            ("solana", 200, r#"{"code":-32602,"message":"invalid params"}"#),
            ("solana", 200, r#"{"code":-32007,"message":"Slot 9 was skipped"}"#),
            ("sui", 200, r#"{"code":-32602,"message":"Could not find the referenced object"}"#),
            ("cosmos", 404, r#"{"code":5,"message":"account cosmos1 not found"}"#),
            ("cosmos", 500, r#"{"code":2,"message":"decoding bech32 failed"}"#),
            ("aptos", 404, r#"{"message":"Account not found","error_code":"account_not_found"}"#),
            ("tron", 200, r#"{"code":"SIGERROR","message":"53"}"#),
            ("ton", 500, r#"{"ok":false,"error":"LITE_SERVER_UNKNOWN: cannot locate account","code":500}"#),
            ("ton", 416, r#"{"ok":false,"error":"Incorrect address","code":416}"#),
            ("cardano", 200, r#"{"code":3117,"message":"unknown UTxO"}"#),
        ] {
            assert_eq!(judge(chain, status, answer), None, "{chain} {answer}");
        }
        let unlisted = NodeError {
            answer: br#"{"code":-32601,"message":"the method my_own does not exist"}"#,
            status: 200,
            is_listed: false,
        };
        let why = by_path("eth").unwrap().cannot_serve(&unlisted);
        assert_eq!(why, Some(Unserved::UnknownMethod), "perhaps the caller's invention");
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_block_that_a_node_does_not_have_is_known_by_its_number() {
        let missing = |chain: &str, method: &str, params: &str, answer: &str| {
            let adapter = by_path(chain).unwrap();
            let chain = rpcgate_core::chain::Chain::deployed(adapter);
            let rule = chain.look_up(method).rule;
            let call = rpcgate_core::call::CallView::new(chain.name(), method, rule);
            chain.adapter().missing_block(call.with_params(params.as_bytes()), answer.as_bytes())
        };
        assert_eq!(missing("eth", "eth_getBlockByNumber", r#"["0x10",false]"#, "null"), Some(16));
        assert_eq!(missing("bsc", "eth_getBlockReceipts", r#"["0x10"]"#, " null "), Some(16));
        assert_eq!(
            missing("eth", "eth_getTransactionByBlockNumberAndIndex", r#"["0x10","0x0"]"#, "null"),
            Some(16)
        );
        assert_eq!(missing("eth", "eth_getBlockByNumber", r#"["0x10",false]"#, "{}"), None);
        assert_eq!(missing("eth", "eth_getBlockByNumber", r#"["latest",false]"#, "null"), None);
        assert_eq!(missing("eth", "eth_getTransactionByHash", r#"["0x10"]"#, "null"), None);
        let out_of_range = r#"{"code":-8,"message":"Block height out of range"}"#;
        assert_eq!(missing("btc", "getblockhash", "[7]", out_of_range), Some(7));
        assert_eq!(missing("btc", "getblockhash", "[7]", r#"{"code":-8,"message":"other"}"#), None);
    }
}
