//! Reading of blocks and events from a chain's nodes.

use super::{BlockRef, ChainEvent, EventShape, EventType};
use crate::backend::BoxFuture;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// The reason why a read from a node failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No node was reachable, or none answered in time.
    #[error("no node answers: {0}")]
    Unreachable(String),
    /// The node answered with its own error.
    #[error("the node refuses: {code} {message}")]
    Refused {
        /// The code of the JSON-RPC error, or the HTTP status.
        code: i64,
        /// The node's text, shortened.
        message: String,
    },
    /// The node's answer does not follow the chain's API.
    #[error("the node's answer cannot be read: {0}")]
    Unreadable(&'static str),
}

/// Calls to a chain's node. One value keeps to the same node while it answers, for consistent reads in several steps.
pub trait NodeCalls: Send + Sync + Debug {
    /// Calls a JSON-RPC method with the JSON `params`, and returns the raw `result`.
    ///
    /// # Errors
    /// Returns [`ReadError::Refused`] for an `error` in the answer, or another [`ReadError`].
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>>;

    /// Requests a path of a REST chain, with a JSON body unless it is empty, and returns the body of the answer.
    ///
    /// # Errors
    /// Returns [`ReadError::Refused`] for a status other than 2xx, or another [`ReadError`].
    fn request<'a>(
        &'a self,
        verb: http::Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>>;

    /// Calls a JSON-RPC method over the node's WebSocket, and returns the raw `result`. Calls share one stream in
    /// order, so a method may depend on earlier ones (Ogmios' `findIntersection` and `nextBlock`).
    ///
    /// # Errors
    /// Returns the errors of [`call`](Self::call).
    fn stream_call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>>;
}

/// A predicate on canonical addresses: true if their activity is watched.
type Watched = dyn Fn(&str) -> bool + Send + Sync;

/// The events with subscribers. Nothing else is fetched or built.
#[derive(Clone, Default)]
pub struct EventFilter {
    kinds: BTreeSet<EventType>,
    /// The watched addresses; `None`: every address.
    addresses: Option<Arc<Watched>>,
}

impl EventFilter {
    /// Creates a set of these types.
    pub fn new(kinds: impl IntoIterator<Item = EventType>) -> Self {
        EventFilter { kinds: kinds.into_iter().collect(), addresses: None }
    }

    /// Restricts activity to [canonical](BlockReader::canonical) addresses for which `watched` is true.
    #[must_use]
    pub fn with_addresses(self, watched: Arc<dyn Fn(&str) -> bool + Send + Sync>) -> Self {
        EventFilter { addresses: Some(watched), ..self }
    }

    /// Reports whether events of this type are wanted.
    pub fn wants(&self, kind: EventType) -> bool {
        self.kinds.contains(&kind)
    }

    /// Reports whether activity of a canonical address is wanted.
    pub fn watches(&self, address: &str) -> bool {
        self.wants(EventType::AddressActivity)
            && self.addresses.as_ref().is_none_or(|watched| watched(address))
    }
}

impl Debug for EventFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFilter").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

/// A block with its events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockEvents {
    /// The block.
    pub block: BlockRef,
    /// The events, in block order. The event of the block itself comes first, if wanted.
    pub events: Vec<ChainEvent>,
}

/// A subscription to new heads over a node's WebSocket. Its frames only trigger a read of the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadSubscription {
    /// The text frame that subscribes.
    pub subscribe: &'static str,
}

/// A stateless reader of a chain, block by block. It reads everything from the node each time.
pub trait BlockReader: Send + Sync + Debug {
    /// Returns the event types of this chain's blocks, without [`EventType::Health`], which every chain has.
    fn kinds(&self) -> &'static [EventType];

    /// Returns the shapes of events of this type. A filter that fits none of them is refused. `None` if they are
    /// unknown: then only [`canonical`](Self::canonical) refuses values.
    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        let _ = kind;
        None
    }

    /// Reads the newest block.
    ///
    /// # Errors
    /// Returns a [`ReadError`] if the node cannot be read.
    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>>;

    /// Reads the node's block at `known`'s height, to check whether `known` is still in the chain. `None` above the
    /// head or in a skipped slot.
    ///
    /// Returns a [`ReadError`] if the node cannot be read.
    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>>;

    /// Reads the first block above `known`'s height, with its `filter` events, if it exists. After a reorganisation,
    /// its parent is not `known`.
    ///
    /// Returns a [`ReadError`] if the node cannot be read.
    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>>;

    /// Returns the node's own subscription to new heads, if it has one.
    fn head_subscription(&self) -> Option<HeadSubscription> {
        None
    }

    /// Returns the form of a filter value (mainly an `address`) in events: lower case for hexadecimal digits, or one of
    /// several spellings. `None` for a value that no event can have, such as another chain's address.
    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        let _ = key;
        Some(value.to_owned())
    }
}
