//! Reads a whole request body within limits on its size and its time.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use pin_project_lite::pin_project;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::refusal::Refusal;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// Limits on the size and the time of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BodyLimits {
    /// The maximum number of bytes; 5 MiB by default.
    pub bytes: usize,
    /// The time that every body may take, even a slow one; 10 s by default.
    pub patience: Duration,
    /// The minimum average rate in bytes per second, measured over `patience` and then over every further half of it. A
    /// body that is slower is refused, regardless of the amount already received. 1,024 by default.
    pub pace: usize,
    /// The maximum time for the whole body, from the first wait for data; 60 s by default.
    pub total: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        BodyLimits {
            bytes: 5 * 1024 * 1024,
            patience: Duration::from_secs(10),
            pace: 1_024,
            total: Duration::from_secs(60),
        }
    }
}

impl BodyLimits {
    /// Sets the maximum size in bytes.
    #[must_use]
    pub const fn with_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the time that a slow body may take.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the minimum rate in bytes per second.
    #[must_use]
    pub const fn with_pace(mut self, pace: usize) -> Self {
        self.pace = pace;
        self
    }

    /// Sets the maximum time for the whole body.
    #[must_use]
    pub const fn with_total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }
}

/// The copies of a body in memory: a call is written again for a node. Memory for both is taken as the body arrives,
/// because refusing a request after its whole body was read would cost the most.
pub(super) const COPIES: usize = 2;

pin_project! {
    /// A body being read. A body that arrives in one piece is passed on without a copy.
    #[derive(Debug)]
    pub struct Reading<B> {
        #[pin]
        body: B,
        limits: BodyLimits,
        first: Bytes,
        more: BytesMut,
        slow: Slow,
    }
}

/// Measures the rate, one time span after the other. The timer is created at the first wait for data.
#[derive(Debug, Default)]
struct Slow {
    timer: Option<Pin<Box<Sleep>>>,
    /// The number of bytes received before this span.
    before: usize,
    spans: u32,
    /// The total length of the earlier spans.
    elapsed: Duration,
}

impl Slow {
    fn poll(&mut self, received: usize, limits: &BodyLimits, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // The first span is `patience`; each later one is half of it.
            let span = if self.spans == 0 { limits.patience } else { limits.patience / 2 };
            let span = span.min(limits.total.saturating_sub(self.elapsed));
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(span)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let due = span.as_millis() * limits.pace as u128 / 1_000;
            self.elapsed += span;
            if ((received - self.before) as u128) < due || self.elapsed >= limits.total {
                return Poll::Ready(());
            }
            (self.before, self.spans, self.timer) = (received, self.spans + 1, None);
        }
    }
}

impl<B: Body<Data = Bytes>> Reading<B> {
    /// Starts to read `body`.
    ///
    /// # Errors
    /// Returns [`Refusal::BodyTooLarge`] if the body's size hint exceeds the limit.
    pub fn new(body: B, limits: BodyLimits) -> Result<Self, Refusal> {
        if body.size_hint().lower() > limits.bytes as u64 {
            return Err(Refusal::BodyTooLarge);
        }
        Ok(Reading { body, limits, first: Bytes::new(), more: BytesMut::new(), slow: Slow::default() })
    }

