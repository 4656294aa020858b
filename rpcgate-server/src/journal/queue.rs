//! The memory queue for a disk that is full or does not answer. While records wait here, all new records come here too,
//! so that the records of a shard stay in order.
//!
//! Records wait as images of whole segments, each readable by itself. Once the disk works again, each image becomes a
//! file with one write.

use super::STALL;
use super::records::Weight;
use parking_lot::{Condvar, Mutex};
use rpcgate_core::backend::usage_sink::Record;
use rpcgate_core::journal::{HEAD, Writer};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The size, in bytes, at which the next image is begun.
const IMAGE: usize = 512 * 1024;

#[derive(Debug)]
pub(super) struct Image {
    /// Space for a head, followed by whole frames.
    pub(super) bytes: Vec<u8>,
    held: Weight,
}

/// The next step of the writing thread.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing to do: records go straight to the disk.
    Idle,
    /// Nothing waits. If the disk is well, records may go straight to it.
    Empty,
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
    writer: Writer,
    /// The newest image takes more records.
    is_open: bool,
    /// The weight of the image that is being written.
    out: Weight,
    /// The last image is being written to a healthy disk; new records wait for it.
    closing: bool,
    closed: bool,
}

impl Queue {
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

    pub(super) fn is_diverted(&self) -> bool {
        self.diverted.load(Ordering::Acquire)
    }

    /// Returns how often records began to go to memory. A shard's writes before that are older than the queue's.
    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    /// Returns the waiting bytes, including those being written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Reports whether the free memory may not suffice for the calls in flight.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Diverts records to memory. Returns false if they already were.
    pub(super) fn divert(&self) -> bool {
        let waiting = self.line.lock();
        self.turn(&waiting)
    }

    /// Called under the lock, so that nothing changes while the caller checks for waiting records.
    fn turn(&self, waiting: &Waiting) -> bool {
        if waiting.closed || self.diverted.load(Ordering::Relaxed) {
            return false;
        }
        self.turns.fetch_add(1, Ordering::AcqRel);
        self.diverted.store(true, Ordering::Release);
        true
    }

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
            // The writer relies on its earlier output in this image, so it cannot continue here.
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

    /// Waits at most [`STALL`] for the last image. Returns whether records go straight to the disk again.
    pub(super) fn settles(&self) -> bool {
        let mut waiting = self.line.lock();
        while waiting.closing {
            if self.handover.wait_for(&mut waiting, STALL).timed_out() {
                break;
            }
        }
        !self.is_diverted()
    }

    /// Returns the next step. `is_well` means that the disk has just accepted data without delay: new records then wait
    /// for the last image, because otherwise there would always be a next one.
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

    pub(super) fn written(&self, image: &Image) {
        let mut waiting = self.line.lock();
        waiting.out = Weight::default();
        let bytes = self.bytes().saturating_sub(image.bytes.len() as u64);
        self.bytes.store(bytes, Ordering::Relaxed);
        if bytes <= self.memory / 4 * 3 {
            self.full.store(false, Ordering::Release);
        }
    }

    /// Returns an image that the disk did not take to the front of the queue.
    pub(super) fn put_back(&self, image: Image) {
        let mut waiting = self.line.lock();
        waiting.out = Weight::default();
        if !waiting.closed {
            waiting.images.push_front(image);
        }
        self.reopen(waiting);
    }

    /// Lets new records continue in memory, because the disk accepts images only slowly.
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

    /// Closes the queue. Returns the weight of the waiting records, which are lost.
    pub(super) fn close(&self) -> Weight {
        let mut waiting = self.line.lock();
        waiting.closed = true;
        let mut lost = std::mem::take(&mut waiting.out);
        for image in waiting.images.drain(..) {
            lost.add(image.held);
        }
        self.bytes.store(0, Ordering::Relaxed);
        // Later records are sent here instead of to a disk that no thread watches any more.
        self.diverted.store(true, Ordering::Release);
        self.reopen(waiting);
        lost
    }
}
