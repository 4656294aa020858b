//! Fair shares of the places (slots for concurrent attempts) between tenants, and between the projects of a tenant.
//!
//! The rule is that of the gateway's shares ([`Shares`](rpcgate_core::share::Shares)): a tenant may always take up to
//! its share while any places are free, and more while a reserve stays free for tenants below their share. A tenant's
//! projects share its places in the same way. So a tenant that is alone gets most of the places, but many projects with
//! hanging endpoints delay neither other tenants nor each other. Each call passes the total number of places, because
//! the configuration can change it.

use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_store::{DueDelivery, TenantCapacity};
use std::collections::HashMap;
use std::hash::Hash;

/// The divisor of a share: each may take one eighth of the places.
const SHARE: usize = 8;
/// The divisor of the reserve: one fourth of the places is kept for those below their share.
const RESERVE: usize = 4;

#[derive(Clone, PartialEq, Eq, Debug)]
struct SlotCounts<K: Eq + Hash> {
    taken: HashMap<K, usize>,
    all: usize,
}

impl<K: Eq + Hash> Default for SlotCounts<K> {
    fn default() -> Self {
        SlotCounts { taken: HashMap::new(), all: 0 }
    }
}

impl<K: Copy + Eq + Hash> SlotCounts<K> {
    fn take(&mut self, one: K) {
        *self.taken.entry(one).or_default() += 1;
        self.all += 1;
    }

    fn give(&mut self, one: K) {
        let Some(its) = self.taken.get_mut(&one) else { return };
        *its -= 1;
        self.all -= 1;
        if *its == 0 {
            self.taken.remove(&one);
        }
    }

    fn free(&self, places: usize) -> usize {
        places.saturating_sub(self.all)
    }

    /// Returns the number of places that a holder of `its` places may take within its share.
    fn own_slots(&self, its: usize, places: usize) -> usize {
        (places / SHARE).max(1).saturating_sub(its).min(self.free(places))
    }

    /// Returns the number of places that a holder of `its` places may take in total.
    fn free_slots(&self, its: usize, places: usize) -> usize {
        let spare = self.free(places).saturating_sub(places / RESERVE);
        self.own_slots(its, places).max(spare)
    }

    fn of(&self, one: K) -> usize {
        self.taken.get(&one).copied().unwrap_or_default()
    }
}

/// The owner of a place: a project with its tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotOwner {
    /// The tenant.
    pub tenant: TenantId,
    /// The project.
    pub project: ProjectId,
}

impl From<&DueDelivery> for SlotOwner {
    fn from(delivery: &DueDelivery) -> Self {
        SlotOwner { tenant: delivery.tenant, project: delivery.webhook.project }
    }
}

/// The rule by which places may be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotRule {
    /// Within the project's share of its tenant's share.
    OfProject,
    /// Within the tenant's share, except for the reserve of its other projects.
    OfTenant,
    /// All places except for the reserves of others.
    Any,
}

impl SlotRule {
    /// All rules. In this order, each owner gets its share before any gets more.
    pub const ALL: [SlotRule; 3] = [SlotRule::OfProject, SlotRule::OfTenant, SlotRule::Any];
}

/// The places that projects have taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AttemptSlots {
    tenants: SlotCounts<TenantId>,
    projects: HashMap<TenantId, SlotCounts<ProjectId>>,
}

impl AttemptSlots {
    /// Takes a place.
    pub fn take(&mut self, owner: SlotOwner) {
        self.tenants.take(owner.tenant);
        self.projects.entry(owner.tenant).or_default().take(owner.project);
    }

    /// Returns a place that this project has taken.
    pub fn give(&mut self, owner: SlotOwner) {
        let Some(projects) = self.projects.get_mut(&owner.tenant) else { return };
        let before = projects.all;
        projects.give(owner.project);
        let is_given = projects.all < before;
        let is_last = projects.all == 0;
        if is_given {
            self.tenants.give(owner.tenant);
        }
        if is_last {
            self.projects.remove(&owner.tenant);
        }
    }

    /// Returns the number of taken places.
    pub fn taken(&self) -> usize {
        self.tenants.all
    }

    /// Returns the number of places that a project may take by this rule, if there are `places` in total.
    pub fn free_slots(&self, owner: SlotOwner, rule: SlotRule, places: usize) -> usize {
        let its = self.tenants.of(owner.tenant);
        let tenant = match rule {
            SlotRule::OfProject | SlotRule::OfTenant => self.tenants.own_slots(its, places),
            SlotRule::Any => self.tenants.free_slots(its, places),
        };
        let none = SlotCounts::default();
        let projects = self.projects.get(&owner.tenant).unwrap_or(&none);
        let (its, all) = (projects.of(owner.project), its + tenant);
        match rule {
            SlotRule::OfProject => projects.own_slots(its, all),
            SlotRule::OfTenant | SlotRule::Any => projects.free_slots(its, all),
        }
    }

