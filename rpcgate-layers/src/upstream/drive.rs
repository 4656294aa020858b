//! Moving a connection's bytes without a task of its own.
//!
//! Whoever waits for something on a connection drives it: the task that needs an answer reads it itself, instead of
//! being woken by another task that has read it. That halves the wake-ups of a call, and a connection that rests is
//! looked at before it is used again, so that what a node sent or closed in the meantime is seen in time.

use futures_util::task::AtomicWaker;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::AcqRel};
use std::task::{Context, Poll, Wake, Waker};

/// What moves the bytes of a connection; done when the connection is over.
type Moving = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Drives one connection.
pub(super) struct Driver {
    /// `None` once the connection is over.
    moving: Option<Moving>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// Rung by the socket, and by the two ends of what runs inside the connection. The latter ring while they are driven:
/// then it is enough to look again.
#[derive(Default)]
struct Bell {
    state: AtomicU8,
    sleeper: AtomicWaker,
}

const DRIVEN: u8 = 1;
const RUNG: u8 = 2;

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(RUNG, AcqRel) & DRIVEN == 0 {
            self.sleeper.wake();
        }
    }
}

impl Driver {
    pub(super) fn new(moving: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Self {
        let bell = Arc::<Bell>::default();
        Driver { moving: Some(Box::pin(moving)), waker: bell.clone().into(), bell }
    }

    /// Whether the connection is over, as far as anybody has looked.
    pub(super) fn is_over(&self) -> bool {
        self.moving.is_none()
    }

    /// Moves what can be moved and tries `step`, as long as the one helps the other on.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        /// Then others have their turn: the runtime's own bound on a task's work rings the bell again and again.
        const ROUNDS: usize = 16;
        self.bell.sleeper.register(cx.waker());
        let mut inside = Context::from_waker(&self.waker);
        let mut rounds = 0;
        loop {
            self.bell.state.store(DRIVEN, std::sync::atomic::Ordering::Release);
            if let Some(moving) = &mut self.moving
                && moving.as_mut().poll(&mut inside).is_ready()
            {
                // What ends a connection is seen by whoever waits for something on it.
                self.moving = None;
            }
            let polled = step(&mut inside);
            rounds += 1;
            if polled.is_ready() {
                self.bell.state.swap(0, AcqRel);
                return polled;
            }
            if rounds < ROUNDS && self.bell.state.load(std::sync::atomic::Ordering::Acquire) & RUNG != 0 {
                continue;
            }
            if self.bell.state.swap(0, AcqRel) & RUNG != 0 {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
    }

    /// Looks at a connection that rests. Nobody is woken by it until it is driven again.
    pub(super) fn look(&mut self) {
        let _: Poll<()> = self.poll(&mut Context::from_waker(Waker::noop()), |_| Poll::Ready(()));
        drop(self.bell.sleeper.take());
    }
}
