//! How much of an answer is held in memory.

/// How much of an answer is held in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReplyLimits {
    /// Bytes of the answer to a set of one. A larger one passes to the client as it comes, and is never cached.
    pub buffer: usize,
    /// Bytes of an answer that must be held whole: that to a node request for several calls, or to a call that may be cached.
    /// A larger one is a backend failure.
    pub max: usize,
}

impl Default for ReplyLimits {
    /// 256 KiB and 64 MiB.
    fn default() -> Self {
        ReplyLimits { buffer: 256 << 10, max: 64 << 20 }
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
}

impl ReplyLimits {
    /// Bytes to buffer of an answer; `is_held`: it must be held whole.
    pub(super) fn buffer(&self, is_held: bool) -> usize {
        if is_held { self.max } else { self.buffer }
    }
}
