//! The journal: usage that is not in the database yet, on the gateway's own disk.
//!
//! A record is one frame of [`rpcgate_core::journal`]'s form, at the end of a segment of its thread's shard, and
//! written before its answer leaves: killing the process does not undo its writes. Answers that are ready at the
//! same time share one write. A thread flushes to the medium on a timer, for power failures. Refusals are never billed;
//! they wait up to a tenth of a second, and in a storm are summed. The shipper reads segments, stores their records,
//! and removes segments that are sealed and stored.
//!
//! If the disk is full or holds a write for longer than [`STALL`], records wait in memory, up to a bound. A record that
//! finds no room there either is lost, and counted to the unit. A thread that merely waits for a processor does not
//! count as held by the disk: a kill would cost the records in memory.
//!
//! The folder holds the gateway's identity, and a lock: one process uses it at a time.

mod cut;
mod folder;
mod log_throttle;
mod losses;
mod medium;
mod queue;
mod records;
mod recover;
mod refusals;
mod running;
mod segment_name;
mod segments;
mod shard;
mod shared;
#[cfg(test)]
mod tests;
mod threads;
mod waiting;
mod worker_signal;

pub use folder::JournalError;
pub(crate) use folder::known_gateway;
pub use medium::{Disk, Medium, MediumFile};
pub(crate) use shard::number as thread_number;

use crate::metrics::meter::{Names, Sums};
use folder::{Folder, failed};
use parking_lot::Mutex;
use rpcgate_config::{JournalSettings, OnFull};
use rpcgate_core::backend::usage_sink::{Record, Ticket, UsageSink};
use rpcgate_core::clock::Clock;
use rpcgate_core::journal::{GatewayId, SegmentId};
use segments::Segments;
use shared::Shared;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;
use threads::Threads;
use worker_signal::Order;

/// The disk counts as stalled when it holds a write for longer.
pub const STALL: Duration = Duration::from_millis(50);

/// A segment that has grown to this many bytes is sealed.
const SEGMENT: u64 = 16 << 20;

/// How long [`Journal::close`] waits for each thread whose write the disk holds.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// The settings of a [`Journal`].
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Its folder; created if it is missing.
    pub dir: PathBuf,
    /// What happens to calls that cannot be recorded.
    pub on_full: OnFull,
    /// Bytes of records held in memory while the disk is full or stalled.
    pub memory: u64,
    /// Time between flushes to the medium.
    pub sync_interval: Duration,
    /// How many threads write without waiting for each other; as many segments are open at a time.
    pub shards: usize,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What its files are written on.
    pub medium: Arc<dyn Medium>,
}

impl JournalOptions {
    /// The settings of a configuration, on the machine's disk, with a shard for each worker of a runtime of the default
    /// size.
    pub fn new(config: &JournalSettings, clock: Arc<dyn Clock>) -> Self {
        JournalOptions {
            dir: config.dir.clone(),
            on_full: config.on_full,
            memory: config.memory,
            sync_interval: config.sync_interval,
            shards: available_parallelism().map_or(1, usize::from),
            clock,
            medium: Arc::new(Disk),
        }
    }
}

/// The current state of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its identifier. Newer segments have larger ones.
    pub id: SegmentId,
    /// Its length in bytes: its head and whole frames. It does not shrink.
    pub len: u64,
    /// Whether nothing more is appended: `len` is final.
    pub sealed: bool,
}

/// Status of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct JournalStatus {
    /// Whether records wait in memory, because the disk is full or does not answer in time.
    pub stalled: bool,
    /// Whether the memory for more of them is nearly used up.
    pub full: bool,
    /// Bytes that wait in memory.
    pub queued_bytes: u64,
    /// Segments on the disk.
    pub segments: u64,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Records lost since the start, because neither the disk nor memory had room, or because the journal was closed.
    pub lost_records: u64,
    /// Calls in them.
    pub lost_calls: u64,
    /// Compute Units charged in them.
    pub lost_cu: u64,
}

/// Usage that is not in the database yet.
///
/// Dropped without [`close`](Journal::close), it leaves the same files as a killed process: every charged record that the
/// disk took.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    on_full: OnFull,
    admits: AtomicBool,
    is_closed: AtomicBool,
    threads: Mutex<Option<Threads>>,
    /// Dropped after the threads, which write in it.
    _folder: Folder,
}

