//! `rpcgate-server run`: serve until told to stop.

use super::{Failure, load, placed};
use crate::gateway::{Drained, Gateway, StartOptions};
use crate::state::State;
use crate::telemetry;
use rpcgate_core::clock::{Clock, SystemClock};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Serves what `file` says. SIGTERM and SIGINT drain, SIGHUP reads the file again.
///
/// # Errors
/// [`Failure`] when it cannot start.
pub async fn execute(file: &Path) -> Result<(), Failure> {
    let config = load(Some(file), &[], &[])?;
    telemetry::install(&config.telemetry)?;
    let mut signals = Signals::listen()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let state = State::open(&config, clock.clone()).map_err(|error| placed(Some(file), error))?;
    let options = StartOptions { clock, state: Some(Arc::new(state)), ..StartOptions::default() };
    let gateway = Gateway::start(config, options).await.map_err(|error| placed(Some(file), error))?;
    while let Told::Reload = signals.next().await {
        reload(&gateway, file);
    }
    tracing::info!(open = gateway.connections(), "draining");
    report(gateway.drain().await);
    Ok(())
}

/// Puts `file` in force as it is now; if it cannot be used, what was in force stays, and the log says why.
pub fn reload(gateway: &Gateway, file: &Path) {
    let config = load(Some(file), &[], &[]);
    if config.is_err() {
        gateway.refuse_reload();
    }
    told(
        config
            .map_err(Failure::from)
            .and_then(|config| gateway.reload(config).map_err(|error| placed(Some(file), error))),
    );
}

/// Tells the log how a reload ended; those are the tables that differ and need a restart.
pub fn told(done: Result<Vec<&'static str>, Failure>) {
    match done {
        Ok(asleep) if asleep.is_empty() => tracing::info!("configuration reloaded"),
        Ok(asleep) => {
            tracing::warn!(
                tables = %asleep.join(", "),
                "configuration reloaded; these tables differ and need a restart"
            );
        }
        Err(failure) => {
            for fault in failure.to_string().lines() {
                tracing::error!("configuration not reloaded, the old one stays in force: {fault}");
            }
        }
    }
}

/// Tells the log how a drain ended.
pub fn report(drained: Drained) {
    match drained.cut {
        0 => tracing::info!("drained"),
        cut => tracing::warn!(cut, "drained; connections that were not done in time were cut"),
    }
}

/// What a signal says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// The signals that a server obeys.
#[derive(Debug)]
pub struct Signals {
    term: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Obeys signals from now on, instead of dying of them.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen() -> io::Result<Self> {
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.term.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }
}
