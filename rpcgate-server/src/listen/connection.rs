//! The future of a connection: hyper's own future, with deadlines.

use super::connection_state::Phase;
use super::connections::ConnectionHandle;
use super::reader::{ReadPace, Stall};
use hyper::body::{Body, Incoming};
use hyper::rt::bounds::Http2ServerConnExec;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use pin_project_lite::pin_project;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep};

/// The time limits of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Timeouts {
    /// For a head, from its first byte.
    pub(super) head: Duration,
    /// Without any activity: no request, and no byte of the last answer read.
    pub(super) idle: Duration,
    pub(super) reading: ReadPace,
}

/// The idle limit after a stream was reset because its client did not read the answer.
const IDLE_AFTER_RESET: Duration = Duration::from_secs(1);

/// The time that an early refused client may continue to send before its connection is closed for good.
const LINGER: Duration = Duration::from_secs(10);

/// The same during a drain: a client that keeps sending on a half-closed connection must not delay it.
const DRAIN_LINGER: Duration = Duration::from_secs(1);

/// The idle limit of an HTTP/1 connection in a drain. An immediate close would cut off a request on its way.
const DRAIN_IDLE: Duration = Duration::from_secs(1);

/// A connection that can be closed gracefully.
pub(super) trait Serve: Future<Output = hyper::Result<()>> {
    /// The protocol itself announces the end of the connection, and which requests are still answered.
    const ANNOUNCES_END: bool;

    /// Ends the connection once the requests in flight are answered.
    fn leave(self: Pin<&mut Self>);
}

