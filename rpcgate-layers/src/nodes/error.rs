//! Errors of requests to the nodes.

use rpcgate_core::fault::Fault;
use std::fmt;

/// The reason why a request has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeRequestError {
    /// No node gave a usable answer.
    Fault(Fault),
    /// Every node that could answer has reached its limit. The client receives a refusal and may try again later.
    AtLimit,
    /// This gateway is overloaded: the chain has reached its limit of calls in flight, or no memory is left for the
    /// answer. The client receives an overload refusal.
    Busy,
}

impl From<Fault> for NodeRequestError {
    fn from(fault: Fault) -> Self {
        NodeRequestError::Fault(fault)
    }
}

impl fmt::Display for NodeRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeRequestError::Fault(fault) => fault.fmt(f),
            NodeRequestError::AtLimit => f.write_str("all nodes are at their limits"),
            NodeRequestError::Busy => f.write_str("too many calls in flight"),
        }
    }
}

impl std::error::Error for NodeRequestError {}
