use super::body::NodeBody;
use super::send::SendMessages;
use crate::deferred::Deferred;
use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use http::{Request, Response};
use http_body::Body;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep};

/// The maximum number of streams of a connection.
pub(super) const STREAMS: usize = 100;

/// The interval of pings on a connection with open streams. gRPC servers in Go and Java close connections that are
/// pinged more often than every 5 minutes. `PONG` is the time for the answer.
pub(super) const PING: Duration = Duration::from_secs(310);
const PONG: Duration = Duration::from_secs(20);

/// The flow-control window of a stream in bytes. The window of the connection is the sum of all streams.
const WINDOW: u32 = 64 << 10;

/// The maximum size of all header fields of an answer, in bytes.
const HEADERS: u32 = 64 << 10;

/// An open connection. It ends after it is dropped and its last stream has ended.
pub(super) struct H2Connection {
    sender: SendRequest<Bytes>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    open: AtomicUsize,
    allowed: AtomicUsize,
    is_closed: AtomicBool,
}

/// An open stream in the count of its connection.
#[derive(Debug)]
pub(crate) struct StreamGuard(Arc<State>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

pub(super) enum NoHead {
    /// The connection is closed, and no byte of the call was written.
    Closed,
    Failed(h2::Error),
}

impl H2Connection {
    pub(super) async fn handshake<T>(socket: T) -> io::Result<Self>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW * STREAMS as u32)
            .initial_max_send_streams(STREAMS)
            .max_header_list_size(HEADERS);
        let (sender, connection) = builder.handshake(socket).await.map_err(io::Error::other)?;
        let state = State {
            open: AtomicUsize::new(0),
            allowed: AtomicUsize::new(STREAMS),
            is_closed: AtomicBool::new(false),
        };
        let state = Arc::new(state);
        tokio::spawn(Deferred::new(drive(connection, state.clone())));
        Ok(H2Connection { sender, state })
    }

    /// Takes a stream, unless the connection has none left or is ending.
    pub(super) fn take(&self) -> Option<StreamGuard> {
        if self.is_closed() {
            return None;
        }
        let allowed = self.state.allowed.load(Relaxed).clamp(1, STREAMS);
        let more = |open| (open < allowed).then_some(open + 1);
        let taken = self.state.open.fetch_update(Relaxed, Relaxed, more);
        taken.ok().map(|_| StreamGuard(self.state.clone()))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.is_closed.load(Relaxed)
    }

    /// Sends a call and waits for the head of its answer. Available messages are written immediately, others as they
    /// come.
    pub(super) async fn send<M>(&self, head: Request<()>, messages: M) -> Result<Response<NodeBody>, NoHead>
    where
        M: Body<Data = Bytes, Error = h2::Error> + Unpin + Send + 'static,
    {
        let is_empty = messages.is_end_stream();
        let (answer, stream) = self.sender.clone().send_request(head, is_empty).map_err(|_| {
            // Also after a GOAWAY, where open streams continue.
            self.state.is_closed.store(true, Relaxed);
            NoHead::Closed
        })?;
        if !is_empty {
            let mut sending = Some(SendMessages::new(messages, stream));
            poll_fn(|cx| {
                if let Some(now) = &mut sending
                    && Pin::new(now).poll(cx).is_pending()
                    && let Some(later) = sending.take()
                {
                    tokio::spawn(later);
                }
                Poll::Ready(())
            })
            .await;
        }
        answer.await.map(|answer| answer.map(NodeBody::new)).map_err(NoHead::Failed)
    }
}

/// Reads and writes the frames of a connection until it ends or the node does not answer a ping.
async fn drive<T>(mut connection: Connection<T, Bytes>, state: Arc<State>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut pings = Pings::new(connection.ping_pong());
    let ended = poll_fn(|cx| {
        let ended = Pin::new(&mut connection).poll(cx);
        state.allowed.store(connection.max_concurrent_send_streams(), Relaxed);
        match ended {
            Poll::Pending if pings.is_silent(state.open.load(Relaxed) > 0, cx) => Poll::Ready(None),
            ended => ended.map(Some),
        }
    })
    .await;
    state.is_closed.store(true, Relaxed);
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "a connection to a node ended"),
        None => tracing::debug!("a connection to a node ended: it answers no ping"),
    }
}

