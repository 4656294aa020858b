//! Usage as a CSV file.

use crate::action::usage::Usage;
use crate::shape::csv::{self, file, harmless, line};
use crate::shape::moment::Moment;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName};
use rpcgate_core::usage::{Cell, Metrics, UsageView};

/// The header that is to CSV as `truncated` is to JSON.
pub const TRUNCATED: HeaderName = HeaderName::from_static("x-truncated");

/// Returns the rows as a CSV file, named after the window.
pub fn table(usage: &Usage) -> Response {
    let view = &usage.view;
    let hour = |time| Moment(time).to_string().get(..13).unwrap_or_default().to_owned();
    let name = format!("attachment; filename=\"usage-{}-{}.csv\"", hour(view.from), hour(view.to));
    let headers = [
        (CONTENT_TYPE, csv::MEDIA_TYPE),
        (CONTENT_DISPOSITION, name.as_str()),
        (TRUNCATED, if view.truncated { "true" } else { "false" }),
    ];
    (headers, rows(view)).into_response()
}

/// Returns the rows as CSV, after a header line.
pub(super) fn rows(view: &UsageView) -> String {
    let mut text = file();
    let counters = Metrics::NAMES.into_iter().take(Metrics::SHOWN);
    let names = view.group_by.iter().map(|group| group.name()).chain(counters).chain(["avg_latency_ms"]);
    line(&mut text, names.map(str::to_owned));
    for row in &view.rows {
        let metrics = &row.metrics;
        let counts = metrics.values().into_iter().take(Metrics::SHOWN).map(|count| count.to_string());
        let cells = row.cells.iter().map(|cell| harmless(shown(cell)));
        line(&mut text, cells.chain(counts).chain([metrics.avg_latency_ms().to_string()]));
    }
    text
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Hour(begin) | Cell::Day(begin) => Moment(*begin).to_string(),
        Cell::Chain(text) | Cell::Method(text, _) => text.clone(),
        Cell::Key(id) => id.to_string(),
        Cell::Project(id) => id.to_string(),
        Cell::Transport(transport) => transport.name().to_owned(),
        Cell::Status(status) => status.to_string(),
    }
}
