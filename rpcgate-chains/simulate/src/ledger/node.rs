//! The part of a node that every chain has: a ledger that follows the time, and the log of its submissions.

use super::{Ledger, LedgerState};
use crate::{GrpcFailure, NodeReply, Simulated, SimulatedRequest, SimulatedStreams, Submission};
use rpcgate_core::clock::Time;

/// A node that answers from a ledger.
pub(crate) trait LedgerNode: Send + std::fmt::Debug {
    type State: LedgerState;

    fn ledger(&self) -> &Ledger<Self::State>;

    fn ledger_mut(&mut self) -> &mut Ledger<Self::State>;

    /// Answers an HTTP request, after the ledger advanced to `now`.
    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply;

    /// Answers a gRPC call, after the ledger advanced to `now`.
    fn respond_grpc(&mut self, path: &str, _message: &[u8], _now: Time) -> Result<Vec<u8>, GrpcFailure> {
        Err(GrpcFailure::unimplemented(format!("unknown method {path}")))
    }

    fn web_socket(&mut self) -> Option<&mut dyn SimulatedStreams> {
        None
    }
}

impl<N: LedgerNode> Simulated for N {
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.ledger_mut().begin(now);
        self.respond(request, now)
    }

    fn handle_grpc(&mut self, path: &str, message: &[u8], now: Time) -> Result<Vec<u8>, GrpcFailure> {
        self.ledger_mut().begin(now);
        self.respond_grpc(path, message, now)
    }

    fn height(&self, now: Time) -> u64 {
        self.ledger().height(now)
    }

    fn streams(&mut self) -> Option<&mut dyn SimulatedStreams> {
        self.web_socket()
    }

    fn submitted(&mut self) -> Vec<Submission> {
        self.ledger_mut().submissions.newest()
    }

    fn replay(&mut self, past: &[Submission]) {
        self.ledger_mut().replay(past);
    }
}

/// Implements the two getters of [`LedgerNode`] for a node whose ledger is its field `chain`.
macro_rules! ledger_of {
    ($state:ty) => {
        type State = $state;

        fn ledger(&self) -> &$crate::ledger::Ledger<$state> {
            &self.chain
        }

        fn ledger_mut(&mut self) -> &mut $crate::ledger::Ledger<$state> {
            &mut self.chain
        }
    };
}
pub(crate) use ledger_of;
