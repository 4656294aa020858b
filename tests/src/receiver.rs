//! A receiver of webhooks that remembers what it gets.

#![expect(clippy::unwrap_used, reason = "a receiver of the tests that cannot work fails its test")]

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// A delivery that a receiver has read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedDelivery {
    /// The path that it was sent to.
    pub path: String,
    /// Its headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body as it came.
    pub body: Vec<u8>,
}

impl ReceivedDelivery {
    /// The value of a header; empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Its identifier.
    pub fn id(&self) -> &str {
        self.header("x-delivery-id")
    }

    /// The number of the attempt.
    ///
    /// # Panics
    /// When it has none.
    #[track_caller]
    pub fn attempt(&self) -> u32 {
        self.header("x-delivery-attempt").parse().unwrap()
    }

    /// The event.
    ///
    /// # Panics
    /// When the body is not JSON.
    #[track_caller]
    pub fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What is run inside the handler of a delivery.
type Strike = Box<dyn FnOnce() + Send>;

struct Shared {
    /// The status of answers; `None` holds them.
    status: watch::Sender<Option<u16>>,
    received: Mutex<Vec<ReceivedDelivery>>,
    /// The identifiers of deliveries that have no answer yet, by their place among those that were received.
    open: Mutex<BTreeMap<usize, String>>,
    /// What happens to the delivery with this number.
    strike: Mutex<Option<(usize, Strike)>>,
}

/// A receiver on a socket of its own, which acknowledges everything at first. It stops when dropped.
pub struct WebhookReceiver {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

impl fmt::Debug for WebhookReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookReceiver({})", self.addr)
    }
}

impl WebhookReceiver {
    /// Starts one.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            status: watch::Sender::new(Some(204)),
            received: Mutex::default(),
            open: Mutex::default(),
            strike: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        WebhookReceiver { addr, shared, accepting }
    }

    /// The URL of an endpoint at this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Answers with this status from now on, also what it holds.
    pub fn answer(&self, status: u16) {
        self.shared.status.send_replace(Some(status));
    }

    /// Holds all answers from now on.
    pub fn hold(&self) {
        self.shared.status.send_replace(None);
    }

    /// Runs `strike` once, in the handler of the delivery that follows `after` further ones, before it is answered. From then
    /// on all answers are held.
    pub fn strike(&self, after: usize, strike: impl FnOnce() + Send + 'static) {
        let number = lock(&self.shared.received).len() + after;
        *lock(&self.shared.strike) = Some((number, Box::new(strike)));
    }

    /// Whether what [`strike`](Self::strike) has planned has happened.
    pub fn has_struck(&self) -> bool {
        lock(&self.shared.strike).is_none()
    }

    /// What it has received so far, in the order of arrival.
    pub fn received(&self) -> Vec<ReceivedDelivery> {
        lock(&self.shared.received).clone()
    }

    /// What it has received at this path.
    pub fn at(&self, path: &str) -> Vec<ReceivedDelivery> {
        let mut received = self.received();
        received.retain(|delivery| delivery.path == path);
        received
    }

    /// The number of deliveries that it has received.
    pub fn count(&self) -> usize {
        lock(&self.shared.received).len()
    }

    /// The identifiers of deliveries that it has received and not answered, on connections that are open.
    pub fn open(&self) -> Vec<String> {
        lock(&self.shared.open).values().cloned().collect()
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        let _ = stream.set_nodelay(true);
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let shared = shared.clone();
                async move { shared.receive(request).await }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// A delivery without an answer, until this is dropped.
struct Open<'a> {
    shared: &'a Shared,
    number: usize,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.shared.open).remove(&self.number);
    }
}

impl Shared {
    async fn receive(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let headers = head.headers.iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        let delivery =
            ReceivedDelivery { path: head.uri.to_string(), headers: headers.collect(), body: body.into() };
        let open = {
            let mut received = lock(&self.received);
            let number = received.len();
            lock(&self.open).insert(number, delivery.id().to_owned());
            received.push(delivery);
            Open { shared: self, number }
        };
        let mut status = self.status.subscribe();
        let strike = lock(&self.strike).take_if(|(number, _)| *number <= open.number);
        if let Some((_, strike)) = strike {
            self.status.send_replace(None);
            strike();
        }
        let status = *status.wait_for(Option::is_some).await.map_err(io::Error::other)?;
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::from_u16(status.unwrap_or_default()).unwrap_or_default();
        Ok(response)
    }
}
