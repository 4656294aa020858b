//! The formats of metrics: OpenMetrics 1.0.0, and the Prometheus text format 0.0.4, which every reader knows.

use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue};
use std::fmt::Write;

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The format of a page of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The Prometheus text format 0.0.4.
    Text,
}

impl MetricsFormat {
    /// Returns the format that a client prefers (RFC 9110, section 12.5.1). A client that does not name OpenMetrics
    /// gets text.
    pub fn preferred(headers: &HeaderMap) -> Self {
        let mut open = 0;
        let mut text = 0;
        let ranges = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        for range in ranges.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            let quality = quality.map_or(1_000, thousandths);
            match name.as_str() {
                OPEN_METRICS => open = quality.max(open),
                "text/plain" => text = quality.max(text),
                _ => {}
            }
        }
        if open > 0 && open >= text { MetricsFormat::OpenMetrics } else { MetricsFormat::Text }
    }

    /// Returns the `Content-Type` of a page in this format.
    pub const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
        })
    }

    /// Converts a page of OpenMetrics to this format.
    pub fn page(self, open_metrics: String) -> String {
        match self {
            MetricsFormat::OpenMetrics => open_metrics,
            MetricsFormat::Text => text(&open_metrics),
        }
    }
}

/// Parses a quality in thousandths; returns 0 for an invalid one.
fn thousandths(quality: &str) -> u32 {
    let (integer, part) = quality.split_once('.').unwrap_or((quality, ""));
    let digits: String = part.chars().chain("000".chars()).take(3).collect();
    match (integer, digits.parse::<u32>()) {
        ("1", _) => 1_000,
        ("0", Ok(thousandths)) => thousandths,
        _ => 0,
    }
}

/// Converts a page of OpenMetrics to the text format. Samples are the same in both. The text format names a counter
/// with `_total` in its descriptions, and has neither units nor an end mark.
fn text(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                "stateset" => ("", "gauge"),
                kind => ("", kind),
            };
            if let Some((of, help)) = std::mem::take(&mut help).split_once(' ')
                && of == name
            {
                // Only here a quotation mark is not escaped. Writing to a text cannot fail.
                let _ = writeln!(out, "# HELP {name}{ending} {}", help.replace("\\\"", "\""));
            }
            let _ = writeln!(out, "# TYPE {name}{ending} {kind}");
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferred(accept: &[&'static str]) -> MetricsFormat {
        let headers = accept.iter().map(|value| (ACCEPT, HeaderValue::from_static(value)));
        MetricsFormat::preferred(&headers.collect())
    }

    #[test]
    fn a_client_gets_the_form_that_it_prefers_and_text_unless_it_names_the_other_one() {
        for accept in [
            &[
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
               text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            ][..],
            &["application/openmetrics-text"],
            &["text/plain;q=0.5", "Application/OpenMetrics-Text; q=0.5"],
        ] {
            assert_eq!(preferred(accept), MetricsFormat::OpenMetrics, "{accept:?}");
        }
        for accept in [
            &[][..],
            &["*/*"],
            &["text/html,application/xhtml+xml,*/*;q=0.8"],
            &["text/plain;version=0.0.4;q=1,*/*;q=0.1"],
            &["application/openmetrics-text;q=0.4,text/plain;q=0.5"],
            &["application/openmetrics-text;q=0"],
        ] {
            assert_eq!(preferred(accept), MetricsFormat::Text, "{accept:?}");
        }
    }

    #[test]
    fn a_page_has_the_same_samples_in_both_forms() {
        let page = "# HELP a_calls Calls of \\\"a\\\".\n# TYPE a_calls counter\na_calls_total{x=\"#\"} 5\n\
                    # HELP took_seconds Time.\n# TYPE took_seconds histogram\n# UNIT took_seconds seconds\n\
                    took_seconds_sum 0.5\ntook_seconds_count 1\ntook_seconds_bucket{le=\"+Inf\"} 1\n\
                    # HELP build What is running.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n# EOF\n";
        let text = "# HELP a_calls_total Calls of \"a\".\n# TYPE a_calls_total counter\na_calls_total{x=\"#\"} 5\n\
                    # HELP took_seconds Time.\n# TYPE took_seconds histogram\n\
                    took_seconds_sum 0.5\ntook_seconds_count 1\ntook_seconds_bucket{le=\"+Inf\"} 1\n\
                    # HELP build_info What is running.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n";
        assert_eq!(MetricsFormat::Text.page(page.to_owned()), text);
        assert_eq!(MetricsFormat::OpenMetrics.page(page.to_owned()), page);
    }
}
