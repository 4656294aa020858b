//! What a journal is written on: a disk, or in tests one that is full, stalls or tears.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// A file system. All its methods block for as long as the medium takes.
pub trait Medium: Send + Sync + Debug {
    /// The names of the files in a folder, in no order; those that are not UTF-8 are left out.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates a new file, for its owner alone.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::AlreadyExists`] if the file exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>>;

    /// Opens an existing file, to read, append and truncate it.
    ///
    /// # Errors
    /// The operating system's.
    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>>;

    /// Removes a file.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::NotFound`] if there is no such file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Waits until created and removed files of a folder would survive a power failure.
    ///
    /// # Errors
    /// The operating system's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// One file.
pub trait MediumFile: Send + Sync + Debug {
    /// Writes at the end, once. Returns how many bytes were taken, which may be fewer than given.
    ///
    /// # Errors
    /// The operating system's.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads from offset `at`, once. Returns how many bytes were read: 0 at the end.
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Its length in bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn size(&self) -> io::Result<u64>;

    /// Truncates it to `len` bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Waits until its content would survive a power failure.
    ///
    /// # Errors
    /// The operating system's.
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
