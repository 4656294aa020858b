//! The recent usefulness of a node over one transport.
//!
//! Each node has statistics for each transport, which [`choice`](super::choice) reads: the latency of usable answers,
//! the share of failed tries, and whether calls wait for the node longer than usual right now. An error or a failed try
//! never makes a node look faster, however soon it comes.
//!
//! A node is *doubtful* if most of its tries fail, or if it is silent. It gets calls only if no other node of its kind
//! is better, and from time to time a *trial*: one call that shows whether it is useful again.

use super::backoff::Backoff;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The share that means that all recent tries failed.
const ALL: u32 = 1_024;

/// The share of failed tries from which a node is doubtful. Two consecutive failures reach it, or one silence.
const DOUBTFUL: u32 = ALL * 3 / 8;

/// The penalty for a failed try in the expected latency.
const IN_VAIN: Duration = Duration::from_secs(1);

/// A call that waits for this multiple of the usual latency makes the node silent.
const USUAL: u32 = 8;

/// The minimum wait before a node with a known latency is silent.
const SHORTEST: Duration = Duration::from_millis(250);

/// The minimum wait for a node whose latency is not known, and for calls in flight.
const FIRST: Duration = Duration::from_secs(1);

/// The minimum wait before a try without an answer is counted.
const SOONEST: Duration = Duration::from_millis(50);

/// The number of consecutive errors that no adapter names after which the node, and not the calls, may be the cause.
const SUSPECT: u32 = 16;

/// The number of errors that is enough if the last came at least [`SUSPECT_AFTER`] after the first: a quiet chain has
/// few calls.
const SUSPECT_FEW: u32 = 4;

const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// The number of slots for methods. Several methods may share one.
const SLOTS: usize = 32;

/// The slot of a method in a node's statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MethodIndex(u8);

impl MethodIndex {
    /// The slot of calls whose method is not known.
    pub(crate) const OTHER: MethodIndex = MethodIndex(0);

    /// Returns the slot of a listed method, whose name is always at the same address.
    pub(crate) fn of(method: Option<&'static str>) -> Self {
        let Some(name) = method.filter(|name| !name.is_empty()) else { return MethodIndex::OTHER };
        // The names are adjacent in memory. A multiplication spreads them (Fibonacci hashing).
        let spread = (name.as_ptr().addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        MethodIndex((spread as usize % (SLOTS - 1) + 1) as u8)
    }
}

/// The statistics of a node over one transport. No access takes a lock.
#[derive(Debug, Default)]
pub(crate) struct Usefulness {
    /// The latency of usable answers in microseconds; 0 if none has come.
    latency: AtomicU64,
    in_vain: AtomicU32,
    /// The share of each method's tries that the node could not serve.
    methods: [AtomicU32; SLOTS],
    waiting: AtomicUsize,
    /// The time since which none of the waiting tries was answered, in microseconds.
    silent_since: AtomicU64,
    /// Consecutive answers that were empty, or errors that no adapter names; at most [`SUSPECT`].
    errors: AtomicU32,
    /// The time of the first of these errors, in microseconds.
    errors_since: AtomicU64,
    /// The total wait of unanswered calls since the last answer, in microseconds.
    unanswered: AtomicU64,
    has_served: AtomicBool,
    /// The pause between trials.
    trials: Backoff,
}

pub(crate) struct WaitingTry<'u>(&'u Usefulness);

