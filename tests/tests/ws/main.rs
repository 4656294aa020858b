//! WebSocket streams through a whole gateway: a client that writes single octets, real sockets, nodes that misbehave.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod autobahn;
mod bad_nodes;
mod conformance;
mod faults;
mod http2;
mod left;
mod limits;
mod managed;
mod node;
mod stream;
mod traces;

use rpcgate_tests::gateway::{Setup, TestGateway};

/// Returns a gateway whose `/ws/eth` leads to the node at `url`, with these further lines of `[gateway.ws]`.
pub(crate) fn setup(url: &str, ws: &[&str]) -> Setup {
    let setup = Setup::new().set("chains.eth", &format!("nodes = [\"{url}\"]"));
    ws.iter().fold(setup, |setup, line| setup.set("gateway.ws", line))
}

pub(crate) async fn gateway(url: &str, ws: &[&str]) -> TestGateway {
    setup(url, ws).start().await
}
