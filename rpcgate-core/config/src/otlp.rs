//! `[telemetry.otlp]`: the export of traces.

use super::fields::{Fields, Table};
use super::masking::Masking;
use super::problem::Problem;
use super::reading::Reading;
use super::secret::Secret;
use super::tree::{Item, Value as RawValue};
use super::units::{MILLI, SECOND};
use super::url::Url;
use super::value::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const MILLION: f64 = 1e6;

/// A ratio of calls, to the millionth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRatio(u32);

impl TraceRatio {
    /// The ratio 1.
    pub const ALL: TraceRatio = TraceRatio(1_000_000);

    /// Returns the ratio in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl Value for TraceRatio {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        let ratio = match &item.value {
            RawValue::Integer(number) => number.map(|number| number as f64),
            RawValue::Float(number) => Some(*number),
            RawValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
        let ratio = ratio.map(|ratio| TraceRatio((ratio * MILLION).round() as u32));
        ratio.or_else(|| r.unreadable(item, "a number from 0 to 1"))
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        // Debug always writes a fraction, and may write an exponent. Both are valid TOML.
        Some(format!("{:?}", f64::from(self.0) / MILLION))
    }
}

/// `[telemetry.otlp]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OtlpSettings {
    /// The OpenTelemetry collector for traces (OTLP over gRPC). By default none, and no call is traced.
    pub url: Option<Url>,
    /// A PEM file of certificate authorities that may sign its certificate, in addition to the public ones.
    pub ca_file: Option<PathBuf>,
    /// Headers of every request to it.
    pub headers: BTreeMap<String, Secret>,
    /// The ratio of traced calls, without those whose clients opt out.
    pub ratio: TraceRatio,
    /// The service name in traces; the program's own by default.
    pub service_name: Option<String>,
    /// The maximum number of calls whose spans wait to be sent.
    pub queue: u32,
    /// The number of spans per request.
    pub batch: u32,
    /// The time that spans wait for others.
    pub interval: Duration,
    /// The time limit of the collector, also when a stopping program waits for it.
    pub timeout: Duration,
}

impl Default for OtlpSettings {
    fn default() -> Self {
        OtlpSettings {
            url: None,
            ca_file: None,
            headers: BTreeMap::new(),
            ratio: TraceRatio::ALL,
            service_name: None,
            queue: 2_048,
            batch: 512,
            interval: 2 * SECOND,
            timeout: 5 * SECOND,
        }
    }
}

impl OtlpSettings {
    /// Returns a header that gRPC does not allow, or sets itself.
    fn bad_header(&self) -> Option<&str> {
        let is_sound = |name: &str, value: &Secret| {
            let Ok(name) = name.parse::<http::HeaderName>() else { return false };
            let name = name.as_str();
            let is_own = name.starts_with("grpc-")
                || name.ends_with("-bin")
                || matches!(name, "te" | "content-type" | "user-agent");
            !is_own && value.expose().bytes().all(|byte| matches!(byte, b' '..=b'~'))
        };
        self.headers.iter().find(|(name, value)| !is_sound(name, value)).map(|(name, _)| name.as_str())
    }
}

impl Table for OtlpSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.url("url", &mut self.url, &["http", "https"]);
        f.value("ca_file", &mut self.ca_file);
        f.value("headers", &mut self.headers);
        f.value("ratio", &mut self.ratio);
        f.value("service_name", &mut self.service_name);
        f.number("queue", &mut self.queue, 1..=1_000_000);
        f.number("batch", &mut self.batch, 1..=10_000);
        f.duration("interval", &mut self.interval, MILLI..=60 * SECOND);
        f.duration("timeout", &mut self.timeout, MILLI..=60 * SECOND);
        if let Some(name) = self.bad_header() {
            let why = format!("has a name or value that gRPC does not allow, or sets itself: {name:?}");
            f.wrong(&["headers"], |key| Problem::Invalid { key, why });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Input};

    fn read(lines: &str) -> Result<OtlpSettings, String> {
        let text = format!("[telemetry.otlp]\n{lines}\n");
        let input = Input { file: Some(("f", &text)), ..Input::default() };
        Config::read(&input).map(|config| config.telemetry.otlp).map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_ratio_is_a_number_from_0_to_1_and_reads_back() {
        for (given, millionths) in [("0", 0), ("1", 1_000_000), ("0.25", 250_000), ("1e-6", 1)] {
            let settings = read(&format!("ratio = {given}")).unwrap();
            assert_eq!(settings.ratio.millionths(), millionths, "{given}");
            let text = format!("[telemetry.otlp]\nratio = {given}\n");
            let config = Config::read(&Input { file: Some(("f", &text)), ..Input::default() }).unwrap();
            let printed = config.to_toml_masked();
            let again = Config::read(&Input { file: Some(("f", &printed)), ..Input::default() }).unwrap();
            assert_eq!(again.telemetry.otlp.ratio, settings.ratio, "{printed}");
        }
        for wrong in ["-0.1", "1.01", "2", "nan", "\"0.5\"", "true"] {
            let error = read(&format!("ratio = {wrong}")).unwrap_err();
            assert!(
                error.contains("telemetry.otlp.ratio") && error.contains("a number from 0 to 1"),
                "{error}"
            );
        }
    }

    #[test]
    fn headers_are_secrets_that_grpc_allows() {
        let settings =
            read("url = \"http://c:4317\"\nheaders = { authorization = \"Bearer hunter2\" }").unwrap();
        assert_eq!(settings.headers["authorization"].expose(), "Bearer hunter2");
        assert!(!format!("{settings:?}").contains("hunter2"));
        for wrong in ["a b", "grpc-timeout", "Trace-Bin", "te"] {
            let error = read(&format!("headers = {{ {wrong:?} = \"v\" }}")).unwrap_err();
            assert!(error.contains("telemetry.otlp.headers"), "{error}");
        }
        let error = read("headers = { a = \"hunter2\\n\" }").unwrap_err();
        assert!(error.contains("\"a\"") && !error.contains("hunter2"), "{error}");
    }
}
