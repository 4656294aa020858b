//! The demo as a process, which receives signals and can be killed.
//!
//! No path to the binary is valid in every build, so the test binary is its own demo.

use super::*;
use crate::cli::{ServerCli, ServerCommand};
use clap::Parser;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::usage::{Metrics, Period, UsageAsk, UsageWindow};
use rpcgate_store::{UsageStore, url_of};
use std::io::{Read, stdin};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The name of the test that is the demo.
const SERVE: &str = "demo::tests::process::serve_where_a_process_was_started_for_it";
/// The variable with the command line options. Its name does not begin like the demo's own variables.
const OPTIONS: &str = "TEST_DEMO_OPTIONS";
/// A folder of its own for the demo, so that the working directory is another.
const DIR: &str = "here/d";

#[test]
fn serve_where_a_process_was_started_for_it() {
    let Ok(options) = std::env::var(OPTIONS) else { return };
    std::thread::spawn(|| {
        // It ends with its parent, even if that is killed and cannot end it.
        let _ = stdin().lock().read_to_end(&mut Vec::new());
        std::process::abort();
    });
    let words = ["rpcgate-server", "demo"].into_iter().chain(options.split(' '));
    let ServerCommand::Demo(args) = ServerCli::try_parse_from(words).unwrap().command else {
        panic!("{options}")
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(crate::command::demo::execute(args.into())).unwrap();
}

struct Process {
    child: Child,
    dir: PathBuf,
}

impl Process {
    fn spawn(home: &Path) -> Process {
        Process::spawn_with(home, "", Stdio::inherit())
    }

    /// Starts a demo with more options, whose standard error goes to `reported`.
    fn spawn_with(home: &Path, more: &str, reported: Stdio) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([SERVE, "--exact", "--nocapture", "--test-threads=1"]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RPCGATE_") {
                command.env_remove(name);
            }
        }
        command
            .env(
                OPTIONS,
                format!("--dir {DIR} --gateway 127.0.0.1:0 --admin 127.0.0.1:0 --grpc 127.0.0.1:0{more}"),
            )
            .current_dir(home);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(reported);
        Process { child: command.spawn().unwrap(), dir: home.join(DIR) }
    }

    /// Starts a demo. Returns it with its `demo.json` once it is ready.
    async fn start(home: &Path) -> (Process, Value) {
        let mut process = Process::spawn(home);
        let mut sheet = Value::Null;
        until("it is ready", async || {
            assert_eq!(process.child.try_wait().unwrap(), None, "it did not start");
            let text = std::fs::read_to_string(process.dir.join(FILE)).unwrap_or_default();
            sheet = serde_json::from_str(&text).unwrap_or_default();
            sheet["pid"] == process.child.id()
        })
        .await;
        (process, sheet)
    }

    /// Sends SIGTERM and waits for the end. Returns whether it ended with success.
    async fn stop(mut self) -> bool {
        // The shell's own `kill`: a program of that name is not on every machine.
        let reported =
            Command::new("sh").args(["-c", "kill -TERM $0", &self.child.id().to_string()]).status();
        assert!(reported.unwrap().success());
        let mut ended = None;
        until("it ends", async || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        })
        .await;
        ended.unwrap().success()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn totals(home: &Path, sheet: &Value) -> Metrics {
    let usage = UsageStore::open(&url_of(&home.join(DIR).join("rpcgate.db")), false).await.unwrap();
    let tenant = sheet["tenant_id"].as_str().unwrap().parse().unwrap();
    let window = UsageWindow::of(Period::Week, SystemClock::new().now());
    let totals = usage.usage(&UsageAsk::new(tenant, window)).await.unwrap().totals;
    usage.close().await;
    totals
}

