//! JSON shapes of the built-in plans.

use crate::action::operator::plans::PricedPlan;
use crate::shape::moment::Moment;
use crate::shape::plan_change::{FigureJson, PlanChangeJson};
use rpcgate_core::plan::PlanFigure;
use rpcgate_store::ScheduledPlanChange;
use serde::Serialize;
use utoipa::ToSchema;

macro_rules! shown {
    ($($section:ident { $(
        $(#[$text:meta])* $name:ident $(= $column:literal)? {
            core $core:tt shown { $(#[$meta:meta])* [$($type:tt)+] } $($rest:tt)*
        }
    )* })*) => {
        /// All limits, prices and the quota of a built-in plan.
        #[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
        pub struct PlanFigures {
            /// Its name: free, standard, premium or enterprise.
            #[schema(example = "standard")]
            pub tier: &'static str,
            $($($(#[$text])* $(#[$meta])* pub $name: $($type)+,)*)*
            /// The changes that take effect later, in order.
            pub scheduled: Vec<ScheduledChangeJson>,
        }

        impl PlanFigures {
            /// Returns the figures as numbers, in list order.
            pub fn numbers(&self) -> [Option<u64>; PlanFigure::COUNT] {
                [$($(self.$name.number().unwrap_or_default(),)*)*]
            }
        }

        impl From<PricedPlan> for PlanFigures {
            fn from(priced: PricedPlan) -> Self {
                let [$($($name,)*)*] = priced.figures().values();
                PlanFigures {
                    tier: priced.plan.tier.name(),
                    $($($name: FigureJson::of($name),)*)*
                    scheduled: priced.scheduled.into_iter().map(ScheduledChangeJson::from).collect(),
                }
            }
        }
    };
}

rpcgate_core::plan_figures!(shown);

/// A change of a plan that takes effect later.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = ScheduledChange)]
pub struct ScheduledChangeJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The time at which it takes effect.
    #[schema(value_type = String, format = DateTime)]
    pub from: Moment,
    /// The values that change.
    pub figures: PlanChangeJson,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<ScheduledPlanChange> for ScheduledChangeJson {
    fn from(ScheduledPlanChange { id, change, created_at }: ScheduledPlanChange) -> Self {
        ScheduledChangeJson {
            id: id.to_string(),
            from: change.from.into(),
            figures: change.figures.into(),
            created_at: created_at.into(),
        }
    }
}
