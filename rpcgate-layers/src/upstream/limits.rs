//! How much of an answer is held in memory, and how long and large a streamed one may be.

use std::time::Duration;

/// How much of an answer is held in memory, and how long and large a streamed one may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReplyLimits {
    /// Bytes of the answer to a set of one. A larger one passes to the client as it comes, and is never cached.
    pub buffer: usize,
    /// Bytes of an answer that must be held whole: that to a node request for several calls, or to a call that may be cached.
    /// A larger one is a backend failure.
    pub max: usize,
    /// Bytes of an answer that is streamed. The connection to the client of a larger one is cut.
    pub stream_max: u64,
    /// The time from the first byte of a streamed answer to its last. After it, the connection to the client is cut.
    pub stream_time: Duration,
}

impl Default for ReplyLimits {
    /// 256 KiB and 64 MiB; streams of 4 GiB and 15 minutes.
    fn default() -> Self {
        ReplyLimits {
            buffer: 256 << 10,
            max: 64 << 20,
            stream_max: 4 << 30,
            stream_time: Duration::from_secs(15 * 60),
        }
    }
}

impl ReplyLimits {
    /// The same with another number of bytes that are buffered.
    #[must_use]
    pub const fn with_buffer(mut self, buffer: usize) -> Self {
        self.buffer = buffer;
        self
    }

    /// The same with another largest size in bytes.
    #[must_use]
    pub const fn with_max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// The same with another size and time of streamed answers.
    #[must_use]
    pub const fn with_streams(mut self, bytes: u64, time: Duration) -> Self {
        (self.stream_max, self.stream_time) = (bytes, time);
        self
    }
}

impl ReplyLimits {
    /// Bytes to buffer of an answer; `is_held`: it must be held whole.
    pub(super) fn buffer(&self, is_held: bool) -> usize {
        if is_held { self.max } else { self.buffer }
    }
}
