//! The bound on what-if requests that are answered at the same time: one for each operator and [`MAX_RUNNING`] in total,
//! since each holds a month of usage of all tenants in memory.

use crate::error::ActionError;
use rpcgate_store::UserId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of what-if requests that are answered at the same time.
pub const MAX_RUNNING: usize = 3;

/// The value of `Retry-After`, in seconds.
const RETRY_AFTER: u32 = 5;

/// The operators with a running what-if request. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct WhatIfSlots(Arc<Mutex<BTreeSet<UserId>>>);

impl WhatIfSlots {
    fn running(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for `operator`, which is free again once the result is dropped.
    ///
    /// # Errors
    /// [`ActionError::TooMany`] if this operator has a slot, or all [`MAX_RUNNING`] are taken.
    pub fn begin(&self, operator: UserId) -> Result<Arc<WhatIfSlot>, ActionError> {
        let mut running = self.running();
        if running.len() >= MAX_RUNNING || !running.insert(operator) {
            return Err(ActionError::TooMany { retry_after: RETRY_AFTER });
        }
        Ok(Arc::new(WhatIfSlot { slots: self.clone(), operator }))
    }
}

/// The slot of a what-if request.
#[derive(Debug)]
pub struct WhatIfSlot {
    slots: WhatIfSlots,
    operator: UserId,
}

impl WhatIfSlot {
    /// Runs `work` on a thread for blocking work. If its caller stops waiting, the work still goes on to its end and holds
    /// the slot until then.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ActionError> {
        let slot = self.clone();
        let work = move || {
            let done = work();
            drop(slot);
            done
        };
        let ended = tokio::task::spawn_blocking(work).await;
        ended.map_err(|error| ActionError::Broken(format!("a what-if ended early: {error}")))
    }
}

impl Drop for WhatIfSlot {
    fn drop(&mut self) {
        self.slots.running().remove(&self.operator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_asks_one_at_a_time_and_few_are_answered_at_once() {
        let all = WhatIfSlots::default();
        let first = all.begin(UserId(1)).unwrap();
        assert!(matches!(all.clone().begin(UserId(1)), Err(ActionError::TooMany { retry_after: 5 })));
        let others: Vec<_> = (2..=MAX_RUNNING as u128).map(|id| all.begin(UserId(id)).unwrap()).collect();
        assert!(all.begin(UserId(99)).is_err(), "{others:?}");
        drop(first);
        assert!(all.begin(UserId(1)).is_ok(), "the first has ended");
        assert!(all.begin(UserId(99)).is_ok(), "and this one was dropped at once");
    }

    // Shows (Plans, bills and payments).
    #[tokio::test]
    async fn abandoned_work_occupies_its_slot_until_its_end() {
        let all = WhatIfSlots::default();
        let slot = all.begin(UserId(1)).unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = Box::pin({
            let slot = slot.clone();
            async move {
                slot.run(move || {
                    let _ = tell.send(());
                    let _ = ended.recv();
                })
                .await
            }
        });
        drop(slot);
        let task = tokio::spawn(work);
        told.await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(all.begin(UserId(1)).is_err(), "the thread still works");
        drop(end);
        while all.begin(UserId(1)).is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error_and_ends() {
        let all = WhatIfSlots::default();
        let slot = all.begin(UserId(1)).unwrap();
        let broken = slot.run(|| assert_eq!(1, 2, "on purpose")).await;
        assert!(matches!(broken, Err(ActionError::Broken(_))));
        drop(slot);
        assert!(all.begin(UserId(1)).is_ok());
    }
}
