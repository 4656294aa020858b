//! TLS towards clients: rustls with ring, HTTP/2 or HTTP/1.1 by ALPN, and certificates that may be replaced meanwhile.

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

/// Checks of names that are answered at a time. Anyone may ask for one, and each reads a file.
const CHECKS: usize = 16;

/// The ALPN name of HTTP/2.
pub const H2: &[u8] = b"h2";

/// A certificate or key that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{table}.{key}: {}: {why}", path.display())]
pub struct BadCertificate {
    /// The table of the configuration: `gateway.tls` or `admin.tls`.
    pub table: &'static str,
    /// Which of its keys: `cert`, `key`, `client_ca` or `acme`.
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
    /// The folder of the certificate, if the program orders it.
    acme: Option<AcmeFolder>,
}

impl CertificatePaths {
    /// The files of the gateway; `None` if it serves without TLS.
    pub fn of_gateway(tls: &Tls, acme: &AcmeSettings) -> Option<Self> {
        let folder = tls.acme.then(|| AcmeFolder::new(&acme.dir));
        CertificatePaths::of("gateway.tls", tls.pair(), folder)
    }

    /// The files of the management side; `None` if it serves without TLS.
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

    /// Reads the files, and what is in them. A certificate that the program orders may not be there yet, or be unusable:
    /// then handshakes are refused until there is another one.
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

/// A certificate and its key, as they were read from their files.
#[derive(Clone)]
pub struct LoadedCertificate {
    server: Arc<ServerConfig>,
    paths: CertificatePaths,
    content: Content,
    /// From when until when it is valid, if that can be read.
    pub valid: Option<Range<Time>>,
    /// Why there is none yet.
    awaited: Option<String>,
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
    /// How the orders of it ended, if the program [orders](super::acme) it.
    pub orders: Arc<OrderCounts>,
    /// Permits of checks of names.
    checks: Arc<Semaphore>,
}

impl LoadedCertificate {
    /// Whether the program orders it.
    pub fn is_ordered(&self) -> bool {
        self.paths.acme.is_some()
    }

    /// Whether there is none yet, so that handshakes are refused.
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
    /// The one in these files.
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

    /// Puts another one in its place. Whether the program orders it changes with a restart alone, and one that is not there
    /// yet takes no place.
    pub fn replace(&self, loaded: LoadedCertificate) {
        if loaded.is_ordered() == self.loaded.load().is_ordered() && !loaded.is_awaited() {
            self.loaded.store(Arc::new(loaded));
        }
    }

    /// Puts another one in the place of `former`; `false` if that is not in use any more.
    fn renew(&self, former: &Arc<LoadedCertificate>, loaded: LoadedCertificate) -> bool {
        Arc::ptr_eq(&self.loaded.compare_and_swap(former, Arc::new(loaded)), former)
    }

    /// The one in use.
    pub fn loaded(&self) -> Arc<LoadedCertificate> {
        self.loaded.load_full()
    }

    /// Does the handshake of a new connection. `None`: it was the check of a certificate authority, which is answered.
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

/// Does the handshake of a client, or of an authority that checks a name.
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
            // A folder on a network may be slow. The permit is held until it is read, also if the client has left.
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

/// Refuses every handshake.
fn refusing() -> io::Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    // It knows no name, and so has no certificate for any.
    Ok(builder.with_no_client_auth().with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new())))
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
            // A resumed session would not show its client's certificate again, which may have ended meanwhile.
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

    /// In the place of a certificate that is not there yet.
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

#[cfg(test)]
mod tests;
