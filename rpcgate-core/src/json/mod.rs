//! JSON text read in place: where a value starts and ends, never a tree of it.
//!
//! What is accepted is RFC 8259 to the letter: UTF-8 throughout, well-formed escapes, no control characters in
//! strings, no leading zeros, nothing after the value, no byte order mark. Nesting is bounded and costs no stack.
//! An escape of a lone surrogate is well-formed, so it passes in a value that is only stepped over; it has no
//! meaning as text, so [`unescape`] refuses it.

mod cursor;
mod text;

use std::fmt;
use std::ops::Range;

pub use cursor::{Cursor, DEEPEST};
pub use text::{Text, unescape, write_string};

/// A piece of a body: where it starts and how long it is, in bytes. Bodies are below 4 GiB.
///
/// ```
/// use rpcgate_core::json::Span;
///
/// let span = Span::new(1, 3);
/// assert_eq!(span.of(b"[42]"), b"42");
/// assert_eq!(span.of(b"["), b"");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// The bytes from `start` up to, not including, `end`; empty if `end` is not after `start`.
    /// Offsets beyond 4 GiB are cut to it.
    #[inline]
    pub const fn new(start: usize, end: usize) -> Self {
        let start = offset(start);
        Span {
            start,
            len: offset(end).saturating_sub(start),
        }
    }

    /// Offset of the first byte.
    #[inline]
    pub const fn start(self) -> usize {
        self.start as usize
    }

    /// Offset after the last byte.
    #[inline]
    pub const fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// Number of bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there is no byte in it.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The bytes themselves. Empty if the span reaches beyond `body`, which is then not the body it was made from.
    #[inline]
    pub fn of(self, body: &[u8]) -> &[u8] {
        body.get(self.range()).unwrap_or_default()
    }

    /// The same as a range of offsets, as `bytes::Bytes::slice` takes it.
    #[inline]
    pub const fn range(self) -> Range<usize> {
        self.start()..self.end()
    }
}

const fn offset(at: usize) -> u32 {
    if at > u32::MAX as usize {
        u32::MAX
    } else {
        at as u32
    }
}

/// The body is not what it must be; `offset` is the first byte at which that shows, the body's length if it ends
/// too soon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    offset: u32,
}

impl SyntaxError {
    /// An error that shows at this byte.
    #[inline]
    pub const fn at(at: usize) -> Self {
        SyntaxError { offset: offset(at) }
    }

    /// Where it shows, in bytes from the start.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed JSON at byte {}", self.offset)
    }
}

impl std::error::Error for SyntaxError {}
