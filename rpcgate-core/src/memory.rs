//! A memory limit for bodies, in total and per project. Holders report the sizes of their bodies and may be refused.

use crate::caller::ProjectId;
use crate::share::Shares;
use std::sync::Arc;

pub use crate::share::Full;

/// The largest body, in bytes, that does not count in a project's share.
const SMALL: usize = 16 << 10;

/// The bytes that all bodies share. A project may always hold an eighth of them, and more only while a quarter is free.
#[derive(Debug)]
pub struct MemoryBudget(Shares);

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(MemoryBudget(Shares::new(limit).with_share(limit / 8).with_reserve(limit / 4)))
    }

    /// Returns the number of bytes held now.
    pub fn held(&self) -> usize {
        self.0.held()
    }
}

/// A part of a [`MemoryBudget`], returned on drop. The default has no budget and no limit.
#[derive(Debug, Default)]
pub struct MemoryPermit {
    budget: Option<Arc<MemoryBudget>>,
    project: Option<ProjectId>,
    bytes: usize,
    shared: usize,
}

impl MemoryPermit {
    /// Creates an empty permit that counts in no project's share.
    pub fn of(budget: Arc<MemoryBudget>) -> Self {
        MemoryPermit { budget: Some(budget), project: None, bytes: 0, shared: 0 }
    }

    /// Creates an empty permit that counts in the project's share.
    pub fn of_project(budget: Arc<MemoryBudget>, project: ProjectId) -> Self {
        let mut held = MemoryPermit::of(budget);
        held.project = Some(project);
        held
    }

    /// Creates another empty permit of the same budget and share.
    pub fn sibling(&self) -> Self {
        MemoryPermit { budget: self.budget.clone(), project: self.project, bytes: 0, shared: 0 }
    }

    /// Creates another empty permit of the same budget without a share, for data that calls of several projects share.
    pub fn unshared(&self) -> Self {
        MemoryPermit { budget: self.budget.clone(), project: None, bytes: 0, shared: 0 }
    }

    /// Returns the project in whose share this permit counts.
    pub fn project(&self) -> Option<ProjectId> {
        self.project
    }

    /// Takes over the bytes of `other`, a sibling.
    pub fn absorb(&mut self, mut other: MemoryPermit) {
        self.bytes += std::mem::take(&mut other.bytes);
        self.shared += std::mem::take(&mut other.shared);
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// Returns [`Full`] if the budget has less left for this project. Nothing more is held then.
    pub fn take(&mut self, bytes: usize) -> Result<(), Full> {
        let (Some(budget), Some(project)) = (&self.budget, self.project) else {
            return self.take_unshared(bytes);
        };
        budget.0.take_for(project, bytes)?;
        self.bytes += bytes;
        self.shared += bytes;
        Ok(())
    }

    /// Takes `bytes` more for a body that arrived whole. A small one does not count in the share: at most one exists
    /// per connection, and accounting would cost more than holding it.
    ///
    /// # Errors
    /// Returns the errors of [`take`](MemoryPermit::take).
    pub fn take_complete(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes <= SMALL { self.take_unshared(bytes) } else { self.take(bytes) }
    }

    fn take_unshared(&mut self, bytes: usize) -> Result<(), Full> {
        if let Some(budget) = &self.budget {
            budget.0.take(bytes)?;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes the bytes that are missing to hold `bytes` in total.
    ///
    /// # Errors
    /// Returns [`Full`] if the budget has less left for this project. Nothing more is held then.
    pub fn take_up_to(&mut self, bytes: usize) -> Result<(), Full> {
        self.take(bytes.saturating_sub(self.bytes))
    }

    /// Returns the bytes held beyond `bytes`.
    pub fn keep(&mut self, bytes: usize) {
        let rest = self.bytes.saturating_sub(bytes);
        let shared = rest.min(self.shared);
        if let Some(budget) = &self.budget {
            match self.project {
                Some(project) if shared > 0 => {
                    budget.0.give_for(project, shared);
                    budget.0.give(rest - shared);
                }
                _ => budget.0.give(rest),
            }
        }
        self.bytes -= rest;
        self.shared -= shared;
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.keep(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_refused_beyond_the_limit_and_returned_when_dropped() {
        let budget = MemoryBudget::new(10);
        let mut one = MemoryPermit::of(budget.clone());
        let mut two = MemoryPermit::of(budget.clone());
        assert_eq!((one.take(6), two.take(5), two.take(4)), (Ok(()), Err(Full), Ok(())));
        assert_eq!(budget.held(), 10);
        drop(one);
        assert_eq!(budget.held(), 4);
        let mut three = two.sibling();
        assert_eq!(three.take(5), Ok(()));
        two.absorb(three);
        assert_eq!(budget.held(), 9);
        assert_eq!((two.take_up_to(8), budget.held()), (Ok(()), 9), "it holds more already");
        assert_eq!((two.take_up_to(11), budget.held()), (Err(Full), 9));
        assert_eq!((two.take_up_to(10), budget.held()), (Ok(()), 10));
        two.keep(11);
        assert_eq!(budget.held(), 10);
        two.keep(3);
        assert_eq!(budget.held(), 3);
        drop(two);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn the_bytes_of_a_project_return_to_its_share() {
        let budget = MemoryBudget::new(1_000);
        let held = || MemoryPermit::of_project(budget.clone(), ProjectId(1));
        let mut one = held();
        let mut two = held();
        assert_eq!((one.take(700), two.take(100)), (Ok(()), Err(Full)), "a quarter stays free");
        assert_eq!((two.take_unshared(100), budget.held()), (Ok(()), 800));
        let mut other = MemoryPermit::of_project(budget.clone(), ProjectId(2));
        assert_eq!((other.take(125), other.take(1)), (Ok(()), Err(Full)));
        one.keep(20);
        assert_eq!((other.take(1), two.sibling().project()), (Ok(()), Some(ProjectId(1))));
        two.absorb(one);
        assert_eq!(budget.held(), 246);
        let mut more = two.sibling();
        assert_eq!(more.take(504), Ok(()));
        assert_eq!((two.take(1), two.take_unshared(1)), (Err(Full), Ok(())));
        drop(more);
        two.keep(10);
        assert_eq!(budget.held(), 136);
        drop((two, other));
        assert_eq!(budget.held(), 0);
        assert_eq!(held().take(750), Ok(()), "its share is empty again");
    }
}
