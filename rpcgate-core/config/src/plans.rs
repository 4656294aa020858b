//! `[plans]`: the four tiers, and the counting of batches.

use super::fields::{Fields, Table};
use super::problem::Problem;
use super::project::some_requests;
use rpcgate_core::plan::{BatchCounts, Counts, Plan, PlanQuota, Price, Tier};

/// `[plans]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Plans {
    /// The unit in which the windows count a batch.
    pub batch_counts: BatchCounts,
    /// `[plans.free]`.
    pub free: Plan,
    /// `[plans.standard]`.
    pub standard: Plan,
    /// `[plans.premium]`.
    pub premium: Plan,
    /// `[plans.enterprise]`.
    pub enterprise: Plan,
}

impl Default for Plans {
    fn default() -> Self {
        Plans {
            batch_counts: BatchCounts::default(),
            free: Plan::of(Tier::Free),
            standard: Plan::of(Tier::Standard),
            premium: Plan::of(Tier::Premium),
            enterprise: Plan::of(Tier::Enterprise),
        }
    }
}

impl Plans {
    /// Returns the plan of a tier.
    pub const fn of(&self, tier: Tier) -> Plan {
        match tier {
            Tier::Free => self.free,
            Tier::Standard => self.standard,
            Tier::Premium => self.premium,
            Tier::Enterprise => self.enterprise,
        }
    }

    /// Returns a tenant's plan without a contract or a custom plan. The free plan is never billed: its price counts as
    /// 0.
    ///
    /// ```
    /// use rpcgate_config::Plans;
    /// use rpcgate_core::plan::{Price, Tier};
    ///
    /// let mut plans = Plans::default();
    /// (plans.free.price, plans.standard.price) = (Price(7), Price(7));
    /// assert_eq!(plans.of_tenant(Tier::Free).price, Price(0));
    /// assert_eq!(plans.of_tenant(Tier::Standard).price, Price(7));
    /// ```
    pub const fn of_tenant(&self, tier: Tier) -> Plan {
        match tier {
            Tier::Free => self.free.with_price(Price(0)),
            Tier::Standard | Tier::Premium | Tier::Enterprise => self.of(tier),
        }
    }

    pub(super) const fn of_mut(&mut self, tier: Tier) -> &mut Plan {
        match tier {
            Tier::Free => &mut self.free,
            Tier::Standard => &mut self.standard,
            Tier::Premium => &mut self.premium,
            Tier::Enterprise => &mut self.enterprise,
        }
    }
}

impl Table for Plans {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.word("batch_counts", &mut self.batch_counts);
        f.table(Tier::Free.name(), &mut self.free);
        f.table(Tier::Standard.name(), &mut self.standard);
        f.table(Tier::Premium.name(), &mut self.premium);
        f.table(Tier::Enterprise.name(), &mut self.enterprise);
    }
}

impl Table for Plan {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        const MOST: u64 = 1_000_000_000_000;
        f.number("per_minute", &mut self.per_minute, 1..=MOST);
        f.number("per_hour", &mut self.per_hour, 1..=MOST);
        f.number("per_day", &mut self.per_day, 1..=MOST);
        f.number("heavy_per_minute", &mut self.heavy_per_minute, 0..=MOST);
        f.value("price_per_cu", &mut self.price);
        let mut ws_connections = self.ws_connections;
        f.number("ws_connections", &mut ws_connections, 0..=Counts::MOST);
        *self = self.with_ws_connections(ws_connections);
        f.number("ws_connections_per_key", &mut self.ws_connections_per_key, 0..=Counts::MOST);
        let counts = &mut self.counts;
        f.number("projects", &mut counts.projects, 0..=Counts::MOST);
        f.number("keys_per_project", &mut counts.keys_per_project, 0..=Counts::MOST);
        f.number("members", &mut counts.members, 0..=Counts::MOST);
        f.number("webhooks_per_project", &mut counts.webhooks_per_project, 0..=Counts::MOST);
        f.number("subscriptions_per_webhook", &mut counts.subscriptions_per_webhook, 0..=Counts::MOST);
        quota_limits(f, &mut self.quota);
        if self.ws_connections_per_key > self.ws_connections {
            let why = "must not be larger than ws_connections beside it".into();
            f.wrong(&["ws_connections_per_key", "ws_connections"], |key| Problem::Invalid { key, why });
        }
    }
}

fn quota_limits<F: Fields>(f: &mut F, quota: &mut PlanQuota) {
    f.value("cu_per_day", &mut quota.cu_per_day);
    f.value("cu_per_month", &mut quota.cu_per_month);
    f.value("rps_limit", &mut quota.rps_limit);
    some_requests(f, quota.rps_limit);
}
