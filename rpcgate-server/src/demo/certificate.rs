//! The certificate for the demo's gRPC. The demo creates its CA at the first start and forgets the CA's key, so nothing
//! else can ever be signed with it: a program that trusts the CA certificate trusts only this demo.

use super::dir::{Dir, DirError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use rpcgate_core::clock::Time;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

/// The files in the demo's folder: the CA certificate, the certificate with its chain, and its key.
pub(super) const AUTHORITY: &str = "grpc-ca.pem";
pub(super) const CERTIFICATE: &str = "grpc-cert.pem";
pub(super) const KEY: &str = "grpc-key.pem";
/// The file with the certificate's names and expiry, which is written last.
const ABOUT: &str = "grpc-cert.json";

/// The validity of a certificate; some clients refuse longer ones.
const VALID: Duration = Duration::from_secs(397 * 86_400);
/// The remaining validity below which a start creates a new certificate.
const RENEWED: Duration = Duration::from_secs(30 * 86_400);
/// The validity before the creation, for clients whose clocks are behind.
const BEFORE: Duration = Duration::from_secs(86_400);

/// A certificate that cannot be created, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A certificate file cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The certificate cannot be signed.
    #[error("the certificate for gRPC cannot be made: {0}")]
    Unmade(#[from] rcgen::Error),
}

/// Ensures that `dir` has a certificate for `localhost`, the loopback addresses and `listen` that is valid at `now` and
/// for another month. A matching one stays.
pub(super) fn ensure(dir: &Dir, listen: IpAddr, now: Time) -> Result<(), CertificateError> {
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    if !listen.is_loopback() && !listen.is_unspecified() {
        addresses.push(listen);
    }
    let about: Option<Value> = dir.read(ABOUT)?.and_then(|text| serde_json::from_str(&text).ok());
    if about.is_some_and(|about| is_good(&about, &addresses, now)) && is_complete(dir)? {
        return Ok(());
    }
    let made = make(&addresses, now)?;
    let until = now.plus(VALID).secs();
    // Without this file the others are ignored, so the process may end between two writes.
    dir.remove(ABOUT)?;
    dir.write(AUTHORITY, &made.authority)?;
    dir.write(CERTIFICATE, &made.chain)?;
    dir.write(KEY, &made.key)?;
    dir.write(ABOUT, format!("{:#}\n", json!({ "valid_until": until, "addresses": addresses })))?;
    Ok(())
}

fn is_good(about: &Value, addresses: &[IpAddr], now: Time) -> bool {
    let lasts = about["valid_until"].as_u64().is_some_and(|until| now.plus(RENEWED).secs() < until);
    let known = about["addresses"].as_array().map_or(&[][..], Vec::as_slice);
    lasts && addresses.iter().all(|address| known.contains(&json!(address)))
}

fn is_complete(dir: &Dir) -> Result<bool, DirError> {
    for name in [AUTHORITY, CERTIFICATE, KEY] {
        if dir.read(name)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

struct Made {
    authority: String,
    chain: String,
    key: String,
}

fn make(addresses: &[IpAddr], now: Time) -> Result<Made, rcgen::Error> {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(now.secs()).saturating_sub(BEFORE);
    let params = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = start.into();
        params.not_after = (start + BEFORE + VALID).into();
        params
    };
    let mut authority = params("rpcgate demo, this folder's authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let mut leaf = params("rpcgate demo");
    leaf.subject_alt_names = vec![SanType::DnsName("localhost".try_into()?)];
    leaf.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let leaf = leaf.signed_by(&key, &authority)?;
    let chain = format!("{}{}", leaf.pem(), authority.pem());
    Ok(Made { authority: authority.pem(), chain, key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::AcmeSettings;
    use rpcgate_process::tls::CertificatePaths;
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    const NOW: Time = Time::from_secs(1_800_000_000);
    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn files(dir: &Dir) -> Vec<String> {
        [AUTHORITY, CERTIFICATE, KEY].map(|name| dir.read(name).unwrap().unwrap()).into()
    }

    /// Reports whether a client that trusts the CA accepts the certificate for `name` at `at`.
    fn is_accepted(dir: &Dir, name: &str, at: Time) -> bool {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(dir.file(AUTHORITY)).unwrap()).unwrap();
        let chain: Vec<_> =
            CertificateDer::pem_file_iter(dir.file(CERTIFICATE)).unwrap().map(Result::unwrap).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at.secs()));
        use rustls::client::danger::ServerCertVerifier;
        verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], at).is_ok()
    }

    #[test]
    fn a_client_that_trusts_the_authority_accepts_the_certificate() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        ensure(&dir, LOCAL, NOW).unwrap();
        for name in ["localhost", "127.0.0.1", "::1"] {
            assert!(is_accepted(&dir, name, NOW), "{name}");
        }
        for name in ["example.com", "10.0.0.1"] {
            assert!(!is_accepted(&dir, name, NOW), "{name}");
        }
        assert!(!is_accepted(&dir, "localhost", NOW.plus(VALID + Duration::from_secs(1))));
        let mut tls = rpcgate_config::Tls::default();
        (tls.cert, tls.key) = (Some(dir.file(CERTIFICATE)), Some(dir.file(KEY)));
        assert!(CertificatePaths::of_gateway(&tls, &AcmeSettings::default()).unwrap().load().is_ok());
        let mode = std::fs::metadata(dir.file(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    // Shows (Commands and configuration).
    #[test]
    fn it_stays_until_its_end_is_near() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        ensure(&dir, LOCAL, NOW).unwrap();
        let first = files(&dir);
        let near = NOW.plus(VALID - RENEWED);
        ensure(&dir, LOCAL, Time::from_secs(near.secs() - 1)).unwrap();
        assert_eq!(files(&dir), first);
        ensure(&dir, LOCAL, near).unwrap();
        assert_ne!(files(&dir), first);
        assert!(is_accepted(&dir, "localhost", near) && is_accepted(&dir, "localhost", NOW.plus(VALID)));
    }

    #[test]
    fn another_address_a_missing_file_or_half_a_start_makes_a_new_one() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let other: IpAddr = "192.0.2.7".parse().unwrap();
        ensure(&dir, "0.0.0.0".parse().unwrap(), NOW).unwrap();
        assert!(!is_accepted(&dir, "192.0.2.7", NOW));
        ensure(&dir, other, NOW).unwrap();
        assert!(is_accepted(&dir, "192.0.2.7", NOW) && is_accepted(&dir, "localhost", NOW));
        let wide = files(&dir);
        ensure(&dir, LOCAL, NOW).unwrap();
        assert_eq!(files(&dir), wide, "it is good for more than is asked");
        for name in [KEY, CERTIFICATE, AUTHORITY, ABOUT] {
            let before = files(&dir);
            dir.remove(name).unwrap();
            ensure(&dir, LOCAL, NOW).unwrap();
            assert_ne!(files(&dir), before, "{name}");
        }
    }
}
