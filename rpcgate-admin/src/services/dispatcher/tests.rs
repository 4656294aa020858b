//! Tests of the dispatcher with receivers on sockets.

use super::*;
use crate::testing::secure_receiver::SecureReceiver;
use crate::testing::{NOON, Site, Visitor};
use parking_lot::Mutex;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::plan::Tier;
use rpcgate_management::action::webhook_failures::notify_of_withheld;
use rpcgate_management::identity::sealing::SealedFor;
use rpcgate_management::webhook::signature::{SEALED_SECRET, holds};
use rpcgate_store::testing::{StoredDelivery, webhook};
use rpcgate_store::{DeliveryId, NotificationKind, Project, Role, Webhook, fresh_id};
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const SECRET: &str = "whsec_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const BODY: &str = "{\"chain\":\"eth\",\"größe\":18446744073709551615}";

#[derive(Clone, PartialEq, Eq, Debug)]
struct Received {
    path: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Received {
    fn delivery(&self) -> DeliveryId {
        self.headers["x-delivery-id"].parse().unwrap()
    }
}

#[derive(Clone, Debug)]
enum Answer {
    Status(u16),
    /// The status, with `Retry-After`.
    Later(u16, &'static str),
    Hang,
    /// The status, once this is notified.
    After(Arc<Notify>, u16),
}

#[derive(Clone)]
struct Receiver {
    port: u16,
    requests: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    async fn start(answer: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<Received>>>::default();
        let answer = Arc::new(answer);
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut tcp, _)) = listener.accept().await {
                let seen = seen.clone();
                let answer = answer.clone();
                tokio::spawn(async move {
                    while let Some(request) = read(&mut tcp).await {
                        let what = answer(&request);
                        seen.lock().push(request);
                        let mut more = String::new();
                        let status = match what {
                            Answer::Status(status) => status,
                            Answer::Later(status, value) => {
                                more = format!("Retry-After: {value}\r\n");
                                status
                            }
                            Answer::Hang => return std::future::pending().await,
                            Answer::After(notify, status) => {
                                notify.notified().await;
                                status
                            }
                        };
                        let body = if status == 204 { "\r\n" } else { "content-length: 2\r\n\r\nhi" };
                        let head = format!("HTTP/1.1 {status} X\r\n{more}{body}");
                        if tcp.write_all(head.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Receiver { port, requests }
    }

    fn url(&self, number: u128) -> String {
        format!("http://127.0.0.1:{}/{number}", self.port)
    }

    fn all(&self) -> Vec<Received> {
        self.requests.lock().clone()
    }

    fn count(&self) -> usize {
        self.requests.lock().len()
    }
}

async fn read(tcp: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let mut lines = head.lines();
            let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
            let headers: BTreeMap<_, _> = lines
                .map(|line| line.split_once(": ").unwrap())
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length: usize = headers["content-length"].parse().unwrap();
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8(bytes[end + 4..].to_vec()).unwrap();
                return Some(Received { path, headers, body });
            }
        }
        let mut part = [0; 4_096];
        match tcp.read(&mut part).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
        }
    }
}

async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), wait).await.is_ok(), "never happened: {what}");
}

struct DispatcherFixture {
    site: Site,
    owner: Visitor,
    tenant: TenantId,
    project: ProjectId,
}

impl DispatcherFixture {
    async fn of(settings: &str) -> Self {
        let site = Site::of(&format!("[webhooks]\nallow_private_targets = true\n{settings}")).await;
        let owner = site.member(Role::Owner).await;
        let tenant = owner.user.tenant.unwrap();
        site.app.store.set_tier(tenant, Tier::Enterprise, NOON).await.unwrap();
        let fixture = DispatcherFixture { site, owner, tenant, project: ProjectId(fresh_id(NOON)) };
        fixture.create_project(fixture.project).await;
        fixture
    }

    /// Moves to a project of a different tenant on the same site.
    async fn of_another_tenant(self) -> Self {
        let DispatcherFixture { site, .. } = self;
        let owner = site.member(Role::Owner).await;
        let fixture = DispatcherFixture {
            tenant: owner.user.tenant.unwrap(),
            project: ProjectId(fresh_id(NOON)),
            site,
            owner,
        };
        fixture.site.app.store.set_tier(fixture.tenant, Tier::Enterprise, NOON).await.unwrap();
        fixture.create_project(fixture.project).await;
        fixture
    }

    async fn create_project(&self, id: ProjectId) {
        let made = Project::new(id, self.tenant, "first", NOON);
        self.site.app.store.create_project(&made).await.unwrap();
    }

    async fn endpoint(&self, number: u128, url: &str) -> Webhook {
        self.endpoint_of(self.project, number, url).await
    }

    async fn endpoint_of(&self, project: ProjectId, number: u128, url: &str) -> Webhook {
        let row = SealedFor { table: SEALED_SECRET, row: number };
        let secret = self.site.app.sealing.seal(row, SECRET.as_bytes()).unwrap();
        let made = Webhook { secret, ..webhook(number, project, url, NOON) };
        self.site.app.store.create_webhook(self.tenant, &made, NOON).await.unwrap();
        made
    }

