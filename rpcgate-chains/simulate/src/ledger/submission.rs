//! The submissions of clients: a chain depends only on them, the seed and the time.

use rpcgate_core::clock::Time;
use std::fmt;
use std::str::FromStr;

/// The maximum number of transactions that a node accepts from clients in its whole life, included or waiting. An EVM
/// node forgets older ones, so no more of its submissions need to be kept.
pub const SUBMISSIONS: usize = 10_000;

/// The total size of those transactions in bytes, as [`Submission::raw`] counts them.
pub const SUBMISSION_BYTES: usize = 32 << 20;

/// A transaction that a client submitted and a node accepted.
///
/// Its text is one line without a line end: the moment in microseconds since the Unix epoch, a space, the transaction
/// in hex.
///
/// ```
/// use rpcgate_simulate::Submission;
/// use rpcgate_core::clock::Time;
///
/// let submission = Submission { moment: Time::from_micros(1_800_000_000_000_001), raw: vec![2, 0xf8] };
/// assert_eq!(submission.to_string(), "1800000000000001 02f8");
/// assert_eq!("1800000000000001 02f8".parse(), Ok(submission));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The time at which the node accepted it. It is never before the node's newest block, even if the clock stepped
    /// back.
    pub moment: Time,
    /// The signed transaction in its chain's own encoding.
    pub raw: Vec<u8>,
}

impl fmt::Display for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.moment.micros(), hex::encode(&self.raw))
    }
}

/// The error for a text that is not a [`Submission`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSubmission;

impl fmt::Display for NoSubmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a moment and a transaction in hex")
    }
}

impl std::error::Error for NoSubmission {}

impl FromStr for Submission {
    type Err = NoSubmission;

    fn from_str(text: &str) -> Result<Self, NoSubmission> {
        let (moment, raw) = text.split_once(' ').ok_or(NoSubmission)?;
        let micros = moment.parse().map_err(|_| NoSubmission)?;
        let raw = hex::decode(raw).map_err(|_| NoSubmission)?;
        Ok(Submission { moment: Time::from_micros(micros), raw })
    }
}

/// The submissions that a node accepted: their number and size, and those of the last request.
#[derive(Debug, Default)]
pub(crate) struct SubmissionLog {
    count: usize,
    pub(crate) bytes: usize,
    newest: Vec<Submission>,
}

impl SubmissionLog {
    /// Begins a request: earlier submissions are no longer the newest.
    pub(crate) fn begin_request(&mut self) {
        self.newest.clear();
    }

    /// Reports whether a submission of this many bytes fits.
    pub(crate) fn has_space(&self, bytes: usize) -> bool {
        self.count < SUBMISSIONS && self.bytes.saturating_add(bytes) <= SUBMISSION_BYTES
    }

    /// Adds a submission; `None` if the log is full.
    pub(crate) fn take(&mut self, moment: Time, raw: Vec<u8>) -> Option<()> {
        if !self.has_space(raw.len()) {
            return None;
        }
        self.count += 1;
        self.bytes += raw.len();
        self.newest.push(Submission { moment, raw });
        Some(())
    }

    /// Adds a submission to a log without bounds, for a node that forgets old transactions.
    pub(crate) fn take_any(&mut self, moment: Time, raw: Vec<u8>) {
        self.newest.push(Submission { moment, raw });
    }

    /// Returns the submissions of the last request; empty on a second call.
    pub(crate) fn newest(&mut self) -> Vec<Submission> {
        std::mem::take(&mut self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_submissions_of_the_last_request_are_the_newest_and_only_once() {
        let mut log = SubmissionLog::default();
        let at = Time::from_secs;
        assert_eq!(log.take(at(1), vec![1]), Some(()));
        log.begin_request();
        assert_eq!(log.take(at(2), vec![2]), Some(()));
        assert_eq!(log.newest().iter().map(|one| one.raw[0]).collect::<Vec<_>>(), [2]);
        assert!(log.newest().is_empty());
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = SubmissionLog::default();
        assert_eq!(log.take(Time::default(), vec![0; SUBMISSION_BYTES]), Some(()));
        assert_eq!(log.take(Time::default(), vec![0]), None);
        let mut log = SubmissionLog::default();
        assert!((0..SUBMISSIONS).all(|_| log.take(Time::default(), Vec::new()).is_some()));
        assert_eq!(log.take(Time::default(), Vec::new()), None);
    }
}
