//! The gateway from outside: real sockets, scripted nodes, a clock that the test controls. Modules have the names of
//! the layers of the stack; `tests/contract.md` lists the promises and their tests.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod answer_headers;
mod authenticate;
mod bad_nodes;
mod balancer;
mod batch;
mod bodies;
mod cache;
mod closed;
mod cors;
mod drain;
mod faults;
mod filters;
mod heavy;
mod herd;
mod limits;
mod lists;
mod order;
mod overload;
mod pace;
mod pools;
mod quota;
mod reload;
mod rest;
mod route;
mod safeguard;
mod served;
mod simulated;
mod surface;
mod suspend;
mod traces;
mod upstream;
mod usage;
mod weights;
mod window;

pub(crate) use rpcgate_core::backend::usage_sink::Outcome;
pub(crate) use rpcgate_tests::client::{Connection, TestClient, TestReply};
pub(crate) use rpcgate_tests::gateway::{START, Setup, TestGateway, key};
pub(crate) use rpcgate_tests::node::{Node, Raw, ScriptedAnswer};
pub(crate) use rpcgate_tests::until;

/// Runs the gateway of this test binary as a separate process: see `rpcgate_tests::process`.
#[test]
fn serve_where_a_site_asks_for_it() {
    rpcgate_tests::process::serve();
}

pub(crate) const RATE: [&str; 9] = [
    "x-ratelimit-limit-minute",
    "x-ratelimit-remaining-minute",
    "x-ratelimit-limit-hour",
    "x-ratelimit-remaining-hour",
    "x-ratelimit-limit-day",
    "x-ratelimit-remaining-day",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
];

pub(crate) const EVM: [&str; 4] = ["eth", "bsc", "polygon", "avax"];
pub(crate) const UTXO: [&str; 6] = ["btc", "ltc", "bch", "doge", "dash", "liquid"];

pub(crate) async fn evm() -> (Node, TestGateway, TestClient) {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).node("bsc", &node.url()).start().await;
    let client = gateway.client();
    (node, gateway, client)
}

pub(crate) async fn utxo() -> (Node, TestGateway, TestClient) {
    let node = Node::utxo().await;
    let gateway = Setup::of("btc", &node.url()).start().await;
    let client = gateway.client();
    (node, gateway, client)
}

/// Starts a gateway for the ten chains of the two families, with one node for each family.
pub(crate) async fn ten(setup: Setup) -> (Node, Node, TestGateway) {
    let evm = Node::evm().await;
    let utxo = Node::utxo().await;
    let setup = EVM.iter().fold(setup, |setup, chain| setup.node(chain, &evm.url()));
    let setup = UTXO.iter().fold(setup, |setup, chain| setup.node(chain, &utxo.url()));
    let gateway = setup.start().await;
    (evm, utxo, gateway)
}

pub(crate) fn rated(reply: &TestReply) -> bool {
    RATE.iter().all(|name| reply.header(name).is_some())
}

pub(crate) fn unrated(reply: &TestReply) -> bool {
    RATE.iter().all(|name| reply.header(name).is_none())
}

/// Returns the one usage call of a gateway: its method, outcome, charge and HTTP status.
#[track_caller]
pub(crate) fn only_line(gateway: &TestGateway) -> (String, Outcome, u32, u16) {
    let mut lines = gateway.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = lines.remove(0);
    (line.method, line.outcome, line.cu, line.status)
}
