//! Reads the journal's segments into shipments.

use crate::journal::{Journal, Segment};
use rpcgate_core::journal::{Event, FrameError, HEAD, MAX_PAYLOAD, Reader, SegmentId};
use rpcgate_core::usage::{Blocks, HourlyFold, Mark, Shipment};
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

/// The read size, in bytes, unless a frame is longer.
const CHUNK: u64 = 256 << 10;
const LONG_CHUNK: u64 = MAX_PAYLOAD as u64 + CHUNK;
/// The maximum events of a shipment, which are held in memory until it is shipped: the content of four blocks.
const MOST_EVENTS: u32 = 16_384;
/// The time that a segment stays after it was shipped to its end. The database may hold a transaction in memory for
/// some time (SQLite flushes its log at a checkpoint). If a power failure takes the transaction back, the segment is
/// shipped again.
pub(super) const REST: Duration = Duration::from_secs(60);

/// The reading position in each segment. It agrees with the database if every result of
/// [`fill`](SegmentBatcher::fill) was shipped; if that is unknown, start with a new one.
#[derive(Debug)]
pub(super) struct SegmentBatcher {
    positions: HashMap<SegmentId, SegmentPosition>,
    fold: HourlyFold,
    blocks: Blocks,
    bytes: Vec<u8>,
}

/// The reading position in a segment.
#[derive(Debug, Default)]
struct SegmentPosition {
    at: u64,
    /// The definitions of the frames before `at`; `None` if only the mark is known.
    reader: Option<Reader>,
    /// The time when it was found to be complete.
    done: Option<Duration>,
    /// It cannot be read beyond `at`.
    damaged: bool,
    is_logged: bool,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Torn(#[from] FrameError),
    #[error("a frame is cut short")]
    Cut,
}

/// The records that were read, and whether the limits left out more.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) shipment: Shipment,
    pub(super) more: bool,
}

impl Filled {
    pub(super) fn is_empty(&self) -> bool {
        self.shipment.marks.is_empty()
    }
}

impl SegmentBatcher {
    pub(super) fn new(marks: impl IntoIterator<Item = (SegmentId, u64)>) -> Self {
        let position = |(segment, at)| (segment, SegmentPosition { at, ..SegmentPosition::default() });
        SegmentBatcher {
            positions: marks.into_iter().map(position).collect(),
            fold: HourlyFold::new(),
            blocks: Blocks::new(),
            bytes: Vec::new(),
        }
    }

    /// Reports whether [`tidy`](SegmentBatcher::tidy) and [`fill`](SegmentBatcher::fill) would both have nothing to do.
    pub(super) fn is_idle(&self, segments: &[Segment], now: Duration) -> bool {
        let nothing = |segment: &Segment| {
            self.positions.get(&segment.id).is_some_and(|position| match position.done {
                Some(done) => now.saturating_sub(done) < REST,
                None => position.damaged || (position.at >= segment.len && !segment.sealed),
            })
        };
        self.positions.len() == segments.len() && segments.iter().all(nothing)
    }

    pub(super) fn at(&self, segment: &Segment) -> u64 {
        self.positions.get(&segment.id).map_or(0, |position| position.at.min(segment.len))
    }

    /// Removes segments that were shipped to their end at least [`REST`] ago. If one reappears, from a backup or after
    /// a power failure, its mark is still at its end, and it is removed again.
    pub(super) fn tidy(&mut self, journal: &Journal, now: Duration) {
        let present: HashSet<SegmentId> = journal.segments().iter().map(|segment| segment.id).collect();
        self.positions.retain(|id, position| {
            let is_over = position.done.is_some_and(|done| now.saturating_sub(done) >= REST);
            if !is_over || !present.contains(id) {
                return present.contains(id);
            }
            match journal.forget(*id) {
                Ok(()) => false,
                Err(error) => {
                    if !std::mem::replace(&mut position.is_logged, true) {
                        tracing::error!(segment = %id, "a shipped journal segment cannot be removed: {error}");
                    }
                    position.done = Some(now);
                    true
                }
            }
        });
    }

