use super::*;
use crate::ShipError;
use crate::testing::TestDatabase;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::usage::notice::Notice::{
    DailyRequests80, DailyRequests95, DailyRequests100, RateLimitedSpike,
};
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use std::time::Duration;

const OURS: TenantId = TenantId(1);
const THEIRS: TenantId = TenantId(2);
const NOON: u64 = 20_000 * DAY + 43_200;

fn at(secs: u64) -> Time {
    Time::from_secs(NOON + secs)
}

struct Fixture {
    sender: SampleShipper,
    store: UsageStore,
}

async fn fixtures<const MANY: usize>() -> (TestDatabase, [Fixture; MANY]) {
    let site = TestDatabase::of(module_path!());
    let mut fixtures = Vec::new();
    for gateway in 0..MANY as u128 {
        let store = site.usage_within(Duration::from_secs(60)).await.unwrap();
        fixtures.push(Fixture { sender: SampleShipper::new(gateway), store });
    }
    let Ok(fixtures) = fixtures.try_into() else { panic!("as many as were made") };
    (site, fixtures)
}

impl Fixture {
    /// Ships while each of our tenants may make this many requests in a day.
    async fn ship(&mut self, deeds: &[SampleRecord], allowed: u64) {
        let shipment = self.sender.pack(deeds);
        self.store.ship_with_allowances(&shipment, &each(allowed)).await.unwrap();
    }

    async fn ship_without_allowances(&mut self, deeds: &[SampleRecord]) {
        let shipment = self.sender.pack(deeds);
        self.store.ship(&shipment).await.unwrap();
    }

    async fn reported(&self, tenant: TenantId) -> Vec<(Notice, u64)> {
        let all = self.store.notifications(tenant).await.unwrap();
        all.iter().map(|one| (one.notice, one.counted)).collect()
    }
}

fn each(allowed: u64) -> BTreeMap<TenantId, u64> {
    [(OURS, allowed), (THEIRS, allowed)].into()
}

fn requests(time: Time, many: u32) -> SampleRecord {
    SampleRecord { windowed: many, ..deed(110, time, vec![item("a")]) }
}

fn refused(time: Time, many: u32) -> SampleRecord {
    let item = SampleLine { cu: 0, status: 429, outcome: Outcome::Refused, calls: many, ..item("a") };
    SampleRecord { windowed: 0, ..deed(110, time, vec![item]) }
}

// Shows (Mails and notifications).
#[tokio::test]
async fn notifications_of_shares_of_the_daily_requests_are_raised_once_each() {
    let (_site, [mut fixture]) = fixtures().await;
    fixture.ship(&[requests(at(0), 79)], 100).await;
    assert_eq!(fixture.reported(OURS).await, []);
    fixture.ship(&[requests(at(1), 1)], 100).await;
    assert_eq!(fixture.reported(OURS).await, [(DailyRequests80, 80)]);
    fixture.ship(&[requests(at(2), 14)], 100).await;
    assert_eq!(fixture.reported(OURS).await, [(DailyRequests80, 80)]);
    fixture.ship(&[requests(at(3), 1), requests(at(3), 1)], 100).await;
    fixture.ship(&[requests(at(4), 10)], 100).await;
    fixture.ship(&[requests(at(5), 500)], 100).await;
    let expected = [(DailyRequests100, 106), (DailyRequests95, 96), (DailyRequests80, 80)];
    assert_eq!(fixture.reported(OURS).await, expected);
    assert_eq!(fixture.reported(THEIRS).await, []);
    let first = &fixture.store.notifications(OURS).await.unwrap()[2];
    assert_eq!((first.since, first.at), (Time::from_secs(20_000 * DAY), at(1)));
    assert_eq!((first.tenant, first.allowed), (OURS, Some(100)));
    assert_eq!(first.text(), "80 percent of the day's requests are used: 80 of 100");
    assert_eq!(fixture.store.notification(OURS, first.id).await.unwrap().as_ref(), Some(first));
    assert_eq!(fixture.store.notification(THEIRS, first.id).await.unwrap(), None);

    // The next day starts at zero, and a larger plan takes no notification back.
    fixture.ship(&[requests(at(DAY), 80)], 100).await;
    fixture.ship(&[requests(at(DAY), 20)], 1_000).await;
    let mut all = vec![(DailyRequests80, 80)];
    all.extend(expected);
    assert_eq!(fixture.reported(OURS).await, all);
}

#[tokio::test]
async fn requests_used_up_in_one_shipment_raise_all_notifications_of_their_day() {
    let (_site, [mut fixture]) = fixtures().await;
    let last = Time::from_micros(Time::from_secs(20_001 * DAY).micros() - 1);
    let shipment = fixture.sender.pack(&[requests(last, 200), requests(at(DAY), 1)]);
    fixture.store.ship_with_allowances(&shipment, &each(100)).await.unwrap();
    let all = fixture.store.notifications(OURS).await.unwrap();
    let reported: Vec<_> = all.iter().map(|one| (one.notice, one.at)).collect();
    assert_eq!(reported, [(DailyRequests100, last), (DailyRequests95, last), (DailyRequests80, last)]);
    let again = fixture.store.ship_with_allowances(&shipment, &each(100)).await;
    assert!(matches!(again, Err(ShipError::Moved)), "{again:?}");
    assert_eq!(fixture.store.notifications(OURS).await.unwrap(), all);
    assert_eq!(fixture.store.daily_requests(20_000).await.unwrap(), [(OURS, 200)].into());
    assert_eq!(fixture.store.daily_requests(20_001).await.unwrap(), [(OURS, 1)].into());
}

