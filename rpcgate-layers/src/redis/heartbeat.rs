//! The answer of Redis to a gateway's heartbeat, and the number of due comparisons of the counters with the recorded
//! usage.

/// The number of comparisons if counters may be too high or too low. The last one only raises them.
pub(super) const COMPARISONS: u64 = 6;
/// The number of comparisons if counters can only be too low.
pub(super) const ONLY_RAISE: u64 = 1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heartbeat {
    /// The number of remaining comparisons with the recorded usage, if one is due.
    pub(super) left: u64,
    /// The name of the running comparison; empty if none runs.
    pub(super) comparison: String,
}
