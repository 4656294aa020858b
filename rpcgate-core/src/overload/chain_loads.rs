//! The loads of all chains.

use super::chain_load::{ChainLoad, ChainOverloaded, LoadSlot};
use super::rules::LoadRules;
use crate::caller::Caller;
use crate::chain::ChainName;
use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

type Loads = HashMap<ChainName, Arc<ChainLoad>, RandomState>;

/// The load of each chain, from its first set of calls on.
///
/// ```
/// use rpcgate_core::{backend::suite, chain::ChainName, overload::{ChainLoads, LoadRules}};
/// use std::time::Duration;
///
/// let loads = ChainLoads::new(LoadRules::default());
/// let eth = ChainName::new("eth");
/// let place = loads.enter(eth, &suite::caller(1), Duration::ZERO).unwrap();
/// assert_eq!(loads.get(eth).unwrap().in_flight(), 1);
/// drop(place);
/// assert_eq!(loads.get(eth).unwrap().in_flight(), 0);
/// assert!(ChainLoads::off().enter(eth, &suite::caller(1), Duration::ZERO).unwrap().is_none());
/// ```
#[derive(Debug)]
pub struct ChainLoads {
    rules: Option<LoadRules>,
    chains: ArcSwap<Loads>,
}

impl ChainLoads {
    /// Limits every chain by these rules.
    pub fn new(rules: LoadRules) -> Self {
        Self::by(Some(rules))
    }

    /// Limits no chain and measures nothing.
    pub fn off() -> Self {
        Self::by(None)
    }

    /// Limits every chain, or none.
    pub fn by(rules: Option<LoadRules>) -> Self {
        ChainLoads { rules, chains: ArcSwap::default() }
    }

    /// Reports whether chains are limited.
    pub fn is_on(&self) -> bool {
        self.rules.is_some()
    }

    /// Takes a slot for a set of the caller's calls; `None` if chains are not limited. `now` is a
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed).
    ///
    /// # Errors
    /// Returns [`ChainOverloaded`] if the chain is overloaded.
    pub fn enter(
        &self,
        chain: ChainName,
        caller: &Caller,
        now: Duration,
    ) -> Result<Option<LoadSlot>, ChainOverloaded> {
        let Some(rules) = self.rules else { return Ok(None) };
        let project = caller.project;
        let tier = caller.plan.tier;
        if let Some(load) = self.chains.load().get(&chain) {
            return load.enter(project, tier, now).map(Some);
        }
        self.begin(chain, rules);
        let Some(load) = self.get(chain) else { return Ok(None) };
        load.enter(project, tier, now).map(Some)
    }

    /// Returns the load of a chain that has had calls.
    pub fn get(&self, chain: ChainName) -> Option<Arc<ChainLoad>> {
        self.chains.load().get(&chain).cloned()
    }

    /// Returns all loads, sorted by chain name.
    pub fn all(&self) -> Vec<(ChainName, Arc<ChainLoad>)> {
        let mut all: Vec<_> = self.chains.load().iter().map(|(name, load)| (*name, load.clone())).collect();
        all.sort_by_key(|(name, _)| name.as_str());
        all
    }

    #[cold]
    fn begin(&self, chain: ChainName, rules: LoadRules) {
        self.chains.rcu(|chains| {
            let mut chains = Loads::clone(chains);
            chains.entry(chain).or_insert_with(|| Arc::new(ChainLoad::new(rules)));
            chains
        });
    }
}

impl Default for ChainLoads {
    fn default() -> Self {
        Self::new(LoadRules::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::suite;

    #[test]
    fn threads_that_meet_a_chain_first_count_together() {
        let loads = ChainLoads::default();
        let chain = ChainName::new("toy");
        let places: Vec<_> = std::thread::scope(|scope| {
            let enter = || loads.enter(chain, &suite::caller(1), Duration::ZERO).unwrap();
            let workers: Vec<_> = (0..8).map(|_| scope.spawn(enter)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        assert_eq!(loads.get(chain).unwrap().in_flight(), 8);
        drop(places);
        assert_eq!(loads.get(chain).unwrap().in_flight(), 0);
        assert_eq!(loads.all().len(), 1);
    }
}
