//! Readers of chains, and checks of their events.

use crate::node::SimulatedNode;
use rpcgate_chains::by_path;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventType, NodeCalls, ReadError,
};
use serde_json::Value;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Returns a filter that wants everything.
pub(crate) fn all() -> EventFilter {
    EventFilter::new(EventType::ALL)
}

pub(crate) fn only(kinds: &[EventType]) -> EventFilter {
    EventFilter::new(kinds.iter().copied())
}

pub(crate) fn at_height(height: u64) -> BlockRef {
    BlockRef::new(height, "", "", 0)
}

/// Returns the output of a future that never waits.
#[track_caller]
fn done<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("these nodes answer at once"),
    }
}

pub(crate) fn names(event: &ChainEvent) -> Vec<&str> {
    let mut names: Vec<_> = event.data.keys().map(String::as_str).collect();
    // Their order depends on a feature of serde_json that other crates choose.
    names.sort_unstable();
    names
}

/// Returns the names of the members of events, in alphabetical order.
pub(crate) fn members(events: &[ChainEvent]) -> Vec<&str> {
    let mut out: Vec<_> = events.iter().flat_map(names).collect();
    out.sort_unstable();
    out.dedup();
    out
}

pub(crate) fn data(events: &[ChainEvent]) -> Vec<Value> {
    events.iter().map(|event| Value::Object(event.data.clone())).collect()
}

pub(crate) fn data_of(events: &[ChainEvent], kind: EventType) -> Vec<Value> {
    let of_kind = events.iter().filter(|event| event.kind == kind);
    of_kind.map(|event| Value::Object(event.data.clone())).collect()
}

#[track_caller]
pub(crate) fn text<'a>(event: &'a ChainEvent, name: &str) -> &'a str {
    event.data.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("no {name}: {:?}", event.data))
}

pub(crate) fn events_in(blocks: &[BlockEvents]) -> Vec<ChainEvent> {
    blocks.iter().flat_map(|block| block.events.clone()).collect()
}

/// Checks that event data has only scalars and the known lists.
#[track_caller]
pub(crate) fn assert_flat(events: &[ChainEvent]) {
    for event in events {
        for (name, value) in &event.data {
            match value {
                Value::Object(_) | Value::Null => panic!("{event:?}"),
                Value::Array(_) => assert!(matches!(name.as_str(), "topics" | "attributes"), "{event:?}"),
                value => assert!(!value.is_f64(), "{event:?}"),
            }
        }
    }
}

/// Checks that every event has a shape that its reader documents: filters are checked against it.
#[track_caller]
fn assert_documented(reader: &dyn BlockReader, events: &[ChainEvent]) {
    for event in events {
        let shapes = reader.shapes(event.kind).unwrap();
        assert!(shapes.iter().any(|shape| shape.fits(&event.data)), "{event:?}");
    }
}

#[derive(Debug)]
pub(crate) struct Reader(Arc<dyn Adapter>);

impl Reader {
    pub(crate) fn of(chain: &str) -> Self {
        Reader(by_path(chain).unwrap())
    }

    pub(crate) fn inner(&self) -> &dyn BlockReader {
        self.0.block_reader().unwrap()
    }

    pub(crate) fn kinds(&self) -> &'static [EventType] {
        self.inner().kinds()
    }

    pub(crate) fn canonical(&self, key: &str, value: &str) -> Option<String> {
        self.inner().canonical(key, value)
    }

    pub(crate) fn head(&self, node: &dyn NodeCalls) -> Result<BlockRef, ReadError> {
        done(self.inner().head(node))
    }

    pub(crate) fn at(&self, node: &dyn NodeCalls, known: &BlockRef) -> Result<Option<BlockRef>, ReadError> {
        done(self.inner().at(node, known))
    }

    pub(crate) fn after(
        &self,
        node: &dyn NodeCalls,
        known: &BlockRef,
        wanted: &EventFilter,
    ) -> Result<Option<BlockEvents>, ReadError> {
        let found = done(self.inner().after(node, known, wanted));
        if let Ok(Some(block)) = &found {
            assert_documented(self.inner(), &block.events);
        }
        found
    }

    pub(crate) fn back(&self, node: &dyn NodeCalls, depth: u64) -> BlockRef {
        let head = self.head(node).unwrap();
        let known = BlockRef { height: head.height - depth, ..head };
        self.at(node, &known).unwrap().unwrap()
    }

    /// Returns consecutive blocks with all their events.
    pub(crate) fn some(&self, node: &dyn NodeCalls, count: u64) -> Vec<BlockEvents> {
        let mut known = self.back(node, count + 10);
        let mut blocks = Vec::new();
        for _ in 0..count {
            let next = self.after(node, &known, &all()).unwrap().unwrap();
            known = next.block.clone();
            blocks.push(next);
        }
        blocks
    }

    /// Returns the first event of a type in some blocks, with its block.
    #[track_caller]
    pub(crate) fn first(&self, node: &dyn NodeCalls, kind: EventType) -> (BlockRef, ChainEvent) {
        let blocks = self.some(node, 40).into_iter();
        let found = blocks.filter_map(|BlockEvents { block, events }| {
            Some((block, events.into_iter().find(|event| event.kind == kind)?))
        });
        found.into_iter().next().unwrap()
    }

    /// Returns the blocks after `height`, up to the newest, each the parent of the next one.
    #[track_caller]
    pub(crate) fn blocks_after(
        &self,
        node: &dyn NodeCalls,
        height: u64,
        wanted: &EventFilter,
    ) -> Vec<BlockEvents> {
        let mut known = at_height(height);
        let mut out = Vec::<BlockEvents>::new();
        while let Some(next) = self.after(node, &known, wanted).unwrap() {
            assert_eq!(next.block.height, known.height + 1);
            if let Some(before) = out.last() {
                assert_eq!(next.block.parent, before.block.hash);
                assert!(next.block.timestamp >= before.block.timestamp);
            }
            assert_eq!(self.at(node, &next.block).unwrap().as_ref(), Some(&next.block));
            known = next.block.clone();
            out.push(next);
        }
        assert_eq!(self.head(node).unwrap(), known, "up to the newest");
        out
    }
}

