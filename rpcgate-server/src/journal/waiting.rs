//! Records whose answers are about to leave. Each waits for a few turns of the runtime, and the first answer that goes
//! on writes all of them: on a busy gateway one write serves many answers.

use super::records::Held;
use crate::metrics::meter::Meter;
use parking_lot::{Mutex, MutexGuard};
use rpcgate_core::backend::usage_sink::Record;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The maximum lines of a record that waits: copying a larger batch would cost more than a write.
const MOST_LINES: usize = 4;

/// A shard's waiting records, numbered in order.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    line: Mutex<Line>,
    /// All records up to this number are written or in memory.
    done: AtomicU64,
    /// Locked by the thread that writes the records.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct Line {
    held: Vec<Held>,
    /// The number of records that have ever waited.
    count: u64,
    spare: Vec<Held>,
    /// Counts all records, whether they wait or not.
    meter: Meter,
}

/// A permit to write the waiting records.
pub(super) struct QueueTurn<'a> {
    waiting: &'a Waiting,
    _turn: MutexGuard<'a, ()>,
}

impl Waiting {
    pub(super) fn wants(record: &Record<'_>) -> bool {
        record.lines.len() <= MOST_LINES
    }

    pub(super) fn add(&self, record: &Record<'_>) -> u64 {
        let mut line = self.line.lock();
        line.meter.count(record);
        line.held.push(Held::copy(record));
        line.count += 1;
        line.count
    }

    pub(super) fn count(&self, record: &Record<'_>) {
        self.line.lock().meter.count(record);
    }

    pub(super) fn metered(&self, act: impl FnOnce(&mut Meter)) {
        act(&mut self.line.lock().meter);
    }

    pub(super) fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::Acquire) >= number
    }

    /// Returns the permit to write, unless another thread holds it for longer than `patience`.
    pub(super) fn turn(&self, patience: Duration) -> Option<QueueTurn<'_>> {
        let turn = self.turn.try_lock_for(patience)?;
        Some(QueueTurn { waiting: self, _turn: turn })
    }
}

impl QueueTurn<'_> {
    pub(super) fn each(&self, write: impl FnOnce(&[Held])) {
        let (mut held, last) = {
            let mut line = self.waiting.line.lock();
            let spare = std::mem::take(&mut line.spare);
            (std::mem::replace(&mut line.held, spare), line.count)
        };
        if !held.is_empty() {
            write(&held);
            held.clear();
        }
        self.waiting.line.lock().spare = held;
        self.waiting.done.store(last, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite::record;

    #[test]
    fn the_first_thread_writes_for_all_in_order_of_arrival() {
        let waiting = Waiting::default();
        let numbers = [5, 6, 7].map(|n| waiting.add(&record(n, &[])));
        assert_eq!(numbers, [1, 2, 3]);
        let mut written = 0;
        waiting.turn(Duration::ZERO).unwrap().each(|held| written = held.len());
        assert_eq!((written, waiting.is_done(3), waiting.is_done(4)), (3, true, false));
        assert_eq!(waiting.add(&record(8, &[])), 4);
        assert!(!waiting.is_done(4));
    }

    #[test]
    fn one_thread_writes_at_a_time_and_new_records_wait_for_the_next_write() {
        let waiting = Waiting::default();
        waiting.add(&record(1, &[]));
        let turn = waiting.turn(Duration::ZERO).unwrap();
        turn.each(|_| {
            assert!(waiting.turn(Duration::ZERO).is_none());
            waiting.add(&record(2, &[]));
        });
        assert!(waiting.is_done(1) && !waiting.is_done(2));
        let mut written = 0;
        turn.each(|held| written = held.len());
        assert!(written == 1 && waiting.is_done(2));
    }
}
