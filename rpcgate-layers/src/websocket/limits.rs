//! The limits of streams.

use std::time::Duration;

/// The limits of streams.
///
/// ```
/// use rpcgate_layers::websocket::StreamLimits;
///
/// assert_eq!(StreamLimits::default().with_calls_per_second(100).calls_per_second, 100);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StreamLimits {
    /// Bytes of one message, in either direction, all its fragments together. A larger one closes the stream with 1009.
    pub max_message: usize,
    /// Bytes that are held for a client which reads slowly, beside one message. While they are held, nothing is read from
    /// the node.
    pub max_backlog: usize,
    /// How often a side that sends nothing is pinged.
    pub ping_interval: Duration,
    /// How long a side may send nothing, pongs included, before the stream is closed. A client that takes longer for one message,
    /// or reads less than 1 KiB/s, is closed as well.
    pub dead_after: Duration,
    /// Calls that a client may send on one stream in a second; 0 for any number. The others are refused.
    pub calls_per_second: u32,
    /// How long a side may take to answer a close frame before its connection is closed. A client that has not read all
    /// messages yet gets the close frame after them: it has up to `dead_after` as long as it reads. If it reads nothing for
    /// `close_wait`, the connection ends without a close frame.
    pub close_wait: Duration,
    /// Streams that may be open at a time; a handshake beyond them is refused with 503. A project may always have an eighth of
    /// them, and more only as long as a 32nd stays free.
    pub max_open: u32,
}

impl Default for StreamLimits {
    /// 16 MiB for a message, 4 MiB for a slow client, a ping after 30 s, an end after 60 s, any number of calls, 5 s for an
    /// answer to a close frame, and 16,384 streams.
    fn default() -> Self {
        StreamLimits {
            max_message: 16 << 20,
            max_backlog: 4 << 20,
            ping_interval: Duration::from_secs(30),
            dead_after: Duration::from_secs(60),
            calls_per_second: 0,
            close_wait: Duration::from_secs(5),
            max_open: 16_384,
        }
    }
}

impl StreamLimits {
    /// The same with another size of a message.
    #[must_use]
    pub const fn with_max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }

    /// The same with another bound on what is held for a slow client.
    #[must_use]
    pub const fn with_max_backlog(mut self, bytes: usize) -> Self {
        self.max_backlog = bytes;
        self
    }

    /// The same with another time after which a quiet side is pinged, and one after which it is given up.
    #[must_use]
    pub const fn with_pings(mut self, interval: Duration, dead_after: Duration) -> Self {
        (self.ping_interval, self.dead_after) = (interval, dead_after);
        self
    }

    /// The same with another number of calls in a second; 0 for any number.
    #[must_use]
    pub const fn with_calls_per_second(mut self, calls: u32) -> Self {
        self.calls_per_second = calls;
        self
    }

    /// The same with another time for the answer to a close frame.
    #[must_use]
    pub const fn with_close_wait(mut self, time: Duration) -> Self {
        self.close_wait = time;
        self
    }

    /// The same with another number of streams that may be open at a time.
    #[must_use]
    pub const fn with_max_open(mut self, streams: u32) -> Self {
        self.max_open = streams;
        self
    }

    /// Whether a project that has `of_project` of the `open` streams may have one more.
    pub(super) fn has_room(&self, open: usize, of_project: u32) -> bool {
        let left = (self.max_open as usize).saturating_sub(open);
        left > 0 && (of_project < self.max_open / 8 || left > self.max_open as usize / 32)
    }

    /// How often a stream looks after its sides.
    pub(super) fn tick(&self) -> Duration {
        (self.ping_interval / 2).min(self.dead_after / 4).max(Duration::from_millis(1))
    }

    /// The ticks without a byte after which a side is pinged, and after which it is dead.
    pub(super) fn silent_ticks(&self) -> (u32, u32) {
        let ticks = |time: Duration| (time.as_nanos() / self.tick().as_nanos().max(1)) as u32;
        // A side may have been heard just after a tick, so it is silent for up to a tick longer than was seen.
        (ticks(self.ping_interval).saturating_sub(1).max(1), ticks(self.dead_after).saturating_sub(1).max(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_side_is_pinged_after_the_interval_and_dead_within_its_time() {
        let limits = StreamLimits::default();
        assert_eq!(limits.tick(), Duration::from_secs(15));
        let (ping, dead) = limits.silent_ticks();
        // Heard at 0, seen at the first tick: the tick numbered `ping` + 1 is the first that pings.
        assert_eq!(
            (limits.tick() * (ping + 1), limits.tick() * (dead + 1)),
            (limits.ping_interval, limits.dead_after)
        );
        let odd = StreamLimits::default().with_pings(Duration::from_secs(10), Duration::from_secs(15));
        let (ping, dead) = odd.silent_ticks();
        assert!(ping < dead && odd.tick() * (dead + 1) <= Duration::from_secs(15), "{ping} {dead}");
    }
}
