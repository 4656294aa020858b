//! Deliveries to receivers over TLS.

use super::*;
use crate::testing::secure_receiver::SecureReceiver;
use rcgen::KeyPair;
use std::fs;
use std::path::PathBuf;

fn trusting(ca_file: Option<PathBuf>) -> EgressClient {
    let mut settings = Webhooks::default();
    settings.allow_private_targets = true;
    settings.ca_file = ca_file;
    client(&settings, table(&[("own.example", &[&["127.0.0.1"]]), ("other.example", &[&["127.0.0.1"]])]))
}

// Shows (Webhooks): Deliveries over TLS accept a certificate of a public authority, or of one in `webhooks.ca_file`,
// for the host of the URL; a handshake that hangs ends at the deadline.
#[tokio::test]
async fn certificates_of_the_authorities_in_the_file_are_trusted_for_their_names_only() {
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
    let foreign_name = "TLS failed: the certificate is not valid for other.example: it is for own.example";
    assert_eq!(refused.to_string(), foreign_name);
    assert!(receiver.requests.try_recv().is_err(), "nothing was sent to any of them");
    let answer = post(&client, &receiver.url("own.example"), SOON).await.unwrap();
    assert_eq!(answer.status.as_u16(), 204);
    let request = receiver.requests.recv().await.unwrap();
    assert!(request.starts_with("POST / HTTP/1.1\r\n") && request.ends_with("{\"a\":1}"), "{request}");
}

// Shows (Webhooks): A certificate that is named as trusted is trusted, self-signed or not, for its names and its
// validity; errors of TLS are sentences (promise 86).
#[tokio::test]
async fn a_self_signed_trusted_certificate_is_accepted_for_its_names_and_validity() {
    let mut receiver = SecureReceiver::self_signed("own.example", (2100, 1, 1)).await;
    let foreign = SecureReceiver::self_signed("own.example", (2100, 1, 1)).await;
    let answer = post(&trusting(Some(receiver.ca_file())), &receiver.url("own.example"), SOON).await.unwrap();
    assert_eq!(answer.status.as_u16(), 204);
    receiver.requests.recv().await.unwrap();
    let old = SecureReceiver::self_signed("own.example", (2001, 1, 1)).await;
    for (ca_file, of, host, why) in [
        (None, &receiver, "own.example", "the certificate is that of an authority, and not named as trusted"),
        (
            Some(foreign.ca_file()),
            &receiver,
            "own.example",
            "the certificate is that of an authority, and not named as trusted",
        ),
        (
            Some(receiver.ca_file()),
            &receiver,
            "other.example",
            "the certificate is not valid for other.example: it is for own.example",
        ),
        (Some(old.ca_file()), &old, "own.example", "the certificate has expired"),
    ] {
        let refused = post(&trusting(ca_file), &of.url(host), SOON).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("TLS failed: {why}"));
    }
    assert!(receiver.requests.try_recv().is_err(), "nothing was sent to an untrusted one");
}

// Shows (Webhooks).
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

// Shows (Webhooks).
#[tokio::test]
async fn a_receiver_that_hangs_in_the_tls_handshake_is_abandoned_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://own.example:{}/", listener.local_addr().unwrap().port());
    let limit = Webhooks::default().timeout;
    let posting = tokio::spawn(async move { post(&trusting(None), &url, limit).await });
    let (mut tcp, _) = listener.accept().await.unwrap();
    assert_eq!(tcp.read_u8().await.unwrap(), 22, "a handshake begins");
    // From here on, the paused clock advances while all tasks wait.
    tokio::time::pause();
    assert_eq!(posting.await.unwrap().unwrap_err().to_string(), "no answer within 10s");
    drop(tcp);
}
