//! A gateway that runs: started, reloaded, drained.

use crate::access::AccessLog;
use crate::assemble::{self, FileDirectory, Seams};
use crate::listen::Hall;
use crate::listen::http::{Bounds, Listener};
use crate::listen::tls::{self, BadCertificate};
use crate::live::Live;
use crate::nodes;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::config::Config;
use rpcgate_core::seam::directory::Directory;
use rpcgate_core::seam::ledger::{Ledger, MemoryLedger};
use rpcgate_layers::stack::road;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

/// How often counters forget callers that are gone.
const SWEEP: Duration = Duration::from_secs(30);

/// What a gateway is started with beside its configuration.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where records go; if absent, the newest 100,000 are kept in memory, and the log says so.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// Who may call; if absent, the keys of the configuration, which a reload replaces.
    pub directory: Option<Arc<dyn Directory>>,
    /// Client connections that may be open at a time; one more is answered 503 and closed.
    pub connections: usize,
}

impl Default for StartOptions {
    /// The machine's clock, memory and the configuration's keys; 32,768 connections.
    fn default() -> Self {
        StartOptions { clock: Arc::new(SystemClock::new()), ledger: None, directory: None, connections: 32_768 }
    }
}

/// Why a gateway did not start, or did not take a new configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("gateway.listen: {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    /// A node cannot be used.
    #[error("chains.{chain}.nodes: {why}")]
    Node {
        /// The chain's path.
        chain: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl StartError {
    /// Whether the configuration must be mended, rather than the machine.
    pub const fn is_configuration(&self) -> bool {
        !matches!(self, StartError::Listen { .. })
    }
}

/// Looks at what a configuration refers to, as a start would, without starting anything.
///
/// # Errors
/// [`StartError`] with the first thing that a start would stumble over.
pub fn dry_run(config: &Config) -> Result<(), StartError> {
    if let Some(pair) = config.gateway.tls.pair() {
        tls::config(pair)?;
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    for adapter in rpcgate_chains::catalog() {
        let name = adapter.facts().name;
        if let Some(chain) = config.chains.get(name.as_str()) {
            nodes::pool(name, chain, &clock).map_err(|why| StartError::Node { chain: name.as_str(), why })?;
        }
    }
    Ok(())
}

/// How a drain ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drained {
    /// Connections that were cut when the grace was over.
    pub cut: usize,
}

/// A gateway that serves. Dropped without [`drain`](Gateway::drain), it ends at once, calls in flight included.
pub struct Gateway {
    addr: SocketAddr,
    live: Arc<Live>,
    hall: Arc<Hall>,
    accepting: AbortHandle,
    sweeping: AbortHandle,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Starts a gateway: when this returns, it accepts connections.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub async fn start(config: Config, options: StartOptions) -> Result<Gateway, StartError> {
        let StartOptions { clock, ledger, directory, connections } = options;
        let keys = directory.is_none().then(|| Arc::new(FileDirectory::new(&config)));
        let directory: Option<Arc<dyn Directory>> =
            directory.or_else(|| keys.clone().map(|keys| keys as Arc<dyn Directory>));
        let directory = directory.unwrap_or_else(|| Arc::new(FileDirectory::new(&config)));
        let ledger = ledger.unwrap_or_else(|| {
            tracing::warn!("usage is kept in memory only: it is lost when this process ends");
            Arc::new(MemoryLedger::default())
        });
        let ledger: Arc<dyn Ledger> = Arc::new(AccessLog::new(ledger));
        for setting in without_effect(&config) {
            tracing::warn!(setting, "this setting has no effect in this version");
        }
        let listen = config.gateway.listen;
        let bounds = Bounds::new(&config.gateway.limits, connections);
        let listener = Listener::bind(listen).map_err(|source| StartError::Listen { addr: listen, source })?;
        let addr = listener.addr();
        let live = Arc::new(Live::new(config.clone(), clock.clone(), keys)?);
        let seams = Seams { clock, ledger: ledger.clone(), directory };
        let (parts, swept) = assemble::parts(&config, seams, live.chains.clone(), live.pools.clone());
        let hall = Hall::new(ledger);
        let accepting = tokio::spawn(listener.serve(road(parts), bounds, live.certificate.clone(), hall.clone()));
        let sweeping = tokio::spawn(async move {
            let mut tick = tokio::time::interval(SWEEP);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                swept.sweep();
            }
        });
        let served: Vec<&str> =
            live.chains.load().iter().filter(|chain| chain.is_served()).map(|chain| chain.name().as_str()).collect();
        tracing::info!(%addr, tls = live.certificate.is_some(), chains = %served.join(","), "serving");
        Ok(Gateway {
            addr,
            live,
            hall,
            accepting: accepting.abort_handle(),
            sweeping: sweeping.abort_handle(),
        })
    }

    /// Where it listens: with the port that was picked, where 0 was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        let scheme = if self.live.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// Whether it wants requests: what `/readyz` says.
    pub fn ready(&self) -> bool {
        self.hall.unready().is_none()
    }

    /// Client connections that are open.
    pub fn connections(&self) -> usize {
        self.hall.open()
    }

    /// Puts another configuration in force for chains, their nodes, plans, keys, the certificate and the grace. Gives
    /// back the tables that differ but need a restart. Nothing that goes on is disturbed: no connection is dropped, and
    /// pools and heads of chains whose nodes stay the same are kept.
    ///
    /// # Errors
    /// [`StartError`]; then all is as it was before.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>, StartError> {
        self.live.replace(config)
    }

    /// Ends it with good manners: readiness is gone, nothing is accepted any more, connections without a call are
    /// closed, calls in flight are finished; what is not done after `shutdown.grace` is cut.
    pub async fn drain(&self) -> Drained {
        self.hall.close();
        self.accepting.abort();
        let cut = self.hall.wait(self.live.grace()).await;
        self.stop();
        Drained { cut }
    }

    fn stop(&self) {
        self.accepting.abort();
        self.sweeping.abort();
        self.live.stop();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
        self.hall.close();
        self.hall.cut();
    }
}

/// Settings that somebody gave and that this version does not act on.
fn without_effect(config: &Config) -> Vec<&'static str> {
    let nodes = || config.chains.values().flat_map(|chain| &chain.nodes);
    let settings = [
        ("gateway.grpc_listen", config.gateway.grpc_listen.is_some()),
        ("redis.url", config.redis.url.is_some()),
        ("telemetry.listen", config.telemetry.listen.is_some()),
        ("telemetry.otlp_url", config.telemetry.otlp_url.is_some()),
        ("chains.*.nodes.ws", nodes().any(|node| node.ws.is_some())),
        ("chains.*.nodes.grpc", nodes().any(|node| node.grpc.is_some())),
        ("chains.*.nodes.priority", nodes().any(|node| node.priority != 0)),
    ];
    settings.into_iter().filter(|(_, given)| *given).map(|(setting, _)| setting).collect()
}
