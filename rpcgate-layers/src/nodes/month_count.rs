//! A number of calls in a month, in one word of memory, so that the month ends for all threads at once.

use rpcgate_core::month::CalendarMonth;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of bits for the calls; the other bits hold the number of the month.
const BITS: u32 = 48;
const MOST: u64 = (1 << BITS) - 1;

/// The calls of one month. A new month begins at zero. If the clock is set back over the end of a month, calls are
/// still counted in the newer month. If it is set back by more than that, it was wrong before, and the count restarts.
#[derive(Debug, Default)]
pub(super) struct MonthCount(AtomicU64);

const fn pack(month: CalendarMonth, calls: u64) -> u64 {
    (month.number() as u64) << BITS | if calls < MOST { calls } else { MOST }
}

const fn read(word: u64, now: CalendarMonth) -> (CalendarMonth, u64) {
    let month = (word >> BITS) as u16;
    let calls = word & MOST;
    if month == now.number() || month == now.next().number() {
        (CalendarMonth::from_number(month), calls)
    } else {
        (now, 0)
    }
}

impl MonthCount {
    /// Returns the month in which calls are counted at `now`, and its calls.
    pub(super) fn read(&self, now: CalendarMonth) -> (CalendarMonth, u64) {
        read(self.0.load(Relaxed), now)
    }

    pub(super) fn calls(&self, now: CalendarMonth) -> u64 {
        self.read(now).1
    }

    pub(super) fn add(&self, now: CalendarMonth, calls: u64) {
        let more = |word| {
            let (month, before) = read(word, now);
            Some(pack(month, before.saturating_add(calls)))
        };
        // `more` never returns `None`.
        let _ = self.0.fetch_update(Relaxed, Relaxed, more);
    }

    /// Counts calls if the sum stays within `most`. Otherwise counts nothing and returns false.
    pub(super) fn add_within(&self, now: CalendarMonth, calls: u64, most: u64) -> bool {
        let more = |word| {
            let (month, before) = read(word, now);
            let sum = before.saturating_add(calls);
            (sum <= most).then(|| pack(month, sum))
        };
        self.0.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Takes back calls that were counted in `month`. If that month is over, the count of the next month does not
    /// change.
    pub(super) fn take_back(&self, month: CalendarMonth, calls: u64) {
        let less = |word: u64| {
            let is_counted = (word >> BITS) as u16 == month.number();
            is_counted.then(|| pack(month, (word & MOST).saturating_sub(calls)))
        };
        let _ = self.0.fetch_update(Relaxed, Relaxed, less);
    }

    /// Raises the calls of `month` to at least `calls`, if calls are counted in `month` at `now`.
    pub(super) fn raise(&self, now: CalendarMonth, month: CalendarMonth, calls: u64) {
        let more = |word| {
            let (counted, before) = read(word, now);
            (counted == month).then(|| pack(month, before.max(calls)))
        };
        let _ = self.0.fetch_update(Relaxed, Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOVEMBER: CalendarMonth = CalendarMonth::from_number(682);

    #[test]
    fn a_new_month_has_no_calls_and_a_small_backward_clock_step_does_not_end_it() {
        let count = MonthCount::default();
        assert_eq!(count.read(NOVEMBER), (NOVEMBER, 0));
        count.add(NOVEMBER, 7);
        assert_eq!((count.calls(NOVEMBER), count.calls(NOVEMBER.next())), (7, 0));
        count.add(NOVEMBER.next(), 2);
        assert_eq!(count.read(NOVEMBER), (NOVEMBER.next(), 2));
        count.add(NOVEMBER, 1);
        assert_eq!(count.read(NOVEMBER.next()), (NOVEMBER.next(), 3));
        let long_before = CalendarMonth::from_number(600);
        assert_eq!(count.read(long_before), (long_before, 0), "that clock was wrong");
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_bound_is_kept_to_the_call_by_all_threads() {
        let count = MonthCount::default();
        let counted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..1_000).filter(|_| count.add_within(NOVEMBER, 1, 3_001)).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((counted, count.calls(NOVEMBER)), (3_001, 3_001));
        assert!(
            count.add_within(NOVEMBER.next(), 3_001, 3_001) && !count.add_within(NOVEMBER.next(), 1, 3_001)
        );
    }

    // Shows (Nodes and cache).
    #[test]
    fn calls_are_returned_and_raised_only_in_their_own_month() {
        let count = MonthCount::default();
        count.add(NOVEMBER, 7);
        count.take_back(NOVEMBER, 3);
        assert_eq!(count.calls(NOVEMBER), 4);
        count.take_back(NOVEMBER.next(), 3);
        assert_eq!((count.calls(NOVEMBER), count.calls(NOVEMBER.next())), (4, 0));
        count.add(NOVEMBER.next(), 5);
        for earlier in [NOVEMBER, CalendarMonth::from_number(600)] {
            count.take_back(earlier, 3);
            assert_eq!(count.read(NOVEMBER.next()), (NOVEMBER.next(), 5), "it was taken before this month");
        }
        count.take_back(NOVEMBER.next(), 5);
        count.raise(NOVEMBER.next(), NOVEMBER, 99);
        assert_eq!(count.calls(NOVEMBER.next()), 0);
        count.raise(NOVEMBER.next(), NOVEMBER.next(), 99);
        count.raise(NOVEMBER.next(), NOVEMBER.next(), 9);
        assert_eq!(count.calls(NOVEMBER.next()), 99);
        count.add(NOVEMBER.next(), u64::MAX);
        assert_eq!(count.calls(NOVEMBER.next()), MOST);
    }
}
