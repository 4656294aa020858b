//! `rpcgate-server run`: serves until a signal stops it.

use crate::file_handles::bound;
use crate::gateway::{Gateway, StartOptions};
use crate::state::State;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_process::reload::{log_drain, log_reload};
use rpcgate_process::{Failure, FileHandles, ProcessSignal, Signals, load, log, log_warnings, placed};
use std::path::Path;
use std::sync::Arc;

/// Serves the configuration in `file`. SIGTERM and SIGINT drain, SIGHUP reads the file again.
///
/// # Errors
/// [`Failure`] when it cannot start.
pub async fn execute(file: &Path) -> Result<(), Failure> {
    let config = load(Some(file), &[], &[])?;
    log::install(&config.telemetry)?;
    log_warnings(file, &config);
    let mut signals = Signals::listen()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let state = State::open(&config, clock.clone()).map_err(|error| placed(Some(file), error))?;
    state.name_file(file);
    let options = StartOptions { clock, state: Some(Arc::new(state)), ..StartOptions::default() };
    let options = bound(FileHandles::raise(), options);
    let gateway = Gateway::start(config, options).await.map_err(|error| placed(Some(file), error))?;
    while let ProcessSignal::Reload = signals.next().await {
        reload(&gateway, file);
    }
    tracing::info!(open = gateway.connections(), "draining");
    log_drain(gateway.drain().await.cut);
    Ok(())
}

/// Reads `file` again and applies it. If that fails, the previous configuration stays and the log says why.
pub fn reload(gateway: &Gateway, file: &Path) {
    let config = load(Some(file), &[], &[]);
    if config.is_err() {
        gateway.refuse_reload();
    }
    log_reload(
        config
            .map_err(Failure::from)
            .and_then(|config| gateway.reload(config).map_err(|error| placed(Some(file), error))),
    );
}
