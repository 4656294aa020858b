//! Requests to an authority: only HTTPS, with limits on time and bytes, no redirects and no proxy.

use super::BadAcme;
use crate::tls::authorities as read_authorities;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use http::uri::Scheme;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rpcgate_layers::transport::trust;
use rustls_pki_types::ServerName;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

const WITHIN: Duration = Duration::from_secs(30);
/// The maximum bytes of a response. A certificate chain has a few thousand.
const LONGEST: usize = 1 << 20;

/// The HTTP client of an authority. Clones share the requested pause.
#[derive(Clone)]
pub(super) struct AcmeHttp {
    tls: TlsConnector,
    requested: Arc<AtomicU64>,
}

impl AcmeHttp {
    /// Creates a client that trusts the public authorities, and the [certificates](trust::client_config) in this file.
    pub(super) fn new(authorities: Option<&Path>) -> Result<Self, BadAcme> {
        let wrong = |why| BadAcme { key: "ca_file", why };
        let named = authorities.map(read_authorities).transpose().map_err(wrong)?.unwrap_or_default();
        let mut config = trust::client_config(&named).map_err(|error| wrong(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(AcmeHttp { tls: TlsConnector::from(Arc::new(config)), requested: Arc::default() })
    }

    /// Takes the pause that the authority requested with its last refusal.
    pub(super) fn requested_pause(&self) -> Duration {
        Duration::from_secs(self.requested.swap(0, Relaxed))
    }

    async fn exchange(self, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, String> {
        let (host, port) = host_and_port(request.uri())?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().map_err(|_| "its URL has no path".to_owned())?;
        let named = if port == 443 { host.clone() } else { format!("{host}:{port}") };
        let named = HeaderValue::from_str(&named).map_err(|error| error.to_string())?;
        request.headers_mut().insert(HOST, named);
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream = TcpStream::connect((bare.as_str(), port)).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(bare).map_err(|error| error.to_string())?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| format!("TLS failed: {error}"))?;
        let failed = |error: hyper::Error| error.to_string();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let (parts, body) = sender.send_request(request).await.map_err(failed)?.into_parts();
        let body = Limited::new(body, LONGEST).collect().await.map_err(|error| error.to_string())?;
        let is_json = parts.headers.get(CONTENT_TYPE).is_some_and(|kind| {
            kind.to_str().is_ok_and(|kind| kind.starts_with("application/") && kind.contains("json"))
        });
        if let Some(pause) = retry_after(parts.status, &parts.headers) {
            self.requested.store(pause, Relaxed);
        }
        // Intermediaries answer in HTML.
        if (parts.status.is_client_error() || parts.status.is_server_error()) && !is_json {
            return Err(format!("HTTP status {}", parts.status));
        }
        Ok(BytesResponse { parts, body: Box::new(body.to_bytes()) })
    }
}

impl HttpClient for AcmeHttp {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let url = request.uri().to_string();
            let done = tokio::time::timeout(WITHIN, client.exchange(request)).await;
            let done = done.unwrap_or_else(|_| Err("no answer in time".to_owned()));
            done.map_err(|why| Error::Other(format!("{url}: {why}").into()))
        })
    }
}

fn host_and_port(url: &Uri) -> Result<(String, u16), String> {
    if url.scheme() != Some(&Scheme::HTTPS) {
        return Err("is not a URL of https".into());
    }
    let host = url.host().ok_or("has no host")?;
    Ok((host.to_owned(), url.port_u16().unwrap_or(443)))
}

fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    let refuses = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let pause = text(RETRY_AFTER).filter(|_| refuses)?;
    let moment = |text| httpdate::parse_http_date(text).ok();
    // A date is measured from the response's own, because the clocks of the hosts may differ.
    pause.parse().ok().or_else(|| Some(moment(pause)?.duration_since(moment(text(DATE)?)?).ok()?.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_asked() {
        let host_and_port = |url: &str| host_and_port(&url.parse().unwrap());
        assert_eq!(host_and_port("https://ca.example/acme?a=b"), Ok(("ca.example".into(), 443)));
        assert_eq!(host_and_port("https://[::1]:14000/dir"), Ok(("[::1]".into(), 14_000)));
        assert_eq!(host_and_port("http://ca.example/"), Err("is not a URL of https".into()));
        assert_eq!(host_and_port("/directory"), Err("is not a URL of https".into()));
    }

    #[test]
    fn only_an_answer_that_refuses_asks_for_a_pause() {
        let with =
            |value: &'static str| HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]);
        assert_eq!(retry_after(StatusCode::TOO_MANY_REQUESTS, &with("3600")), Some(3_600));
        assert_eq!(retry_after(StatusCode::SERVICE_UNAVAILABLE, &with(" 7 ")), Some(7));
        assert_eq!(retry_after(StatusCode::OK, &with("3600")), None, "it tells when to look again");
        assert_eq!(retry_after(StatusCode::TOO_MANY_REQUESTS, &with("soon")), None);
        assert_eq!(retry_after(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()), None);
    }

    #[test]
    fn a_date_to_wait_for_is_measured_from_that_of_the_answer() {
        let until = "Wed, 21 Oct 2026 07:28:00 GMT";
        let requested = |date: Option<&'static str>| {
            let date = date.map(|date| (DATE, HeaderValue::from_static(date)));
            let until = (RETRY_AFTER, HeaderValue::from_static(until));
            retry_after(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::from_iter([until].into_iter().chain(date)))
        };
        assert_eq!(requested(Some("Wed, 21 Oct 2026 06:27:30 GMT")), Some(3_630));
        assert_eq!(requested(Some("Wed, 21 Oct 2026 07:28:01 GMT")), None, "it is over");
        assert_eq!(requested(Some("Wednesday")), None);
        assert_eq!(requested(None), None);
    }

    #[test]
    fn a_file_of_authorities_that_cannot_be_used_is_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        let why = || AcmeHttp::new(Some(&file)).err().unwrap().to_string();
        assert!(why().starts_with("acme.ca_file: ") && why().contains("No such file"), "{}", why());
        std::fs::write(&file, "nothing").unwrap();
        assert!(why().ends_with("ca.pem: holds no certificate"), "{}", why());
    }
}
