//! A finished span, in the types of OpenTelemetry.

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use rpcgate_core::clock::Time;
use rpcgate_core::trace::{self, TraceContext};
use std::borrow::Cow;
use std::time::{Duration, SystemTime};

/// Returns a span without attributes and events. Its parent belongs to another program if the program answers a request
/// in it; `error` is the reason if it failed.
pub fn span(
    context: TraceContext,
    parent: Option<trace::SpanId>,
    span_kind: SpanKind,
    name: Cow<'static, str>,
    [began, ended]: [Time; 2],
    error: Option<Cow<'static, str>>,
) -> SpanData {
    let id = |id: trace::SpanId| SpanId::from_bytes(id.bytes());
    let flags = if context.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let trace = TraceId::from_bytes(context.trace.bytes());
    SpanData {
        span_context: SpanContext::new(trace, id(context.span), flags, false, TraceState::NONE),
        parent_span_id: parent.map_or(SpanId::INVALID, id),
        parent_span_is_remote: parent.is_some() && span_kind == SpanKind::Server,
        span_kind,
        name,
        start_time: span_time(began),
        end_time: span_time(ended),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: error.map_or(Status::Unset, |description| Status::Error { description }),
        instrumentation_scope: Default::default(),
    }
}

/// Converts a time to that of a span.
pub fn span_time(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(time.micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::KeyValue;
    use opentelemetry::trace::Event;
    use opentelemetry_proto::tonic::trace::v1::Span;
    use opentelemetry_proto::tonic::trace::v1::span::SpanKind as Kind;
    use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

    #[test]
    fn a_span_has_all_of_it_in_otlp() {
        let text = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = TraceContext::parse(text).unwrap();
        let times = [Time::from_micros(5), Time::from_micros(8)];
        let error = Some("no answer in time".into());
        let mut failed = span(context, trace::SpanId::new(7), SpanKind::Server, "eth".into(), times, error);
        failed.attributes =
            vec![KeyValue::new("a", "b"), KeyValue::new("n", 7_i64), KeyValue::new("is", true)];
        failed.events.events.push(Event::new("call", span_time(Time::from_micros(6)), Vec::new(), 0));
        let sent = Span::from(failed);
        assert_eq!(
            (sent.trace_id[0], sent.span_id[7], &sent.parent_span_id[..]),
            (0x0a, 0x31, &[0, 0, 0, 0, 0, 0, 0, 7][..])
        );
        assert_eq!((sent.start_time_unix_nano, sent.end_time_unix_nano), (5_000, 8_000));
        assert_eq!((sent.kind, sent.flags), (Kind::Server as i32, 0x301));
        assert_eq!(sent.status.unwrap().code, StatusCode::Error as i32);
        assert_eq!((sent.attributes.len(), sent.events[0].time_unix_nano), (3, 6_000));
        let sent = Span::from(span(context, None, SpanKind::Server, "eth".into(), times, None));
        assert!(sent.parent_span_id.is_empty());
        assert_eq!(sent.status.unwrap().code, StatusCode::Unset as i32);
        assert_eq!(sent.flags, 0x101);
        let parent = trace::SpanId::new(7);
        let sent = Span::from(span(context, parent, SpanKind::Client, "eth".into(), times, None));
        assert_eq!((sent.kind, sent.flags), (Kind::Client as i32, 0x101));
    }
}
