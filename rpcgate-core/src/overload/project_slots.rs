//! The projects with sets of calls in flight: the number of these sets, and the limit from the project's own answers.

use super::limit::AdaptiveLimit;
use super::rules::LoadRules;
use crate::caller::ProjectId;
use crate::plan::Tier;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const BUCKETS: usize = 256;
const WIDTH: usize = 8;
/// The attempts to write a slot that other threads change at the same time.
const ATTEMPTS: usize = 16;
/// The bits of a slot's count. The bits above it identify the project.
const COUNT_BITS: u32 = 24;

/// The slots of all projects of a chain.
///
/// A project keeps its slot until another project of its bucket needs it while the first one is idle. So the memory is
/// bounded, and active projects share no slot. Only among many hundreds of active projects may one get no slot.
#[derive(Debug)]
pub(super) struct ProjectSlots {
    slots: Box<[Slot]>,
    active: [AtomicU32; Tier::ALL.len()],
    hash: RandomState,
}

#[derive(Debug)]
struct Slot {
    /// From the highest bit: 40 bits that identify the project and its tier, 24 of the number of its sets in flight.
    owner: AtomicU64,
    limit: AdaptiveLimit,
}

/// One set in the count of its project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProjectSlot {
    slot: u16,
    tier: Tier,
}

impl ProjectSlots {
    pub(super) fn new(rules: LoadRules) -> Self {
        let slot = |_| Slot { owner: AtomicU64::new(0), limit: AdaptiveLimit::of_project(rules) };
        ProjectSlots {
            slots: (0..BUCKETS * WIDTH).map(slot).collect(),
            active: Default::default(),
            hash: RandomState::default(),
        }
    }

    /// Counts one more set of this project. Returns its slot, and the number of the project's sets before.
    pub(super) fn occupy(&self, project: ProjectId, tier: Tier, now: u64) -> Option<(ProjectSlot, usize)> {
        let hash = self.hash.hash_one((project, tier as u8));
        let tag = hash >> COUNT_BITS;
        // The tag has the upper bits, the bucket the lower ones.
        let first = hash as usize % BUCKETS * WIDTH;
        for _ in 0..ATTEMPTS {
            let (at, word) = self.find(first, tag)?;
            let slot = &self.slots[at];
            let is_owner = word >> COUNT_BITS == tag;
            let before = count(word) as usize;
            let next = if is_owner { word + 1 } else { tag << COUNT_BITS | 1 };
            if slot.owner.compare_exchange_weak(word, next, Relaxed, Relaxed).is_err() {
                continue;
            }
            if !is_owner {
                slot.limit.forget(now);
            } else if before == 0 && slot.limit.is_idle(now) {
                slot.limit.open(now);
            }
            slot.limit.saw(before + 1);
            if before == 0 {
                self.active[tier as usize].fetch_add(1, Relaxed);
            }
            // There are fewer slots than values of this type.
            return Some((ProjectSlot { slot: at as u16, tier }, before));
        }
        None
    }

    /// Returns the slot of this project in its bucket, or else an idle one, and the slot's owner.
    fn find(&self, first: usize, tag: u64) -> Option<(usize, u64)> {
        let mut free: Option<(usize, u64)> = None;
        for (at, slot) in self.slots.iter().enumerate().skip(first).take(WIDTH) {
            let word = slot.owner.load(Relaxed);
            if word >> COUNT_BITS == tag {
                return Some((at, word));
            }
            // An unused slot is better: the other projects may return.
            if count(word) == 0 && free.is_none_or(|(_, known)| known != 0 && word == 0) {
                free = Some((at, word));
            }
        }
        free
    }

    pub(super) fn release(&self, slot: ProjectSlot) {
        let before = self.slot(slot).owner.fetch_sub(1, Relaxed);
        if count(before) == 1 {
            self.active[slot.tier as usize].fetch_sub(1, Relaxed);
        }
    }

    pub(super) fn active(&self) -> [u32; Tier::ALL.len()] {
        std::array::from_fn(|tier| self.active[tier].load(Relaxed))
    }

