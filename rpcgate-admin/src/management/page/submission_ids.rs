//! The values by which the forms of a page are told apart.

use rpcgate_core::clock::Time;
use rpcgate_store::fresh_id;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Makes the values of the forms of one page.
#[derive(Clone)]
pub(crate) struct SubmissionIds {
    page: u128,
    made: Arc<AtomicU32>,
}

impl SubmissionIds {
    /// Those of a page that is made at `now`.
    pub(crate) fn of_page(now: Time) -> Self {
        SubmissionIds { page: fresh_id(now), made: Arc::default() }
    }

    /// A value that no other form has.
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
