//! The deliveries that a dispatcher has claimed: those that wait, and the attempts that are running.

use super::app_task::CurrentApp;
use crate::management::webhook::attempt::attempt;
use crate::management::webhook::held_bodies::HeldBodies;
use crate::management::webhook::load::{EndpointLoad, LoadMoment};
use crate::management::webhook::tenant_places::{PlaceOwner, PlaceRule, TenantPlaces};
use parking_lot::Mutex;
use rpcgate_store::{
    AfterAttempt, ChainEventId, ClaimRoom, DeliveryId, DueDelivery, EndedAttempt, ReleasedDelivery, WebhookId,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Endpoints that are remembered; beyond that, those that are idle are forgotten.
const REMEMBERED: usize = 20_000;
/// Deliveries that may be claimed of an endpoint of which nothing is known.
const UNKNOWN: usize = 1;
/// Deliveries that may be claimed, for each attempt that may be made at once.
const CLAIMED: usize = 2;
/// Bytes of bodies that may be held, and of those that one claim reads: it has to end within the deadline of writes.
const HELD_BYTES: usize = 64 << 20;
const CLAIMED_BYTES: usize = 8 << 20;
/// Time that is left for marking an end before a lease is over.
const MARKING: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Loads {
    endpoints: HashMap<WebhookId, EndpointLoad>,
    /// All claimed deliveries, until they are given back or the ends of their attempts are marked.
    held: HashMap<DeliveryId, ReleasedDelivery>,
    /// Those at which an attempt is running.
    running: HashSet<DeliveryId>,
    /// What of them each tenant has, and each project.
    attempts: TenantPlaces,
    /// What each has of all claimed deliveries: of those that wait, and those at which an attempt is running.
    claimed: TenantPlaces,
    /// The bodies of the same.
    bodies: HeldBodies,
    is_closed: bool,
}

impl Loads {
    /// Takes a claimed delivery, unless it is held already: its lease ended early, because the clock was set forward, and this
    /// dispatcher has claimed it again. Then only its new lease counts.
    fn hold(&mut self, mut delivery: DueDelivery, until: Duration) {
        if let Some(held) = self.held.get_mut(&delivery.id) {
            held.leased_until = delivery.leased_until;
            tracing::debug!(delivery = %delivery.id, "a delivery is claimed again whose attempt is not over");
            return;
        }
        self.held.insert(delivery.id, ReleasedDelivery::from(&delivery));
        self.claimed.take((&delivery).into());
        delivery.body = self.bodies.take(delivery.tenant, delivery.event, delivery.body);
        self.endpoints.entry(delivery.webhook.id).or_default().add(delivery, until);
    }

    /// Forgets deliveries without an attempt.
    fn give_back(&mut self, back: &[DueDelivery]) -> Vec<ReleasedDelivery> {
        let give = |delivery: &DueDelivery| {
            self.claimed.give(delivery.into());
            self.bodies.give(delivery.tenant, delivery.event);
            self.held.remove(&delivery.id)
        };
        back.iter().filter_map(give).collect()
    }
}

/// The deliveries that a dispatcher has claimed. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Delivering {
    app: CurrentApp,
    loads: Arc<Mutex<Loads>>,
    tasks: TaskTracker,
    cut: CancellationToken,
    /// Where the ends of attempts go. It is bounded by the number of claimed deliveries, since nothing more is claimed
    /// until ends are marked.
    ended: UnboundedSender<EndedAttempt>,
}

impl Delivering {
    /// Nothing yet. The ends of attempts go to `ended`.
    pub(super) fn new(app: CurrentApp, ended: UnboundedSender<EndedAttempt>) -> Self {
        Delivering {
            app,
            loads: Arc::default(),
            tasks: TaskTracker::new(),
            cut: CancellationToken::new(),
            ended,
        }
    }

