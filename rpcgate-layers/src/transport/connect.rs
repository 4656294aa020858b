use super::connect_error::{no_tls, unconnected, unresolved};
use super::trust::client_config;
use crate::coalesced_writes::CoalescedWrites;
use crate::nodes::config::NodeConfig;
use crate::nodes::dialer::{Dialer, NodeIo};
use crate::nodes::url::NodeUrl;
use rustls_pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// An open connection to a node, before any application protocol.
pub(crate) enum NodeSocket {
    Plain(CoalescedWrites<TcpStream>),
    Tls(Box<TlsStream<TcpStream>>),
    /// A connection that the node's dialer has opened.
    Dialed(Box<dyn NodeIo>),
    /// TLS over such a connection.
    DialedTls(Box<TlsStream<Box<dyn NodeIo>>>),
}

pub(crate) struct Connector {
    host: Box<str>,
    port: u16,
    tls: Tls,
    dialer: Option<Arc<dyn Dialer>>,
}

enum Tls {
    Off,
    On(TlsConnector, ServerName<'static>),
    /// The node's URL requires TLS, but the setup failed.
    Failed,
}

impl Connector {
    /// Creates a connector to the node at `url`. Over TLS it offers only the application protocol `alpn`.
    pub(crate) fn new(config: &NodeConfig, url: &NodeUrl, alpn: &[u8]) -> Self {
        let tls = if url.tls { tls(config, url, alpn) } else { Ok(Tls::Off) };
        let tls = tls.unwrap_or_else(|error| {
            tracing::error!(node = %url, "TLS to this node cannot be set up: {error}");
            Tls::Failed
        });
        Connector { host: url.host.clone(), port: url.port, tls, dialer: config.dialer.clone() }
    }

    /// Opens a connection within `limit`, which covers DNS, TCP and TLS.
    pub(crate) async fn connect(&self, limit: Duration) -> io::Result<NodeSocket> {
        let deadline = Instant::now() + limit;
        if let Some(dialer) = &self.dialer {
            return self.dial(&**dialer, deadline).await;
        }
        let tcp = self.tcp(deadline).await?;
        // Requests are written in one piece. Nagle's algorithm would only delay them.
        tcp.set_nodelay(true)?;
        match &self.tls {
            Tls::Off => Ok(NodeSocket::Plain(CoalescedWrites::new(tcp))),
            Tls::Failed => Err(not_set_up()),
            Tls::On(connector, name) => {
                Ok(NodeSocket::Tls(Box::new(shake_hands(connector, name, tcp, deadline).await?)))
            }
        }
    }

    async fn dial(&self, dialer: &dyn Dialer, deadline: Instant) -> io::Result<NodeSocket> {
        let dialed = timeout_at(deadline, dialer.dial(&self.host, self.port)).await;
        let dialed = dialed.unwrap_or_else(|late| Err(late.into())).map_err(|error| unconnected(&error))?;
        match &self.tls {
            Tls::Off => Ok(NodeSocket::Dialed(dialed)),
            Tls::Failed => Err(not_set_up()),
            Tls::On(connector, name) => {
                Ok(NodeSocket::DialedTls(Box::new(shake_hands(connector, name, dialed, deadline).await?)))
            }
        }
    }

    /// Tries the addresses of the host in turn, each for an equal share of the remaining time, so that an address that
    /// does not answer leaves time for the next.
    async fn tcp(&self, deadline: Instant) -> io::Result<TcpStream> {
        let found = timeout_at(deadline, tokio::net::lookup_host((&*self.host, self.port))).await;
        let found = found.unwrap_or_else(|late| Err(late.into()));
        let addresses: Vec<SocketAddr> = found.map_err(|error| unresolved(&self.host, &error))?.collect();
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
        Err(unconnected(&last))
    }
}

async fn shake_hands<T>(
    connector: &TlsConnector,
    name: &ServerName<'static>,
    socket: T,
    deadline: Instant,
) -> io::Result<TlsStream<T>>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let shaken = timeout_at(deadline, connector.connect(name.clone(), socket)).await;
    shaken.unwrap_or_else(|late| Err(late.into())).map_err(|error| no_tls(&error))
}

fn not_set_up() -> io::Error {
    io::Error::other("TLS to this node is not set up")
}

fn tls(config: &NodeConfig, url: &NodeUrl, alpn: &[u8]) -> Result<Tls, Box<dyn std::error::Error>> {
    let mut client = client_config(&config.roots)?;
    client.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from(url.host.to_string())?;
    Ok(Tls::On(TlsConnector::from(Arc::new(client)), name))
}

