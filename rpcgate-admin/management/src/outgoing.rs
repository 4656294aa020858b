//! Requests to third-party services, such as the verifier of a challenge.
//!
//! Each request has its own connection, a deadline and a size limit on the answer, and no redirect is followed, so that
//! a broken service can neither block nor mislead us.

use crate::egress::tls::client_config;
use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::uri::Authority;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

const MAX_ANSWER: usize = 64 << 10;

/// The reason why a service gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutgoingError {
    /// The URL is neither an `https` URL nor an `http` URL of this machine. The text does not repeat it.
    #[error("must begin with https://, or with http:// and name this machine")]
    Url,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The connection failed or broke.
    #[error("no connection: {0}")]
    Connect(#[from] io::Error),
    /// The answer is not HTTP, or broke off.
    #[error("no answer: {0}")]
    Answer(#[from] hyper::Error),
    /// The answer is larger than 64 KiB.
    #[error("the answer is too large")]
    TooLarge,
    /// The deadline passed.
    #[error("no answer within {0:?}")]
    Late(Duration),
}

/// Sends requests to third-party services. Clones share the TLS configuration, which trusts the public certificate
/// authorities.
#[derive(Clone)]
pub struct OutgoingClient {
    tls: TlsConnector,
}

impl std::fmt::Debug for OutgoingClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OutgoingClient")
    }
}

impl OutgoingClient {
    /// Sets up TLS.
    ///
    /// # Errors
    /// [`OutgoingError::Tls`].
    pub fn new() -> Result<Self, OutgoingError> {
        let tls = client_config(&[])?;
        Ok(OutgoingClient { tls: TlsConnector::from(Arc::new(tls)) })
    }

    /// Posts a form to `url` with additional `headers`. Returns the status and the body of the answer, which must be
    /// complete within `limit`.
    ///
    /// # Errors
    /// [`OutgoingError`]. The service may have acted on the form nevertheless, unless there was no connection.
    pub async fn post_form(
        &self,
        url: &ServiceUrl,
        headers: HeaderMap,
        form: &[(&str, &str)],
        limit: Duration,
    ) -> Result<(StatusCode, Bytes), OutgoingError> {
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request =
            Request::post(url.path.as_str()).body(Full::from(body)).map_err(|_| OutgoingError::Url)?;
        let own = request.headers_mut();
        *own = headers;
        own.insert(HOST, url.host.clone());
        own.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        own.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let answered = tokio::time::timeout(limit, Box::pin(self.exchange(url, request))).await;
        answered.map_err(|_| OutgoingError::Late(limit))?
    }

    async fn exchange(
        &self,
        url: &ServiceUrl,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), OutgoingError> {
        let tcp = TcpStream::connect((url.name.as_str(), url.port)).await?;
        tcp.set_nodelay(true)?;
        if !url.tls {
            return send(tcp, request).await;
        }
        let name = ServerName::try_from(url.name.clone()).map_err(|_| OutgoingError::Url)?;
        send(self.tls.connect(name, tcp).await?, request).await
    }
}

async fn send<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), OutgoingError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with this request, which reports the connection's errors.
    let _connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    let (head, body) = sender.send_request(request).await?.into_parts();
    match Limited::new(body, MAX_ANSWER).collect().await {
        Ok(body) => Ok((head.status, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(OutgoingError::TooLarge),
        Err(error) => match error.downcast::<hyper::Error>() {
            Ok(error) => Err(OutgoingError::Answer(*error)),
            Err(error) => Err(OutgoingError::Connect(io::Error::other(error))),
        },
    }
}

/// The URL of a service to which requests are sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceUrl {
    tls: bool,
    /// The name or address to connect to, without brackets.
    name: String,
    port: u16,
    host: HeaderValue,
    path: String,
}

