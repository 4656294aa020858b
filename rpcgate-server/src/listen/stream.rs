//! The streams of an HTTP/2 connection: each is a task of its own, which ends when its client does not take its answer.

use super::guard::ConnectionState;
use super::reader::{ReadPace, Stall};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::time::{Sleep, sleep_until};

/// Bytes of an answer that are handed to a stream at a time. Beyond the client's window no more than that waits in the
/// connection, where no one could tell how long it does.
pub(super) const PIECE: usize = 16 << 10;

/// How far the answer on a stream has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    taken: AtomicU64,
    blocked: AtomicBool,
}

impl Progress {
    /// The client may take the next piece, and it is its turn.
    pub(super) fn offer(&self) {
        self.blocked.store(true, Relaxed);
    }

    /// So many bytes were taken.
    pub(super) fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Relaxed);
    }

    /// The client is not waited for: a node is, or the answer has been handed over.
    pub(super) fn wait(&self) {
        self.blocked.store(false, Relaxed);
    }
}

/// Runs the streams of one connection.
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
        // The service was called for this stream right before, in this task.
        match self.state.take_opened() {
            Some(progress) => {
                let (stream, stall) = (Some(stream), Stall::default());
                let (state, pace) = (self.state.clone(), self.pace);
                tokio::spawn(Stream { stream, state, progress, stall, pace, alarm: None });
            }
            None => drop(tokio::spawn(stream)),
        }
    }
}

pin_project! {
    /// A stream. Given up, it is reset.
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
        this.stall.note(this.progress.blocked.load(Relaxed), this.progress.taken.load(Relaxed));
        let Some(deadline) = this.stall.deadline(this.pace) else { return Poll::Pending };
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        if alarm.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        tracing::debug!("stream reset: its client took its answer too slowly");
        this.state.reset();
        this.stream.set(None);
        Poll::Ready(())
    }
}
