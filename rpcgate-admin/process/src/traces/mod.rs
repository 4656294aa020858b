//! Traces on their way to an OpenTelemetry collector (`[telemetry.otlp]`), for both binaries.
//!
//! What has ended is put into a queue, and nobody waits: if the queue is full it is dropped, and counted. A task takes from
//! the queue, writes spans, and sends them in batches as OTLP over gRPC. A collector that is away costs spans, never a call.

mod exporter;
mod queue;
mod span;

pub use exporter::{BadCollector, TraceExporter, check_collector};
pub use queue::{SpanQueue, SpanSource, TraceCounts};
pub use span::{FinishedSpan, SpanAttributes, SpanEvent, SpanRole, SpanValue};
