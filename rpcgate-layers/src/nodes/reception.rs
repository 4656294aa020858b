//! The result of sending a transaction to a node.

use rpcgate_core::chain::Chain;
use rpcgate_core::envelope::{Replies, replies};
use rpcgate_core::json::DEEPEST;
use std::sync::Arc;

/// The result of sending a transaction to a node, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reception {
    Taken,
    /// The node already had the transaction, from another node or from the same client.
    Known,
    Rejected,
}

#[derive(Clone, Debug)]
pub(crate) struct ReceptionReader {
    pub(crate) chain: Arc<Chain>,
    pub(crate) is_rest: bool,
}

impl ReceptionReader {
    /// Reads the result from an answer with this body. `is_success`: the HTTP status is a success.
    pub(super) fn read(&self, is_success: bool, body: &[u8]) -> Reception {
        let adapter = self.chain.adapter();
        let failed = |error: &[u8]| {
            if adapter.is_known_transaction(error) { Reception::Known } else { Reception::Rejected }
        };
        if self.is_rest {
            let is_error = !is_success || adapter.is_error(body);
            return if is_error { failed(body) } else { Reception::Taken };
        }
        let Ok(Replies::Single(reply)) = replies(body, DEEPEST) else { return Reception::Rejected };
        match (reply.error, reply.result) {
            (Some(error), _) => failed(error.of(body)),
            (None, Some(result)) if adapter.is_error(result.of(body)) => failed(result.of(body)),
            (None, _) => Reception::Taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::toy::Toy;

    #[test]
    fn a_node_has_taken_a_transaction_or_knew_it_or_rejects_it() {
        let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
        let read = |is_rest, is_success, body: &str| {
            ReceptionReader { chain: chain.clone(), is_rest }.read(is_success, body.as_bytes())
        };
        for (body, expected) in [
            (r#"{"id":1,"result":"0x1"}"#, Reception::Taken),
            (r#"{"id":1,"error":{"code":-1,"message":"already known"}}"#, Reception::Known),
            (r#"{"id":1,"error":{"code":-1,"message":"nonce too low"}}"#, Reception::Rejected),
            ("oh", Reception::Rejected),
        ] {
            assert_eq!(read(false, true, body), expected, "{body}");
        }
        assert_eq!(read(true, true, "{}"), Reception::Taken);
        assert_eq!(read(true, false, "already known"), Reception::Known);
        assert_eq!(read(true, false, "{}"), Reception::Rejected);
    }
}
