use super::*;
use crate::{MAX_SCHEDULED_CHANGES, ScheduledChangeId, ScheduledPlanChange};
use rpcgate_config::ScheduledChange;

const DAY: u64 = 86_400;

/// Returns a change of the premium plan, `days` from now.
fn change(id: u128, days: u64, figures: PlanChange) -> ScheduledPlanChange {
    let change = ScheduledChange { from: day(days), tier: Tier::Premium, figures };
    ScheduledPlanChange { id: ScheduledChangeId(id), change, created_at: now() }
}

fn day(number: u64) -> Time {
    now().plus(Duration::from_secs(number * DAY))
}

fn fee(cents: u64) -> PlanChange {
    PlanChange { monthly_fee: Some(cents), ..PlanChange::default() }
}

fn members(members: u32) -> PlanChange {
    let counts = CountsChange { members: Some(members), ..CountsChange::default() };
    PlanChange { counts, ..PlanChange::default() }
}

async fn premium(store: &Store, at: Time) -> PlanChange {
    store.overlay().await.unwrap().at(at).plans.get(&Tier::Premium).copied().unwrap_or_default()
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_later_change_is_listed_until_its_time_and_is_in_force_from_then_on() {
    let (_dir, store) = empty().await;
    store.put_plan(Tier::Premium, &fee(100), now()).await.unwrap();
    let later = [change(1, 2, fee(200)), change(2, 4, members(7))];
    for one in later.iter().rev() {
        tells(&store, Change::Plan(Tier::Premium), store.schedule_plan_change(one, now())).await;
    }
    assert_eq!(store.scheduled_plan_changes(Tier::Premium, now()).await.unwrap(), later);
    assert_eq!(store.scheduled_plan_changes(Tier::Free, now()).await.unwrap(), []);
    for settled in [false, true] {
        assert_eq!(premium(&store, day(2)).await.monthly_fee, Some(200));
        assert_eq!(premium(&store, day(4)).await, PlanChange { monthly_fee: Some(200), ..members(7) });
        assert_eq!(store.scheduled_plan_changes(Tier::Premium, day(2)).await.unwrap(), later[1..]);
        if !settled {
            assert_eq!(premium(&store, now()).await, fee(100));
            store.settle_plan_changes(day(3)).await.unwrap();
        }
    }
    let begin = |at: Time| Time::from_secs(at.secs() / DAY * DAY);
    let fees: Vec<_> = store.plan_fees().await.unwrap().iter().map(|fee| (fee.since, fee.cents)).collect();
    let expected = [(Time::from_secs(0), None), (begin(now()), Some(100)), (begin(day(2)), Some(200))];
    assert_eq!(fees, expected, "it is recorded for the day on which it took effect");
}

#[tokio::test]
async fn a_change_at_once_prevails_over_a_later_one_that_took_effect_before_it() {
    let (_dir, store) = empty().await;
    store.schedule_plan_change(&change(1, 2, fee(200)), now()).await.unwrap();
    store.schedule_plan_change(&change(2, 9, fee(900)), now()).await.unwrap();
    store.put_plan(Tier::Premium, &fee(300), day(3)).await.unwrap();
    assert_eq!(premium(&store, day(3)).await, fee(300));
    assert_eq!(premium(&store, day(9)).await, fee(900), "it still waits");
    let cents: Vec<_> = store.plan_fees().await.unwrap().iter().map(|fee| fee.cents).collect();
    assert_eq!(cents, [None, Some(200), Some(300)]);
}

#[tokio::test]
async fn a_later_change_can_be_withdrawn_until_its_time() {
    let (_dir, store) = empty().await;
    for (id, days) in [(1, 2), (2, 4)] {
        store.schedule_plan_change(&change(id, days, fee(200)), now()).await.unwrap();
    }
    let withdraw = async |tier, id, at| store.withdraw_plan_change(tier, ScheduledChangeId(id), at).await;
    let gone = StoreError::NotFound("scheduled change").to_string();
    for (tier, id, at) in [(Tier::Free, 1, now()), (Tier::Premium, 9, now()), (Tier::Premium, 1, day(2))] {
        assert_eq!(withdraw(tier, id, at).await.unwrap_err().to_string(), gone);
    }
    let write = store.withdraw_plan_change(Tier::Premium, ScheduledChangeId(2), day(3));
    tells(&store, Change::Plan(Tier::Premium), write).await;
    store.settle_plan_changes(day(9)).await.unwrap();
    assert_eq!(premium(&store, day(9)).await, fee(200), "the first took effect");
    let cents: Vec<_> = store.plan_fees().await.unwrap().iter().map(|fee| fee.cents).collect();
    assert_eq!(cents, [None, Some(200)]);
}

#[tokio::test]
async fn the_waiting_changes_of_a_plan_are_bounded_and_an_unstorable_one_is_refused() {
    let (_dir, store) = empty().await;
    let large = PlanChange { price: Some(Price(u64::MAX)), ..PlanChange::default() };
    assert!(store.schedule_plan_change(&change(1, 2, large), now()).await.is_err());
    for id in 0..u128::from(MAX_SCHEDULED_CHANGES) {
        store.schedule_plan_change(&change(id, 2, fee(1)), now()).await.unwrap();
    }
    let full = store.schedule_plan_change(&change(999, 3, fee(1)), now()).await;
    assert!(matches!(full, Err(StoreError::Full(_))), "{full:?}");
    store.schedule_plan_change(&change(999, 3, fee(1)), day(2)).await.unwrap();
}

#[tokio::test]
async fn a_version_of_a_plan_ends_when_a_later_change_of_it_is_due() {
    use crate::{Expected, StoreError, Versioned};
    let (_dir, store) = empty().await;
    store.schedule_plan_change(&change(1, 2, fee(200)), now()).await.unwrap();
    let of = |days| Versioned::Plan(Tier::Premium, day(days));
    let before = store.version(&of(1)).await.unwrap().unwrap();
    let expecting = |days| store.expecting(Expected { of: of(days), versions: vec![before] });
    let written = expecting(2).put_plan(Tier::Premium, &fee(100), day(2)).await;
    assert!(matches!(written, Err(StoreError::Changed)), "{written:?}");
    expecting(1).put_plan(Tier::Premium, &members(7), day(1)).await.unwrap();
}
