//! Answers to what-if questions: the payments and refusals of tenants in the last 30 days under different weights and
//! plans. Nothing is changed. `docs/what-if.md` states which results are exact and which are bounds.

mod effect;
mod fold;
mod plan_move;
mod quota;
mod tenant_plan_status;
mod windows;

pub use effect::{AffectedTenants, BeforeAfter, MAX_LISTED, TenantEffect, UsageEffect, WhatIfAnswer};
pub use plan_move::{PlanMove, effect_on_tenant};

use super::recent_days;
use super::weights::weight_by;
use crate::action::actor::Actor;
use crate::action::text;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::what_if_slots::WhatIfSlot;
use fold::{Basis, Effects, FirstPass};
use rpcgate_config::Config;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{Figures, Tenant, Terms};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tenant_plan_status::{AskedPlans, TenantPlanStatus};

/// The maximum number of weights in a question.
pub const MAX_WEIGHTS: usize = 100;

/// The maximum number of plans in a question.
pub const MAX_PLANS: usize = 20;

/// The time limit for an answer. Two passes over the largest supported site take half of it. Browsers and proxies wait
/// for a minute, so an operator still sees the error.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The text of [`ActionError::Unavailable`] after the time limit.
pub const TOO_SLOW: &str = "a what-if took longer than 30 seconds";

const HOURS_OF_DAY: u64 = 24;
const SECONDS_OF_HOUR: u64 = 3_600;

/// A question: hypothetical weights and plans.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WhatIf {
    /// The weights.
    pub weights: Vec<AskedWeight>,
    /// The plans.
    pub plans: Vec<AskedPlan>,
}

/// A hypothetical weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedWeight {
    /// The path of the chain.
    pub chain: String,
    /// The method.
    pub method: String,
    /// The Compute Units of a call.
    pub cu: u32,
}

/// A hypothetical plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedPlan {
    /// The name of one of the four plans, or the identifier or name of a custom one.
    pub plan: String,
    /// For one of the four plans, the limits that change. For a custom plan, all its own figures.
    pub figures: Figures,
}

pub(super) fn chain_of(name: &str) -> Result<Arc<dyn Adapter>, ActionError> {
    let unknown = || ActionError::inside("weights", format!("there is no chain {name:?}"));
    rpcgate_chains::by_path(name).ok_or_else(unknown)
}

type Weights = BTreeMap<(String, String), u32>;

fn changed_weights(config: &Config, weights: &[AskedWeight]) -> Result<Weights, ActionError> {
    if weights.len() > MAX_WEIGHTS {
        return Err(ActionError::named("weights", format!("must be at most {MAX_WEIGHTS}")));
    }
    let mut seen = Weights::new();
    let mut changed = Weights::new();
    for AskedWeight { chain, method, cu } in weights {
        let adapter = chain_of(chain)?;
        text::method("weights", method)?;
        let name = adapter.facts().name.as_str();
        let key = (name.to_owned(), method.clone());
        if seen.insert(key.clone(), *cu).is_some() {
            return Err(ActionError::named("weights", format!("has {name}/{method} twice")));
        }
        if weight_by(config, adapter.clone(), method) != *cu {
            changed.insert(key, *cu);
        }
    }
    Ok(changed)
}

/// Answers a question about the usage of all tenants. A question about the weights and plans in force gets an answer
/// without differences.
///
/// # Errors
/// [`ActionError::Invalid`] for an unknown chain or plan, for a duplicate, for a figure that is out of bounds, and for
/// more usage than can be read; [`ActionError::TooMany`] if another question of the actor or too many large questions
/// are being answered; [`ActionError::Unavailable`], with [`TOO_SLOW`] after [`DEADLINE`].
pub async fn ask(app: &AppState, actor: &Actor, question: &WhatIf) -> Result<WhatIfAnswer, ActionError> {
    let slot = app.what_if_slots.begin(actor.user.id)?;
    within_deadline(answer(app, &slot, question)).await
}

