//! The trace spans of requests (`telemetry.otlp`), one for each answered request. A span contains the route, but no
//! part of the path, the query, the headers or the body.

use http::{Extensions, HeaderMap, Method, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use rpcgate_config::OtlpSettings;
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::trace::{CallTrace, TraceSampling};
use rpcgate_process::traces::{
    BadCollector, KeyValue, SpanData, SpanKind, SpanQueue, SpanSource, TraceExporter, span,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const PROGRAM: &str = "rpcgate-admin";

/// The method in spans for methods that no route has.
const OTHER: &str = "_OTHER";

/// Routes of health checks, which are not traced.
const UNTRACED: [&str; 2] = ["/healthz", "/readyz"];

/// The sampling of requests and the queue of ended ones. Clones share it.
#[derive(Clone, Debug)]
pub struct RequestTraces {
    sampling: TraceSampling,
    queue: SpanQueue<TracedAnswer>,
}

/// The mark of a request from a logged-in user. Clones share it: one is in the extensions of the request, so that the
/// mark is also known for a cancelled request.
#[derive(Clone, Debug, Default)]
pub struct UserMark(Arc<AtomicBool>);

impl UserMark {
    /// Marks the request with these extensions as a user's, if it is traced.
    pub fn set(extensions: &Extensions) {
        if let Some(UserMark(is_user)) = extensions.get() {
            is_user.store(true, Relaxed);
        }
    }

    /// Reports whether the request is that of a user.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// An answered request whose span will be written.
#[derive(Debug)]
struct TracedAnswer {
    trace: CallTrace,
    request: RequestId,
    arrival: Time,
    took: Duration,
    method: &'static str,
    route: Option<String>,
    status: StatusCode,
}

impl RequestTraces {
    /// Starts to send traces if `settings` name a collector.
    ///
    /// # Errors
    /// [`BadCollector`]
    pub fn start(
        settings: &OtlpSettings,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<(Self, TraceExporter)>, BadCollector> {
        let Some((queue, exporter)) = TraceExporter::start(settings, PROGRAM, clock)? else {
            return Ok(None);
        };
        let sampling = TraceSampling::of_millionths(settings.ratio.millionths());
        Ok(Some((RequestTraces { sampling, queue }, exporter)))
    }

    /// Starts the trace of a request to this route, if it may be recorded. Also returns a mark for the request's
    /// extensions.
    pub(crate) fn begin(
        &self,
        request: RequestId,
        route: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<(CallTrace, UserMark)> {
        if route.is_some_and(|route| UNTRACED.contains(&route)) {
            return None;
        }
        let trace = self.sampling.begin_as_requested(request, headers).filter(CallTrace::is_sampled)?;
        Some((trace, UserMark::default()))
    }

    /// Queues the span of an answered request. The client's wish for a trace counts only from logged-in users, because
    /// others could fill the queue.
    pub(crate) fn end(
        &self,
        (trace, user): (CallTrace, UserMark),
        (request, arrival, took): (RequestId, Time, Duration),
        (method, route): (&Method, Option<&str>),
        status: StatusCode,
    ) {
        if trace.parent.is_some() && !user.is_set() && !self.sampling.records(request) {
            return;
        }
        let route = route.map(str::to_owned);
        let method = known(method);
        self.queue.push(1, || TracedAnswer { trace, request, arrival, took, method, route, status });
    }

    /// Returns the counts of sent and lost spans, as a metric.
    pub fn metric(&self) -> Box<dyn Collector> {
        Box::new(TraceMetric(self.clone()))
    }
}

fn known(method: &Method) -> &'static str {
    const KNOWN: [(Method, &str); 6] = [
        (Method::GET, "GET"),
        (Method::HEAD, "HEAD"),
        (Method::POST, "POST"),
        (Method::PUT, "PUT"),
        (Method::DELETE, "DELETE"),
        (Method::OPTIONS, "OPTIONS"),
    ];
    KNOWN.iter().find(|(known, _)| known == method).map_or(OTHER, |(_, name)| *name)
}

impl SpanSource for TracedAnswer {
    fn write(self, spans: &mut Vec<SpanData>) {
        let TracedAnswer { trace, request, arrival, took, method, route, status } = self;
        let name = match &route {
            Some(route) => format!("{method} {route}").into(),
            None => method.into(),
        };
        let mut attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.response.status_code", i64::from(status.as_u16())),
            KeyValue::new("rpcgate.request_id", request.to_string()),
        ];
        attributes.extend(route.map(|route| KeyValue::new("http.route", route)));
        let is_broken = status.is_server_error();
        let error = is_broken.then(|| status.canonical_reason().unwrap_or("server error").into());
        let times = [arrival, arrival.plus(took)];
        let span = span(trace.context, trace.parent, SpanKind::Server, name, times, error);
        spans.push(SpanData { attributes, ..span });
    }
}

#[derive(Debug)]
struct TraceMetric(RequestTraces);

impl Collector for TraceMetric {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Spans of traced requests, by outcome";
        let mut family = encoder.encode_descriptor("otlp_spans", help, None, MetricType::Counter)?;
        for (result, count) in self.0.queue.counts().read() {
            ConstCounter::new(count).encode(family.encode_family(&[("result", result)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_process::traces::Status;

    #[test]
    fn a_span_has_the_route_and_nothing_that_a_client_sent() {
        let trace = TraceSampling::of_millionths(1_000_000).root(RequestId(7)).unwrap();
        let answer = TracedAnswer {
            trace,
            request: RequestId(7),
            arrival: Time::from_secs(9),
            took: Duration::from_millis(3),
            method: known(&Method::from_bytes(b"VERB7").unwrap()),
            route: Some("/api/v1/projects/{id}".into()),
            status: StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut spans = Vec::new();
        answer.write(&mut spans);
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(span.name, "_OTHER /api/v1/projects/{id}");
        assert_eq!(span.status, Status::Error { description: "Service Unavailable".into() });
        assert_eq!(u64::from_be_bytes(span.parent_span_id.to_bytes()), 0);
        assert_eq!(span.end_time.duration_since(span.start_time).unwrap(), Duration::from_millis(3));
        let status = KeyValue::new("http.response.status_code", 503_i64);
        assert!(span.attributes.contains(&status), "{span:?}");
        assert_eq!(known(&Method::PUT), "PUT");
    }
}
