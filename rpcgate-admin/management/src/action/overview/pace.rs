//! The forecast of the time when a quota is reached at a project's current rate.

use rpcgate_core::clock::Time;
use std::collections::VecDeque;

const HOUR: u64 = 3_600;
/// The hours of a quota's window.
const WINDOW: usize = 24;
/// The number of ended hours whose mean is the rate.
const PACE: usize = 3;
/// The precision of the answer in seconds.
const EXACT: u64 = 900;

/// Returns the time when the window of 24 hours will contain `limit` Compute Units, at the mean rate of the last three
/// ended hours. `hours` are the Compute Units by hour, with the current hour last. `None` if the limit is not reached
/// within a day, or is reached already.
pub(super) fn reached(hours: &[u64], limit: u64, now: Time) -> Option<Time> {
    let (current, ended) = hours.split_last()?;
    let recent = &ended[ended.len().saturating_sub(PACE)..];
    let pace =
        recent.iter().fold(0u64, |sum, units| sum.saturating_add(*units)) as f64 / recent.len().max(1) as f64;
    let sum = |hours: &VecDeque<f64>| hours.iter().sum::<f64>();
    let mut window: VecDeque<f64> =
        hours.iter().rev().take(WINDOW).rev().map(|units| *units as f64).collect();
    let limit = limit as f64;
    if sum(&window) >= limit || pace <= 0.0 {
        return None;
    }
    // The rest of the current hour first, then whole hours. At the beginning of each, the oldest hour leaves the
    // window.
    let mut begin = now.secs();
    let mut left = HOUR - begin % HOUR;
    let mut running = *current as f64;
    for _ in 0..=WINDOW {
        let missing = limit - sum(&window);
        let wait = (missing.max(0.0) / pace * HOUR as f64).ceil() as u64;
        if wait <= left {
            let at = begin.saturating_add(wait);
            return Some(Time::from_secs(at.div_ceil(EXACT).saturating_mul(EXACT)));
        }
        running += pace * left as f64 / HOUR as f64;
        window.pop_back();
        window.push_back(running);
        if window.len() >= WINDOW {
            window.pop_front();
        }
        (begin, left, running) = (begin.saturating_add(left), HOUR, 0.0);
        window.push_back(0.0);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Half past an hour.
    const NOW: Time = Time::from_secs(500_000 * HOUR + HOUR / 2);

    fn minutes(found: Option<Time>) -> Option<u64> {
        found.map(|at| (at.secs() - NOW.secs()) / 60)
    }

    #[test]
    fn a_steady_pace_reaches_the_limit_when_the_rest_is_used() {
        // 24 hours with usage only in the last few: nothing leaves the window soon.
        let mut hours = vec![0; 20];
        hours.extend([100, 100, 100, 50]);
        assert_eq!(minutes(reached(&hours, 400, NOW)), Some(30));
        assert_eq!(minutes(reached(&hours, 500, NOW)), Some(90));
        assert_eq!(minutes(reached(&hours, 375, NOW)), Some(15));
        assert_eq!(minutes(reached(&hours, 360, NOW)), Some(15), "rounded up to a quarter of an hour");
    }

    #[test]
    fn requests_that_leave_the_window_free_its_capacity() {
        // The window loses and gains the same amount.
        assert_eq!(reached(&[100; 24], 2_500, NOW), None);
        let mut rising = vec![10; 21];
        rising.extend([100, 100, 50]);
        assert!(reached(&rising, 600, NOW).is_some());
    }

    #[test]
    fn a_forecast_needs_a_pace_that_reaches_the_ceiling_later() {
        assert_eq!(reached(&[], 100, NOW), None);
        assert_eq!(reached(&[0; 24], 100, NOW), None);
        assert_eq!(reached(&[100; 24], 2_400, NOW), None, "it is reached");
        assert_eq!(reached(&[100; 24], u64::MAX, NOW), None);
    }

    proptest! {
        #[test]
        fn a_forecast_is_within_about_a_day(hours in proptest::collection::vec(0u64..1_000_000, 0..30), limit: u32) {
            if let Some(at) = reached(&hours, limit.into(), NOW) {
                prop_assert!(at >= NOW && at.secs() <= NOW.secs() + 26 * HOUR);
            }
        }
    }
}
