//! The keys of the management database, as far as they are in use.
//!
//! A key that was looked up is remembered until the change feed names it, its project or its tenant, so a known key
//! costs no query. A forged key costs none either, and callers who ask for one key at the same time share one. While
//! the database is away, what is remembered goes on for [`TRUST`]; what is not cannot be told from what never was, so
//! it is [`Unavailable`], never [`Peek::Unknown`].

use foldhash::fast::RandomState;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use moka::sync::Cache;
use parking_lot::Mutex;
use rpcgate_admin::store::StoredKey;
use rpcgate_core::backend::changes::Change;
use rpcgate_core::backend::directory::{Directory, Peek};
use rpcgate_core::backend::{BoxFuture, Unavailable};
use rpcgate_core::caller::{Caller, KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Clock;
use rpcgate_core::config::Plans;
use rpcgate_core::secret::{KeyForge, KeyHash, shown};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Keys that are remembered at a time; beyond, those that are used least are looked up again.
pub const REMEMBERED: u64 = 100_000;
/// How long remembered keys are good without a word from the change feed (contract, "keys").
pub const TRUST: Duration = Duration::from_secs(24 * 3_600);
/// How long a look-up may take: no request waits for the database longer than a second.
const LOOK_UP: Duration = Duration::from_millis(900);

/// Where keys are kept.
pub trait KeySource: Send + Sync + fmt::Debug {
    /// The key with this hash, its holder with the figures of `plans`; `None` if there is none.
    ///
    /// # Errors
    /// [`Unavailable`] when that cannot be told now.
    fn look_up<'a>(
        &'a self,
        hash: KeyHash,
        plans: &'a Plans,
    ) -> BoxFuture<'a, Result<Option<StoredKey>, Unavailable>>;
}

/// The keys of a [`KeySource`].
pub struct StoreDirectory {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    forge: Option<KeyForge>,
    source: OnceLock<Arc<dyn KeySource>>,
    known: Cache<Box<str>, Peek, RandomState>,
    flights: Mutex<Flights>,
    plans: Mutex<Arc<Plans>>,
    /// Held while remembered keys are gone through, so that nothing that one pass drops is put back by another.
    passing: Mutex<()>,
    /// When the feed was reached last: microseconds of the clock's `elapsed`, and one more; 0 for never.
    reached: AtomicU64,
}

/// Look-ups on their way.
#[derive(Default)]
struct Flights {
    /// Counts the times that something remembered may have become wrong. An answer is remembered, and shared with who
    /// comes later, only while the number is still that of its start.
    generation: u64,
    number: u64,
    by_key: HashMap<Box<str>, Flight>,
}

type Answer = BoxFuture<'static, Result<Peek, Unavailable>>;

struct Flight {
    generation: u64,
    number: u64,
    /// Weak, so that a look-up ends when nobody waits for it any more.
    answer: WeakShared<Answer>,
}

/// One look-up. Dropped, it is off the list.
struct Trip {
    inner: Arc<Inner>,
    key: Box<str>,
    generation: u64,
    number: u64,
}

impl fmt::Debug for StoreDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreDirectory({} keys)", self.inner.known.entry_count())
    }
}

impl StoreDirectory {
    /// A directory that nothing is known in yet. Keys that `forge` did not make are unknown without a look-up; without
    /// a forge, so are only those of another form than a key's. Callers get the figures of `plans`.
    pub fn new(forge: Option<KeyForge>, plans: Plans, clock: Arc<dyn Clock>) -> Self {
        StoreDirectory {
            inner: Arc::new(Inner {
                clock,
                forge,
                source: OnceLock::new(),
                known: Cache::builder().max_capacity(REMEMBERED).build_with_hasher(RandomState::default()),
                flights: Mutex::default(),
                plans: Mutex::new(Arc::new(plans)),
                passing: Mutex::default(),
                reached: AtomicU64::new(0),
            }),
        }
    }

