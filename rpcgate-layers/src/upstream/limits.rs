use std::time::Duration;

/// The limits of answers: the memory of a buffered one, and the size and time of a streamed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReplyLimits {
    /// The maximum size of a buffered answer to a single call, in bytes. A larger one is streamed to the client, and is
    /// never cached.
    pub buffer: usize,
    /// The maximum size in bytes of an answer that must be buffered as a whole: to a node request with several calls,
    /// or to a call that may be cached. A larger one is a backend failure.
    pub max: usize,
    /// The maximum size of a streamed answer in bytes. Beyond it, the connection to the client is closed.
    pub stream_max: u64,
    /// The maximum time from the first byte of a streamed answer to its last. After it, the connection to the client is
    /// closed.
    pub stream_time: Duration,
}

impl Default for ReplyLimits {
    /// Returns limits of 256 KiB and 64 MiB, and for streams of 4 GiB and 15 minutes.
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
    /// Sets the maximum size of a buffered answer in bytes.
    #[must_use]
    pub const fn with_buffer(mut self, buffer: usize) -> Self {
        self.buffer = buffer;
        self
    }

    /// Sets the maximum size in bytes of an answer that must be buffered as a whole.
    #[must_use]
    pub const fn with_max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// Sets the maximum size and time of streamed answers.
    #[must_use]
    pub const fn with_streams(mut self, bytes: u64, time: Duration) -> Self {
        (self.stream_max, self.stream_time) = (bytes, time);
        self
    }
}

impl ReplyLimits {
    /// Returns the buffer limit in bytes. `is_held`: the answer must be buffered as a whole.
    pub(super) fn buffer(&self, is_held: bool) -> usize {
        if is_held { self.max } else { self.buffer }
    }
}
