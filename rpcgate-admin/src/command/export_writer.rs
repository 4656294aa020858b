//! Writes the lines of an export.

use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

#[derive(Serialize)]
struct Line<'l, T> {
    kind: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    data: T,
}

pub(super) struct ExportWriter<'o> {
    out: &'o mut dyn Write,
    counts: BTreeMap<&'static str, u64>,
}

impl<'o> ExportWriter<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        ExportWriter { out, counts: BTreeMap::new() }
    }

    pub(super) fn into_counts(self) -> BTreeMap<&'static str, u64> {
        self.counts
    }

    pub(super) fn line(&mut self, kind: &'static str, data: impl Serialize) -> io::Result<()> {
        self.part(kind, None, data)
    }

    /// Writes a line of an object that is a part of a parent object.
    pub(super) fn part(
        &mut self,
        kind: &'static str,
        of: Option<String>,
        data: impl Serialize,
    ) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, &Line { kind, of, data })?;
        self.out.write_all(b"\n")?;
        *self.counts.entry(kind).or_default() += 1;
        Ok(())
    }
}
