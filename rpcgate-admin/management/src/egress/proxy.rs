//! An HTTP proxy for webhook requests (`webhooks.egress_proxy`).

use super::egress_error::EgressError;
use super::target::Origin;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use percent_encoding::percent_decode_str;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAX_HEAD: usize = 8 << 10;

#[derive(Clone)]
pub(super) struct EgressProxy {
    name: String,
    port: u16,
    pub(super) authorization: Option<String>,
}

impl std::fmt::Debug for EgressProxy {
    /// Leaves out the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EgressProxy({}:{})", self.name, self.port)
    }
}

impl EgressProxy {
    /// Parses the proxy's URL: `http://`, optionally user and password, host and port.
    pub(super) fn parse(url: &str) -> Result<Self, EgressError> {
        let wrong = |why: &str| EgressError::Settings(why.to_owned());
        let url: Uri = url.parse().map_err(|_| wrong("cannot be read"))?;
        let authority = url.authority().ok_or_else(|| wrong("has no host"))?;
        if url.scheme_str() != Some("http") {
            return Err(wrong("must begin with http://"));
        }
        let authorization = authority.as_str().rsplit_once('@').map(|(login, _)| {
            let login: Vec<u8> = percent_decode_str(login).collect();
            format!("Basic {}", STANDARD.encode(login))
        });
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(EgressProxy { name, port: authority.port_u16().unwrap_or(80), authorization })
    }

    pub(super) async fn dial(&self) -> Result<TcpStream, EgressError> {
        let failed = |error: io::Error| EgressError::Proxy(error.to_string());
        TcpStream::connect((self.name.as_str(), self.port)).await.map_err(failed)
    }

    /// Makes the proxy connect to `origin`. All later bytes go there.
    pub(super) async fn tunnel(&self, stream: &mut TcpStream, origin: &Origin) -> Result<(), EgressError> {
        let failed = |error: io::Error| EgressError::Proxy(error.to_string());
        let host = format!("{}:{}", origin.host.text(), origin.port);
        let login = self.authorization.as_ref();
        let login = login.map_or_else(String::new, |login| format!("Proxy-Authorization: {login}\r\n"));
        let request = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{login}\r\n");
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            // Byte by byte, because the bytes after the head belong to the target.
            let byte = stream.read_u8().await.map_err(failed)?;
            head.push(byte);
            if head.len() > MAX_HEAD {
                return Err(EgressError::Proxy("its answer is too long".into()));
            }
        }
        let head = String::from_utf8_lossy(&head);
        let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).unwrap_or_default();
        if status.starts_with('2') {
            return Ok(());
        }
        let status = if status.bytes().all(|byte| byte.is_ascii_digit()) { status } else { "no HTTP answer" };
        Err(EgressError::Proxy(format!("it answers {status}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_named_by_a_url_whose_login_is_not_shown() {
        let proxy = EgressProxy::parse("http://user:p%40ss@proxy.example:3128").unwrap();
        assert_eq!(proxy.authorization.as_deref(), Some("Basic dXNlcjpwQHNz"));
        assert_eq!(format!("{proxy:?}"), "EgressProxy(proxy.example:3128)");
        assert_eq!(EgressProxy::parse("http://[::1]").unwrap().port, 80);
        for wrong in ["https://proxy.example", "proxy.example", "/x", ""] {
            assert!(matches!(EgressProxy::parse(wrong), Err(EgressError::Settings(_))), "{wrong}");
        }
    }
}
