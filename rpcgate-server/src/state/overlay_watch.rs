//! Passes the settings and commands of operators to the code that applies them.

use parking_lot::Mutex;
use rpcgate_core::config::Overlay;
use std::fmt;

type Sink = Box<dyn Fn(&Overlay) + Send + Sync>;

/// Empties the cache of a chain; of all chains without a name.
type CacheSink = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// The newest overlay, and its receiver. Either may come first.
#[derive(Default)]
pub(super) struct OverlayWatch {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
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
    /// Passes every overlay to `sink`, the newest at once, unless nothing was set yet.
    pub(super) fn attach(&self, sink: Sink) {
        let mut inner = self.inner.lock();
        if inner.overlay != Overlay::default() {
            sink(&inner.overlay);
        }
        inner.sink = Some(sink);
    }

    /// Passes commands to empty a cache to `caches`. There is nothing to empty before.
    pub(super) fn attach_caches(&self, caches: CacheSink) {
        self.inner.lock().caches = Some(caches);
    }

    /// Has the cache of a chain emptied; of all chains without a name.
    pub(super) fn clear_cache(&self, chain: Option<&str>) {
        if let Some(caches) = &self.inner.lock().caches {
            caches(chain);
        }
    }

    /// Passes `overlay` on; when this returns, it is applied, if there is a receiver.
    pub(super) fn put(&self, overlay: Overlay) {
        let mut inner = self.inner.lock();
        if inner.overlay == overlay {
            return;
        }
        if let Some(sink) = &inner.sink {
            sink(&overlay);
        }
        inner.overlay = overlay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn overlay(on: bool) -> Overlay {
        Overlay { chains: [("eth".to_owned(), on)].into(), ..Overlay::default() }
    }

    #[test]
    fn nothing_is_missed_and_nothing_is_reported_twice_in_either_order() {
        let overlay_watch = OverlayWatch::default();
        overlay_watch.put(overlay(false));
        let reported: Arc<Mutex<Vec<Overlay>>> = Arc::default();
        let ear = reported.clone();
        overlay_watch.attach(Box::new(move |overlay| ear.lock().push(overlay.clone())));
        assert_eq!(*reported.lock(), [overlay(false)]);
        overlay_watch.put(overlay(false));
        overlay_watch.put(overlay(true));
        assert_eq!(*reported.lock(), [overlay(false), overlay(true)]);
    }
}
