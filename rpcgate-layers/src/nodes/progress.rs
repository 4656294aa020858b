//! How far a call has got: this decides whether it is charged and whether it may be tried again.

use super::in_flight::InFlightPermit;
use super::node::NodeIndex;
use rpcgate_core::fault::Fault;
use rpcgate_core::node_try::NodeTries;

/// Is notified whether a byte of a call may have reached a node: `true` when the first byte is about to be written, and `false`
/// if it turns out that none was.
pub(crate) type OnSent<'s> = dyn FnMut(bool) + Send + 's;

/// How far a call has got, over all its tries.
pub(crate) struct CallProgress<'s> {
    /// Whether a byte of it may have reached a node.
    pub(crate) sent: bool,
    /// The node that has it.
    pub(crate) node: Option<NodeIndex>,
    /// Its permit among the calls in flight. A body that is streamed takes it along.
    pub(crate) permit: Option<InFlightPermit>,
    /// The error of the first answer that was unusable.
    pub(crate) bad_answer: Option<Fault>,
    /// Whether a failure of its last try is that of several calls in one array, of which another reports it for the node.
    pub(crate) is_shared_failure: bool,
    /// What explains its tries.
    pub(crate) tries: &'s mut NodeTries,
    on_sent: &'s mut OnSent<'s>,
}

impl<'s> CallProgress<'s> {
    pub(crate) fn new(
        permit: Option<InFlightPermit>,
        on_sent: &'s mut OnSent<'_>,
        tries: &'s mut NodeTries,
    ) -> Self {
        let (node, bad_answer) = (None, None);
        CallProgress { sent: false, node, permit, bad_answer, is_shared_failure: false, tries, on_sent }
    }

    pub(crate) fn set_sent(&mut self, is_sent: bool) {
        if self.sent != is_sent {
            self.sent = is_sent;
            (self.on_sent)(is_sent);
        }
    }
}
