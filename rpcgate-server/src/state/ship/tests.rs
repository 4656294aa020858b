use super::super::allowances::tests::CountedAllowances;
use super::super::batcher::REST;
use super::*;
use crate::journal::{Disk, JournalOptions, Medium, MediumFile};
use parking_lot::Mutex;
use rpcgate_config::{JournalSettings, LogFormat};
use rpcgate_core::backend::suite;
use rpcgate_core::backend::usage_sink::{Line, Outcome, Record, UsageSink};
use rpcgate_core::clock::ManualClock;
use rpcgate_core::usage::{Metrics, Notice, Period, UsageAsk, UsageWindow};
use rpcgate_process::testing::CapturedLog;
use rpcgate_store::url_of;
use std::collections::VecDeque;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const NOW: Time = Time::from_secs(1_800_000_000);

/// The outcome of a shipment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Stored,
    /// It is stored, and the shipper gets no confirmation.
    Unheard,
    Lost,
}

/// The real usage database behind a connection that fails as configured.
#[derive(Debug)]
struct FaultyUsageStore {
    usage: UsageStore,
    fates: Mutex<VecDeque<Fate>>,
    closed: Mutex<bool>,
    shipped: Mutex<Vec<Shipment>>,
}

impl UsageDestination for FaultyUsageStore {
    fn marks(
        &self,
        gateway: GatewayId,
        oldest: SegmentId,
    ) -> BoxFuture<'_, Result<Vec<(SegmentId, u64)>, StoreError>> {
        Box::pin(async move {
            if *self.closed.lock() {
                return Err(StoreError::Unavailable("the way is closed".into()));
            }
            self.usage.marks(gateway, oldest).await
        })
    }

    fn ship<'a>(
        &'a self,
        shipment: &'a Shipment,
        allowances: &'a BTreeMap<TenantId, u64>,
    ) -> BoxFuture<'a, Result<(), ShipError>> {
        Box::pin(async move {
            if *self.closed.lock() {
                return Err(StoreError::Unavailable("the way is closed".into()).into());
            }
            let fate = self.fates.lock().pop_front().unwrap_or(Fate::Stored);
            if fate != Fate::Lost {
                self.usage.ship_with_allowances(shipment, allowances).await?;
                self.shipped.lock().push(shipment.clone());
            }
            match fate {
                Fate::Stored => Ok(()),
                Fate::Unheard | Fate::Lost => Err(StoreError::Unavailable("no answer".into()).into()),
            }
        })
    }

    fn remind<'a>(
        &'a self,
        day: u64,
        asked: &'a CachedAllowances,
        now: Time,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        UsageDestination::remind(&self.usage, day, asked, now)
    }
}

struct Fixture {
    home: tempfile::TempDir,
    clock: Arc<ManualClock>,
    journal: Arc<Journal>,
    way: Arc<FaultyUsageStore>,
}

impl Fixture {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(NOW));
        let usage = UsageStore::open(&url_of(&home.path().join("rpcgate.db")), true).await.unwrap();
        let journal = Journal::open(options(home.path().join("journal"), &clock)).unwrap();
        let way = FaultyUsageStore {
            usage,
            fates: Mutex::default(),
            closed: Mutex::new(false),
            shipped: Mutex::default(),
        };
        Fixture { home, clock, journal, way: Arc::new(way) }
    }

    fn shipper(&self) -> Shipper {
        Shipper::new(self.journal.clone(), self.way.clone(), self.clock.clone())
    }

    /// Records a call of one of many methods and tenants.
    fn call(&self, number: u128) {
        let method = format!("method_{}", number % 40);
        let line = Line {
            method: method.as_bytes(),
            cu: 5,
            status: 200,
            outcome: Outcome::Answered,
            cached: false,
            calls: 1,
            bytes_in: 10,
            bytes_out: 20,
        };
        let lines = [line];
        let tenant = TenantId(number % 2);
        self.journal.append(&Record { tenant, arrival: NOW, ..suite::record(number, &lines) });
    }

    fn calls(&self, numbers: std::ops::Range<u128>) {
        numbers.for_each(|number| self.call(number));
    }

    async fn totals(&self) -> Metrics {
        let mut totals = Metrics::default();
        for tenant in 0..2 {
            let ask = UsageAsk::new(TenantId(tenant), UsageWindow::of(Period::Day, NOW));
            totals.add(&self.way.usage.usage(&ask).await.unwrap().totals);
        }
        totals
    }

    /// Returns the calls and Compute Units in the database. Checks that there are as many single events as calls.
    async fn stored(&self) -> (u64, u64) {
        let totals = self.totals().await;
        let mut events = 0;
        for tenant in 0..2 {
            let all =
                self.way.usage.last_events(TenantId(tenant), suite::record(0, &[]).key, 1_000).await.unwrap();
            events += all.len() as u64;
        }
        if totals.requests < 1_000 {
            assert_eq!(events, totals.requests);
        }
        (totals.requests, totals.billable_units)
    }

    async fn marks(&self) -> Vec<(SegmentId, u64)> {
        let mut marks = self.way.usage.marks(self.journal.gateway(), SegmentId(0)).await.unwrap();
        marks.sort();
        marks
    }

    fn ends(&self) -> Vec<(SegmentId, u64)> {
        self.journal.segments().iter().map(|segment| (segment.id, segment.len)).collect()
    }

    fn file(&self, segment: SegmentId) -> PathBuf {
        let found = std::fs::read_dir(self.home.path().join("journal")).unwrap().find_map(|entry| {
            let path = entry.unwrap().path();
            path.to_string_lossy().contains(&segment.to_string()).then_some(path)
        });
        found.unwrap()
    }
}

