//! Faults: failures between the gateway and a node.

use std::fmt;

/// The failure of a call for which no node gave a usable answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The cause.
    pub cause: Cause,
    /// True if any byte of the call may have reached a node. A broadcast must then not be sent again.
    pub sent: bool,
}

/// The cause of a failed call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The chain has no node.
    NoNode,
    /// No connection could be made.
    Connect,
    /// The deadline of the call passed.
    Timeout,
    /// The connection broke before the answer was complete.
    Broken,
    /// The answer is larger than the limit.
    Oversize,
    /// The body is not a valid answer.
    Undecodable,
    /// The node answered with this HTTP status and no usable body, or rejected the gateway itself.
    Status(u16),
    /// The node answered other calls of the set but not this one.
    Unanswered,
}

/// The party that can repair a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultOwner {
    /// The node, or the network between the gateway and the node.
    Node,
    /// The operator of this gateway.
    Operator,
}

impl Fault {
    /// Creates a fault from before anything was sent.
    pub const fn unsent(cause: Cause) -> Self {
        Fault { cause, sent: false }
    }

    /// Creates a fault from after something was, or may have been, sent.
    pub const fn sent(cause: Cause) -> Self {
        Fault { cause, sent: true }
    }

    /// Returns the party that can repair the fault.
    pub const fn owner(self) -> FaultOwner {
        match self.cause {
            Cause::NoNode | Cause::Status(401 | 403 | 429) => FaultOwner::Operator,
            _ => FaultOwner::Node,
        }
    }

    /// Reports whether the same call may be sent to another node: if nothing was sent or it only reads
    /// (`is_idempotent`), except after a passed deadline or with an answer that is too large.
    pub const fn may_retry(self, is_idempotent: bool) -> bool {
        match self.cause {
            Cause::NoNode | Cause::Timeout | Cause::Oversize => false,
            _ => !self.sent || is_idempotent,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::NoNode => f.write_str("no node to ask"),
            Cause::Connect => f.write_str("no connection to the node"),
            Cause::Timeout => f.write_str("no answer in time"),
            Cause::Broken => f.write_str("connection broke before the answer was complete"),
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
    fn a_failure_that_another_node_cannot_repair_is_not_retried() {
        for cause in [Cause::Timeout, Cause::Oversize, Cause::NoNode] {
            assert!(!Fault::sent(cause).may_retry(true), "{cause:?}");
        }
    }

    #[test]
    fn a_node_that_refuses_the_gateway_is_the_operators_matter() {
        assert_eq!(Fault::sent(Cause::Status(429)).owner(), FaultOwner::Operator);
        assert_eq!(Fault::sent(Cause::Status(500)).owner(), FaultOwner::Node);
    }
}
