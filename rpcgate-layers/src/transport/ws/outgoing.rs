use super::wire::{MAX_HEAD, Role, head_len};
use bytes::{Buf, Bytes, BytesMut};
use fastwebsockets::{Frame, OpCode, Payload};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// The size up to which payloads are copied after their header. Larger ones are queued without a copy.
const COPIED: usize = 16 << 10;
/// The largest buffer that is kept for the next frame.
const RETAINED: usize = 1 << 10;
/// The maximum number of pieces in one write.
const PIECES: usize = 8;

/// A writer of frames that queues the bytes that the connection does not take.
pub(crate) struct FrameWriter<W> {
    inner: W,
    role: Role,
    /// The maximum number of bytes that are handed to the connection at a time.
    most: usize,
    queue: VecDeque<Piece>,
    /// The frame that is written after the queue.
    buffer: BytesMut,
    queued: usize,
    /// The number of bytes that the connection has taken.
    taken: u64,
    is_flushed: bool,
    /// True if the first frame in the queue or in the buffer is written in part.
    is_begun: bool,
}

struct Piece {
    bytes: Bytes,
    ends_frame: bool,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(crate) fn new(inner: W, role: Role) -> Self {
        FrameWriter {
            inner,
            role,
            most: usize::MAX,
            queue: VecDeque::new(),
            buffer: BytesMut::new(),
            queued: 0,
            taken: 0,
            is_flushed: true,
            is_begun: false,
        }
    }

    /// Limits the number of bytes that are handed to the connection at a time, for a connection that takes them even
    /// without free capacity.
    pub(crate) fn set_most(&mut self, bytes: usize) {
        self.most = bytes;
    }

