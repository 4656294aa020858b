//! Upstream: the layer at the end of the stack, which sends what is still open to a node.
//!
//! A set of one travels under the client's own id, so a node's answer passes as it is; a call that may be cached, whose
//! answer others may be waiting for, travels with nothing of its client but method and parameters. Calls of a larger set are sent
//! under their places in it, together where the chain and its nodes take arrays; a broadcast always travels alone. It
//! refuses with [`Refusal::Overloaded`] when too many calls to the chain are under way; whatever else goes wrong is a
//! [`Fault`] of the call it happened to, never of its neighbours.
//!
//! It promises no order between the calls of a set: a node may work on them at the same time.
//!
//! ```
//! use rpcgate_core::envelope::{Limits, Parsed, WireId, parse};
//!
//! let body = br#"{"id":"mine","params":[1.50],"extra":1,"method":"toy_r\u0065ad"}"#;
//! let Ok(Parsed::Single(Ok(call))) = parse(body, &Limits::default()) else { panic!("a call") };
//! let mut sent = Vec::new();
//! call.write(body, WireId::Index(3), &mut sent);
//! assert_eq!(sent, br#"{"id":3,"method":"toy_read","params":[1.50]}"#);
//! ```

use super::classify::{Answer, Wanted};
use super::progress::Sent;
use super::{NodeAnswer, NodeRequest, NodeRequestError, Pool};
use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use futures_util::future::{Either, join_all};
use parking_lot::Mutex;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::call::{Before, CallState, Calls, Payload, Settled};
use rpcgate_core::chain::{ChainName, Flags};
use rpcgate_core::envelope::WireId;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Reply, Source};
use rpcgate_core::tally::{Entries, Tally};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_service::Service;

/// The node pools of all chains.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    by_chain: HashMap<ChainName, Arc<Pool>, RandomState>,
}

impl Pools {
    /// The pool of a chain.
    pub fn get(&self, chain: ChainName) -> Option<&Arc<Pool>> {
        self.by_chain.get(&chain)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.by_chain.values()
    }
}

impl FromIterator<Arc<Pool>> for Pools {
    fn from_iter<I: IntoIterator<Item = Arc<Pool>>>(pools: I) -> Self {
        Pools { by_chain: pools.into_iter().map(|pool| (pool.chain(), pool)).collect() }
    }
}

/// Sends calls to nodes.
#[derive(Clone, Debug)]
pub struct Upstream {
    pools: Arc<ArcSwap<Pools>>,
    limits: ReplyLimits,
}

/// How much of an answer is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyLimits {
    /// Bytes of the answer to a set of one. A larger one passes to the client as it comes, and is never cached.
    pub buffer: usize,
    /// Bytes of what must be held whole: the answer to a node request for several calls, or to a call that may be
    /// cached. A larger one is a backend failure.
    pub max: usize,
}

impl Default for ReplyLimits {
    /// 256 KiB and 64 MiB.
    fn default() -> Self {
        ReplyLimits { buffer: 256 << 10, max: 64 << 20 }
    }
}

impl Upstream {
    /// A layer that asks `pools`, also after they have been replaced.
    pub fn new(pools: Arc<ArcSwap<Pools>>) -> Self {
        Upstream { pools, limits: ReplyLimits::default() }
    }

    /// The same layer with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ReplyLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl<A: Before<Settled>> Service<Calls<A>> for Upstream {
    type Response = Calls<Settled>;
    type Error = Infallible;
    type Future = Either<
        Ready<Result<Calls<Settled>, Infallible>>,
        BoxFuture<'static, Result<Calls<Settled>, Infallible>>,
    >;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, calls: Calls<A>) -> Self::Future {
        let mut calls: Calls<Settled> = calls.at();
        let tally = calls.tally_mut();
        if !tally.has_open() {
            return Either::Left(ready(Ok(calls)));
        }
        let Some(pool) = self.pools.load().get(tally.chain.name()).cloned() else {
            for entry in tally.entries.iter_mut().filter(|entry| entry.is_open()) {
                entry.state = CallState::Failed(Fault::unsent(Cause::NoNode));
            }
            return Either::Left(ready(Ok(calls)));
        };
        let limits = self.limits;
        Either::Right(Box::pin(async move {
            forward(&pool, calls.tally_mut(), limits).await;
            Ok(calls)
        }))
    }
}

