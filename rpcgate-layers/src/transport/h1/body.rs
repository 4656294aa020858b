//! The rest of an answer that is too large for the buffer.

use super::connection::NodeConnection;
use super::idle::{IdleConnections, RestingConnection};
use crate::nodes::in_flight::{InFlightGuard, InFlightPermit};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::{Cause, Fault};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// The rest of a larger answer after its prefix, as it arrives from the node.
///
/// It ends without an error only if the node declared the end and all of the body arrived. The last item is an error if
/// the connection breaks, or if the reader has waited for longer than a call's time limit plus 1 s for each 64 KiB that
/// arrived. Trailers are dropped.
pub struct NodeBody {
    incoming: Incoming,
    /// `None` after the end of the body, with or without an error.
    source: Option<BodySource>,
    /// The connection after a complete body. `Drop` makes it idle, unless the reader rejects the body.
    ended: Option<(RestingConnection, Arc<IdleConnections>)>,
    remaining: Duration,
    sleep: Pin<Box<Sleep>>,
    waiting: Option<Instant>,
}

/// The minimum rate in bytes per second. A slower node keeps its connection and its permit no longer than a call's time
/// limit.
const MIN_RATE: u64 = 64 << 10;

/// The resources of an answer before its end.
pub(super) struct BodySource {
    pub(super) connection: Box<NodeConnection>,
    /// The destination of the connection at the end.
    pub(super) idle: Arc<IdleConnections>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) _permit: Option<InFlightPermit>,
    pub(super) _guard: InFlightGuard<Arc<AtomicUsize>>,
}

impl NodeBody {
    /// Creates the rest of an answer. `timeout` is the time that the reader may wait; arriving bytes extend it.
    pub(super) fn new(incoming: Incoming, source: BodySource, timeout: Duration) -> Self {
        let mut body = NodeBody {
            incoming,
            source: Some(source),
            ended: None,
            remaining: timeout,
            sleep: Box::pin(tokio::time::sleep(timeout)),
            waiting: None,
        };
        if body.incoming.is_end_stream() {
            body.end();
        }
        body
    }

    /// Ends the body completely. The connection can take another call when the body is dropped.
    fn end(&mut self) {
        if let Some(BodySource { connection, idle, clock, .. }) = self.source.take() {
            self.ended = Some((RestingConnection { connection, since: clock.elapsed() }, idle));
        }
    }

    /// Rejects the content: the connection is closed even if all of the body has arrived.
    pub(crate) fn reject(&mut self) {
        self.source = None;
        self.ended = None;
    }

    fn fail(&mut self, cause: Cause) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        self.source = None;
        Poll::Ready(Some(Err(Fault::sent(cause))))
    }

    /// Starts or continues the wait. The time between two polls of the reader does not count.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none() {
            let now = Instant::now();
            self.waiting = Some(now);
            self.sleep.as_mut().reset(now + self.remaining);
        }
        self.sleep.as_mut().poll(cx)
    }

    /// Extends the time limit by the arrived bytes.
    fn record_bytes(&mut self, bytes: usize) {
        if let Some(since) = self.waiting.take() {
            self.remaining = self.remaining.saturating_sub(since.elapsed());
        }
        self.remaining += Duration::from_micros(bytes as u64 * 1_000_000 / MIN_RATE);
    }
}

impl Drop for NodeBody {
    fn drop(&mut self) {
        if let Some((connection, idle)) = self.ended.take() {
            idle.put(connection);
        }
    }
}

