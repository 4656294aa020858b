//! Orders without a gateway: the names are checked over HTTP.

use crate::{clock, settings};
use rpcgate_config::{AcmeChallenge, AcmeSettings, Secret};
use rpcgate_core::clock::ManualClock;
use rpcgate_process::acme::{AcmeFolder, CertificateOrders, OrderCounts, OrderStep};
use rpcgate_tests::services::pebble::Pebble;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(86_400);

struct Fixture {
    pebble: Pebble,
    settings: AcmeSettings,
    clock: Arc<ManualClock>,
    counts: Arc<OrderCounts>,
    _dir: TempDir,
}

impl Fixture {
    /// Creates orders of this authority for `gate.example.com` and `rpc.example.com`, whose checks over HTTP are
    /// answered.
    fn new(pebble: Pebble) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings =
            settings(&pebble, &dir.path().join("acme"), &["gate.example.com", "rpc.example.com"]);
        settings.challenge = AcmeChallenge::Http01;
        settings.http_listen = Some((Ipv4Addr::LOCALHOST, pebble.http_port).into());
        Fixture { pebble, settings, clock: clock(), counts: Arc::default(), _dir: dir }
    }

    /// Runs one step of a program that has just started.
    async fn step(&self) -> OrderStep {
        let program = CertificateOrders::new(&self.settings, self.clock.clone(), self.counts.clone());
        program.unwrap().step().await
    }

    async fn fails(&self) -> String {
        match self.step().await {
            OrderStep::Failed { why, .. } => why,
            other => panic!("{other:?}"),
        }
    }

    async fn is_done(&self) {
        let step = self.step().await;
        assert!(matches!(step, OrderStep::Done { .. }), "{step:?}");
    }

    fn folder(&self) -> AcmeFolder {
        AcmeFolder::new(&self.settings.dir)
    }

    fn held(&self) -> String {
        std::fs::read_to_string(self.folder().certificate()).unwrap()
    }

    fn is_for(&self, name: &str) -> bool {
        let leaf = CertificateDer::from_pem_slice(self.held().as_bytes()).unwrap();
        let parsed = ParsedCertificate::try_from(&leaf).unwrap();
        verify_server_name(&parsed, &ServerName::try_from(name.to_owned()).unwrap()).is_ok()
    }

    fn is_open(&self) -> bool {
        TcpListener::bind((Ipv4Addr::LOCALHOST, self.pebble.http_port)).is_err()
    }
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn names_are_checked_over_http_at_a_listener_that_is_open_only_during_the_order() {
    let fixture = Fixture::new(Pebble::new());
    let _authority = fixture.pebble.run();
    fixture.is_done().await;
    assert!(fixture.is_for("gate.example.com") && fixture.is_for("rpc.example.com"));
    assert!(!fixture.is_for("other.example.com"));
    assert_eq!(fixture.held().matches("BEGIN CERTIFICATE").count(), 2, "the chain without its root");
    for file in [fixture.folder().certificate(), fixture.folder().account_file()] {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    assert!(!fixture.folder().path().join("answers.json").exists(), "what proved the names is gone");
    rpcgate_tests::until("the listener is closed", || !fixture.is_open()).await;
    let before = fixture.held();
    assert_eq!(fixture.step().await, OrderStep::Nothing, "a restart orders nothing");
    assert_eq!(fixture.held(), before);
    assert_eq!(fixture.counts.done.load(Relaxed), 1);
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn the_old_certificate_stays_while_the_authority_is_away_or_forgot_the_account() {
    let fixture = Fixture::new(Pebble::new());
    let authority = fixture.pebble.run();
    fixture.is_done().await;
    let first = fixture.held();

    drop(authority);
    fixture.clock.advance(64 * DAY);
    let why = fixture.fails().await;
    assert!(why.starts_with("https://localhost:") && why.contains("refused"), "{why}");
    assert_eq!(fixture.held(), first);
    assert_eq!(fixture.step().await, OrderStep::Nothing, "it is too early for another order");

    let _authority = fixture.pebble.run();
    fixture.clock.advance(DAY / 24);
    let why = fixture.fails().await;
    assert!(why.contains("accountDoesNotExist"), "{why}");
    assert_eq!(fixture.held(), first);
    assert_eq!(fixture.counts.failures.load(Relaxed), 2);

    fixture.clock.advance(DAY / 24);
    fixture.is_done().await;
    assert_ne!(fixture.held(), first);
    assert_eq!(fixture.counts.failures.load(Relaxed), 0);
    let counts = [&fixture.counts.done, &fixture.counts.failed].map(|count| count.load(Relaxed));
    assert_eq!(counts, [2, 2]);
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn a_name_that_does_not_lead_here_is_reported_with_the_authoritys_answer() {
    let mut fixture = Fixture::new(Pebble::new());
    let _authority = fixture.pebble.run();
    // Nothing listens where the authority checks over TLS.
    (fixture.settings.challenge, fixture.settings.http_listen) = (AcmeChallenge::TlsAlpn01, None);
    let why = fixture.fails().await;
    assert!(why.contains("gate.example.com: ") || why.contains("rpc.example.com: "), "{why}");
    assert!(why.contains("urn:ietf:params:acme:error:"), "{why}");
    assert!(!fixture.folder().certificate().exists());
    // The address for checks over HTTP is taken.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    fixture.settings.challenge = AcmeChallenge::Http01;
    fixture.settings.http_listen = Some(taken.local_addr().unwrap());
    fixture.clock.advance(DAY);
    let why = fixture.fails().await;
    assert!(why.starts_with("acme.http_listen: 127.0.0.1:") && why.contains("in use"), "{why}");
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn a_broken_file_and_other_names_lead_to_another_certificate() {
    let mut fixture = Fixture::new(Pebble::new());
    let _authority = fixture.pebble.run();
    fixture.is_done().await;
    let first = fixture.held();
    for broken in ["", "broken", &first[..first.len() / 2]] {
        std::fs::write(fixture.folder().certificate(), broken).unwrap();
        assert_eq!(fixture.step().await, OrderStep::Nothing, "not more than one in an hour");
        fixture.clock.advance(DAY / 12);
        fixture.is_done().await;
        assert!(fixture.is_for("gate.example.com"), "{broken:?}");
    }
    fixture.settings.domains.push("new.example.com".into());
    fixture.is_done().await;
    assert!(fixture.is_for("new.example.com") && fixture.is_for("gate.example.com"));
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn an_authority_that_requires_an_account_of_its_own_is_shown_its_key() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let mut fixture = Fixture::new(Pebble::new().with_account("kid-1", key));
    let _authority = fixture.pebble.run();
    let why = fixture.fails().await;
    assert!(why.contains("externalAccountRequired"), "{why}");
    fixture.clock.advance(DAY);
    fixture.settings.eab_key_id = Some("kid-1".into());
    fixture.settings.eab_key = Some(Secret::new(format!("{}AA", &key[..key.len() - 2])));
    fixture.fails().await;
    fixture.clock.advance(DAY);
    fixture.settings.eab_key = Some(Secret::new(key));
    fixture.is_done().await;
}
