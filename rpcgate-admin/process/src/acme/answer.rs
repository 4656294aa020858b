//! Answers to the checks of an authority that a name leads to this host. They are in the folder while an order runs, so
//! that each program with that folder can give them.

use super::folder::AcmeFolder;
use crate::accept::{Acceptor, ConnectionBound};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use ring::digest;
use rustls::ServerConfig;
use rustls::server::ClientHello;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::PrivateKeyDer;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The ALPN name of a check (RFC 8737, section 6.2).
const ALPN: &[u8] = b"acme-tls/1";
/// The path prefix of checks over HTTP (RFC 8555, section 8.3).
const WELL_KNOWN: &str = "/.well-known/acme-challenge/";
const CHECKS: usize = 16;
const BACKLOG: u32 = 64;
const CHECK_WITHIN: Duration = Duration::from_secs(10);
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const HEAD: usize = 8_192;

/// Reports whether a client is an authority that checks a name: it offers only this protocol (RFC 8737, section 3).
pub(crate) fn is_check(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|names| names.eq([ALPN]))
}

/// Returns the TLS configuration that answers a check of this name; `None` if no order waits for it.
pub(crate) fn answer_over_tls(folder: &AcmeFolder, name: &str) -> Option<ServerConfig> {
    let name = name.to_ascii_lowercase();
    let proof = folder.answers().remove(&name)?;
    match server(&proof, &name) {
        Ok(server) => Some(server),
        Err(why) => {
            tracing::error!(name, "a check of the certificate authority cannot be answered: {why}");
            None
        }
    }
}

fn server(proof: &str, name: &str) -> Result<ServerConfig, String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(|error| error.to_string())?;
    let digest = digest::digest(&digest::SHA256, proof.as_bytes());
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
    let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = provider
        .key_provider
        .load_private_key(PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .map_err(|error| error.to_string())?;
    // Its extension is critical and unknown to rustls, which would refuse the certificate if it compared it with its
    // key.
    let certified = CertifiedKey::new(vec![certificate.der().clone()], private);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

#[derive(Debug)]
pub(super) struct HttpAnswers {
    _accepting: AbortOnDropHandle<()>,
}

impl HttpAnswers {
    pub(super) fn listen(addr: SocketAddr, folder: AcmeFolder) -> io::Result<Self> {
        Ok(HttpAnswers::over(Acceptor::bind(addr, BACKLOG)?, folder))
    }

    fn over(acceptor: Acceptor, folder: AcmeFolder) -> Self {
        let accepting = async move {
            let tasks = TaskTracker::new();
            let connection = |stream: TcpStream, _, permit| {
                let folder = folder.clone();
                async move {
                    // The authority tries again.
                    let _ = tokio::time::timeout(CHECK_WITHIN, converse(stream, folder)).await;
                    drop(permit);
                }
            };
            acceptor.serve(ConnectionBound::new(CHECKS), &tasks, std::future::pending(), connection).await;
        };
        HttpAnswers { _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)) }
    }
}

async fn converse(stream: TcpStream, folder: AcmeFolder) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let folder = folder.clone();
        async move {
            let token = token(&request).map(str::to_owned);
            let proof = match token {
                // A network folder may be slow.
                Some(token) => {
                    tokio::task::spawn_blocking(move || proof(&folder, &token)).await.unwrap_or_default()
                }
                None => None,
            };
            Ok::<_, Infallible>(response(proof))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD).keep_alive(false);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn token<B>(request: &Request<B>) -> Option<&str> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    request.uri().path().strip_prefix(WELL_KNOWN).filter(|token| is_read && !token.is_empty())
}

/// Returns the proof that begins with this token.
fn proof(folder: &AcmeFolder, token: &str) -> Option<String> {
    let is_of = |proof: &String| proof.split_once('.').is_some_and(|(first, _)| first == token);
    folder.answers().into_values().find(is_of)
}

fn response(proof: Option<String>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    match proof {
        Some(proof) => {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            *response.body_mut() = Full::from(proof);
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn folder(dir: &tempfile::TempDir) -> AcmeFolder {
        let folder = AcmeFolder::new(dir.path());
        let answers = [("a.example", "token-a.print"), ("b.example", "token-b.print")];
        let answers = answers.map(|(name, proof)| (name.to_owned(), proof.to_owned()));
        folder.set_answers(&BTreeMap::from(answers)).unwrap();
        folder
    }

    async fn asked(addr: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(format!("{line} HTTP/1.1\r\nhost: a.example\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_check_over_http_gets_the_text_of_its_token_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        let acceptor = Acceptor::bind(([127, 0, 0, 1], 0).into(), BACKLOG).unwrap();
        let addr = acceptor.addr();
        let answers = HttpAnswers::over(acceptor, folder.clone());
        let answer = asked(addr, "GET /.well-known/acme-challenge/token-b").await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\ntoken-b.print"), "{answer}");
        for line in [
            "GET /.well-known/acme-challenge/",
            "GET /.well-known/acme-challenge/token",
            "GET /.well-known/acme-challenge/token-b.print",
            "GET /.well-known/acme-challenge/../../answers.json",
            "POST /.well-known/acme-challenge/token-b",
            "GET /eth",
        ] {
            let answer = asked(addr, line).await;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{line}: {answer}");
        }
        folder.clear_answers().unwrap();
        assert!(asked(addr, "GET /.well-known/acme-challenge/token-b").await.starts_with("HTTP/1.1 404 "));
        drop(answers);
        while TcpStream::connect(addr).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn the_head_of_a_check_over_http_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let acceptor = Acceptor::bind(([127, 0, 0, 1], 0).into(), BACKLOG).unwrap();
        let addr = acceptor.addr();
        let _answers = HttpAnswers::over(acceptor, folder(&dir));
        let mut stream = TcpStream::connect(addr).await.unwrap();
        // The connection may close during this write, and the response may be lost with it.
        let head = format!("GET {WELL_KNOWN}token-b HTTP/1.1\r\nx-long: {}\r\n\r\n", "a".repeat(2 * HEAD));
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    }

    #[test]
    fn a_check_over_tls_is_answered_for_the_names_of_a_running_order() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        for name in ["a.example", "A.example"] {
            assert_eq!(answer_over_tls(&folder, name).unwrap().alpn_protocols, [ALPN]);
        }
        assert!(answer_over_tls(&folder, "c.example").is_none());
        folder.clear_answers().unwrap();
        assert!(answer_over_tls(&folder, "a.example").is_none());
    }
}