    async fn due(&self, webhook: &Webhook, numbers: std::ops::Range<u128>) {
        let all: Vec<_> = numbers.map(|id| (webhook.id, DeliveryId(id))).collect();
        self.site.app.store.seed_deliveries(BODY.as_bytes(), &all, self.site.app.now()).await;
    }

    async fn stored(&self, id: u128) -> StoredDelivery {
        self.site.app.store.stored_delivery(DeliveryId(id)).await
    }

    async fn until_status(&self, id: u128, status: &str) {
        until(status, async || self.stored(id).await.status == status).await;
    }

    /// Opens a second program on the same database.
    async fn second(&self) -> Arc<AppState> {
        let config = self.site.app.settings.config.clone();
        Arc::new(AppState::open(config, self.site.clock.clone()).await.unwrap())
    }

    async fn notices(&self) -> Vec<String> {
        let found = self.site.app.store.notices(self.tenant, self.owner.user.id).await.unwrap();
        assert!(found.iter().all(|one| one.kind == NotificationKind::WebhookHealth));
        found.into_iter().rev().map(|one| one.text).collect()
    }
}

// Shows (Webhook delivery): A delivery has five attempts, with waits and up to a fifth more, with the same bytes and
// signature in each; then it is failed, with the last error and status (promise 28).
#[tokio::test]
async fn attempts_follow_the_schedule_with_identical_bytes_and_signature_and_then_fail() {
    let fixture = DispatcherFixture::of("").await;
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let endpoint = fixture.endpoint(1, &receiver.url(1)).await;
    fixture.due(&endpoint, 7..8).await;
    let mut dispatcher = Dispatcher::start(&fixture.site.app);
    for (number, wait) in [(1, Some(1)), (2, Some(5)), (3, Some(30)), (4, Some(300)), (5, None)] {
        until("an attempt", async || fixture.stored(7).await.attempts == number).await;
        let stored = fixture.stored(7).await;
        assert_eq!(
            (stored.last_status, stored.last_error.as_deref()),
            (Some(500), Some("the receiver answers 500"))
        );
        assert_eq!(stored.ended.len(), usize::try_from(number).unwrap());
        let Some(wait) = wait.map(Duration::from_secs) else { break };
        let after = stored.due_at.since(fixture.site.app.now());
        assert!(wait <= after && after <= wait.mul_f64(1.2) + Duration::from_micros(1), "{after:?}");
        // A different dispatcher may make the next attempt, as here.
        dispatcher.stop().await;
        fixture.site.clock.advance(after - Duration::from_micros(1));
        let early = fixture.second().await;
        assert!(claim_all(&early).await.is_empty(), "not yet");
        fixture.site.clock.advance(Duration::from_micros(1));
        dispatcher = Dispatcher::start(&early);
    }
    let failed = fixture.stored(7).await;
    assert_eq!((failed.status.as_str(), failed.is_finished, failed.attempts), ("failed", true, 5));
    fixture.site.clock.advance(Duration::from_secs(3_600));
    assert!(claim_all(&fixture.site.app).await.is_empty());
    let requests = receiver.all();
    assert_eq!(requests.len(), 5);
    for (index, request) in requests.iter().enumerate() {
        assert_eq!((request.body.as_str(), &request.path), (BODY, &"/1".to_owned()));
        assert_eq!(request.headers["x-signature"], requests[0].headers["x-signature"]);
        assert!(holds(SECRET.as_bytes(), BODY.as_bytes(), &request.headers["x-signature"]));
        assert_eq!(request.headers["x-delivery-attempt"], (index + 1).to_string());
        assert_eq!(request.delivery(), DeliveryId(7));
    }
    dispatcher.stop().await;
}

// Shows (Webhooks): A receiver's `Retry-After` is honoured within the schedule, and 410 disables its endpoint with a
// notification.
#[tokio::test]
async fn a_receivers_retry_after_is_honoured_within_the_schedule() {
    let fixture = DispatcherFixture::of("waits = [\"1s\", \"5s\", \"30s\", \"5m\"]\n").await;
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/1" => Answer::Later(429, "20"),
        "/2" => Answer::Later(503, "86400"),
        "/3" => Answer::Later(503, "Fri, 31 Dec 1999 23:59:59 GMT"),
        "/4" => Answer::Later(500, "whenever"),
        _ => Answer::Later(302, "7"),
    })
    .await;
    for number in 1..=5 {
        let endpoint = fixture.endpoint(number, &receiver.url(number)).await;
        fixture.due(&endpoint, number..number + 1).await;
    }
    let dispatcher = Dispatcher::start(&fixture.site.app);
    for (number, least, most) in [(1, 20, 20), (2, 300, 300), (3, 1, 2), (4, 1, 2), (5, 7, 7)] {
        until("an attempt", async || fixture.stored(number).await.attempts == 1).await;
        let after = fixture.stored(number).await.due_at.since(fixture.site.app.now());
        assert!(
            (Duration::from_secs(least)..=Duration::from_secs(most)).contains(&after),
            "{number}: {after:?}"
        );
    }
    dispatcher.stop().await;
}

