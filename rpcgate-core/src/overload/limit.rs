//! The limit that follows latency.

use super::rules::LoadRules;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// A limit of this many is open: the fixed limits hold before.
const OPEN: f64 = (1 << 20) as f64;
/// So many parts of one are told apart in a limit.
const PARTS: f64 = 256.0;
/// With fewer under way at a time, an open limit does not fall: they are no load, whatever their latency.
const LOAD: usize = 32;
/// The shortest window, in microseconds.
const SHORTEST: u64 = 100_000;
/// The longest window. If it has too few samples, nothing speaks against a higher limit.
const LONGEST: u64 = 1_000_000;
/// The fewest samples that decide.
const SAMPLES: u64 = 5;
/// So many samples are gathered at most.
const MOST_SAMPLES: u64 = 1 << 15;
/// For this time after the last sign of load, what is measured is not what is usual.
const CALM_AFTER: u64 = 1_000_000;
/// Where nothing has ended for this time and nothing is under way, there is no load.
const IDLE: u64 = 5_000_000;
/// So many parts of one are told apart in a sample, which is the factor by which an answer is later than usual.
const SHARES: f64 = 64.0;
/// A sample counts as this factor at most.
const MOST_LATE: f64 = 7.9;
/// The microseconds of a unit in the sum of latencies.
const UNIT: u64 = 2_000;

/// A limit of what is under way at a time. Samples are gathered in windows of a tenth of a second or more; who ends one
/// sets the next limit, the others go on.
#[derive(Debug)]
pub struct AdaptiveLimit {
    rules: LoadRules,
    /// With fewer under way at a time, an open limit does not fall.
    load: usize,
    /// In parts of one.
    limit: AtomicU64,
    /// The samples of this window, from the highest bit: 16 bits of their number, 24 of their sum, 24 of their latencies.
    window: AtomicU64,
    /// The most that were under way at a time in this window.
    peak: AtomicUsize,
    /// When this window began, in microseconds.
    opened: AtomicU64,
    /// How long it lasts at least.
    length: AtomicU64,
    /// When the last sign of load was seen.
    loaded: AtomicU64,
    /// Windows in a row that were too late.
    late: AtomicU32,
    /// The bits of the mean lateness of the last window.
    lateness: AtomicU64,
    has_refused: AtomicBool,
    /// Whether the limit was at its least, and no window has been too late since.
    is_rising: AtomicBool,
}

/// What a window has shown.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    /// The mean factor by which answers were later than usual, if there were enough.
    lateness: Option<f64>,
    /// The most that were under way at a time.
    peak: usize,
    /// Windows in a row before this one that were too late.
    late_before: u32,
}

impl AdaptiveLimit {
    /// An open limit.
    pub fn new(rules: LoadRules) -> Self {
        Self::with_load(rules, LOAD)
    }

    /// An open limit for one project. The chain's limit decides what is load, so this one falls however few are under way.
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

    /// The rules.
    pub fn rules(&self) -> &LoadRules {
        &self.rules
    }

    /// The limit, or `None` while it is open.
    pub fn now(&self) -> Option<usize> {
        let limit = self.limit.load(Relaxed);
        (limit < (OPEN * PARTS) as u64).then_some((limit as f64 / PARTS) as usize)
    }

