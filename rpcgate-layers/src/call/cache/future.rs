//! The future of a set that leads or follows other sets.

use super::singleflight::{EndingLead, LeadOutcome};
use super::{CacheState, Split};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use rpcgate_core::adapter::Permanence;
use rpcgate_core::backend::reply_store::ReplySought;
use rpcgate_core::cache_rule::{CacheDecision, CacheRule};
use rpcgate_core::call::{Cached, CallState, Calls, Settled};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::tally::Tally;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_service::Service;

type Going<O> = Pin<Box<dyn Future<Output = O> + Send>>;

pin_project! {
    /// The answers to a set. If the future is dropped while other sets follow its calls, it is spawned and runs to its
    /// end. `F` is the future of the inner service.
    pub struct CacheFuture<F>
    where
        F: Future,
        F::Output: 'static,
    {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F>
    where
        F: Future,
        F::Output: 'static,
    {
        // The set shares nothing with others.
        Inner { #[pin] inner: F },
        Shared { shared: SharedFuture<F::Output> },
    }
}

impl<F: Future> CacheFuture<F>
where
    F::Output: 'static,
{
    pub(super) fn inner(inner: F) -> Self {
        CacheFuture { state: State::Inner { inner } }
    }
}

impl<F, E> CacheFuture<F>
where
    F: Future<Output = Result<Calls<Settled>, E>> + Send,
    E: 'static,
{
    pub(super) fn shared<S>(task: CacheTask<S>) -> Self
    where
        S: Service<Calls<Cached>, Response = Calls<Settled>, Error = E, Future = F> + Send + 'static,
    {
        let leading = Arc::<Mutex<Split>>::default();
        let shared = task.shared.clone();
        let going: Going<F::Output> = Box::pin(task.go(leading.clone()));
        CacheFuture { state: State::Shared { shared: SharedFuture { going: Some(going), leading, shared } } }
    }
}

impl<F: Future> Future for CacheFuture<F>
where
    F::Output: 'static,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project().state.project() {
            StateProjection::Inner { inner } => inner.poll(cx),
            StateProjection::Shared { shared } => Pin::new(shared).poll(cx),
        }
    }
}

impl<F: Future> fmt::Debug for CacheFuture<F>
where
    F::Output: 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CacheFuture");
        if let State::Shared { shared } = &self.state {
            shown.field("leading", &shared.leading);
        }
        shown.finish_non_exhaustive()
    }
}

/// The future of a set that leads or follows.
struct SharedFuture<O: 'static> {
    going: Option<Going<O>>,
    /// The calls that the set leads at the moment. The task writes it; `drop` reads it.
    leading: Arc<Mutex<Split>>,
    shared: Arc<CacheState>,
}

impl<O> Future for SharedFuture<O> {
    type Output = O;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O> {
        // The future is taken out while it is polled, so that it is not spawned after a panic.
        let Some(mut going) = self.going.take() else { return Poll::Pending };
        let done = going.as_mut().poll(cx);
        if done.is_pending() {
            self.going = Some(going);
        }
        done
    }
}

impl<O: 'static> Drop for SharedFuture<O> {
    fn drop(&mut self) {
        let Some(going) = self.going.take() else { return };
        let followed = self.leading.lock().is_followed();
        if followed {
            self.shared.spawn.spawn(Box::pin(async {
                drop(going.await);
            }));
        }
    }
}

pub(super) struct CacheTask<S> {
    pub(super) shared: Arc<CacheState>,
    /// Has been polled ready.
    pub(super) inner: S,
    pub(super) calls: Calls<Cached>,
    pub(super) split: Split,
}

