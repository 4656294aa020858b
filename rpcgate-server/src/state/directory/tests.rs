use super::*;
use rpcgate_core::backend::suite;
use rpcgate_core::caller::ProjectQuota;
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::plan::Tier;
use rpcgate_store::{ContractId, CustomPlan, Figures, TenantContract};
use std::sync::atomic::AtomicUsize;
use tokio::sync::Semaphore;

/// Keys that a test changes, and a gate that holds look-ups back.
#[derive(Debug)]
struct Source {
    keys: Mutex<HashMap<KeyHash, StoredKey>>,
    asked: AtomicUsize,
    away: Mutex<bool>,
    /// A look-up passes it after it has read.
    gate: Semaphore,
}

impl KeySource for Source {
    fn look_up<'a>(
        &'a self,
        hash: KeyHash,
        plans: &'a Plans,
        _: Time,
    ) -> BoxFuture<'a, Result<Option<StoredKey>, Unavailable>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Relaxed);
            let found = self.keys.lock().get(&hash).cloned();
            let away = *self.away.lock();
            self.gate.acquire().await.map_err(|_| Unavailable)?.forget();
            self.gate.add_permits(1);
            if away {
                return Err(Unavailable);
            }
            Ok(found.map(|mut stored| {
                stored.caller.plan = plans.of(stored.caller.plan.tier);
                stored
            }))
        })
    }
}

struct Fixture {
    clock: Arc<ManualClock>,
    source: Arc<Source>,
    directory: Arc<StoreDirectory>,
    forge: KeyForge,
}

impl Fixture {
    /// Returns a directory that has reached its feed and has a source.
    fn new() -> Self {
        let fixture = Fixture::closed();
        fixture.directory.open(fixture.source.clone());
        fixture.directory.reached();
        fixture
    }

    fn closed() -> Self {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
        let source = Arc::new(Source {
            keys: Mutex::default(),
            asked: AtomicUsize::new(0),
            away: Mutex::new(false),
            gate: Semaphore::new(1),
        });
        let forge = Some(KeyForge::new(b"ours"));
        let directory = Arc::new(StoreDirectory::new(forge, Plans::default(), clock.clone()));
        Fixture { clock, source, directory, forge: KeyForge::new(b"ours") }
    }

    fn key(&self, number: u128) -> String {
        let key = self.forge.make().unwrap();
        self.change(&key, |stored| stored.caller = suite::caller(number));
        key
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut StoredKey)) {
        let mut keys = self.source.keys.lock();
        let stored = StoredKey { caller: suite::caller(0), terms: Terms::default(), revoked: false };
        change(keys.entry(KeyHash::of(key)).or_insert(stored));
    }

    async fn ask(&self, key: &str) -> Result<KeyLookup, Unavailable> {
        self.directory.fetch(key).await
    }

    fn asked(&self) -> usize {
        self.source.asked.load(Relaxed)
    }

    fn shut(&self) {
        self.source.gate.try_acquire().unwrap().forget();
    }

    fn unshut(&self) {
        self.source.gate.add_permits(1);
    }

    /// Starts a look-up that has read already and waits at the gate.
    async fn begin(&self, key: &str) -> tokio::task::JoinHandle<Result<KeyLookup, Unavailable>> {
        let directory = self.directory.clone();
        let key = key.to_owned();
        let before = self.asked();
        let task = tokio::spawn(async move { directory.fetch(&key).await });
        while self.asked() == before {
            tokio::task::yield_now().await;
        }
        task
    }
}

fn number(peek: &Result<KeyLookup, Unavailable>) -> Option<u128> {
    match peek {
        Ok(KeyLookup::Known(caller)) => Some(caller.key.0),
        _ => None,
    }
}

fn caller(peek: &KeyLookup) -> Option<&Caller> {
    match peek {
        KeyLookup::Known(caller) | KeyLookup::Revoked(caller) => Some(caller),
        KeyLookup::Unknown | KeyLookup::Miss => None,
    }
}

fn is_miss(fixture: &Fixture, key: &str) -> bool {
    matches!(fixture.directory.peek(key), KeyLookup::Miss)
}