/// Ends when a WebSocket stream takes over its socket.
impl<I, B, S> Serve for http1::UpgradeableConnection<I, S>
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    I: Read + Write + Unpin + Send + 'static,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    const ANNOUNCES_END: bool = false;

    fn leave(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, B, S, E> Serve for http2::Connection<I, S, E>
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    I: Read + Write + Unpin,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    E: Http2ServerConnExec<S::Future, B>,
{
    const ANNOUNCES_END: bool = true;

    fn leave(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// The reason why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    Done(hyper::Result<()>),
    Idle,
    SlowHead,
    SlowReader,
    /// The client sent frames that only cost work.
    Flood,
    Cut,
}

pin_project! {
    /// A connection that is being served.
    ///
    /// A request does not touch its only timer. The timer is reset only when it fires, or when a head is incomplete,
    /// because that deadline is sooner than the idle one. The wakers are likewise registered only when another task
    /// polls the connection, since a request causes several polls.
    pub(super) struct Connection<C> {
        #[pin]
        connection: C,
        handle: ConnectionHandle,
        timeouts: Timeouts,
        phase: Phase,
        since: Instant,
        stall: Stall,
        #[pin]
        alarm: Sleep,
        // The waker of the timer, and of `Connections` unless those are closing.
        woken: Option<Waker>,
        leaving: bool,
    }
}

impl<C: Serve> Connection<C> {
    pub(super) fn new(connection: C, handle: ConnectionHandle, timeouts: Timeouts) -> Self {
        let first = timeouts.idle;
        Connection {
            connection,
            handle,
            timeouts,
            phase: Phase::Idle,
            since: Instant::now(),
            stall: Stall::default(),
            alarm: sleep(first),
            woken: None,
            leaving: false,
        }
    }
}

impl<C: Serve> Future for Connection<C> {
    type Output = End;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let mut this = self.project();
        let state = &this.handle.state;
        let is_known = this.woken.as_ref().is_some_and(|woken| woken.will_wake(cx.waker()));
        if !is_known {
            *this.woken = Some(cx.waker().clone());
        }
        // Registered before the flags are read, so that a flag set afterwards wakes this task. A waker wakes only once,
        // so after the drain began it is registered on every poll.
        if !is_known || *this.leaving {
            state.register(cx.waker());
        }
        if !*this.leaving && this.handle.connections.is_closing() {
            *this.leaving = true;
            *this.since = Instant::now();
            state.register(cx.waker());
            state.leave();
            if C::ANNOUNCES_END {
                this.connection.as_mut().leave();
            }
        }
        if this.handle.connections.is_cutting() {
            return Poll::Ready(End::Cut);
        }
        if let Poll::Ready(result) = this.connection.as_mut().poll(cx) {
            return Poll::Ready(End::Done(result));
        }
        if state.is_flooded() {
            // This sends GOAWAY; whether the client reads it does not matter. ENHANCE_YOUR_CALM would say more (RFC
            // 9113, section 7), but hyper takes no reason.
            this.connection.as_mut().leave();
            let _: Poll<_> = this.connection.as_mut().poll(cx);
            return Poll::Ready(End::Flood);
        }
        let phase = state.phase();
        let wrote = state.take_wrote();
        if phase != *this.phase || wrote && phase == Phase::Idle {
            *this.phase = phase;
            if phase != Phase::Busy {
                *this.since = Instant::now();
            }
        }
        let (is_blocked, taken) = state.taken();
        this.stall.note(is_blocked, taken);
        let slow_reader = this.stall.deadline(&this.timeouts.reading);
        if slow_reader.is_none() && phase != Phase::Busy {
            this.stall.clear(taken);
        }
        let deadline = match phase {
            Phase::Busy => None,
            Phase::Idle if *this.leaving && !C::ANNOUNCES_END => Some(*this.since + DRAIN_IDLE),
            Phase::Idle if state.was_reset() => Some(*this.since + IDLE_AFTER_RESET),
            Phase::Idle => Some(*this.since + this.timeouts.idle),
            Phase::Head => Some(*this.since + this.timeouts.head),
            Phase::Lingering if *this.leaving => Some(*this.since + DRAIN_LINGER),
            Phase::Lingering => Some(*this.since + LINGER),
        };
        // A client that is reading its answer is not idle.
        let deadline =
            if phase == Phase::Idle { slow_reader.or(deadline) } else { earliest(deadline, slow_reader) };
        let is_sooner = deadline.filter(|deadline| *deadline < this.alarm.deadline());
        if let Some(deadline) = is_sooner {
            this.alarm.as_mut().reset(deadline);
        }
        if is_known && is_sooner.is_none() && !this.alarm.is_elapsed() {
            return Poll::Pending;
        }
        loop {
            let has_turn = has_budget_remaining();
            if this.alarm.as_mut().poll(cx).is_pending() {
                if !has_turn {
                    // The timer did not register the waker. The task is polled again soon.
                    *this.woken = None;
                }
                return Poll::Pending;
            }
            let now = Instant::now();
            if slow_reader.is_some_and(|deadline| deadline <= now) {
                return Poll::Ready(End::SlowReader);
            }
            match (deadline, phase) {
                (None, _) => this.alarm.as_mut().reset(now + this.timeouts.idle),
                (Some(deadline), _) if now < deadline => this.alarm.as_mut().reset(deadline),
                (Some(_), Phase::Head) => return Poll::Ready(End::SlowHead),
                (Some(_), Phase::Lingering) => return Poll::Ready(End::Done(Ok(()))),
                (Some(_), _) => {
                    // Over HTTP/2 this sends GOAWAY; whether the client reads it does not matter.
                    this.connection.as_mut().leave();
                    return Poll::Ready(match this.connection.as_mut().poll(cx) {
                        Poll::Ready(result) => End::Done(result),
                        Poll::Pending => End::Idle,
                    });
                }
            }
        }
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::Connections;
    use super::*;
    use rpcgate_core::backend::usage_sink::MemoryUsageSink;
    use std::pin::pin;
    use std::sync::Arc;

    const TIMEOUTS: Timeouts = Timeouts {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        reading: ReadPace { timeout: Duration::from_secs(30), grace: Duration::from_secs(10), rate: 1_024 },
    };

    /// A connection without traffic. A `greedy` one uses up its task's budget at its first poll.
    struct Silent {
        greedy: bool,
    }

    impl Future for Silent {
        type Output = hyper::Result<()>;

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            if std::mem::take(&mut self.greedy) {
                while pin!(tokio::task::coop::consume_budget()).poll(cx).is_ready() {}
            }
            Poll::Pending
        }
    }

    impl Serve for Silent {
        const ANNOUNCES_END: bool = false;

        fn leave(self: Pin<&mut Self>) {}
    }

    fn connection(greedy: bool) -> Connection<Silent> {
        let connections = Connections::new(Arc::new(MemoryUsageSink::default()), None);
        Connection::new(Silent { greedy }, connections.enter(), TIMEOUTS)
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_although_its_task_had_used_up_its_turn() {
        for greedy in [false, true] {
            let connection = tokio::spawn(connection(greedy));
            let end = tokio::time::timeout(2 * TIMEOUTS.idle, connection).await;
            assert!(matches!(end, Ok(Ok(End::Idle))), "{greedy}: {end:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_wakes_the_task_that_polled_it_last() {
        let mut connection = Box::pin(connection(false));
        assert!(futures_util::poll!(&mut connection).is_pending());
        let end = tokio::time::timeout(2 * TIMEOUTS.idle, tokio::spawn(connection)).await;
        assert!(matches!(end, Ok(Ok(End::Idle))), "{end:?}");
    }
}
