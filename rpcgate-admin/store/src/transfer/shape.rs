//! What is known of a table.

use super::cells::{ColumnKind, ColumnValue, TableSum};

/// Rows that are read at a time,
const PAGE: u64 = 500;
/// and from a table with bytes, whose values may be large.
const PAGE_OF_BYTES: u64 = 16;

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ColumnShape {
    pub(super) name: String,
    pub(super) kind: ColumnKind,
}

/// A table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TableShape {
    pub(super) name: String,
    pub(super) columns: Vec<ColumnShape>,
    /// The numbers of the columns of its primary key, in the order of the key.
    pub(super) key: Vec<usize>,
    /// The column that the database numbers.
    pub(super) numbered: Option<String>,
    /// The rows that the migrations make.
    pub(super) initial: TableSum,
}

impl TableShape {
    /// The name for a statement.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.name)
    }

    pub(super) fn page_rows(&self) -> u64 {
        let has_bytes = self.columns.iter().any(|column| column.kind == ColumnKind::Bytes);
        if has_bytes { PAGE_OF_BYTES } else { PAGE }
    }

    /// The key of a row.
    pub(super) fn key_of(&self, row: &[ColumnValue]) -> Vec<ColumnValue> {
        self.key.iter().filter_map(|at| row.get(*at)).cloned().collect()
    }
}
