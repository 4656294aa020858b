//! The state that callers and the link share: the known counts, and the state of the link.

use super::CounterState;
use super::known::{Known, Spot};
use super::script::{Answered, Digests, Names, TTL, UNITS_TTL};
use super::units::{Units, Unused};
use parking_lot::RwLock;
use redis::Cmd;
use rpcgate_core::backend::counters::WindowCount;
use rpcgate_core::caller::{Caller, KeyId, ProjectId};
use rpcgate_core::clock::Time;
use rpcgate_core::in_flight::InFlight;
use rpcgate_core::quota::{Grant, Mask};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::sharded::Sharded;
use rpcgate_core::window::Fixed;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// A command for Redis, and the callback for its answer. `None` as answer: the command was not executed, or it is
/// unknown whether it was.
pub(super) struct Ask {
    pub(super) command: Cmd,
    pub(super) then: Box<dyn FnOnce(Option<Answered>) + Send>,
}

pub(super) enum Order {
    Ask(Ask),
    /// Returns unused units, sends owed counts, and ends the link.
    Close(oneshot::Sender<()>),
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Ask(_) => "Ask",
            Order::Close(_) => "Close",
        })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) name: String,
    /// The hour, for a project's units.
    pub(super) hour: Option<u64>,
    pub(super) value: i64,
    /// The seconds for which the counter is kept.
    pub(super) ttl: u64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) names: Names,
    pub(super) patience: Duration,
    pub(super) keys: Sharded<KeyId, Known>,
    pub(super) seconds: Sharded<ProjectId, Fixed<1>>,
    pub(super) units: Sharded<ProjectId, Units>,
    /// The calls that may have been counted and are not in the usage sink yet.
    pub(super) in_flight: Arc<InFlight>,
    /// True if counts were made alone and are still to be sent to Redis.
    pub(super) owes: AtomicBool,
    pub(super) gateways: AtomicU64,
    pub(super) era: AtomicU64,
    pub(super) digests: RwLock<Option<Arc<Digests>>>,
    /// The number of known lowerings of counters. Answers to commands from before a lowering may be too high.
    pub(super) doubts: AtomicU64,
    /// True if the warning that gateways record in different databases was logged.
    pub(super) is_warned: AtomicBool,
    state: AtomicU8,
    /// Notified whenever the state of the link changes.
    pub(super) changed: Notify,
    origin: Instant,
    /// Redis's clock minus ours, in microseconds; never more than the real difference.
    ahead: AtomicI64,
}

impl Shared {
    pub(super) fn new(prefix: &str, patience: Duration) -> Self {
        Shared {
            names: Names { prefix: prefix.into() },
            patience,
            keys: Sharded::default(),
            seconds: Sharded::default(),
            units: Sharded::default(),
            in_flight: Arc::default(),
            owes: AtomicBool::new(false),
            gateways: AtomicU64::new(1),
            era: AtomicU64::new(0),
            digests: RwLock::default(),
            doubts: AtomicU64::new(0),
            is_warned: AtomicBool::new(false),
            state: AtomicU8::new(CounterState::Alone as u8),
            changed: Notify::new(),
            origin: Instant::now(),
            ahead: AtomicI64::new(0),
        }
    }

    pub(super) fn state(&self) -> CounterState {
        match self.state.load(Relaxed) {
            0 => CounterState::Together,
            1 => CounterState::Seeding,
            _ => CounterState::Alone,
        }
    }

    pub(super) fn set_state(&self, state: CounterState) {
        if self.state.swap(state as u8, Relaxed) != state as u8 {
            self.changed.notify_waiters();
        }
    }

    /// Returns the digests of the scripts, if Redis is in use.
    pub(super) fn together(&self) -> Option<Arc<Digests>> {
        if self.state() != CounterState::Together {
            return None;
        }
        self.digests.read().clone()
    }

    /// Updates the clock difference with the time in an answer of Redis.
    pub(super) fn clock(&self, time: i64) {
        self.ahead.store(time.saturating_sub(self.micros()), Relaxed);
    }

    /// Returns the time of Redis's clock after which an answer would come too late: no call waits for it any more, and
    /// the request is decided without it.
    pub(super) fn not_after(&self) -> i64 {
        let patience = i64::try_from(self.patience.as_micros()).unwrap_or(i64::MAX);
        self.micros().saturating_add(self.ahead.load(Relaxed)).saturating_add(patience)
    }

