//! The keys of the management database that are in use.
//!
//! A key that was looked up is remembered until the change feed names it, its project or its tenant, so a known key
//! costs no query. A forged key costs none either, and simultaneous look-ups of one key share one query. While the
//! database is away, remembered keys stay valid for [`TRUST`]. An unknown key cannot be distinguished from one that
//! never existed, so it is [`Unavailable`], never [`KeyLookup::Unknown`].

use arc_swap::ArcSwapOption;
use foldhash::fast::RandomState;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use moka::sync::Cache;
use parking_lot::Mutex;
use rpcgate_config::Plans;
use rpcgate_core::backend::changes::Change;
use rpcgate_core::backend::directory::{Directory, KeyLookup};
use rpcgate_core::backend::{BoxFuture, Unavailable};
use rpcgate_core::caller::{Caller, CustomPlanId, KeyId, ProjectId, TenantId};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::secret::{KeyForge, KeyHash, shown};
use rpcgate_store::{StoredKey, Terms};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The maximum number of remembered keys; beyond it the least used ones are looked up again.
pub const REMEMBERED: u64 = 100_000;
/// The time that remembered keys stay valid without a read of the change feed (contract, "keys").
pub const TRUST: Duration = Duration::from_secs(24 * 3_600);
/// The time limit of a look-up: no request waits for the database longer than a second.
const LOOK_UP: Duration = Duration::from_millis(900);

/// A store of keys.
pub trait KeySource: Send + Sync + fmt::Debug {
    /// Returns the caller of the key with this hash at `now`, with the limits of `plans`; `None` if the key does not
    /// exist.
    ///
    /// # Errors
    /// [`Unavailable`] if that is not known now.
    fn look_up<'a>(
        &'a self,
        hash: KeyHash,
        plans: &'a Plans,
        now: Time,
    ) -> BoxFuture<'a, Result<Option<StoredKey>, Unavailable>>;
}

/// The keys of a [`KeySource`].
pub struct StoreDirectory {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    /// Checked only for keys that are not remembered.
    forge: ArcSwapOption<KeyForge>,
    source: OnceLock<Arc<dyn KeySource>>,
    known: Cache<Box<str>, RememberedKey, RandomState>,
    look_ups: Mutex<LookUps>,
    plans: Mutex<Arc<Plans>>,
    /// The next time at which the limits of a remembered key may change: microseconds, `u64::MAX` for never.
    next_bound: AtomicU64,
    /// Locked while remembered keys are walked, so that one pass does not put back what another has dropped.
    passing: Mutex<()>,
    /// The last read of the feed: microseconds of the clock's `elapsed`, plus one; 0 for never.
    reached: AtomicU64,
}

#[derive(Clone)]
struct RememberedKey {
    peek: KeyLookup,
    /// The limits that override those of the tenant's tier, now or at a later time.
    terms: Option<Arc<Terms>>,
}

impl RememberedKey {
    fn caller(&self) -> Option<&Caller> {
        match &self.peek {
            KeyLookup::Known(caller) | KeyLookup::Revoked(caller) => Some(caller),
            KeyLookup::Unknown | KeyLookup::Miss => None,
        }
    }

    /// Returns the key with the limits in force at `now`; `None` if it has them already.
    fn renewed(&self, plans: &Plans, now: Time) -> Option<Self> {
        let caller = self.caller()?;
        let plan = plans.of_tenant(caller.plan.tier);
        let plan = self.terms.as_ref().map_or(plan, |terms| terms.plan(plan, now));
        let quota = caller.quota.or_of_plan(plan.quota);
        if caller.plan == plan && caller.quota == quota {
            return None;
        }
        let fresh = Arc::new(caller.clone().with_plan(plan).with_quota(quota));
        let is_revoked = matches!(self.peek, KeyLookup::Revoked(_));
        let peek = if is_revoked { KeyLookup::Revoked(fresh) } else { KeyLookup::Known(fresh) };
        Some(RememberedKey { peek, terms: self.terms.clone() })
    }
}

#[derive(Default)]
struct LookUps {
    /// Counts how often a remembered key may have become wrong. An answer is remembered, and shared with later callers,
    /// only while the number is the one of its start.
    generation: u64,
    number: u64,
    by_key: HashMap<Box<str>, PendingLookUp>,
}

type Answer = BoxFuture<'static, Result<KeyLookup, Unavailable>>;

struct PendingLookUp {
    generation: u64,
    number: u64,
    /// Weak, so that a look-up ends when no caller waits for it any more.
    answer: WeakShared<Answer>,
}

