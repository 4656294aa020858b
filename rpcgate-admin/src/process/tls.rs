//! TLS towards clients: rustls with ring, HTTP/2 or HTTP/1.1 by ALPN, and certificates that may be replaced meanwhile.

mod authorities;
mod validity;
pub mod watch;

#[cfg(feature = "api")]
pub(crate) use authorities::authorities;
pub(crate) use authorities::trust_anchors;
pub(crate) use validity::validity;

use arc_swap::ArcSwap;
use ring::digest;
use rpcgate_core::clock::Time;
use rpcgate_core::config::{AdminTls, ClientAuth, Tls};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio_rustls::TlsAcceptor;

/// The ALPN name of HTTP/2.
pub const H2: &[u8] = b"h2";

/// A certificate or key that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{table}.{key}: {}: {why}", path.display())]
pub struct BadCertificate {
    /// The table of the configuration: `gateway.tls` or `admin.tls`.
    pub table: &'static str,
    /// Which of its keys: `cert`, `key` or `client_ca`.
    pub key: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The error.
    pub why: String,
}

/// Where a certificate is, and what it asks of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificatePaths {
    table: &'static str,
    cert: PathBuf,
    key: PathBuf,
    clients: Option<(PathBuf, ClientAuth)>,
}

impl CertificatePaths {
    /// The files of the gateway; `None` if it serves without TLS.
    pub fn of_gateway(tls: &Tls) -> Option<Self> {
        let (cert, key) = tls.pair()?;
        Some(CertificatePaths { table: "gateway.tls", cert: cert.into(), key: key.into(), clients: None })
    }

    /// The files of the management side; `None` if it serves without TLS.
    pub fn of_management(tls: &AdminTls) -> Option<Self> {
        let (cert, key) = tls.pair()?;
        let clients = tls.client_ca.as_ref().map(|file| (file.clone(), tls.client_auth));
        Some(CertificatePaths { table: "admin.tls", cert: cert.into(), key: key.into(), clients })
    }

    /// Reads the files, and what is in them.
    ///
    /// # Errors
    /// [`BadCertificate`].
    pub fn load(&self) -> Result<LoadedCertificate, BadCertificate> {
        CertificateFiles::read(self).load()
    }
}

/// A certificate and its key, as they were read from their files.
#[derive(Clone)]
pub struct LoadedCertificate {
    server: Arc<ServerConfig>,
    paths: CertificatePaths,
    content: Content,
    /// From when until when it is valid, if that can be read.
    pub valid: Option<Range<Time>>,
}

/// The SHA-256 of what was found in the files, or of why nothing was.
type Content = [u8; 32];

/// How many changed certificates were taken into use, or not.
#[derive(Debug, Default)]
pub struct CertificateCounts {
    /// Those that are or were in use.
    pub done: AtomicU64,
    /// Those that could not be used.
    pub refused: AtomicU64,
}

/// The certificate in use, which may be replaced: later connections get the new one.
pub struct Certificate {
    loaded: ArcSwap<LoadedCertificate>,
    /// What its [watch](watch::watch) has found.
    pub counts: CertificateCounts,
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
    /// The one in these files.
    ///
    /// # Errors
    /// [`BadCertificate`].
    pub fn load(paths: &CertificatePaths) -> Result<Self, BadCertificate> {
        let loaded = ArcSwap::from_pointee(paths.load()?);
        Ok(Certificate { loaded, counts: CertificateCounts::default() })
    }

    /// Puts another one in its place.
    pub fn replace(&self, loaded: LoadedCertificate) {
        self.loaded.store(Arc::new(loaded));
    }

    /// Puts another one in the place of `former`; `false` if that is not in use any more.
    fn renew(&self, former: &Arc<LoadedCertificate>, loaded: LoadedCertificate) -> bool {
        Arc::ptr_eq(&self.loaded.compare_and_swap(former, Arc::new(loaded)), former)
    }

    /// The one in use.
    pub fn loaded(&self) -> Arc<LoadedCertificate> {
        self.loaded.load_full()
    }

    /// Does the handshakes of new connections.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.loaded.load().server.clone())
    }
}

/// What is in the files of a certificate and its key, which may change while they are read.
struct CertificateFiles<'p> {
    paths: &'p CertificatePaths,
    cert: Result<Vec<u8>, String>,
    key: Result<Vec<u8>, String>,
    /// The authorities of client certificates.
    clients: Option<Result<Vec<u8>, String>>,
}

impl<'p> CertificateFiles<'p> {
    fn read(paths: &'p CertificatePaths) -> Self {
        let read = |path: &Path| std::fs::read(path).map_err(|error| error.to_string());
        let clients = paths.clients.as_ref().map(|(file, _)| read(file));
        CertificateFiles { paths, cert: read(&paths.cert), key: read(&paths.key), clients }
    }

    /// Tells these contents from others.
    fn content(&self) -> Content {
        let mut digest = digest::Context::new(&digest::SHA256);
        for found in [Some(&self.cert), Some(&self.key), self.clients.as_ref()].into_iter().flatten() {
            let bytes = found.as_ref().map_or_else(|why| why.as_bytes(), Vec::as_slice);
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        let mut content = Content::default();
        content.copy_from_slice(digest.finish().as_ref());
        content
    }

    /// The certificate with its key, which must fit.
    fn load(&self) -> Result<LoadedCertificate, BadCertificate> {
        let CertificatePaths { cert, key, .. } = self.paths;
        let table = self.paths.table;
        let bad = |which, path: &Path, why| BadCertificate { table, key: which, path: path.to_owned(), why };
        let chain = certificates(&self.cert).map_err(|why| bad("cert", cert, why))?;
        let valid = chain.first().and_then(|first| validity(first));
        let found = self.key.as_ref().map_err(|why| bad("key", key, why.clone()))?;
        let private = PrivateKeyDer::from_pem_slice(found).map_err(|error| {
            let why = match error {
                pem::Error::NoItemsFound => "holds no private key in PEM",
                _ => "is not PEM",
            };
            bad("key", key, why.to_owned())
        })?;
        let clients = match (&self.paths.clients, &self.clients) {
            (Some((file, auth)), Some(found)) => {
                Some(verifier(found, *auth).map_err(|why| bad("client_ca", file, why))?)
            }
            _ => None,
        };
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|builder| {
                    match clients {
                        Some(clients) => builder.with_client_cert_verifier(clients),
                        None => builder.with_no_client_auth(),
                    }
                    .with_single_cert(chain, private)
                })
                .map_err(|error| bad("cert", cert, error.to_string()))?;
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        if self.clients.is_some() {
            // A resumed session would not show its client's certificate again, which may have ended meanwhile.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(LoadedCertificate {
            server: Arc::new(config),
            paths: self.paths.clone(),
            content: self.content(),
            valid,
        })
    }
}

/// The certificates in a file, at least one.
fn certificates(found: &Result<Vec<u8>, String>) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = found.as_ref().map_err(String::clone)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(found).collect();
    match all {
        Ok(all) if all.is_empty() => Err("holds no certificate in PEM".into()),
        Ok(all) => Ok(all),
        Err(_) => Err("is not PEM".into()),
    }
}

/// Accepts clients with a certificate of the authorities in a file, and those without one if that is optional.
fn verifier(
    found: &Result<Vec<u8>, String>,
    auth: ClientAuth,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(found)? {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if auth == ClientAuth::Optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|error| error.to_string())
}
