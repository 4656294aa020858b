//! The node of the Cosmos Hub: the REST API of the SDK's modules, their gRPC services, and CometBFT's RPC over WebSocket.

mod address;
mod bank;
mod block;
mod chain;
mod fault;
pub(crate) mod grpc;
mod page;
mod rpc;
mod service;
mod staking;
mod state;
mod tx;

use super::json::{Json, object};
use super::ledger::{LedgerNode, ledger_of};
use super::rest::{self, Rest, RestRequest};
use super::stream::Sessions;
use super::target::Target;
use super::{GrpcFailure, NodeReply, SimulatedRequest, SimulatedStreams};
use chain::Chain;
use fault::Fault;
use rpcgate_core::clock::Time;
use state::{COIN, State};

/// A pruned node of the Cosmos Hub with the modules auth, bank, consensus, mint, staking and tx; it keeps the blocks of
/// a day.
///
/// The first ten accounts of the mnemonic `test test … junk` on Cosmos' own path (m/44'/118'/0'/0/n) hold
/// 10,000 ATOM each; their keys are public. Signatures are verified. Transfers (`MsgSend`) are the
/// only messages that are accepted.
#[derive(Debug)]
pub struct CosmosNode {
    chain: Chain,
    sessions: Sessions<rpc::Session>,
}

impl CosmosNode {
    /// Creates the node of `cosmos`.
    pub fn new(seed: u64) -> Self {
        CosmosNode { chain: Chain::of_seed(seed), sessions: Sessions::default() }
    }

    fn read(&mut self, path: &[&str], target: &Target) -> Result<Json, Fault> {
        let chain = &mut self.chain;
        match path {
            ["bank", "v1beta1", rest @ ..] => chain.bank(rest, target),
            ["auth", "v1beta1", rest @ ..] => chain.auth(rest, target),
            ["staking", "v1beta1", rest @ ..] => chain.staking(rest, target),
            ["tx", "v1beta1", "txs"] => chain.search(target),
            ["tx", "v1beta1", "txs", "block", height] => {
                let height = chain.known_height(height)?;
                chain.block_with_txs(height, target)
            }
            ["tx", "v1beta1", "txs", hash] => chain.tx(hash),
            ["base", "tendermint", "v1beta1", rest @ ..] => match rest {
                ["node_info"] => Ok(chain.node_info()),
                ["syncing"] => Ok(object! { "syncing": false }),
                ["blocks", "latest"] => Ok(chain.block(chain.head)),
                ["blocks", height] => Ok(chain.block(chain.known_height(height)?)),
                ["validatorsets", "latest"] => chain.validator_set(chain.head, target),
                ["validatorsets", height] => chain.validator_set(chain.known_height(height)?, target),
                _ => Err(Fault::not_implemented()),
            },
            ["base", "node", "v1beta1", "config"] => Ok(object! {
                "minimum_gas_price": "0.005uatom", "pruning_keep_recent": chain::KEPT.to_string(),
                "pruning_interval": "10", "halt_height": "0",
            }),
            ["base", "node", "v1beta1", "status"] => Ok(chain.node_status()),
            ["mint", "v1beta1", rest @ ..] => mint(chain, rest),
            ["consensus", "v1", "params"] => Ok(object! { "params": consensus_params() }),
            _ => Err(Fault::not_implemented()),
        }
    }
}

/// Answers `mint/v1beta1/…`: inflation is a tenth of the supply in a year.
fn mint(chain: &Chain, path: &[&str]) -> Result<Json, Fault> {
    match path {
        ["inflation"] => Ok(object! { "inflation": "0.100000000000000000" }),
        ["annual_provisions"] => {
            let supply = chain.state.supply(chain.head).get(COIN).copied().unwrap_or(0);
            Ok(object! { "annual_provisions": format!("{}.000000000000000000", supply / 10) })
        }
        ["params"] => {
            let params = object! {
                "mint_denom": COIN, "inflation_rate_change": "1.000000000000000000",
                "inflation_max": "0.100000000000000000", "inflation_min": "0.070000000000000000",
                "goal_bonded": "0.670000000000000000", "blocks_per_year": "4360000",
            };
            Ok(object! { "params": params })
        }
        _ => Err(Fault::not_implemented()),
    }
}

/// Returns the limits of blocks and evidence.
fn consensus_params() -> Json {
    object! {
        "block": object! { "max_bytes": "22020096", "max_gas": "75000000" },
        "evidence": object! {
            "max_age_num_blocks": "100000", "max_age_duration": "172800s", "max_bytes": "1048576",
        },
        "validator": object! { "pub_key_types": vec!["ed25519"] },
        "version": object! { "app": "0" },
        "abci": object! { "vote_extensions_enable_height": "0" },
    }
}

impl Rest for CosmosNode {
    type Error = Fault;

    fn run(&mut self, call: RestRequest<'_>, now: Time) -> Result<NodeReply, Fault> {
        let Some((&"cosmos", path)) = call.path.split_first() else {
            return Err(Fault::not_implemented());
        };
        let value = match path {
            ["tx", "v1beta1", "txs"] if call.is_post() => self.chain.broadcast(call.body, now)?,
            ["tx", "v1beta1", "simulate"] if call.is_post() => self.chain.simulation(call.body)?,
            path if call.is_get() => self.read(path, call.query)?,
            _ => return Err(Fault::not_implemented()),
        };
        Ok(NodeReply::of(200, &value))
    }
}

impl LedgerNode for CosmosNode {
    ledger_of!(State);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        rest::serve(self, request, now)
    }

    fn respond_grpc(&mut self, path: &str, message: &[u8], now: Time) -> Result<Vec<u8>, GrpcFailure> {
        self.answer(path, message, now)
    }

    fn web_socket(&mut self) -> Option<&mut dyn SimulatedStreams> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
