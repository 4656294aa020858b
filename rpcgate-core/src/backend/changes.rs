//! The change feed: what the management side has changed, in the order it was committed.

use super::{BoxFuture, Unavailable};
use crate::caller::{KeyId, ProjectId, TenantId};
use crate::plan::Tier;
use parking_lot::Mutex;
use std::fmt::Debug;

/// Something a gateway must look at anew.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A key was made, changed or revoked.
    Key(KeyId),
    /// A project's lists or quota changed.
    Project(ProjectId),
    /// A tenant was suspended, reactivated or moved to another tier.
    Tenant(TenantId),
    /// A plan's figures changed.
    Plan(Tier),
    /// A chain was switched on or off, or its weights changed.
    Chain(String),
    /// Of a kind that a newer management side writes: there is nothing here that it could concern.
    Other,
}

/// A change and its place in the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbered {
    /// Its place: above that of every change committed before it.
    pub number: u64,
    /// What changed.
    pub change: Change,
}

/// Changes that are told at once.
pub const AT_ONCE: usize = 1_000;

/// Tells what has changed.
pub trait ChangeFeed: Send + Sync + Debug {
    /// The first [`AT_ONCE`] changes above `number`, in order; empty when there are none. A reader starts with 0, keeps
    /// the number of the last change it has acted on, and asks again: at once, if there were so many.
    ///
    /// # Errors
    /// [`Unavailable`] when the feed cannot be reached; the reader loses nothing by asking again.
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
    fn memory_keeps_the_changes_suite() {
        suite::changes(|| {
            let changes = std::sync::Arc::new(MemoryChanges::default());
            let writer = changes.clone();
            (changes, Box::new(move |change| writer.publish(change)))
        });
    }
}
