//! `rpcgate-server demo`.

use crate::demo_options::DemoOptions;
use rpcgate_admin::process::Failure;

/// Time between two messages of a demo that is still starting.
#[cfg(feature = "demo")]
const SIGN: std::time::Duration = std::time::Duration::from_secs(3);

/// Time between two looks at nodes that are not simulated.
#[cfg(feature = "demo")]
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// Prints a line for the person at the terminal, on standard error: standard output is for programs.
#[cfg(feature = "demo")]
fn say(line: &str) {
    use std::io::Write;
    // If standard error is closed, there is nowhere left to report it.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Starts the demo, prints how to use it, and serves until a signal stops it.
///
/// # Errors
/// [`Failure`] when it cannot start.
#[cfg(feature = "demo")]
pub async fn execute(options: DemoOptions) -> Result<(), Failure> {
    use crate::demo::{NodeWatch, Prepared};
    use crate::gateway::StartOptions;
    use rpcgate_admin::process::reload::{log_drain, log_reload};
    use rpcgate_admin::process::{ProcessSignal, Signals, log, placed};
    use rpcgate_core::config::{LogFormat, Telemetry};
    use std::io::Write;
    use std::pin::pin;

    say(&format!("Starting the demo in {}.", options.dir.display()));
    let file = options.config.clone();
    let prepared = Prepared::new(&options).await?;
    let configured = &prepared.config().telemetry;
    // By default the log is quiet, so that the printed lines do not scroll away.
    let quiet = Telemetry { log_filter: "warn".into(), log_format: LogFormat::Text, ..Telemetry::default() };
    log::install(if *configured == Telemetry::default() { &quiet } else { configured })?;
    let mut signals = Signals::listen()?;
    let step = prepared.step();
    let mut sign = tokio::time::interval(SIGN);
    sign.reset();
    let mut starting = pin!(prepared.start(StartOptions::default()));
    let demo = loop {
        tokio::select! {
            started = &mut starting => break started.map_err(|error| placed(file.as_deref(), error))?,
            _ = sign.tick() => say(&format!("Still starting: it is {}.", *step.borrow())),
            told = signals.next() => match told {
                // No call was admitted yet. The next start resumes what is interrupted here.
                ProcessSignal::Stop => return Ok(()),
                ProcessSignal::Reload => tracing::warn!("not ready yet: the configuration is not read again"),
            },
        }
    };
    {
        let mut out = std::io::stdout().lock();
        out.write_all(demo.welcome().as_bytes())?;
        out.flush()?;
    }
    let mut nodes = NodeWatch::default();
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            heard = signals.next() => match heard {
                ProcessSignal::Reload => log_reload(demo.reload().map_err(|error| placed(file.as_deref(), error))),
                ProcessSignal::Stop => break,
            },
            _ = look.tick() => nodes.look(demo.real_nodes()).iter().for_each(|line| say(line)),
        }
    }
    log_drain(demo.stop().await.cut);
    Ok(())
}

/// Fails: this binary was built without the demo.
///
/// # Errors
/// Always [`Failure::Other`].
#[cfg(not(feature = "demo"))]
#[expect(clippy::unused_async, reason = "the demo that is built in has to wait")]
pub async fn execute(options: DemoOptions) -> Result<(), Failure> {
    drop(options);
    Err(Failure::Other("this binary was built without the demo: build it with --features demo".into()))
}
