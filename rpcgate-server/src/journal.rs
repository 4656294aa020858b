//! The journal: usage records on the gateway's own disk that are not in the database yet.
//!
//! A record is one frame in the format of [`rpcgate_core::journal`], appended to a segment of its thread's shard. It is
//! written before its answer leaves, so killing the process loses nothing. Answers that are ready at the same time
//! share one write. A thread flushes to the medium on a timer, for power failures. Refusals are never billed; they wait
//! up to a tenth of a second, and in a storm are summed. The shipper reads segments, stores their records and removes
//! segments that are sealed and stored.
//!
//! If the disk is full or holds a write for longer than [`STALL`], records wait in a bounded memory. A record that does
//! not fit there either is lost and counted exactly. A thread that merely waits for a processor does not count as held
//! by the disk, because a kill would lose the records in memory.
//!
//! The folder contains the gateway's identity and a lock, so that one process uses it at a time.

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

/// The maximum time of a write; beyond it the disk counts as stalled.
pub const STALL: Duration = Duration::from_millis(50);

/// The length, in bytes, at which a segment is sealed.
const SEGMENT: u64 = 16 << 20;

/// The time that [`Journal::close`] waits for each thread whose write the disk holds.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// The settings of a [`Journal`].
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// The folder, created if it is missing.
    pub dir: PathBuf,
    /// The handling of calls that cannot be recorded.
    pub on_full: OnFull,
    /// The maximum bytes of records in memory while the disk is full or stalled.
    pub memory: u64,
    /// The time between flushes to the medium.
    pub sync_interval: Duration,
    /// The number of shards: the threads that write without contention, and the open segments.
    pub shards: usize,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The medium of the files.
    pub medium: Arc<dyn Medium>,
}

impl JournalOptions {
    /// Returns the settings of a configuration on the machine's disk, with a shard per default runtime worker.
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
    /// The identifier. Newer segments have larger ones.
    pub id: SegmentId,
    /// The length in bytes of the head and whole frames. It never shrinks.
    pub len: u64,
    /// Nothing more is appended: `len` is final.
    pub sealed: bool,
}

/// The status of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct JournalStatus {
    /// Records wait in memory because the disk is full or does not answer in time.
    pub stalled: bool,
    /// The memory for waiting records is nearly used up.
    pub full: bool,
    /// Bytes that wait in memory.
    pub queued_bytes: u64,
    /// The number of segments on the disk.
    pub segments: u64,
    /// The bytes of all segments.
    pub segment_bytes: u64,
    /// Records lost since the start, because disk and memory were full or the journal was closed.
    pub lost_records: u64,
    /// Calls in the lost records.
    pub lost_calls: u64,
    /// Compute Units charged in the lost records.
    pub lost_cu: u64,
}

/// The journal of usage that is not in the database yet.
///
/// Dropping it without [`close`](Journal::close) leaves the same files as a killed process: every charged record that
/// the disk accepted.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    on_full: OnFull,
    admits: AtomicBool,
    is_closed: AtomicBool,
    threads: Mutex<Option<Threads>>,
    /// Dropped after the threads, which write to it.
    _folder: Folder,
}

impl Journal {
    /// Opens and locks the folder, creates it if it is missing, and cuts incomplete records off its segments. The
    /// journal takes records at once, but [`is_ready`](UsageSink::is_ready) is false until [`admit`](Journal::admit).
    ///
    /// # Errors
    /// [`JournalError`] if the folder is in use or cannot be used. Its content causes no error: an unreadable segment
    /// is logged and left as it is.
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

    /// Returns the gateway that writes the journal. It stays the same after a restart on the same folder.
    pub fn gateway(&self) -> GatewayId {
        self.shared.segment_files.gateway()
    }

    /// Returns all segments, oldest first.
    pub fn segments(&self) -> Vec<Segment> {
        self.shared.segment_files.segments()
    }

    /// Appends bytes `from..to` of a segment to `into`. Blocks while the disk does.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::InvalidInput`] beyond the segment's length, and
    /// [`io::ErrorKind::NotFound`] for a missing segment. `into` is then unchanged.
    pub fn read(&self, id: SegmentId, from: u64, to: u64, into: &mut Vec<u8>) -> io::Result<()> {
        self.shared.segment_files.read(id, from, to, into)
    }

    /// Removes a sealed segment so that it does not reappear after a power failure. A missing segment counts as
    /// removed. Blocks while the disk does.
    ///
    /// # Errors
    /// The operating system's: the segment may still exist or reappear until another call succeeds.
    /// [`io::ErrorKind::InvalidInput`] if the segment is not sealed, [`io::ErrorKind::InvalidData`] if its file could
    /// not be read when the journal was opened: another start may read it.
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

    /// Returns the status.
    pub fn status(&self) -> JournalStatus {
        let queue = &self.shared.queue;
        let lost = self.shared.losses.sum();
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

    /// Starts to count calls, by the labels in `names`.
    pub(crate) fn meter(&self, names: &Arc<Names>) {
        self.shared.metered(|meter| meter.start(names.clone()));
    }

    /// Returns the counts since [`meter`](Self::meter).
    pub(crate) fn metered(&self) -> Sums {
        let mut sums = Sums::default();
        self.shared.metered(|meter| meter.add_to(&mut sums));
        sums
    }

    /// Writes and flushes all waiting records, seals the open segments and ends the threads. Later records count as
    /// lost. A disk that does not answer delays this by a few seconds at most. A second close does nothing.
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

    /// Returns false before [`admit`](Journal::admit), after [`close`](Journal::close), and, if the configuration says
    /// so, while both disk and memory are full.
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
