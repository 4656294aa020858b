//! The options of the demo.

use rpcgate_core::plan::Tier;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The options of the demo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DemoOptions {
    /// The folder that keeps the demo's state.
    pub dir: PathBuf,
    /// The address where the gateway listens; port 0 picks a free one.
    pub gateway: SocketAddr,
    /// The address where the management API listens; port 0 picks a free one.
    pub admin: SocketAddr,
    /// The address where gRPC is served.
    pub grpc: SocketAddr,
    /// Real nodes: chain, part (`url`, `ws` or `grpc`), URL. Several for one chain make its pool.
    pub nodes: Vec<(String, String, String)>,
    /// The plan of its account from now on. If absent, it does not change: `enterprise` after the first start.
    pub plan: Option<Tier>,
    /// A configuration file beside its own settings.
    pub config: Option<PathBuf>,
    /// The address of a receiver of webhooks that prints deliveries; port 0 picks a free one.
    pub webhook_echo: Option<SocketAddr>,
    /// The URL of an OpenTelemetry collector to which it sends traces.
    pub otlp: Option<String>,
}
