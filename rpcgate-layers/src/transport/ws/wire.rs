//! Facts about frames on the wire (RFC 6455, section 5.2).

use fastwebsockets::Frame;

/// The gateway's role in a connection: it is the server of its clients, and a client of the nodes. Frames of a client
/// are masked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Server,
    Client,
}

impl Role {
    pub(super) fn of_library(self) -> fastwebsockets::Role {
        match self {
            Role::Server => fastwebsockets::Role::Server,
            Role::Client => fastwebsockets::Role::Client,
        }
    }

    pub(super) fn masks(self) -> bool {
        self == Role::Client
    }
}

/// The longest header: two bytes, eight for the length, four for the mask. fastwebsockets needs two more.
pub(super) const MAX_HEAD: usize = 16;

/// Returns the length of the header of a frame with a payload of `len` bytes.
pub(super) fn head_len(len: usize, is_masked: bool) -> usize {
    let length = match len {
        0..126 => 0,
        126..65_536 => 2,
        _ => 8,
    };
    2 + length + if is_masked { 4 } else { 0 }
}

/// Reports whether the frame was, or will be, masked. fastwebsockets shows it only in the header that it would write.
pub(super) fn is_masked(frame: &mut Frame<'_>) -> bool {
    let mut head = [0; MAX_HEAD];
    frame.fmt_head(&mut head);
    head[1] & 0x80 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastwebsockets::{OpCode, Payload};

    #[test]
    fn the_length_of_a_header_is_that_of_the_library() {
        for len in [0, 125, 126, 65_535, 65_536] {
            let payload = vec![0; len];
            for mask in [None, Some([1, 2, 3, 4])] {
                let mut frame = Frame::new(true, OpCode::Text, mask, Payload::Borrowed(&payload));
                let mut head = [0; MAX_HEAD];
                assert_eq!(frame.fmt_head(&mut head), head_len(len, mask.is_some()), "{len}");
                assert_eq!(is_masked(&mut frame), mask.is_some());
            }
        }
    }
}
