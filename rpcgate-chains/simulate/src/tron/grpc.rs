//! `protocol.Wallet`, the gRPC service of java-tron's full node. The HTTP API shows the same messages as JSON, with bytes
//! in hex, so every call but a broadcast is answered by the HTTP method of its name.
//!
//! Like the real node it answers a look-up that finds nothing with an empty message, not with a status.

use super::TronNode;
use super::params::Params;
use super::tx::Tx;
use crate::grpc::GrpcFailure;
use crate::grpc::schema::{JsonForm, Schema};
use crate::json::{Json, object};
use rpcgate_core::clock::Time;
use std::sync::LazyLock;

#[expect(clippy::expect_used, reason = "a test reads the files as well")]
static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::read(FILES, JsonForm::Hex).expect("proto/tron compiles"));

const FILES: &[(&str, &str)] = &[
    ("google/protobuf/any.proto", include_str!("../../proto/google/protobuf/any.proto")),
    ("tron/wallet.proto", include_str!("../../proto/tron/wallet.proto")),
];

/// The difference between the answer's message and the JSON of the HTTP method.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Same,
    /// A `BlockExtention`: its transactions have ids and results.
    Block,
    /// A list of them.
    Blocks,
    /// A `TransactionExtention` around the transaction.
    Wrapped,
    /// A `TransactionExtention` already, which lacks the id.
    Triggered,
    /// A `NumberMessage` of the member with this name.
    Number(&'static str),
    /// An object with the list as this member.
    List(&'static str),
}

/// The calls: the name, that of the HTTP method, and the shape of the answer.
const CALLS: &[(&str, &str, Shape)] = &[
    ("CreateTransaction", "createtransaction", Shape::Same),
    ("CreateTransaction2", "createtransaction", Shape::Wrapped),
    ("EstimateEnergy", "estimateenergy", Shape::Same),
    ("GetAccount", "getaccount", Shape::Same),
    ("GetAccountNet", "getaccountresource", Shape::Same),
    ("GetAccountResource", "getaccountresource", Shape::Same),
    ("GetBandwidthPrices", "getbandwidthprices", Shape::Same),
    ("GetBlock", "getblock", Shape::Block),
    ("GetBlockById", "getblockbyid", Shape::Same),
    ("GetBlockByLatestNum", "getblockbylatestnum", Shape::Same),
    ("GetBlockByLatestNum2", "getblockbylatestnum", Shape::Blocks),
    ("GetBlockByLimitNext", "getblockbylimitnext", Shape::Same),
    ("GetBlockByLimitNext2", "getblockbylimitnext", Shape::Blocks),
    ("GetBlockByNum", "getblockbynum", Shape::Same),
    ("GetBlockByNum2", "getblockbynum", Shape::Block),
    ("GetChainParameters", "getchainparameters", Shape::Same),
    ("GetContract", "getcontract", Shape::Same),
    ("GetEnergyPrices", "getenergyprices", Shape::Same),
    ("GetNextMaintenanceTime", "getnextmaintenancetime", Shape::Same),
    ("GetNodeInfo", "getnodeinfo", Shape::Same),
    ("GetNowBlock", "getnowblock", Shape::Same),
    ("GetNowBlock2", "getnowblock", Shape::Block),
    ("GetPendingSize", "getpendingsize", Shape::Number("pendingSize")),
    ("GetTransactionById", "gettransactionbyid", Shape::Same),
    ("GetTransactionCountByBlockNum", "gettransactioncountbyblocknum", Shape::Number("count")),
    ("GetTransactionFromPending", "gettransactionfrompending", Shape::Same),
    ("GetTransactionInfoByBlockNum", "gettransactioninfobyblocknum", Shape::List("transactionInfo")),
    ("GetTransactionInfoById", "gettransactioninfobyid", Shape::Same),
    ("ListWitnesses", "listwitnesses", Shape::Same),
    ("TriggerConstantContract", "triggerconstantcontract", Shape::Triggered),
    ("TriggerContract", "triggersmartcontract", Shape::Triggered),
];

pub(crate) fn services() -> &'static Schema {
    &SCHEMA
}

impl TronNode {
    /// Answers the call at `path`.
    pub(super) fn answer(&mut self, path: &str, message: &[u8], now: Time) -> Result<Vec<u8>, GrpcFailure> {
        let unknown =
            || GrpcFailure::unimplemented(format!("Method not found: {}", path.trim_start_matches('/')));
        let method = SCHEMA.method(path).ok_or_else(unknown)?;
        if method.name == "BroadcastTransaction" {
            let tx = Tx::read(message).map_err(|broken| GrpcFailure::invalid_argument(broken.message()))?;
            let json = match self.chain.submit(tx, now) {
                Ok(()) => object! { "result": true },
                Err(refusal) => refused(refusal),
            };
            return Ok(SCHEMA.encode(&method.output, &json));
        }
        let request = SCHEMA.decode(&method.input, message);
        let request = request.ok_or_else(|| {
            GrpcFailure::invalid_argument(format!("the request is not a {} message", method.input))
        })?;
        let (_, http, shape) = CALLS.iter().find(|(name, ..)| *name == method.name).ok_or_else(unknown)?;
        let json = match self.call(http, &Params::of_message(request), now) {
            Ok(json) => shaped(*shape, json),
            // The older method has no field for the reason.
            Err(why) if matches!(shape, Shape::Wrapped) => {
                object! { "result": refused(("CONTRACT_VALIDATE_ERROR", why)) }
            }
            Err(why) => return Err(GrpcFailure::invalid_argument(why)),
        };
        Ok(SCHEMA.encode(&method.output, &json))
    }
}

fn refused((code, words): (&'static str, String)) -> Json {
    object! { "code": code, "message": hex::encode(words) }
}

fn shaped(shape: Shape, mut json: Json) -> Json {
    match shape {
        Shape::Same => json,
        Shape::Block => extended_block(json),
        Shape::Blocks => match json.get("block") {
            Some(Json::Array(blocks)) => {
                object! { "block": blocks.iter().cloned().map(extended_block).collect::<Vec<_>>() }
            }
            _ => json,
        },
        Shape::Wrapped => wrapped(json),
        Shape::Triggered => {
            if let Some(id) = json.get("transaction").and_then(|tx| tx.get("txID")).cloned() {
                json.put("txid", id);
            }
            json
        }
        Shape::Number(name) => object! { "num": json.get(name).cloned() },
        Shape::List(name) => Json::Object(vec![(name.into(), json)]),
    }
}

fn wrapped(tx: Json) -> Json {
    object! { "txid": tx.get("txID").cloned(), "transaction": tx, "result": object! { "result": true } }
}

fn extended_block(mut block: Json) -> Json {
    if let Some(id) = block.get("blockID").cloned() {
        block.put("blockid", id);
    }
    if let Some(Json::Array(txs)) = block.get("transactions") {
        let txs: Vec<_> = txs.iter().cloned().map(wrapped).collect();
        block.set("transactions", txs);
    }
    block
}

#[cfg(test)]
mod tests;
