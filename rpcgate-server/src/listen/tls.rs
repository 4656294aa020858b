//! TLS towards clients: rustls with ring, HTTP/2 or HTTP/1.1 by ALPN.

use super::validity::validity;
use arc_swap::ArcSwap;
use ring::digest;
use rpcgate_core::clock::Time;
use rustls::ServerConfig;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::ops::Range;
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

/// A certificate and its key, as they were read from their files.
#[derive(Clone)]
pub(crate) struct LoadedCertificate {
    server: Arc<ServerConfig>,
    /// Tells these files from others.
    pub(crate) content: Content,
    /// From when until when it is valid, if that can be read.
    pub(crate) valid: Option<Range<Time>>,
}

/// The SHA-256 of what was found in the files, or of why nothing was.
pub(crate) type Content = [u8; 32];

/// The certificate in use, which may be replaced: later connections get the new one.
pub(crate) struct Certificate {
    loaded: ArcSwap<LoadedCertificate>,
}

impl fmt::Debug for LoadedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedCertificate").field("valid", &self.valid).finish_non_exhaustive()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

impl Certificate {
    pub(crate) fn load(pair: (&Path, &Path)) -> Result<Self, BadCertificate> {
        Ok(Certificate { loaded: ArcSwap::from_pointee(load(pair)?) })
    }

    pub(crate) fn replace(&self, loaded: LoadedCertificate) {
        self.loaded.store(Arc::new(loaded));
    }

    /// The one in use.
    pub(crate) fn loaded(&self) -> Arc<LoadedCertificate> {
        self.loaded.load_full()
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.loaded.load().server.clone())
    }
}

/// What is in the files of a certificate and its key, which may change while they are read.
pub(crate) struct CertificateFiles<'p> {
    cert: (&'p Path, Result<Vec<u8>, String>),
    key: (&'p Path, Result<Vec<u8>, String>),
}

impl<'p> CertificateFiles<'p> {
    /// Reads both files.
    pub(crate) fn read((cert, key): (&'p Path, &'p Path)) -> Self {
        let read = |path| (path, std::fs::read(path).map_err(|error| error.to_string()));
        CertificateFiles { cert: read(cert), key: read(key) }
    }

    /// Tells these contents from others.
    pub(crate) fn content(&self) -> Content {
        let mut digest = digest::Context::new(&digest::SHA256);
        for (_, found) in [&self.cert, &self.key] {
            let bytes = found.as_ref().map_or_else(|why| why.as_bytes(), Vec::as_slice);
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        let mut content = Content::default();
        content.copy_from_slice(digest.finish().as_ref());
        content
    }

    /// The certificate with its key, which must fit.
    pub(crate) fn load(&self) -> Result<LoadedCertificate, BadCertificate> {
        let bad =
            |key: &'static str, path: &Path, why: String| BadCertificate { key, path: path.to_owned(), why };
        let bad_pem = |key, path: &Path, error: &pem::Error| match error {
            pem::Error::NoItemsFound => bad(key, path, "holds no private key in PEM".into()),
            _ => bad(key, path, "is not PEM".into()),
        };
        let (cert, found) = &self.cert;
        let found = found.as_ref().map_err(|why| bad("cert", cert, why.clone()))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(found).collect();
        let chain = chain.map_err(|error| bad_pem("cert", cert, &error))?;
        let valid = match chain.first() {
            Some(first) => validity(first),
            None => return Err(bad("cert", cert, "holds no certificate in PEM".into())),
        };
        let (key, found) = &self.key;
        let found = found.as_ref().map_err(|why| bad("key", key, why.clone()))?;
        let private = PrivateKeyDer::from_pem_slice(found).map_err(|error| bad_pem("key", key, &error))?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
                .map_err(|error| bad("cert", cert, error.to_string()))?;
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        Ok(LoadedCertificate { server: Arc::new(config), content: self.content(), valid })
    }
}

/// Reads a certificate and its key.
pub(crate) fn load(pair: (&Path, &Path)) -> Result<LoadedCertificate, BadCertificate> {
    CertificateFiles::read(pair).load()
}
