//! The prices, windows and project quotas of a tenant, with and without the change.

use super::windows::PlanWindows;
use super::{AskedPlan, BeforeAfter, MAX_PLANS};
use crate::action::operator::plans;
use crate::error::ActionError;
use rpcgate_config::{Config, Overlay, PlanChange};
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Plan, PlanQuota, Price, Tier};
use rpcgate_store::{CustomPlan, Figures, Tenant, Terms};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct AskedPlans {
    tiers: BTreeMap<Tier, PlanChange>,
    custom: BTreeMap<CustomPlanId, Figures>,
}

impl AskedPlans {
    /// Checks the plans of a question.
    ///
    /// # Errors
    /// [`ActionError::Invalid`].
    pub(super) fn of(plans: &[AskedPlan], custom_plans: &[CustomPlan]) -> Result<Self, ActionError> {
        if plans.len() > MAX_PLANS {
            return Err(ActionError::named("plans", format!("must be at most {MAX_PLANS}")));
        }
        let mut asked = AskedPlans::default();
        for AskedPlan { plan, figures } in plans {
            plans::check(figures)?;
            let is_new = if let Ok(tier) = plan.parse::<Tier>() {
                asked.tiers.insert(tier, figures.plan).is_none()
            } else {
                let id = plan.parse::<CustomPlanId>().ok();
                let is_it = |custom: &&CustomPlan| custom.name == *plan || Some(custom.id) == id;
                let unknown = || ActionError::inside("plans", format!("there is no plan {plan:?}"));
                let custom = custom_plans.iter().find(is_it).ok_or_else(unknown)?;
                asked.custom.insert(custom.id, *figures).is_none()
            };
            if !is_new {
                return Err(ActionError::named("plans", format!("has {plan:?} twice")));
            }
        }
        Ok(asked)
    }
}

impl AskedPlans {
    pub(super) fn over(&self, config: &Config) -> Config {
        Overlay { plans: self.tiers.clone(), ..Overlay::default() }.over(config)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TenantPlanStatus {
    pub name: String,
    pub(super) plan: String,
    pub price: BeforeAfter<Price>,
    pub(super) windows: BeforeAfter<PlanWindows>,
    pub(super) quota: BeforeAfter<PlanQuota>,
}

impl TenantPlanStatus {
    /// Computes the terms of a tenant. Contracts and custom plans override the tier as usual.
    pub(super) fn of(
        tenant: &Tenant,
        terms: &Terms,
        (config, asked_config): (&Config, &Config),
        custom_plans: &[CustomPlan],
        asked: &AskedPlans,
        now: Time,
    ) -> Self {
        let asked_figures = tenant.custom_plan.and_then(|id| asked.custom.get(&id));
        let asked_terms = asked_figures.map(|figures| terms.with_plan_figures(*figures));
        let figures = BeforeAfter {
            before: terms.figures(now),
            after: asked_terms.as_ref().unwrap_or(terms).figures(now),
        };
        let plans = BeforeAfter {
            before: config.plans.of_tenant(tenant.tier),
            after: asked_config.plans.of_tenant(tenant.tier),
        };
        TenantPlanStatus::between(tenant, custom_plans, figures, plans)
    }

    /// Computes the terms of a tenant with these figures, which override those of its tier.
    pub(super) fn between(
        tenant: &Tenant,
        custom_plans: &[CustomPlan],
        figures: BeforeAfter<Figures>,
        tiers: BeforeAfter<Plan>,
    ) -> Self {
        let own = custom_plans.iter().find(|plan| Some(plan.id) == tenant.custom_plan);
        let before = figures.before.plan(tiers.before);
        let after = figures.after.plan(tiers.after);
        let windows = |plan: Plan| PlanWindows {
            per_minute: plan.per_minute,
            per_hour: plan.per_hour,
            per_day: plan.per_day,
        };
        TenantPlanStatus {
            name: tenant.name.clone(),
            plan: own.map_or_else(|| tenant.tier.name().to_owned(), |plan| plan.name.clone()),
            price: BeforeAfter { before: before.price, after: after.price },
            windows: BeforeAfter { before: windows(before), after: windows(after) },
            quota: BeforeAfter { before: before.quota, after: after.quota },
        }
    }
}
