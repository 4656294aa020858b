//! The account of an answer that is still arriving.
//!
//! A gRPC call does not say whether it is unary. So an answer with at most one message is not charged yet: if the node
//! aborts it, the client sees a failure, which is free. A second message shows that the answer is a stream. From then
//! on it is charged, and recorded with a begin and an end.

use super::status::{CANCELLED, Ending, OK, unserved};
use crate::headers::COMPUTE_UNITS;
use http::{HeaderMap, HeaderValue, StatusCode};
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::call::CallState;
use rpcgate_core::chain::ChainName;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Rest, Source};
use rpcgate_core::stream_tally::StreamTally;
use rpcgate_core::tally::Tally;

/// The account of an answer that is still arriving.
pub(super) enum AnswerAccount {
    /// The account of a call that may be unary.
    Call(Box<Tally>),
    /// The account of a stream.
    Stream(StreamTally),
}

/// The end of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AnswerEnd {
    /// The node sent this status in its trailers.
    Node(u8),
    /// The gateway refuses the rest.
    Refused(Refusal),
    Failed(Cause),
    Late,
    /// The client has disconnected.
    Left,
}

impl AnswerEnd {
    /// Returns the status that the client gets, or would get if it had not disconnected.
    pub(super) const fn number(self) -> u8 {
        match self {
            AnswerEnd::Node(status) => status,
            AnswerEnd::Refused(refusal) => Ending::Refused(refusal).number(),
            AnswerEnd::Failed(_) => Ending::Failed.number(),
            AnswerEnd::Late => Ending::Late.number(),
            AnswerEnd::Left => CANCELLED,
        }
    }

    /// Returns the gateway's own trailers for this end; empty if the node sent trailers.
    pub(super) fn trailers(self) -> HeaderMap {
        let ending = match self {
            AnswerEnd::Refused(refusal) => Ending::Refused(refusal),
            AnswerEnd::Failed(_) => Ending::Failed,
            AnswerEnd::Late => Ending::Late,
            AnswerEnd::Node(_) | AnswerEnd::Left => return HeaderMap::new(),
        };
        ending.trailers(HeaderMap::new())
    }

    /// Returns the state of a call that was no stream. When the client disconnects or its deadline passes, a node has
    /// still worked for it.
    fn state(self) -> CallState {
        match self {
            AnswerEnd::Node(status) => {
                let from = if unserved(status).is_some() { Source::Unserved } else { Source::Node };
                answered(status == OK, from)
            }
            AnswerEnd::Refused(refusal) => CallState::Refused(refusal),
            AnswerEnd::Failed(cause) => CallState::Failed(Fault::sent(cause)),
            AnswerEnd::Late | AnswerEnd::Left => CallState::Sent,
        }
    }

    const fn outcome(self) -> Outcome {
        match self {
            AnswerEnd::Node(OK) => Outcome::Answered,
            AnswerEnd::Node(_) => Outcome::NodeError,
            AnswerEnd::Refused(_) => Outcome::Refused,
            AnswerEnd::Failed(_) => Outcome::Failed,
            AnswerEnd::Late | AnswerEnd::Left => Outcome::Abandoned,
        }
    }
}

impl AnswerAccount {
    /// Creates the account of a call whose answer has begun.
    pub(super) fn new(mut tally: Box<Tally>) -> Self {
        // The duration of the rest also depends on the client, so it is no measure of load.
        tally.leave_load();
        AnswerAccount::Call(tally)
    }

    /// Turns the account into that of a stream, which is charged. Returns `None` if the call was not sent; it is then
    /// recorded as such.
    pub(super) fn into_stream(self) -> Option<Self> {
        match self {
            AnswerAccount::Call(tally) => StreamTally::begin(tally).ok().map(AnswerAccount::Stream),
            stream @ AnswerAccount::Stream(_) => Some(stream),
        }
    }

    /// Excludes this call from the calls in flight that others wait for, because it may last for days.
    pub(super) fn outlast(&mut self) {
        if let AnswerAccount::Call(tally) = self {
            tally.outlast();
        }
    }

    pub(super) fn chain(&self) -> ChainName {
        match self {
            AnswerAccount::Call(tally) => tally.chain.name(),
            AnswerAccount::Stream(stream) => stream.chain().name(),
        }
    }

    /// Records the end, after `received` bytes from the client and `sent` bytes to it. Returns the trailer that
    /// corrects the Compute Units in the head of the answer, if the charge differs.
    pub(super) fn end(self, end: AnswerEnd, received: u64, sent: u64) -> Option<HeaderValue> {
        match self {
            AnswerAccount::Call(mut tally) => {
                let promised = tally.charged();
                let entry = tally.entries.first_mut()?;
                entry.bytes_out = u32::try_from(sent).unwrap_or(u32::MAX);
                entry.state = end.state();
                let charged = tally.charged();
                (charged != promised).then(|| HeaderValue::from(charged))
            }
            AnswerAccount::Stream(mut stream) => {
                in_parts(received, |part| stream.receive(part));
                in_parts(sent, |part| stream.push(part));
                stream.end(end.outcome());
                None
            }
        }
    }
}

/// Writes the corrected Compute Units into the trailers of an answer.
pub(super) fn correct(trailers: &mut HeaderMap, units: Option<HeaderValue>) {
    if let Some(units) = units {
        trailers.insert(COMPUTE_UNITS, units);
    }
}

/// Returns the state of a call that a node has answered.
pub(super) fn answered(is_ok: bool, from: Source) -> CallState {
    let form = Form::Rest(Box::new(Rest {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        is_error: !is_ok,
    }));
    CallState::Answered(Reply { form, from })
}

/// Counts `bytes` in parts that fit into a line of a record.
fn in_parts(mut bytes: u64, mut count: impl FnMut(u32)) {
    while bytes > 0 {
        let part = u32::try_from(bytes).unwrap_or(u32::MAX);
        count(part);
        bytes -= u64::from(part);
    }
}
