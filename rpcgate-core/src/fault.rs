//! What broke between the gateway and a node, whose fault it is, and whether another try may help.

use std::fmt;

/// A call that no node answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What happened.
    pub cause: Cause,
    /// Whether any byte of the call may have reached a node: then a broadcast must not be sent again.
    pub sent: bool,
}

/// What happened to a call on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The chain has no node to ask.
    NoNode,
    /// No connection could be made.
    Connect,
    /// The time for the call was up.
    Timeout,
    /// The connection broke before the answer was whole.
    Broken,
    /// The answer is larger than what may be held.
    Oversize,
    /// The answer cannot be read as an answer.
    Undecodable,
    /// The node answered with this HTTP status and no answer, or refused the gateway itself.
    Status(u16),
    /// The node answered other calls of the set but not this one.
    Unanswered,
}

/// Who can do something about a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The node, or the way to it.
    Node,
    /// The operator of this gateway.
    Gateway,
}

impl Fault {
    /// A fault before anything was sent.
    pub const fn unsent(cause: Cause) -> Self {
        Fault { cause, sent: false }
    }

    /// A fault after something was, or may have been, sent.
    pub const fn sent(cause: Cause) -> Self {
        Fault { cause, sent: true }
    }

    /// Who can do something about it.
    pub const fn whose(self) -> Whose {
        match self.cause {
            Cause::NoNode | Cause::Status(401 | 403 | 429) => Whose::Gateway,
            _ => Whose::Node,
        }
    }

    /// Whether the same call may be sent to another node: always when nothing was sent, and for a call that only reads
    /// (`idempotent`) unless its time is up or its answer is too large wherever it comes from.
    pub const fn may_retry(self, idempotent: bool) -> bool {
        match self.cause {
            Cause::NoNode | Cause::Timeout | Cause::Oversize => false,
            _ => !self.sent || idempotent,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::NoNode => f.write_str("no node to ask"),
            Cause::Connect => f.write_str("no connection to the node"),
            Cause::Timeout => f.write_str("no answer in time"),
            Cause::Broken => f.write_str("connection broke before the answer was whole"),
            Cause::Oversize => f.write_str("answer too large"),
            Cause::Undecodable => f.write_str("answer cannot be read"),
            Cause::Status(status) => write!(f, "node answered HTTP status {status}"),
            Cause::Unanswered => f.write_str("node left the call out of its answer"),
        }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_is_sent_again_only_when_nothing_was_sent() {
        assert!(Fault::unsent(Cause::Connect).may_retry(false));
        assert!(!Fault::sent(Cause::Broken).may_retry(false));
        assert!(Fault::sent(Cause::Broken).may_retry(true));
    }

    #[test]
    fn what_another_node_cannot_mend_is_not_retried() {
        for cause in [Cause::Timeout, Cause::Oversize, Cause::NoNode] {
            assert!(!Fault::sent(cause).may_retry(true), "{cause:?}");
        }
    }

    #[test]
    fn a_node_that_refuses_the_gateway_is_the_operators_matter() {
        assert_eq!(Fault::sent(Cause::Status(429)).whose(), Whose::Gateway);
        assert_eq!(Fault::sent(Cause::Status(500)).whose(), Whose::Node);
    }
}
