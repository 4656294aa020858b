//! Receivers over TLS with a certificate of an authority of their own.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// A receiver that answers each request with 204.
pub(crate) struct SecureReceiver {
    port: u16,
    dir: TempDir,
    /// The requests, each as it came.
    pub(crate) requests: UnboundedReceiver<String>,
}

impl SecureReceiver {
    /// A receiver with a certificate for this name.
    pub(crate) async fn start(name: &str) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, format!("the authority of {name}"));
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &authority).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.pem"), authority.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (report, requests) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, report) = (acceptor.clone(), report.clone());
                tokio::spawn(async move {
                    let Ok(mut tls) = acceptor.accept(tcp).await else { return };
                    while let Some(request) = read(&mut tls).await {
                        drop(report.send(request));
                        if tls.write_all(&ok()).await.is_err() || tls.flush().await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        SecureReceiver { port, dir, requests }
    }

    /// The PEM file with the certificate of its authority.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Its URL at this host.
    pub(crate) fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.port)
    }
}

fn trusting(ca_file: Option<PathBuf>) -> EgressClient {
    let mut settings = Webhooks::default();
    settings.allow_private_targets = true;
    settings.ca_file = ca_file;
    client(&settings, table(&[("own.example", &[&["127.0.0.1"]]), ("other.example", &[&["127.0.0.1"]])]))
}

#[tokio::test]
async fn certificates_of_the_authorities_in_the_file_are_trusted_for_their_names_and_no_others() {
    let mut receiver = SecureReceiver::start("own.example").await;
    let foreign = SecureReceiver::start("foreign.example").await;
    let unknown = "TLS failed: the certificate is not signed by an authority that is trusted";
    for ca_file in [None, Some(foreign.ca_file())] {
        let refused = post(&trusting(ca_file), &receiver.url("own.example"), SOON).await.unwrap_err();
        assert_eq!(refused.to_string(), unknown);
    }
    let client = trusting(Some(receiver.ca_file()));
    let refused = post(&client, &receiver.url("other.example"), SOON).await.unwrap_err();
    assert!(matches!(refused, EgressError::Tls(_)), "{refused:?}");
    assert!(refused.to_string().contains("not valid for name \"other.example\""), "{refused}");
    assert!(receiver.requests.try_recv().is_err(), "nothing was sent to any of them");
    let answer = post(&client, &receiver.url("own.example"), SOON).await.unwrap();
    assert_eq!(answer.status.as_u16(), 204);
    let request = receiver.requests.recv().await.unwrap();
    assert!(request.starts_with("POST / HTTP/1.1\r\n") && request.ends_with("{\"a\":1}"), "{request}");
}

#[test]
fn a_file_of_authorities_that_cannot_be_used_is_an_error_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = dir.path().join(name);
        fs::write(&file, text).unwrap();
        file
    };
    let key = KeyPair::generate().unwrap().serialize_pem();
    for (file, why) in [
        (dir.path().join("missing.pem"), "No such file"),
        (file("empty.pem", ""), "holds no certificate"),
        (file("key.pem", &key), "holds no certificate"),
        (file("bad.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), ""),
    ] {
        let mut settings = Webhooks::default();
        settings.ca_file = Some(file);
        let clock = Arc::new(ManualClock::at(rpcgate_core::clock::Time::from_secs(1)));
        let error = EgressClient::new(&settings, clock).unwrap_err();
        assert!(matches!(error, EgressError::Authorities(_)), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_receiver_that_never_answers_the_beginning_of_tls_is_given_up_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://own.example:{}/", listener.local_addr().unwrap().port());
    let limit = Webhooks::default().timeout;
    let posting = tokio::spawn(async move { post(&trusting(None), &url, limit).await });
    let (mut tcp, _) = listener.accept().await.unwrap();
    assert_eq!(tcp.read_u8().await.unwrap(), 22, "a handshake begins");
    // From here on, time passes by itself while everything waits.
    tokio::time::pause();
    assert_eq!(posting.await.unwrap().unwrap_err().to_string(), "no answer within 10s");
    drop(tcp);
}
