//! TLS of connections to others.

use rustls::{ClientConfig, Error, RootCertStore, version};
use rustls_pki_types::CertificateDer;
use std::sync::Arc;

/// TLS for HTTP/1.1 that trusts the public certificate authorities, and these.
///
/// # Errors
/// Those of a certificate or a protocol version that cannot be used.
pub(crate) fn client_config(authorities: &[CertificateDer<'static>]) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    // The provider is named here because a library must not depend on the one that its process installed.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}
