//! The times of blocks: a height and a time are functions of each other.

use super::BlockRules;
use crate::seed::Seed;
use rpcgate_core::clock::Time;

/// The moment at which every simulated chain has its starting height: 2026-01-01T00:00:00Z. Earlier times give lower
/// heights, down to the first block.
pub const EPOCH: Time = Time::from_secs(1_767_225_600);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    seed: Seed,
    rules: BlockRules,
}

impl Timeline {
    /// Creates the times of a chain's blocks: one in every slot, late by less than the jitter, which is not 0 and at
    /// most a slot.
    pub(super) fn new(seed: Seed, rules: BlockRules) -> Self {
        Timeline { seed, rules }
    }

    pub(crate) fn time(self, height: u64) -> Time {
        let jitter = self.seed.below("jitter", height, self.rules.jitter_ms);
        let slot = if height >= self.rules.base {
            EPOCH.millis().saturating_add((height - self.rules.base).saturating_mul(self.rules.slot_ms))
        } else {
            EPOCH.millis().saturating_sub((self.rules.base - height).saturating_mul(self.rules.slot_ms))
        };
        Time::from_millis(slot.saturating_add(jitter))
    }

    /// Returns the height of the newest block at `now`. The first block, height 0, always exists.
    pub(crate) fn height(self, now: Time) -> u64 {
        let slot = if now >= EPOCH {
            self.rules.base.saturating_add((now.millis() - EPOCH.millis()) / self.rules.slot_ms)
        } else {
            self.rules.base.saturating_sub((EPOCH.millis() - now.millis()).div_ceil(self.rules.slot_ms))
        };
        if self.time(slot) <= now { slot } else { slot.saturating_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_two_to_five_seconds_apart_and_never_share_a_second() {
        let timeline = Timeline::new(Seed::of("eth", 9), BlockRules::of(1_000));
        for height in 900..3_000 {
            let gap = timeline.time(height + 1).since(timeline.time(height)).as_millis();
            assert!((2_000..=5_000).contains(&gap), "{gap} ms before block {height}");
            assert!(timeline.time(height + 1).secs() > timeline.time(height).secs());
        }
    }

    #[test]
    fn a_chain_keeps_its_own_pace() {
        let timeline = Timeline::new(
            Seed::of("aptos", 1),
            BlockRules { slot_ms: 250, jitter_ms: 100, ..BlockRules::of(1_000) },
        );
        for height in 900..1_100 {
            let time = timeline.time(height);
            assert_eq!(timeline.height(time), height);
            assert!((150..=350).contains(&timeline.time(height + 1).since(time).as_millis()));
        }
    }

    #[test]
    fn a_block_exists_from_its_time_on() {
        let timeline = Timeline::new(Seed::of("btc", 3), BlockRules::of(1_000));
        for height in [500, 999, 1_000, 1_001, 2_000_000] {
            let time = timeline.time(height);
            assert_eq!(timeline.height(time), height);
            assert_eq!(timeline.height(Time::from_micros(time.micros() - 1)), height - 1);
        }
        assert_eq!(timeline.height(Time::from_secs(0)), 0);
    }
}