/// One look-up. Dropping it removes it from the list.
struct LookUp {
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
    /// Creates an empty directory. Keys that `forge` did not make are unknown without a look-up; without a forge, only
    /// malformed keys are. Callers get the limits of `plans`.
    pub fn new(forge: Option<KeyForge>, plans: Plans, clock: Arc<dyn Clock>) -> Self {
        StoreDirectory {
            inner: Arc::new(Inner {
                clock,
                forge: ArcSwapOption::from_pointee(forge),
                source: OnceLock::new(),
                known: Cache::builder().max_capacity(REMEMBERED).build_with_hasher(RandomState::default()),
                look_ups: Mutex::default(),
                plans: Mutex::new(Arc::new(plans)),
                next_bound: AtomicU64::new(u64::MAX),
                passing: Mutex::default(),
                reached: AtomicU64::new(0),
            }),
        }
    }

    /// Sets the store of the keys; until then every look-up is [`Unavailable`]. Only the first source counts.
    pub fn open(&self, source: Arc<dyn KeySource>) {
        // A second source is the caller's mistake and is ignored.
        let _ = self.inner.source.set(source);
    }

    /// Replaces the forge. Remembered keys that the new one neither made nor accepts are forgotten.
    pub fn accept(&self, forge: Option<KeyForge>) {
        self.inner.forge.store(forge.map(Arc::new));
        self.forget(|key, _| !self.inner.may_be_real(key));
    }

    /// Records that the feed has been read to its end: the remembered keys are correct as of now.
    pub fn reached(&self) {
        let micros = u64::try_from(self.inner.clock.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.inner.reached.store(micros + 1, Relaxed);
    }

    /// Returns the time since the feed was last read to its end; `None` before the first time.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.inner.age()
    }

    /// Returns the approximate number of remembered keys.
    pub(crate) fn known(&self) -> u64 {
        self.inner.known.entry_count()
    }

    /// Returns the remembered state of `key`.
    pub fn remembered(&self, key: &str) -> Option<KeyLookup> {
        let known = self.inner.known.get(key)?;
        self.inner.is_trusted().then_some(known.peek)
    }

    /// Returns the answer for a key that is not [`remembered`](StoreDirectory::remembered).
    pub fn judge(&self, key: &str) -> KeyLookup {
        if self.inner.may_be_real(key) { KeyLookup::Miss } else { KeyLookup::Unknown }
    }

    /// Forgets the keys that `changes` concern.
    pub fn apply<'c>(&self, changes: impl IntoIterator<Item = &'c Change>) {
        let mut concerned = Concerned::default();
        changes.into_iter().for_each(|change| concerned.add(change));
        if !concerned.is_empty() {
            self.pass(|_, known| if concerned.holds(known) { Next::Forget } else { Next::Keep });
        }
    }

    /// Forgets the keys that `which` selects by text and caller.
    pub fn forget(&self, which: impl Fn(&str, &Caller) -> bool) {
        self.pass(|key, known| match known.caller() {
            Some(caller) if which(key, caller) => Next::Forget,
            _ => Next::Keep,
        });
    }

    /// Applies the limits of `plans`, also to remembered keys: this needs no database.
    pub fn plans(&self, plans: &Plans) {
        let plans = Arc::new(plans.clone());
        let former = std::mem::replace(&mut *self.inner.plans.lock(), plans.clone());
        if *former != *plans {
            self.renew_with(&plans);
        }
    }

    /// Reports whether a contract may have begun or ended since the last [`renew`](StoreDirectory::renew).
    pub fn is_due(&self) -> bool {
        self.inner.clock.now().micros() >= self.inner.next_bound.load(Relaxed)
    }

    /// Applies the contracts in force now to all remembered keys, also without the database.
    pub fn renew(&self) {
        // A look-up that ends from here on sets it again, and so does each key that is remembered.
        self.inner.next_bound.store(u64::MAX, Relaxed);
        self.renew_with(&self.figures());
    }

    fn renew_with(&self, plans: &Plans) {
        let now = self.inner.clock.now();
        self.pass(|_, known| {
            self.inner.note_bound(known.terms.as_deref(), now);
            known.renewed(plans, now).map_or(Next::Keep, Next::Replace)
        });
    }

    pub(super) fn figures(&self) -> Arc<Plans> {
        self.inner.plans.lock().clone()
    }

    /// Walks all remembered keys. Answers in progress will not be remembered.
    fn pass(&self, decide: impl Fn(&str, &RememberedKey) -> Next) {
        let _alone = self.inner.passing.lock();
        // Keys that are inserted from here on were requested from here on.
        self.inner.look_ups.lock().generation += 1;
        for (key, known) in &self.inner.known {
            match decide(&key, &known) {
                Next::Keep => {}
                Next::Forget => self.inner.known.invalidate(&**key),
                Next::Replace(known) => self.inner.known.insert(key.as_ref().clone(), known),
            }
        }
    }
}

enum Next {
    Keep,
    Forget,
    Replace(RememberedKey),
}

