//! What Redis answers to a gateway's sign of life, and how many comparisons of the counters with the recorded usage are due.

/// The number of comparisons when counters may be too high or too low. The last one only raises them.
pub(super) const COMPARISONS: u64 = 6;
/// The number of comparisons when counters can only be too low.
pub(super) const ONLY_RAISE: u64 = 1;

/// The answer to a gateway's sign of life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heartbeat {
    /// The number of comparisons with the recorded usage that are still to be made, if one is due.
    pub(super) left: u64,
    /// The running comparison; empty: none.
    pub(super) comparison: String,
}
