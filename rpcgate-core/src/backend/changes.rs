//! The change feed: changes made by the management side, in the order of their commits.

use super::{BoxFuture, Unavailable};
use crate::caller::{CustomPlanId, KeyId, ProjectId, TenantId};
use crate::plan::Tier;
use parking_lot::Mutex;
use std::fmt::Debug;

/// Something that a gateway must load again.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A key was created, changed or revoked.
    Key(KeyId),
    /// A project's lists or quota changed.
    Project(ProjectId),
    /// A tenant was suspended, reactivated or moved to another tier.
    Tenant(TenantId),
    /// A plan's figures changed.
    Plan(Tier),
    /// The figures of a plan of an operator's own changed.
    CustomPlan(CustomPlanId),
    /// A chain was switched on or off, or its weights changed.
    Chain(String),
    /// An operator has emptied the cache of a chain.
    Cache(String),
    /// A kind that a newer management side writes. It concerns nothing in this version.
    Other,
}

/// A change with its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbered {
    /// Its number: higher than that of every change committed before it.
    pub number: u64,
    /// The change.
    pub change: Change,
}

/// The largest number of changes that are returned at once.
pub const AT_ONCE: usize = 1_000;

/// A source of changes.
pub trait ChangeFeed: Send + Sync + Debug {
    /// The first [`AT_ONCE`] changes above `number`, in order; empty when there are none. A reader starts with 0, remembers
    /// the number of the last change that it has applied, and asks again: immediately, if it got [`AT_ONCE`] changes.
    ///
    /// # Errors
    /// [`Unavailable`] when the feed cannot be reached; the reader loses nothing and asks again.
    fn since(&self, number: u64) -> BoxFuture<'_, Result<Vec<Numbered>, Unavailable>>;
}

/// A feed in memory.
#[derive(Debug, Default)]
pub struct MemoryChanges {
    changes: Mutex<Vec<Change>>,
}

impl MemoryChanges {
    /// Appends a change.
    pub fn publish(&self, change: Change) {
        self.changes.lock().push(change);
    }
}

impl ChangeFeed for MemoryChanges {
    fn since(&self, number: u64) -> BoxFuture<'_, Result<Vec<Numbered>, Unavailable>> {
        let changes = self.changes.lock();
        let from = usize::try_from(number).unwrap_or(usize::MAX).min(changes.len());
        let news = changes[from..]
            .iter()
            .take(AT_ONCE)
            .enumerate()
            .map(|(index, change)| Numbered { number: (from + index + 1) as u64, change: change.clone() })
            .collect();
        Box::pin(std::future::ready(Ok(news)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::suite;

    #[test]
    fn memory_passes_the_suite_of_change_feeds() {
        suite::changes(|| {
            let changes = std::sync::Arc::new(MemoryChanges::default());
            let writer = changes.clone();
            (changes, Box::new(move |change| writer.publish(change)))
        });
    }
}
