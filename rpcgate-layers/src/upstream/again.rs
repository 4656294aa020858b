//! Second requests for reads that the first node could not serve.
//!
//! - The node no longer has the requested history: the call goes to an archive, if the pool has one.
//! - The node cannot serve the call now, according to its error: the call goes to another node. If the node does not
//!   know the method and no table lists it either, the client may have invented it. Then only spare retries are used.
//!   If another node serves the call, the first node is remembered as one without the method.
//! - The node gave only errors lately, or ever, and gives one more: the call goes to a node that has served other calls
//!   lately, with spare retries. If that node serves it, the first one is remembered as one that fails at the method.
//! - The node does not have the block that the call names: the call goes to a node that is known to have reached its
//!   height.
//!
//! The second request needs a retry of the chain's [budget](crate::nodes::RetryPolicy::budget), and shares the deadline
//! of the first. If it brings no better answer, the client gets the first one.

use super::json_rpc;
use super::limits::ReplyLimits;
use super::rest;
use super::round::Round;
use crate::nodes::Pool;
use crate::nodes::node::NodeIndex;
use crate::nodes::node_set::NodeSet;
use crate::nodes::usefulness::MethodIndex;
use rpcgate_core::adapter::{NodeError, Unserved};
use rpcgate_core::call::{CallState, Entry, Payload};
use rpcgate_core::chain::Flags;
use rpcgate_core::node_try::{NodeChoice, TryEnd};
use rpcgate_core::reply::{Form, Inner, Reply, Source};
use rpcgate_core::tally::{Tally, Transport};
use smallvec::SmallVec;
use std::time::Duration;

/// Sends the open calls of a set to nodes in `among`, and then sends those again that another node may serve better.
pub(super) async fn send_all(pool: &Pool, tally: &mut Tally, limits: ReplyLimits, among: NodeSet) {
    let until = pool.deadline();
    send(pool, tally, limits, Round { among, ..Round::FIRST }).await;
    if tally.entries.iter().any(may_need_another) {
        // Boxed, so that the future of other calls does not grow.
        Box::pin(send_again(pool, tally, limits, among, until)).await;
    }
}

/// Sends the open calls of a set once, with retries, whatever their protocol.
async fn send(pool: &Pool, tally: &mut Tally, limits: ReplyLimits, round: Round) {
    if let [entry] = &tally.entries[..]
        && matches!(entry.call.payload, Payload::Rest(_))
    {
        rest::forward(pool, tally, limits, round).await;
    } else {
        json_rpc::forward(pool, tally, limits, round).await;
    }
}

/// Reports whether another node might have a better answer: this one is an error or empty.
fn may_need_another(entry: &Entry) -> bool {
    match &entry.state {
        CallState::Answered(reply) if reply.from == Source::Unserved => true,
        CallState::Answered(reply) if is_own(reply) => reply.form.is_error() || is_empty(reply),
        _ => false,
    }
}

fn is_own(reply: &Reply) -> bool {
    matches!(reply.from, Source::Node | Source::NodeForAll | Source::Unserved)
}

fn is_empty(reply: &Reply) -> bool {
    reply.form.content().is_some_and(|content| content.trim_ascii() == b"null")
}

struct Group {
    among: NodeSet,
    choice: NodeChoice,
    indexes: SmallVec<[usize; 1]>,
}

