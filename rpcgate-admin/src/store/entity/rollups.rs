//! Usage by the hour: a row for each combination of names in each UTC hour. The hour is first in the key, since all
//! writing is in the newest hours, and what is too old is at the other end.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "rollups")]
pub(crate) struct Model {
    /// Number of the hour, counted from 1970.
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
    pub(crate) requests: i64,
    pub(crate) billed_requests: i64,
    pub(crate) billable_units: i64,
    pub(crate) errors: i64,
    pub(crate) rejected: i64,
    pub(crate) cache_hits: i64,
    pub(crate) request_bytes: i64,
    pub(crate) response_bytes: i64,
    pub(crate) ws_connections: i64,
    pub(crate) ws_refused: i64,
    pub(crate) ws_messages: i64,
    pub(crate) latency_us: i64,
    pub(crate) latency_count: i64,
    pub(crate) window_requests: i64,
}

/// The columns of the metrics, in the order of [`Metrics::values`](crate::usage::Metrics::values).
pub(crate) const METRICS: [Column; crate::usage::Metrics::COUNT] = [
    Column::Requests,
    Column::BilledRequests,
    Column::BillableUnits,
    Column::Errors,
    Column::Rejected,
    Column::CacheHits,
    Column::RequestBytes,
    Column::ResponseBytes,
    Column::WsConnections,
    Column::WsRefused,
    Column::WsMessages,
    Column::LatencyUs,
    Column::LatencyCount,
];

/// The columns of the names, in the order of the key.
pub(crate) const NAMES: [Column; 9] = [
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

/// The columns that are added to.
pub(crate) fn counts() -> impl Iterator<Item = Column> {
    METRICS.into_iter().chain([Column::WindowRequests])
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
