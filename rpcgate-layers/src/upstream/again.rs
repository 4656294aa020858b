//! Reads whose node no longer has what was asked for: they are sent once more, to a node that keeps everything.
//!
//! The second sending needs a retry of the chain's [budget](crate::nodes::RetryPolicy::budget) and shares the deadline of
//! the first. If it brings no answer, the client gets the first one.

use super::limits::ReplyLimits;
use super::round::Round;
use super::send::send;
use crate::nodes::Pool;
use crate::nodes::node_set::NodeSet;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::call::{CallState, Entry};
use rpcgate_core::chain::Flags;
use rpcgate_core::node_try::{NodeChoice, TryEnd};
use rpcgate_core::reply::{Form, Inner, Source};
use rpcgate_core::tally::Tally;
use smallvec::SmallVec;

/// Sends the open calls of a set to some of these nodes, and those of them once more that an archive may answer, if the pool
/// has one.
pub(super) async fn send_all(pool: &Pool, tally: &mut Tally, limits: ReplyLimits, among: NodeSet) {
    if pool.archives().is_empty() {
        send(pool, tally, limits, Round { among, ..Round::FIRST }).await;
    } else {
        Box::pin(send_with_archives(pool, tally, limits, among)).await;
    }
}

async fn send_with_archives(pool: &Pool, tally: &mut Tally, limits: ReplyLimits, among: NodeSet) {
    let until = pool.deadline();
    let open = tally.entries.iter().enumerate().filter(|(_, entry)| entry.is_open());
    let open: SmallVec<[usize; 1]> = open.map(|(place, _)| place).collect();
    send(pool, tally, limits, Round { among, ..Round::FIRST }).await;
    let round =
        Round { among: pool.archives().and(among), choice: Some(NodeChoice::Archive), was_sent: true };
    let is_lacking = |tally: &Tally, place: &usize| {
        let entry = &tally.entries[*place];
        !entry.call.rule.flags.has(Flags::BROADCAST)
            && lacks_history(entry, tally.chain.adapter())
            && !was_at_archive(pool, tally, *place)
            && !round.takers(pool, &entry.call, &tally.body).is_empty()
    };
    let lacking: SmallVec<[usize; 1]> = open.into_iter().filter(|place| is_lacking(tally, place)).collect();
    if lacking.is_empty() || !pool.take_retry() {
        return;
    }
    let reopen = |place: usize| {
        let state = &mut tally.entries[place].state;
        (place, std::mem::replace(state, CallState::Open))
    };
    let answers: SmallVec<[(usize, CallState); 1]> = lacking.into_iter().map(reopen).collect();
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

/// Calls that are sent again, and their first answers, which are those of the client if no others come.
struct Again<'t> {
    tally: &'t mut Tally,
    answers: SmallVec<[(usize, CallState); 1]>,
}

impl Again<'_> {
    /// Gives the calls that were not answered again their first answers. Whether there was such a call.
    fn restore(mut self) -> bool {
        let mut is_unanswered = false;
        for (place, before) in std::mem::take(&mut self.answers) {
            let state = &mut self.tally.entries[place].state;
            if !matches!(state, CallState::Answered(_)) {
                *state = before;
                is_unanswered = true;
            }
        }
        is_unanswered
    }
}

impl Drop for Again<'_> {
    /// A client that leaves while its calls are sent again has made them: they are charged.
    fn drop(&mut self) {
        for (place, _) in &self.answers {
            let state = &mut self.tally.entries[*place].state;
            if matches!(state, CallState::Open) {
                *state = CallState::Sent;
            }
        }
    }
}

/// Whether a call was answered by a node that says that it lacks the history.
fn lacks_history(entry: &Entry, adapter: &dyn Adapter) -> bool {
    let CallState::Answered(reply) = &entry.state else { return false };
    if !matches!(reply.from, Source::Node | Source::NodeForAll) {
        return false;
    }
    let answer = match &reply.form {
        Form::Whole(whole) => match &whole.inner {
            Inner::Error(error) | Inner::Failure(error) => error,
            Inner::Result(_) => return false,
        },
        Form::Error(error, _) | Form::Failure(error, _) => error,
        Form::Rest(rest) => &rest.body,
        Form::Result(_) | Form::Stream(_) | Form::Nothing => return false,
    };
    adapter.lacks_history(answer)
}

/// Whether an archive has answered the call already.
fn was_at_archive(pool: &Pool, tally: &Tally, place: usize) -> bool {
    tally.tries.as_slice().iter().any(|one| {
        one.calls.has(place)
            && one.end == TryEnd::Answered
            && one.pool == pool.number()
            && pool.is_archive(one.node)
    })
}
