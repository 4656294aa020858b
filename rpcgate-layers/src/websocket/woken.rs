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

/// The task that parts belong to.
#[derive(Default)]
pub(super) struct PartsTask {
    task: Arc<AtomicWaker>,
}

impl PartsTask {
    /// Has the wakes of the parts wake this task. To be called before the parts are polled, in each poll of the task.
    pub(super) fn register(&self, cx: &Context<'_>) {
        self.task.register(cx.waker());
    }

    /// A part of the task, which counts as woken.
    pub(super) fn part<F>(&self, inner: F) -> Woken<F> {
        let signal = Arc::new(Signal { is_woken: AtomicBool::new(true), task: self.task.clone() });
        Woken { inner, waker: signal.clone().into(), signal }
    }
}

/// A future that its task may poll as often as it likes: only a poll after a wake of the future itself reaches it.
pub(super) struct Woken<F> {
    inner: F,
    signal: Arc<Signal>,
    waker: Waker,
}

/// The wakes of one part. Each wakes the task.
struct Signal {
    is_woken: AtomicBool,
    task: Arc<AtomicWaker>,
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
    /// Lets the next poll reach the future: something has changed for it that does not wake it.
    pub(super) fn touch(&self) {
        self.signal.is_woken.store(true, Release);
    }
}

impl<F: Future + Unpin> Woken<F> {
    /// Polls the future if it was woken.
    pub(super) fn poll(&mut self) -> Poll<F::Output> {
        if !self.signal.is_woken.swap(false, AcqRel) {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll(&mut Context::from_waker(&self.waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let (wakes, task) = (Arc::<TaskWakes>::default(), PartsTask::default());
        let mut polls = 0;
        let mut part = task.part(poll_fn(|cx| {
            polls += 1;
            Pin::new(&mut ended).poll(cx)
        }));
        let waker = Waker::from(wakes.clone());
        for _ in 0..3 {
            task.register(&Context::from_waker(&waker));
            assert!(part.poll().is_pending());
        }
        assert_eq!(wakes.0.load(Relaxed), 0);
        end.send(7).unwrap();
        assert_eq!(wakes.0.load(Relaxed), 1, "its wake is one of the task");
        assert_eq!(part.poll(), Poll::Ready(Ok(7)));
        drop(part);
        assert_eq!(polls, 2);
    }

    #[test]
    fn a_part_that_is_touched_is_polled_once() {
        let mut polls = 0;
        let mut part = PartsTask::default().part(poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        }));
        assert!(part.poll().is_pending());
        part.touch();
        assert!(part.poll().is_pending() && part.poll().is_pending());
        drop(part);
        assert_eq!(polls, 2);
    }
}
