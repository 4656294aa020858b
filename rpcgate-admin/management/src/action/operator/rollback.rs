//! The rollback to a version of operators' settings, by the same actions that made it.

use super::{contracts, custom_plans, plans, quotas, weights};
use crate::action::actor::Actor;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_core::plan::Tier;
use rpcgate_store::{
    ConfigScope, ConfigVersion, CustomPlan, CustomPlanChange, ServiceSettings, TenantAgreements,
};

/// The outcome of a rollback.
#[derive(Debug, Default)]
pub struct RolledBack {
    /// The steps done, in words.
    pub done: Vec<String>,
    /// The steps that a rule refused, with the reasons. The other steps were done nevertheless.
    pub left: Vec<(String, ActionError)>,
}

impl RolledBack {
    /// Records the outcome of one step. An error that is not from a rule ends the rollback.
    fn take<T>(&mut self, what: String, done: Result<T, ActionError>) -> Result<(), ActionError> {
        match done {
            Ok(_) => self.done.push(what),
            Err(error @ (ActionError::Unavailable(_) | ActionError::Broken(_))) => return Err(error),
            Err(error) => self.left.push((what, error)),
        }
        Ok(())
    }
}

/// Restores the settings of operators to those of a version, step by step. Each step is audited and creates a version
/// like any other change, so it can be rolled back in the same way.
///
/// A contract that has ended is not reopened. A new one with the same figures is made, which begins now.
///
/// # Errors
/// [`ActionError::NotFound`]; [`ActionError::Conflict`] for the configuration of a program, which only its host can
/// change; [`ActionError::Unavailable`], after which the earlier steps stay done.
pub async fn roll_back(app: &AppState, actor: &Actor, number: u64) -> Result<RolledBack, ActionError> {
    let version = app.store.config_version(number).await?.ok_or(ActionError::NotFound("version"))?;
    let tenant = match version.scope {
        ConfigScope::Service => None,
        ConfigScope::Tenant(tenant) => Some(tenant),
        ConfigScope::Gateway(_) | ConfigScope::Management(_) => {
            return Err(ActionError::Conflict(
                "this is the configuration of a program, which only its host can change",
            ));
        }
    };
    app.store.note(&actor.entry(tenant, ("config.rolled_back", number, ""), app.now())).await?;
    match tenant {
        None => roll_service_back(app, actor, &version).await,
        Some(tenant) => roll_tenant_back(app, actor, tenant, &version).await,
    }
}

async fn roll_service_back(
    app: &AppState,
    actor: &Actor,
    version: &ConfigVersion,
) -> Result<RolledBack, ActionError> {
    let target = ServiceSettings::of(&version.lines)?;
    // A scheduled change that is due is in force, and would otherwise be merged into the figures set after the
    // rollback.
    app.store.settle_plan_changes(app.now()).await?;
    let current = app.store.service_settings().await?;
    let mut outcome = RolledBack::default();
    for tier in Tier::ALL {
        let of = |settings: &ServiceSettings| settings.overlay.plans.get(&tier).copied().unwrap_or_default();
        let target_change = of(&target);
        if of(&current) != target_change {
            let done = plans::replace(app, actor, tier, target_change).await;
            outcome.take(format!("plan {tier}"), done)?;
        }
    }
    for (chain, methods) in &current.overlay.weights {
        for method in methods.keys() {
            let is_wanted =
                target.overlay.weights.get(chain).is_some_and(|desired| desired.contains_key(method));
            if !is_wanted {
                let done = weights::delete(app, actor, chain, method).await;
                outcome.take(format!("weight {chain}/{method}: as configured"), done)?;
            }
        }
    }
    for (chain, methods) in &target.overlay.weights {
        let set = current.overlay.weights.get(chain);
        for (method, cu) in methods {
            if set.and_then(|set| set.get(method)) != Some(cu) {
                let done = weights::put(app, actor, chain, method, *cu).await;
                outcome.take(format!("weight {chain}/{method}: {cu}"), done)?;
            }
        }
    }
    let is_off = |settings: &ServiceSettings, chain: &str| settings.overlay.chains.contains_key(chain);
    for chain in current.overlay.chains.keys().chain(target.overlay.chains.keys()) {
        let was_off = is_off(&current, chain);
        let is_to_be_off = is_off(&target, chain);
        if was_off != is_to_be_off {
            let done = super::chains::switch(app, actor, chain, !is_to_be_off).await;
            outcome.take(format!("chain {chain}: {}", if is_to_be_off { "off" } else { "on" }), done)?;
        }
    }
    roll_plans_back(app, actor, &current, &target, &mut outcome).await?;
    Ok(outcome)
}

