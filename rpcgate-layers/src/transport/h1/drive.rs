//! Connections without a task of their own (`docs/decisions/0011-a-call-drives-its-connection.md`).
//!
//! The future that waits for something on a connection drives it: the task that needs an answer reads it itself,
//! instead of being woken by another task that has read it. This halves the wake-ups of a call. An idle connection is
//! driven before it is reused, so that a close or bytes that the node sent in the meantime are noticed in time.

use futures_util::task::AtomicWaker;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::task::{Context, Poll, Wake, Waker};

/// The future that reads and writes the bytes of a connection. It completes when the connection is over.
type Connection = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

pub(super) struct Driver {
    /// `None` after the end of the connection.
    connection: Option<Connection>,
    wakes: Arc<WakeState>,
    /// Woken by the socket, and by requests to the connection.
    connection_waker: Waker,
    /// Woken by responses of the connection.
    step_waker: Waker,
}

/// The wake-ups of a connection. They wake a task only if one waits on the connection. Wake-ups while the connection is
/// driven or idle are handled when it is driven next.
#[derive(Default)]
struct WakeState {
    state: AtomicU8,
    waiting: AtomicWaker,
}

/// No task waits on the connection.
const UNWAITED: u8 = 1;
/// The connection may have something to read or write.
const CONNECTION: u8 = 2;
/// The step may have become ready.
const STEP: u8 = 4;

impl WakeState {
    fn wake(&self, flag: u8) {
        if self.state.fetch_or(flag, AcqRel) & UNWAITED == 0 {
            self.waiting.wake();
        }
    }
}

/// A waker that sets one flag of the state.
struct WakeFlag<const FLAG: u8>(Arc<WakeState>);

impl<const FLAG: u8> Wake for WakeFlag<FLAG> {
    fn wake(self: Arc<Self>) {
        self.0.wake(FLAG);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake(FLAG);
    }
}

