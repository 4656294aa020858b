//! `rpcgate-server demo`.

use crate::demo::{NodeWatch, Prepared};
use crate::demo_options::DemoOptions;
use crate::file_handles::bound;
use crate::gateway::StartOptions;
use rpcgate_config::{LogFormat, Telemetry};
use rpcgate_process::reload::{log_drain, log_reload};
use rpcgate_process::{Failure, FileHandles, ProcessSignal, Signals, log, placed};
use std::io::{self, Write};
use std::pin::pin;
use std::time::Duration;

/// The interval of messages while the demo is starting.
const STILL_STARTING: Duration = Duration::from_secs(3);
/// The interval of checks of real nodes.
const LOOK: Duration = Duration::from_secs(1);

/// Starts the demo, prints how to use it, and serves until a signal stops it.
///
/// # Errors
/// [`Failure`] when it cannot start.
pub async fn execute(options: DemoOptions) -> Result<(), Failure> {
    say(&format!("Starting the demo in {}.", options.dir.display()));
    let file = options.config.clone();
    let prepared = Prepared::new(&options).await?;
    let configured = &prepared.config().telemetry;
    // By default the log is quiet, so that the printed lines do not scroll away.
    let quiet = Telemetry { log_filter: "warn".into(), log_format: LogFormat::Text, ..Telemetry::default() };
    log::install(if *configured == Telemetry::default() { &quiet } else { configured })?;
    let mut signals = Signals::listen()?;
    let step = prepared.step();
    let mut still_starting = tokio::time::interval(STILL_STARTING);
    still_starting.reset();
    // The simulated nodes are in this process, which holds both ends of the connections to them.
    let options = bound(FileHandles::raise().with_each(3), StartOptions::default());
    let mut starting = pin!(prepared.start(options));
    let demo = loop {
        tokio::select! {
            started = &mut starting => break started.map_err(|error| placed(file.as_deref(), error))?,
            _ = still_starting.tick() => say(&format!("Still starting: it is {}.", *step.borrow())),
            signal = signals.next() => match signal {
                // No call was admitted yet. The next start resumes the interrupted work.
                ProcessSignal::Stop => return Ok(()),
                ProcessSignal::Reload => tracing::warn!("not ready yet: the configuration is not read again"),
            },
        }
    };
    {
        let mut out = io::stdout().lock();
        out.write_all(demo.welcome().as_bytes())?;
        out.flush()?;
    }
    let mut foreign = pin!(demo.foreign_nodes());
    let mut are_asked = false;
    let mut nodes = NodeWatch::default();
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                ProcessSignal::Reload => log_reload(demo.reload().map_err(|error| placed(file.as_deref(), error))),
                ProcessSignal::Stop => break,
            },
            lines = &mut foreign, if !are_asked => {
                are_asked = true;
                lines.iter().for_each(|line| say(line));
            }
            _ = look.tick() => nodes.look(demo.real_nodes()).iter().for_each(|line| say(line)),
        }
    }
    log_drain(demo.stop().await.cut);
    Ok(())
}

/// Prints a line on standard error: standard output is for programs.
fn say(line: &str) {
    // If standard error is closed, there is nowhere left to report it.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
