//! The operator's certificate authorities, which are trusted in addition to the public ones.

use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor};
use std::fs;
use std::path::Path;

/// Returns the certificates in a PEM file.
///
/// # Errors
/// The file name and the reason why it cannot be used: it cannot be read, or holds no certificate.
pub fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |why: String| format!("{}: {why}", file.display());
    let text = fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|_| wrong("holds a certificate that cannot be read".into()))?;
    if found.is_empty() { Err(wrong("holds no certificate".into())) } else { Ok(found) }
}

/// Returns the trust anchors in a PEM file.
///
/// # Errors
/// Those of [`authorities`], and of a certificate that cannot be used.
pub fn trust_anchors(file: &Path) -> Result<Vec<TrustAnchor<'static>>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities(file)? {
        roots.add(authority).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(roots.roots)
}
