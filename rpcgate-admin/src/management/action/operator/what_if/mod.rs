//! What-if: what tenants would have paid, and what would have been refused to them, if weights and plans had been others in
//! the last 30 days. Nothing is changed. `docs/what-if.md` says for people what is exact and what is a bound.

mod quota;
mod standing;
mod windows;

use super::recent_days;
use super::weights::metered_weight;
use crate::management::action::text;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::{Figures, MethodUse, Tenant, Terms, UsageOfAll, UsageOfAllAsk};
use quota::ProjectDays;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::chain::Chain;
use rpcgate_core::clock::Time;
use rpcgate_core::config::{self, Config};
use rpcgate_core::usage::Amount;
use standing::{AskedPlans, TenantStanding};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use windows::WindowUse;

/// Weights that a question may change.
pub const MAX_WEIGHTS: usize = 100;

/// Plans that a question may change.
pub const MAX_PLANS: usize = 20;

/// Tenants that an answer lists one by one.
pub const MAX_LISTED: usize = 100;

const HOURS_OF_DAY: u64 = 24;
const SECONDS_OF_HOUR: u64 = 3_600;

/// Weights and plans as they might be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WhatIf {
    /// The weights.
    pub weights: Vec<AskedWeight>,
    /// The plans.
    pub plans: Vec<AskedPlan>,
}

/// A weight as it might be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedWeight {
    /// The path of the chain.
    pub chain: String,
    /// The method.
    pub method: String,
    /// Compute Units of a call.
    pub cu: u32,
}

/// A plan as it might be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedPlan {
    /// One of the four by its name, or one of operators' own by its identifier or its name.
    pub plan: String,
    /// For one of the four, the limits that change. For one of operators' own, all figures of its own.
    pub figures: Figures,
}

/// A number as it was and as it would have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BeforeAfter<T> {
    /// With the weights and plans in force.
    pub before: T,
    /// With those in question.
    pub after: T,
}

impl<T: PartialEq> BeforeAfter<T> {
    /// Whether the question makes a difference.
    pub fn differs(&self) -> bool {
        self.before != self.after
    }
}

impl BeforeAfter<u64> {
    fn add(&mut self, other: &BeforeAfter<u64>) {
        self.before = self.before.saturating_add(other.before);
        self.after = self.after.saturating_add(other.after);
    }

    fn distance(&self) -> u64 {
        self.before.abs_diff(self.after)
    }
}

/// The effect on a tenant, or on several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsageEffect {
    /// What was charged, at the prices of the time.
    pub charged: Amount,
    /// Compute Units.
    pub units: BeforeAfter<u64>,
    /// The units at the price of the plan.
    pub amount: BeforeAfter<Amount>,
    /// Requests that the plan's windows refuse, at the least.
    pub refused: BeforeAfter<u64>,
    /// Hours of projects at whose end their quota is used up.
    pub quota_hours: BeforeAfter<u64>,
}

impl UsageEffect {
    /// Whether the question makes a difference.
    pub fn differs(&self) -> bool {
        self.units.differs() || self.amount.differs() || self.refused.differs() || self.quota_hours.differs()
    }

    fn add(&mut self, other: &UsageEffect) {
        self.charged.0 = self.charged.0.saturating_add(other.charged.0);
        self.units.add(&other.units);
        self.amount.before.0 = self.amount.before.0.saturating_add(other.amount.before.0);
        self.amount.after.0 = self.amount.after.0.saturating_add(other.amount.after.0);
        self.refused.add(&other.refused);
        self.quota_hours.add(&other.quota_hours);
    }

    /// By which tenants are listed: first the change of the amount, then that of refusals, of the quota, and of units.
    fn weight(&self) -> (u128, u64, u64, u64) {
        let amount = self.amount.before.0.abs_diff(self.amount.after.0);
        (amount, self.refused.distance(), self.quota_hours.distance(), self.units.distance())
    }
}

/// The effect on one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantEffect {
    /// The tenant.
    pub tenant: TenantId,
    /// Its name.
    pub name: String,
    /// The name of its plan.
    pub plan: String,
    /// The effect.
    pub effect: UsageEffect,
}

