//! The state that a journal's callers and threads share, and the path of a record through it.

use super::STALL;
use super::log_throttle::LogThrottle;
use super::losses::Losses;
use super::queue::{Next, Queue};
use super::records::{Records, Weight};
use super::refusals::{AddResult, Refusals};
use super::segments::Segments;
use super::shard::{SegmentWriter, Shard, number};
use super::waiting::Waiting;
use super::worker_signal::WorkerSignal;
use crate::metrics::meter::Meter;
use parking_lot::MutexGuard;
use rpcgate_core::backend::usage_sink::{Record, Ticket};
use rpcgate_core::clock::Clock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The bytes that a disk must accept before it counts as healthy again.
const PROBE: usize = 64 * 1024;
/// The interval at which a thread that waits for its shard checks whether the disk is stalled.
const WAIT: Duration = Duration::from_millis(5);
/// The sleep of the last free thread while it waits for another thread's write.
const NAP: Duration = Duration::from_micros(50);
/// The number of checks before it sleeps: a write takes a microsecond or two.
const LOOKS: u32 = 2_000;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) segment_files: Segments,
    pub(super) shards: Box<[Shard]>,
    pub(super) queue: Queue,
    pub(super) losses: Losses,
    pub(super) clock: Arc<dyn Clock>,
    /// Wakes the thread that writes the queue to the disk.
    pub(super) writer_signal: Arc<WorkerSignal>,
    writing: AtomicUsize,
    throttle: LogThrottle,
    /// The log says that records go to memory.
    is_logged: AtomicBool,
}

/// The result of an attempt to empty the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Emptied {
    /// Records go straight to the disk.
    All,
    /// The disk took some records.
    Some,
    /// The disk took nothing.
    Nothing,
}

impl Shared {
    pub(super) fn new(segment_files: Segments, shards: usize, memory: u64, clock: Arc<dyn Clock>) -> Self {
        Shared {
            segment_files,
            shards: (0..shards.max(1)).map(|_| Shard::default()).collect(),
            queue: Queue::new(memory),
            losses: Losses::default(),
            clock,
            writer_signal: Arc::new(WorkerSignal::default()),
            writing: AtomicUsize::new(0),
            throttle: LogThrottle::default(),
            is_logged: AtomicBool::new(false),
        }
    }

    /// Records `record` in the calling thread's shard.
    pub(super) fn append(&self, record: &Record<'_>) {
        let shard = &self.shards[number() % self.shards.len()];
        if Refusals::wants(record) {
            self.refuse(shard, record);
        } else {
            shard.waiting.count(record);
            self.put(shard, record);
        }
    }

    /// Holds `record` in the calling thread's shard if it may wait for others.
    pub(super) fn hold(&self, record: &Record<'_>) -> Option<Ticket> {
        let index = number() % self.shards.len();
        let shard = &self.shards[index];
        if Refusals::wants(record) {
            self.refuse(shard, record);
            return None;
        }
        if !Waiting::wants(record) {
            shard.waiting.count(record);
            self.put(shard, record);
            return None;
        }
        Some(Ticket { slot: index, number: shard.waiting.add(record) })
    }

    /// Calls `act` with every meter, each under a lock that its callers take anyway.
    pub(super) fn metered(&self, mut act: impl FnMut(&mut Meter)) {
        for shard in &self.shards {
            shard.waiting.metered(&mut act);
            act(&mut shard.refusals.lock().meter);
        }
    }

    /// Writes the record of a ticket together with all others that wait in its shard.
    pub(super) fn write_held(&self, ticket: Ticket) {
        let Some(shard) = self.shards.get(ticket.slot) else { return };
        while !shard.waiting.is_done(ticket.number) {
            if let Some(turn) = shard.waiting.turn(WAIT) {
                if !shard.waiting.is_done(ticket.number) {
                    turn.each(|held| self.put(shard, held));
                }
            } else if self.queue.is_diverted() {
                // The disk holds the thread that writes this record. The record waits in memory, as others do now.
                return;
            }
        }
    }

    fn refuse(&self, shard: &Shard, record: &Record<'_>) {
        let taken = shard.refusals.lock().add(record);
        match taken {
            AddResult::Held => {}
            AddResult::Enough => self.flush(shard),
            AddResult::Closed => self.losses.add(Weight::of(record, 1)),
        }
    }

    /// Writes the refusals that wait in a shard.
    pub(super) fn flush(&self, shard: &Shard) {
        let held = shard.refusals.lock().take();
        if !held.is_empty() {
            self.put(shard, held.as_slice());
        }
    }

    /// Writes records to the disk, else to memory, else counts them as lost.
    pub(super) fn put(&self, shard: &Shard, records: &(impl Records + ?Sized)) {
        if self.write(shard, records) || self.queue.settles() && self.write(shard, records) {
            return;
        }
        if self.queue.divert() {
            self.writer_signal.wake();
        }
        records.each(|record, weight| {
            if !self.queue.push(record, weight) {
                self.losses.add(weight);
            }
        });
    }

