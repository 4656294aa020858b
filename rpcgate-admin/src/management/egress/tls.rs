//! TLS of connections to others.

use super::egress_error::EgressError;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore, version};
use rustls_pki_types::CertificateDer;
use std::io;
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
