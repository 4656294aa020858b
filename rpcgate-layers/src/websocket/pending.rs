//! The calls of one stream that wait for their answers.

use crate::nodes::node_state::makes_state;
use bytes::Bytes;
use http::StatusCode;
use rpcgate_core::call::{CallState, Entry};
use rpcgate_core::envelope::{Replies, ReplyId, ReplyMembers, replies};
use rpcgate_core::json::DEEPEST;
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::tally::Tally;
use std::collections::VecDeque;

/// The maximum number of waiting calls per stream. Beyond it the oldest calls are given up: they stay unanswered in the
/// usage, and the refused calls of their array are answered alone.
const MAX_CALLS: usize = 1_024;

/// The maximum number of bytes of messages with waiting calls, in addition to one message.
const MAX_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct SentMessage {
    pub(super) tally: Box<Tally>,
    /// The answers to the refused calls of an array, joined by commas.
    pub(super) refused: Vec<u8>,
}

/// The calls that a message of the node answers.
#[derive(Debug)]
pub(super) enum Answered {
    /// All calls of a message, which are settled.
    Message(SentMessage),
    /// One item of an array whose items are answered separately.
    Item {
        /// The account of the array, if this was the last answer.
        tally: Option<Box<Tally>>,
        /// The answers to the refused calls, if this was the first answer.
        refused: Vec<u8>,
    },
}

#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    messages: VecDeque<SentMessage>,
    calls: usize,
    bytes: usize,
    /// The number of calls that create state at the node.
    makers: usize,
}

impl PendingCalls {
    /// Reports whether no call waits, so that every message of the node is a push.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Reports whether answers to refused calls of an array wait too.
    pub(super) fn has_refused(&self) -> bool {
        self.messages.iter().any(|message| !message.refused.is_empty())
    }

    pub(super) fn has_makers(&self) -> bool {
        self.makers > 0
    }

    pub(super) fn is_maker(&self, id: &[u8]) -> bool {
        let is_same = |known: &[u8]| known == id || is_same_json(known, id);
        self.messages.iter().any(|message| {
            message.tally.entries.iter().any(|entry| {
                makes_state(&entry.call)
                    && matches!(entry.state, CallState::Sent)
                    && entry.call.id(&message.tally.body).is_some_and(is_same)
            })
        })
    }

    /// Adds `message` to the waiting ones. Returns the messages given up because a limit is exceeded.
    pub(super) fn push(&mut self, message: SentMessage) -> Vec<SentMessage> {
        self.calls += message.tally.entries.len();
        self.bytes += message.tally.body.len();
        self.makers += makers(&message);
        self.messages.push_back(message);
        let mut abandoned = Vec::new();
        while (self.calls > MAX_CALLS || self.bytes > MAX_BYTES) && self.messages.len() > 1 {
            abandoned.extend(self.remove(0));
        }
        abandoned
    }

    /// Returns the calls that `text` with this id answers. A message without waiting calls is removed.
    pub(super) fn answered_by(&mut self, reply: &ReplyId, text: &[u8]) -> Option<Answered> {
        let id = reply.id.of(text);
        let is_same = |known: &[u8]| known == id || is_same_json(known, id);
        let waiting = |message: &SentMessage| {
            message.tally.entries.iter().position(|entry| {
                matches!(entry.state, CallState::Sent)
                    && entry.call.id(&message.tally.body).is_some_and(is_same)
            })
        };
        let of =
            |batch| move |message: &SentMessage| message.tally.batch == batch && waiting(message).is_some();
        if let Some(position) = self.messages.iter().position(of(reply.is_array)) {
            let mut message = self.remove(position)?;
            settle(&mut message.tally, reply, text);
            return Some(Answered::Message(message));
        }
        // Some nodes answer the items of an array separately.
        let position = self.messages.iter().position(of(!reply.is_array)).filter(|_| !reply.is_array)?;
        let message = self.messages.get_mut(position)?;
        let item = waiting(message)?;
        answer(message.tally.entries.get_mut(item)?, reply.is_error, text.len());
        let refused = std::mem::take(&mut message.refused);
        let is_over = !message.tally.entries.iter().any(|entry| matches!(entry.state, CallState::Sent));
        let tally = if is_over { self.remove(position).map(|message| message.tally) } else { None };
        Some(Answered::Item { tally, refused })
    }

