//! The form of a chain's answers.

/// The form of the answers of a chain's nodes, which the gateway uses too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Dialect {
    /// JSON-RPC 2.0: a result or an error, never both members.
    JsonRpc2,
    /// NEAR's: JSON-RPC 2.0 whose errors have a `name`, a `cause` and `data` besides.
    Near,
    /// The UTXO daemons' JSON-RPC 1.0: `result`, `error` and `id` always present, one of the first two null.
    Utxo,
    /// The XRP ledger server's: only a `result`, with errors in it; neither version nor id.
    Xrp,
    /// Ogmios': JSON-RPC 2.0 with the method's name in every answer.
    Ogmios,
    /// TonCenter's: `ok` beside `result`, or beside an `error` that is a text and a `code`.
    Ton,
    /// No envelope: an HTTP status, headers and a body.
    Rest,
}

impl Dialect {
    /// The version in the gateway's own calls: the JSON text of their `jsonrpc`. `None`: they have neither
    /// version nor id.
    pub const fn version(self) -> Option<&'static str> {
        match self {
            Dialect::JsonRpc2 | Dialect::Near | Dialect::Ogmios | Dialect::Ton | Dialect::Rest => {
                Some("\"2.0\"")
            }
            Dialect::Utxo => Some("\"1.0\""),
            Dialect::Xrp => None,
        }
    }

    /// Whether the HTTP status of a node's answer is part of it and is forwarded to the client.
    pub const fn has_status(self) -> bool {
        matches!(self, Dialect::Utxo | Dialect::Ton | Dialect::Rest)
    }
}
