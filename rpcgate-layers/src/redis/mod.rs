//! Counters that several gateways share in Redis.
//!
//! Plan windows and requests per second are counted by one script per request; what is ready together travels
//! together. Compute Units are spent from a slice that is reserved in advance, so that they cost no trip; once less is
//! left than a slice for each gateway, every call is reserved in Redis, so that a ceiling is overrun by one call at
//! most. What refuses a call for certain (a window that is known to be full) asks nobody.
//!
//! While Redis is away or answers nothing, each gateway counts alone, on top of what it knew: no call fails, and a
//! limit may be overrun by as much as one limit for each further gateway. What was counted alone is added when Redis is
//! back. If Redis has lost its counters, they are seeded: with what the gateways know, and with what a [`Seed`] tells
//! of the keys that they do not know. That may count twice what was counted alone while they were lost.
//!
//! A gateway that ends gives back what is left of its slices. One that is killed takes it along, at most a 64th of a
//! ceiling for each project. After that, after Redis has lost its counters, and after the way to it broke, counters are
//! compared with what is recorded: see [`Seed::recording`]. Minutes and seconds are left as they are.
//!
//! Redis must not evict: `maxmemory-policy noeviction`. A cluster of Redis servers is not supported.

mod compare;
mod join;
mod known;
mod link;
mod relay;
mod report;
mod script;
mod shared;
#[cfg(test)]
mod tests;
mod tls;
mod units;

use known::numbers;
use link::Link;
pub use relay::ChangeRelay;
use rpcgate_core::backend::counters::{Counters, Restored, Taken};
use rpcgate_core::backend::{Answer, BoxFuture, Unavailable};
use rpcgate_core::caller::{Caller, ProjectId};
use rpcgate_core::clock::Time;
use rpcgate_core::in_flight::InFlightCall;
use rpcgate_core::quota::{Grant, Mask};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::window::Windows;
use script::{Answered, Code, Digests, Script};
use shared::{Ask, Order, Shared};
use smallvec::SmallVec;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use units::{Spent, Want};

/// The largest number that a script can tell from its neighbours.
const MOST: u64 = 1 << 53;
/// A ceiling's smallest share that is worth being reserved in advance, in Compute Units.
const LEAST_SLICE: u64 = 16;
/// Compute Units that are reserved in advance at most.
const MOST_SLICE: u64 = 100_000;

/// Where the counters are.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// `redis://…`, or `rediss://…` for TLS. With that, `?sslrootcert=/file` names the authorities that are trusted in
    /// place of the web's, `sslcert=/file` and `sslkey=/file` a certificate to be shown to the server.
    pub url: String,
    /// What the names of all keys begin with.
    pub prefix: String,
    /// How long Redis may take for an answer before this gateway counts alone.
    pub patience: Duration,
}

impl fmt::Debug for RedisSettings {
    /// The URL is left out: there may be a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("prefix", &self.prefix)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// No Redis can be at this URL, or a file that it names cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("redis.url: {0}")]
pub struct BadRedis(String);

/// Where a gateway's calls are recorded, and how far that has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// Names the place. Counters are only compared with what is recorded if it is the same at all gateways, and holds
    /// what all of them record.
    pub place: Arc<str>,
    /// What the sink was given longer ago is recorded there.
    pub behind: Duration,
}

/// Tells what was counted before Redis lost its counters, and what there must be in them.
pub trait Seed: Send + Sync + fmt::Debug {
    /// Waits until it can tell. Before that, the counters do not look for their Redis.
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// What was counted and still matters.
    fn tell(&self) -> BoxFuture<'_, Result<Restored, Unavailable>>;

    /// Where all gateways record what they count. `None`: nowhere, or it is not known where; then counters are never
    /// compared with what is recorded.
    fn recording(&self) -> Option<Recording> {
        None
    }

    /// What is recorded of the hour, the day and the 24 hours. Minutes need not be told.
    fn recorded(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        self.tell()
    }
}