    pub(super) fn limit(&self, slot: ProjectSlot) -> &AdaptiveLimit {
        &self.slot(slot).limit
    }

    pub(super) fn in_flight(&self, slot: ProjectSlot) -> usize {
        count(self.slot(slot).owner.load(Relaxed)) as usize
    }

    fn slot(&self, slot: ProjectSlot) -> &Slot {
        &self.slots[usize::from(slot.slot)]
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> u64 {
        self.slots.iter().map(|slot| count(slot.owner.load(Relaxed))).sum()
    }
}

fn count(owner: u64) -> u64 {
    owner & ((1 << COUNT_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const FREE: Tier = Tier::Free;
    const SECOND: u64 = 1_000_000;

    fn slots() -> ProjectSlots {
        ProjectSlots::new(LoadRules::default())
    }

    /// Makes the answers to a project late until it has a limit.
    fn late(slots: &ProjectSlots, slot: ProjectSlot) {
        for window in 1..6 {
            slots.limit(slot).saw(40);
            (0..10).for_each(|_| slots.limit(slot).sample(7.0, 1_000));
            slots.limit(slot).look(window * SECOND, 40);
        }
        assert!(slots.limit(slot).now().is_some());
    }

    #[test]
    fn a_project_keeps_its_limit_until_it_was_idle_for_a_while() {
        let slots = slots();
        let (slot, _) = slots.occupy(ProjectId(1), FREE, 0).unwrap();
        late(&slots, slot);
        slots.release(slot);
        let (again, before) = slots.occupy(ProjectId(1), FREE, 6 * SECOND).unwrap();
        assert_eq!((again, before, slots.limit(again).now().is_some()), (slot, 0, true));
        slots.release(again);
        let (again, _) = slots.occupy(ProjectId(1), FREE, 20 * SECOND).unwrap();
        assert_eq!(slots.limit(again).now(), None);
    }

    #[test]
    fn a_project_that_takes_a_slot_does_not_inherit_the_limit_of_the_other_one() {
        let slots = slots();
        for n in 0..20_000_u128 {
            let (slot, before) = slots.occupy(ProjectId(n), FREE, 6 * SECOND).unwrap();
            assert_eq!((before, slots.limit(slot).now()), (0, None), "{n}");
            assert!(slots.limit(slot).lateness() == 0.0);
            if n < 4_000 {
                slots.limit(slot).forget(0);
                late(&slots, slot);
            }
            slots.release(slot);
        }
        assert_eq!((slots.taken(), slots.active()), (0, [0; 4]));
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_naive_model(steps in proptest::collection::vec((0..200_u128, 0..4_usize, any::<bool>()), 1..400)) {
            let slots = slots();
            let mut model: HashMap<(u128, usize), Vec<ProjectSlot>> = HashMap::new();
            for (project, tier, enters) in steps {
                let its = model.entry((project, tier)).or_default();
                if enters {
                    let (slot, before) = slots.occupy(ProjectId(project), Tier::ALL[tier], 0).expect("few projects");
                    prop_assert_eq!(before, its.len());
                    its.push(slot);
                } else if let Some(slot) = its.pop() {
                    slots.release(slot);
                }
                let active: [u32; 4] = std::array::from_fn(|tier| {
                    model.iter().filter(|((_, its), slots)| *its == tier && !slots.is_empty()).count() as u32
                });
                prop_assert_eq!(slots.active(), active);
            }
        }
    }

    #[test]
    fn threads_count_together() {
        let slots = slots();
        std::thread::scope(|scope| {
            for thread in 0..4_u128 {
                let slots = &slots;
                scope.spawn(move || {
                    for n in 0..2_000 {
                        let held: Vec<_> = [ProjectId(7), ProjectId(n % 3 + thread)]
                            .into_iter()
                            .filter_map(|project| slots.occupy(project, FREE, 0))
                            .collect();
                        held.into_iter().for_each(|(slot, _)| slots.release(slot));
                    }
                });
            }
        });
        assert_eq!((slots.taken(), slots.active()), (0, [0; 4]));
    }
}
