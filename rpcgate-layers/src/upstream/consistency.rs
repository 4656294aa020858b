//! Calls of a client that must not see an older head than before. They go to nodes that are known to have reached its
//! height, and their response has the lowest known height of the nodes that answered.
//!
//! If no node is known to have reached the height, the calls wait for a round of probes that shows one, as calls in
//! flight, for at most a second. Then they are refused.

use super::again::send_all;
use super::limits::ReplyLimits;
use super::round::Round;
use crate::nodes::Pool;
use crate::nodes::node_set::NodeSet;
use rpcgate_core::adapter::Probe;
use rpcgate_core::call::{CallState, Entry};
use rpcgate_core::node_try::{NodeTry, TryEnd};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::Source;
use rpcgate_core::tally::{HeadConsistency, Tally};
use smallvec::SmallVec;

pub(super) async fn forward(pool: &Pool, tally: &mut Tally, limits: ReplyLimits) {
    let Some(HeadConsistency { least, .. }) = tally.consistency else { return };
    let takers = |entry: &Entry, among: NodeSet, body: &[u8]| {
        Round { among, ..Round::FIRST }.takers(pool, &entry.call, body)
    };
    let open = tally.entries.iter().filter(|entry| entry.is_open());
    let accepting: SmallVec<[NodeSet; 1]> =
        open.map(|entry| takers(entry, NodeSet::ALL, &tally.body)).collect();
    let is_enough = |among: NodeSet| !accepting.iter().any(|takers| takers.and(among).is_empty());
    let found = pool.nodes_at(least, tally.memory.project(), is_enough).await;
    let Ok(among) = found else {
        return refuse(tally, |_, _| Some(Refusal::Overloaded));
    };
    refuse(tally, |entry, body| takers(entry, among, body).is_empty().then_some(Refusal::HeadNotReached));
    if !tally.has_open() {
        return;
    }
    send_all(pool, tally, limits, among).await;
    tally.consistency = Some(HeadConsistency { least, shown: shown(pool, tally) });
}

fn refuse(tally: &mut Tally, why: impl Fn(&Entry, &[u8]) -> Option<Refusal>) {
    let Tally { entries, body, .. } = tally;
    for entry in entries.iter_mut().filter(|entry| entry.is_open()) {
        if let Some(refusal) = why(entry, body) {
            entry.state = CallState::Refused(refusal);
        }
    }
}

/// Returns the lowest height of the nodes that answered; `None` if no node did, or if one of the heights is unknown.
fn shown(pool: &Pool, tally: &Tally) -> Option<u64> {
    let tries = tally.tries.as_slice();
    if tally.tries.left_out() > 0 {
        return None;
    }
    let answered = |one: &&NodeTry| one.end == TryEnd::Answered && one.pool == pool.number();
    for (index, entry) in tally.entries.iter().enumerate() {
        let last = tries.iter().rev().filter(answered).find(|one| one.calls.has(index));
        if let Some((last, height)) = last.zip(shown_height(tally, entry)) {
            pool.raise_height(last.node, height);
        }
    }
    let heights = tries.iter().filter(answered).map(|one| pool.height(one.node));
    heights.reduce(|lowest, height| lowest.zip(height).map(|(one, other)| one.min(other))).flatten()
}

/// Returns the height in a node's answer, if the call was the one that also probes nodes.
fn shown_height(tally: &Tally, entry: &Entry) -> Option<u64> {
    let CallState::Answered(reply) = &entry.state else { return None };
    let Probe::Rpc { method, .. } = tally.chain.adapter().probe() else { return None };
    if reply.from != Source::Node
        || reply.form.is_error()
        || entry.call.sent(&tally.body) != method.as_bytes()
    {
        return None;
    }
    let status = tally.chain.adapter().seen(reply.form.content()?)?;
    Some(status.height).filter(|height| *height > 0)
}
