//! The effect that another plan would have had on one tenant in the last 30 days.

use super::tenant_plan_status::TenantPlanStatus;
use super::{
    Basis, BeforeAfter, SECONDS_OF_HOUR, UsageEffect, Weights, effects, recent_days, within_deadline,
};
use crate::action::actor::Actor;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::what_if_slots::WhatIfSlot;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_store::{TenantPlan, Terms};
use std::sync::Arc;

/// The effect of a change of plan on a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanMove {
    /// The beginning of the first day whose usage was read.
    pub from: Time,
    /// The end of the usage: that of the current hour.
    pub to: Time,
    /// The monthly fee in cents: that of a contract, or of the plan.
    pub fee: BeforeAfter<u64>,
    /// The effect on the tenant.
    pub effect: UsageEffect,
    /// The projects whose quota was not followed hour by hour, because too many projects come near their quota.
    pub unfollowed_projects: u64,
}

/// Returns the payments and refusals of a tenant as if it had been on `plan`. Contracts override the plan as usual.
/// Nothing is changed.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown tenant or plan, and those of [`ask`](super::ask()).
pub async fn effect_on_tenant(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    plan: TenantPlan,
) -> Result<PlanMove, ActionError> {
    let slot = app.what_if_slots.begin(actor.user.id)?;
    within_deadline(answer(app, &slot, tenant, plan)).await
}

async fn answer(
    app: &AppState,
    slot: &Arc<WhatIfSlot>,
    id: TenantId,
    plan: TenantPlan,
) -> Result<PlanMove, ActionError> {
    let now = app.now();
    let config = app.config_in_force().await?;
    let tenant = app.store.tenant(id).await?.ok_or(ActionError::NotFound("tenant"))?;
    let custom_plans = app.store.custom_plans().await?;
    let custom = match plan.custom {
        Some(own) => {
            let found = custom_plans.iter().find(|custom| custom.id == own);
            Some(found.ok_or(ActionError::NotFound("plan"))?)
        }
        None => None,
    };
    let terms = app.store.terms(id, now).await?;
    let terms = BeforeAfter { after: terms.on_plan(custom), before: terms };
    let fee = |terms: &Terms, tier: Tier| {
        terms.figures(now).plan.monthly_fee.unwrap_or_else(|| config.billing.fees.of(tier))
    };
    let figures = BeforeAfter { before: terms.before.figures(now), after: terms.after.figures(now) };
    let tiers =
        BeforeAfter { before: config.plans.of_tenant(tenant.tier), after: config.plans.of_tenant(plan.tier) };
    let standing = TenantPlanStatus::between(&tenant, &custom_plans, figures, tiers);
    let hours = recent_days::hours(now);
    let from = begin_of(hours.start);
    let to = begin_of(hours.end);
    let basis = Basis { hours, weights: Weights::new(), standings: [(id, standing)].into(), only: Some(id) };
    let (_, effects, unfollowed_projects) = effects(app, slot, basis).await?;
    Ok(PlanMove {
        from,
        to,
        fee: BeforeAfter { before: fee(&terms.before, tenant.tier), after: fee(&terms.after, plan.tier) },
        effect: effects.get(&id).copied().unwrap_or_default(),
        unfollowed_projects,
    })
}

fn begin_of(hour: u64) -> Time {
    Time::from_secs(hour.saturating_mul(SECONDS_OF_HOUR))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{calls, contract, figures, operator, requests, ship, tenant};
    use super::*;
    use crate::testing::{NOON, Site};
    use rpcgate_core::caller::CustomPlanId;
    use rpcgate_core::usage::Amount;
    use rpcgate_store::CustomPlan;

    // Shows (Plans, bills and payments): A limit request shows what the plan would have cost this tenant, and can be
    // decided while that is unknown.
    #[tokio::test]
    async fn another_plan_has_another_fee_price_and_windows_for_this_tenant_alone() {
        let site = Site::of("[billing.fees]\nstandard = 1900\npremium = 9900\n").await;
        let own = CustomPlan {
            id: CustomPlanId(77),
            name: "startup".into(),
            base: Tier::Standard,
            is_visible: true,
            figures: figures(&[("price_per_cu", 7), ("monthly_fee_cents", 500), ("per_hour", 2_550)]),
            created_at: NOON,
        };
        site.app.store.create_custom_plan(&own).await.unwrap();
        tenant(&site, 1, Tier::Standard, None).await;
        tenant(&site, 2, Tier::Standard, None).await;
        ship(
            &site,
            &[
                calls(110, 1, "eth_call", 2, 15),
                requests(110, 3, 2_500, 70),
                calls(210, 1, "eth_call", 100, 15),
                requests(210, 3, 2_500, 900),
            ],
        )
        .await;
        let to = async |id, plan| effect_on_tenant(&site.app, &operator(), TenantId(id), plan).await.unwrap();
        let premium = to(1, Tier::Premium.into()).await;
        assert_eq!(premium.fee, BeforeAfter { before: 1_900, after: 9_900 });
        assert_eq!(premium.effect.units, BeforeAfter { before: 30, after: 30 }, "of this tenant alone");
        assert_eq!(premium.effect.amount.before, Amount(30_000_000_000));
        assert!(premium.effect.amount.after < premium.effect.amount.before);
        assert_eq!(premium.effect.refused, BeforeAfter { before: 70, after: 0 });
        let startup = to(1, own.plan()).await;
        assert_eq!(startup.fee, BeforeAfter { before: 1_900, after: 500 });
        assert_eq!(startup.effect.amount.after, Amount(210));
        assert_eq!(startup.effect.refused, BeforeAfter { before: 70, after: 20 });
        let same = to(1, Tier::Standard.into()).await;
        assert!(!same.effect.differs() && !same.fee.differs(), "{same:?}");
        assert_eq!((same.from.hour(), same.to.hour()), ((NOON.day() - 29) * 24, NOON.hour() + 1));

        contract(&site, 1, figures(&[("price_per_cu", 3), ("monthly_fee_cents", 42)])).await;
        let agreed = to(1, Tier::Premium.into()).await;
        assert!(!agreed.fee.differs() && !agreed.effect.amount.differs(), "a contract prevails: {agreed:?}");
        let unknown = TenantPlan { tier: Tier::Standard, custom: Some(CustomPlanId(9)) };
        for (id, plan) in [(9, Tier::Premium.into()), (1, unknown)] {
            let refused = effect_on_tenant(&site.app, &operator(), TenantId(id), plan).await.unwrap_err();
            assert!(matches!(refused, ActionError::NotFound(_)), "{refused}");
        }
    }
}
