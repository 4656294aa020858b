//! Plan windows: fixed minutes, hours and days on the UTC clock. A request belongs to the windows of its arrival.

use crate::clock::Time;
use crate::plan::Plan;

/// The three spans, shortest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowSpan {
    /// A UTC minute.
    Minute,
    /// A UTC hour.
    Hour,
    /// A UTC day.
    Day,
}

impl WindowSpan {
    /// All spans, shortest first.
    pub const ALL: [WindowSpan; 3] = [WindowSpan::Minute, WindowSpan::Hour, WindowSpan::Day];

    /// Returns the length in seconds.
    pub const fn secs(self) -> u64 {
        match self {
            WindowSpan::Minute => 60,
            WindowSpan::Hour => 3_600,
            WindowSpan::Day => 86_400,
        }
    }

    /// Returns the whole seconds from `now` to the end of its window: 1 to the span's length.
    pub const fn reset(self, now: Time) -> u64 {
        self.secs() - now.secs() % self.secs()
    }
}

/// The state of one window for a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// Requests that the plan grants in the window.
    pub limit: u64,
    /// Requests left in the window.
    pub remaining: u64,
    /// Seconds until the window starts again.
    pub reset: u64,
}

/// The state of all three windows: the source of the nine rate headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// The UTC minute.
    pub minute: Allowance,
    /// The UTC hour.
    pub hour: Allowance,
    /// The UTC day.
    pub day: Allowance,
}

impl Windows {
    /// Returns the windows of `plan` at `now` after `used` requests (minute, hour, day).
    pub fn of(plan: &Plan, used: [u64; 3], now: Time) -> Self {
        let allowance = |span: WindowSpan, limit: u64, used: u64| Allowance {
            limit,
            remaining: limit.saturating_sub(used),
            reset: span.reset(now),
        };
        Windows {
            minute: allowance(WindowSpan::Minute, plan.per_minute, used[0]),
            hour: allowance(WindowSpan::Hour, plan.per_hour, used[1]),
            day: allowance(WindowSpan::Day, plan.per_day, used[2]),
        }
    }

    /// Returns the window with the fewest requests left, on a tie the shorter one. It fills the `ratelimit-*` headers.
    pub fn tightest(&self) -> Allowance {
        [self.hour, self.day]
            .into_iter()
            .fold(self.minute, |least, next| if next.remaining < least.remaining { next } else { least })
    }

    /// Returns `Retry-After` in seconds, the latest reset of the exhausted windows; `None` if all can take `weight`.
    pub fn exhausted(&self, weight: u64) -> Option<u64> {
        [self.minute, self.hour, self.day].into_iter().filter(|w| w.remaining < weight).map(|w| w.reset).max()
    }
}

/// A count that restarts with every span of `SECS` seconds of the UTC clock.
///
/// The count only moves forward: an arrival in a past span counts in the newest one, so that a request cannot reopen a
/// span by arriving before its neighbours and being decided after them. Only [`forget_ahead`](Fixed::forget_ahead)
/// removes a count, after the clock was set back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fixed<const SECS: u64> {
    number: u64,
    count: u64,
}

impl<const SECS: u64> Fixed<SECS> {
    /// Returns the count of the span in which this arrival is counted.
    pub const fn used(&self, arrival: Time) -> u64 {
        if arrival.secs() / SECS > self.number { 0 } else { self.count }
    }

    /// Counts `weight` for an arrival, and returns the number of the span in which it was counted.
    pub const fn add(&mut self, weight: u64, arrival: Time) -> u64 {
        let number = arrival.secs() / SECS;
        if number > self.number {
            (self.number, self.count) = (number, 0);
        }
        self.count = self.count.saturating_add(weight);
        self.number
    }

    /// Undoes an [`add`](Fixed::add) in the span `number`. Does nothing if that span is over.
    pub const fn give_back(&mut self, weight: u64, number: u64) {
        if number == self.number {
            self.count = self.count.saturating_sub(weight);
        }
    }

    /// Removes a count that is more than one span ahead of `present`, because the clock was set back.
    pub const fn forget_ahead(&mut self, present: Time) {
        if self.is_ahead(present) {
            (self.number, self.count) = (0, 0);
        }
    }

    /// Reports whether the count is irrelevant at `present`: its span is over, or the clock was set back.
    pub const fn is_over(&self, present: Time) -> bool {
        present.secs() / SECS > self.number || self.is_ahead(present)
    }

    const fn is_ahead(&self, present: Time) -> bool {
        present.secs() / SECS + 1 < self.number
    }
}

