//! TLS of connections to others.

use super::egress_error::EgressError;
use crate::process::tls::validity;
use rpcgate_core::clock::Time;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError,
    RootCertStore, SignatureScheme, version,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io;
use std::sync::Arc;

/// TLS for HTTP/1.1 that trusts the public certificate authorities, and these certificates: what they sign, and each of
/// them itself, for its names and its time.
///
/// # Errors
/// Those of a certificate or a protocol version that cannot be used.
pub(crate) fn client_config(trusted: &[CertificateDer<'static>]) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for certificate in trusted {
        roots.add(certificate.clone())?;
    }
    // The provider is named here because a library must not depend on the one that its process installed.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let authorities = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
    let authorities = authorities.map_err(|error| Error::General(error.to_string()))?;
    let verifier = NamedVerifier { authorities, trusted: trusted.to_vec() };
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}

/// Verifies certificates as usual, and in addition accepts one that is itself named as trusted. `openssl req -x509` makes
/// a certificate that is an authority and a server's at once, which the usual rules refuse as a server's
/// (`CaUsedAsEndEntity`); who names exactly this certificate trusts it.
#[derive(Debug)]
struct NamedVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
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
        if self.trusted.iter().any(|trusted| trusted.as_ref() == own.as_ref()) {
            verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
            let valid = validity(own).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
            return match Time::from_secs(now.as_secs()) {
                now if now < valid.start => Err(Error::InvalidCertificate(CertificateError::NotValidYet)),
                now if now >= valid.end => Err(Error::InvalidCertificate(CertificateError::Expired)),
                _ => Ok(ServerCertVerified::assertion()),
            };
        }
        self.authorities.verify_server_cert(own, between, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Why TLS failed, in words for the user who chose the URL.
pub(super) fn failure(error: &io::Error) -> EgressError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    EgressError::Tls(cause.map_or_else(|| connection(error), reason))
}

/// Why a connection ended during the handshake.
fn connection(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the receiver closed the connection during the handshake".into(),
        io::ErrorKind::ConnectionReset => "the receiver reset the connection during the handshake".into(),
        _ => error.to_string(),
    }
}

/// A sentence for an error of TLS, without names of our library.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::AlertReceived(alert) => received(*alert),
        Error::PeerIncompatible(_) | Error::PeerMisbehaved(_) => {
            "the receiver offers no version or cipher of TLS that is supported (TLS 1.2 or 1.3 is needed)"
                .into()
        }
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } | Error::DecryptError => {
            "what the receiver sends is not TLS".into()
        }
        Error::NoCertificatesPresented => "the receiver shows no certificate".into(),
        Error::NoApplicationProtocol => "the receiver does not speak HTTP/1.1".into(),
        Error::PeerSentOversizedRecord => "the receiver sends a record that is too large".into(),
        _ => "the handshake cannot be completed".into(),
    }
}

fn received(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::HandshakeFailure
        | AlertDescription::ProtocolVersion
        | AlertDescription::InsufficientSecurity => {
            "the receiver refuses every version and cipher of TLS that is offered".into()
        }
        AlertDescription::UnrecognisedName => "the receiver has no certificate for this host".into(),
        AlertDescription::CertificateRequired => "the receiver requires a certificate of the client".into(),
        AlertDescription::NoApplicationProtocol => "the receiver does not speak HTTP/1.1".into(),
        AlertDescription::InternalError => "the receiver reports an internal error".into(),
        other => format!("the receiver ends the handshake with the TLS alert {}", u8::from(other)),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "the certificate is not signed by an authority that is trusted".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet".into()
        }
        CertificateError::NotValidForName => "the certificate is not valid for this host".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = match &presented[..] {
                [] => "names no host".to_owned(),
                names => {
                    format!("is for {}", names.iter().map(|name| host(name)).collect::<Vec<_>>().join(", "))
                }
            };
            format!("the certificate is not valid for {}: it {names}", expected.to_str())
        }
        CertificateError::Revoked => "the certificate has been revoked".into(),
        CertificateError::BadSignature => "the certificate is not signed by the key of its authority".into(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not made for servers".into()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the certificate is signed with an algorithm that is not supported".into()
        }
        CertificateError::Other(OtherError(error)) if error.to_string().contains("CaUsedAsEndEntity") => {
            "the certificate is that of an authority, and not named as trusted".into()
        }
        _ => "the certificate cannot be used".into(),
    }
}

/// The host in a name as rustls writes it: `DnsName("a.example")`, `IpAddress(192.0.2.1)`.
fn host(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{InvalidMessage, PeerIncompatible};

    #[test]
    fn every_error_of_tls_is_a_sentence() {
        let name = ServerName::try_from("a.example").unwrap();
        let presented = vec!["DnsName(\"b.example\")".to_owned(), "IpAddress(192.0.2.1)".to_owned()];
        let foreign = CertificateError::NotValidForNameContext { expected: name.clone(), presented };
        let nameless = CertificateError::NotValidForNameContext { expected: name, presented: Vec::new() };
        for (error, sentence) in [
            (foreign.into(), "the certificate is not valid for a.example: it is for b.example, 192.0.2.1"),
            (nameless.into(), "the certificate is not valid for a.example: it names no host"),
            (CertificateError::Expired.into(), "the certificate has expired"),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                "the receiver refuses every version and cipher of TLS that is offered",
            ),
            (
                Error::AlertReceived(AlertDescription::Unknown(99)),
                "the receiver ends the handshake with the TLS alert 99",
            ),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "what the receiver sends is not TLS"),
            (
                Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13),
                "the receiver offers no version or cipher of TLS that is supported (TLS 1.2 or 1.3 is needed)",
            ),
            (CertificateError::BadEncoding.into(), "the certificate cannot be used"),
        ] {
            assert_eq!(reason(&error), sentence, "{error:?}");
        }
        let closed = failure(&io::ErrorKind::UnexpectedEof.into()).to_string();
        assert_eq!(closed, "TLS failed: the receiver closed the connection during the handshake");
    }
}