/// Knows nothing: for gateways that keep no usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoSeed;

impl Seed for NoSeed {
    fn tell(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        Box::pin(std::future::ready(Ok(Restored::default())))
    }
}

/// How a gateway's counters stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Standing {
    /// All gateways count together.
    Together = 0,
    /// Redis is there, but its counters are not yet what they should be: this gateway counts alone.
    Seeding = 1,
    /// Redis is away: this gateway counts alone.
    Alone = 2,
}

/// Counters in Redis.
#[derive(Debug)]
pub struct RedisCounters {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
}

impl RedisCounters {
    /// Counters at `settings`, reached in the background: until then they are counted alone. Runs inside a tokio
    /// runtime, and ends with the last of its handles.
    ///
    /// # Errors
    /// [`BadRedis`] when the URL names no Redis, or a file that it names cannot be used.
    pub fn new(settings: &RedisSettings, seed: Arc<dyn Seed>) -> Result<Self, BadRedis> {
        let shared = Arc::new(Shared::new(&settings.prefix, settings.patience));
        let (orders, taken) = mpsc::unbounded_channel();
        let link = Link::new(&settings.url, shared.clone(), seed)?;
        tokio::spawn(link.run(taken));
        Ok(RedisCounters { shared, orders })
    }

    /// Looks at what [`new`](Self::new) would refuse.
    ///
    /// # Errors
    /// [`BadRedis`] when the URL names no Redis, or a file that it names cannot be used.
    pub fn check(settings: &RedisSettings) -> Result<(), BadRedis> {
        tls::client(&settings.url).map(drop)
    }

    /// How they stand.
    pub fn standing(&self) -> Standing {
        self.shared.standing()
    }

    /// Waits until all gateways count together.
    pub async fn joined(&self) {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if self.standing() == Standing::Together {
                return;
            }
            changed.await;
        }
    }

    /// Gateways that count together as far as is known.
    pub fn gateways(&self) -> u64 {
        self.shared.gateways.load(Relaxed)
    }

    /// Knows from now on what was counted before a restart. Redis is not told: it knows, or it is seeded.
    pub fn restore(&self, restored: &Restored) {
        for (key, used) in &restored.windows {
            self.shared.keys.with(*key, |known| known.raise(*used, numbers(restored.now)));
        }
        for (project, hour, count) in &restored.units {
            self.shared.units.with(*project, |units| units.raise(*hour, *count));
        }
    }

    /// Forgets what no longer matters at `now`, which is the present: also what was counted in spans that are still to
    /// come, after the clock was set back.
    pub fn sweep(&self, now: Time) {
        self.shared.keys.retain(|known| {
            known.forget_ahead(now);
            !known.is_over(now)
        });
        self.shared.seconds.retain(|second| !second.is_over(now));
        self.shared.units.retain(|units| !units.is_over(now));
    }

    /// Compute Units of a project in the 24 hours up to `now`, as far as is known.
    pub fn used(&self, project: ProjectId, now: Time) -> u64 {
        self.shared.units.look(project, |units| units.map_or(0, |units| units.used(now.hour())))
    }

    /// Gives back what is reserved and not used, tells Redis what was counted alone, and counts alone from then on. To
    /// be called after the last call; takes no longer than some answers of Redis may take.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close(done)).is_ok() {
            // A link that has ended has nothing left to close.
            let _ = closed.await;
        }
    }

    fn ask(&self, command: redis::Cmd, then: impl FnOnce(Option<Answered>) + Send + 'static) {
        let ask = Ask { command, then: Box::new(then) };
        if let Err(mpsc::error::SendError(Order::Ask(ask))) = self.orders.send(Order::Ask(ask)) {
            (ask.then)(None);
        }
    }

    /// What to reserve in advance of so high a ceiling.
    fn slice(&self, ceiling: u64) -> u64 {
        let slice = (ceiling / (64 * self.gateways().max(1))).min(MOST_SLICE);
        if slice < LEAST_SLICE { 0 } else { slice }
    }

    fn ask_for_units(
        &self,
        digests: &Digests,
        (project, ceiling, now): (ProjectId, u64, Time),
        costs: &[u32],
        want: Want,
    ) -> oneshot::Receiver<Unclaimed> {
        let shared = &self.shared;
        let mut command = digests.run(Script::Reserve, 2);
        command.arg(shared.names.era()).arg(shared.names.units(project)).arg(shared.not_after());
        command.arg(shared.era.load(Relaxed)).arg(now.hour()).arg(ceiling.min(MOST)).arg(want.slice);
        command.arg(want.slice.saturating_mul(self.gateways().max(1))).arg(want.back);
        for cost in costs {
            command.arg(*cost);
        }
        let (tell, told) = oneshot::channel();
        let (shared, costs, hour) = (shared.clone(), SmallVec::<[u32; 4]>::from_slice(costs), now.hour());
        self.ask(command, move |answered| match answered.filter(|answered| answered.code == Code::Done) {
            None => shared.units.with(project, |units| units.untold(want, hour)),
            Some(answered) => {
                let (mask, grant) = reserved(&answered, &costs, hour);
                let mut numbers = answered.numbers(1);
                let slice = numbers.next().unwrap_or(0);
                let hours = std::iter::from_fn(|| Some((numbers.next()?, numbers.next()?))).collect();
                shared.units.with(project, |units| units.told(want, hour, slice, hours));
                // Whoever asked may have left, or leave before he looks.
                let _ = tell.send(Unclaimed { shared, project, mask, grant });
            }
        });
        told
    }
}

