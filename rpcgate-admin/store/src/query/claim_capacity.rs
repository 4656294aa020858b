//! The limits on the deliveries that a claim takes.

use super::id::WebhookId;
use rpcgate_core::caller::{ProjectId, TenantId};
use std::collections::HashMap;
use uuid::Uuid;

/// The free slots for deliveries, and the limit on the size of their bodies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimCapacity {
    /// Slots of an endpoint that is not in `listed`.
    pub each: usize,
    /// Slots of these endpoints; 0 claims none.
    pub listed: HashMap<WebhookId, usize>,
    /// Slots of a tenant that is not in `tenants`.
    pub each_tenant: TenantCapacity,
    /// Slots of these tenants.
    pub tenants: HashMap<TenantId, TenantCapacity>,
    /// The total bytes of their bodies, each counted once. One body is always read.
    pub bytes: usize,
}

/// The free slots for deliveries of a tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantCapacity {
    /// Slots of all its projects together.
    pub all: usize,
    /// Slots of a project that is not in `projects`.
    pub each_project: usize,
    /// Slots of these projects.
    pub projects: HashMap<ProjectId, usize>,
}

impl ClaimCapacity {
    fn of(&self, endpoint: DueEndpoint) -> usize {
        self.listed.get(&WebhookId(endpoint.webhook.as_u128())).copied().unwrap_or(self.each)
    }

    fn of_tenant(&self, endpoint: DueEndpoint) -> &TenantCapacity {
        self.tenants.get(&TenantId(endpoint.tenant.as_u128())).unwrap_or(&self.each_tenant)
    }
}

#[cfg(any(test, feature = "testing"))]
impl ClaimCapacity {
    /// Returns `each` slots for every endpoint, without limits on tenants and projects.
    pub fn for_each(each: usize) -> Self {
        let each_tenant =
            TenantCapacity { all: usize::MAX, each_project: usize::MAX, projects: HashMap::new() };
        let listed = HashMap::new();
        let tenants = HashMap::new();
        ClaimCapacity { each, listed, each_tenant, tenants, bytes: usize::MAX }
    }
}

impl TenantCapacity {
    fn of(&self, endpoint: DueEndpoint) -> usize {
        let project = ProjectId(endpoint.project.as_u128());
        self.projects.get(&project).copied().unwrap_or(self.each_project)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DueEndpoint {
    pub(super) webhook: Uuid,
    pub(super) project: Uuid,
    pub(super) tenant: Uuid,
}

impl DueEndpoint {
    fn each(self) -> [Uuid; 3] {
        [self.webhook, self.project, self.tenant]
    }
}

/// The choice of a claim, which exceeds the free slots of no endpoint, project or tenant.
pub(super) struct ClaimChoice<'r> {
    room: &'r ClaimCapacity,
    most: usize,
    taken: [HashMap<Uuid, usize>; 3],
    pub(super) chosen: Vec<Uuid>,
}

impl<'r> ClaimChoice<'r> {
    pub(super) fn new(room: &'r ClaimCapacity, most: usize) -> Self {
        ClaimChoice { room, most, taken: Default::default(), chosen: Vec::new() }
    }

    /// Returns the number of deliveries that an endpoint may still get.
    pub(super) fn left(&self, endpoint: DueEndpoint) -> usize {
        let tenant = self.room.of_tenant(endpoint);
        let rooms = [self.room.of(endpoint), tenant.of(endpoint), tenant.all];
        let left = endpoint.each().into_iter().zip(&self.taken).zip(rooms);
        let left =
            left.map(|((id, taken), room)| room.saturating_sub(taken.get(&id).copied().unwrap_or_default()));
        left.min().unwrap_or_default().min(self.most.saturating_sub(self.chosen.len()))
    }

    pub(super) fn take(&mut self, id: Uuid, endpoint: DueEndpoint) {
        if self.left(endpoint) > 0 {
            for (id, taken) in endpoint.each().into_iter().zip(&mut self.taken) {
                *taken.entry(id).or_default() += 1;
            }
            self.chosen.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Shows (Webhooks).
        #[test]
        fn a_claim_takes_the_oldest_work_within_the_capacity_of_endpoint_project_and_tenant(
            due in proptest::collection::vec(0_u128..8, 0..60),
            each in 0_usize..4,
            listed in proptest::collection::hash_map(0_u128..8, 0_usize..6, 0..4),
            of_tenants in proptest::collection::vec((0_usize..12, 0_usize..8), 3),
            projects in proptest::collection::hash_map(0_u128..4, 0_usize..10, 0..3),
            most in 0_usize..30,
        ) {
            // Two endpoints of each project, and two projects of each tenant.
            let endpoint = |webhook: u128| DueEndpoint {
                webhook: Uuid::from_u128(webhook),
                project: Uuid::from_u128(webhook / 2),
                tenant: Uuid::from_u128(webhook / 4),
            };
            let rows: Vec<_> =
                due.iter().enumerate().map(|(id, webhook)| (Uuid::from_u128(id as u128), *webhook)).collect();
            let room_of = |tenant: u128, (all, each_project)| TenantCapacity {
                all,
                each_project,
                projects: projects
                    .iter()
                    .filter(|(project, _)| *project / 2 == tenant)
                    .map(|(project, room)| (ProjectId(*project), *room))
                    .collect(),
            };
            // The second tenant is not listed.
            let room = ClaimCapacity {
                each,
                listed: listed.into_iter().map(|(id, room)| (WebhookId(id), room)).collect(),
                each_tenant: room_of(1, of_tenants[1]),
                tenants: [(TenantId(0), room_of(0, of_tenants[0]))].into(),
                bytes: 0,
            };
            let mut choice = ClaimChoice::new(&room, most);
            for (id, webhook) in &rows {
                choice.take(*id, endpoint(*webhook));
            }
            let chosen = choice.chosen;
            prop_assert!(chosen.len() <= most && chosen.is_sorted());
            let count = |so: &dyn Fn(u128) -> bool| {
                rows.iter().filter(|(id, webhook)| so(*webhook) && chosen.contains(id)).count()
            };
            let mut could = 0;
            for tenant in 0..2 {
                let its = room.of_tenant(endpoint(tenant * 4));
                prop_assert!(count(&|of| of / 4 == tenant) <= its.all);
                let mut of_projects = 0;
                for project in tenant * 2..tenant * 2 + 2 {
                    let of_project = its.of(endpoint(project * 2));
                    prop_assert!(count(&|of| of / 2 == project) <= of_project);
                    let mut of_endpoints = 0;
                    for webhook in project * 2..project * 2 + 2 {
                        let all: Vec<_> = rows.iter().filter(|(_, of)| *of == webhook).map(|(id, _)| *id).collect();
                        let taken: Vec<_> = all.iter().filter(|id| chosen.contains(id)).copied().collect();
                        prop_assert_eq!(&taken, &all[..taken.len()], "its oldest");
                        prop_assert!(taken.len() <= room.of(endpoint(webhook)));
                        of_endpoints += all.len().min(room.of(endpoint(webhook)));
                    }
                    of_projects += of_endpoints.min(of_project);
                }
                could += of_projects.min(its.all);
            }
            prop_assert_eq!(chosen.len(), could.min(most));
        }
    }
}
