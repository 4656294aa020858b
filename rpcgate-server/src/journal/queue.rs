//! Memory in place of a disk that is full or does not answer. While anything waits here, all new records come here too,
//! so that the records of a shard stay in order.
//!
//! Records wait as whole segments in the making, each readable by itself: once the disk is back, each becomes a file
//! with one write.

use super::STALL;
use super::records::Weight;
use parking_lot::{Condvar, Mutex};
use rpcgate_core::backend::usage_sink::Record;
use rpcgate_core::journal::{HEAD, Writer};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The length to which a segment grows in memory before the next one is begun.
const IMAGE: usize = 512 * 1024;

/// A segment in memory.
#[derive(Debug)]
pub(super) struct Image {
    /// Space for a head, followed by whole frames.
    pub(super) bytes: Vec<u8>,
    held: Weight,
}

/// What the writing thread does next.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing: records go straight to the disk.
    Idle,
    /// Nothing waits. If the disk is well, records may go straight to it.
    Empty,
    /// Write this image.
    Image(Image),
}

#[derive(Debug)]
pub(super) struct Queue {
    memory: u64,
    line: Mutex<Waiting>,
    handover: Condvar,
    diverted: AtomicBool,
    turns: AtomicU64,
    bytes: AtomicU64,
    full: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    images: VecDeque<Image>,
    /// The writer of the newest image.
    writer: Writer,
    /// Whether the newest image takes more records.
    is_open: bool,
    /// The weight of the image that is being written.
    out: Weight,
    /// The last image is being written to a disk that is well: new records wait for it.
    closing: bool,
    closed: bool,
}

impl Queue {
    /// Holds at most `memory` bytes.
    pub(super) fn new(memory: u64) -> Self {
        Queue {
            memory,
            line: Mutex::default(),
            handover: Condvar::new(),
            diverted: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
        }
    }

    /// Whether records go to memory.
    pub(super) fn is_diverted(&self) -> bool {
        self.diverted.load(Ordering::Acquire)
    }

    /// How often records began to go to memory. A shard's earlier writes are older than the waiting records; what it writes
    /// afterwards is newer.
    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    /// Bytes that wait, including those that are being written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the memory that is left may not suffice for the calls in flight.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Lets records go to memory from now on. Returns whether they did not before.
    pub(super) fn divert(&self) -> bool {
        let waiting = self.line.lock();
        self.turn(&waiting)
    }

    /// Called under the lock, so that nothing changes while the caller looks whether anything waits.
    fn turn(&self, waiting: &Waiting) -> bool {
        if waiting.closed || self.diverted.load(Ordering::Relaxed) {
            return false;
        }
        self.turns.fetch_add(1, Ordering::AcqRel);
        self.diverted.store(true, Ordering::Release);
        true
    }

    /// Takes a record, if there is room for it.
    pub(super) fn push(&self, record: &Record<'_>, weight: Weight) -> bool {
        let mut waiting = self.line.lock();
        if waiting.closed {
            return false;
        }
        self.turn(&waiting);
        let Waiting { images, writer, is_open, .. } = &mut *waiting;
        if !*is_open || images.back().is_none_or(|image| image.bytes.len() >= IMAGE) {
            if let Some(image) = images.back_mut() {
                image.bytes.shrink_to_fit();
            }
            images.push_back(Image { bytes: vec![0; HEAD], held: Weight::default() });
            (*writer, *is_open) = (Writer::new(), true);
        }
        let Some(image) = images.back_mut() else {
            return false;
        };
        let before = if image.bytes.len() == HEAD { 0 } else { image.bytes.len() };
        writer.frame(record, &mut image.bytes);
        let bytes = self.bytes() + (image.bytes.len() - before) as u64;
        let fits = bytes <= self.memory;
        if fits {
            image.held.add(weight);
            self.bytes.store(bytes, Ordering::Relaxed);
        } else {
            // The writer relies on its earlier output here, so it stops writing.
            *is_open = false;
            image.bytes.truncate(before);
            if before == 0 {
                images.pop_back();
            }
        }
        if !fits || self.memory - bytes <= self.memory / 8 {
            self.full.store(true, Ordering::Release);
        }
        fits
    }

    /// Waits a moment for the last image to reach the disk. Returns whether records go straight to the disk again.
    pub(super) fn settles(&self) -> bool {
        let mut waiting = self.line.lock();
        while waiting.closing {
            if self.handover.wait_for(&mut waiting, STALL).timed_out() {
                break;
            }
        }
        !self.is_diverted()
    }

    /// What to write next. With `is_well`, the disk has just taken something: if this is the last image, new records
    /// wait for it, or else there would always be a next one.
    pub(super) fn next(&self, is_well: bool) -> Next {
        let mut waiting = self.line.lock();
        if !self.is_diverted() {
            return Next::Idle;
        }
        let Some(image) = waiting.images.pop_front() else {
            return Next::Empty;
        };
        waiting.out = image.held;
        waiting.closing = is_well && waiting.images.is_empty();
        Next::Image(image)
    }

    /// The image is on the disk.
    pub(super) fn written(&self, image: &Image) {
        let mut waiting = self.line.lock();
        waiting.out = Weight::default();
        let bytes = self.bytes().saturating_sub(image.bytes.len() as u64);
        self.bytes.store(bytes, Ordering::Relaxed);
        if bytes <= self.memory / 4 * 3 {
            self.full.store(false, Ordering::Release);
        }
    }

    /// The disk did not take the image.
    pub(super) fn put_back(&self, image: Image) {
        let mut waiting = self.line.lock();
        waiting.out = Weight::default();
        if !waiting.closed {
            waiting.images.push_front(image);
        }
        self.reopen(waiting);
    }

    /// The disk takes images, but slowly: new records need not wait for it.
    pub(super) fn keep(&self) {
        self.reopen(self.line.lock());
    }

    fn reopen(&self, mut waiting: parking_lot::MutexGuard<'_, Waiting>) {
        waiting.closing = false;
        drop(waiting);
        self.handover.notify_all();
    }

    /// Sends records straight to the disk, unless some have arrived in the meantime. Returns whether it does.
    pub(super) fn resume(&self) -> bool {
        let waiting = self.line.lock();
        let is_empty = waiting.images.is_empty();
        if is_empty {
            self.diverted.store(false, Ordering::Release);
            self.full.store(false, Ordering::Release);
            self.reopen(waiting);
        }
        is_empty
    }

    /// Takes no more. What waits is lost; returns how much that is.
    pub(super) fn close(&self) -> Weight {
        let mut waiting = self.line.lock();
        waiting.closed = true;
        let mut lost = std::mem::take(&mut waiting.out);
        for image in waiting.images.drain(..) {
            lost.add(image.held);
        }
        self.bytes.store(0, Ordering::Relaxed);
        // Later records are sent here, and not to a disk that no thread watches any more.
        self.diverted.store(true, Ordering::Release);
        self.reopen(waiting);
        lost
    }
}
