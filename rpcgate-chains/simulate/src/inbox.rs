//! What clients have submitted to one node, in the order in which it was taken.

use super::submission::{SUBMISSION_BYTES, SUBMISSIONS, Submission};
use rpcgate_core::clock::Time;

/// Submissions that a node has taken, bounded in number and bytes.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    taken: Vec<Submission>,
    bytes: usize,
    /// How many of them came before the last request.
    before: usize,
}

impl Inbox {
    /// A new request begins: what came before it is no news any more.
    pub(crate) fn turn(&mut self) {
        self.before = self.taken.len();
    }

    /// Takes `raw` and gives its place; `None` if there is no room left.
    pub(crate) fn take(&mut self, moment: Time, raw: Vec<u8>) -> Option<usize> {
        let bytes = self.bytes + raw.len();
        if self.taken.len() >= SUBMISSIONS || bytes > SUBMISSION_BYTES {
            return None;
        }
        self.bytes = bytes;
        self.taken.push(Submission { moment, raw });
        Some(self.taken.len() - 1)
    }

    /// What came with the last request; empty when asked again.
    pub(crate) fn news(&mut self) -> Vec<Submission> {
        let news = self.taken.get(self.before..).unwrap_or_default().to_vec();
        self.turn();
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_is_told_once_and_only_of_the_last_request() {
        let mut inbox = Inbox::default();
        let at = Time::from_secs;
        assert_eq!(inbox.take(at(1), vec![1]), Some(0));
        inbox.turn();
        assert_eq!(inbox.take(at(2), vec![2]), Some(1));
        assert_eq!(inbox.news().iter().map(|one| one.raw[0]).collect::<Vec<_>>(), [2]);
        assert!(inbox.news().is_empty());
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.take(Time::default(), vec![0; SUBMISSION_BYTES]), Some(0));
        assert_eq!(inbox.take(Time::default(), vec![0]), None);
        let mut inbox = Inbox::default();
        assert!((0..SUBMISSIONS).all(|_| inbox.take(Time::default(), Vec::new()).is_some()));
        assert_eq!(inbox.take(Time::default(), Vec::new()), None);
    }
}
