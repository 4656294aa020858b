use crate::*;
use rpcgate_core::caller::RequestId;
use rpcgate_tests::client::{TestClient, TestReply};
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::node::Node;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A disk that can be filled and emptied while a gateway writes to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Disk {
    /// The journal's folder is a file system of one MiB. This needs the permission to mount.
    Small,
    /// No file of the gateway may grow, including those of its databases. This works on any machine.
    Forbidden,
}

impl Disk {
    /// Returns the kinds that are possible on this machine.
    fn all() -> Vec<Disk> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("unshare");
        mount.args(["-rm", "sh", "-c", "mount -t tmpfs -o size=1m none \"$0\""]).arg(dir.path());
        let mounts = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        [Disk::Small, Disk::Forbidden].into_iter().filter(|disk| mounts || *disk == Disk::Forbidden).collect()
    }

    async fn start(self, setup: Setup) -> (Site, Process) {
        let site = Site::new(setup);
        fs::create_dir_all(site.journal()).unwrap();
        let journal = site.journal();
        let mount = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$@\"";
        let site = match self {
            Disk::Small => site.through(&["unshare", "-rm", "sh", "-c", mount, journal.to_str().unwrap()]),
            // A process that writes too much is killed, unless it ignores the signal.
            Disk::Forbidden => site.through(&["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"]),
        };
        let process = site.start().await;
        (site, process)
    }

    fn fill(self, site: &Site, process: &Process) {
        match self {
            Disk::Small => {
                let mut filler =
                    OpenOptions::new().append(true).create(true).open(filler(site, process)).unwrap();
                for size in [4096, 1] {
                    while filler.write_all(&vec![0; size]).is_ok() {}
                }
            }
            Disk::Forbidden => limit(process, "0:unlimited"),
        }
    }

    fn empty(self, site: &Site, process: &Process) {
        match self {
            Disk::Small => fs::remove_file(filler(site, process)).unwrap(),
            Disk::Forbidden => limit(process, "unlimited:unlimited"),
        }
    }
}

/// Returns a file in the journal's folder that is not part of the journal.
fn filler(site: &Site, process: &Process) -> PathBuf {
    let inside = site.journal().join("filler");
    PathBuf::from(format!("/proc/{}/root", process.id())).join(inside.strip_prefix("/").unwrap())
}

fn limit(process: &Process, size: &str) {
    let id = process.id().to_string();
    let set = Command::new("prlimit").args(["--pid", &id, &format!("--fsize={size}")]).status();
    assert!(set.is_ok_and(|status| status.success()), "prlimit is missing: install util-linux");
}

async fn of(disk: Disk, on_full: &str) -> (Node, Site, Process, TestClient) {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("journal", &format!("on_full = \"{on_full}\""))
        .set("journal", "memory = \"8KiB\"")
        .set("telemetry", "log_filter = \"info,rpcgate_server::state=debug\"")
        .set("plans.enterprise", "per_minute = 1000000\nper_hour = 1000000");
    let (site, process) = disk.start(setup).await;
    let client = process.client();
    (node, site, process, client)
}

async fn calls(client: &TestClient, method: &str, count: usize) {
    for _ in 0..count {
        let reply = client.call("eth", method, "[]").await;
        assert_eq!((reply.status, reply.cu()), (200, 1), "{}", reply.text());
    }
}

/// Returns the day and its remaining requests.
fn day(reply: &TestReply) -> (u64, u64) {
    let id: RequestId = reply.header("x-request-id").unwrap().parse().unwrap();
    (Time::from_millis((id.0 >> 80) as u64).day(), reply.number("x-ratelimit-remaining-day"))
}

async fn logged(process: &Process, words: &str) {
    rpcgate_tests::until(words, || !process.log().lines(words).is_empty()).await;
}

/// Returns the number of stored calls of a method, which cost one Compute Unit each.
async fn kept(stored: &StoredUsage, method: &str) -> u64 {
    let rollups = stored.by_method(now()).await;
    let sum = rollups.get(&("eth".to_owned(), method.to_owned())).copied().unwrap_or_default();
    assert_eq!(sum.requests, sum.billable_units);
    sum.requests
}

