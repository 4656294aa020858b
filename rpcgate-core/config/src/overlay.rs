//! Operators' settings from the API, which override the file.

use super::Config;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{PlanChange, Tier};
use std::collections::{BTreeMap, BTreeSet};

/// A change of a plan that takes effect at its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduledChange {
    /// The time at which it takes effect.
    pub from: Time,
    /// The plan.
    pub tier: Tier,
    /// The changed limits.
    pub figures: PlanChange,
}

/// All operators' settings, to be applied to a configuration.
///
/// ```
/// use rpcgate_config::{Config, Overlay, PlanChange};
/// use rpcgate_core::plan::Tier;
///
/// let mut overlay = Overlay::default();
/// overlay.plans.insert(Tier::Free, PlanChange { per_minute: Some(20), ..PlanChange::default() });
/// let config = overlay.over(&Config::default());
/// assert_eq!((config.plans.free.per_minute, config.plans.free.per_hour), (20, 500));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overlay {
    /// Plans by tier.
    pub plans: BTreeMap<Tier, PlanChange>,
    /// Compute Units by chain and method.
    pub weights: BTreeMap<String, BTreeMap<String, u32>>,
    /// Enabled chains. A chain is served only if both the file and the operator enable it.
    pub chains: BTreeMap<String, bool>,
    /// Scheduled changes of plans, the earliest first.
    pub scheduled: Vec<ScheduledChange>,
    /// The drained nodes, by chain and name. They stay in the configuration, and a gateway informs its pools.
    pub drained: BTreeSet<(String, String)>,
}

impl Overlay {
    /// Returns the settings in force at `now`: scheduled changes that are due are applied, and the others removed.
    #[must_use]
    pub fn at(&self, now: Time) -> Overlay {
        let mut in_force = Overlay { scheduled: Vec::new(), ..self.clone() };
        for ScheduledChange { tier, figures, .. } in self.scheduled.iter().filter(|one| one.from <= now) {
            let plan = in_force.plans.entry(*tier).or_default();
            *plan = figures.over(plan);
        }
        in_force
    }

    /// Applies these settings to `config`, without scheduled changes. Unknown chains are ignored.
    pub fn over(&self, config: &Config) -> Config {
        let mut config = config.clone();
        for (tier, change) in &self.plans {
            change.apply(config.plans.of_mut(*tier));
            if let Some(fee) = change.monthly_fee {
                *config.billing.fees.of_mut(*tier) = fee;
            }
        }
        for (name, weights) in &self.weights {
            if let Some(chain) = config.chains.get_mut(name) {
                chain.cu.extend(weights.iter().map(|(method, cu)| (method.clone(), *cu)));
            }
        }
        for (name, on) in &self.chains {
            if let Some(chain) = config.chains.get_mut(name) {
                chain.enabled &= on;
            }
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use rpcgate_core::plan::{Plan, PlanQuota, QuotaChange};

    #[test]
    fn operators_stream_limits_override_the_file_and_a_key_has_no_more_than_its_project() {
        let of = |ws_connections, ws_connections_per_key| {
            let mut plan = Plan::of(Tier::Free).with_ws_connections(10).with_ws_connections_per_key(4);
            PlanChange { ws_connections, ws_connections_per_key, ..PlanChange::default() }.apply(&mut plan);
            (plan.ws_connections, plan.ws_connections_per_key)
        };
        assert_eq!(of(None, None), (10, 4));
        assert_eq!(of(Some(20), None), (20, 4));
        assert_eq!(of(Some(20), Some(7)), (20, 7));
        assert_eq!(of(Some(3), Some(7)), (3, 3));
        assert_eq!(of(None, Some(99)), (10, 10));
    }

    #[test]
    fn quotas_and_fees_that_operators_set_override_those_of_the_file_limit_by_limit() {
        let text = "[plans.free]\ncu_per_day = 7\nrps_limit = 3\n[billing.fees]\nfree = 100\npremium = 200\n";
        let config = Config::read(&Input { file: Some(("f", text)), ..Input::default() }).unwrap();
        let quota = QuotaChange { cu_per_day: Some(9), cu_per_month: Some(50), rps_limit: None };
        let change = PlanChange { quota, monthly_fee: Some(300), ..PlanChange::default() };
        let overlay = Overlay { plans: [(Tier::Free, change)].into(), ..Overlay::default() };
        let over = overlay.over(&config);
        let expected = PlanQuota { cu_per_day: 9, cu_per_month: Some(50), rps_limit: Some(3) };
        assert_eq!((over.plans.free.quota, over.plans.premium.quota), (expected, PlanQuota::DEFAULT));
        assert_eq!((over.billing.fees.free, over.billing.fees.premium), (300, 200));
    }

    #[test]
    fn a_scheduled_change_is_in_force_from_its_time_on() {
        let change = |secs, per_minute, per_hour| {
            let figures = PlanChange { per_minute, per_hour, ..PlanChange::default() };
            ScheduledChange { from: Time::from_secs(secs), tier: Tier::Free, figures }
        };
        let set = PlanChange { per_minute: Some(5), ..PlanChange::default() };
        let overlay = Overlay {
            plans: [(Tier::Free, set)].into(),
            scheduled: vec![change(10, Some(6), Some(60)), change(20, Some(7), None)],
            ..Overlay::default()
        };
        let at = |secs| {
            let in_force = overlay.at(Time::from_secs(secs));
            assert!(in_force.scheduled.is_empty());
            let plan = in_force.plans[&Tier::Free];
            (plan.per_minute, plan.per_hour)
        };
        assert_eq!(at(9), (Some(5), None));
        assert_eq!((at(10), at(19)), ((Some(6), Some(60)), (Some(6), Some(60))));
        assert_eq!(at(20), (Some(7), Some(60)));
        assert_eq!(overlay.over(&Config::default()).plans.free.per_minute, 5, "not before it is due");
    }

    // Shows (Management): Settings of operators override the file; a chain is served only if both enable it.
    #[test]
    fn operators_override_the_file_and_neither_alone_enables_a_chain() {
        let text = "[chains.eth]\ncu = { a = 1, b = 2 }\n[chains.btc]\nenabled = false\n";
        let input = Input { chains: &["eth", "btc", "ltc"], file: Some(("f", text)), ..Input::default() };
        let config = Config::read(&input).unwrap();
        let weights = BTreeMap::from([("b".to_owned(), 9), ("c".to_owned(), 3)]);
        let overlay = Overlay {
            weights: BTreeMap::from([("eth".into(), weights), ("gone".into(), BTreeMap::new())]),
            chains: BTreeMap::from([("btc".into(), true), ("ltc".into(), false), ("gone".into(), true)]),
            ..Overlay::default()
        };
        let over = overlay.over(&config);
        let cu: Vec<_> = over.chains["eth"].cu.iter().map(|(method, cu)| (method.as_str(), *cu)).collect();
        assert_eq!(cu, [("a", 1), ("b", 9), ("c", 3)]);
        let on: Vec<_> = over.chains.iter().map(|(name, chain)| (name.as_str(), chain.enabled)).collect();
        assert_eq!(on, [("btc", false), ("eth", true), ("ltc", false)]);
        assert_eq!(Overlay::default().over(&config), config);
    }
}