/// Lists the tenants that would pay more, by ascending identifier.
///
/// # Errors
/// Those of [`ask`].
pub async fn payers(app: &AppState, actor: &Actor, question: &WhatIf) -> Result<Vec<TenantId>, ActionError> {
    let slot = app.what_if_slots.begin(actor.user.id)?;
    let work = async {
        let (_, effects, _) = effects(app, &slot, basis(app, &slot, question).await?).await?;
        let pays_more = |(_, effect): &(&TenantId, &UsageEffect)| effect.amount.after > effect.amount.before;
        Ok::<_, ActionError>(effects.iter().filter(pays_more).map(|(tenant, _)| *tenant).collect())
    };
    within_deadline(work).await
}

async fn within_deadline<T>(work: impl Future<Output = Result<T, ActionError>>) -> Result<T, ActionError> {
    let late = |_| ActionError::Unavailable(TOO_SLOW.to_owned());
    tokio::time::timeout(DEADLINE, work).await.map_err(late)?
}

async fn answer(
    app: &AppState,
    slot: &Arc<WhatIfSlot>,
    question: &WhatIf,
) -> Result<WhatIfAnswer, ActionError> {
    let basis = basis(app, slot, question).await?;
    let (basis, effects, unfollowed) = effects(app, slot, basis).await?;
    slot.run(move || fold::answer(&basis, effects, unfollowed)).await
}

/// Collects the changes of a question, and the tenants that they concern.
async fn basis(app: &AppState, slot: &Arc<WhatIfSlot>, question: &WhatIf) -> Result<Basis, ActionError> {
    let now = app.now();
    let config = app.config_in_force().await?;
    let weights = changed_weights(&config, &question.weights)?;
    let custom_plans = app.store.custom_plans().await?;
    let asked_plans = AskedPlans::of(&question.plans, &custom_plans)?;
    let asked_config = asked_plans.over(&config);
    let terms = app.store.terms_of_all(now).await?;
    let stand = move || {
        let standing = |(tenant, terms): &(Tenant, Terms)| {
            let configs = (&config, &asked_config);
            (tenant.id, TenantPlanStatus::of(tenant, terms, configs, &custom_plans, &asked_plans, now))
        };
        terms.iter().map(standing).collect()
    };
    let standings: BTreeMap<TenantId, TenantPlanStatus> = slot.run(stand).await?;
    Ok(Basis { hours: recent_days::hours(now), weights, standings, only: None })
}

/// Returns the effects by tenant, and the number of projects whose quota was not followed.
async fn effects(
    app: &AppState,
    slot: &Arc<WhatIfSlot>,
    basis: Basis,
) -> Result<(Arc<Basis>, Effects, u64), ActionError> {
    let basis = Arc::new(basis);
    let known = basis.clone();
    let (ask, may_change_quotas) = slot.run(move || (known.ask(), known.may_change_quotas())).await?;
    let found = app.usage.usage_of_all(&ask).await?;
    let own = match (may_change_quotas, basis.only) {
        (false, _) => None,
        (true, Some(tenant)) => Some(app.store.own_quotas_of(tenant).await?),
        (true, None) => Some(app.store.own_quotas().await?),
    };
    let known = basis.clone();
    let first = slot.run(move || FirstPass::of(&known, &found, own.as_ref())).await?;
    let FirstPass { mut effects, near, unfollowed } = first;
    if near.is_empty() {
        return Ok((basis, effects, unfollowed));
    }
    let ids: Vec<_> = near.iter().map(|one| one.id).collect();
    let before_them = basis.hours.start.saturating_sub(HOURS_OF_DAY - 1)..basis.hours.end;
    let (of_projects, of_methods) = app.usage.hours_of_projects(&ids, before_them, &ask.methods).await?;
    let known = basis.clone();
    let follow = move || {
        fold::quota_hours(&known, &near, &of_projects, &of_methods, &mut effects);
        effects
    };
    Ok((basis, slot.run(follow).await?, unfollowed))
}

#[cfg(test)]
pub(super) mod tests;
