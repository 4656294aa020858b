use super::*;
use crate::ShipError;
use crate::testing::TestDatabase;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rpcgate_core::backend::usage_sink::Phase;
use rpcgate_core::plan::Tier;
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::ask::UsageFilter;
use rpcgate_core::usage::sample::{self, HOUR, SampleRecord, SampleShipper, deed, item, recount};
use rpcgate_core::usage::{Amount, UsageAsk, UsageWindow};
use std::collections::BTreeMap;
use std::time::Duration;

const START: u64 = 500_012;
const OURS: TenantId = TenantId(1);
const THEIRS: TenantId = TenantId(2);

struct Fixture {
    _site: TestDatabase,
    store: UsageStore,
    sender: SampleShipper,
}

impl Fixture {
    async fn new() -> Self {
        let site = TestDatabase::of(module_path!());
        let store = site.usage_within(Duration::from_secs(60)).await.unwrap();
        Fixture { _site: site, store, sender: SampleShipper::new(7) }
    }

    async fn ship(&mut self, deeds: &[SampleRecord]) {
        let shipment = self.sender.pack(deeds);
        self.store.ship(&shipment).await.unwrap();
        // The second shipment is recognised and charges nothing.
        assert!(
            matches!(self.store.ship(&shipment).await, Err(ShipError::Moved))
                || shipment.marks[0].from == shipment.marks[0].to
        );
    }
}

fn owed(deeds: &[SampleRecord], tenant: TenantId, hours: &Range<u64>) -> Vec<Charged> {
    type Account<'a> = (ProjectId, &'a str, &'a str, Price);
    let mut owed: BTreeMap<Account<'_>, (Tier, u64, u64)> = BTreeMap::new();
    for deed in deeds.iter().filter(|deed| deed.tenant == tenant && hours.contains(&deed.arrival.hour())) {
        let is_charged = match deed.phase {
            Phase::Complete | Phase::Begin => true,
            Phase::Pushed => deed.transport == Transport::Ws,
            Phase::End => false,
        };
        for item in deed.items.iter().filter(|item| is_charged && item.cu > 0) {
            let sums = owed
                .entry((deed.project, deed.chain, deed.tier.name(), deed.price))
                .or_insert((deed.tier, 0, 0));
            sums.1 += u64::from(item.calls);
            sums.2 += u64::from(item.cu);
        }
    }
    owed.into_iter()
        .map(|((project, chain, _, price), (tier, calls, units))| Charged {
            project,
            chain: chain.into(),
            tier,
            price,
            calls,
            units,
        })
        .collect()
}

// Shows (Plans, bills and payments).
#[test]
fn bills_equal_a_count_of_the_records_and_agree_with_usage() {
    let given = (
        sample::deeds(START..START + 30, 1..200),
        prop::collection::vec(0usize..200, 0..4),
        (0u64..32, 1u64..32),
    );
    let config = Config { cases: 12, failure_persistence: None, max_shrink_iters: 64, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    TestRunner::new(config)
        .run(&given, |(deeds, mut cuts, (start, length))| {
            runtime.block_on(async {
                let mut fixture = Fixture::new().await;
                cuts.push(deeds.len());
                cuts.sort_unstable();
                let mut done = 0;
                for cut in cuts {
                    let cut = cut.min(deeds.len());
                    fixture.ship(&deeds[done..cut]).await;
                    done = cut;
                }
                for (tenant, hours) in [
                    (OURS, START..START + 30),
                    (THEIRS, START..START + 30),
                    (OURS, START + start..START + start + length),
                ] {
                    let bill = fixture.store.bill(tenant, hours.clone()).await.unwrap();
                    assert_eq!(bill, owed(&deeds, tenant, &hours));
                    let window = UsageWindow::between(
                        Time::from_secs(hours.start * HOUR),
                        Time::from_secs(hours.end * HOUR),
                    );
                    let view = fixture.store.usage(&UsageAsk::new(tenant, window.unwrap())).await.unwrap();
                    let sum = |value: fn(&Charged) -> u64| bill.iter().map(value).sum::<u64>();
                    assert_eq!(sum(|row| row.calls), view.totals.billed_requests);
                    assert_eq!(sum(|row| row.units), view.totals.billable_units);
                    let counted = recount(&deeds, tenant, &hours, &UsageFilter::default(), &[]);
                    let counted = counted.into_values().next().unwrap_or_default();
                    assert_eq!(view.totals.billable_units, counted.billable_units);
                }
            });
            Ok(())
        })
        .unwrap();
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_call_is_owed_at_the_price_of_its_time() {
    let mut fixture = Fixture::new().await;
    let at = |hour, tier, dollars| SampleRecord {
        tier,
        price: Price::from_usd(dollars).unwrap(),
        ..deed(110, Time::from_secs((START + hour) * HOUR), vec![item("a"), item("b")])
    };
    let deeds = [
        at(0, Tier::Free, 0.0),
        at(1, Tier::Standard, 0.001),
        at(1, Tier::Enterprise, 0.0002),
        at(2, Tier::Standard, 0.001),
        at(2, Tier::Standard, 0.25),
    ];
    fixture.ship(&deeds).await;
    let amount = async |hours| {
        let bill = fixture.store.bill(OURS, hours).await.unwrap();
        bill.iter().map(Charged::amount).sum::<Amount>().to_string()
    };
    assert_eq!(amount(START..START + 1).await, "0.000000000000");
    assert_eq!(amount(START + 1..START + 2).await, "0.002400000000");
    assert_eq!(amount(START..START + 3).await, "0.504400000000");
    assert_eq!(fixture.store.bill(OURS, START + 3..START + 9).await.unwrap(), []);
    assert_eq!(fixture.store.bill(THEIRS, START..START + 3).await.unwrap(), []);
    let paid: Vec<_> = fixture.store.bill(OURS, START + 1..START + 3).await.unwrap();
    let paid: Vec<_> = paid.iter().map(|row| (row.tier, row.price.usd(), row.calls)).collect();
    assert_eq!(paid, [(Tier::Enterprise, 0.0002, 2), (Tier::Standard, 0.001, 4), (Tier::Standard, 0.25, 2)]);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn charges_are_removed_by_their_hour_and_no_others() {
    let mut fixture = Fixture::new().await;
    let deeds: Vec<_> =
        (0..60).map(|hour| deed(110, Time::from_secs((START + hour) * HOUR), vec![item("a")])).collect();
    fixture.ship(&deeds).await;
    let calls = async || {
        let bill = fixture.store.bill(OURS, START..START + 60).await.unwrap();
        bill.iter().map(|row| row.calls).sum::<u64>()
    };
    assert_eq!(fixture.store.remove_charges(Time::from_secs(START * HOUR + 5)).await.unwrap(), 0);
    assert_eq!(calls().await, 60);
    let removed =
        fixture.store.retain(Time::from_secs(0), Time::from_secs((START + 50) * HOUR)).await.unwrap();
    assert_eq!((removed.charges, calls().await), (50, 10));
}