// Shows (Webhooks).
#[tokio::test]
async fn an_endpoint_that_answers_410_is_disabled_at_once_and_its_owner_is_notified() {
    let fixture = DispatcherFixture::of("").await;
    let receiver = Receiver::start(|_| Answer::Status(410)).await;
    let endpoint = fixture.endpoint(1, &format!("{}?token=secret", receiver.url(1))).await;
    fixture.due(&endpoint, 1..2).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    fixture.until_status(1, "failed").await;
    until("it is switched off", async || !fixture.site.app.store.any_webhook(endpoint.id).await.active).await;
    until("users are notified", async || !fixture.notices().await.is_empty()).await;
    let stored = fixture.stored(1).await;
    assert_eq!(stored.last_error.as_deref(), Some("the receiver answers 410: the endpoint is gone"));
    let disabled = fixture.site.app.store.any_webhook(endpoint.id).await;
    assert_eq!(disabled.disabled_at, Some(fixture.site.app.now()));
    let notices = fixture.notices().await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("was switched off, because its receiver answers 410"), "{notices:?}");
    assert!(!notices[0].contains("secret"), "{notices:?}");
    fixture.due(&endpoint, 2..3).await;
    assert!(claim_all(&fixture.site.app).await.is_empty(), "what comes later waits");
    assert_eq!(receiver.count(), 1);
    dispatcher.stop().await;
}

// Shows (Webhooks).
#[tokio::test]
async fn an_endpoint_whose_address_changed_is_not_disabled() {
    let fixture = DispatcherFixture::of("").await;
    let endpoint = fixture.endpoint(1, "http://127.0.0.1:1/new").await;
    let store = &fixture.site.app.store;
    let gone = store.disable_gone_webhook(endpoint.id, "http://127.0.0.1:1/old", NOON).await.unwrap();
    assert_eq!((gone, store.any_webhook(endpoint.id).await.active), (None, true));
    let gone = store.disable_gone_webhook(endpoint.id, "http://127.0.0.1:1/new", NOON).await.unwrap();
    assert_eq!((gone, store.any_webhook(endpoint.id).await.active), (Some(fixture.tenant), false));
}

async fn claim_all(app: &AppState) -> Vec<rpcgate_store::DueDelivery> {
    let room = rpcgate_store::ClaimCapacity::for_each(1_000);
    app.store.claim_deliveries(1_000, &room, Duration::from_secs(30), app.now()).await.unwrap()
}

// Shows (Webhook delivery): Any 2xx acknowledges within one deadline for name, connection, TLS and head; the answer is
// read to 64 KiB and kept to 1 KiB (promise 29).
#[tokio::test]
async fn every_2xx_acknowledges_and_nothing_else_does() {
    let fixture = DispatcherFixture::of("attempts = 1\n").await;
    let receiver =
        Receiver::start(|request| Answer::Status(request.path.trim_matches('/').parse().unwrap())).await;
    let statuses = [200, 204, 299, 301, 400, 410, 429, 500];
    for status in statuses {
        let endpoint = fixture.endpoint(status, &receiver.url(status)).await;
        fixture.due(&endpoint, status..status + 1).await;
    }
    let dispatcher = Dispatcher::start(&fixture.site.app);
    for status in statuses {
        fixture.until_status(status, if status < 300 { "delivered" } else { "failed" }).await;
        let stored = fixture.stored(status).await;
        assert_eq!((stored.attempts, stored.last_status), (1, i16::try_from(status).ok()));
        let (_, _, error, answer) = &stored.ended[0];
        assert_eq!(answer.as_deref(), (status != 204).then_some(&b"hi"[..]));
        assert_eq!(error.is_none(), status < 300);
        let is_redirect = error.as_deref().is_some_and(|error| error.contains("redirects are not followed"));
        assert_eq!(is_redirect, status == 301);
    }
    assert_eq!(
        (fixture.site.app.deliveries.of("delivered"), fixture.site.app.deliveries.of("given_up")),
        (3, 5)
    );
    dispatcher.stop().await;
}

// Shows (Webhooks).
#[tokio::test]
async fn a_refused_target_is_a_failed_attempt_with_that_reason() {
    let fixture = DispatcherFixture::of("").await;
    let mut config = fixture.site.app.settings.config.clone();
    config.webhooks.allow_private_targets = false;
    let guarded = Arc::new(fixture.site.app.reload(config).unwrap());
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    let endpoint = fixture.endpoint(1, &receiver.url(1)).await;
    fixture.due(&endpoint, 1..2).await;
    let dispatcher = Dispatcher::start(&guarded);
    until("an attempt", async || fixture.stored(1).await.attempts == 1).await;
    let stored = fixture.stored(1).await;
    assert_eq!(stored.last_error.as_deref(), Some("the target is refused: the address is of this machine"));
    assert_eq!((stored.last_status, receiver.count()), (None, 0));
    dispatcher.stop().await;
}

