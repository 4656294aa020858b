//! What a node's answer means: whether it is one at all, and which call each part of it answers.

use super::{AnswerBody, NodeAnswer, NodeBody};
use crate::headers::stays_behind;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::call::CallState;
use rpcgate_core::chain::Chain;
use rpcgate_core::envelope::{Replies, ReplyKind, ReplyMembers, parse_index, replies, reply_head};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::json::DEEPEST;
use rpcgate_core::reply::{Flow, Form, Inner, Reply, Source, Streamed, Whole};
use rpcgate_core::tally::Tally;
use smallvec::SmallVec;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// What a request to a node asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The answer to one call.
    One,
    /// An array of answers, or one error for all.
    Many,
    /// Nothing: there are only notifications in it.
    Nothing,
}

impl Wanted {
    fn is(self, replies: &Replies) -> bool {
        match (self, replies) {
            (Wanted::One, Replies::Single(reply)) => reply.error.is_some() || reply.result.is_some(),
            (Wanted::Many, Replies::Single(reply)) => reply.error.is_some(),
            (Wanted::Many, Replies::Many(_)) | (Wanted::Nothing, _) => true,
            (Wanted::One, Replies::Many(_)) => false,
        }
    }
}

impl NodeAnswer {
    /// How long a node that is too busy wants to be left alone: RFC 9110 section 10.2.3, in seconds alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        if !matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return None;
        }
        let secs = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(secs))
    }
}

/// Whether a node says by this status that it does not serve the gateway, whatever is asked: its credentials and its
/// limits are the operator's matter.
pub(super) fn refuses_the_gateway(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS)
}

/// A node's answer that is one.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    content: Content,
}

/// What is in a node's answer.
enum Content {
    /// Replies, all of it read.
    Replies(Replies),
    /// The beginning of a reply, and what follows.
    Flow { is_error: bool, flow: Flow },
    /// Nothing at all.
    Empty,
}

impl Answer {
    /// A JSON answer to what was asked counts at any status but those by which a node refuses the gateway itself;
    /// nothing but that does, unless it is nothing at all, which is what a notification gets.
    pub(super) fn classify(answer: NodeAnswer, wanted: Wanted, held: bool) -> Result<Self, Fault> {
        let status = answer.status;
        if refuses_the_gateway(status) {
            return Err(Fault::sent(Cause::Status(status.as_u16())));
        }
        let no_answer = || {
            let cause = if status.is_success() { Cause::Undecodable } else { Cause::Status(status.as_u16()) };
            Err(Fault::sent(cause))
        };
        let (body, content) = match answer.body {
            AnswerBody::Whole(body) => match replies(&body, DEEPEST) {
                Ok(replies) if wanted.is(&replies) => (body, Content::Replies(replies)),
                Err(_)
                    if wanted == Wanted::Nothing
                        && body.is_empty()
                        && status.is_success()
                        && answer.framed =>
                {
                    (body, Content::Empty)
                }
                _ => return no_answer(),
            },
            AnswerBody::Larger { .. } if held => return Err(Fault::sent(Cause::Oversize)),
            AnswerBody::Larger { prefix, rest } => match reply_head(&prefix) {
                ReplyKind::Bad => return no_answer(),
                // What it is can still not be told after so many bytes: no client could tell either.
                ReplyKind::Undecided => return Err(Fault::sent(Cause::Undecodable)),
                head => {
                    let is_error = head == ReplyKind::Error;
                    (Bytes::new(), Content::Flow { is_error, flow: Box::pin(Prefixed::new(prefix, rest)) })
                }
            },
        };
        Ok(Answer { status, headers: answer.headers, body, content })
    }