impl Body for NodeBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let this = self.get_mut();
        loop {
            let Some(source) = &mut this.source else { return Poll::Ready(None) };
            match source.connection.poll_frame(&mut this.incoming, cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    this.record_bytes(frame.data_ref().map_or(0, Bytes::len));
                    if !frame.is_data() {
                        continue;
                    }
                    if this.incoming.is_end_stream() {
                        this.end();
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
                Poll::Ready(Some(Err(_))) => return this.fail(Cause::Broken),
                Poll::Ready(None) => this.end(),
                Poll::Pending => {
                    ready!(this.poll_timeout(cx));
                    return this.fail(Cause::Timeout);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl fmt::Debug for NodeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.incoming.size_hint().exact();
        f.debug_struct("NodeBody").field("ended", &self.source.is_none()).field("left", &left).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{NodeRequestError, PoolLimits, RetryPolicy};
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer, call};
    use crate::transport::h1::{AnswerBody, NodeRequest};
    use http_body_util::BodyExt;
    use rpcgate_core::memory::{MemoryBudget, MemoryPermit};

    const BUFFER: usize = 1000;

    async fn larger(fixture: &PoolFixture) -> (Bytes, Box<NodeBody>) {
        let ask = NodeRequest { buffer: BUFFER, ..call("a") };
        match fixture.pool.ask(&ask, &mut MemoryPermit::default()).await.unwrap().body {
            AnswerBody::Larger { prefix, rest } => (prefix, rest),
            AnswerBody::Complete(body) => panic!("{} bytes, whole", body.len()),
        }
    }

    fn text(length: usize) -> String {
        (0..).flat_map(|n: usize| n.to_string().into_bytes()).take(length).map(char::from).collect()
    }

    fn chunked(body: &str) -> String {
        let chunks: String = body
            .as_bytes()
            .chunks(700)
            .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).unwrap()))
            .collect();
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    }

    #[tokio::test]
    async fn a_larger_answer_comes_through_whole_and_its_connection_is_used_again() {
        for length in [BUFFER + 1, 100_000, 3_000_000] {
            let body = text(length);
            for (reply, declared) in [(answer(&body), true), (chunked(&body), false)] {
                let node = ScriptedNode::always(reply).await;
                let fixture = PoolFixture::new(&[&node]);
                for _ in 0..2 {
                    let (prefix, rest) = larger(&fixture).await;
                    assert!(prefix.len() > BUFFER);
                    let left = (length - prefix.len()) as u64;
                    assert!(!declared || rest.size_hint().exact() == Some(left), "{rest:?}");
                    let rest = rest.collect().await.unwrap().to_bytes();
                    assert!([prefix, rest].concat() == body.as_bytes(), "{length} {declared}");
                }
                assert_eq!((node.conns(), fixture.pool.in_flight()), (1, 0), "{length} {declared}");
            }
        }
    }

    #[tokio::test]
    async fn an_answer_of_just_the_size_is_whole() {
        let body = text(BUFFER);
        for reply in [answer(&body), chunked(&body)] {
            let node = ScriptedNode::always(reply).await;
            assert_eq!(
                PoolFixture::new(&[&node])
                    .complete(NodeRequest { buffer: BUFFER, ..call("a") })
                    .await
                    .unwrap(),
                body
            );
        }
    }

    #[tokio::test]
    async fn a_break_in_the_rest_is_an_error_and_never_an_end() {
        let whole = text(100_000);
        let framed = answer(&whole);
        let chunks = chunked(&whole);
        for cut in
            [&framed[..framed.len() - 1], &framed[..50_000], &chunks[..chunks.len() - 1], &chunks[..50_000]]
        {
            let cut = cut.to_owned();
            let node = ScriptedNode::serve(move |_, mut wire| {
                let cut = cut.clone();
                async move {
                    wire.request().await;
                    wire.write(cut).await;
                }
            })
            .await;
            let fixture = PoolFixture::new(&[&node]);
            let (_, rest) = larger(&fixture).await;
            assert_eq!(rest.collect().await.err(), Some(Fault::sent(Cause::Broken)));
            assert_eq!((fixture.idle(), fixture.pool.in_flight()), (0, 0));
        }
    }

    #[tokio::test]
    async fn a_reader_waits_for_a_bounded_time() {
        let node = ScriptedNode::serve(|_, mut wire| async move {
            wire.request().await;
            wire.write(&answer(&text(100_000))[..50_000]).await;
            wire.closed().await;
        })
        .await;
        let limits = PoolLimits {
            retry: RetryPolicy { deadline: Duration::from_secs(1), ..RetryPolicy::default() },
            ..PoolLimits::default()
        };
        let fixture = PoolFixture::with(&[node.url()], limits);
        let (_, rest) = larger(&fixture).await;
        assert_eq!(rest.collect().await.err(), Some(Fault::sent(Cause::Timeout)));
    }

    // Shows (Hostile and odd traffic).
    #[tokio::test(start_paused = true)]
    async fn a_node_that_sends_little_at_a_time_has_the_time_of_a_call() {
        let node = ScriptedNode::serve(|_, mut wire| async move {
            wire.request().await;
            let whole = answer(&text(100_000));
            wire.write(&whole[..50_000]).await;
            for byte in 50_000..100_000 {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                wire.write(&whole[byte..=byte]).await;
            }
        })
        .await;
        let fixture = PoolFixture::new(&[&node]);
        let (_, rest) = larger(&fixture).await;
        let began = Instant::now();
        assert_eq!(rest.collect().await.err(), Some(Fault::sent(Cause::Timeout)));
        let patience = RetryPolicy::default().deadline;
        assert_eq!(began.elapsed().as_secs(), patience.as_secs());
    }

    #[tokio::test]
    async fn the_rest_of_an_answer_counts_as_in_flight_until_it_is_read_or_dropped() {
        let node = ScriptedNode::serve(|_, mut wire| async move {
            while wire.request().await.is_some() {
                wire.write(answer(&text(10_000_000))).await;
            }
            wire.note("closed");
        })
        .await;
        let fixture = PoolFixture::with(&[node.url()], PoolLimits { in_flight: 1, ..PoolLimits::default() });
        let (_, rest) = larger(&fixture).await;
        assert_eq!(fixture.read().await, Err(NodeRequestError::Busy));
        drop(rest);
        assert_eq!(fixture.pool.in_flight(), 0);
        fixture.until(|_| node.seen().last().is_some_and(|last| last == "closed")).await;
        assert_eq!(fixture.idle(), 0);
    }

    #[tokio::test]
    async fn only_the_prefix_takes_memory() {
        let node = ScriptedNode::always(answer(&text(1_000_000))).await;
        let fixture = PoolFixture::new(&[&node]);
        let memory = MemoryBudget::new(usize::MAX);
        let mut held = MemoryPermit::of(memory.clone());
        let answer = fixture.pool.ask(&NodeRequest { buffer: BUFFER, ..call("a") }, &mut held).await.unwrap();
        let AnswerBody::Larger { prefix, rest } = answer.body else { panic!("whole") };
        rest.collect().await.unwrap();
        assert_eq!(memory.held(), prefix.len());
    }
}