fn is_known(fixture: &Fixture, key: &str) -> bool {
    matches!(fixture.directory.peek(key), KeyLookup::Known(_))
}

#[test]
fn stored_keys_pass_the_suite_of_directories() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    suite::directory(|callers| {
        let fixture = Fixture::closed();
        let directory = StoreDirectory::new(None, Plans::default(), fixture.clock.clone());
        // The suite's keys are malformed; this checks the other rules.
        let directory = Arc::new(Formless(directory));
        for (hash, caller) in callers {
            let stored = StoredKey { caller: (*caller).clone(), terms: Terms::default(), revoked: false };
            fixture.source.keys.lock().insert(hash, stored);
        }
        directory.0.open(fixture.source.clone());
        directory.0.reached();
        let source = fixture.source;
        let writer = directory.clone();
        let revoke = move |hash| {
            let mut keys = source.keys.lock();
            let stored = keys.get_mut(&hash).unwrap();
            stored.revoked = true;
            writer.0.apply([&Change::Key(stored.caller.key)]);
        };
        (directory, Box::new(revoke))
    });
}

/// Accepts keys of every form.
#[derive(Debug)]
struct Formless(StoreDirectory);

impl Directory for Formless {
    fn peek(&self, key: &str) -> KeyLookup {
        self.0.remembered(key).unwrap_or(KeyLookup::Miss)
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        Box::pin(self.0.inner.join(key))
    }
}

#[tokio::test]
async fn a_key_is_looked_up_once_and_then_known() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    assert!(is_miss(&fixture, &key));
    assert_eq!(number(&fixture.ask(&key).await), Some(7));
    assert!(is_known(&fixture, &key));
    assert_eq!(number(&fixture.ask(&key).await), Some(7));
    assert_eq!(fixture.asked(), 1);
}

// Shows (Keys).
#[tokio::test]
async fn a_forged_key_is_unknown_without_a_look_up() {
    let fixture = Fixture::new();
    let foreign = KeyForge::new(b"theirs").make().unwrap();
    for forged in [foreign.as_str(), "", "rpcg_short", "no key at all"] {
        assert!(matches!(fixture.directory.peek(forged), KeyLookup::Unknown), "{forged}");
        assert!(matches!(fixture.ask(forged).await, Ok(KeyLookup::Unknown)), "{forged}");
    }
    assert_eq!(fixture.asked(), 0);
}

#[tokio::test]
async fn without_a_secret_only_the_form_of_a_key_is_checked() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    let directory = StoreDirectory::new(None, Plans::default(), fixture.clock.clone());
    directory.open(fixture.source.clone());
    assert_eq!(number(&directory.fetch(&key).await), Some(7));
    assert!(matches!(directory.peek("rpcg_short"), KeyLookup::Unknown));
}

#[tokio::test]
async fn unknown_keys_are_not_cached_and_revoked_ones_are() {
    let fixture = Fixture::new();
    let foreign = fixture.forge.make().unwrap();
    let gone = fixture.key(7);
    fixture.change(&gone, |stored| stored.revoked = true);
    for _ in 0..3 {
        assert!(matches!(fixture.ask(&foreign).await, Ok(KeyLookup::Unknown)));
        assert!(matches!(fixture.ask(&gone).await, Ok(KeyLookup::Revoked(_))));
    }
    assert_eq!(fixture.asked(), 3 + 1);
    assert!(is_miss(&fixture, &foreign));
    let KeyLookup::Revoked(caller) = fixture.directory.peek(&gone) else { panic!("it is remembered") };
    assert_eq!(caller.key, KeyId(7));
}

#[tokio::test]
async fn simultaneous_callers_share_one_look_up() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    let other = fixture.key(8);
    fixture.shut();
    let first = fixture.begin(&key).await;
    let others: Vec<_> = (0..20).map(|_| fixture.directory.fetch(&key)).collect();
    let another = fixture.begin(&other).await;
    fixture.unshut();
    assert_eq!(number(&first.await.unwrap()), Some(7));
    for answer in futures_util::future::join_all(others).await {
        assert_eq!(number(&answer), Some(7));
    }
    assert_eq!(number(&another.await.unwrap()), Some(8));
    assert_eq!(fixture.asked(), 2);
    assert!(fixture.directory.inner.look_ups.lock().by_key.is_empty());
}

