//! Several gateways and their shared servers.

use crate::*;
use rpcgate_core::caller::RequestId;
use rpcgate_store::Store;
use rpcgate_tests::services::postgres::Postgres;
use rpcgate_tests::services::redis::RedisServer;
use rpcgate_tests::stored_key::SECRET;
use rpcgate_tests::stored_usage::StoredUsage;
use std::net::SocketAddr;

pub(crate) const PLENTY: &str =
    "per_minute = 1000000\nper_hour = 2000000\nper_day = 3000000\nheavy_per_minute = 1000000";

const TOGETHER: &str = "counting together";
const ALONE: &str = "counts alone";

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) postgres: Postgres,
    pub(crate) redis: RedisServer,
    pub(crate) store: Store,
    pub(crate) url: String,
    pub(crate) sites: Vec<Site>,
    setup: Setup,
}

impl Cluster {
    /// Creates this number of gateways of `setup` without starting them.
    pub(crate) async fn new(gateways: usize, setup: Setup) -> Self {
        let postgres = Postgres::launch();
        let redis = RedisServer::start();
        let urls = (postgres.database(), redis.url());
        Self::on(postgres, redis, urls, gateways, setup).await
    }

    /// Does the same as [`new`](Self::new), with these servers at these URLs.
    pub(crate) async fn on(
        postgres: Postgres,
        redis: RedisServer,
        (url, redis_url): (String, String),
        gateways: usize,
        setup: Setup,
    ) -> Self {
        let setup = setup
            .set("gateway", &format!("key_secret = \"{SECRET}\""))
            .set("redis", &format!("url = \"{redis_url}\""));
        // This program opens the new database first; several may do so at once.
        let store = Store::open(&url, true).await.unwrap();
        let sites = (0..gateways).map(|_| Site::on(&url, setup.clone())).collect();
        Cluster { postgres, redis, store, url, sites, setup }
    }

    /// Starts all gateways and waits until they are ready and count together.
    pub(crate) async fn start(&self) -> Vec<Process> {
        let mut processes = Vec::new();
        for site in &self.sites {
            processes.push(site.spawn());
        }
        let mut running = Vec::new();
        for process in processes {
            let process = process.listening().await;
            process.ready().await;
            running.push(process);
        }
        for process in &running {
            together(process).await;
        }
        running
    }

    pub(crate) async fn stored_usage(&self) -> StoredUsage {
        StoredUsage::at(&self.url, &self.sites[0]).await
    }

    /// Creates a key of a new tenant on this plan.
    pub(crate) async fn key(&self, tier: Tier) -> TestKey {
        TestKey::new(&self.store, tier).await
    }

    /// Sets the next configuration of one gateway: the common one with this addition.
    pub(crate) fn change(&mut self, site: usize, more: impl FnOnce(Setup) -> Setup) {
        let setup = more(self.setup.clone());
        self.sites[site].change(setup);
        self.sites[site].write();
    }
}

/// Waits until each of these loads has this number of further answers.
pub(crate) async fn go_on(loads: &[Load], answers: u64) {
    let before: Vec<_> = loads.iter().map(Load::answered).collect();
    let counts = || loads.iter().map(Load::answered).zip(&before);
    until("calls go on", || counts().all(|(now, before)| now > before + answers)).await;
}

/// Ends these loads and checks that every request was answered.
pub(crate) async fn all_reports(loads: Vec<Load>) -> LoadReport {
    let mut report = LoadReport::default();
    for load in loads {
        let heard = load.end().await;
        assert!(heard.unanswered.is_empty(), "no call fails");
        report.extend(heard);
    }
    report
}

/// Returns the number of log lines that say that a gateway counts alone.
pub(crate) fn times_alone(process: &Process) -> usize {
    process.log().lines(ALONE).len()
}

/// Reports whether a gateway counts together with the others, according to its log.
pub(crate) fn is_together(process: &Process) -> bool {
    let standings = process.log().lines("redis: ");
    let last = standings.iter().rev().find_map(|line| {
        let message = line["message"].as_str()?;
        [(TOGETHER, true), (ALONE, false)]
            .iter()
            .find_map(|(words, is)| message.contains(words).then_some(*is))
    });
    last == Some(true)
}

pub(crate) async fn together(process: &Process) {
    let look = async {
        while !is_together(process) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "it counts alone:\n{}", process.log().text());
}

/// Waits until the counts of one gateway are visible at the other.
pub(crate) async fn in_step(cluster: &Cluster, addrs: &[SocketAddr]) {
    let key = cluster.key(Tier::Enterprise).await;
    let left = async |at: usize| {
        let reply = key.client(addrs[at]).call("eth", "eth_chainId", "[]").await;
        reply.number("x-ratelimit-remaining-day")
    };
    let look = async {
        loop {
            let report = [left(0).await, left(1).await, left(0).await];
            if report[0] == report[1] + 1 && report[1] == report[2] + 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "they count alone");
}

#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) reply: TestReply,
    pub(crate) arrival: Time,
}

/// Calls `method` with a key, `each` times on each of `callers` connections to each of these addresses, all at once.
pub(crate) async fn rush(
    addrs: &[SocketAddr],
    key: &str,
    callers: usize,
    each: usize,
    (chain, method): (&'static str, &'static str),
) -> Vec<Heard> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut tasks = Vec::new();
    for addr in addrs.iter().flat_map(|addr| std::iter::repeat_n(*addr, callers)) {
        let client = TestClient::new(addr, Some(key));
        tasks.push(tokio::spawn(async move {
            let mut heard = Vec::new();
            for _ in 0..each {
                let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let reply = client.call(chain, method, &format!("[{number}]")).await;
                heard.push(Heard { arrival: arrival(&reply), reply });
            }
            heard
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all
}

fn arrival(reply: &TestReply) -> Time {
    let id: RequestId = reply.header("x-request-id").unwrap().parse().unwrap();
    Time::from_millis((id.0 >> 80) as u64)
}
