//! Rollups added up over UTC days, over keys and projects, or over the called methods. Each level has rows for the
//! columns that it distinguishes; the other columns are empty, zero or nil. The level is first in the key, followed
//! by the hour as in rollups.

use sea_orm::entity::prelude::*;

macro_rules! model {
    (
        shown { $($(#[$text:meta])* $shown:ident,)* }
        latency { $($(#[$more:meta])* $latency:ident,)* }
    ) => {
        #[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
        #[sea_orm(table_name = "sums")]
        pub(crate) struct Model {
            #[sea_orm(primary_key, auto_increment = false)]
            pub(crate) level: i16,
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

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
