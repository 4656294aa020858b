//! The open connections of a gateway and their shutdown.

use super::connection_state::ConnectionState;
use crate::state::State;
use parking_lot::Mutex;
use rpcgate_core::backend::usage_sink::UsageSink;
use rpcgate_layers::spawn::{Spawn, Work};
use rpcgate_process::tls::Certificate;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) struct Connections {
    sink: Arc<dyn UsageSink>,
    state: Option<Arc<State>>,
    /// The certificate of the listeners, which may have to be ordered first.
    certificate: OnceLock<Arc<Certificate>>,
    closing: AtomicBool,
    /// Set before `cut` is cancelled.
    cutting: Arc<AtomicBool>,
    closed: CancellationToken,
    cut: CancellationToken,
    open: Mutex<Open>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Open {
    present: HashMap<u64, Arc<ConnectionState>>,
    next: u64,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connections({} open)", self.open())
    }
}

impl Spawn for Connections {
    /// Spawns work that a drain waits for like a connection; after the grace the work is dropped.
    fn spawn(&self, work: Work) {
        if let Ok(runtime) = Handle::try_current() {
            self.tasks.spawn_on(until_cut(work, self.cut.clone(), self.cutting.clone()), &runtime);
        }
    }
}

/// Runs `work` until it is cut. A stream's task is polled often and its waker stays the same, so the token is polled
/// once at first, and then only after `cutting` is set.
async fn until_cut(mut work: Work, cut: CancellationToken, cutting: Arc<AtomicBool>) {
    let mut cut = pin!(cut.cancelled());
    let mut is_requested = false;
    poll_fn(|cx| {
        if (!is_requested || cutting.load(Relaxed)) && cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        is_requested = true;
        work.as_mut().poll(cx)
    })
    .await;
}

impl Connections {
    /// Creates the set of a gateway that is ready only while `sink` and `state` are.
    pub(crate) fn new(sink: Arc<dyn UsageSink>, state: Option<Arc<State>>) -> Arc<Self> {
        Arc::new(Connections {
            sink,
            state,
            certificate: OnceLock::new(),
            closing: AtomicBool::new(false),
            cutting: Arc::default(),
            closed: CancellationToken::new(),
            cut: CancellationToken::new(),
            open: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Delays readiness until this certificate exists.
    pub(crate) fn wait_for(&self, certificate: Arc<Certificate>) {
        // It is set once, at the start of the gateway.
        let _ = self.certificate.set(certificate);
    }

    /// Returns the reason why the gateway is not ready; `None` if it is.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        if self.is_closing() {
            Some("draining")
        } else if self.state.as_ref().is_some_and(|state| !state.is_ready()) {
            Some("waiting for the database")
        } else if !self.sink.is_ready() {
            Some("usage cannot be recorded")
        } else if self.certificate.get().is_some_and(|certificate| certificate.loaded().is_awaited()) {
            Some("waiting for the first certificate")
        } else {
            None
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.lock().present.len()
    }

    /// Registers a new connection, which counts as open until the handle is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> ConnectionHandle {
        let state = Arc::<ConnectionState>::default();
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        open.present.insert(number, state.clone());
        ConnectionHandle { connections: self.clone(), number, state }
    }

    /// Returns the tasks that serve connections; a drain waits for them.
    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    pub(super) fn is_cutting(&self) -> bool {
        self.cutting.load(Relaxed)
    }

    /// Waits for [`close`](Self::close).
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Makes each connection end once its requests are answered.
    pub(crate) fn close(&self) {
        self.closing.store(true, SeqCst);
        self.closed.cancel();
        self.tasks.close();
        self.wake();
    }

    pub(crate) fn cut(&self) {
        self.cutting.store(true, SeqCst);
        self.cut.cancel();
        self.wake();
    }

    /// Reports whether all connections end within `time` after [`close`](Self::close).
    pub(crate) async fn are_done_within(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.tasks.wait()).await.is_ok()
    }

    /// Waits at most `grace` for connections to end after [`close`](Self::close), then cuts and counts the rest.
    pub(crate) async fn wait(&self, grace: Duration) -> usize {
        if self.are_done_within(grace).await {
            return 0;
        }
        let left = self.open();
        self.cut();
        self.tasks.wait().await;
        left
    }

    fn wake(&self) {
        self.open.lock().present.values().for_each(|state| state.wake());
    }
}

#[derive(Debug)]
pub(super) struct ConnectionHandle {
    pub(super) connections: Arc<Connections>,
    number: u64,
    pub(super) state: Arc<ConnectionState>,
}

impl Drop for ConnectionHandle {
    fn drop(&mut self) {
        self.connections.open.lock().present.remove(&self.number);
        self.state.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::usage_sink::MemoryUsageSink;
    use tokio::sync::{mpsc, oneshot};
    use tokio::task::yield_now;

    // Shows (Commands and configuration): A drain waits for a call that continues without its client, and ends it after
    // the grace period.
    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_work_without_a_client_and_stops_it_after_the_grace_period() {
        for (takes, ended) in [(10, true), (40, false)] {
            let connections = Connections::new(Arc::new(MemoryUsageSink::default()), None);
            let (done, reported) = oneshot::channel();
            connections.spawn(Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(takes)).await;
                done.send(()).unwrap();
            }));
            connections.close();
            assert_eq!(connections.wait(Duration::from_secs(30)).await, 0, "it is no connection");
            assert_eq!(reported.await.is_ok(), ended, "{takes} s");
        }
    }

    /// Spawns work that never ends. Returns a receiver of one message per poll.
    fn busy(connections: &Connections) -> mpsc::UnboundedReceiver<()> {
        let (polled, polls) = mpsc::unbounded_channel();
        connections.spawn(Box::pin(async move {
            while polled.send(()).is_ok() {
                yield_now().await;
            }
        }));
        polls
    }

    async fn is_done(connections: &Connections) {
        let done = connections.are_done_within(Duration::from_secs(20)).await;
        assert!(done, "the work was not cut");
    }

    #[tokio::test]
    async fn work_that_is_always_busy_is_cut() {
        let connections = Connections::new(Arc::new(MemoryUsageSink::default()), None);
        let mut all: Vec<_> = (0..9).map(|_| busy(&connections)).collect();
        for polls in &mut all {
            for _ in 0..9 {
                polls.recv().await.unwrap();
            }
        }
        connections.close();
        connections.cut();
        is_done(&connections).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cut_is_not_lost_while_the_work_is_polled_by_another_thread() {
        for _ in 0..200 {
            let connections = Connections::new(Arc::new(MemoryUsageSink::default()), None);
            let mut polls = busy(&connections);
            connections.spawn(Box::pin(std::future::pending()));
            polls.recv().await.unwrap();
            connections.close();
            connections.cut();
            is_done(&connections).await;
        }
    }

    #[tokio::test]
    async fn work_that_begins_after_the_cut_does_nothing() {
        let connections = Connections::new(Arc::new(MemoryUsageSink::default()), None);
        connections.close();
        connections.cut();
        let mut polls = busy(&connections);
        is_done(&connections).await;
        assert_eq!(polls.recv().await, None);
    }
}
