use super::*;
use crate::state::directory::KeySource;
use crate::telemetry::tests::Lines;
use parking_lot::Mutex;
use rpcgate_admin::store::StoredKey;
use rpcgate_core::caller::KeyId;
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::config::{LogFormat, Plans};
use rpcgate_core::plan::Tier;
use rpcgate_core::seam::changes::MemoryChanges;
use rpcgate_core::seam::directory::{Directory, Peek};
use rpcgate_core::seam::suite;
use rpcgate_core::secret::{KeyForge, KeyHash};
use std::collections::HashMap;

/// A management database in memory that can be away, or frozen.
#[derive(Debug, Default)]
struct Office {
    changes: MemoryChanges,
    inner: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    keys: HashMap<KeyHash, StoredKey>,
    overlay: Overlay,
    newest: u64,
    overlays_read: u32,
    mood: Mood,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mood {
    #[default]
    Well,
    Away,
    Frozen,
}

impl Office {
    async fn answer<T>(&self, answer: impl FnOnce(&mut Desk) -> T) -> Result<T, Away> {
        let mood = self.inner.lock().mood;
        match mood {
            Mood::Well => Ok(answer(&mut self.inner.lock())),
            Mood::Away => Err(Away),
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

impl Changes for Office {
    fn since(&self, number: u64) -> Later<'_, Result<Vec<Numbered>, Away>> {
        Box::pin(async move {
            self.answer(|_| ()).await?;
            self.changes.since(number).await
        })
    }
}

impl Management for Office {
    fn overlay(&self) -> Later<'_, Result<Overlay, Away>> {
        Box::pin(self.answer(|desk| {
            desk.overlays_read += 1;
            desk.overlay.clone()
        }))
    }

    fn newest(&self) -> Later<'_, Result<u64, Away>> {
        Box::pin(self.answer(|desk| desk.newest))
    }
}

impl KeySource for Office {
    fn look_up<'a>(&'a self, hash: KeyHash, _: &'a Plans) -> Later<'a, Result<Option<StoredKey>, Away>> {
        Box::pin(self.answer(move |desk| desk.keys.get(&hash).cloned()))
    }
}

struct House {
    office: Arc<Office>,
    directory: Arc<StoreDirectory>,
    told: Arc<Mutex<Vec<Overlay>>>,
    force: Arc<Force>,
    key: String,
}

impl House {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
        let key = KeyForge::new(b"s").make().unwrap();
        let office = Arc::new(Office::default());
        let stored = StoredKey { caller: suite::caller(7), revoked: false };
        office.inner.lock().keys.insert(KeyHash::of(&key), stored);
        let directory = Arc::new(StoreDirectory::new(None, Plans::default(), clock));
        let (force, told) = (Arc::<Force>::default(), Arc::<Mutex<Vec<Overlay>>>::default());
        let ear = told.clone();
        force.attach(Box::new(move |overlay| ear.lock().push(overlay.clone())));
        House { office, directory, told, force, key }
    }

    async fn feed(&self) -> Result<Feed, Away> {
        let feed = Feed::start(self.office.clone(), self.directory.clone(), self.force.clone()).await?;
        self.directory.open(self.office.clone());
        Ok(feed)
    }

    async fn ask(&self) -> Peek {
        self.directory.fetch(&self.key).await.unwrap()
    }

    fn peek(&self) -> Peek {
        self.directory.peek(&self.key)
    }

    fn revoke(&self) {
        self.office.inner.lock().keys.values_mut().for_each(|stored| stored.revoked = true);
        self.office.publish(Change::Key(KeyId(7)));
    }

    fn put(&self, on: bool, change: Change) {
        self.office.inner.lock().overlay.chains.insert("eth".into(), on);
        self.office.publish(change);
    }
}

