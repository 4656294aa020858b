//! The open streams: their limits, and their early end.

mod calls;

pub(crate) use calls::CallPermit;

use super::close::CloseReason;
use super::limits::StreamLimits;
use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use rpcgate_core::backend::directory::{Directory, KeyLookup};
use rpcgate_core::caller::{Caller, KeyId, ProjectId};
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::Clock;
use rpcgate_core::refusal::Refusal;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// The interval at which the keys of open streams are looked up. Together with the update delay of a directory, the
/// streams of a revoked key end within a second.
const CHECKED: Duration = Duration::from_millis(250);

/// The open streams of a gateway.
///
/// The plan limits the streams per project and per key ([`Refusal::TooManyStreams`]). The gateway limits all streams
/// together ([`StreamLimits::max_open`], [`Refusal::Overloaded`]). [`watch`](OpenStreams::watch), which must run,
/// closes streams with 1008 when their key is revoked or expires, may no longer use the chain, or belongs to a
/// suspended tenant. Long gRPC calls are limited by the plan and ended in the same cases.
pub struct OpenStreams {
    directory: Arc<dyn Directory>,
    clock: Arc<dyn Clock>,
    open: Mutex<Open>,
    closed: [AtomicU64; CloseReason::ALL.len()],
}

#[derive(Default)]
struct Open {
    keys: HashMap<(KeyId, ChainName), Arc<KeyStreams>, RandomState>,
    /// The number of streams by project and by key, including gRPC calls that count as streams.
    projects: HashMap<ProjectId, u32, RandomState>,
    of_keys: HashMap<KeyId, u32, RandomState>,
    /// The number of WebSocket streams by chain.
    chains: HashMap<ChainName, usize, RandomState>,
    /// The time over which streams end during a shutdown; `None` otherwise.
    shutdown: Option<Duration>,
}

pub(super) struct KeyStreams {
    chain: ChainName,
    /// The key itself, for look-ups; `None` if its streams were opened without a key.
    text: Option<Box<str>>,
    caller: ArcSwap<Caller>,
    end: watch::Sender<Option<Ending>>,
    /// The number of streams and gRPC calls that hold this value, counted or not. Written under the lock of
    /// [`OpenStreams`].
    held: AtomicU64,
}

/// The order to end streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ending {
    pub(super) reason: CloseReason,
    /// The time over which they end, so that their clients do not all reconnect at once.
    pub(super) spread: Duration,
}

impl fmt::Debug for OpenStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenStreams({})", self.count())
    }
}

impl OpenStreams {
    /// Creates an empty set. Keys are looked up in `directory` and expire by `clock`.
    pub fn new(directory: Arc<dyn Directory>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(OpenStreams {
            directory,
            clock,
            open: Mutex::default(),
            closed: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// Returns the number of open streams.
    pub fn count(&self) -> usize {
        self.open.lock().total()
    }

    /// Reports whether no stream and no long gRPC call is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.lock().keys.is_empty()
    }

    /// Returns the number of open streams by chain. A chain that had streams stays in the list.
    pub fn by_chain(&self) -> Vec<(ChainName, usize)> {
        self.open.lock().chains.iter().map(|(chain, count)| (*chain, *count)).collect()
    }

    /// Returns the number of ended streams by reason.
    pub fn closed(&self) -> impl Iterator<Item = (CloseReason, u64)> + '_ {
        CloseReason::ALL.into_iter().zip(self.closed.iter().map(|count| count.load(Relaxed)))
    }

    /// Closes all streams with 1001, at random times within `spread`, and refuses new ones. gRPC calls continue,
    /// because most end by themselves. A `spread` of zero, in this or a later call, ends them too.
    pub fn shut_down(&self, spread: Duration) {
        let mut open = self.open.lock();
        open.shutdown = Some(spread);
        for key in open.keys.values() {
            key.close(Ending { reason: CloseReason::Shutdown, spread });
        }
    }

    /// Checks the keys of open streams periodically, and ends the streams of keys that lost access.
    pub async fn watch(&self) {
        let mut ticks = tokio::time::interval(CHECKED);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.check().await;
        }
    }

