//! Calls that last: they end when their key may not call any more, and count as streams of their project.
//!
//! A call that is over within [`LASTS`] is not noted anywhere: it takes no lock and has no timer for this. One that takes
//! longer is followed by [`OpenStreams`], which watches keys. It counts as a stream from then on if its client has not
//! sent all of it, or if so much time has passed since its answer began; a unary call that waits for its node does not.

use crate::nodes::timers::TimerPool;
use crate::request::authenticate::key_in;
use crate::websocket::{CallPermit, CloseReason, OpenStreams};
use http::request;
use rpcgate_core::adapter::KeyPlaces;
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

/// The time after which a call lasts. With the interval at which keys are watched, a call ends within a second of its key
/// however young it is.
const LASTS: Duration = Duration::from_millis(500);

/// A call that is followed.
struct Followed {
    permit: CallPermit,
    told: Pin<Box<dyn Future<Output = CloseReason> + Send>>,
}

impl Followed {
    fn new(
        streams: &Arc<OpenStreams>,
        caller: &Arc<Caller>,
        key: Option<&str>,
        chain: ChainName,
    ) -> Box<Self> {
        let permit = streams.follow(caller, key, chain);
        Box::new(Followed { told: Box::pin(permit.told_to_end()), permit })
    }

    /// Why it has to end: the refusal that it would get if it began now.
    fn poll_told(&mut self, cx: &mut Context<'_>) -> Poll<Refusal> {
        Poll::Ready(match ready!(self.told.as_mut().poll(cx)) {
            CloseReason::Suspended => Refusal::Suspended,
            CloseReason::OutOfScope => Refusal::OutOfScope,
            CloseReason::Shutdown => Refusal::Stopping,
            _ => Refusal::InvalidKey,
        })
    }
}

/// A call that may last, before a node has answered it.
pub(super) struct Lasting<'a> {
    streams: &'a Arc<OpenStreams>,
    timers: &'a TimerPool,
    caller: Arc<Caller>,
    chain: ChainName,
    head: &'a request::Parts,
    places: KeyPlaces,
    followed: Option<Box<Followed>>,
}

/// Why work on a call does not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Interrupted {
    /// Its time is over.
    Late,
    /// The call has to end.
    Refused(Refusal),
}

impl<'a> Lasting<'a> {
    /// The call of `tally` with this head.
    pub(super) fn new(
        (streams, timers): (&'a Arc<OpenStreams>, &'a TimerPool),
        tally: &Tally,
        head: &'a request::Parts,
    ) -> Self {
        let (caller, chain) = (tally.caller.clone(), tally.chain.name());
        let places = tally.chain.adapter().key_places();
        Lasting { streams, timers, caller, chain, head, places, followed: None }
    }

    /// The same for the work of another node on the call.
    pub(super) fn another(&self) -> Self {
        Lasting { caller: self.caller.clone(), followed: None, ..*self }
    }

    /// Does a part of the call's work, for as long as `until` says. `is_stream`: whether it is a stream if it lasts.
    ///
    /// # Errors
    /// [`Interrupted`] if the work was not done.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        is_stream: impl Fn() -> bool,
        until: impl Fn(Instant) -> Instant,
    ) -> Result<T, Interrupted> {
        let mut work = pin!(work);
        let begun = Instant::now();
        let mut lasts = Some(begun + LASTS);
        // One timer for both.
        let mut timer = self.timers.timer(until(begun).min(begun + LASTS));
        let done = poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                if let Some(followed) = &mut self.followed
                    && let Poll::Ready(refusal) = followed.poll_told(cx)
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

    /// Notes that the call lasts.
    fn lasts(&mut self, is_stream: bool) -> Result<(), Refusal> {
        let followed = match &mut self.followed {
            Some(followed) => followed,
            none => none.insert(Followed::new(
                self.streams,
                &self.caller,
                key_in(&self.head.headers, &self.head.uri, self.places).as_deref(),
                self.chain,
            )),
        };
        if is_stream { followed.permit.count() } else { Ok(()) }
    }

    /// The same call once a node has begun to answer it.
    pub(super) fn answered(self) -> LastingAnswer {
        let key = match &self.followed {
            Some(_) => None,
            None => key_in(&self.head.headers, &self.head.uri, self.places).map(Into::into),
        };
        let (streams, caller, followed) = (self.streams.clone(), self.caller, self.followed);
        LastingAnswer { streams, caller, chain: self.chain, key, followed, alarm: None }
    }
}

/// A call that may last, while its answer passes.
pub(super) struct LastingAnswer {
    streams: Arc<OpenStreams>,
    caller: Arc<Caller>,
    chain: ChainName,
    key: Option<Box<str>>,
    followed: Option<Box<Followed>>,
    /// When it lasts, or is a stream.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl LastingAnswer {
    /// Whether the call has lasted for long enough to be followed.
    pub(super) fn is_followed(&self) -> bool {
        self.followed.is_some()
    }

    /// Why the call has to end. It is to be polled whenever the answer makes no progress, and between its pieces.
    /// `may_be_stream`: whether its first message has passed, so that a unary call would be over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, may_be_stream: bool) -> Poll<Refusal> {
        loop {
            if let Some(followed) = &mut self.followed {
                if let Poll::Ready(refusal) = followed.poll_told(cx) {
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
            let (streams, caller, key) = (&self.streams, &self.caller, self.key.as_deref());
            let followed =
                self.followed.get_or_insert_with(|| Followed::new(streams, caller, key, self.chain));
            if may_be_stream && let Err(refusal) = followed.permit.count() {
                return Poll::Ready(refusal);
            }
        }
    }
}
