//! How many of the places that all share each project has.
//!
//! The rule is that of the gateway's shares ([`Shares`](rpcgate_core::share::Shares)): a project may always take up to its
//! share while any places are left, and more as long as a reserve stays free for projects below their share. So a project
//! that is alone gets most of the places, and endpoints of one project that hang keep no other project waiting. The number
//! of places is given with each question, since it changes with the configuration.

use rpcgate_core::caller::ProjectId;
use std::collections::HashMap;

/// The part of the places that each project may take: one of these.
const SHARE: usize = 8;
/// The part of the places that is kept for projects below their share: one of these.
const RESERVE: usize = 4;

/// Places, each of which is taken by a project or free.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProjectPlaces {
    taken: HashMap<ProjectId, usize>,
    all: usize,
}

impl ProjectPlaces {
    /// Takes a place.
    pub fn take(&mut self, project: ProjectId) {
        *self.taken.entry(project).or_default() += 1;
        self.all += 1;
    }

    /// Gives a place back that was taken for this project.
    pub fn give(&mut self, project: ProjectId) {
        let Some(its) = self.taken.get_mut(&project) else { return };
        *its -= 1;
        self.all -= 1;
        if *its == 0 {
            self.taken.remove(&project);
        }
    }

    /// The places that are taken.
    pub fn taken(&self) -> usize {
        self.all
    }

    /// How many more of `places` a project may take within its share.
    pub fn own_room(&self, project: ProjectId, places: usize) -> usize {
        let its = self.taken.get(&project).copied().unwrap_or_default();
        (places / SHARE).max(1).saturating_sub(its).min(self.free(places))
    }

    /// How many more of `places` a project may take.
    pub fn room(&self, project: ProjectId, places: usize) -> usize {
        let spare = self.free(places).saturating_sub(places / RESERVE);
        self.own_room(project, places).max(spare)
    }

    /// The same for each project that has places, and for one that has none.
    pub fn rooms(&self, places: usize) -> (HashMap<ProjectId, usize>, usize) {
        let all = self.taken.keys().map(|project| (*project, self.room(*project, places)));
        let (free, share) = (self.free(places), (places / SHARE).max(1));
        (all.collect(), share.min(free).max(free.saturating_sub(places / RESERVE)))
    }

    fn free(&self, places: usize) -> usize {
        places.saturating_sub(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_project_alone_gets_most_places_and_leaves_a_reserve_to_those_that_come_later() {
        let mut places = ProjectPlaces::default();
        for _ in 0..places.room(ProjectId(1), 512) {
            places.take(ProjectId(1));
        }
        assert_eq!((places.taken(), places.room(ProjectId(1), 512)), (384, 0));
        assert_eq!((places.room(ProjectId(2), 512), places.own_room(ProjectId(2), 512)), (64, 64));
        places.give(ProjectId(1));
        assert_eq!(places.room(ProjectId(1), 512), 1, "nobody else wants it");
        places.take(ProjectId(2));
        assert_eq!(places.room(ProjectId(1), 512), 0);
        assert_eq!(places.room(ProjectId(1), 0), 0, "fewer places than are taken");
        for few in [1, 2, 3] {
            assert_eq!(ProjectPlaces::default().room(ProjectId(1), few), few);
        }
    }

    proptest! {
        #[test]
        fn nobody_takes_more_than_there_is_and_whoever_is_below_the_share_gets_what_is_left(
            steps in proptest::collection::vec((0_u128..5, any::<bool>()), 0..200),
            most in 1_usize..64,
        ) {
            let mut places = ProjectPlaces::default();
            let mut model: HashMap<ProjectId, usize> = HashMap::new();
            for (project, gives) in steps {
                let project = ProjectId(project);
                let its = model.entry(project).or_default();
                if gives {
                    places.give(project);
                    *its = its.saturating_sub(1);
                } else if places.room(project, most) > 0 {
                    places.take(project);
                    *its += 1;
                }
                let all: usize = model.values().sum();
                prop_assert!(places.taken() == all && all <= most);
                let (rooms, other) = places.rooms(most);
                prop_assert_eq!(other, places.room(ProjectId(99), most));
                for (project, its) in &model {
                    let room = places.room(*project, most);
                    prop_assert_eq!(room, rooms.get(project).copied().unwrap_or(other));
                    prop_assert_eq!(room > 0, all < most && (*its < (most / 8).max(1) || most - all > most / 4));
                }
            }
        }
    }
}
