//! Plans: limits of requests, heavy calls, Compute Units, open streams and resources, and the price of a Compute Unit.

mod figures;
mod table;

pub use figures::{Counts, CountsChange, FigureUnit, Plan, PlanChange, PlanFigure, QuotaChange};
use std::fmt;
use std::str::FromStr;

/// A plan's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Tier {
    /// Metered but never billed: only a contract, or a custom plan with this base, has a price.
    Free,
    /// The smallest paid plan.
    Standard,
    /// Twice the windows of Standard at half its price.
    Premium,
    /// The largest plan.
    Enterprise,
}

impl Tier {
    /// All tiers, smallest first.
    pub const ALL: [Tier; 4] = [Tier::Free, Tier::Standard, Tier::Premium, Tier::Enterprise];

    /// Returns the name that every interface uses.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Free => "free",
            Tier::Standard => "standard",
            Tier::Premium => "premium",
            Tier::Enterprise => "enterprise",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that does not name a [`Tier`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownTier;

impl fmt::Display for UnknownTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a plan: expected free, standard, premium or enterprise")
    }
}

impl std::error::Error for UnknownTier {}

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(s: &str) -> Result<Self, UnknownTier> {
        Tier::ALL.into_iter().find(|tier| tier.name() == s).ok_or(UnknownTier)
    }
}

/// A price per Compute Unit in units of 10⁻¹² US dollars, so that sums are exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct Price(pub u64);

impl Price {
    /// Converts US dollars per unit. `None` if the price is negative, above 1,000 USD, or would be rounded to 0.
    pub fn from_usd(usd: f64) -> Option<Self> {
        let is_price = usd.is_finite() && (0.0..=1_000.0).contains(&usd);
        let price = is_price.then(|| Price((usd * 1e12).round() as u64))?;
        (price.0 > 0 || usd == 0.0).then_some(price)
    }

    /// Returns the price in US dollars per unit.
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl From<u64> for Price {
    fn from(picodollars: u64) -> Price {
        Price(picodollars)
    }
}

impl From<Price> for u64 {
    fn from(price: Price) -> u64 {
        price.0
    }
}

/// The quota of a project without its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanQuota {
    /// Compute Units in any rolling 24 hours; 0 refuses every call that costs something.
    pub cu_per_day: u64,
    /// Recorded, not enforced.
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project.
    pub rps_limit: Option<u64>,
}

impl PlanQuota {
    /// 100,000 Compute Units in 24 hours, for every plan without its own quota.
    pub const DEFAULT: PlanQuota = PlanQuota { cu_per_day: 100_000, cu_per_month: None, rps_limit: None };
}

impl Plan {
    /// Sets the windows: requests of a key in a UTC minute, hour and day.
    #[must_use]
    pub const fn with_windows(mut self, per_minute: u64, per_hour: u64, per_day: u64) -> Self {
        (self.per_minute, self.per_hour, self.per_day) = (per_minute, per_hour, per_day);
        self
    }

    /// Sets the number of heavy calls in a UTC minute.
    #[must_use]
    pub const fn with_heavy_per_minute(mut self, heavy_per_minute: u64) -> Self {
        self.heavy_per_minute = heavy_per_minute;
        self
    }

    /// Sets the price.
    #[must_use]
    pub const fn with_price(mut self, price: Price) -> Self {
        self.price = price;
        self
    }

    /// Sets the number of open streams per project. The number per key follows it, unless it was set
    /// [lower](Plan::with_ws_connections_per_key).
    ///
    /// ```
    /// use rpcgate_core::plan::{Plan, Tier};
    ///
    /// let plan = Plan::of(Tier::Free).with_ws_connections(8);
    /// assert_eq!((plan.ws_connections, plan.ws_connections_per_key), (8, 8));
    /// let plan = plan.with_ws_connections_per_key(2).with_ws_connections(9);
    /// assert_eq!((plan.ws_connections, plan.ws_connections_per_key), (9, 2));
    /// ```
    #[must_use]
    pub const fn with_ws_connections(mut self, ws_connections: u32) -> Self {
        if self.ws_connections_per_key >= self.ws_connections || self.ws_connections_per_key > ws_connections
        {
            self.ws_connections_per_key = ws_connections;
        }
        self.ws_connections = ws_connections;
        self
    }

