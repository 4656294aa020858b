//! `eth_subscribe`: notifications about new blocks, logs and pending transactions, as in go-ethereum's publish and
//! subscribe API.

use super::EvmNode;
use super::chain::{Chain, EvmState};
use super::logs::Query;
use super::params::{Params, invalid};
use crate::envelope::{Fault, Request};
use crate::json::{Json, object};
use crate::stream::{
    BlockStream, BlockSubscription, PUSHES, SUBSCRIPTIONS, Sessions, StreamCall, StreamRpc, Subscriptions,
    answer,
};
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The subscriptions of one client.
pub(crate) type Session = Subscriptions<Subscription>;

#[derive(Debug)]
pub(crate) struct Subscription {
    id: String,
    subject: Subject,
    /// The newest block that was sent to the client.
    told: u64,
    /// The pool's arrival count at the last notification about a pending transaction.
    arrivals: u64,
}

/// The subject of a subscription.
#[derive(Debug)]
enum Subject {
    Heads,
    Logs(Query),
    /// Pending transactions: whole ones, or their hashes.
    Pending {
        full: bool,
    },
    /// Changes of the synchronization, which never occur.
    Syncing,
}

impl Subject {
    fn read(params: Value) -> Result<Self, Fault> {
        let params = Params::take(params, 1, 2)?;
        let name = params.get(0).as_str().ok_or_else(|| invalid(0, "json: cannot unmarshal non-string"))?;
        Ok(match name {
            "newHeads" => Subject::Heads,
            "logs" if params.get(1).is_null() => {
                Subject::Logs(Query::read(&Value::Object(Default::default()))?)
            }
            "logs" => Subject::Logs(Query::read(params.get(1))?),
            "newPendingTransactions" => Subject::Pending { full: params.flag(1)? },
            "syncing" => Subject::Syncing,
            _ => {
                let message = format!("no {name:?} subscription in eth namespace");
                return Err(Fault::new(-32601, message));
            }
        })
    }

    /// Returns the notifications for block `height`.
    fn of_block(&self, chain: &Chain, height: u64) -> Vec<Json> {
        match self {
            Subject::Heads => vec![chain.head_json(height)],
            Subject::Logs(query) => chain.logs_between(query, height, height),
            // Once a block exists, the traffic of the next one is pending.
            Subject::Pending { full } => {
                let entries = chain.announced(height + 1);
                let shown = |entry: &super::chain::Entry| match full {
                    true => chain.waiting_json(&entry.tx, &entry.from),
                    false => Json::data(&entry.tx.hash),
                };
                entries.iter().map(shown).collect()
            }
            Subject::Syncing => Vec::new(),
        }
    }
}

impl Chain {
    /// Returns a block's header as subscriptions show it, without members that no header has.
    fn head_json(&self, height: u64) -> Json {
        let mut header = self.header_json(height, &self.entries(height));
        if let Json::Object(members) = &mut header {
            members.retain(|(name, _)| name != "size" && name != "totalDifficulty");
        }
        header
    }
}

impl Subscription {
    fn notification(&self, result: Json) -> String {
        let params = object! { "subscription": self.id.clone(), "result": result };
        object! { "jsonrpc": "2.0", "method": "eth_subscription", "params": params }.text()
    }

    /// Sends notifications about transactions that clients have submitted.
    fn push_arrivals(&mut self, chain: &Chain, out: &mut Vec<String>) {
        let Subject::Pending { full } = self.subject else { return };
        let fresh = chain.state.pool.since(self.arrivals);
        let taken = fresh.len().min(PUSHES.saturating_sub(out.len()));
        for hash in fresh.iter().take(taken) {
            match (full, chain.state.pool.find(hash)) {
                (false, _) => out.push(self.notification(Json::data(hash))),
                (true, Some((tx, from))) => out.push(self.notification(chain.waiting_json(tx, from))),
                (true, None) => {}
            }
        }
        self.arrivals = chain.state.pool.arrivals() - (fresh.len() - taken) as u64;
    }
}

impl EvmNode {
    fn subscribe(&mut self, session: &mut Session, params: Value) -> Result<Json, Fault> {
        let subject = Subject::read(params)?;
        if session.open.len() >= SUBSCRIPTIONS {
            return Err(Fault::new(-32000, "too many subscriptions"));
        }
        self.subscribed += 1;
        let id = Json::quantity_of(&self.chain.seed.bytes::<16>("subscription", self.subscribed));
        let Json::Text(text) = &id else { return Ok(id) };
        session.open.push(Subscription {
            id: text.clone().into_owned(),
            subject,
            told: self.chain.head,
            arrivals: self.chain.state.pool.arrivals(),
        });
        Ok(id)
    }

    fn unsubscribe(session: &mut Session, params: Value) -> Result<Json, Fault> {
        let params = Params::take(params, 1, 1)?;
        let id = params.get(0).as_str().unwrap_or_default();
        let place = session.open.iter().position(|subscription| subscription.id == id);
        let place = place.ok_or_else(|| Fault::new(-32000, "subscription not found"))?;
        session.open.remove(place);
        Ok(true.into())
    }
}

impl StreamRpc for EvmNode {
    fn stream_call(
        &mut self,
        session: &mut Session,
        _: &Request,
        method: &str,
        params: Value,
        _: Time,
    ) -> StreamCall<Fault> {
        match method {
            "eth_subscribe" => StreamCall::Answer(self.subscribe(session, params)),
            "eth_unsubscribe" => StreamCall::Answer(EvmNode::unsubscribe(session, params)),
            _ => StreamCall::Ordinary(params),
        }
    }
}

impl BlockStream for EvmNode {
    type Subscription = Subscription;

    fn clients(&mut self) -> &mut Sessions<Session> {
        &mut self.sessions
    }

    fn hear(&mut self, session: &mut Session, message: &[u8], now: Time, out: &mut Vec<String>) {
        answer(self, session, message, now, out);
    }
}

impl BlockSubscription<EvmState> for Subscription {
    fn sent(&mut self) -> &mut u64 {
        &mut self.told
    }

    fn of_block(&mut self, chain: &Chain, height: u64) -> Vec<String> {
        self.subject.of_block(chain, height).into_iter().map(|told| self.notification(told)).collect()
    }

    fn push_early(&mut self, chain: &Chain, out: &mut Vec<String>) {
        self.push_arrivals(chain, out);
    }

    fn is_early_due(&self, chain: &Chain) -> bool {
        matches!(self.subject, Subject::Pending { .. }) && self.arrivals < chain.state.pool.arrivals()
    }
}

#[cfg(test)]
mod tests;
