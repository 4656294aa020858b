//! What a connection is doing, noted as its bytes pass: nothing, sending a head, or waiting for an answer.

use super::framing::{self, HeadText};
use super::stream::Progress;
use bytes::{Buf, Bytes};
use futures_util::task::AtomicWaker;
use http_body::Body;
use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection is doing. Written by the socket, the service and the answer's body, which all live in one task
/// over HTTP/1; nothing is ordered by it, so all accesses are relaxed.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    calls: AtomicU32,
    head: AtomicBool,
    wrote: AtomicBool,
    unread: AtomicBool,
    lingering: AtomicBool,
    /// Whether the socket takes no more bytes for now, and how many it has taken.
    blocked: AtomicBool,
    taken: AtomicU64,
    /// Whether the gateway leaves: the next answer is to be the last.
    leaving: AtomicBool,
    /// Whether a stream was reset because its answer was not taken, and no request has come since.
    reset: AtomicBool,
    /// The stream that is being opened, over HTTP/2.
    opened: Mutex<Option<Arc<Progress>>>,
    /// The head that comes or came last, over HTTP/1.
    text: Mutex<HeadText>,
    /// Whether that head takes memory that is to be given back once its request is seen.
    has_large_head: AtomicBool,
    waker: AtomicWaker,
}

/// What a connection is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nobody waits for anything.
    Idle,
    /// A head has begun and is not complete.
    Head,
    /// A request is being answered.
    Busy,
    /// The last answer is given and what the client still sends is thrown away.
    Lingering,
}

impl ConnectionState {
    pub(super) fn phase(&self) -> Phase {
        if self.calls.load(Relaxed) > 0 {
            Phase::Busy
        } else if self.lingering.load(Relaxed) {
            Phase::Lingering
        } else if self.head.load(Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        }
    }

    /// Whether bytes were written since this was last asked.
    pub(super) fn take_wrote(&self) -> bool {
        // Looked at first: an exchange costs more than a look, and mostly there is nothing.
        self.wrote.load(Relaxed) && self.wrote.swap(false, Relaxed)
    }

    /// A request begins; it ends when the value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.head.store(false, Relaxed);
        self.unread.store(false, Relaxed);
        self.reset.store(false, Relaxed);
        self.calls.fetch_add(1, Relaxed);
        Busy(self.clone())
    }

    /// The client's socket took so many bytes.
    pub(super) fn took(&self, bytes: usize) {
        self.taken.store(self.taken.load(Relaxed) + bytes as u64, Relaxed);
        self.blocked.store(false, Relaxed);
    }

    /// Whether the client's socket takes no more bytes for now.
    pub(super) fn set_blocked(&self, is_blocked: bool) {
        self.blocked.store(is_blocked, Relaxed);
    }

    /// Whether the client is waited for, and how many bytes it has taken.
    pub(super) fn taken(&self) -> (bool, u64) {
        (self.blocked.load(Relaxed), self.taken.load(Relaxed))
    }

    /// A stream is opened; its task takes the progress along.
    pub(super) fn open(&self) -> Arc<Progress> {
        let progress = Arc::<Progress>::default();
        *self.opened.lock() = Some(progress.clone());
        progress
    }

    /// The progress of the stream that was opened last, once.
    pub(super) fn take_opened(&self) -> Option<Arc<Progress>> {
        self.opened.lock().take()
    }

    /// Whether the request that is about to begin, with this body, says in two ways how long that is; false if its head was
    /// not seen, since it came together with a request before it.
    pub(super) fn is_ambiguous(&self, body: &impl Body) -> bool {
        // The length of an encoded body is not known before its end.
        let is_encoded = body.size_hint().exact().is_none();
        if !is_encoded && !self.has_large_head.load(Relaxed) {
            return false;
        }
        self.has_large_head.store(false, Relaxed);
        let mut text = self.text.lock();
        let is_ambiguous = is_encoded && self.head.load(Relaxed) && text.has_length();
        text.forget();
        is_ambiguous
    }

    /// The gateway leaves.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    /// A stream is reset because its answer was not taken.
    pub(super) fn reset(&self) {
        self.reset.store(true, Relaxed);
    }

    /// Whether the last thing that happened is that a stream was reset.
    pub(super) fn was_reset(&self) -> bool {
        self.reset.load(Relaxed)
    }

    /// The body of a request was not read to its end.
    pub(super) fn left_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}

