//! The submissions of clients: a chain depends only on them, the seed and the time.

use rpcgate_core::clock::Time;
use std::fmt;
use std::str::FromStr;

/// The maximum number of client transactions that a UTXO node accepts in its whole life, included or waiting. An EVM
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
