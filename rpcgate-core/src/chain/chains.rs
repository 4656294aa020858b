//! All chains of a gateway.

use super::Chain;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// All chains of a gateway by path. Replaced as a whole when one changes.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    by_path: HashMap<&'static str, Arc<Chain>, RandomState>,
}

impl Chains {
    /// The chain at `/<path>`.
    pub fn get(&self, path: &str) -> Option<&Arc<Chain>> {
        self.by_path.get(path)
    }

    /// All chains, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Chain>> {
        self.by_path.values()
    }
}

impl FromIterator<Arc<Chain>> for Chains {
    fn from_iter<I: IntoIterator<Item = Arc<Chain>>>(chains: I) -> Self {
        Chains { by_path: chains.into_iter().map(|chain| (chain.name().as_str(), chain)).collect() }
    }
}
