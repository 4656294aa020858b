//! The limits of plans.

use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::Versioned;
use rpcgate_core::config::PlanChange;
use rpcgate_core::plan::{Counts, Plan, Price, Tier};

/// The largest limit of a plan, as in the configuration.
const MAX: u64 = 1_000_000_000_000;

/// The price of a Compute Unit, from US dollars.
///
/// # Errors
/// [`ActionError::Invalid`] for an invalid price.
pub fn price(usd: f64) -> Result<Price, ActionError> {
    let wrong = || ActionError::Invalid("`price_per_cu` must be a number from 0 to 1000".into());
    Price::from_usd(usd).ok_or_else(wrong)
}

/// The effective plan `tier`.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name.
pub async fn get(app: &AppState, tier: &str) -> Result<Plan, ActionError> {
    let tier: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let config = app.settings.overridden_by(&app.store.overlay().await?);
    Ok(config.plans.of(tier))
}

/// What the version of a plan belongs to.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name.
pub fn versioned(tier: &str) -> Result<Versioned, ActionError> {
    tier.parse().map(Versioned::Plan).map_err(|_| ActionError::NotFound("plan"))
}

/// Sets the limits that `change` gives and returns the effective plan. Gateways are notified.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name, [`ActionError::Invalid`] for a limit that is out of bounds.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    tier: &str,
    change: PlanChange,
) -> Result<Plan, ActionError> {
    let known: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let limits = [
        ("per_minute", 1, change.per_minute),
        ("per_hour", 1, change.per_hour),
        ("per_day", 1, change.per_day),
        ("heavy_per_minute", 0, change.heavy_per_minute),
    ];
    let counts = &change.counts;
    let counts = [
        ("ws_connections", change.ws_connections),
        ("ws_connections_per_key", change.ws_connections_per_key),
        ("projects", counts.projects),
        ("keys_per_project", counts.keys_per_project),
        ("members", counts.members),
        ("webhooks_per_project", counts.webhooks_per_project),
        ("subscriptions_per_webhook", counts.subscriptions_per_webhook),
    ];
    for (field, count) in counts {
        if count.is_some_and(|count| count > Counts::MOST) {
            let max = Counts::MOST;
            return Err(ActionError::Invalid(format!("`{field}` must be a number from 0 to {max}")));
        }
    }
    for (field, min, limit) in limits {
        if limit.is_some_and(|limit| !(min..=MAX).contains(&limit)) {
            return Err(ActionError::Invalid(format!("`{field}` must be a number from {min} to {MAX}")));
        }
    }
    if change != PlanChange::default() {
        let mut details: Vec<_> = limits
            .into_iter()
            .filter_map(|(field, _, limit)| limit.map(|limit| format!("{field} {limit}")))
            .collect();
        details.extend(change.price.map(|price| format!("price_per_cu {}", price.usd())));
        details.extend(counts.into_iter().filter_map(|(field, count)| Some(format!("{field} {}", count?))));
        let now = app.now();
        let store = actor.audited_store(&app.store, None, ("plan.changed", known, details.join(", ")), now);
        actor.expecting(&store, Versioned::Plan(known)).put_plan(known, &change, now).await?;
    } else {
        actor.check_version(&app.store, &Versioned::Plan(known)).await?;
    }
    get(app, tier).await
}
