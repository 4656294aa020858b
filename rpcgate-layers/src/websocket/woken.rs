//! A part of a task that is polled only when it was woken itself.
//!
//! The task of a stream is woken for either of its directions, for what it writes and for its timers. Polling all of them each
//! time would cost as much as the message that woke it.

use futures_util::task::AtomicWaker;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::task::{Context, Poll, Wake, Waker};

/// A future that its task may poll as often as it likes: only a poll after a wake of the future itself reaches it.
pub(super) struct Woken<F> {
    inner: F,
    signal: Arc<Signal>,
    waker: Waker,
}

/// The wakes of one part. Each wakes the task.
struct Signal {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Release);
        self.task.wake();
    }
}

impl<F> Woken<F> {
    /// `inner`, which counts as woken.
    pub(super) fn new(inner: F) -> Self {
        let signal = Arc::new(Signal { is_woken: AtomicBool::new(true), task: AtomicWaker::new() });
        Woken { inner, waker: signal.clone().into(), signal }
    }

    /// Lets the next poll reach the future: something has changed for it that does not wake it.
    pub(super) fn touch(&self) {
        self.signal.is_woken.store(true, Release);
    }
}

impl<F: Future + Unpin> Future for Woken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Woken { inner, signal, waker } = &mut *self;
        // Registered first: a wake that comes after the look at the signal reaches the task.
        signal.task.register(cx.waker());
        if !signal.is_woken.swap(false, AcqRel) {
            return Poll::Pending;
        }
        Pin::new(inner).poll(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker_ref;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use tokio::sync::oneshot;

    /// Counts the wakes of a task.
    #[derive(Default)]
    struct TaskWakes(AtomicUsize);

    impl Wake for TaskWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_part_is_polled_when_it_was_woken_and_not_when_its_task_was() {
        let (end, mut ended) = oneshot::channel::<u8>();
        let wakes = Arc::<TaskWakes>::default();
        let (task, mut polls) = (Waker::from(wakes.clone()), 0);
        let mut cx = Context::from_waker(&task);
        let mut part = Woken::new(poll_fn(|cx| {
            polls += 1;
            Pin::new(&mut ended).poll(cx)
        }));
        for _ in 0..3 {
            assert!(Pin::new(&mut part).poll(&mut cx).is_pending());
        }
        assert_eq!(wakes.0.load(Relaxed), 0);
        end.send(7).unwrap();
        assert_eq!(wakes.0.load(Relaxed), 1, "its wake is one of the task");
        assert_eq!(Pin::new(&mut part).poll(&mut cx), Poll::Ready(Ok(7)));
        drop(part);
        assert_eq!(polls, 2);
    }

    #[test]
    fn a_part_that_is_touched_is_polled_once() {
        let (mut cx, mut polls) = (Context::from_waker(noop_waker_ref()), 0);
        let mut part = Woken::new(poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut part).poll(&mut cx).is_pending());
        part.touch();
        assert!(Pin::new(&mut part).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut part).poll(&mut cx).is_pending());
        drop(part);
        assert_eq!(polls, 2);
    }
}