    /// Reads new records, the oldest segments first, up to about `most` bytes.
    pub(super) fn fill(&mut self, journal: &Journal, most: u64, now: Duration) -> Filled {
        let SegmentBatcher { positions, fold, blocks, bytes } = self;
        let mut bounds = Bounds { bytes: most, events: MOST_EVENTS };
        let mut marks = Vec::new();
        let mut more = false;
        for segment in journal.segments() {
            let position = positions.entry(segment.id).or_default();
            if position.damaged {
                continue;
            }
            if position.at >= segment.len {
                // All its events were in an earlier shipment than the one that is being filled.
                if segment.sealed && position.done.is_none() {
                    position.done = Some(now);
                    position.reader = None;
                }
                continue;
            }
            if bounds.are_reached() || fold.is_full() {
                more = true;
                break;
            }
            let from = position.at;
            let read = position.read(journal, segment, bytes, |reader, event, length| {
                fold.add(reader, event);
                blocks.add(reader, event);
                bounds.count(length);
                if bounds.are_reached() || fold.is_full() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            if position.at > from {
                marks.push(Mark { segment: segment.id, from, to: position.at });
            }
            match read {
                Ok(()) => more |= position.at < segment.len,
                Err(trouble) => position.report(segment.id, &trouble),
            }
        }
        let shipment =
            Shipment { gateway: journal.gateway(), marks, folded: fold.take(), blocks: blocks.take() };
        Filled { shipment, more }
    }
}

/// The remaining capacity of a shipment.
struct Bounds {
    bytes: u64,
    events: u32,
}

impl Bounds {
    const fn are_reached(&self) -> bool {
        self.bytes == 0 || self.events == 0
    }

    const fn count(&mut self, length: usize) {
        self.bytes = self.bytes.saturating_sub(length as u64);
        self.events = self.events.saturating_sub(1);
    }
}

impl SegmentPosition {
    /// Reads on until `each` breaks or the segment ends.
    fn read(
        &mut self,
        journal: &Journal,
        segment: Segment,
        bytes: &mut Vec<u8>,
        each: impl FnMut(&Reader, &Event, usize) -> ControlFlow<()>,
    ) -> Result<(), Trouble> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                // Frames depend on definitions in earlier ones, so those are read again for the definitions alone.
                let mut reader = Reader::new();
                let mut at = HEAD as u64;
                walk(journal, segment.id, &mut reader, &mut at, self.at, bytes, |_, _, _| {
                    ControlFlow::Continue(())
                })?;
                self.at = at;
                reader
            }
        };
        let read = walk(journal, segment.id, &mut reader, &mut self.at, segment.len, bytes, each);
        self.reader = Some(reader);
        read
    }

    fn report(&mut self, id: SegmentId, trouble: &Trouble) {
        self.damaged |= matches!(trouble, Trouble::Torn(_) | Trouble::Cut);
        if std::mem::replace(&mut self.is_logged, true) {
            return;
        }
        let at = self.at;
        if self.damaged {
            tracing::error!(segment = %id, at, "a journal segment is damaged, and left where it is: {trouble}");
        } else {
            tracing::error!(segment = %id, at, "a journal segment cannot be read now: {trouble}");
        }
    }
}

/// Reads the frames between `at` and `to`. `at` is moved behind each frame before the frame is passed on.
fn walk(
    journal: &Journal,
    id: SegmentId,
    reader: &mut Reader,
    at: &mut u64,
    to: u64,
    bytes: &mut Vec<u8>,
    mut each: impl FnMut(&Reader, &Event, usize) -> ControlFlow<()>,
) -> Result<(), Trouble> {
    let mut chunk = CHUNK;
    while *at < to {
        let start = *at;
        bytes.clear();
        bytes.shrink_to(CHUNK as usize);
        journal.read(id, start, to.min(start.saturating_add(chunk)), bytes)?;
        let mut rest = bytes.as_slice();
        while let Some((length, event)) = reader.frame(rest)? {
            rest = rest.get(length..).unwrap_or_default();
            *at += length as u64;
            if each(reader, &event, length).is_break() {
                return Ok(());
            }
        }
        if *at > start {
            chunk = CHUNK;
        } else if chunk < LONG_CHUNK && (bytes.len() as u64) < to - start {
            chunk = LONG_CHUNK;
        } else {
            return Err(Trouble::Cut);
        }
    }
    Ok(())
}
