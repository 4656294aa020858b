//! The days of usage in operators' views.

use rpcgate_core::clock::Time;
use std::ops::Range;

/// The number of UTC days, including the current one.
const DAYS: u64 = 30;

pub(super) fn hours(now: Time) -> Range<u64> {
    (now.day() + 1).saturating_sub(DAYS) * 24..now.hour() + 1
}
