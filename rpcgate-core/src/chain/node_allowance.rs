//! An operator's limits for a node: calls per second, calls per month, and their price.

use crate::clock::Time;
use crate::month::CalendarMonth;
use std::time::Duration;

/// The maximum of [`NodeRate`] values, in calls per second.
pub const MAX_NODE_RATE: u32 = 1_000_000;
/// The maximum monthly budget, in calls.
pub const MAX_MONTHLY_CALLS: u64 = 1_000_000_000_000;

/// The head start of a monthly budget, so that the first calls of a month are not ahead of it.
const HEAD_START: Duration = Duration::from_secs(3_600);

/// A rate limit of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeRate {
    /// Average calls per second.
    pub per_second: u32,
    /// Maximum calls at once, after a time with fewer.
    pub burst: u32,
}

/// The policy for a node that has used its monthly budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OverBudget {
    /// The node is not used until the next month.
    #[default]
    Refuse,
    /// The node is used after the nodes of its priority with budget left.
    Allow,
}

/// The price of a million calls, in millionths of a unit that the operator chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct NodePrice(pub u64);

impl NodePrice {
    /// The highest price, in units.
    const HIGHEST: f64 = 1e9;

    /// Converts units per million calls. `None` if the price is negative, above 10⁹, or would be rounded to 0.
    pub fn from_units(units: f64) -> Option<Self> {
        let is_price = units.is_finite() && (0.0..=Self::HIGHEST).contains(&units);
        let price = is_price.then(|| NodePrice((units * 1e6).round() as u64))?;
        (price.0 > 0 || units == 0.0).then_some(price)
    }

    /// Returns the price in units per million calls.
    pub fn units(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the price of `calls` calls, in units.
    pub fn of_calls(self, calls: u64) -> f64 {
        // The product is exact below 2^53, so that the displayed value is rounded once.
        (self.0 as f64 * calls as f64) / 1e12
    }
}

/// An operator's limits for a node.
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
    /// The rate limit; `None`: unlimited.
    pub rate: Option<NodeRate>,
    /// The maximum number of calls in a UTC calendar month; `None`: unlimited.
    pub monthly_calls: Option<u64>,
    /// The policy beyond the monthly budget.
    pub over_budget: OverBudget,
    /// The price of its calls; `None` if they are free.
    pub price: Option<NodePrice>,
}

impl NodeAllowance {
    /// Reports whether nothing is limited or priced, so that its calls need not be counted.
    pub const fn is_none(&self) -> bool {
        self.rate.is_none() && self.monthly_calls.is_none() && self.price.is_none()
    }

    /// Returns the monthly budget that no call exceeds.
    pub const fn hard_budget(&self) -> Option<u64> {
        match self.over_budget {
            OverBudget::Refuse => self.monthly_calls,
            OverBudget::Allow => None,
        }
    }

    /// Returns the rest of the monthly budget after `used` calls, if there is a budget.
    pub const fn left(&self, used: u64) -> Option<u64> {
        match self.monthly_calls {
            Some(budget) => Some(budget.saturating_sub(used)),
            None => None,
        }
    }

    /// Reports whether the budget is used faster than the month passes, by more than an hour's share.
    pub fn is_ahead(&self, used: u64, now: Time) -> bool {
        let Some(budget) = self.monthly_calls else { return false };
        let month = CalendarMonth::of(now);
        let total = month.end().since(month.begin()).as_micros();
        let due = now.since(month.begin()).saturating_add(HEAD_START).as_micros().min(total);
        u128::from(used) * total > u128::from(budget) * due
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
        // Shows (Nodes and cache).
        #[test]
        fn a_node_used_only_when_not_ahead_lasts_the_whole_month_and_leaves_little_unused(
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
                // Uses the maximum number of calls in every step.
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
