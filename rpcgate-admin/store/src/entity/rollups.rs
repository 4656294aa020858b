//! Usage by the hour: one row per UTC hour and combination of the key columns. The hour is first in the key, because
//! all writes are in the newest hours and removals in the oldest.

use rpcgate_core::usage::Metrics;
use sea_orm::Iterable;
use sea_orm::entity::prelude::*;

macro_rules! model {
    (
        shown { $($(#[$text:meta])* $shown:ident,)* }
        latency { $($(#[$more:meta])* $latency:ident,)* }
    ) => {
        #[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
        #[sea_orm(table_name = "rollups")]
        pub(crate) struct Model {
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) hour: i64,
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) tenant: Uuid,
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) project: Uuid,
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) key: Uuid,
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) chain: String,
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) method: String,
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) transport: i16,
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) status: i32,
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) stream: i16,
            $(pub(crate) $shown: i64,)*
            $(pub(crate) $latency: i64,)*
            pub(crate) window_requests: i64,
        }
    };
}

rpcgate_core::usage_metrics!(model);

/// Returns the columns of the metrics, in the order of [`Metrics::NAMES`].
pub(crate) fn metric_columns() -> impl Iterator<Item = Column> {
    Column::iter().filter(|column| Metrics::NAMES.contains(&column.as_str()))
}

pub(crate) const KEY_COLUMNS: [Column; 9] = [
    Column::Hour,
    Column::Tenant,
    Column::Project,
    Column::Key,
    Column::Chain,
    Column::Method,
    Column::Transport,
    Column::Status,
    Column::Stream,
];

/// Returns the columns to which shipments add.
pub(crate) fn counts() -> impl Iterator<Item = Column> {
    metric_columns().chain([Column::WindowRequests])
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_the_metrics_are_in_the_order_of_their_values() {
        assert!(metric_columns().map(|column| column.as_str()).eq(Metrics::NAMES));
    }
}
