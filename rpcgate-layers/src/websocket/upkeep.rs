//! What a stream does by itself: it records what is due, pings quiet sides and gives up dead ones.

use super::close::CloseReason;
use super::limits::StreamLimits;
use super::link::{Link, OWN_PING, Side};
use super::woken::{PartsTask, Woken};
use bytes::Bytes;
use fastwebsockets::OpCode;
use rpcgate_core::stream_tally::SUMMED;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes a second that a client has to read while something waits for it.
const SLOWEST: u64 = 1_024;

/// The upkeep of one stream. It has a single timer, which is not asked before it has fired: the task is polled several times for
/// each message.
pub(super) struct Upkeep {
    timer: Woken<Pin<Box<Sleep>>>,
    next_tick: Instant,
    /// When calls and pushes have to be recorded, if some wait.
    flush: Option<Instant>,
    /// When the answer to a close frame has to be there, if one side has sent one.
    give_up: Option<Instant>,
    client: Seen,
    node: Seen,
    /// Whole messages of the client at the last tick.
    received: u64,
    /// Ticks in which a message of the client did not become whole.
    unfinished: u32,
}

/// What was seen of one side at the last tick.
#[derive(Default)]
struct Seen {
    /// Ticks without a byte from it.
    silent: u32,
    /// Bytes that it had taken.
    taken: u64,
    /// Bytes that waited for it.
    queued: u64,
    /// Ticks in which it took hardly any.
    slow: u32,
}

impl Upkeep {
    /// The upkeep of a stream, as a part of its task.
    pub(super) fn new(task: &PartsTask, limits: &StreamLimits) -> Self {
        let next_tick = Instant::now() + limits.tick();
        Upkeep {
            timer: task.part(Box::pin(sleep_until(next_tick))),
            next_tick,
            flush: None,
            give_up: None,
            client: Seen::default(),
            node: Seen::default(),
            received: 0,
            unfinished: 0,
        }
    }

    /// Whether its timer has fired.
    pub(super) fn is_woken(&self) -> bool {
        self.timer.is_woken()
    }

    /// Ready when the stream has to end. To be polled after every poll of a direction as well.
    pub(super) fn poll(&mut self, link: &Link) -> Poll<CloseReason> {
        if self.flush.is_none() && link.messages.lock().stream.due().is_some() {
            self.flush = Some(self.wake_after(SUMMED));
        }
        if self.give_up.is_none() && link.is_half_closed() {
            self.give_up = Some(self.wake_after(link.limits.close_wait));
        }
        while self.timer.poll().is_ready() {
            let now = Instant::now();
            if self.flush.take_if(|flush| *flush <= now).is_some() {
                link.messages.lock().stream.flush();
            }
            if self.give_up.is_some_and(|give_up| give_up <= now) {
                let is_client = link.client.has_closed();
                return Poll::Ready(if is_client { CloseReason::Client } else { CloseReason::Node });
            }
            if self.next_tick <= now {
                if let Some(reason) = self.tick(link) {
                    return Poll::Ready(reason);
                }
                self.next_tick = now + link.limits.tick();
            }
            let next = [self.flush, self.give_up].into_iter().flatten().fold(self.next_tick, Instant::min);
            self.reset(next);
        }
        Poll::Pending
    }

    /// Has the timer fire after this time at the latest. Returns when that is.
    fn wake_after(&mut self, time: Duration) -> Instant {
        let at = Instant::now() + time;
        if at < self.timer.get_mut().deadline() {
            self.reset(at);
        }
        at
    }

    fn reset(&mut self, at: Instant) {
        self.timer.get_mut().as_mut().reset(at);
        self.timer.touch();
    }

    /// Looks after both sides.
    fn tick(&mut self, link: &Link) -> Option<CloseReason> {
        if link.is_half_closed() {
            return None;
        }
        // Each stream has ticks of its own, so the clients do not all return at once.
        if link.source.is_out() {
            return Some(CloseReason::NodeDrained);
        }
        let limits = &link.limits;
        let (ping, dead) = limits.silent_ticks();
        if self.client.is_silent(&link.client, ping, dead) {
            return Some(CloseReason::ClientSilent);
        }
        if self.node.is_silent(&link.node, ping, dead) {
            return Some(CloseReason::NodeSilent);
        }
        if self.client.is_slow(written(&link.client), limits.tick()) {
            return Some(CloseReason::SlowReader);
        }
        if self.node.is_slow(written(&link.node), limits.tick()) {
            return Some(CloseReason::NodeSilent);
        }
        let received = link.received.load(Relaxed);
        let is_unfinished = link.client.progress.is_in_message() && received == self.received;
        self.received = received;
        self.unfinished = if is_unfinished { self.unfinished + 1 } else { 0 };
        (self.unfinished > dead).then_some(CloseReason::SlowMessage)
    }
}

impl Seen {
    /// Pings the side if it is quiet. Whether it has been quiet for too long.
    fn is_silent(&mut self, side: &Side, ping: u32, dead: u32) -> bool {
        if side.progress.take_alive() {
            self.silent = 0;
            return false;
        }
        self.silent += 1;
        if self.silent == ping {
            side.send(true, OpCode::Ping, Bytes::from_static(OWN_PING));
        }
        self.silent >= dead
    }

    /// Whether the side has hardly taken anything for two ticks although something waited for it, as its `written` says: the bytes
    /// that it has taken in all, and those that wait. What waits now may have been queued a moment ago, and be written in its turn:
    /// what waited at the last tick must still wait.
    fn is_slow(&mut self, written: (u64, u64), tick: Duration) -> bool {
        let (taken, queued) = (written.0 - self.taken, written.1);
        let enough = SLOWEST * tick.as_secs().max(1);
        let has_waited = taken < self.queued.min(enough);
        (self.taken, self.queued) = written;
        self.slow = if queued > 0 && taken < enough { self.slow + 1 } else { 0 };
        self.slow >= 2 && has_waited
    }
}

/// The bytes that a side has taken in all, and those that wait for it.
fn written(side: &Side) -> (u64, u64) {
    let writer = side.writer.lock();
    (writer.taken(), writer.queued() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a side is slow at each of these ticks, of 15 seconds: the bytes that it has taken since the last one, and those that
    /// wait for it.
    fn slow<const N: usize>(ticks: [(u64, u64); N]) -> [bool; N] {
        let (mut seen, mut taken) = (Seen::default(), 0);
        ticks.map(|(more, queued)| {
            taken += more;
            seen.is_slow((taken, queued), Duration::from_secs(15))
        })
    }

    #[test]
    fn a_side_for_which_the_same_bytes_wait_at_two_ticks_is_slow() {
        assert_eq!(slow([(0, 20), (0, 20)]), [false, true]);
        assert_eq!(slow([(5_000, 20), (0, 40)]), [false, true]);
        assert_eq!(slow([(0, 90_000), (1_000, 89_000)]), [false, true], "much less than 1 KiB/s");
    }

    #[test]
    fn a_side_that_takes_what_waits_is_not_slow_although_something_waits_at_each_tick() {
        assert_eq!(slow([(0, 20), (20, 20), (20, 20), (20, 20)]), [false; 4]);
        assert_eq!(slow([(0, 90_000), (20_000, 70_000), (20_000, 50_000)]), [false; 3]);
        assert_eq!(slow([(0, 20), (20, 0), (0, 20), (20, 0)]), [false; 4]);
    }
}