/// What Redis has granted, until whoever asked for it takes it over. Dropped before, its units go back.
#[derive(Debug)]
struct Unclaimed {
    shared: Arc<Shared>,
    project: ProjectId,
    mask: Mask,
    grant: Grant,
}

impl Unclaimed {
    fn claim(mut self) -> (Mask, Grant) {
        (self.mask, std::mem::take(&mut self.grant))
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if self.grant.units > 0 {
            self.shared.refund(self.project, self.grant.hour, self.grant.units);
        }
    }
}

/// Which costs were granted.
fn reserved(answered: &Answered, costs: &[u32], hour: u64) -> (Mask, Grant) {
    let (mut mask, mut grant) = (Mask::default(), Grant { hour, units: 0 });
    for (index, cost) in costs.iter().enumerate() {
        if answered.text(0).get(index) == Some(&b'1') {
            mask.set(index);
            grant.units = grant.units.saturating_add(u64::from(*cost));
        }
    }
    (mask, grant)
}

impl Counters for RedisCounters {
    fn take(&self, caller: &Caller, weight: u32, now: Time) -> Answer<Taken> {
        let (shared, weight) = (&self.shared, u64::from(weight));
        let doubts = shared.doubts.load(Relaxed);
        let (before, numbers, is_doubted) = shared.keys.look(caller.key, |known| match known {
            Some(known) => (known.peek(&caller.plan, now), known.numbers(now), known.is_doubted()),
            None => (Windows::of(&caller.plan, [0; 3], now), numbers(now), false),
        });
        if let Some(retry_after) = before.exhausted(weight).filter(|_| !is_doubted) {
            return Answer::Now(Taken { windows: before, refused: Some(Refusal::Window { retry_after }) });
        }
        let Some(digests) = shared.together() else {
            return Answer::Now(shared.take_alone(caller, weight, now));
        };
        let second = caller.quota.rps_limit;
        let mut command = digests.run(Script::Take, if second.is_some() { 5 } else { 4 });
        command.arg(shared.names.era());
        for (span, number) in numbers.into_iter().enumerate() {
            command.arg(shared.names.window(caller.key, span, number));
        }
        if second.is_some() {
            // Nothing is counted by this: it tells the newest second that a request came in.
            let newest = shared.seconds.with(caller.project, |second| second.add(0, now));
            command.arg(shared.names.second(caller.project, newest));
        }
        command.arg(shared.not_after()).arg(shared.era.load(Relaxed)).arg(weight);
        for limit in
            [caller.plan.per_minute, caller.plan.per_hour, caller.plan.per_day].into_iter().chain(second)
        {
            command.arg(limit.min(MOST));
        }
        let (tell, told) = oneshot::channel();
        self.ask(command, move |answered| {
            // Whoever asked may have left.
            let _ = tell.send(answered);
        });
        // What else is known of a caller costs something to copy.
        let lean = Caller::new(caller.key, caller.project, caller.tenant, caller.plan);
        let (shared, caller) = (shared.clone(), Caller { quota: caller.quota, ..lean });
        Answer::Pending(Box::pin(async move {
            match told.await.ok().flatten() {
                Some(answered) if !matches!(answered.code, Code::Late | Code::OtherEra) => {
                    taken(&shared, &caller, weight, (now, numbers, doubts), &answered)
                }
                _ => shared.take_alone(&caller, weight, now),
            }
        }))
    }

