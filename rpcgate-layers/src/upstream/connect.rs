//! Making a connection, and what one is.

use super::drive::Driver;
use super::node::NodeConfig;
use crate::coalesced_writes::CoalescedWrites;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, version};
use rustls_pki_types::ServerName;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// An open connection to a node. Dropping it closes the socket at once, whatever is under way on it. It is passed on in a
/// box, because it changes hands several times a call.
pub(super) struct Conn {
    send: SendRequest<Full<Bytes>>,
    driver: Driver,
    /// How long the node says it keeps the connection without a request.
    kept: Option<Duration>,
}

impl Conn {
    /// Sends a request. The error holds the request again if, and only if, no byte of it was written.
    pub(super) fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>> {
        let Conn { send, driver, .. } = self;
        // Handed over here and not when first polled, so that the future has no room for a request of its own.
        let answer = send.try_send_request(request);
        async move {
            let mut answer = pin!(answer);
            poll_fn(|cx| driver.poll(cx, |cx| answer.as_mut().poll(cx))).await
        }
    }

    /// The next piece of an answer that came on this connection.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // What came together with the head is there already.
        let there = self.driver.try_step(|cx| Pin::new(&mut *body).poll_frame(cx));
        if there.is_ready() {
            return there;
        }
        self.driver.poll(cx, |cx| Pin::new(&mut *body).poll_frame(cx))
    }

    /// Whether it can take a request now. One that rests is looked at: the node may have closed it, or have sent what
    /// nobody asked for, which ends it too. One whose last request is not all written yet cannot; waiting for it could
    /// take for ever.
    pub(super) fn is_ready(&mut self) -> bool {
        self.driver.look();
        !self.is_closed() && self.send.is_ready()
    }

    fn is_closed(&self) -> bool {
        self.driver.is_over() || self.send.is_closed()
    }

    /// How long it may wait for a request: `longest`, or less if the node closes it earlier.
    pub(super) fn keep(&self, longest: Duration) -> Duration {
        self.kept.map_or(longest, |kept| kept.min(longest))
    }

    /// The node said how long it keeps the connection. Half a second of it is left for the way there.
    pub(super) fn kept_for(&mut self, node: Duration) {
        self.kept = Some(node.saturating_sub(Duration::from_millis(500)));
    }
}

/// How connections to one node are made.
pub(super) struct Dial {
    host: Box<str>,
    port: u16,
    /// `None` for plain HTTP; `Some(None)` if the TLS of this node cannot be set up.
    tls: Option<Option<(TlsConnector, ServerName<'static>)>>,
}

impl Dial {
    pub(super) fn new(config: &NodeConfig) -> Self {
        let url = &config.url;
        let tls = url.tls.then(|| match tls(config) {
            Ok(tls) => Some(tls),
            Err(why) => {
                tracing::error!(node = %url, "no TLS with this node: {why}");
                None
            }
        });
        Dial { host: url.host.clone(), port: url.port, tls }
    }

    /// A new connection, within `limit`: name look-up, TCP and TLS together.
    pub(super) async fn dial(&self, limit: Duration) -> io::Result<Box<Conn>> {
        let deadline = Instant::now() + limit;
        let tcp = self.tcp(deadline).await?;
        // Requests are written in one piece; waiting for more would only delay them.
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => Ok(drive(CoalescedWrites::new(tcp)).await?),
            Some(None) => Err(io::Error::other("TLS with this node is not set up")),
            Some(Some((connector, name))) => {
                let tls = timeout_at(deadline, connector.connect(name.clone(), tcp)).await??;
                Ok(drive(tls).await?)
            }
        }
    }

    /// Tries the addresses of the host in turn, each for an even share of the time that is left: one that answers
    /// nothing must not use up the time of the next.
    async fn tcp(&self, deadline: Instant) -> io::Result<TcpStream> {
        let addresses: Vec<SocketAddr> =
            timeout_at(deadline, tokio::net::lookup_host((&*self.host, self.port))).await??.collect();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for (tried, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / (addresses.len() - tried) as u32;
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => return Ok(tcp),
                Ok(Err(error)) => last = error,
                Err(elapsed) => last = elapsed.into(),
            }
        }
        Err(last)
    }
}

