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

/// The start of an id in a reply.
const ID: &[u8] = b"\"id\":";

/// An open connection to a node. Dropping it closes the socket immediately, even with a call in flight. It is boxed,
/// because each call moves it several times.
pub(super) struct NodeConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
    /// The time for which the node says it keeps an idle connection.
    keep_alive: Option<Duration>,
    /// The limit of the bytes before an answer.
    head: HeadBytes,
    /// True if an answer on it had its call's number as its id.
    has_numbers: bool,
    /// True if it had a call before the present one.
    pub(super) is_reused: bool,
}

impl NodeConnection {
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

    /// Sends a request. The error returns the request if, and only if, no byte of it was written.
    pub(super) fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>> {
        let NodeConnection { sender, driver, head, .. } = self;
        head.expect();
        // Passed on here and not at the first poll, so that the future does not store the request.
        let answer = sender.try_send_request(request);
        async move {
            let mut answer = pin!(answer);
            let answer = poll_fn(|cx| driver.poll(cx, |cx| answer.as_mut().poll(cx))).await;
            head.arrived();
            answer
        }
    }

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

    /// Reports whether it can take a request now. An idle connection is driven first: the node may have closed it, or
    /// may have sent unrequested bytes, which also end it. A connection whose last request is not completely written
    /// cannot take another one, and waiting for it might never end.
    pub(super) fn is_ready(&mut self) -> bool {
        self.driver.drive_if_woken();
        !self.is_closed() && self.sender.is_ready()
    }

    fn is_closed(&self) -> bool {
        self.driver.is_over() || self.sender.is_closed()
    }

    pub(super) fn has_numbers(&self) -> bool {
        self.has_numbers
    }

    /// Checks whether this answer shows a number of its calls as its id. `number` is that of the call, or the first one
    /// of an array. The id is looked for in the first and the last bytes, where nodes write it.
    pub(super) fn note_number(&mut self, answer: &[u8], number: Option<usize>) {
        /// The number of bytes for the other members before or after an id.
        const NEAR: usize = 48;
        let (Some(number), false) = (number, self.has_numbers) else { return };
        let numbers = number..number.saturating_add(NUMBERS);
        let first = answer.get(..NEAR);
        let last = answer.len().checked_sub(NEAR).and_then(|at| answer.get(at..));
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

    /// Returns the idle time limit: `longest`, or less if the node closes the connection earlier.
    pub(super) fn idle_limit(&self, longest: Duration) -> Duration {
        self.keep_alive.map_or(longest, |time| time.min(longest))
    }

    /// Records how long the node keeps the connection. Half a second is subtracted for the network latency.
    pub(super) fn set_keep_alive(&mut self, time: Duration) {
        self.keep_alive = Some(time.saturating_sub(Duration::from_millis(500)));
    }
}
