//! The requests that a plan's windows refuse, from the counts of hours and days.
//!
//! Hours and days are exact: a refused request does not count, so an hour admits requests up to its window until the
//! day is full. Minutes are not stored. The rule that an hour admits at most sixty times the minute's window gives a
//! lower bound for the refusals of the minute.

/// The windows of a plan: the requests of a key in a UTC minute, hour and day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PlanWindows {
    pub(super) per_minute: u64,
    pub(super) per_hour: u64,
    pub(super) per_day: u64,
}

impl PlanWindows {
    /// Returns the maximum number of requests that an hour admits.
    pub(super) const fn of_hour(&self) -> u64 {
        let minutes = self.per_minute.saturating_mul(60);
        if minutes < self.per_hour { minutes } else { self.per_hour }
    }
}

/// The requests of a key in a day, as pairs of admitted ones and ones refused with 429.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct WindowUse {
    /// The hours that come near the windows, in any order.
    pub(super) hours: Vec<(u64, u64)>,
    /// The whole day, if it comes near the window.
    pub(super) day: Option<(u64, u64)>,
}

impl WindowUse {
    /// Returns the number of requests that the windows `then` refuse, where `present` were in force. A request refused
    /// in an hour or a day whose present window is full counts as requested. Other refused requests were refused by the
    /// minute or by another limit, and would be again.
    pub(super) fn refused(&self, present: &PlanWindows, then: &PlanWindows) -> u64 {
        let mut wanted_more = 0_u64;
        let mut beyond_hours = 0_u64;
        for (admitted, refused) in &self.hours {
            let more = if *admitted >= present.of_hour() { *refused } else { 0 };
            wanted_more = wanted_more.saturating_add(more);
            let beyond = admitted.saturating_add(more).saturating_sub(then.of_hour());
            beyond_hours = beyond_hours.saturating_add(beyond);
        }
        let Some((admitted, refused)) = self.day else { return beyond_hours };
        let more = if admitted >= present.per_day { refused } else { wanted_more };
        let requested = admitted.saturating_add(more);
        beyond_hours.saturating_add(requested.saturating_sub(beyond_hours).saturating_sub(then.per_day))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WIDE: PlanWindows = PlanWindows { per_minute: 1_000, per_hour: 50_000, per_day: 1_000_000 };

    #[test]
    fn hours_and_days_refuse_requests_beyond_their_windows() {
        let day = WindowUse { hours: vec![(40, 0), (25, 0)], day: Some((90, 0)) };
        let refused = |per_hour, per_day| day.refused(&WIDE, &PlanWindows { per_hour, per_day, ..WIDE });
        assert_eq!(refused(100, 100), 0);
        assert_eq!(refused(30, 100), 10);
        assert_eq!(refused(20, 100), 25);
        assert_eq!(refused(20, 60), 25 + 5, "of the 90, the hours admit 65, and the day 60 of them");
        assert_eq!(refused(100, 60), 30);
        let whole = WindowUse { hours: vec![(40, 0), (25, 0), (25, 0)], ..day };
        assert_eq!(
            whole.refused(&WIDE, &PlanWindows { per_minute: 0, ..WIDE }),
            90,
            "once, not by the day too"
        );
    }

    #[test]
    fn an_hour_admits_at_most_sixty_times_the_window_of_a_minute() {
        let day = WindowUse { hours: vec![(700, 0)], day: None };
        assert_eq!(day.refused(&WIDE, &PlanWindows { per_minute: 10, ..WIDE }), 100);
        assert_eq!(day.refused(&WIDE, &PlanWindows { per_minute: 10, per_hour: 500, ..WIDE }), 200);
        assert_eq!(day.refused(&WIDE, &PlanWindows { per_minute: u64::MAX, ..WIDE }), 0);
    }

    #[test]
    fn a_request_refused_by_a_full_window_is_admitted_by_a_larger_one() {
        let present = PlanWindows { per_minute: 100, per_hour: 50, per_day: 1_000 };
        let day = WindowUse { hours: vec![(50, 20), (30, 7)], day: Some((80, 27)) };
        let refused =
            |per_hour, per_day| day.refused(&present, &PlanWindows { per_hour, per_day, ..present });
        assert_eq!(refused(50, 1_000), 20, "the 7 were refused by something else");
        assert_eq!(refused(60, 1_000), 10);
        assert_eq!(refused(70, 1_000), 0);
        assert_eq!(refused(60, 85), 15);
        let full = PlanWindows { per_day: 80, ..present };
        assert_eq!(day.refused(&full, &full), 27, "the day is full, so all were refused by it");
        assert_eq!(day.refused(&full, &PlanWindows { per_day: 100, per_hour: 100, ..full }), 7);
    }

    /// Counts the requests that the windows of hour and day refuse, one after another.
    fn one_by_one(hours: &[u64], then: &PlanWindows) -> u64 {
        let mut of_day = 0;
        let mut refused = 0;
        for requests in hours {
            let mut of_hour = 0;
            for _ in 0..*requests {
                if of_hour < then.per_hour && of_day < then.per_day {
                    (of_hour, of_day) = (of_hour + 1, of_day + 1);
                } else {
                    refused += 1;
                }
            }
        }
        refused
    }

    proptest! {
        // Shows (Plans, bills and payments).
        #[test]
        fn the_sum_is_that_of_the_requests_one_by_one(
            hours in prop::collection::vec(0_u64..40, 24), per_hour in 0_u64..50, per_day in 0_u64..500,
        ) {
            let then = PlanWindows { per_minute: 1_000, per_hour, per_day };
            let day = WindowUse {
                hours: hours.iter().map(|admitted| (*admitted, 0)).collect(),
                day: Some((hours.iter().sum(), 0)),
            };
            prop_assert_eq!(day.refused(&WIDE, &then), one_by_one(&hours, &then));
            // Hours and days within the windows need not be known.
            let near = WindowUse {
                hours: day.hours.iter().filter(|(admitted, _)| *admitted > per_hour).copied().collect(),
                day: day.day.filter(|(admitted, _)| *admitted > per_day),
            };
            prop_assert_eq!(near.refused(&WIDE, &then), day.refused(&WIDE, &then));
        }

        #[test]
        fn larger_windows_refuse_no_more(
            hours in prop::collection::vec((0_u64..40, 0_u64..9), 24),
            present in (1_u64..50, 1_u64..500), then in (1_u64..50, 1_u64..500), wider in (0_u64..9, 0_u64..90),
        ) {
            let windows = |(per_hour, per_day)| PlanWindows { per_minute: 1_000, per_hour, per_day };
            let (admitted, refused) = hours.iter().fold((0, 0), |sum, hour| (sum.0 + hour.0, sum.1 + hour.1));
            let day = WindowUse { hours, day: Some((admitted, refused)) };
            let larger = (then.0 + wider.0, then.1 + wider.1);
            let of = |asked| day.refused(&windows(present), &windows(asked));
            prop_assert!(of(larger) <= of(then));
        }
    }
}
