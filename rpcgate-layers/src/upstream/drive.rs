//! Moving a connection's bytes without a task of its own.
//!
//! Whoever waits for something on a connection drives it: the task that needs an answer reads it itself, instead of
//! being woken by another task that has read it. That halves the wake-ups of a call, and a connection that rests is
//! looked at before it is used again, so that what a node sent or closed in the meantime is seen in time.

use futures_util::task::AtomicWaker;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::task::{Context, Poll, Wake, Waker};

/// What moves the bytes of a connection; done when the connection is over.
type Moving = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Drives one connection.
pub(super) struct Driver {
    /// `None` once the connection is over.
    moving: Option<Moving>,
    wakes: Arc<WakeState>,
    /// Rung by the socket, and by what is put into the connection.
    moved: Waker,
    /// Rung by what comes out of it.
    stepped: Waker,
}

/// Notes what has happened. Only who waits on the connection is woken by it: what happens while somebody is at it, or
/// while it rests, is seen when it is driven next.
#[derive(Default)]
struct WakeState {
    state: AtomicU8,
    sleeper: AtomicWaker,
}

/// Nobody waits on the connection.
const UNWAITED: u8 = 1;
/// There may be something to move.
const MOVE: u8 = 2;
/// There may be a step to make.
const STEP: u8 = 4;

impl WakeState {
    fn ring(&self, what: u8) {
        if self.state.fetch_or(what, AcqRel) & UNWAITED == 0 {
            self.sleeper.wake();
        }
    }
}

/// One rope of the bell.
struct WakeFlag<const WHAT: u8>(Arc<WakeState>);

impl<const WHAT: u8> Wake for WakeFlag<WHAT> {
    fn wake(self: Arc<Self>) {
        self.0.ring(WHAT);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.ring(WHAT);
    }
}

impl Driver {
    pub(super) fn new(moving: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Self {
        let wakes = Arc::<WakeState>::default();
        Driver {
            moving: Some(Box::pin(moving)),
            moved: Arc::new(WakeFlag::<MOVE>(wakes.clone())).into(),
            stepped: Arc::new(WakeFlag::<STEP>(wakes.clone())).into(),
            wakes,
        }
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
        self.wakes.sleeper.register(cx.waker());
        let state = &self.wakes.state;
        for _ in 0..ROUNDS {
            state.store(UNWAITED, Release);
            if let Some(moving) = &mut self.moving
                && moving.as_mut().poll(&mut Context::from_waker(&self.moved)).is_ready()
            {
                // What ends a connection is seen by whoever waits for something on it.
                self.moving = None;
            }
            // Whatever called for a step until now has it in the next line.
            let before = state.swap(UNWAITED, AcqRel) & MOVE;
            let polled = step(&mut Context::from_waker(&self.stepped));
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

    /// Tries `step` before anything is moved, for what may be there already.
    pub(super) fn try_step<T>(&self, step: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        step(&mut Context::from_waker(&self.stepped))
    }

    /// Looks at a connection that rests, if anything has happened to it since it was last moved.
    pub(super) fn look(&mut self) {
        if self.wakes.state.load(Acquire) & MOVE != 0 {
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

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl ArcWake for Task {
        fn wake_by_ref(task: &Arc<Self>) {
            task.0.fetch_add(1, Relaxed);
        }
    }

    /// What moves: it notes its waker and how often it was looked at, and ends when it is told to.
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

    fn ring(line: &Line) {
        let waker = line.waker.lock().clone();
        waker.unwrap().wake();
    }

    #[test]
    fn what_rings_while_it_is_driven_is_looked_at_again_and_wakes_nobody() {
        let (task, line) = (Arc::<Task>::default(), Arc::<Line>::default());
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
    fn what_rings_afterwards_wakes_who_drove_last() {
        let (first, second, line) = (Arc::<Task>::default(), Arc::<Task>::default(), Arc::<Line>::default());
        let mut driver = driver(&line, |_| {});
        for (task, rings) in [(&first, 1), (&second, 1)] {
            let waker = waker(task.clone());
            let polled = driver.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending);
            assert!(polled.is_pending() && task.0.load(Relaxed) == 0);
            ring(&line);
            assert_eq!(task.0.load(Relaxed), rings);
        }
        assert_eq!(first.0.load(Relaxed), 1, "it drives no more");
    }

    #[test]
    fn what_rings_for_ever_gives_others_their_turn_and_goes_on_later() {
        let (task, line) = (Arc::<Task>::default(), Arc::<Line>::default());
        let waker = waker(task.clone());
        let mut driver = driver(&line, ring);
        assert!(driver.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending).is_pending());
        assert!((2..100).contains(&line.looks.load(Relaxed)));
        assert_eq!(task.0.load(Relaxed), 1);
    }

    #[test]
    fn what_rings_while_it_rests_wakes_nobody_and_is_seen_by_the_next_look() {
        let (task, line) = (Arc::<Task>::default(), Arc::<Line>::default());
        let waker = waker(task.clone());
        let mut cx = Context::from_waker(&waker);
        let mut driver = driver(&line, |_| {});
        assert!(driver.poll(&mut cx, |_| Poll::<()>::Pending).is_pending());
        assert!(driver.poll(&mut cx, |_| Poll::Ready(())).is_ready());
        let looks = line.looks.load(Relaxed);
        driver.look();
        assert_eq!(line.looks.load(Relaxed), looks, "nothing has happened");
        line.ended.store(1, Relaxed);
        ring(&line);
        driver.look();
        assert!(driver.is_over());
        assert_eq!(task.0.load(Relaxed), 0);
    }

    #[test]
    fn what_is_there_already_is_taken_without_moving_anything() {
        let line = Arc::<Line>::default();
        let driver = driver(&line, |_| {});
        assert_eq!(driver.try_step(|_| Poll::Ready(7)), Poll::Ready(7));
        assert_eq!(line.looks.load(Relaxed), 0);
    }
}
