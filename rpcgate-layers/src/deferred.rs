//! A future that yields to other tasks first.
//!
//! Many tasks pass frames to the task of one HTTP/2 connection, and each wakes it. tokio runs a task that the running
//! task woke next, so the connection would write the frame of each call separately. If the connection first yields to
//! the tasks that are ready already, it writes all their frames together and wakes its peer once.

use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// Polls `F` after each wake, but only after the tasks that were ready before.
    ///
    /// ```
    /// use rpcgate_layers::deferred::Deferred;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tokio::task::JoinError> {
    /// assert_eq!(tokio::spawn(Deferred::new(async { 7 })).await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct Deferred<F> {
        #[pin]
        inner: F,
        has_yielded: bool,
    }
}

impl<F> Deferred<F> {
    /// Creates a future that defers `inner`.
    pub const fn new(inner: F) -> Self {
        Deferred { inner, has_yielded: false }
    }
}

impl<F: Future> Future for Deferred<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        *this.has_yielded = !*this.has_yielded;
        if *this.has_yielded {
            // A task that wakes itself goes to the end of the queue, from which other threads take tasks too.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.inner.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;
    use tokio::sync::Notify;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_deferred_task_runs_after_the_tasks_that_were_ready_before_it() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let wake = Arc::new(Notify::new());
        let deferred = tokio::spawn(Deferred::new({
            let order = order.clone();
            let wake = wake.clone();
            async move {
                wake.notified().await;
                order.lock().push("connection");
            }
        }));
        let calls = tokio::spawn({
            let order = order.clone();
            async move {
                // The connection is waiting at this point.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                let calls: Vec<_> = (0..3)
                    .map(|_| {
                        let order = order.clone();
                        let wake = wake.clone();
                        tokio::spawn(async move {
                            order.lock().push("call");
                            wake.notify_one();
                        })
                    })
                    .collect();
                for call in calls {
                    call.await.unwrap();
                }
            }
        });
        calls.await.unwrap();
        deferred.await.unwrap();
        assert_eq!(*order.lock(), ["call", "call", "call", "connection"]);
    }
}
