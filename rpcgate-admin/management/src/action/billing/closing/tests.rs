//! Tests of the monthly closing, compared with a count of the individual records.

use super::*;
use crate::testing::Site;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rpcgate_config::{PlanChange, ScheduledChange};
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::usage::Amount;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_store::{
    AuditSubject, BillingParty, CustomPlan, CustomPlanChange, Figures, Invoice, InvoiceFilter, InvoiceNumber,
    InvoiceStatus, LineKind, ScheduledChangeId, ScheduledPlanChange, StoreError, Tenant, TenantChange,
};
use std::collections::BTreeMap;
use std::time::Duration;

const OURS: TenantId = TenantId(1);
const THEIRS: TenantId = TenantId(2);
const CENT: u128 = 10_000_000_000;

/// 2026-10-01 and the three months after it, each with its seconds.
const MONTHS: [(u64, u64); 3] =
    [(1_790_812_800, 31 * 86_400), (1_793_491_200, 30 * 86_400), (1_796_083_200, 31 * 86_400)];

const TEXT: &str = "[billing]\ntax_name = \"VAT\"\ntax_basis_points = 1900\nclose_after = \"6h\"\nseller = \"Acme\"\n\
    [billing.fees]\nstandard = 4999\npremium = 19900\nenterprise = 100001\n";

fn secs(secs: u64) -> Time {
    Time::from_secs(secs)
}

/// Makes a site whose clock shows the begin of the first month, with two tenants on the free plan.
async fn site() -> Site {
    let site = Site::of(TEXT).await;
    site.clock.set(secs(MONTHS[0].0));
    for id in [OURS, THEIRS] {
        let created_at = secs(MONTHS[0].0);
        let tenant = Tenant::new(id, "Bank", Tier::Free, created_at);
        site.app.store.create_tenant(&tenant).await.unwrap();
    }
    assert_eq!(close_months(&site.app).await.unwrap(), MonthsClosed::default());
    site
}

async fn ship(site: &Site, shipper: &mut SampleShipper, deeds: &[SampleRecord]) {
    site.app.usage.ship(&shipper.pack(deeds)).await.unwrap();
}

async fn move_to(site: &Site, tenant: TenantId, tier: Tier) {
    let change = TenantChange { tier: Some(tier), ..TenantChange::default() };
    site.app.store.update_tenant(tenant, &change, site.app.now()).await.unwrap();
}

async fn invoices(site: &Site, tenant: TenantId) -> Vec<Invoice> {
    let filter = InvoiceFilter { tenant: Some(tenant), ..InvoiceFilter::default() };
    let mut all = site.app.store.invoices(filter, None, 1_000).await.unwrap();
    all.reverse();
    all
}

async fn lines(site: &Site, invoice: &Invoice) -> Vec<InvoiceLine> {
    site.app.store.invoice(invoice.tenant, invoice.number).await.unwrap().unwrap().lines
}

fn call(tenant: TenantId, at: Time, chain: &'static str, cu: u32, price: u64) -> SampleRecord {
    SampleRecord {
        price: Price(price),
        chain,
        ..deed(tenant.0 * 100 + 10, at, vec![SampleLine { cu, ..item("a") }])
    }
}

/// Random numbers that are the same in each run.
struct Random(TestRng);

impl Random {
    fn new(seed: u8) -> Self {
        Random(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }
}

#[derive(Default)]
struct History {
    deeds: Vec<SampleRecord>,
    /// The plan from each of these seconds on.
    tiers: BTreeMap<u64, Tier>,
}

impl History {
    fn tier(&self, at: u64) -> Tier {
        self.tiers.range(..=at).next_back().map_or(Tier::Free, |(_, tier)| *tier)
    }

