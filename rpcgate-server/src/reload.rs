//! The state that a reload replaces: chains, nodes, weights, plans, keys, the certificate.

use crate::assemble::{self, PoolMap};
use crate::nodes;
use crate::start_error::StartError;
use crate::state::{GatewayStatus, Keys, State};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rpcgate_config::{Config, ConfigProgram, Overlay};
use rpcgate_core::chain::Chains;
use rpcgate_core::clock::Clock;
use rpcgate_layers::nodes::{NodeDrains, NodeSpendings, Pools, watch_head};
use rpcgate_layers::request::safeguard::Safeguard;
use rpcgate_process::tls::{Certificate, CertificatePaths};
use rpcgate_process::{NodeAuthorities, has_lost_node, is_same_pool, node_pool};
use rpcgate_store::NodeState;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

/// The current configuration and everything built from it.
pub(crate) struct Reloadable {
    clock: Arc<dyn Clock>,
    pub(crate) chains: Arc<ArcSwap<Chains>>,
    pub(crate) pools: Arc<ArcSwap<Pools>>,
    keys: Option<Arc<Keys>>,
    state: Option<Arc<State>>,
    /// The certificate of `gateway.tls`, shared by all TLS listeners.
    pub(crate) certificate: Option<Arc<Certificate>>,
    http_over_tls: bool,
    pub(crate) safeguard: Arc<Safeguard>,
    drains: NodeDrains,
    /// The calls and cost of nodes that have an allowance.
    pub(crate) spendings: Arc<NodeSpendings>,
    in_force: Mutex<InForce>,
}

#[cfg(feature = "demo")]
pub(crate) type AdapterAndPool = (Arc<dyn rpcgate_core::adapter::Adapter>, Arc<rpcgate_layers::nodes::Pool>);

struct InForce {
    /// The configuration including the operators' settings.
    config: Config,
    /// The configuration without the operators' settings.
    base: Config,
    overlay: Overlay,
    /// The configuration of the start. Tables that need a restart still come from it.
    started: Config,
    pools: PoolMap,
    /// The CA files with which the pools were built.
    authorities: HashMap<&'static str, NodeAuthorities>,
    watches: HashMap<&'static str, Watch>,
    /// After a stop no configuration is applied.
    stopped: bool,
}

/// The task that follows a chain's head; dropping this aborts it.
struct Watch {
    every: Duration,
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reloadable {
    /// Applies `config`. Must run inside a tokio runtime.
    pub(crate) fn new(
        config: Config,
        clock: Arc<dyn Clock>,
        keys: Option<Arc<Keys>>,
        state: Option<Arc<State>>,
    ) -> Result<Self, StartError> {
        let paths = CertificatePaths::of_gateway(&config.gateway.tls, &config.acme);
        let certificate = paths.map(|paths| Certificate::load(&paths).map(Arc::new)).transpose()?;
        let live = Reloadable {
            clock,
            chains: Arc::default(),
            pools: Arc::new(ArcSwap::from_pointee(Pools::from_iter([]))),
            keys,
            state,
            certificate,
            http_over_tls: config.gateway.tls.covers_http(),
            safeguard: Arc::default(),
            drains: NodeDrains::default(),
            spendings: Arc::default(),
            in_force: Mutex::new(InForce {
                config: Config::default(),
                base: config.clone(),
                overlay: Overlay::default(),
                started: config.clone(),
                pools: PoolMap::new(),
                authorities: HashMap::new(),
                watches: HashMap::new(),
                stopped: false,
            }),
        };
        live.put(&mut live.in_force.lock(), config, true)?;
        live.record(true);
        Ok(live)
    }

    /// Returns the certificate of `gateway.listen`.
    pub(crate) fn http_certificate(&self) -> Option<&Arc<Certificate>> {
        self.certificate.as_ref().filter(|_| self.http_over_tls)
    }

    pub(crate) fn grace(&self) -> Duration {
        self.in_force.lock().config.shutdown.grace
    }

    /// Replaces the configuration by `config` and applies the operators' settings on top. Returns the changed tables
    /// that need a restart and therefore keep their values. On an error nothing changes.
    pub(crate) fn replace(&self, config: Config) -> Result<Vec<&'static str>, StartError> {
        let mut in_force = self.in_force.lock();
        let paths = CertificatePaths::of_gateway(&config.gateway.tls, &in_force.started.acme);
        let renewed = match (&self.certificate, paths) {
            (Some(current), Some(paths)) => Some((current, paths.load()?)),
            _ => None,
        };
        let merged = in_force.overlay.over(&config);
        self.put(&mut in_force, merged, true)?;
        if let Some((certificate, loaded)) = renewed {
            certificate.replace(loaded);
        }
        let asleep = ConfigProgram::Gateway.needs_restart(&in_force.started, &config);
        in_force.base = config;
        drop(in_force);
        self.record(false);
        Ok(asleep)
    }

