//! Concurrency limits of an endpoint.
//!
//! An endpoint starts with one attempt at a time. Each success doubles the limit, up to `webhooks.per_endpoint`, and a
//! failure halves it. While an attempt takes longer than a second no other one starts, and an endpoint that fails
//! repeatedly gets single attempts with pauses. So endpoints that hang hold few of the shared places.

use super::attempt_slots::SlotOwner;
use super::breaker::Breaker;
use rpcgate_core::clock::Time;
use rpcgate_store::DueDelivery;
use std::collections::VecDeque;
use std::time::Duration;

const SLOW: Duration = Duration::from_secs(1);
/// The time whose attempts are claimed ahead, and the maximum number of these deliveries.
const AHEAD: Duration = Duration::from_secs(1);
const MAX_AHEAD: usize = 512;
/// The divisor of a new attempt's weight in the mean duration: one eighth.
const MEAN_OF: u32 = 8;

/// A moment by both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadMoment {
    /// The wall clock, by which pauses end.
    pub now: Time,
    /// The monotonic clock, which measures attempts.
    pub elapsed: Duration,
}

/// The running and waiting attempts of this dispatcher at the deliveries of one endpoint.
#[derive(Clone, Debug)]
pub struct EndpointLoad {
    breaker: Breaker,
    window: usize,
    /// The start time of each running attempt.
    running: Vec<Duration>,
    mean: Duration,
    /// Claimed deliveries without an attempt, each with the end of its lease.
    waiting: VecDeque<(DueDelivery, Duration)>,
}

impl Default for EndpointLoad {
    fn default() -> Self {
        EndpointLoad {
            breaker: Breaker::default(),
            window: 1,
            running: Vec::new(),
            mean: AHEAD,
            waiting: VecDeque::new(),
        }
    }
}

impl EndpointLoad {
    /// Adds a delivery whose claim ends at `until`.
    pub fn add(&mut self, delivery: DueDelivery, until: Duration) {
        self.waiting.push_back((delivery, until));
    }

    /// Returns the number of further deliveries that may be claimed.
    pub fn capacity(&self, per_endpoint: usize, at: LoadMoment) -> usize {
        let held = self.running.len() + self.waiting.len();
        if self.breaker.is_open() {
            return usize::from(held == 0 && self.breaker.is_pause_over(at.now));
        }
        if self.is_slow(at.elapsed) {
            return 0;
        }
        let at_once = self.window.min(per_endpoint);
        let ahead = if at_once < per_endpoint {
            at_once
        } else {
            let rounds = AHEAD.as_micros() / self.mean.as_micros().max(1);
            let rounds = usize::try_from(rounds).unwrap_or(MAX_AHEAD).clamp(1, MAX_AHEAD);
            at_once.saturating_mul(rounds).min(MAX_AHEAD.max(at_once))
        };
        ahead.saturating_sub(held)
    }

    fn is_slow(&self, elapsed: Duration) -> bool {
        self.running.iter().any(|began| elapsed.saturating_sub(*began) > SLOW)
    }

    /// Takes the next delivery if an attempt may start now and even the `longest` attempt would end within the lease.
    pub fn begin(&mut self, per_endpoint: usize, longest: Duration, at: LoadMoment) -> Option<DueDelivery> {
        let may_begin = if self.breaker.is_open() {
            self.running.is_empty() && self.breaker.is_pause_over(at.now)
        } else {
            self.running.len() < self.window.min(per_endpoint) && !self.is_slow(at.elapsed)
        };
        let end = at.elapsed.saturating_add(longest);
        let (delivery, _) = self.waiting.pop_front_if(|(_, until)| may_begin && end <= *until)?;
        self.running.push(at.elapsed);
        Some(delivery)
    }

    /// Records the end of an attempt that started at `began`.
    pub fn end(&mut self, began: Duration, is_success: bool, per_endpoint: usize, at: LoadMoment) {
        self.leave(began);
        let took = at.elapsed.saturating_sub(began);
        self.mean = (self.mean.saturating_mul(MEAN_OF - 1) + took) / MEAN_OF;
        if is_success {
            self.breaker.succeeded();
            self.window = self.window.saturating_mul(2).min(per_endpoint.max(1));
        } else {
            self.breaker.failed(at.now);
            self.window = (self.window / 2).max(1);
        }
    }

    /// Forgets an attempt that started at `began` and has no outcome.
    pub fn leave(&mut self, began: Duration) {
        if let Some(index) = self.running.iter().position(|one| *one == began) {
            self.running.swap_remove(index);
        }
    }

    /// Removes and returns the deliveries whose lease would end before the `longest` attempt. While the breaker is
    /// open, it returns all but one.
    pub fn give_back(&mut self, longest: Duration, elapsed: Duration) -> Vec<DueDelivery> {
        let keep = if self.breaker.is_open() { usize::from(self.running.is_empty()) } else { usize::MAX };
        let mut back = Vec::new();
        let end = elapsed.saturating_add(longest);
        let waiting = std::mem::take(&mut self.waiting);
        for (delivery, until) in waiting {
            if self.waiting.len() < keep && end <= until {
                self.waiting.push_back((delivery, until));
            } else {
                back.push(delivery);
            }
        }
        back
    }

    /// Removes and returns all deliveries without an attempt.
    pub fn clear(&mut self) -> Vec<DueDelivery> {
        self.waiting.drain(..).map(|(delivery, _)| delivery).collect()
    }

    /// Returns the project of the waiting deliveries, with its tenant.
    pub fn owner(&self) -> Option<SlotOwner> {
        self.waiting.front().map(|(delivery, _)| delivery.into())
    }

