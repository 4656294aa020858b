use super::pool::Pool;
use foldhash::fast::RandomState;
use rpcgate_core::chain::ChainName;
use std::collections::HashMap;
use std::sync::Arc;

/// The node pools of all chains.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    by_chain: HashMap<ChainName, Arc<Pool>, RandomState>,
}

impl Pools {
    /// Returns the pool of a chain.
    pub fn get(&self, chain: ChainName) -> Option<&Arc<Pool>> {
        self.by_chain.get(&chain)
    }

    /// Returns all pools, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.by_chain.values()
    }
}

impl FromIterator<Arc<Pool>> for Pools {
    fn from_iter<I: IntoIterator<Item = Arc<Pool>>>(pools: I) -> Self {
        Pools { by_chain: pools.into_iter().map(|pool| (pool.chain(), pool)).collect() }
    }
}