#[tokio::test]
async fn the_caller_that_started_a_look_up_may_leave() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    fixture.shut();
    let first = fixture.begin(&key).await;
    let second = fixture.directory.fetch(&key);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    fixture.unshut();
    assert_eq!(number(&second.await), Some(7));
    assert_eq!(fixture.asked(), 1);
}

#[tokio::test]
async fn an_abandoned_look_up_ends() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    fixture.shut();
    let only = fixture.begin(&key).await;
    only.abort();
    assert!(only.await.unwrap_err().is_cancelled());
    assert!(fixture.directory.inner.look_ups.lock().by_key.is_empty());
    fixture.unshut();
    assert_eq!(number(&fixture.ask(&key).await), Some(7));
    assert_eq!(fixture.asked(), 2);
}

#[tokio::test]
async fn an_answer_that_began_before_a_change_is_not_remembered() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    fixture.shut();
    let early = fixture.begin(&key).await;
    fixture.change(&key, |stored| stored.revoked = true);
    fixture.directory.apply([&Change::Key(KeyId(7))]);
    let late = fixture.begin(&key).await;
    fixture.unshut();
    assert_eq!(number(&early.await.unwrap()), Some(7), "it asked before");
    assert!(
        matches!(late.await.unwrap(), Ok(KeyLookup::Revoked(_))),
        "it asked afterwards, and shares no old answer"
    );
    assert!(matches!(fixture.directory.peek(&key), KeyLookup::Revoked(_)));
    assert_eq!(fixture.asked(), 2);
}

#[tokio::test]
async fn a_change_drops_the_entries_that_it_concerns_and_no_others() {
    let fixture = Fixture::new();
    let keys: Vec<String> = (1..=3).map(|number| fixture.key(number)).collect();
    let known = || keys.iter().map(|key| is_known(&fixture, key)).collect::<Vec<_>>();
    for (change, left) in [
        (Change::Key(KeyId(1)), [false, true, true]),
        (Change::Project(suite::caller(2).project), [true, false, true]),
        (Change::Tenant(suite::caller(3).tenant), [true, true, false]),
        (Change::Key(KeyId(99)), [true, true, true]),
        (Change::Plan(Tier::Free), [true, true, true]),
        (Change::Chain("eth".into()), [true, true, true]),
    ] {
        for key in &keys {
            fixture.ask(key).await.unwrap();
        }
        fixture.directory.apply([&change]);
        assert_eq!(known(), left, "{change:?}");
    }
}

