use rpcgate_core::caller::ProjectId;
use rpcgate_core::share::{Full, Shares};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The limit of a chain's calls in flight. A project can always use an eighth of it, and more only while a sixteenth
/// stays free.
#[derive(Debug)]
pub(crate) struct InFlightLimit {
    shares: Shares,
    /// While fewer calls than this are in flight, calls are not counted by project. Together with the share of counted
    /// calls it makes up the eighth.
    uncounted: usize,
}

/// One call's part of the limit. Dropping it frees the part.
#[derive(Debug)]
pub(crate) struct InFlightPermit {
    limit: Arc<InFlightLimit>,
    project: Option<ProjectId>,
}

impl InFlightLimit {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let part = limit / 16;
        let shares = Shares::new(limit).with_share(limit / 8 - part).with_reserve(part);
        Arc::new(InFlightLimit { shares, uncounted: part })
    }

    pub(super) fn in_flight(&self) -> usize {
        self.shares.held()
    }

    /// Returns a permit for a call of this project.
    ///
    /// # Errors
    /// [`Full`] if no permit is left for it.
    pub(super) fn acquire(self: &Arc<Self>, project: Option<ProjectId>) -> Result<InFlightPermit, Full> {
        let project = project.filter(|_| self.in_flight() >= self.uncounted);
        match project {
            Some(project) => self.shares.take_for(project, 1)?,
            None => self.shares.take(1)?,
        }
        Ok(InFlightPermit { limit: self.clone(), project })
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        match self.project {
            Some(project) => self.limit.shares.give_for(project, 1),
            None => self.limit.shares.give(1),
        }
    }
}

/// One call in the count of a node's calls in flight. Dropping it ends the call.
#[derive(Debug)]
pub(crate) struct InFlightGuard<C: Deref<Target = AtomicUsize>>(C);

impl<C: Deref<Target = AtomicUsize>> InFlightGuard<C> {
    pub(crate) fn new(count: C) -> Self {
        count.fetch_add(1, Relaxed);
        InFlightGuard(count)
    }
}

impl<C: Deref<Target = AtomicUsize>> Drop for InFlightGuard<C> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(limit: &Arc<InFlightLimit>, project: u128, most: usize) -> Vec<InFlightPermit> {
        (0..most).map_while(|_| limit.acquire(Some(ProjectId(project))).ok()).collect()
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn a_single_project_gets_nearly_all_slots_and_an_eighth_next_to_others() {
        let limit = InFlightLimit::new(160);
        let mut one = acquire(&limit, 1, 200);
        assert_eq!(one.len(), 150);
        let two = acquire(&limit, 2, 200);
        assert_eq!(two.len(), 10, "the next project finds the rest");
        one.truncate(15);
        let three = acquire(&limit, 3, 200);
        assert_eq!((three.len(), acquire(&limit, 2, 1).len(), acquire(&limit, 1, 1).len()), (125, 0, 1));
        drop(three);
        let mut crowd = Vec::new();
        crowd.extend((4..100).flat_map(|project| acquire(&limit, project, 1)));
        assert_eq!((limit.in_flight(), acquire(&limit, 1, 200).len()), (121, 29));
        let more = acquire(&limit, 2, 200);
        assert_eq!(more.len(), 29, "more than an eighth, as long as the sixteenth stays free");
        drop((one, two, more, crowd));
        assert_eq!(limit.in_flight(), 0);
        assert_eq!(acquire(&limit, 2, 200).len(), 150);
    }

    #[test]
    fn a_small_limit_admits_calls_up_to_itself() {
        let limit = InFlightLimit::new(2);
        assert_eq!(acquire(&limit, 1, 3).len(), 2);
        assert_eq!(InFlightLimit::new(0).acquire(None).err(), Some(Full));
    }

    #[test]
    fn a_guard_counts_until_it_is_dropped_whether_it_borrows_the_count_or_shares_it() {
        let count = Arc::new(AtomicUsize::new(0));
        let borrowed = InFlightGuard::new(&*count);
        let shared = InFlightGuard::new(count.clone());
        assert_eq!(count.load(Relaxed), 2);
        drop(borrowed);
        assert_eq!(count.load(Relaxed), 1);
        drop(shared);
        assert_eq!(count.load(Relaxed), 0);
    }
}
