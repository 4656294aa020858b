//! Rows of usage as CSV.

use crate::management::api::csv::{file, harmless, line};
use rpcgate_core::usage::{Cell, Metrics, UsageView};

/// The rows, after a header line.
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
        Cell::Hour(begin) | Cell::Day(begin) => super::moment(*begin),
        Cell::Chain(text) | Cell::Method(text, _) => text.clone(),
        Cell::Key(id) => id.to_string(),
        Cell::Project(id) => id.to_string(),
        Cell::Transport(transport) => transport.name().to_owned(),
        Cell::Status(status) => status.to_string(),
    }
}
