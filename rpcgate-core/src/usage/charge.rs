//! The billing ledger: all charges, at the price of their time.
//!
//! Prices and plans change, so usage and the current plan do not show the debt. Each charge is stored with the tier and
//! the price from the call's own record, and with the chain, because an invoice lists it.

use super::metrics::Metrics;
use crate::caller::{ProjectId, TenantId};
use crate::plan::{Price, Tier};
use std::fmt;
use std::iter::Sum;

/// The charges of a project on one chain in a UTC hour at one price.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Charge {
    /// The number of the UTC hour of arrival, counted from the epoch.
    pub hour: u64,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The project.
    pub project: ProjectId,
    /// The path of the chain.
    pub chain: String,
    /// The tenant's tier at that time.
    pub tier: Tier,
    /// The price of a Compute Unit at that time.
    pub price: Price,
    /// The number of calls charged at least one Compute Unit.
    pub calls: u64,
    /// Compute Units charged.
    pub units: u64,
}

pub(crate) type Account = (TenantId, u64, ProjectId, String, Tier, Price);

impl Charge {
    /// Creates the charge of these calls; `None` if they cost nothing.
    pub(crate) fn of(account: Account, metrics: &Metrics) -> Option<Self> {
        let (tenant, hour, project, chain, tier, price) = account;
        let Metrics { billed_requests: calls, billable_units: units, .. } = *metrics;
        (calls > 0 || units > 0).then_some(Charge { hour, tenant, project, chain, tier, price, calls, units })
    }
}

/// The charges of a project on one chain at one price in several hours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Charged {
    /// The project, which may no longer exist.
    pub project: ProjectId,
    /// The path of the chain. Empty for charges stored before the ledger had chains.
    pub chain: String,
    /// The tenant's tier at that time.
    pub tier: Tier,
    /// The price of a Compute Unit at that time.
    pub price: Price,
    /// The number of calls charged at least one Compute Unit.
    pub calls: u64,
    /// Compute Units charged.
    pub units: u64,
}

impl Charged {
    /// Returns the amount owed.
    pub const fn amount(&self) -> Amount {
        Amount(self.units as u128 * self.price.0 as u128)
    }
}

/// An amount of money in 10⁻¹² US dollars, like prices, so that nothing is rounded.
///
/// ```
/// use rpcgate_core::usage::Amount;
///
/// assert_eq!(Amount(1_250_000_000_000).to_string(), "1.250000000000");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Amount(pub u128);

impl Sum for Amount {
    fn sum<I: Iterator<Item = Amount>>(amounts: I) -> Self {
        Amount(amounts.fold(0, |sum, amount| sum.saturating_add(amount.0)))
    }
}

impl fmt::Display for Amount {
    /// Writes US dollars with all twelve decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DOLLAR: u128 = 1_000_000_000_000;
        write!(f, "{}.{:012}", self.0 / DOLLAR, self.0 % DOLLAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn charged(tier: Tier, units: u64) -> Charged {
        let price = Plan::of(tier).price;
        Charged { project: ProjectId(1), chain: "toy".into(), tier, price, calls: 1, units }
    }

    #[test]
    fn amounts_are_exact_for_any_number_of_charges() {
        let thirds = charged(Tier::Enterprise, 1);
        let sum: Amount = std::iter::repeat_n(thirds.amount(), 3_333_333).sum();
        assert_eq!(sum.to_string(), "666.666600000000");
        let most = Charged { price: Price(u64::MAX), units: u64::MAX, ..thirds };
        assert_eq!(most.amount(), Amount(u128::from(u64::MAX) * u128::from(u64::MAX)));
        assert_eq!(Amount::default().to_string(), "0.000000000000");
    }

    #[test]
    fn a_charge_of_the_free_plan_is_owed_only_at_the_price_of_a_contract() {
        let free = charged(Tier::Free, 1_000);
        assert_eq!(free.amount(), Amount(0));
        assert_eq!(Charged { price: Price(7), ..free }.amount(), Amount(7_000));
    }

    #[test]
    fn a_call_that_cost_nothing_is_not_a_charge() {
        let account = (TenantId(1), 5, ProjectId(2), "toy".to_owned(), Tier::Standard, Price(3));
        assert_eq!(Charge::of(account.clone(), &Metrics { requests: 9, ..Metrics::default() }), None);
        let metrics = Metrics { requests: 9, billed_requests: 2, billable_units: 10, ..Metrics::default() };
        let charge = Charge::of(account, &metrics).unwrap();
        assert_eq!((charge.hour, charge.calls, charge.units, charge.price), (5, 2, 10, Price(3)));
    }
}
