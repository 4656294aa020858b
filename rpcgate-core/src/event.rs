//! Events of a chain for webhooks, and their extraction from node data.
//!
//! A chain adapter's [`BlockReader`] follows the chain through any connection to a node ([`NodeCalls`]), and turns
//! blocks into [`ChainEvent`]s. It keeps no state, so that one program can continue where another stopped.
//!
//! ```
//! use rpcgate_core::event::{BlockRef, ChainEvent, EventType};
//! use serde_json::json;
//!
//! let block = BlockRef::new(7, "0xb7", "0xb6", 1_700_000_000);
//! let event = ChainEvent::new(EventType::AddressActivity).with("address", "0xa1").with("value", "5");
//! let body = event.body("eth", &block);
//! assert_eq!(
//!     serde_json::from_slice::<serde_json::Value>(&body).ok(),
//!     Some(json!({
//!         "chain": "eth",
//!         "event_type": "address_activity",
//!         "data": {
//!             "chain": "eth",
//!             "event_type": "address_activity",
//!             "block_num": 7,
//!             "block_hash": "0xb7",
//!             "timestamp": 1_700_000_000,
//!             "data": {"address": "0xa1", "value": "5"},
//!         },
//!     })),
//! );
//! ```

mod bound;
mod matching;
mod read;
mod shape;

pub use bound::MAX_EVENT_BODY;
pub use matching::{IndexedSubscription, SubscriptionIndex, SubscriptionMatch};
pub use read::{BlockEvents, BlockReader, EventFilter, HeadSubscription, NodeCalls, ReadError};
pub use shape::{EventMember, EventShape, MemberForm};

use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// Passes the list of event types, in the order of the specification, to another macro. Each has its name in the API and
/// in deliveries, and its text in forms.
#[macro_export]
macro_rules! event_types {
    ($then:ident) => {
        $then! {
            /// A new block.
            NewBlock "new_block" "a new block",
            /// A transaction or call that involves an address.
            AddressActivity "address_activity" "something that involves an address",
            /// A transfer of a token.
            TokenTransfer "token_transfer" "a transfer of a token",
            /// An event of a smart contract.
            ContractEvent "contract_event" "an event of a smart contract",
            /// A change of the chain's health: whether any node answers and is not behind.
            Health "health" "the nodes of the chain are fit again, or no longer",
        }
    };
}

macro_rules! types {
    ($($(#[$text:meta])* $type:ident $name:literal $summary:literal,)*) => {
        /// The type of an event.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum EventType {
            $($(#[$text])* $type,)*
        }

        impl EventType {
            /// Every type, in the order of the specification.
            pub const ALL: [EventType; [$($name),*].len()] = [$(EventType::$type),*];

            /// Returns its name in the API and in deliveries.
            pub const fn name(self) -> &'static str {
                [$($name),*][self as usize]
            }

            /// Returns its text in forms.
            pub const fn summary(self) -> &'static str {
                [$($summary),*][self as usize]
            }
        }
    };
}

event_types!(types);

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that is not the name of an event type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotEventType;

impl fmt::Display for NotEventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an event type")
    }
}

impl std::error::Error for NotEventType {}

impl FromStr for EventType {
    type Err = NotEventType;

    fn from_str(s: &str) -> Result<Self, NotEventType> {
        EventType::ALL.into_iter().find(|kind| kind.name() == s).ok_or(NotEventType)
    }
}

/// The health of a chain's nodes, as reported by events of the type [`Health`](EventType::Health).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthPhase {
    /// At least one node answers and is not behind.
    Healthy,
    /// No node answers and is not behind.
    Degraded,
}

impl HealthPhase {
    /// Returns its name in deliveries.
    pub const fn name(self) -> &'static str {
        match self {
            HealthPhase::Healthy => "Healthy",
            HealthPhase::Degraded => "Degraded",
        }
    }
}

/// A reference to a block, with the data that following a chain needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockRef {
    /// The number: the height, or the chain's own count (slot, checkpoint, ledger, version).
    pub height: u64,
    /// The hash, as the chain's nodes write it.
    pub hash: String,
    /// The hash of the parent block in the same form; empty if the chain's blocks do not name it.
    pub parent: String,
    /// The time, in seconds since 1970.
    pub timestamp: i64,
    /// Additional data to find the block again, such as the slot of a Cardano block; otherwise empty.
    pub position: String,
}

