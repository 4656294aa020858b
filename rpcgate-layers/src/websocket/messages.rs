//! The messages of a stream. The call stack decides about each call of the client, and each answer of the node is
//! charged to its call.

use super::open_streams::KeyStreams;
use super::pending::{Answered, PendingCalls, SentMessage};
use crate::call::batch::read_calls;
use crate::nodes::node::Node;
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::call::{Call, CallState, Calls, Entry, Opened, Payload};
use rpcgate_core::chain::{Chains, Dialect};
use rpcgate_core::clock::Clock;
use rpcgate_core::envelope::{Limits, reply_id};
use rpcgate_core::memory::{MemoryBudget, MemoryPermit};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::stream_tally::StreamTally;
use rpcgate_core::tally::Tally;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// The end of the message stack. It returns the calls, and the open ones go to the node of the stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forward;

impl Service<Calls<Opened>> for Forward {
    type Response = Calls<Opened>;
    type Error = Infallible;
    type Future = Ready<Result<Calls<Opened>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, calls: Calls<Opened>) -> Self::Future {
        ready(Ok(calls))
    }
}

/// The layers that decide about the calls of one stream.
pub trait DecideCalls: Send {
    /// Refuses the calls that may not pass. Returns `None` if the layers would have to wait, which stream layers never
    /// do.
    fn decide(&mut self, calls: Calls) -> Option<Calls<Opened>>;
}

impl<S> DecideCalls for S
where
    S: Service<Calls, Response = Calls<Opened>, Error = Infallible> + Send,
{
    fn decide(&mut self, calls: Calls) -> Option<Calls<Opened>> {
        let decided = self.call(calls).now_or_never()?;
        decided.ok()
    }
}

/// The settings shared by all streams for decisions about messages.
#[derive(Clone, Debug)]
pub(crate) struct MessageRules {
    pub(crate) chains: Arc<ArcSwap<Chains>>,
    pub(crate) envelope: Limits,
    pub(crate) memory_budget: Arc<MemoryBudget>,
    /// 0 means no limit.
    pub(crate) calls_per_second: u32,
    pub(crate) clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) to_node: Option<ToNode>,
    pub(super) to_client: Option<Vec<u8>>,
}

#[derive(Debug)]
pub(super) enum ToNode {
    Unchanged,
    /// An array without the refused calls.
    Rewritten(Vec<u8>),
}

/// The client's version of a message from the node.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum ToClient {
    /// The original message.
    Unchanged,
    /// The array of answers, joined with the answers to the refused calls of the same array.
    Joined(Vec<u8>),
    /// The original message, which answers one item of an array, followed by the answers to the refused items.
    Followed(Vec<u8>),
}

pub(super) struct Messages {
    pub(super) stream: StreamTally,
    pub(super) pending: PendingCalls,
    layers: Box<dyn DecideCalls>,
    rules: MessageRules,
    pub(super) node: Arc<Node>,
    /// The second of the last call, and the number of calls in it.
    rate: (u64, u32),
}

impl Messages {
    pub(super) fn new(
        stream: StreamTally,
        layers: Box<dyn DecideCalls>,
        rules: MessageRules,
        node: Arc<Node>,
    ) -> Self {
        Messages { stream, pending: PendingCalls::default(), layers, rules, node, rate: (0, 0) }
    }