/// Waits until this number of calls of a method is visible in the database.
async fn comes_in(stored: &StoredUsage, method: &str, calls: u64) {
    let look = async {
        while kept(stored, method).await != calls {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(rpcgate_tests::TIMEOUT, look).await.is_ok(), "{method} never comes in");
}

#[tokio::test]
async fn usage_that_the_database_rejected_is_stored_once_its_disk_has_space() {
    let disk = Disk::Forbidden;
    let (_node, site, process, client) = of(disk, "serve").await;
    let stored = StoredUsage::open(&site).await;
    let held = DatabaseLock::take(&site.usage_database()).await;
    calls(&client, "before", 20).await;
    disk.fill(&site, &process);
    held.release().await;
    let failures = || process.log().lines("disk I/O error").len();
    rpcgate_tests::until("it fails again and again", || failures() > 1).await;
    disk.empty(&site, &process);
    comes_in(&stored, "before", 20).await;
    calls(&client, "after", 20).await;
    comes_in(&stored, "after", 20).await;
    let (status, log) = process.stop().await;
    assert!(status.success(), "{}", log.text());
    rollups_agree(&stored, &stored.events().await).await;
}

// Shows (Reliability): On a full or stalled disk records are held in memory in order; then calls are served, or refused
// with 503, and every loss is counted.
#[tokio::test]
async fn on_a_full_disk_calls_are_served_and_every_loss_is_logged() {
    for disk in Disk::all() {
        let (_node, site, process, client) = of(disk, "serve").await;
        let stored = StoredUsage::open(&site).await;
        calls(&client, "before", 20).await;
        comes_in(&stored, "before", 20).await;
        disk.fill(&site, &process);
        calls(&client, "during", 600).await;
        assert_eq!(process.health().await, 200);
        disk.empty(&site, &process);
        logged(&process, "takes records again").await;
        calls(&client, "after", 20).await;
        let (status, log) = process.stop().await;
        assert!(status.success(), "{}", log.text());
        assert_eq!(log.lines("records go to memory").len(), 1, "{}", log.text());
        let counts =
            (kept(&stored, "before").await, kept(&stored, "during").await, kept(&stored, "after").await);
        let lost = |field| log.sum("usage was lost", field);
        assert!(
            (1..600).contains(&counts.1),
            "some found room in memory, {disk:?}: {counts:?}: {}",
            log.text()
        );
        assert_eq!(counts, (20, 600 - lost("calls"), 20), "{disk:?}: {}", log.text());
        assert_eq!((lost("records"), lost("cu")), (lost("calls"), lost("calls")));
        rollups_agree(&stored, &stored.events().await).await;
    }
}

// Shows (Reliability).
#[tokio::test]
async fn on_a_full_disk_calls_are_refused_if_configured_and_nothing_is_lost() {
    for disk in Disk::all() {
        let (node, site, process, client) = of(disk, "refuse").await;
        let stored = StoredUsage::open(&site).await;
        calls(&client, "before", 20).await;
        comes_in(&stored, "before", 20).await;
        disk.fill(&site, &process);
        let mut served = 0;
        let mut last = None;
        let refused = loop {
            let reply = client.call("eth", "during", "[]").await;
            if reply.status != 200 {
                break reply;
            }
            (served, last) = (served + 1, Some(day(&reply)));
            assert!(served < 1_000, "memory is not without end");
        };
        assert!(served > 10, "memory holds some: {served}");
        let asked = node.requests();
        for reply in
            [refused, client.call("eth", "during", "[]").await, client.batch("eth", &[("m", "[]"); 3]).await]
        {
            assert_eq!(reply.status, 503, "{}", reply.text());
            assert!(reply.number("retry-after") >= 1);
            let (day, left) = day(&reply);
            assert!(last.is_some_and(|last| last == (day, left) || last.0 < day), "it counts in no window");
        }
        assert_eq!(node.requests(), asked);
        assert_eq!(process.health().await, 503);
        disk.empty(&site, &process);
        process.ready().await;
        calls(&client, "after", 1).await;
        let (status, log) = process.stop().await;
        assert!(status.success(), "{}", log.text());
        assert_eq!(log.sum("usage was lost", "cu"), 0, "{}", log.text());
        let events = stored.events().await;
        assert_eq!(charged(&events), 20 + served + 1, "{disk:?}");
        assert_eq!(events.iter().map(|event| u64::from(event.windowed)).sum::<u64>(), 20 + served + 1);
        rollups_agree(&stored, &events).await;
    }
}
