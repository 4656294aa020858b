//! A project's Compute Units over a rolling 24 hours: the current UTC hour and the 23 before.

use crate::clock::Time;

/// The entries of a set that were granted: bit *n* is entry *n*. A set has at most 100 entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mask(u128);

impl Mask {
    /// Marks entry `index`.
    pub const fn set(&mut self, index: usize) {
        self.0 |= 1 << (index & 127);
    }

    /// Reports whether entry `index` is marked.
    pub const fn has(self, index: usize) -> bool {
        self.0 >> (index & 127) & 1 == 1
    }
}

/// The reserved units, and the hour that a refund goes back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// The number of the UTC hour.
    pub hour: u64,
    /// Compute Units.
    pub units: u64,
    /// Units used in the 24 hours before, as the counters know it. For explanations only.
    pub used: u64,
}

/// Units by hour. The units of an hour expire exactly 24 hours after it began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rolling {
    /// A ring of hours: hour *h* is at index *h* mod 24.
    units: [u64; 24],
    hour: u64,
}

impl Rolling {
    /// Returns the units in the hour of `now` and the 23 before.
    pub fn used(&self, now: Time) -> u64 {
        let newest = now.hour().max(self.hour);
        let oldest = newest.saturating_sub(23);
        (oldest..=self.hour).map(|hour| self.units[(hour % 24) as usize]).fold(0, u64::saturating_add)
    }

    /// Counts `units` in the hour of `now`. Hours more than 23 before the newest are ignored.
    pub fn add(&mut self, units: u64, now: Time) {
        self.roll(now.hour());
        if let Some(slot) = self.slot(now.hour()) {
            *slot = slot.saturating_add(units);
        }
    }

    /// Reserves `costs` in order, each if the units used before it are below `ceiling`: the call that crosses the
    /// ceiling is the last one served. A call that costs nothing always passes.
    pub fn reserve(&mut self, costs: &[u32], ceiling: u64, now: Time) -> (Mask, Grant) {
        self.roll(now.hour());
        let mut used = self.used(now);
        let mut mask = Mask::default();
        let mut grant = Grant { hour: now.hour(), units: 0, used };
        for (index, cost) in costs.iter().enumerate() {
            if *cost == 0 || used < ceiling {
                mask.set(index);
                used = used.saturating_add(u64::from(*cost));
                grant.units = grant.units.saturating_add(u64::from(*cost));
            }
        }
        if let Some(slot) = self.slot(grant.hour) {
            *slot = slot.saturating_add(grant.units);
        }
        (mask, grant)
    }

    /// Refunds `units` of a grant to its hour. Does nothing if that hour has left the window.
    pub fn refund(&mut self, hour: u64, units: u64) {
        if let Some(slot) = self.slot(hour) {
            *slot = slot.saturating_sub(units);
        }
    }

    /// Reports whether all hours have left the window at `now`.
    pub fn is_over(&self, now: Time) -> bool {
        now.hour() > self.hour + 23
    }

    fn roll(&mut self, to: u64) {
        if to <= self.hour {
            return;
        }
        for hour in (self.hour + 1).max(to.saturating_sub(23))..=to {
            self.units[(hour % 24) as usize] = 0;
        }
        self.hour = to;
    }

    fn slot(&mut self, hour: u64) -> Option<&mut u64> {
        (hour <= self.hour && self.hour - hour < 24).then(|| &mut self.units[(hour % 24) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(hour: u64) -> Time {
        Time::from_secs(hour * 3_600)
    }

    #[test]
    fn the_units_of_an_hour_leave_24_hours_after_it_began() {
        let mut rolling = Rolling::default();
        let start = at(500_000);
        rolling.add(70, start.plus(Duration::from_micros(3_599_900_000)));
        let last = start.plus(24 * HOUR - Duration::from_micros(1));
        assert_eq!(rolling.used(last), 70);
        assert_eq!(rolling.used(start.plus(24 * HOUR)), 0);
    }

    #[test]
    fn the_call_that_crosses_the_ceiling_is_served_and_the_next_is_not() {
        let mut rolling = Rolling::default();
        rolling.add(99, at(5));
        let (mask, grant) = rolling.reserve(&[75, 1, 0, 5], 100, at(5));
        assert!(mask.has(0) && !mask.has(1) && mask.has(2) && !mask.has(3));
        assert_eq!(grant, Grant { hour: 5, units: 75, used: 99 });
        assert_eq!(rolling.used(at(5)), 174);
    }

    // Shows (Management).
    #[test]
    fn the_largest_ceiling_is_never_reached() {
        let mut rolling = Rolling::default();
        let units = 4 * u64::from(u32::MAX);
        for hour in 5..9 {
            let (mask, grant) = rolling.reserve(&[u32::MAX; 4], u64::MAX, at(hour));
            assert!((0..4).all(|index| mask.has(index)));
            assert_eq!(grant, Grant { hour, units, used: (hour - 5) * units });
        }
    }

    #[test]
    fn a_ceiling_of_zero_refuses_all_that_costs() {
        let (mask, _) = Rolling::default().reserve(&[1, 0], 0, at(5));
        assert!(!mask.has(0) && mask.has(1));
    }

    #[test]
    fn a_refund_goes_to_the_hour_of_the_grant() {
        let mut rolling = Rolling::default();
        let (_, grant) = rolling.reserve(&[10], 100, at(5));
        rolling.add(7, at(6));
        rolling.refund(grant.hour, 10);
        assert_eq!((rolling.used(at(6)), rolling.used(at(28)), rolling.used(at(29))), (7, 7, 7));
        rolling.add(0, at(40));
        rolling.refund(5, 10);
        assert_eq!(rolling.used(at(40)), 0, "that hour has left; nothing turns negative");
    }

    #[test]
    fn an_hour_long_past_disturbs_no_newer_one() {
        let mut rolling = Rolling::default();
        rolling.add(5, at(100));
        rolling.add(3, at(76));
        assert_eq!(rolling.used(at(100)), 5);
        rolling.add(3, at(77));
        assert_eq!(rolling.used(at(100)), 8);
        assert_eq!(rolling.used(at(101)), 5);
    }

    proptest! {
        #[test]
        fn rolling_units_agree_with_a_list_of_all_charges(
            steps in proptest::collection::vec((0u64..20_000_000_000, 0u32..90, any::<bool>()), 1..200),
        ) {
            const CEILING: u64 = 300;
            let mut rolling = Rolling::default();
            let mut charges: Vec<(u64, u64)> = Vec::new();
            let mut micros = 500_000 * 3_600_000_000;
            for (step, cost, refunded) in steps {
                micros += step;
                let now = Time::from_micros(micros);
                let used = |charges: &[(u64, u64)]| -> u64 {
                    charges.iter().filter(|(hour, _)| now.hour() - hour < 24).map(|(_, cu)| cu).sum()
                };
                let before = used(&charges);
                prop_assert_eq!(rolling.used(now), before);
                let (mask, grant) = rolling.reserve(&[cost], CEILING, now);
                prop_assert_eq!(mask.has(0), cost == 0 || before < CEILING);
                if mask.has(0) {
                    charges.push((now.hour(), u64::from(cost)));
                    if refunded {
                        rolling.refund(grant.hour, grant.units);
                        charges.pop();
                    }
                }
                prop_assert_eq!(rolling.used(now), used(&charges));
            }
        }
    }
}
