//! Figures that override others: those of a contract or of a custom plan.

use rpcgate_config::{MonthlyFees, PlanChange};
use rpcgate_core::plan::{Counts, Plan, Price};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// The largest limit, as in the configuration.
const MAX_LIMIT: u64 = 1_000_000_000_000;

/// The largest price of a Compute Unit: 1,000 US dollars.
const MAX_PRICE: u64 = 1_000_000_000_000_000;

/// Overriding figures. `None` leaves a figure unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Limits, price, quota and fee.
    pub plan: PlanChange,
}

impl From<PlanChange> for Figures {
    fn from(plan: PlanChange) -> Self {
        Figures { plan }
    }
}

/// One of [`Figures`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Its name in every interface.
    pub name: &'static str,
    /// The permitted values.
    pub range: RangeInclusive<u64>,
    /// The value, if given. Prices are in 10⁻¹² US dollars.
    pub value: Option<u64>,
}

const PRICE: &str = "price_per_cu";

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) if self.name == PRICE => write!(f, "{PRICE} {}", Price(value).usd()),
            Some(value) => write!(f, "{} {value}", self.name),
            None => f.write_str(self.name),
        }
    }
}

impl Figures {
    /// Returns all figures, including those that are not given.
    pub fn list(&self) -> [Figure; 16] {
        let PlanChange { quota, monthly_fee, .. } = &self.plan;
        let plan = &self.plan;
        let figure = |name, range, value| Figure { name, range, value };
        let limit = |name, least, value| figure(name, least..=MAX_LIMIT, value);
        let small =
            |name, value: Option<u32>| figure(name, 0..=u64::from(Counts::MOST), value.map(u64::from));
        let counts = &plan.counts;
        [
            limit("per_minute", 1, plan.per_minute),
            limit("per_hour", 1, plan.per_hour),
            limit("per_day", 1, plan.per_day),
            limit("heavy_per_minute", 0, plan.heavy_per_minute),
            figure(PRICE, 0..=MAX_PRICE, plan.price.map(|price| price.0)),
            small("ws_connections", plan.ws_connections),
            small("ws_connections_per_key", plan.ws_connections_per_key),
            small("projects", counts.projects),
            small("keys_per_project", counts.keys_per_project),
            small("members", counts.members),
            small("webhooks_per_project", counts.webhooks_per_project),
            small("subscriptions_per_webhook", counts.subscriptions_per_webhook),
            figure("cu_per_day", 0..=u64::MAX, quota.cu_per_day),
            figure("cu_per_month", 0..=u64::MAX, quota.cu_per_month),
            figure("rps_limit", 1..=u64::MAX, quota.rps_limit),
            figure("monthly_fee_cents", 0..=MonthlyFees::MOST, *monthly_fee),
        ]
    }

    /// Sets the figure with this name, and reports whether it exists and permits this value.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let (given, small) = (Some(value), u32::try_from(value).ok());
        let plan = &mut self.plan;
        let PlanChange { counts, quota, monthly_fee, .. } = plan;
        match name {
            "per_minute" => plan.per_minute = given,
            "per_hour" => plan.per_hour = given,
            "per_day" => plan.per_day = given,
            "heavy_per_minute" => plan.heavy_per_minute = given,
            PRICE => plan.price = given.map(Price),
            "ws_connections" => plan.ws_connections = small,
            "ws_connections_per_key" => plan.ws_connections_per_key = small,
            "projects" => counts.projects = small,
            "keys_per_project" => counts.keys_per_project = small,
            "members" => counts.members = small,
            "webhooks_per_project" => counts.webhooks_per_project = small,
            "subscriptions_per_webhook" => counts.subscriptions_per_webhook = small,
            "cu_per_day" => quota.cu_per_day = given,
            "cu_per_month" => quota.cu_per_month = given,
            "rps_limit" => quota.rps_limit = given,
            "monthly_fee_cents" => *monthly_fee = given,
            _ => return false,
        }
        self.list().iter().any(|figure| figure.name == name && figure.value == given)
    }

    /// Reports whether no figure is given.
    pub fn is_empty(&self) -> bool {
        *self == Figures::default()
    }

    /// Returns these figures, completed by those of `below`.
    #[must_use]
    pub fn over(&self, below: &Figures) -> Figures {
        self.plan.over(&below.plan).into()
    }

    /// Returns `plan` with these figures applied.
    #[must_use]
    pub fn plan(&self, mut plan: Plan) -> Plan {
        self.plan.apply(&mut plan);
        plan
    }

    /// Returns the stored form: a JSON object with the given figures.
    fn text(&self) -> String {
        let given: BTreeMap<&str, u64> =
            self.list().into_iter().filter_map(|figure| Some((figure.name, figure.value?))).collect();
        serde_json::json!(given).to_string()
    }

    /// Reads the form that [`text`](Figures::text) returns.
    fn read(stored: &str) -> Option<Self> {
        let given: BTreeMap<String, u64> = serde_json::from_str(stored).ok()?;
        let mut figures = Figures::default();
        for (name, value) in given {
            if !figures.set(&name, value) {
                return None;
            }
        }
        Some(figures)
    }
}

