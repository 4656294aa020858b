//! Transactions: broadcast, simulation, look-up and search.

use super::address::{ACCOUNT, read};
use super::chain::{Chain, Entry, gas};
use super::fault::Fault;
use super::page::{base64, number, unbase64};
use super::tx::{SEND, SENT, Send, Tx, coins_text, from_json};
use crate::grpc::protobuf::Message;
use crate::json::{Json, object};
use crate::target::Target;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The default and the largest number of transactions in a page of a search.
const FOUND: u64 = 100;

/// Returns the encoded responses of the messages.
pub(crate) fn responses(sends: &[Send]) -> Vec<u8> {
    let answers = sends.iter().map(|_| Message::default().bytes(1, SENT));
    Message::default().items(2, answers).done()
}

fn event(kind: &'static str, attributes: Vec<(&'static str, String)>, message: Option<usize>) -> Json {
    let index = message.map(|index| ("msg_index", index.to_string()));
    let attributes = attributes.into_iter().chain(index);
    let attributes = attributes.map(|(key, value)| object! { "key": key, "value": value, "index": true });
    object! { "type": kind, "attributes": attributes.collect::<Vec<_>>() }
}

fn moved(from: &str, to: &str, amount: &str, message: Option<usize>) -> Vec<Json> {
    let text = str::to_owned;
    vec![
        event("coin_spent", vec![("spender", text(from)), ("amount", text(amount))], message),
        event("coin_received", vec![("receiver", text(to)), ("amount", text(amount))], message),
        event(
            "transfer",
            vec![("recipient", text(to)), ("sender", text(from)), ("amount", text(amount))],
            message,
        ),
        event("message", vec![("sender", text(from))], message),
    ]
}

fn message_events(sends: &[Send]) -> Vec<Json> {
    let mut out = Vec::new();
    for (index, send) in sends.iter().enumerate() {
        let about =
            vec![("action", SEND.to_owned()), ("sender", send.from.clone()), ("module", "bank".to_owned())];
        out.push(event("message", about, Some(index)));
        out.extend(moved(&send.from, &send.to, &coins_text(&send.amount), Some(index)));
    }
    out
}

/// Returns the address of the module that collects fees.
fn collector() -> String {
    super::state::name(&crate::hash::sha256(b"fee_collector")[..20])
}

pub(crate) fn events(entry: &Entry) -> Vec<Json> {
    let content = &entry.tx.content;
    let mut out = Vec::new();
    let payer = content.sends.first().map_or("", |send| &send.from);
    let payer = if content.payer.is_empty() { payer } else { &content.payer };
    let fee = coins_text(&content.fee);
    if !content.fee.is_empty() {
        out.extend(moved(payer, &collector(), &fee, None));
    }
    out.push(event("tx", vec![("fee", fee), ("fee_payer", payer.to_owned())], None));
    for (signer, signature) in content.signers.iter().zip(&content.signatures) {
        let signed = format!("{payer}/{}", signer.sequence);
        out.push(event("tx", vec![("acc_seq", signed)], None));
        out.push(event("tx", vec![("signature", base64(signature))], None));
    }
    if entry.outcome.code == 0 {
        out.extend(message_events(&content.sends));
    }
    out
}

/// Returns the answer to a broadcast: the transaction is not in a block yet.
fn taken(hash: String, code: u32, codespace: &'static str, log: String) -> Json {
    let response = object! {
        "height": "0", "txhash": hash, "codespace": codespace, "code": code, "data": "", "raw_log": log,
        "logs": Json::Array(Vec::new()), "info": "", "gas_wanted": "0", "gas_used": "0", "tx": Json::Null,
        "timestamp": "", "events": Json::Array(Vec::new()),
    };
    object! { "tx_response": response }
}

/// Reads a request's body; members may have either spelling.
fn body(bytes: &[u8]) -> Result<Value, Fault> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| Fault::argument(error.to_string()))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Fault::argument("unexpected token, an object is expected"))
    }
}

fn tx_bytes(request: &Value) -> Result<Option<Vec<u8>>, Fault> {
    match request.get("tx_bytes").or_else(|| request.get("txBytes")) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let bytes = value.as_str().and_then(unbase64);
            let bytes = bytes.ok_or_else(|| Fault::argument("illegal base64 data at input byte 0"))?;
            Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
        }
    }
}

