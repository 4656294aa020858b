//! The classification of a node's answer to JSON-RPC calls: whether it is usable, and the call of each reply.

use super::limits::ReplyLimits;
use super::round::{first_index, is_in_set};
use super::streamed_answer::StreamedReply;
use crate::headers::stays_behind;
use crate::nodes::transport_health::{Judged, Verdict};
use crate::transport::h1::answer::unusable_body;
use crate::transport::h1::{AnswerBody, NodeAnswer};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use rpcgate_core::adapter::{Adapter, NodeError, Unserved};
use rpcgate_core::call::{Call, CallState};
use rpcgate_core::chain::{Chain, Dialect};
use rpcgate_core::envelope::{
    Replies, ReplyKind, ReplyMembers, parse_index, read_number, replies, reply_head,
};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::json::DEEPEST;
use rpcgate_core::reply::{CompleteReply, Form, Inner, Reply, Source, Streamed};
use rpcgate_core::tally::Tally;
use smallvec::SmallVec;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// A reply to the call with this number.
    Single { number: usize },
    /// An array of replies to calls of the set with this first number, or one error for all calls.
    Array { first: usize },
    /// No reply, because the request has only notifications.
    Nothing,
}

impl Expected {
    /// Returns the number of the only call, or of the first one.
    pub(super) fn number(self) -> Option<usize> {
        match self {
            Expected::Single { number } | Expected::Array { first: number } => Some(number),
            Expected::Nothing => None,
        }
    }

    /// Reports whether these replies have the expected form, and none of them belongs to a different request.
    fn is_met_by(self, answer: &NodeAnswer, body: &[u8], replies: &Replies) -> bool {
        let is_of_set = |reply: &ReplyMembers, first: usize| {
            let id = reply.id.map(|id| id.of(body)).filter(|id| *id != b"null");
            id.is_none_or(|id| read_number(id).is_some_and(|number| is_in_set(number, first)))
        };
        match (self, replies) {
            (Expected::Single { number }, Replies::Single(reply)) => {
                (reply.error.is_some() || reply.result.is_some()) && answer.accepts(reply, body, number)
            }
            (Expected::Array { first }, Replies::Single(reply)) => {
                reply.error.is_some() && is_of_set(reply, first)
            }
            (Expected::Array { first }, Replies::Many(many)) => {
                many.iter().all(|reply| is_of_set(reply, first))
            }
            (Expected::Nothing, _) => true,
            (Expected::Single { .. }, Replies::Many(_)) => false,
        }
    }
}

pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    content: Content,
    verdict: Verdict,
}

impl Judged for Answer {
    fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// The criteria for whether an error means that a node cannot serve a call now.
#[derive(Clone, Copy)]
pub(super) struct ErrorJudge<'a> {
    pub(super) adapter: &'a dyn Adapter,
    /// True if the request is a single call of a listed method.
    pub(super) is_listed: bool,
}

impl ErrorJudge<'_> {
    /// Returns the reason why the node cannot serve the call; `None` if it has answered it.
    fn unserved(self, reply: &ReplyMembers, body: &[u8], status: StatusCode) -> Option<Unserved> {
        let answer = match (reply.error, reply.result) {
            (Some(error), _) => error.of(body),
            (None, Some(result)) if self.adapter.is_error(result.of(body)) => result.of(body),
            _ => return None,
        };
        let error = NodeError { answer, status: status.as_u16(), is_listed: self.is_listed };
        self.adapter.cannot_serve(&error)
    }

    fn verdict(self, replies: &Replies, body: &[u8], status: StatusCode) -> Verdict {
        let is_usable = |reply: &ReplyMembers| {
            let result = reply.result.filter(|_| reply.error.is_none()).map(|result| result.of(body));
            result.is_some_and(|result| result != b"null" && !self.adapter.is_error(result))
        };
        let of_error = |reply: &ReplyMembers| {
            self.unserved(reply, body, status).map_or(Verdict::Neutral, Verdict::Unserved)
        };
        match replies {
            Replies::Single(reply) if is_usable(reply) => Verdict::Usable,
            Replies::Single(reply) => of_error(reply),
            Replies::Many(many) if many.iter().any(is_usable) => Verdict::Usable,
            Replies::Many(many) => many.first().map_or(Verdict::Neutral, of_error),
        }
    }
}

enum Content {
    Replies(Replies),
    Stream { is_error: bool, reply: Box<StreamedReply> },
    Empty,
}

