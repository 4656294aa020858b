//! The shape of a table: its columns, its key, and its initial rows.

use super::cells::{ColumnKind, ColumnValue, TableSum};

const PAGE: u64 = 500;
/// The page size of a table with bytes, whose values may be large.
const PAGE_OF_BYTES: u64 = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ColumnShape {
    pub(super) name: String,
    pub(super) kind: ColumnKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TableShape {
    pub(super) name: String,
    pub(super) columns: Vec<ColumnShape>,
    pub(super) key: Vec<usize>,
    /// The column that the database numbers.
    pub(super) numbered: Option<String>,
    /// The rows that the migrations create.
    pub(super) initial: TableSum,
}

impl TableShape {
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.name)
    }

    pub(super) fn page_rows(&self) -> u64 {
        let has_bytes = self.columns.iter().any(|column| column.kind == ColumnKind::Bytes);
        if has_bytes { PAGE_OF_BYTES } else { PAGE }
    }

    pub(super) fn key_of(&self, row: &[ColumnValue]) -> Vec<ColumnValue> {
        self.key.iter().filter_map(|at| row.get(*at)).cloned().collect()
    }
}
