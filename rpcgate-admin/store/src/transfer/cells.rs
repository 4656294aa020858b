//! The values of a row, and checksums that do not depend on the kind of database.

use ring::digest::{Context, SHA256};
use sea_orm::{DbErr, QueryResult, Value};
use std::fmt;
use uuid::Uuid;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ColumnKind {
    Integer,
    Boolean,
    Uuid,
    Text,
    Bytes,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ColumnValue {
    Integer(Option<i64>),
    Boolean(Option<bool>),
    Uuid(Option<Uuid>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

impl ColumnValue {
    pub(super) fn read(row: &QueryResult, at: usize, kind: ColumnKind) -> Result<Self, DbErr> {
        Ok(match kind {
            ColumnKind::Integer => ColumnValue::Integer(row.try_get_by_index(at)?),
            ColumnKind::Boolean => ColumnValue::Boolean(row.try_get_by_index(at)?),
            ColumnKind::Uuid => ColumnValue::Uuid(row.try_get_by_index(at)?),
            ColumnKind::Text => ColumnValue::Text(row.try_get_by_index(at)?),
            ColumnKind::Bytes => ColumnValue::Bytes(row.try_get_by_index(at)?),
        })
    }

    pub(super) fn argument(&self) -> Value {
        match self {
            ColumnValue::Integer(value) => (*value).into(),
            ColumnValue::Boolean(value) => (*value).into(),
            ColumnValue::Uuid(value) => (*value).into(),
            ColumnValue::Text(value) => value.clone().into(),
            ColumnValue::Bytes(value) => value.clone().into(),
        }
    }

    fn digest(&self, digest: &mut Context) {
        let (kind, bytes) = match self {
            ColumnValue::Integer(value) => (b'i', value.map(|value| value.to_be_bytes().to_vec())),
            ColumnValue::Boolean(value) => (b'b', value.map(|value| vec![u8::from(value)])),
            ColumnValue::Uuid(value) => (b'u', value.map(|value| value.as_bytes().to_vec())),
            ColumnValue::Text(value) => (b't', value.as_ref().map(|value| value.as_bytes().to_vec())),
            ColumnValue::Bytes(value) => (b'x', value.clone()),
        };
        digest.update(&[kind]);
        // A length that no value has represents NULL.
        let length = bytes.as_ref().map_or(u64::MAX, |bytes| bytes.len() as u64);
        digest.update(&length.to_be_bytes());
        digest.update(bytes.as_deref().unwrap_or_default());
    }
}

/// The number of rows of a table, and a checksum that does not depend on their order, because two databases may sort
/// texts differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TableSum {
    pub(super) rows: u64,
    checksum: u128,
}

impl TableSum {
    pub(super) fn add(&mut self, row: &[ColumnValue]) {
        let mut digest = Context::new(&SHA256);
        row.iter().for_each(|value| value.digest(&mut digest));
        let digest = digest.finish();
        let half = digest.as_ref().iter().take(16).fold(0, |half, byte| half << 8 | u128::from(*byte));
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(half);
    }
}

impl fmt::Display for TableSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_depends_on_every_value_and_not_on_the_order_of_rows() {
        let text = |text: &str| ColumnValue::Text(Some(text.into()));
        let sum = |rows: &[&[ColumnValue]]| {
            let mut sum = TableSum::default();
            rows.iter().for_each(|row| sum.add(row));
            sum
        };
        let a = [text("a"), text("bc")];
        let b = [text("ab"), text("c")];
        assert_eq!(sum(&[&a, &b]), sum(&[&b, &a]));
        assert_ne!(sum(&[&a]), sum(&[&b]), "where a value ends counts");
        assert_ne!(sum(&[&[text("")]]), sum(&[&[ColumnValue::Text(None)]]));
        assert_ne!(sum(&[&[ColumnValue::Integer(Some(1))]]), sum(&[&[ColumnValue::Boolean(Some(true))]]));
        assert_ne!(sum(&[&a, &a]), sum(&[&b, &b]));
        assert_eq!(sum(&[]).to_string(), "0".repeat(32));
    }
}
