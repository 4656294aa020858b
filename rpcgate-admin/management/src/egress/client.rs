//! The HTTP client for URLs that users choose.

use super::address::refusal;
use super::connection::{Connection, IdleConnections, MAX_READ};
use super::egress_error::EgressError;
use super::proxy::EgressProxy;
use super::resolver::{Resolver, SystemResolver};
use super::target::{EgressHost, EgressTarget};
use super::tls;
use bytes::Bytes;
use http::header::{HOST, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use rpcgate_config::Webhooks;
use rpcgate_core::clock::Clock;
use rpcgate_process::tls::authorities;
use rustls_pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const MAX_KEPT: usize = 1 << 10;
/// The maximum number of a name's addresses that are tried, and the timeout of each but the last.
const MAX_ADDRESSES: usize = 4;
const EACH_ADDRESS: Duration = Duration::from_secs(2);

/// Sends requests to URLs that users choose. Clones share the idle connections.
#[derive(Clone)]
pub struct EgressClient {
    shared: Arc<Shared>,
}

struct Shared {
    allow_private: bool,
    resolver: Arc<dyn Resolver>,
    tls: TlsConnector,
    proxy: Option<EgressProxy>,
    idle: IdleConnections,
    clock: Arc<dyn Clock>,
}

/// The answer of a receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressAnswer {
    /// The status.
    pub status: StatusCode,
    /// The start of the body, up to 1 KiB.
    pub beginning: Bytes,
    /// The unchanged `Retry-After`.
    pub retry_after: Option<HeaderValue>,
}

impl std::fmt::Debug for EgressClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shared { allow_private, proxy, .. } = &*self.shared;
        let mut shown = f.debug_struct("EgressClient");
        shown.field("allow_private", allow_private).field("proxy", proxy).finish_non_exhaustive()
    }
}

impl EgressClient {
    /// Makes a client for the settings of webhooks.
    ///
    /// # Errors
    /// [`EgressError::Settings`] for an unusable proxy, [`EgressError::Authorities`] for an unusable file of
    /// certificate authorities.
    pub fn new(settings: &Webhooks, clock: Arc<dyn Clock>) -> Result<Self, EgressError> {
        let resolver = Arc::new(SystemResolver::new(clock.clone()));
        EgressClient::with(settings, clock, resolver)
    }

