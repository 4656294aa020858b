//! A response being written: its own text, and large results that it shares with the cache and with other responses
//! instead of copying them.

use bytes::Bytes;

/// The minimum size of a shared result in bytes. Copying a smaller one is faster than sending it as a separate piece.
const SHARED: usize = 16 << 10;

#[derive(Debug, Default)]
pub(super) struct Pieces {
    done: Vec<Bytes>,
    done_len: usize,
    /// The text being written, after the complete pieces.
    pub(super) text: Vec<u8>,
}

impl Pieces {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Pieces { text: Vec::with_capacity(bytes), ..Pieces::default() }
    }

    pub(super) const fn shares(bytes: usize) -> bool {
        bytes >= SHARED
    }

    pub(super) fn len(&self) -> usize {
        self.done_len + self.text.len()
    }

    /// Adds a content. A small content is copied.
    pub(super) fn content(&mut self, content: &Bytes) {
        if !Self::shares(content.len()) {
            return self.text.extend_from_slice(content);
        }
        if !self.text.is_empty() {
            self.done_len += self.text.len();
            self.done.push(std::mem::take(&mut self.text).into());
        }
        self.done_len += content.len();
        self.done.push(content.clone());
    }

    pub(super) fn split(mut self) -> (Bytes, Vec<Bytes>) {
        if self.done.is_empty() {
            return (self.text.into(), self.done);
        }
        if !self.text.is_empty() {
            self.done.push(self.text.into());
        }
        let first = self.done.remove(0);
        (first, self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_contents_are_copied_and_large_ones_shared_in_order() {
        let small = Bytes::from_static(b"12");
        let large = Bytes::from(vec![b'x'; SHARED]);
        let mut pieces = Pieces::default();
        pieces.text.push(b'[');
        pieces.content(&small);
        pieces.content(&large);
        pieces.content(&large);
        pieces.text.push(b']');
        assert_eq!(pieces.len(), 4 + 2 * SHARED);
        let (first, rest) = pieces.split();
        assert_eq!((first, &rest[2][..]), (Bytes::from_static(b"[12"), &b"]"[..]));
        assert!(rest[..2].iter().all(|piece| piece.as_ptr() == large.as_ptr()), "no byte of it is copied");
    }

    #[test]
    fn a_small_answer_is_one_piece() {
        let mut pieces = Pieces::with_capacity(8);
        pieces.content(&Bytes::from_static(b"1"));
        assert_eq!(pieces.split(), (Bytes::from_static(b"1"), vec![]));
    }
}
