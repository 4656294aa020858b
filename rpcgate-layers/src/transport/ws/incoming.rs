//! Reading the frames of one side.

use super::wire::{Role, head_len, is_masked};
use bytes::{Buf, Bytes, BytesMut};
use fastwebsockets::{Frame, OpCode, Payload, WebSocket, WebSocketError};
use rpcgate_core::memory::MemoryPermit;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read at once when a connection becomes readable.
const SCRATCH: usize = 16 << 10;

/// Bytes of an incomplete frame that need no permit.
const SMALL: u64 = 64 << 10;

/// The largest payload of a control frame (RFC 6455, section 5.5).
const MAX_CONTROL: usize = 125;

thread_local! {
    /// The buffer of all connections that wait for their next frame.
    static BYTES: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into());
}

/// A frame, without its mask.
#[derive(Debug)]
pub(crate) struct ReadFrame {
    /// Whether it is the last one of its message.
    pub(crate) fin: bool,
    /// What it is.
    pub(crate) opcode: OpCode,
    /// Its payload.
    pub(crate) payload: BytesMut,
}

/// Why no further frame can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadError {
    /// The connection is closed or broken.
    Lost,
    /// A frame breaks the protocol.
    Protocol,
    /// A text message is not UTF-8.
    Text,
    /// A message is larger than it may be.
    TooLarge,
    /// There is no memory left for the message.
    NoMemory,
}

/// How far a reader has got; others look at it.
#[derive(Debug, Default)]
pub(crate) struct ReadProgress {
    /// Bytes that were read.
    read: AtomicU64,
    /// Bytes of complete frames.
    framed: AtomicU64,
    /// Whether a byte has arrived since this was last taken.
    is_alive: AtomicBool,
    /// Whether a message is incomplete.
    is_in_message: AtomicBool,
    /// Whether memory ran out.
    is_starved: AtomicBool,
}

impl ReadProgress {
    /// Whether a byte has arrived since the last call.
    pub(crate) fn take_alive(&self) -> bool {
        self.is_alive.swap(false, Relaxed)
    }

    /// Whether a message has begun and is not complete, of one or of several frames.
    pub(crate) fn is_in_message(&self) -> bool {
        self.is_in_message.load(Relaxed) || self.pending() > 0
    }

    /// Bytes of the frame that is incomplete, and of those that follow it already.
    fn pending(&self) -> u64 {
        self.read.load(Relaxed).saturating_sub(self.framed.load(Relaxed))
    }
}

/// Reads frames. Between frames it holds no buffer, so that thousands of idle streams cost little: what arrives first is
/// read into a buffer of the thread.
///
/// The future of [`next`](FrameReader::next) must not be dropped before it is ready, or the beginning of a frame is lost.
pub(crate) struct FrameReader<R> {
    state: State<R>,
    role: Role,
    max_message: usize,
    progress: Arc<ReadProgress>,
    /// The bytes of the fragments so far of a message that is incomplete.
    fragments: Option<usize>,
    /// The memory of these fragments, which a server holds until their message is whole.
    held: MemoryPermit,
}

enum State<R> {
    /// Between frames.
    Idle(Source<R>),
    /// With bytes of a frame in the library's buffer.
    Reading(WebSocket<Source<R>>),
    /// After an error.
    Failed,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader in this role, of messages of up to `max_message` bytes, all fragments of a message together. Large frames take
    /// from `memory` what has arrived of them.
    pub(crate) fn new(inner: R, role: Role, max_message: usize, memory: MemoryPermit) -> Self {
        let progress = Arc::<ReadProgress>::default();
        let held = memory.sibling();
        let source = Source { inner, ahead: Bytes::new(), progress: progress.clone(), memory };
        FrameReader { state: State::Idle(source), role, max_message, progress, fragments: None, held }
    }

    /// How far it has got.
    pub(crate) fn progress(&self) -> &Arc<ReadProgress> {
        &self.progress
    }

