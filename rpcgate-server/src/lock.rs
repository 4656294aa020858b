//! The lock of a folder that one process uses at a time: the demo's or the journal's.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The locked file. It contains the process id, for people who look.
const LOCK: &str = "lock";

/// The reason why a folder could not be locked.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// Another process holds the lock; its id is present if it could be written.
    InUse(Option<u32>),
    /// The folder does not exist and cannot be created.
    Unmade(io::Error),
    /// The file with this name cannot be created or opened.
    Io(&'static str, io::Error),
}

/// Returns the reason why a folder cannot be created, as the end of a sentence. "No such file" for something about to
/// be created means that its parent does not allow new entries, so the text names the parent.
pub(crate) fn unmade(folder: &Path, error: &io::Error) -> String {
    let there = |path: &&Path| path.is_dir();
    let ancestor = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let ancestor = ancestor.ancestors().skip(1).find(there).unwrap_or(Path::new("/")).display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("cannot be made: {ancestor} takes no new folders"),
        _ => format!("cannot be made in {ancestor}: {error}"),
    }
}

/// Creates the folder for its owner alone if it is missing, and locks it while the returned file is open. The operating
/// system releases the lock when the process ends for any reason.
pub(crate) fn lock(folder: &Path) -> Result<File, NotLocked> {
    let failed = |file| move |error| NotLocked::Io(file, error);
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(NotLocked::Unmade)?;
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join(LOCK))
        .map_err(failed(LOCK))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let pid = lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(NotLocked::InUse(pid));
        }
        Err(TryLockError::Error(error)) => return Err(failed(LOCK)(error)),
    }
    // On a full disk the lock works without the process id.
    if let Err(error) = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())) {
        tracing::warn!("{}: {error}", folder.join(LOCK).display());
    }
    Ok(lock)
}

pub(crate) fn holder(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_process_until_its_lock_is_dropped() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        let first = lock(&path).unwrap();
        assert!(matches!(lock(&path), Err(NotLocked::InUse(Some(pid))) if pid == std::process::id()));
        drop(first);
        assert!(lock(&path).is_ok());
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        let Err(NotLocked::Unmade(error)) = lock(&file) else { panic!("a file is no folder") };
        assert!(unmade(&file, &error).starts_with("cannot be made in "));
    }

    /// The system then reports that the file does not exist, although it is about to be created.
    // Shows (Commands and configuration): A folder that cannot be created is reported with the failing path.
    #[test]
    fn a_path_where_no_folder_can_be_created_is_named() {
        let path = Path::new("/proc/rpcgate/demo");
        let Err(NotLocked::Unmade(error)) = lock(path) else { panic!("/proc takes no folders") };
        let text = unmade(path, &error);
        assert!(text.contains("/proc") && !text.contains("No such file"), "{text}");
    }
}
