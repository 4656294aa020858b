//! The change feed: changes by the management side, in commit order.

use super::{BoxFuture, Unavailable};
use crate::caller::{CustomPlanId, KeyId, ProjectId, TenantId};
use crate::plan::Tier;
use parking_lot::Mutex;
use std::fmt::Debug;

/// Data that a gateway must load again.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A key was created, changed or revoked.
    Key(KeyId),
    /// A project's lists or quota changed.
    Project(ProjectId),
    /// A tenant was suspended, reactivated or moved to another tier.
    Tenant(TenantId),
    /// A built-in plan changed.
    Plan(Tier),
    /// A custom plan changed.
    CustomPlan(CustomPlanId),
    /// A chain was switched on or off, or its weights changed.
    Chain(String),
    /// An operator emptied the cache of a chain.
    Cache(String),
    /// A kind from a newer management side, which this version ignores.
    Other,
}

/// A change with its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbered {
    /// The number. A later commit has a higher number.
    pub number: u64,
    /// The change.
    pub change: Change,
}

/// The maximum number of changes returned at once.
pub const AT_ONCE: usize = 1_000;

/// A source of changes.
pub trait ChangeFeed: Send + Sync + Debug {
    /// Returns the first [`AT_ONCE`] changes above `number`, in order. A reader starts with 0, continues with the
    /// number of the last applied change, and asks again at once if it got [`AT_ONCE`] changes.
    ///
    /// # Errors
    /// Returns [`Unavailable`] if the feed cannot be reached. The reader loses nothing and asks again.
    fn since(&self, number: u64) -> BoxFuture<'_, Result<Vec<Numbered>, Unavailable>>;
}

/// An in-memory feed.
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
        let later = changes[from..]
            .iter()
            .take(AT_ONCE)
            .enumerate()
            .map(|(index, change)| Numbered { number: (from + index + 1) as u64, change: change.clone() })
            .collect();
        Box::pin(std::future::ready(Ok(later)))
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
