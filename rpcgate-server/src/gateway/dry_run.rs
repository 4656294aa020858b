//! Checks of the files and servers that a configuration refers to.

use crate::counting::Counting;
use crate::start_error::StartError;
use crate::state::State;
use rpcgate_config::Config;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_layers::nodes::{NodeDrains, NodeSpendings};
use rpcgate_process::acme::CertificateOrders;
use rpcgate_process::node_pool;
use rpcgate_process::tls::CertificatePaths;
use std::sync::Arc;

/// Checks the files, URLs and nodes that a configuration refers to, as a start would, without starting anything.
///
/// # Errors
/// [`StartError`] with the first fault that would prevent a start.
pub fn dry_run(config: &Config) -> Result<(), StartError> {
    if let Some(paths) = CertificatePaths::of_gateway(&config.gateway.tls, &config.acme) {
        paths.load()?;
    }
    if config.gateway.tls.acme {
        CertificateOrders::check(&config.acme)?;
    }
    State::check(config)?;
    Counting::check(config)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    for adapter in rpcgate_chains::catalog() {
        let name = adapter.facts().name;
        if let Some(chain) = config.chains.get(name.as_str()) {
            node_pool(adapter.facts(), chain, &clock, &NodeDrains::default(), &NodeSpendings::default())
                .map_err(|why| StartError::Node { chain: name.as_str(), why })?;
        }
    }
    Ok(())
}
