//! What Prometheus is told at `telemetry.listen`: calls, nodes, cache, journal, databases, this process. Names and
//! labels stand in `docs/operations.md`.
//!
//! Nothing here stands in a call's way. Calls are counted behind locks that are taken anyway ([`meter`]), all else is
//! looked at when somebody asks.

mod calls;
mod gateway;
mod listen;
pub(crate) mod meter;
mod page;
mod process;

pub(crate) use calls::Calls;
pub(crate) use gateway::{Reloads, Watched};
pub(crate) use listen::MetricsListener;

use crate::journal::Journal;
use calls::Counted;
use meter::Names;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use rpcgate_core::backend::usage_observer::ObservedSink;
use rpcgate_core::backend::usage_sink::UsageSink;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Counts what goes into `sink`: in the journal's own places where that is this `journal`, else in front of it.
pub(crate) fn counted(
    sink: Arc<dyn UsageSink>,
    journal: Option<&Arc<Journal>>,
) -> (Arc<dyn UsageSink>, Calls) {
    let names = Arc::new(Names::of(rpcgate_chains::catalog()));
    if let Some(journal) = journal {
        journal.meter(&names);
        return (sink, Calls::Journal(journal.clone()));
    }
    let places = Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers());
    let counted = Arc::new(Counted::new(&names, places));
    (Arc::new(ObservedSink::new(sink, counted.clone())), Calls::Counted(counted))
}

/// Everything that is told of a gateway, as Prometheus reads it (OpenMetrics 1.0).
pub(crate) fn page(calls: Calls, watched: Watched) -> listen::Write {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(process::Process));
    let ours = registry.sub_registry_with_prefix("rpcgate");
    ours.register_collector(Box::new(calls));
    ours.register_collector(Box::new(watched));
    Arc::new(move || {
        let mut page = String::new();
        // Writing to a text does not fail.
        let _ = text::encode(&mut page, &registry);
        page
    })
}

#[cfg(test)]
mod tests;
