//! A running gateway: start, reload, drain.

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
use crate::node_spending::NodeSpendingStore;
#[cfg(feature = "demo")]
use crate::reload::AdapterAndPool;
use crate::reload::Reloadable;
use crate::start_error::StartError;
use crate::state::State;
use parking_lot::Mutex;
use rpcgate_config::{Config, Overlay};
use rpcgate_layers::redis::CounterState;
use rpcgate_layers::websocket::OpenStreams;
use rpcgate_process::traces::TraceExporter;
use rpcgate_store::NodeState;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::{AbortHandle, JoinHandle};

/// A serving gateway, started by [`start`](Gateway::start). Dropping it without [`drain`](Gateway::drain) stops it at
/// once and cuts calls in flight.
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
    /// Watches the certificate files.
    renewing: Option<AbortHandle>,
    spending: NodeSpendingStore,
    ordering: Option<AbortHandle>,
    metrics: Option<(SocketAddr, AbortHandle)>,
    reloads: Arc<Reloads>,
    traces: Mutex<Option<TraceExporter>>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Returns the listening address, with the picked port if the configuration says port 0.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address of the gRPC listener; `None` without `gateway.grpc_listen`.
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        self.grpc_addr
    }

    /// Returns the address of `/metrics` for Prometheus; `None` without `telemetry.listen`.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(addr, _)| *addr)
    }

    /// Returns the gateway's URL without a path.
    pub fn url(&self) -> String {
        let scheme = if self.reloadable.http_certificate().is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// Reports readiness, as `/readyz` does.
    pub fn ready(&self) -> bool {
        self.connections.unready().is_none()
    }

    /// Returns the status of the counters in Redis; `None` if they are in the process.
    pub fn counters(&self) -> Option<CounterState> {
        self.counting.state()
    }

    /// Returns the number of open client connections.
    pub fn connections(&self) -> usize {
        self.connections.open()
    }

    /// Returns the number of open WebSocket streams. A stream counts as a connection until its handshake is answered.
    pub fn streams(&self) -> usize {
        self.streams.count()
    }

    /// Returns the status of the nodes by chain, in the order of the configuration.
    pub fn nodes(&self) -> Vec<NodeState> {
        self.reloadable.nodes()
    }

    /// Returns the pools whose nodes may belong to any network, with the adapters of their chains.
    #[cfg(feature = "demo")]
    pub(crate) fn pools_of_any_network(&self) -> Vec<AdapterAndPool> {
        self.reloadable.pools_of_any_network()
    }

    /// Applies another configuration to chains, nodes, plans, keys, the certificate and the drain's grace. Returns the
    /// changed tables that need a restart. No connection is dropped, and chains with the same nodes keep their pools
    /// and heads.
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

    /// Replaces the operators' settings. They also apply to the configuration of every later
    /// [`reload`](Gateway::reload). A gateway with a state calls this by itself.
    ///
    /// # Errors
    /// [`StartError`]; then nothing has changed.
    pub fn overlay(&self, overlay: &Overlay) -> Result<(), StartError> {
        self.reloadable.overlay(overlay)
    }
}