/// Makes concurrent calls. Returns the remaining requests of the day's window.
async fn calls(sheet: &Value, count: usize) -> u64 {
    let url = format!("{}/eth", sheet["gateway"].as_str().unwrap());
    let key = ("apikey".to_owned(), sheet["api_key"].as_str().unwrap().to_owned());
    let calls = (0..count).map(|_| {
        let url = url.clone();
        let key = key.clone();
        tokio::spawn(async move { post(&url, &[key], &call("eth_gasPrice", &json!([])).to_string()).await })
    });
    let mut left = u64::MAX;
    for call in calls.collect::<Vec<_>>() {
        let answer = call.await.unwrap();
        assert!(answer.body()["result"].is_string(), "{answer:?}");
        let day = answer.headers()["x-ratelimit-remaining-day"].to_str().unwrap();
        left = left.min(day.parse().unwrap());
    }
    left
}

// Shows (Commands and configuration).
#[tokio::test]
async fn sigterm_ships_everything_and_a_kill_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let began = SystemClock::new().now().day();
    let (process, first) = Process::start(home.path()).await;
    assert_eq!(calls(&first, 30).await, 1_000_000 - 30);
    assert!(process.stop().await);
    let shipped = totals(home.path(), &first).await;
    assert_eq!((shipped.requests, shipped.errors), (30, 0));

    let (process, second) = Process::start(home.path()).await;
    for name in ["api_key", "tenant_id", "project_id", "key_id"] {
        assert_eq!(second[name], first[name], "{name}");
    }
    let left = calls(&second, 10).await;
    process.kill();
    let (process, third) = Process::start(home.path()).await;
    assert_eq!(totals(home.path(), &first).await.requests, 40, "ready means: all is shipped");
    let left = [left, calls(&third, 1).await];
    if SystemClock::new().now().day() == began {
        assert_eq!(left, [1_000_000 - 40, 1_000_000 - 41]);
    }
    assert!(process.stop().await);
    let shipped = totals(home.path(), &first).await;
    assert_eq!(shipped.requests, 41);
    assert_eq!(shipped.billable_units % 41, 0, "{shipped:?}");
    let here = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(here.collect::<Vec<_>>(), ["here"], "everything is in its folder");
}

// Shows (Commands and configuration): A demo shows progress at start-up, and names a real node that does not answer.
#[tokio::test]
async fn the_terminal_shows_the_start_and_the_chosen_nodes_that_do_not_answer() {
    let home = tempfile::tempdir().unwrap();
    let reported = home.path().join("stderr");
    // It does not listen, and nothing else gets its port.
    let mute = tokio::net::TcpSocket::new_v4().unwrap();
    mute.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = mute.local_addr().unwrap();
    let more = format!(" --node eth=http://u:secret@{gone}");
    let mut process =
        Process::spawn_with(home.path(), &more, std::fs::File::create(&reported).unwrap().into());
    let text = || std::fs::read_to_string(&reported).unwrap();
    until("it says that its node is gone", async || {
        assert_eq!(process.child.try_wait().unwrap(), None, "it did not start: {}", text());
        text().contains("Calls fail until it does.")
    })
    .await;
    let text = text();
    assert!(text.contains(&format!("Starting the demo in {DIR}.")), "{text}");
    assert!(text.contains("/eth: the node http://") && text.contains(&gone.to_string()), "{text}");
    assert!(!text.contains("secret") && !text.contains("/bsc:"), "{text}");
    assert!(process.stop().await);
}

#[tokio::test]
async fn sigterm_ends_a_demo_that_waits_for_its_database() {
    let home = tempfile::tempdir().unwrap();
    let usage = home.path().join(DIR).join("rpcgate-usage.db");
    std::fs::create_dir_all(&usage).unwrap();
    let mut process = Process::spawn(home.path());
    until("it waits", async || {
        assert_eq!(process.child.try_wait().unwrap(), None, "it did not start");
        process.dir.join("journal/gateway").exists()
    })
    .await;
    assert!(!process.dir.join(FILE).exists());
    assert!(process.stop().await);
    assert!(!home.path().join(DIR).join(FILE).exists());
    std::fs::remove_dir(&usage).unwrap();
    let (process, sheet) = Process::start(home.path()).await;
    assert_eq!(calls(&sheet, 1).await, 1_000_000 - 1);
    assert!(process.stop().await);
}