impl ServiceUrl {
    /// Parses a URL. The request may contain secrets, so the URL must be `https`, except on this machine.
    ///
    /// # Errors
    /// [`OutgoingError::Url`].
    pub fn parse(url: &str) -> Result<Self, OutgoingError> {
        let url: Uri = url.parse().map_err(|_| OutgoingError::Url)?;
        let tls = match url.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(OutgoingError::Url),
        };
        let authority = url.authority().ok_or(OutgoingError::Url)?;
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if !tls && !is_this_machine(&name) || authority.as_str().contains('@') {
            return Err(OutgoingError::Url);
        }
        Ok(ServiceUrl {
            tls,
            name,
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            host: HeaderValue::from_str(Authority::as_str(authority)).map_err(|_| OutgoingError::Url)?,
            path: url.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }
}

fn is_this_machine(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::service::{json, service};

    async fn post(url: &str, limit: Duration) -> Result<(StatusCode, Bytes), OutgoingError> {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", HeaderValue::from_static("one"));
        let url = ServiceUrl::parse(url).unwrap();
        let form = [("secret", "a b&c"), ("größe", "ü")];
        OutgoingClient::new().unwrap().post_form(&url, headers, &form, limit).await
    }

    const SOON: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_form_arrives_and_its_answer_comes_back() {
        let (url, mut requests) = service(|_| Some(json("{\"a\":1}"))).await;
        let (status, body) = post(&format!("{url}?x=1"), SOON).await.unwrap();
        assert_eq!((status, &body[..]), (StatusCode::OK, &b"{\"a\":1}"[..]));
        let request = requests.recv().await.unwrap();
        assert!(request.starts_with("POST /siteverify?x=1 HTTP/1.1\r\n"), "{request}");
        let host = url.strip_prefix("http://").unwrap().strip_suffix("/siteverify").unwrap();
        for line in [
            format!("host: {host}\r\n"),
            "content-type: application/x-www-form-urlencoded\r\n".into(),
            "accept: application/json\r\n".into(),
            "idempotency-key: one\r\n".into(),
        ] {
            assert!(request.contains(&line), "{line} in {request}");
        }
        assert!(request.ends_with("\r\n\r\nsecret=a+b%26c&gr%C3%B6%C3%9Fe=%C3%BC"), "{request}");
    }

    #[tokio::test]
    async fn answers_that_never_come_break_off_or_are_too_large_are_errors() {
        let (silent, _requests) = service(|_| None).await;
        let late = post(&silent, Duration::from_millis(50)).await;
        assert!(matches!(late, Err(OutgoingError::Late(_))), "{late:?}");
        let (short, _requests) =
            service(|_| Some("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".into())).await;
        let broken = post(&short, SOON).await;
        assert!(matches!(broken, Err(OutgoingError::Answer(_))), "{broken:?}");
        let (strange, _requests) = service(|_| Some("220 smtp ready\r\n".into())).await;
        let strange = post(&strange, SOON).await;
        assert!(matches!(strange, Err(OutgoingError::Answer(_))), "{strange:?}");
        let (large, _requests) = service(|_| Some(json(&"x".repeat(MAX_ANSWER + 1)))).await;
        let large = post(&large, SOON).await;
        assert!(matches!(large, Err(OutgoingError::TooLarge)), "{large:?}");
        let (fits, _requests) = service(|_| Some(json(&"x".repeat(MAX_ANSWER)))).await;
        assert_eq!(post(&fits, SOON).await.unwrap().1.len(), MAX_ANSWER);
        // It does not listen, and no other socket gets its port.
        let mute = tokio::net::TcpSocket::new_v4().unwrap();
        mute.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let nobody = mute.local_addr().unwrap();
        let nobody = post(&format!("http://{nobody}/"), SOON).await;
        assert!(matches!(nobody, Err(OutgoingError::Connect(_))), "{nobody:?}");
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let moved =
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let (url, _requests) = service(|_| Some(moved.into())).await;
        assert_eq!(post(&url, SOON).await.unwrap().0, StatusCode::TEMPORARY_REDIRECT);
    }

    #[tokio::test]
    async fn a_service_without_a_trusted_certificate_gets_nothing() {
        let (url, mut requests) = service(|_| Some(json("{}"))).await;
        let answer = post(&url.replace("http://", "https://"), Duration::from_secs(1)).await;
        assert!(answer.is_err(), "{answer:?}");
        assert!(!requests.recv().await.unwrap().contains("secret"));
    }

    #[test]
    fn secrets_leave_this_machine_only_encrypted() {
        for url in [
            "https://api.example.com/x?y=1",
            "https://[2001:db8::1]:8443/",
            "http://127.0.0.1:9",
            "http://[::1]/",
        ] {
            assert!(ServiceUrl::parse(url).is_ok(), "{url}");
        }
        for url in [
            "http://api.example.com/",
            "http://10.0.0.1/",
            "ftp://127.0.0.1/",
            "/x",
            "",
            "https://u:p@a.example/",
        ] {
            assert!(matches!(ServiceUrl::parse(url), Err(OutgoingError::Url)), "{url}");
        }
    }
}