impl Drop for WaitingTry<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Usefulness {
    /// Begins a wait for the node's answer.
    pub(crate) fn wait(&self, now: impl FnOnce() -> Duration) -> WaitingTry<'_> {
        if self.waiting.fetch_add(1, Relaxed) == 0 {
            self.silent_since.store(now().as_micros() as u64, Relaxed);
        }
        WaitingTry(self)
    }

    pub(crate) fn latency(&self) -> Duration {
        Duration::from_micros(self.latency.load(Relaxed))
    }

    /// Returns the expected time of one more call in microseconds, without regard to the calls in flight; `None` if
    /// nothing is known.
    pub(crate) fn expected(&self, method: MethodIndex) -> Option<u64> {
        let latency = self.latency.load(Relaxed);
        let share = if self.is_suspect() { ALL } else { self.share(method) };
        if latency == 0 && share == 0 {
            return None;
        }
        Some(latency.max(1) + IN_VAIN.as_micros() as u64 * u64::from(share) / u64::from(ALL))
    }

    /// Reports whether all recent answers were errors or empty. Perhaps the node answers every call so. It is not
    /// doubtful, because wrong calls have the same effect; but among equal nodes another one is preferred.
    pub(crate) fn is_suspect(&self) -> bool {
        self.errors.load(Relaxed) >= SUSPECT
    }

    fn share(&self, method: MethodIndex) -> u32 {
        let of_method = self.methods.get(usize::from(method.0)).map_or(0, |share| share.load(Relaxed));
        self.in_vain.load(Relaxed).max(of_method)
    }

    /// Reports whether calls of this method should go to another node. Reads the clock only if a call waits.
    pub(crate) fn is_doubtful(&self, method: MethodIndex, now: impl FnOnce() -> Duration) -> bool {
        self.is_in_doubt(method) || self.is_silent(now)
    }

    /// Reports whether a recent try of this method failed, or all recent answers were errors.
    pub(crate) fn has_failed(&self, method: MethodIndex) -> bool {
        self.share(method) > 0 || self.is_suspect()
    }

    pub(crate) fn is_in_doubt(&self, method: MethodIndex) -> bool {
        self.share(method) >= DOUBTFUL
    }

    /// Reports whether calls wait for the node much longer than usual and none of them was answered.
    fn is_silent(&self, now: impl FnOnce() -> Duration) -> bool {
        self.waiting.load(Relaxed) > 0 && {
            let since = Duration::from_micros(self.silent_since.load(Relaxed));
            now().saturating_sub(since) >= (self.latency() * USUAL).max(FIRST)
        }
    }

    /// Reports whether the node gets the next call as a trial, if a recent try failed. While other nodes are faster, it
    /// would otherwise get no call that shows whether it is useful again. The first trial comes after a second. Each
    /// failure doubles the pause, up to half a minute.
    pub(crate) fn takes_trial(&self, method: MethodIndex, now: impl Fn() -> Duration) -> bool {
        if !self.has_failed(method) {
            return false;
        }
        let now = now();
        if !self.trials.remaining(now).is_zero() {
            return false;
        }
        let is_first = !self.trials.is_set();
        self.trials.fail(now);
        // The first pause begins when the failure is noticed.
        !is_first
    }

    /// Reports whether the recent answers include one without an error.
    pub(crate) fn has_served_lately(&self) -> bool {
        self.errors.load(Relaxed) < SUSPECT / 2
    }

    pub(crate) fn has_served(&self) -> bool {
        self.has_served.load(Relaxed)
    }

    pub(crate) fn is_awaited_by_others(&self) -> bool {
        self.waiting.load(Relaxed) > 1
    }

    /// Records that an answer arrived, whatever its content: the node is not silent.
    pub(crate) fn record_sign_of_life(&self, now: Duration) {
        self.silent_since.store(now.as_micros() as u64, Relaxed);
    }

    /// Records an answer that was empty, or an error that no adapter names.
    pub(crate) fn record_error(&self, now: impl FnOnce() -> Duration) {
        self.record_answered();
        if self.is_suspect() {
            return;
        }
        let now = now();
        // Stored before the count, because other threads read the count first.
        if self.errors.load(Relaxed) == 0 {
            self.errors_since.store(now.as_micros() as u64, Relaxed);
        }
        let before = self.errors.fetch_add(1, Relaxed);
        let since = Duration::from_micros(self.errors_since.load(Relaxed));
        if before + 1 >= SUSPECT_FEW && now.saturating_sub(since) >= SUSPECT_AFTER {
            self.errors.store(SUSPECT, Relaxed);
        }
    }

    /// Ends the total wait of unanswered calls, because a call was answered.
    pub(crate) fn record_answered(&self) {
        if self.unanswered.load(Relaxed) != 0 {
            self.unanswered.store(0, Relaxed);
        }
    }

    /// Records a usable answer, which came after `took` if that was measured.
    pub(crate) fn record_usable(&self, method: MethodIndex, took: Option<Duration>) {
        self.record_answered();
        if !self.has_served() {
            self.has_served.store(true, Relaxed);
        }
        if self.errors.load(Relaxed) != 0 {
            self.errors.store(0, Relaxed);
        }
        let in_vain = self.in_vain.load(Relaxed);
        if in_vain != 0 {
            self.in_vain.store(less(in_vain), Relaxed);
        }
        if let Some(slot) = self.methods.get(usize::from(method.0)) {
            let share = slot.load(Relaxed);
            if share != 0 {
                slot.store(less(share), Relaxed);
            }
        }
        // After this, the pause starts from the beginning when the node becomes doubtful again.
        if self.trials.is_set() && self.share(method) < DOUBTFUL {
            self.trials.clear();
        }
        if let Some(took) = took {
            self.record_latency(took);
        }
    }

    pub(crate) fn record_latency(&self, took: Duration) {
        let sample = (took.as_micros() as u64).max(1);
        let old = self.latency.load(Relaxed);
        // A rise is believed sooner than a fall.
        let new = match old {
            0 => sample,
            _ if sample > old => old + (sample - old).div_ceil(4),
            _ => old - (old - sample) / 8,
        };
        if new != old {
            self.latency.store(new, Relaxed);
        }
    }

    /// Records that a try failed, or that the node serves no calls at the moment.
    pub(crate) fn record_failed(&self) {
        let old = self.in_vain.load(Relaxed);
        self.in_vain.store(old + (ALL - old).div_ceil(4), Relaxed);
    }

    pub(crate) fn record_method_failed(&self, method: MethodIndex) {
        if let Some(slot) = self.methods.get(usize::from(method.0)) {
            let old = slot.load(Relaxed);
            slot.store(old + (ALL - old).div_ceil(4), Relaxed);
        }
    }

    /// Records that an answer of this method began and ended without a message after `waited`, unless that is usual for
    /// the node.
    pub(crate) fn record_method_silence(&self, method: MethodIndex, waited: Duration) {
        if self.is_unusual(waited) {
            self.record_method_failed(method);
        }
    }

    /// Reports whether this wait is so long that something must be wrong.
    fn is_unusual(&self, waited: Duration) -> bool {
        let latency = self.latency();
        waited >= if latency.is_zero() { FIRST } else { (latency * USUAL).max(SHORTEST) }
    }

    /// Records that a try ended without an answer after `waited`, because of a timeout or because the client left.
    /// Ignores a wait that was too short for an answer, so that no client can make a node look silent by leaving early.
    /// The waits of consecutive tries without an answer add up.
    pub(crate) fn record_silence(&self, waited: Duration) {
        if waited < self.latency().max(SOONEST) {
            return;
        }
        let waited_before = self.unanswered.fetch_add(waited.as_micros() as u64, Relaxed);
        if !self.is_unusual(waited + Duration::from_micros(waited_before)) {
            return;
        }
        self.unanswered.store(0, Relaxed);
        let old = self.in_vain.load(Relaxed);
        // A long wait has cost the client more than an error does.
        let part = if waited >= FIRST { 2 } else { 4 };
        self.in_vain.store(old + (ALL - old).div_ceil(part), Relaxed);
    }
}

