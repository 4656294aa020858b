//! A socket that writes small pieces as one.
//!
//! HTTP passes head and body as two pieces to `writev`. If both are small, copying them together and calling `send`
//! takes a twentieth less kernel time.

use smallvec::SmallVec;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum number of copied bytes. Most answers of nodes are smaller, with their headers.
const SMALL: usize = 2048;

/// A writer that writes small pieces to `T` together.
///
/// ```
/// use rpcgate_layers::coalesced_writes::CoalescedWrites;
/// use std::io::IoSlice;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut near, far) = tokio::io::duplex(64);
/// let mut far = CoalescedWrites::new(far);
/// assert_eq!(far.write_vectored(&[IoSlice::new(b"head "), IoSlice::new(b"body")]).await?, 9);
/// drop(far);
/// let mut read = String::new();
/// near.read_to_string(&mut read).await?;
/// assert_eq!(read, "head body");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CoalescedWrites<T>(T);

impl<T> CoalescedWrites<T> {
    /// Returns the socket.
    pub fn get_ref(&self) -> &T {
        &self.0
    }

    /// Creates a writer to `inner`.
    pub fn new(inner: T) -> Self {
        CoalescedWrites(inner)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for CoalescedWrites<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CoalescedWrites<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.0);
        if let [one] = bufs {
            return inner.poll_write(cx, one);
        }
        if bufs.iter().map(|buf| buf.len()).sum::<usize>() > SMALL {
            return inner.poll_write_vectored(cx, bufs);
        }
        let mut all: SmallVec<[u8; SMALL]> = SmallVec::new();
        for buf in bufs {
            all.extend_from_slice(buf);
        }
        inner.poll_write(cx, &all)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Records the pieces of each write, and accepts at most `takes` bytes of each.
    struct Wire {
        writes: Vec<Vec<Vec<u8>>>,
        takes: usize,
    }

    impl Wire {
        fn write(&mut self, bufs: &[&[u8]]) -> Poll<io::Result<usize>> {
            self.writes.push(bufs.iter().map(|buf| buf.to_vec()).collect());
            Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum::<usize>().min(self.takes)))
        }
    }

    impl AsyncWrite for Wire {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.write(&[buf])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.write(&bufs.iter().map(|buf| &**buf).collect::<Vec<_>>())
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Returns the lengths of the written pieces, and the number of accepted bytes.
    fn written(pieces: &[usize], takes: usize) -> (Vec<usize>, usize) {
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(pieces.iter().sum()).collect();
        let mut rest = &bytes[..];
        let bufs: Vec<_> = pieces.iter().map(|len| IoSlice::new(rest.split_off(..*len).unwrap())).collect();
        let mut socket = CoalescedWrites::new(Wire { writes: Vec::new(), takes });
        assert!(socket.is_write_vectored());
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(taken)) = Pin::new(&mut socket).poll_write_vectored(&mut cx, &bufs) else {
            panic!("it accepts some bytes")
        };
        let [write] = &socket.0.writes[..] else { panic!("one write") };
        assert_eq!(write.concat(), bytes);
        (write.iter().map(Vec::len).collect(), taken)
    }

    #[test]
    fn small_pieces_are_written_as_one_and_large_ones_separately() {
        assert_eq!(written(&[850, 40], 9_999), (vec![890], 890));
        assert_eq!(written(&[850, SMALL - 850], 9_999), (vec![SMALL], SMALL));
        assert_eq!(written(&[850, SMALL - 849], 9_999), (vec![850, SMALL - 849], SMALL + 1));
        assert_eq!(written(&[100_000], 999_999), (vec![100_000], 100_000));
        assert_eq!(written(&[], 9), (vec![0], 0));
    }

    #[test]
    fn bytes_that_the_socket_does_not_accept_are_not_reported_as_written() {
        assert_eq!(written(&[10, 10], 7), (vec![20], 7));
        assert_eq!(written(&[10, 10], 13), (vec![20], 13));
    }
}
