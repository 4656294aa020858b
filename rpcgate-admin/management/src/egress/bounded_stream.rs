//! A connection with a limit on the bytes that are read per exchange.
//!
//! hyper drops interim answers (1xx) and bounds the size of each, but not their number, so a receiver could send them
//! until the deadline. So all bytes are counted here.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of bytes that may still be read in this exchange. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct ReadBudget {
    left: Arc<AtomicUsize>,
    whole: usize,
}

impl ReadBudget {
    pub(super) fn new(whole: usize) -> Self {
        ReadBudget { left: Arc::new(AtomicUsize::new(whole)), whole }
    }

    pub(super) fn refill(&self) {
        self.left.store(self.whole, Ordering::Relaxed);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// A stream that fails to read once its budget is spent.
#[derive(Debug)]
pub(super) struct BoundedStream<S> {
    inner: S,
    budget: ReadBudget,
}

impl<S> BoundedStream<S> {
    pub(super) fn new(inner: S, budget: ReadBudget) -> Self {
        BoundedStream { inner, budget }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.budget.left.load(Ordering::Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::Error::other("more bytes came than are read")));
        }
        let length = buffer.remaining().min(left);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(length));
        let polled = Pin::new(&mut self.inner).poll_read(context, &mut part);
        let count = part.filled().len();
        buffer.advance(count);
        // Another exchange may have refilled it meanwhile.
        let _ = self
            .budget
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(count)));
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn no_more_bytes_are_read_than_the_budget_has_and_a_refill_gives_all_of_them_back() {
        let budget = ReadBudget::new(5);
        let mut stream = BoundedStream::new(sixty_four_bytes(), budget.clone());
        let mut read = [0; 5];
        stream.read_exact(&mut read).await.unwrap();
        assert!(budget.is_spent());
        assert_eq!(stream.read(&mut read).await.unwrap_err().to_string(), "more bytes came than are read");
        budget.refill();
        assert_eq!(stream.read(&mut read[..3]).await.unwrap(), 3);
        assert!(!budget.is_spent());
    }

    fn sixty_four_bytes() -> tokio::io::DuplexStream {
        let (inner, mut outer) = tokio::io::duplex(64);
        tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut outer, &[7; 64]).await });
        inner
    }
}