// Shows (Webhooks).
#[tokio::test]
async fn a_receiver_with_a_certificate_of_a_configured_authority_gets_its_deliveries() {
    let fixture = DispatcherFixture::of("").await;
    let mut receiver = SecureReceiver::start("localhost").await;
    let endpoint = fixture.endpoint(1, &receiver.url("localhost")).await;
    fixture.due(&endpoint, 1..2).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("an attempt", async || fixture.stored(1).await.attempts == 1).await;
    dispatcher.stop().await;
    let unknown = "TLS failed: the certificate is not signed by an authority that is trusted";
    assert_eq!(fixture.stored(1).await.last_error.as_deref(), Some(unknown));
    let mut config = fixture.site.app.settings.config.clone();
    config.webhooks.ca_file = Some(receiver.ca_file());
    let trusting = Arc::new(fixture.site.app.reload(config).unwrap());
    let elsewhere = fixture.endpoint(2, &receiver.url("127.0.0.1")).await;
    fixture.due(&elsewhere, 2..3).await;
    fixture.site.clock.advance(Duration::from_secs(2));
    let dispatcher = Dispatcher::start(&trusting);
    fixture.until_status(1, "delivered").await;
    until("an attempt", async || fixture.stored(2).await.attempts == 1).await;
    dispatcher.stop().await;
    let refused = fixture.stored(2).await.last_error.unwrap();
    assert!(refused.starts_with("TLS failed: ") && refused.contains("not valid for 127.0.0.1"), "{refused}");
    let request = receiver.requests.recv().await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    let signature = head.lines().find_map(|line| line.strip_prefix("x-signature: ")).unwrap();
    assert!(body == BODY && holds(SECRET.as_bytes(), BODY.as_bytes(), signature), "{request}");
    assert!(receiver.requests.try_recv().is_err(), "nothing went to a host of another name");
}

// Shows (Webhooks): An attempt that was not marked is repeated after its lease, and two dispatchers make none twice
// (promise 27).
#[test]
fn a_crash_between_attempt_and_mark_repeats_the_attempt_and_loses_nothing() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let surviving = runtime();
    let doomed = runtime();
    surviving.block_on(async {
        let fixture = DispatcherFixture::of("").await;
        let receiver = Receiver::start(|_| Answer::Hang).await;
        let endpoint = fixture.endpoint(1, &receiver.url(1)).await;
        fixture.due(&endpoint, 1..2).await;
        let config = fixture.site.app.settings.config.clone();
        let clock = fixture.site.clock.clone();
        let dying = doomed.spawn(async move {
            let app = Arc::new(AppState::open(config, clock).await.unwrap());
            let _dispatcher = Dispatcher::start(&app);
            std::future::pending::<()>().await;
        });
        until("the request", async || receiver.count() == 1).await;
        doomed.shutdown_background();
        assert!(dying.await.is_err());
        fixture.site.clock.advance(Duration::from_millis(29_999));
        assert!(claim_all(&fixture.site.app).await.is_empty(), "its lease is not over");
        assert_eq!(fixture.stored(1).await.attempts, 0);
        let second = Receiver::start(|_| Answer::Status(200)).await;
        let moved = format!("UPDATE webhooks SET url = '{}'", second.url(1));
        fixture.site.app.store.execute(&moved).await;
        fixture.site.clock.advance(Duration::from_millis(1));
        let dispatcher = Dispatcher::start(&fixture.site.app);
        fixture.until_status(1, "delivered").await;
        let first = receiver.all();
        let again = second.all();
        assert_eq!((first.len(), again.len()), (1, 1));
        for name in ["x-delivery-id", "x-delivery-attempt", "x-signature"] {
            assert_eq!(first[0].headers[name], again[0].headers[name]);
        }
        assert_eq!(first[0].body, again[0].body);
        dispatcher.stop().await;
    });
}

// Shows (Webhooks).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_dispatchers_make_none_of_1000_deliveries_twice() {
    let fixture = DispatcherFixture::of("").await;
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    let mut endpoints = Vec::new();
    for number in 0..20 {
        endpoints.push(fixture.endpoint(number, &receiver.url(number)).await);
    }
    let second = fixture.second().await;
    let both = [Dispatcher::start(&fixture.site.app), Dispatcher::start(&second)];
    let made = || [&fixture.site.app, &second].map(|app| app.deliveries.of("delivered"));
    // On a busy machine one of them may do all of the first thousand.
    let mut count = 0;
    while count < 1_000 || made().contains(&0) {
        assert!(count < 20_000, "one of them delivers nothing");
        for endpoint in &endpoints {
            fixture.due(endpoint, count + 1..count + 51).await;
            count += 50;
        }
        until("all are made", async || made().iter().sum::<u64>() == count as u64).await;
    }
    for dispatcher in both {
        dispatcher.stop().await;
    }
    let mut ids: Vec<_> = receiver.all().iter().map(|request| request.delivery().0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=count).collect::<Vec<_>>());
    for id in [1, 500, count] {
        assert_eq!(fixture.stored(id).await.status, "delivered");
    }
}

