//! A medium that a test controls.

use super::super::medium::{Disk, Medium, MediumFile};
use parking_lot::{Condvar, Mutex};
use rpcgate_core::clock::ManualClock;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The machine's disk with faults. Flushes are only recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Faulty(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that it still accepts; `None` is unlimited.
    room: Option<u64>,
    holds: bool,
    /// Only the next append is held.
    holds_one: bool,
    spins: bool,
    held: usize,
    cannot_cut: bool,
    slow: Option<(Arc<ManualClock>, Duration)>,
    appends: u64,
    dir_syncs: u64,
    synced: HashMap<PathBuf, u64>,
}

impl Faulty {
    pub(super) fn leave_room(&self, bytes: u64) {
        self.0.state.lock().room = Some(bytes);
    }

    pub(super) fn make_room(&self) {
        self.0.state.lock().room = None;
    }

    /// Holds threads that append until the returned guard is dropped.
    pub(super) fn hold(&self) -> Hold {
        self.0.state.lock().holds = true;
        Hold(self.clone())
    }

    /// Lets threads that append compute until the returned guard is dropped.
    pub(super) fn spin(&self) -> Hold {
        self.0.state.lock().spins = true;
        Hold(self.clone())
    }

    /// Holds only the next thread that appends, until the returned guard is dropped.
    pub(super) fn hold_one(&self) -> Hold {
        self.0.state.lock().holds_one = true;
        Hold(self.clone())
    }

    pub(super) fn held(&self) -> usize {
        self.0.state.lock().held
    }

    /// Makes cutting and removing files fail.
    pub(super) fn cut_nothing(&self, yes: bool) {
        self.0.state.lock().cannot_cut = yes;
    }

    /// Makes every append take this long on this clock.
    pub(super) fn slow_down(&self, slow: Option<(Arc<ManualClock>, Duration)>) {
        self.0.state.lock().slow = slow;
    }

    pub(super) fn appends(&self) -> u64 {
        self.0.state.lock().appends
    }

    pub(super) fn dir_syncs(&self) -> u64 {
        self.0.state.lock().dir_syncs
    }

    pub(super) fn synced(&self) -> u64 {
        self.0.state.lock().synced.values().sum()
    }

    fn wrap(&self, path: &Path, inner: Arc<dyn MediumFile>) -> Arc<dyn MediumFile> {
        Arc::new(FaultyFile { path: path.to_owned(), inner, medium: self.clone() })
    }

    fn may_cut(&self, freed: u64) -> io::Result<()> {
        let mut state = self.0.state.lock();
        if state.cannot_cut {
            return Err(io::ErrorKind::Other.into());
        }
        if let Some(room) = &mut state.room {
            *room += freed;
        }
        Ok(())
    }
}

/// Holds threads that append. A failing test releases them too.
#[derive(Debug)]
pub(super) struct Hold(Faulty);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.0.0.state.lock();
        (state.holds, state.holds_one, state.spins) = (false, false, false);
        drop(state);
        self.0.0.changed.notify_all();
    }
}

impl Medium for Faulty {
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.wrap(path, Disk.create(path)?))
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.wrap(path, Disk.open_append(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let size = std::fs::metadata(path)?.len();
        self.may_cut(size)?;
        Disk.remove(path)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        self.0.state.lock().dir_syncs += 1;
        Ok(())
    }
}

#[derive(Debug)]
struct FaultyFile {
    path: PathBuf,
    inner: Arc<dyn MediumFile>,
    medium: Faulty,
}

impl MediumFile for FaultyFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let Inner { state, changed } = &*self.medium.0;
        let mut state = state.lock();
        state.appends += 1;
        let is_held = state.holds || state.holds_one && state.held == 0;
        state.held += 1;
        while is_held && (state.holds || state.holds_one) {
            changed.wait(&mut state);
        }
        while state.spins {
            drop(state);
            (0..100_000).for_each(|_| std::hint::spin_loop());
            state = self.medium.0.state.lock();
        }
        state.held -= 1;
        if let Some((clock, time)) = &state.slow {
            clock.advance(*time);
        }
        let taken = match &mut state.room {
            None => bytes.len(),
            Some(0) => return Err(io::Error::from_raw_os_error(28)),
            Some(room) => {
                let taken = bytes.len().min(*room as usize);
                *room -= taken as u64;
                taken
            }
        };
        self.inner.append(&bytes[..taken])
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.inner.read_at(into, at)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.medium.may_cut(self.size()?.saturating_sub(len))?;
        self.inner.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        let size = self.inner.size()?;
        self.medium.0.state.lock().synced.insert(self.path.clone(), size);
        Ok(())
    }
}
