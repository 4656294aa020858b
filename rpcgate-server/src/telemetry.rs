//! The log: lines on standard error, JSON or text.
//!
//! What may stand in it: of an API key its identifier or its first 12 characters, of a URL what
//! [`NodeUrl`](rpcgate_layers::upstream::NodeUrl) shows, of a request never its target or its headers.

use crate::command::Failure;
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
pub fn install(settings: &Telemetry) -> Result<(), Failure> {
    let (name, filter) = match std::env::var(FILTER) {
        Ok(filter) if !filter.is_empty() => (FILTER, filter),
        _ => ("telemetry.log_filter", settings.log_filter.clone()),
    };
    let filter = filter_of(&filter).map_err(|why| Failure::Configuration(format!("{name}: {why}")))?;
    // Somebody who embeds this has a log of their own, and the first one stays.
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
    // A line that cannot be written is lost. To complain of it on standard error, which is where it could not be
    // written, would panic, and the journal's threads have more to do than to log.
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    match format {
        LogFormat::Json => Box::new(lines.json().flatten_event(true).finish()),
        LogFormat::Text => Box::new(lines.with_ansi(false).finish()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// Keeps what is logged on this thread while `act` runs.
    #[derive(Clone, Default)]
    pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }

        pub(crate) fn listen(&self, filter: &str, format: LogFormat) -> tracing::subscriber::DefaultGuard {
            let lines = self.clone();
            let filter = filter_of(filter).unwrap();
            tracing::subscriber::set_default(subscriber(filter, format, move || lines.clone()))
        }
    }

    #[test]
    fn lines_are_json_or_text() {
        for (format, expected) in
            [(LogFormat::Json, "\"message\":\"hello\",\"n\":1"), (LogFormat::Text, "hello n=1")]
        {
            let lines = Lines::default();
            let _listening = lines.listen("info", format);
            tracing::info!(n = 1, "hello");
            tracing::debug!("too much");
            assert!(lines.text().contains(expected), "{}", lines.text());
            assert!(!lines.text().contains("too much"));
        }
    }

    #[test]
    fn the_steps_of_a_schema_do_not_drown_the_log_unless_they_are_asked_for() {
        for (filter, steps, own) in [
            ("info", 1, true),
            ("debug", 1, true),
            ("warn", 1, false),
            ("off", 0, false),
            ("info,sea_orm_migration=info", 2, true),
        ] {
            let lines = Lines::default();
            let _listening = lines.listen(filter, LogFormat::Text);
            tracing::info!(target: "sea_orm_migration::migrator", "a step");
            tracing::warn!(target: "sea_orm_migration::migrator", "a step");
            tracing::info!("our own");
            let text = lines.text();
            assert_eq!((text.matches("a step").count(), text.contains("our own")), (steps, own), "{filter}");
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_a_fault() {
        assert!(filter_of("info,rpcgate_layers=debug").is_ok());
        assert!(filter_of("rpcgate=loud").is_err());
    }
}