/// One request to a node: the places of the calls in it, and its bytes.
struct Load {
    places: SmallVec<[usize; 1]>,
    body: Vec<u8>,
    broadcast: bool,
    /// Whether it is a call, not an array of them.
    alone: bool,
    /// Whether its answer must be held whole.
    held: bool,
}

impl Load {
    fn wanted(&self, tally: &Tally) -> Wanted {
        let silent = |place: &usize| tally.entries[*place].call.is_notification(&tally.body);
        match self.alone {
            _ if self.places.iter().all(silent) => Wanted::Nothing,
            true => Wanted::One,
            false => Wanted::Many,
        }
    }
}

async fn forward(pool: &Pool, tally: &mut Tally, limits: ReplyLimits) {
    if let [entry] = &tally.entries[..]
        && matches!(entry.call.payload, Payload::Rest(_))
    {
        return super::rest::forward(pool, tally, limits).await;
    }
    let path = tally.chain.adapter().rpc_path();
    let mut loads = loads(pool, tally);
    match loads.pop() {
        // One request, the rule, needs no list of futures.
        Some(load) if loads.is_empty() => {
            let (mut room, wanted) = (tally.room.sibling(), load.wanted(tally));
            let Load { places, body, broadcast, alone, held } = load;
            let mut ask = ask(body, broadcast, held, limits).posted_to(path);
            let (until, entries) = (tally.deadline, &mut tally.entries);
            let answer = {
                let mut unsettled = Unsettled::new(|| note_sent(entries, &places));
                let answer =
                    ask_classified(pool, &mut ask, (wanted, until), &mut room, &mut unsettled.hears()).await;
                unsettled.end();
                answer
            };
            tally.room.absorb(room);
            settle(tally, &places, alone, answer);
        }
        Some(last) => {
            loads.push(last);
            Box::pin(forward_all(pool, tally, loads, limits)).await;
        }
        None => {}
    }
}

async fn forward_all(pool: &Pool, tally: &mut Tally, loads: SmallVec<[Load; 1]>, limits: ReplyLimits) {
    let path = tally.chain.adapter().rpc_path();
    let room = tally.room.sibling();
    let wanted: SmallVec<[Wanted; 8]> = loads.iter().map(|load| load.wanted(tally)).collect();
    let until = tally.deadline;
    let entries = Mutex::new(&mut tally.entries);
    let answers = loads.into_iter().zip(wanted).map(|(load, wanted)| {
        let (mut room, entries) = (room.sibling(), &entries);
        async move {
            let Load { places, body, broadcast, alone, held } = load;
            let mut ask = ask(body, broadcast, held, limits).posted_to(path);
            let answer = {
                // One that is answered is unsettled until all are.
                let mut unsettled = Unsettled::new(|| note_sent(&mut entries.lock(), &places));
                ask_classified(pool, &mut ask, (wanted, until), &mut room, &mut unsettled.hears()).await
            };
            (places, alone, answer, room)
        }
    });
    for (places, alone, answer, room) in join_all(answers).await {
        tally.room.absorb(room);
        settle(tally, &places, alone, answer);
    }
}

/// Calls that a node is asked. If they are given up although a byte of them may have reached it, because their client left,
/// that is noted of them: they were made.
struct Unsettled<F: FnMut()> {
    is_sent: bool,
    note: F,
}

impl<F: FnMut()> Unsettled<F> {
    fn new(note: F) -> Self {
        Unsettled { is_sent: false, note }
    }

    /// What hears whether a byte may have reached a node.
    fn hears(&mut self) -> impl FnMut(bool) + use<'_, F> {
        |is_sent| self.is_sent = is_sent
    }

    /// They are about to be settled.
    fn end(mut self) {
        self.is_sent = false;
    }
}

impl<F: FnMut()> Drop for Unsettled<F> {
    fn drop(&mut self) {
        if self.is_sent {
            (self.note)();
        }
    }
}

