//! JSON-RPC calls to the nodes: they are sent in as few requests as possible, and settled according to their answers.

use super::classify::{Answer, ErrorJudge, Expected};
use super::limits::ReplyLimits;
use super::requests::{OutgoingRequest, split};
use super::round::{Round, name_ids, unanswered};
use crate::nodes::reception::ReceptionReader;
use crate::nodes::{NodeRequestError, Pool};
use crate::transport::h1::NodeRequest;
use futures_util::future::join_all;
use parking_lot::Mutex;
use rpcgate_core::call::CallState;
use rpcgate_core::chain::Chain;
use rpcgate_core::reply::Reply;
use rpcgate_core::tally::{Entries, Tally};
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) async fn forward(pool: &Pool, tally: &mut Tally, limits: ReplyLimits, round: Round) {
    let path = tally.chain.adapter().rpc_path();
    let mut requests = split(pool, tally, round);
    match requests.pop() {
        // The usual single request needs no list of futures.
        Some(request) if requests.is_empty() => {
            let mut memory = tally.memory.sibling();
            let expected = request.expected(tally);
            let (indexes, is_array, request) =
                node_request(pool, &tally.chain, request, expected, limits, round);
            let request = request.posted_to(path);
            tally.tries.set_calls(indexes.iter().copied());
            let adapter = tally.chain.adapter();
            let deadline = tally.deadline;
            let entries = &mut tally.entries;
            let tries = &mut tally.tries;
            let answer = {
                let mut unsettled = Unsettled::new(round.was_sent, || mark_sent(entries, &indexes));
                let must_fit = request.buffer >= request.max;
                let judge = ErrorJudge { adapter, is_listed: request.method_name.is_some() };
                let classify = |answer| Answer::classify(answer, expected, must_fit, judge, &limits);
                let answer = pool
                    .ask_classified(
                        &request,
                        deadline,
                        &mut memory,
                        (&mut unsettled.on_sent(), tries),
                        classify,
                    )
                    .await;
                unsettled.end();
                answer
            };
            tally.memory.absorb(memory);
            settle(tally, &indexes, is_array, answer);
            name_ids(pool, &mut tally.entries, &indexes, &tally.tries);
        }
        Some(last) => {
            requests.push(last);
            Box::pin(forward_all(pool, tally, requests, limits, round)).await;
        }
        None => {}
    }
}

async fn forward_all(
    pool: &Pool,
    tally: &mut Tally,
    requests: SmallVec<[OutgoingRequest; 1]>,
    limits: ReplyLimits,
    round: Round,
) {
    let path = tally.chain.adapter().rpc_path();
    let memory = tally.memory.sibling();
    let expected: SmallVec<[Expected; 8]> = requests.iter().map(|request| request.expected(tally)).collect();
    let deadline = tally.deadline;
    let chain = tally.chain.clone();
    let none = tally.tries.of_same_calls();
    let entries = Mutex::new(&mut tally.entries);
    let answers = requests.into_iter().zip(expected).map(|(request, expected)| {
        let mut memory = memory.sibling();
        let entries = &entries;
        let chain = &chain;
        let mut tries = none.of_same_calls();
        async move {
            let (indexes, is_array, request) = node_request(pool, chain, request, expected, limits, round);
            let request = request.posted_to(path);
            tries.set_calls(indexes.iter().copied());
            let answer = {
                // Answered calls are unsettled until all are answered.
                let mut unsettled =
                    Unsettled::new(round.was_sent, || mark_sent(&mut entries.lock(), &indexes));
                let must_fit = request.buffer >= request.max;
                let judge = ErrorJudge { adapter: chain.adapter(), is_listed: request.method_name.is_some() };
                let classify = |answer| Answer::classify(answer, expected, must_fit, judge, &limits);
                pool.ask_classified(
                    &request,
                    deadline,
                    &mut memory,
                    (&mut unsettled.on_sent(), &mut tries),
                    classify,
                )
                .await
            };
            (indexes, is_array, answer, (memory, tries))
        }
    });
    for (indexes, is_array, answer, (memory, tries)) in join_all(answers).await {
        tally.memory.absorb(memory);
        tally.tries.append(&tries);
        settle(tally, &indexes, is_array, answer);
        name_ids(pool, &mut tally.entries, &indexes, &tries);
    }
}

/// The calls of a request that is not settled. If this is dropped after a byte may have reached a node, because the
/// client left, the calls are marked as sent: they were made, and are charged.
struct Unsettled<F: FnMut()> {
    is_sent: bool,
    was_sent: bool,
    mark: F,
}

impl<F: FnMut()> Unsettled<F> {
    fn new(was_sent: bool, mark: F) -> Self {
        Unsettled { is_sent: false, was_sent, mark }
    }

    /// Returns the callback for whether a byte may have reached a node.
    fn on_sent(&mut self) -> impl FnMut(bool) + use<'_, F> {
        |is_sent| self.is_sent = is_sent
    }

    fn end(mut self) {
        (self.is_sent, self.was_sent) = (false, false);
    }
}

impl<F: FnMut()> Drop for Unsettled<F> {
    fn drop(&mut self) {
        if self.is_sent || self.was_sent {
            (self.mark)();
        }
    }
}

fn mark_sent(entries: &mut Entries, indexes: &[usize]) {
    for index in indexes {
        if let Some(entry) = entries.get_mut(*index) {
            entry.state = CallState::Sent;
        }
    }
}

/// Returns the positions of the calls in a request, whether they are an array, and the request for the node.
fn node_request(
    pool: &Pool,
    chain: &Arc<Chain>,
    request: OutgoingRequest,
    expected: Expected,
    limits: ReplyLimits,
    round: Round,
) -> (SmallVec<[usize; 1]>, bool, NodeRequest) {
    let OutgoingRequest {
        indexes,
        body,
        among,
        method,
        hedge,
        is_broadcast,
        is_sent_once,
        is_array,
        is_held,
        batchable,
    } = request;
    let request = NodeRequest {
        broadcast: is_sent_once,
        buffer: limits.buffer(is_held),
        max: limits.max,
        number: expected.number(),
        among,
        calls: u32::try_from(indexes.len()).unwrap_or(u32::MAX),
        choice: round.choice,
        method_name: method,
        hedge,
        reader: reader(pool, chain, is_broadcast),
        batchable,
        ..NodeRequest::json_rpc(body.into())
    };
    (indexes, is_array, request)
}

fn reader(pool: &Pool, chain: &Arc<Chain>, is_broadcast: bool) -> Option<ReceptionReader> {
    let is_for_several = is_broadcast && pool.has_broadcasts_to_several();
    is_for_several.then(|| ReceptionReader { chain: chain.clone(), is_rest: false })
}

fn settle(tally: &mut Tally, indexes: &[usize], is_array: bool, answer: Result<Answer, NodeRequestError>) {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            for index in indexes {
                tally.entries[*index].state = unanswered(error);
            }
            return;
        }
    };
    if is_array {
        return answer.settle_array(tally, indexes);
    }
    let is_complete = !tally.batch;
    let chain = tally.chain.clone();
    let index = indexes[0];
    let Tally { entries, body, passing, .. } = tally;
    let entry = &mut entries[index];
    let from = answer.source();
    entry.state = match answer.single(&chain, &entry.call, body, is_complete) {
        Ok((form, headers)) => {
            if is_complete {
                *passing = headers;
            }
            CallState::Answered(Reply { form, from })
        }
        Err(fault) => CallState::Failed(fault),
    };
}
