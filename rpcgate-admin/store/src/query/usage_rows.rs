//! Rows of the usage database: the number of rows per statement, and the conversion of values.

use crate::StoreError;
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::Rollup;
use sea_orm::sea_query::Expr;
use uuid::Uuid;

/// The number of rows per statement. It fits the databases' limits of variables (SQLite accepts 32,766, and a rollup
/// takes 23), and is constant where there are enough rows, so that statements are prepared only once.
pub(super) const ROWS: usize = 256;

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

/// Returns the column value of a sum. Sums beyond 2⁶³ − 1 are not reached within an hour.
pub(super) fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Transports by their code in the database. The codes must never change.
pub(super) const TRANSPORTS: [Transport; 3] = [Transport::Http, Transport::Ws, Transport::Grpc];

pub(super) const fn transport_code(transport: Transport) -> i16 {
    match transport {
        Transport::Http => 0,
        Transport::Ws => 1,
        Transport::Grpc => 2,
    }
}

pub(super) fn statement_error(error: sea_orm::sea_query::error::Error) -> StoreError {
    StoreError::Sql(Box::new(error))
}
