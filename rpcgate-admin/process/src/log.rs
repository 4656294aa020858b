//! The log: lines on standard error, JSON or text.
//!
//! It never holds a secret: of an API key only the identifier or the first 12 characters, of a node's URL no user
//! information and no query, of a request neither target nor headers.

use super::Failure;
use rpcgate_config::{LogFormat, Telemetry};
use std::io;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::fmt::MakeWriter;

const FILTER: &str = "RPCGATE_LOG";

/// Starts the log of this process. `RPCGATE_LOG` overrides the filter of `settings`. Keeps an installed subscriber, for
/// programs that embed this crate.
///
/// # Errors
/// [`Failure::Configuration`] for a filter that cannot be read.
pub fn install(settings: &Telemetry) -> Result<(), Failure> {
    let (name, filter) = match std::env::var(FILTER) {
        Ok(filter) if !filter.is_empty() => (FILTER, filter),
        _ => ("telemetry.log_filter", settings.log_filter.clone()),
    };
    let log = subscriber(&filter, settings.log_format, io::stderr)
        .map_err(|why| Failure::Configuration(format!("{name}: {why}")))?;
    let _ = tracing::subscriber::set_global_default(log);
    Ok(())
}

/// The crate that logs each step of a schema migration, many lines at a first start. Our own line suffices.
const STEPS: &str = "sea_orm_migration";

/// Parses the filter in `text`. Logs migration steps from `warn` on, unless `text` names their crate.
fn filter_of(text: &str) -> Result<EnvFilter, String> {
    let filter = EnvFilter::builder().parse(text).map_err(|error| error.to_string())?;
    if text.contains(STEPS) || filter.max_level_hint() < Some(LevelFilter::INFO) {
        return Ok(filter);
    }
    let directive = format!("{STEPS}=warn").parse().map_err(|error: ParseError| error.to_string())?;
    Ok(filter.add_directive(directive))
}

/// Returns a subscriber that writes the lines which `filter` admits.
///
/// # Errors
/// The error in `filter`.
pub fn subscriber<W>(
    filter: &str,
    format: LogFormat,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, String>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A line that cannot be written is lost. Reporting that on standard error, which has just failed, would panic, and
    // the journal's threads must continue.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter_of(filter)?)
        .with_writer(writer)
        .log_internal_errors(false);
    Ok(match format {
        LogFormat::Json => Box::new(lines.json().flatten_event(true).finish()),
        LogFormat::Text => Box::new(lines.with_ansi(false).finish()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedLog;

    fn logged(filter: &str, format: LogFormat, act: impl FnOnce()) -> String {
        let lines = CapturedLog::default();
        let guard = lines.capture(filter, format);
        act();
        drop(guard);
        lines.text()
    }

    #[test]
    fn lines_are_json_or_text() {
        for (format, expected) in
            [(LogFormat::Json, "\"message\":\"hello\",\"n\":1"), (LogFormat::Text, "hello n=1")]
        {
            let text = logged("info", format, || {
                tracing::info!(n = 1, "hello");
                tracing::debug!("too much");
            });
            assert!(text.contains(expected) && !text.contains("too much"), "{text}");
        }
    }

    // Shows (Commands and configuration): The log of a first start does not list the steps of a schema.
    #[test]
    fn the_steps_of_a_schema_are_logged_only_on_request() {
        for (filter, steps, own) in [
            ("info", 1, true),
            ("debug", 1, true),
            ("warn", 1, false),
            ("off", 0, false),
            ("info,sea_orm_migration=info", 2, true),
        ] {
            let text = logged(filter, LogFormat::Text, || {
                tracing::info!(target: "sea_orm_migration::migrator", "a step");
                tracing::warn!(target: "sea_orm_migration::migrator", "a step");
                tracing::info!("our own");
            });
            assert_eq!((text.matches("a step").count(), text.contains("our own")), (steps, own), "{filter}");
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_a_fault() {
        assert!(filter_of("info,rpcgate_layers=debug").is_ok());
        let settings = Telemetry { log_filter: "rpcgate=loud".into(), ..Telemetry::default() };
        assert_eq!(install(&settings).unwrap_err().code(), 2);
    }
}
