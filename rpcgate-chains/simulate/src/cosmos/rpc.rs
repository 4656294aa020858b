//! CometBFT's RPC over WebSocket: JSON-RPC 2.0 with parameters by name or position, and events.
//!
//! Not simulated: calls that wait for a block (`broadcast_tx_commit`), the consensus state, and proofs.

mod event;
mod query;
mod show;

use super::CosmosNode;
use super::block::BlockForm;
use super::page::unbase64;
use crate::envelope::{Fault, Request};
use crate::json::{Json, object};
use crate::json_rpc::{self, JsonRpc};
use crate::stream::{StreamCall, StreamRpc};
pub(super) use event::Session;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The default and the largest number of items in a page.
const PAGE: u64 = 30;
const PAGE_MOST: u64 = 100;
/// The maximum number of headers in one answer to `blockchain`.
const HEADERS: u64 = 20;

/// The parameters of a call: by name, or in the order of the names.
#[derive(Debug, Clone, Copy)]
struct Arguments<'a> {
    params: &'a Value,
    names: &'a [&'a str],
}

fn invalid_params(why: impl Into<String>) -> Fault {
    with_data(-32602, "Invalid params", why)
}

/// Returns an error of the method itself.
fn internal(why: impl Into<String>) -> Fault {
    with_data(-32603, "Internal error", why)
}

fn with_data(code: i64, message: &str, why: impl Into<String>) -> Fault {
    Fault { code, message: message.into(), data: Some(why.into().into()) }
}

impl<'a> Arguments<'a> {
    fn new(params: &'a Value, names: &'a [&'a str]) -> Result<Self, Fault> {
        match params {
            Value::Null | Value::Object(_) => {}
            Value::Array(list) if list.len() <= names.len() => {}
            Value::Array(list) => {
                let wanted = names.len();
                let got = list.len();
                return Err(invalid_params(format!(
                    "error converting json params to arguments: expected {wanted} parameters, got {got}"
                )));
            }
            _ => return Err(invalid_params("error converting json params to arguments: unknown type")),
        }
        Ok(Arguments { params, names })
    }

    fn get(self, name: &str) -> &'a Value {
        let place = self.names.iter().position(|known| *known == name);
        let value = match self.params {
            Value::Array(list) => place.and_then(|place| list.get(place)),
            params => params.get(name),
        };
        value.unwrap_or(&Value::Null)
    }

    fn text(self, name: &str) -> Result<&'a str, Fault> {
        match self.get(name) {
            Value::Null => Ok(""),
            value => value.as_str().ok_or_else(|| self.wrong(name)),
        }
    }

    /// Reads a number, which CometBFT writes as a string.
    fn number(self, name: &str) -> Result<Option<i64>, Fault> {
        match self.get(name) {
            Value::Null => Ok(None),
            Value::String(text) => text.parse().map(Some).map_err(|_| self.wrong(name)),
            value => value.as_i64().map(Some).ok_or_else(|| self.wrong(name)),
        }
    }

    /// Reads bytes in base64.
    fn bytes(self, name: &str) -> Result<Vec<u8>, Fault> {
        unbase64(self.text(name)?).ok_or_else(|| self.wrong(name))
    }

    fn hash(self, name: &str) -> Result<[u8; 32], Fault> {
        self.bytes(name)?.try_into().map_err(|_| self.wrong(name))
    }

    fn wrong(self, name: &str) -> Fault {
        invalid_params(format!("error converting json params to arguments: invalid value of {name}"))
    }

    /// Returns the part of `items` that `page` and `per_page` select.
    fn page<T>(self, items: Vec<T>) -> Result<Vec<T>, Fault> {
        let size = match self.number("per_page")? {
            Some(size) if size > 0 => size.unsigned_abs().min(PAGE_MOST),
            _ => PAGE,
        };
        let pages = (items.len() as u64).div_ceil(size).max(1);
        let page = self.number("page")?.unwrap_or(1);
        let page = u64::try_from(page).ok().filter(|page| (1..=pages).contains(page));
        let page = page.ok_or_else(|| internal(format!("page should be within [1, {pages}] range")))?;
        let skipped = usize::try_from((page - 1) * size).unwrap_or(usize::MAX);
        Ok(items.into_iter().skip(skipped).take(size as usize).collect())
    }
}