/// Restores custom plans. A deleted plan is made again under its name, and the new one replaces it in later steps.
async fn roll_plans_back(
    app: &AppState,
    actor: &Actor,
    current: &ServiceSettings,
    target: &ServiceSettings,
    outcome: &mut RolledBack,
) -> Result<(), ActionError> {
    let same = |plan: &CustomPlan, other: &CustomPlan| {
        plan.id == other.id || (plan.name == other.name && plan.base == other.base)
    };
    let present = |desired: &CustomPlan| current.custom_plans.values().find(|plan| same(plan, desired));
    for plan in current.custom_plans.values() {
        if !target.custom_plans.values().any(|desired| same(plan, desired)) {
            let done = custom_plans::delete(app, actor, plan.id).await;
            outcome.take(format!("custom plan {}: deleted", plan.name), done)?;
        }
    }
    for desired in target.custom_plans.values() {
        match present(desired) {
            Some(plan) => {
                let change = CustomPlanChange {
                    name: (plan.name != desired.name).then(|| desired.name.clone()),
                    is_visible: (plan.is_visible != desired.is_visible).then_some(desired.is_visible),
                    figures: (plan.figures != desired.figures).then_some(desired.figures),
                };
                if change != CustomPlanChange::default() {
                    let done = custom_plans::update(app, actor, plan.id, change).await;
                    outcome.take(format!("custom plan {}: changed", desired.name), done)?;
                }
            }
            None => {
                let CustomPlan { name, base, is_visible, figures, .. } = desired.clone();
                let new = custom_plans::NewCustomPlan { name, base, is_visible, figures };
                let done = custom_plans::create(app, actor, new).await;
                outcome.take(format!("custom plan {}: made again", desired.name), done)?;
            }
        }
    }
    Ok(())
}

