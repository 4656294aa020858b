//! Counters in Redis that several gateways share.
//!
//! One script per request counts plan windows and requests per second; scripts that are ready together are sent
//! together. Compute Units are spent from a slice that is reserved in advance, so that they need no round trip. When
//! less than a slice for each gateway is left, every call is reserved in Redis, so that a ceiling is overrun by at most
//! one call. A call that is certain to be refused, because a window is known to be full, does not reach Redis.
//!
//! While Redis is unreachable or does not answer, each gateway counts alone, starting from its last known counts: no
//! call fails, and each further gateway may overrun a limit by up to that limit. Counts made alone are added when Redis
//! is back. If Redis has lost its counters, they are seeded with the counts that the gateways know, and with those of a
//! [`Seed`] for other keys. Calls that were counted alone while the counters were lost may then count twice.
//!
//! A gateway that shuts down returns the rest of its slices. The slices of a killed gateway stay counted: at most 1/64
//! of a ceiling for each project. After a kill, after Redis has lost its counters, and after the connection to it
//! broke, the counters are compared with the recorded usage: see [`Seed::recording`]. Minutes and seconds are not
//! corrected.
//!
//! Redis must not evict keys: `maxmemory-policy noeviction`. A cluster of Redis servers is not supported.

mod compare;
mod heartbeat;
mod inspect;
mod join;
mod known;
mod link;
mod node_months;
mod relay;
mod report;
mod script;
mod shared;
#[cfg(test)]
mod tests;
mod tls;
mod units;

pub use inspect::{NotInspected, RedisCondition, inspect};
use known::numbers;
use link::Link;
pub use node_months::{NotShared, SharedNodeMonths};
pub use relay::ChangeRelay;
use rpcgate_core::backend::counters::{Counters, Restored, WindowCount};
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

/// The largest whole number that a script represents exactly.
const MOST: u64 = 1 << 53;
/// The smallest slice that is worth reserving in advance, in Compute Units.
const LEAST_SLICE: u64 = 16;
/// The largest slice that is reserved in advance, in Compute Units.
const MOST_SLICE: u64 = 100_000;

/// The address and the settings of Redis.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// `redis://…`, or `rediss://…` for TLS. With TLS, `?sslrootcert=/file` names the CAs that are trusted instead of
    /// the public ones, `sslcert=/file` and `sslkey=/file` a client certificate.
    pub url: String,
    /// The prefix of all key names.
    pub prefix: String,
    /// The time limit of an answer of Redis. After it, this gateway counts alone.
    pub patience: Duration,
}

impl fmt::Debug for RedisSettings {
    /// Without the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("prefix", &self.prefix)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// An error for a URL that is not valid for Redis, or that names a file that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("redis.url: {0}")]
pub struct BadRedis(String);

/// The store in which a gateway's calls are recorded, and the delay of the records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// The name of the store. Counters are compared with the recorded usage only if all gateways have the same name and
    /// the store contains the records of all of them.
    pub store: Arc<str>,
    /// Records that are older than this have arrived there.
    pub behind: Duration,
}

/// A source of the counts from before Redis lost its counters, and of the recorded usage.
pub trait Seed: Send + Sync + fmt::Debug {
    /// Waits until the counts are available. Before that, the counters do not connect to Redis.
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the counts that are still valid.
    fn counts(&self) -> BoxFuture<'_, Result<Restored, Unavailable>>;

    /// Returns the store in which all gateways record their calls. `None` if no such store exists or it is unknown;
    /// then counters are never compared with the recorded usage.
    fn recording(&self) -> Option<Recording> {
        None
    }

    /// Returns the recorded usage of the hour, the day and the last 24 hours. Minutes may be missing.
    fn recorded(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        self.counts()
    }
}

/// A source without counts, for gateways that record no usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoSeed;

impl Seed for NoSeed {
    fn counts(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        Box::pin(std::future::ready(Ok(Restored::default())))
    }
}

/// The state of a gateway's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CounterState {
    /// All gateways count together.
    Together = 0,
    /// Redis is connected, but its counters are not yet seeded: this gateway counts alone.
    Seeding = 1,
    /// Redis is unreachable: this gateway counts alone.
    Alone = 2,
}

/// Counters in Redis.
#[derive(Debug)]
pub struct RedisCounters {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
}

