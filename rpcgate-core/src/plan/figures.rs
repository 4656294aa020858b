//! The types that are derived from the list of figures.

use super::{PlanQuota, Price, Tier};
use std::ops::RangeInclusive;

/// The largest limit of requests.
const MAX_LIMIT: u64 = 1_000_000_000_000;

/// The largest price of a Compute Unit: 1,000 US dollars.
const MAX_PRICE: u64 = 1_000_000_000_000_000;

const MAX_COUNT: u64 = Counts::MOST as u64;

/// The largest fee per month: 1,000,000 US dollars.
const MAX_FEE: u64 = 100_000_000;

macro_rules! structs {
    (
        limits { $(
            $(#[$text:meta])* $limit:ident $(= $limit_column:literal)? {
                core { plan [$field:ident] [$type:ty] $given:ident = $default:expr } $($limit_rest:tt)*
            }
        )* }
        counts { $(
            $(#[$count_text:meta])* $count:ident $(= $count_column:literal)? {
                core { plan $path:tt [$count_type:ty] $count_given:ident = $count_default:expr } $($count_rest:tt)*
            }
        )* }
        $($rest:tt)*
    ) => {
        /// The limits and the price of one plan.
        ///
        /// ```
        /// use rpcgate_core::plan::{Plan, Tier};
        ///
        /// let plan = Plan::of(Tier::Free).with_windows(10, 100, 1_000);
        /// assert_eq!((plan.per_minute, plan.per_day), (10, 1_000));
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub struct Plan {
            /// The tier whose name the plan has.
            pub tier: Tier,
            $($(#[$text])* pub $field: $type,)*
            /// The maximum numbers of resources per tenant.
            pub counts: Counts,
            /// The quota of a project without its own.
            pub quota: PlanQuota,
        }

        impl Plan {
            /// Returns the default plan of a tier.
            pub const fn of(tier: Tier) -> Plan {
                let counts = Counts::of(tier);
                Plan { tier, $($field: $default[tier as usize],)* counts, quota: PlanQuota::DEFAULT }
            }
        }

        /// The maximum number of resources of each kind. Existing resources stay when a maximum is lowered below their
        /// number.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$count_text])* pub $count: $count_type,)*
        }

        impl Counts {
            /// The largest count that can be set.
            pub const MOST: u32 = 1_000_000;

            /// Returns the default counts of a tier.
            pub const fn of(tier: Tier) -> Counts {
                Counts { $($count: $count_default[tier as usize],)* }
            }
        }

        /// Figures that override those of a plan. `None` leaves a figure unchanged.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct PlanChange {
            $($(#[$text])* pub $field: Option<$given>,)*
            /// The maximum numbers of resources per tenant.
            pub counts: CountsChange,
            /// The quota of a project without its own.
            pub quota: QuotaChange,
            /// The monthly fee, in cents.
            pub monthly_fee: Option<u64>,
        }

        /// Counts that override those of a plan.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct CountsChange {
            $($(#[$count_text])* pub $count: Option<$count_given>,)*
        }
    };
}

crate::plan_figures!(structs);

/// Limits that override those of a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaChange {
    /// Compute Units in any rolling 24 hours.
    pub cu_per_day: Option<u64>,
    /// Recorded, not enforced.
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project.
    pub rps_limit: Option<u64>,
}

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FigureUnit {
    /// A number of things.
    Number,
    /// A [`Price`], in 10⁻¹² US dollars.
    Price,
    /// US cents.
    Cents,
}

/// The properties of a figure.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PlanFigure {
    /// The name in every interface.
    pub name: &'static str,
    /// The unit.
    pub unit: FigureUnit,
    /// The permitted values.
    pub range: RangeInclusive<u64>,
    /// The name in the output of commands.
    pub title: &'static str,
    /// The label of its field in forms.
    pub label: &'static str,
    /// The name within a sentence.
    pub phrase: &'static str,
    /// The rank and the label in comparisons of plans, if they show it.
    pub comparison: Option<(u8, &'static str)>,
}

impl PlanFigure {
    /// Returns the figure with this name.
    pub fn named(name: &str) -> Option<&'static PlanFigure> {
        PlanFigure::ALL.iter().find(|figure| figure.name == name)
    }
}

macro_rules! figures {
    ($($section:ident { $(
        $(#[$text:meta])* $name:ident $(= $column:literal)? {
            core { $(plan [$($path:tt)+])? $(fee [$fee:ident])? [$($type:tt)+] $given:ident $(= $default:expr)? }
            shown $shown:tt changed $changed:tt option $option:tt
            facts {
                $unit:ident $range:expr, $title:literal, $label:literal, $phrase:literal,
                [$($rank:literal $comparison:literal)?]
            }
        }
    )* })*) => {
        impl PlanFigure {
            /// The number of figures.
            pub const COUNT: usize = Self::NAMES.len();

            /// The names, in list order.
            pub const NAMES: &[&str] = &[$($(stringify!($name),)*)*];

            /// All figures, in list order.
            pub const ALL: &[PlanFigure; Self::COUNT] = &[$($(PlanFigure {
                name: stringify!($name),
                unit: FigureUnit::$unit,
                range: $range,
                title: $title,
                label: $label,
                phrase: $phrase,
                comparison: [$(Some(($rank, $comparison)),)? None][0],
            },)*)*];
        }

        impl PlanChange {
            /// Returns the given figures as numbers, in list order.
            pub fn values(&self) -> [Option<u64>; PlanFigure::COUNT] {
                [$($(self.$($($path)+)?$($fee)?.map(Into::into),)*)*]
            }

            /// Sets the figure with this name, and reports whether it exists and can have this value.
            pub fn set(&mut self, name: &str, number: u64) -> bool {
                match name {
                    $($(stringify!($name) => {
                        let value = $given::try_from(number).ok();
                        self.$($($path)+)?$($fee)? = value.or(self.$($($path)+)?$($fee)?);
                        value.is_some()
                    })*)*
                    _ => false,
                }
            }

            /// Applies the changes to `plan`, which has no fee.
            pub fn apply(&self, plan: &mut Plan) {
                let streams = plan.with_ws_connections(self.ws_connections.unwrap_or(plan.ws_connections));
                let per_key = self.ws_connections_per_key.unwrap_or(streams.ws_connections_per_key);
                $($($(if let Some(value) = self.$($path)+ {
                    plan.$($path)+ = value.into();
                })?)*)*
                *plan = plan.with_ws_connections_per_key(per_key);
            }
        }

        impl Plan {
            /// Returns all figures of a plan with this monthly fee, in cents.
            pub fn figures(&self, monthly_fee: u64) -> PlanChange {
                let mut all = PlanChange { monthly_fee: Some(monthly_fee), ..PlanChange::default() };
                $($($(all.$($path)+ = self.$($path)+.into();)?)*)*
                all
            }
        }
    };
}

crate::plan_figures!(figures);

impl PlanChange {
    /// Returns these values, and those of `below` where this has none.
    #[must_use]
    pub fn over(&self, below: &PlanChange) -> PlanChange {
        let mut all = *below;
        for (name, value) in PlanFigure::NAMES.iter().zip(self.values()) {
            if let Some(value) = value {
                all.set(name, value);
            }
        }
        all
    }
}