fn custom_plan(id: u128, per_minute: u64) -> CustomPlan {
    let mut figures = Figures::default();
    figures.set("per_minute", per_minute);
    let name = "own".into();
    let created_at = Time::from_secs(0);
    CustomPlan { id: CustomPlanId(id), name, base: Tier::Free, is_visible: true, figures, created_at }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_changed_custom_plan_drops_its_keys_and_the_look_ups_in_progress() {
    let fixture = Fixture::new();
    let now = fixture.clock.now();
    let keys: Vec<String> = (1..=3).map(|number| fixture.key(number)).collect();
    for (key, plan) in keys.iter().zip([Some(1), Some(2), None]) {
        let plan = plan.map(|id| custom_plan(id, 30));
        fixture.change(key, |stored| stored.terms = Terms::of(plan.as_ref(), Vec::new(), now));
        fixture.ask(key).await.unwrap();
    }
    let late = fixture.key(4);
    fixture.change(&late, |stored| stored.terms = Terms::of(Some(&custom_plan(1, 30)), Vec::new(), now));
    fixture.shut();
    let on_its_way = fixture.begin(&late).await;
    fixture.directory.apply([&Change::CustomPlan(CustomPlanId(1))]);
    fixture.unshut();
    on_its_way.await.unwrap().unwrap();
    let known: Vec<bool> = keys.iter().chain([&late]).map(|key| is_known(&fixture, key)).collect();
    assert_eq!(known, [false, true, true, false]);
    let mut plans = Plans::default();
    (plans.free.per_minute, plans.free.per_hour) = (11, 12);
    fixture.directory.plans(&plans);
    let KeyLookup::Known(caller) = fixture.directory.peek(&keys[1]) else { panic!("it is known") };
    assert_eq!((caller.plan.per_minute, caller.plan.per_hour), (30, 12), "the others are those of the base");
}

#[tokio::test]
async fn another_plan_is_in_force_without_a_look_up() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    let gone = fixture.key(8);
    fixture.change(&gone, |stored| stored.revoked = true);
    fixture.ask(&key).await.unwrap();
    fixture.ask(&gone).await.unwrap();
    fixture.shut();
    let late = fixture.key(9);
    let on_its_way = fixture.begin(&late).await;
    let mut plans = Plans::default();
    plans.free.per_minute = 77;
    fixture.directory.plans(&plans);
    let per_minute = |peek: KeyLookup| caller(&peek).map(|caller| caller.plan.per_minute);
    assert_eq!(per_minute(fixture.directory.peek(&key)), Some(77));
    assert!(
        matches!(fixture.directory.peek(&gone), KeyLookup::Revoked(caller) if caller.plan.per_minute == 77)
    );
    fixture.unshut();
    assert_eq!(per_minute(on_its_way.await.unwrap().unwrap()), Some(10), "it had begun before");
    assert_eq!(per_minute(fixture.ask(&late).await.unwrap()), Some(77));
}

// Shows (Keys).
#[tokio::test]
async fn known_keys_work_for_a_day_without_the_feed() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    let other = fixture.key(8);
    fixture.ask(&key).await.unwrap();
    *fixture.source.away.lock() = true;
    assert_eq!(fixture.ask(&other).await.unwrap_err(), Unavailable, "away is not unknown");
    fixture.clock.advance(TRUST - Duration::from_micros(1));
    assert!(is_known(&fixture, &key));
    fixture.clock.advance(Duration::from_micros(1));
    assert!(is_miss(&fixture, &key));
    assert_eq!(fixture.ask(&key).await.unwrap_err(), Unavailable);
    fixture.directory.reached();
    assert!(is_known(&fixture, &key), "the feed has the changes made meanwhile");
}

#[tokio::test]
async fn a_step_of_the_wall_clock_ends_no_trust() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    fixture.ask(&key).await.unwrap();
    fixture.clock.set(Time::from_secs(1_000_000 + 10 * 86_400));
    assert!(is_known(&fixture, &key));
}

// Shows (Reliability): A frozen database delays no request longer than 1 s (promise 6).
#[tokio::test(start_paused = true)]
async fn a_look_up_that_stalls_is_unavailable_within_a_second() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    fixture.shut();
    let began = tokio::time::Instant::now();
    assert_eq!(fixture.ask(&key).await.unwrap_err(), Unavailable);
    let took = began.elapsed();
    assert!(took > Duration::from_millis(500) && took < Duration::from_secs(1), "{took:?}");
    fixture.unshut();
    assert_eq!(number(&fixture.ask(&key).await), Some(7));
}

#[tokio::test]
async fn without_a_source_every_look_up_is_unavailable() {
    let fixture = Fixture::closed();
    let key = fixture.key(7);
    assert_eq!(fixture.ask(&key).await.unwrap_err(), Unavailable);
    assert!(matches!(fixture.directory.peek("forged"), KeyLookup::Unknown));
    fixture.directory.open(fixture.source.clone());
    assert_eq!(number(&fixture.ask(&key).await), Some(7));
    assert!(is_miss(&fixture, &key), "without a feed nothing remembered is good");
}

#[tokio::test]
async fn memory_is_bounded() {
    let fixture = Fixture::new();
    let known = &fixture.directory.inner.known;
    for number in 0..u128::from(REMEMBERED) + 20_000 {
        let peek = KeyLookup::Known(Arc::new(suite::caller(number)));
        known.insert(format!("rpcg_{number:045}").into(), RememberedKey { peek, terms: None });
    }
    known.run_pending_tasks();
    assert!(known.entry_count() <= REMEMBERED, "{}", known.entry_count());
}