impl Inner {
    fn age(&self) -> Option<Duration> {
        let reached = self.reached.load(Relaxed).checked_sub(1)?;
        Some(self.clock.elapsed().saturating_sub(Duration::from_micros(reached)))
    }

    fn is_trusted(&self) -> bool {
        self.age().is_some_and(|age| age < TRUST)
    }

    /// Lowers `next_bound` to the time when these terms change next.
    fn note_bound(&self, terms: Option<&Terms>, now: Time) {
        if let Some(bound) = terms.and_then(|terms| terms.next_bound(now)) {
            self.next_bound.fetch_min(bound.micros(), Relaxed);
        }
    }

    fn may_be_real(&self, key: &str) -> bool {
        self.forge.load().as_ref().map_or_else(|| !shown(key).is_empty(), |forge| forge.is_genuine(key))
    }

    fn join(self: &Arc<Self>, key: &str) -> Shared<Answer> {
        let mut look_ups = self.look_ups.lock();
        let generation = look_ups.generation;
        // An answer that may be older than a change is only for requests before it.
        let current = look_ups.by_key.get(key).filter(|pending| pending.generation == generation);
        if let Some(answer) = current.and_then(|pending| pending.answer.upgrade()) {
            return answer;
        }
        look_ups.number += 1;
        let number = look_ups.number;
        let look_up = LookUp { inner: self.clone(), key: key.into(), generation, number };
        let answer: Answer = Box::pin(look_up.run());
        let answer = answer.shared();
        // It has not been polled yet, so it is not done.
        if let Some(answer) = answer.downgrade() {
            look_ups.by_key.insert(key.into(), PendingLookUp { generation, number, answer });
        }
        answer
    }
}

impl LookUp {
    async fn run(self) -> Result<KeyLookup, Unavailable> {
        let source = self.inner.source.get().ok_or(Unavailable)?;
        let plans = self.inner.plans.lock().clone();
        let now = self.inner.clock.now();
        let found = source.look_up(KeyHash::of(&self.key), &plans, now);
        let found = tokio::time::timeout(LOOK_UP, found).await.map_err(|_| Unavailable)??;
        // Remembering keys that do not exist would take unbounded memory.
        let Some(StoredKey { caller, terms, revoked }) = found else { return Ok(KeyLookup::Unknown) };
        let caller = Arc::new(caller);
        let peek = if revoked { KeyLookup::Revoked(caller) } else { KeyLookup::Known(caller) };
        let terms = (!terms.is_empty()).then(|| Arc::new(terms));
        let look_ups = self.inner.look_ups.lock();
        if look_ups.generation == self.generation {
            self.inner.note_bound(terms.as_deref(), now);
            self.inner.known.insert(self.key.clone(), RememberedKey { peek: peek.clone(), terms });
        }
        Ok(peek)
    }
}

impl Drop for LookUp {
    fn drop(&mut self) {
        let mut look_ups = self.inner.look_ups.lock();
        if look_ups.by_key.get(&self.key).is_some_and(|pending| pending.number == self.number) {
            look_ups.by_key.remove(&self.key);
        }
    }
}

impl Directory for StoreDirectory {
    fn peek(&self, key: &str) -> KeyLookup {
        match self.remembered(key) {
            Some(known) => known,
            None => self.judge(key),
        }
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        match self.peek(key) {
            KeyLookup::Miss => Box::pin(self.inner.join(key)),
            known => Box::pin(std::future::ready(Ok(known))),
        }
    }
}

/// The tenants, projects, keys and custom plans that changes concern.
#[derive(Default)]
struct Concerned {
    keys: HashSet<KeyId>,
    projects: HashSet<ProjectId>,
    tenants: HashSet<TenantId>,
    custom_plans: HashSet<CustomPlanId>,
    /// A change of unknown kind concerns all keys.
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
            Change::CustomPlan(plan) => {
                self.custom_plans.insert(*plan);
            }
            // Limits of the four plans come with `plans`, weights with the chains.
            Change::Plan(_) | Change::Chain(_) | Change::Cache(_) | Change::Other => {}
            _ => self.all = true,
        }
    }

    fn is_empty(&self) -> bool {
        let sets = [self.keys.len(), self.projects.len(), self.tenants.len(), self.custom_plans.len()];
        !self.all && sets == [0; 4]
    }

    fn holds(&self, known: &RememberedKey) -> bool {
        let Some(caller) = known.caller() else { return false };
        let custom_plan = known.terms.as_ref().and_then(|terms| terms.custom_plan());
        self.all
            || custom_plan.is_some_and(|plan| self.custom_plans.contains(&plan))
            || self.keys.contains(&caller.key)
            || self.projects.contains(&caller.project)
            || self.tenants.contains(&caller.tenant)
    }
}

#[cfg(test)]
mod tests;
