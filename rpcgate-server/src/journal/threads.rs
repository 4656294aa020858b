//! The journal's threads: one writes the memory queue to the disk, one flushes, and one watches the others without ever
//! touching the disk.

use super::STALL;
use super::folder::JournalError;
use super::log_throttle::LogThrottle;
use super::shared::{Emptied, Shared, Trouble};
use super::worker_signal::{Order, WakeReason, WorkerSignal};
use rpcgate_layers::coalesce::resume_everywhere;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval of the writing thread; refusals are written at every second tick.
const TICK: Duration = Duration::from_millis(50);
/// The longest pause, in ticks, between two attempts on a disk that accepts nothing.
const LONGEST_PAUSE: u64 = 20;
/// The interval of the watching thread, and its shorter interval while a write is in progress.
const LOOK: Duration = Duration::from_millis(25);
const CLOSER_LOOK: Duration = Duration::from_millis(5);

/// Notes that a thread has ended, even if it panicked.
struct End(Arc<WorkerSignal>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.ended();
    }
}

#[derive(Debug)]
struct Worker {
    signal: Arc<WorkerSignal>,
    handle: JoinHandle<()>,
}

impl Worker {
    fn start(
        name: &str,
        signal: Arc<WorkerSignal>,
        work: impl FnOnce(&WorkerSignal) + Send + 'static,
    ) -> Result<Self, JournalError> {
        let end = End(signal.clone());
        let handle = thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&end.0))
            .map_err(JournalError::Thread)?;
        Ok(Worker { signal, handle })
    }

    /// Waits for the thread's end. Returns whether it ended in time.
    fn end(self) -> bool {
        let has_ended = self.signal.wait_for_end();
        if has_ended && self.handle.join().is_err() {
            tracing::error!("a thread of the journal panicked");
        }
        has_ended
    }
}

#[derive(Debug)]
pub(super) struct Threads {
    writer: Worker,
    syncer: Worker,
    watcher: Worker,
}

impl Threads {
    pub(super) fn start(shared: &Arc<Shared>, sync_interval: Duration) -> Result<Self, JournalError> {
        let signal = |shared: &Arc<Shared>| (shared.clone(), Arc::new(WorkerSignal::default()));
        let (mine, watch_signal) = signal(shared);
        let watcher = Worker::start("journal-watch", watch_signal, move |signal| watch(&mine, signal))?;
        let (mine, sync_signal) = signal(shared);
        let syncer =
            Worker::start("journal-sync", sync_signal, move |signal| sync(&mine, signal, sync_interval));
        let mine = shared.clone();
        let writer =
            Worker::start("journal-write", shared.writer_signal.clone(), move |signal| write(&mine, signal));
        match (syncer, writer) {
            (Ok(syncer), Ok(writer)) => Ok(Threads { writer, syncer, watcher }),
            (syncer, writer) => {
                let started = [Ok(watcher), syncer, writer];
                let mut error = None;
                for worker in started {
                    match worker {
                        Ok(worker) => worker.signal.order(Order::Leave),
                        Err(failed) => error = Some(failed),
                    }
                }
                Err(error.unwrap_or_else(|| JournalError::Thread(std::io::ErrorKind::Other.into())))
            }
        }
    }

    /// Ends the threads. Returns whether they finished their work in time.
    pub(super) fn end(self, order: Order) -> bool {
        // In this order the last write is flushed too.
        self.writer.signal.order(order);
        let is_written = self.writer.end();
        self.syncer.signal.order(order);
        let is_flushed = self.syncer.end();
        self.watcher.signal.order(order);
        self.watcher.end() && is_written && is_flushed
    }
}

fn write(shared: &Shared, signal: &WorkerSignal) {
    let mut ticks = 0;
    let mut due = 0;
    let mut pause = 1;
    loop {
        match signal.wait(TICK) {
            WakeReason::Ordered(Order::Finish) => return shared.finish(),
            WakeReason::Ordered(Order::Leave) => return,
            // Records have just begun to go to memory: perhaps one file was at fault, not the disk.
            WakeReason::Early => due = ticks,
            WakeReason::InTime => {
                ticks += 1;
                if ticks % 2 == 0 {
                    shared.shards.iter().for_each(|shard| shared.flush(shard));
                }
            }
        }
        if shared.queue.is_diverted() && ticks >= due {
            match shared.drain() {
                Emptied::All => pause = 1,
                Emptied::Some => (due, pause) = (ticks + 1, 1),
                Emptied::Nothing => (due, pause) = (ticks + pause, (2 * pause).min(LONGEST_PAUSE)),
            }
        }
        shared.segment_files.clean();
    }
}

fn sync(shared: &Shared, signal: &WorkerSignal, interval: Duration) {
    let throttle = LogThrottle::default();
    loop {
        let woken = signal.wait(interval);
        if woken == WakeReason::Ordered(Order::Leave) {
            return;
        }
        if let Err(error) = shared.segment_files.sync()
            && throttle.is_due(shared.clock.elapsed())
        {
            tracing::error!("the journal cannot be flushed: {error}; a power failure would lose its records");
        }
        if woken == WakeReason::Ordered(Order::Finish) {
            return;
        }
    }
}

fn watch(shared: &Shared, signal: &WorkerSignal) {
    let throttle = LogThrottle::default();
    let mut before = shared.losses.sum();
    let mut look = LOOK;
    loop {
        let woken = signal.wait(look);
        look = LOOK;
        if !shared.queue.is_diverted() && shared.is_held(CLOSER_LOOK) {
            look = CLOSER_LOOK;
            if shared.is_held(STALL) {
                shared.divert(&Trouble::Stalled);
            }
        }
        // A thread that the disk holds does not resume the answers that wait on it.
        if shared.queue.is_diverted() && shared.is_held(STALL) {
            resume_everywhere();
        }
        let sum = shared.losses.sum();
        let is_last = matches!(woken, WakeReason::Ordered(_));
        if sum != before && (throttle.is_due(shared.clock.elapsed()) || is_last) {
            tracing::error!(
                records = sum.records - before.records,
                calls = sum.calls - before.calls,
                cu = sum.cu - before.cu,
                "usage was lost: neither the journal's disk nor its memory had space"
            );
            before = sum;
        }
        if is_last {
            return;
        }
    }
}
