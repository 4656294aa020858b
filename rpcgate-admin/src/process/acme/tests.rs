//! Orders without an authority: when they begin, what they leave alone, and what they write down. `tests/tests/acme` orders from
//! a real one.

use super::held::tests::pem;
use super::*;
use rpcgate_core::clock::ManualClock;
use std::net::TcpListener;
use tempfile::TempDir;

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
    /// An authority that is away.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut settings = AcmeSettings::default();
        let url = format!("https://{free}/directory");
        settings.directory_url = rpcgate_core::config::Url::parse(&url, &["https"]).ok();
        settings.dir = dir.path().join("acme");
        settings.domains = vec!["a.example".into(), "b.example".into()];
        Fixture { dir, settings, clock: Arc::new(ManualClock::at(NOON)), counts: Arc::default() }
    }

    /// A program with these settings.
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

#[tokio::test]
async fn an_authority_that_is_away_is_asked_ever_less_often_and_the_old_certificate_stays() {
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

#[tokio::test]
async fn a_restart_waits_for_as_long_as_the_program_would_have() {
    let fixture = Fixture::new();
    let (_, _, next) = failure(fixture.program().step().await);
    assert_eq!(fixture.program().step().await, OrderStep::Nothing);
    fixture.clock.set(NOON.plus(next));
    assert_eq!(failure(fixture.program().step().await).1, 2);
}

#[tokio::test]
async fn one_program_orders_at_a_time_and_one_that_dies_meanwhile_does_not_order_at_once_when_it_starts() {
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
async fn a_certificate_that_is_there_is_not_ordered_again() {
    let fixture = Fixture::new();
    let program = fixture.program();
    fixture.folder().set_certificate(&pem(&["a.example", "b.example"], 2026, 2030)).unwrap();
    assert_eq!(program.step().await, OrderStep::Nothing);
    assert!(!fixture.folder().path().join("state.json").exists(), "nothing was begun");
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_told() {
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

#[test]
fn only_a_certificate_that_can_be_used_takes_the_place_of_the_old_one() {
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
        rpcgate_core::config::Url::parse("https://127.0.0.1:1/directory", &["https"]).ok();
    assert_eq!(failure(fixture.program().step().await).1, 1);
    assert_eq!(fixture.program().step().await, OrderStep::Nothing);
}