    /// The answer to a call that was sent alone, under its own id or under a number of ours; and where it has to be
    /// written anew, the headers that pass all the same.
    pub(super) fn one(
        mut self,
        chain: &Chain,
        (id, number): (Option<&[u8]>, usize),
        whole: bool,
        notification: bool,
    ) -> Result<(Form, HeaderMap), Fault> {
        if notification {
            return Ok((Form::Nothing, HeaderMap::new()));
        }
        let status = if chain.facts().dialect.has_status() { self.status } else { StatusCode::OK };
        let reply = match self.content {
            Content::Replies(Replies::Single(reply)) => reply,
            Content::Flow { is_error, flow } => {
                clean(&mut self.headers);
                let streamed = Streamed::new(status, self.headers, is_error, flow);
                return Ok((Form::Stream(Box::new(streamed)), HeaderMap::new()));
            }
            _ => return Err(Fault::sent(Cause::Undecodable)),
        };
        let inner = inner(&self.body, &reply, chain.adapter())?;
        let answered = reply.id.map(|id| id.of(&self.body));
        if !is_answered(answered, id, number) {
            return Err(Fault::sent(Cause::Undecodable));
        }
        clean(&mut self.headers);
        if whole && answered == id {
            let whole = Whole { status, body: self.body, inner };
            return Ok((Form::Whole(whole), self.headers));
        }
        Ok((inner.form(status), self.headers))
    }

    /// The answers to calls that were sent together under their places.
    pub(super) fn many(self, tally: &mut Tally, places: &[usize]) {
        let (base, chain) = (super::service::base(tally), tally.chain.clone());
        let adapter = chain.adapter();
        let mut settle = |place: usize, state: CallState| tally.entries[place].state = state;
        match &self.content {
            // One error for all: the node would not take the array.
            Content::Replies(Replies::Single(reply)) if reply.error.is_some() => {
                for place in places {
                    let mut state = self.state(reply, adapter);
                    if let CallState::Answered(reply) = &mut state {
                        reply.from = Source::NodeForAll;
                    }
                    settle(*place, state);
                }
                return;
            }
            Content::Replies(Replies::Many(_)) | Content::Empty => {}
            // Whatever a node says to notifications, nobody hears it.
            _ => {
                for place in places {
                    settle(*place, CallState::Answered(Reply { form: Form::Nothing, from: Source::Node }));
                }
                return;
            }
        }
        let mut found: SmallVec<[Option<Option<&ReplyMembers>>; 8]> = SmallVec::from_elem(None, places.len());
        // Most nodes answer in the order in which they were asked.
        let mut next = 0;
        if let Content::Replies(Replies::Many(many)) = &self.content {
            for reply in many {
                let number = reply.id.and_then(|id| parse_index(id.of(&self.body)));
                let place = number.and_then(|number| number.checked_sub(base));
                let Some(place) = place else { continue };
                let at = match places.get(next) {
                    Some(expected) if *expected == place => next,
                    _ => match places.binary_search(&place) {
                        Ok(at) => at,
                        Err(_) => continue,
                    },
                };
                next = at + 1;
                // Two answers to one call: nobody knows which of them is meant.
                found[at] = Some(if found[at].is_none() { Some(reply) } else { None });
            }
        }
        for (place, found) in places.iter().zip(found) {
            let notification = tally.entries[*place].call.is_notification(&tally.body);
            tally.entries[*place].state = match found {
                Some(Some(reply)) => self.state(reply, adapter),
                Some(None) => CallState::Failed(Fault::sent(Cause::Undecodable)),
                None if notification => {
                    CallState::Answered(Reply { form: Form::Nothing, from: Source::Node })
                }
                None => CallState::Failed(Fault::sent(Cause::Unanswered)),
            };
        }
    }

    fn state(&self, reply: &ReplyMembers, adapter: &dyn Adapter) -> CallState {
        match inner(&self.body, reply, adapter) {
            Ok(inner) => {
                let status = match &inner {
                    Inner::Error(error) => adapter.facts().dialect.status_alone(error),
                    Inner::Result(_) | Inner::Failure(_) => StatusCode::OK,
                };
                CallState::Answered(Reply { form: inner.form(status), from: Source::Node })
            }
            Err(fault) => CallState::Failed(fault),
        }
    }
}