impl Driver {
    pub(super) fn new(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Self {
        let wakes = Arc::<WakeState>::default();
        Driver {
            connection: Some(Box::pin(connection)),
            connection_waker: Arc::new(WakeFlag::<CONNECTION>(wakes.clone())).into(),
            step_waker: Arc::new(WakeFlag::<STEP>(wakes.clone())).into(),
            wakes,
        }
    }

    /// Reports whether the connection was over when it was last driven.
    pub(super) fn is_over(&self) -> bool {
        self.connection.is_none()
    }

    /// Drives the connection and tries `step`, while one makes the other progress.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        /// Yields after this number: when a task's budget is used up, tokio wakes the connection again and again.
        const ROUNDS: usize = 16;
        self.wakes.waiting.register(cx.waker());
        let state = &self.wakes.state;
        for _ in 0..ROUNDS {
            state.store(UNWAITED, Release);
            if let Some(connection) = &mut self.connection
                && connection.as_mut().poll(&mut Context::from_waker(&self.connection_waker)).is_ready()
            {
                // The step notices the end of the connection.
                self.connection = None;
            }
            // The next line answers all wake-ups for the step until now.
            let before = state.swap(UNWAITED, AcqRel) & CONNECTION;
            let polled = step(&mut Context::from_waker(&self.step_waker));
            if polled.is_ready() {
                if before != 0 {
                    state.fetch_or(before, AcqRel);
                }
                return polled;
            }
            if before == 0 && state.compare_exchange(UNWAITED, 0, AcqRel, Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        state.store(0, Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tries `step` without driving the connection, for a result that may already be ready.
    pub(super) fn try_step<T>(&self, step: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        step(&mut Context::from_waker(&self.step_waker))
    }

    /// Drives an idle connection if it was woken since it was last driven.
    pub(super) fn drive_if_woken(&mut self) {
        if self.wakes.state.load(Acquire) & CONNECTION != 0 {
            let _: Poll<()> = self.poll(&mut Context::from_waker(Waker::noop()), |_| Poll::Ready(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::{ArcWake, waker};
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl ArcWake for Task {
        fn wake_by_ref(task: &Arc<Self>) {
            task.0.fetch_add(1, Relaxed);
        }
    }

    /// A connection that keeps its waker, counts its polls, and ends when `ended` is set.
    #[derive(Default)]
    struct Line {
        looks: AtomicUsize,
        ended: AtomicUsize,
        waker: parking_lot::Mutex<Option<Waker>>,
    }

    fn driver(line: &Arc<Line>, each: impl Fn(&Line) + Send + 'static) -> Driver {
        let line = line.clone();
        Driver::new(poll_fn(move |cx| {
            line.looks.fetch_add(1, Relaxed);
            *line.waker.lock() = Some(cx.waker().clone());
            each(&line);
            if line.ended.load(Relaxed) > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
        }))
    }

    fn wake(line: &Line) {
        let waker = line.waker.lock().clone();
        waker.unwrap().wake();
    }

    #[test]
    fn a_wake_up_during_driving_is_handled_and_wakes_no_task() {
        let task = Arc::<Task>::default();
        let line = Arc::<Line>::default();
        let waker = waker(task.clone());
        let mut cx = Context::from_waker(&waker);
        let mut driver = driver(&line, |_| {});
        let mut steps = 0;
        let polled = driver.poll(&mut cx, |cx| {
            steps += 1;
            if steps == 1 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(7)
        });
        assert_eq!((polled, steps, line.looks.load(Relaxed)), (Poll::Ready(7), 2, 2));
        assert_eq!(task.0.load(Relaxed), 0);
    }

    #[test]
    fn a_wake_up_afterwards_wakes_the_task_that_drove_last() {
        let first = Arc::<Task>::default();
        let second = Arc::<Task>::default();
        let line = Arc::<Line>::default();
        let mut driver = driver(&line, |_| {});
        for (task, rings) in [(&first, 1), (&second, 1)] {
            let waker = waker(task.clone());
            let polled = driver.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending);
            assert!(polled.is_pending() && task.0.load(Relaxed) == 0);
            wake(&line);
            assert_eq!(task.0.load(Relaxed), rings);
        }
        assert_eq!(first.0.load(Relaxed), 1, "it drives no more");
    }

    #[test]
    fn endless_wake_ups_yield_to_other_tasks() {
        let task = Arc::<Task>::default();
        let line = Arc::<Line>::default();
        let waker = waker(task.clone());
        let mut driver = driver(&line, wake);
        assert!(driver.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending).is_pending());
        assert!((2..100).contains(&line.looks.load(Relaxed)));
        assert_eq!(task.0.load(Relaxed), 1);
    }

    #[test]
    fn a_wake_up_of_an_idle_connection_wakes_no_task_and_is_seen_when_it_is_driven_next() {
        let task = Arc::<Task>::default();
        let line = Arc::<Line>::default();
        let waker = waker(task.clone());
        let mut cx = Context::from_waker(&waker);
        let mut driver = driver(&line, |_| {});
        assert!(driver.poll(&mut cx, |_| Poll::<()>::Pending).is_pending());
        assert!(driver.poll(&mut cx, |_| Poll::Ready(())).is_ready());
        let looks = line.looks.load(Relaxed);
        driver.drive_if_woken();
        assert_eq!(line.looks.load(Relaxed), looks, "nothing has happened");
        line.ended.store(1, Relaxed);
        wake(&line);
        driver.drive_if_woken();
        assert!(driver.is_over());
        assert_eq!(task.0.load(Relaxed), 0);
    }

    #[test]
    fn a_response_that_is_ready_is_taken_without_driving_the_connection() {
        let line = Arc::<Line>::default();
        let driver = driver(&line, |_| {});
        assert_eq!(driver.try_step(|_| Poll::Ready(7)), Poll::Ready(7));
        assert_eq!(line.looks.load(Relaxed), 0);
    }
}