/// The three counts of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyWindows {
    minute: Fixed<60>,
    hour: Fixed<3_600>,
    day: Fixed<86_400>,
}

impl KeyWindows {
    /// Returns the windows of `plan`.
    pub fn peek(&self, plan: &Plan, now: Time) -> Windows {
        Windows::of(plan, [self.minute.used(now), self.hour.used(now), self.day.used(now)], now)
    }

    /// Counts `weight` requests in all windows, or in none if one lacks capacity. `Err` holds the seconds to wait.
    pub fn take(&mut self, plan: &Plan, weight: u64, now: Time) -> (Windows, Result<(), u64>) {
        let before = self.peek(plan, now);
        if let Some(wait) = before.exhausted(weight) {
            return (before, Err(wait));
        }
        self.add(weight, now);
        (self.peek(plan, now), Ok(()))
    }

    /// Restores the counts in the windows of `now` (minute, hour, day) from before a restart.
    pub const fn restore(&mut self, used: [u64; 3], now: Time) {
        self.minute.add(used[0], now);
        self.hour.add(used[1], now);
        self.day.add(used[2], now);
    }

    /// Counts without a check.
    pub const fn add(&mut self, weight: u64, now: Time) {
        self.minute.add(weight, now);
        self.hour.add(weight, now);
        self.day.add(weight, now);
    }

    /// Removes counts that are ahead of `present`: see [`Fixed::forget_ahead`].
    pub const fn forget_ahead(&mut self, present: Time) {
        self.minute.forget_ahead(present);
        self.hour.forget_ahead(present);
        self.day.forget_ahead(present);
    }

