//! The periodic work of a stream: records due usage, pings silent sides and gives up dead ones.

use super::close::CloseReason;
use super::limits::StreamLimits;
use super::link::{Link, OWN_PING, Side};
use super::poll_when_woken::{PartsTask, PollWhenWoken};
use bytes::Bytes;
use fastwebsockets::OpCode;
use rpcgate_core::stream_tally::SUMMED;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The minimum read rate of a client with queued data, in bytes per second.
const SLOWEST: u64 = 1_024;

/// The upkeep of one stream. It has one timer, which is polled only after it has fired, because the task is polled
/// several times per message.
pub(super) struct Upkeep {
    timer: PollWhenWoken<Pin<Box<Sleep>>>,
    next_tick: Instant,
    /// The time at which calls and pushes must be recorded, if some wait.
    flush: Option<Instant>,
    /// The deadline for the answer to a close frame, if one side has sent one.
    give_up: Option<Instant>,
    client: Seen,
    node: Seen,
    /// The number of complete client messages at the last tick.
    received: u64,
    /// The number of ticks in which a message of the client was not completed.
    unfinished: u32,
}

#[derive(Default)]
struct Seen {
    /// The number of ticks without data from the side.
    silent: u32,
    /// The number of bytes that the side had accepted.
    taken: u64,
    /// The number of bytes queued for the side.
    queued: u64,
    /// The number of ticks in which it accepted almost nothing.
    slow: u32,
}

impl Upkeep {
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

    pub(super) fn is_woken(&self) -> bool {
        self.timer.is_woken()
    }

    /// Returns the reason once the stream has to end. Poll it also after every poll of a direction.
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

    /// Lets the timer fire after this time at the latest. Returns the time of that.
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

    fn tick(&mut self, link: &Link) -> Option<CloseReason> {
        if link.is_half_closed() {
            return None;
        }
        // Each stream has its own ticks, so the clients do not all reconnect at once.
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
    /// Pings the side if it is silent. Returns whether it has been silent for too long.
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

    /// Reports whether the side has accepted almost nothing for two ticks although data was queued. `written` is the
    /// total number of bytes accepted and the number of bytes queued. Data queued now may be new and still wait for its
    /// turn, so the data queued at the last tick must still be there.
    fn is_slow(&mut self, written: (u64, u64), tick: Duration) -> bool {
        let taken = written.0 - self.taken;
        let queued = written.1;
        let enough = SLOWEST * tick.as_secs().max(1);
        let has_waited = taken < self.queued.min(enough);
        (self.taken, self.queued) = written;
        self.slow = if queued > 0 && taken < enough { self.slow + 1 } else { 0 };
        self.slow >= 2 && has_waited
    }
}

/// Returns the total number of bytes that a side has accepted, and the number of bytes queued for it.
fn written(side: &Side) -> (u64, u64) {
    let writer = side.writer.lock();
    (writer.taken(), writer.queued() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports for each 15-second tick whether a side is slow. A tick is the number of bytes accepted since the last
    /// one, and the number of bytes queued.
    fn slow<const N: usize>(ticks: [(u64, u64); N]) -> [bool; N] {
        let mut seen = Seen::default();
        let mut taken = 0;
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