async fn roll_tenant_back(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    version: &ConfigVersion,
) -> Result<RolledBack, ActionError> {
    let now = app.now();
    let target = TenantAgreements::of(tenant, &version.lines)?;
    let current = app.store.tenant_agreements(tenant, now).await?;
    let mut outcome = RolledBack::default();
    for id in current.contracts.keys().filter(|id| !target.contracts.contains_key(id)) {
        let done = contracts::end(app, actor, tenant, *id).await;
        outcome.take(format!("contract {id}: ended"), done)?;
    }
    for (id, desired) in &target.contracts {
        match current.contracts.get(id) {
            Some(contract) if contract.until == desired.until => {}
            Some(_) => {
                let done = contracts::update(app, actor, tenant, *id, desired.until).await;
                outcome.take(format!("contract {id}: its end"), done)?;
            }
            // It would have ended already.
            None if desired.has_ended(now) => {}
            None => {
                let figures = desired.figures;
                let note = desired.note.clone();
                let new =
                    contracts::NewContract { figures, from: Some(desired.from), until: desired.until, note };
                let done = contracts::create(app, actor, tenant, new).await;
                outcome.take(format!("contract {id}: made again"), done)?;
            }
        }
    }
    for project in current.quotas.keys().filter(|project| !target.quotas.contains_key(project)) {
        let done = quotas::delete(app, actor, *project).await;
        outcome.take(format!("quota of project {project}: as by default"), done)?;
    }
    for (project, quota) in &target.quotas {
        if current.quotas.get(project) != Some(quota) {
            let done = quotas::set(app, actor, *project, *quota).await;
            outcome.take(format!("quota of project {project}"), done)?;
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::operator::chains;
    use crate::testing::{NOON, Site};
    use rpcgate_config::{PlanChange, QuotaChange};
    use rpcgate_core::caller::ProjectId;
    use rpcgate_process::LocalAccount;
    use rpcgate_store::{AcceptedConfig, AuditSubject, ConfigVersionFilter, Figures, Project};
    use std::time::Duration;

    fn actor() -> Actor {
        Actor::at_command_line(LocalAccount::current(), None, NOON)
    }

    async fn newest(site: &Site) -> ConfigVersion {
        site.app.store.config_versions(&ConfigVersionFilter::default(), None, 1).await.unwrap().remove(0)
    }

    fn figures(per_minute: u64) -> Figures {
        let mut figures = Figures::default();
        assert!(figures.set("per_minute", per_minute));
        figures
    }

    #[tokio::test]
    async fn a_scheduled_plan_change_that_took_effect_is_also_rolled_back() {
        let site = Site::new().await;
        let app = &site.app;
        let actor = actor();
        let plan = |per_minute| PlanChange { per_minute: Some(per_minute), ..PlanChange::default() };
        plans::update(app, &actor, "free", plan(20), None).await.unwrap();
        let good = newest(&site).await;
        let from = NOON.plus(Duration::from_secs(3_600));
        plans::update(app, &actor, "free", plan(1), Some(from)).await.unwrap();
        site.clock.advance(Duration::from_secs(7_200));
        let per_minute = async || plans::get(app, "free").await.unwrap().plan.per_minute;
        assert_eq!(per_minute().await, 1);
        let rolled = roll_back(app, &actor, good.number).await.unwrap();
        assert_eq!((rolled.done.len(), per_minute().await), (1, 20), "{rolled:?}");
        app.store.settle_plan_changes(app.now()).await.unwrap();
        assert_eq!(per_minute().await, 20);
    }

    // Shows (Commands and configuration): A rollback restores a version by the same actions, and leaves settings that
    // only the machine can change.
    #[tokio::test]
    async fn everything_that_operators_set_returns_to_what_it_was() {
        let site = Site::new().await;
        let app = &site.app;
        let actor = actor();
        let plan = |per_minute| PlanChange { per_minute, ..PlanChange::default() };
        let new = |name: &str| custom_plans::NewCustomPlan {
            name: name.into(),
            base: Tier::Standard,
            is_visible: false,
            figures: figures(7),
        };
        plans::update(app, &actor, "free", plan(Some(20)), None).await.unwrap();
        weights::put(app, &actor, "eth", "eth_call", 30).await.unwrap();
        let remaining = custom_plans::create(app, &actor, new("kept")).await.unwrap();
        let gone = custom_plans::create(app, &actor, new("gone")).await.unwrap();
        chains::switch(app, &actor, "btc", false).await.unwrap();
        let good = newest(&site).await;
        let before = app.store.service_settings().await.unwrap();

        plans::update(app, &actor, "free", PlanChange { per_hour: Some(1), ..plan(Some(1)) }, None)
            .await
            .unwrap();
        plans::update(app, &actor, "premium", plan(Some(1)), None).await.unwrap();
        weights::delete(app, &actor, "eth", "eth_call").await.unwrap();
        weights::put(app, &actor, "eth", "eth_getLogs", 1).await.unwrap();
        chains::switch(app, &actor, "btc", true).await.unwrap();
        chains::switch(app, &actor, "ltc", false).await.unwrap();
        let change = CustomPlanChange { figures: Some(figures(1)), ..CustomPlanChange::default() };
        custom_plans::update(app, &actor, remaining.id, change).await.unwrap();
        custom_plans::delete(app, &actor, gone.id).await.unwrap();
        custom_plans::create(app, &actor, new("wrong")).await.unwrap();

        let rolled = roll_back(app, &actor, good.number).await.unwrap();
        assert_eq!((rolled.done.len(), rolled.left.len()), (9, 0), "{rolled:?}");
        let mut after = app.store.service_settings().await.unwrap();
        let made = after.custom_plans.get_mut("gone").unwrap();
        assert_ne!(made.id, gone.id, "a new one has the name");
        (made.id, made.created_at) = (gone.id, gone.created_at);
        assert_eq!(after.overlay.plans[&Tier::Free], before.overlay.plans[&Tier::Free]);
        assert_eq!(after.lines(), before.lines());
        let again = roll_back(app, &actor, newest(&site).await.number).await.unwrap();
        assert!(again.done.is_empty(), "{again:?}");
        let audit = app.store.audit(AuditSubject::Everyone, 99).await.unwrap();
        assert!(audit.iter().any(|entry| entry.action == "config.rolled_back"));
        assert!(
            audit.iter().filter(|entry| entry.action == "weight.set").count() >= 3,
            "by the same actions"
        );
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn agreements_with_a_tenant_return_and_those_with_others_stay() {
        let site = Site::new().await;
        let app = &site.app;
        let actor = actor();
        let tenant = site.tenant().await;
        let other = site.tenant().await;
        let project = Project::new(ProjectId(7), tenant, "p", NOON);
        app.store.create_project(&project).await.unwrap();
        let day = Duration::from_secs(86_400);
        let new = |per_minute, until| contracts::NewContract {
            figures: figures(per_minute),
            from: None,
            until,
            note: "2027-1".into(),
        };
        let remaining =
            contracts::create(app, &actor, tenant, new(1, Some(NOON.plus(9 * day)))).await.unwrap();
        let ended = contracts::create(app, &actor, tenant, new(2, None)).await.unwrap();
        let short = contracts::create(app, &actor, tenant, new(3, Some(NOON.plus(day)))).await.unwrap();
        let quota = QuotaChange { cu_per_day: Some(5), ..QuotaChange::default() };
        quotas::put(app, &actor, project.id, quota).await.unwrap();
        let good = newest(&site).await;
        contracts::create(app, &actor, other, new(9, None)).await.unwrap();

        site.clock.advance(2 * day);
        contracts::update(app, &actor, tenant, remaining.id, Some(NOON.plus(5 * day))).await.unwrap();
        contracts::end(app, &actor, tenant, ended.id).await.unwrap();
        let wrong = contracts::create(app, &actor, tenant, new(4, None)).await.unwrap();
        quotas::delete(app, &actor, project.id).await.unwrap();
        let rps_limit = QuotaChange { rps_limit: Some(10), ..QuotaChange::default() };
        let slower = PlanChange { quota: rps_limit, ..PlanChange::default() };
        for tier in Tier::ALL {
            plans::update(app, &actor, tier.name(), slower, None).await.unwrap();
        }
        site.clock.advance(day);
        let rolled = roll_back(app, &actor, good.number).await.unwrap();
        assert!(rolled.left.is_empty(), "{rolled:?}");
        let agreements = app.store.tenant_agreements(tenant, app.now()).await.unwrap();
        assert_eq!(agreements.contracts[&remaining.id], remaining);
        assert!(
            !agreements.contracts.contains_key(&wrong.id) && !agreements.contracts.contains_key(&short.id)
        );
        let again: Vec<_> =
            agreements.contracts.values().filter(|one| one.figures == ended.figures).collect();
        let [again] = again[..] else { panic!("{agreements:?}") };
        assert_eq!((again.from, again.until, again.note.as_str()), (app.now(), None, "2027-1"));
        let quota = agreements.quotas[&project.id];
        assert_eq!((quota.cu_per_day, quota.rps_limit), (5, None), "not that of the plan of today");
        assert_eq!(app.store.tenant_agreements(other, app.now()).await.unwrap().contracts.len(), 1);
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_step_that_a_rule_forbids_is_reported_and_the_rest_is_done() {
        let site = Site::new().await;
        let app = &site.app;
        let actor = actor();
        let tenant = site.tenant().await;
        weights::put(app, &actor, "eth", "eth_call", 30).await.unwrap();
        let good = newest(&site).await;
        let new = custom_plans::NewCustomPlan {
            name: "used".into(),
            base: Tier::Standard,
            is_visible: false,
            figures: figures(7),
        };
        let used = custom_plans::create(app, &actor, new).await.unwrap();
        let moved = rpcgate_store::TenantChange {
            custom_plan: Some(used.id),
            ..rpcgate_store::TenantChange::default()
        };
        app.store.update_tenant(tenant, &moved, NOON).await.unwrap();
        weights::put(app, &actor, "eth", "eth_call", 1).await.unwrap();
        let rolled = roll_back(app, &actor, good.number).await.unwrap();
        assert_eq!(rolled.done, ["weight eth/eth_call: 30"]);
        let [(what, ActionError::Conflict(_))] = &rolled.left[..] else { panic!("{rolled:?}") };
        assert_eq!(what, "custom plan used: deleted");
    }

    #[tokio::test]
    async fn the_configuration_of_a_program_is_left_to_its_host() {
        let site = Site::new().await;
        let scope = ConfigScope::Gateway("one".into());
        let config = &site.app.settings.config;
        let accepted = AcceptedConfig::new(config, scope, ("a".into(), "a".into()), true, NOON);
        let number = site.app.store.record_config(&accepted, NOON).await.unwrap();
        let refused = roll_back(&site.app, &actor(), number).await;
        assert!(matches!(refused, Err(ActionError::Conflict(_))), "{refused:?}");
        assert!(matches!(roll_back(&site.app, &actor(), 99).await, Err(ActionError::NotFound(_))));
    }
}