    /// Says where keys are kept; until then every look-up is [`Unavailable`]. Only the first source counts.
    pub fn open(&self, source: Arc<dyn KeySource>) {
        // A second one is the caller's mistake, and harmless: it is not asked.
        let _ = self.inner.source.set(source);
    }

    /// The feed has been read to its end: what is remembered is right as of now.
    pub fn reached(&self) {
        let micros = u64::try_from(self.inner.clock.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.inner.reached.store(micros + 1, Relaxed);
    }

    /// Time since the feed was last read to its end; `None` before the first time.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.inner.age()
    }

    /// How many keys are remembered, as far as housekeeping has come.
    pub(crate) fn known(&self) -> u64 {
        self.inner.known.entry_count()
    }

    /// What is remembered of `key`.
    pub fn remembered(&self, key: &str) -> Option<Peek> {
        let known = self.inner.known.get(key)?;
        self.inner.is_trusted().then_some(known)
    }

    /// What can be told of a key that is not [`remembered`](StoreDirectory::remembered).
    pub fn judge(&self, key: &str) -> Peek {
        if self.inner.may_be_real(key) { Peek::Miss } else { Peek::Unknown }
    }

    /// Forgets the keys that `changes` concern.
    pub fn apply<'c>(&self, changes: impl IntoIterator<Item = &'c Change>) {
        let mut concerned = Concerned::default();
        changes.into_iter().for_each(|change| concerned.add(change));
        if !concerned.is_empty() {
            self.forget(|_, caller| concerned.holds(caller));
        }
    }

    /// Forgets the keys that `which` names, by their text and their holder.
    pub fn forget(&self, which: impl Fn(&str, &Caller) -> bool) {
        self.pass(|key, known| match caller(known) {
            Some(caller) if which(key, caller) => Next::Forget,
            _ => Next::Keep,
        });
    }

    /// Puts the figures of `plans` in force, for those who are remembered too: a change of figures needs no database.
    pub fn plans(&self, plans: &Plans) {
        let plans = Arc::new(plans.clone());
        let former = std::mem::replace(&mut *self.inner.plans.lock(), plans.clone());
        if *former == *plans {
            return;
        }
        self.pass(|_, known| {
            let fresh =
                |caller: &Caller| Arc::new(Caller { plan: plans.of(caller.plan.tier), ..caller.clone() });
            match known {
                Peek::Known(caller) if caller.plan != plans.of(caller.plan.tier) => {
                    Next::Replace(Peek::Known(fresh(caller)))
                }
                Peek::Revoked(caller) if caller.plan != plans.of(caller.plan.tier) => {
                    Next::Replace(Peek::Revoked(fresh(caller)))
                }
                _ => Next::Keep,
            }
        });
    }

    /// The figures of plans that are in force.
    pub(super) fn figures(&self) -> Arc<Plans> {
        self.inner.plans.lock().clone()
    }

    /// Goes through all that is remembered. Answers on their way are not remembered any more.
    fn pass(&self, decide: impl Fn(&str, &Peek) -> Next) {
        let _alone = self.inner.passing.lock();
        // Whatever is inserted from here on was asked for from here on.
        self.inner.flights.lock().generation += 1;
        for (key, known) in &self.inner.known {
            match decide(&key, &known) {
                Next::Keep => {}
                Next::Forget => self.inner.known.invalidate(&**key),
                Next::Replace(known) => self.inner.known.insert(key.as_ref().clone(), known),
            }
        }
    }
}

/// What becomes of a remembered key.
enum Next {
    Keep,
    Forget,
    Replace(Peek),
}

impl Inner {
    fn age(&self) -> Option<Duration> {
        let reached = self.reached.load(Relaxed).checked_sub(1)?;
        Some(self.clock.elapsed().saturating_sub(Duration::from_micros(reached)))
    }

    fn is_trusted(&self) -> bool {
        self.age().is_some_and(|age| age < TRUST)
    }

