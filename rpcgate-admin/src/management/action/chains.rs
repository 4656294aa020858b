//! The catalog of chains.

use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::chain::Facts;

/// A chain of the catalog, with its current state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatalogEntry {
    /// Its fixed properties.
    pub facts: Facts,
    /// Whether configuration and operators both enable it.
    pub enabled: bool,
    /// Whether it is enabled and has a node, so that gateways serve it.
    pub served: bool,
}

/// Every known chain, in the order of the specification's chain table.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn chains(app: &AppState) -> Result<Vec<CatalogEntry>, ActionError> {
    let config = app.settings.overridden_by(&app.store.overlay().await?);
    let entry = |facts: Facts| {
        let chain = config.chains.get(facts.name.as_str());
        let enabled = chain.is_some_and(|chain| chain.enabled);
        CatalogEntry { facts, enabled, served: enabled && chain.is_some_and(|chain| !chain.nodes.is_empty()) }
    };
    Ok(rpcgate_chains::catalog().map(|adapter| entry(*adapter.facts())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::app_state::tests::{NOON, Site};

    #[tokio::test]
    async fn a_chain_is_served_if_file_and_operator_say_so_and_it_has_a_node() {
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
}
