//! SIGHUP under load: the gateway is a separate process with its own files.

use crate::*;
use rpcgate_tests::load::{Load, Nodes, TestSeed};
use rpcgate_tests::process::{Process, Site};
use rpcgate_tests::stored_usage::StoredUsage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokio::task::JoinHandle;

const WEIGHTS: [u32; 2] = [5, 7];

/// Returns the configuration of a round: two alternate, and differ in many live settings.
fn setup(nodes: &Nodes, round: usize) -> Setup {
    let setup = nodes
        .setup()
        .set("telemetry", "listen = \"127.0.0.1:0\"")
        .set("chains.bsc", &format!("cu = {{ weighed = {} }}", WEIGHTS[round % 2]));
    if round.is_multiple_of(2) {
        return setup;
    }
    setup
        .key("other", "")
        .node("btc", &nodes.utxo.url())
        .set("chains.eth", "timeout = \"29s\"")
        .set("plans.free", "per_minute = 11")
        .set("safeguard", "refusals = 77")
        .set("shutdown", "grace = \"29s\"")
}

/// Calls one method repeatedly. Returns the charge of each answer.
fn weigh(process: &Process, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<u64>> {
    let client = process.client();
    let stop = stop.clone();
    tokio::spawn(async move {
        let mut charged = Vec::new();
        while !stop.load(Relaxed) {
            let reply = client.call("bsc", "weighed", "[]").await;
            assert_eq!(
                (reply.status, reply.json()["result"].as_str()),
                (200, Some("ok")),
                "{}",
                reply.text()
            );
            charged.push(reply.cu());
        }
        charged
    })
}

async fn page(process: &Process) -> String {
    let report = process.log().lines("metrics at /metrics");
    let addr = report[0]["addr"].as_str().unwrap().parse().unwrap();
    TestClient::new(addr, None).send("GET", "/metrics", &[], b"").await.text()
}

fn says(page: &str, series: &str) -> bool {
    page.lines().any(|line| line == series)
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_reloads_under_load_fail_no_call_and_charge_by_the_weights_at_arrival() {
    let seed = TestSeed::new();
    let nodes = Nodes::start().await;
    let numbers = Arc::<AtomicU64>::default();
    let mut site = Site::new(setup(&nodes, 0));
    let process = site.start().await;
    let load = Load::start(process.addr(), 6, &seed, &numbers);
    let stop = Arc::<AtomicBool>::default();
    let weighing: Vec<_> = (0..2).map(|_| weigh(&process, &stop)).collect();
    let client = process.client();
    let mut own = 0;
    for round in 1..=20 {
        let before = load.answered();
        until("calls go on", || load.answered() > before + 10).await;
        site.change(setup(&nodes, round));
        site.write();
        process.hang_up();
        until("it is in force", || process.log().lines("configuration reloaded").len() == round).await;
        let weight = u64::from(WEIGHTS[round % 2]);
        assert_eq!(client.call("bsc", "weighed", "[]").await.cu(), weight, "round {round}");
        own += weight;
    }
    assert!(process.log().lines("need a restart").is_empty(), "{}", process.log().text());
    let before = load.answered();
    until("calls go on", || load.answered() > before + 10).await;
    stop.store(true, Relaxed);
    let mut weighed = Vec::new();
    for task in weighing {
        weighed.extend(task.await.unwrap());
    }
    let report = load.end().await;
    assert!(report.unanswered.is_empty(), "{:?}", report.unanswered);
    assert!(weighed.iter().all(|cu| WEIGHTS.map(u64::from).contains(cu)), "{weighed:?}");
    assert!(WEIGHTS.iter().all(|weight| weighed.contains(&u64::from(*weight))), "both were in force");
    let page = page(&process).await;
    for series in [
        "rpcgate_config_reloads_total{result=\"done\"} 20".to_owned(),
        format!(
            "rpcgate_calls_total{{chain=\"bsc\",method=\"weighed\",outcome=\"answered\"}} {}",
            weighed.len() + 20
        ),
    ] {
        assert!(says(&page, &series), "{series}\n{page}");
    }
    let stored = StoredUsage::open(&site).await;
    let (status, log) = process.stop().await;
    assert!(status.success(), "{}", log.text());
    let events = stored.events().await;
    let lines = || events.iter().flat_map(|event| &event.lines);
    assert!(lines().filter(|line| line.method == "weighed").all(|line| WEIGHTS.contains(&line.cu)));
    let charged: u64 = lines().map(|line| u64::from(line.cu)).sum();
    let expected = report.answered.iter().map(|(_, wanted)| wanted.cu()).sum::<u64>();
    assert_eq!(charged, expected + weighed.iter().sum::<u64>() + own, "every reported charge is stored");
}

// Shows (Commands and configuration): SIGHUP reads the file again; an invalid file leaves the old one in force, and the
// log has the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_a_mistake_is_refused_and_logged_and_the_old_one_stays_in_force() {
    let nodes = Nodes::start().await;
    let mut site = Site::new(setup(&nodes, 0));
    let process = site.start().await;
    let stop = Arc::<AtomicBool>::default();
    let weighing = weigh(&process, &stop);
    site.change(setup(&nodes, 1).set("chains.bsc", "no_such_key = 1"));
    site.write();
    process.hang_up();
    until("the mistake is logged", || !process.log().lines("configuration not reloaded").is_empty()).await;
    let report = process.log().lines("configuration not reloaded");
    let message = report[0]["message"].as_str().unwrap();
    assert!(
        message.contains("rpcgate.toml:") && message.contains("unknown key chains.bsc.no_such_key"),
        "{message}"
    );
    assert!(process.log().lines("configuration reloaded").is_empty());
    assert_eq!(process.client().call("bsc", "weighed", "[]").await.cu(), u64::from(WEIGHTS[0]));
    assert!(says(&page(&process).await, "rpcgate_config_reloads_total{result=\"refused\"} 1"));
    site.change(setup(&nodes, 1));
    site.write();
    process.hang_up();
    until("it is in force", || !process.log().lines("configuration reloaded").is_empty()).await;
    assert_eq!(process.client().call("bsc", "weighed", "[]").await.cu(), u64::from(WEIGHTS[1]));
    stop.store(true, Relaxed);
    assert!(weighing.await.unwrap().iter().all(|cu| WEIGHTS.map(u64::from).contains(cu)));
}
