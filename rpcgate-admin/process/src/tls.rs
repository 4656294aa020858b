//! TLS towards clients: rustls with ring, HTTP/2 or HTTP/1.1 by ALPN, and replaceable certificates.

mod authorities;
mod validity;
pub mod watch;

pub use authorities::authorities;
pub use authorities::trust_anchors;
pub use validity::validity;

use super::acme::{AcmeFolder, OrderCounts, answer_over_tls, is_check};
use arc_swap::ArcSwap;
use ring::digest;
use rpcgate_config::{AcmeSettings, AdminTls, ClientAuth, Tls};
use rpcgate_core::clock::Time;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{Acceptor, NoServerSessionStorage, ResolvesServerCertUsingSni, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

/// The number of concurrent checks of names. Anyone may ask for one, and each reads a file.
const CHECKS: usize = 16;

/// The ALPN name of HTTP/2.
pub const H2: &[u8] = b"h2";

/// The error for an unusable certificate or key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{table}.{key}: {}: {why}", path.display())]
pub struct BadCertificate {
    /// The table of the configuration: `gateway.tls` or `admin.tls`.
    pub table: &'static str,
    /// The key in that table: `cert`, `key`, `client_ca` or `acme`.
    pub key: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The error.
    pub why: String,
}

/// The files of a certificate, and its requirements on clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificatePaths {
    table: &'static str,
    cert: PathBuf,
    key: PathBuf,
    clients: Option<(PathBuf, ClientAuth)>,
    acme: Option<AcmeFolder>,
}

impl CertificatePaths {
    /// Returns the files of the gateway; `None` if it serves without TLS.
    pub fn of_gateway(tls: &Tls, acme: &AcmeSettings) -> Option<Self> {
        let folder = tls.acme.then(|| AcmeFolder::new(&acme.dir));
        CertificatePaths::of("gateway.tls", tls.pair(), folder)
    }

    /// Returns the files of the management side; `None` if it serves without TLS.
    pub fn of_management(tls: &AdminTls, acme: &AcmeSettings) -> Option<Self> {
        let folder = tls.acme.then(|| AcmeFolder::new(&acme.dir));
        let clients = tls.client_ca.as_ref().map(|file| (file.clone(), tls.client_auth));
        let paths = CertificatePaths::of("admin.tls", tls.pair(), folder)?;
        Some(CertificatePaths { clients, ..paths })
    }

    fn of(table: &'static str, pair: Option<(&Path, &Path)>, acme: Option<AcmeFolder>) -> Option<Self> {
        let (cert, key) = match (&acme, pair) {
            (Some(folder), _) => (folder.certificate(), folder.certificate()),
            (None, Some((cert, key))) => (cert.into(), key.into()),
            (None, None) => return None,
        };
        Some(CertificatePaths { table, cert, key, clients: None, acme })
    }

    /// Reads and parses the files. A certificate that the program orders may be missing or unusable: then handshakes
    /// are refused until there is a new one.
    ///
    /// # Errors
    /// [`BadCertificate`].
    pub fn load(&self) -> Result<LoadedCertificate, BadCertificate> {
        let files = CertificateFiles::read(self);
        match files.load() {
            Err(bad) if self.acme.is_some() && bad.key != "client_ca" => files.awaited(&bad),
            loaded => loaded,
        }
    }
}

/// A certificate and its key, as read from their files.
#[derive(Clone)]
pub struct LoadedCertificate {
    server: Arc<ServerConfig>,
    paths: CertificatePaths,
    content: Content,
    /// The validity period, if it can be read.
    pub valid: Option<Range<Time>>,
    /// The reason why there is no certificate yet.
    awaited: Option<String>,
}

/// The SHA-256 of the contents of the files, or of the errors in reading them.
type Content = [u8; 32];

/// The results of loading changed certificates.
#[derive(Debug, Default)]
pub struct CertificateCounts {
    /// Certificates that were loaded.
    pub done: AtomicU64,
    /// Certificates that could not be used.
    pub refused: AtomicU64,
}

/// The certificate in use. Connections after a replacement get the new one.
pub struct Certificate {
    loaded: ArcSwap<LoadedCertificate>,
    /// The results of its [watch](watch::watch).
    pub counts: CertificateCounts,
    /// The results of its orders, if the program [orders](super::acme) it.
    pub orders: Arc<OrderCounts>,
    checks: Arc<Semaphore>,
}

impl LoadedCertificate {
    /// Reports whether the program orders it.
    pub fn is_ordered(&self) -> bool {
        self.paths.acme.is_some()
    }