/// One condition of a search.
#[derive(Debug, PartialEq, Eq)]
enum Condition {
    Height(u64),
    Hash(String),
    Sender(String),
    Recipient(String),
    Action(String),
}

impl Condition {
    fn read(text: &str) -> Result<Self, Fault> {
        let wrong =
            || Fault::argument(format!("invalid query; expected {{eventType}}={{value}}, got {text:?}"));
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let value = value.trim().trim_matches(['\'', '"']).to_owned();
        match name.trim() {
            "tx.height" => Ok(Condition::Height(value.parse().map_err(|_| wrong())?)),
            "tx.hash" => Ok(Condition::Hash(value.to_uppercase())),
            "message.sender" | "transfer.sender" | "coin_spent.spender" => Ok(Condition::Sender(value)),
            "transfer.recipient" | "coin_received.receiver" => Ok(Condition::Recipient(value)),
            "message.action" => Ok(Condition::Action(value)),
            // No event has other attributes here.
            _ => Ok(Condition::Action(String::new())),
        }
    }

    fn holds(&self, entry: &Entry) -> bool {
        let sends = &entry.tx.content.sends;
        match self {
            Condition::Height(height) => entry.height == *height,
            Condition::Hash(hash) => entry.tx.name() == *hash,
            Condition::Sender(sender) => sends.iter().any(|send| send.from == *sender),
            Condition::Recipient(recipient) => sends.iter().any(|send| send.to == *recipient),
            Condition::Action(action) => entry.outcome.code == 0 && action == SEND,
        }
    }
}

impl Chain {
    fn response(&self, entry: &Entry) -> Json {
        let tx = &entry.tx;
        let outcome = &entry.outcome;
        let data =
            if outcome.code == 0 { hex::encode_upper(responses(&tx.content.sends)) } else { String::new() };
        let mut shown = object! { "@type": "/cosmos.tx.v1beta1.Tx" };
        shown.extend(tx.json());
        object! {
            "height": entry.height.to_string(),
            "txhash": tx.name(),
            "codespace": outcome.codespace(),
            "code": outcome.code,
            "data": data,
            "raw_log": outcome.log.clone(),
            "logs": Json::Array(Vec::new()),
            "info": "",
            "gas_wanted": tx.content.gas.to_string(),
            "gas_used": outcome.gas_used.to_string(),
            "tx": shown,
            "timestamp": crate::utc::seconds(self.time(entry.height)),
            "events": events(entry),
        }
    }

    /// Answers `GET txs/{hash}`.
    pub(crate) fn tx(&mut self, name: &str) -> Result<Json, Fault> {
        let hash = hex::decode(name).map_err(|error| Fault::unknown(format!("encoding/hex: {error}")))?;
        let missing = || Fault::not_found(format!("tx not found: {name}"));
        let hash = <[u8; 32]>::try_from(hash).map_err(|_| missing())?;
        let entry = self.committed(&hash).ok_or_else(missing)?;
        Ok(object! { "tx": entry.tx.json(), "tx_response": self.response(&entry) })
    }

    /// Returns the transactions of the kept blocks for which all conditions hold.
    pub(crate) fn matching(&mut self, texts: &[&str]) -> Result<Vec<Entry>, Fault> {
        let conditions = texts.iter().map(|text| Condition::read(text)).collect::<Result<Vec<_>, _>>()?;
        let mut range = (self.oldest(), self.head);
        for condition in &conditions {
            match condition {
                Condition::Height(height) => range = (range.0.max(*height), range.1.min(*height)),
                Condition::Hash(name) => {
                    let hash = hex::decode(name).ok().and_then(|hash| <[u8; 32]>::try_from(hash).ok());
                    let height = hash.and_then(|hash| self.committed(&hash)).map_or(0, |entry| entry.height);
                    range = (range.0.max(height), range.1.min(height));
                }
                _ => {}
            }
        }
        // If the search names an account, most blocks have no transaction of it and need not be built.
        let party = conditions.iter().find_map(|condition| match condition {
            Condition::Sender(name) | Condition::Recipient(name) => {
                Some(read(ACCOUNT, name).unwrap_or_default())
            }
            _ => None,
        });
        let heights = (range.0..=range.1)
            .filter(|height| party.as_ref().is_none_or(|party| self.may_concern(*height, party)));
        let blocks = heights.flat_map(|height| self.entries(height));
        Ok(blocks.filter(|entry| conditions.iter().all(|condition| condition.holds(entry))).collect())
    }

