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
    /// Real nodes: chain, part (`url`, `ws` or `grpc`), URL. Several entries for one chain form its pool.
    pub nodes: Vec<(String, String, String)>,
    /// The new plan of the demo's account. If absent, the plan does not change; the first start sets `enterprise`.
    pub plan: Option<Tier>,
    /// A configuration file that is read in addition to the demo's settings.
    pub config: Option<PathBuf>,
    /// The address of the webhook receiver that prints deliveries; port 0 picks a free one.
    pub webhook_echo: Option<SocketAddr>,
    /// The URL of an OpenTelemetry collector that receives traces.
    pub otlp: Option<String>,
}
