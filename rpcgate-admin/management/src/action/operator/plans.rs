//! The figures of the four plans.

use crate::action::actor::Actor;
use crate::action::text;
use crate::app_state::AppState;
use crate::error::{ActionError, Part};
use rpcgate_config::{PlanChange, ScheduledChange};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Plan, Price, Tier};
use rpcgate_store::{
    Figure, Figures, ScheduledChangeId, ScheduledPlanChange, TenantPlan, Versioned, fresh_id,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Converts the price of a Compute Unit from US dollars.
///
/// # Errors
/// [`ActionError::Invalid`] for an invalid price.
pub fn price(usd: f64) -> Result<Price, ActionError> {
    let wrong = || ActionError::named("price_per_cu", "must be 0 or a number from 0.000000000001 to 1000");
    Price::from_usd(usd).ok_or_else(wrong)
}

/// One of the four plans in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PricedPlan {
    /// The limits, price and quota.
    pub plan: Plan,
    /// The monthly fee in cents.
    pub monthly_fee: u64,
    /// The scheduled changes, in order.
    pub scheduled: Vec<ScheduledPlanChange>,
}

impl PricedPlan {
    /// Returns all figures.
    pub fn figures(&self) -> PlanChange {
        self.plan.figures(self.monthly_fee)
    }
}

/// The maximum time ahead for a scheduled change.
pub const MAX_AHEAD: Duration = Duration::from_secs(366 * 86_400);

/// Returns the plan `tier` in force.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name.
pub async fn get(app: &AppState, tier: &str) -> Result<PricedPlan, ActionError> {
    let tier: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let config = app.config_in_force().await?;
    Ok(PricedPlan {
        plan: config.plans.of(tier),
        monthly_fee: config.billing.fees.of(tier),
        scheduled: app.store.scheduled_plan_changes(tier, app.now()).await?,
    })
}

/// Returns the number of tenants on each plan that has any.
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

/// Returns the object that a plan's version belongs to.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name.
pub fn versioned(app: &AppState, tier: &str) -> Result<Versioned, ActionError> {
    let tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    Ok(Versioned::Plan(tier, app.now()))
}

/// Checks figures and lists the present ones for the audit log.
///
/// # Errors
/// [`ActionError::Invalid`] for a figure that is out of bounds.
pub(super) fn check(figures: &Figures) -> Result<Vec<String>, ActionError> {
    let checked = |figure: Figure| match figure.value {
        Some(value) if !figure.of.range.contains(&value) => {
            let name = figure.of.name;
            let least = figure.of.range.start();
            let most = figure.of.range.end();
            Err(ActionError::named(name, format!("must be a number from {least} to {most}")))
        }
        _ => Ok(figure.to_string()),
    };
    figures.given().map(checked).collect()
}

/// Replaces all figures of a plan that operators have set by those in `change`. Other figures become the configured
/// ones again. Gateways are notified.
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
    actor.expecting(&store, Versioned::Plan(tier, now)).replace_plan(tier, &change, now).await?;
    get(app, tier.name()).await
}

/// Returns the time at which a change takes effect, if that is later than `now`.
///
/// # Errors
/// [`ActionError::Invalid`] for a time in the past, and for one beyond [`MAX_AHEAD`].
fn later(from: Option<Time>, now: Time) -> Result<Option<Time>, ActionError> {
    match from {
        Some(from) if from < now => Err(ActionError::field(
            "from",
            "this is in the past: leave it out for a change that applies at once",
        )),
        Some(from) if from > now.plus(MAX_AHEAD) => {
            Err(ActionError::field("from", "this must be at most 366 days ahead"))
        }
        from => Ok(from.filter(|from| *from > now)),
    }
}

/// Sets the figures in `change`, at once or at the time `from`, and returns the plan in force now. Gateways apply them
/// at their time.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown name, [`ActionError::Invalid`] for a figure that is out of bounds and for a
/// later change without figures, [`ActionError::Invalid`] for a time in the past or beyond [`MAX_AHEAD`],
/// [`ActionError::Full`] if too many changes of the plan are scheduled.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    tier: &str,
    change: PlanChange,
    from: Option<Time>,
) -> Result<PricedPlan, ActionError> {
    let known: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let mut details = check(&change.into())?;
    let now = app.now();
    match later(from, now)? {
        Some(_) if details.is_empty() => {
            let why = Part::Words("give the figures that change at the time ".into());
            return Err(ActionError::of_parts("from", [why, Part::Field("from".into())]));
        }
        Some(from) => {
            details.push(format!("from {}", text::moment(from)));
            let id = ScheduledChangeId(fresh_id(now));
            let change = ScheduledChange { from, tier: known, figures: change };
            let new = ScheduledPlanChange { id, change, created_at: now };
            let event = ("plan.change_scheduled", known, details.join(", "));
            let store = actor.audited_store(&app.store, None, event, now);
            actor.expecting(&store, Versioned::Plan(known, now)).schedule_plan_change(&new, now).await?;
        }
        None if details.is_empty() => actor.check_version(&app.store, &Versioned::Plan(known, now)).await?,
        None => {
            let event = ("plan.changed", known, details.join(", "));
            let store = actor.audited_store(&app.store, None, event, now);
            actor.expecting(&store, Versioned::Plan(known, now)).put_plan(known, &change, now).await?;
        }
    }
    get(app, tier).await
}

/// Withdraws a scheduled change of a plan.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown plan, and for an unknown change.
pub async fn withdraw(
    app: &AppState,
    actor: &Actor,
    tier: &str,
    id: ScheduledChangeId,
) -> Result<(), ActionError> {
    let known: Tier = tier.parse().map_err(|_| ActionError::NotFound("plan"))?;
    let now = app.now();
    let event = ("plan.change_withdrawn", known, id.to_string());
    let store = actor.audited_store(&app.store, None, event, now);
    Ok(actor.expecting(&store, Versioned::Plan(known, now)).withdraw_plan_change(known, id, now).await?)
}
