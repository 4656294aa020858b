//! The documented backup and restore, with the commands of the documentation: an account with keys, usage, an invoice
//! and a webhook is backed up while it works, lost and restored.

use crate::*;
use rpcgate_tests::client::TestClient;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tempfile::TempDir;

const DOCUMENT: &str = include_str!("../../../docs/running.md");
const A_MONTH: Duration = Duration::from_secs(32 * 86_400);
/// The time of one step of the chain: two to four blocks.
const WINDOW: Duration = Duration::from_secs(36);
const EMAIL: &str = "ada@example.com";

/// Reports the kind of database, by the name under which this file is included.
fn is_on_postgres() -> bool {
    module_path!().contains("on_postgres")
}

/// Returns the URL of a new database, if it is on a server, and the variables by which the server's programs find it.
fn database() -> (Option<String>, Vec<(&'static str, String)>) {
    #[cfg(have_postgres)]
    if is_on_postgres() {
        let server = rpcgate_tests::services::postgres::Postgres::shared();
        let url = server.database();
        let variables = server.variables(&url).into();
        return (Some(url), variables);
    }
    (None, Vec::new())
}

/// Returns the lines of the command blocks in the chapter for this kind: those that back up, and those that restore.
fn documented() -> [Vec<&'static str>; 2] {
    let kind = if is_on_postgres() { "PostgreSQL" } else { "SQLite" };
    let chapter = DOCUMENT.split(&format!("\n### Backup on {kind}\n")).nth(1).unwrap();
    let chapter = chapter.split("\n### ").next().unwrap();
    let blocks = chapter.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks: Vec<Vec<&str>> = blocks.map(|block| block.lines().collect()).collect();
    blocks.try_into().unwrap()
}

/// The machine's clock, which a test sets forward.
#[derive(Debug)]
struct AheadClock {
    system: SystemClock,
    by: AtomicU64,
}

impl Clock for AheadClock {
    fn now(&self) -> Time {
        self.system.now().plus(Duration::from_micros(self.by.load(Relaxed)))
    }

    fn elapsed(&self) -> Duration {
        self.system.elapsed()
    }
}

/// A shell in the folder of the service, which finds the programs and runs the commands of the document.
struct Shell {
    programs: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Shell {
    fn new(variables: Vec<(&'static str, String)>) -> Self {
        let programs = tempfile::tempdir().unwrap();
        let admin = env!("CARGO_BIN_EXE_admin-command");
        std::os::unix::fs::symlink(admin, programs.path().join("rpcgate-admin")).unwrap();
        Shell { programs, variables }
    }

    async fn run(&self, folder: &Path, line: &str) {
        let mut paths = vec![self.programs.path().to_owned()];
        #[cfg(have_postgres)]
        paths.extend(rpcgate_tests::services::postgres::binaries());
        paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut shell = Command::new("sh");
        shell.args(["-euc", line]).current_dir(folder).env("PATH", std::env::join_paths(paths).unwrap());
        for (name, value) in &self.variables {
            shell.env(name, value);
        }
        let output = tokio::task::spawn_blocking(move || shell.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[derive(PartialEq, Debug)]
struct Seen {
    usage: [Value; 2],
    invoices: Value,
    keys: Value,
    webhook: Value,
    subscriptions: Value,
}

struct Tenant {
    owner: ApiUser,
    project: String,
    webhook: String,
}

impl Tenant {
    async fn seen(&self) -> Seen {
        let summary = self.owner.shown(&format!("/projects/{}/usage?period=day", self.project)).await;
        let invoices = format!("/tenants/{}/invoices", self.owner.tenant().await);
        let keys = self.owner.shown(&format!("/projects/{}/keys", self.project)).await;
        let endpoint = format!("/webhooks/{}", self.webhook);
        let subscriptions = self.owner.shown(&format!("{endpoint}/subscriptions")).await;
        let webhooks = self.owner.shown(&format!("/projects/{}/webhooks", self.project)).await;
        let mut webhook = webhooks[0].clone();
        assert_eq!(webhook["id"], json!(self.webhook));
        webhook.as_object_mut().unwrap().retain(|name, _| ["id", "url", "active"].contains(&name.as_str()));
        Seen {
            usage: [summary["total_cu"].clone(), summary["request_count"].clone()],
            invoices: self.owner.shown(&invoices).await,
            keys,
            webhook,
            subscriptions,
        }
    }

    /// Waits until the usage of `calls` calls of the last day is stored.
    async fn recorded(&self, calls: u64) {
        let path = format!("/projects/{}/usage?period=day", self.project);
        let is_stored = async || self.owner.shown(&path).await["request_count"] == calls;
        until_within(TIMEOUT, &format!("{calls} calls are stored"), is_stored).await;
    }
}

async fn calls(client: &TestClient, count: u64) {
    for number in 0..count {
        let reply = client.call("eth", "eth_getBalance", &format!("[\"0x{number:040x}\",\"latest\"]")).await;
        assert_eq!((reply.status, reply.cu()), (200, 5), "{reply:?}");
    }
}

fn heights(received: &[ReceivedDelivery]) -> BTreeSet<u64> {
    received.iter().map(|delivery| height_of(&delivery.event())).collect()
}

fn ids(received: &[ReceivedDelivery]) -> BTreeSet<String> {
    received.iter().map(|delivery| delivery.id().to_owned()).collect()
}

async fn followed(service: &TestService, chains: &Chains) {
    let height = Some(chains.height("eth"));
    let is_followed = async || service.followed("eth").await == height;
    until_within(2 * TIMEOUT, "the chain is followed", is_followed).await;
}

// Shows (Reliability): A backup and a restore by the documented commands restore accounts, keys, usage, invoices and
// webhooks on both databases; usage that was only in the journal is restored once, and no delivery is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_commands_restore_exactly_what_they_backed_up() {
    let [back_up, restore] = documented();
    let chains = Chains::start(&["eth"]);
    let receiver = WebhookReceiver::start().await;
    let (url, variables) = database();
    let shell = Shell::new(variables);
    // All ten deliveries of a window may be under way at once.
    let setup =
        chains.setup().set("webhooks", "per_endpoint = 16").set("plans.premium", "price_per_cu = 0.0123");
    let clock = Arc::new(AheadClock { system: SystemClock::new(), by: AtomicU64::new(0) });
    let service = TestService::start_on(url.clone(), setup.clone(), clock.clone()).await;
    let gateway = service.gateway().await;
    let mut owner = service.owner(EMAIL).await;
    let operator = service.operator().await;
    let tenant = owner.tenant().await;
    operator.put(&format!("/operator/tenants/{tenant}"), &json!({ "tier": "premium" })).await;
    let project = owner.project("wallet").await;
    let (_, key) = owner.key(&project).await;
    let (revoked_id, revoked) = owner.key(&project).await;
    let client = TestClient::new(gateway.addr(), Some(&key));
    let is_served = async || client.call("eth", "eth_chainId", "[]").await.status == 200;
    until_within(TIMEOUT, "the key works", is_served).await;
    calls(&client, 9).await;
    let bill = format!("/tenants/{tenant}/billing");
    let is_charged = async || owner.shown(&bill).await["lines"][0]["compute_units"] == 45;
    until_within(TIMEOUT, "the calls are charged", is_charged).await;

    // A month later there is an invoice; then come the webhook, the revoked key and the usage of a new day.
    clock.by.fetch_add(A_MONTH.as_micros() as u64, Relaxed);
    service.bill().await;
    owner.log_in_again().await;
    owner.delete(&format!("/keys/{revoked_id}")).await;
    let (webhook, _) = endpoint(
        &owner,
        &project,
        &receiver.url("/"),
        &[json!({ "chain": "eth", "event_type": "new_block" })],
    )
    .await;
    let service = service.with_webhooks();
    followed(&service, &chains).await;
    let from = chains.height("eth") + 1;
    chains.clock.advance(WINDOW);
    followed(&service, &chains).await;
    all_delivered(&owner, &[&webhook]).await;
    calls(&client, 7).await;
    let tenant = Tenant { owner, project, webhook };
    tenant.recorded(7).await;

    // Deliveries and calls continue during the backup.
    let delivered = ids(&receiver.received());
    receiver.hold();
    chains.clock.advance(WINDOW);
    followed(&service, &chains).await;
    let is_under_way = async || !receiver.open().is_empty();
    until_within(TIMEOUT, "a delivery is under way", is_under_way).await;
    let before = tenant.seen().await;
    let waiting = deliveries(&tenant.owner, &tenant.webhook, "pending").await;
    let pending: BTreeSet<_> =
        waiting.iter().map(|delivery| delivery["id"].as_str().unwrap().to_owned()).collect();
    assert!(!pending.is_empty() && pending.is_disjoint(&delivered), "{pending:?}");
    let folder = service.folder().to_owned();
    let (journals, databases) = back_up.split_last().unwrap();
    for line in databases {
        shell.run(&folder, line).await;
    }
    // The backup has these calls only in the journal.
    calls(&client, 5).await;
    shell.run(&folder, journals).await;

    // Everything after the backup is lost.
    receiver.answer(204);
    chains.clock.advance(WINDOW);
    followed(&service, &chains).await;
    all_delivered(&tenant.owner, &[&tenant.webhook]).await;
    let (_, late) = tenant.owner.key(&tenant.project).await;
    let late_client = TestClient::new(gateway.addr(), Some(&late));
    let is_served = async || late_client.call("eth", "eth_chainId", "[]").await.status == 200;
    until_within(TIMEOUT, "the late key works", is_served).await;
    tenant.recorded(13).await;
    gateway.drain().await;
    drop(gateway);
    let folder = service.stop().await;
    let before_loss = receiver.count();
    // The claims of the lost programs have expired.
    clock.by.fetch_add(60_000_000, Relaxed);
    for line in &restore {
        shell.run(folder.path(), line).await;
    }

    let service = TestService::start_in(folder, url, setup, clock).await;
    let gateway = service.gateway().await;
    let mut tenant = Tenant { owner: tenant.owner.moved(service.addr()), ..tenant };
    tenant.owner.log_in(EMAIL).await;
    // 7 from the database and 5 from the journal, each once.
    tenant.recorded(12).await;
    let mut after = tenant.seen().await;
    assert_eq!(after.usage, [json!(60), json!(12)]);
    after.usage = before.usage.clone();
    assert_eq!(after, before);
    assert!(after.invoices.as_array().is_some_and(|invoices| !invoices.is_empty()), "{:?}", after.invoices);
    assert_eq!(before.usage, [json!(35), json!(7)]);
    let client = |key: &str| TestClient::new(gateway.addr(), Some(key));
    calls(&client(&key), 1).await;
    tenant.recorded(13).await;
    for refused in [&revoked, &late] {
        assert_eq!(client(refused).call("eth", "eth_chainId", "[]").await.status, 401);
    }

    // Pending deliveries are made under their identifiers, and no block is left out.
    let service = service.with_webhooks();
    followed(&service, &chains).await;
    all_delivered(&tenant.owner, &[&tenant.webhook]).await;
    let received = receiver.received();
    let (early, again) = received.split_at(before_loss);
    assert!(ids(again).is_superset(&pending), "those that waited come again");
    assert!(ids(again).is_disjoint(&delivered), "those that were marked do not");
    let known: Vec<_> = early.iter().filter(|delivery| delivered.contains(delivery.id())).cloned().collect();
    let told: BTreeSet<_> = heights(&known).union(&heights(again)).copied().collect();
    assert_eq!(told, (from..=chains.height("eth")).collect(), "every block is told of");
    gateway.drain().await;
    service.stop().await;
}