    fn may_be_real(&self, key: &str) -> bool {
        self.forge.as_ref().map_or_else(|| !shown(key).is_empty(), |forge| forge.is_genuine(key))
    }

    /// Joins the look-up of `key` that is on its way, or starts one.
    fn fly(self: &Arc<Self>, key: &str) -> Shared<Answer> {
        let mut flights = self.flights.lock();
        let generation = flights.generation;
        // An answer that may be older than a change is for those who asked before it.
        let current = flights.by_key.get(key).filter(|flight| flight.generation == generation);
        if let Some(answer) = current.and_then(|flight| flight.answer.upgrade()) {
            return answer;
        }
        flights.number += 1;
        let number = flights.number;
        let trip = Trip { inner: self.clone(), key: key.into(), generation, number };
        let answer: Answer = Box::pin(trip.look_up());
        let answer = answer.shared();
        // It has not been asked yet, so it cannot be done.
        if let Some(answer) = answer.downgrade() {
            flights.by_key.insert(key.into(), Flight { generation, number, answer });
        }
        answer
    }
}

impl Trip {
    async fn look_up(self) -> Result<Peek, Unavailable> {
        let source = self.inner.source.get().ok_or(Unavailable)?;
        let plans = self.inner.plans.lock().clone();
        let found = source.look_up(KeyHash::of(&self.key), &plans);
        let found = tokio::time::timeout(LOOK_UP, found).await.map_err(|_| Unavailable)??;
        // Nobody could bound the memory of what does not exist.
        let Some(StoredKey { caller, revoked }) = found else { return Ok(Peek::Unknown) };
        let caller = Arc::new(caller);
        let known = if revoked { Peek::Revoked(caller) } else { Peek::Known(caller) };
        let flights = self.inner.flights.lock();
        if flights.generation == self.generation {
            self.inner.known.insert(self.key.clone(), known.clone());
        }
        Ok(known)
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        let mut flights = self.inner.flights.lock();
        if flights.by_key.get(&self.key).is_some_and(|flight| flight.number == self.number) {
            flights.by_key.remove(&self.key);
        }
    }
}

impl Directory for StoreDirectory {
    fn peek(&self, key: &str) -> Peek {
        match self.remembered(key) {
            Some(known) => known,
            None => self.judge(key),
        }
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Peek, Unavailable>> {
        match self.peek(key) {
            Peek::Miss => Box::pin(self.inner.fly(key)),
            known => Box::pin(std::future::ready(Ok(known))),
        }
    }
}

fn caller(known: &Peek) -> Option<&Caller> {
    match known {
        Peek::Known(caller) | Peek::Revoked(caller) => Some(caller),
        Peek::Unknown | Peek::Miss => None,
    }
}

/// Whom changes concern.
#[derive(Default)]
struct Concerned {
    keys: HashSet<KeyId>,
    projects: HashSet<ProjectId>,
    tenants: HashSet<TenantId>,
    /// There was a change of a kind that is not known here.
    all: bool,
}

impl Concerned {
    fn add(&mut self, change: &Change) {
        match change {
            Change::Key(key) => {
                self.keys.insert(*key);
            }
            Change::Project(project) => {
                self.projects.insert(*project);
            }
            Change::Tenant(tenant) => {
                self.tenants.insert(*tenant);
            }
            // Figures come with `plans`, weights with the chains.
            Change::Plan(_) | Change::Chain(_) | Change::Other => {}
            _ => self.all = true,
        }
    }

    fn is_empty(&self) -> bool {
        !self.all && self.keys.is_empty() && self.projects.is_empty() && self.tenants.is_empty()
    }

    fn holds(&self, caller: &Caller) -> bool {
        self.all
            || self.keys.contains(&caller.key)
            || self.projects.contains(&caller.project)
            || self.tenants.contains(&caller.tenant)
    }
}

#[cfg(test)]
mod tests;