impl Journal {
    /// Opens the folder, creates it if it is missing, locks it, and cuts incomplete records off the segments in it. The
    /// journal takes records at once, but [`is_ready`](UsageSink::is_ready) is false until [`admit`](Journal::admit).
    ///
    /// # Errors
    /// [`JournalError`] if the folder is in use or cannot be used. Its content causes no error: a segment that cannot
    /// be read is left as it is, and logged.
    pub fn open(options: JournalOptions) -> Result<Arc<Journal>, JournalError> {
        let JournalOptions { dir, on_full, memory, sync_interval, shards, clock, medium } = options;
        let folder = Folder::open(&dir)?;
        let gateway = match folder.gateway()? {
            Some(gateway) => gateway,
            None => {
                let owner = recover::owner(&dir, &*medium).map_err(failed(&dir, "."))?;
                let gateway = owner.unwrap_or_else(|| GatewayId::new(clock.now()));
                folder.keep_gateway(gateway)?;
                gateway
            }
        };
        let segment_files =
            Segments::open(&dir, gateway, medium, clock.clone()).map_err(failed(&dir, "."))?;
        let shared = Arc::new(Shared::new(segment_files, shards, memory, clock));
        let threads = Threads::start(&shared, sync_interval)?;
        Ok(Arc::new(Journal {
            shared,
            on_full,
            admits: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            threads: Mutex::new(Some(threads)),
            _folder: folder,
        }))
    }

    /// The gateway that writes the journal. The same after a restart on the same folder.
    pub fn gateway(&self) -> GatewayId {
        self.shared.segment_files.gateway()
    }

    /// All segments, oldest first.
    pub fn segments(&self) -> Vec<Segment> {
        self.shared.segment_files.segments()
    }

    /// Appends bytes `from..to` of a segment to `into`. It blocks while the disk does.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::InvalidInput`] beyond the segment's length, and
    /// [`io::ErrorKind::NotFound`] if there is no such segment. `into` is then unchanged.
    pub fn read(&self, id: SegmentId, from: u64, to: u64, into: &mut Vec<u8>) -> io::Result<()> {
        self.shared.segment_files.read(id, from, to, into)
    }

    /// Removes a sealed segment: it does not reappear after a power failure either. A segment that does not
    /// exist counts as removed. It blocks while the disk does.
    ///
    /// # Errors
    /// The operating system's: the segment may still be there, or come back, until another call succeeds.
    /// [`io::ErrorKind::InvalidInput`] if the segment is not sealed, [`io::ErrorKind::InvalidData`] if its file exists
    /// and could not be read when the journal was opened: another start may read it.
    pub fn forget(&self, id: SegmentId) -> io::Result<()> {
        self.shared.segment_files.forget(id)
    }

    /// Accepts calls, once the records of an earlier process are shipped.
    pub fn admit(&self) {
        self.admits.store(true, Ordering::Release);
    }

    /// Seals the open segments, so that they can be shipped to their end and removed. An open segment is never empty.
    pub fn rotate(&self) {
        for shard in &self.shared.shards {
            // A segment that the disk holds is sealed another time.
            if let Some(mut segment_writer) = shard.segment_writer.try_lock_for(STALL) {
                segment_writer.seal();
            }
        }
    }

    /// Its status.
    pub fn status(&self) -> JournalStatus {
        let (queue, lost) = (&self.shared.queue, self.shared.losses.sum());
        let segments = self.segments();
        JournalStatus {
            stalled: queue.is_diverted(),
            full: queue.is_full(),
            queued_bytes: queue.bytes(),
            segments: segments.len() as u64,
            segment_bytes: segments.iter().map(|segment| segment.len).sum(),
            lost_records: lost.records,
            lost_calls: lost.calls,
            lost_cu: lost.cu,
        }
    }

    /// Starts counting calls, by the labels in `names`.
    pub(crate) fn meter(&self, names: &Arc<Names>) {
        self.shared.metered(|meter| meter.start(names.clone()));
    }

    /// The counts since then.
    pub(crate) fn metered(&self) -> Sums {
        let mut sums = Sums::default();
        self.shared.metered(|meter| meter.add_to(&mut sums));
        sums
    }

    /// Writes and flushes all that waits, seals the open segments and ends the threads. Later records count as lost. A
    /// disk that does not answer is waited for some seconds at most. Closing it again does nothing.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let Some(threads) = self.threads.lock().take() else {
            return;
        };
        if !threads.end(Order::Finish) {
            self.shared.lose_the_rest();
            tracing::error!("the journal's disk does not answer: closed without it");
        }
    }
}

impl UsageSink for Journal {
    fn append(&self, record: &Record<'_>) {
        self.shared.append(record);
    }

    fn hold(&self, record: &Record<'_>) -> Option<Ticket> {
        self.shared.hold(record)
    }

    fn write(&self, ticket: Ticket) {
        self.shared.write_held(ticket);
    }

    /// False before [`admit`](Journal::admit), after [`close`](Journal::close), and, if the configuration says so,
    /// while neither disk nor memory has room.
    fn is_ready(&self) -> bool {
        self.admits.load(Ordering::Acquire)
            && !self.is_closed.load(Ordering::Acquire)
            && !(self.on_full == OnFull::Refuse && self.shared.queue.is_full())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.get_mut().take() {
            threads.end(Order::Leave);
        }
    }
}