async fn send_again(pool: &Pool, tally: &mut Tally, limits: ReplyLimits, among: NodeSet, until: Duration) {
    if !pool.may_retry() {
        return;
    }
    let mut groups: SmallVec<[Group; 1]> = SmallVec::new();
    for index in 0..tally.entries.len() {
        let Some((among, choice)) = other_nodes(pool, tally, index, among) else { continue };
        match groups.iter_mut().find(|group| (group.among, group.choice) == (among, choice)) {
            Some(group) => group.indexes.push(index),
            None => groups.push(Group { among, choice, indexes: SmallVec::from_buf([index]) }),
        }
    }
    let takes_arrays = tally.batch && tally.chain.facts().batch && pool.max_batch() > 1;
    for Group { among, choice, mut indexes } in groups {
        let per_request = if takes_arrays { pool.max_batch() } else { 1 };
        let requests = indexes.len().div_ceil(per_request);
        let may_be_callers =
            |tally: &Tally, index: &usize| choice == NodeChoice::Elsewhere && may_be_callers(tally, *index);
        let is_spare = indexes.iter().any(|index| may_be_callers(tally, index));
        let take = || if is_spare { pool.take_spare_retry() } else { pool.take_retry() };
        let allowed = (0..requests).take_while(|_| take()).count();
        indexes.truncate(allowed.saturating_mul(per_request));
        if !indexes.is_empty() {
            // Empty answers are not counted: the block may have arrived in the meantime.
            let doubted =
                indexes.iter().filter(|index| may_be_callers(tally, index) && is_error(tally, **index));
            let doubted: SmallVec<[_; 1]> =
                doubted.filter_map(|index| Some((*index, answered_by(pool, tally, *index)?))).collect();
            let round = Round { among, choice: Some(choice), was_sent: true };
            send_group(pool, tally, limits, round, &indexes, until).await;
            for (index, answered) in doubted {
                let entry = &tally.entries[index];
                if !may_need_another(entry) {
                    pool.record_method_failed(answered, MethodIndex::of(entry.call.metered));
                }
            }
        }
    }
}

/// Returns the nodes that may serve a call better than the one that answered it, and the reason. `None` if the answer
/// stays.
fn other_nodes(pool: &Pool, tally: &Tally, index: usize, among: NodeSet) -> Option<(NodeSet, NodeChoice)> {
    let entry = &tally.entries[index];
    let CallState::Answered(reply) = &entry.state else { return None };
    if entry.call.rule.flags.has(Flags::BROADCAST) || !may_need_another(entry) {
        return None;
    }
    let takers = |among: NodeSet| {
        Round { among, ..Round::FIRST }
            .takers(pool, &entry.call, &tally.body)
            .without(tried(pool, tally, index))
    };
    let adapter = tally.chain.adapter();
    let error = error(reply);
    if error.is_some_and(|error| adapter.lacks_history(error)) && !was_at_archive(pool, tally, index) {
        let archives = takers(pool.archives().and(among));
        if !archives.is_empty() {
            return Some((archives, NodeChoice::Archive));
        }
    }
    if reply.from == Source::Unserved {
        let others = takers(among);
        return pool.has_usable(others).then_some((others, NodeChoice::Elsewhere));
    }
    let answer = error.or_else(|| reply.form.content().map(|content| &content[..]))?;
    let missing = adapter.missing_block(entry.call.view(&tally.body, tally.chain.name()), answer);
    let ahead = missing.map(|height| takers(pool.known_at(height).and(among)));
    if let Some(ahead) = ahead.filter(|ahead| pool.has_usable(*ahead)) {
        return Some((ahead, NodeChoice::Ahead));
    }
    let answered = answered_by(pool, tally, index)?;
    let better = takers(pool.better_than(answered, Transport::Http).and(among));
    pool.has_usable(better).then_some((better, NodeChoice::Elsewhere))
}

async fn send_group(
    pool: &Pool,
    tally: &mut Tally,
    limits: ReplyLimits,
    round: Round,
    indexes: &[usize],
    until: Duration,
) {
    let reopen = |index: &usize| {
        let state = &mut tally.entries[*index].state;
        (*index, std::mem::replace(state, CallState::Open))
    };
    let answers: SmallVec<[(usize, CallState); 1]> = indexes.iter().map(reopen).collect();
    let passing = std::mem::take(&mut tally.passing);
    let deadline = tally.deadline.replace(tally.deadline.map_or(until, |deadline| deadline.min(until)));
    let again = Again { tally: &mut *tally, answers };
    send(pool, again.tally, limits, round).await;
    let is_unanswered = again.restore();
    if is_unanswered {
        tally.passing = passing;
    }
    tally.deadline = deadline;
}

