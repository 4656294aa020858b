//! The account of an answer that is still coming.
//!
//! No call says whether it is a unary one. So while its answer has at most one message, it is not charged: if its node breaks
//! off, its client sees a failure of the nodes, which costs nothing. A second message shows that the answer is a stream. A
//! stream is charged from then on, and recorded by a begin and an end.

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

/// The account of an answer that is still coming.
pub(super) enum AnswerAccount {
    /// That of a call which may be a unary one.
    Call(Box<Tally>),
    /// That of a stream.
    Stream(StreamTally),
}

/// How an answer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AnswerEnd {
    /// With this status in the trailers of its node.
    Node(u8),
    /// The gateway refuses the rest.
    Refused(Refusal),
    /// The node has failed.
    Failed(Cause),
    /// The client's deadline has passed.
    Late,
    /// The client has left.
    Left,
}

impl AnswerEnd {
    /// The status that the client gets, or would get if it had not left.
    pub(super) const fn number(self) -> u8 {
        match self {
            AnswerEnd::Node(status) => status,
            AnswerEnd::Refused(refusal) => Ending::Refused(refusal).number(),
            AnswerEnd::Failed(_) => Ending::Failed.number(),
            AnswerEnd::Late => Ending::Late.number(),
            AnswerEnd::Left => CANCELLED,
        }
    }

    /// The trailers of the gateway's own with which the answer ends; empty where the node has its own.
    pub(super) fn trailers(self) -> HeaderMap {
        let ending = match self {
            AnswerEnd::Refused(refusal) => Ending::Refused(refusal),
            AnswerEnd::Failed(_) => Ending::Failed,
            AnswerEnd::Late => Ending::Late,
            AnswerEnd::Node(_) | AnswerEnd::Left => return HeaderMap::new(),
        };
        ending.trailers(HeaderMap::new())
    }

    /// What became of a call that was no stream. A client that has left, or has chosen a deadline that is over, has had a
    /// node work for it.
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
    /// The account of a call whose answer has begun.
    pub(super) fn new(mut tally: Box<Tally>) -> Self {
        // How long the rest takes is the client's matter too.
        tally.leave_load();
        AnswerAccount::Call(tally)
    }

    /// The same account, now that the answer is known to be a stream: it is charged. `None` if it was not sent, and is
    /// recorded as that.
    pub(super) fn into_stream(self) -> Option<Self> {
        match self {
            AnswerAccount::Call(tally) => StreamTally::begin(tally).ok().map(AnswerAccount::Stream),
            stream @ AnswerAccount::Stream(_) => Some(stream),
        }
    }

    /// Lets those who wait for calls in flight go on without this call: it may last for days.
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

    /// Records the end, after `received` bytes from the client and `sent` bytes to it. Returns the trailer that corrects the
    /// Compute Units in the head of the answer, if they were not charged.
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

/// The state of a call that a node has answered.
pub(super) fn answered(is_ok: bool, from: Source) -> CallState {
    let form = Form::Rest(Box::new(Rest {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        is_error: !is_ok,
    }));
    CallState::Answered(Reply { form, from })
}

/// Counts `bytes` in parts that a line of a record can hold.
fn in_parts(mut bytes: u64, mut count: impl FnMut(u32)) {
    while bytes > 0 {
        let part = u32::try_from(bytes).unwrap_or(u32::MAX);
        count(part);
        bytes -= u64::from(part);
    }
}