    /// Returns the capacity of each tenant that has places, and that of any other tenant.
    pub fn capacities(&self, places: usize) -> (HashMap<TenantId, TenantCapacity>, TenantCapacity) {
        let room = |projects: &SlotCounts<ProjectId>| {
            let its = projects.all;
            let more = self.tenants.free_slots(its, places);
            let of = |its_projects| projects.free_slots(its_projects, its + more);
            TenantCapacity {
                all: more,
                each_project: of(0),
                projects: projects.taken.iter().map(|(project, its)| (*project, of(*its))).collect(),
            }
        };
        let all = self.projects.iter().map(|(tenant, projects)| (*tenant, room(projects)));
        (all.collect(), room(&SlotCounts::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owner(tenant: u128, project: u128) -> SlotOwner {
        SlotOwner { tenant: TenantId(tenant), project: ProjectId(tenant * 100 + project) }
    }

    /// Takes all places that a project may take.
    fn fill(places: &mut AttemptSlots, owner: SlotOwner, all: usize) -> usize {
        let mut count = 0;
        while places.free_slots(owner, SlotRule::Any, all) > 0 {
            places.take(owner);
            count += 1;
        }
        count
    }

    // Shows (Webhooks).
    #[test]
    fn a_single_tenant_gets_most_slots_and_leaves_a_reserve_for_later_ones() {
        let mut places = AttemptSlots::default();
        assert_eq!(fill(&mut places, owner(1, 1), 512), 288, "a quarter of 384 stays for its other projects");
        assert_eq!(places.free_slots(owner(1, 2), SlotRule::Any, 512), 48);
        let more: usize = (2..50).map(|project| fill(&mut places, owner(1, project), 512)).sum();
        assert_eq!((more, places.taken()), (96, 384), "however many projects it has");
        assert_eq!(places.free_slots(owner(1, 99), SlotRule::Any, 512), 0);
        let other = owner(2, 1);
        assert_eq!(
            places.free_slots(other, SlotRule::Any, 512),
            48,
            "and a quarter of 64 for those of the other"
        );
        assert_eq!(places.free_slots(other, SlotRule::OfTenant, 512), 48);
        assert_eq!(places.free_slots(other, SlotRule::OfProject, 512), 8);
        places.give(owner(1, 1));
        assert_eq!(places.free_slots(owner(1, 60), SlotRule::Any, 512), 1, "no other tenant needs it");
        places.take(other);
        assert_eq!(places.free_slots(owner(1, 60), SlotRule::Any, 512), 0);
        assert_eq!(places.free_slots(other, SlotRule::Any, 0), 0, "fewer places than are taken");
        for few in [1, 2, 3] {
            assert_eq!(AttemptSlots::default().free_slots(other, SlotRule::Any, few), few);
        }
        let before = places.clone();
        places.give(owner(3, 1));
        places.give(owner(1, 99));
        assert_eq!(places, before, "they have none");
    }

    proptest! {
        // Shows (Webhooks).
        #[test]
        fn a_consumer_below_its_share_gets_the_rest_and_none_gets_more_than_exists(
            steps in proptest::collection::vec((0_u128..4, 0_u128..3, any::<bool>()), 0..200),
            most in 1_usize..64,
        ) {
            let mut places = AttemptSlots::default();
            let mut model: HashMap<(u128, u128), usize> = HashMap::new();
            for (tenant, project, gives) in steps {
                let one = owner(tenant, project);
                let its = model.entry((tenant, project)).or_default();
                if gives {
                    places.give(one);
                    *its = its.saturating_sub(1);
                } else if places.free_slots(one, SlotRule::Any, most) > 0 {
                    places.take(one);
                    *its += 1;
                }
                let all: usize = model.values().sum();
                prop_assert!(places.taken() == all && all <= most);
                let of = |tenant| -> usize {
                    model.iter().filter(|((of, _), _)| *of == tenant).map(|(_, its)| its).sum()
                };
                let (rooms, other) = places.capacities(most);
                prop_assert_eq!(other.each_project, places.free_slots(owner(9, 1), SlotRule::Any, most));
                for tenant in 0..4 {
                    let room = rooms.get(&TenantId(tenant)).unwrap_or(&other);
                    let may = all < most && (of(tenant) < (most / 8).max(1) || most - all > most / 4);
                    prop_assert_eq!(room.all > 0, may, "the tenant");
                    let mut any = false;
                    for project in 0..4 {
                        let one = owner(tenant, project);
                        let its = room.projects.get(&one.project).copied().unwrap_or(room.each_project);
                        let rules = SlotRule::ALL.map(|rule| places.free_slots(one, rule, most));
                        prop_assert!(rules.is_sorted() && rules[2] == its && its <= room.all);
                        any |= its > 0;
                    }
                    prop_assert_eq!(any, may, "a project that has none gets what its tenant may take");
                }
            }
        }
    }
}
