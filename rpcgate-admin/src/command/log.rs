//! The log: lines on standard error, JSON or text. Of a request it never holds the target or the headers.

use super::Failure;
use rpcgate_core::config::{LogFormat, Telemetry};
use std::io;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::fmt::MakeWriter;

/// The variable that overrides the configuration's filter.
const FILTER: &str = "RPCGATE_LOG";

/// Starts the log of this process. `RPCGATE_LOG` overrides the filter of `settings`. If there is a log already, that
/// one stays.
///
/// # Errors
/// [`Failure::Configuration`] for a filter that cannot be read.
pub(super) fn install(settings: &Telemetry) -> Result<(), Failure> {
    let (name, filter) = match std::env::var(FILTER) {
        Ok(filter) if !filter.is_empty() => (FILTER, filter),
        _ => ("telemetry.log_filter", settings.log_filter.clone()),
    };
    let filter = filter_of(&filter).map_err(|why| Failure::Configuration(format!("{name}: {why}")))?;
    let _ = tracing::subscriber::set_global_default(subscriber(filter, settings.log_format, io::stderr));
    Ok(())
}

/// What tells of each step of a schema, many lines at a first start, where one of our own says as much.
const STEPS: &str = "sea_orm_migration";

/// The filter of this text. The library that brings schemas up to date is heard from `warn` on, unless it is named.
fn filter_of(text: &str) -> Result<EnvFilter, String> {
    let filter = EnvFilter::builder().parse(text).map_err(|error| error.to_string())?;
    if text.contains(STEPS) || filter.max_level_hint() < Some(LevelFilter::INFO) {
        return Ok(filter);
    }
    let directive = format!("{STEPS}=warn").parse().map_err(|error: ParseError| error.to_string())?;
    Ok(filter.add_directive(directive))
}

fn subscriber<W>(filter: EnvFilter, format: LogFormat, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A line that cannot be written is lost: to complain of it where it could not be written would panic.
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    match format {
        LogFormat::Json => Box::new(lines.json().flatten_event(true).finish()),
        LogFormat::Text => Box::new(lines.with_ansi(false).finish()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_json_or_text() {
        for (format, expected) in
            [(LogFormat::Json, "\"message\":\"hello\",\"n\":1"), (LogFormat::Text, "hello n=1")]
        {
            let lines = Lines::default();
            let writer = lines.clone();
            let log = subscriber(filter_of("info").unwrap(), format, move || writer.clone());
            tracing::subscriber::with_default(log, || {
                tracing::info!(n = 1, "hello");
                tracing::debug!("too much");
            });
            let text = String::from_utf8(lines.0.lock().clone()).unwrap();
            assert!(text.contains(expected) && !text.contains("too much"), "{text}");
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_a_fault() {
        let settings = Telemetry { log_filter: "rpcgate=loud".into(), ..Telemetry::default() };
        assert_eq!(install(&settings).unwrap_err().code(), 2);
    }
}