    /// Sets the number of open streams per key, at most that of the project.
    #[must_use]
    pub const fn with_ws_connections_per_key(mut self, per_key: u32) -> Self {
        self.ws_connections_per_key =
            if per_key < self.ws_connections { per_key } else { self.ws_connections };
        self
    }

    /// Sets the quota of projects without their own.
    #[must_use]
    pub const fn with_quota(mut self, quota: PlanQuota) -> Self {
        self.quota = quota;
        self
    }

    /// Sets the resource counts.
    #[must_use]
    pub const fn with_counts(mut self, counts: Counts) -> Self {
        self.counts = counts;
        self
    }
}

/// The unit in which the plan windows count a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BatchCounts {
    /// One request, regardless of its size.
    #[default]
    Request,
    /// One request per item.
    Items,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_have_their_figures() {
        let rows: Vec<_> = Tier::ALL
            .map(Plan::of)
            .map(|p| (p.tier.name(), p.per_minute, p.per_hour, p.per_day, p.heavy_per_minute, p.price.usd()))
            .into();
        assert_eq!(
            rows,
            [
                ("free", 10, 500, 10_000, 6, 0.0),
                ("standard", 50, 2_500, 50_000, 30, 0.001),
                ("premium", 100, 5_000, 100_000, 60, 0.0005),
                ("enterprise", 1_000, 50_000, 1_000_000, 600, 0.0002),
            ]
        );
    }

    // Shows (Management): The resources of a tenant are limited by its plan, which operators can change; existing ones
    // stay when a count is lowered (promise 70).
    #[test]
    fn the_plans_have_their_counts() {
        let rows = Tier::ALL.map(Plan::of).map(|plan| {
            let Counts { projects, keys_per_project, members, .. } = plan.counts;
            let Counts { webhooks_per_project, subscriptions_per_webhook, .. } = plan.counts;
            let of_webhooks = [webhooks_per_project, subscriptions_per_webhook];
            let streams = (plan.ws_connections, plan.ws_connections_per_key);
            ([projects, keys_per_project, members], of_webhooks, streams)
        });
        assert_eq!(
            rows,
            [
                ([3, 10, 3], [2, 20], (5, 5)),
                ([20, 50, 20], [10, 100], (50, 50)),
                ([100, 200, 100], [50, 500], (200, 200)),
                ([1_000, 1_000, 1_000], [200, 5_000], (2_000, 2_000)),
            ]
        );
    }

    #[test]
    fn the_streams_of_a_key_follow_those_of_the_project_unless_they_are_fewer() {
        let of = |plan: Plan| (plan.ws_connections, plan.ws_connections_per_key);
        let free = Plan::of(Tier::Free);
        assert_eq!(of(free.with_ws_connections(50)), (50, 50));
        assert_eq!(of(free.with_ws_connections(0)), (0, 0));
        let fewer = free.with_ws_connections_per_key(2);
        assert_eq!(of(fewer), (5, 2));
        assert_eq!(of(fewer.with_ws_connections(50)), (50, 2));
        assert_eq!(of(fewer.with_ws_connections(1)), (1, 1));
        assert_eq!(of(free.with_ws_connections_per_key(9)), (5, 5), "a key has no more than its project");
    }

    #[test]
    fn tiers_are_read_by_name() {
        assert_eq!("premium".parse(), Ok(Tier::Premium));
        assert_eq!("Premium".parse::<Tier>(), Err(UnknownTier));
    }

    #[test]
    fn prices_keep_twelve_decimals() {
        assert_eq!(Price::from_usd(0.000_000_000_001), Some(Price(1)));
        assert_eq!(Price::from_usd(0.000_000_000_000_1), None, "it is not free");
        assert_eq!(Price::from_usd(0.0), Some(Price(0)));
        assert_eq!(Price::from_usd(-1.0), None);
        assert_eq!(Price::from_usd(f64::NAN), None);
    }
}
