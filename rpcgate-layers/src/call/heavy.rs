//! The heavy budget: expensive calls, counted per project over all chains in the fixed UTC minute.
//!
//! The layer comes after the pace, so that a call refused by the pace uses no budget, and before the closed methods,
//! because a closed heavy method (`trace_*`) uses the budget too. It refuses with [`Refusal::Heavy`]. Each gateway
//! process counts for itself, so the effective limit is the configured one times the number of processes.
//!
//! In an axum or any other tower stack:
//!
//! ```
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, Flags, MethodRule};
//! use rpcgate_layers::call::heavy::HeavyLayer;
//! use rpcgate_layers::testing::Fixture;
//! use std::convert::Infallible;
//! use tower::{Layer, Service, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let Fixture { caller, clock, .. } = Fixture::new(); // free plan: 6 heavy calls a minute
//! let rule = MethodRule::UNLISTED.marked(Flags::HEAVY);
//! let layer = HeavyLayer::new().with_call(clock, move |_: &http::Request<()>| {
//!     Some((caller.clone().into(), CallView::new(ChainName::new("toy"), "toy_scan", rule)))
//! });
//! let inner = service_fn(async |_: http::Request<()>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! let mut service = layer.layer(inner);
//! for expected in [200, 200, 200, 200, 200, 200, 429] {
//!     let response = service.ready().await.unwrap().call(http::Request::new(())).await.unwrap();
//!     assert_eq!(response.status(), expected);
//! }
//! # });
//! ```

use crate::gate::{CallPolicy, gate_layer};
use rpcgate_core::call::{Budgeted, CallView};
use rpcgate_core::caller::{Caller, ProjectId};
use rpcgate_core::chain::Flags;
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::sharded::Sharded;
use rpcgate_core::tally::Tally;
use rpcgate_core::window::{Fixed, WindowSpan};
use std::sync::Arc;

gate_layer! {
    /// Counts calls marked as heavy in the budget of their project.
    HeavyLayer, Heavy
}

impl HeavyLayer {
    /// Creates a layer with its own budget.
    pub fn new() -> Self {
        Self::by(Arc::default())
    }
}

impl Default for HeavyLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// The counts of all projects.
#[derive(Debug, Default)]
pub struct Heavy {
    minutes: Sharded<ProjectId, Fixed<60>>,
}

impl Heavy {
    /// Removes minutes that are over at `now`, the current time. Calls in later minutes do the same, but after the
    /// clock was set back only this method removes minutes in the future.
    pub fn sweep(&self, now: Time) {
        self.minutes.retain(|minute| !minute.is_over(now));
    }
}

impl CallPolicy for Heavy {
    type At = Budgeted;

    fn concerns(&self, tally: &Tally) -> bool {
        super::is_any_marked(tally, Flags::HEAVY)
    }

    fn decide(&self, call: CallView<'_>, caller: &Caller, now: Time) -> Result<(), Refusal> {
        if !call.rule.flags.has(Flags::HEAVY) {
            return Ok(());
        }
        let keep = |minute: &Fixed<60>| !minute.is_over(now);
        self.minutes.with_expiring(caller.project, now.minute(), keep, |minute| {
            if minute.used(now) >= caller.plan.heavy_per_minute {
                return Err(Refusal::Heavy { retry_after: WindowSpan::Minute.reset(now) });
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
    use rpcgate_core::caller::KeyId;
    use rpcgate_core::chain::{ChainName, MethodRule};

    fn decide(
        heavy: &Heavy,
        chain: &'static str,
        caller: &Caller,
        flags: Flags,
        secs: u64,
    ) -> Result<(), Refusal> {
        let rule = MethodRule::UNLISTED.marked(flags);
        heavy.decide(CallView::new(ChainName::new(chain), "m", rule), caller, Time::from_secs(secs))
    }

    #[test]
    fn the_budget_is_the_projects_over_all_its_keys_and_chains() {
        let heavy = Heavy::default();
        let one = suite::caller(1);
        let mut other_key = one.clone();
        other_key.key = KeyId(77);
        for n in 0..6 {
            let (chain, caller) = if n % 2 == 0 { ("toy", &one) } else { ("toy2", &other_key) };
            assert_eq!(decide(&heavy, chain, caller, Flags::HEAVY, 10), Ok(()));
        }
        assert_eq!(decide(&heavy, "toy", &one, Flags::HEAVY, 10), Err(Refusal::Heavy { retry_after: 50 }));
        assert_eq!(decide(&heavy, "toy", &suite::caller(2), Flags::HEAVY, 10), Ok(()), "another project");
        assert_eq!(decide(&heavy, "toy", &one, Flags::HEAVY, 60), Ok(()), "the next minute");
    }

    #[test]
    fn light_calls_use_no_budget() {
        let heavy = Heavy::default();
        let caller = suite::caller(1);
        for _ in 0..100 {
            assert_eq!(decide(&heavy, "toy", &caller, Flags::NONE, 10), Ok(()));
        }
        assert_eq!(decide(&heavy, "toy", &caller, Flags::HEAVY, 10), Ok(()));
    }

    #[test]
    fn minutes_that_are_over_are_forgotten() {
        let heavy = Heavy::default();
        let _ = decide(&heavy, "toy", &suite::caller(1), Flags::HEAVY, 10);
        heavy.sweep(Time::from_secs(60));
        assert!(heavy.minutes.is_empty());
    }

    #[test]
    fn an_unswept_limiter_keeps_at_most_the_projects_of_a_minute() {
        let heavy = Heavy::default();
        for minute in 0..50 {
            for project in 0..1_000 {
                let _ = decide(
                    &heavy,
                    "toy",
                    &suite::caller(minute * 1_000 + project),
                    Flags::HEAVY,
                    minute as u64 * 60,
                );
            }
            assert!(heavy.minutes.len() <= 2_000, "{}", heavy.minutes.len());
        }
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn a_request_of_long_ago_brings_no_budget_back() {
        let heavy = Heavy::default();
        let caller = suite::caller(1);
        for _ in 0..6 {
            assert_eq!(decide(&heavy, "toy", &caller, Flags::HEAVY, 600), Ok(()));
        }
        for secs in [599, 480, 0] {
            assert!(decide(&heavy, "toy", &caller, Flags::HEAVY, secs).is_err(), "{secs}");
            assert!(decide(&heavy, "toy", &caller, Flags::HEAVY, 600).is_err(), "{secs}");
        }
    }
}