async fn drive<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(socket: T) -> io::Result<Box<Conn>> {
    let (mut send, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
    let mut driver = Driver::new(connection);
    poll_fn(|cx| driver.poll(cx, |cx| send.poll_ready(cx))).await.map_err(io::Error::other)?;
    Ok(Box::new(Conn { send, driver, kept: None }))
}

fn tls(config: &NodeConfig) -> Result<(TlsConnector, ServerName<'static>), Box<dyn std::error::Error>> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for root in &config.roots {
        roots.add(root.clone())?;
    }
    // The provider is named here because a library must not depend on the one its process installed.
    let mut client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(config.url.host.to_string())?;
    Ok((TlsConnector::from(Arc::new(client)), name))
}

#[cfg(test)]
mod tests {
    use crate::upstream::script::{Fixture, Script, Wire, answer};
    use crate::upstream::{NodeConfig, NodeRequestError, PoolLimits};
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rpcgate_core::fault::{Cause, Fault};
    use rustls::ServerConfig;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsAcceptor;

    const NO_CONNECTION: NodeRequestError = NodeRequestError::Fault(Fault::unsent(Cause::Connect));

    /// A node with a certificate for `names`, and the PEM text of its authority.
    async fn secure(names: &[&str], close_notify: bool) -> (Script, String) {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        let mut server =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(
                    vec![certificate.der().clone()],
                    rustls_pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
                )
                .unwrap();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let node = Script::serve(move |_, wire: Wire| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut tls) = acceptor.accept(wire.stream).await else {
                    return;
                };
                let alpn =
                    String::from_utf8_lossy(tls.get_ref().1.alpn_protocol().unwrap_or_default()).into_owned();
                let mut request = [0; 4096];
                while tls.read(&mut request).await.is_ok_and(|read| read > 0) {
                    let reply =
                        if close_notify { answer(&alpn) } else { format!("HTTP/1.0 200 OK\r\n\r\n{alpn}") };
                    tls.write_all(reply.as_bytes()).await.unwrap();
                    tls.flush().await.unwrap();
                    if !close_notify {
                        return;
                    }
                }
            }
        })
        .await;
        (node, authority.pem())
    }

    fn fixture(node: &Script, host: &str, authority: Option<&str>) -> Fixture {
        let url = format!("https://{host}:{}", node.address.port());
        let config = NodeConfig::new(url.parse().unwrap());
        let config = authority.map_or(config.clone(), |pem| config.trusting(pem.as_bytes()).unwrap());
        Fixture::of(vec![config], PoolLimits::default())
    }

    #[tokio::test]
    async fn a_node_with_tls_is_asked_in_http_1_1_over_one_connection() {
        let (node, authority) = secure(&["localhost", "127.0.0.1"], true).await;
        for host in ["127.0.0.1", "localhost"] {
            let fixture = fixture(&node, host, Some(&authority));
            for _ in 0..3 {
                assert_eq!(fixture.read().await.unwrap(), "http/1.1");
            }
        }
        assert_eq!(node.conns(), 2);
    }

    #[tokio::test]
    async fn a_certificate_of_a_stranger_or_for_another_name_is_refused() {
        let (node, authority) = secure(&["localhost"], true).await;
        let (_, stranger) = secure(&["localhost"], true).await;
        assert_eq!(fixture(&node, "localhost", None).read().await, Err(NO_CONNECTION));
        assert_eq!(fixture(&node, "localhost", Some(&stranger)).read().await, Err(NO_CONNECTION));
        assert_eq!(fixture(&node, "127.0.0.1", Some(&authority)).read().await, Err(NO_CONNECTION));
        assert!(fixture(&node, "localhost", Some(&authority)).read().await.is_ok());
    }

    #[tokio::test]
    async fn a_tls_body_that_ends_without_a_goodbye_was_cut() {
        let (node, authority) = secure(&["localhost"], false).await;
        let broken = Err(Fault::sent(Cause::Broken).into());
        assert_eq!(fixture(&node, "localhost", Some(&authority)).broadcast().await, broken);
    }

    #[tokio::test]
    async fn a_node_that_takes_too_long_to_connect_is_put_aside() {
        let silent = Script::serve(|_, mut wire: Wire| async move { wire.closed().await }).await;
        let url = format!("https://{}", silent.address);
        let limits = PoolLimits { connect: Duration::from_millis(50), ..PoolLimits::default() };
        let fixture = Fixture::with(&[url], limits);
        assert_eq!(fixture.broadcast().await, Err(NO_CONNECTION));
        assert!(fixture.pool.nodes().all(|node| node.standing.left() == Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn a_host_without_an_address_is_no_connection() {
        let fixture = Fixture::with(&["http://node.invalid:1".into()], PoolLimits::default());
        assert_eq!(fixture.read().await, Err(NO_CONNECTION));
    }
}
