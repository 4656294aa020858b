//! The catalog of chains.

use super::operator::nodes::at_work;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_config::ChainSettings;
use rpcgate_core::adapter::method_table;
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::chain::{Chain, Facts, Flags, MethodRule};
use rpcgate_layers::nodes::NodeHealth;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A chain of the catalog, with its current state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatalogEntry {
    /// Its fixed properties.
    pub facts: Facts,
    /// True if both the configuration and operators enable it.
    pub enabled: bool,
    /// True if it is enabled and has a node, so that gateways serve it.
    pub served: bool,
}

/// Lists every known chain, in the order of the specification's chain table.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn chains(app: &AppState) -> Result<Vec<CatalogEntry>, ActionError> {
    let config = app.config_in_force().await?;
    let entry = |facts: Facts| {
        let chain = config.chains.get(facts.name.as_str());
        let enabled = chain.is_some_and(|chain| chain.enabled);
        CatalogEntry { facts, enabled, served: enabled && chain.is_some_and(|chain| !chain.nodes.is_empty()) }
    };
    Ok(rpcgate_chains::catalog().map(|adapter| entry(*adapter.facts())).collect())
}

/// The condition of a chain's nodes, as the running gateways see them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChainCondition {
    /// True if at least one node is healthy.
    pub is_well: bool,
    /// The highest height that a node has reported.
    pub height: Option<u64>,
}

/// Returns the conditions of the chains that a running gateway has reported on, by path.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn conditions(app: &AppState) -> Result<BTreeMap<String, ChainCondition>, ActionError> {
    let mut conditions: BTreeMap<String, ChainCondition> = BTreeMap::new();
    for report in app.store.reports(at_work(app.now())).await? {
        for node in report.nodes {
            let condition = conditions.entry(node.chain).or_default();
            condition.is_well |= NodeHealth::is_fit_name(&node.standing);
            condition.height = condition.height.max(node.height);
        }
    }
    Ok(conditions)
}

/// A method of a chain with its current rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedMethod {
    /// The name in requests.
    pub name: String,
    /// The weight in Compute Units.
    pub cu: u32,
    /// The cache class.
    pub cache: CacheRule,
    /// True if it is closed to callers.
    pub is_closed: bool,
    /// True if it counts towards the heavy budget.
    pub is_heavy: bool,
    /// True if each key may call it only once a minute.
    pub is_paced: bool,
    /// True if it submits a transaction or other data.
    pub is_broadcast: bool,
}

impl ListedMethod {
    fn of(name: String, MethodRule { cu, cache, flags, .. }: MethodRule) -> Self {
        let is_closed =
            [Flags::CLOSED, Flags::BLOCKED, Flags::FORBIDDEN].into_iter().any(|mark| flags.has(mark));
        ListedMethod {
            name,
            cu,
            cache,
            is_closed,
            is_heavy: flags.has(Flags::HEAVY),
            is_paced: flags.has(Flags::PACED),
            is_broadcast: flags.has(Flags::BROADCAST),
        }
    }
}

/// Lists the methods of a chain that have rules of their own, by name, with the settings of operators applied over the
/// configuration. Any other method costs 1 Compute Unit.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown chain, [`ActionError::Unavailable`].
pub async fn methods(app: &AppState, chain: &str) -> Result<Vec<ListedMethod>, ActionError> {
    let adapter = rpcgate_chains::by_path(chain).ok_or(ActionError::NotFound("chain"))?;
    let config = app.config_in_force().await?;
    let settings = config.chains.get(adapter.facts().name.as_str());
    let changes = settings.map(ChainSettings::changes).unwrap_or_default();
    let mut names: BTreeSet<String> =
        method_table(&*adapter).iter().map(|method| method.name.to_owned()).collect();
    names.extend(changes.cu.iter().map(|(name, _)| name.clone()));
    names.extend(changes.blocked.iter().cloned());
    // Names and prefixes of names. Methods with only some calls closed are in the table.
    let closed = adapter.closed().into_iter().filter(|row| row.only.is_empty());
    names.extend(closed.flat_map(|row| row.methods));
    let chain = Chain::new(adapter, changes, true, Arc::default());
    let listed = names.into_iter().map(|name| {
        let rule = chain.look_up(&name.replace('*', "x")).rule;
        ListedMethod::of(name, rule)
    });
    Ok(listed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOON, Site};
    use rpcgate_store::{GatewayReport, NodeState};
    use std::time::Duration;

    #[tokio::test]
    async fn a_chain_is_served_if_file_and_operator_enable_it_and_it_has_a_node() {
        let text = "[chains.eth]\nnodes = [\"http://127.0.0.1:1/\"]\n[chains.btc]\nenabled = false\n\
                    [chains.ltc]\nnodes = [\"http://127.0.0.1:1/\"]\n";
        let site = Site::of(text).await;
        site.app.store.switch_chain("ltc", false, NOON).await.unwrap();
        site.app.store.switch_chain("btc", true, NOON).await.unwrap();
        let all = chains(&site.app).await.unwrap();
        assert_eq!(all.len(), rpcgate_chains::CATALOG.len());
        for (name, expected) in
            [("eth", (true, true)), ("btc", (false, false)), ("ltc", (false, false)), ("bsc", (true, false))]
        {
            let entry = all.iter().find(|entry| entry.facts.name.as_str() == name).unwrap();
            assert_eq!((entry.enabled, entry.served), expected, "{name}");
        }
    }

    // Shows (Management): A chain is healthy if one gateway has a healthy node; gateways without a report are ignored.
    #[tokio::test]
    async fn a_chain_is_healthy_if_one_gateway_has_a_healthy_node_and_silent_ones_are_ignored() {
        let site = Site::new().await;
        let node = |chain: &str, standing: &str, height| NodeState {
            chain: chain.into(),
            standing: standing.into(),
            height,
            ..NodeState::default()
        };
        for (id, nodes) in [
            (1, vec![node("eth", "behind", Some(7)), node("btc", "unreachable", None)]),
            (2, vec![node("eth", "well", Some(9)), node("eth", "ejected", Some(8))]),
        ] {
            let report = GatewayReport { id, at: NOON, nodes };
            site.app.store.put_report(&report, &[]).await.unwrap();
        }
        let all = conditions(&site.app).await.unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all["eth"], ChainCondition { is_well: true, height: Some(9) });
        assert_eq!(all["btc"], ChainCondition { is_well: false, height: None });
        site.clock.advance(Duration::from_secs(61));
        assert!(conditions(&site.app).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn methods_have_the_weights_that_operators_set() {
        let site = Site::of("[chains.eth]\nblocked_methods = [\"eth_sign\"]\n").await;
        site.app.store.put_weight("eth", "eth_call", 77, NOON).await.unwrap();
        site.app.store.put_weight("eth", "eth_ofOurOwn", 5, NOON).await.unwrap();
        let listed = methods(&site.app, "eth").await.unwrap();
        let of = |name: &str| listed.iter().find(|method| method.name == name).unwrap();
        assert_eq!((of("eth_call").cu, of("eth_call").is_closed), (77, false));
        assert_eq!(of("eth_ofOurOwn").cu, 5);
        assert!(of("eth_sign").is_closed && of("eth_sendRawTransaction").is_broadcast);
        assert!(of("debug_*").is_closed, "{listed:?}");
        assert!(listed.is_sorted_by(|one, other| one.name < other.name), "each once, by name");
        for unknown in ["ethereum", "", "x"] {
            assert!(
                matches!(methods(&site.app, unknown).await, Err(ActionError::NotFound("chain"))),
                "{unknown}"
            );
        }
    }
}
