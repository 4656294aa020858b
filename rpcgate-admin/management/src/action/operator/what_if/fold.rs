//! The computation of effects from usage. It may take seconds for many tenants, so it runs outside the async workers.

use super::effect::{AffectedTenants, BeforeAfter, MAX_LISTED, TenantEffect, UsageEffect, WhatIfAnswer};
use super::quota::{self, ProjectDays};
use super::tenant_plan_status::TenantPlanStatus;
use super::windows::WindowUse;
use super::{HOURS_OF_DAY, SECONDS_OF_HOUR, Weights};
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Amount;
use rpcgate_store::{KeysAsk, MethodUse, ProjectUnits, TenantSet, UsageOfAll, UsageOfAllAsk};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

pub(super) type Effects = BTreeMap<TenantId, UsageEffect>;

/// The change in a question, and its scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Basis {
    pub(super) hours: Range<u64>,
    /// The weights that differ from those in force.
    pub(super) weights: Weights,
    /// The prices, windows and quotas of each tenant.
    pub(super) standings: BTreeMap<TenantId, TenantPlanStatus>,
    /// The tenant, if the question is about a single one.
    pub(super) only: Option<TenantId>,
}

impl Basis {
    /// Returns the query for the usage. Keys are read only of the tenants whose windows change.
    pub(super) fn ask(&self) -> UsageOfAllAsk {
        let (changed, others): (Vec<_>, Vec<_>) =
            self.standings.iter().partition(|(_, standing)| standing.windows.differs());
        let floor = |(_, standing): &(&TenantId, &TenantPlanStatus)| {
            let BeforeAfter { before, after } = standing.windows;
            (before.of_hour().min(after.of_hour()), before.per_day.min(after.per_day))
        };
        // Up to these counts, no window refuses anything, before or after.
        let floors = changed.iter().map(floor).reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)));
        let ids = |of: Vec<(&TenantId, &TenantPlanStatus)>| of.into_iter().map(|(id, _)| *id).collect();
        let of = TenantSet::of(ids(changed), ids(others));
        let keys = floors.map(|(above_in_hour, above_in_day)| KeysAsk { above_in_hour, above_in_day, of });
        let methods = self.weights.keys().cloned().collect();
        UsageOfAllAsk { hours: self.hours.clone(), methods, keys, only: self.only }
    }

    /// Reports whether quotas may be used up in other hours than before.
    pub(super) fn may_change_quotas(&self) -> bool {
        !self.weights.is_empty() || self.standings.values().any(|standing| standing.quota.differs())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NearProject {
    pub(super) id: ProjectId,
    tenant: TenantId,
    ceilings: BeforeAfter<u64>,
}

/// The effects of a first pass, and the projects that a second pass follows hour by hour.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct FirstPass {
    pub(super) effects: Effects,
    pub(super) near: Vec<NearProject>,
    /// The number of projects that come near their quota but are too many to follow.
    pub(super) unfollowed: u64,
}

impl FirstPass {
    /// Computes the effects of `found`. Projects are followed only if `own`, the quotas set by operators, are given.
    pub(super) fn of(
        basis: &Basis,
        found: &UsageOfAll,
        own: Option<&BTreeMap<ProjectId, ProjectQuota>>,
    ) -> Self {
        let mut effects = Effects::new();
        let projects = units(basis, found, &mut effects);
        refusals(basis, found, &mut effects);
        for (tenant, amount) in &found.charged {
            if basis.standings.contains_key(tenant) {
                effects.entry(*tenant).or_default().charged = *amount;
            }
        }
        let mut near = own.map(|own| near(basis, &projects, own)).unwrap_or_default();
        let followed = near.len().min(quota::MAX_FOLLOWED);
        // Projects with the most units come first: their quota is used up for longer.
        near.sort_by_cached_key(|one| Reverse(projects.get(&one.id).map(ProjectDays::most)));
        let unfollowed = (near.len() - followed) as u64;
        near.truncate(followed);
        FirstPass { effects, near, unfollowed }
    }
}

/// Returns the projects whose quota may be used up in other hours.
fn near(
    basis: &Basis,
    projects: &BTreeMap<ProjectId, ProjectDays>,
    own: &BTreeMap<ProjectId, ProjectQuota>,
) -> Vec<NearProject> {
    let one = |(project, days): (&ProjectId, &ProjectDays)| {
        let quota = own.get(project).copied().unwrap_or_default();
        let of_plan = &basis.standings.get(&days.tenant)?.quota;
        let of = |plan| quota.or_of_plan(plan).cu_per_day;
        let ceilings = BeforeAfter { before: of(of_plan.before), after: of(of_plan.after) };
        let near = NearProject { id: *project, tenant: days.tenant, ceilings };
        days.may_differ(&ceilings).then_some(near)
    };
    projects.iter().filter_map(one).collect()
}

/// Returns the units of a day with the weights of the question. `calls` are its calls of methods whose weight changes.
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
    Basis { weights, standings, .. }: &Basis,
    found: &UsageOfAll,
    effects: &mut Effects,
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
        let Some(TenantPlanStatus { price, .. }) = standings.get(tenant) else { continue };
        let amount = |units: u64, price: u64| Amount(u128::from(units) * u128::from(price));
        effect.amount.before = amount(effect.units.before, price.before.0);
        effect.amount.after = amount(effect.units.after, price.after.0);
    }
    projects
}

fn refusals(Basis { standings, .. }: &Basis, found: &UsageOfAll, effects: &mut Effects) {
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
        let Some(TenantPlanStatus { windows, .. }) = standings.get(&tenant) else { continue };
        if windows.differs() {
            let before = day.refused(&windows.before, &windows.before);
            let after = day.refused(&windows.before, &windows.after);
            effects.entry(tenant).or_default().refused.add(&BeforeAfter { before, after });
        }
    }
}

/// Adds the hours in which the quotas of `near` are used up to `effects`.
pub(super) fn quota_hours(
    Basis { hours, weights, .. }: &Basis,
    near: &[NearProject],
    of_projects: &[ProjectUnits],
    of_methods: &[MethodUse],
    effects: &mut Effects,
) {
    let mut calls: BTreeMap<(ProjectId, u64), Vec<&MethodUse>> = BTreeMap::new();
    for one in of_methods {
        calls.entry((one.project, one.hour)).or_default().push(one);
    }
    let mut by_project: BTreeMap<ProjectId, BTreeMap<u64, BeforeAfter<u64>>> = BTreeMap::new();
    for one in of_projects {
        let its = calls.get(&(one.project, one.hour)).map(Vec::as_slice).unwrap_or_default();
        let units = BeforeAfter { before: one.units, after: reweighed(one.units, its, weights) };
        by_project.entry(one.project).or_default().insert(one.hour, units);
    }
    for NearProject { id, tenant, ceilings } in near {
        let Some(units) = by_project.get(id) else { continue };
        let before = units.iter().map(|(hour, units)| (*hour, units.before));
        let after = units.iter().map(|(hour, units)| (*hour, units.after));
        let hours = BeforeAfter {
            before: quota::hours_used_up(before, ceilings.before, hours),
            after: quota::hours_used_up(after, ceilings.after, hours),
        };
        effects.entry(*tenant).or_default().quota_hours.add(&hours);
    }
}

pub(super) fn answer(
    Basis { hours, standings, .. }: &Basis,
    effects: Effects,
    unfollowed_projects: u64,
) -> WhatIfAnswer {
    let time = |hour: u64| Time::from_secs(hour.saturating_mul(SECONDS_OF_HOUR));
    let mut total = UsageEffect::default();
    let mut affected = AffectedTenants::default();
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
