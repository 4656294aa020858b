//! A part of a task that is polled only after its own wake.
//!
//! The task of a stream wakes for both directions, its writes and its timers. Polling all of them each time would double
//! the cost of a message.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
pub(super) struct PartsTask {
    /// The waker that the parts wake.
    task: Arc<Mutex<Option<Waker>>>,
    /// A copy of the waker. A task keeps the same waker, and comparing it here needs no lock.
    known: Option<Waker>,
}

impl PartsTask {
    /// Directs the wakes of the parts to this task. Call it before the parts are polled, in each poll of the task.
    pub(super) fn register(&mut self, cx: &Context<'_>) {
        if !self.known.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.known = Some(cx.waker().clone());
            *self.task.lock() = self.known.clone();
        }
    }

    /// Creates a part of the task, which counts as woken.
    pub(super) fn part<F>(&self, inner: F) -> PollWhenWoken<F> {
        let signal = Arc::new(Signal { is_woken: AtomicBool::new(true), task: self.task.clone() });
        PollWhenWoken { inner, waker: signal.clone().into(), signal }
    }
}

/// A future that its task may poll at any time. Only a poll after a wake of the future itself reaches it.
pub(super) struct PollWhenWoken<F> {
    inner: F,
    signal: Arc<Signal>,
    waker: Waker,
}

/// The wakes of one part. Each wakes the task.
struct Signal {
    is_woken: AtomicBool,
    task: Arc<Mutex<Option<Waker>>>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Release);
        // A waker is external code, so it runs without the lock.
        let task = self.task.lock().clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl<F> PollWhenWoken<F> {
    /// Reports whether the next poll reaches the future.
    pub(super) fn is_woken(&self) -> bool {
        self.signal.is_woken.load(Acquire)
    }

    /// Lets the next poll reach the future, after a change that does not wake it.
    pub(super) fn touch(&self) {
        self.signal.is_woken.store(true, Release);
    }

    /// Returns the future. If it must be polled after a change, [touch](PollWhenWoken::touch) it.
    pub(super) fn get_mut(&mut self) -> &mut F {
        &mut self.inner
    }
}

impl<F: Future + Unpin> PollWhenWoken<F> {
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
    use std::task::ready;
    use std::time::Duration;
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::timeout;

    type Part = PollWhenWoken<Pin<Box<dyn Future<Output = ()> + Send>>>;

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
        let mut task = PartsTask::default();
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

    /// Returns a part that ends after `messages` messages, and the number of its polls.
    fn counted(task: &PartsTask, messages: usize) -> (mpsc::UnboundedSender<()>, Arc<AtomicUsize>, Part) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let polls = Arc::<AtomicUsize>::default();
        let counter = polls.clone();
        let mut left = messages;
        let part: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(poll_fn(move |cx| {
            counter.fetch_add(1, Relaxed);
            while left > 0 {
                let _: Option<()> = ready!(receiver.poll_recv(cx));
                left -= 1;
            }
            Poll::Ready(())
        }));
        (sender, polls, task.part(part))
    }

    #[test]
    fn a_wake_of_one_part_polls_that_part_alone_and_wakes_of_both_poll_both_at_once() {
        let wakes = Arc::<TaskWakes>::default();
        let mut task = PartsTask::default();
        let (to_one, one_polls, mut one) = counted(&task, 9);
        let (to_two, two_polls, mut two) = counted(&task, 9);
        let waker = Waker::from(wakes.clone());
        let mut poll = || {
            task.register(&Context::from_waker(&waker));
            assert!(one.poll().is_pending() && two.poll().is_pending());
            (one_polls.load(Relaxed), two_polls.load(Relaxed))
        };
        assert_eq!(poll(), (1, 1));
        to_one.send(()).unwrap();
        assert_eq!(poll(), (2, 1));
        to_two.send(()).unwrap();
        assert_eq!(poll(), (2, 2));
        to_two.send(()).unwrap();
        to_one.send(()).unwrap();
        assert_eq!(poll(), (3, 3));
        assert_eq!(poll(), (3, 3));
        assert_eq!(wakes.0.load(Relaxed), 4, "each wake is one of the task, which is scheduled once");
    }

    #[test]
    fn a_part_that_wakes_itself_while_it_is_polled_is_polled_again() {
        let wakes = Arc::<TaskWakes>::default();
        let mut task = PartsTask::default();
        let mut polls = 0;
        let mut part = task.part(poll_fn(|cx| {
            polls += 1;
            if polls < 3 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        }));
        let waker = Waker::from(wakes.clone());
        for number in 1..3 {
            task.register(&Context::from_waker(&waker));
            assert!(part.poll().is_pending());
            assert_eq!(wakes.0.load(Relaxed), number);
        }
        assert!(part.poll().is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn no_wake_is_lost_when_both_parts_are_woken_at_the_same_time_by_other_threads() {
        const MESSAGES: usize = 20_000;
        let mut task = PartsTask::default();
        let (to_one, _, mut one) = counted(&task, MESSAGES);
        let (to_two, _, mut two) = counted(&task, MESSAGES);
        for sender in [to_one, to_two] {
            tokio::spawn(async move {
                for number in 0..MESSAGES {
                    sender.send(()).unwrap();
                    if number % 7 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                // The end of a channel would be another wake.
                std::future::pending::<()>().await;
                drop(sender);
            });
        }
        let mut is_one_done = false;
        let mut is_two_done = false;
        let both = poll_fn(|cx| {
            task.register(cx);
            is_one_done = is_one_done || one.poll().is_ready();
            is_two_done = is_two_done || two.poll().is_ready();
            if is_one_done && is_two_done { Poll::Ready(()) } else { Poll::Pending }
        });
        assert!(
            timeout(Duration::from_secs(20), both).await.is_ok(),
            "a part waits for a wake that was lost"
        );
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