    /// Returns the debt for the usage on each chain, call by call, and for the plans, second by second.
    fn owed(&self) -> (BTreeMap<&'static str, (u128, u64)>, u128) {
        let mut usage: BTreeMap<&'static str, (u128, u64)> = BTreeMap::new();
        for deed in self.deeds.iter().filter(|deed| deed.price.0 > 0) {
            for item in &deed.items {
                let (amount, units) = usage.entry(deed.chain).or_default();
                *amount += u128::from(item.cu) * u128::from(deed.price.0);
                *units += u64::from(item.cu);
            }
        }
        let mut plans = 0;
        for (begin, length) in MONTHS {
            let mut seconds = BTreeMap::<&str, u128>::new();
            for second in begin..begin + length {
                *seconds.entry(self.tier(second).name()).or_default() += 1;
            }
            for (tier, fee) in [("standard", 4_999), ("premium", 19_900), ("enterprise", 100_001)] {
                let seconds = seconds.get(tier).copied().unwrap_or_default();
                plans += fee * CENT * seconds / u128::from(length);
            }
        }
        (usage, plans)
    }
}

/// Runs three months in which plans and prices change, usage arrives late, and several janitors close months at any
/// time.
async fn three_months(seed: u8) {
    let site = site().await;
    let second = site.app.reload(site.app.settings.config.clone()).unwrap();
    let mut random = Random::new(seed);
    let mut shipper = SampleShipper::new(seed.into());
    let mut histories = BTreeMap::from([(OURS, History::default()), (THEIRS, History::default())]);
    let mut price = 1_000_000_000;
    let mut late = Vec::new();
    for (begin, length) in MONTHS {
        let mut at = begin;
        loop {
            at += 1 + random.below(40_000);
            if at >= begin + length {
                break;
            }
            site.clock.set(secs(at));
            let tenant = if random.below(2) == 0 { OURS } else { THEIRS };
            let history = histories.get_mut(&tenant).unwrap();
            match random.below(8) {
                0 => {
                    let tier = Tier::ALL[random.below(4) as usize];
                    move_to(&site, tenant, tier).await;
                    history.tiers.insert(at, tier);
                }
                1 => price = random.below(3_000_000_000),
                _ => {
                    let chain = ["eth", "btc", "sol"][random.below(3) as usize];
                    let mut deed = call(tenant, secs(at), chain, 1 + random.below(90) as u32, price);
                    deed.tier = history.tier(at);
                    history.deeds.push(deed.clone());
                    if random.below(10) == 0 {
                        late.push(deed);
                    } else {
                        ship(&site, &mut shipper, &[deed]).await;
                    }
                }
            }
            if random.below(20) == 0 {
                close_months(&site.app).await.unwrap();
            }
        }
        site.clock.set(secs(begin + length + 6 * 3_600));
        let (one, other) = tokio::join!(close_months(&site.app), close_months(&second));
        let months = one.unwrap().months + other.unwrap().months;
        assert_eq!(months, 2, "each tenant's month is closed once");
        // The gateway that was away comes back.
        ship(&site, &mut shipper, &std::mem::take(&mut late)).await;
    }
    // A fourth month without usage and plans of its own, in which the late usage of the third one is billed.
    for tenant in [OURS, THEIRS] {
        site.clock.set(secs(MONTHS[2].0 + MONTHS[2].1));
        move_to(&site, tenant, Tier::Free).await;
    }
    site.clock.set(secs(MONTHS[2].0 + MONTHS[2].1 + 32 * 86_400));
    close_months(&site.app).await.unwrap();
    let mut numbers = Vec::new();
    for (tenant, history) in &histories {
        let (usage, plans) = history.owed();
        let mut billed: BTreeMap<String, (u128, u64)> = BTreeMap::new();
        let mut billed_plans = 0;
        for invoice in invoices(&site, *tenant).await {
            numbers.push(invoice.number);
            let lines = lines(&site, &invoice).await;
            let mut exact = 0;
            for line in lines {
                exact += line.amount.0;
                match line.kind {
                    LineKind::Plan => billed_plans += line.amount.0,
                    LineKind::Usage if line.price.0 > 0 => {
                        let (amount, units) = billed.entry(line.chain).or_default();
                        *amount += line.amount.0;
                        *units += line.units;
                    }
                    LineKind::Usage => {}
                }
            }
            let cents = (exact + CENT / 2) / CENT;
            assert_eq!(u128::from(invoice.amounts.subtotal), cents);
            assert_eq!(u128::from(invoice.amounts.tax), (cents * 19 + 50) / 100);
        }
        let billed: BTreeMap<_, _> = billed.iter().map(|(chain, sums)| (chain.as_str(), *sums)).collect();
        assert_eq!(billed, usage, "usage of {tenant}");
        assert_eq!(billed_plans, plans, "plans of {tenant}");
    }
    numbers.sort_unstable();
    for year in [2026, 2027] {
        let serials: Vec<_> = numbers.iter().filter(|one| one.year == year).map(|one| one.serial).collect();
        assert_eq!(serials, (1..=serials.len() as u64).collect::<Vec<_>>(), "no number of {year} is missing");
    }
    let before = all(&site).await;
    for _ in 0..2 {
        assert_eq!(close_months(&site.app).await.unwrap(), MonthsClosed::default());
    }
    assert_eq!(all(&site).await, before, "closing again changes nothing");
}

async fn all(site: &Site) -> String {
    let mut all = String::new();
    for tenant in [OURS, THEIRS] {
        for invoice in invoices(site, tenant).await {
            all += &format!("{:?}\n", site.app.store.any_invoice(invoice.number).await.unwrap());
        }
        all += &format!("{:?}\n", site.app.store.audit(AuditSubject::Tenant(tenant), 1_000).await.unwrap());
    }
    all
}

// Shows (Plans, bills and payments): The invoices' sum equals a count of every call and second over three months in
// which prices and plans change; closing twice and two janitors at once change nothing; numbers have no gaps.
#[tokio::test]
async fn the_invoices_of_three_months_add_up_to_a_count_of_every_call_and_second() {
    for seed in 1..=3 {
        three_months(seed).await;
    }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_month_is_closed_hours_after_its_end_and_once() {
    let site = site().await;
    let mut shipper = SampleShipper::new(1);
    let (begin, length) = MONTHS[0];
    ship(&site, &mut shipper, &[call(OURS, secs(begin + 5), "eth", 3, 2_000_000_000_000)]).await;
    site.clock.set(secs(begin + length + 6 * 3_600 - 1));
    assert_eq!(close_months(&site.app).await.unwrap(), MonthsClosed::default());
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(close_months(&site.app).await.unwrap(), MonthsClosed { months: 2, invoices: 1 });
    let [invoice] = &invoices(&site, OURS).await[..] else { panic!("one invoice") };
    assert_eq!(invoice.number.to_string(), "2026-000001");
    assert_eq!(invoice.period, secs(begin)..secs(begin + length));
    assert_eq!((invoice.status, invoice.reminders, invoice.settled_at), (InvoiceStatus::Open, 0, None));
    let amounts = &invoice.amounts;
    assert_eq!((amounts.subtotal, amounts.tax, amounts.total), (600, 114, 714));
    assert_eq!((invoice.seller.name.as_str(), invoice.customer.as_str()), ("Acme", "Bank"));
    assert_eq!(invoice.due_at, site.app.now().plus(Duration::from_secs(14 * 86_400)));
    let lines = lines(&site, invoice).await;
    assert_eq!((lines.len(), lines[0].chain.as_str(), lines[0].units), (1, "eth", 3));
    assert_eq!(invoices(&site, THEIRS).await, [], "nothing is owed, so there is no invoice");
    let audit = site.app.store.audit(AuditSubject::Tenant(OURS), 9).await.unwrap();
    assert_eq!((audit[0].action.as_str(), audit[0].subject.as_str()), ("invoice.issued", "2026-000001"));
    assert_eq!(close_months(&site.app).await.unwrap(), MonthsClosed::default());
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn months_that_were_missed_are_closed_one_after_the_other() {
    let site = site().await;
    let mut shipper = SampleShipper::new(1);
    for (begin, _) in MONTHS {
        ship(&site, &mut shipper, &[call(OURS, secs(begin + 5), "eth", 1, 1_000_000_000_000)]).await;
    }
    site.clock.set(secs(MONTHS[2].0 + MONTHS[2].1 + 86_400));
    assert_eq!(close_months(&site.app).await.unwrap(), MonthsClosed { months: 6, invoices: 3 });
    let periods: Vec<_> = invoices(&site, OURS).await.iter().map(|one| one.period.start.secs()).collect();
    assert_eq!(periods, MONTHS.map(|(begin, _)| begin));
    let numbers: Vec<_> = invoices(&site, OURS).await.iter().map(|one| one.number.to_string()).collect();
    assert_eq!(numbers, ["2027-000001", "2027-000002", "2027-000003"], "the year is that of the date");
}

#[tokio::test]
async fn usage_before_billing_began_is_not_billed() {
    let site = site().await;
    let mut shipper = SampleShipper::new(1);
    let (begin, length) = MONTHS[0];
    let before = call(OURS, secs(begin - 5), "eth", 1, 1_000_000_000_000);
    ship(&site, &mut shipper, &[before, call(OURS, secs(begin), "eth", 1, 1_000_000_000_000)]).await;
    site.clock.set(secs(begin + length + 86_400));
    close_months(&site.app).await.unwrap();
    assert_eq!(invoices(&site, OURS).await[0].amounts.subtotal, 100);
}

// Shows (Plans, bills and payments): Usage that arrives after its month was closed is billed once, with the next.
#[tokio::test]
async fn usage_that_arrives_after_its_month_was_closed_is_on_the_next_invoice() {
    let site = site().await;
    let mut shipper = SampleShipper::new(1);
    let ((first, _), (second, _), (third, length)) = (MONTHS[0], MONTHS[1], MONTHS[2]);
    let price = 1_000_000_000_000;
    ship(&site, &mut shipper, &[call(OURS, secs(first + 5), "eth", 1, price)]).await;
    site.clock.set(secs(second + 86_400));
    close_months(&site.app).await.unwrap();
    ship(&site, &mut shipper, &[call(OURS, secs(first + 9), "eth", 4, price)]).await;
    let free = SampleRecord { tier: Tier::Free, ..call(OURS, secs(first + 9), "eth", 7, 0) };
    ship(&site, &mut shipper, &[free]).await;
    site.clock.set(secs(third + 86_400));
    close_months(&site.app).await.unwrap();
    let of = invoices(&site, OURS).await;
    assert_eq!(of.len(), 2);
    let late = lines(&site, &of[1]).await;
    assert_eq!(
        (late.len(), late[0].month, late[0].units),
        (1, secs(first), 4),
        "what is free is not told late"
    );
    assert_eq!((of[1].period.start, of[1].amounts.subtotal), (secs(second), 400));
    site.clock.set(secs(third + length + 86_400));
    close_months(&site.app).await.unwrap();
    assert_eq!(invoices(&site, OURS).await.len(), 2, "it is billed once");
}

// Shows (Plans, bills and payments): Lines about usage name the tenant's plan, also a custom one; a price of a contract
// or of a custom plan is owed for any base; a renamed plan bills nothing twice.
#[tokio::test]
async fn lines_name_the_tenants_plan_and_a_contract_price_is_owed_on_the_free_plan() {
    let site = site().await;
    let store = &site.app.store;
    let mut shipper = SampleShipper::new(1);
    let ((first, _), (second, _), (third, length)) = (MONTHS[0], MONTHS[1], MONTHS[2]);
    let mut plan = CustomPlan {
        id: CustomPlanId(7),
        name: "startup".into(),
        base: Tier::Free,
        is_visible: true,
        figures: Figures::default(),
        created_at: secs(first),
    };
    plan.figures.plan.price = Some(Price(1_000_000_000_000));
    store.create_custom_plan(&plan).await.unwrap();
    let free = |at, price| SampleRecord { tier: Tier::Free, ..call(OURS, secs(at), "eth", 1, price) };
    site.clock.set(secs(first + 7_205));
    let to_it = TenantChange { custom_plan: Some(plan.id), ..TenantChange::default() };
    store.update_tenant(OURS, &to_it, site.app.now()).await.unwrap();
    let price = 1_000_000_000_000;
    // Without a price, with that of a contract, and on the custom plan: at once and later.
    let deeds = [
        free(first + 5, 0),
        free(first + 6, 3 * price),
        free(first + 7_206, price),
        free(first + 90_000, price),
    ];
    ship(&site, &mut shipper, &deeds).await;
    site.clock.set(secs(second + 86_400));
    close_months(&site.app).await.unwrap();
    let rows_of = |lines: Vec<InvoiceLine>| -> Vec<_> {
        lines
            .into_iter()
            .map(|line| (line.tier, line.custom_plan, line.price.0 / price, line.units))
            .collect()
    };
    let of = invoices(&site, OURS).await;
    let own = |name: &str| Some(name.to_owned());
    let expected = [(Tier::Free, None, 0, 1), (Tier::Free, own("startup"), 1, 2), (Tier::Free, None, 3, 1)];
    assert_eq!(rows_of(lines(&site, &of[0]).await), expected);
    assert_eq!(of[0].amounts.subtotal, 500);

    // The plan is renamed before usage of the first month arrives late.
    let renamed = CustomPlanChange { name: Some("grown".into()), ..CustomPlanChange::default() };
    store.update_custom_plan(plan.id, &renamed, site.app.now()).await.unwrap();
    ship(&site, &mut shipper, &[free(first + 90_001, price), free(second + 5, price)]).await;
    site.clock.set(secs(third + 86_400));
    close_months(&site.app).await.unwrap();
    let of = invoices(&site, OURS).await;
    let expected = [(Tier::Free, own("grown"), 1, 1), (Tier::Free, own("grown"), 1, 1)];
    assert_eq!(rows_of(lines(&site, &of[1]).await), expected, "the late call, and that of the month");
    site.clock.set(secs(third + length + 86_400));
    close_months(&site.app).await.unwrap();
    assert_eq!(invoices(&site, OURS).await.len(), 2, "nothing is billed again");
}

// Shows (Plans, bills and payments): A closing that stops in the middle changes nothing.
#[tokio::test]
async fn a_closing_that_fails_in_the_middle_changes_nothing_and_uses_no_number() {
    let site = site().await;
    let (store, (begin, length)) = (&site.app.store, MONTHS[0]);
    let month = BillingMonth::of(secs(begin));
    site.clock.set(secs(begin + length + 86_400));
    let line = |units, position: u64| InvoiceLine {
        month: month.start(),
        kind: LineKind::Usage,
        chain: format!("chain {position}"),
        tier: Tier::Standard,
        price: Price(1),
        calls: 1,
        units,
        amount: Amount(u128::from(units)),
        custom_plan: None,
    };
    let new = |lines: Vec<InvoiceLine>| NewInvoice {
        tenant: OURS,
        period: month.span(),
        year: 2026,
        issued_at: site.app.now(),
        due_at: site.app.now(),
        customer: "Bank".into(),
        customer_address: Vec::new(),
        customer_tax_id: None,
        seller: InvoiceSeller::default(),
        amounts: amounts(&lines, &site.app.settings.config.billing),
        lines,
    };
    let before = all(&site).await;
    // The last line cannot be stored, after the number, the invoice and the first lines were.
    let broken = new((0..501).map(|n| line(if n == 500 { u64::MAX } else { 1 }, n)).collect());
    let error = store.close_period(OURS, None, month.end(), Some(&broken)).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge(_)), "{error}");
    assert_eq!(all(&site).await, before);
    let whole = new((0..501).map(|n| line(CENT as u64, n)).collect());
    let done = store.close_period(OURS, None, month.end(), Some(&whole)).await.unwrap();
    assert_eq!(done, PeriodClosed::Now(Some(InvoiceNumber { year: 2026, serial: 1 })));
    assert_eq!(lines(&site, &invoices(&site, OURS).await[0]).await, whole.lines, "in their order");
    for since in [None, Some(month.start()), Some(month.end().plus(Duration::from_secs(1)))] {
        let again = store.close_period(OURS, since, month.end(), Some(&whole)).await.unwrap();
        assert_eq!(again, PeriodClosed::Before);
    }
    assert_eq!(invoices(&site, OURS).await.len(), 1);
    let nobody = store.close_period(TenantId(99), None, month.end(), None).await.unwrap_err();
    assert_eq!(nobody.to_string(), "there is no such tenant");
}

#[tokio::test]
async fn a_tenant_that_cannot_be_billed_does_not_block_invoices_of_others() {
    let site = site().await;
    let mut shipper = SampleShipper::new(1);
    let (begin, length) = MONTHS[0];
    // More cents than can be stored: 4 · 10⁹ units at 10³ dollars, a few times.
    let dear = || call(OURS, secs(begin + 5), "eth", u32::MAX, 1_000_000_000_000_000);
    let many: Vec<_> = std::iter::repeat_with(dear).take(25_000).collect();
    ship(&site, &mut shipper, &many).await;
    ship(&site, &mut shipper, &[call(THEIRS, secs(begin + 5), "eth", 1, 1_000_000_000_000)]).await;
    site.clock.set(secs(begin + length + 86_400));
    assert_eq!(close_months(&site.app).await.unwrap(), MonthsClosed { months: 1, invoices: 1 });
    assert_eq!(invoices(&site, THEIRS).await[0].number.to_string(), "2026-000001");
}

#[tokio::test]
async fn less_than_half_a_cent_is_an_invoice_that_is_paid_from_the_start() {
    let site = site().await;
    let mut shipper = SampleShipper::new(1);
    let (begin, length) = MONTHS[0];
    ship(&site, &mut shipper, &[call(OURS, secs(begin + 5), "eth", 1, 1)]).await;
    site.clock.set(secs(begin + length + 86_400));
    close_months(&site.app).await.unwrap();
    let invoice = invoices(&site, OURS).await.remove(0);
    assert_eq!((invoice.status, invoice.amounts.total), (InvoiceStatus::Paid, 0));
    assert_eq!(invoice.settled_at, Some(site.app.now()));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_tenant_pays_its_plan_from_the_second_of_its_creation() {
    let site = site().await;
    let (begin, length) = MONTHS[0];
    let created_at = secs(begin + length - 100);
    let tenant = Tenant::new(TenantId(3), "New", Tier::Enterprise, created_at);
    site.clock.set(created_at);
    site.app.store.create_tenant(&tenant).await.unwrap();
    site.clock.set(secs(begin + length + 86_400));
    close_months(&site.app).await.unwrap();
    let lines = lines(&site, &invoices(&site, TenantId(3)).await[0]).await;
    assert_eq!((lines[0].kind, lines[0].tier, lines[0].units), (LineKind::Plan, Tier::Enterprise, 100));
    assert_eq!(lines[0].amount.0, 100_001 * CENT * 100 / u128::from(length));
}

// Shows (Plans, bills and payments): Later changes never change the bill of a closed period: a new fee applies from its
// day on, and an invoice keeps the customer's name, address and tax number (promise 87).
#[tokio::test]
async fn later_changes_of_fees_or_customer_data_never_change_the_bill_of_a_past_month() {
    let site = site().await;
    let store = &site.app.store;
    let plan = CustomPlan {
        id: CustomPlanId(9),
        name: "gold".into(),
        base: Tier::Free,
        is_visible: true,
        figures: PlanChange { monthly_fee: Some(12_345), ..PlanChange::default() }.into(),
        created_at: site.app.now(),
    };
    store.create_custom_plan(&plan).await.unwrap();
    let on_it = TenantChange { custom_plan: Some(plan.id), ..TenantChange::default() };
    store.update_tenant(OURS, &on_it, site.app.now()).await.unwrap();
    move_to(&site, THEIRS, Tier::Standard).await;
    let party = BillingParty {
        name: Some("Bank plc".into()),
        address: vec!["1 High Street".into(), "London".into()],
        tax_id: Some("GB123".into()),
    };
    let named = TenantChange { billing: Some(party), ..TenantChange::default() };
    store.update_tenant(OURS, &named, site.app.now()).await.unwrap();
    // The month has ended, and its invoice is made at six in the morning. Both fees are raised before.
    site.clock.set(secs(MONTHS[1].0 + 3_600));
    let figures: Figures = PlanChange { monthly_fee: Some(999_999), ..PlanChange::default() }.into();
    let raised = CustomPlanChange { figures: Some(figures), ..CustomPlanChange::default() };
    store.update_custom_plan(plan.id, &raised, site.app.now()).await.unwrap();
    let mut config = site.app.settings.config.clone();
    config.billing.fees.standard = 999_999;
    let dear = site.app.reload(config).unwrap();
    assert_eq!(close_months(&dear).await.unwrap(), MonthsClosed::default());
    site.clock.set(secs(MONTHS[1].0 + 7 * 3_600));
    assert_eq!(close_months(&dear).await.unwrap().invoices, 2);
    let first = invoices(&site, OURS).await.remove(0);
    assert_eq!(first.amounts.subtotal, 12_345);
    assert_eq!(invoices(&site, THEIRS).await[0].amounts.subtotal, 4_999);
    assert_eq!((first.customer.as_str(), first.customer_tax_id.as_deref()), ("Bank plc", Some("GB123")));
    assert_eq!(first.customer_address, ["1 High Street", "London"]);
    // The next month has the new fees from its first day on, and the new address.
    let moved = BillingParty { address: vec!["Paris".into()], ..BillingParty::default() };
    let named = TenantChange { billing: Some(moved), ..TenantChange::default() };
    store.update_tenant(OURS, &named, site.app.now()).await.unwrap();
    let half = secs(MONTHS[1].0 + 15 * 86_400 + 40_000);
    site.clock.set(half);
    let figures: Figures = PlanChange { monthly_fee: Some(300), ..PlanChange::default() }.into();
    let lowered = CustomPlanChange { figures: Some(figures), ..CustomPlanChange::default() };
    store.update_custom_plan(plan.id, &lowered, half).await.unwrap();
    site.clock.set(secs(MONTHS[2].0 + 7 * 3_600));
    assert_eq!(close_months(&dear).await.unwrap().invoices, 2);
    let [before, second] = &invoices(&site, OURS).await[..] else { panic!("two invoices") };
    assert_eq!(*before, first, "an issued invoice stays as it is");
    assert_eq!(second.amounts.subtotal, 500_150, "15 days at each fee");
    assert_eq!((second.customer.as_str(), &second.customer_address[..]), ("Bank", &["Paris".to_owned()][..]));
    assert_eq!(invoices(&site, THEIRS).await[1].amounts.subtotal, 999_999);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_month_is_billed_by_the_fee_that_operators_had_set_for_the_plan_on_each_day() {
    let site = site().await;
    move_to(&site, OURS, Tier::Standard).await;
    close_months(&site.app).await.unwrap();
    let fee = |cents| PlanChange { monthly_fee: Some(cents), ..PlanChange::default() };
    for (day, cents) in [(10, 9_300), (20, 31_000)] {
        let at = secs(MONTHS[0].0 + day * 86_400 + 40_000);
        site.clock.set(at);
        site.app.store.put_plan(Tier::Standard, &fee(cents), at).await.unwrap();
    }
    // After the month, and before its invoice is made.
    let late = secs(MONTHS[1].0 + 3_600);
    site.clock.set(late);
    site.app.store.put_plan(Tier::Standard, &fee(999_999), late).await.unwrap();
    site.clock.set(secs(MONTHS[1].0 + 7 * 3_600));
    close_months(&site.app).await.unwrap();
    let invoice = invoices(&site, OURS).await.remove(0);
    let lines = lines(&site, &invoice).await;
    let parts: BTreeMap<u64, u64> =
        lines.iter().map(|line| (line.price.0 / u64::try_from(CENT).unwrap(), line.units / 86_400)).collect();
    assert_eq!(parts, BTreeMap::from([(4_999, 10), (9_300, 10), (31_000, 11)]));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_later_fee_is_billed_from_its_day_on_without_any_further_write() {
    let site = site().await;
    move_to(&site, OURS, Tier::Standard).await;
    close_months(&site.app).await.unwrap();
    let from = secs(MONTHS[0].0 + 12 * 86_400 + 1_000);
    let figures = PlanChange { monthly_fee: Some(9_300), ..PlanChange::default() };
    let change = ScheduledChange { from, tier: Tier::Standard, figures };
    let made = ScheduledPlanChange { id: ScheduledChangeId(1), change, created_at: site.app.now() };
    site.app.store.schedule_plan_change(&made, site.app.now()).await.unwrap();
    site.clock.set(secs(MONTHS[1].0 + 7 * 3_600));
    close_months(&site.app).await.unwrap();
    let invoice = invoices(&site, OURS).await.remove(0);
    let parts: Vec<_> = lines(&site, &invoice).await.iter().map(|line| line.units / 86_400).collect();
    assert_eq!((parts, invoice.amounts.subtotal), (vec![12, 19], (4_999 * 12 + 9_300 * 19 + 15) / 31));
}
