//! The WebSocket of rippled: commands as over HTTP in another envelope, and `subscribe`.
//!
//! Proposed transactions are reported when they are validated. Streams without a subject here (validations, consensus,
//! order books) stay silent.

use super::fields::result_of;
use super::ledger::{Accounts, Chain, Entry, FEE, RESERVE, RESERVE_INCREMENT, RIPPLE_EPOCH};
use super::method::{Params, Trouble};
use super::show::{NETWORK, iso};
use super::wire::{Account, parse_address, upper};
use super::{Context, XrpNode, from_value, method, repeated, version};
use crate::json::{Json, object};
use crate::stream::{BlockStream, BlockSubscription, SUBSCRIPTIONS, Sessions, Subscriptions};
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The streams that a client may name.
const STREAMS: [&str; 10] = [
    "ledger",
    "transactions",
    "transactions_proposed",
    "server",
    "validations",
    "manifests",
    "consensus",
    "book_changes",
    "rt_transactions",
    "peer_status",
];
/// The only stream that is restricted to administrators.
const PEER_STATUS: &str = "peer_status";

/// The subscriptions of one client.
pub(crate) type Session = Subscriptions<Subscription>;

#[derive(Debug)]
pub(crate) struct Subscription {
    subject: Subject,
    /// The API version of the command that subscribed.
    version: u64,
    /// The newest ledger that was sent to the client.
    told: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Stream(&'static str),
    /// The transactions of an account.
    Account(Account),
}

impl Subject {
    /// Returns the messages about a ledger.
    fn of_ledger(&self, chain: &Chain, index: u64, version: u64) -> Vec<Json> {
        let entries = || chain.entries(index);
        match self {
            Subject::Stream("ledger") => vec![chain.ledger_closed(index, true)],
            Subject::Stream("transactions" | "transactions_proposed") => {
                entries().iter().map(|entry| chain.transaction_told(index, entry, version)).collect()
            }
            Subject::Stream(_) => Vec::new(),
            Subject::Account(account) => {
                let concerns = |entry: &Entry| {
                    ["Account", "Destination"].iter().any(|name| entry.tx.account(name) == Some(*account))
                };
                let entries = entries();
                let concerned = entries.iter().filter(|entry| concerns(entry));
                concerned.map(|entry| chain.transaction_told(index, entry, version)).collect()
            }
        }
    }
}

impl Chain {
    /// Returns a closed ledger: as a message, or as the answer to a subscription.
    fn ledger_closed(&self, index: u64, is_message: bool) -> Json {
        let header = self.header(index);
        let mut out = object! {
            "fee_base": FEE,
            "ledger_hash": upper(&header.hash),
            "ledger_index": index,
            "ledger_time": header.close,
            "network_id": NETWORK,
            "reserve_base": RESERVE,
            "reserve_inc": RESERVE_INCREMENT,
            "validated_ledgers": format!("{}-{index}", self.oldest_ledger()),
        };
        if is_message {
            out.put("txn_count", self.entries(index).len());
            out.put("type", "ledgerClosed");
        }
        out
    }

    fn transaction_told(&self, index: u64, entry: &Entry, version: u64) -> Json {
        let engine = result_of(entry.meta.number("TransactionResult").unwrap_or(0));
        let close = self.header(index).close;
        let mut tx = entry.tx.json();
        tx.put("date", close);
        let mut out = object! {
            "close_time_iso": iso(close + RIPPLE_EPOCH),
            "engine_result": engine.name,
            "engine_result_code": engine.code,
            "engine_result_message": engine.message,
            "ledger_hash": upper(&self.hash(index)),
            "ledger_index": index,
            "meta": entry.meta_json(),
            "status": "closed",
            "type": "transaction",
            "validated": true,
        };
        if version > 1 {
            tx.put("ledger_index", index);
            out.put("hash", upper(&entry.hash));
            out.put("tx_json", tx);
        } else {
            tx.put("hash", upper(&entry.hash));
            out.put("transaction", tx);
        }
        out
    }
}

/// Reads a list of strings; `None` if the parameter is omitted.
fn list<'a>(params: &'a Params, name: &str) -> Result<Option<Vec<&'a str>>, Trouble> {
    let Some(value) = params.get(name) else { return Ok(None) };
    let items = value.as_array().ok_or_else(|| Trouble::invalid("Invalid parameters."))?;
    let malformed = || Trouble::new("malformedStream", 48, "Stream malformed.");
    items.iter().map(|item| item.as_str().ok_or_else(malformed)).collect::<Result<_, _>>().map(Some)
}

