//! What a journal is written on: a disk, or in tests one that is full, stalls or tears.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Holds files in folders. All of it blocks, for as long as the medium takes.
pub trait Medium: Send + Sync + Debug {
    /// Names of what is in a folder, in no order; those that are no text are left out.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes a file that was not there, for its owner alone.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::AlreadyExists`] where there is one.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>>;

    /// Opens a file that is there, to read, append and cut it.
    ///
    /// # Errors
    /// What the system says.
    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>>;

    /// Takes a file away.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] where there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Waits until what was made in and removed from a folder would outlast a power failure.
    ///
    /// # Errors
    /// What the system says.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// One file.
pub trait MediumFile: Send + Sync + Debug {
    /// Writes at the end, once. How many bytes were taken: it may be fewer than given.
    ///
    /// # Errors
    /// What the system says.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads from offset `at`, once. How many bytes there were: 0 at the end.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Its length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn size(&self) -> io::Result<u64>;

    /// Cuts it to `len` bytes.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Waits until its contents would outlast a power failure.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self) -> io::Result<()>;
}

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Medium for Disk {
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path)?))
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).append(true).open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl MediumFile for File {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        file.write(bytes)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
