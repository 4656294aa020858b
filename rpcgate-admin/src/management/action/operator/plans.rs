//! The figures of plans.

use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::config::PlanChange;
use rpcgate_core::plan::{Counts, Plan, Price, Tier};

/// The largest figure of a plan: that of the configuration.
const MOST: u64 = 1_000_000_000_000;

/// What a Compute Unit is to cost, in US dollars.
///
/// # Errors
/// [`ActionError::Invalid`] for what is no price.
pub fn price(usd: f64) -> Result<Price, ActionError> {
    let wrong = || ActionError::Invalid("`price_per_cu` must be a number from 0 to 1000".into());
    Price::from_usd(usd).ok_or_else(wrong)
}

/// The plan called `tier`, as it is in force.
///
/// # Errors
/// [`ActionError::NotFound`] for a name that is none.
pub async fn get(app: &AppState, tier: &str) -> Result<Plan, ActionError> {
    let tier: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let config = app.settings.under(&app.store.overlay().await?);
    Ok(config.plans.of(tier))
}

/// Changes the figures that `change` gives: the plan as it is in force then. Gateways hear of it.
///
/// # Errors
/// [`ActionError::NotFound`] for a name that is none, [`ActionError::Invalid`] for a figure that is out of bounds.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    tier: &str,
    change: PlanChange,
) -> Result<Plan, ActionError> {
    let known: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let figures = [
        ("per_minute", 1, change.per_minute),
        ("per_hour", 1, change.per_hour),
        ("per_day", 1, change.per_day),
        ("heavy_per_minute", 0, change.heavy_per_minute),
    ];
    let counts = &change.counts;
    let counts = [
        ("projects", counts.projects),
        ("keys_per_project", counts.keys_per_project),
        ("members", counts.members),
        ("webhooks_per_project", counts.webhooks_per_project),
        ("subscriptions_per_webhook", counts.subscriptions_per_webhook),
        ("streams_per_project", counts.streams_per_project),
    ];
    for (field, count) in counts {
        if count.is_some_and(|count| count > Counts::MOST) {
            let most = Counts::MOST;
            return Err(ActionError::Invalid(format!("`{field}` must be a number from 0 to {most}")));
        }
    }
    for (field, least, figure) in figures {
        if figure.is_some_and(|figure| !(least..=MOST).contains(&figure)) {
            return Err(ActionError::Invalid(format!("`{field}` must be a number from {least} to {MOST}")));
        }
    }
    if change != PlanChange::default() {
        let mut told: Vec<_> = figures
            .into_iter()
            .filter_map(|(field, _, figure)| figure.map(|figure| format!("{field} {figure}")))
            .collect();
        told.extend(change.price.map(|price| format!("price_per_cu {}", price.usd())));
        told.extend(counts.into_iter().filter_map(|(field, count)| Some(format!("{field} {}", count?))));
        let now = app.now();
        let noting = actor.noting(&app.store, None, ("plan.changed", known, told.join(", ")), now);
        noting.put_plan(known, &change, now).await?;
    }
    get(app, tier).await
}
