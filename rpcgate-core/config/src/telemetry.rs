//! `[telemetry]`: metrics, logs and traces.

use super::access_log::AccessLogSettings;
use super::fields::{Fields, Table};
use super::otlp::OtlpSettings;
use super::value::Word;
use std::net::SocketAddr;

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Text for people.
    Text,
}

impl Word for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("json", LogFormat::Json), ("text", LogFormat::Text)];
}

/// `[telemetry]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Telemetry {
    /// The address of `/metrics` for Prometheus; none by default.
    pub listen: Option<SocketAddr>,
    /// The log filter: a level, or directives such as `info,rpcgate_layers=debug`.
    pub log_filter: String,
    /// The format of log lines.
    pub log_format: LogFormat,
    /// The access log.
    pub access_log: AccessLogSettings,
    /// The export of traces.
    pub otlp: OtlpSettings,
}

impl Default for Telemetry {
    fn default() -> Self {
        Telemetry {
            listen: None,
            log_filter: "info".into(),
            log_format: LogFormat::Json,
            access_log: AccessLogSettings::default(),
            otlp: OtlpSettings::default(),
        }
    }
}

impl Table for Telemetry {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("listen", &mut self.listen);
        f.value("log_filter", &mut self.log_filter);
        f.word("log_format", &mut self.log_format);
        f.table("access_log", &mut self.access_log);
        f.table("otlp", &mut self.otlp);
    }
}
