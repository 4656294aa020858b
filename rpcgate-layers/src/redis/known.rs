//! What a gateway knows of a key's windows: as Redis told them last, and what it has counted itself since.

use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use rpcgate_core::window::Windows;
use smallvec::SmallVec;

/// The numbers of the minute, the hour and the day of a moment.
pub(super) const fn numbers(now: Time) -> [u64; 3] {
    [now.minute(), now.hour(), now.day()]
}

/// The count of one span: the one by this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Spot {
    pub(super) number: u64,
    pub(super) count: u64,
}

impl Spot {
    /// What counts for an arrival in the span `number`. What came late is counted in the newest span, as
    /// [`Fixed`](rpcgate_core::window::Fixed) does it.
    const fn used(self, number: u64) -> u64 {
        if number > self.number { 0 } else { self.count }
    }

    const fn add(&mut self, number: u64, weight: u64) {
        if number > self.number {
            *self = Spot { number, count: 0 };
        }
        self.count = self.count.saturating_add(weight);
    }

    /// At least `count` was counted in the span `number`.
    const fn raise(&mut self, number: u64, count: u64) {
        if number > self.number {
            *self = Spot { number, count };
        } else if number == self.number && count > self.count {
            self.count = count;
        }
    }
}

/// What was counted here alone and Redis is still to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owed {
    /// 0: minute, 1: hour, 2: day.
    pub(super) span: usize,
    pub(super) number: u64,
    pub(super) count: u64,
}

/// One key's windows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Known {
    spots: [Spot; 3],
    owed: SmallVec<[Owed; 3]>,
    /// Redis may have lowered the hour and the day since it told them.
    doubted: bool,
}

impl Known {
    /// How the windows of `plan` stand.
    pub(super) fn peek(&self, plan: &Plan, now: Time) -> Windows {
        let numbers = numbers(now);
        Windows::of(plan, std::array::from_fn(|span| self.spots[span].used(numbers[span])), now)
    }

    /// The numbers of the spans in which an arrival at `arrival` counts: its own, or the newest where those are over.
    pub(super) fn numbers(&self, arrival: Time) -> [u64; 3] {
        let own = numbers(arrival);
        std::array::from_fn(|span| own[span].max(self.spots[span].number))
    }

    /// Redis tells, or a database told at the start, that at least so much is counted in the windows by these numbers.
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

    /// Counts without Redis, as far as is known: in all three windows or in none. `Err` holds the seconds to wait.
    pub(super) fn take(&mut self, plan: &Plan, weight: u64, now: Time) -> (Windows, Result<(), u64>) {
        let before = self.peek(plan, now);
        if let Some(wait) = before.exhausted(weight) {
            return (before, Err(wait));
        }
        for (span, number) in self.numbers(now).into_iter().enumerate() {
            self.spots[span].add(number, weight);
            // What is two spans back can matter to nobody any more.
            self.owed.retain(|owed| owed.span != span || owed.number + 1 >= number);
            match self.owed.iter_mut().find(|owed| (owed.span, owed.number) == (span, number)) {
                Some(owed) => owed.count = owed.count.saturating_add(weight),
                None => self.owed.push(Owed { span, number, count: weight }),
            }
        }
        (self.peek(plan, now), Ok(()))
    }

    /// What Redis is to be told; it is not owed any more.
    pub(super) fn pay(&mut self) -> SmallVec<[Owed; 3]> {
        std::mem::take(&mut self.owed)
    }

    /// What is owed of one span.
    pub(super) fn owed(&self, span: usize, number: u64) -> u64 {
        let owed = self.owed.iter().filter(|owed| (owed.span, owed.number) == (span, number));
        owed.map(|owed| owed.count).sum()
    }

    /// What Redis has counted as far as is known: without what is owed.
    pub(super) fn told(&self) -> [Spot; 3] {
        std::array::from_fn(|span| {
            let Spot { number, count } = self.spots[span];
            let owed = self.owed.iter().filter(|owed| owed.span == span && owed.number + 1 >= number);
            Spot { number, count: count.saturating_sub(owed.map(|owed| owed.count).sum()) }
        })
    }

    /// What is known of the hour and the day may be more than what is counted by now. It is the best there is until
    /// Redis tells it anew, but nobody is refused by it while Redis can be asked.
    pub(super) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// Whether Redis must be asked even if a window seems to be full.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Forgets what lies more than one span ahead of `present`: the clock was set back since.
    pub(super) fn forget_ahead(&mut self, present: Time) {
        for (spot, number) in self.spots.iter_mut().zip(numbers(present)) {
            if spot.number > number + 1 {
                *spot = Spot::default();
            }
        }
    }

    /// Whether nothing of it matters any more at `present`.
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
    fn what_is_told_never_lowers_what_is_known_of_the_same_span() {
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
    fn what_is_doubted_stays_until_redis_tells_it_anew() {
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
        assert_eq!(left(&known, at(0)), [2, 498, 9_998], "Redis has not been told of what was counted alone");
    }

    #[test]
    fn what_is_counted_alone_is_owed_until_it_is_paid() {
        let mut known = Known::default();
        known.raise([8, 50, 500], numbers(at(0)));
        assert_eq!(known.take(&FREE, 2, at(0)).1, Ok(()));
        assert_eq!(known.take(&FREE, 1, at(0)).1, Err(60));
        assert_eq!(known.told().map(|spot| spot.count), [8, 50, 500]);
        assert_eq!(known.take(&FREE, 3, at(61)).1, Ok(()));
        let owed: Vec<_> = known.pay().into_iter().map(|owed| (owed.span, owed.count)).collect();
        assert_eq!(owed, [(0, 2), (1, 5), (2, 5), (0, 3)]);
        assert!(known.pay().is_empty());
        assert_eq!(known.told().map(|spot| spot.count), [3, 55, 505]);
    }

    #[test]
    fn a_long_outage_owes_only_what_still_matters() {
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
    fn a_key_is_forgotten_when_its_day_is_over_and_nothing_is_owed() {
        let mut known = Known::default();
        assert_eq!(known.take(&FREE, 1, at(0)).1, Ok(()));
        let later = at(3 * 86_400);
        assert!(!known.is_over(later));
        known.pay();
        assert!(known.is_over(later) && !known.is_over(at(0)));
    }
}
