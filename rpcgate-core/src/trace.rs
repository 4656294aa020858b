//! Traces of calls: the place that a call has in a trace, as its client tells it and its node is told (W3C Trace Context,
//! level 2), and which calls are traced.
//!
//! A call continues the trace of its client, if that sent a valid `traceparent`, and has a trace of its own otherwise, whose
//! number is that of the request. A client may ask that a trace is not recorded, and cannot ask for more of them than the
//! operator records. Nothing of a client is trusted: what is not valid is ignored, and what is too long is
//! left out.
//!
//! ```
//! use rpcgate_core::caller::RequestId;
//! use rpcgate_core::trace::{SpanId, TraceSampling};
//!
//! let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
//! let mut headers = http::HeaderMap::new();
//! headers.insert("traceparent", text.parse()?);
//! let trace = TraceSampling::of_millionths(1_000_000).begin(RequestId(7), &headers).unwrap();
//! assert!(trace.is_sampled(), "the client wants it, and the operator records all");
//!
//! let mut for_node = http::HeaderMap::new();
//! trace.write(SpanId::new(9).unwrap(), &mut for_node);
//! assert_eq!(for_node["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-0000000000000009-01");
//! # Ok::<(), http::header::InvalidHeaderValue>(())
//! ```

mod state;

use crate::caller::RequestId;
use crate::request_id::random;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use state::read_state;
use std::num::{NonZeroU64, NonZeroU128};

/// The header with the place of a request in a trace.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The header with what other systems keep beside it.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Bytes of a `traceparent` of version 0.
const LENGTH: usize = 55;

/// Bytes that a `traceparent` of a later version may have.
const LONGEST: usize = 256;

/// The flag of a request whose trace is recorded.
const SAMPLED: u8 = 1;

/// The flag of a trace whose number ends in 56 random bits.
const RANDOM: u8 = 2;

/// Bits of a trace's number by which is decided whether it is recorded. Identifiers of requests end in as many random ones.
const RANDOM_BITS: u32 = 56;

/// One, in millionths.
const WHOLE: u32 = 1_000_000;

/// The number of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceId(NonZeroU128);

impl TraceId {
    /// Its 16 bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0.get().to_be_bytes()
    }
}

impl From<RequestId> for TraceId {
    /// The number of a request's own trace: that of the request.
    fn from(request: RequestId) -> Self {
        TraceId(NonZeroU128::new(request.0).unwrap_or(NonZeroU128::MIN))
    }
}

/// The number of a span in its trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SpanId(NonZeroU64);

impl SpanId {
    /// The span of this number; `None` for 0, which is none.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(SpanId(number)),
            None => None,
        }
    }

    /// A new number.
    pub fn random() -> Self {
        SpanId(NonZeroU64::new(random()).unwrap_or(NonZeroU64::MIN))
    }

    /// Its 8 bytes.
    pub const fn bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }
}

/// The content of a `traceparent`: a span of a trace, and whether that is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    flags: u8,
}

impl TraceContext {
    /// Reads a `traceparent`. Of a later version than 0, what version 0 has of it. `None` if it is not valid.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] = fields(head)?;
        let is_whole = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-' && text.len() <= LONGEST,
        };
        let trace = TraceId(NonZeroU128::new(trace)?);
        let span = SpanId::new(u64::try_from(span).ok()?)?;
        let flags = u8::try_from(flags).ok()? & (SAMPLED | RANDOM);
        is_whole.then_some(TraceContext { trace, span, flags })
    }

    /// Whether its trace is recorded.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Another span of the same trace.
    #[must_use]
    pub const fn with_span(self, span: SpanId) -> Self {
        TraceContext { span, ..self }
    }

    /// The `traceparent`, of version 0.
    pub fn text(&self) -> [u8; LENGTH] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; LENGTH];
        let mut write = |at: usize, bytes: &[u8]| {
            for (byte, pair) in bytes.iter().zip(text[at..].chunks_exact_mut(2)) {
                pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        };
        write(0, &[0]);
        write(3, &self.trace.bytes());
        write(36, &self.span.bytes());
        write(53, &[self.flags]);
        text
    }
}

