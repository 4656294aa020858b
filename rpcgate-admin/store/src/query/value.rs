//! Conversions between values and columns.

use crate::StoreError;
use crate::error::columns_of;
use rpcgate_core::clock::Time;
use sea_orm::{DbErr, SqlErr};

/// Returns the column value of a time. Times beyond the year 294247 become the latest that a column can hold.
pub(crate) fn moment(time: Time) -> i64 {
    i64::try_from(time.micros()).unwrap_or(i64::MAX)
}

pub(crate) fn time(stored: i64) -> Time {
    Time::from_micros(u64::try_from(stored).unwrap_or_default())
}

/// Returns the column value of a count. Columns hold at most 2⁶³ − 1; a larger count is refused rather than truncated.
pub(crate) fn number(what: &'static str, value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::TooLarge(what))
}

pub(crate) fn count(what: &'static str, stored: i64) -> Result<u64, StoreError> {
    u64::try_from(stored).map_err(|_| unreadable(what, stored))
}

pub(super) fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    serde_json::Value::from_iter(names).to_string()
}

pub(super) fn names(what: &'static str, stored: &str) -> Result<Vec<String>, StoreError> {
    serde_json::from_str(stored).map_err(|_| unreadable(what, stored))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "functions that make errors take ownership of their values"
)]
pub(super) fn unreadable(what: &'static str, value: impl ToString) -> StoreError {
    StoreError::Unreadable { what, value: value.to_string() }
}

/// Interprets a failed insert: its `parent` does not exist, or a `what` with the same id exists, or one with the same
/// value in `unique`, a column and its display name.
pub(super) fn insert_error(
    error: DbErr,
    what: &'static str,
    parent: &'static str,
    unique: Option<(&str, &'static str)>,
) -> StoreError {
    match error.sql_err() {
        Some(SqlErr::ForeignKeyConstraintViolation(_)) => StoreError::NotFound(parent),
        // The error names the column, or an index that is named after it. PostgreSQL names the columns separately,
        // because it names a primary key after its table.
        Some(SqlErr::UniqueConstraintViolation(text)) => {
            let columns = columns_of(&error).unwrap_or_default();
            let is_it = |column: &str| text.contains(column) || columns.contains(column);
            let value = unique.filter(|(column, _)| is_it(column)).map_or("id", |(_, name)| name);
            StoreError::Taken { what, value }
        }
        _ => error.into(),
    }
}