impl<S> CacheTask<S>
where
    S: Service<Calls<Cached>, Response = Calls<Settled>>,
{
    async fn go(self, leading: Arc<Mutex<Split>>) -> Result<Calls<Settled>, S::Error> {
        let CacheTask { shared, mut inner, mut calls, mut split } = self;
        let mut deadline = None;
        let mut was_refused = false;
        loop {
            let follows = std::mem::take(&mut split.follows);
            let lookup = LookupState { head: split.head, epoch: split.epoch };
            if !follows.is_empty() && deadline.is_none() {
                deadline = Some(shared.clock.elapsed() + calls.tally().chain.timeout());
            }
            *leading.lock() = split;
            let mut settled = inner.call(calls).await?;
            // The followers of this set get their answers before it waits for any other set.
            let leads = std::mem::take(&mut leading.lock().leads);
            let tally = settled.tally();
            let mut now = None;
            leads.land(
                |index, lead| {
                    if let Some(CallState::Answered(Reply { form, from })) = state(tally, index)
                        && !matches!(from, Source::NodeForAll | Source::Unserved)
                    {
                        keep(&shared, tally, index, lookup, lead, form, &mut now);
                    }
                },
                |index| landing(tally, index),
            );
            let own = settled.tally().caller.project;
            let is_second = was_refused;
            let mut lost = false;
            for (index, follow) in &follows {
                let left = deadline.unwrap_or_default().saturating_sub(shared.clock.elapsed());
                let landing = tokio::time::timeout(left, follow.landing()).await;
                let state = match landing.unwrap_or(LeadOutcome::Failed(Fault::unsent(Cause::Timeout))) {
                    LeadOutcome::Answered(form) => CallState::Answered(Reply { form, from: Source::Shared }),
                    LeadOutcome::Unserved(form) => {
                        CallState::Answered(Reply { form, from: Source::Unserved })
                    }
                    // The leader's bytes were sent, not those of this call.
                    LeadOutcome::Failed(fault) => CallState::Failed(Fault { sent: false, ..fault }),
                    // Perhaps only the leader's project was refused. If all projects are, the next leader is refused
                    // too.
                    LeadOutcome::Refused(Refusal::Overloaded, project) if project != own && !is_second => {
                        (lost, was_refused) = (true, true);
                        CallState::Open
                    }
                    LeadOutcome::Refused(refusal, _) => CallState::Refused(refusal),
                    LeadOutcome::Lost | LeadOutcome::Unshared => {
                        lost = true;
                        CallState::Open
                    }
                };
                if let Some(entry) = settled.tally_mut().entries.get_mut(*index) {
                    entry.state = state;
                }
            }
            if !lost {
                return Ok(settled);
            }
            // The followers of a lost leader look again, and one of them leads next.
            let mut again = Calls::new(settled.into_tally());
            again.tally_mut().deadline = deadline;
            split = shared.split(again.tally_mut());
            calls = again.at();
            poll_fn(|cx| inner.poll_ready(cx)).await?;
        }
    }
}

/// Returns the outcome for followers: the leader's own, failures included. In three cases the outcome says nothing
/// about a single call, so each follower sends its own: a node gave one answer for a whole array, the answers to an
/// array were too large together, or the leader had waited for another call before and so had less time than a new
/// call.
fn landing(tally: &Tally, index: usize) -> LeadOutcome {
    match state(tally, index) {
        Some(CallState::Answered(reply)) if reply.from == Source::NodeForAll => LeadOutcome::Lost,
        Some(CallState::Failed(fault)) if fault.cause == Cause::Oversize && tally.entries.len() > 1 => {
            LeadOutcome::Lost
        }
        Some(CallState::Failed(fault)) if fault.cause == Cause::Timeout && tally.deadline.is_some() => {
            LeadOutcome::Lost
        }
        Some(CallState::Answered(reply)) if reply.from == Source::Unserved => {
            LeadOutcome::Unserved(reply.form.shared())
        }
        Some(CallState::Answered(reply)) => LeadOutcome::Answered(reply.form.shared()),
        Some(CallState::Failed(fault)) => LeadOutcome::Failed(*fault),
        Some(CallState::Refused(refusal)) => LeadOutcome::Refused(*refusal, tally.caller.project),
        _ => LeadOutcome::Lost,
    }
}

fn state(tally: &Tally, index: usize) -> Option<&CallState> {
    tally.entries.get(index).map(|entry| &entry.state)
}

/// The state of a chain before a set was sent to its nodes. Before the answer arrives, its block may be replaced, or
/// the nodes may turn out to be on another network.
#[derive(Clone, Copy)]
struct LookupState {
    /// The newest height of the chain.
    head: Option<u64>,
    epoch: u32,
}

/// Stores the content of `form`, the answer of `lead`, for the time that the adapter allows. `now` is read once for all
/// results of a set.
fn keep(
    shared: &CacheState,
    tally: &Tally,
    index: usize,
    lookup: LookupState,
    lead: EndingLead<'_>,
    form: &Form,
    now: &mut Option<Duration>,
) {
    let Some(entry) = tally.entries.get(index) else { return };
    let Some(result) = form.content().filter(|_| !form.is_error()) else { return };
    let rule: CacheRule = entry.call.rule.cache;
    let view = entry.call.view(&tally.body, tally.chain.name());
    let keep = match tally.chain.adapter().settled(view, result, &tally.chain.finality().as_of(lookup.head)) {
        Permanence::Unknown => CacheDecision::No,
        Permanence::Yes => rule.keep(true),
        Permanence::NotYet => rule.keep(false),
    };
    let expires_at = match keep {
        CacheDecision::No => return,
        CacheDecision::Forever => None,
        CacheDecision::For(time) => {
            let now = *now.get_or_insert_with(|| shared.clock.elapsed());
            if lead.is_superseded(now) {
                return;
            }
            Some(now + time)
        }
    };
    if let Some(stored) = form.stored() {
        let sought = ReplySought::again(lead.hash(), tally.chain.name(), view.sent, view.params)
            .in_epoch(lookup.epoch);
        shared.replies.put(&sought, &stored, expires_at);
    }
}
