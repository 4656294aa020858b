//! A pool of reusable timers.
//!
//! Hardly any call reaches its deadline, but each needs a timer. Moving a registered timer to a later time costs
//! several times less than registering a new one and removing it.

use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::coop::{has_budget_remaining, unconstrained};
use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Debug, Default)]
pub(crate) struct TimerPool(Mutex<Vec<Pin<Box<Sleep>>>>);

/// The maximum number of spare timers.
const IDLE_LIMIT: usize = 256;

impl TimerPool {
    pub(crate) fn timer(&self, at: Instant) -> PooledTimer {
        let spare = self.0.lock().pop();
        let timer = match spare {
            Some(mut timer) => {
                timer.as_mut().reset(at);
                timer
            }
            None => Box::pin(sleep_until(at)),
        };
        PooledTimer { timer, woken: None }
    }

    pub(crate) fn after(&self, time: Duration) -> PooledTimer {
        self.timer(Instant::now() + time)
    }

    pub(crate) fn keep(&self, mut timer: PooledTimer) {
        timer.forget_task();
        let mut spares = self.0.lock();
        if spares.len() < IDLE_LIMIT {
            spares.push(timer.timer);
        }
    }

    /// Returns the output of `future`, or `None` if it takes longer than `limit`.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut timer = self.after(limit);
        let done = poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => timer.poll(cx).map(|()| None),
        })
        .await;
        self.keep(timer);
        done
    }
}

#[derive(Debug)]
pub(crate) struct PooledTimer {
    timer: Pin<Box<Sleep>>,
    /// The waker that the timer holds. Comparing it costs less than registering it again with every poll.
    woken: Option<Waker>,
}

impl PooledTimer {
    /// Completes when the timer has fired.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.woken.as_ref().is_some_and(|woken| woken.will_wake(cx.waker())) {
            return if self.timer.is_elapsed() { Poll::Ready(()) } else { Poll::Pending };
        }
        // A task that has used up its budget cannot register with the timer, but it is polled again soon.
        self.woken = has_budget_remaining().then(|| cx.waker().clone());
        self.timer.as_mut().poll(cx)
    }

    pub(crate) fn reset(&mut self, at: Instant) {
        self.timer.as_mut().reset(at);
        self.woken = None;
    }

    /// Releases the task that polled the timer last. Otherwise its waker would hold the task's memory until the timer
    /// is used again.
    fn forget_task(&mut self) {
        if self.woken.take().is_some() {
            let timer = pin!(unconstrained(self.timer.as_mut()));
            let _: Poll<()> = timer.poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::task::Wake;

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_was_used_before_measures_its_own_time() {
        let timers = TimerPool::default();
        let second = Duration::from_secs(1);
        for (limit, lasts) in [(5, 1), (1, 2), (30, 29), (2, 60), (60, 59)] {
            let start = Instant::now();
            let work = pin!(tokio::time::sleep(second * lasts));
            let done = timers.within(second * limit, work).await;
            assert_eq!(done.is_some(), lasts < limit);
            assert_eq!(start.elapsed().as_secs(), u64::from(limit.min(lasts)));
            assert_eq!(timers.0.lock().len(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_applies_even_if_the_task_has_used_up_its_budget() {
        let limit = Duration::from_secs(9);
        let timers = Arc::new(TimerPool::default());
        // The first timer is new, the second is reused.
        for _ in 0..2 {
            let timers = timers.clone();
            let task = tokio::spawn(async move {
                let mut greedy = true;
                let work = pin!(poll_fn(|cx| {
                    if std::mem::take(&mut greedy) {
                        while pin!(tokio::task::coop::consume_budget()).poll(cx).is_ready() {}
                    }
                    Poll::<()>::Pending
                }));
                timers.within(limit, work).await
            });
            let done = tokio::time::timeout(2 * limit, task).await;
            assert!(matches!(done, Ok(Ok(None))), "{done:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_wakes_the_task_that_polled_last() {
        let timers = Arc::new(TimerPool::default());
        let mut within =
            Box::pin(async move { timers.within(Duration::from_secs(9), pin!(pending::<()>())).await });
        assert!(poll_fn(|cx| Poll::Ready(within.as_mut().poll(cx))).await.is_pending());
        let done = tokio::time::timeout(Duration::from_secs(18), tokio::spawn(within)).await;
        assert!(matches!(done, Ok(Ok(None))), "{done:?}");
    }

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_is_kept_does_not_hold_the_task_that_used_it() {
        let timers = TimerPool::default();
        let task = Arc::new(Task);
        for polls_first in [true, false] {
            let waker = Waker::from(task.clone());
            let mut cx = Context::from_waker(&waker);
            let mut left = usize::from(polls_first);
            let work = pin!(poll_fn(|_| match left {
                0 => Poll::Ready(()),
                _ => {
                    left -= 1;
                    Poll::Pending
                }
            }));
            let mut within = Box::pin(timers.within(Duration::from_secs(9), work));
            assert_eq!(within.as_mut().poll(&mut cx).is_pending(), polls_first);
            if polls_first {
                assert!(Arc::strong_count(&task) > 2, "the timer would wake it");
                assert_eq!(within.as_mut().poll(&mut cx), Poll::Ready(Some(())));
            }
            drop((within, waker));
            assert_eq!((timers.0.lock().len(), Arc::strong_count(&task)), (1, 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_future_drops_its_timer_and_a_limited_number_is_kept() {
        let timers = TimerPool::default();
        let given_up = async { timers.within(Duration::from_secs(9), pin!(pending::<()>())).await };
        assert!(tokio::time::timeout(Duration::from_secs(1), given_up).await.is_err());
        assert!(timers.0.lock().is_empty());
        let many = (0..IDLE_LIMIT + 9).map(|_| async {
            let work = pin!(async { tokio::task::yield_now().await });
            timers.within(Duration::from_secs(9), work).await
        });
        futures_util::future::join_all(many).await;
        assert_eq!(timers.0.lock().len(), IDLE_LIMIT);
        assert_eq!(timers.within(Duration::from_secs(9), pin!(ready(7))).await, Some(7));
    }
}
