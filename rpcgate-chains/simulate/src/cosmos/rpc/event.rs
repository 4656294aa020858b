//! Subscriptions to events: new blocks, their headers, and transactions. Other kinds of events are accepted and never
//! occur.

use super::internal;
use super::query::EventQuery;
use super::show::tx_result;
use crate::cosmos::CosmosNode;
use crate::cosmos::chain::{Chain, Entry};
use crate::cosmos::page::base64;
use crate::cosmos::state::State;
use crate::envelope::Fault;
use crate::json::{Json, object};
use crate::json_rpc;
use crate::stream::{BlockStream, BlockSubscription, SUBSCRIPTIONS, Sessions, Subscriptions, answer};
use rpcgate_core::clock::Time;

/// The subscriptions of one client.
pub(crate) type Session = Subscriptions<Subscription>;

#[derive(Debug)]
pub(crate) struct Subscription {
    /// The id of the request that subscribed, which its events repeat.
    id: String,
    text: String,
    query: EventQuery,
    /// The newest block that was sent to the client.
    told: u64,
}

impl Session {
    pub(super) fn subscribe(&mut self, id: &str, text: &str, head: u64) -> Result<Json, Fault> {
        let query = EventQuery::read(text).map_err(internal)?;
        if self.open.len() >= SUBSCRIPTIONS {
            return Err(internal(format!("max_subscriptions_per_client {SUBSCRIPTIONS} reached")));
        }
        if self.open.iter().any(|open| open.query == query) {
            return Err(internal("already subscribed"));
        }
        self.open.push(Subscription { id: id.to_owned(), text: text.to_owned(), query, told: head });
        Ok(object! {})
    }

    pub(super) fn unsubscribe(&mut self, text: &str) -> Result<Json, Fault> {
        let query = EventQuery::read(text).map_err(internal)?;
        let place = self.open.iter().position(|open| open.query == query);
        self.open.remove(place.ok_or_else(|| internal("subscription not found"))?);
        Ok(object! {})
    }

    pub(super) fn unsubscribe_all(&mut self) -> Result<Json, Fault> {
        if self.open.is_empty() {
            return Err(internal("subscription not found"));
        }
        self.open.clear();
        Ok(object! {})
    }
}

/// Returns the attributes of a transaction by which queries select it.
fn attributes(entry: &Entry, shown: &Json) -> Vec<(String, String)> {
    let row = |key: &str, value: String| (key.to_owned(), value);
    let mut out = vec![
        row("tm.event", "Tx".to_owned()),
        row("tx.hash", entry.tx.name()),
        row("tx.height", entry.height.to_string()),
    ];
    // The events as they are shown: a type, and attributes with key and value.
    let shown: serde_json::Value = serde_json::from_str(&shown.text()).unwrap_or_default();
    for event in shown["events"].as_array().into_iter().flatten() {
        let kind = event["type"].as_str().unwrap_or_default();
        for attribute in event["attributes"].as_array().into_iter().flatten() {
            let text = |name: &str| attribute[name].as_str().unwrap_or_default().to_owned();
            out.push((format!("{kind}.{}", text("key")), text("value")));
        }
    }
    out
}

impl Subscription {
    /// Returns the events of a block for the client.
    fn events(&self, chain: &Chain, height: u64) -> Vec<String> {
        let mut out = Vec::new();
        let plain = |kind: &str| vec![("tm.event".to_owned(), kind.to_owned())];
        if self.query.holds(&plain("NewBlock")) {
            let mut value = chain.comet_block(height);
            value.put("result_finalize_block", chain.finalized(height));
            out.push(self.told("tendermint/event/NewBlock", value, &plain("NewBlock")));
        }
        if self.query.holds(&plain("NewBlockHeader")) {
            let value = object! { "header": chain.comet_header(height) };
            out.push(self.told("tendermint/event/NewBlockHeader", value, &plain("NewBlockHeader")));
        }
        for (index, entry) in chain.entries(height).iter().enumerate() {
            let result = tx_result(entry);
            let attributes = attributes(entry, &result);
            if self.query.holds(&attributes) {
                let tx = object! {
                    "height": height.to_string(), "index": index, "tx": base64(&entry.tx.raw),
                    "result": result,
                };
                let value = object! { "TxResult": tx };
                out.push(self.told("tendermint/event/Tx", value, &attributes));
            }
        }
        out
    }

    fn told(&self, kind: &'static str, value: Json, attributes: &[(String, String)]) -> String {
        let mut events: Vec<(String, Vec<String>)> = Vec::new();
        for (key, value) in attributes {
            match events.iter_mut().find(|(known, _)| known == key) {
                Some((_, values)) => values.push(value.clone()),
                None => events.push((key.clone(), vec![value.clone()])),
            }
        }
        let events = events.into_iter().map(|(key, values)| (key.into(), values.into())).collect();
        let result = object! {
            "query": self.text.clone(),
            "data": object! { "type": kind, "value": value },
            "events": Json::Object(events),
        };
        let mut out = String::new();
        json_rpc::write_id_first(Some(&self.id), Ok(result), &mut out);
        out
    }
}

impl BlockStream for CosmosNode {
    type Subscription = Subscription;

    fn clients(&mut self) -> &mut Sessions<Session> {
        &mut self.sessions
    }

    fn hear(&mut self, session: &mut Session, message: &[u8], now: Time, out: &mut Vec<String>) {
        answer(self, session, message, now, out);
    }
}

impl BlockSubscription<State> for Subscription {
    fn sent(&mut self) -> &mut u64 {
        &mut self.told
    }

    fn of_block(&mut self, chain: &Chain, height: u64) -> Vec<String> {
        self.events(chain, height)
    }
}