    /// Returns the number of bytes that the connection has not taken yet.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the total number of bytes that the connection has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed
    }

    /// Queues a frame. Its payload is copied if it has to be masked or is small.
    pub(crate) fn push(&mut self, fin: bool, opcode: OpCode, payload: Bytes) {
        if self.role.masks() || payload.len() <= COPIED {
            return self.push_copied(fin, opcode, &payload);
        }
        let mut head = [0; MAX_HEAD];
        let head_len = Frame::new(fin, opcode, None, Payload::Borrowed(&payload)).fmt_head(&mut head);
        self.seal();
        self.queued += head_len + payload.len();
        self.queue.push_back(Piece { bytes: Bytes::copy_from_slice(&head[..head_len]), ends_frame: false });
        self.queue.push_back(Piece { bytes: payload, ends_frame: true });
        self.is_flushed = false;
    }

    pub(crate) fn push_copied(&mut self, fin: bool, opcode: OpCode, payload: &[u8]) {
        if self.queued > 0 {
            // Separates the frames, so that an unwritten frame can be removed.
            self.seal();
        }
        let head_len = head_len(payload.len(), self.role.masks());
        let start = self.buffer.len();
        self.buffer.reserve(head_len + payload.len());
        self.buffer.extend_from_slice(&[0; MAX_HEAD][..head_len]);
        self.buffer.extend_from_slice(payload);
        let (head, payload) = self.buffer[start..].split_at_mut(head_len);
        let mut frame = Frame::new(fin, opcode, None, Payload::BorrowedMut(payload));
        if self.role.masks() {
            frame.mask();
        }
        let mut text = [0; MAX_HEAD];
        frame.fmt_head(&mut text);
        head.copy_from_slice(&text[..head_len]);
        self.queued = self.queued + self.buffer.len() - start;
        self.is_flushed = false;
    }

    /// Removes all frames that are still completely unwritten.
    pub(crate) fn discard(&mut self) {
        // A frame that is written in part must be completed, or the next one could not be read.
        let retained = match self.queue.iter().position(|piece| piece.ends_frame) {
            _ if !self.is_begun => 0,
            None => return,
            Some(end) => end + 1,
        };
        self.queue.truncate(retained);
        self.buffer.clear();
        self.queued = self.queue.iter().map(|piece| piece.bytes.len()).sum();
    }

    /// Writes the bytes that the connection takes. Ready when all bytes are flushed.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_flushed {
            return Poll::Ready(Ok(()));
        }
        while self.queued > 0 {
            let written = ready!(self.poll_write(cx))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.taken += written as u64;
            self.queued -= written;
            self.advance(written);
        }
        self.is_begun = false;
        if self.buffer.capacity() > RETAINED {
            self.buffer = BytesMut::new();
        } else {
            self.buffer.clear();
        }
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Writes until at most `most` bytes are queued.
    pub(crate) fn poll_below(&mut self, most: usize, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_flush(cx) {
            Poll::Pending if self.queued <= most => Poll::Ready(Ok(())),
            polled => polled,
        }
    }

    /// Closes the connection for writing after all bytes are flushed.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.inner);
        let Some(first) = self.queue.front() else {
            return inner.poll_write(cx, &self.buffer[..self.buffer.len().min(self.most)]);
        };
        if self.most < usize::MAX {
            return inner.poll_write(cx, &first.bytes[..first.bytes.len().min(self.most)]);
        }
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let waiting = self.queue.iter().map(|piece| &piece.bytes[..]).chain([&self.buffer[..]]);
        let mut count = 0;
        for (slot, bytes) in pieces.iter_mut().zip(waiting) {
            *slot = IoSlice::new(bytes);
            count += 1;
        }
        inner.poll_write_vectored(cx, &pieces[..count])
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(piece) = self.queue.front_mut() {
            let taken = written.min(piece.bytes.len());
            piece.bytes.advance(taken);
            written -= taken;
            if !piece.bytes.is_empty() {
                self.is_begun = true;
                return;
            }
            self.is_begun = !piece.ends_frame;
            self.queue.pop_front();
        }
        if self.queue.capacity() > PIECES {
            self.queue = VecDeque::new();
        }
        if written > 0 {
            self.buffer.advance(written);
            self.is_begun = !self.buffer.is_empty();
        }
    }

    fn seal(&mut self) {
        if !self.buffer.is_empty() {
            let bytes = std::mem::take(&mut self.buffer).freeze();
            self.queue.push_back(Piece { bytes, ends_frame: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::ws::incoming::FrameReader;
    use rpcgate_core::memory::MemoryPermit;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    fn writer(role: Role, room: usize) -> (FrameWriter<DuplexStream>, DuplexStream) {
        let (gateway, peer) = duplex(room);
        (FrameWriter::new(gateway, role), peer)
    }

    async fn written(role: Role, payload: &[u8]) -> Vec<u8> {
        let (mut writer, mut peer) = writer(role, 1 << 20);
        writer.push(true, OpCode::Text, Bytes::copy_from_slice(payload));
        poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
        assert!(writer.is_flushed() && writer.queued() == 0);
        drop(writer);
        let mut out = Vec::new();
        peer.read_to_end(&mut out).await.unwrap();
        out
    }

    #[tokio::test]
    async fn frames_to_a_client_have_no_mask_and_frames_to_a_node_have_one_of_their_own() {
        assert_eq!(written(Role::Server, b"hello").await, b"\x81\x05hello");
        let one = written(Role::Client, b"hello").await;
        let two = written(Role::Client, b"hello").await;
        assert_eq!((one[0], one[1], one.len()), (0x81, 0x85, 11));
        let mask: [u8; 4] = one[2..6].try_into().unwrap();
        let payload: Vec<u8> =
            one[6..].iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        assert_eq!(payload, b"hello");
        assert_ne!(one[2..6], two[2..6], "a mask must not be foreseeable (RFC 6455, section 5.3)");
    }

    #[tokio::test]
    async fn payloads_of_every_size_arrive_as_they_were() {
        for role in [Role::Server, Role::Client] {
            for len in [0, 125, 126, COPIED, COPIED + 1, 65_535, 65_536, 300_000] {
                let payload: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
                let (mut writer, peer) = writer(role, 5_000);
                let other = if role == Role::Server { Role::Client } else { Role::Server };
                let mut reader = FrameReader::new(peer, other, 1 << 20, MemoryPermit::default());
                writer.push(false, OpCode::Binary, payload.clone().into());
                writer.push(true, OpCode::Continuation, Bytes::from_static(b"end"));
                let writing = async {
                    poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
                };
                let reading = async { (reader.next().await.unwrap(), reader.next().await.unwrap()) };
                let ((), (first, second)) = tokio::join!(writing, reading);
                assert_eq!((first.fin, &first.payload[..]), (false, &payload[..]), "{len}");
                assert_eq!((second.fin, &second.payload[..]), (true, &b"end"[..]));
            }
        }
    }

    #[tokio::test]
    async fn unsent_messages_can_be_taken_back_and_begun_ones_are_completed() {
        for large in [false, true] {
            let (mut writer, peer) = writer(Role::Server, 10);
            let payload = vec![b'x'; if large { 20_000 } else { 100 }];
            writer.push(true, OpCode::Text, payload.clone().into());
            writer.push(true, OpCode::Text, Bytes::from_static(b"taken back"));
            let polled = futures_util::poll!(poll_fn(|cx| writer.poll_flush(cx)));
            assert!(polled.is_pending() && writer.taken() > 0);
            writer.push(true, OpCode::Text, Bytes::from_static(b"taken back too"));
            writer.discard();
            writer.push(true, OpCode::Close, Bytes::from_static(&[3, 0xf0]));
            let mut reader = FrameReader::new(peer, Role::Client, 1 << 20, MemoryPermit::default());
            let writing = async {
                poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
            };
            let reading = async { (reader.next().await.unwrap(), reader.next().await.unwrap()) };
            let ((), (first, second)) = tokio::join!(writing, reading);
            assert_eq!(&first.payload[..], payload);
            assert_eq!((second.opcode, &second.payload[..]), (OpCode::Close, &[3, 0xf0][..]));
        }
        let (mut writer, _peer) = writer(Role::Server, 10);
        writer.push(true, OpCode::Text, Bytes::from_static(b"nothing of it is written"));
        writer.discard();
        assert_eq!(writer.queued(), 0);
    }

    /// A connection that takes all bytes, and records the size of each write.
    struct Greedy(Vec<usize>);

    impl AsyncWrite for Greedy {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.push(bytes.len());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_connection_that_accepts_everything_is_written_in_small_pieces() {
        let mut writer = FrameWriter::new(Greedy(Vec::new()), Role::Server);
        writer.set_most(100);
        writer.push(true, OpCode::Binary, vec![0; 20_000].into());
        writer.push(true, OpCode::Text, vec![b'x'; 248].into());
        poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
        assert!(writer.inner.0.iter().all(|bytes| *bytes <= 100));
        assert_eq!(writer.inner.0.iter().sum::<usize>(), 4 + 20_000 + 4 + 248);
    }

    #[tokio::test]
    async fn a_reader_that_is_slow_holds_up_the_writer_at_the_bound() {
        let (mut writer, mut peer) = writer(Role::Server, 100);
        for _ in 0..10 {
            writer.push(true, OpCode::Binary, vec![0; 98].into());
        }
        let below = futures_util::poll!(poll_fn(|cx| writer.poll_below(500, cx)));
        assert!(below.is_pending() && writer.queued() == 900);
        let mut taken = [0; 400];
        let reading = peer.read_exact(&mut taken);
        let (below, read) = tokio::join!(poll_fn(|cx| writer.poll_below(500, cx)), reading);
        assert!(below.is_ok() && read.is_ok() && writer.queued() <= 500 && !writer.is_flushed());
    }
}
