//! The segments of a journal and their states.

use super::medium::{Medium, MediumFile};
use super::segment_name::file_name;
use super::{Segment, recover};
use parking_lot::Mutex;
use rpcgate_core::clock::Clock;
use rpcgate_core::journal::{GatewayId, HEAD, SegmentHeader, SegmentId};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A segment's file. One thread at a time appends to it.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) id: SegmentId,
    path: PathBuf,
    /// The length of the head and whole records.
    len: AtomicU64,
    /// Nothing more is appended: `len` is final.
    sealed: AtomicBool,
    /// The length that would survive a power failure.
    synced: AtomicU64,
    /// Open for writing. A sealed file is opened per read, so that a long outage does not use up file descriptors.
    file: Mutex<Option<Arc<dyn MediumFile>>>,
}

impl SegmentFile {
    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn view(&self) -> Segment {
        // Loaded in this order, a sealed segment has its final length.
        let sealed = self.sealed.load(Ordering::Acquire);
        Segment { id: self.id, len: self.len(), sealed }
    }

    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
        *self.file.lock() = None;
    }

    fn file(&self, medium: &dyn Medium) -> io::Result<Arc<dyn MediumFile>> {
        let open = self.file.lock().clone();
        open.map_or_else(|| medium.open_append(&self.path), Ok)
    }
}

/// Invalid bytes in a file that could not be removed at once.
#[derive(Debug)]
struct Waste {
    path: PathBuf,
    /// The bytes of the file that stay; 0 to remove it.
    keep: u64,
}

#[derive(Debug)]
pub(super) struct Segments {
    dir: PathBuf,
    gateway: GatewayId,
    medium: Arc<dyn Medium>,
    clock: Arc<dyn Clock>,
    files: Mutex<SegmentFiles>,
    waste: Mutex<Vec<Waste>>,
    /// Files were created that a power failure could take back.
    has_new: AtomicBool,
}

#[derive(Debug, Default)]
struct SegmentFiles {
    by_id: BTreeMap<SegmentId, Arc<SegmentFile>>,
    /// Segments whose files could not be read and are left as they are.
    unread: Vec<SegmentId>,
    newest: SegmentId,
}

impl Segments {
    /// Opens the segments that exist already, all of them sealed.
    pub(super) fn open(
        dir: &Path,
        gateway: GatewayId,
        medium: Arc<dyn Medium>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let recover::RecoveredSegments { segments, unread } = recover::left(dir, gateway, &*medium)?;
        let newest = segments.iter().map(|(id, _)| id).chain(&unread).max().copied().unwrap_or_default();
        let mut files = SegmentFiles { by_id: BTreeMap::new(), unread, newest };
        for (id, len) in segments {
            let path = dir.join(file_name(id));
            let (len, synced) = (AtomicU64::new(len), AtomicU64::new(len));
            let segment_file =
                SegmentFile { id, path, len, sealed: AtomicBool::new(true), synced, file: Mutex::default() };
            files.by_id.insert(id, Arc::new(segment_file));
        }
        Ok(Segments {
            dir: dir.to_owned(),
            gateway,
            medium,
            clock,
            files: Mutex::new(files),
            waste: Mutex::default(),
            has_new: AtomicBool::new(true),
        })
    }

    pub(super) fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// Returns the head of a new segment, whose id is above all others even if the clock was set back.
    pub(super) fn next(&self) -> SegmentHeader {
        let opened = self.clock.now();
        let mut files = self.files.lock();
        let id = SegmentId::new(opened).max(SegmentId(files.newest.0.wrapping_add(1)));
        files.newest = id;
        SegmentHeader { segment: id, gateway: self.gateway, opened }
    }

    /// Creates a segment's file with `bytes`: head and whole frames. If that fails, nothing of it stays.
    pub(super) fn create(
        &self,
        id: SegmentId,
        bytes: &[u8],
    ) -> io::Result<(Arc<SegmentFile>, Arc<dyn MediumFile>)> {
        let path = self.dir.join(file_name(id));
        let file = self.medium.create(&path)?;
        if let Err(error) = write_all(&*file, bytes) {
            drop(file);
            self.discard(Waste { path, keep: 0 });
            return Err(error);
        }
        self.has_new.store(true, Ordering::Release);
        let segment_file = Arc::new(SegmentFile {
            id,
            path,
            len: AtomicU64::new(bytes.len() as u64),
            sealed: AtomicBool::new(false),
            synced: AtomicU64::new(0),
            file: Mutex::new(Some(file.clone())),
        });
        self.files.lock().by_id.insert(id, segment_file.clone());
        Ok((segment_file, file))
    }