/// Returns the share after a usable answer. A node that has failed gets few calls, so each of them counts.
const fn less(share: u32) -> u32 {
    share / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: MethodIndex = MethodIndex::OTHER;
    const MILLI: Duration = Duration::from_millis(1);

    fn at(millis: u32) -> impl Fn() -> Duration {
        move || MILLI * millis
    }

    #[test]
    fn latency_rises_faster_than_it_falls() {
        let account = Usefulness::default();
        let after = |millis| {
            account.record_latency(MILLI * millis);
            account.latency().as_micros()
        };
        assert_eq!(after(8), 8_000);
        assert_eq!(after(16), 10_000);
        assert_eq!(after(2), 9_000);
        account.record_latency(Duration::ZERO);
        assert!(account.latency() > Duration::ZERO);
    }

    #[test]
    fn a_failed_try_never_makes_a_node_look_quicker() {
        let account = Usefulness::default();
        account.record_usable(ANY, Some(MILLI * 40));
        let before = account.expected(ANY).unwrap();
        account.record_failed();
        assert!(account.expected(ANY).unwrap() > before);
        account.record_method_failed(ANY);
        account.record_silence(Duration::from_secs(2));
        assert_eq!(account.latency(), MILLI * 40);
    }

    #[test]
    fn two_failures_in_a_row_make_a_node_doubtful_and_so_does_one_long_silence() {
        let failing = Usefulness::default();
        let silent = Usefulness::default();
        failing.record_failed();
        assert!(!failing.is_doubtful(ANY, at(0)));
        failing.record_failed();
        assert!(failing.is_doubtful(ANY, at(0)));
        silent.record_silence(Duration::from_secs(2));
        assert!(silent.is_doubtful(ANY, at(0)));
        failing.record_usable(ANY, None);
        assert!(!failing.is_doubtful(ANY, at(0)), "a usable answer clears it");
    }

    #[test]
    fn a_caller_that_leaves_early_does_not_affect_a_node() {
        let account = Usefulness::default();
        account.record_silence(MILLI * 999);
        assert_eq!(account.expected(ANY), None, "a node that never answered has a second");
        account.record_usable(ANY, Some(MILLI * 100));
        (0..100).for_each(|_| account.record_silence(MILLI * 99));
        assert!(!account.is_doubtful(ANY, at(0)), "no answer was due");
        for _ in 0..100 {
            account.record_silence(MILLI * 799);
            account.record_answered();
        }
        assert!(!account.is_doubtful(ANY, at(0)), "others were answered");
        account.record_silence(MILLI * 800);
        account.record_silence(MILLI * 800);
        assert!(account.is_doubtful(ANY, at(0)));
    }

    #[test]
    fn callers_with_little_time_find_a_silent_node_together() {
        let known = Usefulness::default();
        let unknown = Usefulness::default();
        known.record_usable(ANY, Some(MILLI * 100));
        (0..5).for_each(|_| known.record_silence(MILLI * 150));
        assert!(!known.is_doubtful(ANY, at(0)));
        (0..7).for_each(|_| known.record_silence(MILLI * 150));
        assert!(known.is_doubtful(ANY, at(0)));
        (0..40).for_each(|_| unknown.record_silence(MILLI * 50));
        assert!(unknown.is_doubtful(ANY, at(0)));
    }

    #[test]
    fn a_node_that_answers_everything_with_errors_is_suspect_until_a_usable_answer() {
        let account = Usefulness::default();
        account.record_usable(ANY, Some(MILLI));
        (0..15).for_each(|_| account.record_error(at(0)));
        assert!(!account.is_suspect());
        account.record_error(at(0));
        assert!(account.is_suspect() && !account.is_doubtful(ANY, at(0)));
        assert!(account.expected(ANY).unwrap() > 1_000_000);
        assert!(!account.takes_trial(ANY, at(0)) && account.takes_trial(ANY, at(1_000)));
        account.record_usable(ANY, None);
        assert!(!account.is_suspect() && account.expected(ANY) == Some(1_000));
    }

    #[test]
    fn a_row_of_four_errors_is_enough_if_it_lasts_a_second() {
        let account = Usefulness::default();
        for millis in [10_000, 10_300, 10_999] {
            account.record_error(at(millis));
        }
        assert!(!account.is_suspect());
        account.record_usable(ANY, None);
        for millis in [11_000, 11_300, 11_600, 11_999] {
            account.record_error(at(millis));
        }
        assert!(!account.is_suspect(), "a usable answer begins a new row");
        account.record_error(at(12_000));
        assert!(account.is_suspect() && !account.has_served_lately());
    }

    #[test]
    fn a_busy_node_is_not_doubtful_for_the_few_calls_that_fail() {
        let account = Usefulness::default();
        for call in 0..1_000 {
            if call % 10 == 0 {
                account.record_failed();
            } else {
                account.record_usable(ANY, Some(MILLI));
            }
            assert!(!account.is_doubtful(ANY, at(0)), "{call}");
        }
    }

    #[test]
    fn calls_that_wait_for_much_longer_than_usual_make_a_node_doubtful_before_they_end() {
        let account = Usefulness::default();
        account.record_usable(ANY, Some(MILLI * 200));
        let first = account.wait(at(0));
        let second = account.wait(at(1_000));
        assert!(!account.is_doubtful(ANY, at(1_599)), "eight times its latency");
        assert!(account.is_doubtful(ANY, at(1_600)));
        account.record_sign_of_life(MILLI * 1_600);
        drop(first);
        assert!(!account.is_doubtful(ANY, at(3_199)), "an answer to one of them shows that it works");
        assert!(account.is_doubtful(ANY, at(3_200)));
        drop(second);
        assert!(!account.is_doubtful(ANY, at(9_999)), "no call waits");
    }

    #[test]
    fn a_method_that_a_node_cannot_serve_is_doubtful_and_the_others_are_not() {
        static NAMES: [&str; 2] = ["one_method", "other_method"];
        let [one, other] = NAMES.map(|name| MethodIndex::of(Some(name)));
        assert_ne!(one, other);
        let account = Usefulness::default();
        (0..2).for_each(|_| account.record_method_failed(one));
        assert!(account.is_doubtful(one, at(0)) && !account.is_doubtful(other, at(0)));
        assert_eq!(account.expected(other), None);
        account.record_usable(other, None);
        assert!(account.is_doubtful(one, at(0)));
        account.record_usable(one, None);
        assert!(!account.is_doubtful(one, at(0)));
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_doubtful_node_gets_a_trial_after_a_second_and_then_less_and_less_often() {
        let account = Usefulness::default();
        assert!(!account.takes_trial(ANY, at(0)), "it is not doubtful");
        (0..9).for_each(|_| account.record_failed());
        let trials: Vec<_> = (0..40_000).filter(|now| account.takes_trial(ANY, at(*now))).collect();
        assert_eq!(trials, [1_000, 3_000, 7_000, 15_000, 31_000]);
        (0..2).for_each(|_| account.record_usable(ANY, None));
        assert!(!account.is_doubtful(ANY, at(0)) && !account.trials.is_set());
        (0..2).for_each(|_| account.record_failed());
        let again: Vec<_> = (50_000..52_000).filter(|now| account.takes_trial(ANY, at(*now))).collect();
        assert_eq!(again, [51_000]);
    }

    #[test]
    fn an_unknown_node_has_no_expected_time() {
        let account = Usefulness::default();
        assert_eq!(account.expected(ANY), None);
        account.record_failed();
        assert!(account.expected(ANY).is_some());
    }
}
