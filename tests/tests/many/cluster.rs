//! Gateways side by side, and what they share.

use crate::*;
use rpcgate_admin::store::{Key, Project, Store, Tenant};
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, Scope, TenantId};
use rpcgate_core::secret::{KeyForge, KeyHash, shown};
use rpcgate_tests::books::Books;
use rpcgate_tests::services::postgres::Postgres;
use rpcgate_tests::services::redis::Redis;
use std::net::SocketAddr;

const SECRET: &str = "what all of them know";

/// Limits that nobody reaches.
pub(crate) const PLENTY: &str =
    "per_minute = 1000000\nper_hour = 2000000\nper_day = 3000000\nheavy_per_minute = 1000000";

/// What a gateway says of how it counts.
const TOGETHER: &str = "counting together";
const ALONE: &str = "counts alone";

/// Some gateways on one PostgreSQL and one Redis.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) postgres: Postgres,
    pub(crate) redis: Redis,
    pub(crate) store: Store,
    pub(crate) url: String,
    pub(crate) sites: Vec<Site>,
}

impl Cluster {
    /// So many gateways of `setup`, none of which runs.
    pub(crate) async fn new(gateways: usize, setup: Setup) -> Self {
        let (postgres, redis) = (Postgres::launch(), Redis::start());
        let url = postgres.database();
        let setup = setup
            .set("gateway", &format!("key_secret = \"{SECRET}\""))
            .set("redis", &format!("url = \"{}\"", redis.url()));
        // Several programs may open a new database at once; the first of them is this one.
        let store = Store::open(&url, true).await.unwrap();
        let sites = (0..gateways).map(|_| Site::on(&url, setup.clone())).collect();
        Cluster { postgres, redis, store, url, sites }
    }

    /// Starts all its gateways, and waits until they want calls and count together.
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

    /// What the gateways have billed.
    pub(crate) async fn books(&self) -> Books {
        Books::at(&self.url, &self.sites[0]).await
    }

    /// A key of a new tenant on this plan.
    pub(crate) async fn key(&self, tier: Tier) -> Held {
        let number = RequestId::new(now()).0;
        let (tenant, project, key) = (TenantId(number), ProjectId(number), KeyId(number));
        let made = Tenant { id: tenant, name: "t".into(), tier, suspended: false, created_at: now() };
        self.store.create_tenant(&made).await.unwrap();
        let made = Project {
            id: project,
            tenant,
            name: "p".into(),
            allowed_methods: Vec::new(),
            blocked_methods: Vec::new(),
            created_at: now(),
        };
        self.store.create_project(&made).await.unwrap();
        let text = KeyForge::new(SECRET.as_bytes()).make().unwrap();
        let made = Key {
            id: key,
            project,
            description: String::new(),
            prefix: shown(&text).into(),
            hash: KeyHash::of(&text),
            scope: Scope::All,
            expires_at: None,
            revoked_at: None,
            created_at: now(),
        };
        self.store.create_key(&made, now()).await.unwrap();
        Held { tenant, project, key, text }
    }
}

/// A key, and whose it is.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) tenant: TenantId,
    pub(crate) project: ProjectId,
    pub(crate) key: KeyId,
    pub(crate) text: String,
}

impl Held {
    /// One who calls with it.
    pub(crate) fn client(&self, process: &Process) -> Client {
        Client::new(process.addr(), Some(&self.text))
    }
}

/// How often a gateway has said that it counts alone.
pub(crate) fn times_alone(process: &Process) -> usize {
    process.log().lines(ALONE).len()
}

/// Waits until a gateway counts together with the others, as far as it has said.
pub(crate) async fn together(process: &Process) {
    let is_together = || {
        let standings = process.log().lines("redis: ");
        standings.iter().rev().find_map(|line| {
            let message = line["message"].as_str()?;
            [(TOGETHER, true), (ALONE, false)]
                .iter()
                .find_map(|(words, is)| message.contains(words).then_some(*is))
        })
    };
    let look = async {
        while is_together() != Some(true) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, look).await.is_ok(), "it counts alone:\n{}", process.log().text());
}

/// An answer, when its request came, and how long it took.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) reply: Reply,
    pub(crate) arrival: Time,
    pub(crate) took: Duration,
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
        let client = Client::new(addr, Some(key));
        tasks.push(tokio::spawn(async move {
            let (clock, mut heard) = (SystemClock::new(), Vec::new());
            for _ in 0..each {
                let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let from = clock.elapsed();
                let reply = client.call(chain, method, &format!("[{number}]")).await;
                let took = clock.elapsed().saturating_sub(from);
                heard.push(Heard { arrival: arrival(&reply), reply, took });
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

/// When a request came, which its id tells.
fn arrival(reply: &Reply) -> Time {
    let id: RequestId = reply.header("x-request-id").unwrap().parse().unwrap();
    Time::from_millis((id.0 >> 80) as u64)
}
