//! Errors of nodes that no longer have the requested data, or that have a transaction already.

/// The length of the searched start of an error.
const LOOKED_AT: usize = 4 << 10;

/// Reports whether an error contains one of these texts, ignoring ASCII case.
pub(crate) fn says(error: &[u8], texts: &[&str]) -> bool {
    let error = error.get(..LOOKED_AT).unwrap_or(error);
    texts.iter().any(|text| error.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_path;

    #[test]
    fn a_text_is_found_in_any_case_at_the_beginning_of_an_error() {
        assert!(says(b"{\"message\":\"Pruned History unavailable\"}", &["x", "pruned history"]));
        assert!(!says(b"{}", &["pruned"]) && !says(b"", &["pruned"]));
        let late = [vec![b' '; LOOKED_AT], b"pruned".to_vec()].concat();
        assert!(!says(&late, &["pruned"]));
    }

    #[test]
    fn nodes_that_already_have_a_transaction_are_recognised() {
        let knows =
            |chain: &str, answer: &str| by_path(chain).unwrap().is_known_transaction(answer.as_bytes());
        for (chain, answer) in [
            ("eth", r#"{"code":-32000,"message":"already known"}"#),
            ("polygon", r#"{"code":-32000,"message":"Known transaction"}"#),
            ("bsc", r#"{"code":-32010,"message":"Transaction with the same hash was already imported."}"#),
            ("btc", r#"{"code":-27,"message":"Transaction already in block chain"}"#),
            ("ltc", r#"{"code":-26,"message":"txn-already-in-mempool"}"#),
            (
                "solana",
                r#"{"code":-32002,"message":"Transaction simulation failed: This transaction has already been processed"}"#,
            ),
            ("cosmos", r#"{"code":-32603,"data":"tx already exists in cache"}"#),
            ("tron", r#"{"code":"DUP_TRANSACTION_ERROR","message":"44"}"#),
        ] {
            assert!(knows(chain, answer), "{chain} {answer}");
        }
        for (chain, answer) in [
            ("eth", r#"{"code":-32000,"message":"nonce too low"}"#),
            ("eth", r#"{"code":-32000,"message":"replacement transaction underpriced"}"#),
            ("btc", r#"{"code":-25,"message":"bad-txns-inputs-missingorspent"}"#),
            ("near", r#"{"message":"already known"}"#),
        ] {
            assert!(!knows(chain, answer), "{chain} {answer}");
        }
    }

    #[test]
    fn all_messages_of_nodes_without_history_are_recognised() {
        let lacks = |chain: &str, answer: &str| by_path(chain).unwrap().lacks_history(answer.as_bytes());
        for (chain, answer) in [
            (
                "eth",
                r#"{"code":-32000,"message":"missing trie node 1a (path ) state 0x1a is not available, not found"}"#,
            ),
            ("eth", r#"{"code":-32000,"message":"required historical state unavailable (reexec=128)"}"#),
            (
                "eth",
                r#"{"code":-32000,"message":"old data not available due to pruning: requested block 7"}"#,
            ),
            ("eth", r#"{"code":-32002,"message":"No state available for block 7 (0x1a)"}"#),
            ("eth", r#"{"code":4444,"message":"Pruned history unavailable"}"#),
            ("bsc", r#"{"code":-32000,"message":"state at block #7 is pruned"}"#),
            ("polygon", r#"{"code":-32000,"message":"World state unavailable"}"#),
            ("btc", r#"{"code":-1,"message":"Block not available (pruned data)"}"#),
            (
                "solana",
                r#"{"code":-32001,"message":"Block 4 cleaned up, does not exist on node. First available block: 9"}"#,
            ),
            ("solana", r#"{"code":-32011,"message":"Transaction history is not available from this node"}"#),
            (
                "near",
                r#"{"name":"HANDLER_ERROR","cause":{"name":"GARBAGE_COLLECTED_BLOCK","info":{}},"code":-32000}"#,
            ),
            (
                "cosmos",
                r#"{"code":-32603,"message":"Internal error","data":"height 1 is not available, lowest height is 9"}"#,
            ),
            ("aptos", r#"{"message":"Ledger version(5) has been pruned","error_code":"version_pruned"}"#),
            ("xrp", r#"{"error":"lgrNotFound","error_code":21,"status":"error"}"#),
            ("ton", r#"{"ok":false,"error":"LITE_SERVER_NOTREADY: state already gc'd","code":500}"#),
            ("tron", "this API is closed because this node is a lite fullnode"),
        ] {
            assert!(lacks(chain, answer), "{chain} {answer}");
        }
        for (chain, answer) in [
            ("eth", r#"{"code":3,"message":"execution reverted"}"#),
            ("eth", r#"{"code":-32000,"message":"header not found"}"#),
            ("btc", r#"{"code":-5,"message":"Block not found"}"#),
            ("solana", r#"{"code":-32602,"message":"invalid params"}"#),
            ("near", r#"{"cause":{"name":"UNKNOWN_ACCOUNT"}}"#),
            ("aptos", r#"{"error_code":"account_not_found"}"#),
            ("xrp", r#"{"error":"actNotFound","status":"error"}"#),
            ("cardano", r#"{"error":"pruned"}"#),
        ] {
            assert!(!lacks(chain, answer), "{chain} {answer}");
        }
    }
}
