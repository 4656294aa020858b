//! Judges a node by an answer that is still arriving.
//!
//! The head of an answer shows nothing, because a node can send heads without messages. The node is judged when the
//! answer ends, or when a second message shows that it is a stream. The end of a stream also depends on the client.

use super::account::AnswerEnd;
use super::status::verdict;
use crate::nodes::node::Node;
use crate::nodes::usefulness::MethodIndex;
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::Fault;
use rpcgate_core::tally::Transport;
use std::sync::Arc;
use std::time::Duration;

/// An answer that has begun and whose node has not been judged.
pub(super) struct AnswerJudge {
    pub(super) node: Arc<Node>,
    pub(super) method: MethodIndex,
    pub(super) clock: Arc<dyn Clock>,
    /// The time at which the call was sent to the node.
    pub(super) since: Duration,
}

impl AnswerJudge {
    /// Records a useful answer after its second message.
    pub(super) fn record_stream(self) {
        // The time of the second message says nothing about the node.
        let usefulness = self.node.health.by(Transport::Grpc).usefulness();
        usefulness.record_usable(self.method, None);
    }

    /// Records the end of the answer. `is_awaited` means that the node had the whole call and sent no message.
    pub(super) fn record(self, end: AnswerEnd, is_awaited: bool) {
        let now = self.clock.elapsed();
        let took = now.saturating_sub(self.since);
        let health = self.node.health.by(Transport::Grpc);
        match end {
            AnswerEnd::Node(status) => {
                health.record_answer(verdict(status, self.method), self.method, Some(took), || now);
            }
            AnswerEnd::Failed(cause) => {
                self.node.health.record_failure(Transport::Grpc, Fault::sent(cause), None, now);
            }
            // Only the method is rated down: a client can open a stream that is silent at every node.
            AnswerEnd::Late | AnswerEnd::Left if is_awaited => {
                health.usefulness().record_method_silence(self.method, took);
            }
            AnswerEnd::Late | AnswerEnd::Left | AnswerEnd::Refused(_) => {}
        }
    }
}
