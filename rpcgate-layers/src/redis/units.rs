//! A gateway's view of a project's Compute Units: the last counts from Redis by the hour, the slice that it may spend
//! without a round trip, and the counts that are still to be sent to Redis.

use rpcgate_core::clock::Time;
use rpcgate_core::quota::{Grant, Mask};
use smallvec::SmallVec;

/// Units by the number of their hour; owed units may be negative.
pub(super) type Owed = SmallVec<[(u64, i64); 2]>;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Units {
    /// The last counts from Redis, including those made alone since then.
    hours: Vec<(u64, u64)>,
    /// Units that are counted in Redis in `hour` and not used.
    rest: u64,
    hour: u64,
    /// True if the rest may be spent. Near the ceiling it may not: then it returns to Redis.
    spendable: bool,
    /// The ceiling below which the newest slice was reserved. A call with a lower ceiling may not spend the rest.
    ceiling: u64,
    /// True if a slice was requested and has not arrived.
    requested: bool,
    /// True if it was spent from since the last check.
    touched: bool,
    owed: Owed,
    /// Units that are being returned to Redis, with a reservation of the newest hour or of the previous one.
    returning: u64,
    /// All units that have ever become unused in an hour: slices that arrived and reservations that were returned.
    /// Never falls.
    freed: SmallVec<[(u64, u64); 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Unused {
    pub(super) now: u64,
    /// All units that have ever become unused. Between two times, the number of unused units grows at most by the
    /// growth of this.
    pub(super) ever: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    pub(super) slice: u64,
    /// Units of this hour that are returned first.
    pub(super) back: u64,
    /// The ceiling below which the slice is reserved.
    pub(super) ceiling: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spent {
    /// Paid from the slice, which is large enough for more.
    Yes,
    /// Paid from the slice; it is time to request the next one.
    Low(Want),
    /// The slice is too small: Redis must decide.
    No(Want),
}

impl Units {
    /// Spends `units` of the slice if it is large enough and was not reserved below a higher ceiling than the project's
    /// current one. `slice` is the size to request from Redis.
    pub(super) fn spend(&mut self, units: u64, slice: u64, ceiling: u64, now: Time) -> Spent {
        self.roll(now.hour());
        let is_slice = self.is_spendable(now.hour(), ceiling);
        if is_slice && self.rest >= units {
            self.rest -= units;
            self.touched = true;
            return match self.rest < slice / 2 {
                true if !self.requested => {
                    self.requested = slice > 0;
                    Spent::Low(Want { slice, back: 0, ceiling })
                }
                _ => Spent::Yes,
            };
        }
        let slice = if self.requested { 0 } else { slice };
        self.requested |= slice > 0;
        let back = if self.hour == now.hour() { std::mem::take(&mut self.rest) } else { 0 };
        self.spendable = false;
        self.returning = self.returning.saturating_add(back);
        Spent::No(Want { slice, back, ceiling })
    }

    /// Applies the answer of Redis to `want` in `hour`: a slice, and units by the hour, including the slice.
    pub(super) fn reported(&mut self, want: Want, hour: u64, slice: u64, hours: Vec<(u64, u64)>) {
        self.hours = hours;
        self.returning = self.returning.saturating_sub(want.back);
        self.free(hour, slice);
        for (hour, by) in self.owed.clone() {
            self.shift(hour, by);
        }
        if want.slice == 0 {
            return;
        }
        self.requested = false;
        self.roll(hour);
        if self.hour > hour {
            // The hour in which it was reserved is over.
            self.owe(hour, -signed(slice));
            return;
        }
        self.hour = hour;
        self.rest = self.rest.saturating_add(slice);
        self.spendable = slice > 0;
        self.ceiling = want.ceiling;
        self.touched = true;
    }

    /// Records that Redis did not answer `want` of `hour`.
    pub(super) fn unreported(&mut self, want: Want, hour: u64) {
        self.requested &= want.slice == 0;
        self.returning = self.returning.saturating_sub(want.back);
        self.put_back(hour, want.back);
    }

    /// Reserves on the known counts, without Redis.
    pub(super) fn reserve(&mut self, costs: &[u32], ceiling: u64, now: Time) -> (Mask, Grant) {
        let hour = now.hour();
        let total = costs.iter().map(|cost| u64::from(*cost)).sum();
        let mut mask = Mask::default();
        if self.is_spendable(hour, ceiling) && self.rest >= total {
            // Redis has counted it already.
            self.rest -= total;
            self.touched = true;
            (0..costs.len()).for_each(|index| mask.set(index));
            let used = self.spent(hour).saturating_sub(total);
            return (mask, Grant { hour, units: total, used });
        }
        let mut used = self.used(hour);
        let before = used;
        let mut units = 0_u64;
        for (index, cost) in costs.iter().enumerate() {
            if *cost == 0 || used < ceiling {
                mask.set(index);
                used = used.saturating_add(u64::from(*cost));
                units = units.saturating_add(u64::from(*cost));
            }
        }
        self.shift(hour, signed(units));
        self.owe(hour, signed(units));
        (mask, Grant { hour, units, used: before })
    }

    /// Returns `units` that were reserved in `hour` and are not used.
    pub(super) fn give_back(&mut self, hour: u64, units: u64) {
        self.free(hour, units);
        self.put_back(hour, units);
    }

    /// Returns `units` to `hour`: to the slice if it belongs to this hour, otherwise to Redis.
    fn put_back(&mut self, hour: u64, units: u64) {
        if units == 0 {
            return;
        }
        if self.hour == hour || self.rest == 0 && self.hour < hour {
            self.hour = hour;
            self.rest = self.rest.saturating_add(units);
        } else {
            self.owe(hour, -signed(units));
        }
    }

    /// Subtracts counts that were made alone.
    pub(super) fn refund(&mut self, hour: u64, units: u64) {
        self.free(hour, units);
        self.shift(hour, -signed(units));
        self.owe(hour, -signed(units));
    }

    /// Adds counts from before a restart.
    pub(super) fn raise(&mut self, hour: u64, units: u64) {
        match self.hours.iter_mut().find(|(at, _)| *at == hour) {
            Some((_, known)) => *known = (*known).max(units),
            None => self.hours.push((hour, units)),
        }
    }

    /// Takes the counts to be sent to Redis; they are no longer owed. Also returns a slice that was not spent from
    /// since the last call, so that other gateways may have it; with `all`, returns any slice.
    pub(super) fn pay(&mut self, all: bool) -> Owed {
        let idle = !std::mem::take(&mut self.touched) || !self.spendable;
        if self.rest > 0 && (all || idle) {
            self.give_up();
        }
        std::mem::take(&mut self.owed)
    }

    /// Returns the units that Redis has counted and no call has used, by hour. The result may be too high: units that
    /// are being returned are included in two hours.
    pub(super) fn unused(&self) -> SmallVec<[(u64, Unused); 2]> {
        let mut all = SmallVec::<[(u64, Unused); 2]>::new();
        let mut add = |hour: u64, now: u64, ever: u64| {
            if now == 0 && ever == 0 {
                return;
            }
            match all.iter_mut().find(|(at, _)| *at == hour) {
                Some((_, unused)) => *unused = Unused { now: unused.now + now, ever: unused.ever + ever },
                None => all.push((hour, Unused { now, ever })),
            }
        };
        add(self.hour, self.rest.saturating_add(self.returning), 0);
        add(self.hour.saturating_sub(1), self.returning, 0);
        for (hour, by) in &self.owed {
            add(*hour, if *by < 0 { by.unsigned_abs() } else { 0 }, 0);
        }
        for (hour, units) in &self.freed {
            add(*hour, 0, *units);
        }
        all
    }

    /// Drops the slice, because the counters in which it was reserved are lost.
    pub(super) fn forget_slice(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        self.shift(self.hour, -signed(rest));
        self.spendable = false;
    }

    pub(super) fn known(&self) -> impl Iterator<Item = (u64, u64)> {
        self.hours
            .iter()
            .map(|(hour, units)| (*hour, units.saturating_add_signed(self.owed(*hour).saturating_neg())))
    }

    pub(super) fn owed(&self, hour: u64) -> i64 {
        self.owed.iter().filter(|(at, _)| *at == hour).map(|(_, by)| *by).sum()
    }

    /// Returns the units in `hour` and the 23 hours before it.
    pub(super) fn used(&self, hour: u64) -> u64 {
        self.hours
            .iter()
            .filter(|(at, _)| at + 23 >= hour)
            .map(|(_, units)| *units)
            .fold(0, u64::saturating_add)
    }

    /// As [`used`](Self::used), without the rest of the slice, which Redis already counts and no call has used.
    pub(super) fn spent(&self, hour: u64) -> u64 {
        self.used(hour).saturating_sub(self.rest)
    }

    /// Reports whether the entry can be removed at `now`.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.owed.is_empty()
            && self.rest == 0
            && !self.requested
            && self.hours.iter().all(|(at, _)| at + 23 < now.hour())
    }

    /// Reports whether a call of `hour` below this ceiling may be paid from the rest of the slice.
    fn is_spendable(&self, hour: u64, ceiling: u64) -> bool {
        self.spendable && self.hour == hour && self.ceiling <= ceiling
    }

    /// Begins a new hour: the rest of the slice returns to its own hour.
    fn roll(&mut self, hour: u64) {
        if self.hour < hour {
            if self.rest > 0 {
                self.give_up();
            }
            self.hour = hour;
            self.spendable = false;
            self.hours.retain(|(at, _)| at + 25 >= hour);
            self.freed.retain(|(at, _)| *at + 2 >= hour);
        }
    }

    fn free(&mut self, hour: u64, units: u64) {
        if units == 0 {
            return;
        }
        match self.freed.iter_mut().find(|(at, _)| *at == hour) {
            Some((_, freed)) => *freed = freed.saturating_add(units),
            None => self.freed.push((hour, units)),
        }
    }

    fn give_up(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        self.shift(self.hour, -signed(rest));
        self.owe(self.hour, -signed(rest));
        self.spendable = false;
    }

    fn shift(&mut self, hour: u64, by: i64) {
        match self.hours.iter_mut().find(|(at, _)| *at == hour) {
            Some((_, units)) => *units = units.saturating_add_signed(by),
            None if by > 0 => self.hours.push((hour, by.unsigned_abs())),
            None => {}
        }
    }

    fn owe(&mut self, hour: u64, by: i64) {
        match self.owed.iter_mut().find(|(at, _)| *at == hour) {
            Some((_, owed)) => *owed = owed.saturating_add(by),
            None => self.owed.push((hour, by)),
        }
        self.owed.retain(|(_, owed)| *owed != 0);
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const NOW: Time = Time::from_secs(400_000 * 3_600 + 90);
    const HOUR: u64 = 400_000;
    const CEILING: u64 = 1_000;
    const LATER: Time = NOW.plus(Duration::from_secs(3_600));

    fn with_slice(slice: u64) -> Units {
        let mut units = Units::default();
        let Spent::No(want) = units.spend(0, slice, CEILING, NOW) else { panic!("there is nothing yet") };
        assert_eq!(want, Want { slice, back: 0, ceiling: CEILING });
        units.reported(want, HOUR, slice, vec![(HOUR, 1_000 + slice)]);
        units
    }

    #[test]
    fn a_slice_is_spent_without_redis_and_the_next_is_requested_in_time() {
        let mut units = with_slice(100);
        assert_eq!(units.spend(50, 100, CEILING, NOW), Spent::Yes);
        let low = Want { slice: 100, back: 0, ceiling: CEILING };
        assert_eq!(units.spend(1, 100, CEILING, NOW), Spent::Low(low));
        assert_eq!(units.spend(9, 100, CEILING, NOW), Spent::Yes, "it is asked for once");
        assert_eq!(
            units.spend(41, 100, CEILING, NOW),
            Spent::No(Want { slice: 0, back: 40, ceiling: CEILING })
        );
        units.reported(low, HOUR, 100, vec![(HOUR, 1_200)]);
        assert_eq!(units.spend(100, 100, CEILING, NOW), Spent::Low(low));
    }

    #[test]
    fn units_of_an_unanswered_request_are_kept() {
        let mut units = with_slice(100);
        let Spent::No(want) = units.spend(101, 100, CEILING, NOW) else { panic!("it is too small") };
        assert_eq!(want, Want { slice: 100, back: 100, ceiling: CEILING });
        units.unreported(want, HOUR);
        assert_eq!(units.pay(false).as_slice(), [(HOUR, -100)]);
        let Spent::No(want) = units.spend(1, 100, CEILING, NOW) else { panic!("it was given back") };
        assert_eq!(want, Want { slice: 100, back: 0, ceiling: CEILING }, "and may be asked for again");
    }

    #[test]
    fn the_rest_of_a_slice_returns_to_its_hour() {
        let mut units = with_slice(100);
        assert!(matches!(
            units.spend(30, 100, CEILING, LATER),
            Spent::No(Want { slice: 100, back: 0, ceiling: CEILING })
        ));
        assert_eq!(units.pay(false).as_slice(), [(HOUR, -100)]);
        units.put_back(HOUR, 7);
        units.reported(Want { slice: 100, back: 0, ceiling: CEILING }, HOUR, 100, vec![(HOUR, 1_100)]);
        assert_eq!(units.pay(false).as_slice(), [(HOUR, -107)], "a slice that comes too late, too");
    }

    #[test]
    fn an_idle_slice_is_returned_and_a_busy_one_is_kept() {
        let mut units = with_slice(100);
        assert!(units.pay(false).is_empty(), "it has only come");
        assert_eq!(units.spend(10, 100, CEILING, NOW), Spent::Yes);
        assert!(units.pay(false).is_empty());
        assert_eq!(units.pay(false).as_slice(), [(HOUR, -90)]);
        let mut busy = with_slice(100);
        assert_eq!(busy.pay(true).as_slice(), [(HOUR, -100)]);
        assert_eq!(busy.used(HOUR), 1_000);
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn a_slice_of_a_higher_ceiling_is_returned_before_a_lower_one_is_reserved() {
        let mut units = with_slice(100);
        let Spent::No(want) = units.spend(10, 0, 0, NOW) else { panic!("the ceiling is nothing now") };
        assert_eq!(want, Want { slice: 0, back: 100, ceiling: 0 });
        units.reported(want, HOUR, 0, vec![(HOUR, 1_000)]);
        assert!(matches!(units.spend(10, 0, 0, NOW), Spent::No(Want { back: 0, .. })));
        // A slice that was requested before the ceiling was lowered, and arrives afterwards.
        let mut units = with_slice(100);
        let Spent::Low(want) = units.spend(60, 100, CEILING, NOW) else { panic!("it is time for the next") };
        let Spent::No(requested) = units.spend(10, 20, 500, NOW) else {
            panic!("it is of the higher ceiling")
        };
        assert_eq!(requested, Want { slice: 0, back: 40, ceiling: 500 });
        units.reported(want, HOUR, 100, vec![(HOUR, 1_200)]);
        assert!(matches!(units.spend(10, 20, 500, NOW), Spent::No(Want { slice: 20, back: 100, .. })));
        let mut raised = with_slice(100);
        assert_eq!(
            raised.spend(10, 200, 2_000, NOW),
            Spent::Low(Want { slice: 200, back: 0, ceiling: 2_000 })
        );
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn alone_a_slice_of_a_higher_ceiling_is_not_spent_below_a_lower_one() {
        let mut units = with_slice(100);
        let (mask, grant) = units.reserve(&[10, 0], 500, NOW);
        assert_eq!((mask.has(0), mask.has(1), grant.units), (false, true, 0));
        assert!(units.reserve(&[10], CEILING, NOW).0.has(0));
    }

    #[test]
    fn alone_the_slice_is_spent_first_and_the_rest_is_owed() {
        let mut units = with_slice(100);
        let (mask, grant) = units.reserve(&[60, 40], 1_100, NOW);
        assert!(mask.has(1) && grant.units == 100 && units.owed.is_empty());
        let (mask, grant) = units.reserve(&[60, 0, 40], 1_101, NOW);
        assert_eq!((mask.has(0), mask.has(1), mask.has(2), grant.units), (true, true, false, 60));
        units.refund(HOUR, 20);
        assert_eq!(units.pay(true).as_slice(), [(HOUR, 40)]);
        assert_eq!((units.used(HOUR), units.used(HOUR + 23), units.used(HOUR + 24)), (1_140, 1_140, 0));
    }

    #[test]
    fn lost_counters_make_a_slice_worthless() {
        let mut units = with_slice(100);
        assert!(matches!(units.spend(30, 100, CEILING, NOW), Spent::Yes));
        units.forget_slice();
        assert_eq!(units.known().collect::<Vec<_>>(), [(HOUR, 1_030)]);
        assert!(matches!(units.spend(1, 100, CEILING, NOW), Spent::No(_)));
    }

    #[test]
    fn all_unused_units_are_reported() {
        let unused = |units: &Units| {
            units.unused().into_iter().filter(|(hour, _)| *hour == HOUR).map(|(_, unused)| unused).next()
        };
        let mut units = with_slice(100);
        assert_eq!(unused(&units), Some(Unused { now: 100, ever: 100 }));
        assert_eq!(units.spend(40, 100, CEILING, NOW), Spent::Yes);
        units.give_back(HOUR, 40);
        assert_eq!(unused(&units), Some(Unused { now: 100, ever: 140 }));
        let Spent::No(want) = units.spend(101, 100, CEILING, NOW) else { panic!("it is too small") };
        assert_eq!(unused(&units), Some(Unused { now: 100, ever: 140 }), "it is on its way back");
        units.unreported(want, HOUR);
        assert_eq!(unused(&units), Some(Unused { now: 100, ever: 140 }), "and did not get there");
        assert!(matches!(units.spend(1, 100, CEILING, LATER), Spent::No(_)));
        assert_eq!(unused(&units), Some(Unused { now: 100, ever: 140 }), "Redis must be updated");
        assert_eq!(units.pay(false).as_slice(), [(HOUR, -100)]);
        assert_eq!(unused(&units), Some(Unused { now: 0, ever: 140 }));
        units.refund(HOUR, 5);
        assert_eq!(unused(&units), Some(Unused { now: 5, ever: 145 }), "given back while Redis was away");
    }

    /// One gateway's project with a Redis that answers late.
    #[derive(Default)]
    struct Slow {
        counted: u64,
        recorded: u64,
        near: Units,
        requested: std::collections::VecDeque<(Want, Option<u32>)>,
        granted: Vec<u64>,
    }

    impl Slow {
        fn answer(&mut self) {
            let Some((want, cost)) = self.requested.pop_front() else { return };
            self.counted = self.counted - want.back + want.slice + u64::from(cost.unwrap_or(0));
            self.near.reported(want, HOUR, want.slice, vec![(HOUR, self.counted)]);
            self.granted.extend(cost.map(u64::from));
        }

        fn step(&mut self, step: u32, cost: u32) {
            match step {
                0..=3 => match self.near.spend(u64::from(cost), 50, CEILING, NOW) {
                    Spent::Yes => self.granted.push(cost.into()),
                    Spent::Low(want) => {
                        self.granted.push(cost.into());
                        self.requested.push_back((want, None));
                    }
                    Spent::No(want) => self.requested.push_back((want, Some(cost))),
                },
                4 | 5 => self.answer(),
                6 => self.end(true),
                7 => self.end(false),
                _ => {
                    let paid: i64 = self.near.pay(cost > 30).iter().map(|(_, by)| *by).sum();
                    self.counted = self.counted.saturating_add_signed(paid);
                }
            }
        }

        /// Ends a call: its units are recorded, or returned because no node answered.
        fn end(&mut self, is_answered: bool) {
            match self.granted.pop() {
                Some(units) if is_answered => self.recorded += units,
                Some(units) => self.near.give_back(HOUR, units),
                None => {}
            }
        }

        fn unused(&self) -> Unused {
            self.near
                .unused()
                .into_iter()
                .find(|(hour, _)| *hour == HOUR)
                .map_or(Unused::default(), |(_, unused)| unused)
        }
    }

    proptest! {
        // Shows (Reliability).
        #[test]
        fn counts_in_redis_are_recorded_or_unused_once_all_earlier_calls_are_over(
            steps in proptest::collection::vec((0..9_u32, 1..40_u32), 3..200),
            (first, read) in (0.0..1.0_f64, 0.0..1.0_f64),
            ends in 0..2_u32,
        ) {
            let at = |part: f64| (part * steps.len() as f64) as usize;
            let (first, read) = (at(first.min(read)), at(read.max(first)));
            let mut slow = Slow::default();
            let mut begun = Unused::default();
            let mut found = 0;
            for (number, (step, cost)) in steps.iter().copied().enumerate() {
                if number == first {
                    begun = slow.unused();
                }
                if number == read {
                    found = slow.counted;
                }
                slow.step(step, cost);
            }
            while !slow.requested.is_empty() || !slow.granted.is_empty() {
                slow.answer();
                slow.end(ends == 0);
            }
            let most = begun.now + (slow.unused().ever - begun.ever);
            prop_assert!(found <= slow.recorded + most, "{found} of {} and {most}", slow.recorded);
        }
    }

    /// A project with a Redis that always answers.
    #[derive(Default)]
    struct Far {
        counted: u64,
    }

    impl Far {
        fn reserve(&mut self, want: Want, costs: &[u32], ceiling: u64) -> (u64, u64) {
            self.counted -= want.back;
            let mut units = 0;
            for cost in costs.iter().map(|cost| u64::from(*cost)) {
                if self.counted < ceiling {
                    self.counted += cost;
                    units += cost;
                }
            }
            let slice = if self.counted + 2 * want.slice <= ceiling { want.slice } else { 0 };
            self.counted += slice;
            (units, slice)
        }
    }

    proptest! {
        #[test]
        fn two_gateways_overrun_a_ceiling_by_one_call_at_most_and_lose_nothing(
            steps in proptest::collection::vec((0..2_usize, 1..40_u32, 0..10_u32), 1..300),
            lowered in (0..300_usize, 0..CEILING),
        ) {
            let mut far = Far::default();
            let mut near = [Units::default(), Units::default()];
            let mut spent = 0;
            for (number, (at, cost, chance)) in steps.into_iter().enumerate() {
                let ceiling = if number < lowered.0 { CEILING } else { lowered.1 };
                let units = &mut near[at];
                let granted = match units.spend(u64::from(cost), 50, ceiling, NOW) {
                    Spent::Yes => u64::from(cost),
                    Spent::Low(want) => {
                        let (_, slice) = far.reserve(want, &[], ceiling);
                        units.reported(want, HOUR, slice, vec![(HOUR, far.counted)]);
                        u64::from(cost)
                    }
                    Spent::No(want) => {
                        let (granted, slice) = far.reserve(want, &[cost], ceiling);
                        units.reported(want, HOUR, slice, vec![(HOUR, far.counted)]);
                        granted
                    }
                };
                spent += granted;
                prop_assert!(granted == 0 || spent < ceiling + 40, "{spent} of {ceiling}");
                match chance {
                    0 => {
                        units.put_back(HOUR, granted);
                        spent -= granted;
                    }
                    1 => far.counted = far.counted.saturating_add_signed(
                        units.pay(false).iter().map(|(_, by)| *by).sum(),
                    ),
                    _ => {}
                }
                prop_assert!(spent < CEILING + 40);
                prop_assert_eq!(far.counted, spent + near.iter().map(|units| units.rest).sum::<u64>());
            }
        }
    }
}
