//! Logs each new failure once, and once that it is over.

use std::fmt::Display;

/// The last failure of an operation that is retried.
#[derive(Debug)]
pub(super) struct FailureLog {
    /// The operation, as the start of a sentence.
    what: &'static str,
    chain: Option<&'static str>,
    last: Option<String>,
}

impl FailureLog {
    pub(super) fn new(what: &'static str) -> Self {
        FailureLog { what, chain: None, last: None }
    }

    /// Adds the chain to the log lines.
    pub(super) fn of_chain(self, chain: &'static str) -> Self {
        FailureLog { chain: Some(chain), ..self }
    }

    /// Logs the outcome of a try if it differs from the one before.
    pub(super) fn note<T, E: Display>(&mut self, outcome: &Result<T, E>) {
        let what = self.what;
        let chain = self.chain;
        match outcome {
            Ok(_) => {
                if self.last.take().is_some() {
                    tracing::info!(chain, "{what} again");
                }
            }
            Err(error) => {
                let error = error.to_string();
                if self.last.as_ref() != Some(&error) {
                    tracing::warn!(chain, error, "{what} no longer: it will be retried");
                    self.last = Some(error);
                }
            }
        }
    }
}
