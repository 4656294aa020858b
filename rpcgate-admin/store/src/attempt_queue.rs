//! The queue of attempts that wait to be counted.
//!
//! A client that guesses passwords sends many attempts at once, and each of them is a write. Writes run one at a time,
//! so the attempts that arrive during one are counted together in the next. At most `MAX_WAITING` wait; any further
//! attempt fails at once.
//!
//! A task writes while attempts wait, and ends with the last of them. It does not run in a caller's future: a caller
//! that hangs up must neither roll back the attempts of others nor leave them waiting.

use super::connect::Database;
use super::error::StoreError;
use super::query::{Attempt, AttemptWrite, write_attempts};
use super::queue;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

const MAX_WAITING: usize = 1_024;

/// The number of attempts that are counted in one transaction. All attempts that a batch permits use the database at
/// once, so they must fit into its queue.
const MAX_BATCH: usize = queue::MAX_WAITING / 2;

/// The attempts that wait, in order of arrival. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct AttemptQueue {
    database: Database,
    waiting: Arc<Mutex<WaitingAttempts>>,
}

#[derive(Debug, Default)]
struct WaitingAttempts {
    attempts: VecDeque<WaitingAttempt>,
    is_written: bool,
}

#[derive(Debug)]
struct WaitingAttempt {
    write: AttemptWrite,
    caller: oneshot::Sender<Result<Option<Attempt>, StoreError>>,
}

impl AttemptQueue {
    pub(super) fn new(database: Database) -> Self {
        AttemptQueue { database, waiting: Arc::default() }
    }

    /// Carries out a write together with others that wait, after all earlier ones. Returns the outcome of an attempt
    /// that was to be counted, and `None` for another write. Waits no longer than a database call may take.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], also if too many attempts wait.
    pub(super) async fn submit(&self, write: AttemptWrite) -> Result<Option<Attempt>, StoreError> {
        let (caller, outcome) = oneshot::channel();
        self.join(WaitingAttempt { write, caller })?;
        let longest = self.database.longest_call();
        match tokio::time::timeout(longest, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(StoreError::Unavailable("the write of an attempt ended early".into())),
            Err(_) => Err(StoreError::late(longest)),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingAttempts> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, attempt: WaitingAttempt) -> Result<(), StoreError> {
        let mut waiting = self.waiting();
        if waiting.attempts.len() >= MAX_WAITING {
            return Err(StoreError::Unavailable(format!("{MAX_WAITING} attempts wait for it already")));
        }
        waiting.attempts.push_back(attempt);
        let is_written = std::mem::replace(&mut waiting.is_written, true);
        // If the runtime is ending, it drops the task at once, and the task takes this lock too.
        drop(waiting);
        if !is_written {
            tokio::spawn(AttemptWriter { queue: self.clone(), is_done: false }.run());
        }
        Ok(())
    }

    /// Returns the attempts to write next. If it returns `None`, the task that writes must end.
    fn next_batch(&self) -> Option<Vec<WaitingAttempt>> {
        let mut waiting = self.waiting();
        let mut batch = Vec::new();
        while batch.len() < MAX_BATCH
            && let Some(attempt) = waiting.attempts.pop_front()
        {
            // An attempt whose caller has already left is not made.
            if !attempt.caller.is_closed() {
                batch.push(attempt);
            }
        }
        waiting.is_written = !batch.is_empty();
        waiting.is_written.then_some(batch)
    }

    async fn write(&self, batch: Vec<WaitingAttempt>) {
        let (writes, callers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|WaitingAttempt { write, caller }| (write, caller)).unzip();
        let written =
            self.database.transact_shared(async |transaction| write_attempts(transaction, &writes).await);
        match written.await {
            Ok(outcomes) => {
                for (caller, outcome) in callers.into_iter().zip(outcomes) {
                    // If the caller has left, its attempt counts as a failed one.
                    let _ = caller.send(Ok(outcome));
                }
            }
            Err(error) => {
                for caller in callers {
                    let _ = caller.send(Err(copy(&error)));
                }
            }
        }
    }
}

fn copy(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(why) => StoreError::Unavailable(why.clone()),
        StoreError::Sql(cause) => StoreError::Sql(cause.to_string().into()),
        other => StoreError::Sql(other.to_string().into()),
    }
}

/// The task that writes. If its runtime ends early, waiting callers get an error, and the next attempt starts a new
/// task.
struct AttemptWriter {
    queue: AttemptQueue,
    is_done: bool,
}

impl AttemptWriter {
    async fn run(mut self) {
        while let Some(batch) = self.queue.next_batch() {
            self.queue.write(batch).await;
        }
        self.is_done = true;
    }
}

impl Drop for AttemptWriter {
    fn drop(&mut self) {
        if !self.is_done {
            let mut waiting = self.queue.waiting();
            waiting.is_written = false;
            waiting.attempts.clear();
        }
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "attempt_queue/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;
