//! A node of TRON: the HTTP API of java-tron's full node, `/wallet/<method>`, and its gRPC service, `protocol.Wallet`.

mod address;
mod chain;
pub(crate) mod grpc;
mod method;
mod network;
mod params;
mod proto;
mod run;
mod show;
mod signatures;
mod token;
mod tx;

use super::json::{Json, object};
use super::ledger::{LedgerNode, ledger_of};
use super::rest::{self, Rest, RestRequest};
use super::{GrpcFailure, NodeReply, SimulatedRequest};
use chain::{Accounts, Chain};
use method::METHODS;
use params::Params;
use rpcgate_core::clock::Time;

/// A full node of TRON.
///
/// The accounts whose secret keys are the numbers 1 to 10 hold 10,000 TRX and as many tokens each, so that every client
/// can send. Transfers of coins and calls of one TRC-20 token are supported; every other transaction is refused.
/// Every account pays for bandwidth and energy by the network's rules, without staked coins.
#[derive(Debug)]
pub struct TronNode {
    chain: Chain,
}

impl TronNode {
    /// Creates a node from a seed.
    pub fn new(seed: u64) -> Self {
        TronNode { chain: Chain::of_seed(seed) }
    }
}

/// An error of java-tron.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The web server's error page for a path or verb that it does not serve: the HTTP status and the text.
    Page(u16, &'static str),
    /// The error of a method: the member `Error` of an answer with status 200.
    Method(String),
}

impl From<Failure> for NodeReply {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Method(why) => answer(&object! { "Error": why }),
            Failure::Page(status, words) => {
                let body = format!(
                    "<html>\n<head>\n<meta http-equiv=\"Content-Type\" content=\"text/html;charset=utf-8\"/>\n\
                     <title>Error {status} {words}</title>\n</head>\n<body><h2>HTTP ERROR {status} {words}</h2>\n\
                     </body>\n</html>\n"
                );
                NodeReply { status, content_type: "text/html;charset=iso-8859-1", body: body.into_bytes() }
            }
        }
    }
}

fn answer(value: &Json) -> NodeReply {
    let mut body = String::new();
    value.write(&mut body);
    body.push('\n');
    NodeReply { status: 200, content_type: "application/json; charset=utf-8", body: body.into_bytes() }
}

impl Rest for TronNode {
    type Error = Failure;

    fn run(&mut self, call: RestRequest<'_>, now: Time) -> Result<NodeReply, Failure> {
        // The web server compares the path as it was sent.
        let method = call.raw_path.strip_prefix("/wallet/").filter(|method| METHODS.is_served(method));
        let method = method.ok_or(Failure::Page(404, "Not Found"))?;
        let params = if call.is_post() {
            Params::of_body(call.body)
        } else if !call.is_get() {
            return Err(Failure::Page(405, "HTTP method is not supported by this URL"));
        } else if METHODS.is_posted(method) {
            return Err(Failure::Page(405, "HTTP method GET is not supported by this URL"));
        } else {
            Ok(Params::of_query(call.raw_query))
        };
        let result = params.and_then(|params| self.call(method, &params, now));
        result.map(|value| answer(&value)).map_err(Failure::Method)
    }
}

impl LedgerNode for TronNode {
    ledger_of!(Accounts);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        rest::serve(self, request, now)
    }

    fn respond_grpc(&mut self, path: &str, message: &[u8], now: Time) -> Result<Vec<u8>, GrpcFailure> {
        self.answer(path, message, now)
    }
}

#[cfg(test)]
mod tests;
