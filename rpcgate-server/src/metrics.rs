//! The metrics for Prometheus at `telemetry.listen`: calls, nodes, cache, journal, databases, this process.
//! `docs/watching.md` lists names and labels.
//!
//! Metrics add no lock to a call. Calls are counted under locks that are taken anyway ([`meter`]); everything else is
//! read when a page is requested.

mod calls;
mod gateway;
mod listen;
pub(crate) mod meter;

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
use rpcgate_process::metrics::{CertificateMetrics, ProgramMetrics};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Adds the counting of records to `sink`: in the journal's shards if `journal` is the sink, else in front of the sink.
pub(crate) fn counted(
    sink: Arc<dyn UsageSink>,
    journal: Option<&Arc<Journal>>,
) -> (Arc<dyn UsageSink>, Calls) {
    let names = Arc::new(Names::of(rpcgate_chains::catalog()));
    if let Some(journal) = journal {
        journal.meter(&names);
        return (sink, Calls::Journal(journal.clone()));
    }
    let threads = Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers());
    let counted = Arc::new(Counted::new(&names, threads));
    (Arc::new(ObservedSink::new(sink, counted.clone())), Calls::Counted(counted))
}

/// Returns a writer of all metrics of a gateway as OpenMetrics 1.0 text.
pub(crate) fn page(calls: Calls, watched: Watched) -> listen::Write {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProgramMetrics));
    let ours = registry.sub_registry_with_prefix("rpcgate");
    ours.register_collector(Box::new(calls));
    if let Some(certificate) = watched.reloadable.certificate.clone() {
        ours.register_collector(Box::new(CertificateMetrics(certificate)));
    }
    ours.register_collector(Box::new(watched));
    Arc::new(move || {
        let mut page = String::new();
        // Writing to a `String` does not fail.
        let _ = text::encode(&mut page, &registry);
        page
    })
}

#[cfg(test)]
mod tests;