    /// Decides about a message of the client. `key` holds the current caller.
    pub(super) fn decide(&mut self, message: &Bytes, key: &KeyStreams) -> Verdict {
        let chains = self.rules.chains.load();
        if let Some(chain) = chains.get(self.stream.chain().name().as_str()) {
            self.stream.refresh(chain, &key.caller());
        }
        drop(chains);
        let mut tally = self.stream.message();
        let dialect = tally.chain.facts().dialect;
        let envelope = match dialect {
            Dialect::Xrp => self.rules.envelope.with_commands(),
            _ => self.rules.envelope,
        };
        tally.memory = MemoryPermit::of_project(self.rules.memory_budget.clone(), tally.caller.project);
        let read = match tally.memory.take_complete(message.len()) {
            Ok(()) => read_calls(&mut tally, message.clone(), &envelope),
            Err(_) => Err(Refusal::Overloaded),
        };
        // A lenient node may find a call in a message that is not strict JSON, and no layer could decide about that
        // call. Such a message is never forwarded.
        if let Err(refusal) = read {
            let mut text = Vec::new();
            refusal.write_frame(dialect, None, &mut text);
            let mut entry = Entry::refused(Call::unread(Payload::Unread), refusal);
            entry.bytes_out = text.len() as u32;
            tally.entries.push(entry);
            self.stream.settle(tally);
            return Verdict { to_node: None, to_client: Some(text) };
        }
        self.hold_rate(&mut tally);
        self.hold_methods(&mut tally);
        let Some(calls) = self.layers.decide(Calls::new(tally)) else {
            return Verdict::default();
        };
        let mut tally = calls.into_tally();
        self.hold_states(&mut tally);
        self.hold_allowance(&mut tally);
        self.forward(tally)
    }

    /// Refuses the calls that exceed the limit per second of a stream.
    fn hold_rate(&mut self, tally: &mut Tally) {
        if self.rules.calls_per_second == 0 {
            return;
        }
        let second = tally.arrival.secs();
        if self.rate.0 != second {
            self.rate = (second, 0);
        }
        for entry in tally.entries.iter_mut().filter(|entry| entry.is_open()) {
            if self.rate.1 >= self.rules.calls_per_second {
                entry.state = CallState::Refused(Refusal::StreamRate);
            } else {
                self.rate.1 += 1;
            }
        }
    }

    fn takes_all(&self) -> bool {
        self.node.config.methods.is_all()
    }

    fn hold_methods(&self, tally: &mut Tally) {
        if self.takes_all() {
            return;
        }
        let Tally { entries, body, .. } = tally;
        for entry in entries.iter_mut().filter(|entry| entry.is_open()) {
            if !self.node.config.methods.takes(entry.call.sent(body), entry.call.method(body)) {
                entry.state = CallState::Refused(Refusal::Closed);
            }
        }
    }

    /// Refuses the calls that exceed the rate limit of the node.
    fn hold_allowance(&self, tally: &mut Tally) {
        if !self.node.has_allowance() {
            return;
        }
        for entry in tally.entries.iter_mut().filter(|entry| entry.is_open()) {
            if self.node.take_now(1, &*self.rules.clock).is_none() {
                entry.state = CallState::Refused(Refusal::NodesAtLimit);
            }
        }
    }

    /// Marks the open calls as sent. The refused ones are answered now, or together with the node's answers.
    fn forward(&mut self, mut tally: Box<Tally>) -> Verdict {
        let body = tally.body.clone();
        let dialect = tally.chain.facts().dialect;
        let mut sent = 0;
        let mut awaited = false;
        let mut refused = Vec::new();
        for entry in &mut tally.entries {
            let is_notification = entry.call.is_notification(&body);
            match entry.state {
                CallState::Refused(_) if is_notification => {}
                CallState::Refused(refusal) => {
                    if !refused.is_empty() {
                        refused.push(b',');
                    }
                    let start = refused.len();
                    refusal.write_frame(dialect, entry.call.id(&body), &mut refused);
                    entry.bytes_out = (refused.len() - start) as u32;
                }
                _ => {
                    sent += 1;
                    // An answer without an id, or with null, looks like a push.
                    let is_answered = entry.call.id(&body).is_some_and(|id| id != b"null");
                    entry.state = if is_answered {
                        awaited = true;
                        CallState::Sent
                    } else {
                        CallState::Answered(Reply { form: Form::Nothing, from: Source::Node })
                    };
                }
            }
        }
        let to_node = match sent {
            0 => None,
            _ if sent == tally.entries.len() && !tally.entries.iter().any(is_bound) => {
                Some(ToNode::Unchanged)
            }
            _ => Some(ToNode::Rewritten(for_node(&tally))),
        };
        if awaited {
            let mut unjoined = Vec::new();
            for abandoned in self.pending.push(SentMessage { tally, refused }) {
                self.stream.settle(abandoned.tally);
                if !abandoned.refused.is_empty() {
                    unjoined.push(abandoned.refused);
                }
            }
            return Verdict { to_node, to_client: array_of(&unjoined.join(&b',')) };
        }
        let to_client =
            if tally.batch { array_of(&refused) } else { Some(refused).filter(|text| !text.is_empty()) };
        self.stream.settle(tally);
        Verdict { to_node, to_client }
    }

