//! How blocks and their events are read from a chain's nodes.

use super::{BlockRef, ChainEvent, EventShape, EventType};
use crate::backend::BoxFuture;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// Why something could not be read from a node.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No node could be asked, or none answered in time.
    #[error("no node answers: {0}")]
    Unreachable(String),
    /// The node answered with an error of its own.
    #[error("the node refuses: {code} {message}")]
    Refused {
        /// The code of the JSON-RPC error, or the HTTP status.
        code: i64,
        /// The node's text, shortened.
        message: String,
    },
    /// The node's answer is not what the chain's API says.
    #[error("the node's answer cannot be read: {0}")]
    Unreadable(&'static str),
}

/// Calls to a node of a chain. The calls of one value all go to the same node, as long as it answers: what a reader
/// reads in several steps is seen from one place.
pub trait NodeCalls: Send + Sync + Debug {
    /// Calls a JSON-RPC method with `params`, which is JSON, and returns the raw `result`.
    ///
    /// # Errors
    /// [`ReadError::Refused`] for an `error` in the answer; the others.
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>>;

    /// Requests a path of a REST chain, with a JSON body unless it is empty, and returns the body of the answer.
    ///
    /// # Errors
    /// [`ReadError::Refused`] for a status other than 2xx; the others.
    fn request<'a>(
        &'a self,
        verb: http::Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>>;

    /// Calls a JSON-RPC method over the node's WebSocket, and returns the raw `result`. Calls of one value use one
    /// stream, in their order, so that a method may depend on those before it (Ogmios' `findIntersection` and
    /// `nextBlock`).
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    fn stream_call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>>;
}

/// Says of an address, in its canonical form, whether its activity is watched.
type Watched = dyn Fn(&str) -> bool + Send + Sync;

/// Which events somebody subscribes to, so that nothing else is fetched and made.
#[derive(Clone, Default)]
pub struct Wanted {
    kinds: BTreeSet<EventType>,
    /// The addresses with activity that somebody watches; `None`: every address.
    addresses: Option<Arc<Watched>>,
}

impl Wanted {
    /// Events of these types.
    pub fn new(kinds: impl IntoIterator<Item = EventType>) -> Self {
        Wanted { kinds: kinds.into_iter().collect(), addresses: None }
    }

    /// Activity of addresses of which `watched` is true alone. It gets addresses in their
    /// [canonical form](BlockReader::canonical).
    #[must_use]
    pub fn with_addresses(self, watched: Arc<dyn Fn(&str) -> bool + Send + Sync>) -> Self {
        Wanted { addresses: Some(watched), ..self }
    }

    /// Whether events of this type are wanted.
    pub fn wants(&self, kind: EventType) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether activity of an address, in its canonical form, is wanted.
    pub fn watches(&self, address: &str) -> bool {
        self.wants(EventType::AddressActivity)
            && self.addresses.as_ref().is_none_or(|watched| watched(address))
    }
}

impl Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

/// A block with its events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockEvents {
    /// The block.
    pub block: BlockRef,
    /// Its events, in their order in the block. The event of the block itself comes first, if it is wanted.
    pub events: Vec<ChainEvent>,
}

/// A subscription to new heads over a node's WebSocket. Its frames only say that it is time to read the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadSubscription {
    /// The text frame that subscribes.
    pub subscribe: &'static str,
}

/// Reads a chain block by block. Everything is read anew from the node; a reader has no state.
pub trait BlockReader: Send + Sync + Debug {
    /// The types of events that the blocks of this chain can have, [`EventType::Health`] aside, which every chain has.
    fn kinds(&self) -> &'static [EventType];

    /// The forms that events of this type have on this chain. A filter is refused if its members fit none of them. `None` if
    /// the reader does not say, as by default; then only [`canonical`](Self::canonical) refuses values.
    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        let _ = kind;
        None
    }

    /// The newest block.
    ///
    /// # Errors
    /// [`ReadError`].
    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>>;

    /// The block of the node's chain at `known`'s height, to see whether `known` is still part of it; `None` if there is
    /// none at this height, such as above the head and in a slot that was skipped.
    ///
    /// # Errors
    /// [`ReadError`].
    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>>;

    /// The first block of the node's chain above `known`'s height, with those of its events that are `wanted`; `None` if
    /// there is none yet. Its parent is another than `known` if the chain was reorganised.
    ///
    /// # Errors
    /// [`ReadError`].
    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        wanted: &'a Wanted,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>>;

    /// The node's own subscription to new heads, if it has one.
    fn head_subscription(&self) -> Option<HeadSubscription> {
        None
    }

    /// The form in which events have the value of a filter's key, `address` above all: lower case for hexadecimal digits
    /// that may be written in both cases, one of several spellings of an address. `None` for a value that no event of
    /// this chain can have, such as an address of another chain. By default any value is in this form.
    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        let _ = key;
        Some(value.to_owned())
    }
}