    /// Appends whole frames to the segment. If that fails, none of them counts, and the segment is sealed.
    pub(super) fn append(
        &self,
        segment_file: &SegmentFile,
        file: &dyn MediumFile,
        bytes: &[u8],
    ) -> io::Result<()> {
        let start = segment_file.len.load(Ordering::Relaxed);
        let written = write_all(file, bytes);
        if written.is_err() {
            segment_file.seal();
            if file.truncate(start).is_err() {
                self.waste.lock().push(Waste { path: segment_file.path.clone(), keep: start });
            }
            return written;
        }
        segment_file.len.store(start + bytes.len() as u64, Ordering::Release);
        Ok(())
    }

    /// Stores a whole sealed segment. The first [`HEAD`] bytes of `image` are replaced by its head.
    pub(super) fn store(&self, image: &mut [u8]) -> io::Result<()> {
        let head = self.next();
        if let Some(target) = image.first_chunk_mut::<HEAD>() {
            *target = head.to_bytes();
        }
        let (segment_file, _) = self.create(head.segment, image)?;
        segment_file.seal();
        Ok(())
    }

    /// Tests whether the medium accepts a file of `bytes`, which is removed again.
    pub(super) fn probe(&self, bytes: &[u8]) -> io::Result<()> {
        let path = self.dir.join(recover::PROBE);
        let absent = |result: io::Result<()>| match result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        absent(self.medium.remove(&path))?;
        let written = self.medium.create(&path).and_then(|file| write_all(&*file, bytes));
        absent(self.medium.remove(&path))?;
        written
    }

    pub(super) fn segments(&self) -> Vec<Segment> {
        self.files.lock().by_id.values().map(|segment_file| segment_file.view()).collect()
    }

    fn segment_file(&self, id: SegmentId) -> Option<Arc<SegmentFile>> {
        self.files.lock().by_id.get(&id).cloned()
    }

    pub(super) fn read(&self, id: SegmentId, from: u64, to: u64, into: &mut Vec<u8>) -> io::Result<()> {
        let segment_file =
            self.segment_file(id).ok_or_else(|| unusable(io::ErrorKind::NotFound, id, "there is no such"))?;
        if from > to || to > segment_file.len() {
            return Err(unusable(io::ErrorKind::InvalidInput, id, "not so long is the"));
        }
        let file = segment_file.file(&*self.medium)?;
        let start = into.len();
        into.resize(start + (to - from) as usize, 0);
        let read = read_all(&*file, &mut into[start..], from);
        if read.is_err() {
            into.truncate(start);
        }
        read
    }

    pub(super) fn forget(&self, id: SegmentId) -> io::Result<()> {
        if self.files.lock().unread.contains(&id) {
            return Err(unusable(io::ErrorKind::InvalidData, id, "unread, and left as it is, is the"));
        }
        if let Some(segment_file) = self.segment_file(id) {
            if !segment_file.sealed.load(Ordering::Acquire) {
                return Err(unusable(io::ErrorKind::InvalidInput, id, "still written to is the"));
            }
            match self.medium.remove(&segment_file.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.files.lock().by_id.remove(&id),
            };
        }
        // A power failure must not bring back a segment that is no longer known to be shipped.
        self.medium.sync_dir(&self.dir)
    }

    /// Flushes everything that counts. Returns the first error after trying all files.
    pub(super) fn sync(&self) -> io::Result<()> {
        let files: Vec<_> = self.files.lock().by_id.values().cloned().collect();
        let mut outcome = Ok(());
        for segment_file in files {
            let len = segment_file.len();
            if segment_file.synced.load(Ordering::Relaxed) >= len {
                continue;
            }
            match segment_file.file(&*self.medium).and_then(|file| file.sync()) {
                Ok(()) => segment_file.synced.store(len, Ordering::Relaxed),
                // Shipped and forgotten in the meantime.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && self.segment_file(segment_file.id).is_none() => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        if self.has_new.swap(false, Ordering::AcqRel)
            && let Err(error) = self.medium.sync_dir(&self.dir)
        {
            self.has_new.store(true, Ordering::Release);
            outcome = outcome.and(Err(error));
        }
        outcome
    }

    fn discard(&self, waste: Waste) {
        if self.take_away(&waste).is_err() {
            self.waste.lock().push(waste);
        }
    }

    /// Removes files that could not be removed before: their complete frames would count again after a restart,
    /// although they are stored elsewhere.
    pub(super) fn clean(&self) {
        let waste = std::mem::take(&mut *self.waste.lock());
        for waste in waste {
            self.discard(waste);
        }
    }

    fn take_away(&self, waste: &Waste) -> io::Result<()> {
        let done = match waste.keep {
            0 => self.medium.remove(&waste.path),
            keep => self.medium.open_append(&waste.path).and_then(|file| file.truncate(keep)),
        };
        match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

fn unusable(kind: io::ErrorKind, id: SegmentId, what: &str) -> io::Error {
    io::Error::new(kind, format!("{what} journal segment {id}"))
}

fn write_all(file: &dyn MediumFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_all(file: &dyn MediumFile, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match file.read_at(into, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                into = into.get_mut(read..).unwrap_or_default();
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
