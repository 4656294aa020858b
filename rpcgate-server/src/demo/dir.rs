//! The demo's folder: one process uses it at a time, and its files are either whole or missing.

use crate::lock::{NotLocked, holder, lock, unmade};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A locked folder, which belongs to this process until the drop.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
    /// The operating system releases it when the process ends for any reason.
    _lock: File,
}

/// The reason why a folder cannot be used. The text names the option that gave it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirError {
    /// Another demo uses it.
    #[error("--dir {path}: in use by another demo{}: stop that one or name another folder", holder(*.pid))]
    InUse {
        /// The folder.
        path: String,
        /// The other demo's process id, if it is written already.
        pid: Option<u32>,
    },
    /// The folder does not exist and cannot be created.
    #[error("--dir {path}: {why}: name a folder where you may write")]
    Unmade {
        /// The folder.
        path: String,
        /// The rest of the sentence.
        why: String,
    },
    /// A file in it cannot be created, read or written.
    #[error("--dir {path}: {file} in it: {source}: name a folder where you may write")]
    Io {
        /// The folder.
        path: String,
        /// The file.
        file: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The name is not UTF-8, which settings and URLs must be.
    #[error("--dir {0}: the name is not UTF-8: name another folder")]
    NotText(String),
}

impl Dir {
    /// Creates the folder if it is missing, readable by its owner alone, and locks it.
    ///
    /// # Errors
    /// [`DirError::InUse`] when another process (or another `Dir`) holds it.
    pub fn open(path: &Path) -> Result<Dir, DirError> {
        let lock = lock(path).map_err(|why| match why {
            NotLocked::InUse(pid) => DirError::InUse { path: path.display().to_string(), pid },
            NotLocked::Unmade(source) => {
                DirError::Unmade { path: path.display().to_string(), why: unmade(path, &source) }
            }
            NotLocked::Io(file, source) => {
                DirError::Io { path: path.display().to_string(), file: file.to_owned(), source }
            }
        })?;
        Ok(Dir { path: path.to_owned(), _lock: lock })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file with this name, which need not exist.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn absolute(&self, name: &str) -> Result<String, DirError> {
        let path = std::path::absolute(self.file(name)).map_err(|error| self.failed(name, error))?;
        let text = path.into_os_string().into_string();
        text.map_err(|_| DirError::NotText(self.path.display().to_string()))
    }

    /// Reads a text file; `None` if it does not exist.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, DirError> {
        match fs::read_to_string(self.file(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(name, error)),
        }
    }

    /// Reads a file; `None` if it does not exist.
    pub(super) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, DirError> {
        match fs::read(self.file(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(name, error)),
        }
    }

    /// Writes a file that only its owner may read, atomically.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<(), DirError> {
        self.replace(name, content.as_ref()).map_err(|error| self.failed(name, error))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), DirError> {
        absent(&self.file(name)).map_err(|error| self.failed(name, error))
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let fresh = self.file(&format!(".{name}.new"));
        // A file left by a killed process may have other permissions.
        absent(&fresh)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(fresh, self.file(name))
    }

    fn failed(&self, file: &str, source: io::Error) -> DirError {
        DirError::Io { path: self.path.display().to_string(), file: file.to_owned(), source }
    }
}

fn absent(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_used_by_one_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        let first = Dir::open(&path).unwrap();
        let refused = Dir::open(&path).unwrap_err().to_string();
        let expected = format!(
            "--dir {}: in use by another demo (process {}): stop that one or name another folder",
            path.display(),
            std::process::id()
        );
        assert_eq!(refused, expected);
        drop(first);
        assert!(Dir::open(&path).is_ok());
    }

    #[test]
    fn files_are_replaced_as_a_whole_and_private() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(&home.path().join("demo")).unwrap();
        assert_eq!(dir.read("x").unwrap(), None);
        // A file left by a killed process is harmless, and its permissions are not adopted.
        fs::write(dir.file(".x.new"), "half a te").unwrap();
        for text in ["a longer text", "short"] {
            dir.write("x", text).unwrap();
            assert_eq!(dir.read("x").unwrap().as_deref(), Some(text));
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir.file("x")), mode(dir.path())), (0o600, 0o700));
        assert!(!dir.file(".x.new").exists());
    }

    // Shows (Commands and configuration).
    #[test]
    fn an_error_names_the_path_that_is_not_a_folder() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "").unwrap();
        let error = Dir::open(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--dir {}: cannot be made", path.display())), "{error}");
        let error = Dir::open(Path::new("/proc/rpcgate-demo")).unwrap_err().to_string();
        assert_eq!(
            error,
            "--dir /proc/rpcgate-demo: cannot be made: /proc takes no new folders: name a folder where you may write"
        );
    }
}
