use super::*;
use crate::state::directory::KeySource;
use parking_lot::Mutex;
use rpcgate_config::{LogFormat, Plans};
use rpcgate_core::backend::changes::MemoryChanges;
use rpcgate_core::backend::directory::{Directory, KeyLookup};
use rpcgate_core::backend::suite;
use rpcgate_core::caller::{KeyId, TenantId};
use rpcgate_core::clock::{Clock, ManualClock, Time};
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::{KeyForge, KeyHash};
use rpcgate_process::testing::CapturedLog;
use rpcgate_store::{ContractId, Figures, StoredKey, TenantContract, Terms};
use std::collections::HashMap;

/// An in-memory management database that can be away or frozen.
#[derive(Debug, Default)]
struct FakeManagement {
    changes: MemoryChanges,
    inner: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    keys: HashMap<KeyHash, StoredKey>,
    overlay: Overlay,
    newest: u64,
    /// All changes below this number were removed.
    removed: u64,
    overlays_read: u32,
    /// The number of queries of any kind.
    asked: u32,
    mood: Mood,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mood {
    #[default]
    Well,
    Unavailable,
    Frozen,
}

impl FakeManagement {
    async fn answer<T>(&self, answer: impl FnOnce(&mut Contents) -> T) -> Result<T, Unavailable> {
        let mood = {
            let mut fixture = self.inner.lock();
            fixture.asked += 1;
            fixture.mood
        };
        match mood {
            Mood::Well => Ok(answer(&mut self.inner.lock())),
            Mood::Unavailable => Err(Unavailable),
            Mood::Frozen => std::future::pending().await,
        }
    }

    fn set(&self, mood: Mood) {
        self.inner.lock().mood = mood;
    }

    fn publish(&self, change: Change) {
        self.inner.lock().newest += 1;
        self.changes.publish(change);
    }
}

impl ChangeFeed for FakeManagement {
    fn since(&self, number: u64) -> BoxFuture<'_, Result<Vec<Numbered>, Unavailable>> {
        Box::pin(async move {
            let removed = self.answer(|fixture| fixture.removed).await?;
            let mut news = self.changes.since(number).await?;
            news.retain(|news| news.number >= removed && news.change != NEVER);
            Ok(news)
        })
    }
}

impl Management for FakeManagement {
    fn overlay(&self) -> BoxFuture<'_, Result<Overlay, Unavailable>> {
        Box::pin(self.answer(|fixture| {
            fixture.overlays_read += 1;
            fixture.overlay.clone()
        }))
    }

    fn newest(&self) -> BoxFuture<'_, Result<u64, Unavailable>> {
        Box::pin(self.answer(|fixture| fixture.newest))
    }

    fn oldest(&self) -> BoxFuture<'_, Result<u64, Unavailable>> {
        Box::pin(self.answer(|fixture| fixture.removed.max(fixture.newest.min(1))))
    }
}

impl KeySource for FakeManagement {
    fn look_up<'a>(
        &'a self,
        hash: KeyHash,
        _: &'a Plans,
        _: Time,
    ) -> BoxFuture<'a, Result<Option<StoredKey>, Unavailable>> {
        Box::pin(self.answer(move |fixture| fixture.keys.get(&hash).cloned()))
    }
}

/// A number that was never assigned, because its change was rolled back.
const NEVER: Change = Change::Tenant(TenantId(0));