    /// Reports whether it does not exist yet, so that handshakes are refused.
    pub fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }
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
    /// Loads the certificate in these files.
    ///
    /// # Errors
    /// [`BadCertificate`].
    pub fn load(paths: &CertificatePaths) -> Result<Self, BadCertificate> {
        let loaded = paths.load()?;
        if let Some(why) = &loaded.awaited {
            let table = paths.table;
            tracing::warn!(table, "TLS handshakes are refused until there is a certificate: {why}");
        }
        let loaded = ArcSwap::from_pointee(loaded);
        let checks = Arc::new(Semaphore::new(CHECKS));
        Ok(Certificate { loaded, counts: CertificateCounts::default(), orders: Arc::default(), checks })
    }

    /// Replaces the certificate. Ignores one that does not exist yet, and a change between ordered and not ordered,
    /// which needs a restart.
    pub fn replace(&self, loaded: LoadedCertificate) {
        if loaded.is_ordered() == self.loaded.load().is_ordered() && !loaded.is_awaited() {
            self.loaded.store(Arc::new(loaded));
        }
    }

    fn renew(&self, former: &Arc<LoadedCertificate>, loaded: LoadedCertificate) -> bool {
        Arc::ptr_eq(&self.loaded.compare_and_swap(former, Arc::new(loaded)), former)
    }

    /// Returns the certificate in use.
    pub fn loaded(&self) -> Arc<LoadedCertificate> {
        self.loaded.load_full()
    }

    /// Does the handshake of a new connection. Returns `None` after answering a check of a certificate authority.
    ///
    /// # Errors
    /// Those of the connection, and of a handshake that fails or is refused.
    pub async fn accept<S>(&self, stream: S) -> io::Result<Option<TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let loaded = self.loaded.load_full();
        match &loaded.paths.acme {
            None => TlsAcceptor::from(loaded.server.clone()).accept(stream).await.map(Some),
            // Boxed, so that connections whose certificate is not ordered do not have its size.
            Some(folder) => Box::pin(accept_or_answer(stream, &loaded, folder, &self.checks)).await,
        }
    }
}

async fn accept_or_answer<S>(
    stream: S,
    loaded: &LoadedCertificate,
    folder: &AcmeFolder,
    checks: &Arc<Semaphore>,
) -> io::Result<Option<TlsStream<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let (is_check, name) = {
        let hello = handshake.client_hello();
        (is_check(&hello), hello.server_name().map(str::to_owned))
    };
    if !is_check {
        return handshake.into_stream(loaded.server.clone()).await.map(Some);
    }
    let answer = match checks.clone().try_acquire_owned() {
        Ok(permit) => {
            let folder = folder.clone();
            // A network folder may be slow. The permit is held until it is read, even if the client has left.
            let answering = move || {
                let _permit = permit;
                answer_over_tls(&folder, &name?)
            };
            tokio::task::spawn_blocking(answering).await.ok().flatten()
        }
        // An authority tries again.
        Err(_) => None,
    };
    let Some(answer) = answer else {
        // No certificate is sent, and the client reads that it is refused.
        handshake.into_stream(Arc::new(refusing()?)).await?;
        return Err(io::Error::other("a check of a name for which no order runs"));
    };
    handshake.into_stream(Arc::new(answer)).await?.shutdown().await?;
    Ok(None)
}

/// Returns a configuration that refuses every handshake.
fn refusing() -> io::Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    // It has no certificate for any name.
    Ok(builder.with_no_client_auth().with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new())))
}

/// The contents of the files of a certificate and its key, which may change while they are read.
struct CertificateFiles<'p> {
    paths: &'p CertificatePaths,
    cert: Result<Vec<u8>, String>,
    key: Result<Vec<u8>, String>,
    clients: Option<Result<Vec<u8>, String>>,
}

impl<'p> CertificateFiles<'p> {
    fn read(paths: &'p CertificatePaths) -> Self {
        let read = |path: &Path| std::fs::read(path).map_err(|error| error.to_string());
        let clients = paths.clients.as_ref().map(|(file, _)| read(file));
        CertificateFiles { paths, cert: read(&paths.cert), key: read(&paths.key), clients }
    }

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

    /// Parses the certificate and its key, which must match.
    fn load(&self) -> Result<LoadedCertificate, BadCertificate> {
        let CertificatePaths { cert, key, acme, .. } = self.paths;
        let table = self.paths.table;
        let bad = |which: &'static str, path: &Path, why| {
            let key = if acme.is_some() && which != "client_ca" { "acme" } else { which };
            BadCertificate { table, key, path: path.to_owned(), why }
        };
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
            // A resumed session would not show its client's certificate again, which may have expired meanwhile.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(LoadedCertificate {
            server: Arc::new(config),
            paths: self.paths.clone(),
            content: self.content(),
            valid,
            awaited: None,
        })
    }

    /// Returns the placeholder for a certificate that does not exist yet.
    fn awaited(&self, bad: &BadCertificate) -> Result<LoadedCertificate, BadCertificate> {
        let server = refusing().map_err(|error| BadCertificate { why: error.to_string(), ..bad.clone() })?;
        Ok(LoadedCertificate {
            server: Arc::new(server),
            paths: self.paths.clone(),
            content: self.content(),
            valid: None,
            awaited: Some(bad.to_string()),
        })
    }
}

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

#[cfg(test)]
mod tests;