// Shows (Webhooks): Endpoints that hang or fail delay no others (promise 30).
#[tokio::test]
async fn endpoints_that_hang_delay_no_others() {
    let fixture = DispatcherFixture::of("concurrency = 16\ntimeout = \"2m\"\n").await;
    let receiver = Receiver::start(|request| {
        let number: u128 = request.path.trim_matches('/').parse().unwrap();
        if number < 8 { Answer::Hang } else { Answer::Status(200) }
    })
    .await;
    for number in 0..40 {
        let endpoint = fixture.endpoint(number, &receiver.url(number)).await;
        fixture.due(&endpoint, number * 20..number * 20 + 20).await;
    }
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("all others have theirs", async || fixture.site.app.deliveries.of("delivered") == 32 * 20).await;
    let hanging: Vec<_> =
        receiver.all().into_iter().filter(|one| one.path.len() == 2 && *one.path < *"/8").collect();
    assert_eq!(hanging.len(), 8, "one at a time of each that hangs");
    assert_eq!(fixture.site.app.deliveries.of("failed"), 0);
    drop(dispatcher);
}

// Shows (Webhooks).
#[tokio::test]
async fn endpoints_of_one_project_that_hang_delay_no_other_project() {
    let settings = "concurrency = 32\ntimeout = \"2m\"\n[plans.enterprise]\nwebhooks_per_project = 700\n";
    let fixture = DispatcherFixture::of(settings).await;
    let receiver =
        Receiver::start(|request| if request.path.len() == 2 { Answer::Status(200) } else { Answer::Hang })
            .await;
    for number in 100..700 {
        let endpoint = fixture.endpoint(number, &receiver.url(number)).await;
        fixture.due(&endpoint, number * 10..number * 10 + 2).await;
    }
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("most places are taken", async || receiver.count() == 18).await;
    let other = ProjectId(fresh_id(NOON));
    fixture.create_project(other).await;
    for number in 1..4 {
        let endpoint = fixture.endpoint_of(other, number, &receiver.url(number)).await;
        fixture.due(&endpoint, number..number + 1).await;
    }
    for id in 1..4 {
        fixture.until_status(id, "delivered").await;
    }
    assert_eq!(receiver.count(), 18 + 3, "a reserve stays free");
    drop(dispatcher);
}

// Shows (Webhooks).
#[tokio::test]
async fn projects_of_one_tenant_that_hang_delay_no_other_tenant() {
    let fixture = DispatcherFixture::of("concurrency = 32\ntimeout = \"2m\"\n").await;
    let receiver =
        Receiver::start(|request| if request.path.len() == 2 { Answer::Status(200) } else { Answer::Hang })
            .await;
    for project in 0..20 {
        let own = ProjectId(fresh_id(NOON));
        fixture.create_project(own).await;
        for number in 100 + project * 10..104 + project * 10 {
            let endpoint = fixture.endpoint_of(own, number, &receiver.url(number)).await;
            fixture.due(&endpoint, number * 10..number * 10 + 2).await;
        }
    }
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("most places are taken", async || receiver.count() == 24).await;
    let other = fixture.of_another_tenant().await;
    for number in 1..4 {
        let endpoint = other.endpoint(number, &receiver.url(number)).await;
        other.due(&endpoint, number..number + 1).await;
    }
    for id in 1..4 {
        other.until_status(id, "delivered").await;
    }
    assert_eq!(receiver.count(), 24 + 3, "a reserve stays free, however many projects a tenant has");
    drop(dispatcher);
}

// Shows (Webhooks).
#[tokio::test]
async fn an_endpoint_in_a_pause_is_disabled_even_if_none_of_its_deliveries_has_failed() {
    let fixture = DispatcherFixture::of("disable_after = \"2h\"\n").await;
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let endpoint = fixture.endpoint(1, &receiver.url(1)).await;
    // Enough deliveries that each has its first attempt before any has its second.
    fixture.due(&endpoint, 1..31).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    let failed = || fixture.site.app.deliveries.of("failed");
    until("five failures", async || failed() == 5).await;
    for (more, secs) in [(6, 5), (7, 10), (8, 20)] {
        fixture.site.clock.advance(Duration::from_secs(secs));
        until("a single attempt", async || failed() == more).await;
        assert!(fixture.site.app.store.any_webhook(endpoint.id).await.active, "it has not failed for long");
    }
    fixture.site.clock.advance(Duration::from_secs(2 * 3_600));
    until("it is switched off", async || !fixture.site.app.store.any_webhook(endpoint.id).await.active).await;
    assert_eq!(fixture.site.app.deliveries.of("given_up"), 0);
    until("users are told", async || fixture.notices().await.len() == 1).await;
    assert!(fixture.notices().await[0].contains("was switched off"));
    dispatcher.stop().await;
}