    fn bounds(&self) -> (usize, usize) {
        let app = self.app.load();
        let webhooks = &app.settings.config.webhooks;
        let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        (number(webhooks.concurrency), number(webhooks.per_endpoint))
    }

    /// How long it may take until the end of an attempt that begins now is marked.
    fn longest(&self) -> Duration {
        self.app.load().settings.config.webhooks.timeout.saturating_add(MARKING)
    }

    fn moment(&self) -> LoadMoment {
        let app = self.app.load();
        LoadMoment { now: app.now(), elapsed: app.clock.elapsed() }
    }

    /// The number of deliveries that may be claimed beside those that are, and from which endpoints and tenants.
    pub(super) fn room(&self) -> (usize, ClaimRoom) {
        let ((concurrency, per_endpoint), at) = (self.bounds(), self.moment());
        let mut loads = self.loads.lock();
        if loads.endpoints.len() > REMEMBERED {
            loads.endpoints.retain(|_, load| !load.is_idle(at.now));
        }
        // All of them: an endpoint that is left alone must not count as unknown.
        let listed = loads.endpoints.iter().map(|(id, load)| (*id, load.room(per_endpoint, at)));
        let listed = listed.filter(|(_, room)| *room != UNKNOWN).collect();
        let places = concurrency.saturating_mul(CLAIMED);
        let (mut tenants, each_tenant) = loads.claimed.rooms(places);
        for tenant in loads.bodies.full(HELD_BYTES) {
            tenants.entry(tenant).or_insert_with(|| each_tenant.clone()).all = 0;
        }
        let bytes = loads.bodies.room(HELD_BYTES).min(CLAIMED_BYTES);
        let most = if bytes == 0 { 0 } else { places.saturating_sub(loads.claimed.taken()) };
        (most, ClaimRoom { each: UNKNOWN, listed, each_tenant, tenants, bytes })
    }

    /// Adds what is claimed `until` then.
    pub(super) fn add(&self, deliveries: Vec<DueDelivery>, until: Duration) {
        let mut loads = self.loads.lock();
        for delivery in deliveries {
            loads.hold(delivery, until);
        }
    }

    /// Forgets deliveries whose ends are marked.
    pub(super) fn marked(&self, ended: &[EndedAttempt]) {
        let mut loads = self.loads.lock();
        for end in ended {
            loads.held.remove(&end.delivery);
        }
    }

    /// Begins attempts that may begin now, and returns what is not begun in time for its lease.
    pub(super) fn proceed(&self) -> Vec<ReleasedDelivery> {
        let (longest, elapsed) = (self.longest(), self.moment().elapsed);
        let mut loads = self.loads.lock();
        let mut back = Vec::new();
        for load in loads.endpoints.values_mut().filter(|load| load.waiting() > 0) {
            back.extend(load.give_back(longest, elapsed));
        }
        let back = loads.give_back(&back);
        let ready = loads.endpoints.iter().filter(|(_, load)| load.waiting() > 0).map(|(id, _)| *id);
        let ready: Vec<_> = ready.collect();
        let mut begun = Vec::new();
        for rule in PlaceRule::ALL {
            begun.extend(ready.iter().flat_map(|webhook| self.begin(&mut loads, *webhook, rule)));
        }
        drop(loads);
        self.spawn(begun);
        back
    }

    /// Whether an endpoint gets single attempts with pauses between them, because it fails again and again.
    pub(super) fn is_left_alone(&self, webhook: WebhookId) -> bool {
        self.loads.lock().endpoints.get(&webhook).is_some_and(EndpointLoad::is_left_alone)
    }