impl BlockRef {
    /// Creates a reference to a block that height and hash suffice to find.
    pub fn new(height: u64, hash: impl Into<String>, parent: impl Into<String>, timestamp: i64) -> Self {
        BlockRef { height, hash: hash.into(), parent: parent.into(), timestamp, position: String::new() }
    }

    /// Sets the additional data.
    #[must_use]
    pub fn with_position(self, position: impl Into<String>) -> Self {
        BlockRef { position: position.into(), ..self }
    }
}

/// An event of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainEvent {
    /// The type.
    pub kind: EventType,
    /// The innermost `data` of its deliveries: a flat object whose members filters compare.
    pub data: Map<String, Value>,
}

#[derive(Serialize)]
struct Body<'a> {
    chain: &'a str,
    event_type: &'a str,
    data: BodyData<'a>,
}

#[derive(Serialize)]
struct BodyData<'a> {
    chain: &'a str,
    event_type: &'a str,
    block_num: u64,
    block_hash: &'a str,
    timestamp: i64,
    data: &'a Map<String, Value>,
}

impl ChainEvent {
    /// Creates an event without data.
    pub fn new(kind: EventType) -> Self {
        ChainEvent { kind, data: Map::new() }
    }

    /// Adds a member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the body of its deliveries, of any size.
    pub fn body(&self, chain: &str, block: &BlockRef) -> Vec<u8> {
        let event_type = self.kind.name();
        let data = BodyData {
            chain,
            event_type,
            block_num: block.height,
            block_hash: &block.hash,
            timestamp: block.timestamp,
            data: &self.data,
        };
        // Serialisation cannot fail: every key is a string.
        serde_json::to_vec(&Body { chain, event_type, data }).unwrap_or_default()
    }
}

/// Returns the retraction of an event: its [body](ChainEvent::body) with `"removed": true` in the innermost `data`.
pub fn removed_body(body: &[u8]) -> Vec<u8> {
    let Some(members) = body.strip_suffix(b"}}}") else { return body.to_vec() };
    let mut removed = Vec::with_capacity(body.len() + 16);
    removed.extend_from_slice(members);
    if !members.ends_with(b"{") {
        removed.push(b',');
    }
    removed.extend_from_slice(b"\"removed\":true}}}");
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_and_its_takeback_differ_in_one_member() {
        let block = BlockRef::new(3, "h", "p", 4);
        for event in
            [ChainEvent::new(EventType::NewBlock), ChainEvent::new(EventType::NewBlock).with("z", "}}}")]
        {
            let body = event.body("btc", &block);
            let removed: Value = serde_json::from_slice(&removed_body(&body)).unwrap();
            assert_eq!(
                removed,
                serde_json::from_slice::<Value>(&event.with("removed", true).body("btc", &block)).unwrap()
            );
        }
    }

    #[test]
    fn names_of_event_types_are_those_of_the_specification() {
        let names = EventType::ALL.map(EventType::name);
        assert_eq!(names, ["new_block", "address_activity", "token_transfer", "contract_event", "health"]);
        for kind in EventType::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!("New_block".parse::<EventType>(), Err(NotEventType));
    }

    #[test]
    fn a_body_has_the_members_of_the_specification_in_their_order() {
        let block = BlockRef::new(3, "h", "p", -1);
        let event = ChainEvent::new(EventType::NewBlock).with("a", "\"ü\u{2028}").with("b", 1);
        assert_eq!(
            String::from_utf8(event.body("btc", &block)).unwrap(),
            "{\"chain\":\"btc\",\"event_type\":\"new_block\",\"data\":{\"chain\":\"btc\",\
            \"event_type\":\"new_block\",\"block_num\":3,\"block_hash\":\"h\",\"timestamp\":-1,\
            \"data\":{\"a\":\"\\\"ü\u{2028}\",\"b\":1}}}"
        );
    }
}
