//! TLS towards clients: rustls with ring, HTTP/2 or HTTP/1.1 by ALPN.

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The ALPN name of HTTP/2.
pub(super) const H2: &[u8] = b"h2";

/// A certificate or key that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("gateway.tls.{key}: {}: {why}", path.display())]
pub struct BadCertificate {
    /// Which of the two: `cert` or `key`.
    pub key: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The error.
    pub why: String,
}

/// The certificate in use, which may be replaced: later connections get the new one.
pub(crate) struct Certificate {
    config: ArcSwap<ServerConfig>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

impl Certificate {
    pub(crate) fn load(pair: (&Path, &Path)) -> Result<Self, BadCertificate> {
        Ok(Certificate { config: ArcSwap::new(config(pair)?) })
    }

    pub(crate) fn replace(&self, config: Arc<ServerConfig>) {
        self.config.store(config);
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

/// Reads a certificate and its key.
pub(crate) fn config((cert, key): (&Path, &Path)) -> Result<Arc<ServerConfig>, BadCertificate> {
    let bad =
        |key: &'static str, path: &Path, why: String| BadCertificate { key, path: path.to_owned(), why };
    let bad_pem = |key, path: &Path, error: pem::Error| match error {
        pem::Error::Io(error) => bad(key, path, error.to_string()),
        pem::Error::NoItemsFound => bad(key, path, "holds no private key in PEM".into()),
        _ => bad(key, path, "is not PEM".into()),
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| bad_pem("cert", cert, error))?;
    if chain.is_empty() {
        return Err(bad("cert", cert, "holds no certificate in PEM".into()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad_pem("key", key, error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| bad("cert", cert, error.to_string()))?;
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