impl RedisCounters {
    /// Creates counters in the Redis of `settings`. The connection is made in the background; until then this gateway
    /// counts alone. Must be called inside a tokio runtime. The connection ends with the last clone.
    ///
    /// # Errors
    /// [`BadRedis`] if the URL is not valid for Redis, or if a file that it names cannot be used.
    pub fn new(settings: &RedisSettings, seed: Arc<dyn Seed>) -> Result<Self, BadRedis> {
        let shared = Arc::new(Shared::new(&settings.prefix, settings.patience));
        let (orders, taken) = mpsc::unbounded_channel();
        let link = Link::new(&settings.url, shared.clone(), seed)?;
        tokio::spawn(link.run(taken));
        Ok(RedisCounters { shared, orders })
    }

    /// Checks the settings like [`new`](Self::new).
    ///
    /// # Errors
    /// [`BadRedis`] if the URL is not valid for Redis, or if a file that it names cannot be used.
    pub fn check(settings: &RedisSettings) -> Result<(), BadRedis> {
        tls::client(&settings.url).map(drop)
    }

    /// Returns the current state of the counters.
    pub fn state(&self) -> CounterState {
        self.shared.state()
    }

    /// Waits until all gateways count together.
    pub async fn joined(&self) {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // No change is missed after this point.
            changed.as_mut().enable();
            if self.state() == CounterState::Together {
                return;
            }
            changed.await;
        }
    }

    /// Returns the number of gateways that count together, as last reported by Redis.
    pub fn gateways(&self) -> u64 {
        self.shared.gateways.load(Relaxed)
    }

    /// Adds the counts from before a restart. They are not sent to Redis, which has them already or is seeded.
    pub fn restore(&self, restored: &Restored) {
        for (key, used) in &restored.windows {
            self.shared.keys.with(*key, |known| known.raise(*used, numbers(restored.now)));
        }
        for (project, hour, count) in &restored.units {
            self.shared.units.with(*project, |units| units.raise(*hour, *count));
        }
    }

    /// Returns the Compute Units of a project in the 24 hours up to `now` that this gateway knows.
    pub fn used(&self, project: ProjectId, now: Time) -> u64 {
        self.shared.units.look(project, |units| units.map_or(0, |units| units.used(now.hour())))
    }

    /// Returns unused reservations, sends the counts made alone to Redis, and then counts alone. Must be called after
    /// the last call. It takes no longer than a few answers of Redis.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close(done)).is_ok() {
            // The link may have ended already.
            let _ = closed.await;
        }
    }

    fn ask(&self, command: redis::Cmd, then: impl FnOnce(Option<Answered>) + Send + 'static) {
        let ask = Ask { command, then: Box::new(then) };
        if let Err(mpsc::error::SendError(Order::Ask(ask))) = self.orders.send(Order::Ask(ask)) {
            (ask.then)(None);
        }
    }

    fn slice(&self, ceiling: u64) -> u64 {
        let slice = (ceiling / (64 * self.gateways().max(1))).min(MOST_SLICE);
        if slice < LEAST_SLICE { 0 } else { slice }
    }

    fn ask_for_units(
        &self,
        digests: &Digests,
        project: ProjectId,
        ceiling: u64,
        now: Time,
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
        let (sender, receiver) = oneshot::channel();
        let shared = shared.clone();
        let costs = SmallVec::<[u32; 4]>::from_slice(costs);
        let hour = now.hour();
        self.ask(command, move |answered| match answered.filter(|answered| answered.code == Code::Done) {
            None => shared.units.with(project, |units| units.unreported(want, hour)),
            Some(answered) => {
                let (mask, mut grant) = reserved(&answered, &costs, hour);
                let mut numbers = answered.numbers(1);
                let slice = numbers.next().unwrap_or(0);
                let hours = std::iter::from_fn(|| Some((numbers.next()?, numbers.next()?))).collect();
                let spent = shared.units.with(project, |units| {
                    units.reported(want, hour, slice, hours);
                    units.spent(hour)
                });
                grant.used = spent.saturating_sub(grant.units);
                // The caller may have gone, or may go before it reads the answer.
                let _ = sender.send(Unclaimed { shared, project, mask, grant });
            }
        });
        receiver
    }
}

/// Units that Redis has granted, until the caller takes them. Dropping this before then returns the units.
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

fn reserved(answered: &Answered, costs: &[u32], hour: u64) -> (Mask, Grant) {
    let mut mask = Mask::default();
    let mut grant = Grant { hour, units: 0, used: 0 };
    for (index, cost) in costs.iter().enumerate() {
        if answered.text(0).get(index) == Some(&b'1') {
            mask.set(index);
            grant.units = grant.units.saturating_add(u64::from(*cost));
        }
    }
    (mask, grant)
}

