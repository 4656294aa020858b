//! A receiver of webhooks that stores what it gets.

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
    /// The path.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The raw body.
    pub body: Vec<u8>,
}

impl ReceivedDelivery {
    /// Returns the value of a header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns the delivery's identifier.
    pub fn id(&self) -> &str {
        self.header("x-delivery-id")
    }

    /// Returns the number of the attempt.
    ///
    /// # Panics
    /// When it has none.
    #[track_caller]
    pub fn attempt(&self) -> u32 {
        self.header("x-delivery-attempt").parse().unwrap()
    }

    /// Returns the event.
    ///
    /// # Panics
    /// When the body is not JSON.
    #[track_caller]
    pub fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

type Strike = Box<dyn FnOnce() + Send>;

struct Shared {
    /// The status of answers; `None` holds them.
    status: watch::Sender<Option<u16>>,
    received: Mutex<Vec<ReceivedDelivery>>,
    /// The identifiers of unanswered deliveries, by their position among those received.
    open: Mutex<BTreeMap<usize, String>>,
    /// The action for the delivery with this number.
    strike: Mutex<Option<(usize, Strike)>>,
}

/// A receiver on its own socket, which acknowledges everything at first. It stops when dropped.
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
    /// Starts a receiver.
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

    /// Returns the URL of an endpoint at this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Sets the status of all further answers and of those on hold.
    pub fn answer(&self, status: u16) {
        self.shared.status.send_replace(Some(status));
    }

    /// Holds all answers from now on.
    pub fn hold(&self) {
        self.shared.status.send_replace(None);
    }

    /// Runs `strike` once, in the handler of the delivery that follows `after` further ones, before it is answered. All
    /// later answers are held.
    pub fn strike(&self, after: usize, strike: impl FnOnce() + Send + 'static) {
        let number = lock(&self.shared.received).len() + after;
        *lock(&self.shared.strike) = Some((number, Box::new(strike)));
    }

    /// Reports whether the action of [`strike`](Self::strike) has run.
    pub fn has_struck(&self) -> bool {
        lock(&self.shared.strike).is_none()
    }

    /// Returns the deliveries so far, in the order of arrival.
    pub fn received(&self) -> Vec<ReceivedDelivery> {
        lock(&self.shared.received).clone()
    }

    /// Returns the deliveries to this path.
    pub fn at(&self, path: &str) -> Vec<ReceivedDelivery> {
        let mut received = self.received();
        received.retain(|delivery| delivery.path == path);
        received
    }

    /// Returns the number of deliveries.
    pub fn count(&self) -> usize {
        lock(&self.shared.received).len()
    }

    /// Returns the identifiers of unanswered deliveries on open connections.
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

/// A delivery that counts as unanswered until this is dropped.
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