    /// Continues to read. The received bytes take memory from `held`.
    ///
    /// # Errors
    /// Returns [`Refusal::BodyTooLarge`], [`Refusal::BodyTooSlow`], [`Refusal::Overloaded`] if no memory is left, and
    /// [`Refusal::InvalidRequest`] if the client aborts the body (the client will not read the refusal).
    pub fn poll(
        self: Pin<&mut Self>,
        held: &mut MemoryPermit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Refusal>> {
        let mut this = self.project();
        loop {
            match this.body.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let received = this.first.len() + this.more.len() + data.len();
                    if received > this.limits.bytes {
                        return Poll::Ready(Err(Refusal::BodyTooLarge));
                    }
                    let capacity = COPIES * data.len();
                    let is_complete = received == data.len() && this.body.is_end_stream();
                    let taken = if is_complete { held.take_complete(capacity) } else { held.take(capacity) };
                    if taken.is_err() {
                        return Poll::Ready(Err(Refusal::Overloaded));
                    }
                    if received == data.len() {
                        *this.first = data;
                    } else {
                        if this.more.is_empty() {
                            // With a known length, the buffer never grows.
                            let rest =
                                this.body.size_hint().exact().and_then(|rest| usize::try_from(rest).ok());
                            this.more.reserve(received + rest.unwrap_or(received));
                            this.more.extend_from_slice(&std::mem::take(this.first));
                        }
                        this.more.extend_from_slice(&data);
                    }
                    if this.body.is_end_stream() {
                        break;
                    }
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Refusal::InvalidRequest)),
                Poll::Ready(None) => break,
                Poll::Pending => {
                    let received = this.first.len() + this.more.len();
                    return match this.slow.poll(received, this.limits, cx) {
                        Poll::Ready(()) => Poll::Ready(Err(Refusal::BodyTooSlow)),
                        Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
        let total =
            if this.more.is_empty() { std::mem::take(this.first) } else { this.more.split().freeze() };
        Poll::Ready(Ok(total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use rpcgate_core::memory::MemoryBudget;
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::pin;

    async fn read<B: Body<Data = Bytes>>(
        body: B,
        limits: BodyLimits,
        held: &mut MemoryPermit,
    ) -> Result<Bytes, Refusal> {
        let mut reading = pin!(Reading::new(body, limits)?);
        poll_fn(|cx| reading.as_mut().poll(held, cx)).await
    }

    fn pieces(pieces: &'static [&'static str], every: Duration) -> impl Body<Data = Bytes> {
        StreamBody::new(stream::unfold(pieces.iter(), move |mut left| async move {
            let piece = left.next()?;
            tokio::time::sleep(every).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(piece.as_bytes()))), left))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_in_one_piece_is_not_copied() {
        let bytes = Bytes::from_static(b"hello");
        let read = read(Full::new(bytes.clone()), BodyLimits::default(), &mut MemoryPermit::default())
            .await
            .unwrap();
        assert_eq!(read.as_ptr(), bytes.as_ptr());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_in_pieces_is_put_together() {
        let body = pieces(&["a", "bc", "", "def"], Duration::from_millis(1));
        let mut held = MemoryPermit::default();
        assert_eq!(read(body, BodyLimits::default(), &mut held).await.unwrap(), "abcdef");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_above_the_limit_is_refused_with_or_without_a_declared_length() {
        let limits = BodyLimits { bytes: 4, ..BodyLimits::default() };
        let mut held = MemoryPermit::default();
        let said = Full::new(Bytes::from_static(b"12345"));
        assert_eq!(read(said, limits, &mut held).await, Err(Refusal::BodyTooLarge));
        let unsaid = pieces(&["12", "345"], Duration::ZERO);
        assert_eq!(read(unsaid, limits, &mut held).await, Err(Refusal::BodyTooLarge));
        assert_eq!(read(pieces(&["12", "34"], Duration::ZERO), limits, &mut held).await.unwrap(), "1234");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_cut_after_ten_seconds_and_a_fast_one_is_not() {
        static DRIPS: [&str; 100] = ["x"; 100];
        let drip = pieces(&DRIPS, Duration::from_secs(1));
        let before = tokio::time::Instant::now();
        let outcome = read(drip, BodyLimits::default(), &mut MemoryPermit::default()).await;
        assert_eq!(outcome, Err(Refusal::BodyTooSlow));
        assert_eq!(before.elapsed().as_secs(), 10);

        let piece: &'static str = Box::leak("x".repeat(1_100).into_boxed_str());
        let steady: &'static [&'static str] = Box::leak(vec![piece; 60].into_boxed_slice());
        let outcome =
            read(pieces(steady, Duration::from_secs(1)), BodyLimits::default(), &mut MemoryPermit::default())
                .await;
        assert_eq!(outcome.unwrap().len(), 66_000);
    }

    // Shows (Hostile and odd traffic): A body must arrive completely within `body_timeout` (promise 60).
    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_fast_enough_still_has_only_a_minute() {
        let piece: &'static str = Box::leak("x".repeat(1_100).into_boxed_str());
        let endless: &'static [&'static str] = Box::leak(vec![piece; 100].into_boxed_slice());
        let before = tokio::time::Instant::now();
        let body = pieces(endless, Duration::from_secs(1));
        assert_eq!(
            read(body, BodyLimits::default(), &mut MemoryPermit::default()).await,
            Err(Refusal::BodyTooSlow)
        );
        assert_eq!(before.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_half_way_is_cut() {
        let piece: &'static str = Box::leak("x".repeat(30_000).into_boxed_str());
        let body = StreamBody::new(stream::unfold(0, move |n| async move {
            if n == 1 {
                std::future::pending::<()>().await;
            }
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(piece.as_bytes()))), n + 1))
        }));
        let before = tokio::time::Instant::now();
        assert_eq!(
            read(body, BodyLimits::default(), &mut MemoryPermit::default()).await,
            Err(Refusal::BodyTooSlow)
        );
        assert_eq!(
            before.elapsed().as_secs(),
            15,
            "what came in the first 10 s does not count in the next 5"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_share_one_memory_budget() {
        let capacity = MemoryBudget::new(8 * COPIES);
        let mut one = MemoryPermit::of(capacity.clone());
        let mut two = MemoryPermit::of(capacity.clone());
        let body = || Full::new(Bytes::from_static(b"12345"));
        assert!(read(body(), BodyLimits::default(), &mut one).await.is_ok());
        assert_eq!(read(body(), BodyLimits::default(), &mut two).await, Err(Refusal::Overloaded));
        drop(one);
        assert!(read(body(), BodyLimits::default(), &mut two).await.is_ok());
    }
}
