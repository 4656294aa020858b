//! Nodes of the EVM chains: the JSON-RPC of go-ethereum and its relatives.

mod block;
mod call;
mod chain;
mod logs;
mod method;
mod multicall;
mod network;
mod params;
mod pool;
mod state;
mod stream;
mod token;
mod tx;

use super::envelope::{Fault, Request};
use super::json::Json;
use super::json_rpc::{self, JsonRpc};
use super::ledger::{LedgerNode, ledger_of};
use super::stream::Sessions;
use super::{NodeReply, SimulatedRequest, SimulatedStreams};
use chain::{Chain, EvmState};
use logs::Filters;
use network::NETWORKS;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The maximum number of calls in one batch: go-ethereum's default.
const BATCH: usize = 1_000;

/// A node of an EVM chain.
///
/// The ten accounts that local development nodes fund hold 10,000 coins each; their keys are public. Only one contract
/// runs, an ERC-20 token. Two more, of ERC-721 and ERC-1155, only write logs. State older than 128 blocks is pruned.
#[derive(Debug)]
pub struct EvmNode {
    chain: Chain,
    filters: Filters,
    sessions: Sessions<stream::Session>,
    /// The number of subscriptions of all streams, from the start.
    subscribed: u64,
}

impl EvmNode {
    /// Creates the node of `eth`, `bsc`, `polygon` or `avax`; `None` for any other chain.
    pub fn new(chain: &str, seed: u64) -> Option<Self> {
        let network = NETWORKS.iter().find(|network| network.name == chain)?;
        Some(EvmNode {
            chain: Chain::of_network(network, seed),
            filters: Filters::default(),
            sessions: Sessions::default(),
            subscribed: 0,
        })
    }
}

impl JsonRpc for EvmNode {
    type Error = Fault;

    fn run(&mut self, method: &str, params: Value, now: Time) -> Result<Json, Fault> {
        self.call(method, params, now)
    }

    fn unreadable() -> Fault {
        Fault::new(-32700, "parse error")
    }

    fn not_a_call(_: &Request, _: bool) -> Fault {
        Fault::new(-32600, "invalid request")
    }

    fn refused_batch(calls: usize) -> Option<Fault> {
        match calls {
            0 => Some(Fault::new(-32600, "empty batch")),
            1..=BATCH => None,
            _ => Some(Fault::new(-32600, "batch too large")),
        }
    }

    fn is_notification(request: &Request) -> bool {
        request.object && request.method.is_string() && request.id.is_none()
    }

    fn write(request: &Request, result: Result<Json, Fault>, out: &mut String) {
        json_rpc::write_id_first(request.id.as_deref(), result, out);
    }
}

impl LedgerNode for EvmNode {
    ledger_of!(EvmState);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        if *request.method != http::Method::POST {
            // go-ethereum answers an empty GET, which load balancers use as a health check.
            let status =
                if *request.method == http::Method::GET && request.body.is_empty() { 200 } else { 405 };
            let body = if status == 200 { Vec::new() } else { b"method not allowed\n".to_vec() };
            return NodeReply { status, content_type: "text/plain; charset=utf-8", body };
        }
        json_rpc::serve(self, request.body, now)
    }

    fn web_socket(&mut self) -> Option<&mut dyn SimulatedStreams> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
