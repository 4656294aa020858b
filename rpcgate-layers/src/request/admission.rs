//! The result of an admission: a request with a caller and an open tally, or a refusal that the transport answers in
//! its own form.
//!
//! The layers before the body (route to scope) decide the same for every transport. Only the answer to a refused
//! request differs: an HTTP response, a gRPC status, a failed handshake. So they are generic over
//! [`AdmissionResponse`]. HTTP answers with a [`PendingResponse`](super::message::PendingResponse); a transport that
//! continues by itself puts [`Admit`](super::admit::Admit) at the end of the admission stack.

use http::HeaderMap;
use rpcgate_core::call::{Call, Entry, Payload};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;

/// A response type for requests that are not admitted.
pub trait AdmissionResponse: Sized {
    /// Answers a refused request.
    fn denied(denied: Denied) -> Self;

    /// Answers a CORS preflight with these headers, which needs no key. Only HTTP has preflights.
    fn preflight(requested: &HeaderMap) -> Self {
        let _ = requested;
        Self::denied(Denied::unknown(Refusal::NoRoute))
    }
}

/// A refused request. If its caller is known, dropping it leaves a record.
#[derive(Debug)]
#[non_exhaustive]
pub struct Denied {
    /// The refusal.
    pub refusal: Refusal,
    /// The tally of the request, if its caller is known. Its one entry is refused.
    pub tally: Option<Box<Tally>>,
    /// True if the answer has the state of the caller's windows, as for every valid key.
    pub rated: bool,
}

impl Denied {
    /// Refuses a request of an unknown caller. It leaves no record.
    pub fn unknown(refusal: Refusal) -> Self {
        Denied { refusal, tally: None, rated: false }
    }

    /// Refuses a request whose body was not read or is not a call. It is recorded as one call with method `-`.
    pub fn known(mut tally: Box<Tally>, refusal: Refusal) -> Self {
        tally.entries.push(Entry::refused(Call::unread(Payload::Unread), refusal));
        Denied { refusal, tally: Some(tally), rated: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use rpcgate_core::backend::usage_sink::Outcome;

    #[test]
    fn a_denied_request_of_a_known_caller_is_recorded_when_it_is_dropped() {
        let fixture = Fixture::new();
        drop(Denied::unknown(Refusal::NoKey));
        assert_eq!(fixture.sink.records().len(), 0);
        drop(Denied::known(fixture.tally(), Refusal::Suspended));
        let records = fixture.sink.records();
        let line = &records[0].lines[0];
        assert_eq!((line.method.as_str(), line.status, line.outcome), ("-", 402, Outcome::Refused));
    }
}
