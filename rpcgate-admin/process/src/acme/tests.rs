//! Orders without an authority: their start, their effects, and their stored state. `tests/tests/acme` orders from a
//! real one.

use super::held::tests::pem;
use super::*;
use rcgen::{CertificateParams, KeyPair};
use rpcgate_core::clock::ManualClock;
use rustls_pki_types::PrivateKeyDer;
use std::net::TcpListener;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

/// The last day of 2026, at noon.
const NOON: Time = Time::from_secs(1_798_718_400);
const MINUTE: Duration = Duration::from_secs(60);

struct Fixture {
    dir: TempDir,
    settings: AcmeSettings,
    clock: Arc<ManualClock>,
    counts: Arc<OrderCounts>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut settings = AcmeSettings::default();
        let url = format!("https://{free}/directory");
        settings.directory_url = rpcgate_config::Url::parse(&url, &["https"]).ok();
        settings.dir = dir.path().join("acme");
        settings.domains = vec!["a.example".into(), "b.example".into()];
        Fixture { dir, settings, clock: Arc::new(ManualClock::at(NOON)), counts: Arc::default() }
    }

    fn program(&self) -> CertificateOrders {
        CertificateOrders::new(&self.settings, self.clock.clone(), self.counts.clone()).unwrap()
    }

    fn folder(&self) -> AcmeFolder {
        AcmeFolder::new(&self.settings.dir)
    }

    fn held(&self) -> String {
        std::fs::read_to_string(self.folder().certificate()).unwrap()
    }
}

fn failure(step: OrderStep) -> (String, u32, Duration) {
    let OrderStep::Failed { why, failures, next } = step else { panic!("{step:?}") };
    (why, failures, next.since(NOON))
}