fn note_sent(entries: &mut Entries, places: &[usize]) {
    for place in places {
        if let Some(entry) = entries.get_mut(*place) {
            entry.state = CallState::Sent;
        }
    }
}

fn ask(body: Vec<u8>, broadcast: bool, held: bool, limits: ReplyLimits) -> NodeRequest {
    let collect = if held { limits.max } else { limits.buffer };
    NodeRequest { broadcast, collect, largest: limits.max, ..NodeRequest::json_rpc(body.into()) }
}

/// Settles the calls at `places` with what came of their request.
fn settle(tally: &mut Tally, places: &[usize], alone: bool, answer: Result<Answer, Nothing>) {
    let whole = !tally.batch;
    let chain = tally.chain.clone();
    match answer {
        Err(nothing) => {
            for place in places {
                tally.entries[*place].state = nothing.state();
            }
        }
        Ok(answer) if alone => {
            let place = places[0];
            let number = base(tally) + place;
            let Tally { entries, body, passing, .. } = tally;
            let entry = &mut entries[place];
            let id = entry.call.id(body);
            let silent = entry.call.is_notification(body);
            entry.state = match answer.one(&chain, (id, number), whole, silent) {
                Ok((form, headers)) => {
                    if whole {
                        *passing = headers;
                    }
                    CallState::Answered(Reply { form, from: Source::Node })
                }
                Err(fault) => CallState::Failed(fault),
            };
        }
        Ok(answer) => answer.many(tally, places),
    }
}

/// Parts the open calls into requests to a node.
fn loads(pool: &Pool, tally: &Tally) -> SmallVec<[Load; 1]> {
    let largest = pool.max_batch();
    let together = tally.chain.facts().batch && largest > 1;
    let mut loads: SmallVec<[Load; 1]> = SmallVec::new();
    let mut open = 0;
    let mut array: Option<Load> = None;
    for (place, entry) in tally.entries.iter().enumerate().filter(|(_, entry)| entry.is_open()) {
        if !matches!(entry.call.payload, Payload::JsonRpc(_)) {
            continue;
        }
        open += 1;
        let broadcast = entry.call.rule.flags.has(Flags::BROADCAST);
        if broadcast || !together || !tally.batch {
            let mut body = Vec::with_capacity(entry.call.len() + 32);
            let id = entry.call.id(&tally.body);
            let silent = tally.batch && id.is_none();
            let is_odd = id.is_some_and(is_odd);
            let id = if silent || is_odd { WireId::Index(base(tally) + place) } else { WireId::Own };
            write(tally, place, id, &mut body);
            // Others may wait for what can be cached, and nobody can wait for a stream. What was sent under another id has
            // to be written anew.
            let held = tally.batch || is_odd || entry.call.rule.cache.is_cached();
            loads.push(Load { places: SmallVec::from_buf([place]), body, broadcast, alone: true, held });
            continue;
        }
        if array.as_ref().is_some_and(|load| load.places.len() >= largest) {
            loads.extend(array.take());
        }
        let load = array.get_or_insert_with(|| Load {
            places: SmallVec::with_capacity((tally.entries.len() - place).min(largest)),
            body: Vec::with_capacity(tally.body.len() + 64),
            broadcast: false,
            alone: false,
            held: true,
        });
        load.body.push(if load.places.is_empty() { b'[' } else { b',' });
        write(tally, place, WireId::Index(base(tally) + place), &mut load.body);
        load.places.push(place);
    }
    loads.extend(array);
    for load in loads.iter_mut().filter(|load| !load.alone) {
        if let [place] = load.places[..] {
            // Nodes answer a lone call faster than an array of one, and some tell more in its HTTP status.
            load.alone = true;
            load.body.clear();
            write(tally, place, WireId::Index(base(tally) + place), &mut load.body);
        } else {
            load.body.push(b']');
        }
    }
    debug_assert_eq!(open, loads.iter().map(|load| load.places.len()).sum::<usize>());
    loads
}