/// A request that is being answered, until the last of its answer was handed over.
#[derive(Debug)]
pub(super) struct Busy(Arc<ConnectionState>);

impl Busy {
    /// Whether its answer is to be the connection's last.
    pub(super) fn is_last(&self) -> bool {
        self.0.leaving.load(Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

/// A socket that notes what happens on it.
#[derive(Debug)]
pub(super) struct Guarded<T> {
    inner: T,
    state: Arc<ConnectionState>,
    heads: bool,
    /// Bytes of a head that are read at most.
    most: usize,
    /// What is written in the place of something of hyper's own, and how many bytes that had.
    words: Option<(Bytes, usize)>,
}

impl<T> Guarded<T> {
    /// A socket on which requests follow one another: what comes between two of them is a head, of `most` bytes at most.
    pub(super) fn http1(inner: T, state: Arc<ConnectionState>, most: usize) -> Self {
        Guarded { inner, state, heads: true, most, words: None }
    }

    /// A socket with frames of its own, of which heads are but some.
    pub(super) fn http2(inner: T, state: Arc<ConnectionState>) -> Self {
        Guarded { inner, state, heads: false, most: 0, words: None }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if self.heads
            && let Some(bytes @ [_, ..]) = buf.filled().get(before..)
            && let phase @ (Phase::Idle | Phase::Head) = self.state.phase()
        {
            let is_large = self.state.text.lock().push(phase == Phase::Idle, bytes, self.most);
            if is_large {
                self.state.has_large_head.store(true, Relaxed);
            }
            self.state.head.store(true, Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> Guarded<T> {
    /// Whether this is what hyper says by itself to a head that it cannot read.
    fn is_own(&mut self, bytes: &[u8]) -> bool {
        if self.words.is_none() {
            // No request is being answered then, and the head is not over.
            let may_be = self.state.phase() == Phase::Head;
            self.words =
                framing::in_words(bytes).filter(|_| may_be).map(|words| (Bytes::from(words), bytes.len()));
        }
        self.words.is_some()
    }

    /// Writes the words in the place of what hyper says.
    fn poll_words(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some((words, _)) = &mut self.words
            && !words.is_empty()
        {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, words))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            words.advance(written);
        }
        let bytes = self.words.take().map_or(0, |(_, bytes)| bytes);
        self.wrote(Poll::Ready(Ok(bytes)))
    }

    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(1..)) = result {
            // Frames are written for the connection's own sake too: only an answer shows that it is not idle.
            self.state.wrote.store(self.heads, Relaxed);
        }
        result
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.heads && self.is_own(buf) {
            return self.poll_words(cx);
        }
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.heads
            && let [first, rest @ ..] = bufs
            && rest.iter().all(|slice| slice.is_empty())
            && self.is_own(first)
        {
            return self.poll_words(cx);
        }
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    /// Closes our side. If the client is not done sending, its side is read until it is: closed at once, with bytes
    /// unread, the connection would be reset, and the client might never see the answer that tells it why.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        let state = &self.state;
        if !self.heads || !(state.unread.load(Relaxed) || state.head.load(Relaxed)) {
            return Poll::Ready(Ok(()));
        }
        state.lingering.store(true, Relaxed);
        let mut scratch = [MaybeUninit::uninit(); 4096];
        loop {
            let mut piece = ReadBuf::uninit(&mut scratch);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut piece)) {
                Ok(()) if !piece.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