    /// Writes records to the shard's segment, all or none. Returns whether the disk took them.
    fn write(&self, shard: &Shard, records: &(impl Records + ?Sized)) -> bool {
        if self.queue.is_diverted() {
            return false;
        }
        let Some(mut segment_writer) = self.segment_writer(shard) else {
            return false;
        };
        let Some(permit) = self.write_permit() else {
            return false;
        };
        // The disk may have stalled, or the journal may have been closed, while this thread waited.
        if segment_writer.is_closed || self.queue.is_diverted() {
            return false;
        }
        shard.begin(self.clock.elapsed());
        let written = segment_writer.write(&self.segment_files, self.queue.turns(), records);
        shard.end();
        drop(permit);
        drop(segment_writer);
        if let Err(error) = &written {
            self.divert(&Trouble::Failed(error));
        }
        written.is_ok()
    }

    /// Returns the shard's writer; `None` if the disk holds the thread that has it.
    fn segment_writer<'a>(&self, shard: &'a Shard) -> Option<MutexGuard<'a, SegmentWriter>> {
        loop {
            let segment_writer = shard.segment_writer.try_lock_for(WAIT);
            if segment_writer.is_some() || self.queue.is_diverted() {
                return segment_writer;
            }
        }
    }

    /// Returns a permit to write. At least one shard is never being written to: a disk that stops answering holds the
    /// threads that write to it, and one thread must remain to continue with memory. The last thread waits until
    /// another's write ends, which takes microseconds, or returns `None` when the disk is found stalled.
    fn write_permit(&self) -> Option<WritePermit<'_>> {
        let most = (self.shards.len() - 1).max(1);
        let enter = || {
            let permit = WritePermit(&self.writing);
            (self.writing.fetch_add(1, Ordering::AcqRel) < most || self.shards.len() == 1).then_some(permit)
        };
        let mut looks = 0;
        loop {
            if self.writing.load(Ordering::Acquire) < most
                && let Some(permit) = enter()
            {
                return Some(permit);
            }
            if self.queue.is_diverted() {
                return None;
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }

    pub(super) fn divert(&self, trouble: &Trouble<'_>) {
        if !self.queue.divert() {
            return;
        }
        self.writer_signal.wake();
        if self.throttle.is_due(self.clock.elapsed()) {
            tracing::warn!("the journal's disk {trouble}: records go to memory");
            self.is_logged.store(true, Ordering::Relaxed);
        }
    }

    /// Reports whether the disk holds a thread for longer than `limit`.
    pub(super) fn is_held(&self, limit: Duration) -> bool {
        let now = self.clock.elapsed();
        self.shards.iter().any(|shard| shard.is_held(now, limit))
    }

    /// Writes the queue to the disk. Records go straight to the disk again once it took all of them without delay.
    pub(super) fn drain(&self) -> Emptied {
        let drained = self.empty();
        if drained != Emptied::All {
            self.queue.keep();
        }
        drained
    }

    fn empty(&self) -> Emptied {
        let mut is_well = false;
        let mut any = Emptied::Nothing;
        loop {
            let next = self.queue.next(is_well);
            let begun = self.clock.elapsed();
            match next {
                Next::Idle => return Emptied::All,
                Next::Image(mut image) => {
                    if self.segment_files.store(&mut image.bytes).is_err() {
                        self.queue.put_back(image);
                        return any;
                    }
                    self.queue.written(&image);
                    any = Emptied::Some;
                }
                Next::Empty if is_well => {
                    if self.is_held(STALL) {
                        return any;
                    }
                    if self.queue.resume() {
                        if self.is_logged.swap(false, Ordering::Relaxed) {
                            tracing::info!("the journal's disk takes records again");
                        }
                        return Emptied::All;
                    }
                }
                Next::Empty => {
                    self.queue.keep();
                    if self.segment_files.probe(&[0; PROBE]).is_err() || self.took_long(begun) {
                        return any;
                    }
                }
            }
            is_well = !self.took_long(begun);
        }
    }

    fn took_long(&self, begun: Duration) -> bool {
        self.clock.elapsed().saturating_sub(begun) > STALL
    }

    /// Writes all that waits and accepts no more. Records that cannot be written are lost.
    pub(super) fn finish(&self) {
        for shard in &self.shards {
            if let Some(turn) = shard.waiting.turn(STALL) {
                turn.each(|held| self.put(shard, held));
            }
            let held = shard.refusals.lock().close();
            if !held.is_empty() {
                self.put(shard, held.as_slice());
            }
            // A thread that the disk holds does not get to write another record.
            if let Some(mut segment_writer) = shard.segment_writer.try_lock_for(STALL) {
                segment_writer.seal();
                segment_writer.is_closed = true;
            }
        }
        while self.drain() == Emptied::Some {}
        self.lose_the_rest();
        self.segment_files.clean();
    }

    /// Closes the queue. Records that wait in memory are lost.
    pub(super) fn lose_the_rest(&self) {
        self.losses.add(self.queue.close());
    }
}

struct WritePermit<'a>(&'a AtomicUsize);

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(super) enum Trouble<'a> {
    Stalled,
    Failed(&'a io::Error),
}

impl std::fmt::Display for Trouble<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Stalled => f.write_str("does not answer in time"),
            Trouble::Failed(error) => write!(f, "takes no record ({error})"),
        }
    }
}