    /// Takes the deliveries of an endpoint whose attempts may begin now, as far as there are places for them by `rule`.
    fn begin(&self, loads: &mut Loads, webhook: WebhookId, rule: PlaceRule) -> Vec<(DueDelivery, Duration)> {
        let ((concurrency, per_endpoint), longest, at) = (self.bounds(), self.longest(), self.moment());
        let mut begun = Vec::new();
        while !loads.is_closed {
            let Some(load) = loads.endpoints.get_mut(&webhook) else { break };
            let Some(owner) = load.owner() else { break };
            if loads.attempts.room(owner, rule, concurrency) == 0 {
                break;
            }
            let Some(delivery) = load.begin(per_endpoint, longest, at) else { break };
            loads.attempts.take(owner);
            loads.running.insert(delivery.id);
            begun.push((delivery, at.elapsed));
        }
        begun
    }

    /// Begins these attempts, without the lock: a runtime that ends drops them here.
    fn spawn(&self, begun: Vec<(DueDelivery, Duration)>) {
        for (delivery, began) in begun {
            let running = RunningAttempt::new(self, &delivery, began);
            self.tasks.spawn(self.clone().attempt(delivery, running));
        }
    }

    async fn attempt(self, delivery: DueDelivery, running: RunningAttempt) {
        let app = self.app.load_full();
        let Some(end) = self.cut.run_until_cancelled(attempt(&app, &delivery)).await else { return };
        let outcome = match end.then {
            AfterAttempt::Delivered => "delivered",
            AfterAttempt::Again(_) => "failed",
            AfterAttempt::Failed => "given_up",
        };
        app.deliveries.ended(outcome);
        running.end(end);
    }

    /// Begins no more attempts, waits up to `grace` for those that are running, and then ends them. Returns what was
    /// claimed and has no end.
    pub(super) async fn close(&self, grace: Duration) -> Vec<ReleasedDelivery> {
        let mut released = {
            let mut loads = self.loads.lock();
            loads.is_closed = true;
            let back: Vec<_> = loads.endpoints.values_mut().flat_map(EndpointLoad::clear).collect();
            loads.give_back(&back)
        };
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            {
                let loads = self.loads.lock();
                released.extend(loads.running.iter().filter_map(|id| loads.held.get(id)));
            }
            self.cut.cancel();
            self.tasks.wait().await;
        }
        released
    }
}

/// A running attempt, which has its place until this is dropped.
struct RunningAttempt {
    delivering: Delivering,
    delivery: DeliveryId,
    webhook: WebhookId,
    event: ChainEventId,
    owner: PlaceOwner,
    began: Duration,
    /// What it has come to.
    end: Option<EndedAttempt>,
}

impl RunningAttempt {
    fn new(delivering: &Delivering, delivery: &DueDelivery, began: Duration) -> Self {
        delivering.app.load().deliveries.in_flight().inc();
        RunningAttempt {
            delivering: delivering.clone(),
            delivery: delivery.id,
            webhook: delivery.webhook.id,
            event: delivery.event,
            owner: delivery.into(),
            began,
            end: None,
        }
    }

    fn end(mut self, end: EndedAttempt) {
        self.end = Some(end);
    }
}

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        let delivering = self.delivering.clone();
        delivering.app.load().deliveries.in_flight().dec();
        let ((_, per_endpoint), at) = (delivering.bounds(), delivering.moment());
        let mut loads = delivering.loads.lock();
        loads.running.remove(&self.delivery);
        loads.attempts.give(self.owner);
        loads.claimed.give(self.owner);
        loads.bodies.give(self.owner.tenant, self.event);
        if self.end.is_none() {
            loads.held.remove(&self.delivery);
        }
        let load = loads.endpoints.get_mut(&self.webhook);
        let Some(end) = self.end.take() else {
            if let Some(load) = load {
                load.leave(self.began);
            }
            return;
        };
        if let Some(load) = load {
            load.end(self.began, end.then == AfterAttempt::Delivered, per_endpoint, at);
        }
        let begun = delivering.begin(&mut loads, self.webhook, PlaceRule::Any);
        drop(loads);
        delivering.spawn(begun);
        // The dispatcher that gets it ends after the last attempt.
        let _ = delivering.ended.send(end);
    }
}