#[tokio::test]
async fn what_was_set_before_is_in_force_at_the_start() {
    let house = House::new();
    house.put(false, Change::Chain("eth".into()));
    let feed = house.feed().await.unwrap();
    assert_eq!((feed.number, house.told.lock().len()), (1, 1));
    assert!(!house.told.lock()[0].chains["eth"]);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_is_refused_within_a_second() {
    let house = House::new();
    let closing = CancellationToken::new();
    let running = tokio::spawn(house.feed().await.unwrap().run(closing.clone()));
    for _ in 0..5 {
        assert!(matches!(house.ask().await, Peek::Known(_)));
        tokio::time::sleep(Duration::from_millis(130)).await;
    }
    house.revoke();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(house.ask().await, Peek::Revoked(_)));
    closing.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_change_of_plans_or_chains_has_the_overlay_read_and_no_other_has() {
    let house = House::new();
    let mut feed = house.feed().await.unwrap();
    let read = || house.office.inner.lock().overlays_read;
    assert_eq!(read(), 1);
    house.revoke();
    feed.read().await.unwrap();
    assert_eq!(read(), 1);
    for change in [Change::Plan(Tier::Free), Change::Chain("eth".into())] {
        let (before, on) = (read(), house.told.lock().len().is_multiple_of(2));
        house.put(on, change);
        feed.read().await.unwrap();
        assert_eq!(read(), before + 1);
        assert_eq!(house.told.lock().last().unwrap().chains["eth"], on);
    }
    feed.read().await.unwrap();
    assert_eq!((read(), feed.number), (3, 3));
}

#[tokio::test]
async fn an_overlay_that_could_not_be_read_is_read_later() {
    let house = House::new();
    let mut feed = house.feed().await.unwrap();
    house.put(false, Change::Chain("eth".into()));
    feed.stale = true;
    house.office.set(Mood::Away);
    feed.read().await.unwrap_err();
    house.office.set(Mood::Well);
    assert!(feed.stale);
    feed.read().await.unwrap();
    assert!(!house.told.lock().last().unwrap().chains["eth"]);
    assert!(!feed.stale);
}

#[tokio::test(start_paused = true)]
async fn while_the_database_is_away_or_frozen_nothing_is_forgotten_and_afterwards_nothing_was_missed() {
    let house = House::new();
    let lines = Lines::default();
    let _listening = lines.listen("info", LogFormat::Text);
    let mut feed = house.feed().await.unwrap();
    assert!(matches!(house.ask().await, Peek::Known(_)));
    for mood in [Mood::Away, Mood::Frozen, Mood::Frozen] {
        house.office.set(mood);
        let began = tokio::time::Instant::now();
        let read = feed.read().await;
        assert!(read.is_err() && began.elapsed() <= DEADLINE);
        feed.tell(true);
        assert!(matches!(house.peek(), Peek::Known(_)));
    }
    house.revoke();
    house.office.set(Mood::Well);
    feed.read().await.unwrap();
    feed.tell(false);
    assert!(matches!(house.peek(), Peek::Miss));
    assert!(matches!(house.ask().await, Peek::Revoked(_)));
    feed.tell(false);
    let text = lines.text();
    assert_eq!(text.matches("cannot be reached").count(), 1, "{text}");
    assert_eq!(text.matches("is back").count(), 1, "{text}");
}

#[tokio::test]
async fn a_start_without_the_database_is_none() {
    let house = House::new();
    house.office.set(Mood::Away);
    assert!(house.feed().await.is_err());
    house.office.set(Mood::Well);
    assert!(house.feed().await.is_ok());
}

#[tokio::test]
async fn a_database_that_comes_back_older_is_believed() {
    let house = House::new();
    for _ in 0..5 {
        house.office.publish(Change::Plan(Tier::Free));
    }
    let mut feed = house.feed().await.unwrap();
    assert!(matches!(house.ask().await, Peek::Known(_)));
    // The backup knows of two changes, and nothing of the key's holder.
    house.office.inner.lock().newest = 2;
    house.office.inner.lock().keys.clear();
    feed.away = true;
    feed.read().await.unwrap();
    assert!(matches!(house.peek(), Peek::Miss));
    assert!(matches!(house.ask().await, Peek::Unknown));
}
