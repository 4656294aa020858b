//! A gateway that runs: started, reloaded, drained.

mod drain;
mod dry_run;
mod options;
mod start;
#[cfg(test)]
pub(crate) mod tests;
mod unused;

pub use drain::Drained;
pub use dry_run::dry_run;
pub use options::StartOptions;

use crate::counting::Counting;
use crate::listen::Connections;
use crate::metrics::Reloads;
use crate::node_spending::SpendingKeeper;
#[cfg(feature = "demo")]
use crate::reload::AdapterAndPool;
use crate::reload::Reloadable;
use crate::start_error::StartError;
use crate::state::State;
use parking_lot::Mutex;
use rpcgate_config::{Config, Overlay};
use rpcgate_layers::redis::Standing;
use rpcgate_layers::websocket::OpenStreams;
use rpcgate_process::traces::TraceExporter;
use rpcgate_store::NodeState;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::{AbortHandle, JoinHandle};

/// A gateway that serves, started by [`start`](Gateway::start). Dropped without [`drain`](Gateway::drain), it ends at
/// once, and calls in flight are cut.
pub struct Gateway {
    addr: SocketAddr,
    grpc_addr: Option<SocketAddr>,
    reloadable: Arc<Reloadable>,
    state: Option<Arc<State>>,
    connections: Arc<Connections>,
    streams: Arc<OpenStreams>,
    counting: Counting,
    accepting: Mutex<Vec<JoinHandle<()>>>,
    sweeping: AbortHandle,
    /// Watches the files of the certificate, if there is one.
    renewing: Option<AbortHandle>,
    /// Keeps what nodes have got.
    spending: SpendingKeeper,
    /// Orders the certificate, if the configuration says so.
    ordering: Option<AbortHandle>,
    metrics: Option<(SocketAddr, AbortHandle)>,
    reloads: Arc<Reloads>,
    /// Sends traces, if there is a collector.
    traces: Mutex<Option<TraceExporter>>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Gateway {
    /// The address it listens at. If the configuration says port 0, this has the port that was picked.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address of the second entry, which serves gRPC; `None` without `gateway.grpc_listen`.
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        self.grpc_addr
    }

    /// The address where Prometheus finds `/metrics`; `None` without `telemetry.listen`.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(addr, _)| *addr)
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        let scheme = if self.reloadable.http_certificate().is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// Whether it is ready for requests, as `/readyz` says.
    pub fn ready(&self) -> bool {
        self.connections.unready().is_none()
    }

    /// Status of the counters in Redis; `None` if they are in the process.
    pub fn counters(&self) -> Option<Standing> {
        self.counting.standing()
    }

    /// Client connections that are open.
    pub fn connections(&self) -> usize {
        self.connections.open()
    }

    /// WebSocket streams that are open. They count as connections until their handshake is answered.
    pub fn streams(&self) -> usize {
        self.streams.count()
    }

    /// Status of the nodes, by chain, in the order of the configuration.
    pub fn nodes(&self) -> Vec<NodeState> {
        self.reloadable.nodes()
    }

    /// The pools whose nodes may belong to any network, with the adapters of their chains.
    #[cfg(feature = "demo")]
    pub(crate) fn pools_of_any_network(&self) -> Vec<AdapterAndPool> {
        self.reloadable.pools_of_any_network()
    }

    /// Applies another configuration to chains, their nodes, plans, keys, the certificate and the drain's grace.
    /// Returns the tables that differ but need a restart. No connection is dropped, and chains whose nodes stay the same
    /// keep their pools and heads.
    ///
    /// # Errors
    /// [`StartError`]; then nothing has changed.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>, StartError> {
        let done = self.reloadable.replace(config);
        self.reloads.count(done.is_ok());
        done
    }

    /// Counts a configuration that could not be read and therefore was not applied.
    pub fn refuse_reload(&self) {
        self.reloads.count(false);
    }

    /// Applies the settings of operators to the configuration, in place of the previous ones. They also apply to the
    /// configuration of every later [`reload`](Gateway::reload). A gateway with a state does this by itself.
    ///
    /// # Errors
    /// [`StartError`]; then nothing has changed.
    pub fn overlay(&self, overlay: &Overlay) -> Result<(), StartError> {
        self.reloadable.overlay(overlay)
    }
}
