//! `rpcgate-server demo`.

use crate::demo_options::DemoOptions;
use rpcgate_admin::process::Failure;

/// How often a demo that is still starting shows that it lives.
#[cfg(feature = "demo")]
const SIGN: std::time::Duration = std::time::Duration::from_secs(3);

/// How often it looks at nodes that are not simulated.
#[cfg(feature = "demo")]
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// A line for the person at the terminal, beside what is printed for programs.
#[cfg(feature = "demo")]
fn say(line: &str) {
    use std::io::Write;
    // Nobody is left to hear that nobody can be told.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Starts the demo, prints what to do with it, and serves until it is told to stop.
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
    // What was printed for pasting should not scroll away, unless somebody asked for more.
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
                // No call was admitted: what is cut off here is taken up by the next start.
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

/// Says that this binary was built without it.
///
/// # Errors
/// Always [`Failure::Other`].
#[cfg(not(feature = "demo"))]
#[expect(clippy::unused_async, reason = "the demo that is built in has to wait")]
pub async fn execute(options: DemoOptions) -> Result<(), Failure> {
    drop(options);
    Err(Failure::Other("this binary was built without the demo: build it with --features demo".into()))
}