fn options(dir: PathBuf, clock: &Arc<ManualClock>) -> JournalOptions {
    let config = JournalSettings { dir, ..JournalSettings::default() };
    JournalOptions { shards: 1, ..JournalOptions::new(&config, clock.clone()) }
}

#[tokio::test]
async fn every_record_is_stored_once() {
    let fixture = Fixture::new().await;
    let mut shipper = fixture.shipper();
    for round in 0..5 {
        fixture.calls(round * 20..(round + 1) * 20);
        assert!(!shipper.round().await.unwrap());
        assert_eq!(fixture.stored().await, ((round as u64 + 1) * 20, (round as u64 + 1) * 100));
        assert_eq!(fixture.marks().await, fixture.ends());
    }
    assert!(!shipper.round().await.unwrap());
    assert_eq!(fixture.way.shipped.lock().len(), 5, "nothing new is no shipment");
    assert_eq!(shipper.left(), 0);
}

#[tokio::test]
async fn replaying_the_journal_changes_nothing() {
    let fixture = Fixture::new().await;
    fixture.calls(0..50);
    for _ in 0..3 {
        fixture.shipper().ship_all().await;
        assert_eq!(fixture.stored().await, (50, 250));
    }
    // A reader that begins at the mark knows the names that were defined before it.
    fixture.calls(50..60);
    fixture.shipper().ship_all().await;
    assert_eq!(fixture.stored().await, (60, 300));
}

#[tokio::test]
async fn two_shippers_of_one_journal_store_nothing_twice() {
    let fixture = Fixture::new().await;
    let mut one = fixture.shipper();
    let mut other = fixture.shipper();
    for round in 0..10 {
        fixture.calls(round * 10..(round + 1) * 10);
        // The second one begins at a mark that has moved, and reads the marks again.
        let (first, second) = if round % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        first.ship_all().await;
        let _ = second.round().await;
    }
    one.ship_all().await;
    other.ship_all().await;
    assert_eq!(fixture.stored().await, (100, 500));
}

// Shows (Reliability).
#[tokio::test]
async fn each_record_is_stored_once_for_any_outcome_of_shipments() {
    let fixture = Fixture::new().await;
    // Every order of three fates.
    let fates = (0..27).flat_map(|n| [n % 3, n / 3 % 3, n / 9]).map(|n| match n {
        0 => Fate::Stored,
        1 => Fate::Unheard,
        _ => Fate::Lost,
    });
    fixture.way.fates.lock().extend(fates);
    let mut shipper = fixture.shipper();
    let mut count = 0;
    while !fixture.way.fates.lock().is_empty() {
        fixture.calls(count..count + 3);
        count += 3;
        let _ = shipper.round().await;
    }
    shipper.ship_all().await;
    assert!(count > 200, "{count}");
    assert_eq!(fixture.stored().await, (count as u64, 5 * count as u64));
    assert_eq!(fixture.marks().await, fixture.ends());
}

