//! The form of a chain's answers.

/// The form of the answers of a chain's nodes. The gateway uses it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Dialect {
    /// JSON-RPC 2.0: a result or an error, never both members.
    JsonRpc2,
    /// NEAR: JSON-RPC 2.0 with additional error members `name`, `cause` and `data`.
    Near,
    /// UTXO daemons: JSON-RPC 1.0 with `result`, `error` and `id` always present, and one of the first two null.
    Utxo,
    /// XRP ledger servers: only a `result`, which also contains errors; neither version nor id.
    Xrp,
    /// Ogmios: JSON-RPC 2.0 with the method's name in every answer.
    Ogmios,
    /// TonCenter: `ok` with `result`, or with an `error` text and a `code`.
    Ton,
    /// No envelope: an HTTP status, headers and a body.
    Rest,
}

impl Dialect {
    /// Returns `jsonrpc` in the gateway's own calls, as JSON text. `None` if they have neither version nor id.
    pub const fn version(self) -> Option<&'static str> {
        match self {
            Dialect::JsonRpc2 | Dialect::Near | Dialect::Ogmios | Dialect::Ton | Dialect::Rest => {
                Some("\"2.0\"")
            }
            Dialect::Utxo => Some("\"1.0\""),
            Dialect::Xrp => None,
        }
    }

    /// Reports whether the HTTP status of a node's answer is part of it and is forwarded to the client.
    pub const fn has_status(self) -> bool {
        matches!(self, Dialect::Utxo | Dialect::Ton | Dialect::Rest)
    }
}
