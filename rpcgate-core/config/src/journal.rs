//! `[journal]`: usage records on their way to the database.

use super::fields::{Fields, Table};
use super::units::{GIB, MIB, MILLI, SECOND};
use super::value::Word;
use std::path::PathBuf;
use std::time::Duration;

/// The policy for calls that cannot be recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFull {
    /// Serves them, and counts the lost records.
    Serve,
    /// Refuses them with 503.
    Refuse,
}

impl Word for OnFull {
    const WORDS: &'static [(&'static str, Self)] = &[("serve", OnFull::Serve), ("refuse", OnFull::Refuse)];
}

/// `[journal]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalSettings {
    /// The gateway's own folder for usage records that were not shipped yet.
    pub dir: PathBuf,
    /// The policy after neither disk nor memory accepts a record.
    pub on_full: OnFull,
    /// The bytes of records held in memory while the disk is full or stalled.
    pub memory: u64,
    /// The time between flushes to the medium. A power failure may lose the records of this time.
    pub sync_interval: Duration,
}

impl Default for JournalSettings {
    fn default() -> Self {
        JournalSettings {
            dir: "journal".into(),
            on_full: OnFull::Serve,
            memory: 64 * MIB,
            sync_interval: 500 * MILLI,
        }
    }
}

impl Table for JournalSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("dir", &mut self.dir);
        f.word("on_full", &mut self.on_full);
        f.size("memory", &mut self.memory, 0..=16 * GIB);
        f.duration("sync_interval", &mut self.sync_interval, 10 * MILLI..=60 * SECOND);
    }
}
