use super::*;
use crate::error::ErrorCode;
use crate::testing::{NOON, Site};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::{CustomPlanId, ProjectId, ProjectQuota};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{PlanQuota, Tier};
use rpcgate_core::usage::Amount;
use rpcgate_core::usage::sample::{self, SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_store::{
    ContractId, CustomPlan, KeysAsk, Project, Role, TenantContract, TenantSet, User, UserId, fresh_id,
};
use std::net::Ipv4Addr;

pub(in super::super) fn operator() -> Actor {
    let user = User {
        id: UserId(7),
        tenant: None,
        email: "operator@example.com".into(),
        name: String::new(),
        role: Role::Viewer,
        password: None,
        confirmed_at: Some(NOON),
        created_at: NOON,
    };
    Actor {
        user: Arc::new(user),
        address: Ipv4Addr::LOCALHOST.into(),
        run: None,
        scopes: None,
        if_match: None,
        command_line: None,
        is_proved: false,
    }
}

const STANDARD: u128 = 1_000_000_000;

pub(in super::super) async fn tenant(site: &Site, id: u128, tier: Tier, custom_plan: Option<CustomPlanId>) {
    let tenant = Tenant { custom_plan, ..Tenant::new(TenantId(id), format!("tenant {id}"), tier, NOON) };
    site.app.store.create_tenant(&tenant).await.unwrap();
}

pub(in super::super) async fn contract(site: &Site, id: u128, figures: Figures) {
    let contract = TenantContract {
        id: ContractId(fresh_id(NOON)),
        tenant: TenantId(id),
        figures,
        from: NOON,
        until: None,
        note: String::new(),
        created_at: NOON,
    };
    site.app.store.create_contract(&contract, NOON).await.unwrap();
}

pub(in super::super) fn figures(given: &[(&str, u64)]) -> Figures {
    let mut figures = Figures::default();
    for (name, value) in given {
        assert!(figures.set(name, *value), "{name}");
    }
    figures
}

pub(in super::super) async fn ship(site: &Site, deeds: &[SampleRecord]) {
    site.app.usage.ship(&SampleShipper::new(1).pack(deeds)).await.unwrap();
}

async fn ship_more(site: &Site, deeds: &[SampleRecord]) {
    site.app.usage.ship(&SampleShipper::new(2).pack(deeds)).await.unwrap();
}

/// Makes calls of a method by a key, `hours_ago` hours before noon.
pub(in super::super) fn calls(key: u128, hours_ago: u64, method: &str, calls: u32, cu: u32) -> SampleRecord {
    let line = SampleLine { calls, cu: calls * cu, ..item(method) };
    let arrival = Time::from_secs(NOON.secs() - hours_ago * SECONDS_OF_HOUR);
    SampleRecord { chain: "eth", ..deed(key, arrival, vec![line]) }
}

/// Makes admitted requests of a key, `hours_ago` hours before noon, and calls that its windows refused.
pub(in super::super) fn requests(key: u128, hours_ago: u64, admitted: u32, refused: u32) -> SampleRecord {
    let line =
        SampleLine { calls: refused, cu: 0, status: 429, outcome: Outcome::Refused, ..item("eth_chainId") };
    let items = if refused == 0 { Vec::new() } else { vec![line] };
    SampleRecord { windowed: admitted, items, ..calls(key, hours_ago, "eth_chainId", 1, 0) }
}

pub(in super::super) fn weight(method: &str, cu: u32) -> AskedWeight {
    AskedWeight { chain: "eth".into(), method: method.into(), cu }
}

pub(in super::super) fn plan(name: &str, given: &[(&str, u64)]) -> AskedPlan {
    AskedPlan { plan: name.into(), figures: figures(given) }
}

async fn asked(site: &Site, weights: &[AskedWeight], plans: &[AskedPlan]) -> WhatIfAnswer {
    let question = WhatIf { weights: weights.to_vec(), plans: plans.to_vec() };
    ask(&site.app, &operator(), &question).await.unwrap()
}

fn units_of(answer: &WhatIfAnswer) -> Vec<(u128, u64, u64)> {
    let one = |TenantEffect { tenant, effect, .. }: &TenantEffect| {
        (tenant.0, effect.units.before, effect.units.after)
    };
    answer.tenants.iter().map(one).collect()
}

fn amounts_of(answer: &WhatIfAnswer) -> Vec<(u128, u128, u128)> {
    let one = |TenantEffect { tenant, effect, .. }: &TenantEffect| {
        (tenant.0, effect.amount.before.0, effect.amount.after.0)
    };
    answer.tenants.iter().map(one).collect()
}

fn refused_of(answer: &WhatIfAnswer) -> Vec<(u128, u64, u64)> {
    let one = |TenantEffect { tenant, effect, .. }: &TenantEffect| {
        (tenant.0, effect.refused.before, effect.refused.after)
    };
    answer.tenants.iter().map(one).collect()
}

// Shows (Plans, bills and payments): A what-if query answers from 30 days of usage in whole numbers and changes
// nothing; contracts and own plans take precedence; windows of hours and days are exact, those of minutes are a bound,
// quotas are counted by hour.
#[tokio::test]
async fn a_weight_changes_the_units_and_the_amount_of_those_who_call_the_method() {
    let site = Site::new().await;
    for (id, tier) in [(1, Tier::Standard), (2, Tier::Premium), (3, Tier::Standard), (4, Tier::Free)] {
        tenant(&site, id, tier, None).await;
    }
    ship(
        &site,
        &[
            calls(110, 0, "eth_call", 3, 15),
            calls(110, 0, "eth_getLogs", 2, 75),
            calls(111, 100, "eth_getLogs", 1, 75),
            calls(210, 700, "eth_getLogs", 4, 75),
            calls(310, 1, "eth_call", 5, 15),
            calls(410, 1, "eth_getLogs", 6, 75),
            calls(110, 30 * 24, "eth_getLogs", 9, 75),
            calls(510, 1, "eth_getLogs", 9, 75),
        ],
    )
    .await;
    let answer = asked(&site, &[weight("eth_getLogs", 60), weight("eth_call", 15)], &[]).await;
    assert_eq!(units_of(&answer), [(1, 45 + 225, 45 + 180), (2, 300, 240), (4, 450, 360)]);
    assert_eq!(
        amounts_of(&answer),
        [(1, 270 * STANDARD, 225 * STANDARD), (2, 300 * STANDARD / 2, 240 * STANDARD / 2), (4, 0, 0)],
        "in the order of the changes, 45 and 30 thousandths of a dollar"
    );
}

#[tokio::test]
async fn unlisted_items_are_summed_and_nothing_is_lost() {
    let site = Site::new().await;
    for id in 1..=105 {
        tenant(&site, id, Tier::Standard, None).await;
    }
    let mut deeds: Vec<_> =
        (1..=104).map(|id| calls(u128::from(id) * 100 + 10, 1, "eth_getLogs", id, 75)).collect();
    deeds.push(calls(10_510, 1, "eth_call", 1, 15));
    ship(&site, &deeds).await;
    let answer = asked(&site, &[weight("eth_getLogs", 76)], &[]).await;
    let listed: Vec<_> = answer.tenants.iter().map(|one| one.tenant.0).collect();
    assert_eq!(listed, (5..=104).rev().collect::<Vec<_>>());
    assert_eq!((answer.others, answer.of_others.units), (5, BeforeAfter { before: 765, after: 775 }));
    let all = 75 * (1..=104).sum::<u64>() + 15;
    assert_eq!(answer.total.units, BeforeAfter { before: all, after: all + (1..=104).sum::<u64>() });
    assert_eq!((answer.affected.pay_more, answer.affected.pay_less), (104, 0));
    assert_eq!(answer.total.charged, Amount(u128::from(all) * 5), "at the price of the records");
    let midnight = NOON.day() * 24;
    assert_eq!((answer.from.hour(), answer.to.hour()), (midnight - 29 * 24, NOON.hour() + 1));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_price_changes_the_amount_of_tenants_on_the_plan_alone() {
    let site = Site::new().await;
    let own = CustomPlan {
        id: CustomPlanId(77),
        name: "startup".into(),
        base: Tier::Standard,
        is_visible: true,
        figures: figures(&[("price_per_cu", 7), ("per_hour", 40)]),
        created_at: NOON,
    };
    let open = CustomPlan {
        id: CustomPlanId(78),
        name: "school".into(),
        figures: figures(&[("per_hour", 40)]),
        ..own.clone()
    };
    for plan in [&own, &open] {
        site.app.store.create_custom_plan(plan).await.unwrap();
    }
    tenant(&site, 1, Tier::Standard, None).await;
    tenant(&site, 2, Tier::Premium, None).await;
    tenant(&site, 3, Tier::Standard, None).await;
    contract(&site, 3, figures(&[("price_per_cu", 3)])).await;
    tenant(&site, 4, Tier::Standard, None).await;
    contract(&site, 4, figures(&[("per_hour", 9)])).await;
    tenant(&site, 5, Tier::Standard, Some(own.id)).await;
    tenant(&site, 6, Tier::Standard, Some(open.id)).await;
    tenant(&site, 7, Tier::Free, None).await;
    ship(&site, &[1, 2, 3, 4, 5, 6, 7].map(|id| calls(id * 100 + 10, 1, "eth_call", 2, 15))).await;
    let answer = asked(&site, &[], &[plan("standard", &[("price_per_cu", 11)])]).await;
    let before = 30 * STANDARD;
    assert_eq!(amounts_of(&answer), [(1, before, 330), (4, before, 330), (6, before, 330)]);
    assert_eq!((answer.others, answer.affected.pay_less), (4, 3));
    let answer = asked(&site, &[], &[plan("free", &[("price_per_cu", 11)])]).await;
    assert_eq!(answer.tenants, [], "the free plan bills nothing, whatever price is set for it");
    for name in ["startup", &own.id.to_string()] {
        let answer = asked(&site, &[], &[plan(name, &[("price_per_cu", 9)])]).await;
        assert_eq!(amounts_of(&answer), [(5, 210, 270)], "{name}");
        assert_eq!(answer.tenants[0].plan, "startup");
    }
    let answer = asked(&site, &[], &[plan("startup", &[])]).await;
    assert_eq!(amounts_of(&answer), [(5, 210, before)], "without a price of its own it has that of its base");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn windows_refuse_what_is_beyond_them_in_hours_and_days() {
    let site = Site::new().await;
    for id in 1..=4 {
        tenant(&site, id, Tier::Standard, None).await;
    }
    contract(&site, 3, figures(&[("per_hour", 2_500)])).await;
    ship(
        &site,
        &[
            requests(110, 2, 40, 0),
            requests(110, 1, 25, 0),
            requests(111, 1, 30, 0),
            requests(110, 48, 31, 3),
            requests(210, 1, 29, 4),
            requests(310, 1, 90, 0),
            requests(410, 1, 2_500, 70),
        ],
    )
    .await;
    let answer = asked(&site, &[], &[plan("standard", &[("per_hour", 30)])]).await;
    assert_eq!(
        refused_of(&answer),
        [(4, 70, 2_540), (1, 0, 11)],
        "the contract of 3 has a window of its own"
    );
    let answer = asked(&site, &[], &[plan("standard", &[("per_hour", 20), ("per_day", 35)])]).await;
    // Of key 110: 20 and 5 beyond the hours, 5 of the 40 left beyond the day; 11 two days before. Of key 111: 10.
    assert_eq!(refused_of(&answer), [(4, 70, 2_550), (3, 0, 55), (1, 0, 51), (2, 0, 9)]);
    let answer = asked(&site, &[], &[plan("standard", &[("per_hour", 2_550)])]).await;
    assert_eq!(refused_of(&answer), [(4, 70, 20)], "a larger window admits what a full one refused");
    assert_eq!((answer.affected.refused_more, answer.affected.refused_less), (0, 1));
    let answer = asked(&site, &[], &[plan("standard", &[("per_minute", 1)])]).await;
    assert_eq!(refused_of(&answer), [(4, 70, 2_510), (3, 0, 30)], "an hour admits 60 at the most");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_quota_is_used_up_for_more_hours_if_calls_weigh_more() {
    let site = Site::new().await;
    for id in 1..=3 {
        tenant(&site, id, Tier::Standard, None).await;
    }
    let project = Project::new(ProjectId(21), TenantId(2), "two", NOON);
    site.app.store.create_project(&project).await.unwrap();
    let quota = ProjectQuota { cu_per_day: 90_000, cu_per_month: None, rps_limit: None, has_row: true };
    site.app.store.put_quota(project.id, &quota, NOON).await.unwrap();
    ship(
        &site,
        &[
            calls(110, 40, "eth_getLogs", 1_000, 75),
            calls(210, 40, "eth_getLogs", 1_000, 75),
            calls(310, 40, "eth_getLogs", 1_000, 75),
            calls(310, 30, "eth_call", 1_000, 15),
            calls(310, 25, "eth_getLogs", 200, 75),
        ],
    )
    .await;
    let hours = |answer: &WhatIfAnswer| -> Vec<_> {
        let changed = answer.tenants.iter().filter(|one| one.effect.quota_hours.differs());
        changed.map(|one| (one.tenant.0, one.effect.quota_hours)).collect()
    };
    let change = |before, after| BeforeAfter { before, after };
    let answer = asked(&site, &[weight("eth_getLogs", 90)], &[]).await;
    // The third has 105,000 units at 25 hours before noon, and would have 105,000 already at 30.
    assert_eq!(hours(&answer), [(3, change(9, 14)), (2, change(0, 24))]);
    assert_eq!((answer.affected.quota_more, answer.unfollowed_projects), (2, 0));
    let answer = asked(&site, &[weight("eth_getLogs", 100)], &[]).await;
    assert_eq!(hours(&answer), [(3, change(9, 24)), (1, change(0, 24)), (2, change(0, 24))]);
    // The second has a quota of its own, and its 75,000 units would have equalled the plan's limit.
    let answer = asked(&site, &[], &[plan("standard", &[("cu_per_day", 75_000)])]).await;
    assert_eq!(hours(&answer).iter().map(|(tenant, _)| *tenant).collect::<Vec<_>>(), [1, 3]);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_question_about_what_is_in_force_has_an_answer_in_which_nothing_changes() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..4 {
        let site = Site::new().await;
        let own = CustomPlan {
            id: CustomPlanId(77),
            name: "startup".into(),
            base: Tier::Premium,
            is_visible: true,
            figures: figures(&[("price_per_cu", 7), ("per_hour", 2), ("cu_per_day", 100)]),
            created_at: NOON,
        };
        site.app.store.create_custom_plan(&own).await.unwrap();
        tenant(&site, 1, Tier::Standard, None).await;
        tenant(&site, 2, own.base, Some(own.id)).await;
        site.app.store.put_weight("btc", "getblock", 3, NOON).await.unwrap();
        let hours = NOON.hour() - 100..NOON.hour() + 1;
        let deeds = sample::deeds(hours, 200..300).new_tree(&mut runner).unwrap().current();
        ship(&site, &deeds).await;
        let config = site.app.settings.overridden_by(&site.app.store.overlay().await.unwrap());
        let mut weights = vec![AskedWeight { chain: "btc".into(), method: "getblock".into(), cu: 3 }];
        weights.extend(
            [("eth_call", 15), ("eth_getLogs", 75), ("eth_unheardof", 1)].map(|(m, cu)| weight(m, cu)),
        );
        let mut plans: Vec<_> = Tier::ALL
            .iter()
            .map(|tier| {
                let present = config.plans.of(*tier);
                let given = [
                    ("per_minute", present.per_minute),
                    ("per_hour", present.per_hour),
                    ("per_day", present.per_day),
                    ("price_per_cu", present.price.0),
                ];
                plan(tier.name(), &given)
            })
            .collect();
        plans.push(AskedPlan { plan: "startup".into(), figures: own.figures });
        let answer = asked(&site, &weights, &plans).await;
        assert_eq!(answer.tenants, []);
        assert_eq!(answer.affected, AffectedTenants::default());
        assert!(!answer.total.differs(), "{answer:?}");
        assert!(answer.others == 2 && answer.total.units.before > 0, "{answer:?}");
        let other = asked(&site, &[], &[plan("startup", &[("price_per_cu", 8), ("per_hour", 1)])]).await;
        assert_eq!(other.tenants.len(), 1, "another question has another answer");
    }
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let site = Site::new().await;
    let refused = async |weights: Vec<AskedWeight>, plans: Vec<AskedPlan>| {
        ask(&site.app, &operator(), &WhatIf { weights, plans }).await.unwrap_err().to_string()
    };
    let strange = AskedWeight { chain: "gold".into(), ..weight("eth_call", 1) };
    assert_eq!(refused(vec![strange], vec![]).await, "`weights`: there is no chain \"gold\"");
    let again = vec![weight("eth_call", 1), weight("eth_call", 2)];
    assert_eq!(refused(again, vec![]).await, "`weights` has eth/eth_call twice");
    assert!(refused(vec![weight("a b", 1)], vec![]).await.starts_with("`weights`"));
    let many = |count| (0..count).map(|n| weight(&format!("m{n}"), 7)).collect::<Vec<_>>();
    assert_eq!(refused(many(MAX_WEIGHTS + 1), vec![]).await, "`weights` must be at most 100");
    assert!(ask(&site.app, &operator(), &WhatIf { weights: many(MAX_WEIGHTS), plans: vec![] }).await.is_ok());
    let twice = vec![plan("free", &[]), plan("free", &[("per_day", 3)])];
    assert_eq!(refused(vec![], twice).await, "`plans` has \"free\" twice");
    assert_eq!(refused(vec![], vec![plan("gold", &[])]).await, "`plans`: there is no plan \"gold\"");
    let dear = vec![plan("free", &[("monthly_fee_cents", 100_000_001)])];
    assert!(refused(vec![], dear).await.starts_with("`monthly_fee_cents`"));
    assert!(
        refused(vec![], vec![plan("free", &[("per_minute", u64::MAX)])]).await.starts_with("`per_minute`")
    );
    let many = (0..=MAX_PLANS).map(|n| plan(&format!("p{n}"), &[])).collect();
    assert_eq!(refused(vec![], many).await, "`plans` must be at most 20");
}

#[tokio::test]
async fn tenants_that_would_pay_more_are_named() {
    let site = Site::new().await;
    for (id, tier) in [(1, Tier::Standard), (2, Tier::Standard), (3, Tier::Free), (4, Tier::Standard)] {
        tenant(&site, id, tier, None).await;
    }
    ship(&site, &[1, 2, 3].map(|id| calls(id * 100 + 10, 1, "eth_getLogs", 2, 75))).await;
    ship_more(&site, &[calls(410, 1, "eth_call", 2, 15)]).await;
    let found = async |cu| {
        let question = WhatIf { weights: vec![weight("eth_getLogs", cu)], plans: vec![] };
        payers(&site.app, &operator(), &question).await.unwrap()
    };
    assert_eq!(
        found(90).await,
        [TenantId(1), TenantId(2)],
        "the free plan bills nothing, and the fourth calls it not"
    );
    assert_eq!(found(75).await, []);
    assert_eq!(found(60).await, []);
}

// Shows (Plans, bills and payments): A what-if query ends after 30 seconds with 503; each operator runs one at a time;
// it reads keys only of tenants whose windows change; the page explains a missing answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_too_long_is_abandoned() {
    let late = within_deadline(std::future::pending::<Result<(), ActionError>>()).await.unwrap_err();
    assert!(matches!(&late, ActionError::Unavailable(why) if why == TOO_SLOW), "{late:?}");
    assert_eq!(late.code(), ErrorCode::Unavailable);
    assert_eq!(within_deadline(async { Ok(7) }).await.unwrap(), 7);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn an_operator_with_a_running_what_if_is_refused_and_others_are_not() {
    let site = Site::new().await;
    let running = site.app.what_if_slots.begin(operator().user.id).unwrap();
    let refused = ask(&site.app, &operator(), &WhatIf::default()).await.unwrap_err();
    assert!(matches!(refused, ActionError::TooMany { .. }), "{refused}");
    let other = Actor { user: Arc::new(User { id: UserId(8), ..(*operator().user).clone() }), ..operator() };
    assert!(ask(&site.app, &other, &WhatIf::default()).await.is_ok());
    drop(running);
    assert!(ask(&site.app, &operator(), &WhatIf::default()).await.is_ok());
    let reloaded = site.app.reload(site.app.settings.config.clone()).unwrap();
    let _running = site.app.what_if_slots.begin(operator().user.id).unwrap();
    assert!(ask(&reloaded, &operator(), &WhatIf::default()).await.is_err(), "they are counted together");
}

// Shows (Plans, bills and payments).
#[test]
fn keys_are_asked_for_only_of_tenants_whose_windows_change() {
    let windows = |per_hour| windows::PlanWindows { per_minute: 1_000, per_hour, per_day: 500 };
    let standing = |before, after| TenantPlanStatus {
        name: String::new(),
        plan: String::new(),
        price: BeforeAfter::default(),
        windows: BeforeAfter { before: windows(before), after: windows(after) },
        quota: BeforeAfter { before: PlanQuota::DEFAULT, after: PlanQuota::DEFAULT },
    };
    let basis = |standings: &[(u128, TenantPlanStatus)]| Basis {
        hours: 0..24,
        weights: Weights::new(),
        standings: standings.iter().map(|(id, standing)| (TenantId(*id), standing.clone())).collect(),
        only: None,
    };
    let query = basis(&[(1, standing(9, 9)), (2, standing(40, 30)), (3, standing(20, 50))]).ask();
    let of = TenantSet::Only(vec![TenantId(2), TenantId(3)]);
    assert_eq!(query.keys, Some(KeysAsk { above_in_hour: 20, above_in_day: 500, of }));
    assert_eq!(basis(&[(1, standing(9, 9))]).ask().keys, None);
}
