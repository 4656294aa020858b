//! A position in a file.

/// Line and column, each from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}