    /// The next frame.
    pub(crate) async fn next(&mut self) -> Result<ReadFrame, ReadError> {
        if let State::Idle(source) = &mut self.state {
            poll_fn(|cx| source.poll_fill(cx)).await.map_err(|_| ReadError::Lost)?;
            self.begin();
        }
        let State::Reading(socket) = &mut self.state else { return Err(ReadError::Lost) };
        match socket.read_frame().await {
            Ok(frame) => self.take(frame),
            Err(error) => {
                self.state = State::Failed;
                Err(self.failure(&error))
            }
        }
    }

    /// Hands the connection to the library, which reads a frame from it.
    fn begin(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Failed) {
            State::Idle(source) => {
                let mut socket = WebSocket::after_handshake(source, self.role.of_library());
                socket.set_auto_close(false);
                socket.set_auto_pong(false);
                // The library refuses frames of this size, too.
                socket.set_max_message_size(self.max_message.saturating_add(1));
                State::Reading(socket)
            }
            other => other,
        };
    }

    /// Takes a frame from the library, and the connection back if that was all.
    fn take(&mut self, mut frame: Frame<'_>) -> Result<ReadFrame, ReadError> {
        let is_masked = is_masked(&mut frame);
        let payload = match frame.payload {
            Payload::Bytes(bytes) => bytes,
            other => BytesMut::from(&*other),
        };
        let whole = head_len(payload.len(), is_masked) + payload.len();
        self.progress.framed.fetch_add(whole as u64, Relaxed);
        if self.progress.pending() == 0 {
            self.state = match std::mem::replace(&mut self.state, State::Failed) {
                State::Reading(socket) => State::Idle(socket.into_inner().released()),
                other => other,
            };
        }
        // The library reads frames with and without a mask from either side (RFC 6455, section 5.1).
        if is_masked == self.role.masks() {
            return Err(ReadError::Protocol);
        }
        self.check(frame.fin, frame.opcode, payload.len())?;
        Ok(ReadFrame { fin: frame.fin, opcode: frame.opcode, payload })
    }

    /// Checks the frame's place in its message, and the size of that.
    fn check(&mut self, fin: bool, opcode: OpCode, len: usize) -> Result<(), ReadError> {
        if matches!(opcode, OpCode::Close | OpCode::Ping | OpCode::Pong) {
            return if len <= MAX_CONTROL { Ok(()) } else { Err(ReadError::Protocol) };
        }
        let so_far = match (opcode, self.fragments) {
            (OpCode::Continuation, Some(so_far)) => so_far,
            (OpCode::Continuation, None) | (_, Some(_)) => return Err(ReadError::Protocol),
            (_, None) => 0,
        };
        let sum = so_far.saturating_add(len);
        if sum > self.max_message {
            return Err(ReadError::TooLarge);
        }
        if fin {
            self.held.keep(0);
        } else if self.role == Role::Server && sum as u64 > SMALL && self.held.take_up_to(sum).is_err() {
            return Err(ReadError::NoMemory);
        }
        self.fragments = (!fin).then_some(sum);
        self.progress.is_in_message.store(!fin, Relaxed);
        Ok(())
    }

    fn failure(&self, error: &WebSocketError) -> ReadError {
        match error {
            _ if self.progress.is_starved.load(Relaxed) => ReadError::NoMemory,
            WebSocketError::UnexpectedEOF | WebSocketError::IoError(_) | WebSocketError::ConnectionClosed => {
                ReadError::Lost
            }
            WebSocketError::InvalidUTF8 => ReadError::Text,
            WebSocketError::FrameTooLarge => ReadError::TooLarge,
            _ => ReadError::Protocol,
        }
    }
}

/// What the library reads from: the bytes that were read ahead, then the connection.
struct Source<R> {
    inner: R,
    ahead: Bytes,
    progress: Arc<ReadProgress>,
    memory: MemoryPermit,
}

