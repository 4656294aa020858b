//! Calls on a stream that create or use state at its node, such as a filter. Ids have the same form as over HTTP, so
//! that a client can use an id over both transports at the same node.

use super::messages::Messages;
use crate::nodes::node_digits::NodeDigits;
use crate::nodes::node_state::{named_node, uses_state};
use rpcgate_core::call::{AtNode, CallState};
use rpcgate_core::envelope::{Replies, ReplyMembers, replies};
use rpcgate_core::json::DEEPEST;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;

impl Messages {
    /// Refuses the calls that use another node's state, and binds the others to the node of the stream.
    pub(super) fn hold_states(&self, tally: &mut Tally) {
        let Tally { entries, body, chain, .. } = tally;
        for entry in entries.iter_mut().filter(|entry| entry.is_open() && uses_state(&entry.call)) {
            let own = self.node.config.digits;
            let named = named_node(chain, &entry.call, body).filter(|(digits, _)| *digits == own);
            match (named, u16::try_from(self.node.index.get())) {
                (Some((_, name)), Ok(node)) => entry.call.at_node = Some(Box::new(AtNode { node, name })),
                _ => entry.state = CallState::Refused(Refusal::FilterNotFound),
            }
        }
    }

    /// Returns a whole message of the node in which the ids created by its calls name the node; `None` if there are no
    /// such ids.
    pub(super) fn with_named_ids(&self, message: &[u8]) -> Option<Vec<u8>> {
        if !self.pending.has_makers() {
            return None;
        }
        let items = match replies(message, DEEPEST).ok()? {
            Replies::Single(item) => vec![item],
            Replies::Many(items) => items,
        };
        let digits = self.node.config.digits;
        let is_named = |item: &ReplyMembers| {
            let result = item.result.filter(|result| digits.name(result.of(message)).is_some())?;
            let is_made = item.id.is_some_and(|id| self.pending.is_maker(id.of(message)));
            is_made.then_some(result.start() + NodeDigits::AT)
        };
        let offsets: Vec<usize> = items.iter().filter_map(is_named).collect();
        if offsets.is_empty() {
            return None;
        }
        let mut text = Vec::with_capacity(message.len() + offsets.len() * NodeDigits::LEN);
        let mut from = 0;
        for offset in offsets {
            text.extend_from_slice(message.get(from..offset).unwrap_or_default());
            text.extend_from_slice(digits.as_bytes());
            from = offset;
        }
        text.extend_from_slice(message.get(from..).unwrap_or_default());
        Some(text)
    }
}
