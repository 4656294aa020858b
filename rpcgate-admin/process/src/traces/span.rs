//! A finished span, and its form in OTLP.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status, status::StatusCode};
use rpcgate_core::clock::Time;
use rpcgate_core::trace::{SpanId, TraceContext};
use std::borrow::Cow;

/// The role of the program in a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanRole {
    /// Answers a request.
    Server,
    /// Makes a request.
    Client,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpanValue {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
    /// A boolean.
    Is(bool),
}

impl From<&'static str> for SpanValue {
    fn from(text: &'static str) -> Self {
        SpanValue::Text(Cow::Borrowed(text))
    }
}

impl From<String> for SpanValue {
    fn from(text: String) -> Self {
        SpanValue::Text(Cow::Owned(text))
    }
}

impl From<u16> for SpanValue {
    fn from(number: u16) -> Self {
        SpanValue::Number(number.into())
    }
}

impl From<i32> for SpanValue {
    fn from(number: i32) -> Self {
        SpanValue::Number(number.into())
    }
}

impl From<u32> for SpanValue {
    fn from(number: u32) -> Self {
        SpanValue::Number(number.into())
    }
}

impl From<usize> for SpanValue {
    fn from(number: usize) -> Self {
        SpanValue::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for SpanValue {
    fn from(is: bool) -> Self {
        SpanValue::Is(is)
    }
}

/// Names and values.
pub type SpanAttributes = Vec<(&'static str, SpanValue)>;

/// An event in a span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanEvent {
    /// The name of the event.
    pub name: &'static str,
    /// The time of the event.
    pub time: Time,
    /// The attributes of the event.
    pub attributes: SpanAttributes,
}

/// A finished span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedSpan {
    /// Its trace and identifier.
    pub context: TraceContext,
    /// Its parent span, if any.
    pub parent: Option<SpanId>,
    /// True if the parent belongs to another program.
    pub has_remote_parent: bool,
    /// The role of the program.
    pub role: SpanRole,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its begin.
    pub began: Time,
    /// Its end.
    pub ended: Time,
    /// The error, if it failed.
    pub error: Option<Cow<'static, str>>,
    /// Its attributes.
    pub attributes: SpanAttributes,
    /// Its events.
    pub events: Vec<SpanEvent>,
}

impl From<FinishedSpan> for Span {
    fn from(span: FinishedSpan) -> Self {
        let mut flags = SpanFlags::ContextHasIsRemoteMask as u32 | u32::from(span.context.is_sampled());
        if span.has_remote_parent {
            flags |= SpanFlags::ContextIsRemoteMask as u32;
        }
        let kind = match span.role {
            SpanRole::Server => SpanKind::Server,
            SpanRole::Client => SpanKind::Client,
        };
        let status = span
            .error
            .map(|message| Status { message: message.into_owned(), code: StatusCode::Error.into() });
        let event = |event: SpanEvent| Event {
            time_unix_nano: nanos(event.time),
            name: event.name.to_owned(),
            attributes: attributes(event.attributes),
            dropped_attributes_count: 0,
        };
        Span {
            trace_id: span.context.trace.bytes().to_vec(),
            span_id: span.context.span.bytes().to_vec(),
            parent_span_id: span.parent.map(|parent| parent.bytes().to_vec()).unwrap_or_default(),
            flags,
            name: span.name.into_owned(),
            kind: kind.into(),
            start_time_unix_nano: nanos(span.began),
            end_time_unix_nano: nanos(span.ended),
            attributes: attributes(span.attributes),
            events: span.events.into_iter().map(event).collect(),
            status,
            ..Span::default()
        }
    }
}

fn nanos(time: Time) -> u64 {
    time.micros().saturating_mul(1_000)
}

pub(super) fn attributes(all: SpanAttributes) -> Vec<KeyValue> {
    let one = |(key, value): (&'static str, SpanValue)| {
        let value = match value {
            SpanValue::Text(text) => Value::StringValue(text.into_owned()),
            SpanValue::Number(number) => Value::IntValue(number),
            SpanValue::Is(is) => Value::BoolValue(is),
        };
        KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    };
    all.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_all_of_it_in_otlp() {
        let text = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let span = FinishedSpan {
            context: TraceContext::parse(text).unwrap(),
            parent: SpanId::new(7),
            has_remote_parent: true,
            role: SpanRole::Client,
            name: "eth".into(),
            began: Time::from_micros(5),
            ended: Time::from_micros(8),
            error: Some("no answer in time".into()),
            attributes: vec![("a", "b".into()), ("n", 7_u32.into()), ("is", true.into())],
            events: vec![SpanEvent { name: "call", time: Time::from_micros(6), attributes: Vec::new() }],
        };
        let sent = Span::from(span.clone());
        assert_eq!(
            (sent.trace_id[0], sent.span_id[7], &sent.parent_span_id[..]),
            (0x0a, 0x31, &[0, 0, 0, 0, 0, 0, 0, 7][..])
        );
        assert_eq!((sent.start_time_unix_nano, sent.end_time_unix_nano), (5_000, 8_000));
        assert_eq!((sent.kind, sent.flags), (SpanKind::Client as i32, 0x301));
        assert_eq!(sent.status.unwrap().code, StatusCode::Error as i32);
        assert_eq!((sent.attributes.len(), sent.events[0].time_unix_nano), (3, 6_000));
        let sent = Span::from(FinishedSpan { parent: None, has_remote_parent: false, error: None, ..span });
        assert!(sent.parent_span_id.is_empty() && sent.status.is_none());
        assert_eq!(sent.flags, 0x101);
    }
}