#[test]
fn a_change_finds_its_keys_while_others_come() {
    let fixture = Fixture::new();
    let known = &fixture.directory.inner.known;
    let text = |number: u128| -> Box<str> { format!("rpcg_{number:045}").into() };
    let mark = |number: u128| {
        let mut caller = suite::caller(number);
        caller.tenant = TenantId(number % 7);
        RememberedKey { peek: KeyLookup::Known(Arc::new(caller)), terms: None }
    };
    (0..20_000).for_each(|number| known.insert(text(number), mark(number)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (20_000..60_000).for_each(|number| known.insert(text(number), mark(number | (1 << 40))));
        });
        fixture.directory.apply([&Change::Tenant(TenantId(3))]);
    });
    for number in 0..20_000 {
        assert_eq!(known.contains_key(&*text(number)), number % 7 != 3, "{number}");
    }
}

/// Returns a contract of the tenant of caller 7, in force from `from` to `until` seconds after `now`.
fn contract(now: Time, from: u64, until: u64, figures: &[(&str, u64)]) -> TenantContract {
    let at = |secs| now.plus(Duration::from_secs(secs));
    let mut agreed = Figures::default();
    for (name, value) in figures {
        assert!(agreed.set(name, *value), "{name}");
    }
    TenantContract {
        id: ContractId(1),
        tenant: suite::caller(7).tenant,
        figures: agreed,
        from: at(from),
        until: Some(at(until)),
        note: String::new(),
        created_at: now,
    }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn figures_of_a_contract_begin_and_end_with_the_time_without_the_database() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    let now = fixture.clock.now();
    let figures = [("per_minute", 77), ("cu_per_day", 5)];
    fixture.change(&key, |stored| stored.terms = Terms::of(None, vec![contract(now, 10, 20, &figures)], now));
    let figures = async || {
        let Ok(KeyLookup::Known(caller)) = fixture.ask(&key).await else { panic!("it is known") };
        (caller.plan.per_minute, caller.quota.cu_per_day)
    };
    let before = figures().await;
    assert_eq!(before, (10, 100_000));
    assert!(!fixture.directory.is_due());
    *fixture.source.away.lock() = true;
    for expected in [(77, 5), before] {
        fixture.clock.advance(Duration::from_secs(10));
        assert!(fixture.directory.is_due());
        fixture.directory.renew();
        assert!(!fixture.directory.is_due());
        assert_eq!(figures().await, expected);
        let mut other = Plans::default();
        other.free.per_minute = 11;
        fixture.directory.plans(&other);
        let per_minute = if expected == before { 11 } else { 77 };
        assert_eq!(figures().await.0, per_minute, "a contract outlasts a change of the plan");
        fixture.directory.plans(&Plans::default());
    }
    fixture.clock.advance(Duration::from_secs(1_000));
    assert!(!fixture.directory.is_due(), "there is nothing that could begin or end");
}

#[tokio::test]
async fn a_projects_own_quota_outlasts_a_contract_and_a_revoked_key_stays_revoked() {
    let fixture = Fixture::new();
    let key = fixture.key(7);
    let now = fixture.clock.now();
    let own = ProjectQuota { cu_per_day: 3, has_row: true, ..ProjectQuota::default() };
    fixture.change(&key, |stored| {
        stored.terms =
            Terms::of(None, vec![contract(now, 10, 20, &[("cu_per_day", 5), ("members", 4)])], now);
        stored.caller.quota = own;
        stored.revoked = true;
    });
    assert!(matches!(fixture.ask(&key).await, Ok(KeyLookup::Revoked(_))));
    fixture.clock.advance(Duration::from_secs(10));
    fixture.directory.renew();
    let Ok(KeyLookup::Revoked(caller)) = fixture.ask(&key).await else { panic!("it is revoked") };
    assert_eq!((caller.quota, caller.plan.counts.members), (own, 4));
}
