//! Trace contexts of calls, from clients and for nodes (W3C Trace Context, level 2), and the sampling decision.
//!
//! A call continues its client's trace if the client sent a valid `traceparent`. Otherwise its trace has the number of
//! the request. A client may opt out, but cannot ask for more traces than the operator records. Client input is not
//! trusted: invalid values are ignored, and values that are too long are dropped.
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

/// The header with the trace context of a request.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The header with the vendor-specific state of other systems.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

const LENGTH: usize = 55;

/// The maximum length of a `traceparent` of a later version, in bytes.
const LONGEST: usize = 256;

/// The flag of a request whose trace is recorded.
const SAMPLED: u8 = 1;

/// The flag of a trace whose number ends in 56 random bits.
const RANDOM: u8 = 2;

/// The number of random bits that decide whether a trace is recorded. Request ids end in at least this many.
const RANDOM_BITS: u32 = 56;

const MILLION: u32 = 1_000_000;

/// The number of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceId(NonZeroU128);

impl TraceId {
    /// Returns the 16 bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0.get().to_be_bytes()
    }
}

impl From<RequestId> for TraceId {
    /// Returns the number of a request's own trace, which is that of the request.
    fn from(request: RequestId) -> Self {
        TraceId(NonZeroU128::new(request.0).unwrap_or(NonZeroU128::MIN))
    }
}

/// The number of a span in its trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SpanId(NonZeroU64);

impl SpanId {
    /// Creates the span with this number; `None` for the invalid number 0.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(SpanId(number)),
            None => None,
        }
    }

    /// Creates a random number.
    pub fn random() -> Self {
        SpanId(NonZeroU64::new(random()).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the 8 bytes.
    pub const fn bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }
}

/// The content of a `traceparent`: a span of a trace, and the sampling flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    flags: u8,
}

impl TraceContext {
    /// Parses a `traceparent`, and of later versions the part that version 0 defines. `None` if it is invalid.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] = fields(head)?;
        let is_complete = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-' && text.len() <= LONGEST,
        };
        let trace = TraceId(NonZeroU128::new(trace)?);
        let span = SpanId::new(u64::try_from(span).ok()?)?;
        let flags = u8::try_from(flags).ok()? & (SAMPLED | RANDOM);
        is_complete.then_some(TraceContext { trace, span, flags })
    }

    /// Reports whether the trace is recorded.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Replaces the span.
    #[must_use]
    pub const fn with_span(self, span: SpanId) -> Self {
        TraceContext { span, ..self }
    }

    /// Formats a `traceparent` of version 0.
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

fn fields(head: &[u8]) -> Option<[u128; 4]> {
    const WIDTHS: [usize; 4] = [2, 32, 16, 2];
    let mut numbers = [0; 4];
    let mut rest = head;
    for (index, (number, width)) in numbers.iter_mut().zip(WIDTHS).enumerate() {
        if index > 0 {
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

/// The trace context of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallTrace {
    /// Its trace and its own span.
    pub context: TraceContext,
    /// The client's span that it is a part of, if the client sent one.
    pub parent: Option<SpanId>,
    /// The vendor state of other systems, which is passed on.
    state: Option<HeaderValue>,
}

impl CallTrace {
    /// Reports whether the call is recorded.
    pub const fn is_sampled(&self) -> bool {
        self.context.is_sampled()
    }

    /// Writes the headers for a node that handles a part of the call in `span`. They replace those of the client.
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

/// The sampling decision. It depends only on the request's number, which no client chooses, and on the opt-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceSampling {
    /// The smallest random bits of a recorded trace.
    least: u64,
}

impl TraceSampling {
    /// Creates a sampling of `millionths` calls in a million, at most all of them.
    pub const fn of_millionths(millionths: u32) -> Self {
        let left = MILLION.saturating_sub(millionths);
        TraceSampling { least: (((left as u128) << RANDOM_BITS) / MILLION as u128) as u64 }
    }

    /// Returns the client's trace or a new one; `None` without a trace. A client's trace is recorded if the client asks
    /// for it and this request is sampled.
    pub fn begin(self, request: RequestId, headers: &HeaderMap) -> Option<CallTrace> {
        let mut trace = self.begin_as_requested(request, headers)?;
        if !self.records(request) {
            trace.context.flags &= !SAMPLED;
        }
        Some(trace)
    }

    /// Begins like [`begin`](TraceSampling::begin), but the client's sampling flag alone decides. Only for known
    /// clients.
    pub fn begin_as_requested(self, request: RequestId, headers: &HeaderMap) -> Option<CallTrace> {
        let mut parents = headers.get_all(&TRACEPARENT).iter();
        let (Some(parent), None) = (parents.next(), parents.next()) else { return self.root(request) };
        let Some(parent) = TraceContext::parse(parent.as_bytes()) else { return self.root(request) };
        let context = parent.with_span(SpanId::random());
        Some(CallTrace { context, parent: Some(parent.span), state: read_state(headers) })
    }

    /// Reports whether the trace of a request may be recorded.
    pub const fn records(self, request: RequestId) -> bool {
        let random = request.0 as u64 & ((1 << RANDOM_BITS) - 1);
        random >= self.least
    }

    /// Returns a new trace for the request, if it is sampled.
    pub fn root(self, request: RequestId) -> Option<CallTrace> {
        self.records(request).then(|| {
            let trace = request.into();
            let span = SpanId::random();
            let context = TraceContext { trace, span, flags: SAMPLED | RANDOM };
            CallTrace { context, parent: None, state: None }
        })
    }
}

#[cfg(test)]
mod tests;
