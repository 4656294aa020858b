//! The submissions of clients to one node, in the order in which the node accepted them.

use super::submission::{SUBMISSION_BYTES, SUBMISSIONS, Submission};
use rpcgate_core::clock::Time;

/// Accepted submissions, bounded in number and bytes.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    taken: Vec<Submission>,
    bytes: usize,
    /// The number of submissions before the last request.
    before: usize,
}

impl Inbox {
    /// Begins a request: earlier submissions are no longer the newest.
    pub(crate) fn begin_request(&mut self) {
        self.before = self.taken.len();
    }

    /// Stores `raw` and returns its index; `None` if the inbox is full.
    pub(crate) fn take(&mut self, moment: Time, raw: Vec<u8>) -> Option<usize> {
        let bytes = self.bytes + raw.len();
        if self.taken.len() >= SUBMISSIONS || bytes > SUBMISSION_BYTES {
            return None;
        }
        self.bytes = bytes;
        self.taken.push(Submission { moment, raw });
        Some(self.taken.len() - 1)
    }

    /// Returns the submissions of the last request; empty on a second call.
    pub(crate) fn newest(&mut self) -> Vec<Submission> {
        let newest = self.taken.get(self.before..).unwrap_or_default().to_vec();
        self.begin_request();
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_submissions_of_the_last_request_are_the_newest_and_only_once() {
        let mut inbox = Inbox::default();
        let at = Time::from_secs;
        assert_eq!(inbox.take(at(1), vec![1]), Some(0));
        inbox.begin_request();
        assert_eq!(inbox.take(at(2), vec![2]), Some(1));
        assert_eq!(inbox.newest().iter().map(|one| one.raw[0]).collect::<Vec<_>>(), [2]);
        assert!(inbox.newest().is_empty());
    }

    #[test]
    fn an_inbox_is_bounded() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.take(Time::default(), vec![0; SUBMISSION_BYTES]), Some(0));
        assert_eq!(inbox.take(Time::default(), vec![0]), None);
        let mut inbox = Inbox::default();
        assert!((0..SUBMISSIONS).all(|_| inbox.take(Time::default(), Vec::new()).is_some()));
        assert_eq!(inbox.take(Time::default(), Vec::new()), None);
    }
}