impl CosmosNode {
    /// Reads the height that a call selects; the newest by default.
    fn height_in(&self, arguments: Arguments<'_>) -> Result<u64, Fault> {
        let head = self.chain.head;
        let lowest = self.chain.oldest();
        let Some(height) = arguments.number("height")? else { return Ok(head) };
        match u64::try_from(height) {
            Ok(height) if (lowest..=head).contains(&height) => Ok(height),
            Ok(height @ 1..) if height < lowest => {
                Err(internal(format!("height {height} is not available, lowest height is {lowest}")))
            }
            Ok(height @ 1..) => Err(internal(format!(
                "height {height} must be less than or equal to the current blockchain height {head}"
            ))),
            _ => Err(internal(format!("height must be greater than 0, but got {height}"))),
        }
    }

    /// Runs a method of CometBFT.
    fn comet(&mut self, method: &str, params: &Value, now: Time) -> Result<Json, Fault> {
        let take = |names| Arguments::new(params, names);
        match method {
            "health" => Ok(object! {}),
            "status" => Ok(self.chain.comet_status()),
            "net_info" => Ok(object! {
                "listening": true, "listeners": vec!["Listener(@)"], "n_peers": "0",
                "peers": Json::Array(Vec::new()),
            }),
            "abci_info" => Ok(self.chain.abci_info()),
            "abci_query" => self.abci_query(take(&["path", "data", "height", "prove"])?, now),
            "block" => {
                let height = self.height_in(take(&["height"])?)?;
                Ok(self.chain.comet_block(height))
            }
            "block_by_hash" => {
                let hash = take(&["hash"])?.hash("hash")?;
                Ok(match self.chain.height_of(&hash) {
                    Some(height) => self.chain.comet_block(height),
                    None => object! {
                        "block_id": object! {
                            "hash": "", "parts": object! { "total": 0u32, "hash": "" },
                        },
                        "block": Json::Null,
                    },
                })
            }
            "header" => {
                let height = self.height_in(take(&["height"])?)?;
                Ok(object! { "header": self.chain.comet_header(height) })
            }
            "block_results" => {
                let height = self.height_in(take(&["height"])?)?;
                Ok(self.chain.block_results(height))
            }
            "blockchain" => {
                let arguments = take(&["minHeight", "maxHeight"])?;
                let head = self.chain.head;
                let lowest = self.chain.oldest();
                let bound = |name, default: u64| {
                    let given = arguments.number(name)?.filter(|height| *height != 0);
                    given.map_or(Ok(default), |height| {
                        u64::try_from(height).map_err(|_| internal("heights must be non-negative"))
                    })
                };
                let last = bound("maxHeight", head)?.min(head);
                let first = bound("minHeight", lowest)?.max(lowest).max((last + 1).saturating_sub(HEADERS));
                if first > last {
                    return Err(internal(format!(
                        "min height {first} can't be greater than max height {last}"
                    )));
                }
                let metas = (first..=last).rev().map(|height| self.chain.block_meta(height));
                Ok(object! { "last_height": head.to_string(), "block_metas": metas.collect::<Vec<_>>() })
            }
            "commit" => {
                let height = self.height_in(take(&["height"])?)?;
                let signed = object! {
                    "header": self.chain.comet_header(height),
                    "commit": self.chain.commit(height, BlockForm::Comet),
                };
                Ok(object! { "signed_header": signed, "canonical": true })
            }
            "validators" => {
                let arguments = take(&["height", "page", "per_page"])?;
                let height = self.height_in(arguments)?;
                let all = self.chain.comet_validators(height);
                let total = all.len().to_string();
                let shown = arguments.page(all)?;
                Ok(object! {
                    "block_height": height.to_string(), "count": shown.len().to_string(), "total": total,
                    "validators": shown,
                })
            }
            "consensus_params" => {
                let height = self.height_in(take(&["height"])?)?;
                Ok(
                    object! { "block_height": height.to_string(), "consensus_params": show::consensus_params() },
                )
            }
            "num_unconfirmed_txs" | "unconfirmed_txs" => {
                let waiting: Vec<_> = self.chain.state.waiting.iter().collect();
                let bytes: usize = waiting.iter().map(|tx| tx.raw.len()).sum();
                let txs = (method == "unconfirmed_txs")
                    .then(|| waiting.iter().map(|tx| super::page::base64(&tx.raw)).collect::<Vec<_>>());
                Ok(object! {
                    "n_txs": waiting.len().to_string(), "total": waiting.len().to_string(),
                    "total_bytes": bytes.to_string(), "txs": txs,
                })
            }
            "broadcast_tx_sync" | "broadcast_tx_async" => {
                let raw = take(&["tx"])?.bytes("tx")?;
                if raw.is_empty() {
                    return Err(internal("tx is empty"));
                }
                let hash = hex::encode_upper(crate::hash::sha256(&raw));
                let (_, outcome) = self.chain.submit(&raw, now);
                let is_sync = method == "broadcast_tx_sync";
                Ok(object! {
                    "code": if is_sync { outcome.code } else { 0 },
                    "data": "",
                    "log": if is_sync { outcome.log.clone() } else { String::new() },
                    "codespace": if is_sync { outcome.codespace() } else { "" },
                    "hash": hash,
                })
            }
            "tx" => {
                let hash = take(&["hash", "prove"])?.hash("hash")?;
                let entry = self.chain.committed(&hash);
                let entry =
                    entry.ok_or_else(|| internal(format!("tx ({}) not found", hex::encode_upper(hash))))?;
                Ok(self.chain.comet_tx(&entry))
            }
            "tx_search" => {
                let arguments = take(&["query", "prove", "page", "per_page", "order_by"])?;
                let texts: Vec<_> = arguments.text("query")?.split(" AND ").collect();
                let mut found = self.chain.matching(&texts).map_err(|fault| internal(fault.message))?;
                match arguments.text("order_by")? {
                    "desc" => found.reverse(),
                    "asc" | "" => {}
                    _ => return Err(internal("expected order_by to be either `asc` or `desc` or empty")),
                }
                let total = found.len().to_string();
                let shown = arguments.page(found)?;
                let shown = shown.iter().map(|entry| self.chain.comet_tx(entry));
                Ok(object! { "txs": shown.collect::<Vec<_>>(), "total_count": total })
            }
            _ => Err(Fault::new(-32601, "Method not found")),
        }
    }