impl Answer {
    /// Accepts a JSON answer of the expected form with any status, except those by which a node rejects the gateway
    /// itself, and an empty answer to notifications. `must_fit`: the whole answer must fit the buffer.
    pub(super) fn classify(
        mut answer: NodeAnswer,
        expected: Expected,
        must_fit: bool,
        judge: ErrorJudge<'_>,
        limits: &ReplyLimits,
    ) -> Result<Self, Fault> {
        let status = answer.status;
        if answer.rejects_the_gateway() {
            return Err(Fault::sent(Cause::Status(status.as_u16())));
        }
        let body = std::mem::replace(&mut answer.body, AnswerBody::Complete(Bytes::new()));
        let (body, content) = match body {
            AnswerBody::Complete(body) => match replies(&body, DEEPEST) {
                Ok(replies) if expected.is_met_by(&answer, &body, &replies) => {
                    (body, Content::Replies(replies))
                }
                Err(_)
                    if expected == Expected::Nothing
                        && body.is_empty()
                        && status.is_success()
                        && answer.framed =>
                {
                    (body, Content::Empty)
                }
                _ => return Err(unusable_body(status)),
            },
            AnswerBody::Larger { .. } if must_fit => return Err(Fault::sent(Cause::Oversize)),
            AnswerBody::Larger { prefix, rest } => match reply_head(&prefix) {
                ReplyKind::Bad => return Err(unusable_body(status)),
                // If this many bytes do not show the kind of the reply, no client could determine it either.
                ReplyKind::Undecided => return Err(Fault::sent(Cause::Undecodable)),
                head => {
                    let Expected::Single { number } = expected else {
                        return Ok(Answer {
                            status,
                            headers: answer.headers,
                            body: Bytes::new(),
                            content: Content::Empty,
                            verdict: Verdict::Neutral,
                        });
                    };
                    let is_error = head == ReplyKind::Error;
                    let needs_id = answer.has_numbers && !is_error;
                    let reply = StreamedReply::new(&prefix, rest, number, needs_id, limits)?;
                    (Bytes::new(), Content::Stream { is_error, reply: Box::new(reply) })
                }
            },
        };
        let verdict = match &content {
            Content::Replies(replies) => judge.verdict(replies, &body, status),
            Content::Stream { is_error: false, .. } | Content::Empty => Verdict::Usable,
            Content::Stream { .. } => Verdict::Neutral,
        };
        Ok(Answer { status, headers: answer.headers, body, content, verdict })
    }

    pub(super) fn source(&self) -> Source {
        if matches!(self.verdict, Verdict::Unserved(_)) { Source::Unserved } else { Source::Node }
    }

    /// Returns the reply to a call of the client's `request` that was sent alone, and the headers for the client.
    /// `is_complete`: the client gets only this reply.
    pub(super) fn single(
        mut self,
        chain: &Chain,
        call: &Call,
        request: &Bytes,
        is_complete: bool,
    ) -> Result<(Form, HeaderMap), Fault> {
        if call.is_notification(request) {
            return Ok((Form::Nothing, HeaderMap::new()));
        }
        let dialect = chain.facts().dialect;
        let status = if dialect.has_status() { self.status } else { StatusCode::OK };
        // Servers of this dialect write no ids, and its clients expect none.
        let has_id = dialect != Dialect::Xrp || call.id(request).is_some();
        let reply = match self.content {
            Content::Replies(Replies::Single(reply)) => reply,
            Content::Stream { is_error, reply } => {
                strip(&mut self.headers, chain.adapter());
                let id = call.id(request).map(|id| request.slice_ref(id));
                let flow = reply.for_client(id)?;
                let streamed = Streamed::new(status, self.headers, is_error, flow);
                return Ok((Form::Stream(Box::new(streamed)), HeaderMap::new()));
            }
            _ => return Err(Fault::sent(Cause::Undecodable)),
        };
        let inner = inner(&self.body, &reply, chain.adapter())?;
        strip(&mut self.headers, chain.adapter());
        // Only a number in the form that was sent shows where the client's id belongs. Other answers are rewritten. So
        // are answers that may be cached, so that a client gets the same bytes from the node and from the cache.
        let is_as_sent = match reply.id {
            _ if call.rule.cache.is_cached() => false,
            Some(id) => has_id && parse_index(id.of(&self.body)).is_some(),
            None => call.id(request).is_none(),
        };
        if is_complete && is_as_sent {
            let complete = CompleteReply { status, body: self.body, id: reply.id, inner };
            return Ok((Form::Complete(complete), self.headers));
        }
        Ok((inner.form(status), self.headers))
    }

