//! TLS of outgoing connections.

use super::egress_error::EgressError;
use rpcgate_layers::transport::trust;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, OtherError};
use rustls_pki_types::CertificateDer;
use std::io;

/// Returns the TLS settings for HTTP/1.1, which trust the public certificate authorities and the
/// [`named` certificates](trust::client_config).
pub(crate) fn client_config(named: &[CertificateDer<'static>]) -> Result<ClientConfig, Error> {
    let mut tls = trust::client_config(named)?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}

/// Describes a TLS failure for the user who chose the URL.
pub(super) fn failure(error: &io::Error) -> EgressError {
    EgressError::Tls(sentence(error))
}

/// Describes an error of the handshake in a sentence without names of our library.
pub(crate) fn sentence(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    cause.map_or_else(|| connection(error), reason)
}

/// Describes why a connection ended during the handshake.
fn connection(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the receiver closed the connection during the handshake".into(),
        io::ErrorKind::ConnectionReset => "the receiver reset the connection during the handshake".into(),
        _ => error.to_string(),
    }
}

/// Describes a TLS error in a sentence without names of our library.
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

/// Returns the host in a name as rustls writes it: `DnsName("a.example")`, `IpAddress(192.0.2.1)`.
fn host(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{InvalidMessage, PeerIncompatible};
    use rustls_pki_types::ServerName;

    // Shows (Webhooks).
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