    /// Reports whether all counts are irrelevant at `present`.
    pub const fn is_over(&self, present: Time) -> bool {
        self.day.is_over(present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Tier;
    use proptest::prelude::*;

    const FREE: Plan = Plan::of(Tier::Free);

    #[test]
    fn a_window_starts_again_on_the_utc_clock() {
        let mut windows = KeyWindows::default();
        for _ in 0..10 {
            assert_eq!(windows.take(&FREE, 1, Time::from_secs(119)).1, Ok(()));
        }
        assert_eq!(windows.take(&FREE, 1, Time::from_secs(119)).1, Err(1));
        let (after, taken) = windows.take(&FREE, 1, Time::from_secs(120));
        assert_eq!(taken, Ok(()));
        assert_eq!((after.minute.remaining, after.hour.remaining, after.day.remaining), (9, 489, 9_989));
    }

    #[test]
    fn a_refused_request_counts_in_no_window() {
        let mut windows = KeyWindows::default();
        let now = Time::from_secs(7);
        windows.add(10, now);
        let before = windows;
        assert_eq!(windows.take(&FREE, 1, now).1, Err(53));
        assert_eq!(windows, before);
    }

    #[test]
    fn retry_after_is_the_latest_reset_among_the_exhausted_windows() {
        let mut windows = KeyWindows::default();
        let now = Time::from_secs(30);
        windows.add(500, now);
        assert_eq!(windows.take(&FREE, 1, now).1, Err(3_570), "minute and hour are used up");
    }

    #[test]
    fn the_tightest_window_is_the_shorter_of_equals() {
        let plan = Plan { per_minute: 5, per_hour: 5, per_day: 4, ..FREE };
        let windows = Windows::of(&plan, [0, 0, 0], Time::from_secs(0));
        assert_eq!(windows.tightest(), windows.day);
        let windows = Windows::of(&Plan { per_day: 5, ..plan }, [0, 0, 0], Time::from_secs(0));
        assert_eq!(windows.tightest(), windows.minute);
    }

    #[test]
    fn a_late_arrival_opens_no_second_allowance() {
        let mut windows = KeyWindows::default();
        windows.add(10, Time::from_secs(7_200));
        assert!(windows.take(&FREE, 1, Time::from_secs(7_199)).1.is_err());
    }

    #[test]
    fn an_arrival_of_many_spans_ago_counts_in_the_newest_span() {
        let mut windows = KeyWindows::default();
        windows.add(10, Time::from_secs(7_200));
        for late in [7_199, 7_081, 3_599, 0] {
            assert_eq!(windows.take(&FREE, 1, Time::from_secs(late)).1.map_err(|_| ()), Err(()), "{late}");
        }
        assert_eq!(windows.take(&FREE, 1, Time::from_secs(7_259)).1, Err(1), "nothing was reset");
        let (after, taken) = windows.take(&FREE, 1, Time::from_secs(7_260));
        assert_eq!((taken, after.hour.remaining), (Ok(()), 489));
    }

    #[test]
    fn requests_returned_after_their_window_are_not_taken_from_the_next() {
        let mut second = Fixed::<1>::default();
        let number = second.add(1, Time::from_secs(5));
        second.add(3, Time::from_secs(6));
        second.give_back(1, number);
        assert_eq!(second.used(Time::from_secs(6)), 3);
        let late = second.add(1, Time::from_secs(5));
        second.give_back(1, late);
        assert_eq!(second.used(Time::from_secs(6)), 3, "a late arrival is given back where it was counted");
    }

    #[test]
    fn after_the_clock_was_set_back_an_hour_no_minute_is_locked_for_an_hour() {
        let mut windows = KeyWindows::default();
        windows.add(10, Time::from_secs(7_200));
        let present = Time::from_secs(3_600);
        windows.forget_ahead(present);
        let (after, taken) = windows.take(&FREE, 1, present);
        assert_eq!((taken, after.minute.remaining, after.hour.remaining), (Ok(()), 9, 489));
        let mut windows = KeyWindows::default();
        windows.add(10, Time::from_secs(7_200));
        let before = windows;
        windows.forget_ahead(Time::from_secs(7_199));
        assert_eq!(windows, before, "a clock that was read a moment before takes nothing back");
    }

    proptest! {
        /// A request is counted in the span of its arrival or, if that is over, in the newest one.
        // Shows (Limits, budget and quota).
        #[test]
        fn late_arrivals_agree_with_a_list_of_all_admitted_requests(
            steps in proptest::collection::vec((0u64..100, 0u64..9_000, 0u32..4, 1u64..4), 1..300),
        ) {
            let plan = Plan { per_minute: 4, per_hour: 20, per_day: 60, ..FREE };
            let mut windows = KeyWindows::default();
            // For each span: the numbers under which requests were counted, and their weights.
            let mut counted: [Vec<(u64, u64)>; 3] = Default::default();
            let mut secs = 1_000_000;
            for (step, late, chance, weight) in steps {
                secs += step;
                let arrival = if chance == 0 { secs - late } else { secs };
                let numbers: [u64; 3] = std::array::from_fn(|n| {
                    let newest = counted[n].iter().map(|(number, _)| *number).max().unwrap_or(0);
                    newest.max(arrival / WindowSpan::ALL[n].secs())
                });
                let used = |counted: &[Vec<(u64, u64)>; 3]| -> [u64; 3] {
                    std::array::from_fn(|n| {
                        counted[n].iter().filter(|(number, _)| *number == numbers[n]).map(|(_, weight)| weight).sum()
                    })
                };
                let now = Time::from_secs(arrival);
                let before = used(&counted);
                let fits = before[0] + weight <= 4 && before[1] + weight <= 20 && before[2] + weight <= 60;
                let (after, taken) = windows.take(&plan, weight, now);
                prop_assert_eq!(taken.is_ok(), fits);
                if fits {
                    counted.iter_mut().zip(numbers).for_each(|(counted, number)| counted.push((number, weight)));
                }
                prop_assert_eq!(after, Windows::of(&plan, used(&counted), now));
            }
        }

        #[test]
        fn windows_agree_with_a_list_of_all_admitted_requests(
            steps in proptest::collection::vec((0u64..4_000, 1u64..4), 1..300),
        ) {
            let plan = Plan { per_minute: 4, per_hour: 20, per_day: 60, ..FREE };
            let mut windows = KeyWindows::default();
            let mut admitted: Vec<(u64, u64)> = Vec::new();
            let mut secs = 1_000_000;
            for (step, weight) in steps {
                secs += step;
                let now = Time::from_secs(secs);
                let used = |span: u64| -> u64 {
                    admitted.iter().filter(|(at, _)| at / span == secs / span).map(|(_, w)| w).sum()
                };
                let room = used(60) + weight <= 4 && used(3_600) + weight <= 20 && used(86_400) + weight <= 60;
                let (after, taken) = windows.take(&plan, weight, now);
                prop_assert_eq!(taken.is_ok(), room);
                if room {
                    admitted.push((secs, weight));
                }
                let used = |span: u64| -> u64 {
                    admitted.iter().filter(|(at, _)| at / span == secs / span).map(|(_, w)| w).sum()
                };
                prop_assert_eq!(after, Windows::of(&plan, [used(60), used(3_600), used(86_400)], now));
                if let Err(wait) = taken {
                    prop_assert!((1..=86_400).contains(&wait));
                }
            }
        }
    }
}
