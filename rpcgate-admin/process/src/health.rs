//! The health check of a process on this host, for supervisors that run a command and images without an HTTP client.

use super::{ConfigFile, Failure};
use clap::Args;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The deadline of the whole check.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The maximum bytes that are read of a response: health responses have some hundred.
const LONGEST: u64 = 4_096;

/// The arguments of `health`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct HealthArgs {
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// Ask whether it wants requests (/readyz), and not only whether it runs (/healthz)
    #[arg(long)]
    pub ready: bool,
}

impl HealthArgs {
    /// Returns the path of the check.
    pub const fn path(&self) -> &'static str {
        if self.ready { "/readyz" } else { "/healthz" }
    }
}

/// Returns the address at which a process that listens at `listen` is reached from its own host.
///
/// ```
/// use rpcgate_process::health::local;
///
/// assert_eq!(local("0.0.0.0:8080".parse().unwrap()).to_string(), "127.0.0.1:8080");
/// assert_eq!(local("[::]:8080".parse().unwrap()).to_string(), "[::1]:8080");
/// assert_eq!(local("10.0.0.7:8080".parse().unwrap()).to_string(), "10.0.0.7:8080");
/// ```
pub fn local(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Asks the process at `addr` over the connection that `connect` makes.
///
/// # Errors
/// [`Failure::Other`] if it does not answer within [`ANSWER_WITHIN`], or with a status other than 200.
pub async fn ask<S>(
    addr: SocketAddr,
    path: &str,
    connect: impl Future<Output = io::Result<S>>,
) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let exchange = async {
        let mut stream = connect.await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        match stream.take(LONGEST).read_to_end(&mut answer).await {
            // Some servers end TLS without a close notification; the response is complete nevertheless.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    };
    let failed = |why: &str| Failure::Other(format!("{addr}{path}: {why}"));
    match timeout(ANSWER_WITHIN, exchange).await {
        Ok(Ok(answer)) => judge(&answer).map_err(failed),
        Ok(Err(error)) => Err(failed(&error.to_string())),
        Err(_) => Err(failed("no answer in time")),
    }
}

/// Does the TLS handshake with the process at `addr`, whatever its certificate.
///
/// # Errors
/// Those of the connection.
pub async fn secure(addr: SocketAddr, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config)).connect(ServerName::IpAddress(addr.ip().into()), stream).await
}

/// Explains the failure of a check of a process that orders its certificate and refuses handshakes until it has one.
pub fn awaiting(failure: Failure, is_ordered: bool) -> Failure {
    match failure {
        Failure::Other(why) if is_ordered && why.contains("alert") => {
            Failure::Other(format!("{why}; it refuses handshakes until the first certificate is signed"))
        }
        other => other,
    }
}

/// Accepts every certificate. That of a process is for its public name rather than for the address of its own host; the
/// request is no secret, and the response is only trusted for the health of this host.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn judge(answer: &str) -> Result<(), &str> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.lines().next());
    match status {
        Some(status) if status == "200" || status.starts_with("200 ") => Ok(()),
        Some(status) => Err(if body.is_empty() { status } else { body }),
        None => Err("the answer is not HTTP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    async fn asked(answer: &'static [u8]) -> Result<String, String> {
        let (ours, mut theirs) = duplex(LONGEST as usize);
        let server = tokio::spawn(async move {
            let mut request = vec![0; 512];
            let read = theirs.read(&mut request).await.unwrap();
            // The other side may have left after its reads.
            let _ = theirs.write_all(answer).await;
            String::from_utf8(request[..read].to_vec()).unwrap()
        });
        let addr = "127.0.0.1:8080".parse().unwrap();
        let asked = ask(addr, "/readyz", async { Ok(ours) }).await;
        let request = server.await.unwrap();
        asked.map(|()| request).map_err(|failure| {
            assert_eq!(failure.code(), 1);
            failure.to_string()
        })
    }

    #[tokio::test]
    async fn status_200_is_well() {
        let request =
            asked(b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"status\":\"ok\"}").await.unwrap();
        assert!(request.starts_with("GET /readyz HTTP/1.1\r\nhost: 127.0.0.1:8080\r\n"), "{request}");
    }

    #[tokio::test]
    async fn another_status_is_reported_with_its_reason() {
        let unready =
            b"HTTP/1.1 503 Service Unavailable\r\n\r\n{\"status\":\"unready\",\"reason\":\"draining\"}";
        let reason = "127.0.0.1:8080/readyz: {\"status\":\"unready\",\"reason\":\"draining\"}";
        assert_eq!(asked(unready).await, Err(reason.into()));
        let bare = asked(b"HTTP/1.1 404 Not Found\r\n\r\n").await;
        assert_eq!(bare, Err("127.0.0.1:8080/readyz: 404 Not Found".into()));
        assert!(asked(b"HTTP/1.1 2000 Many\r\n\r\n").await.is_err());
    }

    #[tokio::test]
    async fn a_response_that_is_not_http_is_unhealthy() {
        for answer in [&b""[..], b"SSH-2.0-OpenSSH_9.2\r\n", b"200 OK"] {
            assert_eq!(asked(answer).await, Err("127.0.0.1:8080/readyz: the answer is not HTTP".into()));
        }
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn no_more_than_the_bound_is_read_of_an_endless_answer() {
        // The request fits into the buffer, although it is not read.
        let (ours, mut theirs) = duplex(128);
        let server = tokio::spawn(async move {
            let mut sent = 0;
            while theirs.write_all(&[b'x'; 64]).await.is_ok() {
                sent += 64;
            }
            sent
        });
        let addr = "127.0.0.1:8080".parse().unwrap();
        assert!(ask(addr, "/healthz", async { Ok(ours) }).await.is_err());
        let sent: u64 = server.await.unwrap();
        assert!((LONGEST..=LONGEST + 256).contains(&sent), "{sent}");
    }

    // Shows (Commands and configuration).
    #[tokio::test(start_paused = true)]
    async fn silence_ends_in_time() {
        let (ours, _theirs) = duplex(1_024);
        let addr = "127.0.0.1:8080".parse().unwrap();
        let failure = ask(addr, "/healthz", async { Ok(ours) }).await.unwrap_err();
        assert_eq!(failure.to_string(), "127.0.0.1:8080/healthz: no answer in time");
    }

    #[tokio::test]
    async fn a_connection_that_is_refused_is_reported() {
        let addr = "127.0.0.1:8080".parse().unwrap();
        let refused = async { Err::<tokio::io::DuplexStream, _>(io::ErrorKind::ConnectionRefused.into()) };
        let failure = ask(addr, "/healthz", refused).await.unwrap_err();
        assert_eq!(failure.to_string(), "127.0.0.1:8080/healthz: connection refused");
    }
}
