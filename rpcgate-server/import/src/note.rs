//! Notes about an imported file: settings that were not carried over, differences, and variables to set.

use super::document::Node;
use super::position::Position;
use std::fmt;

/// The kinds of notes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum NoteKind {
    /// The setting was not carried over.
    LeftOut,
    /// The setting was carried over with another meaning.
    Differs,
    /// An environment variable has to be set.
    ToSet,
}

/// A note about one line of the imported file. It never contains a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportNote {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The setting in the imported file; empty for the whole file.
    pub path: String,
    /// The kind.
    pub kind: NoteKind,
    /// The reason, and the alternative.
    pub text: String,
}

/// Reports whether the setting at `path` is the one at `whole`, or one in its table or list.
pub(super) fn is_within(path: &str, whole: &str) -> bool {
    let below = path.strip_prefix(whole).filter(|_| !whole.is_empty());
    below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
}

impl fmt::Display for ImportNote {
    /// Without file name and column: `12: server.aliasing: not carried over: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.line)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        match self.kind {
            NoteKind::LeftOut => write!(f, "not carried over: {}", self.text),
            NoteKind::Differs => write!(f, "differs: {}", self.text),
            NoteKind::ToSet => write!(f, "to set: {}", self.text),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Notes(Vec<ImportNote>);

impl Notes {
    pub(super) fn add(&mut self, kind: NoteKind, at: Position, path: &str, text: impl Into<String>) {
        let line = at.line;
        let column = at.column;
        let path = path.to_owned();
        let text = text.into();
        self.0.push(ImportNote { line, column, path, kind, text });
    }

    /// Notes that `node`, with all below it, was not carried over.
    pub(super) fn left_out(&mut self, node: &Node, text: impl Into<String>) {
        node.settle();
        self.add(NoteKind::LeftOut, node.at, &node.path, text);
    }

    /// Notes that `node` has another meaning now.
    pub(super) fn differs(&mut self, node: &Node, text: impl Into<String>) {
        self.add(NoteKind::Differs, node.at, &node.path, text);
    }

    pub(super) fn sorted(mut self) -> Vec<ImportNote> {
        self.0.sort_by_key(|note| (note.line, note.column, note.kind));
        self.0.dedup();
        self.0
    }
}
