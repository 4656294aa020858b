//! The signals that a server handles.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The request of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessSignal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// Receives SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub struct Signals {
    term: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Receives signals from now on, which then no longer end the process by themselves.
    ///
    /// # Errors
    /// The operating system's.
    pub fn listen() -> io::Result<Self> {
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> ProcessSignal {
        tokio::select! {
            _ = self.term.recv() => ProcessSignal::Stop,
            _ = self.interrupt.recv() => ProcessSignal::Stop,
            _ = self.hangup.recv() => ProcessSignal::Reload,
        }
    }
}
