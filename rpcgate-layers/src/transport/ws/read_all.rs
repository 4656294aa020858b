//! A test reader for all frames in a sequence of byte pieces, compared with another implementation.

use super::incoming::{FrameReader, ReadError};
use super::wire::Role;
use bytes::Bytes;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::memory::{MemoryBudget, MemoryPermit};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, ReadBuf};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AllRead {
    /// For each frame: whether it is the last one of its message, its opcode, its payload.
    pub(crate) frames: Vec<(bool, u8, Vec<u8>)>,
    pub(crate) end: ReadError,
    /// The maximum number of bytes of the memory budget that it held after a frame.
    pub(crate) held: usize,
    /// The number of bytes that it held after the reader was dropped.
    pub(crate) left: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CompleteMessage {
    /// A message: whether it is text, and its payload.
    Message(bool, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close,
}

/// A connection on which these pieces arrive, and nothing after them.
struct Pieces<'a>(std::slice::Iter<'a, Bytes>, Bytes);

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.1.is_empty() {
            match self.0.next() {
                Some(piece) => self.1 = piece.clone(),
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = self.1.len().min(buffer.remaining());
        buffer.put_slice(&self.1.split_to(taken));
        Poll::Ready(Ok(()))
    }
}

/// Reads pieces to their end, or to the first error.
///
/// # Panics
/// If the reader waits although bytes, or their end, are available.
pub(crate) fn read_all(pieces: &[Bytes], role: Role, max_message: usize, memory: usize) -> AllRead {
    let budget = MemoryBudget::new(memory);
    let permit = MemoryPermit::of_project(budget.clone(), ProjectId(1));
    let mut reader = FrameReader::new(Pieces(pieces.iter(), Bytes::new()), role, max_message, permit);
    let mut frames = Vec::new();
    let mut held = 0;
    let end = loop {
        let next = pin!(reader.next()).poll(&mut Context::from_waker(Waker::noop()));
        match next {
            Poll::Ready(Ok(frame)) => frames.push((frame.fin, frame.opcode as u8, frame.payload.to_vec())),
            Poll::Ready(Err(end)) => break end,
            Poll::Pending => panic!("a reader waits for bytes that are there"),
        }
        held = held.max(budget.held());
    };
    drop(reader);
    AllRead { frames, end, held, left: budget.held() }
}

impl AllRead {
    /// Returns the messages and control frames up to the first close frame, and whether there is no close frame.
    pub(crate) fn complete_messages(&self) -> (Vec<CompleteMessage>, bool) {
        let mut complete_messages = Vec::new();
        let mut message: Option<(bool, Vec<u8>)> = None;
        for (fin, opcode, payload) in &self.frames {
            match opcode {
                8 => {
                    complete_messages.push(CompleteMessage::Close);
                    return (complete_messages, false);
                }
                9 => complete_messages.push(CompleteMessage::Ping(payload.clone())),
                10 => complete_messages.push(CompleteMessage::Pong(payload.clone())),
                _ => {
                    let (_, so_far) = message.get_or_insert((*opcode == 1, Vec::new()));
                    so_far.extend_from_slice(payload);
                    if *fin && let Some((is_text, all)) = message.take() {
                        complete_messages.push(CompleteMessage::Message(is_text, all));
                    }
                }
            }
        }
        (complete_messages, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use tokio_tungstenite::tungstenite::protocol::{Role as Part, WebSocketConfig};
    use tokio_tungstenite::tungstenite::{Error, Message, WebSocket};

    const MOST: usize = 1_000;

    /// A connection that returns these bytes, and accepts all writes.
    struct Given<'a>(&'a [u8]);

    impl Read for Given<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0.read(out)
        }
    }

    impl Write for Given<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Reads the bytes with tungstenite, up to a close frame. Also returns whether it found no error.
    fn by_tungstenite(bytes: &[u8], role: Role) -> (Vec<CompleteMessage>, bool) {
        let part = if role == Role::Server { Part::Server } else { Part::Client };
        let config = WebSocketConfig::default().max_message_size(Some(MOST)).max_frame_size(Some(MOST));
        let mut socket = WebSocket::from_raw_socket(Given(bytes), part, Some(config));
        let mut complete_messages = Vec::new();
        loop {
            complete_messages.push(match socket.read() {
                Ok(Message::Text(text)) => CompleteMessage::Message(true, text.as_bytes().to_vec()),
                Ok(Message::Binary(bytes)) => CompleteMessage::Message(false, bytes.to_vec()),
                Ok(Message::Ping(bytes)) => CompleteMessage::Ping(bytes.to_vec()),
                Ok(Message::Pong(bytes)) => CompleteMessage::Pong(bytes.to_vec()),
                Ok(Message::Close(_)) => {
                    complete_messages.push(CompleteMessage::Close);
                    return (complete_messages, true);
                }
                Ok(Message::Frame(_)) => continue,
                Err(error) => {
                    use tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
                    let is_end = matches!(
                        error,
                        Error::Protocol(ResetWithoutClosingHandshake) | Error::ConnectionClosed
                    );
                    return (complete_messages, is_end);
                }
            });
        }
    }

    /// A frame with an optional mask and a length in a form that may be longer than necessary.
    fn frame(first: u8, mask: Option<[u8; 4]>, form: usize, payload: &[u8]) -> Vec<u8> {
        let masked = if mask.is_some() { 0x80 } else { 0 };
        let len = payload.len();
        let mut out = match form {
            0 if len < 126 => vec![first, masked | len as u8],
            0 | 1 => [&[first, masked | 126][..], &(len as u16).to_be_bytes()].concat(),
            _ => [&[first, masked | 127][..], &(len as u64).to_be_bytes()].concat(),
        };
        let mask = mask.inspect(|mask| out.extend(mask)).unwrap_or_default();
        out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        out
    }

    fn frames(role: Role) -> impl Strategy<Value = Vec<u8>> {
        let first = prop_oneof![
            20 => prop::sample::select(vec![0x81, 0x82, 0x01, 0x02, 0x00, 0x80, 0x89, 0x8a]),
            1 => prop::sample::select(vec![0x88, 0x08, 0x09, 0x83, 0xc1]),
        ];
        let form = prop_oneof![20 => Just(0_usize), 1 => 1..3_usize];
        let payload = prop_oneof![
            8 => "[a-zäß€]{0,40}".prop_map(String::into_bytes),
            2 => prop::collection::vec(any::<u8>(), 0..130),
            1 => prop::collection::vec(Just(b'x'), 900..1_010),
        ];
        let is_right = prop_oneof![30 => Just(true), 1 => Just(false)];
        let one = (first, any::<[u8; 4]>(), is_right, form, payload);
        prop::collection::vec(one, 0..12).prop_map(move |frames| {
            let is_masked = |is_right| is_right == (role == Role::Server);
            let one = |(first, mask, is_right, form, payload): (_, _, _, _, Vec<u8>)| {
                frame(first, Some(mask).filter(|_| is_masked(is_right)), form, &payload)
            };
            frames.into_iter().flat_map(one).collect()
        })
    }

    fn cut(bytes: &[u8], sizes: &[usize]) -> Vec<Bytes> {
        let mut rest = bytes;
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(Bytes::copy_from_slice(piece));
            rest = after;
        }
        pieces
    }

    #[test]
    fn a_too_large_frame_is_refused_as_such_in_pieces_of_any_size() {
        let unbegun = frame(0x80, None, 1, &[b'x'; MOST + 1]);
        let unmasked = frame(0x82, None, 1, &[b'x'; MOST + 1]);
        for (role, bytes) in [(Role::Client, &unbegun), (Role::Server, &unmasked)] {
            for size in [1, 100, bytes.len()] {
                let read = read_all(&cut(bytes, &[size]), role, MOST, 1 << 20);
                assert_eq!((read.end, read.frames.len()), (ReadError::TooLarge, 0), "{size}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        // Shows (Streams).
        #[test]
        fn frames_are_read_the_same_in_any_pieces_and_as_another_implementation_reads_them(
            (role, mut bytes) in prop::sample::select(vec![Role::Server, Role::Client])
                .prop_flat_map(|role| (Just(role), frames(role))),
            spoiled in prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>())),
            end in prop::option::weighted(0.3, any::<prop::sample::Index>()),
            sizes in prop::collection::vec(1..300_usize, 1..6),
        ) {
            if let (Some((at, byte)), false) = (spoiled, bytes.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(end) = end {
                bytes.truncate(end.index(bytes.len() + 1));
            }
            let message = read_all(&[Bytes::copy_from_slice(&bytes)], role, MOST, 1 << 20);
            prop_assert_eq!(&read_all(&cut(&bytes, &sizes), role, MOST, 1 << 20), &message);
            let payloads: usize = message.frames.iter().map(|(_, _, payload)| payload.len()).sum();
            prop_assert!(payloads <= bytes.len() && message.left == 0);

            let (ours, _) = message.complete_messages();
            let (theirs, is_valid) = by_tungstenite(&bytes, role);
            let both = ours.len().min(theirs.len());
            prop_assert_eq!(&ours[..both], &theirs[..both]);
            if is_valid && message.end == ReadError::Lost {
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
