//! The reasons why a connection to a node failed, in words for operators.

use rustls::{CertificateError, Error, OtherError};
use std::io;

pub(super) fn unresolved(host: &str, error: &io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("the name {host} was not resolved: {error}"))
}

pub(super) fn unconnected(error: &io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "timeout: no connection in time".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), why)
}

pub(super) fn no_tls(error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let why = match (inner, error.kind()) {
        (Some(Error::InvalidCertificate(bad)), _) => certificate(bad),
        (Some(error), _) => error.to_string(),
        (None, io::ErrorKind::TimedOut) => "timeout: no handshake in time".to_owned(),
        (None, io::ErrorKind::UnexpectedEof) => {
            "the node closed the connection during the handshake".to_owned()
        }
        (None, _) => error.to_string(),
    };
    io::Error::new(error.kind(), format!("TLS: {why}"))
}

fn certificate(bad: &CertificateError) -> String {
    match bad {
        CertificateError::UnknownIssuer => {
            "the issuer of its certificate is not trusted: name a private authority with ca_file".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name".to_owned()
        }
        CertificateError::Revoked => "its certificate was revoked".to_owned(),
        CertificateError::Other(OtherError(error))
            if matches!(error.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            "its certificate is that of an authority, and is trusted only if ca_file names it".to_owned()
        }
        CertificateError::BadEncoding => "its certificate cannot be read".to_owned(),
        other => format!("its certificate is not valid: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    // Shows (Nodes and cache).
    #[test]
    fn the_reason_of_a_failed_connection_is_a_phrase_that_an_operator_can_act_on() {
        let io = |kind| io::Error::new(kind, "raw");
        assert_eq!(unconnected(&io(io::ErrorKind::ConnectionRefused)).to_string(), "connection refused");
        assert_eq!(unconnected(&io(io::ErrorKind::TimedOut)).to_string(), "timeout: no connection in time");
        assert_eq!(unconnected(&io(io::ErrorKind::HostUnreachable)).to_string(), "raw");
        assert_eq!(
            unresolved("h", &io(io::ErrorKind::Other)).to_string(),
            "the name h was not resolved: raw"
        );
        let tls = |bad| no_tls(&io::Error::new(io::ErrorKind::InvalidData, Error::InvalidCertificate(bad)));
        for (bad, words) in [
            (CertificateError::UnknownIssuer, "TLS: the issuer of its certificate is not trusted"),
            (CertificateError::Expired, "TLS: its certificate has expired"),
            (CertificateError::NotValidForName, "TLS: its certificate is for another name"),
            (
                CertificateError::Other(OtherError(Arc::new(webpki::Error::CaUsedAsEndEntity))),
                "TLS: its certificate is that of an authority",
            ),
        ] {
            let shown = tls(bad).to_string();
            assert!(shown.starts_with(words), "{shown}");
        }
        let cut = no_tls(&io(io::ErrorKind::UnexpectedEof)).to_string();
        assert_eq!(cut, "TLS: the node closed the connection during the handshake");
    }
}
