use super::arrived::{Arrived, poll_arrived};
use super::read_only::{ReadOnly, reader};
use super::wire::{Role, head_len, is_masked};
use bytes::{Buf, Bytes, BytesMut};
use fastwebsockets::{Frame, OpCode, Payload, WebSocket, WebSocketError};
use rpcgate_core::memory::MemoryPermit;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// The size in bytes up to which an incomplete frame needs no permit.
const SMALL: u64 = 64 << 10;

/// The number of bytes that are dropped at a time.
const WASTE: usize = 16 << 10;

/// The largest payload of a control frame (RFC 6455, section 5.5).
const MAX_CONTROL: usize = 125;

/// A frame, without its mask.
#[derive(Debug)]
pub(crate) struct ReadFrame {
    /// True for the last frame of a message.
    pub(crate) fin: bool,
    pub(crate) opcode: OpCode,
    pub(crate) payload: BytesMut,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadError {
    Lost,
    Protocol,
    Text,
    TooLarge,
    NoMemory,
}

/// The progress of a reader, which other tasks observe.
#[derive(Debug, Default)]
pub(crate) struct ReadProgress {
    read: AtomicU64,
    framed: AtomicU64,
    /// True if a byte has arrived since the last call of `take_alive`.
    is_alive: AtomicBool,
    is_in_message: AtomicBool,
    is_starved: AtomicBool,
}

impl ReadProgress {
    /// Reports whether a byte has arrived since the last call.
    pub(crate) fn take_alive(&self) -> bool {
        self.is_alive.swap(false, Relaxed)
    }

    /// Reports whether a message has begun and is not complete, in one or several frames.
    pub(crate) fn is_in_message(&self) -> bool {
        self.is_in_message.load(Relaxed) || self.pending() > 0
    }

    /// Records bytes that were read. Only the reader adds to the sums, so they need no atomic addition.
    fn add_read(&self, bytes: usize) {
        self.read.store(self.read.load(Relaxed) + bytes as u64, Relaxed);
        self.is_alive.store(true, Relaxed);
    }

    fn add_framed(&self, bytes: usize) {
        self.framed.store(self.framed.load(Relaxed) + bytes as u64, Relaxed);
    }

    /// Returns the number of bytes of the incomplete frame, and of bytes that already follow it.
    fn pending(&self) -> u64 {
        self.read.load(Relaxed).saturating_sub(self.framed.load(Relaxed))
    }
}

/// A reader of frames. Between frames it holds no buffer, so that thousands of idle streams cost little: the first
/// bytes are [read into a buffer of the thread](poll_arrived).
///
/// The future of [`next`](FrameReader::next) must not be dropped before it is ready, or the start of a frame is lost.
pub(crate) struct FrameReader<R> {
    state: State<R>,
    role: Role,
    max_message: usize,
    progress: Arc<ReadProgress>,
    /// True if the next read probably brings exactly one frame, as the last one did.
    expects_one: bool,
    /// True if the connection's own reader has returned no frame yet.
    is_first: bool,
    /// The bytes of the fragments so far of an incomplete message.
    fragments: Option<usize>,
    /// The memory of these fragments, which a server holds until their message is complete.
    held: MemoryPermit,
}

enum State<R> {
    Idle(Source<R>),
    /// With a reader of fastwebsockets, which has bytes of a frame.
    Reading(WebSocket<ReadOnly<Source<R>>>),
    /// After an error, with the source unless that is lost.
    Failed(Option<Source<R>>),
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Creates a reader in this role for messages of up to `max_message` bytes, all fragments together. Large frames
    /// take memory for their arrived bytes.
    pub(crate) fn new(inner: R, role: Role, max_message: usize, memory: MemoryPermit) -> Self {
        let progress = Arc::<ReadProgress>::default();
        let held = memory.sibling();
        let source = Source { inner, ahead: Bytes::new(), progress: progress.clone(), memory };
        let state = State::Idle(source);
        let expects_one = true;
        let is_first = false;
        FrameReader { state, role, max_message, progress, expects_one, is_first, fragments: None, held }
    }

    pub(crate) fn progress(&self) -> &Arc<ReadProgress> {
        &self.progress
    }

    pub(crate) async fn next(&mut self) -> Result<ReadFrame, ReadError> {
        if let State::Idle(source) = &mut self.state {
            let role = self.role;
            let may_be_one = self.expects_one;
            match poll_fn(|cx| source.poll_arrived(role, may_be_one, cx)).await {
                Ok(Arrived::Frame(frame, is_masked, len)) => {
                    self.progress.add_framed(len);
                    return self.take(frame, is_masked);
                }
                Ok(Arrived::Bytes(ahead)) => self.begin(ahead),
                Err(_) => return Err(ReadError::Lost),
            }
        }
        let State::Reading(reader) = &mut self.state else { return Err(ReadError::Lost) };
        match reader.read_frame().await {
            Ok(mut frame) => {
                let is_masked = is_masked(&mut frame);
                self.read(head_len(frame.payload.len(), is_masked) + frame.payload.len());
                self.take(frame, is_masked)
            }
            Err(error) => {
                if let State::Reading(reader) = std::mem::replace(&mut self.state, State::Failed(None)) {
                    self.state = State::Failed(Some(reader.into_inner().0.released()));
                }
                Err(self.failure(&error))
            }
        }
    }

    /// After an error: reads and drops all bytes until the connection ends.
    pub(crate) async fn discard(&mut self) {
        let mut source = match std::mem::replace(&mut self.state, State::Failed(None)) {
            State::Idle(source) => source,
            State::Reading(reader) => reader.into_inner().0.released(),
            State::Failed(Some(source)) => source,
            State::Failed(None) => return,
        };
        let mut waste = vec![0; WASTE];
        while source.inner.read(&mut waste).await.is_ok_and(|read| read > 0) {}
    }

