use super::*;
use crate::{
    CustomPlan, CustomPlanChange, Figures, MAX_CUSTOM_PLANS, Swept, TenantChange, TenantPlan, TierChange,
};
use rpcgate_core::caller::CustomPlanId;

fn plan(id: u128, name: &str, figures: &[(&str, u64)]) -> CustomPlan {
    let mut own = Figures::default();
    for (name, value) in figures {
        assert!(own.set(name, *value), "{name}");
    }
    CustomPlan {
        id: CustomPlanId(id),
        name: name.into(),
        base: Tier::Premium,
        is_visible: false,
        figures: own,
        created_at: now(),
    }
}

async fn put_on(store: &Store, id: u128, at: Time) -> Result<Tenant, StoreError> {
    let change = TenantChange { custom_plan: Some(CustomPlanId(id)), ..TenantChange::default() };
    store.update_tenant(TENANT, &change, at).await
}

fn custom(id: u128) -> TenantPlan {
    TenantPlan { tier: Tier::Premium, custom: Some(CustomPlanId(id)) }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_custom_plan_overrides_the_figures_of_its_base() {
    let (_dir, store) = seeded().await;
    let made = plan(1, "startup", &[("per_minute", 77), ("cu_per_day", 5), ("projects", 2), ("per_day", 9)]);
    store.create_custom_plan(&made).await.unwrap();
    tells(&store, Change::Tenant(TENANT), async { put_on(&store, 1, now()).await.map(drop) }).await;
    let tenant = store.tenant(TENANT).await.unwrap().unwrap();
    assert_eq!(tenant.plan(), custom(1));
    let StoredKey { caller, terms, .. } = found(&store).await;
    let base = Plan::of(Tier::Premium);
    assert_eq!((caller.plan.per_minute, caller.plan.per_hour), (77, base.per_hour));
    assert_eq!((caller.plan.tier, caller.plan.price), (Tier::Premium, base.price));
    assert_eq!(caller.quota.cu_per_day, 5);
    assert_eq!(terms.custom_plan(), Some(CustomPlanId(1)));
    store.create_project(&project(ProjectId(100))).await.unwrap();
    assert!(matches!(store.create_project(&project(ProjectId(101))).await, Err(StoreError::Full(_))));
    let allowed = store.daily_allowances(&BTreeSet::from([TENANT, OTHER]), &Plans::default(), now()).await;
    assert_eq!(allowed.unwrap(), BTreeMap::from([(TENANT, 9), (OTHER, 0)]));

    let figures = plan(1, "", &[("per_hour", 8)]).figures;
    let change = CustomPlanChange { figures: Some(figures), ..CustomPlanChange::default() };
    let write = async { store.update_custom_plan(CustomPlanId(1), &change, now()).await.map(drop) };
    tells(&store, Change::CustomPlan(CustomPlanId(1)), write).await;
    let plan = found(&store).await.caller.plan;
    assert_eq!((plan.per_minute, plan.per_hour), (base.per_minute, 8));

    store.set_tier(TENANT, Tier::Free, later(7)).await.unwrap();
    let stored = found(&store).await;
    assert_eq!((stored.caller.plan, stored.terms.is_empty()), (Plan::of(Tier::Free), true));
    let moves = store.tier_changes(TENANT, now()).await.unwrap();
    let standard = TenantPlan::from(Tier::Standard);
    assert_eq!(
        moves,
        [
            TierChange { at: now(), before: standard, after: custom(1) },
            TierChange { at: later(7), before: custom(1), after: Tier::Free.into() },
        ]
    );
}

#[tokio::test]
async fn plans_are_kept_and_their_names_are_unique() {
    let (_dir, store) = seeded().await;
    let first = plan(1, "startup", &[("monthly_fee_cents", 9)]);
    store.create_custom_plan(&first).await.unwrap();
    store.create_custom_plan(&plan(2, "school", &[])).await.unwrap();
    assert_eq!(store.custom_plans().await.unwrap(), [first.clone(), plan(2, "school", &[])]);
    assert_eq!(store.custom_plan(CustomPlanId(1)).await.unwrap(), Some(first.clone()));
    assert_eq!(store.custom_plan(CustomPlanId(9)).await.unwrap(), None);
    let taken = store.create_custom_plan(&plan(3, "startup", &[])).await.unwrap_err();
    assert_eq!(taken.to_string(), "there is already a plan with this name");
    let rename = |name: &str| CustomPlanChange { name: Some(name.into()), ..CustomPlanChange::default() };
    let taken = store.update_custom_plan(CustomPlanId(2), &rename("startup"), now()).await;
    assert!(matches!(taken, Err(StoreError::Taken { .. })));
    let seen = CustomPlanChange { is_visible: Some(true), ..rename("startup") };
    let changed = store.update_custom_plan(CustomPlanId(1), &seen, now()).await.unwrap();
    assert_eq!(changed, CustomPlan { is_visible: true, ..first });
    assert_eq!(store.custom_plan(CustomPlanId(1)).await.unwrap(), Some(changed));
    let lost = store.update_custom_plan(CustomPlanId(9), &rename("x"), now()).await;
    assert!(matches!(lost, Err(StoreError::NotFound("plan"))));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_plan_in_use_is_not_deleted_and_one_that_was_is_kept_for_invoices() {
    let (_dir, store) = seeded().await;
    for (id, name) in [(1, "startup"), (2, "school")] {
        store.create_custom_plan(&plan(id, name, &[])).await.unwrap();
    }
    put_on(&store, 1, now()).await.unwrap();
    let in_use = store.delete_custom_plan(CustomPlanId(1), now()).await;
    assert!(matches!(in_use, Err(StoreError::WrongState(_))), "{in_use:?}");
    store.set_tier(TENANT, Tier::Free, now()).await.unwrap();
    for id in [1, 2] {
        store.delete_custom_plan(CustomPlanId(id), later(5)).await.unwrap();
        let again = store.delete_custom_plan(CustomPlanId(id), later(5)).await;
        assert!(matches!(again, Err(StoreError::NotFound("plan"))));
        let late = put_on(&store, id, later(6)).await;
        assert!(matches!(late, Err(StoreError::NotFound("plan"))), "no tenant gets it any more");
    }
    assert_eq!(store.custom_plans().await.unwrap(), []);
    let billed: Vec<_> =
        store.billed_custom_plans().await.unwrap().into_iter().map(|plan| plan.name).collect();
    assert_eq!(billed, ["startup"]);
    store.create_custom_plan(&plan(3, "startup", &[])).await.unwrap();
    let days = 400 * 86_400;
    assert_eq!(store.sweep(later(4 + days)).await.unwrap().custom_plans, 0);
    assert_eq!(store.sweep(later(5 + days)).await.unwrap().custom_plans, 1);
    assert_eq!(store.sweep(later(5 + days)).await.unwrap(), Swept::default());
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn custom_plans_are_bounded() {
    let (_dir, store) = empty().await;
    for id in 1..=u128::from(MAX_CUSTOM_PLANS) {
        store.create_custom_plan(&plan(id, &format!("plan-{id}"), &[])).await.unwrap();
    }
    let full = store.create_custom_plan(&plan(1_000, "more", &[])).await.unwrap_err();
    assert!(
        matches!(&full, StoreError::Full(why) if why.starts_with("there can be 100 custom plans")),
        "{full}"
    );
    store.delete_custom_plan(CustomPlanId(1), now()).await.unwrap();
    store.create_custom_plan(&plan(1_000, "more", &[])).await.unwrap();
}

#[tokio::test]
async fn the_base_of_a_custom_plan_is_another_plan() {
    let (_dir, store) = seeded().await;
    store.create_custom_plan(&plan(1, "startup", &[])).await.unwrap();
    put_on(&store, 1, now()).await.unwrap();
    let change = TenantChange { tier: Some(Tier::Premium), ..TenantChange::default() };
    let moved = store.update_tenant(TENANT, &change, later(1)).await.unwrap();
    assert_eq!(moved.plan(), Tier::Premium.into());
    assert_eq!(store.tier_changes(TENANT, later(1)).await.unwrap().len(), 1);
}
