//! The thread that brings lines to their file.

use super::LogCounts;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Requests whose lines wait, at most. A line has some 500 bytes.
const WAITING: usize = 8_192;

/// Bytes that are written together.
const TOGETHER: usize = 1 << 20;

/// How often the thread looks whether the file was moved away, as programs that rotate logs do.
const LOOK: Duration = Duration::from_secs(1);

/// How long the end of a gateway waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Debug)]
pub(super) enum Output {
    /// Standard output.
    Standard,
    /// The end of a file.
    File(PathBuf, File),
    /// Somewhere else.
    #[cfg(test)]
    Other(Box<dyn AnyWrite>),
}

/// A writer of a test.
#[cfg(test)]
pub(super) trait AnyWrite: Write + Send + std::fmt::Debug {}

#[cfg(test)]
impl<W: Write + Send + std::fmt::Debug> AnyWrite for W {}

impl Output {
    /// The end of this file, which is created for its owner alone if it is missing.
    pub(super) fn file(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Output::File(path.to_owned(), file))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::Standard => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Output::File(_, file) => file.write_all(bytes),
            #[cfg(test)]
            Output::Other(writer) => writer.write_all(bytes),
        }
    }

    /// Opens the file again if its name belongs to another one now, or to none.
    fn follow(&mut self) {
        let Output::File(path, file) = self else { return };
        let of = |data: &std::fs::Metadata| (data.dev(), data.ino());
        let opened = file.metadata().ok().as_ref().map(of);
        let named = std::fs::metadata(&*path).ok().as_ref().map(of);
        if named != opened
            && let Ok(Output::File(_, again)) = Output::file(path)
        {
            *file = again;
        }
    }
}

/// Some lines, and how many they are.
type Lines = (Vec<u8>, u64);

/// The lines that wait to be written. Dropping it writes them.
#[derive(Debug)]
pub(super) struct LogQueue {
    lines: Option<SyncSender<Lines>>,
    /// Says that all is written.
    ended: Mutex<Receiver<()>>,
    counts: Arc<LogCounts>,
}

impl LogQueue {
    /// Starts the thread that writes to `output`.
    pub(super) fn start(output: Output, counts: Arc<LogCounts>) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let (end, ended) = sync_channel(1);
        let counted = counts.clone();
        thread::Builder::new().name("rpcgate-access".into()).spawn(move || {
            write_all(output, &waiting, &counted);
            // Nobody may wait for it any more.
            let _ = end.send(());
        })?;
        Ok(LogQueue { lines: Some(lines), ended: Mutex::new(ended), counts })
    }

    /// Leaves lines to the thread, or drops them if too many wait.
    pub(super) fn push(&self, lines: Vec<u8>, count: u64) {
        let taken = self.lines.as_ref().is_some_and(|queue| queue.try_send((lines, count)).is_ok());
        if !taken {
            self.counts.dropped.fetch_add(count, Relaxed);
        }
    }
}

impl Drop for LogQueue {
    fn drop(&mut self) {
        self.lines = None;
        // A disk that does not answer keeps the last lines, and ends nothing.
        let _ = self.ended.lock().recv_timeout(PATIENCE);
    }
}

/// Writes what waits until no more can come.
fn write_all(mut output: Output, waiting: &Receiver<Lines>, counts: &LogCounts) {
    let mut is_broken = false;
    loop {
        let (mut bytes, mut count) = match waiting.recv_timeout(LOOK) {
            Ok(lines) => lines,
            Err(RecvTimeoutError::Timeout) => {
                output.follow();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        while bytes.len() < TOGETHER
            && let Ok((more, lines)) = waiting.try_recv()
        {
            bytes.extend(more);
            count += lines;
        }
        output.follow();
        let written = output.write(&bytes);
        let counter = if written.is_ok() { &counts.written } else { &counts.dropped };
        counter.fetch_add(count, Relaxed);
        match &written {
            Err(error) if !is_broken => {
                tracing::warn!(%error, "calls cannot be logged: their lines are dropped");
            }
            Ok(()) if is_broken => tracing::info!("calls are logged again"),
            _ => {}
        }
        is_broken = written.is_err();
    }
}