rpcgate_core::sql_value! {
    Figures, "list of figures", String, |figures| figures.text(), |stored| Figures::read(stored)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use rpcgate_core::plan::{PlanQuota, Tier};

    pub(in crate::query) fn any_figures() -> impl Strategy<Value = Figures> {
        prop::collection::vec(prop::option::of(1_u64..1_000_000), 16).prop_map(|values| {
            let mut figures = Figures::default();
            for (figure, value) in Figures::default().list().iter().zip(values) {
                if let Some(value) = value {
                    assert!(figures.set(figure.name, value), "{}", figure.name);
                }
            }
            figures
        })
    }

    #[test]
    fn each_figure_is_set_by_its_name_alone() {
        let none = Figures::default();
        assert!(none.is_empty());
        for (index, figure) in none.list().iter().enumerate() {
            let mut figures = none;
            assert!(figures.set(figure.name, 7), "{}", figure.name);
            let set: Vec<_> = figures.list().iter().map(|figure| figure.value).collect();
            let mut expected = vec![None; 16];
            expected[index] = Some(7);
            assert_eq!(set, expected, "{}", figure.name);
            assert!(!figures.is_empty());
        }
        let mut figures = none;
        assert!(!figures.set("tier", 1));
        assert!(!figures.set("projects", u64::MAX), "a count that would be another number");
    }

    #[test]
    fn stored_text_that_this_program_cannot_have_written_is_unreadable() {
        for text in ["", "[]", "{\"gold\":1}", "{\"per_minute\":-1}", "{\"members\":99999999999}"] {
            assert!(Figures::read(text).is_none(), "{text}");
        }
        assert_eq!(Figures::read("{}").unwrap(), Figures::default());
    }

    #[test]
    fn a_price_is_shown_in_dollars() {
        let mut figures = Figures::default();
        figures.set(PRICE, 250_000_000_000);
        figures.set("per_minute", 77);
        let given: Vec<_> = figures.list().into_iter().filter(|figure| figure.value.is_some()).collect();
        let shown: Vec<_> = given.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["per_minute 77", "price_per_cu 0.25"]);
    }

    proptest! {
        #[test]
        fn figures_are_read_as_they_were_stored(figures in any_figures()) {
            prop_assert_eq!(Figures::read(&figures.text()).unwrap(), figures);
        }

        #[test]
        fn a_figure_is_that_of_the_uppermost_that_gives_it(
            layers in prop::collection::vec(any_figures(), 0..5),
        ) {
            let resolved = layers.iter().fold(Figures::default(), |below, above| above.over(&below));
            for (index, figure) in resolved.list().iter().enumerate() {
                let expected = layers.iter().rev().find_map(|figures| figures.list()[index].value);
                prop_assert_eq!(figure.value, expected, "{}", figure.name);
            }
            let base = Plan::of(Tier::Standard);
            let plan = resolved.plan(base);
            prop_assert_eq!(plan.per_minute, resolved.plan.per_minute.unwrap_or(base.per_minute));
            prop_assert_eq!(plan.price, resolved.plan.price.unwrap_or(base.price));
            prop_assert_eq!(plan.counts.members, resolved.plan.counts.members.unwrap_or(base.counts.members));
            prop_assert!(plan.ws_connections_per_key <= plan.ws_connections);
            let quota = plan.quota;
            let default = PlanQuota::DEFAULT;
            prop_assert_eq!(quota.cu_per_day, resolved.plan.quota.cu_per_day.unwrap_or(default.cu_per_day));
            prop_assert_eq!(quota.rps_limit, resolved.plan.quota.rps_limit);
            prop_assert_eq!(quota.cu_per_month, resolved.plan.quota.cu_per_month);
        }
    }
}