    fn peek(&self, caller: &Caller, now: Time) -> Windows {
        self.shared.keys.look(caller.key, |known| match known {
            Some(known) => known.peek(&caller.plan, now),
            None => Windows::of(&caller.plan, [0; 3], now),
        })
    }

    fn reserve(&self, caller: &Caller, costs: &[u32], now: Time) -> Answer<(Mask, Grant)> {
        let (shared, project, ceiling) = (&self.shared, caller.project, caller.quota.cu_per_day);
        let Some(digests) = shared.together() else {
            return Answer::Now(shared.reserve_alone(project, costs, ceiling, now));
        };
        let total = costs.iter().map(|cost| u64::from(*cost)).sum();
        let slice = self.slice(ceiling);
        let spent = shared.units.with(project, |units| units.spend(total, slice, ceiling, now));
        if let Spent::No(want) = spent {
            let told = self.ask_for_units(&digests, (project, ceiling, now), costs, want);
            let (shared, costs) = (shared.clone(), SmallVec::<[u32; 4]>::from_slice(costs));
            return Answer::Pending(Box::pin(async move {
                match told.await {
                    Ok(unclaimed) => unclaimed.claim(),
                    Err(_) => shared.reserve_alone(project, &costs, ceiling, now),
                }
            }));
        }
        if let Spent::Low(want) = spent {
            // Nobody waits for it: the answer goes into the slice.
            drop(self.ask_for_units(&digests, (project, ceiling, now), &[], want));
        }
        let mut mask = Mask::default();
        (0..costs.len()).for_each(|index| mask.set(index));
        Answer::Now((mask, Grant { hour: now.hour(), units: total }))
    }

    fn refund(&self, project: ProjectId, hour: u64, units: u64) {
        self.shared.refund(project, hour, units);
    }

    fn in_flight(&self) -> Option<InFlightCall> {
        Some(self.shared.in_flight.enter())
    }
}

/// What came of a request that Redis has decided on.
fn taken(
    shared: &Shared,
    caller: &Caller,
    weight: u64,
    (now, numbers, doubts): (Time, [u64; 3], u64),
    answered: &Answered,
) -> Taken {
    let mut counts = answered.numbers(0);
    let used = std::array::from_fn(|_| counts.next().unwrap_or(0));
    shared.keys.with(caller.key, |known| {
        // What was answered before counters were lowered is no longer so.
        if shared.doubts.load(Relaxed) == doubts {
            known.raise(used, numbers);
        }
    });
    let windows = Windows::of(&caller.plan, used, now);
    let refused = match answered.code {
        Code::Second => Some(1),
        Code::Window => Some(windows.exhausted(weight).unwrap_or(1)),
        Code::Done | Code::Late | Code::OtherEra => None,
    };
    Taken { windows, refused: refused.map(|retry_after| Refusal::Window { retry_after }) }
}
