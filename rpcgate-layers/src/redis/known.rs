//! A gateway's view of a key's windows: the last counts from Redis, and its own counts since then.

use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use rpcgate_core::window::Windows;
use smallvec::SmallVec;

pub(super) const fn numbers(now: Time) -> [u64; 3] {
    [now.minute(), now.hour(), now.day()]
}

/// The count of the minute, hour or day with this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Spot {
    pub(super) number: u64,
    pub(super) count: u64,
}

impl Spot {
    /// Returns the count for an arrival in the span `number`. Late arrivals count in the newest span, as in
    /// [`Fixed`](rpcgate_core::window::Fixed).
    const fn used(self, number: u64) -> u64 {
        if number > self.number { 0 } else { self.count }
    }

    const fn add(&mut self, number: u64, weight: u64) {
        if number > self.number {
            *self = Spot { number, count: 0 };
        }
        self.count = self.count.saturating_add(weight);
    }

    /// Raises the count of the span `number` to at least `count`.
    const fn raise(&mut self, number: u64, count: u64) {
        if number > self.number {
            *self = Spot { number, count };
        } else if number == self.number && count > self.count {
            self.count = count;
        }
    }
}

/// Counts that were made alone and are still to be sent to Redis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owed {
    /// 0 for the minute, 1 for the hour, 2 for the day.
    pub(super) span: usize,
    pub(super) number: u64,
    pub(super) count: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Known {
    spots: [Spot; 3],
    owed: SmallVec<[Owed; 3]>,
    /// True if Redis may have lowered the hour and the day since it returned them.
    doubted: bool,
}

impl Known {
    pub(super) fn peek(&self, plan: &Plan, now: Time) -> Windows {
        let numbers = numbers(now);
        Windows::of(plan, std::array::from_fn(|span| self.spots[span].used(numbers[span])), now)
    }

    /// Returns the numbers of the spans in which an arrival at `arrival` counts: its own, or newer ones if those are
    /// over.
    pub(super) fn numbers(&self, arrival: Time) -> [u64; 3] {
        let own = numbers(arrival);
        std::array::from_fn(|span| own[span].max(self.spots[span].number))
    }

    /// Applies counts from Redis, or from a database at start-up: the windows with these numbers have at least these
    /// counts.
    pub(super) fn raise(&mut self, used: [u64; 3], numbers: [u64; 3]) {
        if std::mem::take(&mut self.doubted) {
            for span in [1, 2] {
                self.spots[span].count = self.owed(span, self.spots[span].number);
            }
        }
        for ((spot, number), count) in self.spots.iter_mut().zip(numbers).zip(used) {
            spot.raise(number, count);
        }
    }

    /// Counts on the known counts, without Redis: in all three windows or in none. `Err` is the number of seconds to
    /// wait.
    pub(super) fn take(&mut self, plan: &Plan, weight: u64, now: Time) -> (Windows, Result<(), u64>) {
        let before = self.peek(plan, now);
        if let Some(wait) = before.exhausted(weight) {
            return (before, Err(wait));
        }
        for (span, number) in self.numbers(now).into_iter().enumerate() {
            self.spots[span].add(number, weight);
            // Counts of two spans ago are no longer needed.
            self.owed.retain(|owed| owed.span != span || owed.number + 1 >= number);
            match self.owed.iter_mut().find(|owed| (owed.span, owed.number) == (span, number)) {
                Some(owed) => owed.count = owed.count.saturating_add(weight),
                None => self.owed.push(Owed { span, number, count: weight }),
            }
        }
        (self.peek(plan, now), Ok(()))
    }

    /// Takes the counts to be sent to Redis; they are no longer owed.
    pub(super) fn pay(&mut self) -> SmallVec<[Owed; 3]> {
        std::mem::take(&mut self.owed)
    }

    pub(super) fn owed(&self, span: usize, number: u64) -> u64 {
        let owed = self.owed.iter().filter(|owed| (owed.span, owed.number) == (span, number));
        owed.map(|owed| owed.count).sum()
    }

    /// Returns the known counts of Redis, without the owed ones.
    pub(super) fn reported(&self) -> [Spot; 3] {
        std::array::from_fn(|span| {
            let Spot { number, count } = self.spots[span];
            let owed = self.owed.iter().filter(|owed| owed.span == span && owed.number + 1 >= number);
            Spot { number, count: count.saturating_sub(owed.map(|owed| owed.count).sum()) }
        })
    }

    /// Marks the known counts of the hour and the day as possibly too high. They are kept until Redis returns new ones,
    /// but they refuse no call while Redis is reachable.
    pub(super) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// Reports whether Redis must decide even if a window seems to be full.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Removes counts of spans more than one ahead of `present`: the clock was set back since.
    pub(super) fn forget_ahead(&mut self, present: Time) {
        for (spot, number) in self.spots.iter_mut().zip(numbers(present)) {
            if spot.number > number + 1 {
                *spot = Spot::default();
            }
        }
    }

