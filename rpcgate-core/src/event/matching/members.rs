//! The members of an event that filters are compared with.

use super::scalar::ScalarRef;
use crate::event::{BlockRef, ChainEvent};

#[derive(Clone, Copy)]
pub(super) struct Members<'e> {
    pub(super) chain: &'e str,
    pub(super) block: &'e BlockRef,
    pub(super) event: &'e ChainEvent,
}

/// The keys of the outer `data`.
const OUTER: [&str; 5] = ["chain", "event_type", "block_num", "block_hash", "timestamp"];

impl<'e> Members<'e> {
    /// Returns the value in the innermost `data`, or else in the outer one. `None` if it is missing or not a scalar.
    pub(super) fn get(&self, key: &str) -> Option<ScalarRef<'e>> {
        match self.event.data.get(key) {
            Some(value) => ScalarRef::of(value),
            None => self.outer(key),
        }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&'e str, ScalarRef<'e>)> {
        let members = *self;
        let data = &self.event.data;
        let inner = data.iter().filter_map(|(key, value)| Some((key.as_str(), ScalarRef::of(value)?)));
        let outer = OUTER.into_iter().filter(|key| !data.contains_key(*key));
        inner.chain(outer.filter_map(move |key| Some((key, members.outer(key)?))))
    }

    fn outer(&self, key: &str) -> Option<ScalarRef<'e>> {
        Some(match key {
            "chain" => ScalarRef::text(self.chain),
            "event_type" => ScalarRef::text(self.event.kind.name()),
            "block_num" => ScalarRef::number(&self.block.height.into()),
            "block_hash" => ScalarRef::text(&self.block.hash),
            "timestamp" => ScalarRef::number(&self.block.timestamp.into()),
            _ => return None,
        })
    }
}
