//! Overload: how many sets of calls a chain may have under way, found from how long they take.
//!
//! A chain that is asked for more than its nodes can do answers later and later, until nothing is answered in time. Here the
//! latency of each answer is compared with what is usual for its project, method and node ([`Baselines`]), and where answers take
//! much longer than usual, the chain's limit follows their gradient: it is divided by the factor by which they are too late
//! ([`AdaptiveLimit`]). Sets beyond the limit are turned away at once, but only those of projects that have more than their share
//! and whose own answers are late ([`ChainLoad`]).
//!
//! A limit begins open and opens again when latency falls, so that a chain without trouble is not limited. Nothing here
//! waits or takes a lock.
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
#[cfg(test)]
mod neighbours;
mod rules;
mod seats;

pub use baselines::Baselines;
pub use chain_load::{ChainLoad, LoadPlace, Overrun};
pub use chain_loads::ChainLoads;
pub use limit::AdaptiveLimit;
pub use rules::LoadRules;

#[cfg(test)]
mod tests;
