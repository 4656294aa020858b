//! TLS of connections to others.

use super::egress_error::EgressError;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore, version};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fs;
use std::io;
use std::path::Path;
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

/// The certificates in a PEM file.
///
/// # Errors
/// [`EgressError::Authorities`] if it cannot be read, or holds none.
pub(super) fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, EgressError> {
    let wrong = |why: String| EgressError::Authorities(format!("{}: {why}", file.display()));
    let text = fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|_| wrong("holds a certificate that cannot be read".into()))?;
    if found.is_empty() { Err(wrong("holds no certificate".into())) } else { Ok(found) }
}

/// Why TLS failed, in words for the user who chose the URL.
pub(super) fn failure(error: io::Error) -> EgressError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    let is_unknown = matches!(cause, Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)));
    let error = if is_unknown {
        io::Error::other("the certificate is not signed by an authority that is trusted")
    } else {
        error
    };
    EgressError::Tls(error)
}
