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
    /// The maximum number of bytes of one message with all its fragments, in either direction. A larger message closes
    /// the stream with 1009.
    pub max_message: usize,
    /// The maximum number of bytes buffered for a slow client, in addition to one message. While the buffer is full,
    /// nothing is read from the node.
    pub max_backlog: usize,
    /// The time without data after which a side is pinged.
    pub ping_interval: Duration,
    /// The time without data, pongs included, after which the stream is closed. A client is also closed if it takes
    /// longer for one message, or reads less than 1 KiB/s.
    pub dead_after: Duration,
    /// The maximum number of calls per second from the client of one stream; 0 means no limit. Further calls are
    /// refused.
    pub calls_per_second: u32,
    /// The maximum time for the answer to a close frame, after which the connection is closed. A client with unread
    /// messages gets the close frame after them: it has up to `dead_after` while it keeps reading. If it reads nothing
    /// for `close_wait`, the connection ends without a close frame.
    pub close_wait: Duration,
    /// The maximum number of open streams. A handshake beyond it is refused with 503. A project may always have an
    /// eighth of them, and more only while more than a 32nd is free.
    pub max_open: u32,
}

impl Default for StreamLimits {
    /// 16 MiB per message, 4 MiB for a slow client, a ping after 30 s, an end after 60 s, no limit on calls, 5 s for
    /// the answer to a close frame, and 16,384 streams.
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
    /// Sets the maximum size of a message in bytes.
    #[must_use]
    pub const fn with_max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }

    /// Sets the maximum number of bytes buffered for a slow client.
    #[must_use]
    pub const fn with_max_backlog(mut self, bytes: usize) -> Self {
        self.max_backlog = bytes;
        self
    }

    /// Sets the times after which a silent side is pinged and given up.
    #[must_use]
    pub const fn with_pings(mut self, interval: Duration, dead_after: Duration) -> Self {
        (self.ping_interval, self.dead_after) = (interval, dead_after);
        self
    }

    /// Sets the maximum number of calls per second; 0 means no limit.
    #[must_use]
    pub const fn with_calls_per_second(mut self, calls: u32) -> Self {
        self.calls_per_second = calls;
        self
    }

    /// Sets the maximum time for the answer to a close frame.
    #[must_use]
    pub const fn with_close_wait(mut self, time: Duration) -> Self {
        self.close_wait = time;
        self
    }

    /// Sets the maximum number of open streams.
    #[must_use]
    pub const fn with_max_open(mut self, streams: u32) -> Self {
        self.max_open = streams;
        self
    }

    /// Reports whether a project with `of_project` of the `open` streams may have one more.
    pub(super) fn has_capacity(&self, open: usize, of_project: u32) -> bool {
        let left = (self.max_open as usize).saturating_sub(open);
        left > 0 && (of_project < self.max_open / 8 || left > self.max_open as usize / 32)
    }

    /// Returns the interval at which a stream checks its sides.
    pub(super) fn tick(&self) -> Duration {
        (self.ping_interval / 2).min(self.dead_after / 4).max(Duration::from_millis(1))
    }

    /// Returns the numbers of silent ticks after which a side is pinged, and after which it is dead.
    pub(super) fn silent_ticks(&self) -> (u32, u32) {
        let ticks = |time: Duration| (time.as_nanos() / self.tick().as_nanos().max(1)) as u32;
        // Data may have arrived just after a tick, so the silence is up to one tick longer than observed.
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
        // Data arrives at 0 and is seen at the first tick, so tick `ping` + 1 is the first that pings.
        assert_eq!(
            (limits.tick() * (ping + 1), limits.tick() * (dead + 1)),
            (limits.ping_interval, limits.dead_after)
        );
        let odd = StreamLimits::default().with_pings(Duration::from_secs(10), Duration::from_secs(15));
        let (ping, dead) = odd.silent_ticks();
        assert!(ping < dead && odd.tick() * (dead + 1) <= Duration::from_secs(15), "{ping} {dead}");
    }
}