    /// Answers `GET txs?query=…`.
    pub(crate) fn search(&mut self, target: &Target) -> Result<Json, Fault> {
        let query = target.get("query").filter(|query| !query.is_empty());
        let texts: Vec<&str> = match query {
            Some(query) => query.split(" AND ").collect(),
            None => target.all("events").collect(),
        };
        if texts.is_empty() {
            return Err(Fault::argument("query cannot be empty"));
        }
        let page = number(target, "page")?.max(1);
        let limit = number(target, "limit")?;
        let limit = if limit == 0 { FOUND } else { limit.min(FOUND) };
        let mut found = self.matching(&texts)?;
        if matches!(target.get("order_by"), Some("ORDER_BY_DESC" | "2")) {
            found.reverse();
        }
        let total = found.len();
        let skipped = usize::try_from((page - 1).saturating_mul(limit)).unwrap_or(usize::MAX);
        let shown: Vec<_> = found.into_iter().skip(skipped).take(limit as usize).collect();
        Ok(object! {
            "txs": shown.iter().map(|entry| entry.tx.json()).collect::<Vec<_>>(),
            "tx_responses": shown.iter().map(|entry| self.response(entry)).collect::<Vec<_>>(),
            "pagination": Json::Null,
            "total": total.to_string(),
        })
    }

    /// Answers `POST txs`.
    pub(crate) fn broadcast(&mut self, request: &[u8], now: Time) -> Result<Json, Fault> {
        let request = body(request)?;
        let raw = tx_bytes(&request)?.ok_or_else(|| Fault::argument("invalid empty tx"))?;
        let is_async = match request.get("mode") {
            Some(Value::String(mode)) if mode == "BROADCAST_MODE_SYNC" => false,
            Some(Value::String(mode)) if mode == "BROADCAST_MODE_ASYNC" => true,
            Some(Value::Number(mode)) if mode.as_u64() == Some(2) => false,
            Some(Value::Number(mode)) if mode.as_u64() == Some(3) => true,
            _ => return Err(Fault::unknown("unsupported return type ; supported types: sync, async")),
        };
        let hash = hex::encode_upper(crate::hash::sha256(&raw));
        let (_, outcome) = self.submit(&raw, now);
        if is_async {
            // The client does not wait for the check.
            return Ok(taken(hash, 0, "", String::new()));
        }
        let codespace = outcome.codespace();
        Ok(taken(hash, outcome.code, codespace, outcome.log))
    }

    /// Answers `POST simulate`.
    pub(crate) fn simulation(&self, request: &[u8]) -> Result<Json, Fault> {
        let request = body(request)?;
        let tx = match (tx_bytes(&request)?, request.get("tx").filter(|tx| !tx.is_null())) {
            (Some(raw), _) => {
                Tx::decode(&raw).map_err(|why| Fault::argument(format!("{why}: tx parse error")))?
            }
            (None, Some(tx)) => {
                from_json(tx).ok_or_else(|| Fault::argument("unable to read the tx: tx parse error"))?
            }
            (None, None) => return Err(Fault::argument("empty txBytes is not allowed")),
        };
        let used = self.simulate(&tx).map_err(|outcome| {
            let used = if outcome.gas_used == 0 { gas(&tx) / 2 } else { outcome.gas_used };
            Fault::unknown(format!("{} with gas used: '{used}'", outcome.log))
        })?;
        let sends = &tx.content.sends;
        let answers: Vec<_> = sends.iter().map(|_| object! { "@type": SENT }).collect();
        Ok(object! {
            // The gas meter of a simulation has no limit.
            "gas_info": object! { "gas_wanted": u64::MAX.to_string(), "gas_used": used.to_string() },
            "result": object! {
                "data": base64(responses(sends)), "log": "", "events": message_events(sends),
                "msg_responses": answers,
            },
        })
    }
}
