//! The folder that mails are written to if no mail server is configured.

use super::MailError;
use rpcgate_core::clock::Time;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use time::OffsetDateTime;

pub(super) struct OutboxFolder(PathBuf);

impl OutboxFolder {
    /// Opens the folder at `path`, and creates it if it is missing.
    pub(super) fn open(path: PathBuf) -> Result<Self, MailError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|why| error(&path, why))?;
        Ok(OutboxFolder(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the mail `id`, dated `at`. It replaces the file of an earlier try.
    pub(super) async fn write(&self, id: u128, at: Time, bytes: Vec<u8>) -> Result<(), MailError> {
        let folder = self.0.clone();
        let name = format!("{}-{id:032x}", stamp(at));
        let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes)).await;
        written.map_err(|_| MailError::Compose("the thread ended early".into()))?
    }
}

/// Formats a time as a file name that sorts by time: `20270115T080000.000000Z`.
fn stamp(now: Time) -> String {
    let seconds = i64::try_from(now.secs()).unwrap_or(i64::MAX);
    let date = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = date.to_hms();
    format!(
        "{:04}{:02}{:02}T{hour:02}{minute:02}{second:02}.{:06}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        now.micros() % 1_000_000
    )
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), MailError> {
    let fresh = folder.join(format!(".{name}.tmp"));
    let done = folder.join(format!("{name}.eml"));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        let mut file = options.open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, &done)
    };
    write().map_err(|why| {
        // Half a mail is useless. A failure to remove it does not change the error.
        let _ = fs::remove_file(&fresh);
        error(&done, why)
    })
}

fn error(file: &Path, why: io::Error) -> MailError {
    MailError::Outbox { file: file.display().to_string(), why }
}
