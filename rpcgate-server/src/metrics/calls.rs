//! Metrics of calls.

use super::meter::{BOUNDS, Cell, Kind, Meter, Names, Sums};
use crate::journal::{Journal, thread_number};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use rpcgate_core::backend::usage_observer::UsageObserver;
use rpcgate_core::backend::usage_sink::Record;
use rpcgate_process::metrics::{Histogram, MetricsWriter};
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum Calls {
    /// The meters in the journal's shards.
    Journal(Arc<Journal>),
    /// Meters in front of a sink that does not count.
    Counted(Arc<Counted>),
}

impl Calls {
    fn sums(&self) -> Sums {
        match self {
            Calls::Journal(journal) => journal.metered(),
            Calls::Counted(counted) => counted.sums(),
        }
    }
}

impl Collector for Calls {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsWriter::new(encoder);
        let sums = self.sums();
        let labels = |(chain, method, kind): &(_, String, Kind)| {
            [("chain", text(chain)), ("method", method.clone()), ("outcome", kind.name().to_owned())]
        };
        page.counters(
            "calls",
            "Calls by chain, method and outcome.",
            sums.calls.iter().map(|(key, cell)| (labels(key), cell.calls)),
        )?;
        // Refusals have no histogram: they take almost no time, and there may be very many.
        let timed = sums.calls.iter().filter(|((_, _, kind), _)| *kind != Kind::Refused);
        page.histograms(
            "call_duration",
            "Time from a call's arrival to its answer; a call of a batch has its batch's.",
            &Unit::Seconds,
            timed.map(|(key, cell)| (labels(key), histogram(cell))),
        )?;
        page.counters(
            "refused_calls",
            "Refused calls by the HTTP status that each would have had as a single request.",
            sums.refused.iter().map(|((chain, status), calls)| {
                ([("chain", text(chain)), ("status", status.to_string())], *calls)
            }),
        )?;
        let traffic: Vec<_> =
            sums.traffic.iter().map(|(chain, sum)| ([("chain", text(chain))], *sum)).collect();
        page.counters(
            "window_requests",
            "Requests counted in plan windows.",
            traffic.iter().map(|(labels, sum)| (labels.clone(), sum.windowed)),
        )?;
        page.counters(
            "compute_units",
            "Compute Units charged.",
            traffic.iter().map(|(labels, sum)| (labels.clone(), sum.units)),
        )?;
        page.counters(
            "request_bytes",
            "Bytes of requests' bodies.",
            traffic.iter().map(|(labels, sum)| (labels.clone(), sum.bytes_in)),
        )?;
        page.counters(
            "response_bytes",
            "Bytes of answers' bodies.",
            traffic.iter().map(|(labels, sum)| (labels.clone(), sum.bytes_out)),
        )?;
        page.counters(
            "ws_connections",
            "WebSocket streams that were opened.",
            traffic.iter().map(|(labels, sum)| (labels.clone(), sum.streams.connections)),
        )?;
        page.counters(
            "ws_refused",
            "Handshakes of WebSocket streams that were refused or failed.",
            traffic.iter().map(|(labels, sum)| (labels.clone(), sum.streams.refused)),
        )?;
        page.counters(
            "ws_messages",
            "Messages pushed on WebSocket streams, without answers to calls.",
            traffic.iter().map(|(labels, sum)| (labels.clone(), sum.streams.messages)),
        )
    }
}

fn text(value: &impl ToString) -> String {
    value.to_string()
}

fn histogram(cell: &Cell) -> Histogram {
    let bounds = BOUNDS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
    Histogram { sum: cell.micros as f64 / 1e6, count: cell.calls, buckets: bounds.zip(cell.took).collect() }
}

/// Counts records in front of a sink that does not count.
#[derive(Debug)]
pub(crate) struct Counted {
    meters: Box<[Mutex<Meter>]>,
}

impl Counted {
    /// Creates `threads` meters, so that this number of threads can count without contention.
    pub(crate) fn new(names: &Arc<Names>, threads: usize) -> Self {
        let meter = || {
            let mut meter = Meter::default();
            meter.start(names.clone());
            Mutex::new(meter)
        };
        Counted { meters: (0..threads.max(1)).map(|_| meter()).collect() }
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        self.meters.iter().for_each(|meter| meter.lock().add_to(&mut sums));
        sums
    }
}

impl UsageObserver for Counted {
    fn see(&self, record: &Record<'_>) {
        self.meters[thread_number() % self.meters.len()].lock().count(record);
    }
}
