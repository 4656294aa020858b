//! The streams of an HTTP/2 connection. Each is its own task, which ends when its client does not read the answer. A
//! WebSocket stream has a second task, which writes what the gateway sends and ends with the stream.

use super::connection_state::ConnectionState;
use super::progress::Progress;
use super::reader::{ReadPace, Stall};
use pin_project_lite::pin_project;
use rpcgate_layers::websocket::StreamHold;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep_until};

/// The kind of task that hyper spawns next. It spawns during the call that causes it, so one value per thread suffices.
pub(super) enum Next {
    /// The task of a stream, with the progress of its answer.
    Answer(Arc<Progress>),
    /// The task that writes to a WebSocket stream.
    Writer(StreamEnd),
}

thread_local! {
    static NEXT: Cell<Option<Next>> = const { Cell::new(None) };
}

impl Next {
    /// Announces the next task that hyper spawns on this thread.
    pub(super) fn announce(self) {
        NEXT.set(Some(self));
    }
}

/// The end of a WebSocket stream, or of a handshake that opens none.
#[derive(Debug)]
pub(super) struct StreamEnd(oneshot::Receiver<Infallible>);

impl StreamEnd {
    /// Returns the end of a stream and the value that the stream holds. The connection is busy while it is held.
    pub(super) fn new(state: &Arc<ConnectionState>) -> (Self, StreamHold) {
        let (held, end) = oneshot::channel();
        (StreamEnd(end), StreamHold::new((held, state.begin())))
    }
}

/// Spawns the streams of one connection.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    state: Arc<ConnectionState>,
    pace: ReadPace,
}

impl Streams {
    pub(super) fn new(state: Arc<ConnectionState>, pace: ReadPace) -> Self {
        Streams { state, pace }
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        match NEXT.take() {
            Some(Next::Answer(progress)) => {
                let stream = Some(stream);
                let stall = Stall::default();
                let state = self.state.clone();
                let pace = self.pace;
                tokio::spawn(Stream { stream, state, progress, stall, pace, alarm: None });
            }
            Some(Next::Writer(end)) => {
                tokio::spawn(async move {
                    // A client that does not take the last bytes would keep its stream.
                    tokio::select! {
                        () = stream => {}
                        _ = end.0 => {}
                    }
                });
            }
            None => drop(tokio::spawn(stream)),
        }
    }
}

pin_project! {
    /// A stream. Dropping the inner future resets it.
    struct Stream<F> {
        #[pin]
        stream: Option<F>,
        state: Arc<ConnectionState>,
        progress: Arc<Progress>,
        stall: Stall,
        pace: ReadPace,
        alarm: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = ()>> Future for Stream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        match this.stream.as_mut().as_pin_mut().map(|stream| stream.poll(cx)) {
            Some(Poll::Pending) => {}
            Some(Poll::Ready(())) | None => return Poll::Ready(()),
        }
        let (is_blocked, taken) = this.progress.taken();
        this.stall.note(is_blocked, taken);
        let Some(deadline) = this.stall.deadline(this.pace) else { return Poll::Pending };
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        if alarm.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        tracing::debug!("stream reset: its client read the answer too slowly");
        this.state.reset();
        this.stream.set(None);
        Poll::Ready(())
    }
}
