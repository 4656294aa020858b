//! Limits of plans that operators set; null means as configured.

use rpcgate_core::plan::{PlanFigure, Tier};
use sea_orm::entity::prelude::*;

macro_rules! model {
    ($($section:ident { $($(#[$text:meta])* $name:ident $(= $column:literal)? { $($entry:tt)* })* })*) => {
        #[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
        #[sea_orm(table_name = "plans")]
        pub(crate) struct Model {
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) tier: Tier,
            $($($(#[sea_orm(column_name = $column)])? pub(crate) $name: Option<i64>,)*)*
        }

        impl Model {
            /// Returns the figures, in list order.
            pub(crate) fn figures(&self) -> [Option<i64>; PlanFigure::COUNT] {
                [$($(self.$name,)*)*]
            }
        }
    };
}

rpcgate_core::plan_figures!(model);

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
