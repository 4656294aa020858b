//! Receivers over TLS with a certificate of their own authority.

use super::service::read_request;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_rustls::TlsAcceptor;

/// A receiver over TLS. It answers each request with 204.
#[derive(Debug)]
pub struct SecureReceiver {
    port: u16,
    dir: TempDir,
    /// The received requests.
    pub requests: UnboundedReceiver<String>,
}

impl SecureReceiver {
    /// Starts a receiver whose certificate is for `name`.
    pub async fn start(name: &str) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, format!("the authority of {name}"));
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &authority).unwrap();
        Self::with(certificate.der().clone(), &key, &authority.pem()).await
    }

    /// Starts a receiver with a self-signed certificate of an authority, as `openssl req -x509` makes it, valid until
    /// `until` (year, month, day).
    pub async fn self_signed(name: &str, until: (i32, u8, u8)) -> Self {
        let mut own = CertificateParams::new(vec![name.to_owned()]).unwrap();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        own.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
        let key = KeyPair::generate().unwrap();
        let own = own.self_signed(&key).unwrap();
        Self::with(own.der().clone(), &key, &own.pem()).await
    }

    /// Starts a receiver with this certificate, whose `ca_file` contains `trusted`.
    async fn with(certificate: CertificateDer<'static>, key: &KeyPair, trusted: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.pem"), trusted).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (report, requests) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                let report = report.clone();
                tokio::spawn(async move {
                    let Ok(mut tls) = acceptor.accept(tcp).await else { return };
                    while let Some(request) = read_request(&mut tls).await {
                        drop(report.send(request));
                        if tls.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.is_err()
                            || tls.flush().await.is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        SecureReceiver { port, dir, requests }
    }

    /// Returns the file with the certificate of its authority.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Returns the receiver's URL with this host.
    pub fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.port)
    }
}
