//! `[plans]`: the four tiers, and the counting of batches.

use super::fields::{Fields, Table};
use super::problem::Problem;
use super::project::some_requests;
use rpcgate_core::plan::{BatchCounts, Plan, PlanFigure, Price, Tier};

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

trait Figure {
    fn visit<F: Fields>(&mut self, f: &mut F, figure: &PlanFigure);
}

impl Figure for u64 {
    fn visit<F: Fields>(&mut self, f: &mut F, figure: &PlanFigure) {
        // The largest TOML integer.
        let most = (*figure.range.end()).min(i64::MAX as u64);
        f.number(figure.name, self, *figure.range.start()..=most);
    }
}

impl Figure for u32 {
    fn visit<F: Fields>(&mut self, f: &mut F, figure: &PlanFigure) {
        let mut wide = u64::from(*self);
        wide.visit(f, figure);
        *self = u32::try_from(wide).unwrap_or(*self);
    }
}

impl Figure for Price {
    fn visit<F: Fields>(&mut self, f: &mut F, figure: &PlanFigure) {
        f.value(figure.name, self);
    }
}

impl Figure for Option<u64> {
    fn visit<F: Fields>(&mut self, f: &mut F, figure: &PlanFigure) {
        f.value(figure.name, self);
    }
}

macro_rules! fields {
    ($($section:ident { $(
        $(#[$text:meta])* $name:ident $(= $column:literal)? {
            core { $(plan [$($path:tt)+])? $(fee $fee:tt)? [$($type:tt)+] $given:ident $(= $default:expr)? } $($rest:tt)*
        }
    )* })*) => {
        fn figures<F: Fields>(plan: &mut Plan, f: &mut F) {
            $($($(if let Some(figure) = PlanFigure::named(stringify!($name)) {
                let before = plan.ws_connections;
                plan.$($path)+.visit(f, figure);
                let streams = std::mem::replace(&mut plan.ws_connections, before);
                if streams != before {
                    *plan = plan.with_ws_connections(streams);
                }
            })?)*)*
        }
    };
}

rpcgate_core::plan_figures!(fields);

impl Table for Plan {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        figures(self, f);
        some_requests(f, self.quota.rps_limit);
        if self.ws_connections_per_key > self.ws_connections {
            let why = "must not be larger than ws_connections beside it".into();
            f.wrong(&["ws_connections_per_key", "ws_connections"], |key| Problem::Invalid { key, why });
        }
    }
}