    /// Returns the array that the node rejects as a whole with `text`, an error without an id (JSON-RPC 2.0, section
    /// 5.1). The array is settled and removed. Arrays are answered in order, so it is the oldest one.
    pub(super) fn refused_by(&mut self, text: &[u8]) -> Option<SentMessage> {
        let position = self.messages.iter().position(|message| message.tally.batch)?;
        let is_refusal =
            |reply: &ReplyMembers| reply.error.is_some() && reply.id.is_none_or(|id| id.of(text) == b"null");
        let is_refused = match replies(text, DEEPEST).ok()? {
            Replies::Single(reply) => is_refusal(&reply),
            Replies::Many(items) => !items.is_empty() && items.iter().all(is_refusal),
        };
        if !is_refused {
            return None;
        }
        let mut message = self.remove(position)?;
        answer_all(&mut message.tally, true, text.len());
        Some(message)
    }

    pub(super) fn take(&mut self) -> impl Iterator<Item = Box<Tally>> + use<> {
        std::mem::take(self).messages.into_iter().map(|message| message.tally)
    }

    fn remove(&mut self, position: usize) -> Option<SentMessage> {
        let message = self.messages.remove(position)?;
        self.calls -= message.tally.entries.len();
        self.bytes -= message.tally.body.len();
        self.makers -= makers(&message);
        if self.messages.is_empty() {
            // An idle stream holds no memory for calls.
            self.messages = VecDeque::new();
        }
        Some(message)
    }
}

fn makers(message: &SentMessage) -> usize {
    message.tally.entries.iter().filter(|entry| makes_state(&entry.call)).count()
}

fn settle(tally: &mut Tally, reply: &ReplyId, text: &[u8]) {
    let body = tally.body.clone();
    if !reply.is_array {
        let waiting = tally.entries.iter_mut().find(|entry| matches!(entry.state, CallState::Sent));
        if let Some(entry) = waiting {
            answer(entry, reply.is_error, text.len());
        }
        return;
    }
    let Ok(Replies::Many(items)) = replies(text, DEEPEST) else {
        // The first of several fragments does not show the number of answers.
        return answer_all(tally, reply.is_error, text.len());
    };
    for item in items {
        let Some(id) = item.id.map(|id| id.of(text)) else { continue };
        let waiting = tally.entries.iter_mut().find(|entry| {
            matches!(entry.state, CallState::Sent) && entry.call.id(&body).is_some_and(|known| known == id)
        });
        if let Some(entry) = waiting {
            answer(entry, item.error.is_some(), item.span.of(text).len());
        }
    }
}

/// Records the same outcome for every waiting call. The bytes of the text count for the first call.
fn answer_all(tally: &mut Tally, is_error: bool, bytes: usize) {
    let waiting = tally.entries.iter_mut().filter(|entry| matches!(entry.state, CallState::Sent));
    for (position, entry) in waiting.enumerate() {
        answer(entry, is_error, if position == 0 { bytes } else { 0 });
    }
}

fn answer(entry: &mut Entry, is_error: bool, bytes: usize) {
    // The text itself has left for the client.
    let form = if is_error { Form::Error(Bytes::new(), StatusCode::OK) } else { Form::Result(Bytes::new()) };
    entry.state = CallState::Answered(Reply { form, from: Source::Node });
    entry.bytes_out = u32::try_from(bytes).unwrap_or(u32::MAX);
}

/// Reports whether two ids differ at most in white space between tokens, as when a node serializes an object again.
fn is_same_json(one: &[u8], other: &[u8]) -> bool {
    let is_container = |id: &[u8]| matches!(id.first(), Some(b'{' | b'['));
    if !is_container(one) || !is_container(other) {
        return false;
    }
    let closed_up = |id: &[u8]| {
        let mut text = id.to_vec();
        let len = rpcgate_core::json::close_up(&mut text);
        text.truncate(len);
        text
    };
    closed_up(one) == closed_up(other)
}