// Shows (Commands and configuration).
#[tokio::test]
async fn an_unreachable_authority_is_asked_less_and_less_often() {
    let fixture = Fixture::new();
    let program = fixture.program();
    let old = pem(&["a.example", "b.example"], 2024, 2028);
    fixture.folder().set_certificate(&old).unwrap();
    let (why, failures, first) = failure(program.step().await);
    assert!(why.contains("https://127.0.0.1:") && why.contains("refused"), "{why}");
    assert!(failures == 1 && (5 * MINUTE..=6 * MINUTE + 15 * MINUTE / 60).contains(&first), "{first:?}");
    for _ in 0..3 {
        assert_eq!(program.step().await, OrderStep::Nothing, "it is too early");
    }
    fixture.clock.advance(first);
    let (_, failures, second) = failure(program.step().await);
    assert!(failures == 2 && second - first >= 10 * MINUTE, "{second:?}");
    let mut last = second;
    for expected in 3..20 {
        fixture.clock.set(NOON.plus(last));
        let (_, failures, next) = failure(program.step().await);
        assert_eq!(failures, expected);
        assert!(next - last <= Duration::from_secs(108_000), "a day and a quarter at most: {next:?}");
        last = next;
    }
    assert_eq!(fixture.held(), old);
    let counted = [&fixture.counts.done, &fixture.counts.failed, &fixture.counts.failures];
    assert_eq!(counted.map(|count| count.load(Relaxed)), [0, 19, 19]);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_restart_waits_for_as_long_as_the_program_would_have() {
    let fixture = Fixture::new();
    let (_, _, next) = failure(fixture.program().step().await);
    assert_eq!(fixture.program().step().await, OrderStep::Nothing);
    fixture.clock.set(NOON.plus(next));
    assert_eq!(failure(fixture.program().step().await).1, 2);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn programs_order_one_at_a_time_and_wait_after_a_restart_if_another_one_died() {
    let fixture = Fixture::new();
    let program = fixture.program();
    let due = begin(&program.client, NOON).unwrap().unwrap();
    assert_eq!(fixture.program().step().await, OrderStep::Nothing, "it is too early");
    assert_eq!(fixture.folder().state().last.unwrap().why, "the program ended while it ran");
    fixture.clock.advance(7 * MINUTE);
    assert_eq!(fixture.program().step().await, OrderStep::Nothing, "another program has the lock");
    drop(due);
    assert_eq!(failure(fixture.program().step().await).1, 2);
}

#[tokio::test]
async fn an_existing_certificate_is_not_ordered_again() {
    let fixture = Fixture::new();
    let program = fixture.program();
    fixture.folder().set_certificate(&pem(&["a.example", "b.example"], 2026, 2030)).unwrap();
    assert_eq!(program.step().await, OrderStep::Nothing);
    assert!(!fixture.folder().path().join("state.json").exists(), "nothing was begun");
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_reported() {
    let mut fixture = Fixture::new();
    let program = fixture.program();
    std::fs::remove_dir(fixture.folder().path()).unwrap();
    std::fs::write(fixture.folder().path(), "a file").unwrap();
    let step = program.step().await;
    let OrderStep::Unusable(why) = step else { panic!("{step:?}") };
    assert!(why.contains("acme: "), "{why}");
    fixture.settings.dir = fixture.dir.path().join("acme/below");
    let bad = CertificateOrders::new(&fixture.settings, fixture.clock.clone(), Arc::default()).unwrap_err();
    assert!(bad.to_string().starts_with("acme.dir: "), "{bad}");
}

// Shows (Commands and configuration).
#[test]
fn only_a_usable_certificate_replaces_the_old_one() {
    let fixture = Fixture::new();
    let program = fixture.program();
    let old = pem(&["a.example"], 2026, 2030);
    fixture.folder().set_certificate(&old).unwrap();
    let mut now = NOON;
    let mut ended = |ordered: Result<String, String>| {
        now = now.plus(Duration::from_secs(200_000));
        let due = begin(&program.client, now).unwrap().unwrap();
        end(&program.client, due, ordered, now)
    };
    for (ordered, expected) in [
        (Err("refused".to_owned()), "refused"),
        (Ok(pem(&["a.example"], 2026, 2030)), "it is not for b.example"),
        (Ok(pem(&["a.example", "b.example"], 2028, 2030)), "it is valid only from 2028-01-01T00:00:00Z"),
        (Ok(pem(&["a.example", "b.example"], 2020, 2026)), "it has expired, at 2026-01-01T00:00:01Z"),
        (Ok("nothing".to_owned()), "holds no certificate in PEM"),
    ] {
        let step = ended(ordered);
        let OrderStep::Failed { why, .. } = step else { panic!("{expected}: {step:?}") };
        assert!(why.contains(expected), "{why}");
        assert_eq!(fixture.held(), old, "{expected}");
    }
    let new = pem(&["a.example", "b.example"], 2026, 2030);
    let OrderStep::Done { until } = ended(Ok(new.clone())) else { panic!("it can be used") };
    assert_eq!(moment_text(until), "2030-01-01T00:00:01Z");
    assert_eq!(fixture.held(), new);
    let state = fixture.folder().state();
    assert_eq!(state.signed_by.as_deref(), Some(fixture.settings.directory_url()));
    assert_eq!(state.last.unwrap().failures, 0);
}

#[tokio::test]
async fn other_names_and_another_authority_are_ordered_for_without_a_pause() {
    let mut fixture = Fixture::new();
    failure(fixture.program().step().await);
    assert_eq!(fixture.program().step().await, OrderStep::Nothing);
    fixture.settings.domains.push("c.example".into());
    assert_eq!(failure(fixture.program().step().await).1, 1);
    fixture.settings.directory_url =
        rpcgate_config::Url::parse("https://127.0.0.1:1/directory", &["https"]).ok();
    assert_eq!(failure(fixture.program().step().await).1, 1);
    assert_eq!(fixture.program().step().await, OrderStep::Nothing);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn programs_whose_settings_differ_do_not_order_in_turns_without_a_pause() {
    let fixture = Fixture::new();
    let mut settings = fixture.settings.clone();
    settings.domains = vec!["c.example".into()];
    let second = CertificateOrders::new(&settings, fixture.clock.clone(), Arc::default()).unwrap();
    let first = fixture.program();
    let ours = ["a.example", "b.example"];
    let others = ["c.example"];
    for (program, domains) in [(&first, ours.as_slice()), (&second, others.as_slice())] {
        let due = begin(&program.client, NOON).unwrap().unwrap();
        let step = end(&program.client, due, Ok(pem(domains, 2026, 2030)), NOON);
        assert!(matches!(step, OrderStep::Done { .. }), "{step:?}");
    }
    fixture.clock.advance(59 * MINUTE);
    assert_eq!(
        first.step().await,
        OrderStep::Nothing,
        "the other one has taken the place of its certificate"
    );
    fixture.clock.advance(MINUTE);
    assert_eq!(failure(first.step().await).1, 1);
    fixture.clock.advance(4 * MINUTE);
    assert_eq!(second.step().await, OrderStep::Nothing, "its certificate is there");
    fixture.folder().set_certificate("broken").unwrap();
    assert_eq!(failure(second.step().await).1, 1);
    assert_eq!(first.step().await, OrderStep::Nothing, "its pause holds beside the order of the other one");
    assert_eq!(fixture.counts.failures.load(Relaxed), 1);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn failures_before_the_start_and_of_other_programs_are_counted() {
    let fixture = Fixture::new();
    let mut next = Duration::ZERO;
    for _ in 0..3 {
        fixture.clock.set(NOON.plus(next));
        (_, _, next) = failure(fixture.program().step().await);
    }
    let counts: Arc<OrderCounts> = Arc::default();
    let program = CertificateOrders::new(&fixture.settings, fixture.clock.clone(), counts.clone()).unwrap();
    assert_eq!(program.step().await, OrderStep::Nothing);
    assert_eq!([&counts.failures, &counts.failed].map(|count| count.load(Relaxed)), [3, 0]);
    fixture.folder().set_certificate(&pem(&["a.example", "b.example"], 2026, 2030)).unwrap();
    assert_eq!(program.step().await, OrderStep::Nothing);
    assert_eq!(counts.failures.load(Relaxed), 0, "none is due");
}

// Shows (Commands and configuration).
#[test]
fn an_order_of_another_program_is_not_a_failure() {
    let fixture = Fixture::new();
    let program = fixture.program();
    let due = begin(&program.client, NOON).unwrap().unwrap();
    assert!(matches!(begin(&program.client, NOON).unwrap(), Err(IdleOrders::Elsewhere)));
    drop(due);
    let idle = begin(&program.client, NOON).unwrap().unwrap_err();
    assert!(matches!(idle, IdleOrders::Paused { .. }), "its program has ended: {idle:?}");
}

// Shows (Commands and configuration).
#[tokio::test]
async fn an_account_with_a_broken_key_counts_as_missing() {
    let fixture = Fixture::new();
    let program = fixture.program();
    let directory = fixture.settings.directory_url();
    let account = serde_json::json!({ "id": "a", "key_pkcs8": "AAAA", "directory": directory });
    fixture.folder().set_account(account.to_string().as_bytes()).unwrap();
    let (why, ..) = failure(program.step().await);
    assert!(why.contains("refused"), "it asks the authority for another one: {why}");
}

#[test]
fn a_certificate_that_begins_within_the_hour_is_kept_because_clocks_differ() {
    let new = pem(&["a.example"], 2027, 2030);
    let domains = ["a.example".to_owned()];
    let at = |minutes: u32| usable(&new, &domains, NOON.plus(minutes * MINUTE));
    assert!(at(11 * 60).is_ok() && at(12 * 60).is_ok());
    let why = at(11 * 60 - 1).unwrap_err();
    assert!(why.contains("it is valid only from 2027-01-01T00:00:00Z"), "{why}");
}

// Shows (Commands and configuration).
#[tokio::test]
async fn an_order_that_an_authority_ends_unexpectedly_has_failed_and_later_ones_are_made() {
    let mut fixture = Fixture::new();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let file = fixture.dir.path().join("ca.pem");
    std::fs::write(&file, certificate.pem()).unwrap();
    fixture.settings.ca_file = Some(file);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/directory", listener.local_addr().unwrap().port());
    fixture.settings.directory_url = rpcgate_config::Url::parse(&url, &["https"]).ok();
    // Its directory contains no URLs, which the library requires.
    let _serving = AbortOnDropHandle::new(tokio::spawn(async move {
        let directory = r#"{"newNonce":"not a URL","newAccount":"not a URL","newOrder":"not a URL"}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{directory}", directory.len());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    }));
    let program = fixture.program();
    let (why, failures, next) = failure(program.step().await);
    assert!(failures == 1 && why.starts_with("the order ended unexpectedly: "), "{why}");
    fixture.clock.advance(next);
    assert_eq!(failure(program.step().await).1, 2);
}

// Shows (Commands and configuration).
#[test]
fn the_issuer_of_the_certificate_is_known_even_after_the_state_is_removed() {
    let mut fixture = Fixture::new();
    let program = fixture.program();
    let due = begin(&program.client, NOON).unwrap().unwrap();
    let step = end(&program.client, due, Ok(pem(&["a.example", "b.example"], 2026, 2030)), NOON);
    assert!(matches!(step, OrderStep::Done { .. }), "{step:?}");
    std::fs::remove_file(fixture.folder().path().join("state.json")).unwrap();
    assert!(matches!(begin(&program.client, NOON).unwrap(), Err(IdleOrders::NotDue)));
    fixture.settings.directory_url =
        rpcgate_config::Url::parse("https://127.0.0.1:1/directory", &["https"]).ok();
    let due = begin(&fixture.program().client, NOON).unwrap().unwrap();
    assert!(matches!(due.reason, OrderReason::OtherAuthority(_)), "{:?}", due.reason);
}
