//! A concurrency limit that follows latency.

use super::rules::LoadRules;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// The value of an open limit. Other fixed limits are reached first.
const OPEN: f64 = (1 << 20) as f64;
/// The resolution of a limit: parts per unit.
const PARTS: f64 = 256.0;
/// The minimum number in flight at which an open limit may fall. Fewer are no load, whatever their latency.
const LOAD: usize = 32;
/// The shortest window, in microseconds.
const SHORTEST: u64 = 100_000;
/// The longest window, in microseconds. With too few samples by then, the limit may rise.
const LONGEST: u64 = 1_000_000;
const SAMPLES: u64 = 5;
const MOST_SAMPLES: u64 = 1 << 15;
/// The microseconds after the last sign of load during which measurements are not taken as usual.
const CALM_AFTER: u64 = 1_000_000;
/// The microseconds without an ended call after which an idle chain has no load.
const IDLE: u64 = 5_000_000;
/// The resolution of a sample, which is the factor by which an answer is later than usual.
const SHARES: f64 = 64.0;
/// The maximum factor of a sample.
const MOST_LATE: f64 = 7.9;
/// The microseconds per unit in the sum of latencies.
const UNIT: u64 = 2_000;

/// A concurrency limit. Samples are collected in windows of at least 0.1 s. The thread that ends one sets the limit.
#[derive(Debug)]
pub struct AdaptiveLimit {
    rules: LoadRules,
    /// The minimum number in flight at which an open limit may fall.
    load: usize,
    /// In units of 1 / [`PARTS`].
    limit: AtomicU64,
    /// From the highest bit: 16 bits of the number of samples, 24 of their sum, 24 of their latencies.
    window: AtomicU64,
    peak: AtomicUsize,
    opened: AtomicU64,
    length: AtomicU64,
    loaded: AtomicU64,
    late: AtomicU32,
    /// The bits of the average lateness of the last window.
    lateness: AtomicU64,
    has_refused: AtomicBool,
    /// Set after the limit was at its minimum, until a window is late.
    is_rising: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    /// The average factor by which answers were later than usual, if there were enough.
    lateness: Option<f64>,
    peak: usize,
    /// The number of consecutive late windows before this one.
    late_before: u32,
}

impl AdaptiveLimit {
    /// Creates an open limit.
    pub fn new(rules: LoadRules) -> Self {
        Self::with_load(rules, LOAD)
    }

    /// Creates an open limit for one project. The chain's limit decides what is load, so this one may always fall.
    pub(super) fn of_project(rules: LoadRules) -> Self {
        Self::with_load(rules, 1)
    }

    fn with_load(rules: LoadRules, load: usize) -> Self {
        AdaptiveLimit {
            rules,
            load,
            limit: AtomicU64::new((OPEN * PARTS) as u64),
            window: AtomicU64::new(0),
            peak: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            length: AtomicU64::new(SHORTEST),
            loaded: AtomicU64::new(0),
            late: AtomicU32::new(0),
            lateness: AtomicU64::new(0),
            has_refused: AtomicBool::new(false),
            is_rising: AtomicBool::new(false),
        }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &LoadRules {
        &self.rules
    }

    /// Returns the limit, or `None` while it is open.
    pub fn now(&self) -> Option<usize> {
        let limit = self.limit.load(Relaxed);
        (limit < (OPEN * PARTS) as u64).then_some((limit as f64 / PARTS) as usize)
    }

    /// Reports whether no window has ended for so long that a chain with nothing in flight has no load.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        now.saturating_sub(self.opened.load(Relaxed)) >= IDLE
    }

    /// Opens an outdated limit and begins a window.
    pub(super) fn open(&self, now: u64) {
        let opened = self.opened.load(Acquire);
        if now > opened && self.opened.compare_exchange(opened, now, AcqRel, Relaxed).is_ok() {
            self.window.store(0, Relaxed);
            self.late.store(0, Relaxed);
            self.lateness.store(0, Relaxed);
            self.is_rising.store(false, Relaxed);
            self.limit.store((OPEN * PARTS) as u64, Relaxed);
        }
    }

    /// Drops all measurements, for another project.
    pub(super) fn forget(&self, now: u64) {
        self.opened.store(now, Relaxed);
        self.window.store(0, Relaxed);
        self.peak.store(0, Relaxed);
        self.length.store(SHORTEST, Relaxed);
        self.late.store(0, Relaxed);
        self.lateness.store(0, Relaxed);
        self.limit.store((OPEN * PARTS) as u64, Relaxed);
    }

    pub(super) fn is_least(&self) -> bool {
        self.now().is_some_and(|limit| limit <= self.rules.least as usize)
    }

