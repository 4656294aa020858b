//! Matching of events with subscriptions, at a cost that does not grow with the number of subscriptions.
//!
//! An event matches a subscription of its chain and type if every key of the filter equals the key of the same name in
//! the event's innermost `data`, or else in the outer one. Texts are compared in [canonical
//! form](super::BlockReader::canonical), which events already use.
//!
//! ```
//! use rpcgate_core::event::{BlockRef, ChainEvent, EventType, IndexedSubscription, SubscriptionIndex};
//!
//! let index = SubscriptionIndex::default();
//! let subscription = IndexedSubscription::new(1, "eth", EventType::AddressActivity)
//!     .of_webhook(2, 3)
//!     .with_filter(serde_json::from_str(r#"{"address": "0xA1"}"#)?);
//! index.insert(&subscription, |_, _, value| Some(value.to_lowercase()));
//!
//! let block = BlockRef::new(7, "0xb7", "0xb6", 1_700_000_000);
//! let event = ChainEvent::new(EventType::AddressActivity).with("address", "0xa1");
//! let found = index.matches("eth", &block, &event);
//! assert_eq!(found.iter().map(|found| (found.subscription, found.webhook)).collect::<Vec<_>>(), [(1, 2)]);
//! assert!(index.filter("eth").watches("0xa1") && !index.filter("eth").watches("0xa2"));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod members;
mod names;
mod scalar;
mod slab;
mod table;
#[cfg(test)]
mod tests;

use super::{BlockRef, ChainEvent, EventFilter, EventType};
use members::Members;
use parking_lot::RwLock;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use table::SubscriptionTable;

/// A subscription in the form that matching needs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IndexedSubscription {
    /// The id.
    pub id: u128,
    /// The id of its endpoint.
    pub webhook: u128,
    /// The project of the endpoint.
    pub project: u128,
    /// The path name of the chain.
    pub chain: String,
    /// The type of the events.
    pub kind: EventType,
    /// The required members of the events' data; `None`: everything matches.
    pub filter: Option<Map<String, Value>>,
    /// The number of blocks on top of an event's block before delivery.
    pub confirmations: u32,
}

impl IndexedSubscription {
    /// Creates a subscription without filter and confirmations, of the endpoint 0.
    pub fn new(id: u128, chain: impl Into<String>, kind: EventType) -> Self {
        let webhook = 0;
        let project = 0;
        let chain = chain.into();
        IndexedSubscription { id, webhook, project, chain, kind, filter: None, confirmations: 0 }
    }

    /// Sets the endpoint and its project.
    #[must_use]
    pub fn of_webhook(self, webhook: u128, project: u128) -> Self {
        IndexedSubscription { webhook, project, ..self }
    }

    /// Sets the filter. An empty one matches everything.
    #[must_use]
    pub fn with_filter(self, filter: Map<String, Value>) -> Self {
        IndexedSubscription { filter: Some(filter), ..self }
    }

    /// Sets the number of confirmations.
    #[must_use]
    pub fn with_confirmations(self, confirmations: u32) -> Self {
        IndexedSubscription { confirmations, ..self }
    }
}

/// A subscription that an event matches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub struct SubscriptionMatch {
    /// The id of the subscription.
    pub subscription: u128,
    /// The id of its endpoint.
    pub webhook: u128,
    /// The project of the endpoint.
    pub project: u128,
    /// The number of blocks on top of the event's block before delivery.
    pub confirmations: u32,
}

/// The subscriptions of all chains, by chain, type and the value of one filter key. Clones share their content.
///
/// An event is looked up once per member, and compared only with the subscriptions that share one. Repeated ids, key
/// names and filter values are stored once.
#[derive(Clone, Default)]
pub struct SubscriptionIndex {
    table: Arc<RwLock<SubscriptionTable>>,
}

impl SubscriptionIndex {
    /// Adds or replaces a subscription. `canonical` converts a text on a chain under a key, like
    /// [`BlockReader::canonical`](super::BlockReader::canonical). If it returns `None`, nothing matches.
    pub fn insert(
        &self,
        subscription: &IndexedSubscription,
        canonical: impl Fn(&str, &str, &str) -> Option<String>,
    ) {
        self.table.write().insert(subscription, &canonical);
    }

    /// Removes a subscription, and returns true if it existed.
    pub fn remove(&self, id: u128) -> bool {
        self.table.write().remove(id)
    }

    /// Replaces all subscriptions of a project atomically.
    pub fn replace_project(
        &self,
        project: u128,
        subscriptions: &[IndexedSubscription],
        canonical: impl Fn(&str, &str, &str) -> Option<String>,
    ) {
        let mut table = self.table.write();
        table.remove_project(project);
        for subscription in subscriptions {
            table.insert(subscription, &canonical);
        }
    }

    /// Removes the subscriptions whose id is not `stored`.
    pub fn retain(&self, keep: impl Fn(u128) -> bool) {
        let mut table = self.table.write();
        let gone: Vec<_> = table.ids().filter(|id| !keep(*id)).collect();
        for id in gone {
            table.remove(id);
        }
    }

    /// Removes all subscriptions.
    pub fn clear(&self) {
        self.table.write().clear();
    }

    /// Returns the chains with a subscription that an event can match.
    pub fn chains(&self) -> Vec<String> {
        self.table.read().chains().map(str::to_owned).collect()
    }

    /// Reports whether a subscription to events of this type on a chain can match.
    pub fn wants(&self, chain: &str, kind: EventType) -> bool {
        self.table.read().counts(chain, kind).is_some_and(|counts| counts.all > 0)
    }

    /// Returns the subscribed types and watched addresses of a chain. Addresses are looked up in the index on demand.
    pub fn filter(&self, chain: &str) -> EventFilter {
        let table = self.table.read();
        let kinds = EventType::ALL.into_iter().filter(|kind| {
            let counts = table.counts(chain, *kind);
            counts.is_some_and(|counts| counts.all > 0)
        });
        let filter = EventFilter::new(kinds);
        let activity = table.counts(chain, EventType::AddressActivity);
        if activity.is_some_and(|counts| counts.without_address > 0) {
            return filter;
        }
        let shared = self.table.clone();
        let chain = chain.to_owned();
        filter.with_addresses(Arc::new(move |address| shared.read().watches(&chain, address)))
    }

    /// Returns the subscriptions that an event of `block` matches, in no order.
    pub fn matches(&self, chain: &str, block: &BlockRef, event: &ChainEvent) -> Vec<SubscriptionMatch> {
        let mut found = Vec::new();
        self.table.read().matches(&Members { chain, block, event }, &mut found);
        found
    }

    /// Returns the number of subscriptions.
    pub fn len(&self) -> usize {
        self.table.read().len()
    }

    /// Reports whether there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for SubscriptionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionIndex").field("subscriptions", &self.len()).finish_non_exhaustive()
    }
}