#[tokio::test]
async fn notifications_due_without_a_known_allowance_are_raised_later_and_once() {
    let (_site, [mut fixture]) = fixtures().await;
    fixture.ship_without_allowances(&[requests(at(0), 96)]).await;
    assert_eq!(fixture.reported(OURS).await, []);
    let requests = fixture.store.daily_requests(20_000).await.unwrap();
    let remind = async |allowed: BTreeMap<TenantId, u64>| {
        fixture.store.remind(20_000, &requests, &allowed, at(60)).await.unwrap();
        fixture.reported(OURS).await
    };
    assert_eq!(remind([].into()).await, []);
    assert_eq!(remind(each(0)).await, [], "a tenant without an allowance gets no notification");
    assert_eq!(remind(each(120)).await, [(DailyRequests80, 96)]);
    let both = [(DailyRequests95, 96), (DailyRequests80, 96)];
    // A key was revoked.
    assert_eq!(remind(each(101)).await, both);
    assert_eq!(remind(each(100)).await, both);
}

// Shows (Mails and notifications).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_many_gateways_raises_a_notification() {
    let (_site, [a, b, c]) = fixtures().await;
    let reader = a.store.clone();
    let work = [a, b, c].map(|mut fixture| {
        tokio::spawn(async move {
            for number in 0..10 {
                let deeds = [requests(at(number), 4), refused(at(number), 2)];
                loop {
                    let shipment = fixture.sender.pack(&deeds);
                    match fixture.store.ship_with_allowances(&shipment, &each(120)).await {
                        Ok(()) => break,
                        // Another write held the lock for too long, so this shipment was not stored.
                        Err(ShipError::Store(StoreError::Unavailable(_))) => {
                            fixture.sender.take_back(&shipment);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        })
    });
    for one in work {
        one.await.unwrap();
    }
    assert_eq!(reader.daily_requests(20_000).await.unwrap(), [(OURS, 120)].into());
    let all = reader.notifications(OURS).await.unwrap();
    let mut reported: Vec<_> = all.iter().map(|one| (one.notice, one.counted)).collect();
    reported.sort_unstable();
    assert_eq!(
        reported,
        [(DailyRequests80, 96), (DailyRequests95, 116), (DailyRequests100, 120), (RateLimitedSpike, 50)]
    );
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_spike_is_fifty_refusals_in_a_minute_and_raises_one_notification_an_hour() {
    let (_site, [mut fixture, mut other]) = fixtures().await;
    let minute = NOON / MINUTE;
    fixture.ship_without_allowances(&[refused(at(59), 49), refused(at(60), 30)]).await;
    assert_eq!(fixture.reported(OURS).await, []);
    other.ship_without_allowances(&[refused(at(119), 20)]).await;
    assert_eq!(fixture.reported(OURS).await, [(RateLimitedSpike, 50)]);
    let spike = &fixture.store.notifications(OURS).await.unwrap()[0];
    assert_eq!((spike.since, spike.at, spike.allowed), (at(60), at(119), None));
    assert_eq!(spike.text(), "50 calls were refused with 429 within a minute");
    assert_eq!(spike.since.minute(), minute + 1);
    // More in the same minute, in the next one, in an earlier one, and 59 minutes later.
    fixture
        .ship_without_allowances(&[refused(at(119), 500), refused(at(120), 500), refused(at(0), 500)])
        .await;
    fixture.ship_without_allowances(&[refused(at(60 * 60), 500)]).await;
    assert_eq!(fixture.reported(OURS).await, [(RateLimitedSpike, 50)]);
    other.ship_without_allowances(&[refused(at(61 * 60), 70)]).await;
    assert_eq!(fixture.reported(OURS).await, [(RateLimitedSpike, 70), (RateLimitedSpike, 50)]);
    assert_eq!(fixture.reported(THEIRS).await, []);
}

#[tokio::test]
async fn the_newest_thousand_are_listed_and_old_ones_removed() {
    let (_site, [mut fixture]) = fixtures().await;
    let storms: Vec<_> = (0..1_100).map(|hour| refused(at(hour * 3_600), 50 + hour as u32)).collect();
    fixture.ship_without_allowances(&storms).await;
    fixture.ship_without_allowances(&[requests(at(0), 5), requests(at(90 * DAY), 5)]).await;
    let reported = fixture.reported(OURS).await;
    assert_eq!((reported.len(), reported[0].1, reported[999].1), (1_000, 1_149, 150));
    let removed = fixture.store.retain(at(1_090 * 3_600), Time::from_secs(0)).await.unwrap();
    assert_eq!((removed.notifications, fixture.reported(OURS).await.len()), (1_090, 10));
    assert_eq!(fixture.store.daily_requests(20_000).await.unwrap(), [].into());
    assert_eq!(fixture.store.daily_requests(20_090).await.unwrap(), [(OURS, 5)].into());
    // Only the refusals of the last day are left.
    let minutes = fixture.store.read(async |database| {
        Ok(minute_refusals::Entity::find().all(database).await?.into_iter().map(|row| row.minute).min())
    });
    assert_eq!(minutes.await.unwrap(), Some((NOON / MINUTE + (1_099 - 24) * 60) as i64));
}