    /// Reports whether the limit is rising from its minimum without late answers.
    pub(super) fn is_rising(&self) -> bool {
        self.is_rising.load(Relaxed)
    }

    /// Returns the average lateness of the last window; 0 if it had too few samples.
    pub(super) fn lateness(&self) -> f64 {
        f64::from_bits(self.lateness.load(Relaxed))
    }

    /// Reports whether there was no sign of load in the last second before `now`, in microseconds.
    pub(super) fn is_calm(&self, now: u64) -> bool {
        now.saturating_sub(self.loaded.load(Relaxed)) > CALM_AFTER
    }

    pub(super) fn saw(&self, in_flight: usize) {
        if in_flight > self.peak.load(Relaxed) {
            self.peak.fetch_max(in_flight, Relaxed);
        }
    }

    pub(super) fn refused(&self, now: u64, in_flight: usize) {
        if !self.has_refused.load(Relaxed) {
            self.has_refused.store(true, Relaxed);
        }
        self.look(now, in_flight);
    }

    /// Records an answer that took `latency` microseconds, `lateness` times the usual latency.
    pub(super) fn sample(&self, lateness: f64, latency: u64) {
        let share = (lateness.clamp(0.0, MOST_LATE) * SHARES) as u64;
        let took = latency.min(LONGEST) / UNIT;
        self.window.fetch_add(1 << 48 | share << 24 | took, Relaxed);
    }

    /// Ends the window if it has lasted long enough, and sets the next limit. `in_flight` are in flight at `now`.
    pub(super) fn look(&self, now: u64, in_flight: usize) {
        let opened = self.opened.load(Acquire);
        let lasted = now.saturating_sub(opened);
        let samples = self.window.load(Relaxed) >> 48;
        if lasted < SHORTEST && samples < MOST_SAMPLES {
            return;
        }
        let is_over = lasted >= self.length.load(Relaxed) && samples >= SAMPLES
            || lasted >= LONGEST
            || samples >= MOST_SAMPLES;
        // The thread that moves the start ends the window. The others find a new one.
        if is_over && self.opened.compare_exchange(opened, now, AcqRel, Relaxed).is_ok() {
            self.end(now, in_flight);
        }
    }

    fn end(&self, now: u64, in_flight: usize) {
        let window = self.window.swap(0, Relaxed);
        let samples = window >> 48;
        let shares = window >> 24 & 0xff_ffff;
        let took = window & 0xff_ffff;
        let mean = |sum: u64| sum as f64 / samples.max(1) as f64;
        let lateness = (samples >= SAMPLES).then(|| mean(shares) / SHARES);
        self.lateness.store(lateness.unwrap_or_default().to_bits(), Relaxed);
        let seen =
            Seen { lateness, peak: self.peak.swap(in_flight, Relaxed), late_before: self.late.load(Relaxed) };
        let factor = self.rules.factor();
        let is_late = lateness.is_some_and(|lateness| lateness > factor);
        self.late.store(if is_late { seen.late_before.saturating_add(1) } else { 0 }, Relaxed);
        // A few slower calls without a limit are not load: the usual latency has changed.
        let is_loaded = lateness.is_some_and(|lateness| lateness > factor * 0.75)
            && (seen.peak >= self.load || self.now().is_some());
        if self.has_refused.swap(false, Relaxed) || is_loaded {
            self.loaded.store(now, Relaxed);
        }
        // The effect of a limit shows only after the time that an answer takes.
        let length = (mean(took) * UNIT as f64) as u64;
        self.length.store(length.clamp(SHORTEST, LONGEST), Relaxed);
        let next = next(self.limit.load(Relaxed) as f64 / PARTS, seen, &self.rules, self.load);
        self.limit.store((next * PARTS) as u64, Relaxed);
        let is_least = next <= f64::from(self.rules.least);
        if is_least || is_late {
            self.is_rising.store(is_least, Relaxed);
        }
    }
}

