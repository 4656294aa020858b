//! The calls under way to a chain: how many there may be, and how many of one project.

use rpcgate_core::caller::ProjectId;
use rpcgate_core::share::{Full, Shares};
use std::sync::Arc;

/// Places for the calls under way to a chain. A project may always have an eighth of them, and more only as long as a
/// sixteenth stays free.
#[derive(Debug)]
pub(super) struct Slots {
    shares: Shares,
    /// While fewer places are taken, nobody asks by whom. With the share of those that are asked it makes the eighth.
    unasked: usize,
}

/// A call's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    project: Option<ProjectId>,
}

impl Slots {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let part = limit / 16;
        let shares = Shares::new(limit).with_share(limit / 8 - part).with_reserve(part);
        Arc::new(Slots { shares, unasked: part })
    }

    /// Calls under way.
    pub(super) fn taken(&self) -> usize {
        self.shares.held()
    }

    /// A place for a call of this project.
    ///
    /// # Errors
    /// [`Full`] if there is none for it.
    pub(super) fn take(self: &Arc<Self>, project: Option<ProjectId>) -> Result<Slot, Full> {
        let project = project.filter(|_| self.taken() >= self.unasked);
        match project {
            Some(project) => self.shares.take_for(project, 1)?,
            None => self.shares.take(1)?,
        }
        Ok(Slot { slots: self.clone(), project })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match self.project {
            Some(project) => self.slots.shares.give_for(project, 1),
            None => self.slots.shares.give(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(slots: &Arc<Slots>, project: u128, most: usize) -> Vec<Slot> {
        (0..most).map_while(|_| slots.take(Some(ProjectId(project))).ok()).collect()
    }

    #[test]
    fn a_project_that_is_alone_has_nearly_all_places_and_an_eighth_while_others_want_them() {
        let slots = Slots::new(160);
        let mut one = take(&slots, 1, 200);
        assert_eq!(one.len(), 150);
        let two = take(&slots, 2, 200);
        assert_eq!(two.len(), 10, "whoever comes next finds the rest");
        one.truncate(15);
        let three = take(&slots, 3, 200);
        assert_eq!((three.len(), take(&slots, 2, 1).len(), take(&slots, 1, 1).len()), (125, 0, 1));
        drop(three);
        let mut crowd = Vec::new();
        crowd.extend((4..100).flat_map(|project| take(&slots, project, 1)));
        assert_eq!((slots.taken(), take(&slots, 1, 200).len()), (121, 29));
        let more = take(&slots, 2, 200);
        assert_eq!(
            more.len(),
            29,
            "with what it has more than an eighth, as long as the sixteenth stays free"
        );
        drop((one, two, more, crowd));
        assert_eq!(slots.taken(), 0);
        assert_eq!(take(&slots, 2, 200).len(), 150);
    }

    #[test]
    fn few_places_are_for_whoever_comes_first() {
        let slots = Slots::new(2);
        assert_eq!(take(&slots, 1, 3).len(), 2);
        assert_eq!(Slots::new(0).take(None).err(), Some(Full));
    }
}
