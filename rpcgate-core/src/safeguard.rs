//! The safeguard against refusal storms: a *cool-down* lowers the limits of a key that keeps calling despite 429
//! answers.

use crate::backend::usage_sink::Record;
use crate::caller::{Caller, KeyId, ProjectId, TenantId};
use crate::clock::Time;
use crate::plan::Plan;
use crate::refusal::Refusal;
use http::StatusCode;
use std::time::Duration;

/// The conditions, scale and length of a cool-down.
///
/// ```
/// use rpcgate_core::safeguard::SafeguardRule;
///
/// let rule = SafeguardRule::new().with_refusals(100).with_percent(50);
/// assert_eq!(rule.scale(30), 15);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SafeguardRule {
    /// The number of requests refused with 429 that makes a UTC minute stormy.
    pub refusals: u64,
    /// The number of consecutive stormy minutes that makes a storm.
    pub minutes: u64,
    /// The percentage of the limits that remains.
    pub percent: u64,
    /// The length of the cool-down.
    pub cooldown: Duration,
}

impl Default for SafeguardRule {
    fn default() -> Self {
        SafeguardRule::new()
    }
}

/// A key whose limits are scaled down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoolDown {
    /// The key.
    pub key: KeyId,
    /// The key's project.
    pub project: ProjectId,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The percentage of the limits that remains.
    pub percent: u64,
    /// The end of the cool-down.
    pub end: Time,
}

impl CoolDown {
    /// Scales a limit like [`SafeguardRule::scale`].
    pub const fn scale(&self, limit: u64) -> u64 {
        scaled(limit, self.percent)
    }
}

const fn scaled(limit: u64, percent: u64) -> u64 {
    let left = limit as u128 * percent as u128 / 100;
    if left > 0 || limit == 0 { left as u64 } else { 1 }
}

impl SafeguardRule {
    /// Creates the default rule: a quarter of the limits for an hour, after 5 minutes with 300 refusals each.
    pub const fn new() -> Self {
        SafeguardRule { refusals: 300, minutes: 5, percent: 25, cooldown: Duration::from_secs(3_600) }
    }

    /// Sets the number of refusals in a stormy minute.
    #[must_use]
    pub const fn with_refusals(mut self, refusals: u64) -> Self {
        self.refusals = refusals;
        self
    }

    /// Sets the number of stormy minutes in a storm.
    #[must_use]
    pub const fn with_minutes(mut self, minutes: u64) -> Self {
        self.minutes = minutes;
        self
    }

    /// Sets the percentage of the limits that remains.
    #[must_use]
    pub const fn with_percent(mut self, percent: u64) -> Self {
        self.percent = percent;
        self
    }

    /// Sets the length of the cool-down.
    #[must_use]
    pub const fn with_cooldown(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Scales a limit down to at least 1, so that a key is never cut off. 0 stays 0.
    pub const fn scale(&self, limit: u64) -> u64 {
        scaled(limit, self.percent)
    }

    /// Returns the caller with its plan windows and its project's requests per second scaled down.
    pub fn cool(&self, caller: &Caller) -> Caller {
        let mut throttled = caller.clone();
        let Plan { per_minute, per_hour, per_day, .. } = &mut throttled.plan;
        for limit in [per_minute, per_hour, per_day].into_iter().chain(&mut throttled.quota.rps_limit) {
            *limit = self.scale(*limit);
        }
        throttled
    }
}

/// Reports whether every call of a request was refused with 429, by any of the limits.
pub fn is_refused(record: &Record<'_>) -> bool {
    const TOO_MANY: StatusCode = Refusal::Window { retry_after: 1 }.status();
    // The first line decides for nearly every request.
    !record.lines.is_empty() && record.lines.iter().all(|line| line.status == TOO_MANY)
}

/// The refusals of one key, and its cool-down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RefusalStorm {
    /// The newest minute with a refusal, and its number of refusals.
    minute: u64,
    refused: u64,
    stormy: u64,
    end: Option<Time>,
}

impl RefusalStorm {
    /// Counts a refused request that arrived at `now`, and returns true if it starts a cool-down. Late requests count
    /// in the newest minute. Nothing is counted during a cool-down.
    pub fn note(&mut self, rule: &SafeguardRule, now: Time) -> bool {
        if self.end.is_some() {
            return false;
        }
        let minute = now.minute();
        if minute > self.minute {
            let goes_on = minute == self.minute + 1 && self.refused >= rule.refusals;
            self.stormy = if goes_on { self.stormy + 1 } else { 0 };
            (self.minute, self.refused) = (minute, 0);
        }
        self.refused += 1;
        let is_storm = self.refused >= rule.refusals && self.stormy + 1 >= rule.minutes;
        if is_storm {
            *self = RefusalStorm { end: Some(now.plus(rule.cooldown)), ..RefusalStorm::default() };
        }
        is_storm
    }

    /// Returns the end of the cool-down if it is active for a request that arrived at `now`.
    pub fn end(&self, now: Time) -> Option<Time> {
        self.end.filter(|end| *end > now)
    }

    /// Reports whether this storm is over at `present`. A clock that was set back must not prolong a cool-down.
    pub fn is_over(&self, rule: &SafeguardRule, present: Time) -> bool {
        // A slightly older reading does not mean that the clock was set back.
        const SLACK: Duration = Duration::from_secs(60);
        match self.end {
            Some(end) => end <= present || end.since(present) > rule.cooldown + SLACK,
            None => self.minute.abs_diff(present.minute()) > 1,
        }
    }

