//! Figures that override others: those of a contract or of a custom plan.

use rpcgate_config::PlanChange;
use rpcgate_core::plan::{FigureUnit, Plan, PlanFigure, Price};
use std::collections::BTreeMap;
use std::fmt;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Its properties.
    pub of: &'static PlanFigure,
    /// The value, if given. Prices are in 10⁻¹² US dollars.
    pub value: Option<u64>,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.of.name;
        match (self.value, self.of.unit) {
            (Some(value), FigureUnit::Price) => write!(f, "{name} {}", Price(value).usd()),
            (Some(value), _) => write!(f, "{name} {value}"),
            (None, _) => f.write_str(name),
        }
    }
}

impl Figures {
    /// Returns all figures, including those that are not given.
    pub fn list(&self) -> [Figure; PlanFigure::COUNT] {
        let values = self.plan.values();
        std::array::from_fn(|index| Figure { of: &PlanFigure::ALL[index], value: values[index] })
    }

    /// Returns the given figures.
    pub fn given(&self) -> impl Iterator<Item = Figure> + use<> {
        self.list().into_iter().filter(|figure| figure.value.is_some())
    }

    /// Sets the figure with this name, and reports whether it exists and permits this value.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        self.plan.set(name, value)
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
            self.list().into_iter().filter_map(|figure| Some((figure.of.name, figure.value?))).collect();
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
        prop::collection::vec(prop::option::of(1_u64..1_000_000), PlanFigure::COUNT).prop_map(|values| {
            let mut figures = Figures::default();
            for (figure, value) in Figures::default().list().iter().zip(values) {
                if let Some(value) = value {
                    assert!(figures.set(figure.of.name, value), "{}", figure.of.name);
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
            assert!(figures.set(figure.of.name, 7), "{}", figure.of.name);
            let set: Vec<_> = figures.list().iter().map(|figure| figure.value).collect();
            let mut expected = vec![None; PlanFigure::COUNT];
            expected[index] = Some(7);
            assert_eq!(set, expected, "{}", figure.of.name);
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
        figures.set("price_per_cu", 250_000_000_000);
        figures.set("per_minute", 77);
        let shown: Vec<_> = figures.given().map(|figure| figure.to_string()).collect();
        assert_eq!(shown, ["per_minute 77", "price_per_cu 0.25"]);
    }

    proptest! {
        #[test]
        fn figures_are_read_as_they_were_stored(figures in any_figures()) {
            prop_assert_eq!(Figures::read(&figures.text()).unwrap(), figures);
        }

        // Shows (Plans, bills and payments): A project's own quota takes precedence over contracts, and the last of
        // several contracts decides.
        #[test]
        fn a_figure_is_that_of_the_uppermost_that_gives_it(
            layers in prop::collection::vec(any_figures(), 0..5),
        ) {
            let resolved = layers.iter().fold(Figures::default(), |below, above| above.over(&below));
            for (index, figure) in resolved.list().iter().enumerate() {
                let expected = layers.iter().rev().find_map(|figures| figures.list()[index].value);
                prop_assert_eq!(figure.value, expected, "{}", figure.of.name);
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