// Shows (Webhooks).
#[tokio::test]
async fn a_failing_endpoint_pauses_until_a_single_attempt_succeeds() {
    let fixture = DispatcherFixture::of("").await;
    let works = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let switch = works.clone();
    let receiver = Receiver::start(move |request| {
        let is_up = request.path == "/2" || switch.load(std::sync::atomic::Ordering::SeqCst);
        Answer::Status(if is_up { 200 } else { 503 })
    })
    .await;
    let bad = fixture.endpoint(1, &receiver.url(1)).await;
    let good = fixture.endpoint(2, &receiver.url(2)).await;
    fixture.due(&bad, 100..130).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    let failed = || fixture.site.app.deliveries.of("failed");
    until("five failures", async || failed() == 5).await;
    // Before the others are delivered, the dispatcher has checked for more several times.
    for id in 0..3 {
        fixture.due(&good, id..id + 1).await;
        fixture.until_status(id, "delivered").await;
    }
    assert_eq!(failed(), 5, "it is left alone");
    fixture.site.clock.advance(Duration::from_secs(5));
    until("a single attempt", async || failed() == 6).await;
    fixture.due(&good, 3..4).await;
    fixture.until_status(3, "delivered").await;
    assert_eq!(failed(), 6, "and the pause is longer now");
    works.store(true, std::sync::atomic::Ordering::SeqCst);
    fixture.site.clock.advance(Duration::from_secs(10));
    until("the rest", async || fixture.site.app.deliveries.of("delivered") == 34).await;
    // Attempts are counted before their ends are stored.
    for id in 100..130 {
        fixture.until_status(id, "delivered").await;
    }
    dispatcher.stop().await;
}

// Shows (Webhooks): Users are notified about endpoints that fail and that recover, once a day each; an endpoint that
// fails for long is disabled, and its deliveries wait for a day.
#[tokio::test]
async fn users_are_notified_of_failures_of_recovery_and_of_a_disabled_endpoint() {
    let fixture = DispatcherFixture::of("attempts = 1\ndisable_after = \"2h\"\n").await;
    let works = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let switch = works.clone();
    let receiver = Receiver::start(move |_| {
        Answer::Status(if switch.load(std::sync::atomic::Ordering::SeqCst) { 200 } else { 500 })
    })
    .await;
    let endpoint = fixture.endpoint(1, &format!("{}?token=secret", receiver.url(1))).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    for id in 0..3 {
        fixture.due(&endpoint, id..id + 1).await;
        fixture.until_status(id, "failed").await;
    }
    until("a notification", async || fixture.notices().await.len() == 1).await;
    let text = fixture.notices().await.remove(0);
    assert!(text.starts_with(&format!("Deliveries to the webhook {} fail:", receiver.url(1))), "{text}");
    works.store(true, std::sync::atomic::Ordering::SeqCst);
    fixture.site.clock.advance(Duration::from_secs(1));
    fixture.due(&endpoint, 3..4).await;
    until("it works again", async || fixture.notices().await.len() == 2).await;
    assert!(fixture.notices().await[1].ends_with(" succeed again."));
    works.store(false, std::sync::atomic::Ordering::SeqCst);
    fixture.due(&endpoint, 4..5).await;
    fixture.until_status(4, "failed").await;
    fixture.site.clock.advance(Duration::from_secs(2 * 3_600 - 1));
    fixture.due(&endpoint, 5..6).await;
    fixture.until_status(5, "failed").await;
    assert!(fixture.site.app.store.any_webhook(endpoint.id).await.active, "a second too early");
    fixture.site.clock.advance(Duration::from_secs(301));
    fixture.due(&endpoint, 6..7).await;
    until("it is switched off", async || !fixture.site.app.store.any_webhook(endpoint.id).await.active).await;
    until("users are told", async || fixture.notices().await.len() == 3).await;
    assert!(fixture.notices().await[2].contains("was switched off"));
    let mails: Vec<_> = fixture.site.handed_over_mails().await;
    assert_eq!(mails.len(), 3);
    assert!(mails.iter().all(|(to, subject)| *to == fixture.owner.user.email && !subject.contains("secret")));
    fixture.due(&endpoint, 7..8).await;
    fixture.site.clock.advance(Duration::from_secs(86_401));
    give_up_waiting(&fixture.site.app).await.unwrap();
    let stored = fixture.stored(7).await;
    assert_eq!((stored.status.as_str(), stored.attempts), ("failed", 0));
    assert!(stored.last_error.unwrap().contains("switched off"));
    dispatcher.stop().await;
}

// Shows (Webhooks).
#[tokio::test]
async fn old_deliveries_expire_in_steps_with_other_deliveries_in_between() {
    let fixture = DispatcherFixture::of("").await;
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    let off = fixture.endpoint(1, &receiver.url(1)).await;
    let on = fixture.endpoint(2, &receiver.url(2)).await;
    fixture.due(&off, 1_000..2_100).await;
    fixture.site.app.store.switch_webhook(off.id, false).await;
    fixture.site.clock.advance(Duration::from_secs(86_401));
    assert!(give_up_waiting(&fixture.site.app).await.unwrap(), "there are more");
    let failed = async || {
        let all = 1_000..2_100;
        let mut count = 0;
        for id in all.step_by(50) {
            count += usize::from(fixture.stored(id).await.status == "failed");
        }
        count
    };
    assert!((1..22).contains(&failed().await), "a part of them");
    fixture.due(&on, 1..2).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    fixture.until_status(1, "delivered").await;
    until("all are given up", async || failed().await == 22).await;
    dispatcher.stop().await;
    assert!(!give_up_waiting(&fixture.site.app).await.unwrap());
}

