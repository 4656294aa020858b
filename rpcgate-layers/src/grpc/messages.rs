//! The messages in a body. Each has a compression flag of one byte, a length of four bytes, and its content (gRPC,
//! "PROTOCOL-HTTP2", Length-Prefixed-Message).

/// The number of bytes before each message.
pub(super) const PREFIX: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLarge;

/// Counts the messages in a body that arrives in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    most: usize,
    prefix: [u8; PREFIX],
    /// The number of prefix bytes that have passed.
    passed: usize,
    remaining: usize,
    complete: u64,
}

impl Messages {
    pub(super) fn new(most: usize) -> Self {
        Messages { most, prefix: [0; PREFIX], passed: 0, remaining: 0, complete: 0 }
    }

    /// Passes a piece of the body.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if the prefix of a message announces too many bytes.
    pub(super) fn pass(&mut self, mut piece: &[u8]) -> Result<(), TooLarge> {
        while !piece.is_empty() {
            if self.passed < PREFIX {
                let taken = piece.len().min(PREFIX - self.passed);
                let (head, rest) = piece.split_at(taken);
                self.prefix[self.passed..self.passed + taken].copy_from_slice(head);
                (self.passed, piece) = (self.passed + taken, rest);
                if self.passed < PREFIX {
                    return Ok(());
                }
                let [_, length @ ..] = self.prefix;
                self.remaining = u32::from_be_bytes(length) as usize;
                if self.remaining > self.most {
                    return Err(TooLarge);
                }
            }
            let taken = piece.len().min(self.remaining);
            piece = &piece[taken..];
            self.remaining -= taken;
            if self.remaining == 0 {
                (self.passed, self.complete) = (0, self.complete + 1);
            }
        }
        Ok(())
    }

    pub(super) fn complete(&self) -> u64 {
        self.complete
    }

    /// Reports whether a second message has begun.
    pub(super) fn are_several(&self) -> bool {
        self.complete > 1 || self.complete == 1 && self.passed > 0
    }

    /// Reports whether the last piece ended between two messages.
    pub(super) fn is_between(&self) -> bool {
        self.passed == 0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::grpc) fn message(content: &[u8]) -> Vec<u8> {
        let mut out = vec![0];
        out.extend_from_slice(&(content.len() as u32).to_be_bytes());
        out.extend_from_slice(content);
        out
    }

    #[test]
    fn messages_are_counted_in_pieces_of_any_size() {
        let body = [message(b"one"), message(b""), message(&[7; 300])].concat();
        for size in 1..=body.len() {
            let mut messages = Messages::new(300);
            for piece in body.chunks(size) {
                messages.pass(piece).unwrap();
            }
            assert_eq!((messages.complete(), messages.is_between()), (3, true), "{size}");
        }
        let mut messages = Messages::new(300);
        messages.pass(&body[..6]).unwrap();
        assert_eq!((messages.complete(), messages.is_between()), (0, false));
        messages.pass(&body[6..8]).unwrap();
        assert!(messages.is_between() && !messages.are_several());
        messages.pass(&body[8..9]).unwrap();
        assert!(messages.are_several(), "the second one has begun");
    }

    #[test]
    fn a_message_with_a_too_large_stated_length_is_noticed_before_it_arrives() {
        let mut messages = Messages::new(300);
        assert_eq!(messages.pass(&message(&[7; 300])), Ok(()));
        assert_eq!(messages.pass(&[0, 0, 0, 1, 45]), Err(TooLarge));
        let mut messages = Messages::new(300);
        assert_eq!(messages.pass(&[1, 255, 255, 255, 255]), Err(TooLarge));
    }
}