/// Returns the subjects that `subscribe` or `unsubscribe` names.
fn subjects(params: &Params) -> Result<Vec<Subject>, Trouble> {
    if params.contains_key("url") {
        return Err(Trouble::new("noPermission", 6, "You don't have permission for this command."));
    }
    let mut out = Vec::new();
    for name in list(params, "streams")?.unwrap_or_default() {
        let known = STREAMS.iter().find(|known| **known == name);
        let known = known.ok_or_else(|| Trouble::new("malformedStream", 48, "Stream malformed."))?;
        if *known == PEER_STATUS {
            return Err(Trouble::new("noPermission", 6, "You don't have permission for this command."));
        }
        out.push(Subject::Stream(known));
    }
    for name in ["accounts_proposed", "accounts"] {
        let Some(accounts) = list(params, name)? else { continue };
        let malformed = || Trouble::new("actMalformed", 35, "Account malformed.");
        if accounts.is_empty() {
            return Err(malformed());
        }
        for text in accounts {
            out.push(Subject::Account(parse_address(text).ok_or_else(malformed)?));
        }
    }
    if params.get("books").is_some_and(|pairs| !pairs.is_array()) {
        return Err(Trouble::invalid("Invalid parameters."));
    }
    Ok(out)
}

impl XrpNode {
    fn subscribe(&self, session: &mut Session, params: &Params, context: Context) -> Result<Json, Trouble> {
        let chain = &self.chain;
        let subjects = subjects(params)?;
        let fresh: Vec<_> = subjects
            .iter()
            .filter(|subject| session.open.iter().all(|open| open.subject != **subject))
            .collect();
        if session.open.len() + fresh.len() > SUBSCRIPTIONS {
            return Err(Trouble::new("slowDown", 10, "You are placing too much load on the server."));
        }
        let told = chain.head;
        let fresh: Vec<_> = fresh
            .into_iter()
            .map(|subject| Subscription { subject: subject.clone(), version: context.version, told })
            .collect();
        session.open.extend(fresh);
        let mut out = object! {};
        if subjects.contains(&Subject::Stream("ledger")) {
            out = chain.ledger_closed(chain.head, false);
        }
        if subjects.contains(&Subject::Stream("server")) {
            out.put("hostid", "GULF");
            out.put("load_base", 256u64);
            out.put("load_factor", 256u64);
            out.put("random", upper(&chain.seed.bytes::<32>("random", context.now.micros())));
            out.put("server_status", "full");
        }
        Ok(out)
    }

    fn run_command(
        &mut self,
        session: &mut Session,
        command: &str,
        params: &Params,
        context: Context,
    ) -> Result<Json, Trouble> {
        match command {
            "subscribe" => self.subscribe(session, params, context),
            "unsubscribe" => {
                let subjects = subjects(params)?;
                session.open.retain(|open| !subjects.contains(&open.subject));
                Ok(object! {})
            }
            command if method::is_for_administrators(command) => {
                Err(Trouble::new("noPermission", 6, "You don't have permission for this command."))
            }
            command => self.call(command, params, context),
        }
    }

    /// Answers one frame.
    fn answer_frame(&mut self, session: &mut Session, frame: &Params, now: Time) -> Json {
        let mut params = frame.clone();
        params.remove("id");
        let command = match (params.remove("command"), params.remove("method")) {
            (Some(Value::String(command)), _) | (None, Some(Value::String(command))) => Some(command),
            _ => None,
        };
        let outcome = match (version(&params), command) {
            (None, _) => Err(bare("invalid_API_version")),
            (_, None) => Err(bare("missingCommand")),
            (Some(version), Some(command)) => {
                let context = Context { now, since: *self.since.get_or_insert(now), version };
                self.run_command(session, &command, &params, context)
            }
        };
        let mut out = match outcome {
            Ok(mut result) => {
                if let Json::Object(members) = &mut result {
                    members.sort_by(|a, b| a.0.cmp(&b.0));
                }
                object! { "result": result, "status": "success", "type": "response" }
            }
            Err(trouble) => {
                let mut out = object! {
                    "error": trouble.name, "request": repeated(frame), "status": "error", "type": "response",
                };
                if let Some((code, message)) = trouble.words {
                    out.put("error_code", code);
                    out.put("error_message", message);
                }
                trouble.more.into_iter().for_each(|(name, value)| out.put(name, value));
                out
            }
        };
        for name in ["api_version", "id"] {
            if let (Some(value), Json::Object(members)) = (frame.get(name), &mut out) {
                members.insert(0, (name.into(), from_value(value)));
            }
        }
        out
    }
}

/// Returns an error without code and text.
fn bare(name: &'static str) -> Trouble {
    Trouble { name, words: None, more: Vec::new() }
}

impl BlockStream for XrpNode {
    type Subscription = Subscription;

    fn clients(&mut self) -> &mut Sessions<Session> {
        &mut self.sessions
    }

    fn hear(&mut self, session: &mut Session, message: &[u8], now: Time, out: &mut Vec<String>) {
        let answer = match serde_json::from_slice::<Params>(message) {
            Ok(frame) => self.answer_frame(session, &frame, now),
            Err(_) => object! {
                "error": "jsonInvalid", "type": "error",
                "value": String::from_utf8_lossy(message).into_owned(),
            },
        };
        out.push(answer.text());
    }
}

impl BlockSubscription<Accounts> for Subscription {
    fn sent(&mut self) -> &mut u64 {
        &mut self.told
    }

    fn of_block(&mut self, chain: &Chain, index: u64) -> Vec<String> {
        self.subject.of_ledger(chain, index, self.version).iter().map(Json::text).collect()
    }
}

#[cfg(test)]
mod tests;