/// Calls that are sent again, with their first answers. The client gets the first answer if no better one comes.
struct Again<'t> {
    tally: &'t mut Tally,
    answers: SmallVec<[(usize, CallState); 1]>,
}

impl Again<'_> {
    /// Restores the first answer of the calls without a better one. Returns whether there was such a call.
    fn restore(mut self) -> bool {
        let mut is_unanswered = false;
        for (index, before) in std::mem::take(&mut self.answers) {
            let state = &mut self.tally.entries[index].state;
            let is_better =
                matches!(state, CallState::Answered(Reply { from, .. }) if *from != Source::Unserved);
            if !is_better {
                *state = before;
                is_unanswered = true;
            }
        }
        is_unanswered
    }
}

impl Drop for Again<'_> {
    /// If the client leaves while its calls are sent again, the calls were made: they are charged.
    fn drop(&mut self) {
        for (index, _) in &self.answers {
            let state = &mut self.tally.entries[*index].state;
            if matches!(state, CallState::Open) {
                *state = CallState::Sent;
            }
        }
    }
}

fn error(reply: &Reply) -> Option<&[u8]> {
    match &reply.form {
        Form::Complete(complete) => match &complete.inner {
            Inner::Error(error) | Inner::Failure(error) => Some(&error[..]),
            Inner::Result(_) => None,
        },
        Form::Error(error, _) | Form::Failure(error, _) => Some(&error[..]),
        Form::Rest(rest) if rest.is_error => Some(&rest.body[..]),
        Form::Rest(_) | Form::Result(_) | Form::Stream(_) | Form::Nothing => None,
    }
}

/// Reports whether the client may be the cause of an answer.
fn may_be_callers(tally: &Tally, index: usize) -> bool {
    let entry = &tally.entries[index];
    let is_served = matches!(&entry.state, CallState::Answered(reply) if reply.from != Source::Unserved);
    is_served || is_unknown_method(tally, index)
}

fn answered_by(pool: &Pool, tally: &Tally, index: usize) -> Option<NodeIndex> {
    let mut tries = tally.tries.as_slice().iter().rev();
    let answered = tries.find(|one| one.calls.has(index) && one.end == TryEnd::Answered)?;
    (answered.pool == pool.number()).then(|| pool.at(answered.node))
}

fn is_error(tally: &Tally, index: usize) -> bool {
    matches!(&tally.entries[index].state, CallState::Answered(reply) if reply.form.is_error())
}

/// Reports whether the node that answered a call does not know its method, which is in no table of the chain.
fn is_unknown_method(tally: &Tally, index: usize) -> bool {
    let entry = &tally.entries[index];
    let CallState::Answered(reply) = &entry.state else { return false };
    if reply.from != Source::Unserved || entry.call.metered.is_some() {
        return false;
    }
    let status = match &reply.form {
        Form::Rest(rest) => rest.status.as_u16(),
        _ => 200,
    };
    error(reply).is_some_and(|answer| {
        let error = NodeError { answer, status, is_listed: false };
        tally.chain.adapter().cannot_serve(&error) == Some(Unserved::UnknownMethod)
    })
}

fn tried(pool: &Pool, tally: &Tally, index: usize) -> NodeSet {
    let tries = tally.tries.as_slice().iter();
    tries
        .filter(|one| one.calls.has(index) && one.pool == pool.number())
        .map(|one| pool.at(one.node))
        .collect()
}

fn was_at_archive(pool: &Pool, tally: &Tally, index: usize) -> bool {
    tally.tries.as_slice().iter().any(|one| {
        one.calls.has(index)
            && one.end == TryEnd::Answered
            && one.pool == pool.number()
            && pool.is_archive(one.node)
    })
}