struct Fixture {
    clock: Arc<ManualClock>,
    office: Arc<FakeManagement>,
    directory: Arc<StoreDirectory>,
    reported: Arc<Mutex<Vec<Overlay>>>,
    overlay_watch: Arc<OverlayWatch>,
    key: String,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
        let key = KeyForge::new(b"s").make().unwrap();
        let office = Arc::new(FakeManagement::default());
        let stored = StoredKey { caller: suite::caller(7), terms: Terms::default(), revoked: false };
        office.inner.lock().keys.insert(KeyHash::of(&key), stored);
        let directory = Arc::new(StoreDirectory::new(None, Plans::default(), clock.clone()));
        let overlay_watch = Arc::new(OverlayWatch::new(clock.clone()));
        let reported = Arc::<Mutex<Vec<Overlay>>>::default();
        let ear = reported.clone();
        overlay_watch.attach(Box::new(move |overlay| ear.lock().push(overlay.clone())));
        Fixture { clock, office, directory, reported, overlay_watch, key }
    }

    async fn feed(&self) -> Result<Feed, Unavailable> {
        let feed =
            Feed::start(self.office.clone(), self.directory.clone(), self.overlay_watch.clone()).await?;
        self.directory.open(self.office.clone());
        Ok(feed)
    }

    async fn ask(&self) -> KeyLookup {
        self.directory.fetch(&self.key).await.unwrap()
    }

    fn peek(&self) -> KeyLookup {
        self.directory.peek(&self.key)
    }

    fn revoke(&self) {
        self.office.inner.lock().keys.values_mut().for_each(|stored| stored.revoked = true);
        self.office.publish(Change::Key(KeyId(7)));
    }

    /// Removes all changes but the newest.
    fn sweep(&self) {
        let mut fixture = self.office.inner.lock();
        fixture.removed = fixture.newest;
    }

    fn put(&self, on: bool, change: Change) {
        self.office.inner.lock().overlay.chains.insert("eth".into(), on);
        self.office.publish(change);
    }
}

#[tokio::test]
async fn earlier_settings_are_in_effect_at_the_start() {
    let app = Fixture::new();
    app.put(false, Change::Chain("eth".into()));
    let feed = app.feed().await.unwrap();
    assert_eq!((feed.number, app.reported.lock().len()), (1, 1));
    assert!(!app.reported.lock()[0].chains["eth"]);
}

// Shows (Keys).
#[tokio::test(start_paused = true)]
async fn a_revoked_key_is_refused_within_a_second() {
    let app = Fixture::new();
    let closing = CancellationToken::new();
    let running = tokio::spawn(app.feed().await.unwrap().run(closing.clone()));
    for _ in 0..5 {
        assert!(matches!(app.ask().await, KeyLookup::Known(_)));
        tokio::time::sleep(Duration::from_millis(130)).await;
    }
    app.revoke();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(app.ask().await, KeyLookup::Revoked(_)));
    closing.cancel();
    running.await.unwrap();
}