#[tokio::test]
async fn a_shipment_that_is_cut_off_halfway_is_neither_lost_nor_repeated() {
    let fixture = Fixture::new().await;
    fixture.calls(0..10);
    let mut shipper = fixture.shipper();
    let mut steps = 0;
    // Dropped at its first wait, its second, and so on, until it completes.
    loop {
        steps += 1;
        let mut left = steps;
        let mut round = Box::pin(shipper.round());
        let done = std::future::poll_fn(|cx| {
            left -= 1;
            match round.as_mut().poll(cx) {
                std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
                std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
                std::task::Poll::Pending => std::task::Poll::Pending,
            }
        });
        let done = done.await;
        drop(round);
        if matches!(done, Some(Ok(false))) {
            break;
        }
    }
    assert!(steps > 2, "it was cut off somewhere");
    assert_eq!(fixture.stored().await, (10, 50));
}

#[tokio::test]
async fn much_is_shipped_in_pieces() {
    let fixture = Fixture::new().await;
    fixture.calls(0..5_000);
    let bytes: u64 = fixture.ends().iter().map(|(_, len)| len).sum();
    let mut shipper = fixture.shipper();
    shipper.most = LEAST;
    assert!(shipper.round().await.unwrap(), "there is more");
    shipper.most = LEAST;
    shipper.ship_all().await;
    assert_eq!(fixture.stored().await, (5_000, 25_000));
    let sizes: Vec<u64> = fixture
        .way
        .shipped
        .lock()
        .iter()
        .map(|shipment| shipment.marks.iter().map(|mark| mark.to - mark.from).sum())
        .collect();
    assert_eq!(sizes.iter().sum::<u64>(), bytes);
    assert!(sizes.len() > 2 && sizes[0] >= LEAST && sizes[0] < LEAST + 1_000, "{sizes:?}");
}

#[tokio::test]
async fn a_record_longer_than_the_read_buffer_is_shipped_like_any_other() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..600).map(|n| format!("{n:01000}")).collect();
    let lines: Vec<Line<'_>> = names
        .iter()
        .map(|name| Line {
            method: name.as_bytes(),
            cu: 5,
            status: 200,
            outcome: Outcome::Answered,
            cached: false,
            calls: 1,
            bytes_in: 10,
            bytes_out: 20,
        })
        .collect();
    fixture.calls(0..3_000);
    for number in [3_000, 3_001] {
        let tenant = TenantId(number % 2);
        fixture.journal.append(&Record { tenant, arrival: NOW, ..suite::record(number, &lines) });
        fixture.calls(number + 2..number + 3);
    }
    fixture.shipper().ship_all().await;
    let calls = 3_000 + 2 * 600 + 2;
    assert_eq!(fixture.stored().await, (calls, 5 * calls));
    assert_eq!(fixture.marks().await, fixture.ends());
}

#[tokio::test]
async fn a_database_that_cannot_take_much_is_given_less() {
    let fixture = Fixture::new().await;
    let mut shipper = fixture.shipper();
    fixture.way.fates.lock().extend([Fate::Lost; 10]);
    for round in 0..10 {
        fixture.call(round);
        shipper.round().await.unwrap_err();
    }
    assert_eq!(shipper.most, LEAST);
    for _ in 0..10 {
        shipper.round().await.unwrap();
    }
    assert_eq!(shipper.most, MOST);
    assert_eq!(fixture.stored().await, (10, 50));
}

#[tokio::test]
async fn a_segment_is_removed_some_time_after_it_was_shipped_and_its_mark_stays() {
    let fixture = Fixture::new().await;
    let mut shipper = fixture.shipper();
    fixture.calls(0..10);
    shipper.ship_all().await;
    let first = fixture.ends();
    fixture.clock.advance(ROTATION);
    shipper.ship_all().await;
    shipper.ship_all().await;
    assert!(fixture.journal.segments()[0].sealed, "open segments are sealed each minute");
    assert_eq!(fixture.ends(), first, "but it stays for a while");
    fixture.calls(10..15);
    shipper.ship_all().await;
    fixture.clock.advance(REST);
    shipper.ship_all().await;
    let left = fixture.ends();
    assert!(left.len() == 1 && left != first, "{left:?}");
    assert_eq!(fixture.marks().await, [first, left].concat());
    assert_eq!(fixture.stored().await, (15, 75));
}

#[tokio::test]
async fn a_segment_that_was_not_shipped_to_its_end_is_never_removed() {
    let fixture = Fixture::new().await;
    fixture.calls(0..10);
    let mut shipper = fixture.shipper();
    *fixture.way.closed.lock() = true;
    for _ in 0..5 {
        fixture.clock.advance(REST + ROTATION);
        fixture.journal.rotate();
        shipper.round().await.unwrap_err();
    }
    assert_eq!(fixture.ends().len(), 1);
    *fixture.way.closed.lock() = false;
    shipper.ship_all().await;
    assert_eq!(fixture.stored().await, (10, 50));
}