    /// Reports whether the endpoint gets only single attempts with pauses.
    pub fn is_left_alone(&self) -> bool {
        self.breaker.is_open()
    }

    /// Returns the number of claimed deliveries without an attempt.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Reports whether the endpoint may be forgotten: nothing is claimed, and nothing has failed for long.
    pub fn is_idle(&self, now: Time) -> bool {
        self.running.is_empty() && self.waiting.is_empty() && self.breaker.is_old(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::tests::delivery;

    /// Longer than these tests last.
    const LEASED: Duration = Duration::from_secs(3_600);
    const LONGEST: Duration = Duration::from_secs(10);
    const NOON: Time = Time::from_secs(1_798_718_400);

    fn at(millis: u64) -> LoadMoment {
        let since = Duration::from_millis(millis);
        LoadMoment { now: NOON.plus(since), elapsed: since }
    }

    fn filled(count: u128) -> EndpointLoad {
        let mut load = EndpointLoad::default();
        for id in 0..count {
            load.add(delivery(id), LEASED);
        }
        load
    }

    fn begin(load: &mut EndpointLoad, millis: u64) -> usize {
        std::iter::from_fn(|| load.begin(8, LONGEST, at(millis))).count()
    }

    #[test]
    fn attempts_at_once_double_with_each_success_and_are_halved_by_a_failure() {
        let mut load = filled(100);
        let mut widths = Vec::new();
        for round in 0..5 {
            let began = round * 10;
            let count = begin(&mut load, began);
            widths.push(count);
            load.end(Duration::from_millis(began), true, 8, at(began + 5));
            for _ in 1..count {
                load.leave(Duration::from_millis(began));
            }
        }
        assert_eq!(widths, [1, 2, 4, 8, 8]);
        let mut failing = filled(9);
        assert_eq!(begin(&mut failing, 0), 1);
        failing.end(Duration::ZERO, true, 8, at(1));
        assert_eq!(begin(&mut failing, 2), 2);
        failing.end(Duration::from_millis(2), false, 8, at(3));
        assert_eq!(begin(&mut failing, 4), 0, "one is still running");
    }

    // Shows (Webhooks).
    #[test]
    fn no_attempt_starts_or_is_claimed_next_to_a_slow_one() {
        let mut load = filled(3);
        load.window = 8;
        assert!(load.begin(8, LONGEST, at(0)).is_some());
        assert!(load.begin(8, LONGEST, at(1_000)).is_some());
        assert!(load.begin(8, LONGEST, at(1_001)).is_none());
        assert_eq!(load.capacity(8, at(1_001)), 0);
        load.end(Duration::ZERO, true, 8, at(1_500));
        assert!(load.begin(8, LONGEST, at(1_501)).is_some());
    }

    // Shows (Webhooks).
    #[test]
    fn an_endpoint_that_fails_five_times_gets_single_attempts_and_returns_its_slots() {
        let mut load = filled(9);
        for round in 0..5 {
            assert!(load.begin(8, LONGEST, at(round)).is_some());
            assert!(load.begin(8, LONGEST, at(round)).is_none(), "one at a time");
            load.end(Duration::from_millis(round), false, 8, at(round));
        }
        assert_eq!(load.give_back(LONGEST, Duration::ZERO).len(), 3, "all but one");
        assert!(load.begin(8, LONGEST, at(4_900)).is_none());
        assert_eq!(load.capacity(8, at(4_900)), 0);
        assert!(load.begin(8, LONGEST, at(5_010)).is_some());
        load.end(Duration::from_millis(5_010), false, 8, at(5_020));
        assert_eq!(load.capacity(8, at(5_100)), 0, "the pause is longer now");
        assert_eq!(load.capacity(8, at(15_100)), 1);
        load.clear();
        assert!(!load.is_idle(NOON.plus(Duration::from_secs(600))));
        assert!(load.is_idle(NOON.plus(Duration::from_secs(3_600))), "it may have been deleted since");
    }

    #[test]
    fn a_fast_endpoint_has_many_claimed_ahead_and_a_slow_one_few() {
        let mut load = EndpointLoad::default();
        assert_eq!(load.capacity(8, at(0)), 1, "nothing is known of it");
        for millis in 0..60 {
            load.add(delivery(7), LEASED);
            assert!(load.begin(8, LONGEST, at(millis)).is_some());
            load.end(Duration::from_millis(millis), true, 8, at(millis + 1));
        }
        assert_eq!(load.capacity(8, at(60)), MAX_AHEAD);
        for number in 1..40 {
            load.add(delivery(7), LEASED);
            let began = at(number * 3_000);
            assert!(load.begin(8, LONGEST, began).is_some());
            load.end(began.elapsed, true, 8, at(number * 3_000 + 2_000));
        }
        assert_eq!(load.capacity(8, at(130_000)), 8);
        assert!(load.is_idle(NOON));
    }

    #[test]
    fn deliveries_whose_lease_is_about_to_end_are_returned() {
        let mut load = EndpointLoad::default();
        for (id, secs) in [(1, 30), (2, 30), (3, 45)] {
            load.add(delivery(id), Duration::from_secs(secs));
        }
        assert_eq!(load.give_back(LONGEST, Duration::from_secs(20)).len(), 0);
        let back = load.give_back(LONGEST, Duration::from_secs(21));
        assert_eq!((back.len(), load.waiting()), (2, 1));
        assert!(load.begin(8, LONGEST, at(35_001)).is_none(), "no attempt begins too late");
        assert_eq!(
            load.clone().give_back(2 * LONGEST, Duration::from_secs(26)).len(),
            1,
            "also if it may be longer now"
        );
        assert_eq!(load.clear().len(), 1);
    }
}