    /// Hands the connection to a reader of fastwebsockets, which starts with the arrived bytes.
    fn begin(&mut self, ahead: Bytes) {
        (self.expects_one, self.is_first) = (false, true);
        self.state = match std::mem::replace(&mut self.state, State::Failed(None)) {
            State::Idle(mut source) => {
                source.ahead = ahead;
                let mut reader = reader(source, self.role);
                // fastwebsockets also refuses frames of exactly this size.
                reader.set_max_message_size(self.max_message.saturating_add(1));
                State::Reading(reader)
            }
            other => other,
        };
    }

    /// Records that the reader has returned a frame of this many bytes. Drops the reader if it holds no more bytes.
    fn read(&mut self, bytes: usize) {
        self.progress.add_framed(bytes);
        let is_first = std::mem::take(&mut self.is_first);
        if self.progress.pending() == 0 {
            self.expects_one = is_first;
            self.state = match std::mem::replace(&mut self.state, State::Failed(None)) {
                State::Reading(reader) => State::Idle(reader.into_inner().0.released()),
                other => other,
            };
        }
    }

    fn take(&mut self, frame: Frame<'_>, is_masked: bool) -> Result<ReadFrame, ReadError> {
        let payload = match frame.payload {
            Payload::Bytes(bytes) => bytes,
            other => BytesMut::from(&*other),
        };
        // fastwebsockets, which reads frames that come in pieces, checks their size before their mask and their opcode.
        if payload.len() > self.max_message {
            return Err(ReadError::TooLarge);
        }
        // fastwebsockets accepts frames with and without a mask from either side (RFC 6455, section 5.1).
        if is_masked == self.role.masks() {
            return Err(ReadError::Protocol);
        }
        self.check(frame.fin, frame.opcode, payload.len())?;
        Ok(ReadFrame { fin: frame.fin, opcode: frame.opcode, payload })
    }

    /// Checks the frame's position in its message, and the size of the message.
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

/// The input of fastwebsockets: the bytes that were read ahead, then the connection.
struct Source<R> {
    inner: R,
    ahead: Bytes,
    progress: Arc<ReadProgress>,
    memory: MemoryPermit,
}

impl<R: AsyncRead + Unpin> Source<R> {
    /// Waits for the first bytes after a frame.
    fn poll_arrived(
        &mut self,
        role: Role,
        may_be_one: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Arrived>> {
        let arrived = ready!(poll_arrived(&mut self.inner, role, may_be_one, cx))?;
        self.note(match &arrived {
            Arrived::Frame(_, _, len) => *len,
            Arrived::Bytes(bytes) => bytes.len(),
        });
        Poll::Ready(Ok(arrived))
    }

    fn note(&self, bytes: usize) {
        self.progress.add_read(bytes);
    }

    /// Returns the source between frames, without its memory.
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use futures_util::poll;
    use rpcgate_core::caller::ProjectId;
    use rpcgate_core::memory::MemoryBudget;
    use std::pin::pin;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::yield_now;

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
    async fn connections_of_a_thread_never_share_bytes_for_any_part_of_a_frame() {
        let mut connections: Vec<_> = (0..5).map(|_| reader(1_000)).collect();
        let mut kept = Vec::new();
        for round in 0..200 {
            let each = connections.iter_mut().zip(1_u8..).map(|((client, reader), number)| async move {
                let payloads = [vec![round ^ number; 5 + usize::from(number)], vec![round; 40]];
                let [one, two] = payloads.each_ref().map(|payload| masked(0x82, payload));
                let both = [&one[..], &two].concat();
                // The first frame, a part of it, one and a half, both, or nothing.
                let at_first = [one.len(), 4, one.len() + 9, both.len(), 0][usize::from(number - 1)];
                client.write_all(&both[..at_first]).await.unwrap();
                let first = {
                    let mut next = pin!(reader.next());
                    let early = poll!(&mut next);
                    assert_eq!(early.is_ready(), at_first >= one.len());
                    // The others read in the meantime.
                    yield_now().await;
                    client.write_all(&both[at_first..]).await.unwrap();
                    match early {
                        Poll::Ready(first) => first,
                        Poll::Pending => next.await,
                    }
                };
                yield_now().await;
                let second = reader.next().await;
                assert!(matches!(reader.state, State::Idle(_)), "no buffer is held between frames");
                [first, second].map(|frame| frame.unwrap().payload).into_iter().zip(payloads)
            });
            kept.extend(join_all(each).await.into_iter().flatten());
        }
        assert_eq!(kept.len(), 2_000);
        // A payload does not change when others have read into its former buffer.
        assert!(kept.iter().all(|(payload, expected)| payload[..] == expected[..]));
    }

    #[tokio::test]
    async fn the_bytes_after_a_refused_frame_are_read_and_dropped_until_the_end() {
        // The head of a frame that is too large, one without a mask, and a complete one that is too large.
        for bytes in [masked(0x82, &[0; 70_000])[..20].to_vec(), vec![0x81, 1, b'a'], masked(0x82, &[0; 101])]
        {
            let (mut client, mut reader) = reader(100);
            client.write_all(&bytes).await.unwrap();
            assert!(reader.next().await.is_err());
            let writing = tokio::spawn(async move { client.write_all(&vec![0; 4 << 20]).await.is_ok() });
            reader.discard().await;
            assert!(writing.await.unwrap());
            assert_eq!(reader.next().await.unwrap_err(), ReadError::Lost);
        }
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