    /// Reports whether the next message of the node is needed as a whole: because answers to refused calls must be
    /// joined with it, or because ids in it must name the node.
    pub(super) fn joins(&self) -> bool {
        self.pending.has_refused() || self.pending.has_makers()
    }

    /// Records a message of the node, or only its first fragment if [answers are not joined](Messages::joins).
    pub(super) fn account(&mut self, message: &[u8]) -> ToClient {
        let answered = match self.pending.is_empty() {
            true => None,
            false => match reply_id(message) {
                Some(reply) => self.pending.answered_by(&reply, message),
                None => self.pending.refused_by(message).map(Answered::Message),
            },
        };
        match answered {
            None => {
                self.stream.push(u32::try_from(message.len()).unwrap_or(u32::MAX));
                ToClient::Unchanged
            }
            Some(Answered::Message(SentMessage { tally, refused })) => {
                self.stream.settle(tally);
                if refused.is_empty() {
                    ToClient::Unchanged
                } else {
                    ToClient::Joined(joined(message, &refused))
                }
            }
            Some(Answered::Item { tally, refused }) => {
                if let Some(tally) = tally {
                    self.stream.settle(tally);
                }
                array_of(&refused).map_or(ToClient::Unchanged, ToClient::Followed)
            }
        }
    }

    /// Ends the stream. Waiting calls remain unanswered.
    pub(super) fn end(mut self, outcome: Outcome) {
        for tally in self.pending.take() {
            self.stream.settle(tally);
        }
        self.stream.end(outcome);
    }
}

fn array_of(answers: &[u8]) -> Option<Vec<u8>> {
    if answers.is_empty() { None } else { Some([b"[", answers, b"]"].concat()) }
}

/// Reports whether the id in a call names the node, which the node must not see.
fn is_bound(entry: &Entry) -> bool {
    entry.call.at_node.is_some()
}

/// Returns the message without its refused items and names of nodes.
fn for_node(tally: &Tally) -> Vec<u8> {
    let mut text = Vec::with_capacity(tally.body.len());
    let sent = tally.entries.iter().filter(|entry| !matches!(entry.state, CallState::Refused(_)));
    for (index, entry) in sent.enumerate() {
        if tally.batch {
            text.push(if index == 0 { b'[' } else { b',' });
        }
        write_call(entry, &tally.body, &mut text);
    }
    if tally.batch {
        text.push(b']');
    }
    text
}

/// Writes a call as the client sent it, without the name of its node.
fn write_call(entry: &Entry, body: &[u8], out: &mut Vec<u8>) {
    let Payload::JsonRpc(envelope) = &entry.call.payload else { return };
    let span = envelope.span;
    match &entry.call.at_node {
        None => out.extend_from_slice(span.of(body)),
        Some(at) => {
            out.extend_from_slice(body.get(span.start()..at.name.start()).unwrap_or_default());
            out.extend_from_slice(body.get(at.name.end()..span.end()).unwrap_or_default());
        }
    }
}

/// Joins the array of a node's answers, or its one error for the whole array, with the answers to the refused calls.
fn joined(answers: &[u8], refused: &[u8]) -> Vec<u8> {
    let inner = answers.trim_ascii();
    let inner = inner.strip_suffix(b"]").unwrap_or(inner);
    let mut text = Vec::with_capacity(inner.len() + refused.len() + 3);
    if !inner.starts_with(b"[") {
        text.push(b'[');
    }
    text.extend_from_slice(inner);
    text.push(b',');
    text.extend_from_slice(refused);
    text.push(b']');
    text
}
