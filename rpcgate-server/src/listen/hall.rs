//! Everybody who is connected, and the word that it is time to go.

use super::guard::Presence;
use crate::state::State;
use parking_lot::Mutex;
use rpcgate_core::seam::ledger::Ledger;
use rpcgate_layers::spawn::{Spawn, Work};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The connections of one gateway.
pub(crate) struct Hall {
    ledger: Arc<dyn Ledger>,
    state: Option<Arc<State>>,
    closing: AtomicBool,
    cutting: AtomicBool,
    closed: CancellationToken,
    cut: CancellationToken,
    guests: Mutex<Guests>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Guests {
    present: HashMap<u64, Arc<Presence>>,
    next: u64,
}

impl fmt::Debug for Hall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hall({} open)", self.open())
    }
}

impl Spawn for Hall {
    /// A drain waits for the work, for as long as it does for connections; then it is dropped.
    fn spawn(&self, work: Work) {
        let cut = self.cut.clone();
        if let Ok(runtime) = Handle::try_current() {
            let done = async move { cut.run_until_cancelled(work).await.unwrap_or_default() };
            self.tasks.spawn_on(done, &runtime);
        }
    }
}

impl Hall {
    #[cfg(test)]
    pub(crate) fn new(ledger: Arc<dyn Ledger>) -> Arc<Self> {
        Hall::behind(ledger, None)
    }

    /// A hall that wants nobody before `state` is ready.
    pub(crate) fn behind(ledger: Arc<dyn Ledger>, state: Option<Arc<State>>) -> Arc<Self> {
        Arc::new(Hall {
            ledger,
            state,
            closing: AtomicBool::new(false),
            cutting: AtomicBool::new(false),
            closed: CancellationToken::new(),
            cut: CancellationToken::new(),
            guests: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Why no requests are wanted; `None` while they are.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        if self.is_closing() {
            Some("draining")
        } else if self.state.as_ref().is_some_and(|state| !state.is_ready()) {
            Some("waiting for the database")
        } else if !self.ledger.is_ready() {
            Some("usage cannot be recorded")
        } else {
            None
        }
    }

    /// Connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.guests.lock().present.len()
    }

    /// A new connection. It counts until the guest is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Guest {
        let presence = Arc::<Presence>::default();
        let mut guests = self.guests.lock();
        let number = guests.next;
        guests.next += 1;
        guests.present.insert(number, presence.clone());
        Guest { hall: self.clone(), number, presence }
    }

    /// Runs a connection; a drain waits for it.
    pub(super) fn run(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(connection);
    }

    /// Whether connections should end as soon as they can.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// Whether connections must end now.
    pub(super) fn is_cutting(&self) -> bool {
        self.cutting.load(Relaxed)
    }

    /// Waits for [`close`](Hall::close).
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Asks everybody to go once they are done.
    pub(crate) fn close(&self) {
        self.closing.store(true, SeqCst);
        self.closed.cancel();
        self.tasks.close();
        self.wake();
    }

    /// Throws out whoever is left.
    pub(crate) fn cut(&self) {
        self.cutting.store(true, SeqCst);
        self.cut.cancel();
        self.wake();
    }

    /// After [`close`](Hall::close): waits until everybody is gone, at most for `grace`; then throws out the rest, and
    /// tells how many those were.
    pub(crate) async fn wait(&self, grace: Duration) -> usize {
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_ok() {
            return 0;
        }
        let left = self.open();
        self.cut();
        self.tasks.wait().await;
        left
    }

    fn wake(&self) {
        self.guests.lock().present.values().for_each(|presence| presence.wake());
    }
}

/// One connection's place.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) hall: Arc<Hall>,
    number: u64,
    pub(super) presence: Arc<Presence>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.hall.guests.lock().present.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::seam::ledger::MemoryLedger;
    use tokio::sync::oneshot;

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_what_goes_on_without_its_client_and_ends_it_after_the_grace() {
        for (takes, ended) in [(10, true), (40, false)] {
            let hall = Hall::new(Arc::new(MemoryLedger::default()));
            let (done, told) = oneshot::channel();
            hall.spawn(Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(takes)).await;
                done.send(()).unwrap();
            }));
            hall.close();
            assert_eq!(hall.wait(Duration::from_secs(30)).await, 0, "it is no connection");
            assert_eq!(told.await.is_ok(), ended, "{takes} s");
        }
    }
}