#[tokio::test]
async fn a_damaged_segment_is_skipped_and_blocks_no_other() {
    let fixture = Fixture::new().await;
    fixture.calls(0..10);
    fixture.journal.rotate();
    let (damaged, len) = fixture.ends()[0];
    fixture.calls(10..20);
    let mut file = std::fs::OpenOptions::new().write(true).open(fixture.file(damaged)).unwrap();
    file.seek(SeekFrom::Start(len - 5)).unwrap();
    file.write_all(b"X").unwrap();
    let mut shipper = fixture.shipper();
    for _ in 0..3 {
        shipper.ship_all().await;
        fixture.clock.advance(REST + ROTATION);
    }
    assert_eq!(fixture.stored().await, (19, 95), "all but the damaged record");
    assert!(fixture.file(damaged).exists());
    fixture.call(20);
    shipper.ship_all().await;
    assert_eq!(fixture.stored().await, (20, 100));

    let lines = CapturedLog::default();
    let _listening = lines.capture("info", LogFormat::Text);
    let mut batcher = SegmentBatcher::new([]);
    for _ in 0..3 {
        batcher.fill(&fixture.journal, MOST, Duration::ZERO);
    }
    assert_eq!(lines.text().matches("segment is damaged").count(), 1, "{}", lines.text());
}

// Shows (Reliability).
#[tokio::test]
async fn the_start_and_the_end_of_a_shipping_failure_are_logged_once_each() {
    let fixture = Fixture::new().await;
    let lines = CapturedLog::default();
    let _listening = lines.capture("info", LogFormat::Text);
    let mut shipper = fixture.shipper();
    *fixture.way.closed.lock() = true;
    fixture.call(0);
    for _ in 0..3 {
        shipper.round().await.unwrap_err();
    }
    *fixture.way.closed.lock() = false;
    shipper.ship_all().await;
    shipper.ship_all().await;
    let text = lines.text();
    assert_eq!(text.matches("usage cannot be shipped").count(), 1, "{text}");
    assert_eq!(text.matches("usage is shipped again").count(), 1, "{text}");
}

/// A disk that is full while it is set to be.
#[derive(Debug, Default)]
struct Full(AtomicBool);

