//! What an operator allows a node: how many calls a second, how many a month, and what they cost.

use crate::clock::Time;
use crate::month::CalendarMonth;
use std::time::Duration;

/// The most calls a second of a [`NodeRate`].
pub const MAX_NODE_RATE: u32 = 1_000_000;
/// The most calls of a monthly budget.
pub const MAX_MONTHLY_CALLS: u64 = 1_000_000_000_000;

/// What may be used of a monthly budget before its time, so that the first call of a month is not too early.
const HEAD_START: Duration = Duration::from_secs(3_600);

/// How many calls a node gets in a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeRate {
    /// Calls a second, on average.
    pub per_second: u32,
    /// Calls at once, after a time with fewer.
    pub burst: u32,
}

/// Whether a node is used when its monthly budget is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OverBudget {
    /// It is not, until the next month.
    #[default]
    Refuse,
    /// It is, after the nodes of its priority that have something left.
    Allow,
}

/// What a million calls cost, in millionths of a unit that the operator chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct NodePrice(pub u64);

impl NodePrice {
    /// The highest price, in units.
    const HIGHEST: f64 = 1e9;

    /// From units for a million calls. `None` for a price below 0, an absurd one, or one that would be rounded to 0.
    pub fn from_units(units: f64) -> Option<Self> {
        let is_price = units.is_finite() && (0.0..=Self::HIGHEST).contains(&units);
        let price = is_price.then(|| NodePrice((units * 1e6).round() as u64))?;
        (price.0 > 0 || units == 0.0).then_some(price)
    }

    /// In units for a million calls.
    pub fn units(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// What so many calls cost, in units.
    pub fn of_calls(self, calls: u64) -> f64 {
        // The product is exact as long as it is below 2^53, so that what is shown is rounded once.
        (self.0 as f64 * calls as f64) / 1e12
    }
}

/// What an operator allows a node.
///
/// ```
/// use rpcgate_core::chain::{NodeAllowance, NodePrice, NodeRate};
///
/// let provider = NodeAllowance {
///     rate: Some(NodeRate { per_second: 50, burst: 100 }),
///     monthly_calls: Some(30_000_000),
///     price: NodePrice::from_units(2.5),
///     ..NodeAllowance::default()
/// };
/// assert!(!provider.is_none() && NodeAllowance::default().is_none());
/// assert_eq!(provider.left(30_000_001), Some(0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeAllowance {
    /// How many calls it gets in a second; `None`: any number.
    pub rate: Option<NodeRate>,
    /// How many calls it gets in a month of the UTC calendar; `None`: any number.
    pub monthly_calls: Option<u64>,
    /// Whether it is used beyond that.
    pub over_budget: OverBudget,
    /// What its calls cost; `None` for a node whose calls cost nothing.
    pub price: Option<NodePrice>,
}

impl NodeAllowance {
    /// Whether nothing is limited and nothing costs anything, so that its calls need not be counted.
    pub const fn is_none(&self) -> bool {
        self.rate.is_none() && self.monthly_calls.is_none() && self.price.is_none()
    }

    /// The monthly budget that no call exceeds.
    pub const fn hard_budget(&self) -> Option<u64> {
        match self.over_budget {
            OverBudget::Refuse => self.monthly_calls,
            OverBudget::Allow => None,
        }
    }

    /// What is left of the monthly budget, if there is one, after so many calls.
    pub const fn left(&self, used: u64) -> Option<u64> {
        match self.monthly_calls {
            Some(budget) => Some(budget.saturating_sub(used)),
            None => None,
        }
    }

    /// Whether the monthly budget is used faster than the month passes: more of it than of the month, by more than is due in
    /// an hour. Without a budget nothing is.
    pub fn is_ahead(&self, used: u64, now: Time) -> bool {
        let Some(budget) = self.monthly_calls else { return false };
        let month = CalendarMonth::of(now);
        let whole = month.end().since(month.begin()).as_micros();
        let due = now.since(month.begin()).saturating_add(HEAD_START).as_micros().min(whole);
        u128::from(used) * whole > u128::from(budget) * due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-01T00:00:00Z; November has 30 days.
    const NOVEMBER: u64 = 1_793_491_200;
    const DAY: u64 = 86_400;

    fn budget(calls: u64) -> NodeAllowance {
        NodeAllowance { monthly_calls: Some(calls), ..NodeAllowance::default() }
    }

    #[test]
    fn a_budget_is_used_evenly_over_its_month_with_an_hour_in_advance() {
        let allowance = budget(720_000);
        let is_ahead = |used, secs| allowance.is_ahead(used, Time::from_secs(NOVEMBER + secs));
        assert!(!is_ahead(1_000, 0) && is_ahead(1_001, 0), "of an hour");
        assert!(!is_ahead(25_000, DAY) && is_ahead(25_001, DAY));
        assert!(!is_ahead(720_000, 30 * DAY - 1) && is_ahead(720_001, 30 * DAY - 1));
        assert!(is_ahead(720_000, 30 * DAY), "December has one more day");
        assert!(!NodeAllowance::default().is_ahead(u64::MAX, Time::from_secs(NOVEMBER)));
    }

    #[test]
    fn a_budget_is_hard_unless_it_may_be_exceeded() {
        assert_eq!((budget(7).hard_budget(), NodeAllowance::default().hard_budget()), (Some(7), None));
        let soft = NodeAllowance { over_budget: OverBudget::Allow, ..budget(7) };
        assert_eq!((soft.hard_budget(), soft.left(9), soft.left(3)), (None, Some(0), Some(4)));
    }

    #[test]
    fn prices_are_exact_to_a_millionth_and_none_becomes_free_by_rounding() {
        assert_eq!(NodePrice::from_units(2.5), Some(NodePrice(2_500_000)));
        assert_eq!(NodePrice::from_units(0.0), Some(NodePrice(0)));
        for units in [-1.0, 1e-9, 1e10, f64::NAN, f64::INFINITY] {
            assert_eq!(NodePrice::from_units(units), None, "{units}");
        }
        assert!((NodePrice(2_500_000).of_calls(4_000_000) - 10.0).abs() < 1e-9);
        assert_eq!(NodePrice(2_500_000).of_calls(1).to_string(), "0.0000025");
    }

    proptest! {
        #[test]
        fn a_node_that_is_used_only_while_it_is_not_ahead_lasts_for_the_whole_month_and_leaves_little(
            calls in 1_000_u64..20_000,
            steps in 200_u64..2_000,
            first in 0_u16..1_200,
        ) {
            let allowance = budget(calls);
            let month = CalendarMonth::from_number(first);
            let length = month.end().micros() - month.begin().micros();
            let mut used = 0;
            for step in 0..steps {
                let now = Time::from_micros(month.begin().micros() + length * step / steps);
                // As many calls as anybody may want, in every step.
                while !allowance.is_ahead(used, now) {
                    used += 1;
                }
                let passed = u128::from(calls) * u128::from(step);
                let hour = u128::from(calls) * HEAD_START.as_micros() / u128::from(length) + 1;
                prop_assert!(u128::from(used) <= passed / u128::from(steps) + hour + 1);
            }
            prop_assert!(used <= calls + 1);
            prop_assert!(used >= calls - calls / steps - 2, "{used} of {calls}");
            prop_assert!(!allowance.is_ahead(calls / 744, month.next().begin()), "the next month begins anew");
        }
    }
}
