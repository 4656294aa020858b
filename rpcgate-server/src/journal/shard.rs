//! A thread's part of the journal: one open segment and the refusals that wait for it.

use super::SEGMENT;
use super::medium::MediumFile;
use super::records::Records;
use super::refusals::Refusals;
use super::running;
use super::segments::{SegmentFile, Segments};
use super::waiting::Waiting;
use parking_lot::Mutex;
use rpcgate_core::journal::Writer;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The maximum scratch buffer, in bytes, that is kept for reuse.
const SCRATCH: usize = 256 * 1024;

thread_local! {
    /// Numbered by first record, so that the workers of a runtime get consecutive numbers.
    static NUMBER: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

pub(crate) fn number() -> usize {
    // A thread may append while it ends, when its thread-local values are gone.
    NUMBER.try_with(|number| *number).unwrap_or_default()
}

/// Aligned to avoid false sharing between threads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard {
    /// Locked only to encode and write.
    pub(super) segment_writer: Mutex<SegmentWriter>,
    pub(super) refusals: Mutex<Refusals>,
    pub(super) waiting: Waiting,
    /// The start of the current write; 0 between writes.
    began: AtomicU64,
    writer: AtomicU32,
}

impl Shard {
    /// Notes that the calling thread begins a write at `now`, a reading of
    /// [`elapsed`](rpcgate_core::clock::Clock::elapsed).
    pub(super) fn begin(&self, now: Duration) {
        self.writer.store(running::this_thread(), Ordering::Relaxed);
        self.began.store(micros(now) + 1, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.began.store(0, Ordering::Release);
    }

    /// Reports whether a write takes longer than `limit` because of the disk, and not for want of a processor.
    pub(super) fn is_held(&self, now: Duration, limit: Duration) -> bool {
        let began = self.began.load(Ordering::Acquire);
        began != 0
            && micros(now).saturating_sub(began - 1) > micros(limit)
            && !running::is_runnable(self.writer.load(Ordering::Relaxed))
            && self.began.load(Ordering::Acquire) == began
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1)
}

#[derive(Debug, Default)]
pub(super) struct SegmentWriter {
    open: Option<Open>,
    scratch: Vec<u8>,
    /// Nothing is written any more.
    pub(super) is_closed: bool,
}

#[derive(Debug)]
struct Open {
    writer: Writer,
    segment_file: Arc<SegmentFile>,
    file: Arc<dyn MediumFile>,
    /// The queue's turn count when the segment was opened.
    turn: u64,
}

impl SegmentWriter {
    /// Writes records to the end of the shard's segment with one write, or to a new segment. On an error none of them
    /// counts. `turn` is how often records have gone to memory: later records need a newer segment than the records
    /// that waited there.
    pub(super) fn write(
        &mut self,
        segment_files: &Segments,
        turn: u64,
        records: &(impl Records + ?Sized),
    ) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.turn != turn) {
            self.seal();
        }
        self.scratch.clear();
        let len = if let Some(open) = &mut self.open {
            records.each(|record, _| open.writer.frame(record, &mut self.scratch));
            // The writer relies on its earlier output, so it cannot continue after a failure.
            if let Err(error) = segment_files.append(&open.segment_file, &*open.file, &self.scratch) {
                self.open = None;
                return Err(error);
            }
            open.segment_file.len()
        } else {
            let mut writer = Writer::new();
            let head = segment_files.next();
            self.scratch.extend_from_slice(&head.to_bytes());
            records.each(|record, _| writer.frame(record, &mut self.scratch));
            let (segment_file, file) = segment_files.create(head.segment, &self.scratch)?;
            let len = segment_file.len();
            self.open = Some(Open { writer, segment_file, file, turn });
            len
        };
        if len >= SEGMENT {
            self.seal();
        }
        if self.scratch.capacity() > SCRATCH {
            self.scratch = Vec::new();
        }
        Ok(())
    }

    /// Seals the open segment. An open segment is never empty.
    pub(super) fn seal(&mut self) {
        if let Some(open) = self.open.take() {
            open.segment_file.seal();
        }
    }
}
