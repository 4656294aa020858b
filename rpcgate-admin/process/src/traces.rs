//! The export of traces to an OpenTelemetry collector (`[telemetry.otlp]`), for both binaries.
//!
//! Finished items go into a queue without waiting: if it is full, they are dropped and counted. A task takes them from
//! the queue, writes spans, and sends them in batches as OTLP over gRPC. An unavailable collector costs spans, never a
//! call.

mod exporter;
mod queue;
mod span;

pub use exporter::{BadCollector, TraceExporter, check_collector};
pub use opentelemetry::trace::{Event, SpanKind, Status};
pub use opentelemetry::{KeyValue, Value};
pub use opentelemetry_sdk::trace::SpanData;
pub use queue::{SpanQueue, SpanSource, TraceCounts};
pub use span::{span, span_time};