    /// Makes a client with another resolver.
    ///
    /// # Errors
    /// Those of [`EgressClient::new`].
    pub fn with(
        settings: &Webhooks,
        clock: Arc<dyn Clock>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, EgressError> {
        let authorities = settings.ca_file.as_deref().map(authorities).transpose();
        let authorities = authorities.map_err(EgressError::Authorities)?;
        let tls = tls::client_config(&authorities.unwrap_or_default())
            .map_err(|error| EgressError::Authorities(error.to_string()))?;
        let proxy = settings.egress_proxy.as_ref();
        let shared = Shared {
            allow_private: settings.allow_private_targets,
            resolver,
            tls: TlsConnector::from(Arc::new(tls)),
            proxy: proxy.map(|proxy| EgressProxy::parse(proxy.expose())).transpose()?,
            idle: IdleConnections::default(),
            clock,
        };
        Ok(EgressClient { shared: Arc::new(shared) })
    }

    /// Posts `body` to `target` and returns the answer, whose head must arrive within `limit`. The body is read only
    /// until then. At most 64 KiB are read in total, including interim answers (1xx).
    ///
    /// # Errors
    /// [`EgressError`]. Unless there was no connection, the receiver may have got the request nevertheless.
    pub async fn post(
        &self,
        target: &EgressTarget,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<EgressAnswer, EgressError> {
        let request = self.request(target, headers, body)?;
        let mut over = pin!(tokio::time::sleep(limit));
        let (answer, connection) = tokio::select! {
            biased;
            answered = Box::pin(self.exchange(target, request)) => answered?,
            () = &mut over => return Err(EgressError::Late(limit)),
        };
        let (head, mut body) = answer.into_parts();
        let mut buffer = Vec::new();
        let is_complete = tokio::select! {
            biased;
            is_complete = read(&mut body, &mut buffer) => is_complete,
            () = &mut over => false,
        };
        if is_complete {
            self.shared.idle.put_back(&target.origin, connection, self.shared.clock.elapsed());
        }
        let retry_after = head.headers.get(RETRY_AFTER).cloned();
        Ok(EgressAnswer { status: head.status, beginning: buffer.into(), retry_after })
    }

    fn request(
        &self,
        target: &EgressTarget,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, EgressError> {
        let plain_proxy = self.shared.proxy.as_ref().filter(|_| !target.origin.tls);
        let uri = match plain_proxy {
            // A proxy without a tunnel needs the whole URL (RFC 9112, 3.2.2).
            Some(_) => {
                format!("http://{}:{}{}", target.origin.host.text(), target.origin.port, target.path)
            }
            None => target.path.clone(),
        };
        let request = Request::post(uri).body(Full::from(body));
        let mut request = request.map_err(|_| EgressError::Url("cannot be read"))?;
        *request.headers_mut() = headers;
        request.headers_mut().insert(HOST, target.host.clone());
        if let Some(login) = plain_proxy.and_then(|proxy| proxy.authorization.as_ref()) {
            let login = HeaderValue::from_str(login);
            let login = login.map_err(|error| EgressError::Settings(error.to_string()))?;
            request.headers_mut().insert(PROXY_AUTHORIZATION, login);
        }
        Ok(request)
    }

    /// Sends a request. An idle connection may have been closed. If no part of the request was written to it, the
    /// request goes over a new connection.
    async fn exchange(
        &self,
        target: &EgressTarget,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), EgressError> {
        let now = self.shared.clock.elapsed();
        while let Some(mut waiting) = self.shared.idle.take(&target.origin, now) {
            if waiting.sender.ready().await.is_err() {
                continue;
            }
            waiting.budget.refill();
            match waiting.sender.try_send_request(request).await {
                Ok(answer) => return Ok((answer, waiting)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(no_answer(error.into_error(), &waiting)),
                },
            }
        }
        let mut connection = self.connect(target).await?;
        match connection.sender.send_request(request).await {
            Ok(answer) => Ok((answer, connection)),
            Err(error) => Err(no_answer(error, &connection)),
        }
    }

    async fn connect(&self, target: &EgressTarget) -> Result<Connection, EgressError> {
        let Shared { proxy, tls, clock, .. } = &*self.shared;
        let tcp = match proxy {
            None => dial(&self.addresses(target).await?).await.map_err(EgressError::Connect)?,
            Some(proxy) => {
                self.check_literal(target)?;
                let mut tcp = proxy.dial().await?;
                if target.origin.tls {
                    proxy.tunnel(&mut tcp, &target.origin).await?;
                }
                tcp
            }
        };
        tcp.set_nodelay(true).map_err(EgressError::Connect)?;
        if !target.origin.tls {
            return Connection::over(tcp, clock.elapsed()).await;
        }
        let name = match &target.origin.host {
            EgressHost::Address(address) => ServerName::from(*address),
            EgressHost::Name(name) => ServerName::try_from(name.clone())
                .map_err(|_| EgressError::Url("has a host that cannot be read"))?,
        };
        let stream = tls.connect(name, tcp).await.map_err(|error| tls::failure(&error))?;
        Connection::over(stream, clock.elapsed()).await
    }

    /// Refuses a target that is an address and not public. The proxy resolves names, so only the proxy can check their
    /// addresses.
    fn check_literal(&self, target: &EgressTarget) -> Result<(), EgressError> {
        match &target.origin.host {
            EgressHost::Address(address) if !self.shared.allow_private => {
                refusal(*address).map_or(Ok(()), |what| Err(EgressError::Address(what)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the allowed addresses of a target.
    pub(super) async fn addresses(&self, target: &EgressTarget) -> Result<Vec<SocketAddr>, EgressError> {
        let port = target.origin.port;
        let name = match &target.origin.host {
            EgressHost::Address(address) => {
                self.check_literal(target)?;
                return Ok(vec![SocketAddr::new(*address, port)]);
            }
            EgressHost::Name(name) => name,
        };
        let found = self.shared.resolver.resolve(name).await.map_err(EgressError::Resolve)?;
        let mut public = Vec::new();
        let mut refused = None;
        for address in found {
            match refusal(address) {
                Some(what) if !self.shared.allow_private => refused = Some(what),
                _ => public.push(SocketAddr::new(address, port)),
            }
        }
        public.truncate(MAX_ADDRESSES);
        match (public.is_empty(), refused) {
            (false, _) => Ok(public),
            (true, Some(what)) => Err(EgressError::Name(what)),
            (true, None) => Err(EgressError::Resolve(io::Error::other("it has no address"))),
        }
    }
}

fn no_answer(error: hyper::Error, connection: &Connection) -> EgressError {
    if connection.budget.is_spent() { EgressError::TooLong } else { EgressError::Answer(error) }
}

async fn dial(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("there is no address");
    for (index, address) in addresses.iter().enumerate() {
        let connecting = TcpStream::connect(address);
        let connected = if index + 1 < addresses.len() {
            let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
            tokio::time::timeout(EACH_ADDRESS, connecting).await.unwrap_or_else(late)
        } else {
            connecting.await
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Reads a body, keeps its start, and reports whether it was read to its end.
async fn read(body: &mut Incoming, buffer: &mut Vec<u8>) -> bool {
    let mut count = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        if let Ok(data) = frame.into_data() {
            count += data.len();
            let free = MAX_KEPT - buffer.len().min(MAX_KEPT);
            buffer.extend_from_slice(&data[..data.len().min(free)]);
            if count > MAX_READ {
                return false;
            }
        }
    }
    true
}
