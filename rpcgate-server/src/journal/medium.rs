//! The medium of a journal: a disk, or in tests a full, stalling or failing one.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// A file system. All methods block until the medium responds.
pub trait Medium: Send + Sync + Debug {
    /// Returns the names of the files in a folder, in no order. Names that are not UTF-8 are left out.
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

    /// Waits until created and removed files of a folder survive a power failure.
    ///
    /// # Errors
    /// The operating system's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// One file.
pub trait MediumFile: Send + Sync + Debug {
    /// Appends once. Returns the number of accepted bytes, which may be fewer than given.
    ///
    /// # Errors
    /// The operating system's.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads once from offset `at`. Returns the number of bytes read, 0 at the end.
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn size(&self) -> io::Result<u64>;

    /// Truncates the file to `len` bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Waits until the content survives a power failure.
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
