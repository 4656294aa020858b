//! Trust in the certificates of servers.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    version,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;

/// Creates a TLS 1.2 and 1.3 client that trusts the public CAs in Mozilla's list and `named`: certificates that these
/// sign, and each of them itself, for its names and its validity period. It offers no application protocol.
///
/// `openssl req -x509` creates a certificate that is a CA and a server certificate at once. The rules of RFC 5280
/// refuse it as a server certificate; here it is trusted if it is named.
///
/// # Errors
/// Returns the error of a certificate that cannot be read.
///
/// ```
/// use rpcgate_layers::transport::trust::client_config;
///
/// let mut tls = client_config(&[]).unwrap();
/// tls.alpn_protocols = vec![b"http/1.1".to_vec()];
/// assert!(client_config(&[b"no certificate".to_vec().into()]).is_err());
/// ```
pub fn client_config(named: &[CertificateDer<'static>]) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for certificate in named {
        roots.add(certificate.clone())?;
    }
    // The provider is explicit because a library must not depend on the one that its process installed.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let usual = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
    let usual = usual.map_err(|error| Error::General(error.to_string()))?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(NamedVerifier { usual, named: named.to_vec() }))
        .with_no_client_auth();
    Ok(client)
}

/// A verifier with the usual rules that also accepts a named certificate if they refuse it for its issuer or for being
/// a CA. These two rules come after the validity period, so an expired certificate stays refused.
#[derive(Debug)]
struct NamedVerifier {
    usual: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl NamedVerifier {
    fn is_named(&self, own: &CertificateDer<'_>) -> bool {
        self.named.iter().any(|named| named.as_ref() == own.as_ref())
    }
}

/// Reports whether the usual rules refuse a certificate for its issuer or because it is a CA. `BadSignature` is
/// included: it occurs if the certificate is taken for its own issuer, because both have the same name.
fn is_about_issuer(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => true,
        Error::InvalidCertificate(CertificateError::Other(OtherError(error))) => {
            matches!(error.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

impl ServerCertVerifier for NamedVerifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.usual.verify_server_cert(own, between, name, ocsp, now) {
            Err(error) if is_about_issuer(&error) && self.is_named(own) => {
                verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    use std::time::Duration;

    /// The certificate of a CA with the name a.example, valid in 2026.
    fn of_authority() -> CertificateParams {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        params
    }

    fn verify(
        named: &[CertificateDer<'static>],
        own: &CertificateDer<'_>,
        name: &'static str,
        year: u64,
    ) -> Result<(), Error> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1_970) * 31_557_600 + 86_400));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        roots.add_parsable_certificates(named.iter().cloned());
        let usual = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        let verifier = NamedVerifier { usual, named: named.to_vec() };
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(own, &[], &name, &[], now).map(drop)
    }

    #[test]
    fn a_named_certificate_is_trusted_for_its_names_and_its_time_alone() {
        let key = KeyPair::generate().unwrap();
        let own_issuer = of_authority().self_signed(&key).unwrap().der().clone();
        let issuer_key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(of_authority(), issuer_key);
        let mut params = of_authority();
        params.is_ca = IsCa::NoCa;
        let signed = params.signed_by(&key, &issuer).unwrap().der().clone();
        for certificate in [own_issuer, signed] {
            let named = [certificate.clone()];
            assert_eq!(verify(&named, &certificate, "a.example", 2026), Ok(()));
            assert!(verify(&[], &certificate, "a.example", 2026).is_err(), "it is not named");
            assert!(verify(&named, &certificate, "b.example", 2026).is_err(), "another name");
            for year in [2025, 2027] {
                assert!(verify(&named, &certificate, "a.example", year).is_err(), "in {year}");
            }
        }
    }
}
