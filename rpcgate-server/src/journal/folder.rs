//! The journal's folder: its lock for one process, and the gateway's identity in it.

use crate::lock::{NotLocked, holder, lock, unmade};
use rpcgate_core::journal::GatewayId;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const GATEWAY: &str = "gateway";

/// The reason why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another gateway writes to the folder.
    #[error("journal.dir {path}: in use by another gateway{}: give each one a folder of its own", holder(*.pid))]
    InUse {
        /// The folder.
        path: String,
        /// The other gateway's process id, if it could write it down.
        pid: Option<u32>,
    },
    /// The folder does not exist and cannot be created.
    #[error("journal.dir {path}: {why}")]
    Unmade {
        /// The folder.
        path: String,
        /// The error.
        why: String,
    },
    /// The folder, or a file in it that a journal needs, cannot be created, read or written.
    #[error("journal.dir {path}: {file}: {source}")]
    Io {
        /// The folder.
        path: String,
        /// The file, or `.` for the folder itself.
        file: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("the journal's threads cannot be started: {0}")]
    Thread(io::Error),
}

/// The locked folder of this journal.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The operating system releases it when the process ends for any reason.
    _lock: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Folder, JournalError> {
        let lock = lock(path).map_err(|why| match why {
            NotLocked::InUse(pid) => JournalError::InUse { path: path.display().to_string(), pid },
            NotLocked::Unmade(source) => {
                JournalError::Unmade { path: path.display().to_string(), why: unmade(path, &source) }
            }
            NotLocked::Io(file, source) => failed(path, file)(source),
        })?;
        Ok(Folder { path: path.to_owned(), _lock: lock })
    }

    /// Returns the gateway's identity, if the folder has one. A file that cannot be parsed counts as missing.
    pub(super) fn gateway(&self) -> Result<Option<GatewayId>, JournalError> {
        match fs::read_to_string(self.path.join(GATEWAY)) {
            Ok(text) => Ok(text.trim().parse().ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(failed(&self.path, GATEWAY)(error)),
        }
    }

    /// Stores the identity atomically, also across a power failure.
    pub(super) fn keep_gateway(&self, gateway: GatewayId) -> Result<(), JournalError> {
        let write = || {
            let fresh = self.path.join(format!(".{GATEWAY}.new"));
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            writeln!(file, "{gateway}")?;
            file.sync_all()?;
            fs::rename(fresh, self.path.join(GATEWAY))?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(failed(&self.path, GATEWAY))
    }
}

/// Returns the gateway that a journal's folder belongs to, even while the folder is in use.
pub(crate) fn known_gateway(path: &Path) -> Option<GatewayId> {
    fs::read_to_string(path.join(GATEWAY)).ok()?.trim().parse().ok()
}

pub(super) fn failed(path: &Path, file: &str) -> impl FnOnce(io::Error) -> JournalError + use<> {
    let path = path.display().to_string();
    let file = file.to_owned();
    move |source| JournalError::Io { path, file, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_used_by_one_process_at_a_time_and_the_error_names_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/journal");
        let first = Folder::open(&path).unwrap();
        let expected = format!(
            "journal.dir {}: in use by another gateway (process {}): give each one a folder of its own",
            path.display(),
            std::process::id()
        );
        assert_eq!(Folder::open(&path).unwrap_err().to_string(), expected);
        drop(first);
        assert!(Folder::open(&path).is_ok());
    }

    #[test]
    fn an_error_names_the_path_that_cannot_be_a_folder() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "").unwrap();
        let error = Folder::open(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("journal.dir {}: ", path.display())), "{error}");
    }

    #[test]
    fn the_identity_is_kept_private_and_invalid_ones_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("journal");
        let folder = Folder::open(&path).unwrap();
        assert_eq!(folder.gateway().unwrap(), None);
        folder.keep_gateway(GatewayId(7)).unwrap();
        assert_eq!(folder.gateway().unwrap(), Some(GatewayId(7)));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path.join(GATEWAY)), mode(&path)), (0o600, 0o700));
        for nonsense in [&b""[..], b"0190163d", b"\xff\xfe"] {
            fs::write(path.join(GATEWAY), nonsense).unwrap();
            assert_eq!(folder.gateway().unwrap(), None);
        }
    }
}