    /// Stores the configuration, without the operators' settings, as a version.
    fn record(&self, is_start: bool) {
        if let Some(state) = &self.state {
            state.record_config(&self.in_force.lock().base, is_start);
        }
    }

    /// Replaces the operators' settings. On an error nothing changes.
    pub(crate) fn overlay(&self, overlay: &Overlay) -> Result<(), StartError> {
        let mut in_force = self.in_force.lock();
        let merged = overlay.over(&in_force.base);
        self.put(&mut in_force, merged, false)?;
        self.drains.set(overlay.drained.clone());
        in_force.overlay = overlay.clone();
        Ok(())
    }

    /// Applies a configuration. `reads_files` rereads nodes' files: an operator's setting must work without them.
    fn put(&self, in_force: &mut InForce, config: Config, reads_files: bool) -> Result<(), StartError> {
        if in_force.stopped {
            return Ok(());
        }
        self.replace_chains(in_force, &config, reads_files)?;
        if let Some(keys) = &self.keys {
            keys.replace(&config);
        }
        if let Some(state) = &self.state {
            state.keep_for(&config.retention);
        }
        self.safeguard.replace(config.safeguard.rule());
        in_force.config = config;
        Ok(())
    }

    fn replace_chains(
        &self,
        in_force: &mut InForce,
        config: &Config,
        reads_files: bool,
    ) -> Result<(), StartError> {
        let before = self.chains.load_full();
        let mut pools = PoolMap::new();
        let mut authorities = HashMap::new();
        for adapter in rpcgate_chains::catalog() {
            let name = adapter.facts().name;
            let Some(chain) = config.chains.get(name.as_str()) else { continue };
            let known = in_force.authorities.get(name.as_str());
            let files = match known.filter(|_| !reads_files) {
                Some(known) => known.clone(),
                None => NodeAuthorities::read(chain),
            };
            let old = in_force.config.chains.get(name.as_str());
            let is_same = known == Some(&files) && old.is_some_and(|old| is_same_pool(old, chain));
            authorities.insert(name.as_str(), files);
            let pool = match in_force.pools.get(name.as_str()).filter(|_| is_same) {
                Some(pool) => Some(pool.clone()),
                None => node_pool(adapter.facts(), chain, &self.clock, &self.drains, &self.spendings)
                    .map_err(|why| StartError::Node { chain: name.as_str(), why })?,
            };
            // The check comes before the first call, so that no call reaches a node of the wrong network.
            pool.iter().for_each(|pool| pool.check_networks(&*adapter));
            pools.extend(pool.map(|pool| (name.as_str(), pool)));
        }
        let chains = assemble::chains(config, &pools, &before);
        // In this order a reader that finds a served chain always finds its pool.
        let union: HashMap<_, _> = in_force.pools.iter().chain(&pools).collect();
        self.pools.store(Arc::new(union.into_values().cloned().collect()));
        self.chains.store(Arc::new(chains));
        self.pools.store(Arc::new(pools.values().cloned().collect()));
        // The epoch changes last: a call that finds the new epoch also finds the new nodes.
        for (name, old) in &in_force.config.chains {
            let new = config.chains.get(name);
            if new.is_none_or(|new| has_lost_node(old, new))
                && let Some(chain) = before.get(name)
            {
                chain.head().drop_replies();
            }
        }
        let mut watches = HashMap::new();
        for (name, pool) in &pools {
            let (Some(chain), Some(settings)) =
                (self.chains.load().get(name).cloned(), config.chains.get(*name))
            else {
                continue;
            };
            let every = settings.probe_interval;
            let same = in_force.pools.get(name).is_some_and(|old| Arc::ptr_eq(old, pool));
            let watch = match in_force.watches.remove(name).filter(|watch| same && watch.every == every) {
                Some(watch) => watch,
                None => {
                    Watch { every, task: tokio::spawn(watch_head(pool.clone(), chain, every)).abort_handle() }
                }
            };
            watches.insert(*name, watch);
        }
        in_force.watches = watches;
        in_force.pools = pools;
        in_force.authorities = authorities;
        Ok(())
    }

