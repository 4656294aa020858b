//! The journal's own threads: one writes what waits, one flushes to the medium, and one, which never touches the disk,
//! watches the others.

use super::folder::JournalError;
use super::log_throttle::LogThrottle;
use super::shared::{Drained, Shared, Trouble};
use super::{CLOSE_WITHIN, STALL};
use parking_lot::{Condvar, Mutex};
use rpcgate_layers::coalesce::resume_everywhere;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the writing thread looks whether there is something to do; refusals are written every other time.
const TICK: Duration = Duration::from_millis(50);
/// The longest pause between two attempts on a disk that takes nothing, in ticks.
const LONGEST_PAUSE: u64 = 20;
/// How often the watching thread looks, and how often when a write has been under way the last time.
const LOOK: Duration = Duration::from_millis(25);
const CLOSER_LOOK: Duration = Duration::from_millis(5);

/// How a thread is called, and how it says that it has ended.
#[derive(Debug, Default)]
pub(super) struct Bell {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rung: bool,
    order: Option<Order>,
    has_ended: bool,
}

/// How a thread is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// With all that it has to do done.
    Finish,
    /// At once.
    Leave,
}

/// Why a thread woke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Woken {
    Rung,
    InTime,
    Ordered(Order),
}

impl Bell {
    /// Wakes the thread.
    pub(super) fn ring(&self) {
        self.state.lock().rung = true;
        self.changed.notify_all();
    }

    fn order(&self, order: Order) {
        self.state.lock().order = Some(order);
        self.changed.notify_all();
    }

    fn wait(&self, time: Duration) -> Woken {
        let mut state = self.state.lock();
        if state.order.is_none() && !state.rung {
            // Woken for nothing, the thread looks a little early.
            let _ = self.changed.wait_for(&mut state, time);
        }
        let rung = std::mem::take(&mut state.rung);
        match state.order {
            Some(order) => Woken::Ordered(order),
            None if rung => Woken::Rung,
            None => Woken::InTime,
        }
    }

    /// Waits for the thread's end, but not for ever: it may hang in a call to the system. Whether it ended.
    fn wait_for_end(&self) -> bool {
        let mut state = self.state.lock();
        let _ = self.changed.wait_while_for(&mut state, |state| !state.has_ended, CLOSE_WITHIN);
        state.has_ended
    }
}

/// Says that a thread has ended, however it did.
struct End(Arc<Bell>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

#[derive(Debug)]
struct Worker {
    bell: Arc<Bell>,
    handle: JoinHandle<()>,
}

impl Worker {
    fn start(
        name: &str,
        bell: Arc<Bell>,
        work: impl FnOnce(&Bell) + Send + 'static,
    ) -> Result<Self, JournalError> {
        let end = End(bell.clone());
        let handle = thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&end.0))
            .map_err(JournalError::Thread)?;
        Ok(Worker { bell, handle })
    }

    /// Whether it ended in time.
    fn end(self) -> bool {
        let has_ended = self.bell.wait_for_end();
        if has_ended && self.handle.join().is_err() {
            tracing::error!("a thread of the journal panicked");
        }
        has_ended
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Threads {
    writer: Worker,
    syncer: Worker,
    watcher: Worker,
}

impl Threads {
    pub(super) fn start(shared: &Arc<Shared>, sync_interval: Duration) -> Result<Self, JournalError> {
        let bell = |shared: &Arc<Shared>| (shared.clone(), Arc::new(Bell::default()));
        let (mine, watch_bell) = bell(shared);
        let watcher = Worker::start("journal-watch", watch_bell, move |bell| watch(&mine, bell))?;
        let (mine, sync_bell) = bell(shared);
        let syncer = Worker::start("journal-sync", sync_bell, move |bell| sync(&mine, bell, sync_interval));
        let mine = shared.clone();
        let writer = Worker::start("journal-write", shared.bell.clone(), move |bell| write(&mine, bell));
        match (syncer, writer) {
            (Ok(syncer), Ok(writer)) => Ok(Threads { writer, syncer, watcher }),
            (syncer, writer) => {
                let started = [Ok(watcher), syncer, writer];
                let mut error = None;
                for worker in started {
                    match worker {
                        Ok(worker) => worker.bell.order(Order::Leave),
                        Err(failed) => error = Some(failed),
                    }
                }
                Err(error.unwrap_or_else(|| JournalError::Thread(std::io::ErrorKind::Other.into())))
            }
        }
    }

    /// Ends them. Whether they did what was to do, in time.
    pub(super) fn end(self, order: Order) -> bool {
        // What is written last is flushed too.
        self.writer.bell.order(order);
        let is_written = self.writer.end();
        self.syncer.bell.order(order);
        let is_flushed = self.syncer.end();
        self.watcher.bell.order(order);
        self.watcher.end() && is_written && is_flushed
    }
}

fn write(shared: &Shared, bell: &Bell) {
    let (mut ticks, mut due, mut pause) = (0, 0, 1);
    loop {
        match bell.wait(TICK) {
            Woken::Ordered(Order::Finish) => return shared.finish(),
            Woken::Ordered(Order::Leave) => return,
            // Records have just begun to go to memory: perhaps one file was to blame, not the disk.
            Woken::Rung => due = ticks,
            Woken::InTime => {
                ticks += 1;
                if ticks % 2 == 0 {
                    shared.shards.iter().for_each(|shard| shared.flush(shard));
                }
            }
        }
        if shared.queue.is_diverted() && ticks >= due {
            match shared.drain() {
                Drained::All => pause = 1,
                Drained::Some => (due, pause) = (ticks + 1, 1),
                Drained::Nothing => (due, pause) = (ticks + pause, (2 * pause).min(LONGEST_PAUSE)),
            }
        }
        shared.segment_files.clean();
    }
}

fn sync(shared: &Shared, bell: &Bell, interval: Duration) {
    let throttle = LogThrottle::default();
    loop {
        let woken = bell.wait(interval);
        if woken == Woken::Ordered(Order::Leave) {
            return;
        }
        if let Err(error) = shared.segment_files.sync()
            && throttle.is_due(shared.clock.elapsed())
        {
            tracing::error!(
                "the journal cannot be flushed: {error}; a power failure would cost what it holds"
            );
        }
        if woken == Woken::Ordered(Order::Finish) {
            return;
        }
    }
}

fn watch(shared: &Shared, bell: &Bell) {
    let (throttle, mut before) = (LogThrottle::default(), shared.losses.sum());
    let mut look = LOOK;
    loop {
        let woken = bell.wait(look);
        look = LOOK;
        if !shared.queue.is_diverted() && shared.is_held(CLOSER_LOOK) {
            look = CLOSER_LOOK;
            if shared.is_held(STALL) {
                shared.divert(&Trouble::Stalled);
            }
        }
        // A thread that the disk holds does not come round to the answers that wait on it.
        if shared.queue.is_diverted() && shared.is_held(STALL) {
            resume_everywhere();
        }
        let sum = shared.losses.sum();
        let is_last = matches!(woken, Woken::Ordered(_));
        if sum != before && (throttle.is_due(shared.clock.elapsed()) || is_last) {
            tracing::error!(
                records = sum.records - before.records,
                calls = sum.calls - before.calls,
                cu = sum.cu - before.cu,
                "usage was lost: neither the journal's disk nor its memory had room"
            );
            before = sum;
        }
        if is_last {
            return;
        }
    }
}
