//! Request ids: UUIDs of version 7 (RFC 9562, section 5.7), in order of arrival to the millisecond.

use crate::caller::RequestId;
use crate::clock::Time;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    // The standard library seeds each state from the operating system. Ids need to be unique, not secret.
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(std::thread::current().id()));
}

/// Returns random bits that are not secret.
pub(crate) fn random() -> u64 {
    // SplitMix64: every state gives a different number.
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        let mixed = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

impl RequestId {
    /// Creates an id for a request that arrived at `now`.
    pub fn new(now: Time) -> Self {
        let high = random();
        let low = random();
        let time = u128::from(now.millis() & 0xffff_ffff_ffff) << 80;
        let version = 7 << 76 | u128::from(high & 0xfff) << 64;
        let variant = 0b10 << 62 | u128::from(low >> 2);
        RequestId(time | version | variant)
    }

    /// Returns the arrival time to the millisecond, if this [is a UUID of version 7](RequestId::is_version_7).
    pub const fn time(self) -> Time {
        Time::from_millis((self.0 >> 80) as u64)
    }

    /// Reports whether it is a UUID of version 7.
    pub const fn is_version_7(self) -> bool {
        self.0 >> 76 & 0xf == 7 && self.0 >> 62 & 0b11 == 0b10
    }

    /// Returns the 36 characters of the hyphenated form.
    pub fn text(self) -> [u8; 36] {
        crate::caller::uuid_text(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_version_7_uuids_of_their_millisecond() {
        let id = RequestId::new(Time::from_millis(0x0190_163d_8694)).to_string();
        assert!(id.starts_with("0190163d-8694-7"), "{id}");
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{id}");
    }

    #[test]
    fn an_id_has_the_time_of_its_request() {
        let arrival = Time::from_millis(0x0190_163d_8694);
        let id = RequestId::new(arrival);
        assert!(id.is_version_7());
        assert_eq!(id.time(), arrival);
        let random: RequestId = "b5e7c3f2-0d0a-4c5e-9a53-0f8f6a0c2d11".parse().unwrap();
        assert!(!random.is_version_7() && !RequestId(0).is_version_7());
    }

    #[test]
    fn ids_of_many_threads_differ() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    (0..10_000).map(|_| RequestId::new(Time::default())).collect::<Vec<_>>()
                })
            })
            .collect();
        let all: HashSet<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(all.len(), 40_000);
    }
}