    /// Drops the cached answers of a chain, or of all chains if `chain` is `None`.
    pub(crate) fn clear_cache(&self, chain: Option<&str>) {
        let chains = self.chains.load();
        let cleared = chains.iter().filter(|one| chain.is_none_or(|name| one.name().as_str() == name));
        cleared.for_each(|chain| chain.head().drop_replies());
    }

    /// Returns the pools whose nodes may belong to any network, with the adapters of their chains.
    #[cfg(feature = "demo")]
    pub(crate) fn pools_of_any_network(&self) -> Vec<AdapterAndPool> {
        let in_force = self.in_force.lock();
        let is_any = |name: &str| {
            in_force
                .config
                .chains
                .get(name)
                .is_some_and(|chain| chain.network.as_deref() == Some(rpcgate_config::ANY_NETWORK))
        };
        let pools = in_force.pools.iter().filter(|(name, _)| is_any(name));
        pools.filter_map(|(name, pool)| Some((rpcgate_chains::by_path(name)?, pool.clone()))).collect()
    }

    pub(crate) fn nodes(&self) -> Vec<NodeState> {
        let chains = self.chains.load();
        let pools = self.pools.load();
        let mut states: Vec<_> = pools
            .iter()
            .flat_map(|pool| nodes::states(pool, chains.get(pool.chain().as_str()).map(Arc::as_ref)))
            .collect();
        // Pools have no order; nodes within a pool keep the order of the configuration.
        states.sort_by(|a, b| a.chain.cmp(&b.chain));
        states
    }

    pub(crate) fn status(&self) -> GatewayStatus {
        GatewayStatus { nodes: self.nodes(), throttled: self.safeguard.throttled_keys(self.clock.now()) }
    }

    pub(crate) fn stop(&self) {
        let mut in_force = self.in_force.lock();
        in_force.stopped = true;
        in_force.watches.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::ReloadEffect::Unused;
    use rpcgate_config::suite::{ReloadTable, changes, effects};

    const PROGRAMS: [ConfigProgram; 2] = [ConfigProgram::Gateway, ConfigProgram::Management];

    // Shows (Commands and configuration): The documentation of the configuration lists the keys that are live and those
    // that need a restart.
    #[test]
    fn settings_that_need_a_restart_are_those_of_the_documentation() {
        let table = ReloadTable::read(include_str!("../../docs/configuring.md"));
        for (key, before, after) in changes() {
            for (column, program) in PROGRAMS.into_iter().enumerate() {
                let found = program.needs_restart(&before, &after);
                assert_eq!(!found.is_empty(), table.needs_restart(&key, column), "{key}: {found:?}");
                let effects = effects(program, &before, &after);
                assert_eq!(effects.contains(&Unused), table.is_unused(&key, column), "{key}: {effects:?}");
                assert!(program.needs_restart(&after, &after).is_empty());
            }
        }
    }
}
