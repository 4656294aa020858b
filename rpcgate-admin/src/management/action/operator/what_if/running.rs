//! The what-ifs that are being answered: one for each operator, and few in all, since each reads a month of all tenants and
//! holds it in memory.

use crate::management::error::ActionError;
use rpcgate_store::UserId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What-ifs that are answered at once.
pub const MAX_RUNNING: usize = 3;

/// Seconds after which an operator may ask again.
const RETRY_AFTER: u32 = 5;

/// The operators whose what-ifs are being answered. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct WhatIfs(Arc<Mutex<BTreeSet<UserId>>>);

impl WhatIfs {
    fn running(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a what-if of an operator, which runs until the result is dropped.
    ///
    /// # Errors
    /// [`ActionError::TooMany`] if another one of this operator runs, or [`MAX_RUNNING`] in all.
    pub fn begin(&self, operator: UserId) -> Result<Arc<RunningWhatIf>, ActionError> {
        let mut running = self.running();
        if running.len() >= MAX_RUNNING || !running.insert(operator) {
            return Err(ActionError::TooMany { retry_after: RETRY_AFTER });
        }
        Ok(Arc::new(RunningWhatIf { all: self.clone(), operator }))
    }
}

/// A what-if that is being answered.
#[derive(Debug)]
pub struct RunningWhatIf {
    all: WhatIfs,
    operator: UserId,
}

impl RunningWhatIf {
    /// Does `work` where it keeps no request waiting. If nobody waits for it any more, it goes on to its end, and the what-if
    /// counts as running until then.
    pub(super) async fn fold<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ActionError> {
        let running = self.clone();
        let work = move || {
            let done = work();
            drop(running);
            done
        };
        let ended = tokio::task::spawn_blocking(work).await;
        ended.map_err(|error| ActionError::Broken(format!("a what-if ended early: {error}")))
    }
}

impl Drop for RunningWhatIf {
    fn drop(&mut self) {
        self.all.running().remove(&self.operator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_asks_one_at_a_time_and_few_are_answered_at_once() {
        let all = WhatIfs::default();
        let first = all.begin(UserId(1)).unwrap();
        assert!(matches!(all.clone().begin(UserId(1)), Err(ActionError::TooMany { retry_after: 5 })));
        let others: Vec<_> = (2..=MAX_RUNNING as u128).map(|id| all.begin(UserId(id)).unwrap()).collect();
        assert!(all.begin(UserId(99)).is_err(), "{others:?}");
        drop(first);
        assert!(all.begin(UserId(1)).is_ok(), "the first has ended");
        assert!(all.begin(UserId(99)).is_ok(), "and this one was dropped at once");
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_counts_until_its_end() {
        let all = WhatIfs::default();
        let running = all.begin(UserId(1)).unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = Box::pin({
            let running = running.clone();
            async move {
                running
                    .fold(move || {
                        let _ = tell.send(());
                        let _ = ended.recv();
                    })
                    .await
            }
        });
        drop(running);
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
        let all = WhatIfs::default();
        let running = all.begin(UserId(1)).unwrap();
        let broken = running.fold(|| assert_eq!(1, 2, "on purpose")).await;
        assert!(matches!(broken, Err(ActionError::Broken(_))));
        drop(running);
        assert!(all.begin(UserId(1)).is_ok());
    }
}
