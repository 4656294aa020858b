//! The figures of the four plans.

use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::{Figure, Figures, TenantPlan, Versioned};
use rpcgate_core::config::PlanChange;
use rpcgate_core::plan::{Plan, Price, Tier};
use std::collections::BTreeMap;

/// The price of a Compute Unit, from US dollars.
///
/// # Errors
/// [`ActionError::Invalid`] for an invalid price.
pub fn price(usd: f64) -> Result<Price, ActionError> {
    let wrong =
        || ActionError::Invalid("`price_per_cu` must be 0 or a number from 0.000000000001 to 1000".into());
    Price::from_usd(usd).ok_or_else(wrong)
}

/// One of the four plans in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PricedPlan {
    /// Its limits, price and quota.
    pub plan: Plan,
    /// Its fee for a month, in cents.
    pub monthly_fee: u64,
}

/// The effective plan `tier`.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name.
pub async fn get(app: &AppState, tier: &str) -> Result<PricedPlan, ActionError> {
    let tier: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let config = app.settings.overridden_by(&app.store.overlay().await?);
    Ok(PricedPlan { plan: config.plans.of(tier), monthly_fee: config.billing.fees.of(tier) })
}

/// The number of tenants on each plan that has some.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn tenants(app: &AppState) -> Result<BTreeMap<TenantPlan, u64>, ActionError> {
    let mut counts = BTreeMap::new();
    for (tenant, _) in app.store.terms_of_all(app.now()).await? {
        *counts.entry(tenant.plan()).or_default() += 1;
    }
    Ok(counts)
}

/// What the version of a plan belongs to.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name.
pub fn versioned(tier: &str) -> Result<Versioned, ActionError> {
    tier.parse().map(Versioned::Plan).map_err(|_| ActionError::NotFound("plan"))
}

/// Checks figures and lists those that are given for the audit.
///
/// # Errors
/// [`ActionError::Invalid`] for a figure that is out of bounds.
pub(super) fn check(figures: &Figures) -> Result<Vec<String>, ActionError> {
    let given = figures.list().into_iter().filter(|figure| figure.value.is_some());
    let checked = |figure: Figure| match figure.value {
        Some(value) if !figure.range.contains(&value) => {
            let (name, least, most) = (figure.name, figure.range.start(), figure.range.end());
            Err(ActionError::Invalid(format!("`{name}` must be a number from {least} to {most}")))
        }
        _ => Ok(figure.to_string()),
    };
    given.map(checked).collect()
}

/// Replaces all figures of a plan that operators have set by those that `change` gives: the others are as configured again.
/// Gateways are notified.
///
/// # Errors
/// [`ActionError::Invalid`] for a figure that is out of bounds, [`ActionError::Unavailable`].
pub async fn replace(
    app: &AppState,
    actor: &Actor,
    tier: Tier,
    change: PlanChange,
) -> Result<PricedPlan, ActionError> {
    let mut details = check(&change.into())?;
    details.push("others as configured".into());
    let now = app.now();
    let store = actor.audited_store(&app.store, None, ("plan.changed", tier, details.join(", ")), now);
    actor.expecting(&store, Versioned::Plan(tier)).replace_plan(tier, &change, now).await?;
    get(app, tier.name()).await
}

/// Sets the figures that `change` gives and returns the effective plan. Gateways are notified.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name, [`ActionError::Invalid`] for a figure that is out of bounds.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    tier: &str,
    change: PlanChange,
) -> Result<PricedPlan, ActionError> {
    let known: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let details = check(&change.into())?;
    if !details.is_empty() {
        let now = app.now();
        let store = actor.audited_store(&app.store, None, ("plan.changed", known, details.join(", ")), now);
        actor.expecting(&store, Versioned::Plan(known)).put_plan(known, &change, now).await?;
    } else {
        actor.check_version(&app.store, &Versioned::Plan(known)).await?;
    }
    get(app, tier).await
}