/// Whether an answer under the id `answered` is the answer to a call that was sent under `own` or `number`. Nodes may
/// write an id in another way (`"1"` for `1`, `1` for `1.0`, null where they could not read it), and nobody knows what
/// they make of one that is no plain text or number; but the answer to another call must not pass for this one's.
fn is_answered(answered: Option<&[u8]>, own: Option<&[u8]>, number: usize) -> bool {
    fn bare(id: &[u8]) -> &[u8] {
        id.strip_prefix(b"\"").and_then(|id| id.strip_suffix(b"\"")).unwrap_or(id)
    }
    fn value(id: &[u8]) -> Option<f64> {
        std::str::from_utf8(bare(id)).ok()?.parse().ok()
    }
    let answered = match answered {
        None | Some(b"null") => return true,
        Some(answered) => answered,
    };
    if parse_index(bare(answered)) == Some(number) {
        return true;
    }
    let Some(own) = own else { return false };
    let strange = matches!(own.first(), Some(b'{' | b'[' | b't' | b'f')) || own.contains(&b'\\');
    strange || bare(answered) == bare(own) || value(own).is_some_and(|own| value(answered) == Some(own))
}

fn inner(body: &Bytes, reply: &ReplyMembers, adapter: &dyn Adapter) -> Result<Inner, Fault> {
    match (reply.error, reply.result) {
        (Some(error), _) => Ok(Inner::Error(body.slice(error.range()))),
        (None, Some(result)) if adapter.is_error(result.of(body)) => {
            Ok(Inner::Failure(body.slice(result.range())))
        }
        (None, Some(result)) => Ok(Inner::Result(body.slice(result.range()))),
        (None, None) => Err(Fault::sent(Cause::Undecodable)),
    }
}

/// Leaves only the headers that a client may see.
pub(super) fn clean(headers: &mut HeaderMap) {
    // Most nodes say nothing else, and to look for each of many names costs more than to forget all of them.
    if headers.keys().all(stays_behind) {
        headers.clear();
        return;
    }
    let behind: SmallVec<[_; 8]> = headers.keys().filter(|name| stays_behind(name)).cloned().collect();
    for name in behind {
        headers.remove(name);
    }
}

/// A body that begins with what was read of it.
pub(super) struct Prefixed {
    prefix: Bytes,
    rest: Box<NodeBody>,
}

impl Prefixed {
    pub(super) fn new(prefix: Bytes, rest: Box<NodeBody>) -> Self {
        Prefixed { prefix, rest }
    }
}

impl Body for Prefixed {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        if !self.prefix.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.prefix)))));
        }
        Pin::new(&mut *self.rest).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, prefix) = (self.rest.size_hint(), self.prefix.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(prefix));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(prefix)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_to_its_own_call_however_its_id_is_written() {
        let own = |own: &'static str, answered: &'static str| {
            is_answered(Some(answered.as_bytes()), Some(own.as_bytes()), 640)
        };
        for (id, answered) in [
            ("1", "1"),
            ("1", "\"1\""),
            ("\"1\"", "1"),
            ("1.0", "1"),
            ("\"a\"", "\"a\""),
            ("7", "640"),
            ("7", "\"640\""),
            ("7", "null"),
            ("{\"a\":1}", "{\"a\": 1}"),
            ("\"\\u0061\"", "\"a\""),
        ] {
            assert!(own(id, answered), "{id} {answered}");
        }
        for (id, answered) in [("1", "2"), ("\"a\"", "\"b\""), ("7", "641"), ("7", "\"x\""), ("null", "3")] {
            assert!(!own(id, answered), "{id} {answered}");
        }
        assert!(is_answered(None, None, 0) && !is_answered(Some(b"3"), None, 0));
    }
}