    /// Converts our time `micros` to Redis's clock. The result is never later than the real time.
    pub(super) fn at_redis(&self, micros: i64) -> i64 {
        micros.saturating_add(self.ahead.load(Relaxed))
    }

    /// Returns the microseconds since these counters were created.
    pub(super) fn micros(&self) -> i64 {
        i64::try_from(self.origin.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Counts on the known counts, without Redis.
    pub(super) fn take_alone(&self, caller: &Caller, weight: u64, now: Time) -> WindowCount {
        let counted = caller.quota.rps_limit.map(|limit| {
            self.seconds.with(caller.project, |second| {
                let fits = second.used(now).saturating_add(weight) <= limit;
                fits.then(|| second.add(weight, now))
            })
        });
        if counted == Some(None) {
            let windows = self.keys.with(caller.key, |known| known.peek(&caller.plan, now));
            return WindowCount { windows, refused: Some(Refusal::Window { retry_after: 1 }) };
        }
        let (windows, taken) = self.keys.with(caller.key, |known| known.take(&caller.plan, weight, now));
        match taken {
            Ok(()) => self.owes.store(true, Relaxed),
            Err(_) => {
                if let Some(number) = counted.flatten() {
                    self.seconds.with(caller.project, |second| second.give_back(weight, number));
                }
            }
        }
        WindowCount { windows, refused: taken.err().map(|retry_after| Refusal::Window { retry_after }) }
    }

    /// Reserves on the known counts, without Redis.
    pub(super) fn reserve_alone(
        &self,
        project: ProjectId,
        costs: &[u32],
        ceiling: u64,
        now: Time,
    ) -> (Mask, Grant) {
        self.units.with(project, |units| units.reserve(costs, ceiling, now))
    }

    pub(super) fn refund(&self, project: ProjectId, hour: u64, units: u64) {
        let is_together = self.state() == CounterState::Together;
        self.units.with(project, |known| match is_together {
            true => known.give_back(hour, units),
            false => known.refund(hour, units),
        });
    }

    /// Takes the counts that are still to be sent to Redis; they are no longer owed.
    pub(super) fn pay(&self, all: bool) -> Vec<Item> {
        let mut items = Vec::new();
        if self.owes.swap(false, Relaxed) {
            self.keys.each(|key, known| {
                items.extend(known.pay().into_iter().map(|owed| Item {
                    name: self.names.window(key, owed.span, owed.number),
                    hour: None,
                    value: i64::try_from(owed.count).unwrap_or(i64::MAX),
                    ttl: TTL[owed.span % 3],
                }));
            });
        }
        self.units.each(|project, units| {
            let owed = units.pay(all).into_iter();
            items.extend(owed.map(|(hour, value)| self.units_item(project, hour, value)));
        });
        items
    }

    pub(super) fn doubt(&self) {
        self.doubts.fetch_add(1, Relaxed);
        self.keys.each(|_, known| known.doubt());
    }

    /// Returns the units that Redis has counted and no call has used, by project and hour.
    pub(super) fn unused(&self) -> Vec<(ProjectId, u64, Unused)> {
        let mut all = Vec::new();
        self.units.each(|project, units| {
            all.extend(units.unused().into_iter().map(|(hour, unused)| (project, hour, unused)));
        });
        all
    }

    pub(super) fn known(&self) -> Vec<Item> {
        let mut items = Vec::new();
        self.keys.each(|key, known| {
            let spots = known.reported().into_iter().enumerate().filter(|(_, spot)| spot.count > 0);
            items.extend(spots.map(|(span, spot)| self.window_item(key, span, spot)));
        });
        self.units.each(|project, units| {
            units.forget_slice();
            let hours = units.known().filter(|(_, units)| *units > 0);
            items.extend(hours.map(|(hour, units)| {
                self.units_item(project, hour, i64::try_from(units).unwrap_or(i64::MAX))
            }));
        });
        items
    }

    pub(super) fn window_item(&self, key: KeyId, span: usize, spot: Spot) -> Item {
        Item {
            name: self.names.window(key, span, spot.number),
            hour: None,
            value: i64::try_from(spot.count).unwrap_or(i64::MAX),
            ttl: TTL[span % 3],
        }
    }

    pub(super) fn units_item(&self, project: ProjectId, hour: u64, value: i64) -> Item {
        Item { name: self.names.units(project), hour: Some(hour), value, ttl: UNITS_TTL }
    }
}
