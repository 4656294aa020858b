//! The trace context of a client: a context that is read is valid, and the one sent to a node is bounded.
#![no_main]

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use rpcgate_core::caller::RequestId;
use rpcgate_core::trace::{SpanId, TRACEPARENT, TRACESTATE, TraceContext, TraceSampling};

fuzz_target!(|lines: (&[u8], Vec<&[u8]>)| {
    let (parent, states) = lines;
    let read = TraceContext::parse(parent);
    if let Some(context) = read {
        assert_eq!(TraceContext::parse(&context.text()), Some(context));
    }
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(parent) {
        headers.append(TRACEPARENT, value);
    }
    for state in states.into_iter().take(64) {
        if let Ok(value) = HeaderValue::from_bytes(state) {
            headers.append(TRACESTATE, value);
        }
    }
    let Some(trace) = TraceSampling::of_millionths(0).begin(RequestId(7), &headers) else {
        assert!(read.is_none() || !headers.contains_key(TRACEPARENT));
        return;
    };
    let mut told = headers;
    trace.write(SpanId::new(9).expect("not 0"), &mut told);
    assert_eq!(told.get_all(TRACEPARENT).iter().count(), 1);
    assert_eq!(TraceContext::parse(told[TRACEPARENT].as_bytes()).map(|told| told.trace), read.map(|read| read.trace));
    assert!(told.get_all(TRACESTATE).iter().count() <= 1);
    assert!(told.get(TRACESTATE).is_none_or(|state| state.len() <= 512 && state.to_str().is_ok()));
});