    /// Checks every key once.
    pub async fn check(&self) {
        let keys: Vec<_> = self.open.lock().keys.values().cloned().collect();
        for key in keys {
            let Some(text) = &key.text else { continue };
            let peek = match self.directory.peek(text) {
                // If the directory does not answer, the streams stay open.
                KeyLookup::Miss => self.directory.fetch(text).await.ok(),
                peek => Some(peek),
            };
            let reason = match peek {
                Some(KeyLookup::Known(caller)) => {
                    let reason = self.reason(&caller, key.chain);
                    if !Arc::ptr_eq(&caller, &key.caller.load()) {
                        key.caller.store(caller);
                    }
                    reason
                }
                Some(KeyLookup::Revoked(_) | KeyLookup::Unknown) => Some(CloseReason::KeyRevoked),
                Some(KeyLookup::Miss) | None => self.reason(&key.caller.load(), key.chain),
            };
            match reason {
                Some(reason) => key.close(Ending { reason, spread: Duration::ZERO }),
                None => key.reopen(),
            }
        }
    }

    fn reason(&self, caller: &Caller, chain: ChainName) -> Option<CloseReason> {
        if caller.suspended {
            Some(CloseReason::Suspended)
        } else if caller.expires_at.is_some_and(|end| self.clock.now() >= end) {
            Some(CloseReason::KeyExpired)
        } else if !caller.scope.allows(chain) {
            Some(CloseReason::OutOfScope)
        } else {
            None
        }
    }

    /// Counts a new stream of `caller`, whose key is `text`, within `limits.max_open`.
    pub(super) fn admit(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        text: Option<&str>,
        chain: ChainName,
        limits: &StreamLimits,
    ) -> Result<StreamPermit, Refusal> {
        let mut open = self.open.lock();
        if open.shutdown.is_some() {
            return Err(Refusal::Overloaded);
        }
        let has_capacity = limits.has_capacity(open.total(), open.of_project(caller.project));
        open.count(caller)?;
        if !has_capacity {
            open.uncount(caller.project, caller.key);
            return Err(Refusal::Overloaded);
        }
        let key = open.hold(caller, text, chain);
        *open.chains.entry(chain).or_default() += 1;
        drop(open);
        Ok(StreamPermit { streams: self.clone(), key, id: (caller.key, caller.project, chain), reason: None })
    }
}

impl Open {
    fn total(&self) -> usize {
        self.chains.values().sum()
    }

    fn of_project(&self, project: ProjectId) -> u32 {
        self.projects.get(&project).copied().unwrap_or_default()
    }

    /// Returns the streams of a key on a chain and adds a hold.
    fn hold(&mut self, caller: &Arc<Caller>, text: Option<&str>, chain: ChainName) -> Arc<KeyStreams> {
        let ending = self.shutdown.map(|spread| Ending { reason: CloseReason::Shutdown, spread });
        let key = self.keys.entry((caller.key, chain)).or_insert_with(|| {
            Arc::new(KeyStreams {
                chain,
                text: text.map(Into::into),
                caller: ArcSwap::new(caller.clone()),
                end: watch::Sender::new(ending),
                held: AtomicU64::new(0),
            })
        });
        key.held.fetch_add(1, Relaxed);
        key.clone()
    }

    /// Removes a hold. The last hold removes an ended key, so that its later streams start without the ending.
    fn release(&mut self, id: KeyId, key: &KeyStreams) {
        if key.held.fetch_sub(1, Relaxed) == 1 {
            self.keys.remove(&(id, key.chain));
        }
    }

    fn count(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let of_project = self.of_project(caller.project);
        let of_key = self.of_keys.get(&caller.key).copied().unwrap_or_default();
        if of_project >= caller.plan.ws_connections || of_key >= caller.plan.ws_connections_per_key {
            return Err(Refusal::TooManyStreams);
        }
        *self.projects.entry(caller.project).or_default() += 1;
        *self.of_keys.entry(caller.key).or_default() += 1;
        Ok(())
    }

    fn uncount(&mut self, project: ProjectId, key: KeyId) {
        subtract(&mut self.projects, project);
        subtract(&mut self.of_keys, key);
    }
}