impl<R: AsyncRead + Unpin> Source<R> {
    /// Waits for bytes, and reads them ahead.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        BYTES.with_borrow_mut(|bytes| {
            let mut buffer = ReadBuf::new(bytes);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.ahead = Bytes::copy_from_slice(buffer.filled());
            self.note(self.ahead.len());
            Poll::Ready(Ok(()))
        })
    }

    fn note(&self, bytes: usize) {
        self.progress.read.fetch_add(bytes as u64, Relaxed);
        self.progress.is_alive.store(true, Relaxed);
    }

    /// The source between frames, whose memory is returned.
    fn released(mut self) -> Self {
        self.memory.keep(0);
        self
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Source<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let taken = self.ahead.len().min(buffer.remaining());
            buffer.put_slice(&self.ahead[..taken]);
            self.ahead.advance(taken);
            if self.ahead.is_empty() {
                self.ahead = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        self.note(buffer.filled().len() - before);
        let pending = self.progress.pending();
        if pending > SMALL && self.memory.take_up_to(pending as usize).is_err() {
            self.progress.is_starved.store(true, Relaxed);
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        Poll::Ready(Ok(()))
    }
}

/// The library asks for a connection that can also be written to. With automatic answers off it never writes.
impl<R: Unpin> AsyncWrite for Source<R> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::caller::ProjectId;
    use rpcgate_core::memory::MemoryBudget;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    const MASK: [u8; 4] = [1, 2, 3, 4];

    /// A frame as a client writes it.
    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            len @ 0..126 => out.push(0x80 | len as u8),
            len @ 126..65_536 => {
                out.push(0x80 | 126);
                out.extend((len as u16).to_be_bytes());
            }
            len => {
                out.push(0x80 | 127);
                out.extend((len as u64).to_be_bytes());
            }
        }
        out.extend(MASK);
        out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        out
    }

    fn reader(max_message: usize) -> (DuplexStream, FrameReader<DuplexStream>) {
        let (client, gateway) = duplex(1 << 20);
        (client, FrameReader::new(gateway, Role::Server, max_message, MemoryPermit::default()))
    }

    async fn read(bytes: &[u8], max_message: usize) -> Vec<Result<(bool, u8, Vec<u8>), ReadError>> {
        let (mut client, mut reader) = reader(max_message);
        client.write_all(bytes).await.unwrap();
        drop(client);
        let mut seen = Vec::new();
        loop {
            match reader.next().await {
                Err(ReadError::Lost) => return seen,
                Err(error) => seen.push(Err(error)),
                Ok(frame) => seen.push(Ok((frame.fin, frame.opcode as u8, frame.payload.to_vec()))),
            }
            if seen.last().is_some_and(Result::is_err) {
                return seen;
            }
        }
    }

    fn good(fin: bool, opcode: u8, payload: &[u8]) -> Result<(bool, u8, Vec<u8>), ReadError> {
        Ok((fin, opcode, payload.to_vec()))
    }

    #[tokio::test]
    async fn frames_are_read_with_their_boundaries_and_control_frames_between_fragments() {
        let bytes =
            [masked(0x01, b"ab"), masked(0x89, b"p"), masked(0x80, b"c"), masked(0x82, &[255])].concat();
        let expected =
            [good(false, 1, b"ab"), good(true, 9, b"p"), good(true, 0, b"c"), good(true, 2, &[255])];
        assert_eq!(read(&bytes, 100).await, expected);
    }

    #[tokio::test]
    async fn a_frame_that_arrives_byte_by_byte_is_the_same() {
        let (mut client, mut reader) = reader(1_000);
        let bytes = [masked(0x81, &[b'x'; 300]), masked(0x81, b"y")].concat();
        let writing = tokio::spawn(async move {
            for byte in bytes {
                client.write_all(&[byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            client
        });
        assert_eq!(reader.next().await.unwrap().payload.len(), 300);
        assert_eq!(&reader.next().await.unwrap().payload[..], b"y");
        assert!(matches!(reader.state, State::Idle(_)), "no buffer is held between frames");
        assert!(!reader.progress().is_in_message() && reader.progress().take_alive());
        drop(writing.await);
        assert_eq!(reader.next().await.unwrap_err(), ReadError::Lost);
    }

    #[tokio::test]
    async fn fragments_are_added_up_and_a_message_of_exactly_the_limit_passes() {
        let fragment = |first| masked(first, &[b'x'; 50]);
        let fits = [fragment(0x01), fragment(0x80)].concat();
        assert!(read(&fits, 100).await.iter().all(Result::is_ok));
        let over = [fragment(0x01), fragment(0x00), masked(0x80, b"y")].concat();
        assert_eq!(read(&over, 100).await.last(), Some(&Err(ReadError::TooLarge)));
        assert_eq!(read(&masked(0x82, &[0; 101]), 100).await, [Err(ReadError::TooLarge)]);
        assert_eq!(read(&masked(0x82, &[0; 100]), 100).await.len(), 1);
    }

    #[tokio::test]
    async fn frames_that_break_the_protocol_are_refused() {
        let rows: [(&str, Vec<u8>, ReadError); 10] = [
            ("without a mask", vec![0x81, 1, b'a'], ReadError::Protocol),
            ("reserved bit", masked(0xc1, b"a"), ReadError::Protocol),
            ("unknown opcode", masked(0x83, b""), ReadError::Protocol),
            ("fragmented ping", masked(0x09, b""), ReadError::Protocol),
            ("long ping", masked(0x89, &[0; 126]), ReadError::Protocol),
            ("long pong", masked(0x8a, &[0; 126]), ReadError::Protocol),
            ("long close", masked(0x88, &[0; 126]), ReadError::Protocol),
            ("continuation of nothing", masked(0x80, b"a"), ReadError::Protocol),
            (
                "new message in a message",
                [masked(0x01, b"a"), masked(0x81, b"b")].concat(),
                ReadError::Protocol,
            ),
            ("text that is no text", masked(0x81, &[0xff]), ReadError::Text),
        ];
        for (name, bytes, error) in rows {
            assert_eq!(read(&bytes, 1_000).await.last(), Some(&Err(error)), "{name}");
        }
    }

    #[tokio::test]
    async fn a_node_must_not_mask() {
        let (mut node, gateway) = duplex(1_000);
        let mut reader = FrameReader::new(gateway, Role::Client, 100, MemoryPermit::default());
        node.write_all(&[0x81, 1, b'a']).await.unwrap();
        assert_eq!(&reader.next().await.unwrap().payload[..], b"a");
        node.write_all(&masked(0x81, b"a")).await.unwrap();
        assert_eq!(reader.next().await.unwrap_err(), ReadError::Protocol);
    }

    #[tokio::test]
    async fn a_large_frame_takes_its_memory_from_the_budget_and_returns_it() {
        let budget = MemoryBudget::new(800 << 10);
        let permit = || MemoryPermit::of_project(budget.clone(), ProjectId(1));
        let (mut client, gateway) = duplex(1 << 20);
        let mut reader = FrameReader::new(gateway, Role::Server, 16 << 20, permit());
        client.write_all(&masked(0x82, &vec![0; 99 << 10])).await.unwrap();
        assert_eq!(reader.next().await.unwrap().payload.len(), 99 << 10);
        assert_eq!(budget.held(), 0);
        let frame = masked(0x82, &vec![0; 900 << 10]);
        tokio::spawn(async move {
            let _ = client.write_all(&frame).await;
            std::future::pending::<()>().await;
        });
        assert_eq!(reader.next().await.unwrap_err(), ReadError::NoMemory);
        drop(reader);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn fragments_that_wait_for_the_rest_of_their_message_stay_in_the_budget() {
        let budget = MemoryBudget::new(800 << 10);
        let permit = MemoryPermit::of_project(budget.clone(), ProjectId(1));
        let (mut client, gateway) = duplex(2 << 20);
        let mut reader = FrameReader::new(gateway, Role::Server, 16 << 20, permit);
        let fragment = |first| masked(first, &[0; 50 << 10]);
        client.write_all(&[fragment(0x02), fragment(0x00)].concat()).await.unwrap();
        assert!(reader.next().await.is_ok() && reader.next().await.is_ok());
        assert_eq!(budget.held(), 100 << 10);
        client.write_all(&masked(0x80, b"end")).await.unwrap();
        assert!(reader.next().await.is_ok());
        assert_eq!(budget.held(), 0, "the message is whole");
        client.write_all(&fragment(0x02)).await.unwrap();
        for _ in 0..19 {
            client.write_all(&fragment(0x00)).await.unwrap();
        }
        let mut read = 0;
        let error = loop {
            match reader.next().await {
                Ok(_) => read += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error, ReadError::NoMemory);
        assert!(read < 16, "{read} fragments are more than the budget has");
        drop(reader);
        assert_eq!(budget.held(), 0);
    }
}
