//! Rows of the usage database: how many a statement takes, and how values are stored.

use crate::store::StoreError;
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::Rollup;
use sea_orm::sea_query::Expr;
use uuid::Uuid;

/// Rows of one statement: few enough that no database runs out of variables (SQLite has 32,766 of them, and a rollup
/// takes 23), and always as many where there are enough, so that statements are prepared once.
pub(super) const ROWS: usize = 256;

/// The values of a row, in the order of its names and of what is counted.
pub(super) fn values(rollup: &Rollup) -> impl Iterator<Item = Expr> {
    let names: [Expr; 9] = [
        stored(rollup.hour).into(),
        Uuid::from_u128(rollup.tenant.0).into(),
        Uuid::from_u128(rollup.project.0).into(),
        Uuid::from_u128(rollup.key.0).into(),
        rollup.chain.as_str().into(),
        rollup.method.as_str().into(),
        transport_code(rollup.transport).into(),
        i32::from(rollup.status).into(),
        i16::from(rollup.stream.code()).into(),
    ];
    let counts = rollup.metrics.values().into_iter().chain([rollup.window_requests]);
    names.into_iter().chain(counts.map(|value| stored(value).into()))
}

/// A sum. Those that a column has no room for (it is 2⁶³ − 1) are not reached in an hour.
pub(super) fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Transports as columns hold them. They are written down for good.
pub(super) const TRANSPORTS: [Transport; 3] = [Transport::Http, Transport::Ws, Transport::Grpc];

pub(super) const fn transport_code(transport: Transport) -> i16 {
    match transport {
        Transport::Http => 0,
        Transport::Ws => 1,
        Transport::Grpc => 2,
    }
}

pub(super) fn misshapen(error: sea_orm::sea_query::error::Error) -> StoreError {
    StoreError::Sql(Box::new(error))
}
