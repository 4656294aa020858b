//! The whole service with its nodes and a receiver of webhooks, and a browser that reads its pages.

use crate::front::{Front, FrontCertificate};
use futures_util::FutureExt as _;
use rpcgate_core::clock::{Clock, SystemClock, Time};
use rpcgate_server::Gateway;
use rpcgate_tests::admin::{ApiUser, PASSWORD, TestService};
use rpcgate_tests::browser::{Browser, BrowserKind, PageReader};
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::node::Node;
use rpcgate_tests::receiver::WebhookReceiver;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub(crate) const EMAIL: &str = "ada@example.com";
pub(crate) const NAME: &str = "Ada Lovelace";
pub(crate) const OPERATOR: &str = "operator@example.com";

/// The system's clock, which tests advance.
#[derive(Debug, Default)]
pub(crate) struct AheadClock {
    real: SystemClock,
    /// In seconds.
    ahead: AtomicU64,
}

impl AheadClock {
    pub(crate) fn jump(&self, by: Duration) {
        self.ahead.fetch_add(by.as_secs(), Relaxed);
    }

    fn ahead(&self) -> Duration {
        Duration::from_secs(self.ahead.load(Relaxed))
    }
}

impl Clock for AheadClock {
    fn now(&self) -> Time {
        self.real.now().plus(self.ahead())
    }

    fn elapsed(&self) -> Duration {
        self.real.elapsed() + self.ahead()
    }
}

/// The service with two nodes of Ethereum, one of them behind, and one of Bitcoin.
#[derive(Debug)]
pub(crate) struct Dashboard {
    pub(crate) service: TestService,
    pub(crate) clock: Arc<AheadClock>,
    pub(crate) receiver: WebhookReceiver,
    /// The URL of the pages, without a trailing slash.
    pub(crate) base: String,
    gateway: Gateway,
    _nodes: [Node; 3],
    _fronts: [Front; 2],
}

impl Dashboard {
    /// Starts the service. With a certificate its pages are read over TLS.
    pub(crate) async fn start(certificate: Option<&FrontCertificate>) -> Self {
        let nodes = [Node::evm().await, Node::evm().await, Node::utxo().await];
        nodes[0].height(1_000_000);
        nodes[1].height(999_940);
        let mut pages = Front::bind().await;
        let mut calls = Front::bind().await;
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let base = format!("{scheme}://localhost:{}", pages.port());
        let setup = Setup::new()
            .node("eth", &nodes[0].url())
            .node("eth", &nodes[1].url())
            .node("btc", &nodes[2].url())
            .set("chains.eth", "probe_interval = \"1s\"")
            .set("chains.btc", "probe_interval = \"1s\"")
            .set("webhooks", "allow_private_targets = true")
            .set("billing.fees", "free = 500")
            // Tests call until they get the expected answer.
            .set("plans.free", "per_minute = 100000")
            .set("plans.free", "per_hour = 100000")
            .set("plans.standard", "per_minute = 100000")
            .set("plans.standard", "per_hour = 100000")
            .set("admin", "auth_per_minute = 1000")
            .set("admin", &format!("dash_url = \"{base}\""))
            .set("admin", &format!("gateway_url = \"http://127.0.0.1:{}\"", calls.port()))
            .set("admin.challenge", "difficulty = 1000");
        let clock = Arc::new(AheadClock::default());
        let service = TestService::start(setup, clock.clone()).await.with_webhooks();
        // Months are billed from this one on.
        service.bill().await;
        let gateway = service.gateway().await;
        pages.lead(service.addr(), certificate);
        calls.lead(gateway.addr(), None);
        let receiver = WebhookReceiver::start().await;
        Dashboard { service, clock, receiver, base, gateway, _nodes: nodes, _fronts: [pages, calls] }
    }

    /// Creates an owner over the API, with one project and key.
    pub(crate) async fn owner(&self) -> Owner {
        let user = self.service.owner(EMAIL).await;
        let project = user.project("Wallet backend").await;
        let (key, text) = user.key(&project).await;
        Owner { user, project, key, text }
    }

    pub(crate) fn gateway(&self) -> std::net::SocketAddr {
        self.gateway.addr()
    }
}

#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) user: ApiUser,
    pub(crate) project: String,
    pub(crate) key: String,
    pub(crate) text: String,
}

/// Runs a test with a browser, which is closed in any case.
pub(crate) async fn in_browser(kind: BrowserKind, read: impl AsyncFnOnce(Arc<Dashboard>, PageReader)) {
    in_browser_at(kind, None, read).await;
}

pub(crate) async fn in_browser_over_tls(read: impl AsyncFnOnce(Arc<Dashboard>, PageReader)) {
    let certificate = FrontCertificate::new();
    let kind = BrowserKind { trusted: Some(certificate.hash()), ..BrowserKind::default() };
    in_browser_at(kind, Some(&certificate), read).await;
}

async fn in_browser_at(
    kind: BrowserKind,
    certificate: Option<&FrontCertificate>,
    read: impl AsyncFnOnce(Arc<Dashboard>, PageReader),
) {
    let Some(browser) = Browser::of(&kind).await else { return };
    let dashboard = Arc::new(Dashboard::start(certificate).await);
    let reader = browser.reader(&dashboard.base);
    let outcome = AssertUnwindSafe(read(dashboard.clone(), reader)).catch_unwind().await;
    browser.stop().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
    Arc::into_inner(dashboard).unwrap().service.stop().await;
}

/// Logs in a user without a second factor.
pub(crate) async fn log_in(reader: &PageReader, email: &str) {
    reader.open("/login").await;
    give_password(reader, email).await;
    reader.find("body.app").await;
}

pub(crate) async fn give_password(reader: &PageReader, email: &str) {
    reader.reads("Log in").await;
    reader.write("email", email).await;
    reader.write("password", PASSWORD).await;
    reader.press("main form[action$=login] button").await;
}

pub(crate) async fn log_out(reader: &PageReader) {
    open_menu(reader).await;
    reader.press("form[action$=logout] button").await;
    reader.reads("Log in").await;
}

/// Opens the menu of the account. A narrow window hides it behind a button.
pub(crate) async fn open_menu(reader: &PageReader) {
    if reader.run("return innerWidth < 960").await == serde_json::json!(true) {
        reader.press(".burger").await;
    }
    // A choice of colours, which the script applies at once, leaves the menu open.
    if reader.run("return document.querySelector('#account').matches(':popover-open')").await
        == serde_json::json!(false)
    {
        reader.press("button.account").await;
    }
}

/// Checks that the browser has no complaints.
pub(crate) async fn is_content(reader: &PageReader) {
    let complaints = reader.complaints().await;
    assert!(complaints.is_empty(), "{}\n{complaints:#?}", reader.path().await);
}
