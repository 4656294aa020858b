//! Fair shares of a resource, so that no project can exclude the others.

use crate::caller::ProjectId;
use crate::sharded::Sharded;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A resource such as bytes or slots, with a limit for all projects together.
///
/// A project may always take up to its share while any units are left. Beyond it, it must leave the reserve to projects
/// below their share. So a single project gets nearly everything, and the next one still gets something.
///
/// ```
/// use rpcgate_core::caller::ProjectId;
/// use rpcgate_core::share::{Full, Shares};
///
/// let places = Shares::new(16).with_share(2).with_reserve(4);
/// let one = ProjectId(1);
/// let other = ProjectId(2);
/// assert_eq!((places.take_for(one, 12), places.take_for(one, 1)), (Ok(()), Err(Full)));
/// assert_eq!((places.take_for(other, 2), places.take_for(other, 1)), (Ok(()), Err(Full)));
/// places.give_for(one, 11);
/// assert_eq!((places.take_for(other, 1), places.held()), (Ok(()), 4));
/// ```
#[derive(Debug)]
pub struct Shares {
    limit: usize,
    share: usize,
    reserve: usize,
    held: AtomicUsize,
    projects: Sharded<ProjectId, usize>,
}

/// The error if nothing is left, or nothing for this project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl Shares {
    /// Creates a resource with `limit` units. One project may hold all of them.
    pub fn new(limit: usize) -> Self {
        Shares { limit, share: limit, reserve: 0, held: AtomicUsize::new(0), projects: Sharded::default() }
    }

    /// Sets the number of units that a project may always hold.
    #[must_use]
    pub fn with_share(mut self, share: usize) -> Self {
        self.share = share;
        self
    }

    /// Sets the number of units reserved for projects below their share.
    #[must_use]
    pub fn with_reserve(mut self, reserve: usize) -> Self {
        self.reserve = reserve;
        self
    }

    /// Returns the number of units held now.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Takes `count` units for no project.
    ///
    /// # Errors
    /// Returns [`Full`] if fewer are left. None is taken then.
    pub fn take(&self, count: usize) -> Result<(), Full> {
        self.take_before(count).map(drop)
    }

    /// Takes `count` units for a project.
    ///
    /// # Errors
    /// Returns [`Full`] if fewer are left for it. None is taken then.
    pub fn take_for(&self, project: ProjectId, count: usize) -> Result<(), Full> {
        let before = self.take_before(count)?;
        let leaves_reserve = before.saturating_add(count) <= self.limit.saturating_sub(self.reserve);
        let taken = self.projects.with_rest(project, |its| {
            let more = its.saturating_add(count);
            let is_allowed = leaves_reserve || more <= self.share;
            if is_allowed {
                *its = more;
            }
            is_allowed
        });
        if taken {
            return Ok(());
        }
        self.give(count);
        Err(Full)
    }

    /// Returns `count` units that belonged to no project.
    pub fn give(&self, count: usize) {
        self.held.fetch_sub(count, Relaxed);
    }

    /// Returns `count` units of a project.
    pub fn give_for(&self, project: ProjectId, count: usize) {
        self.projects.with_rest(project, |its| *its = its.saturating_sub(count));
        self.give(count);
    }

    /// Adds before it checks, so that two callers cannot both take the last unit. Returns the number held before.
    fn take_before(&self, count: usize) -> Result<usize, Full> {
        let before = self.held.fetch_add(count, Relaxed);
        if before.saturating_add(count) <= self.limit {
            return Ok(before);
        }
        self.give(count);
        Err(Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        // Shows (Hostile and odd traffic).
        #[test]
        fn a_holder_below_its_share_gets_the_reserve_and_returned_permits_are_forgotten(
            steps in proptest::collection::vec((0..4_u128, 1..40_usize, any::<bool>()), 1..200)
        ) {
            let shares = Shares::new(100).with_share(12).with_reserve(25);
            let mut model: BTreeMap<u128, usize> = BTreeMap::new();
            for (project, count, gives) in steps {
                let all: usize = model.values().sum();
                let its = model.entry(project).or_default();
                if gives {
                    let count = count.min(*its);
                    shares.give_for(ProjectId(project), count);
                    *its -= count;
                } else {
                    let fits = all + count <= 75 || all + count <= 100 && *its + count <= 12;
                    prop_assert_eq!(shares.take_for(ProjectId(project), count).is_ok(), fits);
                    *its += if fits { count } else { 0 };
                }
                prop_assert_eq!(shares.held(), model.values().sum::<usize>());
            }
            for (project, its) in model {
                shares.give_for(ProjectId(project), its);
            }
            prop_assert!(shares.held() == 0 && shares.projects.is_empty());
        }
    }
}
