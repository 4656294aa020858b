//! Why a request to the nodes has no answer.

use rpcgate_core::fault::Fault;
use std::fmt;

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeRequestError {
    /// No node gave a usable answer.
    Fault(Fault),
    /// Every node that might answer has got as many calls as it may get now. The caller refuses the call, to be made again later.
    AtLimit,
    /// This gateway is overloaded: the chain has as many calls in flight as it may have, or no memory is left for the
    /// answer. The caller refuses the call as overloaded.
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