    /// Settles the calls at `indexes`, which were sent together in an array.
    pub(super) fn settle_array(self, tally: &mut Tally, indexes: &[usize]) {
        let first = first_index(tally);
        let chain = tally.chain.clone();
        let adapter = chain.adapter();
        let mut settle = |index: usize, state: CallState| tally.entries[index].state = state;
        match &self.content {
            // One error for all: the node did not accept the array.
            Content::Replies(Replies::Single(reply)) if reply.error.is_some() => {
                for index in indexes {
                    let judge = ErrorJudge { adapter, is_listed: false };
                    let why = judge.unserved(reply, &self.body, self.status);
                    let why = why.filter(|why| *why != Unserved::UnknownMethod);
                    let mut state = self.state(reply, adapter, why);
                    if let CallState::Answered(reply) = &mut state
                        && reply.from == Source::Node
                    {
                        reply.from = Source::NodeForAll;
                    }
                    settle(*index, state);
                }
                return;
            }
            Content::Replies(Replies::Many(_)) | Content::Empty => {}
            // Answers to notifications are dropped.
            _ => {
                for index in indexes {
                    settle(*index, CallState::Answered(Reply { form: Form::Nothing, from: Source::Node }));
                }
                return;
            }
        }
        let mut found: SmallVec<[Option<Option<&ReplyMembers>>; 8]> =
            SmallVec::from_elem(None, indexes.len());
        // Most nodes answer in the order of the calls.
        let mut next = 0;
        if let Content::Replies(Replies::Many(many)) = &self.content {
            for reply in many {
                let number = reply.id.and_then(|id| read_number(id.of(&self.body)));
                let index = number.and_then(|number| number.checked_sub(first));
                let Some(index) = index else { continue };
                let at = match indexes.get(next) {
                    Some(expected) if *expected == index => next,
                    _ => match indexes.binary_search(&index) {
                        Ok(at) => at,
                        Err(_) => continue,
                    },
                };
                next = at + 1;
                // With two answers to one call it is unknown which one is right.
                found[at] = Some(if found[at].is_none() { Some(reply) } else { None });
            }
        }
        for (index, found) in indexes.iter().zip(found) {
            let is_notification = tally.entries[*index].call.is_notification(&tally.body);
            let is_listed = tally.entries[*index].call.metered.is_some();
            tally.entries[*index].state = match found {
                Some(Some(reply)) => {
                    let judge = ErrorJudge { adapter, is_listed };
                    self.state(reply, adapter, judge.unserved(reply, &self.body, self.status))
                }
                Some(None) => CallState::Failed(Fault::sent(Cause::Undecodable)),
                None if is_notification => {
                    CallState::Answered(Reply { form: Form::Nothing, from: Source::Node })
                }
                None => CallState::Failed(Fault::sent(Cause::Unanswered)),
            };
        }
    }

    /// Returns the state of a call with this reply. `unserved` is the reason why its node could not serve it, if there
    /// is one.
    fn state(&self, reply: &ReplyMembers, adapter: &dyn Adapter, unserved: Option<Unserved>) -> CallState {
        match inner(&self.body, reply, adapter) {
            Ok(inner) => {
                let status = match &inner {
                    Inner::Error(error) => adapter.facts().dialect.status_alone(error),
                    Inner::Result(_) | Inner::Failure(_) => StatusCode::OK,
                };
                let from = if unserved.is_none() { Source::Node } else { Source::Unserved };
                CallState::Answered(Reply { form: inner.form(status), from })
            }
            Err(fault) => CallState::Failed(fault),
        }
    }
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

/// Removes the headers of a node that the chain's API does not define.
pub(super) fn strip(headers: &mut HeaderMap, adapter: &dyn Adapter) {
    let allowed = adapter.reply_headers();
    // Most nodes send no others. Then clearing the table costs less than removing each of many names.
    if allowed.is_empty() || !headers.keys().any(|name| may_pass(name, allowed)) {
        headers.clear();
        return;
    }
    let behind: SmallVec<[_; 8]> = headers.keys().filter(|name| !may_pass(name, allowed)).cloned().collect();
    for name in behind {
        headers.remove(name);
    }
}

/// Reports whether a node's header is forwarded to the client: `allowed` has its name, or a prefix of it with `*`, and
/// it is not one that [stays behind](stays_behind) on every chain.
fn may_pass(name: &HeaderName, allowed: &[&str]) -> bool {
    let is_allowed = |allowed: &&str| match allowed.strip_suffix('*') {
        Some(begin) => name.as_str().starts_with(begin),
        None => name == *allowed,
    };
    allowed.iter().any(is_allowed) && !stays_behind(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_header_passes_if_its_name_or_the_beginning_of_it_is_listed() {
        let allowed = ["x-height", "x-chain-*"];
        for (name, passes) in [
            ("x-height", true),
            ("x-heights", false),
            ("x-chain-cursor", true),
            ("x-chain", false),
            ("etag", false),
        ] {
            assert_eq!(may_pass(&HeaderName::from_static(name), &allowed), passes, "{name}");
        }
    }

    #[test]
    fn a_header_that_no_node_may_send_does_not_pass_even_if_it_is_listed() {
        for name in ["set-cookie", "location", "cache-control"] {
            assert!(!may_pass(&HeaderName::from_static(name), &[name, "*"]), "{name}");
        }
    }
}
