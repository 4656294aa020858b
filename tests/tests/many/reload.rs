use crate::cluster::{all_reports, go_on};
use crate::*;
use rpcgate_core::caller::RequestId;
use rpcgate_tests::load::ExpectedRequest;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::task::JoinHandle;

const WEIGHTS: [u64; 2] = [5, 7];

fn weighed(setup: Setup, node: &Node, weight: u64) -> Setup {
    setup.node("avax", &node.url()).set("chains.avax", &format!("cu = {{ weighed = {weight} }}"))
}

/// Calls one method repeatedly. Returns the charge of each answer.
fn weigh(process: &Process, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<(RequestId, ExpectedRequest)>> {
    let client = process.client();
    let stop = stop.clone();
    tokio::spawn(async move {
        let mut charged = Vec::new();
        while !stop.load(Relaxed) {
            let reply = client.call("avax", "weighed", "[]").await;
            assert_eq!((reply.status, reply.code()), (200, 0), "{}", reply.text());
            charged.push(ledger::single(&reply, "avax", "weighed"));
        }
        charged
    })
}

// Shows (Reliability): Reloads of several gateways under load fail no call (promise 25).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn reloads_of_several_gateways_fail_no_call_and_charge_by_the_weights_at_arrival() {
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let mut cluster = Cluster::new(2, nodes.setup()).await;
    for site in 0..2 {
        cluster.change(site, |setup| weighed(setup, &nodes.evm, WEIGHTS[0]));
    }
    let processes = cluster.start().await;
    let loads: Vec<_> =
        processes.iter().map(|process| Load::start(process.addr(), 3, &seed, &numbers)).collect();
    let stop = Arc::<AtomicBool>::default();
    let weighing: Vec<_> = processes.iter().map(|process| weigh(process, &stop)).collect();
    let mut charged = Vec::new();
    for round in 1..=4 {
        go_on(&loads, 50).await;
        // One after the other, as in a roll-out to several machines: their weights differ for a while.
        for (site, process) in processes.iter().enumerate() {
            let mut charge = async |weight| {
                let reply = process.client().call("avax", "weighed", "[]").await;
                assert_eq!(reply.cu(), weight, "round {round}");
                charged.push(ledger::single(&reply, "avax", "weighed"));
            };
            let weight = WEIGHTS[round % 2];
            cluster.change(site, |setup| weighed(setup, &nodes.evm, weight));
            process.hang_up();
            let log = process.log();
            until("it is in force", || log.lines("configuration reloaded").len() == round).await;
            charge(weight).await;
            cluster.change(site, |setup| weighed(setup, &nodes.evm, 1).set("chains.avax", "nonsense = 1"));
            process.hang_up();
            until("it is refused", || log.lines("configuration not reloaded").len() == round).await;
            assert!(log.text().contains("nonsense"), "it says why");
            charge(weight).await;
            cluster.change(site, |setup| weighed(setup, &nodes.evm, weight));
        }
    }
    stop.store(true, Relaxed);
    for weighing in weighing {
        charged.extend(weighing.await.unwrap());
    }
    for weight in WEIGHTS {
        assert!(charged.iter().any(|(_, wanted)| wanted.cu() == weight), "{weight} is never charged");
    }
    let mut report = all_reports(loads).await;
    report.answered.extend(charged);
    // Each call has the charge in its answer.
    ledger::agrees(&cluster.stored_usage().await, &report).await;
    for process in processes {
        let (status, log) = process.stop().await;
        assert!(status.success(), "{}", log.text());
    }
}
