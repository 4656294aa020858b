//! The days whose usage operators are told.

use rpcgate_core::clock::Time;
use std::ops::Range;

/// UTC days: today as far as it goes, and those before it.
const DAYS: u64 = 30;

/// Their hours.
pub(super) fn hours(now: Time) -> Range<u64> {
    (now.day() + 1).saturating_sub(DAYS) * 24..now.hour() + 1
}
