use crate::nodes::NodeRequestError;
use rpcgate_core::call::CallState;
use rpcgate_core::refusal::Refusal;

pub(super) fn unanswered(error: NodeRequestError) -> CallState {
    match error {
        NodeRequestError::Fault(fault) => CallState::Failed(fault),
        NodeRequestError::AtLimit => CallState::Refused(Refusal::NodesAtLimit),
        NodeRequestError::Busy => CallState::Refused(Refusal::Overloaded),
    }
}