    /// Reports whether the key was in a cool-down at the last check.
    pub const fn is_throttled(&self) -> bool {
        self.end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::suite;
    use crate::backend::usage_sink::{Line, Outcome};
    use proptest::prelude::*;

    const RULE: SafeguardRule =
        SafeguardRule { refusals: 3, minutes: 2, percent: 25, cooldown: Duration::from_secs(3_600) };

    /// Counts one refusal at each of these seconds. Returns the seconds that started a cool-down.
    fn storms(seconds: &[u64]) -> Vec<u64> {
        let mut storm = RefusalStorm::default();
        seconds.iter().copied().filter(|secs| storm.note(&RULE, Time::from_secs(*secs))).collect()
    }

    #[test]
    fn a_key_is_throttled_by_the_refusal_that_makes_the_last_minute_stormy() {
        assert_eq!(storms(&[600, 601, 602, 660, 661, 662, 663]), [662]);
    }

    #[test]
    fn stormy_minutes_must_follow_each_other() {
        assert_eq!(storms(&[600, 601, 602, 603, 604, 605, 659]), [0; 0], "one minute is no storm");
        assert_eq!(storms(&[600, 601, 660, 661, 662, 663]), [0; 0], "the first one was calm");
        assert_eq!(storms(&[600, 601, 602, 720, 721, 722]), [0; 0], "a quiet minute is between them");
        assert_eq!(storms(&[600, 601, 602, 660, 720, 721, 722, 780, 781, 782]), [782]);
    }

    #[test]
    fn a_request_that_is_refused_after_a_later_one_counts_in_its_minute() {
        assert_eq!(storms(&[600, 601, 602, 660, 659, 659]), [659]);
    }

    #[test]
    fn a_throttle_ends_automatically_and_the_next_one_needs_all_its_minutes() {
        let mut storm = RefusalStorm::default();
        for secs in [600, 601, 602, 660, 661, 662] {
            storm.note(&RULE, Time::from_secs(secs));
        }
        let end = Time::from_secs(662 + 3_600);
        for secs in [659, 662, 4_261] {
            assert_eq!(storm.end(Time::from_secs(secs)), Some(end), "{secs}");
            assert!(!storm.note(&RULE, Time::from_secs(secs)), "nothing is counted");
        }
        assert_eq!(storm.end(end), None);
        assert!(storm.is_over(&RULE, end));
    }

    #[test]
    fn setting_the_clock_back_does_not_prolong_a_throttle() {
        let mut storm = RefusalStorm::default();
        let day = 86_400;
        for secs in [600, 601, 602, 660, 661, 662] {
            storm.note(&RULE, Time::from_secs(day + secs));
        }
        assert!(!storm.is_over(&RULE, Time::from_secs(day + 659)), "the clock was read a moment before");
        assert!(storm.is_over(&RULE, Time::from_secs(day - 3_600)));
        let mut coming = RefusalStorm::default();
        coming.note(&RULE, Time::from_secs(9_600));
        assert!(coming.is_over(&RULE, Time::from_secs(600)));
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn a_request_from_long_ago_does_not_end_a_storm() {
        assert_eq!(storms(&[600, 601, 602, 660, 661, 60, 662]), [60], "it counts in the newest minute");
        let mut storm = RefusalStorm::default();
        for secs in [7_200, 7_201, 7_202, 7_260, 7_261, 7_262] {
            storm.note(&RULE, Time::from_secs(secs));
        }
        assert!(storm.end(Time::from_secs(60)).is_some());
    }

    #[test]
    fn only_windows_and_requests_per_second_are_scaled() {
        let mut caller = suite::caller(1);
        caller.quota.rps_limit = Some(20);
        let throttled = RULE.cool(&caller);
        let plan = Plan { per_minute: 2, per_hour: 125, per_day: 2_500, ..caller.plan };
        assert_eq!((throttled.plan, throttled.quota.rps_limit), (plan, Some(5)));
        assert_eq!(Caller { plan: caller.plan, quota: caller.quota, ..throttled }, caller);
        assert_eq!((RULE.scale(1), RULE.scale(0), RULE.scale(u64::MAX)), (1, 0, u64::MAX / 4));
    }

    #[test]
    fn a_request_counts_when_all_of_it_was_refused_with_429() {
        let line = |status| Line {
            method: b"m",
            cu: 0,
            status,
            outcome: Outcome::Refused,
            cached: false,
            calls: 1,
            bytes_in: 0,
            bytes_out: 0,
        };
        for (statuses, counts) in
            [(&[429][..], true), (&[429, 429], true), (&[429, 200], false), (&[], false)]
        {
            let lines: Vec<_> = statuses.iter().copied().map(line).collect();
            assert_eq!(is_refused(&suite::record(1, &lines)), counts, "{statuses:?}");
        }
    }

    proptest! {
        // Shows (Limits, budget and quota).
        #[test]
        fn a_storm_agrees_with_a_list_of_all_refusals(steps in proptest::collection::vec(0u64..40, 1..300)) {
            let mut storm = RefusalStorm::default();
            let mut refused: Vec<u64> = Vec::new();
            let mut secs = 1_000_000;
            let mut end = 0;
            for step in steps {
                secs += step;
                let now = Time::from_secs(secs);
                if storm.end(now).is_none() && storm.is_throttled() {
                    storm = RefusalStorm::default();
                }
                prop_assert_eq!(storm.end(now).is_some(), secs < end);
                if secs >= end {
                    refused.push(secs);
                }
                let stormy = |minute: u64| refused.iter().filter(|at| **at / 60 == minute).count() >= 3;
                let is_storm = secs >= end && stormy(secs / 60) && stormy(secs / 60 - 1);
                prop_assert_eq!(storm.note(&RULE, now), is_storm);
                if is_storm {
                    end = secs + 3_600;
                    refused.clear();
                }
            }
        }
    }
}