#[cfg(test)]
mod tests {
    use crate::nodes::{DialFuture, Dialer, NodeConfig, NodeIo, NodeRequestError, PoolLimits};
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, Wire, answer};
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rpcgate_core::fault::{Cause, Fault};
    use rustls::ServerConfig;
    use rustls_pki_types::CertificateDer;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsAcceptor;

    const NO_CONNECTION: NodeRequestError = NodeRequestError::Fault(Fault::unsent(Cause::Connect));

    /// A node with a certificate for `names`, and the PEM text of its CA.
    async fn secure(names: &[&str], close_notify: bool) -> (ScriptedNode, String) {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        (serve(certificate.der().clone(), &key, close_notify).await, authority.pem())
    }

    /// A node with this certificate. It answers each request with the negotiated application protocol.
    async fn serve(certificate: CertificateDer<'static>, key: &KeyPair, close_notify: bool) -> ScriptedNode {
        let mut server =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(
                    vec![certificate],
                    rustls_pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
                )
                .unwrap();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(server));
        ScriptedNode::serve(move |_, wire: Wire| {
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
        .await
    }

    fn fixture(node: &ScriptedNode, host: &str, authority: Option<&str>) -> PoolFixture {
        let url = format!("https://{host}:{}", node.address.port());
        let config = NodeConfig::new(url.parse().unwrap());
        let config = authority.map_or(config.clone(), |pem| config.trusting(pem.as_bytes()).unwrap());
        PoolFixture::of(vec![config], PoolLimits::default())
    }

    #[tokio::test]
    async fn a_node_with_tls_is_called_with_http_1_1_over_one_connection() {
        let (node, authority) = secure(&["localhost", "127.0.0.1"], true).await;
        for host in ["127.0.0.1", "localhost"] {
            let fixture = fixture(&node, host, Some(&authority));
            for _ in 0..3 {
                assert_eq!(fixture.read().await.unwrap(), "http/1.1");
            }
        }
        assert_eq!(node.conns(), 2);
    }

    /// Connects to an address, whatever the host name is.
    #[derive(Debug)]
    struct ByAddress(std::net::SocketAddr);

    impl Dialer for ByAddress {
        fn dial(&self, host: &str, _: u16) -> DialFuture<'_> {
            assert_eq!(host, "node.invalid");
            Box::pin(async { Ok(Box::new(TcpStream::connect(self.0).await?) as Box<dyn NodeIo>) })
        }
    }

    #[tokio::test]
    async fn a_nodes_own_certificate_is_trusted_even_if_it_belongs_to_an_authority() {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let node = serve(certificate.der().clone(), &key, true).await;
        let named = fixture(&node, "localhost", Some(&certificate.pem()));
        assert_eq!(named.read().await.unwrap(), "http/1.1");
        assert_eq!(fixture(&node, "localhost", None).read().await, Err(NO_CONNECTION));
        assert_eq!(fixture(&node, "127.0.0.1", Some(&certificate.pem())).read().await, Err(NO_CONNECTION));
    }

    // Shows (Reliability): A node may be reached by other transports than TCP, with TLS where its address requires it.
    #[tokio::test]
    async fn a_dialers_connection_has_tls_where_the_address_asks_for_it() {
        let (node, authority) = secure(&["node.invalid"], true).await;
        let plain = ScriptedNode::always(answer("plain")).await;
        let dialed = |url: &str, node: &ScriptedNode| {
            NodeConfig::new(url.parse().unwrap()).with_dialer(Arc::new(ByAddress(node.address)))
        };
        let secure = dialed("https://node.invalid", &node);
        let fixture = |config| PoolFixture::of(vec![config], PoolLimits::default());
        assert_eq!(fixture(secure.clone()).read().await, Err(NO_CONNECTION), "it is checked as any other");
        let trusted = secure.trusting(authority.as_bytes()).unwrap();
        assert_eq!(fixture(trusted).read().await.unwrap(), "http/1.1");
        assert_eq!(fixture(dialed("http://node.invalid", &plain)).read().await.unwrap(), "plain");
    }

    // Shows (Nodes and cache): Nodes with certificates of a private authority are reached, and the reason of an
    // unusable node is known.
    #[tokio::test]
    async fn a_certificate_of_an_unknown_authority_or_for_another_name_is_refused() {
        let (node, authority) = secure(&["localhost"], true).await;
        let (_, unknown) = secure(&["localhost"], true).await;
        let unnamed = fixture(&node, "localhost", None);
        assert_eq!(unnamed.read().await, Err(NO_CONNECTION));
        let reason = unnamed.pool.nodes().next().and_then(|node| node.reason);
        assert!(reason.unwrap().starts_with("TLS: the issuer of its certificate is not trusted"));
        assert_eq!(fixture(&node, "localhost", Some(&unknown)).read().await, Err(NO_CONNECTION));
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
    async fn a_node_that_takes_too_long_to_connect_is_backed_off_from() {
        let silent = ScriptedNode::serve(|_, mut wire: Wire| async move { wire.closed().await }).await;
        let url = format!("https://{}", silent.address);
        let limits = PoolLimits { connect: Duration::from_millis(50), ..PoolLimits::default() };
        let fixture = PoolFixture::with(&[url], limits);
        assert_eq!(fixture.broadcast().await, Err(NO_CONNECTION));
        assert!(fixture.pool.nodes().all(|node| node.health.left() == Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn a_host_without_an_address_is_a_failed_connection() {
        let fixture = PoolFixture::with(&["http://node.invalid:1".into()], PoolLimits::default());
        assert_eq!(fixture.read().await, Err(NO_CONNECTION));
        let reason = fixture.pool.nodes().next().and_then(|node| node.reason);
        assert!(reason.unwrap().starts_with("the name node.invalid was not resolved: "));
    }
}
