//! How far a call has come: what decides whether it is charged and whether it may be repeated.

use super::node::NodeIndex;
use super::slots::Slot;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Hears whether a byte of a call may have reached a node.
pub(super) type Sent<'s> = dyn FnMut(bool) + Send + 's;

/// How far a call got.
pub(super) struct CallProgress<'s> {
    /// Whether a byte of it may have reached a node.
    pub(super) sent: bool,
    /// Whether it is on a connection that served others before and has not shown a sign of life since.
    pub(super) stale: bool,
    /// The node that has it.
    pub(super) node: Option<NodeIndex>,
    /// Its place among the calls under way.
    pub(super) slot: Option<Slot>,
    told: &'s mut Sent<'s>,
}

impl<'s> CallProgress<'s> {
    pub(super) fn new(slot: Option<Slot>, told: &'s mut Sent<'_>) -> Self {
        CallProgress { sent: false, stale: false, node: None, slot, told }
    }

    pub(super) fn set_sent(&mut self, is_sent: bool) {
        if self.sent != is_sent {
            self.sent = is_sent;
            (self.told)(is_sent);
        }
    }
}

/// One call in a node's count of those under way, for as long as the count is borrowed.
pub(super) struct InFlightGuard<'a>(&'a AtomicUsize);

impl<'a> InFlightGuard<'a> {
    pub(super) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        InFlightGuard(count)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