    /// Reports whether the entry can be removed at `present`.
    pub(super) fn is_over(&self, present: Time) -> bool {
        self.owed.is_empty() && present.day() > self.spots[2].number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::plan::Tier;

    const FREE: Plan = Plan::of(Tier::Free);

    fn at(secs: u64) -> Time {
        Time::from_secs(400_000 * 3_600 + secs)
    }

    fn left(known: &Known, now: Time) -> [u64; 3] {
        let windows = known.peek(&FREE, now);
        [windows.minute.remaining, windows.hour.remaining, windows.day.remaining]
    }

    #[test]
    fn counts_from_redis_never_lower_the_known_count_of_the_same_span() {
        let mut known = Known::default();
        known.raise([5, 50, 500], numbers(at(59)));
        known.raise([4, 51, 500], numbers(at(59)));
        assert_eq!(left(&known, at(59)), [5, 449, 9_500]);
        known.raise([1, 52, 501], numbers(at(60)));
        assert_eq!(left(&known, at(60)), [9, 448, 9_499]);
        known.raise([7, 52, 501], numbers(at(59)));
        assert_eq!(left(&known, at(60)), [9, 448, 9_499], "what comes late does not bring a minute back");
    }

    #[test]
    fn a_late_arrival_counts_in_the_newest_spans_until_the_clock_is_set_back() {
        let mut known = Known::default();
        known.raise([10, 50, 500], numbers(at(7_200)));
        assert_eq!(known.numbers(at(3_000)), numbers(at(7_200)));
        assert!(known.take(&FREE, 1, at(3_000)).1.is_err(), "the newest minute is full");
        known.forget_ahead(at(7_199));
        assert_eq!(known.numbers(at(7_199)), numbers(at(7_200)), "the clock was read a moment before");
        known.forget_ahead(at(3_000));
        assert_eq!(known.numbers(at(3_000))[0], at(3_000).minute());
        assert_eq!(known.take(&FREE, 1, at(3_000)).1, Ok(()));
    }

    #[test]
    fn doubted_counts_stay_until_redis_returns_new_ones() {
        let mut known = Known::default();
        known.raise([5, 500, 9_000], numbers(at(0)));
        known.doubt();
        assert!(known.is_doubted());
        assert_eq!(left(&known, at(0)), [5, 0, 1_000], "without Redis it is all that is known");
        known.raise([6, 70, 800], numbers(at(0)));
        assert!(!known.is_doubted());
        assert_eq!(left(&known, at(0)), [4, 430, 9_200]);
        assert_eq!(known.take(&FREE, 2, at(0)).1, Ok(()));
        known.doubt();
        known.raise([8, 1, 1], numbers(at(0)));
        assert_eq!(left(&known, at(0)), [2, 498, 9_998], "Redis does not have the counts made alone yet");
    }

    #[test]
    fn counts_made_alone_are_owed_until_they_are_sent() {
        let mut known = Known::default();
        known.raise([8, 50, 500], numbers(at(0)));
        assert_eq!(known.take(&FREE, 2, at(0)).1, Ok(()));
        assert_eq!(known.take(&FREE, 1, at(0)).1, Err(60));
        assert_eq!(known.reported().map(|spot| spot.count), [8, 50, 500]);
        assert_eq!(known.take(&FREE, 3, at(61)).1, Ok(()));
        let owed: Vec<_> = known.pay().into_iter().map(|owed| (owed.span, owed.count)).collect();
        assert_eq!(owed, [(0, 2), (1, 5), (2, 5), (0, 3)]);
        assert!(known.pay().is_empty());
        assert_eq!(known.reported().map(|spot| spot.count), [3, 55, 505]);
    }

    #[test]
    fn a_long_outage_owes_only_counts_that_are_still_valid() {
        let mut known = Known::default();
        for minute in 0..30 {
            assert_eq!(known.take(&FREE, 1, at(minute * 60)).1, Ok(()));
        }
        let owed = known.pay();
        assert_eq!(owed.iter().filter(|owed| owed.span == 0).count(), 2);
        assert_eq!(
            owed.iter().filter(|owed| owed.span == 1).map(|owed| owed.count).collect::<Vec<_>>(),
            [30]
        );
    }

    #[test]
    fn a_key_is_forgotten_when_its_day_is_over_and_all_counts_are_sent() {
        let mut known = Known::default();
        assert_eq!(known.take(&FREE, 1, at(0)).1, Ok(()));
        let later = at(3 * 86_400);
        assert!(!known.is_over(later));
        known.pay();
        assert!(known.is_over(later) && !known.is_over(at(0)));
    }
}