impl Counters for RedisCounters {
    fn sweep(&self, now: Time) {
        self.shared.keys.retain(|known| {
            known.forget_ahead(now);
            !known.is_over(now)
        });
        self.shared.seconds.retain(|second| !second.is_over(now));
        self.shared.units.retain(|units| !units.is_over(now));
    }

    fn take(&self, caller: &Caller, weight: u32, now: Time) -> Answer<WindowCount> {
        let shared = &self.shared;
        let weight = u64::from(weight);
        let doubts = shared.doubts.load(Relaxed);
        let (before, numbers, is_doubted) = shared.keys.look(caller.key, |known| match known {
            Some(known) => (known.peek(&caller.plan, now), known.numbers(now), known.is_doubted()),
            None => (Windows::of(&caller.plan, [0; 3], now), numbers(now), false),
        });
        if let Some(retry_after) = before.exhausted(weight).filter(|_| !is_doubted) {
            return Answer::Now(WindowCount {
                windows: before,
                refused: Some(Refusal::Window { retry_after }),
            });
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
            // Counts nothing, but sets the newest second in which a request arrived.
            let newest = shared.seconds.with(caller.project, |second| second.add(0, now));
            command.arg(shared.names.second(caller.project, newest));
        }
        command.arg(shared.not_after()).arg(shared.era.load(Relaxed)).arg(weight);
        for limit in
            [caller.plan.per_minute, caller.plan.per_hour, caller.plan.per_day].into_iter().chain(second)
        {
            command.arg(limit.min(MOST));
        }
        let (sender, receiver) = oneshot::channel();
        self.ask(command, move |answered| {
            // The caller may have gone.
            let _ = sender.send(answered);
        });
        // Copying the whole caller would be expensive.
        let lean = Caller::new(caller.key, caller.project, caller.tenant, caller.plan);
        let shared = shared.clone();
        let caller = lean.with_quota(caller.quota);
        Answer::Pending(Box::pin(async move {
            match receiver.await.ok().flatten() {
                Some(answered) if !matches!(answered.code, Code::Late | Code::OtherEra) => {
                    taken(&shared, &caller, weight, now, numbers, doubts, &answered)
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
        let shared = &self.shared;
        let project = caller.project;
        let ceiling = caller.quota.cu_per_day;
        let Some(digests) = shared.together() else {
            return Answer::Now(shared.reserve_alone(project, costs, ceiling, now));
        };
        let total = costs.iter().map(|cost| u64::from(*cost)).sum();
        let slice = self.slice(ceiling);
        let (spent, used) = shared.units.with(project, |units| {
            (units.spend(total, slice, ceiling, now), units.spent(now.hour()).saturating_sub(total))
        });
        if let Spent::No(want) = spent {
            let reported = self.ask_for_units(&digests, project, ceiling, now, costs, want);
            let shared = shared.clone();
            let costs = SmallVec::<[u32; 4]>::from_slice(costs);
            return Answer::Pending(Box::pin(async move {
                match reported.await {
                    Ok(unclaimed) => unclaimed.claim(),
                    Err(_) => shared.reserve_alone(project, &costs, ceiling, now),
                }
            }));
        }
        if let Spent::Low(want) = spent {
            // No call waits for it: the answer goes into the slice.
            drop(self.ask_for_units(&digests, project, ceiling, now, &[], want));
        }
        let mut mask = Mask::default();
        (0..costs.len()).for_each(|index| mask.set(index));
        Answer::Now((mask, Grant { hour: now.hour(), units: total, used }))
    }

    fn refund(&self, project: ProjectId, hour: u64, units: u64) {
        self.shared.refund(project, hour, units);
    }

    fn in_flight(&self) -> Option<InFlightCall> {
        Some(self.shared.in_flight.enter())
    }
}

fn taken(
    shared: &Shared,
    caller: &Caller,
    weight: u64,
    now: Time,
    numbers: [u64; 3],
    doubts: u64,
    answered: &Answered,
) -> WindowCount {
    let mut counts = answered.numbers(0);
    let used = std::array::from_fn(|_| counts.next().unwrap_or(0));
    shared.keys.with(caller.key, |known| {
        // Answers from before counters were lowered are out of date.
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
    WindowCount { windows, refused: refused.map(|retry_after| Refusal::Window { retry_after }) }
}
