//! All chains of a gateway.

use super::configured::Chain;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// The longest host name, in bytes (RFC 1035, section 2.3.4).
const LONGEST_HOST: usize = 253;

/// All chains of a gateway by path and by host name. Replaced as a whole when one changes.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    by_path: HashMap<&'static str, Arc<Chain>, RandomState>,
    /// In lower case.
    by_host: HashMap<Box<[u8]>, Arc<Chain>, RandomState>,
}

impl Chains {
    /// Returns the chain at `/<path>`.
    pub fn get(&self, path: &str) -> Option<&Arc<Chain>> {
        self.by_path.get(path)
    }

    /// Returns the chain at the root of a host. `host` may have a port; case is ignored.
    ///
    /// ```
    /// use rpcgate_core::chain::{Chain, ChainOverrides, Chains};
    /// use rpcgate_core::toy::Toy;
    /// use std::sync::Arc;
    ///
    /// let own = ChainOverrides::default().with_host("toy.example.com");
    /// let chain = Arc::new(Chain::new(Arc::new(Toy), own, true, Arc::default()));
    /// let chains: Chains = [chain].into_iter().collect();
    /// assert!(chains.at_host("Toy.Example.com:8443").is_some());
    /// assert!(chains.at_host("example.com").is_none());
    /// ```
    pub fn at_host(&self, host: &str) -> Option<&Arc<Chain>> {
        if self.by_host.is_empty() {
            return None;
        }
        let name = host.split(':').next()?;
        let name = name.strip_suffix('.').unwrap_or(name).as_bytes();
        let mut lower = [0; LONGEST_HOST];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_host.get(&*lower)
    }

    /// Returns all chains, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Chain>> {
        self.by_path.values()
    }
}

impl FromIterator<Arc<Chain>> for Chains {
    fn from_iter<I: IntoIterator<Item = Arc<Chain>>>(chains: I) -> Self {
        let by_path: HashMap<_, _, _> =
            chains.into_iter().map(|chain| (chain.name().as_str(), chain)).collect();
        let hosts = |chain: &Arc<Chain>| {
            let names =
                chain.hosts().iter().map(|host| host.to_ascii_lowercase().into_bytes().into_boxed_slice());
            names.map(|name| (name, chain.clone())).collect::<Vec<_>>()
        };
        let by_host = by_path.values().flat_map(hosts).collect();
        Chains { by_path, by_host }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::ChainOverrides;
    use crate::toy::Toy;

    // Shows (Routes and bodies).
    #[test]
    fn a_host_is_found_in_any_spelling_and_only_as_a_whole() {
        let own = ChainOverrides::default().with_host("Toy.example.com").with_host("10.0.0.7");
        let chain = Arc::new(Chain::new(Arc::new(Toy), own, true, Arc::default()));
        let chains: Chains = [chain].into_iter().collect();
        for host in
            ["toy.example.com", "TOY.EXAMPLE.COM", "toy.example.com:443", "toy.example.com.", "10.0.0.7:8080"]
        {
            assert!(chains.at_host(host).is_some(), "{host}");
        }
        let long = format!("{}toy.example.com", "a.".repeat(200));
        for host in
            ["", "example.com", "toy", "a.toy.example.com", "toy.example.comx", "[::1]:80", ".", &long]
        {
            assert!(chains.at_host(host).is_none(), "{host}");
        }
        let none: Chains = [Arc::new(Chain::deployed(Arc::new(Toy)))].into_iter().collect();
        assert!(none.at_host("toy.example.com").is_none());
    }
}