// Shows (Webhooks).
#[tokio::test]
async fn an_attempt_that_ends_during_an_outage_is_marked_after_it() {
    let fixture = DispatcherFixture::of("").await;
    let answer = Arc::new(Notify::new());
    let given = answer.clone();
    let receiver = Receiver::start(move |_| Answer::After(given.clone(), 200)).await;
    let endpoint = fixture.endpoint(1, &receiver.url(1)).await;
    fixture.due(&endpoint, 1..2).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("the request", async || receiver.count() == 1).await;
    fixture.site.app.store.execute("ALTER TABLE deliveries RENAME TO gone").await;
    answer.notify_one();
    until("the attempt ends", async || fixture.site.app.deliveries.of("delivered") == 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    fixture.site.app.store.execute("ALTER TABLE gone RENAME TO deliveries").await;
    fixture.until_status(1, "delivered").await;
    assert_eq!((fixture.stored(1).await.attempts, receiver.count()), (1, 1));
    dispatcher.stop().await;
}

// Shows (Webhooks).
#[tokio::test]
async fn a_clock_that_is_set_forward_makes_no_attempt_twice() {
    let fixture = DispatcherFixture::of("").await;
    let answer = Arc::new(Notify::new());
    let given = answer.clone();
    let receiver = Receiver::start(move |request| match request.delivery() {
        DeliveryId(100) => Answer::After(given.clone(), 200),
        _ => Answer::Status(200),
    })
    .await;
    let endpoint = fixture.endpoint(1, &receiver.url(1)).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    // An endpoint that has acknowledged some deliveries gets several concurrent attempts.
    fixture.due(&endpoint, 1..20).await;
    for id in 1..20 {
        fixture.until_status(id, "delivered").await;
    }
    fixture.due(&endpoint, 100..101).await;
    let made = || receiver.all().iter().filter(|one| one.delivery() == DeliveryId(100)).count();
    until("the request", async || made() == 1).await;
    let first = fixture.stored(100).await.due_at;
    let later = fixture.site.app.now().plus(Duration::from_secs(3_600));
    fixture.site.clock.set(later);
    until("it is claimed again", async || fixture.stored(100).await.due_at > later).await;
    assert!(first < later);
    fixture.due(&endpoint, 101..103).await;
    for id in 101..103 {
        fixture.until_status(id, "delivered").await;
    }
    assert_eq!((made(), fixture.stored(100).await.attempts), (1, 0));
    answer.notify_one();
    fixture.until_status(100, "delivered").await;
    assert_eq!((made(), fixture.stored(100).await.attempts), (1, 1));
    dispatcher.stop().await;
}

// Shows (Webhooks).
#[tokio::test]
async fn a_dispatcher_that_stops_finishes_its_attempts_and_leaves_the_rest_to_others() {
    let fixture = DispatcherFixture::of("").await;
    let answer = Arc::new(Notify::new());
    let given = answer.clone();
    let receiver = Receiver::start(move |_| Answer::After(given.clone(), 200)).await;
    let endpoint = fixture.endpoint(1, &receiver.url(1)).await;
    fixture.due(&endpoint, 1..2).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("the request", async || receiver.count() == 1).await;
    let stopping = tokio::spawn(dispatcher.stop());
    fixture.due(&endpoint, 2..9).await;
    answer.notify_one();
    stopping.await.unwrap();
    assert_eq!(fixture.stored(1).await.status, "delivered");
    assert_eq!(receiver.count(), 1);
    assert_eq!(claim_all(&fixture.site.app).await.len(), 7);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_dispatcher_that_stops_marks_each_attempt_when_it_has_ended() {
    let fixture = DispatcherFixture::of("timeout = \"5m\"\n[shutdown]\ngrace = \"5m\"\n").await;
    let answer = Arc::new(Notify::new());
    let given = answer.clone();
    let receiver = Receiver::start(move |request| match request.delivery() {
        DeliveryId(1) => Answer::After(given.clone(), 200),
        _ => Answer::Hang,
    })
    .await;
    for number in 1..3 {
        let endpoint = fixture.endpoint(number, &receiver.url(number)).await;
        fixture.due(&endpoint, number..number + 1).await;
    }
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("the requests", async || receiver.count() == 2).await;
    let stopping = tokio::spawn(dispatcher.stop());
    tokio::task::yield_now().await;
    answer.notify_one();
    fixture.until_status(1, "delivered").await;
    assert!(!stopping.is_finished(), "the other attempt is running");
    stopping.abort();
}

// Shows (Webhooks).
#[tokio::test]
async fn attempts_that_outlast_the_grace_are_due_again_at_once() {
    let fixture = DispatcherFixture::of("timeout = \"2m\"\n[shutdown]\ngrace = \"1s\"\n").await;
    let receiver = Receiver::start(|_| Answer::Hang).await;
    let endpoint = fixture.endpoint(1, &receiver.url(1)).await;
    fixture.due(&endpoint, 1..2).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("the request", async || receiver.count() == 1).await;
    dispatcher.stop().await;
    let again = claim_all(&fixture.site.app).await;
    assert_eq!(again.iter().map(|one| (one.id.0, one.attempts)).collect::<Vec<_>>(), [(1, 0)]);
}

// Shows (Webhooks).
#[test]
fn a_lease_is_longer_than_an_attempt_for_any_configuration() {
    for secs in [0, 1, 10, 11, 60, 300] {
        let timeout = Duration::from_secs(secs);
        assert!(lease(timeout) >= timeout + Duration::from_secs(20));
    }
    assert_eq!(lease(Duration::from_secs(10)), Duration::from_secs(30));
}

// Shows (Webhooks).
#[tokio::test]
async fn users_are_notified_once_that_events_of_an_endpoint_are_withheld() {
    let fixture = DispatcherFixture::of("").await;
    fixture.endpoint(1, "https://a.example/in?token=secret").await;
    let withhold = async |secs: u64| {
        let at = NOON.plus(Duration::from_secs(secs)).micros();
        let upsert = format!(
            "INSERT INTO webhook_notices (webhook_id, withheld_at) SELECT id, {at} FROM webhooks WHERE true
             ON CONFLICT (webhook_id) DO UPDATE SET withheld_at = excluded.withheld_at"
        );
        fixture.site.app.store.execute(&upsert).await;
    };
    withhold(0).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    until("a notification", async || !fixture.notices().await.is_empty()).await;
    let notices = fixture.notices().await;
    assert!(
        notices[0].starts_with("Too many deliveries wait for the webhook https://a.example/in. "),
        "{notices:?}"
    );
    for secs in [1, 3_600, 86_399] {
        withhold(secs).await;
        notify_of_withheld(&fixture.site.app).await.unwrap();
    }
    assert_eq!(fixture.notices().await.len(), 1, "once");
    withhold(2 * 86_400).await;
    notify_of_withheld(&fixture.site.app).await.unwrap();
    assert_eq!(fixture.notices().await.len(), 2, "and again if it goes on for longer than a day");
    dispatcher.stop().await;
}

/// URLs as users write them: in any case, with blanks around them, with or without a path, a query and a port.
fn urls(port: u16) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for scheme in ["http", "HTTP", "Http"] {
        for host in ["127.0.0.1", "127.1", "2130706433"] {
            for path in
                ["", "/", "?token=abc", "/?a=b", "/in", "/in/%C3%BC?x=1&y=%20", "?", "//x", "/a;b=c", "/~u"]
            {
                for (before, after) in [("", ""), (" ", "\n"), ("\t", " ")] {
                    let sent = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
                    all.push((format!("{before}{scheme}://{host}:{port}{path}{after}"), sent));
                }
            }
        }
    }
    all
}

// Shows (Webhooks): Every accepted URL of a webhook is delivered to (promise 86).
#[tokio::test]
async fn every_url_that_is_accepted_is_delivered_to() {
    let fixture = DispatcherFixture::of("").await;
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    let dispatcher = Dispatcher::start(&fixture.site.app);
    let mut accepted = 0;
    let all = urls(receiver.port);
    for (url, path) in all.iter().step_by(7) {
        let before = receiver.count();
        let form = serde_json::json!({"url": url}).to_string();
        let webhooks = format!("/api/v1/projects/{}/webhooks", fixture.project);
        let made = fixture.site.ask(Some(&fixture.owner), http::Method::POST, &webhooks, form).await;
        if made.status == http::StatusCode::BAD_REQUEST {
            continue;
        }
        assert_eq!(made.status, http::StatusCode::CREATED, "{url:?}: {}", made.body);
        accepted += 1;
        let id = made.body["id"].as_str().unwrap();
        let test = format!("/api/v1/webhooks/{id}/test");
        let tested = fixture
            .site
            .ask(Some(&fixture.owner), http::Method::POST, &test, axum::body::Body::empty())
            .await;
        assert_eq!(tested.status, http::StatusCode::CREATED, "{}", tested.body);
        until("it arrives", async || receiver.count() == before + 1).await;
        assert_eq!(receiver.all()[before].path, *path, "{url:?}");
        let gone = format!("/api/v1/webhooks/{id}");
        fixture.site.ask(Some(&fixture.owner), http::Method::DELETE, &gone, axum::body::Body::empty()).await;
        // A tenant may request 30 tests per minute.
        fixture.site.clock.advance(Duration::from_secs(3));
    }
    assert!(accepted > all.len() / 14, "most of them are accepted: {accepted} of {}", all.len() / 7);
    dispatcher.stop().await;
}
