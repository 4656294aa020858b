//! An open connection to a node.

use super::drive::Driver;
use super::head_bytes::{BoundedSocket, HeadBytes};
use super::request::NUMBERS;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rpcgate_core::envelope::parse_index;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// The beginning of an id in a reply.
const ID: &[u8] = b"\"id\":";

/// An open connection to a node. Dropping it closes the socket at once, even with a call in flight. It is boxed,
/// because it is moved several times a call.
pub(super) struct NodeConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
    /// How long the node says it keeps the connection without a request.
    keep_alive: Option<Duration>,
    /// Bounds what comes before an answer.
    head: HeadBytes,
    /// Whether an answer on it had the number of its call as its id.
    has_numbers: bool,
    /// Whether it had a call before the present one.
    pub(super) is_reused: bool,
}

impl NodeConnection {
    /// Makes a connection of a socket that is open.
    pub(super) async fn handshake<T>(socket: T) -> io::Result<Box<Self>>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let head = HeadBytes::default();
        let socket = TokioIo::new(BoundedSocket::new(socket, head.clone()));
        let (mut sender, connection) = http1::handshake(socket).await.map_err(io::Error::other)?;
        let mut driver = Driver::new(connection);
        poll_fn(|cx| driver.poll(cx, |cx| sender.poll_ready(cx))).await.map_err(io::Error::other)?;
        Ok(Box::new(NodeConnection {
            sender,
            driver,
            keep_alive: None,
            head,
            has_numbers: false,
            is_reused: false,
        }))
    }

    /// Sends a request. The error holds the request again if, and only if, no byte of it was written.
    pub(super) fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>> {
        let NodeConnection { sender, driver, head, .. } = self;
        head.expect();
        // Passed on here and not when first polled, so that the future has no room for a request of its own.
        let answer = sender.try_send_request(request);
        async move {
            let mut answer = pin!(answer);
            let answer = poll_fn(|cx| driver.poll(cx, |cx| answer.as_mut().poll(cx))).await;
            head.arrived();
            answer
        }
    }

    /// The next piece of an answer that comes on this connection.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // A piece that came together with the head needs no read.
        let ready = self.driver.try_step(|cx| Pin::new(&mut *body).poll_frame(cx));
        if ready.is_ready() {
            return ready;
        }
        self.driver.poll(cx, |cx| Pin::new(&mut *body).poll_frame(cx))
    }

    /// Whether it can take a request now. An idle connection is driven first: the node may have closed it, or have sent
    /// unrequested bytes, which end it too. A connection whose last request is not completely written cannot take another,
    /// and waiting for it might never end.
    pub(super) fn is_ready(&mut self) -> bool {
        self.driver.drive_if_woken();
        !self.is_closed() && self.sender.is_ready()
    }

    fn is_closed(&self) -> bool {
        self.driver.is_over() || self.sender.is_closed()
    }

    /// Whether an answer on it had the number of its call as its id.
    pub(super) fn has_numbers(&self) -> bool {
        self.has_numbers
    }

    /// Notes whether this answer to the call with `number`, or to an array whose numbers begin there, shows one of its numbers: in
    /// its first or last bytes, where nodes write ids.
    pub(super) fn note_number(&mut self, answer: &[u8], number: Option<usize>) {
        /// Enough for the other members that stand before or behind an id.
        const NEAR: usize = 48;
        let (Some(number), false) = (number, self.has_numbers) else { return };
        let numbers = number..number.saturating_add(NUMBERS);
        let (first, last) =
            (answer.get(..NEAR), answer.len().checked_sub(NEAR).and_then(|at| answer.get(at..)));
        let shown = |rest: &[u8]| {
            let rest = rest.trim_ascii_start();
            let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
            let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
            parse_index(rest.get(..end).unwrap_or_default()).is_some_and(|shown| numbers.contains(&shown))
        };
        let shows = |text: &[u8]| {
            let mut ids = text.windows(ID.len()).enumerate().filter(|(_, window)| *window == ID);
            ids.any(|(at, _)| text.get(at + ID.len()..).is_some_and(shown))
        };
        self.has_numbers =
            first.map_or_else(|| shows(answer), |first| shows(first) || last.is_some_and(shows));
    }

    /// How long it may be idle: `longest`, or less if the node closes it earlier.
    pub(super) fn idle_limit(&self, longest: Duration) -> Duration {
        self.keep_alive.map_or(longest, |kept| kept.min(longest))
    }

    /// The node said how long it keeps the connection. Half a second of it is left for the way to the node.
    pub(super) fn set_keep_alive(&mut self, kept: Duration) {
        self.keep_alive = Some(kept.saturating_sub(Duration::from_millis(500)));
    }
}