/// Decrements a count. A zero count is removed.
fn subtract<K: Eq + Hash>(counts: &mut HashMap<K, u32, RandomState>, of: K) {
    if let Entry::Occupied(mut count) = counts.entry(of) {
        *count.get_mut() = count.get().saturating_sub(1);
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl KeyStreams {
    fn close(&self, ending: Ending) {
        self.end.send_if_modified(|now| {
            let is_sooner = now.is_none_or(|now| ending.spread < now.spread);
            if is_sooner {
                *now = Some(ending);
            }
            is_sooner
        });
    }

    /// Withdraws the ending, because the key may have streams again. New streams do not end.
    fn reopen(&self) {
        self.end.send_if_modified(|now| {
            let was_ended = now.is_some_and(|now| now.reason != CloseReason::Shutdown);
            if was_ended {
                *now = None;
            }
            was_ended
        });
    }

    pub(super) fn caller(&self) -> arc_swap::Guard<Arc<Caller>> {
        self.caller.load()
    }

    /// Returns a receiver for the order to end the streams.
    pub(super) fn endings(&self) -> watch::Receiver<Option<Ending>> {
        self.end.subscribe()
    }
}

/// A counted stream. Dropping it returns the slot.
pub(super) struct StreamPermit {
    streams: Arc<OpenStreams>,
    key: Arc<KeyStreams>,
    id: (KeyId, ProjectId, ChainName),
    /// The reason for the end; `None` if the stream was not opened.
    reason: Option<CloseReason>,
}

impl StreamPermit {
    pub(super) fn key(&self) -> &Arc<KeyStreams> {
        &self.key
    }

    pub(super) fn ended(&mut self, reason: CloseReason) {
        self.reason = Some(reason);
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let (key, project, chain) = self.id;
        if let Some(count) = self.reason.and_then(|reason| self.streams.closed.get(reason as usize)) {
            count.fetch_add(1, Relaxed);
        }
        let mut open = self.streams.open.lock();
        if let Some(count) = open.chains.get_mut(&chain) {
            *count = count.saturating_sub(1);
        }
        open.uncount(project, key);
        open.release(key, &self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::directory::MemoryDirectory;
    use rpcgate_core::caller::{Scope, TenantId};
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_core::plan::{Plan, Tier};
    use rpcgate_core::secret::KeyHash;

    pub(super) const ETH: ChainName = ChainName::new("eth");
    pub(super) const KEY: &str = "0123456789abcdef";

    pub(super) fn caller(key: u128, project: u128) -> Caller {
        let plan = Plan::of(Tier::Free).with_ws_connections(3).with_ws_connections_per_key(2);
        Caller::new(KeyId(key), ProjectId(project), TenantId(1), plan)
    }

    pub(super) struct Fixture {
        clock: Arc<ManualClock>,
        pub(super) directory: Arc<MemoryDirectory>,
        pub(super) streams: Arc<OpenStreams>,
        pub(super) caller: Arc<Caller>,
    }

    impl Fixture {
        pub(super) fn new(caller: Caller) -> Self {
            let caller = Arc::new(caller);
            let clock = Arc::new(ManualClock::at(Time::from_secs(1_000)));
            let directory = Arc::new(MemoryDirectory::new([(KeyHash::of(KEY), caller.clone())]));
            let streams = OpenStreams::new(directory.clone(), clock.clone());
            Fixture { clock, directory, streams, caller }
        }

        pub(super) fn open(&self) -> StreamPermit {
            self.open_on(ETH)
        }

        fn open_on(&self, chain: ChainName) -> StreamPermit {
            let admitted = self.streams.admit(&self.caller, Some(KEY), chain, &StreamLimits::default());
            admitted.unwrap_or_else(|_| panic!("admitted"))
        }
    }

    fn ending(permit: &StreamPermit) -> Option<CloseReason> {
        permit.key().endings().borrow().map(|ending| ending.reason)
    }

    #[test]
    fn streams_of_a_key_and_a_project_are_limited_by_their_plan_independently_of_others() {
        let streams = Fixture::new(caller(1, 1)).streams;
        let admit = |key, project| {
            streams.admit(&Arc::new(caller(key, project)), None, ETH, &StreamLimits::default())
        };
        let first = [admit(1, 1), admit(1, 1)];
        assert!(first.iter().all(Result::is_ok));
        assert_eq!(admit(1, 1).err(), Some(Refusal::TooManyStreams), "the key has two");
        let other = admit(2, 1);
        assert!(other.is_ok());
        assert_eq!(admit(2, 1).err(), Some(Refusal::TooManyStreams), "the project has three");
        assert!(admit(3, 2).is_ok(), "another project");
        assert_eq!((streams.count(), streams.by_chain()), (3, vec![(ETH, 3)]));
        drop(first);
        assert!(admit(2, 1).is_ok());
        drop(other);
        assert_eq!(streams.count(), 0);
        let open = streams.open.lock();
        assert!(open.keys.is_empty() && open.projects.is_empty(), "nothing is left behind");
    }

    #[test]
    fn ends_are_counted_by_reason_without_streams_that_never_opened() {
        let fixture = Fixture::new(caller(1, 1));
        let mut permit = fixture.open();
        drop(fixture.open());
        permit.ended(CloseReason::NodeLost);
        drop(permit);
        let counts: Vec<_> = fixture.streams.closed().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(CloseReason::NodeLost, 1)]);
    }

    #[tokio::test]
    async fn streams_end_when_their_key_is_revoked_and_later_ones_start_fresh() {
        let fixture = Fixture::new(caller(1, 1));
        let permit = fixture.open();
        fixture.streams.check().await;
        assert_eq!(ending(&permit), None);
        fixture.directory.revoke(KeyHash::of(KEY));
        fixture.streams.check().await;
        assert_eq!(ending(&permit), Some(CloseReason::KeyRevoked));
        drop(permit);
        assert_eq!(ending(&fixture.open()), None);
    }

    #[tokio::test]
    async fn streams_end_when_their_key_expires() {
        let mut expiring = caller(1, 1);
        expiring.expires_at = Some(Time::from_secs(1_001));
        let fixture = Fixture::new(expiring);
        let permit = fixture.open();
        fixture.streams.check().await;
        assert_eq!(ending(&permit), None);
        fixture.clock.advance(Duration::from_secs(1));
        fixture.streams.check().await;
        assert_eq!(ending(&permit), Some(CloseReason::KeyExpired));
    }

    #[tokio::test]
    async fn a_changed_caller_reaches_open_streams_and_a_suspended_one_ends_them() {
        let old = Arc::new(caller(1, 1));
        let fixture = Fixture::new(caller(1, 1));
        let admit = |streams: &Arc<OpenStreams>| {
            let admitted = streams.admit(&old, Some(KEY), ETH, &StreamLimits::default());
            admitted.unwrap_or_else(|_| panic!("admitted"))
        };
        let permit = admit(&fixture.streams);
        fixture.streams.check().await;
        assert!(Arc::ptr_eq(&permit.key().caller(), &fixture.caller), "the directory's own");
        let mut changed = caller(1, 1);
        changed.suspended = true;
        let suspended = Fixture::new(changed);
        let permit = admit(&suspended.streams);
        suspended.streams.check().await;
        assert_eq!(ending(&permit), Some(CloseReason::Suspended));
    }

    // Shows (Streams).
    #[tokio::test]
    async fn streams_end_on_a_chain_that_their_key_lost_and_continue_elsewhere() {
        const BSC: ChainName = ChainName::new("bsc");
        let mut narrowed = caller(1, 1);
        narrowed.scope = Scope::Only(["bsc".into()].into());
        let fixture = Fixture::new(narrowed);
        let eth = fixture.open();
        let bsc = fixture.open_on(BSC);
        fixture.streams.check().await;
        assert_eq!((ending(&eth), ending(&bsc)), (Some(CloseReason::OutOfScope), None));
        let refused = fixture.streams.admit(&fixture.caller, Some(KEY), BSC, &StreamLimits::default());
        assert_eq!(refused.err(), Some(Refusal::TooManyStreams), "the key has two, on all chains together");
    }

    // Shows (Streams).
    #[test]
    fn a_gateway_has_as_many_streams_as_it_can_hold_and_leaves_some_to_every_project() {
        let streams = Fixture::new(caller(1, 1)).streams;
        let limits = StreamLimits::default().with_max_open(64);
        let admit = |key, project| {
            let mut caller = caller(key, project);
            caller.plan = caller.plan.with_ws_connections(99).with_ws_connections_per_key(99);
            streams.admit(&Arc::new(caller), None, ETH, &limits)
        };
        let mut held: Vec<_> = (0..62).map(|_| admit(1, 1)).collect();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(admit(1, 1).err(), Some(Refusal::Overloaded), "the rest is left to others");
        held.extend([admit(2, 2), admit(3, 3)]);
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(admit(4, 4).err(), Some(Refusal::Overloaded), "it has all");
        held.pop();
        assert!(admit(4, 4).is_ok());
    }

    #[test]
    fn a_shutdown_ends_all_streams_and_admits_none_and_a_revoked_key_ends_at_once() {
        let fixture = Fixture::new(caller(1, 1));
        let permit = fixture.open();
        fixture.streams.shut_down(Duration::from_secs(9));
        assert_eq!(ending(&permit), Some(CloseReason::Shutdown));
        let refused = fixture.streams.admit(&fixture.caller, Some(KEY), ETH, &StreamLimits::default());
        assert_eq!(refused.err(), Some(Refusal::Overloaded));
        permit.key().close(Ending { reason: CloseReason::KeyRevoked, spread: Duration::ZERO });
        assert_eq!(ending(&permit), Some(CloseReason::KeyRevoked));
    }
}
