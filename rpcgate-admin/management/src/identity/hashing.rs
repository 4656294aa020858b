//! The threads that hash passwords.
//!
//! A hash occupies a core for tens of milliseconds, and any client can cause one with a log-in. So hashing has its own
//! threads with the lowest scheduling priority: a flood of log-ins only gets the CPU time that other threads of this
//! service, or of a gateway on the same machine, leave.

#[cfg(target_os = "linux")]
use thread_priority::{
    NormalThreadSchedulePolicy::Idle, ThreadPriority, ThreadSchedulePolicy::Normal,
    set_thread_priority_and_policy, thread_native_id,
};
use tokio::runtime::{Builder, Runtime};

#[cfg(target_os = "linux")]
const LOWEST: i32 = 19;

/// A pool of hashing threads. They start on demand and end after an idle period.
#[derive(Debug)]
pub(super) struct HashingThreads(Option<Runtime>);

impl HashingThreads {
    pub(super) fn new(threads: usize) -> Self {
        // This runtime runs no tasks. Only its threads for blocking work are used.
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(threads)
            .thread_name("hashing")
            .on_thread_start(lower_priority)
            .build();
        HashingThreads(runtime.inspect_err(|error| tracing::error!(%error, "hashing has no threads")).ok())
    }

    /// Runs `work` on one of the threads. It runs to its end even if the caller is cancelled.
    ///
    /// # Errors
    /// The reason, if `work` panics or no thread can be started.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, &'static str> {
        let runtime = self.0.as_ref().ok_or("there is no thread for it")?;
        runtime.spawn_blocking(work).await.map_err(|_| "the thread ended early")
    }
}

impl Drop for HashingThreads {
    /// Does not wait for the threads, because this may run in a task, which must not block.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Gives the current thread the lowest priority. Only Linux has a priority per thread; elsewhere this would change the
/// priority of the whole process, so it does nothing.
///
/// A `SCHED_IDLE` thread (sched(7)) yields its core at once to any other thread that wakes. With a nice value alone,
/// that thread may have to wait for the end of a tick.
#[cfg(target_os = "linux")]
fn lower_priority() {
    static LOGGED: std::sync::Once = std::sync::Once::new();
    // The order matters: setting the policy also sets the nice value.
    let idle = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, Normal(Idle));
    let nice = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOWEST);
    if idle.is_err() || nice.is_err() {
        LOGGED
            .call_once(|| tracing::debug!(?idle, ?nice, "hashing threads could not get the lowest priority"));
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    #[cfg(target_os = "linux")]
    use thread_priority::{ThreadSchedulePolicy, thread_schedule_policy};

    #[cfg(target_os = "linux")]
    fn priority() -> (ThreadSchedulePolicy, i32) {
        let nice = rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
        (thread_schedule_policy().unwrap(), nice)
    }

    // Shows (Accounts and second factors): Hashing passwords is bounded and has the lowest priority, so that a flood of
    // log-ins does not slow the gateway.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn hashing_has_the_lowest_priority_and_nothing_else_has() {
        let before = priority();
        let lowest = (Normal(Idle), LOWEST);
        assert_ne!(before, lowest, "the tests run with a higher one");
        let threads = HashingThreads::new(2);
        let work = || (std::thread::current().name().map(str::to_owned), priority());
        assert_eq!(threads.run(work).await.unwrap(), (Some("hashing".into()), lowest));
        assert_eq!(priority(), before);
        assert_eq!(tokio::task::spawn_blocking(priority).await.unwrap(), before);
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error_and_the_next_one_runs() {
        let threads = HashingThreads::new(1);
        let ended = threads.run(|| panic!("a test")).await;
        assert_eq!(ended, Err::<(), _>("the thread ended early"));
        assert_eq!(threads.run(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn work_runs_to_its_end_after_its_caller_and_the_threads_owner_have_left() {
        let threads = HashingThreads::new(1);
        let (begin, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel();
        let mut work = Box::pin(threads.run(move || {
            begin.send(()).unwrap();
            may_end.recv().unwrap();
            done.send(()).unwrap();
        }));
        assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        has_begun.recv().unwrap();
        drop(work);
        drop(threads);
        end.send(()).unwrap();
        is_done.recv().unwrap();
    }
}
