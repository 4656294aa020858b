//! Handshakes with a certificate that the program orders.

use super::*;
use crate::tls::watch::tests::NOON;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{ServerName, UnixTime};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, duplex};
use tokio_rustls::TlsConnector;

pub(super) fn ordered(until: i32) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.example".into()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 1, 1));
    format!("{}{}", key.serialize_pem(), params.self_signed(&key).unwrap().pem())
}

/// Returns a certificate that is ordered in this folder, where clients need certificates.
fn of(dir: &TempDir) -> Certificate {
    let clients = dir.path().join("clients.pem");
    std::fs::write(&clients, ordered(2030)).unwrap();
    let mut tls = AdminTls::default();
    let mut acme = AcmeSettings::default();
    (tls.acme, tls.client_ca, acme.dir) = (true, Some(clients), dir.path().to_owned());
    Certificate::load(&CertificatePaths::of_management(&tls, &acme).unwrap()).unwrap()
}

/// Trusts every certificate. The connection keeps the one that it was shown.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

type Shown = (Vec<u8>, Option<Vec<u8>>);

/// Connects a client that offers these protocols for this name, and returns the certificate and the protocol that it
/// gets. Its end of the connection is closed after the handshake.
async fn shown(
    certificate: &Certificate,
    name: &'static str,
    protocols: &[&[u8]],
) -> (io::Result<Shown>, io::Result<bool>) {
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let (ours, theirs) = duplex(1 << 16);
    let client = async {
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(ServerName::try_from(name).unwrap(), ours).await?;
        // With TLS 1.3, the refusal of a client comes after its handshake.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await?;
        let session = stream.get_ref().1;
        let leaf = session.peer_certificates().unwrap()[0].to_vec();
        Ok::<Shown, io::Error>((leaf, session.alpn_protocol().map(<[u8]>::to_vec)))
    };
    let server = async { certificate.accept(theirs).await.map(|stream| stream.is_some()) };
    tokio::join!(client, server)
}

// Shows (Commands and configuration).
#[tokio::test]
async fn until_there_is_a_certificate_every_handshake_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for broken in [None, Some("broken"), Some("")] {
        if let Some(text) = broken {
            std::fs::write(dir.path().join("certificate.pem"), text).unwrap();
        }
        let certificate = of(&dir);
        assert!(certificate.loaded().is_awaited() && certificate.loaded().valid.is_none());
        let (client, server) = shown(&certificate, "a.example", &[b"h2"]).await;
        assert!(client.unwrap_err().to_string().contains("alert"), "the client is told");
        assert!(server.is_err());
    }
    std::fs::write(dir.path().join("certificate.pem"), ordered(2030)).unwrap();
    let certificate = of(&dir);
    assert!(
        !certificate.loaded().is_awaited() && certificate.loaded().valid.clone().unwrap().contains(&NOON)
    );
}

#[tokio::test]
async fn a_check_is_answered_with_the_proof_although_clients_need_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = of(&dir);
    std::fs::write(dir.path().join("answers.json"), "{\"a.example\":\"token.print\"}").unwrap();
    let (client, server) = shown(&certificate, "a.example", &[b"acme-tls/1"]).await;
    let (leaf, protocol) = client.unwrap();
    assert_eq!(protocol.as_deref(), Some(&b"acme-tls/1"[..]));
    let proof = digest::digest(&digest::SHA256, b"token.print");
    assert!(leaf.windows(32).any(|bytes| bytes == proof.as_ref()), "the certificate holds the proof");
    assert!(!server.unwrap(), "nothing is served over that connection");

    let (client, server) = shown(&certificate, "other.example", &[b"acme-tls/1"]).await;
    assert!(client.is_err() && server.is_err(), "no order runs for that name");
}

// Shows (Commands and configuration): At most sixteen checks of names over TLS read the folder at a time.
#[tokio::test]
async fn checks_beyond_the_sixteenth_at_a_time_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = of(&dir);
    std::fs::write(dir.path().join("answers.json"), "{\"a.example\":\"token.print\"}").unwrap();
    let mut reading: Vec<_> =
        (0..16).map(|_| certificate.checks.clone().try_acquire_owned().unwrap()).collect();
    let (client, server) = shown(&certificate, "a.example", &[b"acme-tls/1"]).await;
    assert!(client.is_err() && server.is_err());
    reading.pop();
    let (client, server) = shown(&certificate, "a.example", &[b"acme-tls/1"]).await;
    assert!(client.is_ok() && !server.unwrap(), "one has ended");
}

#[tokio::test]
async fn a_client_that_offers_other_protocols_too_gets_no_proof() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("certificate.pem"), ordered(2030)).unwrap();
    std::fs::write(dir.path().join("answers.json"), "{\"a.example\":\"token.print\"}").unwrap();
    let certificate = of(&dir);
    let (client, server) = shown(&certificate, "a.example", &[b"acme-tls/1", b"h2"]).await;
    assert!(client.is_err() && server.is_err(), "it needs a certificate of a client");
}

// Shows (Commands and configuration).
#[test]
fn a_reload_never_takes_a_certificate_away() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("certificate.pem"), ordered(2030)).unwrap();
    let certificate = of(&dir);
    let before = certificate.loaded();
    let mut acme = AcmeSettings::default();
    acme.dir = dir.path().join("another");
    let mut tls = AdminTls::default();
    tls.acme = true;
    certificate.replace(CertificatePaths::of_management(&tls, &acme).unwrap().load().unwrap());
    assert!(Arc::ptr_eq(&before, &certificate.loaded()), "one that is not there yet");
    let files = ["c.pem", "k.pem"].map(|name| dir.path().join(name));
    let text = ordered(2031);
    files.iter().for_each(|file| std::fs::write(file, &text).unwrap());
    let mut tls = AdminTls::default();
    [tls.cert, tls.key] = files.map(Some);
    certificate.replace(CertificatePaths::of_management(&tls, &acme).unwrap().load().unwrap());
    assert!(Arc::ptr_eq(&before, &certificate.loaded()), "one of files needs a restart");
}
