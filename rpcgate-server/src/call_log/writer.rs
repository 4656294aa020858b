//! The thread that writes lines to their file.

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

/// The queue's capacity in requests. A line has about 500 bytes.
const WAITING: usize = 8_192;

const TOGETHER: usize = 1 << 20;

/// The interval of checks whether a log rotation moved the file away.
const LOOK: Duration = Duration::from_secs(1);

/// The time that shutdown waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum Output {
    Standard,
    File(PathBuf, File),
    #[cfg(test)]
    Other(Box<dyn AnyWrite>),
}

#[cfg(test)]
pub(super) trait AnyWrite: Write + Send + std::fmt::Debug {}

#[cfg(test)]
impl<W: Write + Send + std::fmt::Debug> AnyWrite for W {}

impl Output {
    /// Opens a file for appending, and creates it for its owner alone if it is missing.
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

    /// Reopens the file if its path names another file or none.
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

type Lines = (Vec<u8>, u64);

/// The queue of lines to write. Dropping it writes them.
#[derive(Debug)]
pub(super) struct LogQueue {
    lines: Option<SyncSender<Lines>>,
    /// Signals that all lines are written.
    ended: Mutex<Receiver<()>>,
    counts: Arc<LogCounts>,
}

impl LogQueue {
    pub(super) fn start(output: Output, counts: Arc<LogCounts>) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let (end, ended) = sync_channel(1);
        let counted = counts.clone();
        thread::Builder::new().name("rpcgate-access".into()).spawn(move || {
            write_all(output, &waiting, &counted);
            // The receiver may have stopped waiting.
            let _ = end.send(());
        })?;
        Ok(LogQueue { lines: Some(lines), ended: Mutex::new(ended), counts })
    }

    /// Queues lines, or drops them if the queue is full.
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
        // If the disk does not answer, the last lines are given up and shutdown goes on.
        let _ = self.ended.lock().recv_timeout(PATIENCE);
    }
}

/// Writes queued lines until the queue is closed.
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
