//! Long calls: they end when their key loses access, and count as streams of their project.
//!
//! A call shorter than [`LASTS`] takes no lock and no timer for this. A longer call is registered with [`OpenStreams`],
//! which watches keys. It then counts as a stream if its client has not sent everything, or once the same time has
//! passed since its answer began. A unary call that waits for its node does not count.

use crate::nodes::timers::TimerPool;
use crate::request::authenticate::key_in;
use crate::websocket::{CallPermit, CloseReason, OpenStreams};
use http::request;
use rpcgate_core::adapter::KeySources;
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The age at which a call counts as long. With the interval at which keys are watched, a call ends within a second
/// after its key, regardless of its age.
const LASTS: Duration = Duration::from_millis(500);

struct Followed {
    permit: CallPermit,
    end: Pin<Box<dyn Future<Output = CloseReason> + Send>>,
}

impl Followed {
    fn new(
        streams: &Arc<OpenStreams>,
        caller: &Arc<Caller>,
        key: Option<&str>,
        chain: ChainName,
    ) -> Box<Self> {
        let permit = streams.follow(caller, key, chain);
        Box::new(Followed { end: Box::pin(permit.end_reason()), permit })
    }

    /// Returns the refusal that a new call would get now, once the call has to end.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Refusal> {
        Poll::Ready(match ready!(self.end.as_mut().poll(cx)) {
            CloseReason::Suspended => Refusal::Suspended,
            CloseReason::OutOfScope => Refusal::OutOfScope,
            CloseReason::Shutdown => Refusal::Stopping,
            _ => Refusal::InvalidKey,
        })
    }
}

/// A call that may become long, before a node has answered it.
pub(super) struct LongCall<'a> {
    streams: &'a Arc<OpenStreams>,
    timers: &'a TimerPool,
    caller: Arc<Caller>,
    chain: ChainName,
    head: &'a request::Parts,
    sources: KeySources,
    followed: Option<Box<Followed>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Interrupted {
    Late,
    Refused(Refusal),
}

impl<'a> LongCall<'a> {
    pub(super) fn new(
        streams: &'a Arc<OpenStreams>,
        timers: &'a TimerPool,
        tally: &Tally,
        head: &'a request::Parts,
    ) -> Self {
        let caller = tally.caller.clone();
        let chain = tally.chain.name();
        let sources = tally.chain.adapter().key_sources();
        LongCall { streams, timers, caller, chain, head, sources, followed: None }
    }

    /// Returns the same call for the work of a second node.
    pub(super) fn another(&self) -> Self {
        LongCall { caller: self.caller.clone(), followed: None, ..*self }
    }

    /// Runs a part of the call's work until `until`. `is_stream` reports whether the call is a stream if it becomes
    /// long.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if the work was not finished.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        is_stream: impl Fn() -> bool,
        until: impl Fn(Instant) -> Instant,
    ) -> Result<T, Interrupted> {
        let mut work = pin!(work);
        let begun = Instant::now();
        let mut lasts = Some(begun + LASTS);
        // One timer serves both limits.
        let mut timer = self.timers.timer(until(begun).min(begun + LASTS));
        let done = poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                if let Some(followed) = &mut self.followed
                    && let Poll::Ready(refusal) = followed.poll_end(cx)
                {
                    return Poll::Ready(Err(Interrupted::Refused(refusal)));
                }
                if timer.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let now = Instant::now();
                let until = until(now);
                if until <= now {
                    return Poll::Ready(Err(Interrupted::Late));
                }
                if lasts.take_if(|lasts| *lasts <= now).is_some()
                    && let Err(refusal) = self.lasts(is_stream())
                {
                    return Poll::Ready(Err(Interrupted::Refused(refusal)));
                }
                timer.reset(lasts.map_or(until, |lasts| lasts.min(until)));
            }
        })
        .await;
        self.timers.keep(timer);
        done
    }

    fn lasts(&mut self, is_stream: bool) -> Result<(), Refusal> {
        let followed = match &mut self.followed {
            Some(followed) => followed,
            none => none.insert(Followed::new(
                self.streams,
                &self.caller,
                key_in(&self.head.headers, &self.head.uri, self.sources).as_deref(),
                self.chain,
            )),
        };
        if is_stream { followed.permit.count() } else { Ok(()) }
    }

    /// Continues with the same call once a node has begun to answer it.
    pub(super) fn answered(self) -> LongAnswer {
        let key = match &self.followed {
            Some(_) => None,
            None => key_in(&self.head.headers, &self.head.uri, self.sources).map(Into::into),
        };
        let streams = self.streams.clone();
        let caller = self.caller;
        let followed = self.followed;
        LongAnswer { streams, caller, chain: self.chain, key, followed, alarm: None }
    }
}

/// A call that may become long, while its answer passes.
pub(super) struct LongAnswer {
    streams: Arc<OpenStreams>,
    caller: Arc<Caller>,
    chain: ChainName,
    key: Option<Box<str>>,
    followed: Option<Box<Followed>>,
    /// The timer after which the call is long, or a stream.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl LongAnswer {
    /// Reports whether the call is registered as long.
    pub(super) fn is_followed(&self) -> bool {
        self.followed.is_some()
    }

    /// Returns the refusal once the call has to end. Poll it when the answer makes no progress, and between its pieces.
    /// `may_be_stream` is true after the first message, when a unary call would be over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, may_be_stream: bool) -> Poll<Refusal> {
        loop {
            if let Some(followed) = &mut self.followed {
                if let Poll::Ready(refusal) = followed.poll_end(cx) {
                    return Poll::Ready(refusal);
                }
                if followed.permit.is_counted() {
                    return Poll::Pending;
                }
                if !may_be_stream {
                    self.alarm = None;
                    return Poll::Pending;
                }
            }
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(LASTS)));
            ready!(alarm.as_mut().poll(cx));
            self.alarm = None;
            let streams = &self.streams;
            let caller = &self.caller;
            let key = self.key.as_deref();
            let followed =
                self.followed.get_or_insert_with(|| Followed::new(streams, caller, key, self.chain));
            if may_be_stream && let Err(refusal) = followed.permit.count() {
                return Poll::Ready(refusal);
            }
        }
    }
}
