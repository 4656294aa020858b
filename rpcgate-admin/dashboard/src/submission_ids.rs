//! The unique values that identify the submissions of a page's forms.

use rpcgate_core::clock::Time;
use rpcgate_store::fresh_id;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The generator of the values of one page.
#[derive(Clone)]
pub(crate) struct SubmissionIds {
    page: u128,
    made: Arc<AtomicU32>,
}

impl SubmissionIds {
    /// Makes the generator of a page that is rendered at `now`.
    pub(crate) fn of_page(now: Time) -> Self {
        SubmissionIds { page: fresh_id(now), made: Arc::default() }
    }

    /// Returns a value that no other form has.
    pub(crate) fn next(&self) -> String {
        format!("{:032x}-{}", self.page, self.made.fetch_add(1, Relaxed))
    }
}

impl fmt::Debug for SubmissionIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubmissionIds")
    }
}

impl PartialEq for SubmissionIds {
    fn eq(&self, other: &Self) -> bool {
        self.page == other.page
    }
}

impl Eq for SubmissionIds {}