    /// Whether nothing has ended a window for so long that there is no load, if nothing is under way.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        now.saturating_sub(self.opened.load(Relaxed)) >= IDLE
    }

    /// Opens the limit, which says nothing any more, and begins a window.
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

    /// Forgets all that was measured, for another project.
    pub(super) fn forget(&self, now: u64) {
        self.opened.store(now, Relaxed);
        self.window.store(0, Relaxed);
        self.peak.store(0, Relaxed);
        self.length.store(SHORTEST, Relaxed);
        self.late.store(0, Relaxed);
        self.lateness.store(0, Relaxed);
        self.limit.store((OPEN * PARTS) as u64, Relaxed);
    }

    /// Whether the limit is as low as it may be.
    pub(super) fn is_least(&self) -> bool {
        self.now().is_some_and(|limit| limit <= self.rules.least as usize)
    }

    /// Whether the limit rises from its least, with no answers that are late.
    pub(super) fn is_rising(&self) -> bool {
        self.is_rising.load(Relaxed)
    }

    /// The mean factor by which the answers of the last window were later than usual; 0 if they were too few.
    pub(super) fn lateness(&self) -> f64 {
        f64::from_bits(self.lateness.load(Relaxed))
    }

    /// Whether there was no sign of load in the last second before `now`, in microseconds.
    pub(super) fn is_calm(&self, now: u64) -> bool {
        now.saturating_sub(self.loaded.load(Relaxed)) > CALM_AFTER
    }

    /// So many are under way.
    pub(super) fn saw(&self, under_way: usize) {
        if under_way > self.peak.load(Relaxed) {
            self.peak.fetch_max(under_way, Relaxed);
        }
    }

    /// One was refused.
    pub(super) fn refused(&self, now: u64, under_way: usize) {
        if !self.has_refused.load(Relaxed) {
            self.has_refused.store(true, Relaxed);
        }
        self.look(now, under_way);
    }

    /// An answer took `latency` microseconds, `lateness` times what is usual.
    pub(super) fn sample(&self, lateness: f64, latency: u64) {
        let share = (lateness.clamp(0.0, MOST_LATE) * SHARES) as u64;
        let took = latency.min(LONGEST) / UNIT;
        self.window.fetch_add(1 << 48 | share << 24 | took, Relaxed);
    }

    /// Ends the window if it has lasted long enough, and sets the next limit. `under_way` are those at `now`.
    pub(super) fn look(&self, now: u64, under_way: usize) {
        let opened = self.opened.load(Acquire);
        let lasted = now.saturating_sub(opened);
        let samples = self.window.load(Relaxed) >> 48;
        if lasted < SHORTEST && samples < MOST_SAMPLES {
            return;
        }
        let is_over = lasted >= self.length.load(Relaxed) && samples >= SAMPLES
            || lasted >= LONGEST
            || samples >= MOST_SAMPLES;
        // Whoever moves the beginning ends the window; the others find a new one.
        if is_over && self.opened.compare_exchange(opened, now, AcqRel, Relaxed).is_ok() {
            self.end(now, under_way);
        }
    }

    fn end(&self, now: u64, under_way: usize) {
        let window = self.window.swap(0, Relaxed);
        let (samples, shares, took) = (window >> 48, window >> 24 & 0xff_ffff, window & 0xff_ffff);
        let mean = |sum: u64| sum as f64 / samples.max(1) as f64;
        let lateness = (samples >= SAMPLES).then(|| mean(shares) / SHARES);
        self.lateness.store(lateness.unwrap_or_default().to_bits(), Relaxed);
        let seen =
            Seen { lateness, peak: self.peak.swap(under_way, Relaxed), late_before: self.late.load(Relaxed) };
        let factor = self.rules.factor();
        let is_late = lateness.is_some_and(|lateness| lateness > factor);
        self.late.store(if is_late { seen.late_before.saturating_add(1) } else { 0 }, Relaxed);
        // Few calls that take longer, without a limit, are not load: what is usual has changed.
        let is_loaded = lateness.is_some_and(|lateness| lateness > factor * 0.75)
            && (seen.peak >= self.load || self.now().is_some());
        if self.has_refused.swap(false, Relaxed) || is_loaded {
            self.loaded.store(now, Relaxed);
        }
        // What a limit changes shows after the time that an answer takes.
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

/// The limit after a window.
///
/// It is divided by the factor by which answers were later than is tolerated, and multiplied where they were sooner, by no
/// more than two or one and a half. It falls only if it was in use or there was load; the part of it that was not in use falls
/// first. From an open limit it falls after a second window that is too late, as one alone may be a pause of the machine.
fn next(limit: f64, seen: Seen, rules: &LoadRules, load: usize) -> f64 {
    let (least, peak) = (f64::from(rules.least.max(1)), seen.peak as f64);
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
            // What was not in use falls first.
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
            // A call alone is never late: its latency is usual. The windows of five seconds are fifty.
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
