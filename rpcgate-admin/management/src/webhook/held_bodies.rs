//! The bodies of the deliveries that a dispatcher has claimed. Each is held once, because an event goes to many
//! endpoints.
//!
//! The memory is shared like [slots](super::attempt_slots): a tenant may always hold its share while memory is free,
//! and more while a reserve stays free for tenants below their share.

use rpcgate_core::caller::TenantId;
use rpcgate_store::ChainEventId;
use std::collections::HashMap;
use std::sync::Arc;

/// The divisor of a tenant's share: each may hold one eighth of the bytes.
const SHARE: usize = 8;
/// The divisor of the reserve: one fourth of the bytes is kept for tenants below their share.
const RESERVE: usize = 4;

/// Bodies of events, each with the number of deliveries that use it.
#[derive(Debug, Default)]
struct CountedBodies {
    held: HashMap<ChainEventId, (Arc<[u8]>, usize)>,
    bytes: usize,
}

impl CountedBodies {
    fn take(&mut self, event: ChainEventId, body: Arc<[u8]>) -> Arc<[u8]> {
        let (held, deliveries) = self.held.entry(event).or_insert_with(|| {
            self.bytes += body.len();
            (body, 0)
        });
        *deliveries += 1;
        held.clone()
    }

    fn give(&mut self, event: ChainEventId) {
        let Some((body, deliveries)) = self.held.get_mut(&event) else { return };
        *deliveries -= 1;
        if *deliveries == 0 {
            self.bytes -= body.len();
            self.held.remove(&event);
        }
    }
}

/// The held bodies, in total and per tenant.
#[derive(Debug, Default)]
pub struct HeldBodies {
    all: CountedBodies,
    tenants: HashMap<TenantId, CountedBodies>,
}

impl HeldBodies {
    /// Holds the body of an event for one more delivery of a tenant, and returns the shared copy.
    pub fn take(&mut self, tenant: TenantId, event: ChainEventId, body: Arc<[u8]>) -> Arc<[u8]> {
        let held = self.all.take(event, body);
        self.tenants.entry(tenant).or_default().take(event, held)
    }

    /// Releases the body of an event for one delivery.
    pub fn give(&mut self, tenant: TenantId, event: ChainEventId) {
        self.all.give(event);
        if let Some(its) = self.tenants.get_mut(&tenant) {
            its.give(event);
            if its.held.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
    }

    /// Returns the number of bytes that are free of `limit`.
    pub fn capacity(&self, limit: usize) -> usize {
        limit.saturating_sub(self.all.bytes)
    }

    /// Returns the tenants that may hold no more of `limit`.
    pub fn full(&self, limit: usize) -> impl Iterator<Item = TenantId> {
        let is_reserved = self.capacity(limit) <= limit / RESERVE;
        let full = self.tenants.iter().filter(move |(_, its)| is_reserved && its.bytes >= limit / SHARE);
        full.map(|(tenant, _)| *tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TenantId = TenantId(1);
    const OTHER: TenantId = TenantId(2);

    fn body(size: usize) -> Arc<[u8]> {
        vec![b' '; size].into()
    }

    // Shows (Webhooks).
    #[test]
    fn a_body_is_held_once_until_the_last_of_its_deliveries_ends() {
        let mut bodies = HeldBodies::default();
        let first = ChainEventId(1);
        let second = ChainEventId(2);
        let held = bodies.take(ONE, first, body(3));
        assert!(Arc::ptr_eq(&held, &bodies.take(OTHER, first, body(3))), "the second copy is dropped");
        bodies.take(ONE, second, body(2));
        assert_eq!(bodies.capacity(9), 4);
        let ends =
            [(ONE, first, 4), (ONE, second, 6), (OTHER, second, 6), (OTHER, first, 9), (OTHER, first, 9)];
        for (tenant, event, left) in ends {
            bodies.give(tenant, event);
            assert_eq!(bodies.capacity(9), left);
        }
        assert!(bodies.tenants.is_empty());
    }

    // Shows (Webhooks).
    #[test]
    fn a_tenant_with_large_bodies_leaves_a_reserve_to_others() {
        let mut bodies = HeldBodies::default();
        let mut event = 0;
        let mut fill = |bodies: &mut HeldBodies, tenant| {
            let mut sum = 0;
            while bodies.capacity(160) > 0 && bodies.full(160).all(|full| full != tenant) {
                event += 1;
                bodies.take(tenant, ChainEventId(event), body(10));
                sum += 10;
            }
            sum
        };
        assert_eq!((fill(&mut bodies, ONE), fill(&mut bodies, OTHER)), (120, 20));
        assert_eq!((fill(&mut bodies, TenantId(3)), bodies.capacity(160)), (20, 0));
        bodies.give(ONE, ChainEventId(1));
        assert_eq!((fill(&mut bodies, ONE), fill(&mut bodies, TenantId(4))), (0, 10), "it waits for others");
    }
}
