//! Overload control: limits on the sets of calls in flight per chain, derived from latency.
//!
//! A chain whose nodes get too many calls answers later and later, until nothing is answered in time. Each latency is
//! compared with the usual one of its project, method and node ([`Baselines`]). If answers take much longer, the
//! chain's limit is divided by the factor by which they are late ([`AdaptiveLimit`]). Sets beyond the limit are refused
//! at once, but only those of projects that exceed their share and whose own answers are late ([`ChainLoad`]).
//!
//! A limit begins open and opens again when latency falls, so a healthy chain is not limited. Nothing waits or locks.
//!
//! ```
//! use rpcgate_core::caller::ProjectId;
//! use rpcgate_core::overload::{ChainLoad, LoadRules};
//! use rpcgate_core::plan::Tier;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! let load = Arc::new(ChainLoad::new(LoadRules::default()));
//! let mut now = Duration::ZERO;
//! let mut round = |calls: usize, takes: Duration| {
//!     let entered: Vec<_> = (0..calls).map(|_| load.enter(ProjectId(1), Tier::Free, now)).collect();
//!     now += takes;
//!     entered.into_iter().flatten().for_each(|place| place.answered(0, now));
//! };
//! (0..20).for_each(|_| round(100, Duration::from_millis(100)));
//! assert_eq!(load.limit(), None, "all is as usual");
//! (0..6).for_each(|_| round(100, Duration::from_secs(1)));
//! assert!(load.limit().is_some_and(|limit| limit < 20), "{:?}", load.limit());
//! assert!(load.turned_away() > 0);
//! ```

mod baselines;
mod chain_load;
mod chain_loads;
mod limit;
mod project_slots;
mod rules;

pub use baselines::Baselines;
pub use chain_load::{ChainLoad, ChainOverloaded, LoadSlot};
pub use chain_loads::ChainLoads;
pub use limit::AdaptiveLimit;
pub use rules::LoadRules;

#[cfg(test)]
mod tests;