    /// Answers a query of the application: a gRPC method by its path, with its request in hex.
    fn abci_query(&mut self, arguments: Arguments<'_>, now: Time) -> Result<Json, Fault> {
        let path = arguments.text("path")?;
        let data = arguments.text("data")?;
        let data =
            hex::decode(data.strip_prefix("0x").unwrap_or(data)).map_err(|_| arguments.wrong("data"))?;
        let (code, codespace, log, value) = match self.answer(path, &data, now) {
            Ok(value) => (0, "", String::new(), Some(super::page::base64(value))),
            Err(failure) => {
                // The SDK's error codes for gRPC status codes.
                let code = match failure.code {
                    5 => 22u32,
                    12 => 6,
                    16 => 4,
                    _ => 18,
                };
                (code, "sdk", failure.message, None)
            }
        };
        Ok(object! {
            "response": object! {
                "code": code, "log": log, "info": "", "index": "0", "key": Json::Null, "value": value,
                "proofOps": Json::Null, "height": self.chain.head.to_string(), "codespace": codespace,
            },
        })
    }
}

impl JsonRpc for CosmosNode {
    type Error = Fault;

    fn run(&mut self, method: &str, params: Value, now: Time) -> Result<Json, Fault> {
        self.comet(method, &params, now)
    }

    fn unreadable() -> Fault {
        with_data(-32700, "Parse error. Invalid JSON", "error unmarshaling request")
    }

    fn not_a_call(_: &Request, _: bool) -> Fault {
        with_data(-32600, "Invalid Request", "the request has no method")
    }

    fn refused_batch(_: usize) -> Option<Fault> {
        // A stream takes one request in each message.
        Some(CosmosNode::unreadable())
    }

    fn is_notification(request: &Request) -> bool {
        request.object && request.id.is_none()
    }

    fn write(request: &Request, result: Result<Json, Fault>, out: &mut String) {
        json_rpc::write_id_first(request.id.as_deref(), result, out);
    }
}

impl StreamRpc for CosmosNode {
    fn stream_call(
        &mut self,
        session: &mut Session,
        request: &Request,
        method: &str,
        params: Value,
        _: Time,
    ) -> StreamCall<Fault> {
        // CometBFT does not even run a request without an id.
        let Some(id) = &request.id else { return StreamCall::Later };
        let query = || Arguments::new(&params, &["query"]).and_then(|arguments| arguments.text("query"));
        match method {
            "subscribe" => {
                StreamCall::Answer(query().and_then(|query| session.subscribe(id, query, self.chain.head)))
            }
            "unsubscribe" => StreamCall::Answer(query().and_then(|query| session.unsubscribe(query))),
            "unsubscribe_all" => StreamCall::Answer(session.unsubscribe_all()),
            _ => StreamCall::Ordinary(params),
        }
    }
}

#[cfg(test)]
mod tests;
