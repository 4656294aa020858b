//! A client's socket that notes heads and answers as their bytes pass.

use super::connection_state::{ConnectionState, Phase};
use super::frames::{Frames, Verdict};
use super::hyper_answers;
use bytes::{Buf, Bytes};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket that records its traffic in the state of its connection.
#[derive(Debug)]
pub(super) struct Guarded<T> {
    inner: T,
    state: Arc<ConnectionState>,
    heads: bool,
    frames: Option<Frames>,
    /// The maximum stored bytes of a head.
    most: usize,
    /// The replacement of hyper's own answer, and the length of hyper's in bytes.
    replacement: Option<(Bytes, usize)>,
}

impl<T> Guarded<T> {
    /// Wraps an HTTP/1 socket: the bytes between two requests are a head. At most `most` bytes of it are stored.
    pub(super) fn http1(inner: T, state: Arc<ConnectionState>, most: usize) -> Self {
        Guarded { inner, state, heads: true, frames: None, most, replacement: None }
    }

    /// Wraps an HTTP/2 socket, where only some frames are heads.
    pub(super) fn http2(inner: T, state: Arc<ConnectionState>) -> Self {
        Guarded { inner, state, heads: false, frames: Some(Frames::new()), most: 0, replacement: None }
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
        let this = &mut *self;
        if let Some(frames) = &mut this.frames
            && let Some(bytes) = buf.filled().get(before..)
            && frames.read(bytes) == Verdict::Flood
        {
            this.state.flood();
        }
        if self.heads
            && let Some(bytes @ [_, ..]) = buf.filled().get(before..)
            && let phase @ (Phase::Idle | Phase::Head) = self.state.phase()
        {
            self.state.push_head(phase == Phase::Idle, bytes, self.most);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> Guarded<T> {
    /// Reports whether these bytes are hyper's own answer to a head that it cannot read.
    fn is_hypers_own(&mut self, bytes: &[u8]) -> bool {
        if self.replacement.is_none() {
            // Hyper writes it while no request is being answered and the head is incomplete.
            let may_be = self.state.phase() == Phase::Head;
            self.replacement = hyper_answers::replacement(bytes)
                .filter(|_| may_be)
                .map(|replacement| (Bytes::from(replacement), bytes.len()));
        }
        self.replacement.is_some()
    }

    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some((rest, _)) = &mut self.replacement
            && !rest.is_empty()
        {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            rest.advance(written);
        }
        let bytes = self.replacement.take().map_or(0, |(_, bytes)| bytes);
        self.wrote(Poll::Ready(Ok(bytes)))
    }

    fn wrote(&mut self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes @ 1..)) = result {
            if let Some(frames) = &mut self.frames {
                frames.wrote(bytes);
            }
            // Some HTTP/2 frames belong to the connection itself; only an answer shows that it is not idle.
            self.state.set_wrote(self.heads);
        }
        result
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.heads && self.is_hypers_own(buf) {
            return self.poll_replacement(cx);
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
            && self.is_hypers_own(first)
        {
            return self.poll_replacement(cx);
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

    /// Closes our side. If the client is still sending, its side is read to the end: closing a socket with unread bytes
    /// resets it, and the client might never see the answer with the reason.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        if !self.heads || !self.state.is_unread() {
            return Poll::Ready(Ok(()));
        }
        self.state.linger();
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