/// Returns the limit after a window.
///
/// The limit is divided by the factor by which answers were late, or multiplied if they were early, by at most 2 or
/// 1.5. It falls only if it was in use or there was load, and the unused part falls first. An open limit falls only
/// after a second late window, because a single one may be a pause of the machine.
fn next(limit: f64, seen: Seen, rules: &LoadRules, load: usize) -> f64 {
    let least = f64::from(rules.least.max(1));
    let peak = seen.peak as f64;
    let Some(lateness) = seen.lateness.filter(|lateness| *lateness > 0.0) else {
        return (limit * 1.5).min(OPEN);
    };
    let gradient = rules.factor() / lateness;
    if gradient >= 1.0 {
        return (limit * gradient.min(1.5)).min(OPEN);
    }
    let is_open = limit >= OPEN;
    let is_load = peak * 2.0 >= limit || seen.peak >= load;
    if !is_load || is_open && seen.late_before == 0 {
        return limit;
    }
    (limit.min(peak.max(load as f64)) * gradient.max(0.5)).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: LoadRules =
        LoadRules { least: 4, tolerance: 200, latency: std::time::Duration::ZERO, weights: [1; 4] };

    fn seen(lateness: f64, peak: usize) -> Seen {
        Seen { lateness: Some(lateness), peak, late_before: 1 }
    }

    #[test]
    fn the_limit_follows_the_gradient_of_latency() {
        for (limit, lateness, peak, expected) in [
            (100.0, 4.0, 100, 50.0),
            (100.0, 2.5, 100, 80.0),
            (100.0, 7.0, 100, 50.0),
            (100.0, 2.0, 100, 100.0),
            (100.0, 1.6, 100, 125.0),
            (100.0, 1.0, 100, 150.0),
            (100.0, 1.0, 0, 150.0),
            // The unused part falls first.
            (OPEN, 4.0, 90, 45.0),
            (1_000.0, 4.0, 90, 45.0),
            // Few calls are no load.
            (OPEN, 7.0, 31, OPEN),
            (100.0, 7.0, 31, 100.0),
            (40.0, 7.0, 20, 16.0),
            (5.0, 7.0, 5, 4.0),
            (OPEN, 1.0, 5_000, OPEN),
        ] {
            let next = next(limit, seen(lateness, peak), &RULES, LOAD);
            assert!((next - expected).abs() < 0.01, "{limit} {lateness} {peak}: {next}");
        }
    }

    #[test]
    fn one_late_window_does_not_close_an_open_limit() {
        let once = Seen { late_before: 0, ..seen(7.0, 500) };
        assert_eq!(next(OPEN, once, &RULES, LOAD), OPEN);
        assert_eq!(next(100.0, once, &RULES, LOAD), 50.0, "one that is not open falls at once");
    }

    #[test]
    fn a_window_without_samples_opens_the_limit() {
        let none = Seen { lateness: None, peak: 4, late_before: 3 };
        assert_eq!(next(4.0, none, &RULES, LOAD), 6.0);
    }

    proptest! {
        // Shows (Hostile and odd traffic).
        #[test]
        fn the_limit_stays_between_the_least_and_open_and_opens_within_five_seconds(
            least in 1..64_u32,
            tolerance in 101..1_000_u32,
            windows in proptest::collection::vec((0.0..9.0_f64, 0..5_000_usize, 0..3_u32), 0..200),
        ) {
            let rules = LoadRules { least, tolerance, ..RULES };
            let mut limit = OPEN;
            for (lateness, peak, late_before) in windows {
                let next = next(limit, Seen { lateness: Some(lateness), peak, late_before }, &rules, LOAD);
                prop_assert!(next >= f64::from(least) && next <= OPEN, "{next}");
                prop_assert!(next >= limit * 0.5 || limit > peak as f64, "{limit} {next}");
                let is_late = lateness > rules.factor();
                prop_assert!(if is_late { next <= limit } else { next >= limit }, "{limit} {next}");
                limit = next;
            }
            // A single call is never late: its latency is usual. Five seconds have fifty windows.
            for _ in 0..50 {
                limit = next(limit, Seen { lateness: Some(1.0), peak: 1, late_before: 0 }, &rules, LOAD);
            }
            prop_assert!(limit > 1_000.0 || tolerance < 115, "{limit}");
        }
    }

    #[test]
    fn samples_of_many_threads_are_counted_once() {
        let limit = AdaptiveLimit::new(RULES);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        limit.sample(7.0, 1_000);
                    }
                });
            }
        });
        let window = limit.window.load(Relaxed);
        assert_eq!((window >> 48, window >> 24 & 0xff_ffff), (20_000, 20_000 * 7 * 64));
    }

    #[test]
    fn the_fields_of_a_full_window_do_not_run_into_each_other() {
        let limit = AdaptiveLimit::new(RULES);
        (0..MOST_SAMPLES).for_each(|_| limit.sample(1e9, u64::MAX));
        let window = limit.window.load(Relaxed);
        assert_eq!(window >> 48, MOST_SAMPLES);
        assert_eq!(window >> 24 & 0xff_ffff, MOST_SAMPLES * (MOST_LATE * SHARES) as u64);
        assert_eq!(window & 0xff_ffff, MOST_SAMPLES * (LONGEST / UNIT));
    }
}
