//! The deliveries that a dispatcher has claimed: waiting ones and running attempts.

use super::app_task::CurrentApp;
use parking_lot::Mutex;
use rpcgate_management::webhook::attempt::attempt;
use rpcgate_management::webhook::attempt_slots::{AttemptSlots, SlotOwner, SlotRule};
use rpcgate_management::webhook::held_bodies::HeldBodies;
use rpcgate_management::webhook::load::{EndpointLoad, LoadMoment};
use rpcgate_store::{
    AfterAttempt, ChainEventId, ClaimCapacity, DeliveryId, DueDelivery, EndedAttempt, ReleasedDelivery,
    WebhookId,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The number of endpoints above which idle ones are forgotten.
const REMEMBERED: usize = 20_000;
/// The number of deliveries that may be claimed of an unknown endpoint.
const UNKNOWN: usize = 1;
/// The number of deliveries that may be claimed per allowed concurrent attempt.
const CLAIMED: usize = 2;
/// The maximum number of bytes of held bodies, and of those that one claim reads. A claim has to end within the
/// deadline of writes.
const HELD_BYTES: usize = 64 << 20;
const CLAIMED_BYTES: usize = 8 << 20;
/// The time that is left before the end of a lease for storing the outcome of an attempt.
const MARKING: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Loads {
    endpoints: HashMap<WebhookId, EndpointLoad>,
    /// All claimed deliveries, until they are given back or the outcomes of their attempts are stored.
    held: HashMap<DeliveryId, ReleasedDelivery>,
    running: HashSet<DeliveryId>,
    attempts: AttemptSlots,
    /// The claimed deliveries of each tenant and project, waiting or running.
    claimed: AttemptSlots,
    bodies: HeldBodies,
    is_closed: bool,
}

impl Loads {
    /// Holds a claimed delivery. It may be held already: if the clock was set forward, its lease ended early, and this
    /// dispatcher has claimed it again. Then only the new lease counts.
    fn hold(&mut self, mut delivery: DueDelivery, until: Duration) {
        if let Some(held) = self.held.get_mut(&delivery.id) {
            held.leased_until = delivery.leased_until;
            tracing::debug!(delivery = %delivery.id, "a delivery is claimed again before its attempt has ended");
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
    /// The channel for outcomes of attempts. The number of claimed deliveries bounds it, because no more are claimed
    /// until outcomes are stored.
    ended: UnboundedSender<EndedAttempt>,
}

impl Delivering {
    /// Starts without deliveries. The outcomes of attempts go to `ended`.
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

    /// Returns the maximum time until the outcome of an attempt that starts now is stored.
    fn longest(&self) -> Duration {
        self.app.load().settings.config.webhooks.timeout.saturating_add(MARKING)
    }

    fn moment(&self) -> LoadMoment {
        let app = self.app.load();
        LoadMoment { now: app.now(), elapsed: app.clock.elapsed() }
    }

    /// Returns the number of deliveries that may be claimed in addition, and the capacity of endpoints and tenants.
    pub(super) fn capacity(&self) -> (usize, ClaimCapacity) {
        let ((concurrency, per_endpoint), at) = (self.bounds(), self.moment());
        let mut loads = self.loads.lock();
        if loads.endpoints.len() > REMEMBERED {
            loads.endpoints.retain(|_, load| !load.is_idle(at.now));
        }
        // All endpoints are listed, so that one with an open breaker does not count as unknown.
        let listed = loads.endpoints.iter().map(|(id, load)| (*id, load.capacity(per_endpoint, at)));
        let listed = listed.filter(|(_, room)| *room != UNKNOWN).collect();
        let places = concurrency.saturating_mul(CLAIMED);
        let (mut tenants, each_tenant) = loads.claimed.capacities(places);
        for tenant in loads.bodies.full(HELD_BYTES) {
            tenants.entry(tenant).or_insert_with(|| each_tenant.clone()).all = 0;
        }
        let bytes = loads.bodies.capacity(HELD_BYTES).min(CLAIMED_BYTES);
        let most = if bytes == 0 { 0 } else { places.saturating_sub(loads.claimed.taken()) };
        (most, ClaimCapacity { each: UNKNOWN, listed, each_tenant, tenants, bytes })
    }

    /// Adds deliveries whose claim ends at `until`.
    pub(super) fn add(&self, deliveries: Vec<DueDelivery>, until: Duration) {
        let mut loads = self.loads.lock();
        for delivery in deliveries {
            loads.hold(delivery, until);
        }
    }

    /// Forgets deliveries whose outcomes are stored.
    pub(super) fn marked(&self, ended: &[EndedAttempt]) {
        let mut loads = self.loads.lock();
        for end in ended {
            loads.held.remove(&end.delivery);
        }
    }

    /// Starts the attempts that may start now. Returns the deliveries that cannot be started in time for their lease.
    pub(super) fn proceed(&self) -> Vec<ReleasedDelivery> {
        let longest = self.longest();
        let elapsed = self.moment().elapsed;
        let mut loads = self.loads.lock();
        let mut back = Vec::new();
        for load in loads.endpoints.values_mut().filter(|load| load.waiting() > 0) {
            back.extend(load.give_back(longest, elapsed));
        }
        let back = loads.give_back(&back);
        let ready = loads.endpoints.iter().filter(|(_, load)| load.waiting() > 0).map(|(id, _)| *id);
        let ready: Vec<_> = ready.collect();
        let mut begun = Vec::new();
        for rule in SlotRule::ALL {
            begun.extend(ready.iter().flat_map(|webhook| self.begin(&mut loads, *webhook, rule)));
        }
        drop(loads);
        self.spawn(begun);
        back
    }

    /// Reports whether an endpoint gets only single attempts with pauses because it fails repeatedly.
    pub(super) fn is_left_alone(&self, webhook: WebhookId) -> bool {
        self.loads.lock().endpoints.get(&webhook).is_some_and(EndpointLoad::is_left_alone)
    }

    /// Takes the deliveries of an endpoint whose attempts may start now and for which `rule` has places.
    fn begin(&self, loads: &mut Loads, webhook: WebhookId, rule: SlotRule) -> Vec<(DueDelivery, Duration)> {
        let ((concurrency, per_endpoint), longest, at) = (self.bounds(), self.longest(), self.moment());
        let mut begun = Vec::new();
        while !loads.is_closed {
            let Some(load) = loads.endpoints.get_mut(&webhook) else { break };
            let Some(owner) = load.owner() else { break };
            if loads.attempts.free_slots(owner, rule, concurrency) == 0 {
                break;
            }
            let Some(delivery) = load.begin(per_endpoint, longest, at) else { break };
            loads.attempts.take(owner);
            loads.running.insert(delivery.id);
            begun.push((delivery, at.elapsed));
        }
        begun
    }

    /// Starts these attempts without the lock, because a runtime that is shutting down drops them here.
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

    /// Starts no more attempts, waits up to `grace` for the running ones, and then cancels them. Returns the claimed
    /// deliveries without an outcome.
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

/// A running attempt, which holds its place until it is dropped.
struct RunningAttempt {
    delivering: Delivering,
    delivery: DeliveryId,
    webhook: WebhookId,
    event: ChainEventId,
    owner: SlotOwner,
    began: Duration,
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
        let begun = delivering.begin(&mut loads, self.webhook, SlotRule::Any);
        drop(loads);
        delivering.spawn(begun);
        // The dispatcher that receives it outlives the last attempt.
        let _ = delivering.ended.send(end);
    }
}
