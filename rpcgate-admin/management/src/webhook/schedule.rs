//! The schedule of attempts.
//!
//! ```
//! use rpcgate_management::webhook::schedule::DeliverySchedule;
//! use rpcgate_store::DeliveryId;
//! use rpcgate_config::Config;
//! use std::time::Duration;
//!
//! let schedule = DeliverySchedule::of(&Config::default().webhooks);
//! let first = schedule.wait(1, DeliveryId(7)).ok_or("one attempt of five")?;
//! assert!(first >= Duration::from_secs(1) && first <= Duration::from_millis(1_200));
//! assert_eq!(schedule.wait(5, DeliveryId(7)), None);
//! # Ok::<(), &str>(())
//! ```

use rpcgate_config::Webhooks;
use rpcgate_core::clock::Time;
use rpcgate_store::DeliveryId;
use std::time::Duration;

/// The schedule of the attempts at a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliverySchedule {
    attempts: u32,
    waits: Vec<Duration>,
}

impl DeliverySchedule {
    /// Returns the configured schedule.
    pub fn of(settings: &Webhooks) -> Self {
        DeliverySchedule { attempts: settings.attempts, waits: settings.waits.clone() }
    }

    /// Returns the wait after `ended` failed attempts, or `None` if no attempt is left. Up to a fifth is added as
    /// jitter, so that deliveries that failed together are not retried together. The jitter is a function of the
    /// delivery, so that every dispatcher computes the same wait.
    pub fn wait(&self, ended: u32, delivery: DeliveryId) -> Option<Duration> {
        if ended >= self.attempts {
            return None;
        }
        let index = usize::try_from(ended.checked_sub(1)?).ok()?;
        let wait = *self.waits.get(index)?;
        let share = mixed(delivery.0, ended) % 200_001;
        let more = wait.as_micros().saturating_mul(share.into()) / 1_000_000;
        Some(wait.saturating_add(Duration::from_micros(u64::try_from(more).unwrap_or(u64::MAX))))
    }

    /// Like [`wait`](Self::wait), but no shorter than the receiver's `Retry-After` (RFC 9110, 10.2.3). `Retry-After`
    /// counts up to the longest wait of the schedule, so that no header delays a delivery for days.
    pub fn wait_as_requested(
        &self,
        ended: u32,
        delivery: DeliveryId,
        requested: Option<Duration>,
    ) -> Option<Duration> {
        let own = self.wait(ended, delivery)?;
        let used = usize::try_from(self.attempts.saturating_sub(1)).unwrap_or(usize::MAX);
        let longest = self.waits.iter().take(used).max().copied().unwrap_or_default();
        Some(own.max(requested.unwrap_or_default().min(longest)))
    }
}

/// Parses the value of `Retry-After`, a number of seconds or a date, at the time `now`. Returns `None` if it is
/// neither.
pub fn requested_wait(value: &str, now: Time) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows still asks for a long wait.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(date.saturating_sub(Duration::from_micros(now.micros())))
}

/// Mixes the bits of a delivery and an attempt (the finalizer of MurmurHash3).
#[expect(clippy::cast_possible_truncation, reason = "all bits of both halves are mixed")]
fn mixed(delivery: u128, ended: u32) -> u64 {
    let mut bits = (delivery >> 64) as u64 ^ (delivery as u64).rotate_left(32) ^ u64::from(ended);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        bits = (bits ^ (bits >> 33)).wrapping_mul(factor);
    }
    bits ^ (bits >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Shows (Webhook delivery).
        #[test]
        fn each_wait_is_the_configured_one_and_up_to_a_fifth_more(
            id: u128,
            attempts in 1_u32..=20,
            waits in proptest::collection::vec(0_u64..=604_800_000, 20),
        ) {
            let waits: Vec<_> = waits.into_iter().map(Duration::from_millis).collect();
            let schedule = DeliverySchedule { attempts, waits: waits.clone() };
            for ended in 1..attempts {
                let wait = schedule.wait(ended, DeliveryId(id)).unwrap();
                let configured = waits[ended as usize - 1];
                prop_assert!(configured <= wait && wait <= configured.mul_f64(1.2) + Duration::from_micros(1));
                prop_assert_eq!(schedule.wait(ended, DeliveryId(id)), Some(wait), "whoever decides");
            }
            for ended in [0, attempts, attempts + 1, u32::MAX] {
                prop_assert_eq!(schedule.wait(ended, DeliveryId(id)), None);
            }
        }
    }

    #[test]
    fn a_receivers_wait_counts_if_it_is_later_and_at_most_the_longest_of_the_schedule() {
        let seconds = Duration::from_secs;
        let schedule = DeliverySchedule {
            attempts: 4,
            waits: vec![seconds(1), seconds(5), seconds(30), seconds(300), seconds(1_800)],
        };
        let wait = |ended, requested| schedule.wait_as_requested(ended, DeliveryId(7), requested);
        assert_eq!(wait(1, None), schedule.wait(1, DeliveryId(7)));
        assert_eq!(wait(1, Some(Duration::ZERO)), schedule.wait(1, DeliveryId(7)));
        assert_eq!(wait(1, Some(seconds(20))), Some(seconds(20)));
        assert_eq!(
            wait(1, Some(seconds(86_400))),
            Some(seconds(30)),
            "the waits of unused attempts do not count"
        );
        assert_eq!(wait(3, Some(seconds(20))), schedule.wait(3, DeliveryId(7)), "the own wait is later");
        assert_eq!(wait(4, Some(seconds(20))), None, "no attempt is left");
    }

    #[test]
    fn a_retry_after_is_a_number_of_seconds_or_a_date() {
        let now = Time::from_secs(784_111_777);
        for (value, wait) in [
            ("20", Some(20)),
            (" 0 ", Some(0)),
            ("99999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(requested_wait(value, now), wait.map(Duration::from_secs), "{value:?}");
        }
    }

    // Shows (Webhook delivery).
    #[test]
    fn the_additions_are_spread_over_the_whole_fifth() {
        let schedule = DeliverySchedule { attempts: 2, waits: vec![Duration::from_secs(10)] };
        let mut counts = [0; 10];
        for id in 0..10_000_u128 {
            let wait = schedule.wait(1, DeliveryId(id << 70 | id)).unwrap();
            let added = (wait - Duration::from_secs(10)).as_micros();
            counts[usize::try_from(added * 10 / 2_000_001).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