// Shows (Plans, bills and payments).
#[tokio::test(start_paused = true)]
async fn a_contract_begins_and_ends_within_a_second_while_the_database_answers_nothing() {
    let app = Fixture::new();
    let now = app.clock.now();
    let at = |secs| now.plus(Duration::from_secs(secs));
    let mut figures = Figures::default();
    figures.set("per_minute", 77);
    let contract = TenantContract {
        id: ContractId(1),
        tenant: suite::caller(7).tenant,
        figures,
        from: at(10),
        until: Some(at(20)),
        note: String::new(),
        created_at: now,
    };
    let terms = Terms::of(None, vec![contract], now);
    app.office.inner.lock().keys.values_mut().for_each(|stored| stored.terms = terms.clone());
    let closing = CancellationToken::new();
    let running = tokio::spawn(app.feed().await.unwrap().run(closing.clone()));
    tokio::time::sleep(Duration::from_millis(130)).await;
    let per_minute = |peek: KeyLookup| match peek {
        KeyLookup::Known(caller) => caller.plan.per_minute,
        _ => panic!("it is known"),
    };
    assert_eq!(per_minute(app.ask().await), 10);
    app.office.set(Mood::Frozen);
    for expected in [77, 10] {
        app.clock.advance(Duration::from_secs(10));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(per_minute(app.peek()), expected);
    }
    closing.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_notification_causes_a_read_of_the_feed_at_once_for_any_interval() {
    let app = Fixture::new();
    let closing = CancellationToken::new();
    let mut feed = app.feed().await.unwrap();
    feed.every = Duration::from_secs(3_600);
    let notify = feed.notify();
    let running = tokio::spawn(feed.run(closing.clone()));
    assert!(matches!(app.ask().await, KeyLookup::Known(_)));
    tokio::time::sleep(Duration::from_secs(60)).await;
    app.revoke();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(matches!(app.peek(), KeyLookup::Known(_)), "there was no notification");
    notify.notify_one();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(matches!(app.ask().await, KeyLookup::Revoked(_)));
    closing.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_notification_during_a_look_at_the_feed_is_not_lost_and_many_are_one() {
    let app = Fixture::new();
    let closing = CancellationToken::new();
    let mut feed = app.feed().await.unwrap();
    feed.every = Duration::from_secs(3_600);
    let notify = feed.notify();
    let running = tokio::spawn(feed.run(closing.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let read = || app.office.inner.lock().overlays_read;
    let before = read();
    for number in 0..100 {
        app.put(number % 2 == 0, Change::Chain("eth".into()));
        notify.notify_one();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!app.reported.lock().last().unwrap().chains["eth"], "the last change is in force");
    assert!((2..=10).contains(&(read() - before)), "{} looks", read() - before);
    closing.cancel();
    running.await.unwrap();
}

// Shows (Keys).
#[tokio::test]
async fn a_change_of_plans_or_chains_has_the_overlay_read_and_no_other_has() {
    let app = Fixture::new();
    let mut feed = app.feed().await.unwrap();
    let read = || app.office.inner.lock().overlays_read;
    assert_eq!(read(), 1);
    app.revoke();
    feed.read().await.unwrap();
    assert_eq!(read(), 1);
    for change in [Change::Plan(Tier::Free), Change::Chain("eth".into())] {
        let before = read();
        let on = app.reported.lock().len().is_multiple_of(2);
        app.put(on, change);
        feed.read().await.unwrap();
        assert_eq!(read(), before + 1);
        assert_eq!(app.reported.lock().last().unwrap().chains["eth"], on);
    }
    feed.read().await.unwrap();
    assert_eq!((read(), feed.number), (3, 3));
}

#[tokio::test]
async fn an_overlay_that_could_not_be_read_is_read_later() {
    let app = Fixture::new();
    let mut feed = app.feed().await.unwrap();
    app.put(false, Change::Chain("eth".into()));
    feed.stale = true;
    app.office.set(Mood::Unavailable);
    feed.read().await.unwrap_err();
    app.office.set(Mood::Well);
    assert!(feed.stale);
    feed.read().await.unwrap();
    assert!(!app.reported.lock().last().unwrap().chains["eth"]);
    assert!(!feed.stale);
}

// Shows (Reliability).
#[tokio::test(start_paused = true)]
async fn nothing_is_forgotten_during_a_database_outage_or_missed_afterwards() {
    let app = Fixture::new();
    let lines = CapturedLog::default();
    let _listening = lines.capture("info", LogFormat::Text);
    let mut feed = app.feed().await.unwrap();
    assert!(matches!(app.ask().await, KeyLookup::Known(_)));
    for mood in [Mood::Unavailable, Mood::Frozen, Mood::Frozen] {
        app.office.set(mood);
        let began = tokio::time::Instant::now();
        let read = feed.read().await;
        assert!(read.is_err() && began.elapsed() <= DEADLINE);
        feed.log_status(true);
        assert!(matches!(app.peek(), KeyLookup::Known(_)));
    }
    app.revoke();
    app.office.set(Mood::Well);
    feed.read().await.unwrap();
    feed.log_status(false);
    assert!(matches!(app.peek(), KeyLookup::Miss));
    assert!(matches!(app.ask().await, KeyLookup::Revoked(_)));
    feed.log_status(false);
    let text = lines.text();
    assert_eq!(text.matches("cannot be reached").count(), 1, "{text}");
    assert_eq!(text.matches("is back").count(), 1, "{text}");
}

// Shows (Reliability): Gateways that share a Redis publish changes to each other; a gateway does not serve a key that
// it cannot look up (promise 20).
#[tokio::test(start_paused = true)]
async fn reports_of_other_gateways_take_effect_while_the_database_is_unavailable() {
    for mood in [Mood::Frozen, Mood::Unavailable] {
        let app = Fixture::new();
        app.office.publish(Change::Other);
        let ((tells, _told), (telling, hears)) = (mpsc::channel(1), mpsc::channel(9));
        let feed = app.feed().await.unwrap().relayed(tells, hears);
        assert!(matches!(app.ask().await, KeyLookup::Known(_)));
        let closing = CancellationToken::new();
        let running = tokio::spawn(feed.run(closing.clone()));
        app.office.set(mood);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let tell = |number| telling.try_send(Numbered { number, change: Change::Key(KeyId(7)) }).unwrap();
        tell(1);
        tokio::time::sleep(2 * DEADLINE).await;
        assert!(matches!(app.peek(), KeyLookup::Known(_)), "that was read here before");
        tell(2);
        tokio::time::sleep(DEADLINE + APART).await;
        assert!(matches!(app.peek(), KeyLookup::Miss));
        app.office.set(Mood::Well);
        app.revoke();
        tokio::time::sleep(2 * DEADLINE).await;
        assert!(matches!(app.ask().await, KeyLookup::Revoked(_)), "all is read here too");
        closing.cancel();
        running.await.unwrap();
    }
}

// Shows (Reliability).
#[tokio::test]
async fn changes_that_were_read_are_published_to_others_without_waiting() {
    let app = Fixture::new();
    let ((tells, mut reported), (_telling, hears)) = (mpsc::channel(2), mpsc::channel(1));
    let mut feed = app.feed().await.unwrap().relayed(tells, hears);
    for _ in 0..3 {
        app.revoke();
    }
    feed.read().await.unwrap();
    for number in [1, 2] {
        assert_eq!(reported.try_recv(), Ok(Numbered { number, change: Change::Key(KeyId(7)) }));
    }
    assert!(reported.try_recv().is_err(), "there was no room");
}

#[tokio::test]
async fn a_start_without_the_database_fails() {
    let app = Fixture::new();
    app.office.set(Mood::Unavailable);
    assert!(app.feed().await.is_err());
    app.office.set(Mood::Well);
    assert!(app.feed().await.is_ok());
}

#[tokio::test]
async fn a_database_that_was_restored_to_an_older_state_is_accepted() {
    let app = Fixture::new();
    for _ in 0..5 {
        app.office.publish(Change::Plan(Tier::Free));
    }
    let mut feed = app.feed().await.unwrap();
    assert!(matches!(app.ask().await, KeyLookup::Known(_)));
    // The backup contains two changes, and not the key's holder.
    app.office.inner.lock().newest = 2;
    app.office.inner.lock().keys.clear();
    feed.away = true;
    feed.read().await.unwrap();
    assert!(matches!(app.peek(), KeyLookup::Miss));
    assert!(matches!(app.ask().await, KeyLookup::Unknown));
}

#[tokio::test]
async fn a_gateway_that_is_behind_the_kept_changes_reads_everything_again() {
    for newest in [Change::Key(KeyId(99)), Change::Other] {
        let app = Fixture::new();
        let lines = CapturedLog::default();
        let _listening = lines.capture("info", LogFormat::Text);
        app.office.publish(Change::Plan(Tier::Free));
        let mut feed = app.feed().await.unwrap();
        assert!(matches!(app.ask().await, KeyLookup::Known(_)));
        app.revoke();
        app.put(false, Change::Chain("eth".into()));
        app.office.publish(newest.clone());
        app.sweep();
        feed.read().await.unwrap();
        assert!(matches!(app.peek(), KeyLookup::Miss), "{newest:?}");
        assert!(matches!(app.ask().await, KeyLookup::Revoked(_)));
        assert!(!app.reported.lock().last().unwrap().chains["eth"]);
        let read = app.office.inner.lock().overlays_read;
        for _ in 0..3 {
            feed.read().await.unwrap();
            assert!(matches!(app.peek(), KeyLookup::Revoked(_)), "once is enough");
        }
        assert_eq!(app.office.inner.lock().overlays_read, read);
        let text = lines.text();
        assert_eq!(text.matches("looked up again").count(), 1, "{text}");
    }
}

#[tokio::test]
async fn a_gateway_that_has_seen_all_removed_changes_forgets_nothing() {
    let app = Fixture::new();
    let mut feed = app.feed().await.unwrap();
    assert!(matches!(app.ask().await, KeyLookup::Known(_)));
    // One after another, so that the feed is never more than one behind.
    for change in [Change::Key(KeyId(98)), Change::Other, Change::Key(KeyId(99))] {
        app.office.publish(change);
        feed.read().await.unwrap();
        app.sweep();
        feed.read().await.unwrap();
    }
    // A gap in the numbers does not mean a missed change.
    app.office.publish(NEVER);
    app.office.publish(Change::Key(KeyId(99)));
    feed.read().await.unwrap();
    assert!(matches!(app.peek(), KeyLookup::Known(_)));
    assert_eq!(app.office.inner.lock().overlays_read, 1);
}

#[tokio::test]
async fn a_read_without_changes_is_one_query() {
    let app = Fixture::new();
    let asked = || std::mem::take(&mut app.office.inner.lock().asked);
    let mut feed = app.feed().await.unwrap();
    for news in
        [&[][..], &[Change::Key(KeyId(99))], &[Change::Other, Change::Other], &[Change::Chain("eth".into())]]
    {
        news.iter().for_each(|change| app.office.publish(change.clone()));
        feed.read().await.unwrap();
        asked();
        for _ in 0..3 {
            feed.read().await.unwrap();
            assert_eq!(asked(), 1, "after {news:?}");
        }
    }
}

// Shows (Reliability): A gateway that was stopped reads the changes in bounded steps.
#[tokio::test]
async fn all_of_many_changes_take_effect_in_one_read_of_several_queries() {
    let app = Fixture::new();
    let mut feed = app.feed().await.unwrap();
    app.ask().await;
    (0..2_500).for_each(|_| app.office.publish(Change::Other));
    app.revoke();
    app.office.inner.lock().asked = 0;
    feed.read().await.unwrap();
    assert_eq!((feed.number, app.office.inner.lock().asked), (2_501, 3), "a thousand at a time");
    assert!(matches!(app.ask().await, KeyLookup::Revoked(_)));
}

#[tokio::test]
async fn a_start_with_an_empty_feed_misses_no_later_change() {
    let app = Fixture::new();
    let mut feed = app.feed().await.unwrap();
    assert!(matches!(app.ask().await, KeyLookup::Known(_)));
    app.revoke();
    app.office.publish(Change::Key(KeyId(99)));
    app.sweep();
    feed.read().await.unwrap();
    assert!(matches!(app.ask().await, KeyLookup::Revoked(_)));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_command_to_empty_a_cache_is_passed_on_and_missed_changes_empty_all() {
    let app = Fixture::new();
    let cleared: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let ear = cleared.clone();
    app.overlay_watch.attach_caches(Box::new(move |chain| ear.lock().push(chain.map(str::to_owned))));
    let mut feed = app.feed().await.unwrap();
    app.office.publish(Change::Cache("eth".into()));
    feed.read().await.unwrap();
    assert_eq!(*cleared.lock(), [Some("eth".to_owned())]);
    assert!(app.reported.lock().is_empty(), "the settings are the same");
    for _ in 0..3 {
        app.office.publish(Change::Cache("bsc".into()));
    }
    app.sweep();
    feed.read().await.unwrap();
    assert_eq!(cleared.lock()[1..], [None, Some("bsc".to_owned())]);
}