/// The four numbers of `head`, which are in lower case and have a hyphen between them.
fn fields(head: &[u8]) -> Option<[u128; 4]> {
    const WIDTHS: [usize; 4] = [2, 32, 16, 2];
    let mut numbers = [0; 4];
    let mut rest = head;
    for (place, (number, width)) in numbers.iter_mut().zip(WIDTHS).enumerate() {
        if place > 0 {
            rest = rest.strip_prefix(b"-")?;
        }
        let (digits, after) = rest.split_at_checked(width)?;
        for digit in digits {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            *number = *number << 4 | u128::from(value);
        }
        rest = after;
    }
    rest.is_empty().then_some(numbers)
}

/// The place of a call in a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallTrace {
    /// Its trace, and its own span.
    pub context: TraceContext,
    /// The span of its client of which it is a part, if the client told one.
    pub parent: Option<SpanId>,
    /// What other systems keep, which is passed on.
    state: Option<HeaderValue>,
}

impl CallTrace {
    /// Whether it is recorded.
    pub const fn is_sampled(&self) -> bool {
        self.context.is_sampled()
    }

    /// Writes the headers for a node, for which a part of the call is in the span `span`. They take the place of those that a
    /// client sent.
    pub fn write(&self, span: SpanId, headers: &mut HeaderMap) {
        if let Ok(text) = HeaderValue::from_bytes(&self.context.with_span(span).text()) {
            headers.insert(TRACEPARENT, text);
        }
        match &self.state {
            Some(state) => drop(headers.insert(TRACESTATE, state.clone())),
            None => drop(headers.remove(TRACESTATE)),
        }
    }
}

/// Which calls are traced: a part of all, without those whose client does not want it. The decision depends on the number of the
/// request alone, which no client chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceSampling {
    /// Traces whose random bits are at least this number are recorded.
    least: u64,
}

impl TraceSampling {
    /// The ratio of `calls` in a million; at most all of them.
    pub const fn of_millionths(millionths: u32) -> Self {
        let left = WHOLE.saturating_sub(millionths);
        TraceSampling { least: (((left as u128) << RANDOM_BITS) / WHOLE as u128) as u64 }
    }

    /// The trace of a request with these headers: the client's, or one of its own. `None` if no node gets to know it: then the
    /// request has no trace. The trace of a client is recorded if the client wants it and this request is one of those that
    /// are recorded.
    pub fn begin(self, request: RequestId, headers: &HeaderMap) -> Option<CallTrace> {
        let mut trace = self.begin_as_asked(request, headers)?;
        if !self.records(request) {
            trace.context.flags &= !SAMPLED;
        }
        Some(trace)
    }

    /// The same, but whether the trace of a client is recorded is for the client to say. The caller must know who that is.
    pub fn begin_as_asked(self, request: RequestId, headers: &HeaderMap) -> Option<CallTrace> {
        let mut given = headers.get_all(&TRACEPARENT).iter();
        let (Some(parent), None) = (given.next(), given.next()) else { return self.root(request) };
        let Some(parent) = TraceContext::parse(parent.as_bytes()) else { return self.root(request) };
        let context = parent.with_span(SpanId::random());
        Some(CallTrace { context, parent: Some(parent.span), state: read_state(headers) })
    }

    /// Whether the trace of a request may be recorded.
    pub const fn records(self, request: RequestId) -> bool {
        let random = request.0 as u64 & ((1 << RANDOM_BITS) - 1);
        random >= self.least
    }

    /// The trace of a request that continues none, if that is recorded.
    pub fn root(self, request: RequestId) -> Option<CallTrace> {
        self.records(request).then(|| {
            let (trace, span) = (request.into(), SpanId::random());
            let context = TraceContext { trace, span, flags: SAMPLED | RANDOM };
            CallTrace { context, parent: None, state: None }
        })
    }
}

#[cfg(test)]
mod tests;
