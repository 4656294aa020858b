//! The pace: methods that a key may call once per UTC minute, on every plan (`eth_getLogs` and `eth_getFilterLogs` on
//! /eth).
//!
//! The layer comes after the windows and before the heavy budget. The adapter of a chain marks the paced methods; all
//! paced methods of a chain share the one call. The layer refuses with [`Refusal::Paced`].
//!
//! ```
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, Flags, MethodRule};
//! use rpcgate_layers::call::pace::PaceLayer;
//! use rpcgate_layers::testing::Fixture;
//! use std::{convert::Infallible, time::Duration};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let Fixture { caller, clock, .. } = Fixture::new();
//! clock.advance(Duration::from_secs(39)); // the last second of a minute
//! let layer = PaceLayer::new().with_call(clock.clone(), move |_: &http::Request<()>| {
//!     let rule = MethodRule::UNLISTED.marked(Flags::PACED);
//!     Some((caller.clone().into(), CallView::new(ChainName::new("toy"), "toy_scan", rule)))
//! });
//! let inner = service_fn(async |_: http::Request<()>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! let service = layer.layer(inner);
//! let call = async || service.clone().oneshot(http::Request::new(())).await.unwrap();
//! assert_eq!(call().await.status(), 200);
//! assert_eq!(call().await.headers()["retry-after"], "1");
//! clock.advance(Duration::from_secs(1)); // the next minute
//! assert_eq!(call().await.status(), 200);
//! # });
//! ```

use crate::gate::{CallPolicy, gate_layer};
use rpcgate_core::call::{CallView, Paced};
use rpcgate_core::caller::{Caller, KeyId};
use rpcgate_core::chain::{ChainName, Flags};
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::sharded::Sharded;
use rpcgate_core::tally::Tally;
use rpcgate_core::window::{Fixed, WindowSpan};
use std::sync::Arc;

gate_layer! {
    /// Lets one call per minute pass to the methods marked as paced.
    PaceLayer, Pace
}

impl PaceLayer {
    /// Creates a layer with its own counts.
    pub fn new() -> Self {
        Self::by(Arc::default())
    }
}

impl Default for PaceLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// The counts by key and chain.
#[derive(Debug, Default)]
pub struct Pace {
    minutes: Sharded<(KeyId, ChainName), Fixed<60>>,
}

impl Pace {
    /// Removes minutes that are over at `now`, the current time. Calls in later minutes do the same, but after the
    /// clock was set back only this method removes minutes in the future.
    pub fn sweep(&self, now: Time) {
        self.minutes.retain(|minute| !minute.is_over(now));
    }
}

impl CallPolicy for Pace {
    type At = Paced;

    fn concerns(&self, tally: &Tally) -> bool {
        super::is_any_marked(tally, Flags::PACED)
    }

    fn decide(&self, call: CallView<'_>, caller: &Caller, now: Time) -> Result<(), Refusal> {
        if !call.rule.flags.has(Flags::PACED) {
            return Ok(());
        }
        let keep = |minute: &Fixed<60>| !minute.is_over(now);
        self.minutes.with_expiring((caller.key, call.chain), now.minute(), keep, |minute| {
            if minute.used(now) > 0 {
                return Err(Refusal::Paced { retry_after: WindowSpan::Minute.reset(now) });
            }
            minute.add(1, now);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite;
    use rpcgate_core::chain::MethodRule;

    fn decide(pace: &Pace, method: &str, caller: &Caller, flags: Flags) -> Result<(), Refusal> {
        decide_at(pace, method, caller, flags, 1)
    }

    fn decide_at(pace: &Pace, method: &str, caller: &Caller, flags: Flags, secs: u64) -> Result<(), Refusal> {
        let rule = MethodRule::UNLISTED.marked(flags);
        pace.decide(CallView::new(ChainName::new("toy"), method, rule), caller, Time::from_secs(secs))
    }

    #[test]
    fn all_paced_methods_share_the_one_call() {
        let pace = Pace::default();
        let caller = suite::caller(1);
        assert_eq!(decide(&pace, "a", &caller, Flags::PACED), Ok(()));
        assert_eq!(decide(&pace, "b", &caller, Flags::PACED), Err(Refusal::Paced { retry_after: 59 }));
        assert_eq!(decide(&pace, "b", &suite::caller(2), Flags::PACED), Ok(()), "another key has its own");
        assert_eq!(decide(&pace, "c", &caller, Flags::NONE), Ok(()));
    }

    #[test]
    fn a_refused_call_does_not_push_the_minute_out() {
        let pace = Pace::default();
        let caller = suite::caller(1);
        let _ = decide(&pace, "a", &caller, Flags::PACED);
        let _ = decide(&pace, "a", &caller, Flags::PACED);
        pace.sweep(Time::from_secs(60));
        assert_eq!(decide(&pace, "a", &caller, Flags::PACED), Ok(()));
    }

    #[test]
    fn an_unswept_limiter_keeps_at_most_the_keys_of_a_minute() {
        let pace = Pace::default();
        for minute in 0..50 {
            for key in 0..1_000 {
                let caller = suite::caller(minute * 1_000 + key);
                let _ = decide_at(&pace, "a", &caller, Flags::PACED, minute as u64 * 60);
            }
            assert!(pace.minutes.len() <= 2_000, "{}", pace.minutes.len());
        }
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn a_request_of_long_ago_brings_no_call_back() {
        let pace = Pace::default();
        let caller = suite::caller(1);
        assert_eq!(decide_at(&pace, "a", &caller, Flags::PACED, 600), Ok(()));
        for secs in [599, 480, 0, 600] {
            assert!(decide_at(&pace, "a", &caller, Flags::PACED, secs).is_err(), "{secs}");
        }
    }
}
