//! The current or newly signed certificate: its validity and its names.

use crate::tls::validity;
use rpcgate_core::clock::Time;
use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::ops::Range;
use std::path::Path;

/// A certificate that belongs to its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldCertificate {
    /// The certificate in DER.
    pub leaf: CertificateDer<'static>,
    /// Its validity period.
    pub valid: Range<Time>,
}

impl HeldCertificate {
    /// Reads the certificate in this file. The error is the reason why it cannot be used.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        HeldCertificate::of(&text).map_err(|why| format!("{}: {why}", file.display()))
    }

    /// Parses the certificate in this text, which begins with its key.
    pub(super) fn of(pem: &str) -> Result<Self, String> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| "is not PEM".to_owned())?;
        let leaf = chain.first().cloned().ok_or("holds no certificate in PEM")?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| "holds no private key in PEM".to_owned())?;
        CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())
            .map_err(|error| error.to_string())?;
        let valid = validity(&leaf).ok_or("its validity cannot be read")?;
        Ok(HeldCertificate { leaf, valid })
    }

    /// Reports whether it is for this name.
    pub fn is_for(&self, name: &str) -> bool {
        let parsed = ParsedCertificate::try_from(&self.leaf);
        let name = ServerName::try_from(name);
        match (parsed, name) {
            (Ok(parsed), Ok(name)) => verify_server_name(&parsed, &name).is_ok(),
            _ => false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    /// Returns the key and the certificate for these names, valid from the first day of `from` until that of `until`,
    /// both years.
    pub(in crate::acme) fn pem(domains: &[&str], from: i32, until: i32) -> String {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = domains.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        format!("{}{}", key.serialize_pem(), params.self_signed(&key).unwrap().pem())
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_reported_with_the_reason() {
        let good = pem(&["a.example", "b.example"], 2026, 2030);
        let held = HeldCertificate::of(&good).unwrap();
        assert!(held.is_for("a.example") && held.is_for("b.example") && !held.is_for("c.example"));
        assert_eq!(rpcgate_config::moment_text(held.valid.start), "2026-01-01T00:00:00Z");
        let other = pem(&["a.example"], 2026, 2030);
        let at = |text: &str| text.find("-----BEGIN CERTIFICATE-----").unwrap();
        let mixed = format!("{}{}", &good[..at(&good)], &other[at(&other)..]);
        for (text, expected) in [
            ("", "holds no certificate in PEM"),
            (&good[at(&good)..], "holds no private key in PEM"),
            (&good[..at(&good)], "holds no certificate in PEM"),
            (mixed.as_str(), "keys may not be consistent"),
        ] {
            let why = HeldCertificate::of(text).unwrap_err();
            assert!(why.contains(expected), "{expected}: {why}");
        }
        assert!(HeldCertificate::of(&good[..good.len() - 40]).is_err(), "cut off");
        assert!(HeldCertificate::read(Path::new("/none/c.pem")).unwrap_err().starts_with("/none/c.pem: "));
    }
}
