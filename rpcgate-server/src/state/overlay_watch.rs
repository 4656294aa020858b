//! Passes operators' settings and commands to the code that applies them.

use parking_lot::Mutex;
use rpcgate_config::Overlay;
use rpcgate_core::clock::Clock;
use std::fmt;
use std::sync::Arc;

type Sink = Box<dyn Fn(&Overlay) + Send + Sync>;

/// Empties the cache of a chain, or of all chains for `None`.
type CacheSink = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// The newest overlay and its receiver. Either may come first. Changes of plans with a later effect are applied at
/// their time by this gateway's clock.
pub(super) struct OverlayWatch {
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    read: Overlay,
    /// The overlay that the receiver has.
    overlay: Overlay,
    sink: Option<Sink>,
    caches: Option<CacheSink>,
}

impl fmt::Debug for OverlayWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverlayWatch").field("overlay", &self.inner.lock().overlay).finish_non_exhaustive()
    }
}

impl OverlayWatch {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        OverlayWatch { clock, inner: Mutex::default() }
    }

    /// Passes every overlay to `sink`, and the newest at once unless none was set yet.
    pub(super) fn attach(&self, sink: Sink) {
        let mut inner = self.inner.lock();
        if inner.overlay != Overlay::default() {
            sink(&inner.overlay);
        }
        inner.sink = Some(sink);
    }

    /// Passes commands to empty a cache to `caches`. Earlier commands have nothing to empty.
    pub(super) fn attach_caches(&self, caches: CacheSink) {
        self.inner.lock().caches = Some(caches);
    }

    /// Empties the cache of a chain, or of all chains for `None`.
    pub(super) fn clear_cache(&self, chain: Option<&str>) {
        if let Some(caches) = &self.inner.lock().caches {
            caches(chain);
        }
    }

    /// Passes `overlay` on. When this returns, a present receiver has applied it.
    pub(super) fn put(&self, overlay: Overlay) {
        let mut inner = self.inner.lock();
        let in_force = overlay.at(self.clock.now());
        inner.read = overlay;
        inner.apply(in_force);
    }

    /// Passes the overlay on again if one of its changes has become due.
    pub(super) fn renew(&self) {
        let mut inner = self.inner.lock();
        let now = self.clock.now();
        if inner.read.scheduled.iter().any(|change| change.from <= now) {
            let in_force = inner.read.at(now);
            inner.apply(in_force);
        }
    }
}

impl Inner {
    fn apply(&mut self, overlay: Overlay) {
        if self.overlay == overlay {
            return;
        }
        if let Some(sink) = &self.sink {
            sink(&overlay);
        }
        self.overlay = overlay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::{PlanChange, ScheduledChange};
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_core::plan::Tier;
    use std::time::Duration;

    fn overlay(on: bool) -> Overlay {
        Overlay { chains: [("eth".to_owned(), on)].into(), ..Overlay::default() }
    }

    #[test]
    fn nothing_is_missed_and_nothing_is_reported_twice_in_either_order() {
        let overlay_watch = OverlayWatch::new(Arc::new(ManualClock::at(Time::from_secs(0))));
        overlay_watch.put(overlay(false));
        let reported: Arc<Mutex<Vec<Overlay>>> = Arc::default();
        let ear = reported.clone();
        overlay_watch.attach(Box::new(move |overlay| ear.lock().push(overlay.clone())));
        assert_eq!(*reported.lock(), [overlay(false)]);
        overlay_watch.put(overlay(false));
        overlay_watch.put(overlay(true));
        assert_eq!(*reported.lock(), [overlay(false), overlay(true)]);
    }

    // Shows (Plans, bills and payments).
    #[test]
    fn a_later_change_is_passed_on_once_at_its_time_without_another_read() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(100)));
        let overlay_watch = OverlayWatch::new(clock.clone());
        let reported: Arc<Mutex<Vec<Option<u64>>>> = Arc::default();
        let ear = reported.clone();
        overlay_watch.attach(Box::new(move |overlay| {
            ear.lock().push(overlay.plans.get(&Tier::Free).and_then(|plan| plan.quota.cu_per_day));
        }));
        let mut figures = PlanChange::default();
        figures.quota.cu_per_day = Some(7);
        let change = ScheduledChange { from: Time::from_secs(110), tier: Tier::Free, figures };
        overlay_watch.put(Overlay { scheduled: vec![change], ..overlay(false) });
        overlay_watch.renew();
        assert_eq!(*reported.lock(), [None]);
        clock.advance(Duration::from_secs(10));
        for _ in 0..2 {
            overlay_watch.renew();
        }
        assert_eq!(*reported.lock(), [None, Some(7)]);
    }
}
