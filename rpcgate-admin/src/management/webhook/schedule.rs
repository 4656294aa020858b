//! When attempts are made.
//!
//! ```
//! use rpcgate_admin::management::webhook::schedule::DeliverySchedule;
//! use rpcgate_admin::store::DeliveryId;
//! use rpcgate_core::config::Config;
//! use std::time::Duration;
//!
//! let schedule = DeliverySchedule::of(&Config::default().webhooks);
//! let first = schedule.wait(1, DeliveryId(7)).ok_or("one attempt of five")?;
//! assert!(first >= Duration::from_secs(1) && first <= Duration::from_millis(1_200));
//! assert_eq!(schedule.wait(5, DeliveryId(7)), None);
//! # Ok::<(), &str>(())
//! ```

use crate::store::DeliveryId;
use rpcgate_core::config::Webhooks;
use std::time::Duration;

/// The attempts at a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliverySchedule {
    attempts: u32,
    waits: Vec<Duration>,
}

impl DeliverySchedule {
    /// The configured one.
    pub fn of(settings: &Webhooks) -> Self {
        DeliverySchedule { attempts: settings.attempts, waits: settings.waits.clone() }
    }

    /// How long to wait after this number of attempts, of which all have failed; `None` if no attempt is left. Up to a
    /// fifth is added, so that deliveries that failed together are not tried again together. How much is a function of
    /// the delivery, so that it does not matter which dispatcher decides.
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
}

/// The bits of a delivery and an attempt, mixed (the finalizer of MurmurHash3).
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
