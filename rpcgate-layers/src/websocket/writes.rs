//! Coalesced writes of a stream. Frames are written in one turn of the runtime with the frames of other streams, so
//! that a node or client that waits for many of them wakes up once ([decision
//! 12](https://github.com/rpcgate/rpcgate/blob/main/docs/decisions/0012-answers-leave-together.md)).

use super::close::CloseReason;
use super::link::{COALESCED, Link, SMALL, Side};
use crate::coalesce::Coalesce;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The writes of one stream. Frames wait in their [`Side`] until their turn. Bytes that the connection does not accept
/// then are written once it is writable.
#[derive(Default)]
pub(super) struct StreamWrites {
    client: SideWrites,
    node: SideWrites,
    /// True if a side with a large queue was flushed since the directions were last notified.
    is_drained: bool,
}

pub(super) enum Due {
    /// Frames wait for their turn, which wakes the task soon. Until then its other futures need no poll.
    Later,
    /// All due frames were written if possible. `is_drained` is true if a direction may have waited for that.
    Written { is_drained: bool },
    /// A connection is broken.
    Broken(CloseReason),
}

impl StreamWrites {
    pub(super) fn poll_due(&mut self, link: &Link, cx: &mut Context<'_>) -> Due {
        let Ok(is_client_drained) = self.client.poll_due(&link.client, cx) else {
            return Due::Broken(CloseReason::ClientLost);
        };
        if is_client_drained {
            let queued = link.client.writer.lock().queued();
            link.backlog.lock().keep(if queued > SMALL { queued } else { 0 });
        }
        let Ok(is_node_drained) = self.node.poll_due(&link.node, cx) else {
            return Due::Broken(CloseReason::NodeLost);
        };
        self.is_drained |= is_client_drained || is_node_drained;
        if self.client.turn.is_some() || self.node.turn.is_some() {
            return Due::Later;
        }
        Due::Written { is_drained: std::mem::take(&mut self.is_drained) }
    }

    /// Schedules a turn for newly queued frames. The turn wakes the task.
    pub(super) fn begin(&mut self, link: &Link, cx: &mut Context<'_>) {
        self.client.begin(&link.client, cx);
        self.node.begin(&link.node, cx);
    }
}

#[derive(Default)]
struct SideWrites {
    turn: Option<Coalesce>,
    /// True if the connection is full. It wakes the task once it is writable.
    is_blocked: bool,
}

impl SideWrites {
    /// Writes if due. Returns whether a direction may have waited for that.
    fn poll_due(&mut self, side: &Side, cx: &mut Context<'_>) -> io::Result<bool> {
        match &mut self.turn {
            Some(turn) => {
                if Pin::new(turn).poll(cx).is_pending() {
                    return Ok(false);
                }
                self.turn = None;
            }
            None if self.is_blocked => {}
            None => return Ok(false),
        }
        let mut writer = side.writer.lock();
        let is_waited_for = self.is_blocked || writer.queued() > COALESCED;
        self.is_blocked = match writer.poll_flush(cx) {
            Poll::Ready(written) => written.map(|()| false)?,
            Poll::Pending => true,
        };
        Ok(is_waited_for)
    }

    fn begin(&mut self, side: &Side, cx: &mut Context<'_>) {
        if self.turn.is_none() && !self.is_blocked && !side.writer.lock().is_flushed() {
            let turn = self.turn.insert(Coalesce::prompt());
            let _ = Pin::new(turn).poll(cx);
        }
    }
}
