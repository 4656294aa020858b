//! A signal that wakes and ends one of the journal's threads.

use super::CLOSE_WITHIN;
use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Wakes a thread, orders it to end, and reports its end.
#[derive(Debug, Default)]
pub(super) struct WorkerSignal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_woken: bool,
    order: Option<Order>,
    has_ended: bool,
}

/// An order to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// After finishing all work.
    Finish,
    /// At once.
    Leave,
}

/// The reason why a thread woke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WakeReason {
    /// By [`WorkerSignal::wake`].
    Early,
    InTime,
    Ordered(Order),
}

impl WorkerSignal {
    pub(super) fn wake(&self) {
        self.state.lock().is_woken = true;
        self.changed.notify_all();
    }

    pub(super) fn order(&self, order: Order) {
        self.state.lock().order = Some(order);
        self.changed.notify_all();
    }

    pub(super) fn wait(&self, time: Duration) -> WakeReason {
        let mut state = self.state.lock();
        if state.order.is_none() && !state.is_woken {
            // A spurious wakeup only makes the thread check a little early.
            let _ = self.changed.wait_for(&mut state, time);
        }
        let is_woken = std::mem::take(&mut state.is_woken);
        match state.order {
            Some(order) => WakeReason::Ordered(order),
            None if is_woken => WakeReason::Early,
            None => WakeReason::InTime,
        }
    }

    pub(super) fn ended(&self) {
        self.state.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Waits for the thread's end, with a limit, because it may hang in a system call. Returns whether it ended.
    pub(super) fn wait_for_end(&self) -> bool {
        let mut state = self.state.lock();
        let _ = self.changed.wait_while_for(&mut state, |state| !state.has_ended, CLOSE_WITHIN);
        state.has_ended
    }
}
