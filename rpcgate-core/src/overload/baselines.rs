//! The usual latency of answers, by method, node and project.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum number of kinds of answers at a time.
const SLOTS: usize = 1_024;
/// The number of answers before a kind has a usual latency.
const LEARNED: u64 = 16;
/// The microseconds per unit of latency: 27 bits hold nine minutes.
const UNIT: u64 = 4;
/// The microseconds per tick. Each kind learns from at most one answer per tick.
const TICK: u64 = 100_000;
/// The ticks without an answer after which another kind may take the slot.
const FORGOTTEN: u64 = 100;

/// The weight of an answer in the baseline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Learning {
    /// The chain has no trouble: learn slowly.
    Calm,
    /// Hardly any calls are in flight, so they cannot be why answers are late: learn quickly.
    Alone,
    /// The limit rises from its minimum, and answers are not late: learn less quickly.
    Rising,
    /// The chain is loaded, which is not usual: learn nothing.
    None,
}

/// The usual latency of at most 1,024 kinds of answers: a moving average over times without load. Kinds are numbers,
/// such as hashes of a method and a node. A kind gets a taken slot ten seconds after its owner's last answer.
#[derive(Debug)]
pub struct Baselines {
    /// From the highest bit: 16 bits of the kind, 5 of the number of answers, 16 of the tick, 27 of the latency.
    slots: [AtomicU64; SLOTS],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    tag: u64,
    answers: u64,
    tick: u64,
    latency: u64,
}

impl Slot {
    fn unpack(bits: u64) -> Self {
        Slot {
            tag: bits >> 48,
            answers: bits >> 43 & 0x1f,
            tick: bits >> 27 & 0xffff,
            latency: bits & 0x7ff_ffff,
        }
    }

    fn pack(self) -> u64 {
        self.tag << 48
            | self.answers.min(0x1f) << 43
            | (self.tick & 0xffff) << 27
            | self.latency.min(0x7ff_ffff)
    }
}

impl Default for Baselines {
    fn default() -> Self {
        Baselines { slots: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Baselines {
    /// Returns the usual latency of a kind in microseconds, if it is known.
    pub fn usual(&self, kind: u64) -> Option<u64> {
        let slot = Slot::unpack(self.slots[kind as usize % SLOTS].load(Relaxed));
        (slot.tag == tag(kind) && slot.answers >= LEARNED).then_some(slot.latency * UNIT)
    }

    /// Learns at most once per tick and kind, so that late answers that arrive together do not become usual.
    pub(super) fn learn_over_time(&self, kind: u64, latency: u64, now: u64, how: Learning) {
        let slot = Slot::unpack(self.slots[kind as usize % SLOTS].load(Relaxed));
        let is_same_tick = slot.tick == (now / TICK) & 0xffff;
        if slot.answers == 0 || slot.tag != tag(kind) || !is_same_tick {
            self.learn(kind, latency, now, how);
        }
    }

    /// Learns from an answer. `latency` and `now` are in microseconds. May miss one of two simultaneous answers.
    pub(super) fn learn(&self, kind: u64, latency: u64, now: u64, how: Learning) {
        let cell = &self.slots[kind as usize % SLOTS];
        let bits = cell.load(Relaxed);
        let tick = (now / TICK) & 0xffff;
        let took = latency / UNIT;
        let slot = Slot::unpack(bits);
        let next = if slot.tag != tag(kind) || slot.answers == 0 {
            let is_free = slot.answers == 0 || (tick.wrapping_sub(slot.tick) & 0xffff) > FORGOTTEN;
            if !is_free {
                return;
            }
            Slot { tag: tag(kind), answers: 1, tick, latency: took }
        } else if slot.answers < LEARNED {
            let answers = slot.answers + 1;
            Slot { answers, tick, latency: approach(slot.latency, took, answers), ..slot }
        } else if slot.tick != tick {
            // Limits the weight of one very slow answer.
            let took = took.min(slot.latency.saturating_mul(4).max(1));
            let latency = match how {
                Learning::Calm => approach(slot.latency, took, 64),
                Learning::Alone => approach(slot.latency, took, 4),
                Learning::Rising => approach(slot.latency, took, 16),
                Learning::None => slot.latency,
            };
            Slot { tick, latency, ..slot }
        } else {
            return;
        };
        let _ = cell.compare_exchange(bits, next.pack(), Relaxed, Relaxed);
    }
}

/// Returns the bits of a kind that its slot index does not contain. An empty slot has no answers, whatever its tag.
fn tag(kind: u64) -> u64 {
    kind >> 48
}

/// Moves `mean` towards `to` by 1/`parts` of the distance, and by at least 1.
fn approach(mean: u64, to: u64, parts: u64) -> u64 {
    if to >= mean {
        mean.saturating_add((to - mean).div_ceil(parts))
    } else {
        mean.saturating_sub((mean - to).div_ceil(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000;

    fn learned(kind: u64, latency: u64) -> Baselines {
        let all = Baselines::default();
        (0..LEARNED).for_each(|n| all.learn(kind, latency, n, Learning::None));
        all
    }

    #[test]
    fn a_slot_is_packed_and_unpacked() {
        let slot = Slot { tag: 0xabcd, answers: 16, tick: 0xfedc, latency: 0x7ff_fffe };
        assert_eq!(Slot::unpack(slot.pack()), slot);
    }

    #[test]
    fn a_kind_has_a_usual_latency_after_some_answers() {
        let all = Baselines::default();
        for n in 0..LEARNED {
            assert_eq!(all.usual(7), None, "{n}");
            all.learn(7, 10 * MILLI, n, Learning::None);
        }
        assert_eq!(all.usual(7), Some(10 * MILLI));
    }

    #[test]
    fn the_baseline_adapts_slowly_when_idle_quickly_when_alone_and_not_under_load() {
        for (how, after) in [
            (Learning::Calm, 15..25),
            (Learning::Alone, 39..41),
            (Learning::Rising, 26..36),
            (Learning::None, 10..11),
        ] {
            let all = learned(7, 10 * MILLI);
            (1..=20).for_each(|tick| all.learn(7, 40 * MILLI, tick * TICK, how));
            let usual = all.usual(7).unwrap() / MILLI;
            assert!(after.contains(&usual), "{how:?}: {usual}");
        }
    }

    #[test]
    fn many_answers_in_a_tick_count_as_one() {
        let all = learned(7, 10 * MILLI);
        (0..1_000).for_each(|_| all.learn(7, 40 * MILLI, TICK, Learning::Calm));
        let step = (30 * MILLI / UNIT).div_ceil(64) * UNIT;
        assert_eq!(all.usual(7), Some(10 * MILLI + step));
    }

    #[test]
    fn two_kinds_of_one_slot_do_not_mix_and_a_forgotten_one_frees_its_slot() {
        let all = learned(7, 10 * MILLI);
        let other = 7 + (3 << 48);
        (0..100).for_each(|n| all.learn(other, MILLI, n, Learning::Calm));
        assert_eq!((all.usual(7), all.usual(other)), (Some(10 * MILLI), None));
        let later = 200 * TICK;
        (0..LEARNED).for_each(|n| all.learn(other, MILLI, later + n, Learning::Calm));
        assert_eq!((all.usual(7), all.usual(other)), (None, Some(MILLI)));
    }
}