/// Returns the events of one type in the newest blocks of a simulated chain. Checks that there are some, that no others
/// come with them, and that their values have the form with which filters are compared.
#[track_caller]
pub(crate) fn events_of(chain: &str, kind: EventType) -> Vec<ChainEvent> {
    let reader = Reader::of(chain);
    assert!(reader.kinds().contains(&kind), "{chain} {kind}");
    let node = SimulatedNode::of(chain);
    let head = reader.head(&node).unwrap();
    let blocks = reader.blocks_after(&node, head.height - 40, &only(&[kind]));
    assert_eq!(blocks.len(), 40);
    let events = events_in(&blocks);
    assert!(!events.is_empty(), "{chain} has events of the type {kind}");
    assert_flat(&events);
    for event in &events {
        assert_eq!(event.kind, kind, "{chain}");
        for (name, value) in &event.data {
            if let Value::String(text) = value {
                assert_eq!(reader.canonical(name, text).as_ref(), Some(text), "{chain} {kind} {name}");
            }
        }
    }
    let nothing = reader.blocks_after(&node, head.height - 5, &only(&[]));
    assert!(nothing.iter().all(|block| block.events.is_empty()), "what nobody wants is not told");
    events
}

#[derive(Debug)]
pub(crate) struct Reading<N> {
    reader: Reader,
    pub(crate) node: N,
}

impl<N: NodeCalls> Reading<N> {
    pub(crate) fn new(chain: &str, node: N) -> Self {
        Reading { reader: Reader::of(chain), node }
    }

    pub(crate) fn head(&self) -> Result<BlockRef, ReadError> {
        self.reader.head(&self.node)
    }

    pub(crate) fn at(&self, known: &BlockRef) -> Result<Option<BlockRef>, ReadError> {
        self.reader.at(&self.node, known)
    }

    pub(crate) fn after(
        &self,
        known: &BlockRef,
        wanted: &EventFilter,
    ) -> Result<Option<BlockEvents>, ReadError> {
        self.reader.after(&self.node, known, wanted)
    }

    #[track_caller]
    pub(crate) fn events(&self, known: &BlockRef, kind: EventType) -> Vec<ChainEvent> {
        let next = self.after(known, &only(&[kind])).unwrap().unwrap();
        assert!(next.events.iter().all(|event| event.kind == kind));
        next.events
    }
}

impl Reading<SimulatedNode> {
    pub(crate) fn simulated(chain: &str) -> Self {
        Reading::new(chain, SimulatedNode::of(chain))
    }

    /// Follows the chain from its head for `count` blocks, which come within `millis` each. Every block but those of
    /// Aptos names the one before it, and is found again at its height.
    #[track_caller]
    pub(crate) fn follow(&self, kinds: &[EventType], count: usize, millis: u64) -> Vec<BlockEvents> {
        let wanted = only(kinds);
        let mut known = self.head().unwrap();
        let mut found = Vec::new();
        for _ in 0..50 * count {
            match self.after(&known, &wanted).unwrap() {
                None => self.node.wait(millis),
                Some(next) => {
                    assert!(next.block.parent.is_empty() || next.block.parent == known.hash);
                    assert!(next.block.height > known.height && next.block.timestamp >= known.timestamp);
                    assert_eq!(self.at(&next.block), Ok(Some(next.block.clone())));
                    assert!(next.events.iter().all(|event| kinds.contains(&event.kind)));
                    known = next.block.clone();
                    found.push(next);
                }
            }
            if found.len() == count {
                return found;
            }
        }
        panic!("{} of {count} blocks", found.len());
    }
}