/// How many tenants are affected, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AffectedTenants {
    /// Those that would pay more.
    pub pay_more: u64,
    /// Those that would pay less.
    pub pay_less: u64,
    /// Those to which more requests would be refused.
    pub refused_more: u64,
    /// Those to which fewer requests would be refused.
    pub refused_less: u64,
    /// Those whose quota would be used up for more hours.
    pub quota_more: u64,
    /// Those whose quota would be used up for fewer hours.
    pub quota_less: u64,
}

impl AffectedTenants {
    fn count(&mut self, effect: &UsageEffect) {
        let UsageEffect { amount, refused, quota_hours, .. } = effect;
        self.pay_more += u64::from(amount.after > amount.before);
        self.pay_less += u64::from(amount.after < amount.before);
        self.refused_more += u64::from(refused.after > refused.before);
        self.refused_less += u64::from(refused.after < refused.before);
        self.quota_more += u64::from(quota_hours.after > quota_hours.before);
        self.quota_less += u64::from(quota_hours.after < quota_hours.before);
    }
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhatIfAnswer {
    /// The beginning of the first day whose usage was read.
    pub from: Time,
    /// The end of the usage: that of the current hour.
    pub to: Time,
    /// The tenants with the largest changes, the largest first: at most [`MAX_LISTED`].
    pub tenants: Vec<TenantEffect>,
    /// The number of other tenants with usage.
    pub others: u64,
    /// The effect on them.
    pub of_others: UsageEffect,
    /// The effect on all.
    pub total: UsageEffect,
    /// How many tenants are affected.
    pub affected: AffectedTenants,
    /// Projects whose quota was not followed hour by hour, because there are too many that come near it.
    pub unfollowed_projects: u64,
}

fn chain_of(name: &str) -> Result<Arc<dyn Adapter>, ActionError> {
    let unknown = || ActionError::Invalid(format!("`weights`: there is no chain {name:?}"));
    rpcgate_chains::by_path(name).ok_or_else(unknown)
}

/// Weights by chain and method.
type Weights = BTreeMap<(String, String), u32>;

/// The weights of a question that differ from those in force.
fn changed_weights(config: &Config, asked: &[AskedWeight]) -> Result<Weights, ActionError> {
    if asked.len() > MAX_WEIGHTS {
        return Err(ActionError::Invalid(format!("`weights` must be at most {MAX_WEIGHTS}")));
    }
    let mut seen = Weights::new();
    let mut changed = Weights::new();
    for AskedWeight { chain, method, cu } in asked {
        let adapter = chain_of(chain)?;
        text::method("weights", method)?;
        let name = adapter.facts().name.as_str();
        let key = (name.to_owned(), method.clone());
        if seen.insert(key.clone(), *cu).is_some() {
            return Err(ActionError::Invalid(format!("`weights` has {name}/{method} twice")));
        }
        let changes = config.chains.get(name).map(config::ChainSettings::changes).unwrap_or_default();
        let chain = Chain::new(adapter, changes, true, Arc::default());
        if metered_weight(&chain, method) != *cu {
            changed.insert(key, *cu);
        }
    }
    Ok(changed)
}

/// Answers a question about the usage of all tenants. A question about the weights and plans in force has an answer in
/// which nothing changes.
///
/// # Errors
/// [`ActionError::Invalid`] for an unknown chain or plan, for something that is named twice, for a figure that is out of
/// bounds, and for more usage than can be read; [`ActionError::TooMany`] if other large questions are being answered;
/// [`ActionError::Unavailable`].
pub async fn ask(app: &AppState, question: &WhatIf) -> Result<WhatIfAnswer, ActionError> {
    let now = app.now();
    let config = app.settings.overridden_by(&app.store.overlay().await?);
    let weights = changed_weights(&config, &question.weights)?;
    let custom_plans = app.store.custom_plans().await?;
    let asked = AskedPlans::of(&question.plans, &custom_plans)?;
    let asked_config = asked.over(&config);
    let standing = |(tenant, terms): &(Tenant, Terms)| {
        let configs = (&config, &asked_config);
        (tenant.id, TenantStanding::of(tenant, terms, configs, &custom_plans, &asked, now))
    };
    let standings: BTreeMap<TenantId, TenantStanding> =
        app.store.terms_of_all(now).await?.iter().map(standing).collect();
    let hours = recent_days::hours(now);
    let methods = weights.keys().cloned().collect();
    let floors = standing::floors(standings.values());
    let found = app.usage.usage_of_all(&UsageOfAllAsk { hours: hours.clone(), methods, floors }).await?;
    let mut effects: BTreeMap<TenantId, UsageEffect> = BTreeMap::new();
    let projects = units(&found, &weights, &standings, &mut effects);
    refusals(&found, &standings, &mut effects);
    let unfollowed_projects = quotas(app, (&hours, &weights), &projects, (&standings, &mut effects)).await?;
    for (tenant, amount) in &found.charged {
        if standings.contains_key(tenant) {
            effects.entry(*tenant).or_default().charged = *amount;
        }
    }
    Ok(answer(&hours, &standings, effects, unfollowed_projects))
}

/// The units of a day, and of its calls of methods whose weight changes, with the weights in question.
fn reweighed(units: u64, calls: &[&MethodUse], weights: &Weights) -> u64 {
    let mut after = u128::from(units);
    for call in calls {
        let weight = weights.get(&(call.chain.clone(), call.method.clone())).copied().unwrap_or_default();
        after = after.saturating_sub(u128::from(call.units)) + u128::from(call.calls) * u128::from(weight);
    }
    u64::try_from(after).unwrap_or(u64::MAX)
}

/// Adds the units and the amounts of tenants to `effects`, and returns the units of projects by day.
fn units(
    found: &UsageOfAll,
    weights: &Weights,
    standings: &BTreeMap<TenantId, TenantStanding>,
    effects: &mut BTreeMap<TenantId, UsageEffect>,
) -> BTreeMap<ProjectId, ProjectDays> {
    let mut calls: BTreeMap<(ProjectId, u64), Vec<&MethodUse>> = BTreeMap::new();
    for one in &found.methods {
        calls.entry((one.project, one.hour)).or_default().push(one);
    }
    let mut projects: BTreeMap<ProjectId, ProjectDays> = BTreeMap::new();
    for one in &found.projects {
        if !standings.contains_key(&one.tenant) {
            continue;
        }
        let its = calls.get(&(one.project, one.hour)).map(Vec::as_slice).unwrap_or_default();
        let units = BeforeAfter { before: one.units, after: reweighed(one.units, its, weights) };
        effects.entry(one.tenant).or_default().units.add(&units);
        let days = projects.entry(one.project).or_insert_with(|| ProjectDays::of(one.tenant));
        days.units.insert(one.hour / HOURS_OF_DAY, units);
    }
    for (tenant, effect) in effects {
        let Some(TenantStanding { price, .. }) = standings.get(tenant) else { continue };
        let amount = |units: u64, price: u64| Amount(u128::from(units) * u128::from(price));
        effect.amount.before = amount(effect.units.before, price.before.0);
        effect.amount.after = amount(effect.units.after, price.after.0);
    }
    projects
}

/// Adds the refusals of the windows to `effects`.
fn refusals(
    found: &UsageOfAll,
    standings: &BTreeMap<TenantId, TenantStanding>,
    effects: &mut BTreeMap<TenantId, UsageEffect>,
) {
    let mut keys: BTreeMap<_, WindowUse> = BTreeMap::new();
    for one in &found.key_hours {
        let day = keys.entry((one.tenant, one.key, one.hour / HOURS_OF_DAY)).or_default();
        day.hours.push((one.admitted, one.refused));
    }
    for one in &found.key_days {
        let day = keys.entry((one.tenant, one.key, one.hour / HOURS_OF_DAY)).or_default();
        day.day = Some((one.admitted, one.refused));
    }
    for ((tenant, ..), day) in keys {
        let Some(TenantStanding { windows, .. }) = standings.get(&tenant) else { continue };
        if windows.differs() {
            let before = day.refused(&windows.before, &windows.before);
            let after = day.refused(&windows.before, &windows.after);
            effects.entry(tenant).or_default().refused.add(&BeforeAfter { before, after });
        }
    }
}

/// Adds the hours in which quotas are used up to `effects`, and returns how many projects were not followed.
async fn quotas(
    app: &AppState,
    (hours, weights): (&Range<u64>, &Weights),
    projects: &BTreeMap<ProjectId, ProjectDays>,
    (standings, effects): (&BTreeMap<TenantId, TenantStanding>, &mut BTreeMap<TenantId, UsageEffect>),
) -> Result<u64, ActionError> {
    if weights.is_empty() && !standings.values().any(|standing| standing.figures.differs()) {
        return Ok(0);
    }
    let own = app.store.own_quotas().await?;
    let ceilings = |project: &ProjectId, tenant: TenantId| {
        let quota = own.get(project).copied().unwrap_or_default();
        let figures = &standings.get(&tenant)?.figures;
        let of = |figures: &Figures| figures.quota(quota).cu_per_day;
        Some(BeforeAfter { before: of(&figures.before), after: of(&figures.after) })
    };
    let near = projects.iter().filter_map(|(project, days)| {
        let ceilings = ceilings(project, days.tenant)?;
        days.may_differ(&ceilings).then_some((*project, days.tenant, ceilings))
    });
    let mut near: Vec<_> = near.collect();
    let followed = near.len().min(quota::MAX_FOLLOWED);
    // Those with most units come first: they are at their quota for longer.
    near.sort_by_cached_key(|(project, ..)| Reverse(projects.get(project).map(ProjectDays::most)));
    let unfollowed = near.len() - followed;
    near.truncate(followed);
    if near.is_empty() {
        return Ok(0);
    }
    let ids: Vec<ProjectId> = near.iter().map(|(project, ..)| *project).collect();
    let methods: Vec<_> = weights.keys().cloned().collect();
    let before_them = hours.start.saturating_sub(HOURS_OF_DAY - 1)..hours.end;
    let (of_projects, of_methods) = app.usage.hours_of_projects(&ids, before_them, &methods).await?;
    let mut calls: BTreeMap<(ProjectId, u64), Vec<&MethodUse>> = BTreeMap::new();
    for one in &of_methods {
        calls.entry((one.project, one.hour)).or_default().push(one);
    }
    let mut by_project: BTreeMap<ProjectId, BTreeMap<u64, BeforeAfter<u64>>> = BTreeMap::new();
    for one in &of_projects {
        let its = calls.get(&(one.project, one.hour)).map(Vec::as_slice).unwrap_or_default();
        let units = BeforeAfter { before: one.units, after: reweighed(one.units, its, weights) };
        by_project.entry(one.project).or_default().insert(one.hour, units);
    }
    for (project, tenant, ceilings) in near {
        let Some(units) = by_project.get(&project) else { continue };
        let before = quota::hours_used_up(
            units.iter().map(|(hour, units)| (*hour, units.before)),
            ceilings.before,
            hours,
        );
        let after = quota::hours_used_up(
            units.iter().map(|(hour, units)| (*hour, units.after)),
            ceilings.after,
            hours,
        );
        effects.entry(tenant).or_default().quota_hours.add(&BeforeAfter { before, after });
    }
    Ok(unfollowed as u64)
}

fn answer(
    hours: &Range<u64>,
    standings: &BTreeMap<TenantId, TenantStanding>,
    effects: BTreeMap<TenantId, UsageEffect>,
    unfollowed_projects: u64,
) -> WhatIfAnswer {
    let time = |hour: u64| Time::from_secs(hour.saturating_mul(SECONDS_OF_HOUR));
    let (mut total, mut affected) = (UsageEffect::default(), AffectedTenants::default());
    for effect in effects.values() {
        total.add(effect);
        affected.count(effect);
    }
    let (mut changed, unchanged): (Vec<_>, Vec<_>) =
        effects.into_iter().partition(|(_, effect)| effect.differs());
    changed.sort_by_key(|(tenant, effect)| (Reverse(effect.weight()), *tenant));
    let rest = changed.split_off(changed.len().min(MAX_LISTED));
    let mut of_others = UsageEffect::default();
    let others = (rest.len() + unchanged.len()) as u64;
    rest.iter().chain(&unchanged).for_each(|(_, effect)| of_others.add(effect));
    let listed = |(tenant, effect): (TenantId, UsageEffect)| {
        let standing = standings.get(&tenant)?;
        Some(TenantEffect { tenant, name: standing.name.clone(), plan: standing.plan.clone(), effect })
    };
    WhatIfAnswer {
        from: time(hours.start),
        to: time(hours.end),
        tenants: changed.into_iter().filter_map(listed).collect(),
        others,
        of_others,
        total,
        affected,
        unfollowed_projects,
    }
}

#[cfg(test)]
mod tests;
