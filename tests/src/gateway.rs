//! A gateway whose clock, sink and configuration the test controls.

#![expect(clippy::unwrap_used, reason = "a gateway of the tests that cannot start fails its test")]

use crate::client::TestClient;
use rpcgate_config::{Config, Input};
use rpcgate_core::backend::directory::Directory;
use rpcgate_core::backend::usage_sink::{MemoryUsageSink, OwnedLine, OwnedRecord};
use rpcgate_core::clock::{Clock, ManualClock, SystemClock, Time};
use rpcgate_server::StartOptions;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The time at which every gateway of the tests starts: 2027-01-15T08:30:15Z. 45 s are left of the minute, 1,785 s of
/// the hour and 55,785 s of the day.
pub const START: Time = Time::from_secs(1_800_001_815);

/// The configuration of a gateway: the tables of its file. By default it has the plan enterprise and one key called
/// `default`.
#[derive(Clone, Debug)]
pub struct Setup {
    tables: BTreeMap<String, Vec<String>>,
    nodes: BTreeMap<String, Vec<String>>,
    plan: String,
    options: StartOptions,
    is_in_real_time: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// Creates a configuration without a node.
    pub fn new() -> Self {
        let setup = Setup {
            tables: BTreeMap::new(),
            nodes: BTreeMap::new(),
            plan: "enterprise".into(),
            options: StartOptions::default(),
            is_in_real_time: false,
        };
        setup.set("gateway", "listen = \"127.0.0.1:0\"").key("default", "")
    }

    /// Creates a configuration for `chain` with one node at `url`.
    pub fn of(chain: &str, url: &str) -> Self {
        Setup::new().node(chain, url)
    }

    /// Adds a line to a table.
    #[must_use]
    pub fn set(mut self, table: &str, line: &str) -> Self {
        self.tables.entry(table.into()).or_default().push(line.into());
        self
    }

    /// Adds a node of `chain`. Nodes are probed at start-up and then once a day, unless the test sets another interval.
    #[must_use]
    pub fn node(mut self, chain: &str, url: &str) -> Self {
        self.nodes.entry(chain.into()).or_default().push(format!("{{ url = \"{url}\" }}"));
        self
    }

    /// Adds a node of `chain` with these settings in addition to its URL.
    #[must_use]
    pub fn node_with(mut self, chain: &str, url: &str, settings: &str) -> Self {
        self.nodes.entry(chain.into()).or_default().push(format!("{{ url = \"{url}\", {settings} }}"));
        self
    }

    /// Sets the plan.
    #[must_use]
    pub fn plan(mut self, tier: &str) -> Self {
        self.plan = tier.into();
        self
    }

    /// Adds a key with one line of settings.
    #[must_use]
    pub fn key(self, name: &str, line: &str) -> Self {
        let table = format!("keys.{name}");
        self.set(&table, &format!("key = \"{}\"", key(name))).set(&table, line)
    }

    /// Sets the maximum number of open client connections.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.options.connections = connections;
        self
    }

    /// Makes real time pass: the gateway uses the system's clock, and [`TestGateway::clock`] has no effect.
    #[must_use]
    pub fn in_real_time(mut self) -> Self {
        self.is_in_real_time = true;
        self
    }

    /// Uses this directory instead of the keys of the configuration.
    #[must_use]
    pub fn directory(mut self, directory: Arc<dyn Directory>) -> Self {
        self.options.directory = Some(directory);
        self
    }

    /// Returns the text of the configuration file.
    pub fn text(&self) -> String {
        let mut tables = self.tables.clone();
        tables.entry("tenants.default".into()).or_default().push(format!("plan = \"{}\"", self.plan));
        for (chain, nodes) in &self.nodes {
            let table = tables.entry(format!("chains.{chain}")).or_default();
            table.push(format!("nodes = [{}]", nodes.join(", ")));
            if !table.iter().any(|line| line.starts_with("probe_interval")) {
                table.push("probe_interval = \"1d\"".into());
            }
        }
        let mut text = String::new();
        for (table, lines) in tables {
            text += &format!("[{table}]\n{}\n", lines.join("\n"));
        }
        text
    }

    /// Returns the parsed configuration.
    ///
    /// # Panics
    /// When it contains a mistake.
    pub fn config(&self) -> Config {
        let text = self.text();
        let facts: Vec<_> = rpcgate_chains::catalog().map(|adapter| *adapter.facts()).collect();
        let chains: Vec<_> = facts.iter().map(|facts| facts.name.as_str()).collect();
        let aliases: Vec<_> = facts
            .iter()
            .flat_map(|facts| facts.aliases.iter().map(|alias| (*alias, facts.name.as_str())))
            .collect();
        let input = Input {
            chains: &chains,
            aliases: &aliases,
            file: Some(("test.toml", &text)),
            ..Input::default()
        };
        match Config::read(&input) {
            Ok(config) => config,
            Err(errors) => panic!("{errors}\n{text}"),
        }
    }

    /// Starts a gateway.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(&self) -> TestGateway {
        let clock = Arc::new(ManualClock::at(START));
        let sink = Arc::new(MemoryUsageSink::default());
        let passing: Arc<dyn Clock> =
            if self.is_in_real_time { Arc::new(SystemClock::new()) } else { clock.clone() };
        let options = StartOptions { clock: passing, sink: Some(sink.clone()), ..self.options.clone() };
        let server = rpcgate_server::Gateway::start(self.config(), options).await.unwrap();
        TestGateway { server, clock, sink }
    }
}

/// Returns the text of the key called `name`, in the form of a real one.
pub fn key(name: &str) -> String {
    format!("rpcg_{name:x<45}")
}

/// A gateway that runs until it is dropped.
#[derive(Debug)]
pub struct TestGateway {
    /// The gateway.
    pub server: rpcgate_server::Gateway,
    /// The gateway's clock.
    pub clock: Arc<ManualClock>,
    /// The sink of the usage records.
    pub sink: Arc<MemoryUsageSink>,
}

impl TestGateway {
    /// Returns the address at which the gateway listens.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Returns a client with the key called `default`.
    pub fn client(&self) -> TestClient {
        self.client_of("default")
    }

    /// Returns a client with the key of that name.
    pub fn client_of(&self, name: &str) -> TestClient {
        TestClient::new(self.addr(), Some(&key(name)))
    }

    /// Returns a client without a key.
    pub fn anonymous(&self) -> TestClient {
        TestClient::new(self.addr(), None)
    }

    /// Advances the clock.
    pub fn pass(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
    }

    /// Returns the records of all requests so far.
    pub fn records(&self) -> Vec<OwnedRecord> {
        self.sink.records()
    }

    /// Returns the calls recorded so far.
    pub fn lines(&self) -> Vec<OwnedLine> {
        self.records().into_iter().flat_map(|record| record.lines).collect()
    }

    /// Returns the Compute Units charged so far.
    pub fn charged(&self) -> u64 {
        self.lines().iter().map(|line| u64::from(line.cu)).sum()
    }
}