struct Pings {
    sender: Option<PingPong>,
    alarm: Pin<Box<Sleep>>,
    /// True if the alarm wakes the task. Registering it with every poll would cost more than all else here.
    is_registered: bool,
    is_awaited: bool,
}

impl Pings {
    fn new(sender: Option<PingPong>) -> Self {
        Pings { sender, alarm: Box::pin(sleep(PING)), is_registered: false, is_awaited: false }
    }

    /// Reports whether the node has not answered a ping in time. `is_used`: a stream is open.
    fn is_silent(&mut self, is_used: bool, cx: &mut Context<'_>) -> bool {
        let Some(sender) = &mut self.sender else { return false };
        loop {
            if self.is_awaited && sender.poll_pong(cx).is_ready() {
                self.is_awaited = false;
                self.alarm.as_mut().reset(Instant::now() + PING);
                self.is_registered = false;
            }
            if !self.is_registered {
                self.is_registered = has_budget_remaining();
                let _: Poll<()> = self.alarm.as_mut().poll(cx);
            }
            if !self.alarm.is_elapsed() {
                return false;
            }
            if self.is_awaited {
                return true;
            }
            self.is_awaited = is_used && sender.send_ping(Ping::opaque()).is_ok();
            let next = if self.is_awaited { PONG } else { PING };
            self.alarm.as_mut().reset(Instant::now() + next);
            self.is_registered = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Empty};
    use tokio::sync::oneshot;

    fn no_messages() -> impl Body<Data = Bytes, Error = h2::Error> + Unpin + Send + 'static {
        Empty::new().map_err(|never| match never {})
    }

    fn call() -> Request<()> {
        let mut head = Request::new(());
        *head.uri_mut() = http::Uri::from_static("http://node/protocol.Wallet/Get");
        head
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_answers_no_ping_loses_its_streams() {
        let (near, far) = tokio::io::duplex(1 << 16);
        let accepted = tokio::spawn(async move {
            let mut node = h2::server::handshake(far).await.unwrap();
            // The node reads the call, and nothing after it.
            let call = node.accept().await.unwrap().unwrap();
            (call, node)
        });
        let connection = H2Connection::handshake(near).await.unwrap();
        let began = Instant::now();
        let stream = connection.take().unwrap();
        assert!(matches!(connection.send(call(), no_messages()).await, Err(NoHead::Failed(_))));
        assert_eq!(began.elapsed().as_secs(), (PING + PONG).as_secs());
        assert!(connection.is_closed() && connection.take().is_none());
        drop((stream, accepted.await));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_answers_pings_may_take_its_time() {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let mut node = h2::server::handshake(far).await.unwrap();
            let (_, mut call) = node.accept().await.unwrap().unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(10 * PING).await;
                call.send_response(Response::new(()), true).unwrap();
            });
            while node.accept().await.is_some() {}
        });
        let connection = H2Connection::handshake(near).await.unwrap();
        let _stream = connection.take().unwrap();
        assert!(connection.send(call(), no_messages()).await.is_ok());
    }

    #[tokio::test]
    async fn a_connection_that_its_node_closes_gets_no_call_and_its_streams_continue() {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (finish, finishing) = oneshot::channel::<()>();
        let seen = Arc::<AtomicUsize>::default();
        let counted = seen.clone();
        tokio::spawn(async move {
            let mut node = h2::server::handshake(far).await.unwrap();
            let (_, mut call) = node.accept().await.unwrap().unwrap();
            tokio::spawn(async move {
                finishing.await.unwrap();
                call.send_response(Response::new(()), true).unwrap();
            });
            node.graceful_shutdown();
            while let Some(Ok(_)) = node.accept().await {
                counted.fetch_add(1, Relaxed);
            }
        });
        let connection = Arc::new(H2Connection::handshake(near).await.unwrap());
        let first = tokio::spawn({
            let connection = connection.clone();
            async move { connection.send(call(), no_messages()).await.map(|_| ()) }
        });
        // The node announces that it leaves after the first call, which has no answer yet: the connection stays open.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!first.is_finished());
        assert!(matches!(connection.send(call(), no_messages()).await, Err(NoHead::Closed)));
        assert!(connection.is_closed() && connection.take().is_none());
        assert_eq!(seen.load(Relaxed), 0, "no call after the first has reached the node");
        finish.send(()).unwrap();
        assert!(first.await.unwrap().is_ok(), "the call that was there before is answered");
    }
}