/// The number under which the call at place 0 of a set is sent when it is not sent under its own id: another for every
/// set, so that an answer that a node meant for an earlier call on the same connection is not taken for this one's.
pub(super) fn base(tally: &Tally) -> usize {
    const PLACES: usize = 128;
    (tally.request.0 as u32 as usize) * PLACES
}

/// Whether an id is neither a string, a number nor null (JSON-RPC 2.0, section 4), which nodes refuse: geth takes a call
/// with an object or an array for no call at all.
fn is_odd(id: &[u8]) -> bool {
    matches!(id.first(), Some(b'{' | b'[' | b't' | b'f'))
}

/// Writes the call at `place` for a node.
fn write(tally: &Tally, place: usize, id: WireId<'_>, out: &mut Vec<u8>) {
    let call = &tally.entries[place].call;
    let Payload::JsonRpc(envelope) = &call.payload else { return };
    if call.rule.cache.is_cached() && !envelope.is_notification(&tally.body) {
        let version = tally.chain.facts().dialect.version();
        envelope.write_anonymous(&tally.body, version, base(tally) + place, out);
    } else {
        envelope.write(&tally.body, id, out);
    }
}

/// Why a request to a node brought nothing.
#[derive(Clone, Copy)]
pub(super) enum Nothing {
    Fault(Fault),
    Busy,
}

impl Nothing {
    pub(super) fn state(self) -> CallState {
        match self {
            Nothing::Fault(fault) => CallState::Failed(fault),
            Nothing::Busy => CallState::Refused(Refusal::Overloaded),
        }
    }
}

/// Asks a node, and once another one when what came is no answer and the call may be repeated.
fn ask_classified<'a>(
    pool: &'a Pool,
    ask: &'a mut NodeRequest,
    (wanted, until): (Wanted, Option<Duration>),
    room: &'a mut MemoryPermit,
    told: &'a mut Sent<'_>,
) -> impl Future<Output = Result<Answer, Nothing>> {
    let held = ask.collect >= ask.largest;
    asked(pool, ask, until, room, told, move |answer| Answer::classify(answer, wanted, held))
}

/// The same for answers that `classify` knows how to read. All of it takes no longer than a call may, or `until` that moment
/// where it comes sooner; `told` hears whether a byte may have reached a node. A future is copied to where it is polled, so
/// this one borrows what is large.
pub(super) async fn asked<T>(
    pool: &Pool,
    ask: &mut NodeRequest,
    until: Option<Duration>,
    room: &mut MemoryPermit,
    told: &mut Sent<'_>,
    classify: impl Fn(NodeAnswer) -> Result<T, Fault>,
) -> Result<T, Nothing> {
    pool.earn();
    let mut now = pool.elapsed();
    let until = until.unwrap_or(Duration::MAX).min(now.saturating_add(pool.timeout()));
    let mut first: Option<Fault> = None;
    loop {
        let mut hears = |is_sent| told(is_sent || first.is_some());
        let answer = match pool.ask_within(ask, room, until.saturating_sub(now), &mut hears).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(chain = %pool.chain(), %error, "no answer from a node");
                return Err(match (first, error) {
                    // What the first node made of it says more than that there was no second.
                    (Some(fault), _) | (None, NodeRequestError::Fault(fault)) => Nothing::Fault(fault),
                    (None, NodeRequestError::Busy) => Nothing::Busy,
                });
            }
        };
        let (node, stay) = (answer.node, answer.retry_after());
        match classify(answer) {
            Ok(answer) => {
                pool.record_success(node);
                return Ok(answer);
            }
            Err(fault) => {
                pool.record_failure(node, fault, stay);
                tracing::debug!(chain = %pool.chain(), %fault, "a node's answer is no answer");
                let others = pool.nodes().len() > 1;
                let may_repeat = first.is_none() && !ask.broadcast && others && fault.may_retry(true);
                // A node that answers badly under load is not met with twice the load either.
                if !may_repeat || !pool.may_repeat() {
                    return Err(Nothing::Fault(first.unwrap_or(fault)));
                }
                first = Some(fault);
                ask.avoid = Some(node);
                now = pool.elapsed();
            }
        }
    }
}

#[cfg(test)]
mod tests;
