//! The effect of a hypothetical change: on a tenant, on several, and on all.

use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Amount;

/// The maximum number of tenants in an answer.
pub const MAX_LISTED: usize = 100;

/// A number with and without the change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BeforeAfter<T> {
    /// With the weights and plans in force.
    pub before: T,
    /// With those of the question.
    pub after: T,
}

impl<T: PartialEq> BeforeAfter<T> {
    /// Reports whether the change makes a difference.
    pub fn differs(&self) -> bool {
        self.before != self.after
    }
}

impl BeforeAfter<u64> {
    pub(super) fn add(&mut self, other: &BeforeAfter<u64>) {
        self.before = self.before.saturating_add(other.before);
        self.after = self.after.saturating_add(other.after);
    }

    fn distance(&self) -> u64 {
        self.before.abs_diff(self.after)
    }
}

/// The effect on one or several tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsageEffect {
    /// The charged amount, at the prices of the time.
    pub charged: Amount,
    /// Compute Units.
    pub units: BeforeAfter<u64>,
    /// The units at the price of the plan.
    pub amount: BeforeAfter<Amount>,
    /// The minimum number of requests that the plan's windows refuse.
    pub refused: BeforeAfter<u64>,
    /// The hours of projects at whose end their quota is used up.
    pub quota_hours: BeforeAfter<u64>,
}

impl UsageEffect {
    /// Reports whether the change makes a difference.
    pub fn differs(&self) -> bool {
        self.units.differs() || self.amount.differs() || self.refused.differs() || self.quota_hours.differs()
    }

    pub(super) fn add(&mut self, other: &UsageEffect) {
        self.charged.0 = self.charged.0.saturating_add(other.charged.0);
        self.units.add(&other.units);
        self.amount.before.0 = self.amount.before.0.saturating_add(other.amount.before.0);
        self.amount.after.0 = self.amount.after.0.saturating_add(other.amount.after.0);
        self.refused.add(&other.refused);
        self.quota_hours.add(&other.quota_hours);
    }

    /// Returns the sort key of tenants: the change of the amount, then of refusals, of the quota, and of units.
    pub(super) fn weight(&self) -> (u128, u64, u64, u64) {
        let amount = self.amount.before.0.abs_diff(self.amount.after.0);
        (amount, self.refused.distance(), self.quota_hours.distance(), self.units.distance())
    }
}

/// The effect on one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantEffect {
    /// The tenant.
    pub tenant: TenantId,
    /// The name.
    pub name: String,
    /// The name of its plan.
    pub plan: String,
    /// The effect.
    pub effect: UsageEffect,
}

/// The numbers of affected tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AffectedTenants {
    /// Tenants that would pay more.
    pub pay_more: u64,
    /// Tenants that would pay less.
    pub pay_less: u64,
    /// Tenants with more refused requests.
    pub refused_more: u64,
    /// Tenants with fewer refused requests.
    pub refused_less: u64,
    /// Tenants whose quota would be used up for more hours.
    pub quota_more: u64,
    /// Tenants whose quota would be used up for fewer hours.
    pub quota_less: u64,
}

impl AffectedTenants {
    pub(super) fn count(&mut self, effect: &UsageEffect) {
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
    /// The effect on the other tenants.
    pub of_others: UsageEffect,
    /// The effect on all tenants.
    pub total: UsageEffect,
    /// The numbers of affected tenants.
    pub affected: AffectedTenants,
    /// The projects whose quota was not followed hour by hour, because too many projects come near their quota.
    pub unfollowed_projects: u64,
}