impl Medium for Full {
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        if self.0.load(Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { Disk.create(path) }
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Disk.open_append(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.sync_dir(dir)
    }
}

// Shows (Reliability).
#[tokio::test]
async fn records_waiting_in_memory_keep_their_age_and_are_not_shipped() {
    let mut fixture = Fixture::new().await;
    let disk = Arc::new(Full(AtomicBool::new(true)));
    let medium =
        JournalOptions { medium: disk.clone(), ..options(fixture.home.path().join("full"), &fixture.clock) };
    fixture.journal = Journal::open(medium).unwrap();
    let shipping = Arc::<Shipping>::default();
    let mut shipper = fixture.shipper().showing(shipping.clone());
    let second = Duration::from_secs(1);
    let lag = || shipping.read(fixture.clock.elapsed()).lag;
    fixture.clock.advance(second);
    shipper.round().await.unwrap();
    assert_eq!(lag(), Duration::ZERO);
    fixture.call(1);
    assert!(fixture.journal.status().queued_bytes > 0);
    fixture.clock.advance(second);
    shipper.round().await.unwrap();
    assert_eq!(lag(), second);
    disk.0.store(false, Relaxed);
    while fixture.journal.status().stalled {
        tokio::task::yield_now().await;
    }
    shipper.ship_all().await;
    assert_eq!(lag(), Duration::ZERO);
    assert_eq!(fixture.stored().await.0, 1);
}

// Shows (Reliability).
#[tokio::test]
async fn records_left_by_one_process_are_shipped_by_the_next() {
    let fixture = Fixture::new().await;
    fixture.calls(0..10);
    fixture.shipper().ship_all().await;
    fixture.calls(10..20);
    let Fixture { home, clock, journal, way } = fixture;
    let gateway = journal.gateway();
    // As a killed process leaves it.
    drop(journal);
    let journal = Journal::open(options(home.path().join("journal"), &clock)).unwrap();
    assert_eq!(journal.gateway(), gateway);
    let fixture = Fixture { home, clock, journal, way };
    fixture.shipper().ship_all().await;
    assert_eq!(fixture.stored().await, (20, 100));
}

#[tokio::test]
async fn it_runs_until_it_is_stopped() {
    let fixture = Fixture::new().await;
    let closing = CancellationToken::new();
    let running = tokio::spawn(fixture.shipper().run(closing.clone()));
    fixture.calls(0..10);
    let stored = async {
        while fixture.totals().await.requests < 10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stored).await.unwrap();
    closing.cancel();
    let mut shipper = running.await.unwrap();
    fixture.call(10);
    shipper.ship_all().await;
    assert_eq!(fixture.stored().await, (11, 55));
}

/// Returns the notifications of tenants, each with the number of requests.
async fn reported(fixture: &Fixture) -> Vec<(Notice, u64)> {
    let mut reported = Vec::new();
    for tenant in 0..2 {
        let all = fixture.way.usage.notifications(TenantId(tenant)).await.unwrap();
        reported.extend(all.iter().rev().map(|one| (one.notice, one.counted)));
    }
    reported
}

const USED_UP: [(Notice, u64); 3] =
    [(Notice::DailyRequests80, 25), (Notice::DailyRequests95, 25), (Notice::DailyRequests100, 25)];

// Shows (Mails and notifications).
#[tokio::test]
async fn an_exhausted_limit_is_reported_once_for_any_outcome_of_shipments() {
    for fate in [Fate::Stored, Fate::Unheard, Fate::Lost] {
        let fixture = Fixture::new().await;
        let source = Arc::new(CountedAllowances::default());
        *source.allowed.lock() = [(TenantId(0), 25), (TenantId(1), 1_000)].into();
        fixture.way.fates.lock().push_back(fate);
        fixture.calls(0..50);
        let mut shipper = fixture.shipper();
        shipper.notify(source.clone());
        assert_eq!(shipper.round().await.is_ok(), fate == Fate::Stored);
        assert_eq!(reported(&fixture).await.is_empty(), fate == Fate::Lost, "{fate:?}");
        shipper.ship_all().await;
        assert_eq!(reported(&fixture).await, USED_UP, "{fate:?}");
        // Killed, and started again.
        let mut shipper = fixture.shipper();
        shipper.notify(source);
        shipper.remind().await;
        fixture.calls(50..60);
        shipper.ship_all().await;
        assert_eq!(reported(&fixture).await, USED_UP, "{fate:?}");
    }
}

#[tokio::test]
async fn a_notification_whose_allowance_was_unknown_is_raised_later() {
    let fixture = Fixture::new().await;
    fixture.calls(0..50);
    let mut shipper = fixture.shipper();
    shipper.ship_all().await;
    let source = Arc::new(CountedAllowances::default());
    *source.allowed.lock() = [(TenantId(0), 25), (TenantId(1), 1_000)].into();
    *source.away.lock() = true;
    shipper.notify(source.clone());
    shipper.remind().await;
    assert_eq!(reported(&fixture).await, []);
    *source.away.lock() = false;
    fixture.clock.advance(REMINDER_AGAIN - Duration::from_millis(1));
    shipper.remind().await;
    assert_eq!(reported(&fixture).await, [], "it is not queried again at once");
    fixture.clock.advance(Duration::from_millis(1));
    shipper.remind().await;
    assert_eq!(reported(&fixture).await, USED_UP);
    // With one key less, the used requests are a larger share of the allowance.
    *source.allowed.lock() = [(TenantId(0), 25), (TenantId(1), 30)].into();
    fixture.clock.advance(REMINDER);
    shipper.remind().await;
    assert_eq!(reported(&fixture).await[3..], [(Notice::DailyRequests80, 25)]);
}

#[tokio::test]
async fn notifications_of_shipments_before_midnight_are_raised_soon_after_and_then_stop() {
    for (late, is_told) in [(REST_OF_DAY, true), (2 * REST_OF_DAY, false)] {
        let fixture = Fixture::new().await;
        fixture.calls(0..50);
        let mut shipper = fixture.shipper();
        shipper.ship_all().await;
        let source = Arc::new(CountedAllowances::default());
        *source.allowed.lock() = [(TenantId(0), 25)].into();
        shipper.notify(source);
        let midnight = Time::from_secs((NOW.day() + 1) * 86_400);
        fixture.clock.advance(midnight.since(NOW) + late - Duration::from_secs(1));
        shipper.remind().await;
        assert_eq!(!reported(&fixture).await.is_empty(), is_told, "{late:?}");
    }
}
